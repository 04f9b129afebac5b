"""Mechanisms placed elsewhere, with another base, or with a payload."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from supple import spatial
from supple.errors import MechanismError, listed
from supple.mechanism.body import WORLD, Body, check_physical
from supple.mechanism.joint import Joint
from supple.mechanism.kinematics import kinematics
from supple.mechanism.mechanism import Mechanism
from supple.mechanism.record import Array, array, checked_pose


def placed(mech: Mechanism, pose: ArrayLike) -> Mechanism:
    """The mechanism, its ground included, moved by `pose` (4, 4): the origin of its world goes there."""
    frame = checked_pose(pose, f"the pose to place '{mech.name}' at")
    return replace(
        mech,
        bodies=tuple(replace(body, pose=frame @ body.pose) for body in mech.bodies),
        joints=tuple(_moved_joint(joint, frame) for joint in mech.joints),
        sites=tuple(replace(s, pose=frame @ s.pose) if s.body == WORLD else s for s in mech.sites),
        shapes=tuple(replace(shape, pose=frame @ shape.pose) for shape in mech.shapes),
        height_fields=tuple(replace(field, pose=frame @ field.pose) for field in mech.height_fields),
    )


def _moved_joint(joint: Joint, frame: Array) -> Joint:
    if joint.parent == WORLD:
        return replace(joint, pose_parent=frame @ joint.pose_parent)
    return replace(joint, pose_child=frame @ joint.pose_child) if joint.child == WORLD else joint


# the base


def base_joint(mech: Mechanism) -> Joint:
    """The one joint between the world and the mechanism; raises if there are several."""
    joints = [joint for joint in mech.joints if WORLD in (joint.parent, joint.child)]
    if len(joints) > 1:
        raise MechanismError(
            f"'{mech.name}' is connected to the world by {len(joints)} joints, {listed([j.name for j in joints])}; "
            "a mechanism whose base can be changed has one. Separate loose objects with mech.split()"
        )
    return joints[0]


def base_body(mech: Mechanism) -> Body:
    """The body that the base joint connects to the world."""
    joint = base_joint(mech)
    return mech.body(joint.child if joint.parent == WORLD else joint.parent)


def with_base(mech: Mechanism, base: str | Joint) -> Mechanism:
    """The mechanism with another joint between the world and its base body: "fixed", "free", or any joint."""
    if not isinstance(base, Joint) and base not in ("fixed", "free"):
        raise MechanismError(f"the base is 'fixed', 'free' or a Joint, got {base!r:.60}")
    old, body = base_joint(mech), base_body(mech)
    if not isinstance(base, Joint):
        new = _standard_base(mech, base, old, body)
    elif (base.parent, base.child) != (WORLD, body.name):
        raise MechanismError(
            f"joint '{base.name}' connects '{base.parent}' to '{base.child}'; the base of '{mech.name}' needs a joint "
            f"from '{WORLD}' to '{body.name}'"
        )
    else:
        new = base
    used = [(c.name, axis) for c in mech.couplings for axis in c.coordinates]
    used += [(motor.name, motor.coordinate) for motor in mech.motors]
    used += [(actuator.name, actuator.drives) for actuator in mech.actuators]
    for name, axis in used:
        if axis in old.axes and axis not in new.axes:
            raise MechanismError(f"'{name}' acts on '{axis}' of the old base of '{mech.name}'; remove it first")
    at_base = new.pose_parent @ new.displacement(new.reference) @ spatial.inverse(new.pose_child)
    moved = placed(mech, at_base @ spatial.inverse(body.pose))
    joints = tuple(new if joint.name == old.name else joint for joint in moved.joints)
    bare = replace(moved, joints=joints, keyframes=())
    keyframes = []
    for key in mech.keyframes:
        state = kinematics(mech, key.coordinates)
        across = spatial.inverse(new.pose_parent) @ state.poses[body.name] @ new.pose_child
        values = dict(zip(mech.coordinates, key.coordinates, strict=True))
        values |= dict(zip(new.axes, new.coordinates(across)[0], strict=True))
        keyframes.append(replace(key, coordinates=np.array([values[name] for name in bare.coordinates])))
    return replace(bare, keyframes=tuple(keyframes))


def _standard_base(mech: Mechanism, base: str, old: Joint, body: Body) -> Joint:
    """A fixed joint where the base body is, or a free joint with the body's world pose as coordinates."""
    taken = {joint.name for joint in mech.joints if joint is not old}
    name = f"{body.name}_{base}"
    while name in taken:
        name += "_base"
    if base == "fixed":
        return Joint(name, WORLD, body.name, body.pose, np.eye(4))
    letters = ("x", "y", "z", "rx", "ry", "rz")
    at = np.concatenate([body.pose[:3, 3], spatial.so3_log(body.pose[:3, :3])])
    axes = tuple(f"{name}.{letter}" for letter in letters)
    return Joint(name, WORLD, body.name, np.eye(4), np.eye(4), np.eye(6), (1, 1, 1, 3), axes=axes, reference=at)


# payload


def with_payload(
    mech: Mechanism, frame: str, mass: float, centre: ArrayLike = (0.0, 0.0, 0.0), inertia: ArrayLike = (0.0,) * 3
) -> Mechanism:
    """The mechanism with a rigid load fixed to a body or site.

    Args:
        frame: name of the body or site.
        mass: kg.
        centre: (3,) centre of mass of the load in that frame, m.
        inertia: (3, 3), or (3,) principal moments, of the load about its centre in the axes of that frame, kg m^2.
    """
    index, pose = mech.frame(frame)
    if index < 0:
        raise MechanismError(f"'{frame}' is fixed to the world; a payload there does nothing")
    body = mech.bodies[index]
    if body.name in {each.reference for each in mech.flexible}:
        raise MechanismError(
            f"'{body.name}' is the reference interface of a flexible body; fix a body with the payload's mass to it "
            "instead (supple.attach)"
        )
    moments = np.diag(array(inertia, (3,), "inertia of the payload")) if np.ndim(inertia) == 1 else inertia
    load = Body("payload", pose, mass, centre, moments)  # type: ignore[arg-type]
    check_physical(load)
    loaded = merged_inertia(body, load)
    bodies = tuple(loaded if b is body else b for b in mech.bodies)
    return replace(mech, bodies=bodies)


def merged_inertia(body: Body, load: Body) -> Body:
    """A body with the mass of another one added, whose `pose` is given in the body's frame."""
    total = body.mass + load.mass
    if total == 0:
        return body
    turn = load.pose[:3, :3]
    at = turn @ load.centre + load.pose[:3, 3]
    centre = (body.mass * body.centre + load.mass * at) / total
    inertia = np.zeros((3, 3))
    for mass, place, own in ((body.mass, body.centre, body.inertia), (load.mass, at, turn @ load.inertia @ turn.T)):
        arm = place - centre
        inertia += own + mass * (arm @ arm * np.eye(3) - np.outer(arm, arm))  # parallel axes
    return replace(body, mass=total, centre=centre, inertia=(inertia + inertia.T) / 2)
