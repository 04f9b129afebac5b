"""The full equations of a mechanism: statics, dynamics and natural vibrations."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from supple.engine import adjoint
from supple.engine.dynamics import SavedState, Simulation
from supple.engine.holding import Hold
from supple.engine.inverse import gravity_torques, inverse_dynamics
from supple.engine.modes import Modes, modes
from supple.engine.path import LoadPath
from supple.engine.sensitivity import gradient
from supple.engine.statics import Equilibrium, equilibrium
from supple.engine.sweep import Sweep, sweep
from supple.engine.tape import Tape
from supple.mechanism.moving import Energy

if TYPE_CHECKING:
    from supple.engine.full import FullEquilibrium, full_equilibrium
    from supple.engine.full_simulation import FullSimulation

__all__ = [
    "Energy",
    "Equilibrium",
    "FullEquilibrium",
    "FullSimulation",
    "Hold",
    "LoadPath",
    "Modes",
    "SavedState",
    "Simulation",
    "Sweep",
    "Tape",
    "adjoint",
    "equilibrium",
    "full_equilibrium",
    "gradient",
    "gravity_torques",
    "inverse_dynamics",
    "modes",
    "sweep",
]


def __getattr__(name: str) -> Any:
    """Imports the full simulation of finite elements when it is first used."""
    if name not in ("FullEquilibrium", "FullSimulation", "full_equilibrium"):
        raise AttributeError(f"supple.engine has no attribute {name!r}")
    from supple.engine import full, full_simulation

    return getattr(full_simulation if name == "FullSimulation" else full, name)
