"""Inverse kinematics: coordinates at which bodies have given poses, by the least motion, within limits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple import _core
from supple.errors import MechanismError
from supple.mechanism.kinematics import kinematics
from supple.mechanism.mechanism import Mechanism, check_mechanism
from supple.mechanism.mobility import all_coordinates
from supple.mechanism.named import Coordinates, coordinate_columns
from supple.mechanism.record import Array, array, checked_pose
from supple.mechanism.values import coordinates_given

STARTS = 8
"""Starts besides q0 that are tried if the poses are not reached from there; their seed is fixed."""
AGREEING = 2
"""If so many of them end with the error of the best one, no more are tried."""
REACHED = 1e-9
"""Largest remaining error, rad or radii, of a solution."""


@dataclass(frozen=True)
class InverseKinematics:
    """Coordinates that `inverse_kinematics` found."""

    q: Coordinates
    """(dof,) coordinates of the spanning tree, rad and m."""
    status: str
    """"reached"; "limits": joint limits keep the mechanism from the poses; "out of reach": the joints do. Then q is the
    nearest configuration that was found: move the target, or give a better q0."""
    residual: float
    """Largest remaining error of poses, loops and limits of couplings, m or rad."""
    position_error: float
    """Largest distance of a body or site from its position, m."""
    rotation_error: float
    """Largest angle between a body or site and its orientation, rad; zero if only positions were given."""
    iterations: int
    """Of all starts together."""

    @property
    def reached(self) -> bool:
        return self.status == "reached"


def inverse_kinematics(
    mech: Mechanism,
    poses: Mapping[str, ArrayLike],
    q0: ArrayLike | Mapping[str, ArrayLike] | None = None,
    limits: bool = True,
    *,
    keep: Iterable[str] = (),
) -> InverseKinematics:
    """Coordinates at which bodies or sites have given poses, as near to q0 as possible.

    Minimises |q - q0|^2 (coordinates in rad and m) among the configurations that have the poses, close all loops,
    satisfy rigid couplings and respect limits. This is a local minimum; other starts are tried only if the poses are
    not reached from q0.

    Args:
        mech: the mechanism.
        poses: for each body or site a pose (4, 4), or a position (3,) if any orientation will do, in the world.
        q0: (dof,) coordinates of the start, rad and m, or {joint or coordinate: value}; those that are not given are
            those of the reference pose.
        limits: whether joint limits and limits of couplings are respected.
        keep: names of joints or coordinates that must not move. A free base and the amplitudes of flexible bodies
            never move.

    Returns:
        The coordinates with status and residual. Nothing is raised if the poses cannot be reached.
    """
    check_mechanism(mech)
    start = coordinates_given(mech, q0, "q0")
    problem = _Problem(mech, poses, start, bool(limits), keep)
    best, used = problem.solve(problem.start)
    least, agreeing = problem.error(best), 0
    if least <= REACHED or not problem.moving.any() or not problem.within_reach():
        return problem.result(best, used)
    rng = np.random.default_rng(0)
    for _ in range(STARTS):
        found, more = problem.solve(problem.random_start(rng))
        used, error = used + more, problem.error(found)
        agreeing += abs(error - least) < 1e-3 * least
        if error < least:
            best, least = found, error
        if least <= REACHED or agreeing == AGREEING:
            break
    return problem.result(best, used)


class _Problem:
    """Errors of poses and constraints, and bounds, over the coordinates x (n,) of the tree and then of loop joints."""

    def __init__(
        self, mech: Mechanism, poses: Mapping[str, ArrayLike], start: Array, limits: bool, keep: Iterable[str]
    ) -> None:
        self.mech = mech
        self.length = mech.radius or 1.0
        self.targets = _read_targets(mech, poses)
        self.start = all_coordinates(kinematics(mech, start))
        movable, lower, upper = mech.ranges
        self.moving = movable.copy()
        for name in [keep] if isinstance(keep, str) else keep:
            self.moving[coordinate_columns(mech, name)] = False
        if limits:  # a start outside the limits may only move inwards
            self.lower = np.where(self.moving, lower, np.minimum(lower, self.start))
            self.upper = np.where(self.moving, upper, np.maximum(upper, self.start))
        else:
            self.lower, self.upper = np.full(len(self.start), -np.inf), np.full(len(self.start), np.inf)
        self._core = _core.InverseKinematics(
            mech.compiled, self.length, self.start, self.lower, self.upper, self.moving.tolist()
        )
        for name, target, turns in self.targets:
            body, pose_body_frame = mech.frame(name)
            if not turns:
                target, position = np.eye(4), target
                target[:3, 3] = position
            self._core.add_target(body, pose_body_frame, np.ascontiguousarray(target), turns)
        for c in mech.couplings if limits else ():
            if not c.rigid and np.isfinite(c.limits).any():
                names = (*mech.coordinates, *mech.loop_coordinates)
                places = [names.index(name) for name in c.coordinates]
                self._core.add_tendon(places, c.coefficients.tolist(), *c.limits.tolist())

    def within_reach(self) -> bool:
        """False if a target is further from its first moving joint than the links between them are long."""
        return all(
            np.linalg.norm((target[:3, 3] if pinned else target) - anchor) <= reach * (1 + 1e-9)
            for name, target, pinned in self.targets
            for anchor, reach in [self._reach_of(name)]
        )

    def _reach_of(self, name: str) -> tuple[Array, float]:
        """Position (3,) in the world of the first joint that moves a body or site, and the length of the links from it
        to the body or site, m, with the travel of slides. Loops are cut, which may only lengthen the reach."""
        mech, topology = self.mech, self.mech.topology
        poses = kinematics(mech, self.start[: mech.dof]).poses
        body, reach, anchor = mech.frame(name)[0], 0.0, poses[name][:3, 3]
        while body >= 0:
            j = int(topology.joint[body])
            joint, columns = mech.joints[j], topology.columns[j]
            if self.moving[columns].any():
                on_parent = (poses.of(joint.parent) @ joint.pose_parent)[:3, 3]
                on_child = (poses.of(joint.child) @ joint.pose_child)[:3, 3]
                inner, outer = (on_child, on_parent) if topology.reversed[body] else (on_parent, on_child)
                slides = np.flatnonzero(joint.twists[:, :3].any(axis=1)) + columns.start
                travel = np.maximum(np.abs(self.lower[slides]), np.abs(self.upper[slides])).sum()
                reach += float(np.linalg.norm(anchor - outer) + travel)
                anchor = inner
            body = int(topology.parent[body])
        return anchor, reach

    def random_start(self, rng: np.random.Generator) -> Array:
        """The start with random coordinates within the limits; those that do not move a target stay."""
        low, high = np.maximum(self.lower, self.start - 2.0), np.minimum(self.upper, self.start + 2.0)
        low, high = np.minimum(low, high), np.maximum(low, high)
        anywhere = np.where(self.moving, rng.uniform(low, high), self.start)
        return np.where(self._moving_targets(anywhere), anywhere, self.start)

    def _moving_targets(self, x: Array) -> NDArray[np.bool_]:
        """(n,) whether a coordinate moves a target, at x, directly or through loops and couplings."""
        used = np.abs(self.rows(x)[1]) > 1e-12
        constraints = len(self._lengths(0)) - sum(6 if pinned else 3 for _, _, pinned in self.targets)
        moving = used[constraints:].any(axis=0, keepdims=True)
        while True:
            touched = (used & moving).any(axis=1)
            more = used[touched].any(axis=0, keepdims=True)
            if (more == moving).all():
                return np.asarray(moving).ravel()
            moving = more

    def rows(self, x: Array) -> tuple[Array, Array]:
        """Errors (m,), lengths divided by the radius, and their Jacobian (m, n)."""
        found: tuple[Array, Array] = self._core.errors(x)
        return found

    def _lengths(self, count: int) -> Array:
        """(count,) factors that give errors in m and rad."""
        loop = [self.length] * 3 + [1.0] * 3
        factors = loop * len(self.mech.topology.loops) + [1.0 for c in self.mech.couplings if c.rigid]
        for _, _, pinned in self.targets:
            factors += loop if pinned else loop[:3]
        return np.array(factors + [1.0] * (count - len(factors)))

    def error(self, x: Array) -> float:
        """Largest error, rad or radii."""
        return float(np.abs(self.rows(x)[0]).max(initial=0.0))

    def solve(self, x: Array) -> tuple[Array, int]:
        """A configuration with the poses, then that of the least motion from q0, by
        Levenberg and Marquardt's method within the bounds; number of iterations."""
        found: tuple[Array, int] = self._core.solve(np.ascontiguousarray(x))
        return found

    def result(self, x: Array, used: int) -> InverseKinematics:
        x = np.where(self.moving, np.clip(x, self.lower, self.upper), x)
        error = self.rows(x)[0]
        if np.abs(error).max(initial=0.0) <= REACHED:
            status = "reached"
        else:
            touched = (x <= self.lower + 1e-9) | (x >= self.upper - 1e-9)
            status = "limits" if (touched & self.moving).any() else "out of reach"
        residual = float(np.abs(error * self._lengths(len(error))).max(initial=0.0))
        q = Coordinates(self.mech, x[: self.mech.dof])
        distance, angle = self._core.farthest(x)
        return InverseKinematics(q, status, residual, distance, angle, used)


def _read_targets(mech: Mechanism, poses: Mapping[str, ArrayLike]) -> list[tuple[str, Array, bool]]:
    """Name, pose or position, and whether the orientation counts."""
    if not isinstance(poses, Mapping) or not poses:
        raise MechanismError("poses are given as {body or site: pose (4, 4) or position (3,)}, one or more")
    targets = []
    for name, value in poses.items():
        if mech.frame(name)[0] < 0:
            raise MechanismError(f"'{name}' is fixed to the world; it cannot be moved to a pose")
        if np.ndim(value) == 1:
            targets.append((name, array(value, (3,), f"position of '{name}'"), False))
        else:
            targets.append((name, checked_pose(value, f"pose of '{name}'"), True))
    return targets
