"""Contact points of general convex shapes, by coal: pairs that the core has no formula for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from supple.contact.solids import Solid
from supple.errors import MechanismError
from supple.mechanism.record import Array


class General:
    """Contact points of pairs among some solids; their geometry is handed to coal once."""

    def __init__(self, solids: Sequence[Solid]) -> None:
        self._solids = solids
        self._geometries: dict[int, Any] = {}

    def __call__(self, first: int, second: int, poses: Array, margin: float) -> Array:
        """(n, 7) points, normals (from the second to the first) and gaps of two solids at world poses (2, 4, 4)."""
        coal = import_coal()
        places = [coal.Transform3s(pose[:3, :3], pose[:3, 3]) for pose in poses]
        a, b = self._geometry(first), self._geometry(second)
        request, result = coal.CollisionRequest(), coal.CollisionResult()
        request.enable_contact, request.num_max_contacts, request.security_margin = True, 1, margin
        if not coal.collide(a, places[0], b, places[1], request, result):
            return np.zeros((0, 7))
        found = result.getContact(0)
        normal, gap = -np.array(found.normal), float(found.penetration_depth)  # coal's normal leads to the second
        patches = coal.ContactPatchResult()
        coal.computeContactPatch(a, places[0], b, places[1], result, coal.ContactPatchRequest(), patches)
        points = [np.array(found.pos)]
        if patches.numContactPatches():
            patch = patches.getContactPatch(0)
            corners = [np.array(patch.getPoint(k)) for k in range(patch.size())]
            points = _spread(corners, normal) if len(corners) > 2 else corners or points
        return np.array([[*point, *normal, gap] for point in points])

    def _geometry(self, index: int) -> Any:
        if index not in self._geometries:
            self._geometries[index] = _geometry(self._solids[index])
        return self._geometries[index]


def import_coal() -> Any:
    try:
        import coal
    except ImportError:
        raise ImportError(
            "contact between meshes, ellipsoids, cylinders and boxes needs coal; install it with: "
            "pip install 'supple[all]'"
        ) from None
    return coal


def _geometry(solid: Solid) -> Any:
    coal = import_coal()
    match solid.kind:
        case "plane":
            return coal.Halfspace(np.array([0.0, 0.0, 1.0]), 0.0)
        case "sphere":
            return coal.Sphere(float(solid.size[0]))
        case "capsule":
            return coal.Capsule(float(solid.size[0]), 2 * float(solid.size[1]))
        case "cylinder":
            return coal.Cylinder(float(solid.size[0]), 2 * float(solid.size[1]))
        case "box":
            return coal.Box(*(2 * solid.size))
        case "ellipsoid":
            return coal.Ellipsoid(*solid.size)
        case "mesh":
            points = coal.StdVec_Vec3s()
            for point in solid.points:
                points.append(point)
            return coal.Convex.convexHull(points, False, "Qt")
    raise MechanismError(f"contact between a {solid.kind.replace('_', ' ')} and this shape is not supported")


def _spread(points: list[Array], normal: Array, most: int = 6) -> list[Array]:
    """At most that many of the corners of a flat patch, those furthest out."""
    if len(points) <= most:
        return points
    across = np.cross(normal, [1.0, 0, 0] if abs(normal[0]) < 0.7 else [0, 1.0, 0])
    other = np.cross(normal, across)
    flat = np.array(points) @ np.stack([across, other], axis=1)
    angles = 2 * np.pi * np.arange(most) / most
    chosen = {int(np.argmax(flat @ [np.cos(t), np.sin(t)])) for t in angles}
    return [points[k] for k in sorted(chosen)]
