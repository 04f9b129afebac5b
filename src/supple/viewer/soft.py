"""A mechanism with a skin in the browser: it is bent by sliders and poked by a ball that the mouse drags."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple import spatial
from supple.contact.pads import Touch
from supple.errors import MechanismError, RangeWarning
from supple.mechanism import Shape
from supple.mechanism.record import Array, array
from supple.zones import PosedSkin, SoftMechanism

if TYPE_CHECKING:
    import viser

RADIUS, FRICTION = 6e-3, 0.6
"""Of the ball: m, and sliding coefficient."""
COLOUR, BALL = (237, 181, 153), (66, 110, 160)
"""Red, green and blue of skin and ball, 0 to 255."""
MAP = (60, 150)
"""Rows and columns of the flat map."""
SCALE = 10.0
"""Size on the page over the true size: the page's camera is made for mechanisms of a metre."""
DEEPEST = 0.6
"""Largest depth of the ball's lowest point in the unpressed skin, over the radius of the ball."""


@dataclass(frozen=True, eq=False)
class SoftFrame:
    """What the page shows."""

    vertices: Array
    """(v, 3) m, of the skin."""
    touched: Array
    """(n, 3) m, pressed points of the deformed skin."""
    pressures: Array
    """(n,) Pa."""
    flat: NDArray[np.uint8]
    """Rows, columns, 3: pressure over the unrolled skin; the finger's length is horizontal."""
    text: str


class SoftSession:
    """A skin that is bent and poked, without a page."""

    def __init__(self, soft: SoftMechanism, functions: int = 24) -> None:
        self.soft = soft
        self.skin = soft.skin.with_seam_basis(functions) if len(soft.skin.seams) else soft.skin
        self.coordinates = soft.mechanism.coordinates
        self.q = soft.mechanism.reference.copy()
        self._straight = self.skin.at().solve().vertices
        low = self._straight[self.skin.touch]
        self.ball = np.array([low[:, 0].mean(), 0.0, low[:, 2].min() - 1.5 * RADIUS])
        """(3,) m, centre of the ball."""
        self._posed: PosedSkin | None = None
        self._touch: Touch | None = None
        self._nearest = self._unrolled()

    def bend(self, name: str, value: float) -> None:
        """Moves a coordinate to a value, rad or m, within its range."""
        lower, upper = self.skin.limits
        i = self.coordinates.index(name)
        self.q[i] = float(np.clip(array(value, (), f"coordinate '{name}'"), lower[i], upper[i]))
        self._posed = None

    def poke(self, position: ArrayLike) -> None:
        """Moves the ball to (3,), m."""
        self.ball = array(position, (3,), "position of the ball").copy()

    def frame(self) -> SoftFrame:
        """The skin now."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RangeWarning)
            if self._posed is None:
                self._posed = self.skin.at(self.q)
            touch = self._pressed(self._posed)
            shape = self._posed.solve(None if touch is None else touch.vertex_forces(self.skin.vertex_count))
        self._touch = touch
        pressure = np.zeros(self.skin.vertex_count)
        if touch is None:
            text = "The ball does not touch."
        else:
            pressure[touch.pad.vertices[:, 0]] = touch.pressures
            text = (
                f"Force {np.linalg.norm(touch.force):.2f} N, largest pressure {1e-3 * touch.pressures.max():.1f} kPa, "
                f"{int((touch.normal_forces > 0).sum())} points; least volume ratio {shape.volume_ratio:.2f}"
            )
        pressed = np.flatnonzero(pressure > 0)
        flat = colours(pressure[self._nearest], float(pressure.max(initial=0.0)))
        return SoftFrame(shape.vertices, shape.vertices[pressed], pressure[pressed], flat, text)

    def _pressed(self, posed: PosedSkin) -> Touch | None:
        """The touch of the ball; it is drawn back where it is too deep for linear elasticity."""
        x = posed.contact_places[0]
        distance = np.linalg.norm(x - self.ball, axis=1)
        nearest = int(distance.argmin())
        normal = posed.contact_places[1][nearest]
        normal = normal / np.linalg.norm(normal)
        depth = RADIUS - float((self.ball - x[nearest]) @ normal)
        at = self.ball + max(0.0, depth - DEEPEST * RADIUS) * normal
        ball = Shape("sphere", np.array([RADIUS]), np.eye(4), friction=np.array([FRICTION, 0, 0]))
        touch = posed.press(ball, spatial.translation(at), start=self._touch, friction=FRICTION)
        return touch if touch.forces.any() else None

    def _unrolled(self) -> NDArray[np.int64]:
        """(rows, columns) touch vertex of each pixel of the flat map, by x and the angle about x at the reference."""
        from scipy.spatial import cKDTree

        x = self._straight[self.skin.touch]
        angle = np.arctan2(x[:, 1], -x[:, 2])
        places = np.stack([angle / np.ptp(angle), x[:, 0] / np.ptp(x[:, 0])], axis=1)
        rows, columns = (np.linspace(own.min(), own.max(), n) for own, n in zip(places.T, MAP, strict=True))
        grid = np.stack(np.meshgrid(rows, columns, indexing="ij"), axis=-1).reshape(-1, 2)
        return np.asarray(self.skin.touch[cKDTree(places).query(grid)[1]].reshape(MAP))


def colours(values: Array, most: float) -> NDArray[np.uint8]:
    """(..., 3) from dark blue over green to yellow for values from 0 to `most`."""
    stops = np.array([[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]], dtype=float)
    share = np.clip(values / most if most > 0 else np.zeros_like(values), 0, 1) * (len(stops) - 1)
    return np.stack([np.interp(share, np.arange(len(stops)), own) for own in stops.T], axis=-1).astype(np.uint8)


class SoftPage:
    """The page of a `SoftSession`."""

    def __init__(self, server: viser.ViserServer, session: SoftSession) -> None:
        self.server, self.session = server, session
        self._changed, self._ended, self._lock = Event(), Event(), Lock()
        self._thread = Thread(target=self._run, daemon=True)
        frame = session.frame()
        scene, gui = server.scene, server.gui
        faces = session.skin.triangles.astype(np.uint32)
        vertices = _in_page_units(frame.vertices)
        self._mesh: Any = scene.add_mesh_simple("/skin", vertices, faces, color=COLOUR, side="double", opacity=0.85)
        self._points: Any = scene.add_point_cloud(
            "/pressure", np.zeros((0, 3), np.float32), np.zeros((0, 3), np.uint8), point_size=SCALE * 6e-4,
            point_shape="circle", precision="float32",
        )  # fmt: skip
        self._handle: Any = scene.add_transform_controls(
            "/ball", SCALE * 2.5 * RADIUS, disable_rotations=True, position=SCALE * session.ball
        )
        scene.add_icosphere("/ball/shape", SCALE * RADIUS, BALL, opacity=0.5)
        self._handle.on_update(
            lambda event: self._change_locked(lambda: session.poke(np.array(self._handle.position) / SCALE))
        )
        lower, upper = session.skin.limits
        for i, name in enumerate(session.coordinates):
            if np.isfinite([lower[i], upper[i]]).all():
                value = float(np.clip(session.q[i], lower[i], upper[i]))
                slider = gui.add_slider(name, float(lower[i]), float(upper[i]), 0.01, value)
                slider.on_update(partial(self._bend, name))
        self._text = gui.add_markdown(frame.text)
        self._map: Any = gui.add_image(frame.flat, label="pressure", format="png")
        server.initial_camera.position = tuple(vertices.mean(axis=0) + [0, -1.2, -0.7])
        server.initial_camera.look_at = tuple(vertices.mean(axis=0))

    def start(self) -> None:
        """Starts to follow the sliders and the ball."""
        self._thread.start()

    def stop(self) -> None:
        """Ends that."""
        self._ended.set()
        self._changed.set()
        self._thread.join()

    def _bend(self, name: str, event: Any) -> None:
        self._change_locked(lambda: self.session.bend(name, event.target.value))

    def _change_locked(self, change: Callable[[], None]) -> None:
        with self._lock:
            change()
        self._changed.set()

    def _run(self) -> None:
        while True:
            self._changed.wait()
            self._changed.clear()
            if self._ended.is_set():
                return
            self.draw()

    def draw(self) -> None:
        """Sends the skin's vertices, coloured points and the flat map."""
        try:
            with self._lock:
                frame = self.session.frame()
        except MechanismError as error:
            self._text.content = str(error)
            return
        self._mesh.vertices = _in_page_units(frame.vertices)
        self._points.points = _in_page_units(frame.touched)
        self._points.colors = colours(frame.pressures, float(frame.pressures.max(initial=0.0)))
        self._map.image = frame.flat
        self._text.content = frame.text


def _in_page_units(points: Array) -> NDArray[np.float32]:
    return np.asarray(SCALE * points, dtype=np.float32)
