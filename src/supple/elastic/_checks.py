"""Read-only arrays of checked shape."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple.errors import MechanismError

Array: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.int64]


def numbers(value: ArrayLike, shape: tuple[int, ...], what: str) -> Array:
    """A read-only float64 copy; raises unless it is finite and has the shape (-1: any length)."""
    result = _converted(value, np.float64, what)
    _check_shape(result, shape, what)
    if not np.isfinite(result).all():
        raise MechanismError(f"{what} must be finite numbers")
    result.flags.writeable = False
    return result


def indices(value: ArrayLike, shape: tuple[int, ...], below: int, what: str) -> Indices:
    """A read-only int64 copy; raises unless it has the shape (-1: any length) and every entry lies in [0, below)."""
    given = np.asarray(value)
    if given.dtype.kind not in "iu":
        raise MechanismError(f"{what} must be whole numbers (indices), got {given.dtype}")
    result = _converted(given, np.int64, what)
    _check_shape(result, shape, what)
    if result.size and not (result.min() >= 0 and result.max() < below):
        raise MechanismError(f"{what}: indices must lie between 0 and {below - 1}")
    result.flags.writeable = False
    return result


def _converted(value: ArrayLike, dtype: Any, what: str) -> NDArray[Any]:
    try:
        return np.array(value, dtype=dtype)
    except (TypeError, ValueError, OverflowError):
        raise MechanismError(f"{what} must be an array of numbers") from None


def _check_shape(result: NDArray[Any], shape: tuple[int, ...], what: str) -> None:
    if result.ndim != len(shape) or any(want not in (-1, got) for want, got in zip(shape, result.shape, strict=True)):
        wanted = "x".join("n" if n < 0 else str(n) for n in shape)
        raise MechanismError(f"{what} must have shape {wanted}, got {'x'.join(map(str, result.shape))}")
