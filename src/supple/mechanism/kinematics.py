"""Forward kinematics, Jacobians and the joint-space mass matrix of the spanning tree."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from supple import spatial
from supple.errors import MechanismError
from supple.mechanism.axes import axis_slices, per_axis
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
        rows = np.empty((self.mechanism.dof, 6))
        self.mechanism.compiled.screws(self.q, FURTHEST, rows)
        return rows

    def jacobian(self, body: str) -> Array:
        """(6, dof): twist of a body or site, in its own frame (linear then angular), per unit rate of q."""
        return jacobian(self.mechanism, body, self.q)

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
    poses = np.empty((len(mech.bodies), 4, 4))
    q = _evaluated(mech, q, lambda at: mech.compiled.poses(at, FURTHEST, poses))
    amplitudes = amplitudes_in(mech, _with_loops(mech, q)) if mech.flexible else None
    return Kinematics(mech, Coordinates(mech, q), Poses(mech, poses, amplitudes, False))


def _evaluated(
    mech: Mechanism, q: ArrayLike | Mapping[str, ArrayLike] | None, evaluate: Callable[[Any], bool]
) -> Array:
    """(dof,) coordinates q, with which `evaluate` was called. It returns False for those that the core does not read:
    lists, or what is wrong."""
    q = np.asarray(mech.reference) if q is None else q
    if evaluate(q):
        return q  # type: ignore[return-value]
    q = coordinates_given(mech, q, "q")
    if (far := np.abs(q).max(initial=0)) > FURTHEST:
        raise MechanismError(f"coordinates of '{mech.name}' must be within {FURTHEST:g} rad or m, got {far:g}")
    evaluate(q)
    return q


def _with_loops(mech: Mechanism, q: Array) -> Array:
    """(axes,) coordinates of all joints: q (dof,) of the spanning tree, and the reference of those that close loops."""
    result, slices = per_axis(mech, "reference"), axis_slices(mech)
    for j in mech.topology.tree:
        result[slices[j]] = q[mech.topology.columns[j]]
    return result


def displacement_across(poses: Poses, joint_name: str) -> Array:
    """(4, 4) from a joint's frame on its child to its frame on its parent, computed from the bodies' poses."""
    joint = poses.mechanism.joint(joint_name)
    on_parent = poses[joint.parent] @ joint.pose_parent
    across: Array = spatial.inverse(on_parent) @ poses[joint.child] @ joint.pose_child
    return across


def jacobian(mech: Mechanism, body: str, q: ArrayLike | Mapping[str, ArrayLike] | None = None) -> Array:
    """(6, dof): twist of a body or site, in its own frame (linear then angular), per unit rate of q."""
    check_mechanism(mech)
    index, pose_body_frame = mech.frame(body)
    rows = np.empty((6, mech.dof))
    _evaluated(mech, q, lambda at: mech.compiled.jacobian(at, FURTHEST, index, pose_body_frame, rows))
    return rows


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
    outer of the two coordinates moves (composite-rigid-body algorithm).
    """
    check_mechanism(mech)
    if mech.flexible:
        return _flexible_mass_matrix(mech, kinematics(mech, q))
    matrix = np.empty((mech.dof, mech.dof))
    _evaluated(mech, q, lambda at: mech.compiled.mass_matrix(at, FURTHEST, matrix))
    return matrix


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
