"""Idle spins: a rod between two ball joints can turn about itself, which moves nothing else and meets no resistance."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from supple.mechanism.axes import axis_slices
from supple.mechanism.body import WORLD
from supple.mechanism.joint import Joint
from supple.mechanism.mechanism import Mechanism
from supple.mechanism.poses import Poses
from supple.mechanism.record import Array

ON_AXIS = 1e-6
"""Largest distance of the centre of mass from the axis, over the rod's length."""


@dataclass(frozen=True)
class IdleSpin:
    """A body that two ball joints without springs hold, with its centre of mass on the line between them."""

    body: str
    joints: tuple[int, int]
    """Indices of the two joints."""
    axis: Array
    """(3,) unit vector from the first to the second, in the body's frame."""


def idle_spins(mech: Mechanism, loaded: Collection[str] = ()) -> tuple[IdleSpin, ...]:
    """The idle spins of a mechanism. Bodies that `loaded` names, or on which it names a site, are left out: a load on
    them may turn them."""
    joints_of: dict[str, list[int]] = {}
    for i, joint in enumerate(mech.joints):
        for name in (joint.parent, joint.child):
            joints_of.setdefault(name, []).append(i)
    held = {mech.bodies[b].name for name in loaded if (b := mech.frame(name)[0]) >= 0}
    spins = []
    for body in mech.bodies:
        ends = joints_of.get(body.name, [])
        if len(ends) != 2 or body.name in held or not all(_is_loose_ball(mech.joints[i]) for i in ends):
            continue
        first, second = (_centre_on(mech.joints[i], body.name) for i in ends)
        length = float(np.linalg.norm(second - first))
        if length <= 1e-9 * (mech.radius or 1.0):
            continue
        axis = (second - first) / length
        away = np.cross(body.centre - first, axis) if body.mass > 0 else np.zeros(3)
        if np.linalg.norm(away) <= ON_AXIS * length:
            spins.append(IdleSpin(body.name, (ends[0], ends[1]), axis))
    return tuple(spins)


def _is_loose_ball(joint: Joint) -> bool:
    return joint.kind == "ball" and not joint.stiffness.any() and not any(c is not None for c in joint.curves)


def _centre_on(joint: Joint, body: str) -> Array:
    """(3,) centre of a ball joint in the frame of one of its bodies."""
    frame: Array = joint.pose_parent if joint.parent == body else joint.pose_child
    return frame[:3, 3]


def spin_increments(mech: Mechanism, spins: Collection[IdleSpin], poses: Poses) -> Array:
    """(spins, axes): increments of all coordinates, in the order of `mech.joints`, for a unit rate of each spin.

    A ball joint's increment is the angular velocity of its child relative to its parent, in the joint's frame on the
    child.
    """
    slices = axis_slices(mech)
    result = np.zeros((len(spins), slices[-1].stop if slices else 0))
    for row, spin in zip(result, spins, strict=True):
        turning = poses[spin.body][:3, :3] @ spin.axis  # in world axes
        for i in spin.joints:
            joint = mech.joints[i]
            child = np.eye(4) if joint.child == WORLD else poses[joint.child]
            in_joint = (child @ joint.pose_child)[:3, :3].T @ turning
            row[slices[i]] = joint.twists[:, 3:] @ in_joint * (1.0 if joint.child == spin.body else -1.0)
    return result
