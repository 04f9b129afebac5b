"""Arrays that are also indexed by the names of a mechanism's joints or bodies."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np

from supple import spatial
from supple.mechanism.body import WORLD
from supple.mechanism.poses import find
from supple.mechanism.record import Array

if TYPE_CHECKING:
    from supple.mechanism.mechanism import Mechanism


class _Named(np.ndarray[Any, np.dtype[np.float64]]):
    """A float array with names, which cannot be written to; copies can. Slices and results of arithmetic are plain
    arrays."""

    mechanism: Mechanism
    """Missing in arrays that NumPy makes from this one, such as `q.reshape(1, -1)`: they are without names."""

    def __new__(cls, mechanism: Mechanism, values: Array, copy: bool = True) -> Any:
        """The values with the names of a mechanism; without `copy` the array itself, which must be of floats."""
        result = (np.array(values, np.float64) if copy else values).view(cls)
        result.mechanism = mechanism
        result.setflags(False)  # type: ignore[call-arg]  # write=False, but quicker
        return result

    @classmethod
    def like(cls, mechanism: Mechanism, *shape: int) -> tuple[Any, ...]:
        """What the core needs to make such arrays, which is quicker than `__new__`."""
        return np.ndarray.__new__, cls, shape, mechanism

    def renamed(self, mechanism: Mechanism) -> Any:
        """The same numbers with the names of another mechanism."""
        result = self.view()
        result.mechanism = mechanism
        return result

    # Without __array_finalize__, which NumPy would call for every view: these make the copies that keep their names.

    def copy(self, order: Any = "C") -> Any:
        """A copy that can be written to."""
        if not self._has_names:
            return np.array(self, copy=True, order=order)
        result = np.array(self, copy=True, order=order, subok=True)
        result.mechanism = self.mechanism
        return result

    def __copy__(self) -> Any:
        return self.copy()

    def __deepcopy__(self, memo: Any) -> Any:
        return self.copy()

    def __array_wrap__(self, result: Any, context: Any = None, return_scalar: bool = False) -> Any:
        plain = np.asarray(result)
        return plain[()] if return_scalar else plain

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str) and hasattr(self, "mechanism"):  # `_has_names`, but quicker
            return self._named(key)
        return np.asarray(self)[key]

    def __contains__(self, key: Any) -> bool:
        """Whether indexing takes this name; for anything else, whether it is one of the numbers."""
        if isinstance(key, str):
            return self._has_names and self._has(key)
        return key in np.asarray(self)

    @property
    def _has_names(self) -> bool:
        return hasattr(self, "mechanism")

    @abstractmethod
    def _has(self, name: str) -> bool:
        """Whether `_named` takes this name."""

    @abstractmethod
    def _named(self, name: str) -> Any:
        """The part of the array that has this name."""

    def __reduce__(self) -> Any:
        return (type(self), (self.mechanism, np.asarray(self))) if self._has_names else np.asarray(self).__reduce__()


class Coordinates(_Named):
    """One number for each coordinate of the spanning tree, (dof,): `q[3]`, `q["elbow"]`, `q["hip"]` (k,), `q["hip.0"]`.

    The name of a coordinate, or of a joint with one axis, gives a number. The name of another joint gives an array.
    """

    def _has(self, name: str) -> bool:
        mech = self.mechanism
        return name in mech.coordinates or any(mech.joints[j].name == name for j in mech.topology.tree)

    def _named(self, name: str) -> Any:
        columns = coordinate_columns(self.mechanism, name)
        part = np.asarray(self)[columns]
        return float(part[0]) if name in self.mechanism.coordinates else part

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(coordinate_columns(self.mechanism, key) if isinstance(key, str) else key, value)


class Twists(_Named):
    """Twists (bodies, 6), linear (m/s) then angular (rad/s), each in its body's own frame: `velocities[3]`,
    `velocities["tip"]` (6,). Names of sites (in the site's frame) and "world" are accepted too."""

    def _has(self, name: str) -> bool:
        return name == WORLD or self.mechanism.has_frame(name)

    def _named(self, name: str) -> Any:
        if (index := self.mechanism.body_indices.get(name)) is not None:
            return np.asarray(self)[index].copy()
        if name == WORLD:
            return np.zeros(6)
        body, pose_body_frame = self.mechanism.frame(name)
        if body < 0:
            return np.zeros(6)
        return spatial.adjoint(spatial.inverse(pose_body_frame)) @ np.asarray(self)[body]


def coordinate_columns(mech: Mechanism, name: str) -> slice:
    """Places in q of a joint of the spanning tree, or of one coordinate."""
    if name in mech.coordinates:
        at = mech.coordinates.index(name)
        return slice(at, at + 1)
    for j in mech.topology.tree:
        if mech.joints[j].name == name:
            return mech.topology.columns[j]
    known = [*mech.coordinates, *(mech.joints[j].name for j in mech.topology.tree if len(mech.joints[j].axes) > 1)]
    at = find(known, name, f"joint or coordinate of the spanning tree of '{mech.name}'")
    return slice(at, at + 1)
