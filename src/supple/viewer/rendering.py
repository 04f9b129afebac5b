"""Pictures of a recording's frames: triangles with a depth buffer, in perspective, without window or graphics card."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supple import _core
from supple.mechanism import Poses
from supple.mechanism.record import Array, array
from supple.recording import Recording
from supple.viewer import facets
from supple.viewer.scenery import coloured
from supple.viewer.skins import COLOUR, mechanism_skins
from supple.viewer.visuals import Surface, mechanism_surfaces

VIEW = (18.0, -60.0)
"""Elevation and azimuth of the camera, degrees, if not given."""
FIELD_OF_VIEW = np.radians(30.0)
"""Angle between the upper and lower edge of the picture."""
SAMPLES = 2
"""Samples of a pixel along each side."""
BACKGROUND = np.array([251.0, 252, 253])
FLOOR, SHADOW, LINE, FORCE = (238.0, 240, 242), (212.0, 214, 218), (196.0, 201, 207), (34.0, 87, 168)
GHOST = (168, 226, 178)
BEHIND = 100.0
"""A ghost is drawn as if so many times as far away; the floor as far again, so that it does not hide the ghost."""
MARGIN = 1.06
"""Distance of the camera, over that at which it just sees everything."""
CELLS = 12
"""Cells of the floor from its centre to its edge, at least."""
LEAST_DISTANCE = 0.02
"""Distance from the camera, over that of the point it looks at, below which triangles are left out."""
FRAMES_FOR_CAMERA = 200
"""Frames, at most, whose poses decide where the camera stands."""
ARROW = 0.25
"""Length of the longest arrow of a contact force, over the radius of the scene."""


@dataclass(frozen=True)
class Camera:
    """A perspective camera."""

    target: Array
    """(3,) the point that it looks at, m."""
    axes: Array
    """(3, 3) rows: right, up and towards the camera."""
    distance: float
    """m, of the camera from `target`."""

    def project(self, points: Array, width: int, height: int) -> Array:
        """(..., 3) of points (..., 3): x and y in pixels, and the inverse of the distance, 1/m; NaN if too near."""
        local = (points - self.target) @ self.axes.T
        depth = self.distance - local[..., 2]
        scale = 0.5 * height / np.tan(0.5 * FIELD_OF_VIEW)
        with np.errstate(divide="ignore", invalid="ignore"):
            near = np.where(depth > LEAST_DISTANCE * self.distance, 1 / depth, np.nan)
        x, y = 0.5 * width + scale * local[..., 0] * near, 0.5 * height - scale * local[..., 1] * near
        return np.stack([x, y, near], axis=-1)


class Renderer:
    """Draws frames of a recording as pictures of `size` (width, height) pixels.

    The camera looks at the middle of the whole motion from `view`, elevation and azimuth in degrees, far enough to see
    all of it; with `follow`, a body or site, it moves along with that. A `ghost` is a second recording of the same
    mechanism, drawn pale behind the first. `seen` (n, 3) are points that the camera sees, m, by default those of the
    whole motion (`moving_points`).
    """

    def __init__(
        self,
        recording: Recording,
        size: tuple[int, int] = (1920, 1080),
        view: tuple[float, float] = VIEW,
        follow: str | None = None,
        *,
        ghost: Recording | None = None,
        seen: Array | None = None,
    ) -> None:
        self.recording, (self.width, self.height) = recording, size
        mech = coloured(recording.mechanism)
        self._follow, self._ghost = follow, ghost
        self._floor_behind = 1.0 if ghost is None else BEHIND**2
        if follow is not None:
            mech.frame(follow)
        self._canvas = _core.Canvas(self.width, self.height, SAMPLES)
        self._background = np.tile(BACKGROUND, (self.height, 1))
        self._rigid = [_Rigid(surface) for surface in mechanism_surfaces(mech)]
        self._skins = mechanism_skins(mech)
        points = moving_points(recording) if seen is None else seen
        low, high = points.min(axis=0), points.max(axis=0)
        self.radius = 0.5 * float(np.linalg.norm(high - low)) or 1.0
        self._floor_z = 0.0 if -0.02 * self.radius < low[2] < 0.6 * self.radius else float(low[2])
        self._axes = camera_axes(view)
        if follow is not None:
            half = 1.2 * (mech.radius or self.radius)
            points = _box_corners(np.zeros((1, 3)), np.full((1, 3), half))
        self._camera = self._looking_at(points)
        self._largest_force = _largest_force(recording)
        self._light = np.array([-0.38, 0.74, 0.55]) @ self._axes
        if self._light[2] < 0.3:  # the light comes from above
            self._light = np.array([0.3, -0.4, 0.87])

    def _looking_at(self, points: Array) -> Camera:
        """A camera that sees all points (n, 3), with equal margins."""
        local = points @ self._axes.T
        middle = (local.min(axis=0) + local.max(axis=0)) / 2
        local = local - middle
        tangent = np.tan(0.5 * FIELD_OF_VIEW)
        across = np.abs(local[:, 0]) / (tangent * self.width / self.height)
        up = np.abs(local[:, 1]) / tangent
        distance = MARGIN * float((local[:, 2] + np.maximum(across, up)).max())
        return Camera(middle @ self._axes, self._axes, distance or 1.0)

    def picture(self, time: float) -> NDArray[np.uint8]:
        """(height, width, 3) the frame nearest to a time, s."""
        recording = self.recording
        poses = recording.at(time)
        camera = self._camera
        if self._follow is not None:
            camera = Camera(poses[self._follow][:3, 3], camera.axes, camera.distance)
        self._canvas.clear(self._background)
        solid, colours = self._contents(poses, time)
        self._draw_floor(camera, solid)
        if self._ghost is not None:
            self._draw(camera, *self._bodies(self._ghost.at(time), GHOST), BEHIND)
        self._draw(camera, solid, colours)
        picture: NDArray[np.uint8] = self._canvas.picture()
        return picture

    def _bodies(self, poses: Poses, colour: tuple[int, ...] | None = None) -> tuple[Array, Array]:
        """Triangles (n, 3, 3) of all bodies in the world and the colours (n, 3, 3) of their corners; all in one colour
        if one is given."""
        parts = [(np.zeros((0, 3, 3)), np.zeros((0, 3, 3)))]
        parts += [rigid.shaded(poses.array, self._light, colour) for rigid in self._rigid]
        for skin in self._skins:
            pose = poses[skin.body]
            vertices = skin.vertices(poses) @ pose[:3, :3].T + pose[:3, 3]
            parts.append(self._smooth_triangles(vertices, skin.faces, skin.colour if colour is None else colour))
        return _joined(parts)

    def _contents(self, poses: Poses, time: float) -> tuple[Array, Array]:
        """As `_bodies`, with soft surfaces and contact forces."""
        parts = [self._bodies(poses)]
        for surface in self.recording.surfaces:
            parts.append(self._smooth_triangles(self.recording.vertices(surface.name, time), surface.triangles, COLOUR))
        if self._largest_force > 0:
            scale, thick = ARROW * self.radius / self._largest_force, 0.006 * self.radius
            for contact in self.recording.contacts(time):
                length = scale * float(np.linalg.norm(contact.force))
                if length > thick:
                    parts.append(self._arrow(contact.point, contact.point + scale * contact.force, thick))
        return _joined(parts)

    def _smooth_triangles(
        self, vertices: Array, faces: NDArray[np.integer[Any]], colour: tuple[int, ...]
    ) -> tuple[Array, Array]:
        triangles: Array = vertices[faces]
        normals = _vertex_normals(vertices, faces)[faces]
        return triangles, _shade(normals, np.array(colour, dtype=float), self._light)

    def _arrow(self, start: Array, end: Array, thick: float) -> tuple[Array, Array]:
        quads = facets.rod(start, end, thick)
        triangles = np.concatenate([quads[:, [0, 1, 2]], quads[:, [0, 2, 3]]])
        return triangles, np.broadcast_to(np.array(FORCE), triangles.shape).copy()

    def _draw_floor(self, camera: Camera, solid: Array) -> None:
        """Draws the floor, the shadows on it, and lines a round length apart."""
        z, spacing = self._floor_z, facets.round_number(self.radius / 3)
        centre = np.round(camera.target[:2] / spacing) * spacing
        cells = max(CELLS, int(np.ceil(1.5 * self.radius / spacing)))
        half = cells * spacing
        lift = 2e-4 * self.radius
        if camera.axes[2, 2] <= 0:
            return  # seen from below
        ticks = np.arange(-cells, cells)
        x, y = (each.ravel() * spacing for each in np.meshgrid(ticks, ticks))
        square = np.array([[0, 0], [1, 0], [1, 1], [0, 1]]) * spacing
        tiles = np.stack([x, y], axis=-1)[:, None] + square + centre
        self._draw_level_quads(camera, tiles, z, FLOOR, fade=half)
        shadow = solid[..., :2] - (solid[..., 2:] - z) * (self._light[:2] / self._light[2])
        above = (solid[..., 2] > z - 1e-9).all(axis=1)
        raised = np.concatenate([shadow[above], np.full((*shadow[above].shape[:2], 1), z + lift)], axis=-1)
        self._draw(camera, raised, np.broadcast_to(np.array(SHADOW), raised.shape), self._floor_behind)
        width = 0.004 * self.radius
        steps = spacing * np.arange(-cells, cells + 1)
        pieces = spacing * np.arange(-cells, cells)
        along, across = (each.ravel() for each in np.meshgrid(pieces, steps))
        strip = np.array([[0, -width], [spacing, -width], [spacing, width], [0, width]]) / np.array([1, 2])
        lines = np.stack([along, across], axis=-1)[:, None] + strip
        self._draw_level_quads(
            camera, np.concatenate([lines, lines[..., ::-1]]) + centre, z + 2 * lift, LINE, fade=half
        )

    def _draw_level_quads(self, camera: Camera, quads: Array, z: float, colour: tuple[float, ...], fade: float) -> None:
        """Draws level quadrilaterals (n, 4, 2), fading to the background at a distance `fade` from the target."""
        corners = np.concatenate([quads, np.full((*quads.shape[:2], 1), z)], axis=-1)
        far = np.clip(np.linalg.norm(quads - camera.target[:2], axis=-1, keepdims=True) / fade, 0, 1) ** 2
        shown = far * BACKGROUND + (1 - far) * np.array(colour)
        order = [0, 1, 2, 0, 2, 3]
        self._draw(camera, corners[:, order].reshape(-1, 3, 3), shown[:, order].reshape(-1, 3, 3), self._floor_behind)

    def _draw(self, camera: Camera, triangles: Array, colours: Array, behind: float = 1.0) -> None:
        """Draws triangles as if `behind` times as far away, where they are seen."""
        corners = camera.project(triangles, self.width, self.height) / [1.0, 1.0, behind]
        self._canvas.draw(np.ascontiguousarray(corners), np.ascontiguousarray(colours))


class _Rigid:
    """A surface with its copies, with one normal for each corner of each triangle."""

    def __init__(self, surface: Surface) -> None:
        self._surface = surface
        self._triangles = surface.vertices[surface.faces]
        if surface.smooth:
            self._normals = _vertex_normals(surface.vertices, surface.faces)[surface.faces]
        else:
            self._normals = np.repeat(_face_normals(self._triangles)[:, None], 3, axis=1)

    def shaded(self, poses: Array, light: Array, colour: tuple[int, ...] | None) -> tuple[Array, Array]:
        """Triangles and colours of all copies, with the bodies at poses (bodies, 4, 4); all in one colour if one is
        given."""
        at = self._surface.world_poses(poses)
        turns = at[:, None, None, :3, :3]
        corners = (turns @ self._triangles[..., None])[..., 0] + at[:, None, None, :3, 3]
        normals = (turns @ self._normals[..., None])[..., 0]
        own = self._surface.colours[:, None, None].astype(float) if colour is None else np.array(colour, dtype=float)
        colours = _shade(normals, own, light)
        return corners.reshape(-1, 3, 3), colours.reshape(-1, 3, 3)


def _joined(parts: list[tuple[Array, Array]]) -> tuple[Array, Array]:
    corners, colours = zip(*parts, strict=True)
    return np.concatenate(corners), np.concatenate(colours)


def _shade(normals: Array, colours: Array, light: Array) -> Array:
    """Colours lit from the front by `light` (3,) and a little from everywhere."""
    lit = np.clip(normals @ light, -1, 1)[..., None]
    shade = 0.62 + 0.43 * np.maximum(lit, 0) + 0.12 * np.minimum(lit, 0)
    shaded: Array = np.minimum(shade * colours, 255)
    return shaded


def _face_normals(triangles: Array) -> Array:
    normals = np.cross(triangles[:, 1] - triangles[:, 0], triangles[:, 2] - triangles[:, 0])
    unit: Array = normals / np.maximum(np.linalg.norm(normals, axis=-1, keepdims=True), 1e-300)
    return unit


def _vertex_normals(vertices: Array, faces: NDArray[np.integer[Any]]) -> Array:
    """(v, 3) mean normals of the triangles around each vertex, weighted by area."""
    triangles = vertices[faces]
    normals = np.cross(triangles[:, 1] - triangles[:, 0], triangles[:, 2] - triangles[:, 0])
    total = np.stack([np.bincount(faces.ravel(), np.repeat(n, 3), len(vertices)) for n in normals.T], axis=-1)
    unit: Array = total / np.maximum(np.linalg.norm(total, axis=-1, keepdims=True), 1e-300)
    return unit


def camera_axes(view: tuple[float, float]) -> Array:
    """(3, 3) rows: right, up and towards a camera at this elevation and azimuth, degrees."""
    elevation, azimuth = np.radians(array(view, (2,), "view (elevation, azimuth)"))
    right = np.array([-np.sin(azimuth), np.cos(azimuth), 0.0])
    eye = np.array([np.cos(elevation) * np.cos(azimuth), np.cos(elevation) * np.sin(azimuth), np.sin(elevation)])
    return np.stack([right, np.cross(eye, right), eye])


def moving_points(
    recording: Recording, begin: float = -np.inf, end: float = np.inf, *, with_ground: bool = False
) -> Array:
    """(n, 3) corners of boxes around everything that moves, from `begin` to `end`, s; also around the shapes of the
    world but floors, if `with_ground`."""
    mech, found = recording.mechanism, []
    least = -1 if with_ground else 0
    surfaces = [surface for surface in mechanism_surfaces(mech) if (surface.bodies >= least).any()]
    skins = mechanism_skins(mech)
    shown = np.flatnonzero((recording.times >= begin) & (recording.times <= end))
    chosen = np.unique(np.linspace(0, len(shown) - 1, FRAMES_FOR_CAMERA).astype(int))
    for time in recording.times[shown[chosen]]:
        poses = recording.at(float(time))
        for surface in surfaces:
            at = surface.world_poses(poses.array)[surface.bodies >= least]
            ends = np.array([surface.vertices.min(axis=0), surface.vertices.max(axis=0)])
            middle, half = ends.mean(axis=0), np.ptp(ends, axis=0) / 2
            found.append(_box_corners(at[:, :3, :3] @ middle + at[:, :3, 3], np.abs(at[:, :3, :3]) @ half))
        for skin in skins:
            pose = poses[skin.body]
            found.append(skin.vertices(poses) @ pose[:3, :3].T + pose[:3, 3])
        found.append(poses.array[:, :3, 3])
    return np.concatenate(found)


def _box_corners(centres: Array, halves: Array) -> Array:
    """(8 n, 3) corners of boxes with centres (n, 3) and half sizes (n, 3)."""
    signs = np.array(np.meshgrid(*[[-1.0, 1.0]] * 3)).reshape(3, 8).T
    corners: Array = (centres[:, None] + signs * halves[:, None]).reshape(-1, 3)
    return corners


def _largest_force(recording: Recording) -> float:
    """N, of the contacts in the frames that the camera looks at."""
    chosen = np.unique(np.linspace(0, len(recording) - 1, FRAMES_FOR_CAMERA).astype(int))
    forces = [np.linalg.norm(c.force) for time in recording.times[chosen] for c in recording.contacts(float(time))]
    return float(np.percentile(forces, 98)) if forces else 0.0
