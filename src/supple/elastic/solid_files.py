"""Solids from mesh files (meshio) and from closed surfaces (pytetwild)."""

from __future__ import annotations

from os import PathLike, fspath
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from supple.elastic import mesh
from supple.elastic._checks import Array, Indices, indices, numbers
from supple.elastic.mesh_files import read_mesh
from supple.elastic.solid import Solid, closed
from supple.errors import MechanismError, listed

VOLUMES = ("tetra", "tetra10", "hexahedron")
SURFACES = ("triangle", "quad")


def read_solid(path: str | PathLike[str], *, scale: float = 1.0, edge_length: float | None = None) -> Solid:
    """A solid from a mesh file that meshio reads.

    Hexahedra stay as they are; tetrahedra become 10-node tetrahedra with straight edges. Named sets of points and of
    cells (physical groups) become groups of nodes. A file with triangles only (STL, OBJ) is a closed surface, which
    `fill_surface` fills.

    Args:
        path: the file.
        scale: m per unit of length in the file.
        edge_length: of the tetrahedra that fill a surface, over the diagonal of its bounding box.

    Raises:
        MechanismError: no such file, no elements, hexahedra mixed with tetrahedra, inverted elements, a surface that
            does not close.
    """
    where = fspath(path)
    read = read_mesh(where)
    points = numbers(np.asarray(read.points, dtype=float)[:, :3] * scale, (-1, 3), f"points of {where}")
    kinds = {cells.type for cells in read.cells}
    if not kinds & set(VOLUMES):
        if not kinds & set(SURFACES):
            raise MechanismError(f"{where} has no tetrahedra, hexahedra or triangles, only {listed(sorted(kinds))}")
        faces = [cells.data for cells in read.cells if cells.type == "triangle"]
        faces += [cells.data[:, corners] for cells in read.cells if cells.type == "quad" for corners in _HALVES]
        return fill_surface(points, np.concatenate(faces), edge_length=edge_length, name=where)
    if "hexahedron" in kinds and kinds & {"tetra", "tetra10"}:
        raise MechanismError(f"{where} has both hexahedra and tetrahedra; mesh it with one kind")
    width = 8 if "hexahedron" in kinds else 4
    cells = np.concatenate([block.data[:, :width] for block in read.cells if block.type in VOLUMES])
    used, local = np.unique(cells, return_inverse=True)
    number = np.full(len(points), -1)
    number[used] = np.arange(len(used))
    groups = {name: number[own][number[own] >= 0] for name, own in _groups(read).items()}
    return _solid(points[used], local.reshape(cells.shape).astype(np.int64), groups)


def fill_surface(
    vertices: ArrayLike, triangles: ArrayLike, *, edge_length: float | None = None, name: str = "the surface"
) -> Solid:
    """A solid of 10-node tetrahedra inside a closed surface, meshed by pytetwild (`pip install 'supple[mesh]'`).

    Args:
        vertices: (v, 3) m.
        triangles: (f, 3) vertices of each triangle, counter-clockwise seen from outside.
        edge_length: of the tetrahedra, over the diagonal of the bounding box (default: pytetwild's, 0.05).
        name: of the surface in error texts.

    Raises:
        MechanismError: the surface does not close.
    """
    points = numbers(vertices, (-1, 3), f"vertices of {name}")
    faces = indices(triangles, (-1, 3), len(points), f"triangles of {name}")
    if not closed(faces):
        raise MechanismError(
            f"{name} does not close: each edge must belong to two triangles, in opposite directions; repair it (e.g. "
            "with trimesh) or merge its coincident vertices"
        )
    try:
        import pytetwild
    except ImportError:
        raise ImportError("meshing a surface needs pytetwild: pip install 'supple[mesh]'") from None
    options = {} if edge_length is None else {"edge_length_fac": edge_length}
    nodes, tets = pytetwild.tetrahedralize(points.copy(), faces.astype(np.int32), **options)[:2]
    used, local = np.unique(np.asarray(tets), return_inverse=True)
    return _solid(np.asarray(nodes, dtype=float)[used], local.reshape(-1, 4).astype(np.int64), {})


_HALVES = ([0, 1, 2], [0, 2, 3])


def _solid(nodes: Array, cells: Indices, groups: dict[str, Indices]) -> Solid:
    """A solid of hexahedra, or of tetrahedra given by corners; groups of corners gain the middles of their edges."""
    if cells.shape[1] == 8:
        return Solid(nodes, cells, groups)
    if (mesh.volumes(nodes, cells) < 0).all():  # numbered the other way round
        cells = cells[:, [0, 2, 1, 3]]
    nodes, tets = mesh.with_edge_nodes(nodes, cells)
    completed = {}
    for name, own in groups.items():
        inside = np.zeros(len(nodes), dtype=bool)
        inside[own] = True
        both = inside[tets[:, mesh.EDGES]].all(axis=2)
        inside[tets[:, 4:][both]] = True
        completed[name] = np.flatnonzero(inside)
    return Solid(nodes, tets, completed)


def _groups(read: Any) -> dict[str, Indices]:
    """Points of each named set of points or cells."""
    result = {str(name): np.asarray(own, dtype=np.int64) for name, own in read.point_sets.items()}
    tags = read.cell_data.get("gmsh:physical", [None] * len(read.cells))
    for name, (tag, dimension) in read.field_data.items():
        chosen = [
            cells.data[np.asarray(own) == tag].ravel()
            for cells, own in zip(read.cells, tags, strict=True)
            if own is not None and cells.dim == dimension
        ]
        result[str(name)] = np.unique(np.concatenate([np.zeros(0, dtype=np.int64), *chosen]))
    for name, sets in read.cell_sets.items():
        if not name.startswith("gmsh:"):
            chosen = [cells.data[own].ravel() for cells, own in zip(read.cells, sets, strict=True) if own is not None]
            result[str(name)] = np.unique(np.concatenate([np.zeros(0, dtype=np.int64), *chosen]))
    return result
