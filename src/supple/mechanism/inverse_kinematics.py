"""Inverse kinematics: coordinates at which bodies have given poses, by the least motion, within limits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple import spatial
from supple.errors import MechanismError
from supple.mechanism.body import WORLD
from supple.mechanism.kinematics import Kinematics, kinematics
from supple.mechanism.mechanism import Mechanism, check_mechanism
from supple.mechanism.mobility import all_coordinates, constraints
from supple.mechanism.named import Coordinates, coordinate_columns
from supple.mechanism.record import Array, array, checked_pose
from supple.mechanism.values import coordinates_given

ITERATIONS = 100
STARTS = 8
"""Starts besides q0 that are tried if the poses are not reached from there; their seed is fixed."""
AGREEING = 2
"""If so many of them end with the error of the best one, no more are tried."""
LONGEST_STEP = 0.4
"""Largest change of a coordinate in one iteration, rad or radii."""
REACHED = 1e-9
"""Largest remaining error, rad or radii, of a solution."""
PULL = 1e-5
"""Weight of the motion from q0 against the errors of poses in a step that minimises both."""


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
    rng, agreeing = np.random.default_rng(0), 0
    for _ in range(STARTS if problem.within_reach() else 0):
        least = problem.error(best)
        if least <= REACHED or not problem.moving.any() or agreeing == AGREEING:
            break
        found, more = problem.solve(problem.random_start(rng))
        used += more
        agreeing += abs(problem.error(found) - least) < 1e-3 * least
        best = found if problem.error(found) < least else best
    return problem.result(best, used)


class _Problem:
    """Errors of poses and constraints, and bounds, over the coordinates x (n,) of the tree and then of loop joints."""

    def __init__(
        self, mech: Mechanism, poses: Mapping[str, ArrayLike], start: Array, limits: bool, keep: Iterable[str]
    ) -> None:
        self.mech = mech
        self.length = mech.radius or 1.0
        self._kept: dict[bytes, tuple[Array, Array]] = {}
        self.targets = _read_targets(mech, poses)
        self.start = all_coordinates(kinematics(mech, start))
        names = (*mech.coordinates, *mech.loop_coordinates)
        self.moving = np.ones(len(names), dtype=bool)
        for j in mech.topology.tree:
            if mech.joints[j].kind == "free" and WORLD in (mech.joints[j].parent, mech.joints[j].child):
                self.moving[mech.topology.columns[j]] = False
        for joint in mech.joints:
            if joint.interface is not None:  # amplitudes of a flexible body
                self.moving[[names.index(name) for name in joint.axes]] = False
        for name in [keep] if isinstance(keep, str) else keep:
            self.moving[coordinate_columns(mech, name)] = False
        self.lower, self.upper = np.full(len(names), -np.inf), np.full(len(names), np.inf)
        self.tendons = [c for c in mech.couplings if limits and not c.rigid and np.isfinite(c.limits).any()]
        self.place = {name: i for i, name in enumerate(names)}
        if limits:
            for joint in mech.joints:
                for name, (lower, upper) in zip(joint.axes, joint.limits, strict=True):
                    at = self.place[name]
                    self.lower[at], self.upper[at] = min(lower, self.start[at]), max(upper, self.start[at])
                    if self.moving[at]:  # a start outside the limits may only move inwards
                        self.lower[at], self.upper[at] = lower, upper

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
        key = x.tobytes()
        if key not in self._kept:
            if len(self._kept) > 8:
                self._kept.clear()
            self._kept[key] = self._compute_rows(x)
        return self._kept[key]

    def _compute_rows(self, x: Array) -> tuple[Array, Array]:
        state = kinematics(self.mech, x[: self.mech.dof])
        tied = self.mech.topology.loops or any(c.rigid for c in self.mech.couplings)
        wrong, jacobian = constraints(self.mech, x) if tied else (np.zeros(0), np.zeros((0, len(x))))
        errors, rows = [wrong], [jacobian]
        for name, pose, pinned in self.targets:
            error, row = _pose_rows(state, name, pose, pinned)
            scale = np.array([1 / self.length] * 3 + [1.0] * (len(error) - 3))
            errors.append(scale * error)
            rows.append(np.zeros((len(error), len(x))))
            rows[-1][:, : self.mech.dof] = scale[:, None] * row
        for coupling in self.tendons:
            at = [self.place[name] for name in coupling.coordinates]
            length = float(coupling.coefficients @ x[at])
            beyond = length - float(np.clip(length, *coupling.limits))
            if beyond:
                row = np.zeros((1, len(x)))
                row[0, at] = coupling.coefficients
                errors.append(np.array([beyond]))
                rows.append(row)
        return np.concatenate(errors), np.vstack(rows)

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
        """A configuration with the poses, then that of the least motion from q0."""
        x, used = self._reduce_errors(np.where(self.moving, np.clip(x, self.lower, self.upper), x), ITERATIONS)
        if self.error(x) > REACHED:
            return x, used
        length, shorten = self._motion(x), 1.0
        for _ in range(ITERATIONS):
            step = self._step(x, PULL, 1e-9)
            moved = np.abs(step).max(initial=0.0)
            if moved < 1e-9 or shorten < 1e-3:
                break
            trial, more = self._reduce_errors(x + step * min(shorten, LONGEST_STEP / moved), 10)
            used += 1 + more
            shorter = self._motion(trial)
            if self.error(trial) > REACHED or shorter >= length:
                shorten *= 0.3
                continue
            done = length - shorter < 1e-12 * length
            x, length, shorten = trial, shorter, min(2 * shorten, 1.0)
            if done:
                break
        return x, used

    def _reduce_errors(self, x: Array, most: int) -> tuple[Array, int]:
        """Levenberg and Marquardt's method on the errors alone, within the bounds."""
        damping, size, slow = 1e-4, self._squares(x), 0
        for used in range(most):
            if size <= 1e-26:
                return x, used
            step = self._step(x, 0.0, damping)
            moved = np.abs(step).max(initial=0.0)
            trial = x + step * min(1.0, LONGEST_STEP / max(moved, 1e-300))
            value = self._squares(trial)
            if value < size:
                slow = slow + 1 if size - value < 1e-3 * size else 0
                x, size, damping = trial, value, max(damping / 10, 1e-10)
                if slow == 6:  # it does not get nearer
                    return x, used
            elif damping > 1e3:
                return x, used
            else:
                damping = max(10 * damping, 1e-6)
            if moved < 1e-14:
                return x, used
        return x, most

    def _motion(self, x: Array) -> float:
        return float(np.linalg.norm((x - self.start)[: self.mech.dof]))

    def _squares(self, x: Array) -> float:
        error = self.rows(x)[0]
        return float(error @ error)

    def _step(self, x: Array, pull: float, damping: float) -> Array:
        """Least squares of errors, motion from q0 and step, within the bounds."""
        from scipy.optimize import lsq_linear

        error, rows = self.rows(x)
        free = self.moving
        dof = np.arange(len(x)) < self.mech.dof
        away = np.diag(pull * dof.astype(float))
        matrix = np.vstack([rows, away, damping * np.eye(len(x))])[:, free]
        right = np.concatenate([-error, away @ (self.start - x), np.zeros(len(x))])
        step = np.zeros(len(x))
        if not free.any():
            return step
        plain = np.linalg.lstsq(matrix, right, rcond=None)[0]
        low, high = (self.lower - x)[free], (self.upper - x)[free]
        if (plain < low - 1e-15).any() or (plain > high + 1e-15).any():
            low, high = np.minimum(low, 0.0), np.maximum(high, 0.0)
            narrow = high - low < 1e-12
            inside = lsq_linear(matrix[:, ~narrow], right, (low[~narrow], high[~narrow]), method="bvls").x
            plain = np.zeros(len(low))
            plain[~narrow] = inside
        step[free] = plain
        return step

    def result(self, x: Array, used: int) -> InverseKinematics:
        x = np.where(self.moving, np.clip(x, self.lower, self.upper), x)
        error = self.rows(x)[0]
        if np.abs(error).max(initial=0.0) <= REACHED:
            status = "reached"
        else:
            touched = (x <= self.lower + 1e-9) | (x >= self.upper - 1e-9)
            status = "limits" if (touched & self.moving).any() else "out of reach"
        residual = float(np.abs(error * self._lengths(len(error))).max(initial=0.0))
        state = kinematics(self.mech, x[: self.mech.dof])
        distances, angles = [0.0], [0.0]
        for name, target, pinned in self.targets:
            here = state.poses[name]
            distances.append(float(np.linalg.norm(here[:3, 3] - (target[:3, 3] if pinned else target))))
            if pinned:
                angles.append(float(np.linalg.norm(spatial.so3_log(here[:3, :3].T @ target[:3, :3]))))
        q = Coordinates(self.mech, x[: self.mech.dof])
        return InverseKinematics(q, status, residual, max(distances), max(angles), used)


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


def _pose_rows(state: Kinematics, name: str, target: Array, pinned: bool) -> tuple[Array, Array]:
    """Error of a body's pose, a twist (6,) or a displacement (3,) in its own frame, and its Jacobian."""
    here, jacobian = state.poses[name], state.jacobian(name)
    if not pinned:
        return here[:3, :3].T @ (here[:3, 3] - target), jacobian[:3]
    return -spatial.log(spatial.inverse(here) @ target), jacobian
