"""Simulations and worlds that are given to the viewer, and the scenes of the library."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from supple.mechanism import Mechanism, Shape
from supple.mechanism.joining import loose_objects
from supple.mechanism.moving import Moving, check_moving
from supple.mechanism.poses import find
from supple.viewer.control import Control, Controller
from supple.viewer.methods import MAX_TIPS, likely_end_effectors
from supple.world import scenes
from supple.world.scenes import Scene
from supple.zones import soft_hand

SCENES: dict[str, Callable[[str], Scene]] = {
    name: getattr(scenes, name) for name in scenes.__all__ if name not in ("Scene", "shadow_hand")
} | {"soft_hand": soft_hand}
"""The scenes that need no file."""
LEVELS = {
    "reduced": "the robot reduced to its end effectors, which have contact",
    "full": "every body of the robot, exact, each with contact",
}
GROUND, OBJECT = np.array([0.82, 0.84, 0.86, 1.0]), np.array([0.88, 0.56, 0.17, 1.0])
UNCOLOURED = Shape("plane", (0, 0, 1), np.eye(4)).rgba  # type: ignore[arg-type]


class GivenModel:
    """A simulation or a world that the viewer was given. It is the only model of its mechanism."""

    changeable = False
    blended = None

    def __init__(self, sim: Moving, end_effectors: Sequence[str] | None = None, controller: Controller | None = None):
        check_moving(sim, "the viewer shows a Mechanism or something that moves")
        self._sim, self._controller = sim, controller
        self.mechanism = coloured(sim.mechanism)
        self.name = self.mechanism.name
        self.end_effectors = _handles(sim) if end_effectors is None else tuple(dict.fromkeys(end_effectors))
        for name in self.end_effectors:
            find(sim.end_effectors, name, "end effector")
        self.method, self.descriptions = sim.kind, {sim.kind: "as given"}

    def begin(self, method: str, dt: float) -> Moving:
        """The given one, in its present state and with its own time step."""
        find(list(self.descriptions), method, "method")
        return self._sim

    def control(self) -> Control | None:
        """The user's controller."""
        return None if self._controller is None else Control(self._controller)


class SceneModels:
    """A scene of the library at its two levels of detail."""

    changeable = False
    blended = None

    def __init__(self, name: str) -> None:
        find(list(SCENES), name, "scene")
        self.name, self.method, self.descriptions = name, "reduced", LEVELS
        self._scene = SCENES[name]("reduced")
        self._fresh = True
        """Whether `_scene` is reduced and was not moved yet."""
        self.mechanism, self.end_effectors = coloured(self._scene.world.mechanism), _handles(self._scene.world)

    def begin(self, method: str, dt: float) -> Moving:
        """The scene at its start, at one of its levels; the scene has its own time step."""
        find(list(LEVELS), method, "method")
        if not (self._fresh and method == "reduced"):
            self._scene = SCENES[self.name](method)
        self._fresh = False
        world = self._scene.world
        self.mechanism, self.end_effectors = coloured(world.mechanism), _handles(world)
        return world

    def control(self) -> Control:
        """The controller of the scene that `begin` made last."""
        scene = self._scene
        return Control(lambda world: scene.robot.set_targets(scene.steer(world.time)), scene.every)


def _handles(sim: Moving) -> tuple[str, ...]:
    """The end effectors that can be pulled where the user names none: those of reduced models; of a mechanism whose
    bodies can all be pulled, those that look like tips, or its last body; and loose objects."""
    mech, allowed = sim.mechanism, set(sim.end_effectors)
    loose = [name for name in loose_objects(mech) if name in allowed]
    groups: dict[str, list[str]] = {}  # of a world, by mechanism
    for body in mech.bodies:
        if body.name not in loose:
            groups.setdefault(_group(body.name), []).append(body.name)
    tips, names = likely_end_effectors(mech, len(mech.bodies) + len(mech.sites)), []
    for group, bodies in groups.items():
        own = [name for name in sim.end_effectors if name in bodies or _group(name) == group]
        if allowed.issuperset(bodies):
            own = [name for name in tips if name in own][:MAX_TIPS] or own[len(bodies) - 1 : len(bodies)]
        names += own
    return (*names, *loose)


def _group(name: str) -> str:
    """The mechanism of a world that a part belongs to; empty outside of worlds."""
    return name.partition(":")[0] if ":" in name else ""


def coloured(mech: Mechanism) -> Mechanism:
    """The mechanism with colours for the ground and for loose objects, where the user has chosen none."""
    loose = set(loose_objects(mech))

    def painted(shapes: tuple[Shape, ...], colour: Any) -> tuple[Shape, ...]:
        return tuple(replace(s, rgba=colour) if np.array_equal(s.rgba, UNCOLOURED) else s for s in shapes)

    return replace(
        mech,
        bodies=tuple(replace(b, shapes=painted(b.shapes, OBJECT)) if b.name in loose else b for b in mech.bodies),
        shapes=painted(mech.shapes, GROUND),
    )

