"""Inertias that no body can have, replaced by the nearest that one can."""

from __future__ import annotations

import numpy as np

from supple.mechanism.record import Array


def nearest_inertia(inertia: Array, least: float = 0.0) -> Array:
    """The physical (3, 3) inertia nearest to a symmetric one, in the Frobenius norm; kg m^2.

    Principal moments are m = A p with A = [[0, 1, 1], [1, 0, 1], [1, 1, 0]], where p are the second moments of the mass
    along the principal axes, so p >= 0. That keeps moments from being negative and makes each at most the sum of the
    others. The nearest m has the same axes and minimises |A p - m|. No moment of the result is below `least`.
    """
    from scipy.optimize import nnls

    moments, axes = np.linalg.eigh(inertia)
    scale = float(np.abs(moments).max(initial=0.0)) or 1.0
    ones_off_diagonal = 1.0 - np.eye(3)
    second_moments = scale * nnls(ones_off_diagonal, moments / scale)[0]
    nearest = ones_off_diagonal @ second_moments
    nearest += max(0.0, least - float(nearest.min()))
    result: Array = (axes * nearest) @ axes.T
    return (result + result.T) / 2


def breaks_triangle_inequality(inertia: Array, slack: float = 1e-6) -> bool:
    """Whether one principal moment is more than the sum of the others, by more than `slack` of the largest entry."""
    moments = np.linalg.eigvalsh(inertia)
    return bool(moments[0] + moments[1] < moments[2] - slack * np.abs(inertia).max())


def has_negative_moment(inertia: Array, slack: float = 1e-6) -> bool:
    """Whether a principal moment is negative, by more than `slack` of the largest entry."""
    return bool(np.linalg.eigvalsh(inertia)[0] < -slack * np.abs(inertia).max())


def moments_text(inertia: Array) -> str:
    """Principal moments for a message."""
    return ", ".join(f"{moment:.4g}" for moment in np.linalg.eigvalsh(inertia))
