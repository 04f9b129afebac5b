"""Unique names and the report of an import."""

from __future__ import annotations

from collections.abc import Iterable

from supple.mechanism.coupling import ImportNote

DRY_FRICTION = "dry friction is not simulated"


class Report:
    """Collects elements that a Mechanism cannot represent; elements with the same reason share a note."""

    def __init__(self) -> None:
        self._items: dict[tuple[str, str], list[str]] = {}

    def add(self, kind: str, name: str, reason: str) -> None:
        """Adds an element by its kind in the file and its name."""
        self._items.setdefault((kind, reason), []).append(name)

    def damping(self, value: float, element: str, name: str) -> float:
        """The damping of an element, or zero and a note if it is negative."""
        if value < 0:
            self.add(f"damping of {element}", name, "a negative damping is not imported")
        return max(value, 0.0)

    def count(self, kind: str, number: int, reason: str) -> None:
        """Adds a number of elements without names."""
        if number:
            self._items[f"{number} {kind}", reason] = []

    def notes(self) -> tuple[ImportNote, ...]:
        return tuple(
            ImportNote(" ".join([kind, ", ".join(f"'{name}'" for name in names)]).strip(), reason)
            for (kind, reason), names in self._items.items()
        )


class Names:
    """Makes names unique."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = set(taken)

    def make_unique(self, name: str) -> str:
        """The name itself or, if it is in use, with a number appended; the result counts as in use from now on."""
        chosen, number = name, 2
        while chosen in self._taken:
            chosen, number = f"{name}_{number}", number + 1
        self._taken.add(chosen)
        return chosen
