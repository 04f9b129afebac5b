"""Shapes as polygons: arrays (n, 4, 3) of four corners each. A triangle repeats its last corner."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple import spatial
from supple.mechanism import Mesh, Shape
from supple.mechanism.record import Array

SIDES = 10
"""Sides of a round shape."""
MOST_FACES = 800
"""A mesh with more faces is replaced by its convex hull."""


def shape_polygons(shape: Shape, meshes: Mapping[str, Mesh]) -> Array:
    """Polygons of a shape in its body's frame; none for a plane."""
    match shape.kind:
        case "capsule":
            polygons = tube(shape.size[0], shape.size[1], rounded=True)
        case "cylinder":
            polygons = tube(shape.size[0], shape.size[1])
        case "sphere":
            polygons = ball() * shape.size[0]
        case "ellipsoid":
            polygons = ball() * shape.size
        case "box":
            polygons = box(shape.size)
        case "mesh" if shape.mesh is not None:
            polygons = _mesh(meshes[shape.mesh])
        case _:
            polygons = np.zeros((0, 4, 3))
    return moved(polygons, shape.pose)


def moved(polygons: Array, pose: Array) -> Array:
    """The polygons transformed by a pose (4, 4)."""
    result: Array = polygons @ pose[:3, :3].T + pose[:3, 3]
    return result


def tube(radius: float, half: float, rounded: bool = False) -> Array:
    """A cylinder along z from -half to half, closed by discs or, if `rounded`, by hemispheres beyond its ends."""
    # rings at most two diameters apart, so that sorting the polygons by depth works along its length
    rings = max(2, int(np.ceil(2 * half / (4 * radius))) + 1)
    heights, radii = list(np.linspace(-half, half, rings)), [radius] * rings
    if rounded:
        for angle in (np.pi / 4, np.pi / 2):
            heights = [-half - radius * np.sin(angle), *heights, half + radius * np.sin(angle)]
            radii = [radius * np.cos(angle), *radii, radius * np.cos(angle)]
    else:
        heights, radii = [-half, *heights, half], [0.0, *radii, 0.0]
    return _lathe(np.array(radii), np.array(heights))


def ball() -> Array:
    """The unit sphere."""
    latitude = np.linspace(-np.pi / 2, np.pi / 2, 7)
    return _lathe(np.cos(latitude), np.sin(latitude))


def box(half: ArrayLike) -> Array:
    """A box of half lengths (3,)."""
    top: Array = np.array([[-1.0, -1, 1], [1, -1, 1], [1, 1, 1], [-1, 1, 1]])
    sides = [np.roll(side, shift, axis=1) for shift in range(3) for side in (top, -top[::-1])]
    polygons: Array = np.array(sides) * np.asarray(half, dtype=float)
    return polygons


def rod(start: Array, end: Array, radius: float) -> Array:
    """A cylinder between two points."""
    half = float(np.linalg.norm(end - start)) / 2
    if half == 0:
        return ball() * radius + start
    turn = spatial.rotation_between([0.0, 0.0, 1.0], end - start)
    return moved(tube(radius, half), spatial.pose(turn, (start + end) / 2))


def _lathe(radii: Array, heights: Array) -> Array:
    """Rings of radii (n,) at heights (n,), joined by quadrilaterals."""
    angle = np.arange(SIDES) * (2 * np.pi / SIDES)
    circle = np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    rings = np.empty((len(radii), SIDES, 3))
    rings[..., :2] = radii[:, None, None] * circle
    rings[..., 2] = heights[:, None]
    after = np.roll(rings, -1, axis=1)
    return np.stack([rings[:-1], after[:-1], after[1:], rings[1:]], axis=2).reshape(-1, 4, 3)


def _mesh(mesh: Mesh) -> Array:
    vertices, faces = mesh.vertices, np.asarray(mesh.faces)
    if len(faces) > MOST_FACES:
        from scipy.spatial import ConvexHull

        faces = ConvexHull(vertices).simplices
    return triangles(vertices, faces)


def triangles(vertices: Array, faces: NDArray[np.integer[Any]]) -> Array:
    """Triangles (n, 3) of vertex indices as polygons (n, 4, 3)."""
    corners: Array = vertices[faces[:, [0, 1, 2, 2]]]
    return corners


def round_number(most: float) -> float:
    """1, 2 or 5 times a power of ten, at most `most`."""
    power = 10.0 ** np.floor(np.log10(most))
    return float(power * max(n for n in (1, 2, 5) if n * power <= most * (1 + 1e-9)))
