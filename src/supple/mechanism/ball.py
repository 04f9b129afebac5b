"""The smallest ball around points with margins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from supple.mechanism.record import Array


@dataclass(frozen=True)
class Cloud:
    """Points (n, 3) in a frame at `pose` (4, 4), each with the same margin around it."""

    points: Array
    pose: Array
    margin: float
    box: tuple[Array, Array] | None = None
    """Lowest and highest corner (3,) of the points, where they are known."""

    def hull(self) -> tuple[Array, float]:
        """Centre (3,) and radius of a ball around the points, in the world: that of their box."""
        low, high = self.box or (self.points.min(axis=0), self.points.max(axis=0))
        middle = self.pose[:3, :3] @ ((low + high) / 2) + self.pose[:3, 3]
        return middle, float(np.linalg.norm(high - low) / 2)

    def farthest(self, centre: Array) -> tuple[float, Array]:
        """Distance of the point farthest from a centre, and the point (3,), in the world."""
        local = self.pose[:3, :3].T @ (centre - self.pose[:3, 3])
        away = self.points - local
        distances = np.einsum("ij,ij->i", away, away)
        at = int(distances.argmax())
        return float(np.sqrt(distances[at])), self.pose[:3, :3] @ self.points[at] + self.pose[:3, 3]


def enclosing_ball(clouds: Sequence[Cloud]) -> tuple[Array, float]:
    """Centre (3,) and radius of the smallest ball that holds all points, then grown to hold their margins.

    Farthest-point iteration: the smallest ball of a few points, then the point farthest outside joins them. Only
    clouds whose own ball reaches out far enough are looked at. Exact for margins of zero.
    """
    hulls = [cloud.hull() for cloud in clouds]
    middles, sizes = np.array([middle for middle, _ in hulls]), np.array([size for _, size in hulls])

    def outermost(centre: Array, inside: float, margins: Array) -> tuple[float, Array | None]:
        bounds = np.linalg.norm(middles - centre, axis=1) + sizes + margins
        point = None
        for i in np.argsort(-bounds):
            if bounds[i] <= inside:
                break
            distance, candidate = clouds[i].farthest(centre)
            if distance + margins[i] > inside:
                inside, point = distance + margins[i], candidate
        return inside, point

    active = (clouds[0].pose[:3, :3] @ clouds[0].points[0] + clouds[0].pose[:3, 3])[None]
    while True:
        centre, radius, active = _support(active)
        _, point = outermost(centre, radius * (1 + 1e-12) + 1e-300, np.zeros(len(clouds)))
        if point is None or (active == point).all(axis=1).any():
            break
        active = np.vstack([active, point])
    return centre, outermost(centre, radius, np.array([cloud.margin for cloud in clouds]))[0]


def _support(active: Array) -> tuple[Array, float, Array]:
    """The smallest ball around at most five points, and the subset of at most four that fixes it."""
    best: tuple[Array, float, Array] | None = None
    base = active[-1]  # the one that lay outside the last ball is on the new one
    for size in range(min(3, len(active) - 1) + 1):
        for others in combinations(range(len(active) - 1), size):
            edges = active[list(others)] - base
            offset = np.linalg.lstsq(2 * edges, (edges**2).sum(axis=1), rcond=None)[0] if size else np.zeros(3)
            centre, radius = base + offset, float(np.linalg.norm(offset))
            if np.linalg.norm(active - centre, axis=1).max() <= radius * (1 + 1e-10) + 1e-300 and (
                best is None or radius < best[1]
            ):
                best = centre, radius, active[[*others, len(active) - 1]]
    if best is not None:
        return best
    # points so nearly on one circle that no subset passes: hold them all
    centre = active.mean(axis=0)
    return centre, float(np.linalg.norm(active - centre, axis=1).max()), active[-4:]
