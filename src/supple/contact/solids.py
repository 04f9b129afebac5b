"""Shapes as the core's detection takes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from supple import _core
from supple.errors import MechanismError
from supple.mechanism.record import Array
from supple.mechanism.shapes import HeightField, Mesh, Shape

KINDS = ("plane", "sphere", "capsule", "box", "cylinder", "ellipsoid", "mesh", "height_field")
"""As the core numbers them."""
NO_POINTS: Array = np.zeros((0, 3))


@dataclass(frozen=True)
class Solid:
    """A shape with its numbers for the core, in the frame that carries it."""

    kind: str
    size: Array
    """As in `Shape`; a height field's half lengths."""
    pose: Array
    """(4, 4) in the frame that carries it."""
    friction: float
    """Sliding coefficient."""
    points: Array
    """(n, 3) corners of a mesh's convex hull, or (rows, columns) heights."""
    contact_type: int = 1
    contact_affinity: int = 1

    @property
    def number(self) -> int:
        return KINDS.index(self.kind)

    @property
    def rows(self) -> int:
        return len(self.points) if self.kind == "height_field" else 0


def solid(shape: Shape | HeightField, meshes: Mapping[str, Mesh], frame: Array) -> Solid:
    """A shape as seen from the frame (4, 4) that carries it; a mesh is taken as its convex hull."""
    pose, masks = np.ascontiguousarray(frame @ shape.pose), (shape.contact_type, shape.contact_affinity)
    if isinstance(shape, HeightField):
        heights = np.ascontiguousarray(shape.heights)
        return Solid("height_field", shape.size, pose, float(shape.friction[0]), heights, *masks)
    points = NO_POINTS
    if shape.mesh is not None:
        if shape.mesh not in meshes:
            raise MechanismError(f"a shape names the mesh '{shape.mesh}', which is not here; give it in `meshes`")
        points = hull(meshes[shape.mesh])
    return Solid(shape.kind, shape.size, pose, float(shape.friction[0]), points, *masks)


def hull(mesh: Mesh) -> Array:
    """(n, 3) corners of a mesh's convex hull."""
    from scipy.spatial import ConvexHull, QhullError

    try:
        found = ConvexHull(mesh.vertices)
    except (QhullError, ValueError):
        raise MechanismError(
            f"mesh '{mesh.name}' has no volume (fewer than four corners, or all in one plane), so nothing can touch "
            "it; use a thin box or a plane"
        ) from None
    corners: Array = np.ascontiguousarray(mesh.vertices[np.sort(found.vertices)])
    return corners


def contact_points(a: Solid, b: Solid, margin: float) -> Array:
    """(n, 7) points, normals (from b to a) and gaps, m, where two solids in one frame are closer than `margin`;
    by the core where it knows the pair, else by coal."""
    if not _core.compiled_pair(a.number, b.number):
        from supple.contact.general import General

        return General([a, b])(0, 1, np.array([a.pose, b.pose]), margin)
    sides = [(s.number, np.ascontiguousarray(s.size), s.pose, s.points) for s in (a, b)]
    found: Array = _core.collide(*sides[0], *sides[1], max(a.rows, b.rows), margin)
    return found
