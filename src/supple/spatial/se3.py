"""Rigid motions: poses (..., 4, 4) from body to world, twists (v, w), linear part first, in m and rad.

A body moves by H <- H exp(xi) with xi in its own frame. Every function takes any leading batch axes.
NaN in, NaN out.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from supple.spatial import _polynomial, _series
from supple.spatial._arrays import Array, apply, dot, floats, pair, skew
from supple.spatial._series import Coefficients
from supple.spatial.so3 import so3_exp, so3_left_jacobian, so3_left_jacobian_inverse, so3_log


def _split(xi: ArrayLike) -> tuple[Array, Array]:
    xi = floats(xi)
    return xi[..., :3], xi[..., 3:]


def _blocks(a: Array, b: Array | float, c: Array | float, d: Array) -> Array:
    """The (..., 6, 6) matrix [[a, b], [c, d]] of 3x3 blocks."""
    matrix = np.empty((*d.shape[:-2], 6, 6))
    matrix[..., :3, :3], matrix[..., :3, 3:] = a, b
    matrix[..., 3:, :3], matrix[..., 3:, 3:] = c, d
    return matrix


def pose(rotation: ArrayLike | None = None, position: ArrayLike | None = None) -> Array:
    """Pose of a rotation (..., 3, 3) and a position (..., 3), identity and zero if None -> (..., 4, 4)."""
    r = np.eye(3) if rotation is None else floats(rotation)
    p = np.zeros(3) if position is None else floats(position)
    h = np.zeros((*np.broadcast_shapes(r.shape[:-2], p.shape[:-1]), 4, 4))
    h[..., :3, :3], h[..., :3, 3], h[..., 3, 3] = r, p, 1.0
    return h


def translation(position: ArrayLike) -> Array:
    """Pose without rotation: (..., 3) -> (..., 4, 4)."""
    return pose(position=position)


def inverse(h: ArrayLike) -> Array:
    """Inverse of a pose, (R^T, -R^T p): (..., 4, 4) -> (..., 4, 4)."""
    h = floats(h)
    back = np.swapaxes(h[..., :3, :3], -1, -2)
    return pose(back, -apply(back, h[..., :3, 3]))


def exp(xi: ArrayLike) -> Array:
    """Pose reached by a twist held for unit time: (..., 6) -> (..., 4, 4).

    R = exp([w]), p = Jl(w) v.
    """
    v, w = _split(xi)
    return pose(so3_exp(w), apply(so3_left_jacobian(w), v))


def log(h: ArrayLike) -> Array:
    """Twist of a pose, with rotation of at most pi: (..., 4, 4) -> (..., 6).

    w = log R, v = Jl(w)^-1 p.
    """
    h = floats(h)
    w = so3_log(h[..., :3, :3])
    v = apply(so3_left_jacobian_inverse(w), h[..., :3, 3])
    return np.concatenate([v, w], axis=-1)


def adjoint(h: ArrayLike) -> Array:
    """Ad of pose_ba, taking twists seen in frame a to frame b: (..., 4, 4) -> (..., 6, 6).

    [[R, [p] R], [0, R]]
    """
    h = floats(h)
    r = h[..., :3, :3]
    return _blocks(r, skew(h[..., :3, 3]) @ r, 0.0, r)


def ad(xi: ArrayLike) -> Array:
    """Matrix of the Lie bracket, ad(xi) eta = [xi, eta]: (..., 6) -> (..., 6, 6).

    [[[w], [v]], [0, [w]]]
    """
    v, w = _split(xi)
    turn = skew(w)
    return _blocks(turn, skew(v), 0.0, turn)


def _dual(xi: ArrayLike, of: Coefficients) -> Array:
    v, w = _split(xi)
    diagonal = _polynomial.value(w, of.linear[0], of.quadratic[0])
    return _blocks(diagonal, _polynomial.along(w, v, of), 0.0, diagonal)


def left_jacobian(xi: ArrayLike) -> Array:
    """J with exp(xi + d) ~ exp(J d) exp(xi): (..., 6) -> (..., 6, 6). Singular at |w| = 2 pi.

    [[Jl(w), dJl], [0, Jl(w)]], where dJl is the derivative of SO(3)'s Jl(w) along v.
    """
    _, w = _split(xi)
    return _dual(xi, _series.jacobian(dot(w, w)))


def right_jacobian(xi: ArrayLike) -> Array:
    """J with exp(xi + d) ~ exp(xi) exp(J d): (..., 6) -> (..., 6, 6). Singular at |w| = 2 pi."""
    return left_jacobian(-floats(xi))


def left_jacobian_inverse(xi: ArrayLike) -> Array:
    """Inverse of `left_jacobian`: (..., 6) -> (..., 6, 6). Grows without bound towards |w| = 2 pi.

    [[Jl(w)^-1, dJl^-1], [0, Jl(w)^-1]], where dJl^-1 is the derivative of SO(3)'s Jl(w)^-1 along v.
    """
    _, w = _split(xi)
    return _dual(xi, _series.jacobian_inverse(dot(w, w)))


def right_jacobian_inverse(xi: ArrayLike) -> Array:
    """Inverse of `right_jacobian`: (..., 6) -> (..., 6, 6). Grows without bound towards |w| = 2 pi."""
    return left_jacobian_inverse(-floats(xi))


def _transpose_derivative(xi: Array, y: Array, of: Coefficients) -> Array:
    """d/d(v, w) of [[M, 0], [dM, M]] (f, m) for y = (f, m), M = M(w) and dM its derivative along v.

    The upper rows are F = M(w) f, the lower rows F' v + M(w) m.
    """
    (v, w), (f, m) = _split(xi), _split(y)
    first = _polynomial.product_derivative(w, f, of)
    lower = _polynomial.product_second_derivative(w, v, f, of) + _polynomial.product_derivative(w, m, of)
    return _blocks(np.zeros_like(first), first, first, lower)


def right_jacobian_directional(xi: ArrayLike, wrench: ArrayLike) -> Array:
    """d/dxi [Jr(xi)^T y] for a wrench y held fixed: (..., 6), (..., 6) -> (..., 6, 6)."""
    xi, y = pair(xi, wrench)
    w = xi[..., 3:]
    return _transpose_derivative(xi, y, _series.jacobian(dot(w, w)))


def right_jacobian_inverse_directional(xi: ArrayLike, wrench: ArrayLike) -> Array:
    """d/dxi [Jr(xi)^-T y] for a wrench y held fixed: (..., 6), (..., 6) -> (..., 6, 6).

    A linear model acts on its body with Jr^-T (b + K xi); the tangent is this for y = b + K xi, plus Jr^-T K.
    """
    xi, y = pair(xi, wrench)
    w = xi[..., 3:]
    return _transpose_derivative(xi, y, _series.jacobian_inverse(dot(w, w)))


def transform_twist(pose_ba: ArrayLike, twist_a: ArrayLike) -> Array:
    """The twist of frame a seen in frame b, Ad_ba twist_a: (..., 4, 4), (..., 6) -> (..., 6)."""
    return apply(adjoint(pose_ba), floats(twist_a))


def transform_wrench(pose_ba: ArrayLike, wrench_b: ArrayLike) -> Array:
    """The wrench of frame b seen in frame a, Ad_ba^T wrench_b: (..., 4, 4), (..., 6) -> (..., 6).

    Power is the same in both frames: transform_wrench(H, w) . xi = w . transform_twist(H, xi).
    """
    return apply(np.swapaxes(adjoint(pose_ba), -1, -2), floats(wrench_b))
