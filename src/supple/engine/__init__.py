"""The full system: exact statics and dynamics of any mechanism."""

from supple.engine.dynamics import Energy, SavedState, Simulation
from supple.engine.modes import Modes, modes
from supple.engine.statics import Equilibrium, equilibrium

__all__ = ["Energy", "Equilibrium", "Modes", "SavedState", "Simulation", "equilibrium", "modes"]
