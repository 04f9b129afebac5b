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

    no_margins = np.zeros(len(clouds))
    active = (clouds[0].pose[:3, :3] @ clouds[0].points[0] + clouds[0].pose[:3, 3])[None]
    best_centre, smallest_reach, last_radius = active[0], np.inf, -1.0
    while True:
        centre, radius, active = _smallest_ball_of_few(active)
        reach, point = outermost(centre, radius, no_margins)
        if reach < smallest_reach:
            best_centre, smallest_reach = centre, reach
        # In exact arithmetic the radius grows with every point; where it does not, only rounding is left.
        if point is None or radius <= last_radius:
            break
        last_radius = radius
        active = np.vstack([active, point])
    return best_centre, outermost(best_centre, smallest_reach, np.array([cloud.margin for cloud in clouds]))[0]


def _smallest_ball_of_few(active: Array) -> tuple[Array, float, Array]:
    """The smallest ball around at most five points, and the subset of at most four that determines it.

    The last point was outside the previous ball, so it is on the surface of the new one. Of the circumcentres of all
    subsets with it, the centre of the smallest ball is the one whose farthest point is nearest.
    """
    base = active[-1]
    best: tuple[Array, float, Array] | None = None
    for size in range(min(3, len(active) - 1) + 1):
        for others in combinations(range(len(active) - 1), size):
            edges = active[list(others)] - base
            offset = np.linalg.lstsq(2 * edges, (edges**2).sum(axis=1), rcond=None)[0] if size else np.zeros(3)
            centre = base + offset
            radius = float(np.linalg.norm(active - centre, axis=1).max())
            if best is None or radius < best[1]:
                best = centre, radius, active[[*others, len(active) - 1]]
    assert best is not None
    return best
