"""Small operations on batches of vectors and matrices."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array: TypeAlias = NDArray[np.float64]


def as_floats(values: ArrayLike) -> Array:
    """The values as an array of float64; not copied if they are one already."""
    return np.asarray(values, dtype=np.float64)


def broadcast_floats(a: ArrayLike, b: ArrayLike) -> tuple[Array, Array]:
    """Both arguments as arrays of float64, broadcast to one common shape."""
    both = np.broadcast_arrays(as_floats(a), as_floats(b))
    return both[0], both[1]


def skew(w: ArrayLike) -> Array:
    """Cross-product matrix, skew(w) @ x = w x x: (..., 3) -> (..., 3, 3)."""
    w = as_floats(w)
    x, y, z = w[..., 0], w[..., 1], w[..., 2]
    matrix = np.zeros((*w.shape, 3))
    matrix[..., 2, 1], matrix[..., 0, 2], matrix[..., 1, 0] = x, y, z
    matrix[..., 1, 2], matrix[..., 2, 0], matrix[..., 0, 1] = -x, -y, -z
    return matrix


def unskew(matrix: ArrayLike) -> Array:
    """Vector w whose skew(w) is the antisymmetric part of a matrix: (..., 3, 3) -> (..., 3)."""
    m = as_floats(matrix)
    pairs = [m[..., 2, 1] - m[..., 1, 2], m[..., 0, 2] - m[..., 2, 0], m[..., 1, 0] - m[..., 0, 1]]
    return 0.5 * np.stack(pairs, axis=-1)


def dot(a: Array, b: Array) -> Array:
    """Scalar product over the last axis: (..., n), (..., n) -> (...)."""
    return np.asarray(np.einsum("...i,...i->...", a, b))


def outer(a: Array, b: Array) -> Array:
    """a b^T: (..., 3), (..., 3) -> (..., 3, 3)."""
    return a[..., :, None] * b[..., None, :]


def scale(scalar: Array, matrix: Array) -> Array:
    """Each matrix multiplied by its scalar: (...), (..., m, n) -> (..., m, n)."""
    return scalar[..., None, None] * matrix


def times_vector(matrix: Array, vector: Array) -> Array:
    """Matrix times vector: (..., m, n), (..., n) -> (..., m)."""
    return np.asarray(np.einsum("...ij,...j->...i", matrix, vector))


def unit(v: Array) -> Array:
    """v / |v| over the last axis."""
    return v / np.sqrt(dot(v, v))[..., None]
