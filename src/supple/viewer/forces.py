"""Contact forces as arrows, and soft pads with their pressure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from supple import spatial
from supple.contact.pads import Pad, Touch
from supple.mechanism import Mechanism
from supple.mechanism.moving import Contact
from supple.mechanism.record import Array
from supple.viewer.soft import COLOUR as SKIN
from supple.viewer.soft import colours

if TYPE_CHECKING:
    import viser

FORCE = (34, 87, 168)
MAX_ARROWS = 200
LENGTH = 0.3
"""Length of the arrow of the largest force, over the radius of the mechanism."""
FADING = 0.98
"""The force that has this length falls by this factor per frame, down to the largest of the present ones."""


class ContactArrows:
    """An arrow for each contact force: on the side that moves, or on the first one if both do. All have one scale,
    which follows the largest force."""

    def __init__(self, server: viser.ViserServer, name: str, mech: Mechanism) -> None:
        self._bodies, self._radius = {body.name for body in mech.bodies}, mech.radius or 1.0
        self.scale = 0.0
        """N of the arrow of full length; 0 without contact."""
        size = 0.008 * self._radius
        self._node: Any = server.scene.add_arrows(
            name,
            np.zeros((1, 2, 3), np.float32),
            colors=FORCE,
            shaft_radius=size,
            head_radius=2.5 * size,
            head_length=5 * size,
            visible=False,
        )

    def show(self, contacts: Sequence[Contact]) -> None:
        """Draws the largest of the contact forces."""
        points, forces = contact_forces(contacts, self._bodies)
        sizes = np.linalg.norm(forces, axis=1)
        largest = float(sizes.max(initial=0.0))
        self.scale = max(largest, FADING * self.scale)
        seen = np.argsort(-sizes, kind="stable")[:MAX_ARROWS]
        seen = seen[sizes[seen] > 0.02 * self.scale]
        if (len(seen) > 0) != self._node.visible:
            self._node.visible = len(seen) > 0
        if len(seen):
            tips = points[seen] + LENGTH * self._radius / self.scale * forces[seen]
            self._node.points = np.stack([points[seen], tips], axis=1).astype(np.float32)


def contact_forces(contacts: Sequence[Contact], moving: set[str]) -> tuple[Array, Array]:
    """Points (n, 3), m, and forces (n, 3), N, of the contacts, each on a side that moves. `moving` are the names of the
    bodies."""
    points, forces = np.zeros((len(contacts), 3)), np.zeros((len(contacts), 3))
    for i, contact in enumerate(contacts):
        points[i] = contact.point
        forces[i] = contact.force if contact.first in moving else -contact.force
    return points, forces


class PadSurface:
    """A soft pad: its deformed surface (if it has triangles), and its points, coloured by pressure."""

    def __init__(self, server: viser.ViserServer, name: str, pad: Pad) -> None:
        scene, size = server.scene, float(np.sqrt(np.median(pad.areas))) or 1e-3
        self._mesh: Any = None
        if len(pad.triangles):
            triangles = pad.triangles.astype(np.uint32)
            self._mesh = scene.add_mesh_simple(
                f"{name}/surface", pad.points.astype(np.float32), triangles, color=SKIN, side="double", opacity=0.9
            )
        self._points: Any = scene.add_point_cloud(
            f"{name}/points", pad.points.astype(np.float32), np.zeros((len(pad.points), 3), np.uint8),
            point_size=0.5 * size, point_shape="circle", precision="float32",
        )  # fmt: skip

    def show(self, touch: Touch) -> None:
        """Moves the points and colours them; without a surface those without pressure are drawn, too."""
        deformed = touch.pad.points + touch.displacements
        pressed = touch.pressures > 0 if self._mesh is not None else np.ones(len(deformed), dtype=bool)
        if self._points.visible != pressed.any():
            self._points.visible = bool(pressed.any())
        if pressed.any():
            self._points.points = deformed[pressed].astype(np.float32)
            most = float(touch.pressures.max(initial=0.0))
            self._points.colors = colours(touch.pressures[pressed], most)
        for node in (self._points, self._mesh):
            if node is not None:
                node.position, node.wxyz = touch.pose[:3, 3], spatial.quat_wxyz_from_matrix(touch.pose[:3, :3])
        if self._mesh is not None:
            self._mesh.vertices = deformed.astype(np.float32)


class Forces:
    """All contact forces and pads of what moves, below a node of the page."""

    def __init__(self, server: viser.ViserServer, root: str, mech: Mechanism) -> None:
        self._server, self._root = server, root
        self._arrows = ContactArrows(server, f"{root}/contacts", mech)
        self._pads: dict[str, PadSurface] = {}

    def show(self, contacts: Sequence[Contact], touches: Mapping[str, Touch]) -> None:
        """Draws contacts and pads."""
        self._arrows.show(contacts)
        for i, (name, touch) in enumerate(touches.items()):
            if name not in self._pads:
                self._pads[name] = PadSurface(self._server, f"{self._root}/pads/{i}", touch.pad)
            self._pads[name].show(touch)
