"""A skin that follows moving bodies at high rates, by the compiled core."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from supple import spatial
from supple.contact.pads import Pad
from supple.elastic._checks import Array, Indices, indices
from supple.elastic.solid import point_areas, triangles_of
from supple.errors import MechanismError
from supple.zones.terms import ZoneTerms
from supple.zones.zone import Zone

if TYPE_CHECKING:
    from supple.zones.skin import Skin, Where


class MovingSkin:
    """A skin with the state of its last pose. Make one with `skin.moving()`.

    It does what `skin.at(where)` with Cholesky factors does, at high rates: a new pose, the positions of all vertices,
    and the compliance between a few touched vertices.
    """

    def __init__(self, skin: Skin) -> None:
        from supple import _core

        self.skin = skin
        kept: dict[int, int] = {}  # equal zones share the arrays of their terms
        packed: list[dict[str, Any]] = []
        zones: list[dict[str, Any]] = []
        for k, (zone, terms) in enumerate(zip(skin.zones.values(), skin.terms, strict=True)):
            if id(terms.motion) not in kept:
                kept[id(terms.motion)] = len(packed)
                packed.append(_packed_terms(skin, k, zone, terms))
            zones.append(_packed_zone(skin, k, zone) | {"terms": kept[id(terms.motion)], "seams": list(terms.seams)})
        seams = [_packed_seam(skin, i) for i in range(len(skin.seams))]
        pattern = skin.pattern
        self.core = _core.ZoneSkin(
            packed, zones, seams, list(pattern.order), [list(own) for own in pattern.below], skin.vertex_count
        )
        """The compiled skin (`supple::zones::Skin`)."""
        self.move()

    def move(self, where: Where = None) -> None:
        """Moves the skin to a pose: see `Skin.at`.

        Raises:
            MechanismError: a pose that is not finite.
        """
        self.core.move(np.ascontiguousarray(self.skin.poses_at(where).array))

    @property
    def energy(self) -> float:
        """Elastic energy of the unpressed skin, J."""
        return float(self.core.energy)

    def vertices(self) -> Array:
        """(v, 3) positions of the vertices of the unpressed skin in the world, m, within about 1e-8 m."""
        return np.asarray(self.core.vertices())

    def points(self, vertices: ArrayLike) -> Array:
        """(n, 3) positions of touch vertices of the unpressed skin in the world, m, in double precision."""
        return np.asarray(self.core.points(self._rows(vertices)))

    def compliance(self, vertices: ArrayLike) -> Array:
        """(3n, 3n) displacements of touch vertices per force on them, world axes, m/N. Symmetric positive
        semidefinite."""
        return np.asarray(self.core.compliance(self._rows(vertices)))

    def pad(self, vertices: ArrayLike, *, friction: float = 1.0) -> Pad:
        """The pad of touch vertices (n,) in the world's frame, for contact: see `PosedSkin.pad`. Points are nodes, so
        that 10-node tetrahedra, which have points inside their faces, need `skin.at(where).pad`."""
        chosen = indices(vertices, (-1,), self.skin.vertex_count, "touch vertices")
        x = self.vertices()
        vectors = point_areas(self._touch_faces, self._touch_faces, x, len(x))[chosen]
        areas = np.linalg.norm(vectors, axis=1)
        normals = vectors / np.maximum(areas, 1e-300)[:, None]
        places, weights = chosen[:, None], np.ones((len(chosen), 1))
        points, C = self.points(chosen), self.compliance(chosen)
        place = np.full(len(x), -1)
        place[chosen] = np.arange(len(chosen))
        triangles = place[self._touch_triangles]
        triangles = triangles[(triangles >= 0).all(axis=1)]
        return Pad(points, normals, areas, C, triangles, friction=friction, vertices=places, weights=weights)

    @cached_property
    def _touch_triangles(self) -> Indices:
        """(m, 3) vertices of the triangles that may be touched."""
        return triangles_of(self._touch_faces)

    @cached_property
    def _touch_faces(self) -> Indices:
        """(f, 4) or (f, 3) vertices of the faces that may be touched."""
        pairs = zip(self.skin.zones.values(), self.skin.vertex_of, strict=True)
        faces = [vertices[zone.touch_faces] for zone, vertices in pairs if len(zone.touch_faces)]
        if len({own.shape[1] for own in faces} | {6}) > 2 or any(own.shape[1] == 6 for own in faces):
            raise MechanismError("a moving skin makes pads of hexahedra only; use skin.at(where).pad")
        return np.concatenate(faces)

    def _rows(self, vertices: ArrayLike) -> Any:
        chosen = indices(vertices, (-1,), self.skin.vertex_count, "touch vertices")
        rows = self._places[chosen]
        for wrong in chosen[rows[:, 2] < 0][:1]:
            raise MechanismError(f"vertex {wrong} cannot be touched; choose among skin.touch")
        return np.ascontiguousarray(rows)

    @cached_property
    def _places(self) -> Any:
        """(v, 3) zone (-1: none), seam (-1: none) and row of every vertex that can be touched; row -1 for others."""
        result = np.full((self.skin.vertex_count, 3), -1, dtype=np.int32)
        for k, (zone, vertices) in enumerate(zip(self.skin.zones.values(), self.skin.vertex_of, strict=True)):
            own = vertices[zone.free_touch]
            result[own] = np.stack([np.full(len(own), k), np.full(len(own), -1), np.arange(len(own))], axis=1)
        touched = np.zeros(self.skin.vertex_count, dtype=bool)
        touched[self.skin.touch] = True
        for i in range(len(self.skin.seams)):
            own = self.skin.seam_vertices(i)
            rows = np.stack([np.full(len(own), -1), np.full(len(own), i), np.arange(len(own))], axis=1)
            result[own[touched[own]]] = rows[touched[own]]
        return result


def _packed_terms(skin: Skin, k: int, zone: Zone, terms: ZoneTerms) -> dict[str, Any]:
    """Arrays that equal zones share, as `zones_module.cpp` reads them."""
    t, shown = len(zone.free_touch), _free_surface_count(skin, k, zone)
    arrays = {
        "stiffness": terms.stiffness,
        "affine": terms.affine,
        "affine_stiffness": terms.affine_stiffness,
        "motion": terms.motion[: 3 * t],
        "affine_motion": terms.affine_motion[: 3 * t],
        "compliance": zone.greens.compliance[: 3 * t],
        "nodes": zone.nodes[zone.free[:t]],
        "surface_motion": terms.motion[: 3 * shown],
        "surface_affine": terms.affine_motion[: 3 * shown],
        "surface_nodes": zone.nodes[zone.free[:shown]],
    }
    return {name: np.ascontiguousarray(values, dtype=float) for name, values in arrays.items()} | {
        "functions": [skin.bases[i].shape[1] for i in terms.seams],
        "amplitudes": len(terms.stiffness),
        "affine_count": len(terms.affine_stiffness),
        "touch_count": t,
        "surface_count": shown,
    }


def _packed_zone(skin: Skin, k: int, zone: Zone) -> dict[str, Any]:
    """Places and vertices of a zone."""
    vertices = skin.vertex_of[k]
    carried = [(i, node) for i, bone in enumerate(zone.bones.values()) for node in bone if vertices[node] >= 0]
    bodies = list(skin.bodies.values())[k]
    rest, frame = skin.mechanism.poses, skin.reference_frames[k]
    return {
        "bones": len(zone.bones),
        "surface_vertices": vertices[zone.free[: _free_surface_count(skin, k, zone)]].tolist(),
        "carried_bones": [i for i, _ in carried],
        "carried_vertices": [int(vertices[node]) for _, node in carried],
        "carried_nodes": np.ascontiguousarray(zone.nodes[[node for _, node in carried]]),
        "bodies": [skin.mechanism.body_index(body) for body in bodies],
        "on_body": np.array([spatial.inverse(rest.of(body)) @ frame for body in bodies]),
        "reference": np.ascontiguousarray(frame),
    }


def _free_surface_count(skin: Skin, k: int, zone: Zone) -> int:
    """Number of free nodes of the surface; they come first in `zone.free`."""
    return int((skin.vertex_of[k][zone.free] >= 0).sum())


def _packed_seam(skin: Skin, i: int) -> dict[str, Any]:
    seam = skin.seams[i]
    zone = list(skin.zones.values())[seam.zones[0]]
    packed: dict[str, Any] = {
        "zones": list(seam.zones),
        "vertices": skin.seam_vertices(i).tolist(),
        "functions": np.ascontiguousarray(skin.bases[i]),
        "nodes": np.ascontiguousarray(zone.nodes[zone.seam[seam.nodes[0]]]),
    }
    residual = skin.residuals[i]
    if residual is not None:
        place = np.full(skin.vertex_count, -1)
        place[residual.vertices] = np.arange(len(residual.vertices))
        first, second = (skin.vertex_of[k][skin.zone_list[k].free_touch] for k in seam.zones)
        packed["residual"] = {
            "axis": residual.axis.tolist(),
            "angles": residual.angles.tolist(),
            "points": len(residual.vertices),
            "compliances": list(residual.compliances),
            "first": place[first].tolist(),
            "second": place[second].tolist(),
            "own": place[skin.seam_vertices(i)].tolist(),
        }
    return packed
