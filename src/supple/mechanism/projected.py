"""Mass and damping of a mechanism restricted to a few motions: Phi^T M Phi and Phi^T D Phi."""

from __future__ import annotations

import numpy as np

from supple.mechanism import flexible
from supple.mechanism.axes import axis_names, per_axis
from supple.mechanism.kinematics import inertias
from supple.mechanism.mechanism import Mechanism
from supple.mechanism.record import Array


def projected_mass(mech: Mechanism, twists: Array, increments: Array, q: Array) -> Array:
    """(m, m) mass matrix of m motions: Phi^T M Phi, armature included.

    Arguments:
        twists: (bodies, 6, m), twist of every body in its own frame, per unit of each motion.
        increments: (axes, m), increments of every joint's coordinates, per unit of each motion.
        q: (axes,), coordinates of every joint; the mass of a flexible body depends on its amplitudes.
    """
    rigid = inertias(mech)
    total: Array = increments.T @ (per_axis(mech, "armature")[:, None] * increments)
    for each, rows in _amplitudes(mech):
        reference = mech.body_index(each.reference)
        rigid[reference] = 0.0
        motion = np.vstack([twists[reference], increments[rows]])
        total = total + motion.T @ flexible.mass_matrix(each, q[rows]) @ motion
    mass: Array = total + np.einsum("bim,bij,bjn->mn", twists, rigid, twists, optimize=True)
    return mass


def projected_damping(mech: Mechanism, increments: Array, q: Array) -> Array:
    """(m, m) damping matrix of m motions: Phi^T D Phi over dampers of joints and couplings, and flexible bodies.

    Arguments:
        increments: (axes, m), increments of every joint's coordinates, per unit of each motion.
        q: (axes,), coordinates of every joint; the damping of a flexible body depends on its amplitudes.
    """
    damping: Array = increments.T @ (per_axis(mech, "damping")[:, None] * increments)
    names = axis_names(mech)
    for coupling in mech.couplings:
        if not coupling.rigid and coupling.damping:
            stretch = coupling.coefficients @ increments[[names.index(n) for n in coupling.coordinates]]
            damping += coupling.damping * np.outer(stretch, stretch)
    for each, rows in _amplitudes(mech):
        damping += increments[rows].T @ flexible.damping_matrix(each, q[rows]) @ increments[rows]
    return damping


def _amplitudes(mech: Mechanism) -> list[tuple[flexible.FlexibleBody, slice]]:
    """Each flexible body with the place of its amplitudes among all coordinates."""
    names = axis_names(mech) if mech.flexible else []
    starts = [names.index(each.coordinates[0]) for each in mech.flexible]
    return [(each, slice(i, i + each.basis.size)) for each, i in zip(mech.flexible, starts, strict=True)]
