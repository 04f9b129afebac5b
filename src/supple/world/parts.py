"""The mechanisms of a world as one: a joined description, and state and inputs by joined names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from supple.errors import MechanismError
from supple.mechanism import WORLD, Body, Joint, Mechanism, Mesh, Poses, Shape
from supple.mechanism.joining import APPENDED, with_prefix
from supple.mechanism.moving import Participant
from supple.mechanism.named import Coordinates, Twists
from supple.mechanism.poses import find
from supple.mechanism.record import Array
from supple.mechanism.shapes import HeightField


class Parts:
    """The mechanisms of a world by name. A part of one is named "mechanism:name"."""

    def __init__(self, mechanisms: Mapping[str, Participant], resolved: dict[str, tuple[Participant, str]]) -> None:
        """`resolved`: what `find` has found among these mechanisms; it adds to that."""
        self._mechanisms, self._resolved = mechanisms, resolved

    # names

    def find(self, name: object) -> tuple[Participant, str] | None:
        """The mechanism that a name such as "mechanism:body" refers to, and the name of the part in it; None if no
        mechanism of the world begins it."""
        if not isinstance(name, str):
            return None
        found = self._resolved.get(name)
        if found is None:
            for mechanism, sim in self._mechanisms.items():
                if name.startswith(f"{mechanism}:"):
                    found = self._resolved[name] = sim, name[len(mechanism) + 1 :]
                    break
        return found

    def grouped(self, given: Any, what: str) -> list[tuple[Participant, dict[str, Any]]]:
        """Values {"mechanism:name": value} as {name: value} for each mechanism."""
        if not isinstance(given, Mapping):
            raise MechanismError(f'{what} of a world are given as {{"mechanism:name": value}}, got {given!r:.60}')
        groups: dict[int, tuple[Participant, dict[str, Any]]] = {}
        for name, value in given.items():
            found = self.find(name)
            if found is None:
                known = [f"{m}:{axis}" for m, sim in self._mechanisms.items() for axis in sim.mechanism.coordinates]
                find(known, name, 'part of a mechanism in this world, "mechanism:name",')
            else:
                groups.setdefault(id(found[0]), (found[0], {}))[1][found[1]] = value
        return list(groups.values())

    def by_name(self, field: str) -> dict[str, Any]:
        """A dictionary of every mechanism, such as `targets`, with the joined names."""
        own = {m: getattr(sim, field) for m, sim in self._mechanisms.items()}
        return {f"{m}:{name}": value for m, values in own.items() for name, value in values.items()}

    # description

    def joined(
        self, objects: Mapping[str, Body], ground: Sequence[Shape | HeightField], meshes: Mapping[str, Mesh]
    ) -> Mechanism:
        """All mechanisms, the objects on free joints, and the ground, as one mechanism. Raises if there are none."""
        named = {name: with_prefix(sim.mechanism, f"{name}:") for name, sim in self._mechanisms.items()}
        whole: dict[str, Any] = {field: [] for field in ("bodies", "joints", "sites", "contact_excludes", *APPENDED)}
        for part in named.values():
            for field, values in whole.items():
                values += getattr(part, field)
        whole["bodies"] += [replace(body, name=name) for name, body in objects.items()]
        whole["joints"] += [_free_joint(name, body.pose) for name, body in objects.items()]
        whole["meshes"] += meshes.values()
        if not whole["bodies"]:
            raise MechanismError("this world is empty; add a simulation or an object to it")
        return Mechanism(
            name=" and ".join(self._mechanisms) or "objects",
            shapes=tuple(shape for shape in ground if isinstance(shape, Shape)),
            height_fields=tuple(field for field in ground if isinstance(field, HeightField)),
            **whole,
        )

    # state

    def poses(self, whole: Mechanism, objects: Sequence[Array]) -> Poses:
        """World poses of the bodies of all mechanisms, then of the objects (4, 4)."""
        own = {name: sim.poses for name, sim in self._mechanisms.items()}
        amplitudes = {f"{m}:{name}": values for m, poses in own.items() for name, values in poses.amplitudes.items()}
        arrays = [*(poses.array for poses in own.values()), np.reshape(objects, (-1, 4, 4))]
        return Poses(whole, np.concatenate(arrays), amplitudes, False)

    def velocities(self, whole: Mechanism, objects: Sequence[Array]) -> Twists:
        """Twists (bodies, 6) of the bodies of all mechanisms, then of the objects (6,)."""
        own = [sim.velocities for sim in self._mechanisms.values()]
        velocities: Twists = self._joined(whole, own, [twist[None] for twist in objects])
        return velocities

    def q(self, whole: Mechanism, objects: Mapping[str, Any]) -> Coordinates:
        """Coordinates (dof,) of all mechanisms, and of the objects relative to their first poses."""
        values = [free.coordinates(_first_pose(whole, name)) for name, free in objects.items()]
        q: Coordinates = self._joined(whole, [sim.q for sim in self._mechanisms.values()], values)
        return q

    def qd(self, whole: Mechanism, objects: Mapping[str, Any]) -> Coordinates:
        """Their time derivative (dof,)."""
        values = [free.rates(_first_pose(whole, name)) for name, free in objects.items()]
        qd: Coordinates = self._joined(whole, [sim.qd for sim in self._mechanisms.values()], values)
        return qd

    def _joined(self, whole: Mechanism, own: Sequence[Any], objects: Sequence[Array]) -> Any:
        """Arrays of the mechanisms, then of the objects, as one with the names of the whole: its bodies, and so its
        coordinates, are in this order."""
        kind = type(own[0]) if own else Coordinates if objects[0].ndim == 1 else Twists
        return kind(whole, np.concatenate([*map(np.asarray, own), *objects]), False)


def _first_pose(whole: Mechanism, name: str) -> Array:
    """(4, 4) pose of an object when it was added."""
    pose: Array = whole.joint(_free_name(name)).pose_parent
    return pose


def _free_name(name: str) -> str:
    return f"{name}:free"


def _free_joint(name: str, pose: Array) -> Joint:
    """A free joint to the world: three translations, then a rotation vector."""
    axes = tuple(f"{name}:free.{i}" for i in range(6))
    return Joint(_free_name(name), WORLD, name, pose, np.eye(4), np.eye(6), (1, 1, 1, 3), axes=axes)
