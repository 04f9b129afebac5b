"""The engine's equations written plainly, and states to compare them in."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from scipy.sparse import coo_matrix

from supple import spatial
from supple.engine.assembly import Equations, Load
from supple.engine.linearisation import Linearisation
from supple.mechanism import Mechanism, kinematics, mobility
from supple.mechanism.axes import axis_slices, of_tree
from supple.mechanism.kinematics import displacement_across

Rng = np.random.Generator
ROTATION_VECTORS = ("ball", "bushing", "free")
"""Kinds of joints whose rotations share one exponential."""


def unlimited(mech: Mechanism) -> Mechanism:
    """A copy without limits."""
    return replace(
        mech,
        joints=tuple(replace(j, limits=None) for j in mech.joints),
        couplings=tuple(replace(c, limits=(-np.inf, np.inf)) for c in mech.couplings),
    )


def uncoupled(mech: Mechanism, kinds: Iterable[str]) -> Mechanism:
    """A copy without the couplings and motors that act on joints of these kinds."""
    kinds = tuple(kinds)
    return replace(
        mech,
        couplings=tuple(c for c in mech.couplings if not any(mech.joint(n).kind in kinds for n in c.coordinates)),
        motors=tuple(m for m in mech.motors if mech.joint(m.coordinate).kind not in kinds),
    )


def closed_coordinates(mech: Mechanism, rng: Rng, size: float = 0.4) -> np.ndarray:
    """(axes,) random coordinates of every joint, in the order of `mech.joints`, that close all loops."""
    loops = mech.topology.loops
    start = np.concatenate([mech.reference, *(mech.joints[j].reference for j in loops)])
    while (q := mobility._close_loops(mech, start + rng.uniform(-size, size, len(start)))) is None:
        size /= 2
    return all_coordinates(mech, q)


def all_coordinates(mech: Mechanism, q: np.ndarray) -> np.ndarray:
    """(axes,) in the order of `mech.joints`, from those of the tree and then of the loops."""
    columns, parts = mech.topology.columns, []
    for j in range(len(mech.joints)):
        shift = mech.dof if j in mech.topology.loops else 0
        parts.append(q[columns[j].start + shift : columns[j].stop + shift])
    return np.concatenate([np.zeros(0), *parts])


def dense_tangent(linear: Linearisation) -> np.ndarray:
    """(unknowns, unknowns)"""
    rows, columns, values = linear.core.tangent()
    n = linear.layout.size
    return coo_matrix((values, (rows.astype(int), columns.astype(int))), shape=(n, n)).toarray()


def residual_rows(eqs: Equations) -> np.ndarray:
    """Rows of the unknowns that leave a residual: coordinates, loops, rigid rows."""
    at, places = eqs.layout, np.arange(eqs.layout.size)
    loops = [places[at.multipliers[j]] for j in eqs.mechanism.topology.loops]
    return np.concatenate([at.coordinates, *loops, places[at.rows]])


def load_wrench(load: Load, pose: np.ndarray) -> np.ndarray:
    """(6,) at the world's origin in world axes."""
    rotation = np.eye(3) if load.world else pose[:3, :3]
    force, torque = rotation @ load.wrench[:3], rotation @ load.wrench[3:]
    at = pose[:3, :3] @ load.point + pose[:3, 3]
    return np.concatenate([force, torque + np.cross(at, force)])


def statics_residual(
    eqs: Equations, acting: list[Load], q: np.ndarray, reactions: np.ndarray, mu: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Residual at coordinates q (axes,) with the loops' multipliers (joints, 6) and the rows' mu:
    generalised forces on the coordinates' increments (axes,), minus the loops' gaps (loops, 6), minus the rows'
    errors.

    Virtual work: a coordinate of the tree feels screw . wrench of every body it moves, less its own spring.
    """
    mech, topology = eqs.mechanism, eqs.mechanism.topology
    slices = axis_slices(mech)
    state = kinematics(mech, of_tree(mech, q))

    wrenches = np.zeros((len(mech.bodies), 6))  # at the world's origin, world axes
    for b, body in enumerate(mech.bodies):
        weight = Load(body.name, b, body.centre, np.array([*(body.mass * mech.gravity), 0, 0, 0]), True)
        for load in [weight, *(load for load in acting if load.body == b)]:
            wrenches[b] += load_wrench(load, state.poses[b])
    force, gaps = np.zeros(len(q)), []
    for j in topology.loops:
        joint, part, wrench = mech.joints[j], slices[j], reactions[j]
        displacement = joint.displacement(q[part])
        gaps.append(spatial.log(spatial.inverse(displacement) @ displacement_across(state.poses, joint.name)))
        on_child = state.poses[joint.child] @ joint.pose_child
        on_parent = state.poses[joint.parent] @ joint.pose_parent @ displacement
        # the gradient of wrench . c for a joint with the gap c: one frame is exp(c) away from the other
        by_child = spatial.right_jacobian_inverse(gaps[-1]).T @ wrench
        by_parent = spatial.adjoint(spatial.exp(-gaps[-1])).T @ by_child
        for name, frame, carried in ((joint.child, on_child, -by_child), (joint.parent, on_parent, by_parent)):
            if name != "world":
                wrenches[mech.body_index(name)] += spatial.adjoint(spatial.inverse(frame)).T @ carried
        force[part] += joint.twist_jacobian(q[part]).T @ by_parent

    felt = np.einsum("di,bi,bd->d", state.screws, wrenches, topology.moves)
    for j in topology.tree:
        force[slices[j]] += felt[topology.columns[j]]
    for joint, part in zip(mech.joints, slices, strict=True):
        deflection = q[part] - eqs.rest[part]
        force[part] -= joint.stiffness * deflection
        force[part] -= [0.0 if c is None else float(c(x)) for c, x in zip(joint.curves, deflection, strict=True)]
    errors = []
    for c in mech.couplings:
        where = [eqs.axis[name] for name in c.coordinates]
        stretch = c.coefficients @ q[where] - eqs.targets[c.name]
        if c.rigid:
            errors.append(-stretch)
            force[where] -= c.coefficients * mu[eqs.row[c.name]]
        else:
            force[where] -= c.coefficients * (
                c.stiffness * stretch + (0.0 if c.curve is None else float(c.curve(stretch)))
            )
    for motor in mech.motors:
        errors.append(eqs.targets[motor.name] - q[eqs.axis[motor.coordinate]])
        force[eqs.axis[motor.coordinate]] -= mu[eqs.row[motor.name]]
    for joint, part in zip(mech.joints, slices, strict=True):  # from rates of q to rates of increments
        force[part] = np.linalg.solve(joint.increments(q[part]).T, force[part])
    return force, -np.array(gaps).reshape(-1, 6), np.array(errors)
