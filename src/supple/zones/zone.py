"""Zones: linear elastic pads described by their Green's functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from supple.contact.pads import checked_compliance
from supple.elastic._checks import Array, Indices, numbers
from supple.elastic.linear import shape_gradients, volume_ratios
from supple.elastic.material import Material
from supple.elastic.solid import Solid, contact_points, point_areas
from supple.errors import MechanismError
from supple.zones.greens import AFFINE, GreensFunctions, affine_fields, free_order, greens_functions, locked
from supple.zones.marks import Mark, marked_nodes

SOFT_SKIN = Material(young=1e5, poisson=0.45, density=1100.0)
"""A soft skin: 0.1 MPa, Poisson's ratio 0.45."""


@dataclass(frozen=True, eq=False, repr=False)
class Zone:
    """An elastic pad of small strain in the frame of its bone. Make one with `from_solid` or `from_compliance`."""

    nodes: Array
    """(n, 3) positions at rest in the zone's frame, m."""
    bones: Mapping[str, Indices]
    """By name: the nodes that a bone holds. A zone across a joint has two bones."""
    seam: Indices
    """(s,) nodes, held by no bone, that are bonded to other zones."""
    touch: Indices
    """(t,) nodes, held by no bone, where things may press; some may be seam nodes."""
    solid: Solid | None = None
    """The mesh; None for a zone of a given compliance."""
    material: Material | None = None
    _given: tuple[GreensFunctions, Array] | None = None
    """Green's functions and area vectors (t, 3) of a zone without a mesh."""

    @classmethod
    def from_solid(
        cls,
        solid: Solid,
        material: Material = SOFT_SKIN,
        *,
        bone: Mark | Mapping[str, Mark] | None = None,
        seam: Mark | list[Mark] | tuple[Mark, ...] | None = None,
        touch: Mark | None = None,
    ) -> Zone:
        """A zone of a mesh.

        Args:
            solid: the mesh, in the zone's frame, m (`zones.block`, `zones.pad`, `elastic.read_solid`).
            material: only Young's modulus and Poisson's ratio count.
            bone: nodes that the bone holds, see `Mark`; a mapping names several bones, e.g. those on both
                sides of a joint.
            seam: nodes that are bonded to other zones, one mark or several; nodes that a bone holds are left out.
            touch: nodes where things may press; default: none. Nodes that a bone holds are left out.

        Raises:
            MechanismError: an empty set, a node on two bones, or a piece of the mesh that nothing holds.
        """
        if not isinstance(solid, Solid):
            raise MechanismError(
                f"a zone is made of a Solid, got {type(solid).__name__}; zones.block, zones.pad and elastic.read_solid "
                "make one"
            )
        if not isinstance(material, Material):
            raise MechanismError(f"a zone needs an elastic.Material, got {type(material).__name__}")
        given = bone if isinstance(bone, Mapping) else ({} if bone is None else {"bone": bone})
        bones = {str(name): marked_nodes(solid, mark, f"bone '{name}'") for name, mark in given.items()}
        on_bone = np.full(len(solid.nodes), -1)
        for i, (name, nodes) in enumerate(bones.items()):
            for twice in nodes[on_bone[nodes] >= 0][:1]:
                other = list(bones)[on_bone[twice]]
                raise MechanismError(
                    f"node {twice} at {_place(solid, twice)} is on two bones, '{other}' and '{name}'; "
                    "give it to one of them"
                )
            on_bone[nodes] = i
        marks = () if seam is None else seam if isinstance(seam, (list, tuple)) else (seam,)
        parts = [marked_nodes(solid, mark, f"seam {i}") for i, mark in enumerate(marks)]
        at_seam = np.unique(np.concatenate(parts)) if parts else np.zeros(0, dtype=np.int64)
        at_seam = at_seam[on_bone[at_seam] < 0]
        touched = np.zeros(0, dtype=np.int64) if touch is None else marked_nodes(solid, touch, "touch")
        touched = touched[on_bone[touched] < 0]
        _check_held(solid, np.concatenate([at_seam, *bones.values()]))
        return cls(solid.nodes, MappingProxyType(bones), at_seam, touched, solid, material)

    @classmethod
    def from_compliance(cls, points: ArrayLike, normals: ArrayLike, areas: ArrayLike, compliance: ArrayLike) -> Zone:
        """A zone on one bone, without seams, from a compliance that was measured or computed elsewhere.

        Args:
            points: (t, 3) points of the skin in the bone's frame, m.
            normals: (t, 3) outward normals there.
            areas: (t,) area that each point stands for, m^2.
            compliance: (3t, 3t) displacements per force, m/N, in the bone's axes.

        Raises:
            MechanismError: the compliance is not symmetric or not positive semidefinite.
        """
        x = numbers(points, (-1, 3), "points of a zone")
        n = len(x)
        if not n:
            raise MechanismError("a zone needs a point at least")
        directions = numbers(normals, (n, 3), "normals of a zone")
        lengths = np.linalg.norm(directions, axis=1)
        weights = numbers(areas, (n,), "areas of a zone")
        if not ((lengths > 0).all() and (weights > 0).all()):
            raise MechanismError("normals of a zone must not be zero, and areas must be positive")
        C = checked_compliance(compliance, n, "a zone")
        everything = np.arange(n)
        greens = locked(np.zeros((AFFINE, AFFINE)), affine_fields(x), C)
        vectors = directions / lengths[:, None] * weights[:, None]
        none = np.zeros(0, dtype=np.int64)
        return cls(x, MappingProxyType({"bone": none}), none, everything, _given=(greens, vectors))

    def __repr__(self) -> str:
        return (
            f"Zone({len(self.nodes)} nodes, {len(self.seam)} seam, {len(self.touch)} touch, bones "
            f"{', '.join(self.bones) or 'none'})"
        )

    # --- sets of nodes --------------------------------------------------------------------------------------------

    @cached_property
    def held(self) -> Indices:
        """(h,) nodes of seam and bones, ascending."""
        return np.unique(np.concatenate([self.seam, *self.bones.values()]))

    @cached_property
    def free_touch(self) -> Indices:
        """(k,) touch nodes that are not seam nodes, ascending."""
        return np.setdiff1d(self.touch, self.seam)

    @cached_property
    def free(self) -> Indices:
        """(m,) all nodes that neither seam nor bones hold: touch nodes, then others of the surface, then inner ones."""
        surface = self.touch if self.solid is None else self.solid.surface
        return free_order(self.free_touch, surface, self.held, len(self.nodes))

    # --- response -------------------------------------------------------------------------------------------------

    @cached_property
    def greens(self) -> GreensFunctions:
        """The Green's functions; computed or read from the cache at the first use."""
        return self._given[0] if self._given else greens_functions(self)

    def prepare(self, *, cache: bool = True, progress: Callable[[float], None] | None = None) -> Zone:
        """Computes the Green's functions now, or reads them from the cache; returns the zone itself.

        Args:
            cache: use and fill the cache on disk (folder: environment variable SUPPLE_CACHE).
            progress: is called with the fraction done. Default: a bar after two seconds.
        """
        if self._given is None and "greens" not in self.__dict__:
            self.__dict__["greens"] = greens_functions(self, cache=cache, progress=progress)
        return self

    def save(self, path: str | PathLike[str]) -> None:
        """Writes mesh, node sets, material and Green's functions to a `.npz` file; `zones.load` reads it."""
        from supple.zones.zone_files import save

        save(self, path)

    def displacements(self, held: Array, forces: Array) -> Array:
        """(n, 3) displacements of all nodes in the zone's frame, m.

        Args:
            held: (D,) held coordinates (see `GreensFunctions`).
            forces: (3k,) forces on the free touch nodes, N.
        """
        u = np.zeros((len(self.nodes), 3))
        u[self.free] = (self.greens.motion @ held + self.greens.compliance @ forces).reshape(-1, 3)
        s = 3 * len(self.seam)
        u[self.seam] = held[:s].reshape(-1, 3)
        for i, bone in enumerate(self.bones.values()):
            own = held[s + AFFINE * i : s + AFFINE * (i + 1)]
            u[bone] = self.nodes[bone] @ own[:9].reshape(3, 3).T + own[9:]
        return u

    def least_volume_ratio(self, displacements: Array) -> float:
        """Least det F over all quadrature points under displacements (n, 3); 1 for a zone without a mesh."""
        if self.solid is None:
            return 1.0
        return float(volume_ratios(self._gradients, self.solid.cells, displacements).min())

    @cached_property
    def _gradients(self) -> Array:
        assert self.solid is not None
        return shape_gradients(self.solid.nodes, self.solid.cells)[0]

    # --- contact --------------------------------------------------------------------------------------------------

    @cached_property
    def touch_faces(self) -> Indices:
        """Outer faces all of whose nodes are touch nodes, as in `Solid.faces`."""
        if self.solid is None:
            return np.zeros((0, 4), dtype=np.int64)
        chosen = np.zeros(len(self.nodes), dtype=bool)
        chosen[self.touch] = True
        return np.asarray(self.solid.faces[chosen[self.solid.faces].all(axis=1)])

    @cached_property
    def points(self) -> tuple[Any, Indices]:
        """Contact points as a matrix (p, n) that acts on nodal values, and the points (f, c) that share each touch
        face. Points are touch nodes, or three a face of 10-node tetrahedra."""
        if self.solid is None:
            from scipy.sparse import eye_array

            return eye_array(len(self.nodes)).tocsr(), np.zeros((0, 4), dtype=np.int64)
        return contact_points(self.touch_faces, len(self.nodes))

    def area_vectors(self, positions: Array) -> Array:
        """(p, 3) outward normal times area of each contact point, m^2, when the nodes have positions (n, 3)."""
        if self._given is not None:
            return self._given[1]
        matrix, shares = self.points
        return point_areas(self.touch_faces, shares, positions, matrix.shape[0])


def _check_held(solid: Solid, held: Indices) -> None:
    """Raises if a connected piece of the mesh has fewer than three held nodes that are not collinear."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    n, width = len(solid.nodes), solid.cells.shape[1]
    pairs = np.stack([np.repeat(solid.cells[:, 0], width), solid.cells.ravel()])
    labels = connected_components(coo_array((np.ones(pairs.shape[1]), pairs), shape=(n, n)), directed=False)[1]
    for label in np.unique(labels):
        own = held[labels[held] == label]
        x = solid.nodes[own]
        if len(own) >= 3 and np.linalg.matrix_rank(x - x.mean(axis=0), tol=1e-6 * float(np.ptp(solid.nodes))) >= 2:
            continue
        first = int(np.argmax(labels == label))
        why = "held at a line or a point only" if len(own) else "held by neither a bone nor a seam"
        raise MechanismError(
            f"the piece of the mesh with node {first} at {_place(solid, first)} ({int((labels == label).sum())} nodes) "
            f"is {why}; mark nodes of it as bone or seam, or remove it"
        )


def _place(solid: Solid, node: int) -> str:
    return "(" + ", ".join(f"{value:.4g}" for value in solid.nodes[node]) + ") m"
