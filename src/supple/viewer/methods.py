"""The methods that can move a mechanism in the viewer. Each is prepared when it is first chosen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from supple.engine import Equilibrium, Simulation, equilibrium
from supple.errors import ConvergenceError, MechanismError
from supple.mechanism import Mechanism
from supple.mechanism.moving import Moving
from supple.mechanism.poses import find
from supple.reduced import BlendedModel, ReducedModel, ReducedSimulation, blend, reduce
from supple.viewer.adaptive import AdaptiveMotion
from supple.viewer.control import Control, Controller

MAX_TIPS = 6
"""Largest number of end effectors where the user names none."""


class Models:
    """The models of a mechanism that were made so far; the methods share them."""

    changeable = True
    """Whether end effectors and linear models can be added."""

    def __init__(self, mech: Mechanism, end_effectors: Sequence[str], controller: Controller | None = None) -> None:
        self.mechanism, self.end_effectors = mech, checked_end_effectors(mech, end_effectors)
        self.controller = controller
        self.name, self.method = mech.name, likely_method(mech)
        self.blended: BlendedModel | None = None
        """The blended model that the user or an exploration has added linear models to."""
        self.descriptions = {n: method.text for n, method in METHODS.items() if method.flexible or not mech.flexible}
        """A line for each method that can simulate the mechanism, by name."""

    def begin(self, method: str, dt: float) -> Moving:
        """A simulation at its start by the method of that name, with time step `dt`, s, or one that the method
        chooses."""
        find(list(METHODS), method, "method")
        if method not in self.descriptions:
            raise MechanismError(
                f"'{method}' does not simulate flexible bodies such as '{self.mechanism.flexible[0].name}'; choose "
                f"{' or '.join(self.descriptions)}"
            )
        return METHODS[method].begin(self, dt)

    def control(self) -> Control | None:
        """The user's controller."""
        return None if self.controller is None else Control(self.controller)

    @cached_property
    def start(self) -> Equilibrium | None:
        """The equilibrium under gravity alone, where every method starts; None if there is none (then the reference
        pose)."""
        if loose_bodies(self.mechanism):
            return None
        try:
            return equilibrium(self.mechanism, progress=lambda fraction: None)
        except ConvergenceError:
            return None

    @cached_property
    def linear_model(self) -> ReducedModel:
        """The linear model at the start."""
        return reduce(self.mechanism, self.end_effectors, at=self.start)


@dataclass(frozen=True)
class Method:
    """A way to move a mechanism."""

    text: str
    """A line for the user."""
    begin: Callable[[Models, float], Moving]
    """Makes a simulation at its start, given the time step, s."""
    in_time: bool = True
    """Whether it simulates dynamics; False for quasi-statics."""
    flexible: bool = False
    """Whether it simulates flexible bodies."""


def _engine(models: Models, dt: float) -> Moving:
    return Simulation(models.mechanism, dt, at=models.start)


def _linear(models: Models, dt: float) -> Moving:
    return ReducedSimulation(models.linear_model, dt)


def _blended(models: Models, dt: float) -> Moving:
    if models.blended is None:
        models.blended = blend([models.linear_model])
    return ReducedSimulation(models.blended, dt)


def _adaptive(models: Models, dt: float) -> Moving:
    return AdaptiveMotion(models.mechanism)


METHODS = {
    "engine": Method("every body and joint, exact", _engine, flexible=True),
    "linear": Method("one linear model of the end effectors: fastest, for small motion", _linear, flexible=True),
    "blended": Method("several linear models blended; `Linearise here` adds one", _blended),
    "adaptive": Method("quasi-statics of trees; computes only the highlighted joints", _adaptive, False),
}


def loose_bodies(mech: Mechanism) -> list[str]:
    """Bodies on free joints without springs: floating bases, and objects of the scene."""
    free = [joint for joint in mech.joints if joint.kind == "free"]
    return [joint.child for joint in free if not set(joint.axes).isdisjoint(mech.unheld)]


def likely_method(mech: Mechanism) -> str:
    """The method to start with: the fastest that fits the mechanism. Flexible bodies are made for large motion, so the
    engine."""
    if mech.flexible:
        return "engine"
    if not mech.unheld:
        return "linear"
    is_plain_tree = not (mech.topology.loops or mech.motors or mech.couplings)
    return "adaptive" if is_plain_tree and all(body.mass > 0 for body in mech.bodies) else "engine"


def checked_end_effectors(mech: Mechanism, names: Sequence[str]) -> tuple[str, ...]:
    """The names without duplicates; raises `MechanismError` unless each is a body or site that can be pulled."""
    chosen = tuple(dict.fromkeys([names] if isinstance(names, str) else names))
    if not chosen:
        raise MechanismError(f"name at least one end effector of '{mech.name}': a body or a site")
    for name in chosen:
        if mech.frame(name)[0] < 0:
            raise MechanismError(f"'{name}' is fixed to the world; it cannot be pulled")
    return chosen


def likely_end_effectors(mech: Mechanism, most: int = MAX_TIPS) -> tuple[str, ...]:
    """Bodies and sites that move: those whose names end in "tip"; otherwise bodies with a single moving joint;
    otherwise the leaves of the spanning tree. Bodies fixed to one another count as one, named by the last of them."""
    moves = np.asarray(mech.topology.moves.any(axis=1))
    names = [b.name for b in mech.bodies] + [s.name for s in mech.sites]
    moving = [name for name in names if (body := mech.frame(name)[0]) >= 0 and (moves[body] or not moves.any())]
    tips = [name for name in moving if name.lower().endswith("tip")]
    if not tips:
        cluster = _rigid_clusters(mech)
        order = mech.topology.order
        inner = {cluster[p] for b in order if (p := int(mech.topology.parent[b])) >= 0 and cluster[p] != cluster[b]}
        last = {cluster[b]: mech.bodies[b].name for b in order}  # the outermost body of each cluster
        leaves = [name for root, name in last.items() if root not in inner and name in moving]
        joints = Counter(
            cluster[b]
            for joint in mech.joints
            for b in (mech.body_index(joint.parent), mech.body_index(joint.child))
            if b >= 0 and joint.axes
        )
        tips = [name for name in leaves if joints[cluster[mech.body_index(name)]] == 1] or leaves
    return tuple(tips[:most])


def _rigid_clusters(mech: Mechanism) -> list[int]:
    """For each body the innermost body that fixed joints of the spanning tree connect it to."""
    topology = mech.topology
    cluster = list(range(len(mech.bodies)))
    for b in topology.order:
        parent = int(topology.parent[b])
        if parent >= 0 and not mech.joints[topology.joint[b]].axes:
            cluster[b] = cluster[parent]
    return cluster
