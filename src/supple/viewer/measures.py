"""What is measured on a moving mechanism while it is looked at."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from time import perf_counter

import numpy as np
from numpy.typing import NDArray

from supple import spatial
from supple.engine import Simulation
from supple.engine.assembly import Equations, equations
from supple.mechanism import Mechanism, Poses
from supple.mechanism.kinematics import inertias
from supple.mechanism.record import Array
from supple.reduced.joints import separation
from supple.viewer.adaptive import AdaptiveMotion
from supple.viewer.methods import Moving
from supple.viewer.scenery import SceneMotion

TARDY = 0.005
"""s that the simulation's thread does not mind to measure for."""


@dataclass(frozen=True)
class Pull:
    """An end effector and the spring that pulls it."""

    point: Array
    """(3,) where the end effector is, m."""
    target: Array | None
    """(3,) where it is pulled to, m; None if it is let go."""
    force: Array
    """(3,) of the spring, N."""


@dataclass(frozen=True)
class Frame:
    """A mechanism at a moment; never changed once made."""

    time: float
    """s."""
    method: str
    poses: Array
    """(bodies, 4, 4) world poses."""
    ghost: Array | None
    """(bodies, 4, 4) of the engine beside it."""
    pulls: dict[str, Pull]
    """By end effector."""
    apart: Array
    """(joints,) separation of each joint, m."""
    lit: NDArray[np.bool_] | None
    """(joints,) which of them an adaptive linkage moves just now."""
    separation: float
    """Their sum over the radius."""
    displacement: float
    """Largest relative displacement of an end effector from rest."""
    kinetic: float
    """J."""
    stored: float
    """J, in springs and by gravity, from rest."""
    factor: float
    """Simulated seconds a second."""
    could: float
    """What the factor would be if nothing else had to be done."""

    @property
    def force(self) -> float:
        """Sum of the sizes of the springs' forces, N."""
        return float(sum(np.linalg.norm(pull.force) for pull in self.pulls.values()))


class Meter:
    """Measures of a mechanism, whichever method moves it."""

    def __init__(self, mech: Mechanism, rest: Poses, end_effectors: tuple[str, ...]) -> None:
        self.mechanism = mech
        self._tips = {name: spatial.inverse(rest[name]) for name in end_effectors}
        radius = mech.radius or 1.0
        self._lengths = np.array([radius] * 3 + [1.0] * 3)
        self._apart = np.zeros(len(mech.joints)), 0.0
        self._cost = 0.0
        """s that they took to measure."""
        self._measuring: Future[None] | None = None

    @cached_property
    def _inertia(self) -> Array:
        return inertias(self.mechanism)

    @cached_property
    def _equations(self) -> Equations:
        return equations(self.mechanism)

    def displacement(self, poses: Poses) -> float:
        """Norm of the tip's twist from rest, linear part over the radius; the largest of the end effectors."""
        twists = [spatial.log(inverse @ poses[name]) / self._lengths for name, inverse in self._tips.items()]
        return float(max(np.linalg.norm(twist) for twist in twists))

    def apart(self, sim: Moving, at_once: bool = True) -> tuple[Array, float]:
        """(joints,) separation of each joint, m, and their sum over the radius. Unless they are wanted at once, those
        of a mechanism that takes long to measure are measured in a thread of their own, and come some frames late."""
        if isinstance(sim, AdaptiveMotion):
            return np.zeros(len(self.mechanism.joints)), 0.0  # its poses follow from the joints
        if isinstance(sim, SceneMotion):
            apart = sim.apart()
            return apart, float(apart.sum() / (sim.robot.mechanism.radius or 1.0))
        poses = sim.poses.array
        if at_once or self._cost < TARDY:
            self._measure(poses)
        elif self._measuring is None or self._measuring.done():
            self._measuring = self._pool.submit(self._measure, poses)
        return self._apart

    def _measure(self, poses: Array) -> None:
        start = perf_counter()
        found = separation(self.mechanism, poses)
        self._apart = np.array(list(found.joints.values())), found.total
        self._cost = perf_counter() - start

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(1, "supple meter")

    def energy(self, sim: Moving) -> tuple[float, float]:
        """Kinetic, and stored in springs and by gravity, J. Those of a reduced model are the full mechanism's at the
        joint coordinates and link velocities that it shows. Those of quasi-statics and scenes are left out."""
        if isinstance(sim, AdaptiveMotion | SceneMotion):
            return 0.0, 0.0
        if isinstance(sim, Simulation):
            energy = sim.energy
            return energy.kinetic, energy.strain + energy.gravity
        v = sim.velocities
        core = self._equations.core
        q = np.concatenate([np.zeros(0), *sim.coordinates.values()])
        core.set_state(q, *self._equations.zero_state()[1:])
        core.evaluate(False)
        return float(0.5 * np.einsum("bi,bij,bj->", v, self._inertia, v)), float(sum(core.energies[1:]))
