"""Frozen records of plain data: read-only float arrays, comparable field by field."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from math import isfinite
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple.errors import MechanismError

Array: TypeAlias = NDArray[np.float64]
DOUBLE = np.dtype(np.float64)


@dataclass(frozen=True, eq=False)
class Record:
    """Base class of the description's parts. Two are equal if every field is equal, arrays to the last bit."""

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return all(_equal(getattr(self, f.name), getattr(other, f.name)) for f in fields(self))

    __hash__ = None  # type: ignore[assignment]

    def _freeze(self, **values: Any) -> None:
        """Sets fields of a frozen record; only for use in `__post_init__`."""
        for name, value in values.items():
            object.__setattr__(self, name, value)


def lock(value: Any) -> None:
    """Makes an array read-only, or every array in a tuple or dictionary."""
    if isinstance(value, np.ndarray):
        value.flags.writeable = False
    elif isinstance(value, tuple | dict):
        for part in value.values() if isinstance(value, dict) else value:
            lock(part)


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray):
        return isinstance(b, np.ndarray) and a.shape == b.shape and np.array_equal(a, b)
    if isinstance(a, Mapping):
        return isinstance(b, Mapping) and list(a) == list(b) and all(_equal(a[key], b[key]) for key in a)
    if is_dataclass(a) and not isinstance(a, Record):  # an elastic part and what it consists of
        return type(a) is type(b) and all(_equal(getattr(a, f.name), getattr(b, f.name)) for f in fields(a))
    return bool(a == b)


def array(value: ArrayLike, shape: tuple[int, ...], what: str, *, infinite: bool = False) -> Array:
    """A read-only float64 copy of `value`; raises unless it is finite and has the given shape (-1: any length)."""
    try:
        result = np.array(value)
        if result.dtype is not DOUBLE:
            if result.dtype.kind in "US" or (result.dtype.kind == "O" and None in result.ravel().tolist()):
                raise TypeError  # NumPy would read texts as numbers and None as NaN
            result = result.astype(np.float64, copy=False)
    except (TypeError, ValueError, OverflowError):
        raise MechanismError(f"{what} must be numbers, got {_shortened(value)}") from None
    if result.shape != shape and (
        result.ndim != len(shape) or any(want not in (-1, got) for want, got in zip(shape, result.shape, strict=True))
    ):
        wanted = "x".join("n" if n < 0 else str(n) for n in shape) or "a single number"
        found = "x".join(map(str, result.shape)) or "a single number"
        raise MechanismError(f"{what} must have shape {wanted}, got {found}")
    if np.isnan(result).any() if infinite else not _all_finite(result):
        raise MechanismError(f"{what} must be finite, got {_shortened(value)}")
    result.setflags(write=False)
    return result


def _all_finite(values: Array) -> bool:
    few = values.size <= 64  # NumPy takes longer for few numbers than Python
    return all(map(isfinite, values.ravel().tolist())) if few else bool(np.isfinite(values).all())


def number(value: Any, what: str) -> float:
    """The value as a float; raises unless it is a single finite number."""
    if isinstance(value, float) and isfinite(value):
        return float(value)
    return float(array(value, (), what))


def _shortened(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def checked_pose(value: ArrayLike, what: str) -> Array:
    """A (4, 4) pose, unchanged; raises unless its 3x3 part is a rotation to 1e-6."""
    pose = array(value, (4, 4), what)
    if not _is_rotation(*pose[:3, :3].T.tolist()) or pose[3].tolist() != [0, 0, 0, 1]:
        raise MechanismError(
            f"{what} is not a rigid pose (its 3x3 part must be a right-handed rotation, its last row 0 0 0 1); "
            "build it with supple.spatial.pose(rotation, position)"
        )
    return pose


def _is_rotation(x: list[float], y: list[float], z: list[float]) -> bool:
    """Whether three columns are a right-handed rotation to 1e-6; in Python, which is quicker for nine numbers."""

    def dot(a: Sequence[float], b: Sequence[float]) -> float:
        return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]

    normal = (x[1] * y[2] - x[2] * y[1], x[2] * y[0] - x[0] * y[2], x[0] * y[1] - x[1] * y[0])
    apart = (dot(x, x) - 1, dot(y, y) - 1, dot(z, z) - 1, dot(x, y), dot(y, z), dot(z, x))
    return max(map(abs, apart)) <= 1e-6 and dot(normal, z) > 0


def checked_name(value: object, what: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise MechanismError(f"{what} needs a name: a non-empty string, got {_shortened(value)}")
    return value
