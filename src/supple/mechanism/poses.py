"""Poses, looked up by name or index."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from supple.errors import MechanismError, listed
from supple.mechanism.axes import by_joint
from supple.mechanism.body import WORLD
from supple.mechanism.record import Array, array

if TYPE_CHECKING:
    from supple.mechanism.mechanism import Mechanism


class Poses(Sequence[Array]):
    """World poses (4, 4) of every body: `poses["tip"]`, `poses[3]`, `poses.array` (bodies, 4, 4).

    Names of sites and "world" are accepted too.
    """

    __slots__ = ("amplitudes", "array", "mechanism")

    def __init__(
        self,
        mechanism: Mechanism,
        poses: Array,
        amplitudes: Mapping[str, ArrayLike] | None = None,
        copy: bool = True,
    ) -> None:
        self.mechanism = mechanism
        self.array = poses = np.array(poses) if copy else poses
        poses.setflags(False)  # type: ignore[call-arg]  # write=False, but quicker
        self.amplitudes = _amplitudes(mechanism, amplitudes or {}) if mechanism.flexible else {}
        """(r,) modal amplitudes of each flexible body, by its name, m: its shape in the frame of its reference
        interface. Zero (undeformed) where the poses came without amplitudes."""

    def renamed(self, mechanism: Mechanism, name: str) -> Poses:
        """The same poses with the names of another mechanism, in which this one has a name."""
        result = Poses.__new__(Poses)
        result.mechanism, result.array, result.amplitudes = mechanism, self.array, self.amplitudes
        if self.amplitudes:
            result.amplitudes = {f"{name}:{own}": values for own, values in self.amplitudes.items()}
        return result

    def __getitem__(self, key: Any) -> Any:
        if not isinstance(key, str):
            return self.array[key]
        index = self.mechanism.body_indices.get(key)
        if index is not None:
            return self.array[index].copy()
        if key == WORLD:
            return np.eye(4)
        body, pose_body_frame = self.mechanism.frame(key)
        on = np.eye(4) if body < 0 else self.array[body]
        return on @ pose_body_frame

    def __contains__(self, key: object) -> bool:
        """Whether indexing takes this name; for anything else, whether it is one of the poses."""
        if isinstance(key, str):
            return key == WORLD or self.mechanism.has_frame(key)
        return any(np.array_equal(pose, key) for pose in self.array)  # type: ignore[arg-type]

    def keys(self) -> tuple[str, ...]:
        """Names of the bodies and sites, so that `dict(poses)` is {name: pose}."""
        return (*self.mechanism.body_indices, *(site.name for site in self.mechanism.sites))

    def of(self, body: str) -> Array:
        """Pose of a body or of the world, by name."""
        index = self.mechanism.body_index(body)
        pose: Array = np.eye(4) if index < 0 else self.array[index]
        return pose

    def __len__(self) -> int:
        return len(self.array)

    def __iter__(self) -> Iterator[Array]:
        return iter(self.array)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return np.array(self.array, dtype=dtype, copy=copy)

    def __repr__(self) -> str:
        return f"Poses of {len(self)} bodies of '{self.mechanism.name}'"


def _amplitudes(mech: Mechanism, given: Mapping[str, ArrayLike]) -> dict[str, Array]:
    return {
        flexible.name: array(given[flexible.name], (flexible.basis.size,), f"the amplitudes of '{flexible.name}'")
        if flexible.name in given
        else np.zeros(flexible.basis.size)
        for flexible in mech.flexible
    }


def amplitudes_in(mech: Mechanism, q: Array) -> dict[str, Array]:
    """(r,) modal amplitudes of each flexible body, by its name, m. `q` (axes,) are the coordinates of all joints, in
    the order of `mech.joints`."""
    if not mech.flexible:
        return {}
    coordinates = by_joint(mech, q)
    # the joint of the first moving interface has the amplitudes as coordinates; further joints have copies
    return {flexible.name: coordinates[flexible.frame(flexible.moving[0])] for flexible in mech.flexible}


def find_keyframe(names: Sequence[str], name: object, what: str) -> int:
    """Index of a keyframe; raises an error that lists the keyframes if there is none of this name."""
    if isinstance(name, str) and name in names:
        return names.index(name)
    known = f"it has {listed(names)}" if names else "it has no keyframes"
    raise MechanismError(f"there is no keyframe named {name!r} in {what}; {known}")


def find(names: Sequence[str], name: object, what: str) -> int:
    """Index of a name; raises an error that suggests similar names if there is none."""
    if isinstance(name, str) and name in names:
        return names.index(name)
    import difflib

    near = difflib.get_close_matches(str(name), names, n=3, cutoff=0.5) or list(names[:3])
    hint = f"; did you mean {' or '.join(repr(n) for n in near)}?" if near else ""
    raise MechanismError(f"there is no {what} named {name!r}{hint}")
