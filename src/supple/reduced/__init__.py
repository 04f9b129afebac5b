"""Reduced models: the dynamics of a mechanism in the coordinates of its end effectors."""

from supple.reduced.batch import Batch
from supple.reduced.blending import BlendedModel, blend
from supple.reduced.build import reduce
from supple.reduced.exploring import explore
from supple.reduced.model import ReducedModel
from supple.reduced.simulation import ReducedSimulation

__all__ = [
    "Batch",
    "BlendedModel",
    "ReducedModel",
    "ReducedSimulation",
    "blend",
    "explore",
    "reduce",
]
