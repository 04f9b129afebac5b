"""Parametric parts: rods, tubes, plates and bars."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple.elastic import mesh
from supple.elastic._checks import Array, numbers
from supple.elastic.material import Material, spring_steel
from supple.elastic.part import Part
from supple.errors import MechanismError


def rod(
    length: float, diameter: float, material: Material | None = None, *, sections: int = 40, sides: int = 8
) -> Part:
    """A straight round rod along z, from z = 0 (interface `start`) to z = length (interface `end`).

    Args:
        length: m.
        diameter: m.
        material: default: spring steel.
        sections: number of lengths into which the rod is divided. Elements may be long along the axis: 40 lengths serve
            a rod of length 175 diameters with 0.7 % error in bending.
        sides: corners of the polygon that stands for the circle; the polygon has the circle's area.
    """
    _check_positive(length=length, diameter=diameter, sections=sections)
    angles = _angles(sides)
    radius = 0.5 * diameter * _same_area(sides)
    points = np.vstack([np.zeros(2), radius * np.stack([np.cos(angles), np.sin(angles)], axis=1)])
    around = np.arange(sides)
    triangles = np.stack([np.zeros(sides, dtype=int), 1 + around, 1 + (around + 1) % sides], axis=1)
    return _extruded(points, triangles, length, sections, material)


def tube(
    length: float,
    diameter: float,
    thickness: float,
    material: Material | None = None,
    *,
    sections: int = 40,
    sides: int = 12,
) -> Part:
    """A straight round tube along z, from z = 0 (interface `start`) to z = length (interface `end`).

    Args:
        length: m.
        diameter: outer diameter, m.
        thickness: of the wall, m.
        material: default: spring steel.
        sections: number of lengths into which the tube is divided.
        sides: corners of the polygons that stand for both circles; each has its circle's area.
    """
    _check_positive(length=length, diameter=diameter, thickness=thickness, sections=sections)
    if not 2 * thickness < diameter:
        raise MechanismError(f"a tube {diameter} m wide cannot have a wall of {thickness} m; use a rod")
    angles = _angles(sides)
    circle = _same_area(sides) * np.stack([np.cos(angles), np.sin(angles)], axis=1)
    points = np.vstack([(0.5 * diameter - thickness) * circle, 0.5 * diameter * circle])
    a = np.arange(sides)
    b = (a + 1) % sides
    triangles = np.vstack([np.stack([a, a + sides, b + sides], axis=1), np.stack([a, b + sides, b], axis=1)])
    return _extruded(points, triangles, length, sections, material)


def plate(
    length: float,
    width: float,
    thickness: float,
    material: Material | None = None,
    *,
    divisions: tuple[int, int, int] = (20, 4, 1),
    interfaces: tuple[str, ...] = ("start", "end"),
) -> Part:
    """A flat plate in the x-y plane, centred on the x axis, its thickness along z.

    Args:
        length: along x, m. The edge `start` lies at x = 0, `end` at x = length.
        width: along y, m. The edge `right` lies at y = -width / 2, `left` at y = width / 2.
        thickness: along z, m.
        material: default: spring steel.
        divisions: number of elements along x, y and z.
        interfaces: which of the four edge faces are interfaces; the first is the default reference.
    """
    _check_positive(length=length, width=width, thickness=thickness, divisions=min(divisions))
    nx, ny, nz = divisions
    ticks = [
        np.linspace(0, length, nx + 1),
        np.linspace(-0.5, 0.5, ny + 1) * width,
        np.linspace(-0.5, 0.5, nz + 1) * thickness,
    ]
    nodes = np.stack(np.meshgrid(*ticks, indexing="ij"), axis=-1).reshape(-1, 3)
    x, y, _ = nodes.T
    edges = {"start": x == 0, "end": x == length, "right": y == -0.5 * width, "left": y == 0.5 * width}
    unknown = [name for name in interfaces if name not in edges]
    if unknown:
        raise MechanismError(f"a plate has no edge '{unknown[0]}'; its edges are {', '.join(edges)}")
    corners = _split_boxes(divisions)
    chosen = {name: mesh.corner_facets_where(corners, edges[name], name) for name in interfaces}
    return Part(nodes, corners, material or spring_steel(), chosen)


BAR_FACES = {"+x": (0, 1.0), "-x": (0, -1.0), "+y": (1, 1.0), "-y": (1, -1.0)}
"""The side faces of a bar: axis and sign."""


def bar(
    profile: ArrayLike,
    material: Material | None = None,
    *,
    pads: Mapping[str, tuple[str, float, float]] | None = None,
    length: float = 5e-3,
    across: tuple[int, int] = (2, 2),
) -> Part:
    """A bar along z with a rectangular section that changes along it, as printed links with thinned sections have.

    Args:
        profile: (k, 3) rows of z, width along x and depth along y, m; z rises from row to row, and straight lines
            connect the rows. The first row is the interface `start`, the last one the interface `end`.
        material: default: spring steel.
        pads: further interfaces on the sides: by name the face ("+x", "-x", "+y" or "-y") and the z where it begins and
            ends, m.
        length: the longest element along the bar, m.
        across: number of elements along x and y.
    """
    rows = numbers(profile, (-1, 3), "profile of a bar")
    if len(rows) < 2 or (np.diff(rows[:, 0]) <= 0).any():
        raise MechanismError("the profile of a bar needs two rows or more, with z rising from row to row")
    _check_positive(width=rows[:, 1].min(), depth=rows[:, 2].min(), length=length, divisions=min(across))
    for name, (face, low, high) in (pads or {}).items():
        if face not in BAR_FACES:
            raise MechanismError(f"pad '{name}' of a bar is on the face '{face}'; its faces are {', '.join(BAR_FACES)}")
        if name in ("start", "end") or not rows[0, 0] <= low < high <= rows[-1, 0]:
            raise MechanismError(
                f"pad '{name}' of a bar from z = {low:g} to {high:g} m: it needs a name of its own and must lie "
                f"between {rows[0, 0]:g} and {rows[-1, 0]:g} m"
            )
    marks = np.unique(np.concatenate([rows[:, 0], *(pad[1:] for pad in (pads or {}).values())]))
    pieces = [np.linspace(a, b, int(np.ceil((b - a) / length - 1e-9)) + 1)[:-1] for a, b in itertools.pairwise(marks)]
    z = np.append(np.concatenate(pieces), marks[-1])
    divisions = len(z) - 1, *across
    share = np.stack(np.meshgrid(*(np.linspace(-0.5, 0.5, n + 1) for n in across), indexing="ij"), axis=-1)
    sizes = np.stack([np.interp(z, rows[:, 0], rows[:, k]) for k in (1, 2)], axis=-1)
    nodes = np.empty((len(z), *share.shape[:2], 3))
    nodes[..., :2] = share * sizes[:, None, None]
    nodes[..., 2] = z[:, None, None]
    corners = _split_boxes(divisions)
    layer = np.broadcast_to(z[:, None, None], nodes.shape[:3]).ravel()
    places = {"start": layer == z[0], "end": layer == z[-1]}
    for name, (face, low, high) in (pads or {}).items():
        axis, sign = BAR_FACES[face]
        outside = np.broadcast_to(share[..., axis] == 0.5 * sign, nodes.shape[:3]).ravel()
        places[name] = outside & (layer >= low) & (layer <= high)
    nodes = nodes.reshape(-1, 3)
    chosen = {name: mesh.corner_facets_where(corners, inside, name) for name, inside in places.items()}
    return Part(nodes, corners, material or spring_steel(), chosen)


def _split_boxes(divisions: tuple[int, int, int]) -> NDArray[np.int64]:
    """(t, 4) tetrahedra of a grid of boxes; node (i, j, k) of the grid has the index that `np.ravel_multi_index` gives.

    Kuhn's split: six tetrahedra around the diagonal of a box, the same in all boxes, so that neighbours conform."""
    _, ny, nz = divisions
    strides = np.array([(ny + 1) * (nz + 1), nz + 1, 1])
    cells = np.stack(np.meshgrid(*(np.arange(n) for n in divisions), indexing="ij"), axis=-1).reshape(-1, 3) @ strides
    paths = [(0, 1, 2), (1, 2, 0), (2, 0, 1), (0, 2, 1), (2, 1, 0), (1, 0, 2)]
    tets = []
    for k, (i, j, _) in enumerate(paths):
        steps = [0, strides[i], strides[i] + strides[j], strides.sum()]
        order = steps if k < 3 else [steps[0], steps[2], steps[1], steps[3]]
        tets.append(cells[:, None] + np.array(order))
    return np.concatenate(tets)


def _extruded(
    points: Array, triangles: NDArray[np.int64], length: float, sections: int, material: Material | None
) -> Part:
    """A section (points (k, 2), triangles counter-clockwise) extruded along z in equal lengths."""
    k = len(points)
    heights = np.linspace(0.0, length, sections + 1)
    nodes = np.column_stack([np.tile(points, (sections + 1, 1)), np.repeat(heights, k)])
    tets = np.concatenate([_prism(t) for t in triangles]) if len(triangles) else np.zeros((0, 4, 2), int)
    base = tets[..., 0] + k * tets[..., 1]
    corners = (base[None] + k * np.arange(sections)[:, None, None]).reshape(-1, 4)
    a, b, c, d = (nodes[corners[:, i]] for i in range(4))
    flipped = np.einsum("ti,ti->t", b - a, np.cross(c - a, d - a)) < 0
    corners[flipped, 1:3] = corners[flipped, 2:0:-1]
    z = nodes[:, 2]
    ends = {"start": z == 0, "end": z == heights[-1]}
    chosen = {name: mesh.corner_facets_where(corners, inside, name) for name, inside in ends.items()}
    return Part(nodes, corners, material or spring_steel(), chosen)


def _prism(triangle: NDArray[np.int64]) -> NDArray[np.int64]:
    """(3, 4, 2) the tetrahedra of a prism over a triangle, as (point, layer). Quadrilateral sides are split from the
    lower corner of smaller index to the upper one of larger index, so that neighbours conform."""
    p, q, r = sorted(triangle)
    return np.array(
        [
            [(p, 0), (q, 0), (r, 0), (r, 1)],
            [(p, 0), (q, 0), (q, 1), (r, 1)],
            [(p, 0), (p, 1), (q, 1), (r, 1)],
        ]
    )


def _angles(sides: int) -> Array:
    if sides < 3:
        raise MechanismError(f"a section needs 3 sides at least, got {sides}")
    return np.asarray(2 * np.pi * np.arange(sides) / sides)


def _same_area(sides: int) -> float:
    """Radius of a regular polygon's corners over that of the circle of the same area."""
    return float(np.sqrt(2 * np.pi / (sides * np.sin(2 * np.pi / sides))))


def _check_positive(**values: float) -> None:
    for name, value in values.items():
        if not (np.isfinite(value) and value > 0):
            raise MechanismError(f"the {name} of a part must be positive, got {value}")
