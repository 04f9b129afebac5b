"""Coefficient functions of rotations, as functions of s = t^2 with t the rotation angle in radians.

The exponential of a rotation vector w, its Jacobian and the inverse of that all have the form
I + linear(s) [w] + quadratic(s) [w]^2. Coefficients and derivatives are combinations of Stumpff functions, which have
no singularity at s = 0.
"""

from __future__ import annotations

from math import factorial
from typing import NamedTuple

import numpy as np

from supple.spatial._arrays import Array

# Up to this s (t slightly above pi) 13 terms of the series of the highest two functions are exact to rounding.
SERIES_LIMIT = 10.0
HIGHEST = 8
_TERMS = 13
_SERIES = np.array([[(-1.0) ** j / factorial(2 * j + k) for k in (HIGHEST - 1, HIGHEST)] for j in range(_TERMS)])


class Coefficients(NamedTuple):
    """linear and quadratic of I + linear [w] + quadratic [w]^2: value, first and second derivative in s."""

    linear: tuple[Array, Array, Array]
    quadratic: tuple[Array, Array, Array]


def stumpff(s: Array) -> list[Array]:
    """Stumpff functions g_k(s) = sum_j (-s)^j / (2j + k)! for k = 0 ... 8, each of the shape of s >= 0.

    g_0 = cos t, g_1 = sin t / t, g_2 = (1 - cos t) / t^2, g_3 = (t - sin t) / t^3, and so on by
    g_k = 1/k! - s g_{k+2}. Their derivatives are g_k' = (k g_{k+2} - g_{k+1}) / 2.
    """
    near = _upward(np.minimum(s, SERIES_LIMIT))
    if np.all(s <= SERIES_LIMIT):
        return near
    far = _downward(np.maximum(s, SERIES_LIMIT))
    return [np.where(s <= SERIES_LIMIT, a, b) for a, b in zip(near, far, strict=True)]


def _upward(s: Array) -> list[Array]:
    """From the series of g_7 and g_8 to g_0 by g_k = 1/k! - s g_{k+2}."""
    powers = np.ones((*s.shape, _TERMS))
    powers[..., 1:] = s[..., None]
    highest = np.multiply.accumulate(powers, axis=-1) @ _SERIES  # most arrays are small: few calls of NumPy
    g = [s] * (HIGHEST - 1) + [highest[..., 0], highest[..., 1]]
    for k in reversed(range(HIGHEST - 1)):
        g[k] = 1 / factorial(k) - s * g[k + 2]
    return g


def _downward(s: Array) -> list[Array]:
    """From cosine and sine to g_8 by g_{k+2} = (1/k! - g_k) / s."""
    t = np.sqrt(s)
    # the half angle keeps g_2 accurate near t = 2 pi, where it vanishes
    g = [np.cos(t), np.sin(t) / t, 2 * np.sin(t / 2) ** 2 / s]
    for k in range(1, HIGHEST - 1):
        g.append((1 / factorial(k) - g[k]) / s)
    return g


def jacobian(s: Array) -> Coefficients:
    """Coefficients of the left Jacobian of SO(3): b = (1 - cos t) / t^2 and c = (t - sin t) / t^3."""
    _, _, b, c, g4, g5, g6, g7, _ = stumpff(s)
    b1, b2 = g4 - c / 2, 2 * g6 - 1.25 * g5 + g4 / 4
    c1, c2 = (3 * g5 - g4) / 2, (15 * g7 - 7 * g6 + g5) / 4
    return Coefficients((b, b1, b2), (c, c1, c2))


def jacobian_inverse(s: Array) -> Coefficients:
    """Coefficients of the inverse left Jacobian of SO(3): -1/2 and d = (1 - (t/2) cot(t/2)) / t^2.

    With b = g_2, d = -b'/b, hence d' = d^2 - b''/b and d'' = 2 d d' - (b''' + d b'')/b. Infinite at t = 2 pi.
    """
    _, _, b, g3, g4, g5, g6, g7, g8 = stumpff(s)
    b2 = 2 * g6 - 1.25 * g5 + g4 / 4
    b3 = 6 * g8 - 4.125 * g7 + 1.125 * g6 - g5 / 8
    d = (g3 / 2 - g4) / b
    d1 = d**2 - b2 / b
    d2 = 2 * d * d1 - (b3 + d * b2) / b
    zero = np.zeros_like(d)
    return Coefficients((zero - 0.5, zero, zero), (d, d1, d2))
