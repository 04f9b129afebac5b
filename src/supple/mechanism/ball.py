"""The smallest ball around points with margins."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from supple.mechanism.record import Array


def enclosing_ball(points: Array, margins: Array) -> tuple[Array, float]:
    """Centre (3,) and radius of the smallest ball that holds points (n, 3), then grown to hold the margins (n,).

    Farthest-point iteration: the smallest ball of a few points, then the point farthest outside joins them.
    Exact for margins of zero; otherwise every ball of radius margin is held, with the points' own centre.
    """
    active = [int(np.argmax(np.linalg.norm(points - points.mean(axis=0), axis=1)))]
    while True:
        centre, radius, active = _support(points, active)
        distance = np.linalg.norm(points - centre, axis=1)
        farthest = int(distance.argmax())
        if distance[farthest] <= radius * (1 + 1e-12) + 1e-300 or farthest in active:
            return centre, float((distance + margins).max())
        active.append(farthest)


def _support(points: Array, active: list[int]) -> tuple[Array, float, list[int]]:
    """The smallest ball around at most five points, from the subset of at most four that fixes it."""
    best: tuple[Array, float, list[int]] | None = None
    for size in range(1, min(4, len(active)) + 1):
        for chosen in combinations(active, size):
            base, others = points[chosen[0]], points[list(chosen[1:])]
            edges = others - base
            offset = np.linalg.lstsq(2 * edges, (edges**2).sum(axis=1), rcond=None)[0] if size > 1 else np.zeros(3)
            centre, radius = base + offset, float(np.linalg.norm(offset))
            if np.linalg.norm(points[active] - centre, axis=1).max() <= radius * (1 + 1e-10) + 1e-300 and (
                best is None or radius < best[1]
            ):
                best = centre, radius, list(chosen)
    if best is not None:
        return best
    # points so nearly on one circle that no subset passes: hold them all
    centre = points[active].mean(axis=0)
    return centre, float(np.linalg.norm(points[active] - centre, axis=1).max()), active[-4:]
