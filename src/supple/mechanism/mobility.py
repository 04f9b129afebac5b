"""How many ways a mechanism can move, and which of them nothing holds."""

from __future__ import annotations

import numpy as np

from supple import spatial
from supple.mechanism.kinematics import displacement_across, kinematics
from supple.mechanism.mechanism import Mechanism
from supple.mechanism.record import Array

RANK_TOLERANCE = 1e-6
"""Singular values of the scaled constraints below this, relative to the largest, count as zero."""


def mobility(mech: Mechanism) -> int:
    """Dimension of the constraints' null space at a generic pose."""
    if not mech.topology.loops and not any(c.rigid for c in mech.couplings):
        return mech.dof
    return min(int(_null_space(constraints(mech, q)[1]).shape[1]) for q in _generic_poses(mech))


def unheld(mech: Mechanism) -> tuple[str, ...]:
    """Coordinates that move in some motion which no spring, motor or constraint resists, at a generic pose."""
    names = (*mech.coordinates, *mech.loop_coordinates)
    held = _held(mech)
    alone = np.count_nonzero(held, axis=1) == 1
    loose = ~held[alone].any(axis=0)  # what has a spring or motor of its own does not move
    if not loose.any():
        return ()
    free: Array | None = None
    for q in _generic_poses(mech):
        rows = np.vstack([constraints(mech, q)[1], held[~alone]])
        motions = _null_space(rows[:, loose], least=1.0)
        if free is None or motions.shape[1] < free.shape[1]:
            free = motions
    assert free is not None
    moving = np.abs(free).max(axis=1, initial=0.0) > 1e-6
    return tuple(names[i] for i in np.flatnonzero(loose)[moving])


def constraints(mech: Mechanism, q: Array) -> tuple[Array, Array]:
    """Violation (m,) and Jacobian (m, n) of loop closures and rigid couplings.

    q (n,) holds the coordinates of the tree, then those of the loop joints. A loop joint contributes the six
    rows log(X(q)^-1 X_bodies), lengths divided by the mechanism's radius; the Jacobian is that of a closed
    joint, where the log vanishes.
    """
    dof, names = mech.dof, (*mech.coordinates, *mech.loop_coordinates)
    state = kinematics(mech, q[:dof])
    scale = np.array([1 / (mech.radius or 1.0)] * 3 + [1.0] * 3)
    values, rows = [np.zeros(0)], [np.zeros((0, len(names)))]
    for j in mech.topology.loops:
        joint, own = mech.joints[j], mech.topology.columns[j]
        own = slice(dof + own.start, dof + own.stop)
        across = displacement_across(state.poses, joint.name)
        values.append(scale * spatial.log(spatial.inverse(joint.displacement(q[own])) @ across))
        row = np.zeros((6, len(names)))
        to_joint = spatial.adjoint(spatial.inverse(state.poses[joint.child] @ joint.pose_child))
        for name, sign in ((joint.child, 1.0), (joint.parent, -1.0)):
            b = mech.body_index(name)
            if b >= 0:
                row[:, :dof] += sign * to_joint @ (state.screws * mech.topology.moves[b][:, None]).T
        row[:, own] -= joint.twist_jacobian(q[own])
        rows.append(scale[:, None] * row)
    for coupling in mech.couplings:
        if coupling.rigid:
            row = np.zeros((1, len(names)))
            row[0, [names.index(n) for n in coupling.coordinates]] = coupling.coefficients
            values.append(row @ q - coupling.rest)
            rows.append(row)
    return np.concatenate(values), np.vstack(rows)


def _held(mech: Mechanism) -> Array:
    """Rows of unit size for what springs and motors resist."""
    names = (*mech.coordinates, *mech.loop_coordinates)
    rows = []
    for joint in mech.joints:
        for name, stiffness, curve in zip(joint.axes, joint.stiffness, joint.curves, strict=True):
            if stiffness > 0 or curve is not None:
                rows.append({name: 1.0})
    rows += [{motor.coordinate: 1.0} for motor in mech.motors]
    for c in mech.couplings:
        if not c.rigid and (c.stiffness > 0 or c.curve is not None):
            rows.append(dict(zip(c.coordinates, c.coefficients / np.linalg.norm(c.coefficients), strict=True)))
    matrix = np.zeros((len(rows), len(names)))
    for i, row in enumerate(rows):
        for name, value in row.items():
            matrix[i, names.index(name)] = value
    return matrix


def _generic_poses(mech: Mechanism, count: int = 3) -> list[Array]:
    """Configurations near the reference that close all loops but share none of its special alignments."""
    start = np.concatenate([mech.reference, *(mech.joints[j].reference for j in mech.topology.loops)])
    rng = np.random.default_rng(0)
    poses = []
    for _ in range(count):
        size = 0.3
        while True:
            free = _null_space(constraints(mech, start)[1])
            q = _close(mech, start + size * free @ rng.standard_normal(free.shape[1]))
            if q is not None:
                poses.append(q)
                break
            size /= 2
            if size < 1e-3:  # cannot be moved off the reference: take that itself
                poses.append(start)
                break
    return poses


def _close(mech: Mechanism, q: Array) -> Array | None:
    """Newton's method with least-norm steps onto the closed loops; None if it does not get there."""
    for _ in range(60):
        violation, rows = constraints(mech, q)
        if np.abs(violation).max(initial=0.0) < 1e-11:
            return q
        step = np.linalg.lstsq(rows, -violation, rcond=1e-9)[0]
        q = q + step * min(1.0, 0.5 / max(np.abs(step).max(), 1e-300))
    return None


def _null_space(rows: Array, least: float = 1e-300) -> Array:
    """(n, k) orthonormal basis of the null space; `least` the size that rows are expected to have."""
    if not len(rows):
        return np.eye(rows.shape[1])
    _, values, basis = np.linalg.svd(rows)
    rank = int((values > RANK_TOLERANCE * max(values.max(initial=0.0), least)).sum())
    null: Array = basis[rank:].T
    return null
