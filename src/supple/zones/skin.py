"""Skins: zones on the bodies of a mechanism, bonded where their seam nodes coincide."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from supple import spatial
from supple.contact.pads import Pad, Touch
from supple.elastic._checks import Array, Indices
from supple.elastic.solid import triangles_of
from supple.errors import MechanismError, listed
from supple.mechanism import Kinematics, Mechanism, Poses, kinematics
from supple.mechanism.record import checked_pose
from supple.mechanism.shapes import HeightField, Mesh, Shape
from supple.zones.approximations import InterpolatedInverses, near_surface, residual_compliances, seam_basis
from supple.zones.blocks import Pattern
from supple.zones.layout import COINCIDENT, Seam, coincident, find_seams, placed
from supple.zones.moving import MovingSkin
from supple.zones.points import ContactPoints, Taxels, contact_points_of, taxels_of
from supple.zones.posed import PosedSkin
from supple.zones.residual import ResidualCompliance
from supple.zones.terms import ZoneTerms, zone_terms
from supple.zones.zone import Zone

Where: TypeAlias = "Poses | Kinematics | ArrayLike | None"
"""A configuration: poses of all bodies, the result of `supple.kinematics`, coordinates q, or None for the reference."""
BEYOND = 1e-6
"""Excess over a joint's range that counts as rounding, rad or m."""


@dataclass(frozen=True, eq=False)
class Attached:
    """A zone and the bodies that carry it.

    A zone with one bone is at rest in the frame of its body. A zone with two bones lies across a joint: its frame is
    half-way between its bodies, and each bone moves with its body.
    """

    zone: Zone
    bodies: str | Sequence[str]
    """A body for each bone, in the order of `zone.bones`; the body of a zone without bones carries its frame."""
    pose: ArrayLike | None = None
    """(4, 4) from the zone's frame to that of the first body, at the reference pose. Default: they are the same."""


class Skin:
    """Zones on the bodies of a mechanism. It has no state: `at` returns the skin in a pose.

    Args:
        mechanism: its bodies carry the zones.
        zones: by name, a zone with its bodies.

    Raises:
        MechanismError: an unknown body, a number of bodies that does not fit the bones, seams that do not match.
    """

    def __init__(self, mechanism: Mechanism, zones: Mapping[str, Attached]) -> None:
        if not zones:
            raise MechanismError("a skin needs a zone at least")
        for name, own in zones.items():
            if not isinstance(own, Attached):
                raise MechanismError(
                    f"zone '{name}' needs a body: give zones.Attached(zone, body), got {type(own).__name__}"
                )
        self.mechanism = mechanism
        self.zones: Mapping[str, Zone] = MappingProxyType({name: own.zone for name, own in zones.items()})
        """The zones by name."""
        self.bodies: Mapping[str, tuple[str, ...]] = MappingProxyType(
            {name: _checked_bodies(mechanism, name, own) for name, own in zones.items()}
        )
        """By zone: the bodies that carry it."""
        self._zone_poses = [  # zone to first body
            np.eye(4) if own.pose is None else checked_pose(own.pose, f"pose of zone '{name}'")
            for name, own in zones.items()
        ]
        first = [mechanism.poses.of(bodies[0]) for bodies in self.bodies.values()]
        self.reference_frames: tuple[Array, ...] = tuple(
            H @ own for H, own in zip(first, self._zone_poses, strict=True)
        )
        """(4, 4) pose of each zone's frame in the world, at the reference pose."""
        self.seams: tuple[Seam, ...] = find_seams(self.zones, self.reference_frames)
        self.bases: tuple[Array, ...] = tuple(np.eye(seam.size) for seam in self.seams)
        """(k, m) scalar functions of each seam; by default all its nodes."""
        self.residuals: tuple[ResidualCompliance | None, ...] = (None,) * len(self.seams)
        """By seam: what its basis leaves out of the compliance of touch vertices near it."""
        self.interpolated: InterpolatedInverses | None = None
        """Inverses for the solver "interpolated"."""

    def __repr__(self) -> str:
        nodes = sum(seam.size for seam in self.seams)
        return f"Skin({len(self.zones)} zones on '{self.mechanism.name}', {len(self.seams)} seams of {nodes} nodes)"

    def prepare(self, *, cache: bool = True, progress: Callable[[float], None] | None = None) -> Skin:
        """Computes the Green's functions of all zones now (see `Zone.prepare`); returns the skin itself."""
        for zone in self.zones.values():
            zone.prepare(cache=cache, progress=progress)
        return self

    def with_bases(self, bases: Sequence[ArrayLike]) -> Skin:
        """The same skin with other scalar functions (k, m) of its seams: an array for each seam, whose k nodes are in
        the order of `seams`. Displacements that they do not span follow skeletal blending."""
        from copy import copy

        if len(bases) != len(self.seams):
            raise MechanismError(f"the skin has {len(self.seams)} seams, got {len(bases)} bases")
        arrays = [np.array(basis, dtype=float) for basis in bases]
        for i, (basis, seam) in enumerate(zip(arrays, self.seams, strict=True)):
            if basis.ndim != 2 or len(basis) != seam.size or not np.isfinite(basis).all():
                raise MechanismError(f"the basis of seam {i} must be finite and have {seam.size} rows, one a node")
        result = copy(self)
        result.interpolated = None
        for name in ("terms", "pattern"):
            result.__dict__.pop(name, None)
        result.bases = tuple(arrays)
        result.residuals = (None,) * len(arrays)
        return result

    def with_seam_basis(self, functions: int = 24) -> Skin:
        """The same skin with a few scalar functions on each seam, chosen from its displacements under presses and in
        bending: 24 functions (72 numbers) suffice for a seam of 60 nodes (180 numbers). A new pose then takes about a
        tenth of the time.

        Touch vertices near a seam keep the compliance that the functions leave out (`residuals`). It is known if the
        two zones of the seam turn about one axis against each other; other seams have none.
        """
        full = self.with_full_seams()
        result = self.with_bases(seam_basis(full, functions))
        result.residuals = residual_compliances(full, result.bases)
        return result

    def with_full_seams(self) -> Skin:
        """The same skin with all nodes of its seams."""
        return self.with_bases([np.eye(seam.size) for seam in self.seams])

    def with_seams_near_surface(self, depth: float) -> Skin:
        """The paper's approximation: only seam nodes within `depth` (m) of the touched surface are bonded; the others
        follow skeletal blending."""
        return self.with_bases(near_surface(self, depth))

    def with_blended_seams(self) -> Skin:
        """The paper's coarsest approximation, skeletal blending: each seam node is at the mean of the places to which
        its zones would carry it rigidly. Zones then do not act on each other."""
        return self.with_bases([np.zeros((seam.size, 0)) for seam in self.seams])

    def with_interpolated_seams(self, samples: Sequence[Where]) -> Skin:
        """The same skin with inverses of its diagonal seam blocks, made at sampled configurations, for the solver
        "interpolated"."""
        from copy import copy

        result = copy(self)
        result.interpolated = InterpolatedInverses.of(self, samples)
        return result

    # --- constants --------------------------------------------------------------------------------------------------

    @cached_property
    def terms(self) -> tuple[ZoneTerms, ...]:
        """The terms of each zone in the seam equations. Equal zones with equal seams share their arrays."""
        known: dict[tuple[object, ...], ZoneTerms] = {}
        result = []
        for k, zone in enumerate(self.zones.values()):
            own = [i for i, seam in enumerate(self.seams) if k in seam.zones]
            nodes = [self.seams[i].nodes[self.seams[i].zones.index(k)].tobytes() for i in own]
            key = (id(zone.greens), *nodes, *(self.bases[i].tobytes() for i in own))
            if key not in known:
                known[key] = zone_terms(zone, k, self.seams, self.bases)
            result.append(replace(known[key], seams=tuple(own)))
        return tuple(result)

    @cached_property
    def pattern(self) -> Pattern:
        """Blocks of the seam equations: a block for each seam; seams of one zone are coupled."""
        pairs = {(i, j) for terms in self.terms for i in terms.seams for j in terms.seams}
        return Pattern.of([3 * basis.shape[1] for basis in self.bases], pairs)

    @cached_property
    def vertex_of(self) -> tuple[Indices, ...]:
        """For each zone: the skin's vertex of every node, -1 for inner nodes. Bonded nodes are one vertex, and so are
        coincident nodes on the bones of one body."""
        places, owners, kinds = [], [], []
        for k, (zone, H) in enumerate(zip(self.zones.values(), self.reference_frames, strict=True)):
            surface = np.arange(len(zone.nodes)) if zone.solid is None else zone.solid.surface
            places.append(placed(zone.nodes[surface], H))
            owners.append(np.stack([np.full(len(surface), k), surface], axis=1))
            kind = np.full(len(zone.nodes), -2)  # free
            kind[zone.seam] = -1
            for bone, body in zip(zone.bones.values(), list(self.bodies.values())[k], strict=False):
                kind[bone] = 1 + self.mechanism.body_index(body)
            kinds.append(kind[surface])
        x, owner, kind = np.concatenate(places), np.concatenate(owners), np.concatenate(kinds)
        held = np.flatnonzero(kind > -2)
        labels = np.arange(len(x))
        keys = np.stack([coincident(x[held], COINCIDENT * float(np.ptp(x))), kind[held]], axis=1)
        _, first, together = np.unique(keys, axis=0, return_index=True, return_inverse=True)
        labels[held] = held[first][together.ravel()]
        numbers = np.unique(labels, return_inverse=True)[1]
        result = [np.full(len(zone.nodes), -1) for zone in self.zones.values()]
        for (k, node), vertex in zip(owner.tolist(), numbers.tolist(), strict=True):
            result[k][node] = vertex
        return tuple(result)

    @cached_property
    def vertex_count(self) -> int:
        """Number of vertices."""
        return int(max(own.max() for own in self.vertex_of)) + 1

    @cached_property
    def triangles(self) -> Indices:
        """(m, 3) vertices of the skin's surface, counter-clockwise seen from outside. Faces that two zones share are
        left out."""
        faces = []
        for zone, vertices in zip(self.zones.values(), self.vertex_of, strict=True):
            if zone.solid is not None:
                faces.append(vertices[zone.solid.faces])
        widths = {own.shape[1] for own in faces}
        kept = []
        for width in sorted(widths):
            own = np.concatenate([f for f in faces if f.shape[1] == width])
            keys = np.sort(own, axis=1)
            _, where, count = np.unique(keys, axis=0, return_inverse=True, return_counts=True)
            kept.append(triangles_of(own[count[where.ravel()] == 1]))
        return np.concatenate(kept) if kept else np.zeros((0, 3), dtype=np.int64)

    @cached_property
    def touch(self) -> Indices:
        """(t,) vertices where things may press, ascending."""
        own = [vertices[zone.touch] for zone, vertices in zip(self.zones.values(), self.vertex_of, strict=True)]
        return np.unique(np.concatenate(own))

    @cached_property
    def touch_of_zone(self) -> Mapping[str, Indices]:
        """By zone: its touch vertices."""
        pairs = zip(self.zones.items(), self.vertex_of, strict=True)
        return MappingProxyType({name: vertices[zone.touch] for (name, zone), vertices in pairs})

    @cached_property
    def zone_list(self) -> tuple[Zone, ...]:
        """The zones in order."""
        return tuple(self.zones.values())

    @cached_property
    def contact_points(self) -> ContactPoints:
        """The points where contact forces act."""
        return contact_points_of(self.zones, self.vertex_of, self.triangles)

    @cached_property
    def touch_places(self) -> tuple[Indices, ...]:
        """For each zone: the place of every node among its free touch nodes, then its seam nodes; -1: neither."""
        result = []
        for zone in self.zone_list:
            own = np.concatenate([zone.free_touch, zone.seam])
            place = np.full(len(zone.nodes), -1)
            place[own] = np.arange(len(own))
            result.append(place)
        return tuple(result)

    @cached_property
    def free_surface(self) -> tuple[int, ...]:
        """For each zone: how many of its free nodes are vertices; they come first."""
        pairs = zip(self.zone_list, self.vertex_of, strict=True)
        return tuple(int((vertices[zone.free] >= 0).sum()) for zone, vertices in pairs)

    def seam_vertices(self, i: int) -> Indices:
        """(k,) vertices of the nodes of seam i."""
        seam = self.seams[i]
        zone = list(self.zones.values())[seam.zones[0]]
        return np.asarray(self.vertex_of[seam.zones[0]][zone.seam[seam.nodes[0]]])

    # --- poses --------------------------------------------------------------------------------------------------------

    def frames(self, where: Where = None) -> tuple[list[Array], list[list[Array]]]:
        """Pose (4, 4) of each zone's frame in the world; and for each zone, by bone, the pose of its bone: (4, 4) from
        the zone's coordinates to the world for points fixed to that bone's body."""
        poses = self.poses_at(where)
        rest = self.mechanism.poses
        frames, carried = [], []
        for bodies, frame in zip(self.bodies.values(), self.reference_frames, strict=True):
            moved = [poses.of(body) @ spatial.inverse(rest.of(body)) @ frame for body in bodies]
            if len(moved) == 1:
                frames.append(moved[0])
            else:
                half = spatial.exp(0.5 * spatial.log(spatial.inverse(moved[0]) @ moved[1]))
                frames.append(moved[0] @ half)
            carried.append(moved)
        return frames, carried

    def at(self, where: Where = None, *, solver: str = "cholesky") -> PosedSkin:
        """The skin in a pose: its seam equations, factorised.

        Args:
            where: poses of the bodies, coordinates q, or nothing for the reference pose.
            solver: "cholesky"; "cg" (conjugate gradients with the block-diagonal preconditioner, to 1e-10); "forces"
                (unknown seam forces instead of displacements). Approximations: "diagonal" (seams do not act on each
                other), "interpolated" (the same, with inverses of `with_interpolated_seams`).

        Raises:
            MechanismError: a coordinate beyond its joint's range; seams by forces with a zone without bones.
        """
        return PosedSkin(self, *self.frames(where), solver=solver)

    def moving(self) -> MovingSkin:
        """A compiled copy that follows moving bodies at high rates."""
        return MovingSkin(self)

    def pad(
        self,
        touch: str | ArrayLike | None = None,
        where: Where = None,
        *,
        frame: str = "world",
        friction: float = 1.0,
        relaxation: float = 0.0,
    ) -> Pad:
        """Points, normals, areas and compliance for contact; see `PosedSkin.pad`."""
        return self.at(where).pad(touch, frame=frame, friction=friction, relaxation=relaxation)

    def press(
        self,
        shape: Shape | HeightField,
        pose: ArrayLike | None = None,
        where: Where = None,
        *,
        start: Touch | None = None,
        friction: float = 1.0,
        meshes: Sequence[Mesh] = (),
    ) -> Touch:
        """Statics: the forces with which a shape at `pose` (4, 4) presses into the skin; see `PosedSkin.press`."""
        return self.at(where).press(shape, pose, start=start, friction=friction, meshes=meshes)

    def taxels(self, points: ArrayLike, radius: float) -> Taxels:
        """Tactile elements that move with the skin.

        Args:
            points: (k, 3) their places at the reference pose, in the world, m.
            radius: of the skin around them whose pressure they average, m.

        Raises:
            MechanismError: no skin that may be touched is near an element.
        """
        posed = self.at()
        own = self.contact_points
        areas = np.zeros(self.vertex_count)
        vectors = posed.contact_places[1]
        np.add.at(areas, own.vertices, own.weights * np.linalg.norm(vectors, axis=1)[:, None])
        return taxels_of(points, radius, posed.solve().vertices, areas)

    def poses_at(self, where: Where) -> Poses:
        """Poses of the bodies in a configuration.

        Raises:
            MechanismError: a coordinate beyond its joint's range; poses that are not finite or of another mechanism.
        """
        if where is None:
            return self.mechanism.poses
        if not isinstance(where, (Poses, Kinematics)):
            state = kinematics(self.mechanism, where)
            self._check_range(state.q)
            return state.poses
        poses = where.poses if isinstance(where, Kinematics) else where
        if poses.mechanism is not self.mechanism:
            names = [body.name for body in poses.mechanism.bodies]
            if names != [body.name for body in self.mechanism.bodies]:
                raise MechanismError(
                    f"the poses are those of '{poses.mechanism.name}', the skin is on '{self.mechanism.name}', which "
                    "has other bodies"
                )
        if not np.isfinite(poses.array).all():
            raise MechanismError("the poses of the bodies must be finite numbers")
        return poses

    def _check_range(self, q: Array) -> None:
        lower, upper = self.limits
        for i in np.flatnonzero(~((q >= lower - BEYOND) & (q <= upper + BEYOND)))[:1]:
            raise MechanismError(
                f"coordinate '{self.mechanism.coordinates[i]}' is {q[i]:.4g}, beyond the range of its joint, "
                f"{lower[i]:.4g} to {upper[i]:.4g}"
            )

    @cached_property
    def limits(self) -> tuple[Array, Array]:
        """(dof,) lower and (dof,) upper limit of the mechanism's coordinates, infinite where there is none."""
        lower, upper = np.full(self.mechanism.dof, -np.inf), np.full(self.mechanism.dof, np.inf)
        topology = self.mechanism.topology
        for j in topology.tree:
            lower[topology.columns[j]], upper[topology.columns[j]] = self.mechanism.joints[j].limits.T
        return lower, upper


def _checked_bodies(mechanism: Mechanism, name: str, own: Attached) -> tuple[str, ...]:
    bodies = (own.bodies,) if isinstance(own.bodies, str) else tuple(own.bodies)
    for body in bodies:
        mechanism.body_index(body)
    wanted = max(1, len(own.zone.bones))
    if wanted > 2:
        raise MechanismError(f"zone '{name}' has {wanted} bones; a zone has one, or two across a joint")
    if len(bodies) != wanted:
        raise MechanismError(
            f"zone '{name}' has the bones {listed(list(own.zone.bones)) or 'none'} and needs {wanted} bodies, got "
            f"{listed(bodies) or 'none'}"
        )
    return bodies
