"""M(w) = I + linear(s) [w] + quadratic(s) [w]^2 with s = |w|^2, and its derivatives.

A twist (v, w) is the dual number w + eps v: what M is to SO(3), [[M, dM], [0, M]] is to SE(3), where dM is
the derivative of M along v. So SE(3) needs no formulas of its own, only derivatives of these.
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


def along(w: Array, v: Array, of: Coefficients) -> Array:
    """Derivative of M(w) along v -> (..., 3, 3).

    linear [v] + quadratic ([w][v] + [v][w]) + 2 (w.v) (linear' [w] + quadratic' [w]^2)
    """
    change = 2 * dot(w, v)
    mixed = outer(w, v) + outer(v, w) - scale(change, _IDENTITY)
    through_angle = _without_identity(w, of.linear[1], of.quadratic[1])
    return scale(of.linear[0], skew(v)) + scale(of.quadratic[0], mixed) + scale(change, through_angle)


def _turned(w: Array, y: Array, of: Coefficients, order: int) -> Array:
    """The n-th derivative in s of M(w) y, linear w x y + quadratic w x (w x y), the identity left out."""
    once = np.cross(w, y)
    return of.linear[order][..., None] * once + of.quadratic[order][..., None] * np.cross(w, once)


def product_derivative(w: Array, y: Array, of: Coefficients, order: int = 0) -> Array:
    """d/dw [M(w) y] -> (..., 3, 3); `order` n takes the n-th derivatives in s for the coefficients.

    2 (linear' w x y + quadratic' w x (w x y)) w^T - linear [y] + quadratic ((w.y) I + w y^T - 2 y w^T)
    """
    mixed = scale(dot(w, y), _IDENTITY) + outer(w, y) - 2 * outer(y, w)
    return (
        2 * outer(_turned(w, y, of, order + 1), w)
        - scale(of.linear[order], skew(y))
        + scale(of.quadratic[order], mixed)
    )


def product_second_derivative(w: Array, v: Array, y: Array, of: Coefficients) -> Array:
    """d/dw of (d/dw [M(w) y] v) with v held -> (..., 3, 3)."""
    linear1, quadratic1 = of.linear[1][..., None], of.quadratic[1][..., None]
    mixed = v * dot(w, y)[..., None] + w * dot(v, y)[..., None] - 2 * dot(w, v)[..., None] * y
    mixed_derivative = outer(v, y) + scale(dot(v, y), _IDENTITY) - 2 * outer(y, v)
    return (
        2 * outer(_turned(w, y, of, 1), v)
        + 2 * scale(dot(w, v), product_derivative(w, y, of, order=1))
        + 2 * outer(linear1 * np.cross(v, y) + quadratic1 * mixed, w)
        + scale(of.quadratic[0], mixed_derivative)
    )
