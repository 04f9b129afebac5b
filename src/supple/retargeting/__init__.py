"""Motor curves for robots with flexible parts that keep the animator's intent and do not shake."""

from supple.retargeting.motion import Motion
from supple.retargeting.optimiser import Retargeted, retarget

__all__ = ["Motion", "Retargeted", "retarget"]
