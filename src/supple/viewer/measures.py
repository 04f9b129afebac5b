"""What the viewer measures on a moving mechanism: poses, separation, energy, handle forces."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from supple import spatial
from supple.contact.pads import Touch
from supple.mechanism import Mechanism, Poses
from supple.mechanism.moving import Contact, Moving
from supple.mechanism.record import Array
from supple.reduced.joints import separation
from supple.reduced.matrices import Ellipsoid
from supple.viewer.clock import WALL_CLOCK, Clock

MAX_SECONDS = 0.005
"""s of computing. Separations that take longer are measured in a thread of their own."""
ELLIPSOID_PERIOD = 0.1
"""s, at least, between two computations of the compliance ellipsoids."""


@dataclass(frozen=True)
class Pull:
    """An end effector and its handle: the spring that a user pulls it by."""

    point: Array
    """(3,) position of the end effector, m."""
    target: Array | None
    """(3,) point that the spring pulls to, m; None without a spring."""
    force: Array
    """(3,) force of the spring, N."""


@dataclass(frozen=True)
class Frame:
    """State and measures of a mechanism at one time."""

    time: float
    """s."""
    method: str
    mechanism: Mechanism
    """What is drawn."""
    poses: Poses
    """World poses (4, 4) of every body."""
    ghost: Poses | None
    """World poses that the engine gives for the same handles; None if it is not compared."""
    pulls: dict[str, Pull]
    """By end effector."""
    joint_separations: Array
    """(joints,) separation of each joint, m."""
    moving_joints: NDArray[np.bool_] | None
    """(joints,) which joints an adaptive linkage moved in its last step; None for other methods."""
    separation: float
    """Sum of the joints' separations over the radius."""
    displacement: float
    """Largest relative displacement of an end effector from its start."""
    kinetic: float
    """Kinetic energy, J."""
    stored: float
    """Energy of springs and gravity, J, zero at the start."""
    contacts: tuple[Contact, ...]
    """Of the last step."""
    touches: dict[str, Touch]
    """Forces on soft pads and displacements of their points, by the covered body."""
    ellipsoids: dict[str, Ellipsoid]
    """Compliance ellipsoids at the end effectors, by name; empty where they are not asked for."""
    real_time_factor: float
    """Simulated seconds per second."""
    attainable_factor: float
    """The real-time factor if the simulation used all of its thread's time; 0 before the first step."""

    @property
    def force(self) -> float:
        """Sum of the magnitudes of the handles' forces, N."""
        return float(sum(np.linalg.norm(pull.force) for pull in self.pulls.values()))


class Meter:
    """Measures a mechanism, whichever method moves it. `start` are the poses that displacements count from."""

    def __init__(
        self, mech: Mechanism, start: Poses, end_effectors: tuple[str, ...], clock: Clock = WALL_CLOCK
    ) -> None:
        self.mechanism, self._clock = mech, clock
        self._start = {name: spatial.inverse(start[name]) for name in end_effectors}
        radius = mech.radius or 1.0
        self._lengths = np.array([radius] * 3 + [1.0] * 3)
        self._separations = np.zeros(len(mech.joints)), 0.0
        self._seconds = 0.0
        """s that the last measurement of the separations took."""
        self._measurement: Future[None] | None = None
        self._ellipsoids: dict[str, Ellipsoid] = {}
        self._last_ellipsoids = -np.inf

    def displacement(self, poses: Poses) -> float:
        """Norm of an end effector's twist from its start, linear part over the radius; the largest one."""
        twists = [spatial.log(inverse @ poses[name]) / self._lengths for name, inverse in self._start.items()]
        return float(max((np.linalg.norm(twist) for twist in twists), default=0.0))

    def separations(self, sim: Moving, at_once: bool = True) -> tuple[Array, float]:
        """(joints,) separation of each joint, m, and their sum over the radius. Without `at_once`, a measurement that
        takes long runs in a thread of its own, and this returns the last finished one."""
        if not sim.joints_separate:
            return np.zeros(len(self.mechanism.joints)), 0.0
        state = sim.poses.array, np.concatenate([*sim.coordinates.values()]) if self.mechanism.flexible else None
        if at_once or self._seconds < MAX_SECONDS:
            self._measure(*state)
        elif self._measurement is None or self._measurement.done():
            self._measurement = self._pool.submit(self._measure, *state)
        return self._separations

    def _measure(self, poses: Array, coordinates: Array | None) -> None:
        start = self._clock()
        result = separation(self.mechanism, poses, coordinates)
        self._separations = np.array(list(result.joints.values())), result.total
        self._seconds = self._clock() - start

    def ellipsoids(self, sim: Moving, at_once: bool = True) -> dict[str, Ellipsoid]:
        """Compliance ellipsoids at the end effectors, where they are now. Without `at_once`, their shapes may be those
        of a tenth of a second before."""
        now = self._clock()
        if at_once or now >= self._last_ellipsoids + ELLIPSOID_PERIOD:
            self._last_ellipsoids, self._ellipsoids = now, dict(sim.ellipsoids)
        poses = sim.poses
        return {name: replace(each, centre=poses[name][:3, 3]) for name, each in self._ellipsoids.items()}

    @cached_property
    def _pool(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(1, "supple meter")
