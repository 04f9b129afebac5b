"""The smallest ball around points with margins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np

from supple.mechanism.record import Array


@dataclass(frozen=True)
class Cloud:
    """Points (n, 3) in a frame at `pose` (4, 4), each with the same margin around it."""

    points: Array
    pose: Array
    margin: float

    @cached_property
    def hull(self) -> tuple[Array, float]:
        """Centre (3,) and radius of a ball around the points, in the world: theirs is the box's."""
        low, high = self.points.min(axis=0), self.points.max(axis=0)
        middle = self.pose[:3, :3] @ ((low + high) / 2) + self.pose[:3, 3]
        return middle, float(np.linalg.norm(high - low) / 2)

    def farthest(self, centre: Array, beyond: float) -> tuple[float, Array] | None:
        """The point (3,) farthest from a centre and its distance, unless none lies beyond the given one."""
        middle, radius = self.hull
        if np.linalg.norm(middle - centre) + radius <= beyond:
            return None
        local = self.pose[:3, :3].T @ (centre - self.pose[:3, 3])
        distances = ((self.points - local) ** 2).sum(axis=1)
        at = int(distances.argmax())
        return float(np.sqrt(distances[at])), self.pose[:3, :3] @ self.points[at] + self.pose[:3, 3]


def enclosing_ball(clouds: Sequence[Cloud]) -> tuple[Array, float]:
    """Centre (3,) and radius of the smallest ball that holds all points, then grown to hold their margins.

    Farthest-point iteration: the smallest ball of a few points, then the point farthest outside joins them.
    Exact for margins of zero.
    """
    start = clouds[0].pose[:3, :3] @ clouds[0].points[0] + clouds[0].pose[:3, 3]
    active = start[None]
    while True:
        centre, radius, active = _support(active)
        reach = radius * (1 + 1e-12) + 1e-300
        farthest = None
        for cloud in clouds:
            found = cloud.farthest(centre, reach)
            if found is not None and found[0] > reach:
                reach, farthest = found
        if farthest is None or (active == farthest).all(axis=1).any():
            break
        active = np.vstack([active, farthest])
    for cloud in clouds:
        found = cloud.farthest(centre, radius - cloud.margin)
        if found is not None:
            radius = max(radius, found[0] + cloud.margin)
    return centre, radius


def _support(active: Array) -> tuple[Array, float, Array]:
    """The smallest ball around at most five points, and the subset of at most four that fixes it."""
    best: tuple[Array, float, Array] | None = None
    for size in range(1, min(4, len(active)) + 1):
        for chosen in combinations(range(len(active)), size):
            base, edges = active[chosen[0]], active[list(chosen[1:])] - active[chosen[0]]
            offset = np.linalg.lstsq(2 * edges, (edges**2).sum(axis=1), rcond=None)[0] if size > 1 else np.zeros(3)
            centre, radius = base + offset, float(np.linalg.norm(offset))
            if np.linalg.norm(active - centre, axis=1).max() <= radius * (1 + 1e-10) + 1e-300 and (
                best is None or radius < best[1]
            ):
                best = centre, radius, active[list(chosen)]
    if best is not None:
        return best
    # points so nearly on one circle that no subset passes: hold them all
    centre = active.mean(axis=0)
    return centre, float(np.linalg.norm(active - centre, axis=1).max()), active[-4:]
