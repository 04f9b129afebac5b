"""Compliance ellipsoids on a viser page."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from supple import spatial
from supple.reduced.matrices import Ellipsoid
from supple.viewer import facets

if TYPE_CHECKING:
    import viser

COLOUR, OPACITY = (46, 134, 171), 0.6
THINNEST = 0.01
"""Smallest semi-axis of an ellipsoid on the page, over its longest one."""
SIZE = 0.25
"""Largest semi-axis at first, over the radius of the mechanism."""


class Ellipsoids:
    """The ellipsoids of the end effectors, at the true scale for one force: the surface of each is where forces of that
    size, in all directions, would move the end effector."""

    def __init__(self, server: viser.ViserServer, name: str) -> None:
        self._server, self._name = server, name
        self._nodes: list[Any] = []

    def show(self, ellipsoids: Mapping[str, Ellipsoid], force: float) -> None:
        """Draws ellipsoids for a force, N; none if there are none."""
        while len(self._nodes) < len(ellipsoids):
            self._nodes.append(
                self._server.scene.add_icosphere(
                    f"{self._name}/{len(self._nodes)}", radius=1.0, color=COLOUR, opacity=OPACITY, cast_shadow=False
                )
            )
        for i, node in enumerate(self._nodes):
            if node.visible != (i < len(ellipsoids)):
                node.visible = i < len(ellipsoids)
        for node, each in zip(self._nodes, ellipsoids.values(), strict=False):
            sizes = force * np.maximum(each.semi_axes, THINNEST * float(each.semi_axes[0]))
            node.scale = tuple(sizes.tolist())
            node.position, node.wxyz = each.centre, spatial.quat_wxyz_from_matrix(each.directions)


def likely_force(ellipsoids: Mapping[str, Ellipsoid], radius: float) -> float:
    """N, a round number: the force under which the longest semi-axis is at most a quarter of the radius, m."""
    longest = max((float(each.semi_axes[0]) for each in ellipsoids.values()), default=0.0)
    return facets.round_number(SIZE * radius / longest) if longest > 0 else 1.0
