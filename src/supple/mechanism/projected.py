"""Mass and damping of a mechanism restricted to a few motions: Phi^T M Phi and Phi^T D Phi."""

from __future__ import annotations

import numpy as np

from supple.mechanism.axes import axis_names, per_axis
from supple.mechanism.kinematics import inertias
from supple.mechanism.mechanism import Mechanism
from supple.mechanism.record import Array


def projected_mass(mech: Mechanism, twists: Array, increments: Array) -> Array:
    """(m, m) mass matrix of m motions: Phi^T M Phi, armature included.

    Arguments:
        twists: (bodies, 6, m), twist of every body in its own frame, per unit of each motion.
        increments: (axes, m), increments of every joint's coordinates, per unit of each motion.
    """
    mass = np.einsum("bim,bij,bjn->mn", twists, inertias(mech), twists, optimize=True)
    total: Array = mass + increments.T @ (per_axis(mech, "armature")[:, None] * increments)
    return total


def projected_damping(mech: Mechanism, increments: Array) -> Array:
    """(m, m) damping matrix of m motions: Phi^T D Phi over the dampers of joints and of couplings.

    Arguments:
        increments: (axes, m), increments of every joint's coordinates, per unit of each motion.
    """
    damping: Array = increments.T @ (per_axis(mech, "damping")[:, None] * increments)
    names = axis_names(mech)
    for coupling in mech.couplings:
        if not coupling.rigid and coupling.damping:
            stretch = coupling.coefficients @ increments[[names.index(n) for n in coupling.coordinates]]
            damping += coupling.damping * np.outer(stretch, stretch)
    return damping
