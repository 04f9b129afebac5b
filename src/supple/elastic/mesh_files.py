"""Parts from mesh files (meshio) and from closed surfaces (pytetwild)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from os import PathLike, fspath
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from supple.elastic import mesh
from supple.elastic._checks import Array, numbers
from supple.elastic.material import Material, spring_steel
from supple.elastic.part import Part
from supple.errors import MechanismError, listed

Where: TypeAlias = "str | ArrayLike | Callable[[Array], ArrayLike]"
"""What makes an interface: the name of a physical group of triangles in the file, facets by their corners (f, 3), or a
function that takes node positions (k, 3) and returns a mask (k,): facets with all corners inside belong to the
interface."""


def from_mesh(
    path: str | PathLike[str],
    *,
    interfaces: Mapping[str, Where],
    material: Material | None = None,
    scale: float = 1.0,
) -> Part:
    """A part from any mesh file with tetrahedra that meshio reads (Gmsh, Abaqus, VTK, MED ...).

    Curved edges are straightened, nodes of other cells are left out, and tetrahedra are turned round if the file
    numbers all of them the other way.

    Args:
        path: the file.
        interfaces: by name, a physical group of triangles, facets by corners, or a function of positions in m (see
            `Where`).
        material: default: spring steel.
        scale: m per unit of length in the file.

    Raises:
        MechanismError: no such file, no tetrahedra, bad elements, an interface off the mesh.
    """
    where = fspath(path)
    read = read_mesh(where)
    blocks = [cells.data[:, :4] for cells in read.cells if cells.type in ("tetra", "tetra10")]
    if not blocks:
        kinds = listed(sorted({cells.type for cells in read.cells}))
        raise MechanismError(
            f"{where} has no tetrahedra, only {kinds or 'nothing'}; mesh its volume, or use from_surface"
        )
    points = np.asarray(read.points, dtype=float) * scale
    groups = {name: own for name, own in interfaces.items() if isinstance(own, str)}
    facets: dict[str, Any] = {name: _group(read, group, where) for name, group in groups.items()}
    return _part(points, np.concatenate(blocks), {**interfaces, **facets}, material)


def from_surface(
    vertices: ArrayLike,
    triangles: ArrayLike,
    *,
    interfaces: Mapping[str, Where],
    material: Material | None = None,
    edge_length: float | None = None,
) -> Part:
    """A part inside a closed surface of triangles, meshed by pytetwild (`pip install 'supple[mesh]'`).

    Args:
        vertices: (v, 3) m.
        triangles: (f, 3) vertices of each triangle.
        interfaces: by name, a function of positions (k, 3) that returns a mask (k,): the mesher makes new facets, so
            they cannot be named beforehand.
        material: default: spring steel.
        edge_length: of the tetrahedra, over the diagonal of the bounding box (default: pytetwild's, 0.05).
    """
    try:
        import pytetwild
    except ImportError:
        raise ImportError("meshing a surface needs pytetwild: pip install 'supple[mesh]'") from None
    points = numbers(vertices, (-1, 3), "vertices of a surface")
    faces = np.asarray(triangles, dtype=np.int32)
    options = {} if edge_length is None else {"edge_length_fac": edge_length}
    nodes, tets = pytetwild.tetrahedralize(points.copy(), faces.copy(), **options)[:2]
    return _part(np.asarray(nodes, dtype=float), np.asarray(tets), interfaces, material)


def _part(points: Array, corners: Any, interfaces: Mapping[str, Where], material: Material | None) -> Part:
    used, local = np.unique(corners, return_inverse=True)
    tets = local.reshape(-1, 4).astype(np.int64)
    nodes = points[used]
    if (mesh.volumes(nodes, tets) < 0).all():
        tets = tets[:, [0, 2, 1, 3]]
    number = np.full(len(points), -1)
    number[used] = np.arange(len(used))
    facets = {}
    for name, own in interfaces.items():
        if callable(own):
            facets[name] = mesh.corner_facets_where(tets, own(nodes), name)
        else:
            facets[name] = number[np.asarray(own)]
            if (facets[name] < 0).any():
                raise MechanismError(f"interface '{name}' is off the mesh: it has nodes that no tetrahedron has")
    return Part(nodes, tets, material or spring_steel(), facets)


def _group(read: Any, group: str, where: str) -> Any:
    """(f, 3) corners of the triangles of a physical group or a named set of cells."""
    rows, names = [], {name for name in read.cell_sets if not name.startswith("gmsh:")} | set(read.field_data)
    tags = read.cell_data.get("gmsh:physical", [None] * len(read.cells))
    tag = read.field_data[group][0] if group in read.field_data else None
    sets = read.cell_sets.get(group, [None] * len(read.cells))
    for cells, own, physical in zip(read.cells, sets, tags, strict=True):
        if cells.type not in ("triangle", "triangle6"):
            continue
        if own is not None:
            rows.append(cells.data[own][:, :3])
        elif tag is not None and physical is not None:
            rows.append(cells.data[np.asarray(physical) == tag][:, :3])
    if not sum(map(len, rows)):
        raise MechanismError(
            f"{where} has no group of triangles '{group}'; it has {listed(sorted(names)) or 'no groups'}"
        )
    return np.concatenate(rows)


def read_mesh(where: str) -> Any:
    """A mesh file as meshio reads it."""
    try:
        import meshio
    except ImportError:
        raise ImportError("reading mesh files needs meshio: pip install 'supple[all]'") from None
    if not Path(where).is_file():
        raise MechanismError(f"there is no file {where}")
    try:
        with np.errstate(over="ignore"):  # meshio takes text of an STL file for a number of triangles first
            return meshio.read(where)
    except (SystemExit, Exception) as error:
        raise MechanismError(f"meshio cannot read {where} ({error})") from None
