"""A scene: a world, the mechanism in it, and its controller."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike

import numpy as np

from supple.engine import Simulation
from supple.engine.dynamics import positive_seconds
from supple.errors import MechanismError
from supple.mechanism import Mechanism
from supple.mechanism.record import Array
from supple.mechanism.shapes import HeightField, Shape
from supple.recording import Recording
from supple.reduced import ReducedSimulation, reduce
from supple.world.world import World

LEVELS = ("reduced", "full")


@dataclass(frozen=True)
class PushReport:
    """Overlaps and energies of a scene under random forces."""

    steps: int
    deepest: float
    """m, the largest overlap under the forces, measured at the end of each push."""
    resting: float
    """m, the largest overlap one second after the forces were removed."""
    residual: float
    """The largest residual of the contact law, as in `World.residual`."""
    energy: float
    """J, energy at the start."""
    highest: float
    """J, the largest energy."""
    work: float
    """J, the largest work that the forces had done at any time."""


@dataclass
class Scene:
    """A world with a mechanism that is controlled by set-points."""

    title: str
    world: World
    robot: Simulation | ReducedSimulation
    ground: tuple[Shape | HeightField, ...] = ()
    steer: Callable[[float], dict[str, float]] = lambda time: {}
    """The controller: set-points by name, rad or m, as a function of time, s."""
    every: int = 10
    """Time steps between two calls of the controller."""

    @property
    def mechanism(self) -> Mechanism:
        return self.robot.mechanism

    def run(self, seconds: float, progress: Callable[[float], None] | None = None) -> None:
        """Runs controller and world for so many seconds; `progress` is called with the fraction done."""
        left = steps = round(positive_seconds(seconds, "seconds") / self.world.dt)
        while left > 0:
            if progress is not None:
                progress(1 - left / steps)
            self.robot.set_targets(self.steer(self.world.time))
            self.world.step(min(self.every, left))
            left -= self.every

    def record(
        self,
        seconds: float,
        path: str | PathLike[str] | None = None,
        rate: float = 30.0,
        progress: Callable[[float], None] | None = None,
    ) -> Recording:
        """Runs for so many seconds and returns the recording, `rate` frames per second, which is in the file `path` (a
        temporary one without); `progress` is called with the fraction done."""
        with self.world.record(path, rate) as recorder:
            self.run(seconds, progress)
        return recorder.recording

    def push(self, rng: np.random.Generator, force: float) -> Array:
        """Applies a force of random direction, N, to every object and to the mechanism's last end effector (its last
        body for a full mechanism), until changed; returns the forces (objects + 1, 3)."""
        forces = np.array([_random_vector(rng, force) for _ in range(len(self.world.objects) + 1)])
        for name, each in zip(self.world.objects, forces[:-1], strict=True):
            self.world.apply(name, [*each, 0, 0, 0])
        self.robot.apply(self._pushed_name, [*forces[-1], 0, 0, 0])
        return forces

    def push_around(
        self, steps: int, force: float, seed: int = 3, progress: Callable[[float], None] | None = None
    ) -> PushReport:
        """Applies forces in new random directions every 100 steps. After every 100 pushes, and at the end, the forces
        are zero for one second. `progress` is called with the fraction done."""
        rng, world = np.random.default_rng(seed), self.world
        start = highest = world.energy.total
        deepest = resting = residual = work = most = 0.0
        for k in range(steps // 100):
            if progress is not None:
                progress(100 * k / steps)
            forces, before = self.push(rng, force), self._pushed_positions()
            self.run(100 * world.dt)
            work += float(np.sum(forces * (self._pushed_positions() - before)))
            most, highest = max(most, work), max(highest, world.energy.total)
            deepest = min([deepest, *(c.gap for c in world.contacts)])
            residual = max(residual, world.residual)
            if k % 100 == 99 or k == steps // 100 - 1:
                self.push(rng, 0.0)
                self.run(1.0)
                resting = min([resting, *(c.gap for c in world.contacts)])
        return PushReport(steps, -deepest, -resting, residual, start, highest, most)

    @property
    def _pushed_name(self) -> str:
        return self.mechanism.bodies[-1].name if self.robot.kind == "engine" else self.robot.end_effectors[-1]

    def _pushed_positions(self) -> Array:
        """(objects + 1, 3) positions of the pushed objects and of the pushed end effector, m."""
        body, frame = self.mechanism.frame(self._pushed_name)
        tip = self.robot.poses[body] @ frame
        return np.array([pose[:3, 3] for pose in (*(self.world.pose(name) for name in self.world.objects), tip)])


def _random_vector(rng: np.random.Generator, size: float) -> Array:
    """(3,) of that length, in a random direction."""
    v = rng.normal(size=3)
    v *= size / np.linalg.norm(v)
    return v


def smooth(t: float) -> float:
    """Rises from 0 to 1 as t does, with continuous speed."""
    t = min(max(t, 0.0), 1.0)
    return t * t * (3 - 2 * t)


def motion(mech: Mechanism, tips: list[str], dt: float, level: str) -> Simulation | ReducedSimulation:
    """A simulation of the mechanism: by the full engine, or reduced to its tips."""
    if level not in LEVELS:
        raise MechanismError(f"level is one of {LEVELS}, got {level!r}")
    return Simulation(mech, dt) if level == "full" else ReducedSimulation(reduce(mech, tips), dt)
