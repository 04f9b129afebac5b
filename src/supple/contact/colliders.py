"""Colliders: shapes as contact detection sees them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supple import _core
from supple.elastic._compiled import Compiled
from supple.errors import MechanismError
from supple.mechanism.record import Array
from supple.mechanism.shapes import HeightField, Mesh, Shape

KINDS = ("plane", "sphere", "capsule", "box", "cylinder", "ellipsoid", "mesh", "height_field", "pad")
"""In the order of the core's enumeration."""
NO_POINTS: Array = np.zeros((0, 3))
NO_FACES: Array = np.zeros((0, 4))
POINT: np.dtype[np.void] = np.dtype(_core.point_layout)  # type: ignore[call-overload]
"""Record of a contact point: `position` (3,), m; `normal` (3,), from the second shape to the first; `gap`, m, negative
where the shapes overlap."""
CONTACT: np.dtype[np.void] = np.dtype(_core.contact_layout)  # type: ignore[call-overload]
"""Record of a contact of a world: indices `first` and `second` of the colliders; `position`, `normal` and `gap` as in
`POINT`, world axes; `impulse` (3,), N s, and `moment` (3,), N m s, on the first at the position, world axes;
`position_first` (3,), m, the position in the first collider's frame."""

Records = NDArray[np.void]


@dataclass(frozen=True)
class Collider(Compiled):
    """A shape fixed to a frame."""

    kind: str
    size: Array
    """As in `Shape`; for a height field its half lengths."""
    pose: Array
    """(4, 4) from the shape to the frame."""
    friction: Array
    """(3,): sliding (no unit), torsional (m), rolling (m)."""
    points: Array
    """(n, 3) corners of a mesh's convex hull, or (rows, columns) heights."""
    contact_type: int = 1
    contact_affinity: int = 1
    faces: Array = field(default_factory=lambda: NO_FACES)
    """(m, 4) faces of a mesh's convex hull: outward normal n and offset d, n.x + d < 0 inside."""
    condim: int = 3
    restitution: float = 0.0
    priority: int = 0
    """As in `Shape`."""

    @cached_property
    def core(self) -> Any:
        """The same in the core."""
        rows = len(self.points) if self.kind == "height_field" else 0
        size, points = np.ascontiguousarray(self.size), np.ascontiguousarray(self.points)
        law = np.ascontiguousarray(self.friction), self.condim, self.restitution, self.priority
        return _core.Collider(KINDS.index(self.kind), size, self.pose, *law, points, rows, self.faces)


def collider(shape: Shape | HeightField, meshes: Mapping[str, Mesh], frame: Array) -> Collider:
    """A shape of a body as a collider of another frame; `frame` (4, 4) is the body's pose there. A mesh is replaced by
    its convex hull."""
    pose, masks = np.ascontiguousarray(frame @ shape.pose), (shape.contact_type, shape.contact_affinity)
    law: dict[str, Any] = {"condim": shape.condim, "restitution": shape.restitution, "priority": shape.priority}
    if isinstance(shape, HeightField):
        heights = np.ascontiguousarray(shape.heights)
        return Collider("height_field", shape.size, pose, shape.friction, heights, *masks, **law)
    points, faces = NO_POINTS, NO_FACES
    if shape.mesh is not None:
        if shape.mesh not in meshes:
            raise MechanismError(f"a shape names the mesh '{shape.mesh}', which is not here; give it in `meshes`")
        points, faces = convex_hull(meshes[shape.mesh])
    return Collider(shape.kind, shape.size, pose, shape.friction, points, *masks, faces, **law)


def convex_hull(mesh: Mesh) -> tuple[Array, Array]:
    """(n, 3) corners of a mesh's convex hull, and its faces (m, 4) as in `Collider`."""
    from scipy.spatial import ConvexHull, QhullError

    try:
        hull = ConvexHull(mesh.vertices)
    except (QhullError, ValueError):
        raise MechanismError(
            f"mesh '{mesh.name}' has no volume (fewer than four corners, or all in one plane), so nothing can touch "
            "it; use a thin box or a plane"
        ) from None
    corners: Array = np.ascontiguousarray(mesh.vertices[np.sort(hull.vertices)])
    faces: Array = np.ascontiguousarray(np.unique(np.round(hull.equations, 12), axis=0))
    return corners, faces


def contact_points(a: Collider, b: Collider, margin: float) -> Records:
    """(n,) records of type `POINT`: where two colliders of one frame are closer than `margin`, m. Normals point from b
    to a."""
    points: Records = _core.collide(a.core, b.core, margin).view(POINT)
    return points
