"""Motor curves for robots with flexible parts that keep the animator's intent and do not shake."""

from supple.retargeting.fitting import FittedMaterial, fit_material
from supple.retargeting.measured import MeasuredMotion
from supple.retargeting.motion import Motion
from supple.retargeting.optimiser import Retargeted, retarget

__all__ = ["FittedMaterial", "MeasuredMotion", "Motion", "Retargeted", "fit_material", "retarget"]
