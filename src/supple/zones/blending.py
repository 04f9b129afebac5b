"""Vertices off the pads, which follow the skeleton without elasticity."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from supple import spatial
from supple.elastic._checks import Array, numbers
from supple.zones.layout import placed

if TYPE_CHECKING:
    from supple.zones.skin import Skin, Where

POWER = 6
"""Weights fall with this power of the distance to a zone."""


@dataclass(frozen=True, eq=False)
class BlendedVertices:
    """Vertices that follow the frames of the zones near them (skeletal subspace deformation), such as the back of a
    finger.

    They do not deform under contact.
    """

    skin: Skin
    vertices: Array
    """(n, 3) positions in the world at the reference pose, m."""
    weights: Array
    """(n, zones) share of each zone's motion; rows sum to 1."""

    @classmethod
    def of(cls, skin: Skin, vertices: ArrayLike) -> BlendedVertices:
        """Vertices (n, 3), in the world at the reference pose, m, with weights by their distances from the zones."""
        from scipy.spatial import cKDTree

        points = numbers(vertices, (-1, 3), "vertices off the pads")
        distances = [
            cKDTree(placed(zone.nodes, frame)).query(points)[0]
            for zone, frame in zip(skin.zones.values(), skin.reference_frames, strict=True)
        ]
        nearest = np.min(distances, axis=0)
        size = max(float(np.ptp(points)), 1e-12)
        ratios = (nearest + 1e-6 * size) / (np.array(distances) + 1e-6 * size)
        weights = (ratios**POWER).T
        return cls(skin, points, weights / weights.sum(axis=1, keepdims=True))

    def at(self, where: Where = None) -> Array:
        """(n, 3) positions in the world in a configuration, m."""
        frames, _ = self.skin.frames(where)
        result = np.zeros_like(self.vertices)
        for share, frame, rest in zip(self.weights.T, frames, self.skin.reference_frames, strict=True):
            result += share[:, None] * placed(self.vertices, frame @ spatial.inverse(rest))
        return result
