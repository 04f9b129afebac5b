"""A roller chain, open at its end."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from supple import spatial
from supple.mechanism.body import WORLD
from supple.mechanism.builder import Builder
from supple.mechanism.library._parts import NO_GRAVITY, count, numbered
from supple.mechanism.mechanism import Mechanism
from supple.mechanism.shapes import Shape

PITCH, MASS, HEIGHT = 0.0127, 0.0026, 0.0085
"""Distance between pins and height of the plates, m; mass of a link, kg."""


def bicycle_chain(
    links: int = 30, stiffness: float = 0.0, damping: float = 0.0, gravity: ArrayLike = NO_GRAVITY
) -> Mechanism:
    """Links of half an inch along x, each pinned about y to the one before, the first to the world; the last is `tip`.

    A link weighs 2.6 g and is a box between its pins, alternately narrow and wide. Its frame is at its first pin, with
    x along the link. The site `end` is at the free end of the tip. By default there are no springs (`stiffness`, N
    m/rad).
    """
    n = count(links, 1, "links of the bicycle chain")
    b = Builder("bicycle_chain", gravity)
    previous = WORLD
    for i, name in enumerate(numbered("link", n, last="tip")):
        width = 0.004 if i % 2 else 0.007
        size = np.array([PITCH + HEIGHT / 2, width, HEIGHT])
        middle = spatial.translation(np.array([PITCH / 2, 0, 0]))
        moments = MASS / 12 * (size @ size - size**2)
        at = np.array([PITCH * i, 0, 0])
        plate = Shape("box", size / 2, middle)
        b.body(name, spatial.translation(at), MASS, middle[:3, 3], moments, [plate])
        b.hinge(f"pin_{i + 1}", previous, name, at, "y", stiffness=stiffness, damping=damping)
        previous = name
    b.site("end", "tip", np.array([PITCH * n, 0, 0]))
    return b.build()
