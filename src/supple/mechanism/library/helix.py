"""A chain of links along a helix."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from supple.mechanism.library._parts import DAMPING, NO_GRAVITY, STIFFNESS, Assembly, count, numbered
from supple.mechanism.mechanism import Mechanism

RADIUS, RISE, LINKS_PER_TURN = 0.5, 0.3, 16


def helix(
    links: int = 50, stiffness: float = STIFFNESS, damping: float = DAMPING, gravity: ArrayLike = NO_GRAVITY
) -> Mechanism:
    """A helix of radius 0.5 m that rises 0.3 m a turn, with 16 links a turn; the last link is `tip`.

    The chain starts at (0.5, 0, 0) and goes counter-clockwise about the world's z axis. Links are chords of the helix,
    each with a hinge at its start to the link before (the first to the world). The hinge axes alternate between the
    link's x axis, which is horizontal, and its y axis; both are perpendicular to the link.
    """
    n = count(links, 1, "links of the helix")
    angle = np.arange(n + 1) * (2 * np.pi / LINKS_PER_TURN)
    points = np.stack([RADIUS * np.cos(angle), RADIUS * np.sin(angle), RISE * angle / (2 * np.pi)], axis=-1)

    z = np.diff(points, axis=0)
    z /= np.linalg.norm(z, axis=1)[:, None]
    x = np.cross([0.0, 0.0, 1.0], z)
    x /= np.linalg.norm(x, axis=1)[:, None]
    y = np.cross(z, x)
    rotations = np.stack([x, y, z], axis=-1)

    parts = Assembly("helix", stiffness, damping, gravity)
    axes = [rotations[i, :, i % 2] for i in range(n)]
    parts.chain(numbered("link", n, last="tip"), points, axes, rotations=list(rotations))
    return parts.build()
