"""Moving pictures of a retargeted motion for documents: target, input and optimised side by side, as a GIF."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from supple.errors import MechanismError
from supple.mechanism import Mechanism, Poses
from supple.mechanism.poses import amplitudes_in
from supple.mechanism.record import Array
from supple.retargeting import Retargeted
from supple.viewer import facets
from supple.viewer.picture import PALE, Scene, add_bodies
from supple.viewer.skins import interface_bodies, mechanism_skins
from supple.viewer.visuals import seen_shapes

METAL, PLASTIC = (0.62, 0.66, 0.70), (0.93, 0.62, 0.20)
"""Colours of flexible bodies."""
LIGHT = 2000.0
"""Density below which a flexible body is of plastic, kg/m^3."""
GHOST = "#9fd3a8"
"""Colour of the target behind the other two."""
TITLES = {"target": "target", "input": "unmodified", "optimised": "optimised"}
SHARPNESS = 3
"""Pixels that are drawn for each of the picture, in both directions."""
MARGIN, HEADLINE = 8, 20
"""Pixels around a panel and above it."""


def write_moving_picture(
    result: Retargeted,
    path: str | PathLike[str],
    *,
    begin: float = 0.0,
    end: float = np.inf,
    rate: float = 12.5,
    height: int = 280,
    view: tuple[float, float] = (10.0, -65.0),
) -> None:
    """Writes a GIF of the three motions of a result, side by side. The second and the third have the target pale behind
    them. Shapes have their own colours.

    Args:
        result: of `supple.retarget`.
        path: of the file; its name ends in .gif.
        begin, end: the part of the motion that is shown, s.
        rate: pictures a second; the motion is shown at its own speed.
        height: of the picture, pixels.
        view: elevation and azimuth of the camera in degrees; z is up.
    """
    if Path(path).suffix.lower() != ".gif":
        raise MechanismError(f"'{path}': the name of a moving picture ends in .gif")
    times = np.arange(begin, min(end, result.times[-1]) + 1e-9, 1 / rate)
    if len(times) < 2:
        raise MechanismError(f"the motion has no two pictures between {begin:g} and {end:g} s")
    rows = np.searchsorted(result.times, times).clip(max=len(result.times) - 1)
    frames = [[_painted(result, name, row, view) for name in TITLES] for row in rows]
    corners = np.concatenate([scene[0].reshape(-1, 2) for panels in frames for scene in panels])
    low, high = corners.min(axis=0), corners.max(axis=0)
    scale = (height - HEADLINE - 2 * MARGIN) / (high - low)[1]
    width = int(np.ceil(scale * (high - low)[0])) + 2 * MARGIN
    shown = zip(frames, times, strict=True)
    pictures = [_draw_panels(panels, low, scale, width, height, time) for panels, time in shown]
    first, *others = _with_one_palette(pictures)
    first.save(path, save_all=True, append_images=others, duration=round(1000 / rate), loop=0, optimize=True)


def _painted(result: Retargeted, name: str, row: int, view: tuple[float, float]) -> tuple[Array, Array]:
    """Corners (n, 4, 2), m, and colours (n, 3) of a robot, from back to front."""
    mech, scene = result.mechanism, Scene(view)
    if name != "target":
        add_bodies(scene, mech, _poses(result, "target", row), GHOST, nearer=-0.3 * (mech.radius or 1.0))
    add_coloured(scene, mech, _poses(result, name, row))
    corners, colours, _ = scene.painted()
    return corners, colours


def _poses(result: Retargeted, name: str, row: int) -> Poses:
    return Poses(result.mechanism, result.poses[name][row], amplitudes_in(result.mechanism, result.axes[name][row]))


def add_coloured(scene: Scene, mech: Mechanism, poses: Poses) -> None:
    """Adds the shapes of bodies and of the world in their own colours, flexible bodies in that of their material."""
    meshes, with_skin = {mesh.name: mesh for mesh in mech.meshes}, interface_bodies(mech)
    for body, pose in zip(mech.bodies, poses, strict=True):
        for shape in () if body.name in with_skin else seen_shapes(body):
            polygons = facets.moved(facets.shape_polygons(shape, meshes), pose)
            scene.add(polygons, tuple(shape.rgba[:3]))  # type: ignore[arg-type]
    for skin, flexible in zip(mechanism_skins(mech), mech.flexible, strict=True):
        polygons = facets.moved(facets.triangles(skin.vertices(poses), skin.faces), poses[skin.body])
        normals = np.cross(polygons[:, 1] - polygons[:, 0], polygons[:, 2] - polygons[:, 0])
        colour = PLASTIC if flexible.part.material.density < LIGHT else METAL
        scene.add(polygons[normals @ scene.axes[2] > 0], colour)  # type: ignore[arg-type]
    for shape in mech.shapes:
        pale = 0.5 * np.asarray(shape.rgba[:3]) + 0.5
        scene.add(facets.shape_polygons(shape, meshes), tuple(pale) if pale.any() else PALE)  # type: ignore[arg-type]


def _draw_panels(
    panels: list[tuple[Array, Array]], low: Array, scale: float, width: int, height: int, time: float
) -> Any:
    """A picture of the panels with their titles and the time."""
    from PIL import Image, ImageDraw

    k = SHARPNESS
    image = Image.new("RGB", (len(panels) * width * k, height * k), "white")
    draw = ImageDraw.Draw(image)
    for i, (corners, colours) in enumerate(panels):
        flat = (corners - low) * scale * k
        flat[..., 0] += (i * width + MARGIN) * k
        flat[..., 1] = (height - MARGIN) * k - flat[..., 1]
        for polygon, colour in zip(flat, (255 * colours).astype(int), strict=True):
            fill = tuple(colour.tolist())
            draw.polygon([tuple(point) for point in polygon.tolist()], fill=fill, outline=fill)
    image = image.resize((len(panels) * width, height), Image.Resampling.BOX)
    draw = ImageDraw.Draw(image)
    for i, title in enumerate(TITLES.values()):
        text = f"{title}, {time:.1f} s" if i == 0 else title
        draw.text((i * width + MARGIN, 4), text, fill=(43, 47, 54))
    return image


def _with_one_palette(pictures: list[Any]) -> list[Any]:
    """The pictures with the same 64 colours, so that what stands still needs no space in the file."""
    from PIL import Image

    sample = Image.new("RGB", (pictures[0].width, 4 * pictures[0].height))
    for k in range(4):
        sample.paste(pictures[k * (len(pictures) - 1) // 3], (0, k * pictures[0].height))
    palette = sample.quantize(64, dither=Image.Dither.NONE)
    return [picture.quantize(palette=palette, dither=Image.Dither.NONE) for picture in pictures]
