"""What moves on a viser page: surfaces, handles, contact forces, floor."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from supple import spatial
from supple.contact.pads import Touch
from supple.mechanism import Mechanism, Poses
from supple.mechanism.moving import Contact
from supple.mechanism.record import Array
from supple.reduced.matrices import Ellipsoid
from supple.viewer.ellipsoids import Ellipsoids
from supple.viewer.forces import Forces
from supple.viewer.measures import Pull
from supple.viewer.skins import Skin, mechanism_skins
from supple.viewer.visuals import Surface, mechanism_surfaces, seen_shapes

if TYPE_CHECKING:
    import viser

ROOT = "/scene"
"""Node above all others."""
GHOST = (46, 134, 171)
ARROW = (209, 73, 91)
FREE, PULLED = (224, 142, 43), (209, 73, 91)
CLOSED, OPEN, WIDE = (90, 105, 120), (245, 190, 40), (220, 30, 40)
"""Colours of joints with a separation of zero, half of `FULL_SCALE` and `FULL_SCALE`."""
MARKER = "+"
"""Drawn at every handle, in front of everything."""
BALL = 0.025
"""Smallest radius of a handle's ball, over that of the mechanism."""
FULL_SCALE = 0.01
"""Separation over the radius at which a joint is red."""


class Stage:
    """A mechanism drawn on a page. All copies of a surface are one node, so that a frame needs few messages. The skin
    of a flexible body is a node of its own; its vertices are sent again when the body's amplitudes have changed."""

    def __init__(self, server: viser.ViserServer, mech: Mechanism, poses: Poses) -> None:
        self.server, self.mechanism = server, mech
        self.offset = np.zeros(3)
        """(3,) m: how far the page is behind the world, to follow a body. A point p is drawn at p - offset."""
        self._root: Any = server.scene.add_frame(ROOT, show_axes=False)
        self._surfaces = mechanism_surfaces(mech)
        self._nodes = [self._add(f"{ROOT}/mechanism/{i}", surface, poses) for i, surface in enumerate(self._surfaces)]
        skins = mechanism_skins(mech)
        self._skins = [(skin, self._add_skin(f"{ROOT}/skins/{i}", skin, poses)) for i, skin in enumerate(skins)]
        self._forces = Forces(server, ROOT, mech)
        self._ellipsoids = Ellipsoids(server, f"{ROOT}/ellipsoids")
        self._ghosts: list[Any] = []
        self._ghost_skins: list[Any] = []
        self._colours: dict[str, NDArray[np.uint8] | None] = {"joints": None, "bodies": None}
        self._floor(poses)

    def _add(self, name: str, surface: Surface, poses: Poses, ghost: bool = False) -> Any:
        positions, quats = _copy_transforms(surface, poses)
        return self.server.scene.add_batched_meshes_simple(
            name,
            surface.vertices.astype(np.float32),
            surface.faces,
            batched_wxyzs=quats,
            batched_positions=positions,
            batched_colors=np.array(GHOST, dtype=np.uint8) if ghost else surface.colours,
            opacity=0.3 if ghost else None,
            flat_shading=not surface.smooth,
            lod="off",
            cast_shadow=not ghost,
        )

    def _add_skin(self, name: str, skin: Skin, poses: Poses, ghost: bool = False) -> Any:
        node = self.server.scene.add_mesh_simple(
            name,
            skin.vertices(poses).astype(np.float32),
            skin.faces,
            color=GHOST if ghost else skin.colour,
            opacity=0.3 if ghost else None,
            cast_shadow=not ghost,
        )
        _move_skin(skin, node, poses)
        return node

    def _floor(self, poses: Poses) -> None:
        """Adds a grid below the mechanism and points the camera at it."""
        mech, scene = self.mechanism, self.server.scene
        centre, radius = mech.bounding_sphere
        radius = radius or 1.0
        heights = [_lowest_point(surface, poses) for surface in self._surfaces]
        heights += [_lowest_vertex(skin, poses) for skin, _ in self._skins]
        lowest = min(heights, default=0.0)
        planes = [float(shape.pose[2, 3]) for shape in mech.shapes if shape.kind == "plane"]
        z = planes[0] if planes else 0.0 if 0 <= lowest < 0.6 * radius else lowest
        cell = 10.0 ** np.floor(np.log10(radius))
        scene.set_up_direction("+z")
        self._cell, self._grid = cell, scene.add_grid(
            f"{ROOT}/floor",
            width=20 * cell,
            height=20 * cell,
            cell_size=cell / 2,
            section_size=cell,
            position=(float(centre[0]), float(centre[1]), z - 1e-3 * radius),
            cell_color=(225, 228, 232),
            section_color=(195, 200, 206),
            shadow_opacity=0.2,
        )
        self._grid_start = np.array(self._grid.position)
        camera = self.server.initial_camera
        camera.look_at = centre
        camera.position = centre + radius * np.array([1.8, -2.6, 0.9])
        camera.near, camera.far = 0.01 * radius, 100 * radius
        camera.fov = 0.9

    def show(
        self,
        poses: Poses,
        ghost: Poses | None = None,
        joints: NDArray[np.uint8] | None = None,
        bodies: NDArray[np.uint8] | None = None,
    ) -> None:
        """Moves the bodies to their poses. `ghost` are the poses of a second, translucent shape.
        `joints` (joints, 3) and `bodies` (bodies, 3) are colours; by default those of their kind and shapes."""
        for surface, node in zip(self._surfaces, self._nodes, strict=True):
            node.batched_positions, node.batched_wxyzs = _copy_transforms(surface, poses)
        for skin, node in self._skins:
            _move_skin(skin, node, poses)
        self._colour({"joints": joints, "bodies": bodies})
        self._show_ghost(ghost)

    def show_forces(self, contacts: Sequence[Contact], touches: Mapping[str, Touch], time: float) -> None:
        """Draws contact forces and pads at a time, s."""
        self._forces.show(contacts, touches, time)

    def show_ellipsoids(self, ellipsoids: Mapping[str, Ellipsoid], force: float) -> None:
        """Draws compliance ellipsoids to scale for a force, N."""
        self._ellipsoids.show(ellipsoids, force)

    def follow(self, moved: Array) -> None:
        """Keeps the camera at a body that has moved by `moved` (3,), m: everything is drawn that much further back, so
        that every user can still turn the view."""
        if not np.array_equal(moved, self.offset):
            self.offset = np.array(moved, dtype=float)
            self._root.position = -self.offset
            steps = np.round(self.offset[:2] / self._cell) * self._cell  # the grid is endless
            self._grid.position = self._grid_start + [*steps, 0.0]

    def _colour(self, colours: dict[str, NDArray[np.uint8] | None]) -> None:
        changed = [what for what, new in colours.items() if not np.array_equal(new, self._colours[what])]  # type: ignore[arg-type]
        self._colours = colours
        for surface, node in zip(self._surfaces, self._nodes, strict=True):
            parts = {
                "joints": (surface.joints >= 0, surface.joints),
                "bodies": ((surface.joints < 0) & (surface.bodies >= 0), surface.bodies),
            }
            if not any(parts[what][0].any() for what in changed):
                continue
            shown = surface.colours.copy()
            for what, (mask, index) in parts.items():
                given = colours[what]
                if given is not None:
                    shown[mask] = given[index[mask]]
            node.batched_colors = shown

    def _show_ghost(self, poses: Poses | None) -> None:
        if poses is not None and not (self._ghosts or self._ghost_skins):
            bodies = [s for s in self._surfaces if (s.joints < 0).all() and (s.bodies >= 0).all()]
            self._ghosts = [
                (surface, self._add(f"{ROOT}/ghost/{i}", surface, poses, ghost=True))
                for i, surface in enumerate(bodies)
            ]
            self._ghost_skins = [
                (skin, self._add_skin(f"{ROOT}/ghost_skins/{i}", skin, poses, ghost=True))
                for i, (skin, _) in enumerate(self._skins)
            ]
        for _, node in (*self._ghosts, *self._ghost_skins):
            if node.visible != (poses is not None):
                node.visible = poses is not None
        if poses is not None:
            for surface, node in self._ghosts:
                node.batched_positions, node.batched_wxyzs = _copy_transforms(surface, poses)
            for skin, node in self._ghost_skins:
                _move_skin(skin, node, poses)


class Handle:
    """The ball that a user drags an end effector by, with the spring's force as an arrow and a number."""

    def __init__(self, stage: Stage, name: str, pull: Pull, drag: Callable[[str, Array | None], None]) -> None:
        scene, size = stage.server.scene, _ball_radius(stage.mechanism, name) / 2
        self.name, self._size = name, size
        self._ball = scene.add_icosphere(f"{ROOT}/handles/{name}", radius=2 * size, color=FREE, position=pull.point)
        self._arrow = scene.add_arrows(
            f"{ROOT}/forces/{name}",
            _arrow(pull),
            colors=ARROW,
            shaft_radius=0.4 * size,
            head_radius=size,
            head_length=2.5 * size,
            visible=False,
        )
        self._label = scene.add_label(
            f"{ROOT}/numbers/{name}", "", position=pull.point, visible=False, anchor="bottom-left"
        )
        self._marker = scene.add_label(  # seen through surfaces; what is below it can be dragged
            f"{ROOT}/markers/{name}", MARKER, position=pull.point, anchor="center-center", depth_test=False
        )

        @self._ball.on_drag
        async def _(event: Any) -> None:  # async: viser calls it in the order of the events
            drag(name, None if event.phase == "end" else np.array(event.end_position) + stage.offset)

    def show(self, pull: Pull) -> None:
        """Moves ball, arrow and number to the present state of the end effector."""
        pulled = pull.target is not None
        if self._arrow.visible != pulled:
            self._arrow.visible = self._label.visible = pulled
            self._ball.color = PULLED if pulled else FREE
        self._ball.position = self._marker.position = pull.point if pull.target is None else pull.target
        if pulled:
            self._arrow.points = _arrow(pull)
            self._label.position = self._ball.position + np.array([0, 0, 3 * self._size])
            self._label.text = f"{self.name}: {np.linalg.norm(pull.force):.3g} N"

    def remove(self) -> None:
        for node in (self._ball, self._arrow, self._label, self._marker):
            node.remove()


def _ball_radius(mech: Mechanism, name: str) -> float:
    """m: large enough to click on, and larger than a slender body that it is on. In a bulky one a marker shows it."""
    radius, meshes = mech.radius or 1.0, {mesh.name: mesh for mesh in mech.meshes}
    body = mech.bodies[mech.frame(name)[0]]
    thick = [np.ptp(meshes[s.mesh].box, axis=0).min() / 2 if s.mesh else s.size.min() for s in seen_shapes(body)]
    return float(np.clip(1.8 * max(thick, default=0.0), BALL * radius, 1.5 * BALL * radius))


def _arrow(pull: Pull) -> Any:
    """(1, 2, 3) start and end: the end effector and its target."""
    end = pull.point if pull.target is None else pull.target
    return np.array([[pull.point, end]], dtype=np.float32)


def _move_skin(skin: Skin, node: Any, poses: Poses) -> None:
    node.vertices = skin.vertices(poses).astype(np.float32)  # not sent if they are the same as before
    node.position = poses[skin.body][:3, 3]
    node.wxyz = spatial.quat_wxyz_from_matrix(poses[skin.body][:3, :3])


def _copy_transforms(surface: Surface, poses: Poses) -> tuple[Any, Any]:
    """World positions (n, 3) and quaternions (n, 4), w first, of the copies of a surface."""
    at = surface.world_poses(poses.array)
    return at[:, :3, 3].astype(np.float32), spatial.quat_wxyz_from_matrix(at[:, :3, :3]).astype(np.float32)


def _lowest_point(surface: Surface, poses: Poses) -> float:
    """z, m, of the lowest corner of the copies' bounding boxes."""
    at = surface.world_poses(poses.array)
    low, high = surface.vertices.min(axis=0), surface.vertices.max(axis=0)
    middle, half = (low + high) / 2, (high - low) / 2
    up = at[:, 2, :3] @ middle + at[:, 2, 3] - np.abs(at[:, 2, :3]) @ half
    return float(up.min())


def _lowest_vertex(skin: Skin, poses: Poses) -> float:
    """z, m, of the lowest vertex of a skin."""
    pose = poses[skin.body]
    return float((skin.vertices(poses) @ pose[2, :3]).min() + pose[2, 3])


def separation_colours(separations: Array) -> NDArray[np.uint8]:
    """(joints, 3) colours of separations (joints,) over the radius: grey at zero, amber, red from `FULL_SCALE` on."""
    fraction = np.clip(separations / FULL_SCALE, 0, 1)[:, None]
    low, middle, high = (np.array(c, dtype=float) for c in (CLOSED, OPEN, WIDE))
    colours = np.where(
        fraction < 0.5, low + 2 * fraction * (middle - low), middle + (2 * fraction - 1) * (high - middle)
    )
    rounded: NDArray[np.uint8] = np.round(colours).astype(np.uint8)
    return rounded


def moving_colours(moving: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """(n, 3) colours: one for True, one for False."""
    colours: NDArray[np.uint8] = np.where(moving[:, None], OPEN, CLOSED).astype(np.uint8)
    return colours
