"""Two rails with rungs between them: loops that share links."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from supple.mechanism.body import WORLD
from supple.mechanism.library._parts import DAMPING, NO_GRAVITY, STIFFNESS, Assembly, count, numbered
from supple.mechanism.mechanism import Mechanism

WIDTH, PIECE = 0.4, 0.2


def ladder(
    rungs: int = 16, stiffness: float = STIFFNESS, damping: float = DAMPING, gravity: ArrayLike = NO_GRAVITY
) -> Mechanism:
    """Two upright rails, 0.4 m apart along x, in pieces of 0.2 m, with a rung at every 0.2 m; the top rung is `tip`.

    There are three bodies for each rung: left_k, right_k and rung_k. Rung k is hinged to the upper ends of the two
    pieces left_k and right_k, where the next pieces start as well. All hinge axes are along x: at the feet, between
    pieces and at both ends of each rung. So the ladder bends out of its plane, both rails together; at the reference
    pose a load along the ladder does not move it. Each rung's right hinge closes a loop. The mobility is 2 for each
    rung: bending of the rails and rotation of the rung. A rung's frame is in its middle, z along the world's x.
    """
    n = count(rungs, 1, "rungs of the ladder")
    parts = Assembly("ladder", stiffness, damping, gravity)
    rung_names = numbered("rung", n, last="tip")
    for k, rung in enumerate(rung_names, start=1):
        tops = {}
        for side, x in (("left", -WIDTH / 2), ("right", WIDTH / 2)):
            foot, tops[side] = np.array([x, 0, PIECE * (k - 1)]), np.array([x, 0, PIECE * k])
            below = f"{side}_{k - 1}" if k > 1 else WORLD
            parts.link(f"{side}_{k}", foot, tops[side])
            parts.hinge(f"{side}_hinge_{k}", below, f"{side}_{k}", foot, "x")
        parts.crossbar(rung, tops["left"], tops["right"])
        for side, top in tops.items():
            parts.hinge(f"{side}_pin_{k}", f"{side}_{k}", rung, top, "x")
    for k, rung in enumerate(rung_names, start=1):
        parts.exclude(f"right_{k}", rung)
        if k < n:
            parts.exclude(f"left_{k + 1}", rung)
            parts.exclude(f"right_{k + 1}", rung)
    return parts.build()
