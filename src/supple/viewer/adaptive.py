"""The viewer's interface to an adaptive linkage: steps, handles, poses, and which joints moved."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple.engine.dynamics import handle_spring
from supple.linkage import AdaptiveLinkage
from supple.linkage.stability import largest_frequency
from supple.mechanism import Mechanism, Poses
from supple.mechanism.record import Array

DT = 0.02
"""Longest time step, s. Each step starts from rest, so long steps reach an equilibrium sooner."""
ERROR = 2.0**-7
"""Relative error of the joint accelerations."""


class AdaptiveMotion:
    """Adaptive quasi-statics of a mechanism. The time step is shortened where springs would make it unstable."""

    def __init__(self, mech: Mechanism) -> None:
        self.mechanism = mech
        self._linkage = AdaptiveLinkage(mech, ERROR, "relative_joint")
        fastest = largest_frequency(self._linkage.tree, self._linkage._core)
        self.dt = DT if fastest == 0 else min(DT, 1 / fastest)
        self._start = self._linkage.coordinates
        self._targets: dict[str, Array] = {}
        self.lit: NDArray[np.bool_] = np.zeros(len(mech.joints), dtype=bool)
        """(joints,) which joints moved in the last step."""

    @property
    def time(self) -> float:
        """s."""
        return self._linkage.time

    @property
    def poses(self) -> Poses:
        return Poses(self.mechanism, self._linkage.poses.array)

    def stiffness(self, end_effector: str) -> float:
        """Stiffness of a handle's spring, N/m: as for other simulations, limited by the stability of the explicit step
        of the pulled body alone."""
        body = self.mechanism.bodies[self.mechanism.frame(end_effector)[0]]
        return min(handle_spring(self.mechanism, None, None)[0], 0.25 * body.mass / self.dt**2)

    def pull(self, end_effector: str, point: ArrayLike | None) -> None:
        if point is None:
            self._targets.pop(end_effector, None)
            self._linkage.apply(end_effector, np.zeros(6))
        else:
            self._targets[end_effector] = np.asarray(point, dtype=float)

    def apply(self, end_effector: str, wrench: ArrayLike) -> None:
        self._linkage.apply(end_effector, wrench)

    def step(self, n: int = 1) -> None:
        lit = np.zeros(len(self.mechanism.joints), dtype=bool)
        for _ in range(n):
            for name, target in self._targets.items():
                force = self.stiffness(name) * (target - self._linkage.poses[name][:3, 3])
                self._linkage.apply(name, [*force, 0, 0, 0])
            lit[self._linkage.step(self.dt).moved] = True
        self.lit = lit

    def reset(self) -> None:
        for name in tuple(self._targets):
            self.pull(name, None)
        self._linkage.coordinates = self._start
        self._linkage.time = 0.0
        self.lit = np.zeros(len(self.mechanism.joints), dtype=bool)
