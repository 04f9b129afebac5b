"""Checks of a mechanism as a whole: unique names, references between parts, joints that fit the bodies' poses.

Each part (`Body`, `Joint`, ...) checks its own fields.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from supple import spatial
from supple.errors import MechanismError
from supple.mechanism.axes import axis_names
from supple.mechanism.body import WORLD
from supple.mechanism.poses import find

if TYPE_CHECKING:
    from supple.mechanism.mechanism import Mechanism


def check(mech: Mechanism) -> None:
    """Raises a `MechanismError` that names the first fault."""
    if not mech.bodies:
        raise MechanismError(f"'{mech.name}' has no bodies")
    _check_unique((body.name for body in mech.bodies), "bodies")
    _check_unique((joint.name for joint in mech.joints), "joints")
    _check_unique(axis_names(mech), "coordinates")
    _check_unique((mesh.name for mesh in mech.meshes), "meshes")
    _check_unique((*(c.name for c in mech.couplings), *(m.name for m in mech.motors)), "couplings and motors")
    _check_unique((actuator.name for actuator in mech.actuators), "actuators")
    _check_unique((key.name for key in mech.keyframes), "keyframes")
    frames = [WORLD, *(body.name for body in mech.bodies)]
    _check_unique((*frames, *(site.name for site in mech.sites)), "bodies and sites")
    _check_references(mech, frames)
    topology = mech.topology  # raises for bodies that no joint connects to the world
    for key in mech.keyframes:
        if len(key.coordinates) != topology.dof:
            raise MechanismError(
                f"keyframe '{key.name}' has {len(key.coordinates)} coordinates, '{mech.name}' has {topology.dof}"
            )
    _check_tree_joints_fit(mech)


def _check_unique(names: Iterable[str], what: str) -> None:
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise MechanismError(f"two {what} are named '{repeated[0]}'; give each its own name")


def _check_references(mech: Mechanism, frames: list[str]) -> None:
    known = set(frames)
    for joint in mech.joints:
        for body in (joint.parent, joint.child):
            if body not in known:
                find(frames, body, f"body (used by joint '{joint.name}')")
    for site in mech.sites:
        if site.body not in known:
            find(frames, site.body, f"body (used by site '{site.name}')")
    for pair in mech.contact_excludes:
        for body in pair:
            if body not in known:
                find(frames, body, "body (used by a contact exclude)")
    meshes = [mesh.name for mesh in mech.meshes]
    for shape in (*mech.shapes, *(shape for body in mech.bodies for shape in body.shapes)):
        if shape.mesh is not None and shape.mesh not in meshes:
            find(meshes, shape.mesh, f"mesh (used by a shape, {shape.name or 'unnamed'})")
    axes = axis_names(mech)
    for coupling in mech.couplings:
        for axis in coupling.coordinates:
            if axis not in axes:
                find(axes, axis, f"coordinate (used by coupling '{coupling.name}')")
    for motor in mech.motors:
        if motor.coordinate not in axes:
            find(axes, motor.coordinate, f"coordinate (used by motor '{motor.name}')")
    driven = [*axes, *(coupling.name for coupling in mech.couplings if not coupling.rigid)]
    for actuator in mech.actuators:
        if actuator.drives not in driven:
            find(driven, actuator.drives, f"coordinate or spring coupling (driven by actuator '{actuator.name}')")
    _check_unique((motor.coordinate for motor in mech.motors), "motors' coordinates")
    in_rotation_vectors = _rotation_vector_coordinates(mech)
    uses = [(c.name, axis) for c in mech.couplings for axis in c.coordinates]
    uses += [(m.name, m.coordinate) for m in mech.motors] + [(a.name, a.drives) for a in mech.actuators]
    for name, axis in uses:
        if axis in in_rotation_vectors:
            raise MechanismError(
                f"'{name}' acts on '{axis}', a component of a rotation vector, which has no axis of its own; "
                "use a joint with a sequence of single axes instead"
            )


def _rotation_vector_coordinates(mech: Mechanism) -> set[str]:
    """Coordinates that are components of rotation vectors."""
    names: set[str] = set()
    for joint in mech.joints:
        start = 0
        for size in joint.blocks:
            if size == 3:
                names.update(joint.axes[start : start + 3])
            start += size
    return names


def _check_tree_joints_fit(mech: Mechanism) -> None:
    """Raises unless tree joints agree with the bodies' reference poses.

    Loops may be open at the reference pose; the equilibrium closes them.
    """
    joints = [mech.joints[j] for j in mech.topology.tree]
    across = np.empty((len(joints), 4, 4))
    mech.compiled.displacements(mech.reference, across)
    poses = np.concatenate([mech.poses.array, np.eye(4)[None]])  # the last one is the world's, index -1
    parents, children = ([mech.body_index(getattr(joint, end)) for joint in joints] for end in ("parent", "child"))
    expected = poses[parents] @ np.array([joint.pose_parent for joint in joints]) @ across
    gaps = spatial.inverse(expected) @ poses[children] @ np.array([j.pose_child for j in joints]) - np.eye(4)
    sizes = 1.0 + np.abs(poses[children][:, :3, 3]).max(axis=1)
    for joint, gap, fits in zip(joints, gaps, np.abs(gaps).max(axis=(1, 2)) <= 1e-8 * sizes, strict=True):
        if not fits:  # NaN included
            raise MechanismError(
                f"joint '{joint.name}' does not fit the poses of '{joint.parent}' and '{joint.child}': its two frames "
                f"are {np.abs(gap[:3, 3]).max():.3g} m and {np.abs(gap[:3, :3]).max():.3g} rad apart at the "
                "reference coordinates; correct the frames, or build joints with supple.Builder, which places both"
            )
