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
    """A snake-like arm of links of 0.1 m that leans over evenly, from upright at the base to level along x
    at `tip`.

    It stands at the world's origin in the xz plane. The hinge axes are in turn y, which lowers and lifts
    the arm in its plane, and across the link within the plane, which swings it sideways.
    """
    n = count(links, 2, "links of the robot arm")
    lean = np.linspace(0.0, np.pi / 2, n)  # of each link from upright
    along = np.stack([np.sin(lean), 0 * lean, np.cos(lean)], axis=-1)
    across = np.stack([np.cos(lean), 0 * lean, -np.sin(lean)], axis=-1)
    points = np.concatenate([np.zeros((1, 3)), np.cumsum(LENGTH * along, axis=0)])

    parts = Assembly("robot_arm", stiffness, damping, gravity)
    axes: list[ArrayLike] = [across[i] if i % 2 else [0.0, 1.0, 0.0] for i in range(n)]
    parts.chain(numbered("link", n, last="tip"), points, axes)
    return parts.build()
