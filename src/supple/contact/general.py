"""Contact points of convex shapes by coal, for pairs that have no closed form in the core."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supple.contact.colliders import POINT, Collider, Records
from supple.errors import MechanismError
from supple.mechanism.record import Array


class GeneralPairs:
    """Contact points of pairs of colliders. Each collider's geometry is given to coal once."""

    def __init__(self, colliders: Sequence[Collider]) -> None:
        self._colliders = colliders
        self._geometries: dict[int, Any] = {}

    def __call__(self, first: int, second: int, poses: Array, margin: float) -> NDArray[np.uint8]:
        """The bytes of `contact_points`, for the core."""
        return self.contact_points(first, second, poses, margin).view(np.uint8)

    def contact_points(self, first: int, second: int, poses: Array, margin: float) -> Records:
        """(n,) records of type `POINT` of two colliders, given by index, at world poses (2, 4, 4)."""
        coal = import_coal()
        transforms = [coal.Transform3s(pose[:3, :3], pose[:3, 3]) for pose in poses]
        a, b = self._geometry(first), self._geometry(second)
        request, result = coal.CollisionRequest(), coal.CollisionResult()
        request.enable_contact, request.num_max_contacts, request.security_margin = True, 1, margin
        if not coal.collide(a, transforms[0], b, transforms[1], request, result):
            return np.zeros(0, dtype=POINT)
        contact = result.getContact(0)
        # coal's normal points from the first to the second
        normal, gap = -np.array(contact.normal), float(contact.penetration_depth)
        patches = coal.ContactPatchResult()
        coal.computeContactPatch(a, transforms[0], b, transforms[1], result, coal.ContactPatchRequest(), patches)
        positions = [np.array(contact.pos)]
        if patches.numContactPatches():
            patch = patches.getContactPatch(0)
            corners = [np.array(patch.getPoint(k)) for k in range(patch.size())]
            positions = _outermost(corners, normal) if len(corners) > 2 else corners or positions
        points: Records = np.zeros(len(positions), dtype=POINT)
        points["position"], points["normal"], points["gap"] = positions, normal, gap
        return points

    def _geometry(self, index: int) -> Any:
        if index not in self._geometries:
            self._geometries[index] = coal_geometry(self._colliders[index])
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


def coal_geometry(collider: Collider) -> Any:
    """A collider as a geometry of coal, in its own frame."""
    coal = import_coal()
    match collider.kind:
        case "plane":
            return coal.Halfspace(np.array([0.0, 0.0, 1.0]), 0.0)
        case "sphere":
            return coal.Sphere(float(collider.size[0]))
        case "capsule":
            return coal.Capsule(float(collider.size[0]), 2 * float(collider.size[1]))
        case "cylinder":
            return coal.Cylinder(float(collider.size[0]), 2 * float(collider.size[1]))
        case "box":
            return coal.Box(*(2 * collider.size))
        case "ellipsoid":
            return coal.Ellipsoid(*collider.size)
        case "mesh":
            points = coal.StdVec_Vec3s()
            for point in collider.points:
                points.append(point)
            return coal.Convex.convexHull(points, False, "Qt")
    kind = collider.kind.replace("_", " ")
    raise MechanismError(f"contact between a {kind} and this shape is not supported; use another shape")


def _outermost(points: list[Array], normal: Array, most: int = 6) -> list[Array]:
    """At most `most` corners of a flat patch: the farthest in each of as many directions."""
    if len(points) <= most:
        return points
    across = np.cross(normal, [1.0, 0, 0] if abs(normal[0]) < 0.7 else [0, 1.0, 0])
    other = np.cross(normal, across)
    flat = np.array(points) @ np.stack([across, other], axis=1)
    angles = 2 * np.pi * np.arange(most) / most
    chosen = {int(np.argmax(flat @ [np.cos(t), np.sin(t)])) for t in angles}
    return [points[k] for k in sorted(chosen)]
