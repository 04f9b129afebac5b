"""Parametric parts: rods, tubes and plates."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from supple.elastic import mesh
from supple.elastic._checks import Array
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
    strides = np.array([(ny + 1) * (nz + 1), nz + 1, 1])
    cells = np.stack(np.meshgrid(*(np.arange(n) for n in divisions), indexing="ij"), axis=-1).reshape(-1, 3) @ strides
    # Kuhn's split: six tetrahedra around the diagonal of a box, the same in all boxes, so that neighbours conform
    paths = [(0, 1, 2), (1, 2, 0), (2, 0, 1), (0, 2, 1), (2, 1, 0), (1, 0, 2)]
    tets = []
    for k, (i, j, _) in enumerate(paths):
        steps = [0, strides[i], strides[i] + strides[j], strides.sum()]
        order = steps if k < 3 else [steps[0], steps[2], steps[1], steps[3]]
        tets.append(cells[:, None] + np.array(order))
    x, y, _ = nodes.T
    edges = {"start": x == 0, "end": x == length, "right": y == -0.5 * width, "left": y == 0.5 * width}
    unknown = [name for name in interfaces if name not in edges]
    if unknown:
        raise MechanismError(f"a plate has no edge '{unknown[0]}'; its edges are {', '.join(edges)}")
    corners = np.concatenate(tets)
    chosen = {name: mesh.corner_facets_where(corners, edges[name], name) for name in interfaces}
    return Part(nodes, corners, material or spring_steel(), chosen)


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
