"""supple: simulation of compliant mechanisms, in full and by fast reduced models."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from supple import elastic as elastic
    from supple import engine as engine
    from supple import library as library
    from supple import mechanism as mechanism
    from supple import recording as recording
    from supple import retargeting as retargeting
    from supple import spatial as spatial
    from supple import viewer as viewer
    from supple import zones as zones
    from supple.engine import Simulation as Simulation
    from supple.engine import equilibrium as equilibrium
    from supple.engine import gradient as gradient
    from supple.engine import gravity_torques as gravity_torques
    from supple.engine import inverse_dynamics as inverse_dynamics
    from supple.engine.modes import modes as modes
    from supple.engine.sweep import sweep as sweep
    from supple.errors import ConvergenceError as ConvergenceError
    from supple.errors import ExportWarning as ExportWarning
    from supple.errors import ImportWarning as ImportWarning
    from supple.errors import MechanismError as MechanismError
    from supple.errors import RangeWarning as RangeWarning
    from supple.errors import StartWarning as StartWarning
    from supple.linkage import AdaptiveLinkage as AdaptiveLinkage
    from supple.mechanism import Builder as Builder
    from supple.mechanism import Mechanism as Mechanism
    from supple.mechanism import assemble as assemble
    from supple.mechanism import attach as attach
    from supple.mechanism import jacobian as jacobian
    from supple.mechanism import mass_matrix as mass_matrix
    from supple.mechanism.inverse_kinematics import inverse_kinematics as inverse_kinematics
    from supple.mechanism.io import load as load
    from supple.mechanism.kinematics import kinematics as kinematics
    from supple.reduced import Batch as Batch
    from supple.reduced import ReducedModel as ReducedModel
    from supple.reduced import ReducedSimulation as ReducedSimulation
    from supple.reduced import blend as blend
    from supple.reduced import explore as explore
    from supple.reduced import reduce as reduce
    from supple.retargeting import retarget as retarget
    from supple.world import World as World
    from supple.world import scenes as scenes

# The module of each public name. A name is imported at its first use, so that `import supple` is quick.
_HOME = {
    "AdaptiveLinkage": "supple.linkage",
    "Batch": "supple.reduced",
    "Builder": "supple.mechanism",
    "ConvergenceError": "supple.errors",
    "ExportWarning": "supple.errors",
    "ImportWarning": "supple.errors",
    "Mechanism": "supple.mechanism",
    "MechanismError": "supple.errors",
    "RangeWarning": "supple.errors",
    "StartWarning": "supple.errors",
    "ReducedModel": "supple.reduced",
    "ReducedSimulation": "supple.reduced",
    "Simulation": "supple.engine",
    "World": "supple.world",
    "assemble": "supple.mechanism",
    "attach": "supple.mechanism",
    "blend": "supple.reduced",
    "elastic": "supple.elastic",
    "engine": "supple.engine",
    "equilibrium": "supple.engine",
    "explore": "supple.reduced",
    "gradient": "supple.engine",
    "gravity_torques": "supple.engine",
    "inverse_dynamics": "supple.engine",
    "inverse_kinematics": "supple.mechanism",
    "jacobian": "supple.mechanism",
    "kinematics": "supple.mechanism",
    "library": "supple.library",
    "load": "supple.mechanism.io",
    "mass_matrix": "supple.mechanism",
    "mechanism": "supple.mechanism",
    "modes": "supple.engine",
    "recording": "supple.recording",
    "reduce": "supple.reduced",
    "retarget": "supple.retargeting",
    "retargeting": "supple.retargeting",
    "scenes": "supple.world.scenes",
    "spatial": "supple.spatial",
    "sweep": "supple.engine",
    "viewer": "supple.viewer",
    "zones": "supple.zones",
}

__all__ = list(_HOME)
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"supple has no attribute {name!r}")
    home = importlib.import_module(_HOME[name])
    value = home if _HOME[name].rpartition(".")[2] == name else getattr(home, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*_HOME, "__version__"])
