"""Forward kinematics, Jacobians and the joint-space mass matrix of the spanning tree."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from supple import spatial
from supple.errors import MechanismError
from supple.mechanism.axes import axis_slices, per_axis
from supple.mechanism.joint import Joint
from supple.mechanism.mechanism import Mechanism, check_mechanism
from supple.mechanism.named import Coordinates
from supple.mechanism.notebook import brief
from supple.mechanism.poses import Poses, amplitudes_in
from supple.mechanism.record import Array
from supple.mechanism.values import coordinates_given

FURTHEST = 1e9
"""Largest magnitude of a coordinate, rad or m."""


@dataclass(frozen=True)
class Kinematics:
    """The configuration of a mechanism at coordinates q of its spanning tree. Loops need not be closed there; `gaps`
    measures them."""

    __repr__ = brief

    mechanism: Mechanism
    q: Coordinates
    """(dof,) rad and m, also by name."""
    poses: Poses
    """World poses of every body."""

    @cached_property
    def screws(self) -> Array:
        """(dof, 6): twist of the bodies that a coordinate moves, per unit rate, at the world's origin in world axes."""
        topology = self.mechanism.topology
        return screws(self.mechanism, self.poses, {j: self.q[topology.columns[j]] for j in topology.tree})

    def jacobian(self, body: str) -> Array:
        """(6, dof): twist of a body or site, in its own frame (linear then angular), per unit rate of q."""
        index, _ = self.mechanism.frame(body)
        if index < 0:
            return np.zeros((6, self.mechanism.dof))
        to_frame = spatial.adjoint(spatial.inverse(self.poses[body]))
        columns: Array = to_frame @ (self.screws * self.mechanism.topology.moves[index][:, None]).T
        return columns

    @cached_property
    def gaps(self) -> dict[str, Array]:
        """For each joint that closes a loop, its gap as a twist (6,), at the joint coordinates that fit best."""
        mech = self.mechanism
        return {
            (joint := mech.joints[j]).name: joint.coordinates(displacement_across(self.poses, joint.name))[1]
            for j in mech.topology.loops
        }


def kinematics(mech: Mechanism, q: ArrayLike | Mapping[str, ArrayLike] | None = None) -> Kinematics:
    """Forward kinematics at q: (dof,) in the order of `mech.coordinates`, or {joint or coordinate: value} with the
    reference pose for the others; by default the reference pose."""
    check_mechanism(mech)
    topology = mech.topology
    q = coordinates_given(mech, q, "q")
    if (far := np.abs(q).max(initial=0)) > FURTHEST:
        raise MechanismError(f"coordinates of '{mech.name}' must be within {FURTHEST:g} rad or m, got {far:g}")
    transforms = _joint_transforms(mech, [q[topology.columns[j]] for j in topology.tree])
    poses = np.empty((len(mech.bodies), 4, 4))
    for b in topology.order:
        p, transform = topology.parent[b], transforms[topology.joint[b]]
        poses[b] = transform if p < 0 else poses[p] @ transform
    amplitudes = amplitudes_in(mech, _with_loops(mech, q)) if mech.flexible else None
    return Kinematics(mech, Coordinates(mech, q, copy=False), Poses(mech, poses, amplitudes))


def _with_loops(mech: Mechanism, q: Array) -> Array:
    """(axes,) coordinates of all joints: q (dof,) of the spanning tree, and the reference of those that close loops."""
    result, slices = per_axis(mech, "reference"), axis_slices(mech)
    for j in mech.topology.tree:
        result[slices[j]] = q[mech.topology.columns[j]]
    return result


def _joint_transforms(mech: Mechanism, coordinates: Sequence[Array]) -> dict[int, Array]:
    """For each tree joint, the (4, 4) pose of its outer body in its inner one."""
    topology, joints = mech.topology, [mech.joints[j] for j in mech.topology.tree]
    if not joints:
        return {}
    across = displacements(joints, coordinates)
    inner, outer = np.array([joint.pose_parent for joint in joints]), np.array([joint.pose_child for joint in joints])
    transforms = inner @ across @ spatial.inverse(outer)
    reversed_joints = {int(topology.joint[b]) for b in np.flatnonzero(topology.reversed)}
    by_joint = zip(topology.tree, transforms, strict=True)
    return {j: spatial.inverse(pose) if j in reversed_joints else pose for j, pose in by_joint}


def displacements(joints: Sequence[Joint], coordinates: Sequence[Array]) -> Array:
    """(joints, 4, 4): X(q) of each joint at its coordinates."""
    single = [i for i, joint in enumerate(joints) if joint.blocks == (1,) and joint.interface is None]
    result = np.empty((len(joints), 4, 4))
    if single:  # most joints have one axis: compute these together
        turns = np.array([coordinates[i] for i in single]) * np.array([joints[i].twists[0] for i in single])
        result[single] = spatial.exp(turns)
    for i in set(range(len(joints))).difference(single):
        result[i] = joints[i].displacement(coordinates[i])
    return result


def screws(mech: Mechanism, poses: Poses, coordinates: Mapping[int, Array]) -> Array:
    """(dof, 6): twist of the bodies that a coordinate of the tree moves, per unit rate, at the world's origin in
    world axes.

    `coordinates` has the coordinates of every joint of the tree, by the joint's index.
    """
    topology = mech.topology
    signs = {int(topology.joint[b]): -1.0 if topology.reversed[b] else 1.0 for b in topology.order}
    result = np.zeros((topology.dof, 6))
    moving = [j for j in topology.tree if mech.joints[j].axes]
    if not moving:
        return result
    joints = [mech.joints[j] for j in moving]
    frames = np.array([poses.of(joint.child) for joint in joints]) @ np.array([joint.pose_child for joint in joints])
    adjoints = spatial.adjoint(frames)
    for j, joint, to_world in zip(moving, joints, adjoints, strict=True):
        own = joint.twists.T if joint.blocks == (1,) else joint.twist_jacobian(coordinates[j])
        result[topology.columns[j]] = signs[j] * (to_world @ own).T
    return result


def displacement_across(poses: Poses, joint_name: str) -> Array:
    """(4, 4) from a joint's frame on its child to its frame on its parent, computed from the bodies' poses."""
    joint = poses.mechanism.joint(joint_name)
    on_parent = poses[joint.parent] @ joint.pose_parent
    across: Array = spatial.inverse(on_parent) @ poses[joint.child] @ joint.pose_child
    return across


def jacobian(mech: Mechanism, body: str, q: ArrayLike | Mapping[str, ArrayLike] | None = None) -> Array:
    """(6, dof): twist of a body or site, in its own frame (linear then angular), per unit rate of q."""
    return kinematics(mech, q).jacobian(body)


def inertias(mech: Mechanism) -> Array:
    """(bodies, 6, 6) spatial inertias about the bodies' origins, in their own axes; kg, kg m and kg m^2."""
    inertia: Array = spatial.spatial_inertia(
        np.array([b.mass for b in mech.bodies]),
        np.array([b.centre for b in mech.bodies]),
        np.array([b.inertia for b in mech.bodies]),
    )
    return inertia


def mass_matrix(mech: Mechanism, q: ArrayLike | Mapping[str, ArrayLike] | None = None) -> Array:
    """(dof, dof) joint-space mass matrix with armature; kg m^2, kg m and kg.

    M_ij = s_i^T I_c s_j, where s_i is the screw of coordinate i and I_c the composite inertia of the bodies that the
    outer of the two coordinates moves (composite-rigid-body algorithm). All quantities are about the mean of the
    bodies' origins, so that a mechanism far from the world's origin loses no digits.
    """
    state = kinematics(mech, q)
    topology = mech.topology
    if mech.flexible:
        return _flexible_mass_matrix(mech, state)
    middle = spatial.translation(state.poses.array[:, :3, 3].mean(axis=0))
    to_middle = spatial.adjoint(spatial.inverse(middle))
    screws = state.screws @ to_middle.T

    from_middle = spatial.adjoint(spatial.inverse(state.poses.array) @ middle)
    composite = np.swapaxes(from_middle, -1, -2) @ inertias(mech) @ from_middle
    for b in reversed(topology.order):
        if topology.parent[b] >= 0:
            composite[topology.parent[b]] += composite[b]

    first_body = np.empty(topology.dof, dtype=int)  # the body that each coordinate moves first
    armature = np.zeros((topology.dof, topology.dof))
    for b in topology.order:
        joint, columns = mech.joints[topology.joint[b]], topology.columns[topology.joint[b]]
        first_body[columns] = b
        speed = joint.increments(state.q[columns])
        armature[columns, columns] = speed.T @ np.diag(joint.armature) @ speed
    momentum = (composite[first_body] @ screws[:, :, None])[..., 0]
    product = screws @ momentum.T  # [i, j]: momentum of coordinate j's subtree seen by coordinate i
    carries = topology.moves[first_body].T  # [i, j]: coordinate i moves the body of coordinate j
    one_sided = np.where(carries, product, 0.0)
    same_joint = carries & carries.T
    matrix: Array = np.where(same_joint, one_sided, one_sided + one_sided.T)
    return matrix + armature


def _flexible_mass_matrix(mech: Mechanism, state: Kinematics) -> Array:
    """The mass matrix of a mechanism with flexible bodies, from the Jacobians of all bodies."""
    from supple.mechanism.axes import axis_slices
    from supple.mechanism.projected import projected_mass

    twists = np.array([state.jacobian(body.name) for body in mech.bodies])
    slices = axis_slices(mech)
    increments, coordinates = np.zeros((slices[-1].stop, mech.dof)), np.zeros(slices[-1].stop)
    for j in mech.topology.tree:
        columns = mech.topology.columns[j]
        coordinates[slices[j]] = state.q[columns]
        increments[slices[j], columns] = mech.joints[j].increments(state.q[columns])
    return projected_mass(mech, twists, increments, coordinates)
