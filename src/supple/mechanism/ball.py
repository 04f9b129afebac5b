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
    """Lowest and highest corner (3,) of the points; computed if None."""

    def bounding_ball(self) -> tuple[Array, float]:
        """Centre (3,) and radius, in world coordinates, of the ball around the points' bounding box."""
        low, high = self.box or (self.points.min(axis=0), self.points.max(axis=0))
        middle = self.pose[:3, :3] @ ((low + high) / 2) + self.pose[:3, 3]
        return middle, float(np.linalg.norm(high - low) / 2)

    def farthest(self, centre: Array) -> tuple[float, Array]:
        """Distance of the point farthest from a centre, and the point (3,), both in world coordinates."""
        local = self.pose[:3, :3].T @ (centre - self.pose[:3, 3])
        away = self.points - local
        distances = np.einsum("ij,ij->i", away, away)
        at = int(distances.argmax())
        return float(np.sqrt(distances[at])), self.pose[:3, :3] @ self.points[at] + self.pose[:3, 3]


def enclosing_ball(clouds: Sequence[Cloud]) -> tuple[Array, float]:
    """Centre (3,) and radius of the smallest ball around all points, enlarged to contain their margins.

    Farthest-point iteration: compute the smallest ball of a few active points, then add the point farthest outside it.
    A cloud is searched only if its bounding ball reaches outside the present ball. Exact for margins of zero.
    """
    balls = [cloud.bounding_ball() for cloud in clouds]
    middles, sizes = np.array([middle for middle, _ in balls]), np.array([size for _, size in balls])

    def outermost(centre: Array, reached: float, margins: Array) -> tuple[float, Array | None]:
        bounds = np.linalg.norm(middles - centre, axis=1) + sizes + margins
        point = None
        for i in np.argsort(-bounds):
            if bounds[i] <= reached:
                break
            distance, candidate = clouds[i].farthest(centre)
            if distance + margins[i] > reached:
                reached, point = distance + margins[i], candidate
        return reached, point

    active = (clouds[0].pose[:3, :3] @ clouds[0].points[0] + clouds[0].pose[:3, 3])[None]
    while True:
        centre, radius, active = _smallest_ball_of_few(active)
        _, point = outermost(centre, radius * (1 + 1e-12) + 1e-300, np.zeros(len(clouds)))
        if point is None or (active == point).all(axis=1).any():
            break
        active = np.vstack([active, point])
    return centre, outermost(centre, radius, np.array([cloud.margin for cloud in clouds]))[0]


def _smallest_ball_of_few(active: Array) -> tuple[Array, float, Array]:
    """The smallest ball around at most five points, and the subset of at most four that determines it."""
    best: tuple[Array, float, Array] | None = None
    base = active[-1]  # the point that was outside the last ball is on the surface of the new one
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
    # the points are so nearly on one circle that rounding rejects every subset: return a ball around all of them
    centre = active.mean(axis=0)
    return centre, float(np.linalg.norm(active - centre, axis=1).max()), active[-4:]
