"""The full equations of a mechanism: statics, dynamics and natural vibrations."""

from supple.engine import adjoint
from supple.engine.dynamics import Energy, SavedState, Simulation
from supple.engine.full import FullEquilibrium, FullSimulation, full_equilibrium
from supple.engine.modes import Modes, modes
from supple.engine.path import LoadPath
from supple.engine.statics import Equilibrium, equilibrium
from supple.engine.tape import Tape

__all__ = [
    "Energy",
    "Equilibrium",
    "FullEquilibrium",
    "FullSimulation",
    "LoadPath",
    "Modes",
    "SavedState",
    "Simulation",
    "Tape",
    "adjoint",
    "equilibrium",
    "full_equilibrium",
    "modes",
]
