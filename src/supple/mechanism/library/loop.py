"""A closed ring, fixed to the ground."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from supple.errors import MechanismError
from supple.mechanism.library._parts import DAMPING, NO_GRAVITY, STIFFNESS, Assembly, count, numbered
from supple.mechanism.mechanism import Mechanism
from supple.mechanism.record import Array

RADIUS = 0.5


def loop(
    links: int = 15, stiffness: float = STIFFNESS, damping: float = DAMPING, gravity: ArrayLike = NO_GRAVITY
) -> Mechanism:
    """A ring of an odd number of links and the ground: a regular polygon of radius 0.5 m, upright in the xz plane.

    The ground is its lowest side, centred on the world's origin. Two equal chains, left_1 ... and right_1 ..., carry
    the top side, `tip`; its right hinge, `closure`, closes the loop. The hinge axes alternate between y and the
    direction within the plane that is perpendicular to the link, so the ring bends in its plane and out of it. There
    are links + 1 hinges, and the loop closure removes 6 degrees of freedom.
    """
    n = count(links, 7, "links of the loop")
    if n % 2 == 0:
        raise MechanismError(f"links of the loop must be odd (two equal sides and the tip), got {n}")
    side = n // 2
    corner = np.pi / (n + 1) * (2 * np.arange(side + 1) + 1)  # angle from straight down
    height = RADIUS * (np.cos(np.pi / (n + 1)) - np.cos(corner))
    left = np.stack([-RADIUS * np.sin(corner), 0 * corner, height], axis=-1)
    right = left * [-1, 1, 1]

    parts = Assembly("loop", stiffness, damping, gravity)
    for word, points in (("left", left), ("right", right)):
        axes = _axes(points, points[-1] * [-1, 1, 1])
        parts.chain(numbered(word, side), points, axes, hinge=f"{word}_hinge")
    parts.link("tip", left[-1], right[-1])
    last = _axes(left, right[-1])[-1]
    parts.hinge(f"left_hinge_{side + 1}", f"left_{side}", "tip", left[-1], last)
    parts.hinge("closure", f"right_{side}", "tip", right[-1], last)
    parts.exclude(f"right_{side}", "tip")
    return parts.build()


def _axes(points: Array, end: Array) -> list[ArrayLike]:
    """Hinge axes at points (n, 3) of the xz plane, for the links that start there, the last to `end`."""
    along = np.diff([*points, end], axis=0)
    return [np.cross([0.0, 1.0, 0.0], d) if i % 2 else [0.0, 1.0, 0.0] for i, d in enumerate(along)]
