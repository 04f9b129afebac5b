"""The contacts of a time step of a world."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, overload

import numpy as np

from supple.contact.colliders import CONTACT, Records
from supple.mechanism.moving import Contact
from supple.mechanism.record import Array


class Contacts(Sequence[Contact]):
    """Contacts as a sequence of `Contact`, and all of them as arrays, which is quicker. They do not change."""

    __slots__ = ("_bytes", "_dt", "_names")

    def __init__(self, records: Any, names: Sequence[str], dt: float) -> None:
        """`records`: the core's, as bytes; `names`: for each collider; `dt`: time step, s."""
        self._bytes, self._names, self._dt = records, names, dt

    @property
    def records(self) -> Records:
        """(n,) records of type `CONTACT`."""
        records: Records = self._bytes.view(CONTACT)
        return records

    @property
    def points(self) -> Array:
        """(n, 3) m, world."""
        return self._field("position")

    @property
    def normals(self) -> Array:
        """(n, 3) from the second to the first, world axes."""
        return self._field("normal")

    @property
    def forces(self) -> Array:
        """(n, 3) N on the first, world axes, averaged over the step."""
        return self._field("impulse") / self._dt

    @property
    def torques(self) -> Array:
        """(n, 3) N m on the first about the point, as `forces`."""
        return self._field("moment") / self._dt

    @property
    def gaps(self) -> Array:
        """(n,) distances at the start of the step, m; negative where the shapes overlap."""
        return self._field("gap")

    def _field(self, name: str) -> Array:
        return np.array(self.records[name])

    @property
    def first(self) -> tuple[str, ...]:
        """(n,) names of the first sides, as `Contact.first`."""
        return tuple(self._names[i] for i in self.records["first"].tolist())

    @property
    def second(self) -> tuple[str, ...]:
        """(n,) names of the second sides."""
        return tuple(self._names[i] for i in self.records["second"].tolist())

    def __len__(self) -> int:
        return len(self._bytes) // CONTACT.itemsize

    @overload
    def __getitem__(self, index: int) -> Contact: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Contact, ...]: ...

    def __getitem__(self, index: int | slice) -> Contact | tuple[Contact, ...]:
        found = self.records[index]
        return tuple(map(self._contact, found)) if isinstance(index, slice) else self._contact(found)

    def _contact(self, record: Any) -> Contact:
        return Contact(
            first=self._names[record["first"]],
            second=self._names[record["second"]],
            point=record["position"].copy(),
            normal=record["normal"].copy(),
            force=record["impulse"] / self._dt,
            torque=record["moment"] / self._dt,
            gap=float(record["gap"]),
        )

    def __repr__(self) -> str:
        return f"Contacts({list(self)!r})"
