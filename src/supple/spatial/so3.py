"""Rotations: exponential, logarithm and Jacobians of SO(3) on rotation vectors (..., 3) in radians.

Every function takes any leading batch axes. NaN arguments give NaN results.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from supple.spatial import _polynomial, _series
from supple.spatial._arrays import Array, as_floats, broadcast_floats, dot, outer, unit
from supple.spatial.quaternion import quat_wxyz_from_matrix


def so3_exp(w: ArrayLike) -> Array:
    """Rotation matrix of a rotation vector of any length: (..., 3) -> (..., 3, 3).

    R = I + a [w] + b [w]^2, a = sin t / t, b = (1 - cos t) / t^2, t = |w|.
    """
    w = as_floats(w)
    _, a, b, *_ = _series.stumpff(dot(w, w))
    return _polynomial.value(w, a, b)


def so3_log(rotation: ArrayLike) -> Array:
    """Rotation vector of length at most pi: (..., 3, 3) -> (..., 3).

    Computed from the quaternion (cos(t/2), n sin(t/2)), which is accurate at every angle. At t = pi the sign is
    arbitrary.
    """
    quat = quat_wxyz_from_matrix(rotation)
    cosine, vector = quat[..., 0], quat[..., 1:]
    sine = np.sqrt(dot(vector, vector))
    tiny = sine < 1e-20  # here atan2(x, c) = x / c to rounding, and x^2 may underflow
    ratio = np.where(tiny, 1.0, np.arctan2(sine, cosine)) / np.where(tiny, cosine, sine)
    return 2 * ratio[..., None] * vector


def so3_left_jacobian(w: ArrayLike) -> Array:
    """J with exp(w + d) ~ exp(J d) exp(w): (..., 3) -> (..., 3, 3).

    J = I + b [w] + c [w]^2, b = (1 - cos t) / t^2, c = (t - sin t) / t^3, t = |w|. Singular at t = 2 pi.
    """
    w = as_floats(w)
    coeffs = _series.jacobian(dot(w, w))
    return _polynomial.value(w, coeffs.linear[0], coeffs.quadratic[0])


def so3_right_jacobian(w: ArrayLike) -> Array:
    """J with exp(w + d) ~ exp(w) exp(J d): (..., 3) -> (..., 3, 3)."""
    return so3_left_jacobian(-as_floats(w))


def so3_left_jacobian_inverse(w: ArrayLike) -> Array:
    """Inverse of `so3_left_jacobian`: (..., 3) -> (..., 3, 3). Grows without bound towards t = 2 pi.

    I - [w]/2 + d [w]^2, d = (1 - (t/2) cot(t/2)) / t^2, t = |w|.
    """
    w = as_floats(w)
    coeffs = _series.jacobian_inverse(dot(w, w))
    return _polynomial.value(w, coeffs.linear[0], coeffs.quadratic[0])


def so3_right_jacobian_inverse(w: ArrayLike) -> Array:
    """Inverse of `so3_right_jacobian`: (..., 3) -> (..., 3, 3). Grows without bound towards t = 2 pi."""
    return so3_left_jacobian_inverse(-as_floats(w))


def so3_right_jacobian_directional(w: ArrayLike, torque: ArrayLike) -> Array:
    """d/dw [Jr(w)^T y] for a constant torque y: (..., 3), (..., 3) -> (..., 3, 3); Jr^T = Jl on SO(3)."""
    w, y = broadcast_floats(w, torque)
    return _polynomial.product_derivative(w, y, _series.jacobian(dot(w, w)))


def so3_right_jacobian_inverse_directional(w: ArrayLike, torque: ArrayLike) -> Array:
    """d/dw [Jr(w)^-T y] for a constant torque y: (..., 3), (..., 3) -> (..., 3, 3)."""
    w, y = broadcast_floats(w, torque)
    return _polynomial.product_derivative(w, y, _series.jacobian_inverse(dot(w, w)))


def project_rotation(matrix: ArrayLike) -> Array:
    """Rotation nearest to a matrix in the Frobenius norm, by SVD: (..., 3, 3) -> (..., 3, 3).

    Not unique for a matrix of rank one, or of negative determinant with equal smallest singular values.
    """
    u, _, vt = np.linalg.svd(as_floats(matrix))
    u[..., :, 2] *= np.sign(np.linalg.det(u @ vt))[..., None]
    return as_floats(u @ vt)


def rotation_between(a: ArrayLike, b: ArrayLike) -> Array:
    """Smallest rotation R with R a = b for directions a, b (..., 3) of any length -> (..., 3, 3).

    For opposite directions, a half turn about some axis normal to them.
    """
    a, b = broadcast_floats(unit(as_floats(a)), unit(as_floats(b)))
    obtuse = dot(a, b)[..., None] < 0
    # a rotation by an obtuse angle is a half turn from a to -a, then a rotation by an acute angle: well conditioned
    half_turn = np.where(obtuse[..., None], _half_turn(_normal(a, b)), np.eye(3))
    start = np.where(obtuse, -a, a)
    # half turns about `start` and then about the bisector of `start` and b
    return _half_turn(unit(start + b)) @ _half_turn(start) @ half_turn


def _half_turn(axis: Array) -> Array:
    return 2 * outer(axis, axis) - np.eye(3)


def _normal(a: Array, b: Array) -> Array:
    """Unit vector normal to a, and to b unless that is parallel to a."""
    normal = np.cross(a, b)
    coordinate_axis = np.eye(3)[np.argmin(np.abs(a), axis=-1)]
    parallel = dot(normal, normal)[..., None] < 1e-30
    normal = unit(np.where(parallel, np.cross(a, coordinate_axis), normal))
    return unit(normal - dot(normal, a)[..., None] * a)
