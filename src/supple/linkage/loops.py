"""Loops of a mechanism, cut at one joint each and closed by penalty forces, as the paper proposes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from supple import spatial
from supple.mechanism import Joint, Mechanism
from supple.mechanism.kinematics import inertias
from supple.mechanism.record import Array

CLOSED_PER_STEP = 0.5
"""Fraction of a gap that one step closes if nothing else acts."""


class LoopClosures:
    """Penalty forces in place of the joints that close loops.

    A gap xi (6,), a twist in the joint's frame on the child, causes the wrench -(2 CLOSED_PER_STEP / dt^2) N xi. N is
    the relative inertia of the two bodies alone in the joint's constrained directions. Connected to the rest of the
    mechanism the bodies are harder to move, so a step closes at most this fraction and cannot overshoot.
    """

    def __init__(self, mech: Mechanism) -> None:
        self._mechanism = mech
        self._joints = [mech.joints[j] for j in mech.topology.loops]
        self._q = [joint.reference for joint in self._joints]
        self._inertia = inertias(mech)

    @property
    def any(self) -> bool:
        return bool(self._joints)

    def penalty_forces(self, poses: Sequence[Array], dt: float) -> tuple[float, list[tuple[Any, int, Array]]]:
        """Largest gap (m and rad), and wrenches (6,) on bodies in their own frames: (key, body, wrench)."""
        gaps, wrenches = [0.0], []
        for i, joint in enumerate(self._joints):
            frames = list(self._frames(joint, poses))
            across = spatial.inverse(frames[0][1]) @ frames[1][1]
            self._q[i], gap = _nearest(joint, across, self._q[i])
            gaps.append(float(np.abs(gap).max()))
            wrench = self._wrench_on_child(joint, self._q[i], gap, frames, dt)
            for end, (body, frame) in enumerate(frames):
                if body < 0:
                    continue
                to_body = spatial.inverse(frames[1][1]) @ frame @ spatial.inverse(self._joint_frame(joint, end))
                sign = 1.0 if end == 1 else -1.0
                wrenches.append(((joint.name, end), body, sign * spatial.transform_wrench(to_body, wrench)))
        return max(gaps), wrenches

    def _frames(self, joint: Joint, poses: Sequence[Array]) -> Iterator[tuple[int, Array]]:
        for end, name in enumerate((joint.parent, joint.child)):
            body = self._mechanism.body_index(name)
            yield body, (poses[body] if body >= 0 else np.eye(4)) @ self._joint_frame(joint, end)

    @staticmethod
    def _joint_frame(joint: Joint, end: int) -> Array:
        return joint.pose_child if end == 1 else joint.pose_parent

    def _wrench_on_child(self, joint: Joint, q: Array, gap: Array, frames: list[tuple[int, Array]], dt: float) -> Array:
        """Wrench on the child in the joint's frame: penalty in the constrained directions, spring forces along the
        axes."""
        inverse = np.zeros((6, 6))
        for end, (body, frame) in enumerate(frames):
            if body >= 0:
                there = spatial.inverse(frames[1][1]) @ frame @ spatial.inverse(self._joint_frame(joint, end))
                to_joint = spatial.adjoint(there)  # from the body's frame to the joint's on the child
                inverse += to_joint @ np.linalg.inv(self._inertia[body]) @ to_joint.T
        inertia = np.linalg.inv(inverse)
        free = joint.twist_jacobian(q)
        if free.size:  # W of eq. 2: no force along the joint's axes
            along = inertia @ free
            hold = along @ np.linalg.pinv(free.T @ along)
            inertia = inertia - hold @ along.T
            pull = joint.stiffness * (q - joint.rest)
            pull += [0.0 if c is None else float(c(x - r)) for c, x, r in zip(joint.curves, q, joint.rest, strict=True)]
        wrench: Array = -(2 * CLOSED_PER_STEP / dt**2) * inertia @ gap
        if free.size:
            wrench -= hold @ pull
        return wrench


def _nearest(joint: Joint, across: Array, q: Array) -> tuple[Array, Array]:
    """Coordinates (k,) whose displacement is closest to a pose (4, 4), and the remaining twist (6,). Two Gauss-Newton
    iterations suffice, since a step moves little (`Joint.coordinates` iterates to rounding)."""
    for _ in range(2 if len(q) else 0):
        left = spatial.log(spatial.inverse(joint.displacement(q)) @ across)
        q = q + np.linalg.lstsq(joint.twist_jacobian(q), left, rcond=None)[0]
    gap: Array = spatial.log(spatial.inverse(joint.displacement(q)) @ across)
    return q, gap
