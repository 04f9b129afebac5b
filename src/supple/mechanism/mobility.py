"""Mobility of a mechanism, and the coordinates that nothing holds."""

from __future__ import annotations

import numpy as np

from supple.mechanism.axes import axis_slices
from supple.mechanism.idle import idle_spins, spin_increments
from supple.mechanism.kinematics import Kinematics, displacement_across, kinematics
from supple.mechanism.mechanism import Mechanism
from supple.mechanism.record import Array

RANK_TOLERANCE = 1e-6
"""Singular values of the scaled constraints below this, relative to the largest, count as zero."""


def mobility(mech: Mechanism) -> int:
    """Dimension of the null space of the constraint Jacobian at a generic pose."""
    if not mech.topology.loops and not any(c.rigid for c in mech.couplings):
        return mech.dof
    return min(int(_null_space(constraints(mech, q)[1]).shape[1]) for q in _generic_poses(mech))


def unheld(mech: Mechanism) -> tuple[str, ...]:
    """Coordinates that take part in a motion that no spring, motor or constraint resists, at a generic pose."""
    names = (*mech.coordinates, *mech.loop_coordinates)
    holding = _holding_rows(mech)
    on_one_coordinate = np.count_nonzero(holding, axis=1) == 1
    without_own_spring = ~holding[on_one_coordinate].any(axis=0)  # a coordinate with its own spring or motor is held
    if not without_own_spring.any():
        return ()
    fewest_motions: Array | None = None
    for q in _generic_poses(mech):
        rows = np.vstack([constraints(mech, q)[1], holding[~on_one_coordinate]])
        motions = _null_space(rows[:, without_own_spring], least=1.0)
        motions = _without_spins(motions, _spin_rates(mech, q)[:, without_own_spring])
        if fewest_motions is None or motions.shape[1] < fewest_motions.shape[1]:
            fewest_motions = motions
    assert fewest_motions is not None
    moving = np.abs(fewest_motions).max(axis=1, initial=0.0) > 1e-6
    return tuple(names[i] for i in np.flatnonzero(without_own_spring)[moving])


def _spin_rates(mech: Mechanism, q: Array) -> Array:
    """(spins, n): rates of the coordinates in idle spins, in the order of q (n,): tree, then loop joints."""
    spins = idle_spins(mech)
    if not spins:
        return np.zeros((0, len(q)))
    state = kinematics(mech, q[: mech.dof])
    increments = spin_increments(mech, spins, state.poses)
    rates, slices = np.zeros((len(spins), len(q))), axis_slices(mech)
    for j, columns in mech.topology.columns.items():
        start = mech.dof if j in mech.topology.loops else 0
        places = slice(start + columns.start, start + columns.stop)
        own = mech.joints[j].increments(q[places])
        rates[:, places] = np.linalg.solve(own, increments[:, slices[j]].T).T
    return rates


def _without_spins(motions: Array, spins: Array) -> Array:
    """(n, m): the motions (n, k), a basis of a null space, that are perpendicular to the spins (s, n)."""
    return motions @ _null_space(spins @ motions) if len(spins) else motions


def all_coordinates(state: Kinematics) -> Array:
    """(n,) coordinates of the tree, then those of the loop joints that fit the bodies' poses best."""
    mech = state.mechanism
    loops = [mech.joints[j] for j in mech.topology.loops]
    fitted = [joint.coordinates(displacement_across(state.poses, joint.name))[0] for joint in loops]
    return np.concatenate([state.q, *fitted])


def constraints(mech: Mechanism, q: Array) -> tuple[Array, Array]:
    """Violation (m,) and Jacobian (m, n) of loop closures and rigid couplings.

    q (n,) has the coordinates of the tree, then those of the loop joints. A loop joint contributes the six rows
    log(X(q)^-1 X_bodies), where X_bodies is the displacement across the joint computed from the bodies' poses and
    lengths are divided by the mechanism's radius. The Jacobian is exact where the joint is closed.
    """
    found: tuple[Array, Array] = mech.compiled.constraints(np.ascontiguousarray(q, np.float64), mech.radius or 1.0)
    return found


def _holding_rows(mech: Mechanism) -> Array:
    """(m, n) one unit row for each spring or motor: the combination of coordinates that it resists."""
    names = (*mech.coordinates, *mech.loop_coordinates)
    rows = []
    for joint in mech.joints:
        for name, stiffness, curve in zip(joint.axes, joint.stiffness, joint.curves, strict=True):
            if stiffness > 0 or curve is not None or joint.interface is not None:
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
    """Random configurations near the reference pose with all loops closed, without its special alignments."""
    start = np.concatenate([mech.reference, *(mech.joints[j].reference for j in mech.topology.loops)])
    rng = np.random.default_rng(0)
    poses = []
    for _ in range(count):
        size = 0.3
        while True:
            motions = _null_space(constraints(mech, start)[1])
            q = _close_loops(mech, start + size * motions @ rng.standard_normal(motions.shape[1]))
            if q is not None:
                poses.append(q)
                break
            size /= 2
            if size < 1e-3:  # no closed configuration found near the reference: take the reference itself
                poses.append(start)
                break
    return poses


def _close_loops(mech: Mechanism, q: Array) -> Array | None:
    """Closes the loops by Newton's method with least-norm corrections; None if it does not converge."""
    for _ in range(60):
        violation, rows = constraints(mech, q)
        if np.abs(violation).max(initial=0.0) < 1e-11:
            return q
        step = np.linalg.lstsq(rows, -violation, rcond=1e-9)[0]
        q = q + step * min(1.0, 0.5 / max(np.abs(step).max(), 1e-300))
    return None


def _null_space(rows: Array, least: float = 1e-300) -> Array:
    """(n, k) orthonormal basis of the null space; `least` is the smallest size that the largest singular value may
    be taken to have."""
    if not len(rows):
        return np.eye(rows.shape[1])
    _, values, basis = np.linalg.svd(rows)
    rank = int((values > RANK_TOLERANCE * max(values.max(initial=0.0), least)).sum())
    null: Array = basis[rank:].T
    return null
