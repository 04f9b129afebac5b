"""A long slender arm."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from supple.mechanism.library._parts import DAMPING, NO_GRAVITY, STIFFNESS, Assembly, count, numbered
from supple.mechanism.mechanism import Mechanism

LENGTH = 0.1


def robot_arm(
    links: int = 20, stiffness: float = STIFFNESS, damping: float = DAMPING, gravity: ArrayLike = NO_GRAVITY
) -> Mechanism:
    """A snake-like arm of links of 0.1 m that bends evenly, from upright at the base to horizontal along x at `tip`.

    It is mounted at the world's origin and lies in the xz plane. The hinge axes alternate between y, which moves the
    arm up and down in its plane, and the direction within the plane that is perpendicular to the link, which moves it
    sideways.
    """
    n = count(links, 2, "links of the robot arm")
    angle = np.linspace(0.0, np.pi / 2, n)  # of each link from the vertical
    along = np.stack([np.sin(angle), 0 * angle, np.cos(angle)], axis=-1)
    across = np.stack([np.cos(angle), 0 * angle, -np.sin(angle)], axis=-1)
    points = np.concatenate([np.zeros((1, 3)), np.cumsum(LENGTH * along, axis=0)])

    parts = Assembly("robot_arm", stiffness, damping, gravity)
    axes: list[ArrayLike] = [across[i] if i % 2 else [0.0, 1.0, 0.0] for i in range(n)]
    parts.chain(numbered("link", n, last="tip"), points, axes)
    return parts.build()
