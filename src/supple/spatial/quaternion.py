"""Unit quaternions, scalar part first."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from supple.spatial._arrays import Array, as_floats, dot, outer, scale, skew, unit


def quat_wxyz_from_matrix(rotation: ArrayLike) -> Array:
    """Unit quaternion with w >= 0 of a rotation matrix: (..., 3, 3) -> (..., 4).

    Shepperd's method: the rows of 4 q q^T are linear in R; take the row with the largest diagonal entry.
    """
    r = as_floats(rotation)
    x, y, z = r[..., 0, 0], r[..., 1, 1], r[..., 2, 2]
    rows = np.empty((*r.shape[:-2], 4, 4))
    rows[..., 0, 0] = 1 + x + y + z
    rows[..., 1, 1], rows[..., 2, 2], rows[..., 3, 3] = 1 + x - y - z, 1 - x + y - z, 1 - x - y + z
    for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        rows[..., 0, i + 1] = rows[..., i + 1, 0] = r[..., k, j] - r[..., j, k]
        rows[..., i + 1, j + 1] = rows[..., j + 1, i + 1] = r[..., i, j] + r[..., j, i]
    largest = np.argmax(np.diagonal(rows, axis1=-2, axis2=-1), axis=-1)
    quat = unit(np.take_along_axis(rows, largest[..., None, None], axis=-2)[..., 0, :])
    return np.where(quat[..., :1] < 0, -quat, quat)


def matrix_from_quat_wxyz(quat: ArrayLike) -> Array:
    """Rotation matrix of a quaternion of any length except zero: (..., 4) -> (..., 3, 3).

    R = (w^2 - u.u) I + 2 u u^T + 2 w [u] for q = (w, u) of unit length.
    """
    q = unit(as_floats(quat))
    w, u = q[..., 0], q[..., 1:]
    return scale(w**2 - dot(u, u), np.eye(3)) + 2 * outer(u, u) + scale(2 * w, skew(u))
