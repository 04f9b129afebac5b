"""What every scene is: a world, the mechanism in it, and what steers that."""

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
from supple.reduced import ReducedSimulation, reduce
from supple.world.world import World

LEVELS = ("reduced", "full")


@dataclass(frozen=True)
class Recording:
    """Where everything was, frame by frame."""

    times: Array
    """(n,) s."""
    robot: Array
    """(n, bodies, 4, 4) world poses of the mechanism's bodies."""
    objects: dict[str, Array]
    """(n, 4, 4) world poses of each object."""

    def save(self, path: str | PathLike[str]) -> None:
        """Writes `.npz`: `times`, `robot`, and an array for each object by its name."""
        arrays = {"times": self.times, "robot": self.robot, **self.objects}
        np.savez_compressed(path, **arrays)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Pushed:
    """What random pushing did to a scene."""

    steps: int
    deepest: float
    """m, the largest overlap while pushed, at the ends of pushes."""
    resting: float
    """m, the largest overlap a second after pushing had ended."""
    residual: float
    """The largest of the contact law, as `World.residual`."""
    energy: float
    """J, at the start."""
    highest: float
    """J, the largest energy."""
    work: float
    """J, the most that the pushes had done altogether."""


@dataclass
class Scene:
    """A world with a mechanism that is steered by set-points."""

    title: str
    world: World
    robot: Simulation | ReducedSimulation
    ground: tuple[Shape | HeightField, ...] = ()
    steer: Callable[[float], dict[str, float]] = lambda time: {}
    """Set-points by name, rad or m, at a time, s."""
    every: int = 10
    """Steps between set-points."""

    @property
    def mechanism(self) -> Mechanism:
        return self.robot.mechanism

    def run(self, seconds: float, progress: Callable[[float], None] | None = None) -> None:
        """Steers and steps; `progress` is called with the fraction done."""
        left = steps = round(positive_seconds(seconds, "seconds") / self.world.dt)
        while left > 0:
            if progress is not None:
                progress(1 - left / steps)
            self.robot.set_targets(self.steer(self.world.time))
            self.world.step(min(self.every, left))
            left -= self.every

    def record(self, seconds: float, frames: int, progress: Callable[[float], None] | None = None) -> Recording:
        """Runs, and keeps that many frames at even times; `progress` is called with the fraction done."""
        times, robot, objects = [], [], []
        for k in range(frames):
            self.run(seconds / frames)
            if progress is not None:
                progress((k + 1) / frames)
            times.append(self.world.time)
            robot.append(self.robot.poses.array.copy())
            objects.append([self.world.pose(name) for name in self.world.objects])
        paths = np.array(objects).reshape(frames, -1, 4, 4)
        return Recording(np.array(times), np.array(robot), {n: paths[:, i] for i, n in enumerate(self.world.objects)})

    def push(self, rng: np.random.Generator, force: float) -> Array:
        """A force of random direction, N, on every object and on the mechanism's last end effector (of a full
        mechanism its last body), until changed; returns the forces (objects + 1, 3)."""
        forces = np.array([_direction(rng, force) for _ in range(len(self.world.objects) + 1)])
        for name, each in zip(self.world.objects, forces[:-1], strict=True):
            self.world.apply(name, [*each, 0, 0, 0])
        self.robot.apply(self._pushed, [*forces[-1], 0, 0, 0])
        return forces

    def push_around(
        self, steps: int, force: float, seed: int = 3, progress: Callable[[float], None] | None = None
    ) -> Pushed:
        """Pushes in another direction every 100 steps; every 100 pushes, and at the end, nothing pushes for a second.
        `progress` is called with the fraction done."""
        rng, world = np.random.default_rng(seed), self.world
        start = highest = world.energy
        deepest = resting = residual = work = most = 0.0
        for k in range(steps // 100):
            if progress is not None:
                progress(100 * k / steps)
            forces, before = self.push(rng, force), self._places()
            self.run(100 * world.dt)
            work += float(np.sum(forces * (self._places() - before)))
            most, highest = max(most, work), max(highest, world.energy)
            deepest = min([deepest, *(c.gap for c in world.contacts)])
            residual = max(residual, world.residual)
            if k % 100 == 99 or k == steps // 100 - 1:
                self.push(rng, 0.0)
                self.run(1.0)
                resting = min([resting, *(c.gap for c in world.contacts)])
        return Pushed(steps, -deepest, -resting, residual, start, highest, most)

    @property
    def _pushed(self) -> str:
        if isinstance(self.robot, ReducedSimulation):
            return self.robot.model.end_effectors[-1]
        return self.mechanism.bodies[-1].name

    def _places(self) -> Array:
        """(objects + 1, 3) of what is pushed."""
        body, frame = self.mechanism.frame(self._pushed)
        tip = self.robot.poses[body] @ frame
        return np.array([pose[:3, 3] for pose in (*(self.world.pose(name) for name in self.world.objects), tip)])


def _direction(rng: np.random.Generator, size: float) -> Array:
    v = rng.normal(size=3)
    v *= size / np.linalg.norm(v)
    return v


def smooth(t: float) -> float:
    """From 0 to 1 while t does, with no jump in speed."""
    t = min(max(t, 0.0), 1.0)
    return t * t * (3 - 2 * t)


def motion(mech: Mechanism, tips: list[str], dt: float, level: str) -> Simulation | ReducedSimulation:
    """The mechanism in motion: by the full engine, or reduced to its tips."""
    if level not in LEVELS:
        raise MechanismError(f"level is one of {LEVELS}, got {level!r}")
    return Simulation(mech, dt) if level == "full" else ReducedSimulation(reduce(mech, tips), dt)
