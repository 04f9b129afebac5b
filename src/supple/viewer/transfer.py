"""Starts a newly chosen method near the pose that the former method had reached."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from supple.mechanism.moving import Moving
from supple.mechanism.record import Array
from supple.viewer.clock import Clock

SECONDS = 0.15
"""s of computing, at most: a user hardly notices this delay."""
STIFFNESS_FACTOR = 30.0
"""Stiffness of the springs that pull the end effectors there, over that of a user's handle."""
TOLERANCE = 0.01
"""Distance over the radius of the mechanism below which nothing needs to be done."""
STEPS = 5
"""Steps between two readings of the clock."""


def pull_to(sim: Moving, points: Mapping[str, Array], radius: float, clock: Clock) -> None:
    """Pulls the end effectors to `points` (3,), m, by stiff springs, for `SECONDS` of computing. The springs stay: the
    caller replaces them by the user's handles."""
    distances = [float(np.linalg.norm(sim.poses[name][:3, 3] - point)) for name, point in points.items()]
    if max(distances, default=0.0) < TOLERANCE * radius:
        return
    for name, point in points.items():
        sim.pull(name, point, STIFFNESS_FACTOR * sim.handle_stiffness(name))
    end = clock() + SECONDS
    while clock() < end:
        sim.step(STEPS)
