"""Parts of the library's mechanisms: equal links and hinges with equal springs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from supple import spatial
from supple.errors import MechanismError
from supple.mechanism.body import WORLD
from supple.mechanism.builder import Builder
from supple.mechanism.mechanism import Mechanism
from supple.mechanism.record import Array
from supple.mechanism.shapes import Shape

MASS = 1.0
"""kg, of every link."""
INERTIA = (0.01, 0.01, 0.002)
"""kg m^2, principal moments of every link about its middle; z is along the link."""
RADIUS = 0.015
"""m, of the capsule that a link is drawn as (at most a tenth of its length)."""
STIFFNESS = 1000.0
"""N m/rad, of every hinge."""
DAMPING = 10.0
"""N m s/rad, of every hinge: 10 ms times the stiffness."""
NO_GRAVITY = (0.0, 0.0, 0.0)


class Assembly:
    """A builder whose links have the same mass and inertia and whose hinges have the same spring and damper."""

    def __init__(self, name: str, stiffness: float, damping: float, gravity: ArrayLike) -> None:
        self._builder = Builder(name, gravity)
        self._spring = {"stiffness": stiffness, "damping": damping}

    def link(self, name: str, start: ArrayLike, end: ArrayLike, rotation: ArrayLike | None = None) -> None:
        """Adds a link with its frame at `start`; by default its orientation is the smallest rotation from the
        world's."""
        length = float(np.linalg.norm(np.subtract(end, start)))
        self._builder.link(name, start, end, MASS, min(RADIUS, length / 10), INERTIA, rotation)

    def crossbar(self, name: str, start: Array, end: Array) -> None:
        """Adds a link with its frame in its middle."""
        length = float(np.linalg.norm(end - start))
        turn = spatial.rotation_between([0.0, 0.0, 1.0], end - start)
        rod = Shape("capsule", (RADIUS, length / 2 - RADIUS), np.eye(4))  # type: ignore[arg-type]
        self._builder.body(name, spatial.pose(turn, (start + end) / 2), MASS, inertia=INERTIA, shapes=[rod])

    def hinge(self, name: str, parent: str, child: str, at: ArrayLike, axis: ArrayLike | str) -> None:
        self._builder.hinge(name, parent, child, at, axis, **self._spring)

    def chain(
        self,
        names: Sequence[str],
        points: Array,
        axes: Sequence[ArrayLike | str],
        base: str = WORLD,
        hinge: str = "hinge",
        rotations: Sequence[Array] | None = None,
    ) -> None:
        """Adds links names[i] from points[i] to points[i + 1], each with a hinge about axes[i] at its start to the
        link before.

        The hinges are numbered: hinge_1, hinge_2 ...
        """
        parents = [base, *names[:-1]]
        for i, name in enumerate(names):
            self.link(name, points[i], points[i + 1], None if rotations is None else rotations[i])
            self.hinge(f"{hinge}_{i + 1}", parents[i], name, points[i], axes[i])

    def exclude(self, first: str, second: str) -> None:
        """Switches off contact between two links that meet at a point but are not parent and child."""
        self._builder.exclude(first, second)

    def build(self) -> Mechanism:
        return self._builder.build()


def numbered(word: str, n: int, last: str | None = None) -> list[str]:
    """word_1 ... word_n; `last` replaces the last of them."""
    names = [f"{word}_{i + 1}" for i in range(n)]
    return names if last is None else [*names[:-1], last]


def count(value: object, least: int, what: str) -> int:
    """The number of parts; raises unless it is a whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise MechanismError(f"{what} must be a whole number, {least} or more, got {value!r}")
    return int(value)
