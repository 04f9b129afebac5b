"""Solids: meshes of hexahedra or tetrahedra with named groups of nodes, their surfaces and contact points."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from supple.elastic._checks import Array, Indices, indices, numbers
from supple.elastic.linear import shape_gradients
from supple.elastic.mesh import FACETS
from supple.errors import MechanismError

HEX_FACES = np.array([(0, 3, 2, 1), (4, 5, 6, 7), (0, 1, 5, 4), (1, 2, 6, 5), (2, 3, 7, 6), (3, 0, 4, 7)])
"""Corners of the six faces, counter-clockwise seen from outside."""
KINDS = {8: "hexahedron", 10: "tetrahedron", 4: "tetrahedron"}
TRIANGLES = {4: ((0, 1, 2), (0, 2, 3)), 3: ((0, 1, 2),), 6: ((0, 3, 5), (3, 1, 4), (5, 4, 2), (3, 4, 5))}
"""Triangles that stand for a face with that many nodes."""


@dataclass(frozen=True, eq=False, repr=False)
class Solid:
    """A mesh for linear elasticity.

    Raises:
        MechanismError: an inverted element (named), a node that belongs to no element, indices out of range.
    """

    nodes: Array
    """(n, 3) positions at rest, m."""
    cells: Indices
    """(e, 8) hexahedra, (e, 10) straight-sided or (e, 4) linear tetrahedra, in VTK's order of nodes. Linear tetrahedra
    are much too stiff and serve comparisons only."""
    groups: Mapping[str, Indices] = field(default_factory=dict)
    """Named sets of nodes."""

    def __post_init__(self) -> None:
        nodes = numbers(self.nodes, (-1, 3), "nodes of a solid")
        given = np.asarray(self.cells)
        width = given.shape[-1] if given.ndim == 2 and given.shape[-1] in KINDS else 8
        cells = indices(given, (-1, width), len(nodes), "elements of a solid (8, 10 or 4 nodes each)")
        if len(cells) == 0:
            raise MechanismError("a solid needs elements; its mesh has none")
        used = np.zeros(len(nodes), dtype=bool)
        used[cells] = True
        if not used.all():
            raise MechanismError(
                f"node {int(np.argmin(used))} belongs to no element ({int((~used).sum())} such nodes); remove it"
            )
        volumes = shape_gradients(nodes, cells)[1]
        for wrong in np.flatnonzero(~(volumes > 0).all(axis=0))[:1]:
            count = int((~(volumes > 0).all(axis=0)).sum())
            raise MechanismError(
                f"{KINDS[width]} {wrong} with corners {cells[wrong, : min(width, 8)].tolist()} is inverted or has no "
                f"volume ({count} of {len(cells)} are); mesh the solid anew"
            )
        groups = {
            str(name): indices(np.unique(own), (-1,), len(nodes), f"nodes of group '{name}'")
            for name, own in self.groups.items()
        }
        for name, value in {"nodes": nodes, "cells": cells, "groups": MappingProxyType(groups)}.items():
            object.__setattr__(self, name, value)

    def __repr__(self) -> str:
        kind = {"hexahedron": "hexahedra", "tetrahedron": "tetrahedra"}[KINDS[self.cells.shape[1]]]
        return f"Solid({len(self.nodes)} nodes, {len(self.cells)} {kind}, groups {', '.join(self.groups) or 'none'})"

    @cached_property
    def faces(self) -> Indices:
        """(f, 4), (f, 6) or (f, 3) nodes of the outer faces: corners counter-clockwise seen from outside, then the
        middles of the edges 01, 12, 02 of 10-node tetrahedra."""
        width = self.cells.shape[1]
        local = HEX_FACES if width == 8 else FACETS[:, : 6 if width == 10 else 3]
        faces = self.cells[:, local].reshape(-1, local.shape[1])
        corners = np.sort(faces[:, : 4 if width == 8 else 3], axis=1)
        _, first, count = np.unique(corners, axis=0, return_index=True, return_counts=True)
        return np.asarray(faces[np.sort(first[count == 1])])

    @cached_property
    def surface(self) -> Indices:
        """(v,) nodes of the outer faces, ascending."""
        return np.unique(self.faces)

    @cached_property
    def triangles(self) -> Indices:
        """(m, 3) nodes of triangles that stand for the outer faces, counter-clockwise seen from outside."""
        return triangles_of(self.faces)

    @cached_property
    def volume(self) -> float:
        """m^3."""
        return float(shape_gradients(self.nodes, self.cells)[1].sum())


def triangles_of(faces: Indices) -> Indices:
    """(m, 3) triangles that stand for faces with 3, 4 or 6 nodes: 1, 2 or 4 of them."""
    pieces = np.array(TRIANGLES[faces.shape[1]])
    return np.asarray(faces[:, pieces].reshape(-1, 3))


def contact_points(faces: Indices, count: int) -> tuple[Any, Indices]:
    """Where contact forces act on faces with given nodes, and how a face's area is shared.

    Faces of hexahedra and linear tetrahedra: the points are nodes. Faces of 10-node tetrahedra, whose corners carry no
    area: three points each.

    Returns:
        (p, count) SciPy CSR matrix: positions of the points are this matrix times the positions of all nodes; and
        (f, c) indices of the points that share each face.
    """
    from scipy.sparse import csr_array

    if faces.shape[1] != 6:
        own, local = np.unique(faces, return_inverse=True)
        matrix = csr_array((np.ones(len(own)), (np.arange(len(own)), own)), shape=(len(own), count))
        return matrix, np.asarray(local.reshape(faces.shape))
    f = len(faces)
    corners = np.full((3, 3), 1 / 6) + 0.5 * np.eye(3)
    edges = 4 * corners[:, [0, 1, 0]] * corners[:, [1, 2, 2]]
    shape = np.hstack([corners * (2 * corners - 1), edges])  # (3, 6)
    rows = np.repeat(np.arange(3 * f).reshape(f, 3), 6, axis=1).ravel()
    columns = np.tile(faces, (1, 3)).ravel()
    matrix = csr_array((np.tile(shape.ravel(), f), (rows, columns)), shape=(3 * f, count))
    return matrix, np.arange(3 * f).reshape(f, 3)


def point_areas(faces: Indices, shares: Indices, positions: Array, count: int) -> Array:
    """(count, 3) area vectors of contact points, m^2, outwards: the integral of the normal times the point's weight.

    `faces` and `shares` as in `contact_points`; `positions` (n, 3) of all nodes, deformed or not.
    """
    x = positions[faces]
    areas = np.zeros((count, 3))
    if faces.shape[1] == 4:  # exact integral of bilinear shape functions over the bilinear face
        for s in (-1 / np.sqrt(3), 1 / np.sqrt(3)):
            for t in (-1 / np.sqrt(3), 1 / np.sqrt(3)):
                a, b = np.array([-1, 1, 1, -1.0]), np.array([-1, -1, 1, 1.0])
                weights = (1 + a * s) * (1 + b * t) / 4
                along, across = a * (1 + b * t) / 4 @ x, b * (1 + a * s) / 4 @ x
                np.add.at(areas, shares, weights[None, :, None] * np.cross(along, across)[:, None])
        return areas
    own = np.cross(x[:, 1] - x[:, 0], x[:, 2] - x[:, 0]) / 6
    np.add.at(areas, shares, np.broadcast_to(own[:, None], (*shares.shape, 3)))
    return areas


def closed(triangles: ArrayLike) -> bool:
    """Whether triangles (m, 3) form a closed surface: every edge belongs to two of them, in opposite directions."""
    given = np.asarray(triangles)
    edges = np.concatenate([given[:, [0, 1]], given[:, [1, 2]], given[:, [2, 0]]])
    forward, backward = ({(int(a), int(b)) for a, b in pairs} for pairs in (edges, edges[:, ::-1]))
    return len(forward) == len(edges) and forward == backward
