"""A trunk that splits into two arms."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from supple.mechanism.library._parts import DAMPING, NO_GRAVITY, STIFFNESS, Assembly, numbered
from supple.mechanism.mechanism import Mechanism

LINKS = 6
TRUNK = np.array([0.0, 0.0, 0.2])
ARMS = {"left": np.array([-0.14, 0.0, 0.14]), "right": np.array([0.14, 0.0, 0.14])}


def y(stiffness: float = STIFFNESS, damping: float = DAMPING, gravity: ArrayLike = NO_GRAVITY) -> Mechanism:
    """An upright trunk of 6 links of 0.2 m and two arms of 6 links along (-0.14, 0, 0.14) and (0.14, 0, 0.14) m.

    The arms end in `left_tip` (on the side of negative x) and `right_tip`. The hinge axes alternate between the world's
    x and y at the reference pose, in the trunk and in each arm, so every other hinge of an arm also twists it.
    """
    parts = Assembly("y", stiffness, damping, gravity)
    steps = np.arange(LINKS + 1)[:, None]
    axes = ["x", "y"] * (LINKS // 2)
    trunk = numbered("trunk", LINKS)
    parts.chain(trunk, steps * TRUNK, axes, hinge="trunk_hinge")
    for side, step in ARMS.items():
        names = numbered(side, LINKS, last=f"{side}_tip")
        parts.chain(names, LINKS * TRUNK + steps * step, axes, base=trunk[-1], hinge=f"{side}_hinge")
    parts.exclude("left_1", "right_1")
    return parts.build()
