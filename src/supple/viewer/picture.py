"""A still picture of a mechanism, in one or two poses."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from supple import spatial
from supple.errors import MechanismError
from supple.mechanism import Mechanism, Poses, Shape
from supple.mechanism.mechanism import check_mechanism
from supple.mechanism.record import Array, array
from supple.reduced.matrices import Ellipsoid
from supple.viewer import facets
from supple.viewer.skins import interface_bodies, mechanism_skins
from supple.viewer.visuals import (
    BASE,
    COLOURS,
    bulky,
    ground_point,
    grounded,
    marker,
    marker_body,
    marker_size,
    plate,
    seen_shapes,
    skeleton,
)

LINK, PALE, GRID, INK = "#8fa3b5", "#dfe5ea", "#d5d8dc", "#2b2f36"
FORMATS = (".png", ".pdf", ".svg")
ELLIPSOID = "#2e86ab"
THINNEST = 0.01
"""Smallest semi-axis of an ellipsoid in the picture, relative to the largest one."""
INCHES, DPI = 5.6, 110
"""Longer side of the drawing in inches, and pixels per inch."""
OUTLINE, SKIN_OUTLINE = 0.25, 1.0
"""Widths of the lines around polygons, points. Those of skins keep a thin rod visible."""


def draw(
    mech: Mechanism,
    poses: ArrayLike | None = None,
    *,
    path: str | PathLike[str],
    ghost: ArrayLike | None = None,
    labels: Sequence[str] | None = None,
    title: str | None = None,
    view: tuple[float, float] = (18.0, -60.0),
    ellipsoids: Sequence[Ellipsoid] = (),
) -> None:
    """Writes a picture of a mechanism at `poses` (bodies, 4, 4), by default the reference pose, to a PNG, PDF or SVG.

    Hinges are drawn as pins along their axes, slides as bars, other joints as balls, coloured by kind. Flexible bodies
    are deformed by the amplitudes of `poses`, if these are `Poses`; an array of poses has none. `ghost` (bodies, 4, 4)
    are the poses of a second shape, drawn pale. `labels` are names of bodies or sites to label, by
    default those called tip. `view` is the elevation and azimuth of the camera in degrees; z is up. The grid on the
    floor gives the scale. `ellipsoids` (`model.ellipsoid_at`) are drawn at one scale, in which the longest semi-axis is
    a quarter of the mechanism's radius.
    """
    if Path(path).suffix.lower() not in FORMATS:
        raise MechanismError(f"'{path}': a picture's name ends in {', '.join(FORMATS)}")
    check_mechanism(mech)
    shape = as_poses(mech, poses)
    scene = Scene(view)
    if ghost is not None:
        # drawn as if a little farther away, so that it does not show through a shape that has hardly moved
        add_bodies(scene, mech, as_poses(mech, ghost), PALE, nearer=-0.15 * mech.radius)
    add_bodies(scene, mech, shape, LINK)
    for ground_shape in mech.shapes:
        scene.add(facets.shape_polygons(ground_shape, {m.name: m for m in mech.meshes}), PALE)
    for field in mech.height_fields:
        ground = field.mesh("ground")
        scene.add(facets.moved(facets.triangles(ground.vertices, ground.faces), field.pose), PALE)
    # joint markers inside bodies are drawn in front of them
    nearer, size = 4 * mech.radius if bulky(mech) else 0.0, marker_size(mech)
    for joint in mech.joints:
        if joint.kind in COLOURS:
            pin, pose = marker(joint, size)
            scene.add(facets.moved(pin, shape[marker_body(joint)] @ pose), COLOURS[joint.kind], nearer)
        if grounded(joint):
            scene.add(plate(size) + ground_point(joint), BASE)
    for polygons in ellipsoid_polygons(mech, ellipsoids):
        scene.add(polygons, ELLIPSOID, 4 * mech.radius)
    if labels is None:
        labels = [b.name for b in mech.bodies if b.name == "tip" or b.name.endswith("_tip")]
    for name in labels:
        _add_site(scene, mech, shape, name, size)
    _render(scene, mech, title or mech.name, {name: _label_point(mech, shape, name) for name in labels}, path)


def ellipsoid_polygons(mech: Mechanism, ellipsoids: Sequence[Ellipsoid]) -> list[Array]:
    """Polygons (n, 4, 3) of each ellipsoid, all at one scale. One without extent in some direction is drawn flat."""
    longest = max((float(each.semi_axes.max()) for each in ellipsoids), default=0.0)
    if not longest > 0:
        return []
    result = []
    for each in ellipsoids:
        size = np.maximum(each.semi_axes / longest, THINNEST) * 0.25 * (mech.radius or 1.0)
        shape = Shape("ellipsoid", size, spatial.pose(each.directions, each.centre))
        result.append(facets.shape_polygons(shape, {}))
    return result


class Scene:
    """Polygons in parallel projection, painted from back to front."""

    def __init__(self, view: tuple[float, float]) -> None:
        elevation, azimuth = np.radians(array(view, (2,), "view (elevation, azimuth)"))
        right = np.array([-np.sin(azimuth), np.cos(azimuth), 0.0])
        level = np.array([np.cos(azimuth), np.sin(azimuth), 0.0])
        eye = np.cos(elevation) * level + np.array([0, 0, np.sin(elevation)])
        self.axes = np.stack([right, np.cross(eye, right), eye])
        """(3, 3) rows: right, up and towards the camera."""
        self._parts: list[tuple[Array, str, float, float]] = []

    def add(self, polygons: Array, colour: str, nearer: float = 0.0, outline: float = OUTLINE) -> None:
        """Adds polygons (n, 4, 3) in world coordinates, sorted as if `nearer` metres closer to the camera. `outline` is
        the width of the lines around them, points."""
        self._parts.append((polygons, colour, nearer, outline))

    @property
    def points(self) -> Array:
        """(n, 3) corners of all polygons, world coordinates."""
        return np.concatenate([polygons.reshape(-1, 3) for polygons, *_ in self._parts])

    def project(self, points: ArrayLike) -> Array:
        """(..., 2) positions in the picture plane, m."""
        flat: Array = np.asarray(points, dtype=float) @ self.axes[:2].T
        return flat

    def painted(self) -> tuple[Array, Array, Array]:
        """Corners (n, 4, 2), shaded colours (n, 3) and outlines (n,) in the order to paint them, lit from above the
        camera."""
        from matplotlib.colors import to_rgb

        light = np.array([-0.35, 0.6, 0.72]) @ self.axes
        corners, colours, outlines, depths = [], [], [], []
        for polygons, colour, nearer, outline in self._parts:
            normal = np.cross(polygons[:, 2] - polygons[:, 0], polygons[:, 3] - polygons[:, 1])
            triangle = np.cross(polygons[:, 1] - polygons[:, 0], polygons[:, 2] - polygons[:, 0])
            normal = np.where(np.abs(normal).max(axis=1, keepdims=True) > 0, normal, triangle)
            normal /= np.maximum(np.linalg.norm(normal, axis=1, keepdims=True), 1e-300)
            normal *= np.where(normal @ self.axes[2] < 0, -1.0, 1.0)[:, None]
            shade = 0.55 + 0.5 * np.clip(normal @ light, 0, 1)
            corners.append(self.project(polygons))
            colours.append(np.clip(shade[:, None] * np.array(to_rgb(colour)), 0, 1))
            outlines.append(np.full(len(polygons), outline))
            depths.append(polygons.mean(axis=1) @ self.axes[2] + nearer)
        order = np.argsort(np.concatenate(depths), kind="stable")
        return np.concatenate(corners)[order], np.concatenate(colours)[order], np.concatenate(outlines)[order]


# contents of the picture


def as_poses(mech: Mechanism, poses: ArrayLike | None) -> Poses:
    """The argument `poses` of a picture: `Poses`, an array (bodies, 4, 4) of them, or None for the reference pose."""
    if poses is None:
        return mech.poses
    amplitudes = poses.amplitudes if isinstance(poses, Poses) else None
    return Poses(mech, array(poses, (len(mech.bodies), 4, 4), "poses"), amplitudes)


def add_bodies(scene: Scene, mech: Mechanism, poses: Poses, colour: str, nearer: float = 0.0) -> None:
    """Adds the shapes of all bodies and the skins of flexible ones, in one colour."""
    meshes, with_skin = {mesh.name: mesh for mesh in mech.meshes}, interface_bodies(mech)
    for body, pose in zip(mech.bodies, poses, strict=True):
        seen = seen_shapes(body)
        for shape in seen:
            scene.add(facets.moved(facets.shape_polygons(shape, meshes), pose), colour, nearer)
        if not seen and body.name not in with_skin:
            for polygons in skeleton(mech, body):
                scene.add(facets.moved(polygons, pose), colour, nearer)
    for skin in mechanism_skins(mech):
        polygons = facets.moved(facets.triangles(skin.vertices(poses), skin.faces), poses[skin.body])
        normals = np.cross(polygons[:, 1] - polygons[:, 0], polygons[:, 2] - polygons[:, 0])
        scene.add(polygons[normals @ scene.axes[2] > 0], colour, nearer, SKIN_OUTLINE)  # the rest is hidden


def _add_site(scene: Scene, mech: Mechanism, poses: Poses, name: str, size: float) -> None:
    """Adds a dot at a site and a thin rod to the centre of mass of its body; nothing for a body."""
    body, at = mech.frame(name)[0], _label_point(mech, poses, name)
    if body < 0 or mech.bodies[body].name == name:
        return
    scene.add(facets.rod(_label_point(mech, poses, mech.bodies[body].name), at, 0.25 * size), LINK)
    scene.add(0.8 * size * facets.ball() + at, INK)


def _label_point(mech: Mechanism, poses: Poses, name: str) -> Array:
    """(3,) centre of mass of a body, or the origin of a site."""
    index, _ = mech.frame(name)
    known = index >= 0 and mech.bodies[index].name == name
    point = mech.bodies[index].centre if known else np.zeros(3)
    middle: Array = poses[name][:3, :3] @ point + poses[name][:3, 3]
    return middle


# rendering


def _render(scene: Scene, mech: Mechanism, title: str, labels: dict[str, Array], path: str | PathLike[str]) -> None:
    figure_class, agg, poly_collection = _matplotlib()
    grid, spacing, corner = _floor(scene.points)
    flat = scene.project(np.concatenate([scene.points, grid.reshape(-1, 3)]))
    low, high = flat.min(axis=0), flat.max(axis=0)
    inch = (high - low).max() / INCHES  # in metres of the mechanism
    ends = {name: scene.project(at) for name, at in labels.items()}
    texts = {name: _label_position(end, low, high, inch) for name, end in ends.items()}
    for name, text in texts.items():
        half = np.array([0.06 + 0.05 * len(name), 0.12]) * inch
        low, high = np.minimum(low, text - half), np.maximum(high, text + half)
    low, high = low - 0.12 * inch, high + 0.12 * inch

    (width, height), above, below = (high - low) / inch, 0.6, 0.4  # inches; the last two for text
    width, whole = max(float(width), 3.2), float(height) + above + below
    figure = figure_class(figsize=(width, whole), dpi=DPI, facecolor="white")
    agg(figure)
    place = (0.0, below / whole, 1.0, height / whole)
    axes = figure.add_axes(place, frameon=False, xticks=[], yticks=[], aspect="equal", anchor="C")
    axes.set_xlim(low[0], high[0])
    axes.set_ylim(low[1], high[1])
    for line in scene.project(grid):
        axes.plot(*line.T, color=GRID, linewidth=0.8, zorder=1, solid_capstyle="round")
    _triad(axes, scene, corner, 0.45 * spacing)
    corners, colours, outlines = scene.painted()
    collection = poly_collection(corners, facecolors=colours, edgecolors=colours, linewidths=outlines, zorder=2)
    axes.add_collection(collection)
    line = {"arrowstyle": "-", "color": INK, "lw": 0.8, "shrinkB": 0}
    style = {"ha": "center", "va": "center", "color": INK, "fontsize": 10, "zorder": 4, "parse_math": False}
    for name, text in texts.items():
        axes.annotate(name, ends[name], text, arrowprops=line, **style)
    _write_text(figure, mech, title, spacing)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # the font does not have every script
        figure.savefig(path)


def _label_position(at: Array, low: Array, high: Array, inch: float) -> Array:
    """Position of a label: outwards from the centre of the picture."""
    away = (at - (low + high) / 2) / (high - low)
    away = away / np.linalg.norm(away) if away.any() else np.array([0.0, 1.0])
    text: Array = at + away * [0.6 * inch, 0.4 * inch]
    return text


def _floor(points: Array) -> tuple[Array, float, Array]:
    """Lines (n, 2, 3) of a grid below the points, its spacing, m, and its corner of smallest x and y."""
    low, high = points.min(axis=0), points.max(axis=0)
    size = (high - low).max() or 1.0
    z = 0.0 if -0.05 * size < low[2] < 0.3 * size else low[2]  # z = 0 if the points are close to it
    spacing = facets.round_number(size / 5)
    first, last = np.floor(low[:2] / spacing - 0.25), np.ceil(high[:2] / spacing + 0.25)
    xs, ys = (spacing * np.arange(a, b + 0.5) for a, b in zip(first, last, strict=True))
    lines = [[[x, ys[0], z], [x, ys[-1], z]] for x in xs] + [[[xs[0], y, z], [xs[-1], y, z]] for y in ys]
    return np.array(lines), spacing, np.array([xs[0], ys[0], z])


def _triad(axes: Any, scene: Scene, origin: Array, length: float) -> None:
    start = scene.project(origin)
    for direction, letter, colour in zip(np.eye(3), "xyz", ("#c0392b", "#27803b", "#2257a8"), strict=True):
        end = scene.project(origin + length * direction)
        axes.annotate("", end, start, arrowprops={"arrowstyle": "-|>", "color": colour, "lw": 1.2}, zorder=3)
        at = start + 1.25 * (end - start)
        axes.annotate(letter, at, color=colour, fontsize=9, ha="center", va="center")


def _write_text(figure: Any, mech: Mechanism, title: str, spacing: float) -> None:
    """Writes the title, the sizes and the legend of the joints."""
    width, height = figure.get_size_inches()
    bodies, joints, loops = len(mech.bodies), len(mech.joints), len(mech.topology.loops)
    counts = ((bodies, "body", "bodies"), (joints, "joint", "joints"), (loops, "loop", "loops"))
    sizes = [f"{n} {one if n == 1 else many}" for n, one, many in counts if n]
    left = 0.14 / width
    bold = {"fontsize": 13, "fontweight": "bold", "color": INK, "va": "center", "parse_math": False}
    figure.text(left, 1 - 0.25 / height, title, **bold)
    under = f"{', '.join(sizes)}; grid {spacing:g} m"
    figure.text(left, 1 - 0.48 / height, under, fontsize=9, color="#5a6270", va="center")
    kinds = Counter(joint.kind for joint in mech.joints if joint.kind in COLOURS)
    entries = [(COLOURS[kind], kind if n == 1 else f"{n} × {kind}") for kind, n in kinds.most_common()]
    if any(grounded(joint) for joint in mech.joints):
        entries.append((BASE, "to the world"))
    for colour, text in entries:
        figure.text(left, 0.2 / height, "●", color=colour, fontsize=11, va="center")
        figure.text(left + 0.17 / width, 0.2 / height, text, color=INK, fontsize=9, va="center")
        left += (0.36 + 0.075 * len(text)) / width


def _matplotlib() -> tuple[Any, Any, Any]:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.collections import PolyCollection
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError("pictures need matplotlib; install it with: pip install 'supple[all]'") from None
    return Figure, FigureCanvasAgg, PolyCollection
