"""A still picture of a scene: a mechanism, rigid objects and the ground, at one or several times."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path

import numpy as np

from supple.errors import MechanismError
from supple.mechanism import Body, Mechanism, Shape
from supple.mechanism.record import Array
from supple.mechanism.shapes import HeightField
from supple.viewer import facets
from supple.viewer.picture import FORMATS, INK, LINK, PALE, Scene, _matplotlib, add_bodies, as_poses

OBJECT, PALE_OBJECT, GROUND, FORCE = "#d1495b", "#eec5cb", "#e6e2d6", "#2257a8"
INCHES = 7.5
CELLS = 60
"""Largest number of cells of a height field along each side."""


def draw_world(
    mech: Mechanism,
    moments: Sequence[Array],
    *,
    path: str | PathLike[str],
    title: str,
    objects: Sequence[tuple[Body, Sequence[Array]]] = (),
    ground: Sequence[Shape | HeightField] = (),
    forces: Sequence[tuple[Array, Array]] = (),
    view: tuple[float, float] = (22.0, -55.0),
    around: float = 0.15,
) -> None:
    """Writes a picture of a mechanism at several times. `moments` are its poses (bodies, 4, 4) at each time; all but
    the last are drawn pale.

    `objects` are rigid objects with their poses (4, 4) at the same times. The `ground` is cut off `around` metres
    beyond the mechanism and the objects. `forces` are points (3,), m, and forces (3,), N, drawn as arrows to one scale.
    `view` is as in `draw`.
    """
    if Path(path).suffix.lower() not in FORMATS:
        raise MechanismError(f"'{path}': a picture's name ends in {', '.join(FORMATS)}")
    scene = Scene(view)
    for k, poses in enumerate(moments):
        last = k == len(moments) - 1
        # earlier poses are drawn as if a little farther away, so that they do not show through the last
        nearer = 0.0 if last else -0.2 * mech.radius
        add_bodies(scene, mech, as_poses(mech, poses), LINK if last else PALE, nearer)
        for body, object_poses in objects:
            for shape in body.shapes:
                polygons = facets.moved(facets.shape_polygons(shape, {}), object_poses[k])
                scene.add(polygons, OBJECT if last else PALE_OBJECT)
    low, high = scene.points.min(axis=0) - around, scene.points.max(axis=0) + around
    for below in ground:
        polygons = _ground(below, low, high)
        if len(polygons):
            scene.add(polygons, GROUND, nearer=-0.3 * float((high - low).max()))
    _render(scene, title, forces, path)


def _ground(shape: Shape | HeightField, low: Array, high: Array) -> Array:
    if isinstance(shape, HeightField):
        return _field(shape, low, high)
    if shape.kind == "plane":
        corners = [[low[0], low[1], 0], [high[0], low[1], 0], [high[0], high[1], 0], [low[0], high[1], 0]]
        return np.array([corners], dtype=float) + shape.pose[:3, 3] * [0, 0, 1]
    return facets.shape_polygons(shape, {})


def _field(field: HeightField, low: Array, high: Array) -> Array:
    rows, columns = field.heights.shape
    x = np.linspace(-field.size[0], field.size[0], columns) + field.pose[0, 3]
    y = np.linspace(-field.size[1], field.size[1], rows) + field.pose[1, 3]
    i, j = np.flatnonzero((x >= low[0]) & (x <= high[0])), np.flatnonzero((y >= low[1]) & (y <= high[1]))
    if len(i) < 2 or len(j) < 2:
        return np.zeros((0, 4, 3))
    i, j = i[:: max(1, len(i) // CELLS)], j[:: max(1, len(j) // CELLS)]
    grid = np.stack([*np.meshgrid(x[i], y[j]), field.heights[np.ix_(j, i)] + field.pose[2, 3]], axis=-1)
    corners = grid[:-1, :-1], grid[:-1, 1:], grid[1:, 1:], grid[1:, :-1]
    return np.stack(corners, axis=2).reshape(-1, 4, 3)


def _render(scene: Scene, title: str, forces: Sequence[tuple[Array, Array]], path: str | PathLike[str]) -> None:
    figure_class, agg, poly_collection = _matplotlib()
    flat = scene.project(scene.points)
    low, high = flat.min(axis=0), flat.max(axis=0)
    inch = float((high - low).max()) / INCHES
    size = (high - low) / inch
    figure = figure_class(figsize=(size[0], size[1] + 0.5), dpi=100, facecolor="white")
    agg(figure)
    axes = figure.add_axes((0, 0, 1, size[1] / (size[1] + 0.5)), frameon=False, xticks=[], yticks=[], aspect="equal")
    axes.set_xlim(low[0], high[0])
    axes.set_ylim(low[1], high[1])
    corners, colours, outlines = scene.painted()
    axes.add_collection(poly_collection(corners, facecolors=colours, edgecolors=colours, linewidths=outlines))
    largest = max((float(np.linalg.norm(force)) for _, force in forces), default=1.0) or 1.0
    for point, force in forces:
        start, end = scene.project(point), scene.project(point + 1.1 * inch / largest * force)
        axes.annotate("", end, start, arrowprops={"arrowstyle": "-|>", "color": FORCE, "lw": 1.6}, zorder=4)
    figure.text(0.02, 1 - 0.22 / (size[1] + 0.5), title, fontsize=12, fontweight="bold", color=INK, va="center")
    figure.savefig(path)
