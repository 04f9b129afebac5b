"""Presses of deep shapes without a start: in steps from the first touch.

Contact is linear at the unpressed points: a point x in the shape at the depth -g needs g + n.u >= 0, with the normal n
of the shape's nearest place. That place is in front of x only if the shape is shallow. The nearest place of a point in
a ball that is deeper than half its radius, or beside the edge of a box, is on the side of the shape, so that the shape
pushes the skin sideways, and its force falls with the depth. A press that starts from a shallower one measures along
the inward normal of the skin instead (`end_of_shape` in core/contact/pad.cpp).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from supple import _core, spatial
from supple.contact.colliders import Collider
from supple.mechanism.record import Array

if TYPE_CHECKING:
    from supple.contact.pads import Touch

Indices = NDArray[np.int64]

FACING = -0.5
"""Largest n.m, with m the outward normal of the skin, of a place in front of a point; as in core/contact/pad.cpp."""
LEAST_SHARE = 1 / 16
"""Depth of the shallowest step, over that of the press."""
FARTHEST = 10.0
"""m; a shape that is still in the skin after this way does not leave it along that direction."""
BISECTIONS = 10
AXES = np.concatenate([np.eye(3), -np.eye(3)])


def press_in_steps(
    solve: Callable[[Array, Touch | None], Touch], points: Array, normals: Array, shape: Collider, pose: Array
) -> Touch:
    """The touch of a shape at `pose` (4, 4) on points (n, 3) with outward normals (n, 3): in one step if the shape is
    shallow, else in steps, each twice as deep as the one before.

    Args:
        solve: the touch of the shape, moved by a translation (3,) from `pose`; it starts from another touch or from
            none.
    """
    here = np.zeros(3)
    touch = solve(here, None)
    if not touch.forces.any() and len(points_behind(points, normals, shape, pose)):
        return touch  # the shape may have come from the other side
    if not _is_deep(touch, here, points, shape, pose):
        return touch
    way = _way_out(points, normals, shape, pose)

    def touch_at(share: float) -> Touch:
        """The touch at this share of the depth."""
        away = (1 - share) * way
        touch = solve(away, None)
        if share > LEAST_SHARE and _is_deep(touch, away, points, shape, pose):
            return solve(away, touch_at(share / 2))
        return touch

    return solve(here, touch_at(0.5))


def _is_deep(touch: Touch, away: Array, points: Array, shape: Collider, pose: Array) -> bool:
    """Whether the shape, moved by `away` (3,), has a point (n, 3) in it whose nearest place is not in front of it."""
    if shape.kind == "plane":
        return False
    in_front = np.einsum("ni,ni->n", touch.contact_normals, touch.pad.normals) <= FACING
    front = points_inside(touch.pad.points[in_front] - away, shape, pose)
    return len(points_inside(points - away, shape, pose)) > len(front)


def _way_out(points: Array, normals: Array, shape: Collider, pose: Array) -> Array:
    """(3,) m: the translation along the mean normal of the points in the shape that takes it out of the skin."""
    outward = normals[points_inside(points, shape, pose)].mean(axis=0)
    outward /= max(float(np.linalg.norm(outward)), 1e-300)
    inner, outer = 0.0, 1e-3 * float(np.linalg.norm(np.ptp(points, axis=0)))
    while len(points_inside(points - outer * outward, shape, pose)) and outer < FARTHEST:
        inner, outer = outer, 2 * outer
    for _ in range(BISECTIONS):
        middle = 0.5 * (inner + outer)
        touches = len(points_inside(points - middle * outward, shape, pose)) > 0
        inner, outer = (middle, outer) if touches else (inner, middle)
    return np.asarray(outer * outward)


def points_inside(points: Array, shape: Collider, pose: Array) -> Indices:
    """Indices of the points (n, 3) in a shape, whichever side of it is the nearest one."""
    found = _facing(np.tile(points, (len(AXES), 1)), np.repeat(AXES, len(points), axis=0), shape, pose)
    return np.unique(found % max(len(points), 1))  # every normal of the shape faces one of the axes


def points_behind(points: Array, normals: Array, shape: Collider, pose: Array) -> Indices:
    """Indices of the points (n, 3) with outward normals (n, 3) that lie in a shape, but nearer to its far side."""
    return _facing(points, -normals, shape, pose)


def _facing(points: Array, normals: Array, shape: Collider, pose: Array) -> Indices:
    """Indices of the points (n, 3) in a shape whose normals (n, 3) face its nearest place."""
    skin = _core.pad_collider(points, np.ascontiguousarray(normals), np.zeros(0), spatial.inverse(pose), 0.0)
    return np.asarray(_core.near_points(skin, shape.core, 0.0)[0], dtype=np.int64)
