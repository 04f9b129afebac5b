"""A skin in a pose: seam equations, shape under forces, compliance for contact."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from supple import spatial
from supple.contact.pads import Pad, Touch
from supple.elastic._checks import Array, Indices, indices, numbers
from supple.errors import MechanismError, RangeWarning, listed
from supple.mechanism.shapes import HeightField, Mesh, Shape
from supple.zones.blocks import BlockCholesky, Blocks, conjugate_gradients, diagonal_part
from supple.zones.dual import amplitudes_by_forces
from supple.zones.greens import AFFINE
from supple.zones.layout import placed
from supple.zones.pressing import press
from supple.zones.terms import affine_between, turned, turned_rows

if TYPE_CHECKING:
    from supple.zones.skin import Skin

SOLVERS = ("cholesky", "cg", "forces", "diagonal", "interpolated")
CG_TOLERANCE = 1e-10
LEAST_VOLUME = 0.2
"""Volume ratio below which linear elasticity is not valid."""


@dataclass(frozen=True, eq=False)
class SkinShape:
    """A skin in equilibrium."""

    vertices: Array
    """(v, 3) positions of the skin's vertices in the world, m."""
    seam_forces: Mapping[str, Array]
    """By zone: (s, 3) forces in world axes that hold the nodes of `zone.seam`, N: those of the neighbours and of loads
    on seam nodes."""
    bone_wrenches: Mapping[str, Array]
    """By body: (6,) wrench of the skin on it, force (N) then torque about the body's origin (N m), in world axes."""
    energy: float
    """Elastic energy, J."""
    volume_ratio: float
    """Least ratio of an element's volume to that at rest (det F) over all quadrature points."""
    iterations: int
    """Iterations of conjugate gradients; 0 for the other solvers."""


class PosedSkin:
    """A skin in a pose. Make one with `skin.at`.

    The seams' amplitudes c solve eq. 10 and 13 of the paper, in world axes: the forces that hold the seam nodes of all
    zones add up to the load on them,

        sum over zones of R (K R^T c + A a - U_t^T R^T f) = load,

    with R the rotation of the zone's frame and the terms of `ZoneTerms`.
    """

    def __init__(self, skin: Skin, frames: list[Array], carried: list[list[Array]], *, solver: str) -> None:
        if solver not in SOLVERS:
            raise MechanismError(f"there is no solver '{solver}'; choose one of {', '.join(SOLVERS)}")
        if solver == "forces":
            _check_bones(skin)
        if solver == "interpolated" and skin.interpolated is None:
            raise MechanismError("the solver 'interpolated' needs inverses: skin.with_interpolated_seams(...)")
        self.skin = skin
        self.solver = solver
        self.frames: tuple[Array, ...] = tuple(frames)
        """(4, 4) pose of each zone's frame in the world."""
        self._carried = carried
        self._rotations = [H[:3, :3] for H in frames]
        self._affine = self._affine_coordinates()

    def _affine_coordinates(self) -> list[Array]:
        """a of each zone: M, t of its seams, then of its bones."""
        skin, result = self.skin, []
        for k, terms in enumerate(skin.terms):
            own = skin.reference_frames[k]
            parts = []
            for i in terms.seams:  # from zone k's coordinates to the world, as each zone of the seam would carry them
                others = [self.frames[j] @ spatial.inverse(skin.reference_frames[j]) @ own for j in skin.seams[i].zones]
                parts.append(affine_between(self.frames[k], others))
            parts += [affine_between(self.frames[k], [bone]) for bone in self._carried[k]][: _bone_count(skin, k)]
            result.append(np.concatenate(parts) if parts else np.zeros(0))
        return result

    # --- seam equations -----------------------------------------------------------------------------------------------

    @cached_property
    def blocks(self) -> Blocks:
        """Blocks of the seam equations in world axes, N/m."""
        result: Blocks = {}
        for terms, R in zip(self.skin.terms, self._rotations, strict=True):
            for i, rows in zip(terms.seams, terms.slices, strict=True):
                for j, columns in zip(terms.seams, terms.slices, strict=True):
                    if i >= j:
                        block = turned(R, terms.stiffness[rows, columns])
                        result[i, j] = result[i, j] + block if (i, j) in result else block
        return result

    @cached_property
    def factors(self) -> BlockCholesky:
        """Factors of the seam equations, or of their diagonal blocks for the solver "diagonal"."""
        if self.solver == "diagonal":
            return diagonal_part(self.skin.pattern, self.blocks)
        return BlockCholesky(self.skin.pattern, self.blocks)

    def _rhs(self, touch: Sequence[Array], load: Array) -> Array:
        """Right-hand side of the seam equations for forces on free touch nodes and a load on amplitudes, world axes."""
        at, rhs = self.skin.pattern.offsets, load.copy()
        for k, (terms, R) in enumerate(zip(self.skin.terms, self._rotations, strict=True)):
            own = self._zone_load(k, touch[k])
            for i, rows in zip(terms.seams, terms.slices, strict=True):
                rhs[at[i] : at[i + 1]] += turned_rows(R, own[rows])
        return rhs

    def _zone_load(self, k: int, touch: Array) -> Array:
        """U_t^T f - A a of zone k, in its own axes."""
        terms = self.skin.terms[k]
        local = turned_rows(self._rotations[k].T, touch)
        return np.asarray(terms.motion[: len(local)].T @ local - terms.affine @ self._affine[k])

    def _amplitudes(self, touch: Sequence[Array], load: Array) -> tuple[Array, int]:
        """Amplitudes of all seams in world axes, and iterations."""
        if self.solver == "forces":
            loads = [self._zone_load(k, own) for k, own in enumerate(touch)]
            return amplitudes_by_forces(self.skin, self._rotations, loads, load), 0
        rhs = self._rhs(touch, load)
        if self.solver == "interpolated":
            assert self.skin.interpolated is not None
            return self.skin.interpolated.solve(self, rhs), 0
        if self.solver == "cg":
            return conjugate_gradients(self.skin.pattern, self.blocks, rhs, CG_TOLERANCE)
        return self.factors.solve(rhs), 0

    def _zone_amplitudes(self, k: int, amplitudes: Array) -> Array:
        """Amplitudes of zone k's seams in its own axes."""
        at, terms = self.skin.pattern.offsets, self.skin.terms[k]
        own = [amplitudes[at[i] : at[i + 1]] for i in terms.seams]
        return turned_rows(self._rotations[k].T, np.concatenate([np.zeros(0), *own]))

    def amplitudes(self) -> Array:
        """Amplitudes of all seams of the unpressed skin, ravelled (m, 3) of each seam, in world axes, m."""
        return self._amplitudes(*self._split(None))[0]

    def energy(self) -> float:
        """Elastic energy of the unpressed skin, J."""
        total, amplitudes = 0.0, self.amplitudes()
        for k, terms in enumerate(self.skin.terms):
            c, a = self._zone_amplitudes(k, amplitudes), self._affine[k]
            total += 0.5 * float(c @ terms.stiffness @ c + a @ terms.affine_stiffness @ a) + float(c @ terms.affine @ a)
        return total

    # --- shape --------------------------------------------------------------------------------------------------------

    def solve(self, forces: ArrayLike | None = None) -> SkinShape:
        """The shape of the skin under forces on touch vertices.

        Args:
            forces: (v, 3) forces on all vertices in world axes, N; only touch vertices may have one. Default: none.

        Warns:
            RangeWarning: an element has less than a fifth of its volume; linear elasticity is not valid there.
        """
        skin = self.skin
        touch, load = self._split(forces)
        amplitudes, iterations = self._amplitudes(touch, load)
        vertices = np.zeros((skin.vertex_count, 3))
        seam_forces, wrenches = {}, {body: np.zeros(6) for bodies in skin.bodies.values() for body in bodies}
        energy, ratio = 0.0, np.inf
        for k, (name, zone) in enumerate(skin.zones.items()):
            R, held = self._rotations[k], self._held(k, amplitudes)
            f = turned_rows(R.T, touch[k])
            u = zone.displacements(held, f)
            surface = skin.vertex_of[k] >= 0
            vertices[skin.vertex_of[k][surface]] = placed((zone.nodes + u)[surface], self.frames[k])
            t = len(f)
            p = zone.greens.stiffness @ held - zone.greens.motion[:t].T @ f
            s = 3 * len(zone.seam)
            seam_forces[name] = p[:s].reshape(-1, 3) @ R.T
            energy += 0.5 * float(held @ zone.greens.stiffness @ held + f @ zone.greens.compliance[:t] @ f)
            ratio = min(ratio, zone.least_volume_ratio(u))
            self._add_wrenches(k, p[s:], wrenches)
        if forces is not None:
            applied = np.asarray(forces, dtype=float)
            moved = self._residual_motion(applied)
            vertices += moved
            energy += 0.5 * float(np.sum(moved * applied))
        if ratio < LEAST_VOLUME:
            warnings.warn(
                f"an element of the skin has {ratio:.2g} of its volume at rest (below {LEAST_VOLUME}): linear "
                "elasticity is far off there. Bend less, or use zones half-way between the bodies of a joint",
                RangeWarning,
                stacklevel=2,
            )
        return SkinShape(vertices, seam_forces, wrenches, energy, float(ratio), iterations)

    def motion(self, forces: ArrayLike) -> Array:
        """(v, 3) displacements of the vertices, m, by which forces (v, 3) on touch vertices, N, move them from the
        unpressed skin, in world axes."""
        skin = self.skin
        touch, rhs = self._split(forces)
        at = skin.pattern.offsets
        for k, (terms, R) in enumerate(zip(skin.terms, self._rotations, strict=True)):
            if touch[k].any():
                own = terms.motion[: len(touch[k])].T @ turned_rows(R.T, touch[k])
                for i, rows in zip(terms.seams, terms.slices, strict=True):
                    rhs[at[i] : at[i + 1]] += turned_rows(R, own[rows])
        amplitudes = self.factors.solve(rhs)
        result = np.zeros((skin.vertex_count, 3))
        for k, (zone, terms, R) in enumerate(zip(skin.zone_list, skin.terms, self._rotations, strict=True)):
            free = zone.free[: skin.free_surface[k]]
            u = terms.motion[: 3 * len(free)] @ self._zone_amplitudes(k, amplitudes)
            f = turned_rows(R.T, touch[k])
            loaded = np.flatnonzero(f)
            if len(loaded):
                u += zone.greens.compliance[: 3 * len(free), loaded] @ f[loaded]
            result[skin.vertex_of[k][free]] = u.reshape(-1, 3) @ R.T
        for i in range(len(skin.seams)):
            result[skin.seam_vertices(i)] = skin.bases[i] @ amplitudes[at[i] : at[i + 1]].reshape(-1, 3)
        return result + self._residual_motion(np.asarray(forces, dtype=float))

    @cached_property
    def _residuals(self) -> list[tuple[Indices, Array]]:
        """Touch vertices (n,) near each seam and the compliance (3n, 3n) that the seam's basis leaves out, m/N, in
        world axes."""
        pairs = enumerate(self.skin.residuals)
        return [(own.vertices, own.at(self, i)) for i, own in pairs if own is not None]

    def _residual_motion(self, forces: Array) -> Array:
        """(v, 3) displacements by forces (v, 3) that the bases of the seams leave out, m."""
        result = np.zeros_like(forces)
        for vertices, C in self._residuals:
            result[vertices] += (C @ forces[vertices].ravel()).reshape(-1, 3)
        return result

    def _held(self, k: int, amplitudes: Array) -> Array:
        """Held coordinates of zone k (see `GreensFunctions`)."""
        skin, terms = self.skin, self.skin.terms[k]
        zone = list(skin.zones.values())[k]
        own = self._zone_amplitudes(k, amplitudes)
        held = np.zeros((len(zone.seam), 3))
        for a, (i, rows) in enumerate(zip(terms.seams, terms.slices, strict=True)):
            nodes = skin.seams[i].nodes[skin.seams[i].zones.index(k)]
            move = self._affine[k][AFFINE * a : AFFINE * (a + 1)]
            rigid = zone.nodes[zone.seam[nodes]] @ move[:9].reshape(3, 3).T + move[9:]
            held[nodes] = rigid + skin.bases[i] @ own[rows].reshape(-1, 3)
        return np.concatenate([held.ravel(), self._affine[k][AFFINE * len(terms.seams) :]])

    def _add_wrenches(self, k: int, p: Array, wrenches: dict[str, Array]) -> None:
        """Adds the wrenches of zone k on its bodies; p are generalised forces that hold its bones, 12 each."""
        skin, R = self.skin, self._rotations[k]
        name = list(skin.zones)[k]
        zone = skin.zones[name]
        for i, body in enumerate(skin.bodies[name][: len(zone.bones)]):
            moments, force = p[AFFINE * i : AFFINE * i + 9].reshape(3, 3), p[AFFINE * i + 9 : AFFINE * (i + 1)]
            on_bone = self._carried[k][i]  # bone nodes are at on_bone x; sum of f (on_bone x - origin)^T
            lever = on_bone[:3, 3] - self._origin(k, i)
            spread = R @ moments @ on_bone[:3, :3].T + np.outer(R @ force, lever)
            torque = [spread[2, 1] - spread[1, 2], spread[0, 2] - spread[2, 0], spread[1, 0] - spread[0, 1]]
            wrenches[body] -= np.concatenate([R @ force, torque])

    def _origin(self, k: int, i: int) -> Array:
        """Origin (3,) of the body of bone i of zone k in the world."""
        skin = self.skin
        body = list(skin.bodies.values())[k][i]
        rest = skin.mechanism.poses.of(body)[:3, 3]
        in_zone = spatial.inverse(skin.reference_frames[k]) @ np.append(rest, 1.0)
        return np.asarray((self._carried[k][i] @ in_zone)[:3])

    def _split(self, forces: ArrayLike | None) -> tuple[list[Array], Array]:
        """Forces on the free touch nodes of each zone, and the load on the seams' amplitudes, both in world axes."""
        skin = self.skin
        load = np.zeros(int(skin.pattern.offsets[-1]))
        if forces is None:
            return [np.zeros(3 * len(zone.free_touch)) for zone in skin.zones.values()], load
        f = numbers(forces, (skin.vertex_count, 3), "forces on a skin's vertices")
        loaded = np.flatnonzero(f.any(axis=1))
        for wrong in np.setdiff1d(loaded, skin.touch)[:1]:
            raise MechanismError(f"vertex {wrong} carries a force but is no touch vertex; forces act on skin.touch")
        for i in range(len(skin.seams)):
            at = skin.pattern.offsets[i : i + 2]
            load[at[0] : at[1]] = (skin.bases[i].T @ f[skin.seam_vertices(i)]).ravel()
        pairs = zip(skin.zones.values(), skin.vertex_of, strict=True)
        return [f[vertices[zone.free_touch]].ravel() for zone, vertices in pairs], load

    # --- contact ------------------------------------------------------------------------------------------------------

    def pad(
        self,
        touch: str | ArrayLike | None = None,
        *,
        frame: str = "world",
        friction: float = 1.0,
        relaxation: float = 0.0,
    ) -> Pad:
        """Points where the skin may be touched, with the compliance between them.

        The compliance C gives displacements of the points per force on them, with bonded seams and with the bones at
        rest. It is the symmetric positive semidefinite sum of the zones' own compliances and of what seams transmit.

        Args:
            touch: a zone's name; or touch vertices, indices or a mask (v,); default: all.
            frame: the body in whose frame the arrays are given, or "world". `World.cover` needs the covered body's.
            friction: sliding coefficient of the skin.
            relaxation: time constant with which the skin follows a change of its forces, s.

        Raises:
            MechanismError: an unknown zone or body, a vertex that cannot be touched.
        """
        points = self.skin.contact_points
        mask = self._touch_mask(touch)
        used = mask[points.vertices] | (points.weights == 0)
        chosen = np.flatnonzero(used.all(axis=1))
        if not len(chosen):
            raise MechanismError("no contact point lies on the chosen vertices alone; choose more of them")
        return self._pad_of(chosen, frame, friction, relaxation)

    def _pad_of(self, chosen: Indices, frame: str, friction: float, relaxation: float) -> Pad:
        """The pad of chosen contact points."""
        skin = self.skin
        x, vectors = self.contact_places
        x, vectors, C = x[chosen], vectors[chosen], self.compliance(chosen)
        areas = np.linalg.norm(vectors, axis=1)
        normals = vectors / np.maximum(areas, 1e-300)[:, None]
        if frame != "world":
            H = spatial.inverse(self._body_pose(frame))
            x, normals, C = placed(x, H), normals @ H[:3, :3].T, turned(H[:3, :3], C)
        place = np.full(skin.contact_points.count, -1)
        place[chosen] = np.arange(len(chosen))
        triangles = place[skin.contact_points.triangles]
        triangles = triangles[(triangles >= 0).all(axis=1)]
        vertices, weights = skin.contact_points.vertices[chosen], skin.contact_points.weights[chosen]
        return Pad(x, normals, areas, C, triangles, friction, relaxation, vertices, weights)

    @cached_property
    def contact_places(self) -> tuple[Array, Array]:
        """(p, 3) positions of the contact points of the unpressed skin, m, and (p, 3) their outward normals times
        areas, m^2, in the world."""
        skin, amplitudes = self.skin, self.amplitudes()
        x, vectors = np.zeros((skin.contact_points.count, 3)), np.zeros((skin.contact_points.count, 3))
        for k, zone in enumerate(skin.zones.values()):
            if len(zone.touch) == 0:
                continue
            u = zone.displacements(self._held(k, amplitudes), np.zeros(3 * len(zone.free_touch)))
            nodes = placed(zone.nodes + u, self.frames[k])
            own = skin.contact_points.of_zone[k]
            x[own] = zone.points[0] @ nodes
            turn = np.eye(3) if zone.solid is not None else self._rotations[k]
            vectors[own] += zone.area_vectors(nodes) @ turn.T
        return x, vectors

    def press(
        self,
        shape: Shape | HeightField,
        pose: ArrayLike | None = None,
        *,
        start: Touch | None = None,
        friction: float = 1.0,
        meshes: Sequence[Mesh] = (),
    ) -> Touch:
        """Statics: the forces with which a shape presses into the skin; the bones do not move.

        The pad of the result holds the points near the shape, in the world's frame. `solve` with the result's
        `vertex_forces` gives the whole surface.

        Args:
            shape: its own pose and friction count, too.
            pose: (4, 4) of the shape's body in the world.
            start: the result for the previous pose, of the shape and of the skin. On the way from there the skin sticks
                to the shape, or slides on it. Without `start`, points stick where they are first touched, and a deep
                shape is pressed in along the normal of the skin, in several steps.
            friction: sliding coefficient of the skin. A contact has the larger one of skin and shape.
            meshes: those that the shape refers to.
        """
        return press(self, shape, pose, start, friction, meshes)

    def _touch_mask(self, touch: str | ArrayLike | None) -> Array:
        """(v,) mask of the chosen touch vertices."""
        skin = self.skin
        mask = np.zeros(skin.vertex_count, dtype=bool)
        if touch is None:
            mask[skin.touch] = True
        elif isinstance(touch, str):
            if touch not in skin.zones:
                raise MechanismError(f"the skin has no zone '{touch}'; it has {listed(list(skin.zones))}")
            mask[skin.touch_of_zone[touch]] = True
        else:
            given = np.asarray(touch)
            if given.dtype == bool and given.shape == mask.shape:
                given = np.flatnonzero(given)
            own = indices(given, (-1,), skin.vertex_count, "touch vertices")
            for wrong in np.setdiff1d(own, skin.touch)[:1]:
                raise MechanismError(f"vertex {wrong} cannot be touched; choose among skin.touch")
            mask[own] = True
        if not mask.any():
            raise MechanismError("no touch vertex is chosen")
        return mask

    def compliance(self, chosen: Indices) -> Array:
        """(3n, 3n) C of chosen contact points (n,), m/N, world axes: C = B S^-1 B^T + G with S the seam equations'
        matrix, B the points' motion per amplitude and G the zones' own compliance with what the seams' bases leave
        out."""
        skin = self.skin
        at, points = skin.pattern.offsets, skin.contact_points
        B = np.zeros((3 * len(chosen), int(at[-1])))
        G = np.zeros((3 * len(chosen), 3 * len(chosen)))
        for k in np.unique(points.zones[chosen]).tolist():
            zone, terms, R = skin.zone_list[k], skin.terms[k], self._rotations[k]
            own = np.flatnonzero(points.zones[chosen] == k)
            nodes, weights = points.nodes[chosen[own]], points.weights[chosen[own]]
            place = skin.touch_places[k][nodes]  # among the free touch nodes, then the seam nodes
            t = len(zone.free_touch)
            free = np.where(place < t, weights, 0.0)
            rows = np.where(place < t, place, 0)
            U = np.einsum("pk,pkim->pim", free, terms.motion[: 3 * t].reshape(t, 3, -1)[rows]).reshape(3 * len(own), -1)
            C = zone.greens.compliance[: 3 * t].reshape(t, 3, t, 3)
            C = C[rows[:, :, None, None], :, rows[None, None], :]  # (p, k, q, l, 3, 3)
            C = np.einsum("pk,pkqlij,ql->piqj", free, C, free, optimize=True).reshape(3 * len(own), -1)
            coordinates = (3 * own[:, None] + np.arange(3)).ravel()
            G[np.ix_(coordinates, coordinates)] = turned(R, C)
            for i, columns in zip(terms.seams, terms.slices, strict=True):
                basis = np.zeros((len(zone.seam), skin.bases[i].shape[1]))
                basis[skin.seams[i].nodes[skin.seams[i].zones.index(k)]] = skin.bases[i]
                on_seam = np.where(place >= t, weights, 0.0)
                shares = np.einsum("pk,pkm->pm", on_seam, basis[np.where(place >= t, place - t, 0)])
                B[coordinates, at[i] : at[i + 1]] += turned(R, U[:, columns]) + np.kron(shares, np.eye(3))
        for vertices, residual in self._residuals:
            place = np.full(skin.vertex_count, -1)
            place[vertices] = np.arange(len(vertices))
            own = place[points.vertices[chosen]]
            near, column = np.nonzero((own >= 0) & (points.weights[chosen] != 0))
            shares = np.zeros((len(chosen), len(vertices)))
            np.add.at(shares, (near, own[near, column]), points.weights[chosen][near, column])
            used = np.flatnonzero(shares.any(axis=1))
            coordinates = (3 * used[:, None] + np.arange(3)).ravel()
            spread = np.kron(shares[used], np.eye(3))
            G[np.ix_(coordinates, coordinates)] += spread @ residual @ spread.T
        half = self.factors.solve_lower(B.T)
        C = half.T @ half + G
        return np.asarray(0.5 * (C + C.T))

    def _body_pose(self, body: str) -> Array:
        """Pose of a body that carries a zone."""
        skin = self.skin
        for k, bodies in enumerate(skin.bodies.values()):
            if body in bodies:
                frame, rest = skin.reference_frames[k], skin.mechanism.poses.of(body)
                return np.asarray(self._carried[k][bodies.index(body)] @ spatial.inverse(frame) @ rest)
        raise MechanismError(f"body '{body}' carries no zone of the skin; give 'world' or a body that does")


def _bone_count(skin: Skin, k: int) -> int:
    return len(list(skin.zones.values())[k].bones)


def _check_bones(skin: Skin) -> None:
    for name, zone in skin.zones.items():
        if not zone.bones and len(zone.seam):
            raise MechanismError(
                f"zone '{name}' has no bone, so that seam forces do not determine its place; use the solver 'cholesky'"
            )
