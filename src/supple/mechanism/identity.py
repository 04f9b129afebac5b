"""Which mechanism a saved state belongs to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from supple.mechanism.mechanism import Mechanism


class Identity:
    """The mechanism of a saved state. In memory it refers to the mechanism; when pickled it has only its digest, so
    that saved states stay small."""

    def __init__(self, mech: Mechanism) -> None:
        self._mech: Mechanism | None = mech
        self._digest = ""

    def is_of(self, mech: Mechanism) -> bool:
        """Whether the state was saved with an equal mechanism (see `Mechanism.digest`)."""
        return self._mech is mech or self.digest == mech.digest

    @property
    def digest(self) -> str:
        return self._digest if self._mech is None else self._mech.digest

    def __getstate__(self) -> dict[str, Any]:
        return {"_mech": None, "_digest": self.digest}


def digest(*values: Any) -> str:
    """A text that is the same for equal values and differs for others: numbers, texts, arrays, tuples, mappings and
    records of these."""
    found: list[bytes] = []
    for value in values:
        _append(found, value)
    return sha256(b"".join(found)).hexdigest()


def _append(found: list[bytes], value: Any) -> None:
    """Appends a unique description of a value."""
    if isinstance(value, np.ndarray):
        found += (value.dtype.char.encode(), repr(value.shape).encode(), (value + 0).tobytes())  # -0.0 becomes 0.0
        return
    if isinstance(value, float):
        value = float(value) + 0.0
    if isinstance(value, Mapping):
        value = tuple(each for item in value.items() for each in item)
    elif is_dataclass(value):
        value = (type(value).__name__, *(getattr(value, field.name) for field in fields(value)))
    if not isinstance(value, tuple):
        found.append(f"{value!r};".encode())
        return
    found.append(f"{len(value)}:".encode())
    for part in value:
        _append(found, part)
