"""What can be shown: a table of the methods that move a mechanism, each made when it is chosen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from supple.engine import Equilibrium, Simulation, equilibrium
from supple.errors import ConvergenceError, MechanismError
from supple.mechanism import Mechanism
from supple.mechanism.poses import find
from supple.reduced import BlendedModel, ReducedModel, ReducedSimulation, blend, condense, reduce
from supple.viewer.adaptive import AdaptiveMotion
from supple.viewer.scenery import SceneMotion

AnySimulation = Simulation | ReducedSimulation | AdaptiveMotion | SceneMotion
MOST_TIPS = 6
"""End effectors that are chosen where the user names none."""


class Models:
    """What has been made of a mechanism so far; the methods share it."""

    def __init__(self, mech: Mechanism, end_effectors: Sequence[str]) -> None:
        self.mechanism, self.end_effectors = mech, checked_end_effectors(mech, end_effectors)
        self.blended: BlendedModel | None = None
        """Grown by the user or found by exploring."""
        self.descriptions = {name: method.text for name, method in METHODS.items()}
        """What the methods are, one line each, by name."""

    def begin(self, method: str, dt: float) -> AnySimulation:
        """A simulation at rest by the method of that name, with steps of `dt` seconds or its own."""
        find(list(METHODS), method, "method")
        return METHODS[method].begin(self, dt)

    @cached_property
    def rest(self) -> Equilibrium | None:
        """Where every method starts, under gravity alone; none (the reference pose) where there is no equilibrium."""
        if loose_bodies(self.mechanism):
            return None
        try:
            return equilibrium(self.mechanism, progress=lambda fraction: None)
        except ConvergenceError:
            return None

    @cached_property
    def linear_model(self) -> ReducedModel:
        """The linear model at the start."""
        return reduce(self.mechanism, self.end_effectors, at=self.rest)


@dataclass(frozen=True)
class Method:
    """A way to move a mechanism."""

    text: str
    """One line for the user."""
    begin: Callable[[Models, float], AnySimulation]
    """A simulation at rest, with steps of so many seconds."""
    in_time: bool = True
    """Whether it moves in time; quasi-statics do not."""


def _engine(models: Models, dt: float) -> AnySimulation:
    return Simulation(models.mechanism, dt, at=models.rest)


def _linear(models: Models, dt: float) -> AnySimulation:
    return ReducedSimulation(models.linear_model, dt)


def _blended(models: Models, dt: float) -> AnySimulation:
    if models.blended is None:
        models.blended = blend([models.linear_model])
    return ReducedSimulation(models.blended, dt)


def _condensed(models: Models, dt: float) -> AnySimulation:
    return ReducedSimulation(condense(models.mechanism, models.end_effectors), dt)


def _adaptive(models: Models, dt: float) -> AnySimulation:
    return AdaptiveMotion(models.mechanism)


METHODS = {
    "engine": Method("every body and joint, exact", _engine),
    "linear": Method("one linear model of the end effectors: fastest, for small motion", _linear),
    "blended": Method("several linear models blended; `Linearise here` adds one", _blended),
    "condensed": Method("end effectors in motion, everything between them in exact static balance", _condensed),
    "adaptive": Method("quasi-statics of trees, computing only the joints that matter (lit up)", _adaptive, False),
}


def loose_bodies(mech: Mechanism) -> list[str]:
    """Bodies on free joints that nothing holds: a floating base, or objects that lie about."""
    free = [joint for joint in mech.joints if joint.kind == "free"]
    return [joint.child for joint in free if not set(joint.axes).isdisjoint(mech.unheld)]


def likely_method(mech: Mechanism) -> str:
    """What a user sees first: the fastest method that fits."""
    if not mech.unheld:
        return "linear"
    fits = not (mech.topology.loops or mech.motors or mech.couplings) and all(body.mass > 0 for body in mech.bodies)
    return "adaptive" if fits else "engine"


def checked_end_effectors(mech: Mechanism, names: Sequence[str]) -> tuple[str, ...]:
    """Bodies or sites that can be pulled, each once."""
    chosen = tuple(dict.fromkeys([names] if isinstance(names, str) else names))
    if not chosen:
        raise MechanismError(f"name at least one end effector of '{mech.name}': a body or a site")
    for name in chosen:
        if mech.frame(name)[0] < 0:
            raise MechanismError(f"'{name}' is fixed to the world; it cannot be pulled")
    return chosen


def likely_end_effectors(mech: Mechanism) -> tuple[str, ...]:
    """What is called a tip; otherwise the bodies at the ends, that one joint holds and nothing hangs on; where there
    are none, the last ones of the spanning tree."""
    names = [b.name for b in mech.bodies] + [s.name for s in mech.sites if mech.frame(s.name)[0] >= 0]
    tips = [name for name in names if name.lower().endswith("tip")]
    if not tips:
        parents = {int(p) for p in mech.topology.parent}
        leaves = [b.name for i, b in enumerate(mech.bodies) if i not in parents]
        joints = Counter(name for joint in mech.joints for name in (joint.parent, joint.child))
        tips = [name for name in leaves if joints[name] == 1] or leaves
    return tuple(tips[:MOST_TIPS])
