"""Contact points of a skin: which vertices they are, and how zones share them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from supple.contact.pads import Touch
from supple.elastic._checks import Array, Indices, numbers
from supple.errors import MechanismError
from supple.zones.zone import Zone


@dataclass(frozen=True, eq=False)
class ContactPoints:
    """The points of a skin where contact forces act: touch nodes, or three points a face of 10-node tetrahedra. A node
    that zones share is one point."""

    vertices: Indices
    """(p, k) vertices whose weighted mean each point is: k = 1, or 6 if a zone has 10-node tetrahedra. Unused places
    repeat a vertex with weight 0."""
    weights: Array
    """(p, k) weights of the vertices."""
    zones: Indices
    """(p,) zone whose Green's functions describe the point."""
    nodes: Indices
    """(p, k) nodes of that zone, as `vertices`."""
    of_zone: tuple[Indices, ...]
    """For each zone: the point of each row of `Zone.points`."""
    triangles: Indices
    """(m, 3) points of the triangles between them, counter-clockwise seen from outside."""

    @property
    def count(self) -> int:
        """Number of points."""
        return len(self.zones)


def contact_points_of(zones: Mapping[str, Zone], vertex_of: tuple[Indices, ...], triangles: Indices) -> ContactPoints:
    """Contact points of zones whose nodes are the vertices `vertex_of` (-1: none) of a skin with triangles (m, 3)."""
    known: dict[int, int] = {}
    owners: list[int] = []
    nodes: list[Indices] = []
    weights: list[Array] = []
    of_zone = []
    for k, zone in enumerate(zones.values()):
        matrix = _csr(zone)
        places = np.zeros(matrix.shape[0], dtype=np.int64)
        for p in range(matrix.shape[0]):
            row = slice(matrix.indptr[p], matrix.indptr[p + 1])
            own = matrix.indices[row]
            vertex = int(vertex_of[k][own[0]]) if len(own) == 1 else -1
            if vertex in known:
                places[p] = known[vertex]
                continue
            places[p] = len(owners)
            if vertex >= 0:
                known[vertex] = len(owners)
            owners.append(k)
            nodes.append(own)
            weights.append(matrix.data[row])
        of_zone.append(places)
    width = max((len(own) for own in nodes), default=1)
    wide = np.array([np.resize(own, width) for own in nodes], dtype=np.int64).reshape(-1, width)
    shares = np.array([np.pad(own, (0, width - len(own))) for own in weights]).reshape(-1, width)
    owner = np.array(owners, dtype=np.int64)
    vertices = np.array([vertex_of[k][own] for k, own in zip(owners, wide, strict=True)]).reshape(-1, width)
    place = np.full(max((int(own.max()) + 1 for own in vertex_of if len(own)), default=0), -1)
    place[list(known)] = list(known.values())
    between = place[triangles]
    corners, inside = [], []  # of faces of 10-node tetrahedra
    for k, zone in enumerate(zones.values()):
        if len(zone.touch) and zone.touch_faces.shape[1] == 6:
            corners.append(vertex_of[k][zone.touch_faces[:, :3]])
            inside.append(of_zone[k][zone.points[1]])
    surface = [between[(between >= 0).all(axis=1)]]
    if corners:
        surface.append(triangles_between(np.concatenate(corners), np.concatenate(inside)))
    return ContactPoints(vertices, shares, owner, wide, tuple(of_zone), np.concatenate(surface))


def triangles_between(corners: Indices, points: Indices) -> Indices:
    """(m, 3) triangles of a surface whose corners are three points in each face; all counter-clockwise.

    Each face gives a triangle of its points, each edge that two faces share the two triangles across it, and each
    corner inside the surface the polygon of the points around it.

    Args:
        corners: (f, 3) corners of the faces.
        points: (f, 3) the point of each face that is nearest to each of its corners.
    """
    result = [tuple(own) for own in points.tolist()]
    sides: dict[tuple[int, int], tuple[int, int]] = {}  # from corner to corner: the points beside it, left of it
    for own, inside in zip(corners.tolist(), points.tolist(), strict=True):
        for i in range(3):
            j = (i + 1) % 3
            sides[own[i], own[j]] = (inside[i], inside[j])
    for (a, b), (left_a, left_b) in sides.items():
        if a < b and (b, a) in sides:
            right_b, right_a = sides[b, a]
            result += [(right_a, right_b, left_b), (right_a, left_b, left_a)]
    around: dict[int, dict[int, tuple[int, int]]] = {}  # by corner, then the next one: the last one and the point
    for own, inside in zip(corners.tolist(), points.tolist(), strict=True):
        for i in range(3):
            around.setdefault(own[i], {})[own[(i + 1) % 3]] = (own[(i + 2) % 3], inside[i])
    for faces in around.values():
        first = next(iter(faces))
        at = first
        polygon: list[int] = []
        while at in faces and len(polygon) < len(faces):
            at, point = faces[at]
            polygon.append(point)
        if at == first and len(polygon) == len(faces):
            result += [(polygon[0], polygon[k], polygon[k + 1]) for k in range(1, len(polygon) - 1)]
    return np.array(result, dtype=np.int64).reshape(-1, 3)


def _csr(zone: Zone) -> Any:
    """`Zone.points` of a zone; no rows if nothing may touch it."""
    if len(zone.touch) == 0:
        from scipy.sparse import csr_array

        return csr_array((0, len(zone.nodes)))
    return zone.points[0].tocsr()


@dataclass(frozen=True, eq=False)
class Taxels:
    """Tactile elements on a skin. They move with it. Make some with `Skin.taxels`."""

    areas: Array
    """(k, v) m^2 of skin around each vertex that counts for each element."""

    def read(self, touch: Touch) -> Array:
        """(k,) Pa: mean pressure over each element's skin, for a result of `Skin.press` or of a pad of this skin."""
        force = np.zeros(self.areas.shape[1])
        np.add.at(force, touch.pad.vertices, touch.pad.weights * touch.normal_forces[:, None])
        return np.asarray((self.areas > 0) @ force / self.areas.sum(axis=1))


def taxels_of(points: ArrayLike, radius: float, vertices: Array, areas: Array) -> Taxels:
    """Elements at points (k, 3) on a skin with vertices (v, 3) that stand for areas (v,), m^2."""
    at = numbers(points, (-1, 3), "tactile elements")
    if not radius > 0:
        raise MechanismError(f"the radius of a tactile element must be positive, got {radius:g} m")
    own = (np.linalg.norm(at[:, None] - vertices[None], axis=2) <= radius) * areas
    for wrong in np.flatnonzero(own.sum(axis=1) <= 0)[:1]:
        raise MechanismError(
            f"tactile element {wrong} at {np.round(at[wrong], 5).tolist()} has no skin within {radius:g} m; "
            "enlarge the radius or move it"
        )
    return Taxels(own)
