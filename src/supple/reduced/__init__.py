"""Reduced models: a whole mechanism folded into its end effectors."""

from supple.reduced.build import reduce
from supple.reduced.model import ReducedModel
from supple.reduced.simulation import ReducedSimulation

__all__ = ["ReducedModel", "ReducedSimulation", "reduce"]
