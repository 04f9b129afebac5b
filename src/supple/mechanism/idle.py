"""Idle spins: a rod between two ball joints can turn about itself, which moves nothing else and meets no resistance.
So can a leg whose parts slide along the line between the joints."""

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

ON_AXIS = 1e-3
"""Largest distance of the centre of mass from the axis, over the rod's length; descriptions have rounded numbers."""


@dataclass(frozen=True)
class IdleSpin:
    """Bodies that two ball joints without springs hold, with their centres of mass on the line between them. Several
    bodies are a leg whose parts slide along this line, or are welded."""

    bodies: tuple[str, ...]
    joints: tuple[int, int]
    """Indices of the two ball joints; the first one holds the first body."""
    axis: Array
    """(3,) unit vector from the first to the second, in the first body's frame."""

    @property
    def body(self) -> str:
        return self.bodies[0]


def idle_spins(mech: Mechanism, loaded: Collection[str] = ()) -> tuple[IdleSpin, ...]:
    """The idle spins of a mechanism. Bodies that `loaded` names, or on which it names a site, are left out: a load on
    them may turn them."""
    joints_of: dict[str, list[int]] = {}
    for i, joint in enumerate(mech.joints):
        for name in (joint.parent, joint.child):
            joints_of.setdefault(name, []).append(i)
    held = {mech.bodies[b].name for name in loaded if (b := mech.frame(name)[0]) >= 0}
    spins: list[IdleSpin] = []
    for body in mech.bodies:
        if any(body.name in spin.bodies for spin in spins):
            continue
        for start in joints_of.get(body.name, ()):
            leg = _leg(mech, joints_of, body.name, start) if _is_loose_ball(mech.joints[start]) else None
            if leg is None or held.intersection(leg[0]):
                continue
            names, within, end = leg
            axis = _spin_axis(mech, names, within, (start, end))
            if axis is not None:
                spins.append(IdleSpin(names, (start, end), axis))
                break
    return tuple(spins)


def _leg(
    mech: Mechanism, joints_of: dict[str, list[int]], body: str, start: int
) -> tuple[tuple[str, ...], list[int], int] | None:
    """Bodies from one loose ball joint to another, the slides and welds between them, and the second ball joint; None
    if something else is joined to them."""
    names, last = [body], start
    within: list[int] = []
    while True:
        ends = joints_of[names[-1]]
        if len(ends) != 2 or last not in ends:
            return None
        last = ends[0] if ends[1] == last else ends[1]
        joint = mech.joints[last]
        if _is_loose_ball(joint):
            return tuple(names), within, last
        following = joint.parent if joint.child == names[-1] else joint.child
        if joint.kind not in ("slide", "fixed") or following == WORLD or following in names:
            return None
        within.append(last)
        names.append(following)


def _spin_axis(mech: Mechanism, names: tuple[str, ...], within: list[int], ends: tuple[int, int]) -> Array | None:
    """(3,) axis in the first body's frame; None if slides or centres of mass are not along it."""
    poses = {name: mech.body(name).pose for name in names}
    first, second = (
        poses[name] @ [*_centre_on(mech.joints[i], name), 1.0]
        for i, name in zip(ends, (names[0], names[-1]), strict=True)
    )
    line = (second - first)[:3]
    length = float(np.linalg.norm(line))
    if length <= 1e-9 * (mech.radius or 1.0):
        return None
    axis = line / length
    for name in names:
        body = mech.body(name)
        away = np.cross((poses[name] @ [*body.centre, 1.0] - first)[:3], axis) if body.mass > 0 else np.zeros(3)
        if np.linalg.norm(away) > ON_AXIS * length:
            return None
    for i in within:
        joint = mech.joints[i]
        frame = poses[joint.child] @ joint.pose_child
        if joint.kind == "slide" and np.linalg.norm(np.cross(frame[:3, :3] @ joint.twists[0, :3], axis)) > ON_AXIS:
            return None
    in_body: Array = poses[names[0]][:3, :3].T @ axis
    return in_body


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
            row[slices[i]] = joint.twists[:, 3:] @ in_joint * (1.0 if joint.child in spin.bodies else -1.0)
    return result
