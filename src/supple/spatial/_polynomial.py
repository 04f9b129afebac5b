"""M(w) = I + linear(s) [w] + quadratic(s) [w]^2 with s = |w|^2, and its derivatives.

Exponential and Jacobians of SO(3) have this form. A twist (v, w) is the dual number w + eps v, so the matrix for SE(3)
that corresponds to M is [[M, dM], [0, M]], where dM is the derivative of M along v: SE(3) needs only derivatives of M.
"""

from __future__ import annotations

import numpy as np

from supple.spatial._arrays import Array, dot, outer, scale, skew
from supple.spatial._series import Coefficients

_IDENTITY = np.eye(3)


def value(w: Array, linear: Array, quadratic: Array) -> Array:
    """M = I + linear [w] + quadratic [w]^2 -> (..., 3, 3)."""
    return _IDENTITY + _without_identity(w, linear, quadratic)


def _without_identity(w: Array, linear: Array, quadratic: Array) -> Array:
    square = outer(w, w) - scale(dot(w, w), _IDENTITY)
    return scale(linear, skew(w)) + scale(quadratic, square)


def directional_derivative(w: Array, v: Array, coeffs: Coefficients) -> Array:
    """Derivative of M(w) along v -> (..., 3, 3).

    linear [v] + quadratic ([w][v] + [v][w]) + 2 (w.v) (linear' [w] + quadratic' [w]^2)
    """
    change = 2 * dot(w, v)
    mixed = outer(w, v) + outer(v, w) - scale(change, _IDENTITY)
    through_angle = _without_identity(w, coeffs.linear[1], coeffs.quadratic[1])
    return scale(coeffs.linear[0], skew(v)) + scale(coeffs.quadratic[0], mixed) + scale(change, through_angle)


def _product_s_derivative(w: Array, y: Array, coeffs: Coefficients, order: int) -> Array:
    """linear w x y + quadratic w x (w x y), with the derivatives in s of that order for the coefficients."""
    once = np.cross(w, y)
    return coeffs.linear[order][..., None] * once + coeffs.quadratic[order][..., None] * np.cross(w, once)


def product_derivative(w: Array, y: Array, coeffs: Coefficients, order: int = 0) -> Array:
    """d/dw [M(w) y] -> (..., 3, 3); `order` n takes the n-th derivatives in s for the coefficients.

    2 (linear' w x y + quadratic' w x (w x y)) w^T - linear [y] + quadratic ((w.y) I + w y^T - 2 y w^T)
    """
    mixed = scale(dot(w, y), _IDENTITY) + outer(w, y) - 2 * outer(y, w)
    return (
        2 * outer(_product_s_derivative(w, y, coeffs, order + 1), w)
        - scale(coeffs.linear[order], skew(y))
        + scale(coeffs.quadratic[order], mixed)
    )


def product_second_derivative(w: Array, v: Array, y: Array, coeffs: Coefficients) -> Array:
    """d/dw of (d/dw [M(w) y] v) for constant v -> (..., 3, 3)."""
    linear1, quadratic1 = coeffs.linear[1][..., None], coeffs.quadratic[1][..., None]
    mixed = v * dot(w, y)[..., None] + w * dot(v, y)[..., None] - 2 * dot(w, v)[..., None] * y
    mixed_derivative = outer(v, y) + scale(dot(v, y), _IDENTITY) - 2 * outer(y, v)
    return (
        2 * outer(_product_s_derivative(w, y, coeffs, 1), v)
        + 2 * scale(dot(w, v), product_derivative(w, y, coeffs, order=1))
        + 2 * outer(linear1 * np.cross(v, y) + quadratic1 * mixed, w)
        + scale(coeffs.quadratic[0], mixed_derivative)
    )
