"""Forward kinematics, Jacobians and the joint-space mass matrix of the spanning tree."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from supple import spatial
from supple.mechanism.mechanism import Mechanism
from supple.mechanism.poses import Poses
from supple.mechanism.record import Array, array


@dataclass(frozen=True)
class Kinematics:
    """The state of a mechanism at coordinates q of its spanning tree. Loops are not closed for you:
    `gaps` says how far they gape."""

    mechanism: Mechanism
    q: Array
    """(dof,) rad and m."""
    poses: Poses
    """World poses of every body."""

    @cached_property
    def screws(self) -> Array:
        """(dof, 6): twist of everything beyond a coordinate, per unit rate, at the world's origin in world axes."""
        mech, topology = self.mechanism, self.mechanism.topology
        screws = np.zeros((topology.dof, 6))
        for b in topology.order:
            j = topology.joint[b]
            joint, columns = mech.joints[j], topology.columns[j]
            frame = self.poses[joint.child] @ joint.pose_child
            sign = -1.0 if topology.reversed[b] else 1.0
            screws[columns] = sign * (spatial.adjoint(frame) @ joint.twist_jacobian(self.q[columns])).T
        return screws

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
        """For each joint that closes a loop, the twist (6,) by which it gapes with its best coordinates."""
        mech = self.mechanism
        return {
            (joint := mech.joints[j]).name: joint.coordinates(displacement_across(self.poses, joint.name))[1]
            for j in mech.topology.loops
        }


def kinematics(mech: Mechanism, q: ArrayLike | None = None) -> Kinematics:
    """Forward kinematics at q (dof,), in the order of `mech.coordinates`; by default the reference."""
    topology = mech.topology
    q = mech.reference if q is None else array(q, (topology.dof,), f"q of '{mech.name}' ({topology.dof} coordinates)")
    poses = np.empty((len(mech.bodies), 4, 4))
    for b in topology.order:
        j = topology.joint[b]
        joint = mech.joints[j]
        across = joint.pose_parent @ joint.displacement(q[topology.columns[j]]) @ spatial.inverse(joint.pose_child)
        if topology.reversed[b]:
            across = spatial.inverse(across)
        p = topology.parent[b]
        poses[b] = across if p < 0 else poses[p] @ across
    return Kinematics(mech, q, Poses(mech, poses))


def displacement_across(poses: Poses, joint_name: str) -> Array:
    """(4, 4) from a joint's frame on its child to its frame on its parent, by the bodies' poses."""
    joint = poses._mechanism.joint(joint_name)
    on_parent = poses[joint.parent] @ joint.pose_parent
    across: Array = spatial.inverse(on_parent) @ poses[joint.child] @ joint.pose_child
    return across


def jacobian(mech: Mechanism, body: str, q: ArrayLike | None = None) -> Array:
    """(6, dof): twist of a body or site, in its own frame (linear then angular), per unit rate of q."""
    return kinematics(mech, q).jacobian(body)


def mass_matrix(mech: Mechanism, q: ArrayLike | None = None) -> Array:
    """(dof, dof) joint-space mass matrix with armature; kg m^2, kg m and kg.

    M_ij = s_i^T I_c s_j with I_c the composite inertia beyond the outer of the two coordinates (the
    composite-rigid-body algorithm). Everything is taken about the mechanism's own centre, so that a
    mechanism far from the origin loses no digits.
    """
    topology = mech.topology
    state = kinematics(mech, q)
    middle = spatial.translation(state.poses.array[:, :3, 3].mean(axis=0))
    to_middle = spatial.adjoint(spatial.inverse(middle))
    screws = state.screws @ to_middle.T

    own = spatial.spatial_inertia(
        np.array([b.mass for b in mech.bodies]),
        np.array([b.centre for b in mech.bodies]),
        np.array([b.inertia for b in mech.bodies]),
    )
    from_middle = spatial.adjoint(spatial.inverse(state.poses.array) @ middle)
    composite = np.swapaxes(from_middle, -1, -2) @ own @ from_middle
    for b in reversed(topology.order):
        if topology.parent[b] >= 0:
            composite[topology.parent[b]] += composite[b]

    body = np.empty(topology.dof, dtype=int)  # the body that each coordinate moves first
    armature = np.zeros((topology.dof, topology.dof))
    for b in topology.order:
        joint, columns = mech.joints[topology.joint[b]], topology.columns[topology.joint[b]]
        body[columns] = b
        speed = joint.increments(state.q[columns])
        armature[columns, columns] = speed.T @ np.diag(joint.armature) @ speed
    momentum = (composite[body] @ screws[:, :, None])[..., 0]
    product = screws @ momentum.T  # [i, j]: momentum of coordinate j's subtree seen by coordinate i
    inward = topology.moves[body].T  # [i, j]: coordinate i moves the body of coordinate j
    half = np.where(inward, product, 0.0)
    both = inward & inward.T
    matrix: Array = np.where(both, half, half + half.T)
    return matrix + armature
