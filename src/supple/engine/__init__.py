"""The full equations of a mechanism: statics, dynamics and natural vibrations."""

from supple.engine.dynamics import Energy, SavedState, Simulation
from supple.engine.modes import Modes, modes
from supple.engine.path import LoadPath
from supple.engine.statics import Equilibrium, equilibrium

__all__ = ["Energy", "Equilibrium", "LoadPath", "Modes", "SavedState", "Simulation", "equilibrium", "modes"]
