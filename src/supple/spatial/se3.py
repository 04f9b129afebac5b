"""Rigid motions: poses (..., 4, 4) from body to world, twists (v, w), linear part first, in m and rad.

A body moves by H <- H exp(xi) with xi in its own frame. Every function takes any leading batch axes. NaN arguments give
NaN results.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from supple.spatial import _polynomial, _series
from supple.spatial._arrays import Array, as_floats, broadcast_floats, dot, skew, times_vector
from supple.spatial._series import Coefficients
from supple.spatial.so3 import so3_exp, so3_left_jacobian, so3_left_jacobian_inverse, so3_log


def _split(xi: ArrayLike) -> tuple[Array, Array]:
    xi = as_floats(xi)
    return xi[..., :3], xi[..., 3:]


def _block_matrix(a: Array, b: Array | float, c: Array | float, d: Array) -> Array:
    """The (..., 6, 6) matrix [[a, b], [c, d]] of 3x3 blocks."""
    matrix = np.empty((*d.shape[:-2], 6, 6))
    matrix[..., :3, :3], matrix[..., :3, 3:] = a, b
    matrix[..., 3:, :3], matrix[..., 3:, 3:] = c, d
    return matrix


def pose(rotation: ArrayLike | None = None, position: ArrayLike | None = None) -> Array:
    """Pose of a rotation (..., 3, 3) and a position (..., 3), identity and zero if None -> (..., 4, 4)."""
    r = np.eye(3) if rotation is None else as_floats(rotation)
    p = np.zeros(3) if position is None else as_floats(position)
    h = np.zeros((*np.broadcast_shapes(r.shape[:-2], p.shape[:-1]), 4, 4))
    h[..., :3, :3], h[..., :3, 3], h[..., 3, 3] = r, p, 1.0
    return h


def translation(position: ArrayLike) -> Array:
    """Pose without rotation: (..., 3) -> (..., 4, 4)."""
    return pose(position=position)


def inverse(h: ArrayLike) -> Array:
    """Inverse of a pose, (R^T, -R^T p): (..., 4, 4) -> (..., 4, 4)."""
    h = as_floats(h)
    transposed = np.swapaxes(h[..., :3, :3], -1, -2)
    return pose(transposed, -times_vector(transposed, h[..., :3, 3]))


def exp(xi: ArrayLike) -> Array:
    """Pose after moving with a constant twist for unit time: (..., 6) -> (..., 4, 4).

    R = exp([w]), p = Jl(w) v.
    """
    v, w = _split(xi)
    return pose(so3_exp(w), times_vector(so3_left_jacobian(w), v))


def log(h: ArrayLike) -> Array:
    """Twist of a pose, with rotation of at most pi: (..., 4, 4) -> (..., 6).

    w = log R, v = Jl(w)^-1 p.
    """
    h = as_floats(h)
    w = so3_log(h[..., :3, :3])
    v = times_vector(so3_left_jacobian_inverse(w), h[..., :3, 3])
    return np.concatenate([v, w], axis=-1)


def adjoint(h: ArrayLike) -> Array:
    """Ad of pose_ba, which maps twists in frame a to twists in frame b: (..., 4, 4) -> (..., 6, 6).

    [[R, [p] R], [0, R]]
    """
    h = as_floats(h)
    r = h[..., :3, :3]
    return _block_matrix(r, skew(h[..., :3, 3]) @ r, 0.0, r)


def ad(xi: ArrayLike) -> Array:
    """Matrix of the Lie bracket, ad(xi) eta = [xi, eta]: (..., 6) -> (..., 6, 6).

    [[[w], [v]], [0, [w]]]
    """
    v, w = _split(xi)
    cross_w = skew(w)
    return _block_matrix(cross_w, skew(v), 0.0, cross_w)


def _dual_matrix(xi: ArrayLike, coeffs: Coefficients) -> Array:
    v, w = _split(xi)
    diagonal = _polynomial.value(w, coeffs.linear[0], coeffs.quadratic[0])
    return _block_matrix(diagonal, _polynomial.directional_derivative(w, v, coeffs), 0.0, diagonal)


def left_jacobian(xi: ArrayLike) -> Array:
    """J with exp(xi + d) ~ exp(J d) exp(xi): (..., 6) -> (..., 6, 6). Singular at |w| = 2 pi.

    [[Jl(w), dJl], [0, Jl(w)]], where dJl is the derivative of SO(3)'s Jl(w) along v.
    """
    _, w = _split(xi)
    return _dual_matrix(xi, _series.jacobian(dot(w, w)))


def right_jacobian(xi: ArrayLike) -> Array:
    """J with exp(xi + d) ~ exp(xi) exp(J d): (..., 6) -> (..., 6, 6). Singular at |w| = 2 pi."""
    return left_jacobian(-as_floats(xi))


def left_jacobian_inverse(xi: ArrayLike) -> Array:
    """Inverse of `left_jacobian`: (..., 6) -> (..., 6, 6). Grows without bound towards |w| = 2 pi.

    [[Jl(w)^-1, dJl^-1], [0, Jl(w)^-1]], where dJl^-1 is the derivative of SO(3)'s Jl(w)^-1 along v.
    """
    _, w = _split(xi)
    return _dual_matrix(xi, _series.jacobian_inverse(dot(w, w)))


def right_jacobian_inverse(xi: ArrayLike) -> Array:
    """Inverse of `right_jacobian`: (..., 6) -> (..., 6, 6). Grows without bound towards |w| = 2 pi."""
    return left_jacobian_inverse(-as_floats(xi))


def _transpose_derivative(xi: Array, y: Array, coeffs: Coefficients) -> Array:
    """d/d(v, w) of [[M, 0], [dM, M]] (f, m) for y = (f, m), M = M(w) and dM its derivative along v.

    The upper rows are F = M(w) f, the lower rows F' v + M(w) m.
    """
    (v, w), (f, m) = _split(xi), _split(y)
    first = _polynomial.product_derivative(w, f, coeffs)
    lower = _polynomial.product_second_derivative(w, v, f, coeffs) + _polynomial.product_derivative(w, m, coeffs)
    return _block_matrix(np.zeros_like(first), first, first, lower)


def right_jacobian_directional(xi: ArrayLike, wrench: ArrayLike) -> Array:
    """d/dxi [Jr(xi)^T y] for a constant wrench y: (..., 6), (..., 6) -> (..., 6, 6)."""
    xi, y = broadcast_floats(xi, wrench)
    w = xi[..., 3:]
    return _transpose_derivative(xi, y, _series.jacobian(dot(w, w)))


def right_jacobian_inverse_directional(xi: ArrayLike, wrench: ArrayLike) -> Array:
    """d/dxi [Jr(xi)^-T y] for a constant wrench y: (..., 6), (..., 6) -> (..., 6, 6).

    A linear model exerts the wrench Jr^-T (b + K xi) on its end effector. The derivative of that is this matrix for
    y = b + K xi, plus Jr^-T K.
    """
    xi, y = broadcast_floats(xi, wrench)
    w = xi[..., 3:]
    return _transpose_derivative(xi, y, _series.jacobian_inverse(dot(w, w)))


def transform_twist(pose_ba: ArrayLike, twist_a: ArrayLike) -> Array:
    """The twist Ad_ba twist_a in frame b of a twist in frame a: (..., 4, 4), (..., 6) -> (..., 6)."""
    return times_vector(adjoint(pose_ba), as_floats(twist_a))


def transform_wrench(pose_ba: ArrayLike, wrench_b: ArrayLike) -> Array:
    """The wrench Ad_ba^T wrench_b in frame a of a wrench in frame b: (..., 4, 4), (..., 6) -> (..., 6).

    Power is the same in both frames: transform_wrench(H, w) . xi = w . transform_twist(H, xi).
    """
    return times_vector(np.swapaxes(adjoint(pose_ba), -1, -2), as_floats(wrench_b))
