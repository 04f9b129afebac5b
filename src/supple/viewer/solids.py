"""What a mechanism looks like: rigid surfaces, each carried by a body, for pictures, the viewer and glTF files."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from supple import spatial
from supple.mechanism import WORLD, Body, Joint, Mechanism, Shape
from supple.mechanism.record import Array
from supple.viewer import surfaces

COLOURS = {
    "hinge": "#d1495b",
    "slide": "#2e86ab",
    "screw": "#8e5ea2",
    "cylindrical": "#5b8e7d",
    "universal": "#e08e2b",
    "ball": "#3a9e4f",
    "planar": "#a3623a",
    "bushing": "#7a6ff0",
    "axes": "#d9b310",
}
"""Of a joint, by its kind. Fixed and free joints are not drawn."""
BASE = "#3d434c"
ROUND = ("sphere", "capsule", "cylinder", "ellipsoid")

Colour = tuple[int, int, int]


@dataclass(frozen=True)
class Solid:
    """A surface that many bodies may carry alike."""

    vertices: Array
    """(v, 3) m."""
    faces: NDArray[np.uint32]
    """(f, 3), counter-clockwise seen from outside."""
    smooth: bool
    bodies: NDArray[np.intp]
    """(n,) index of the body that carries each copy, -1 for the world."""
    poses: Array
    """(n, 4, 4) from the surface to that body."""
    colours: NDArray[np.uint8]
    """(n, 3) of each copy."""
    joints: NDArray[np.intp]
    """(n,) index of the joint that each copy marks, -1 for a part of the body."""

    def placed(self, poses: Array) -> Array:
        """(n, 4, 4) in the world, with the bodies at poses (bodies, 4, 4)."""
        at: Array = np.concatenate([poses, np.eye(4)[None]])[self.bodies] @ self.poses
        return at


@dataclass(frozen=True)
class _Copy:
    vertices: Array
    faces: NDArray[np.uint32]
    smooth: bool
    body: int
    pose: Array
    colour: Colour
    joint: int = -1


def solids(mech: Mechanism) -> list[Solid]:
    """The surfaces of a mechanism: its bodies and ground, its joints, plates where it stands. Equal ones are one,
    with a copy for each body, so that a chain of 400 links is drawn in one go."""
    groups: dict[tuple[bytes, bytes, bool], list[_Copy]] = {}
    for copy in _copies(mech):
        key = (np.round(copy.vertices, 9).tobytes(), copy.faces.tobytes(), copy.smooth)
        groups.setdefault(key, []).append(copy)
    return [
        Solid(
            group[0].vertices,
            group[0].faces,
            group[0].smooth,
            np.array([c.body for c in group], dtype=np.intp),
            np.array([c.pose for c in group]),
            np.array([c.colour for c in group], dtype=np.uint8),
            np.array([c.joint for c in group], dtype=np.intp),
        )
        for group in groups.values()
    ]


def _copies(mech: Mechanism) -> Iterable[_Copy]:
    meshes = {mesh.name: mesh for mesh in mech.meshes}
    carried: list[tuple[int, Shape]] = [(-1, shape) for shape in mech.shapes if shape.kind != "plane"]
    for i, body in enumerate(mech.bodies):
        seen = seen_shapes(body)
        carried += [(i, shape) for shape in seen]
        if not seen:
            for polygons in skeleton(mech, body):
                yield _Copy(*_welded(polygons), True, i, np.eye(4), (143, 163, 181))
    for i, shape in carried:
        colour = tuple(round(255 * float(c)) for c in np.clip(shape.rgba[:3], 0, 1))
        if shape.kind == "mesh" and shape.mesh is not None:
            mesh = meshes[shape.mesh]
            yield _Copy(mesh.vertices, np.asarray(mesh.faces, dtype=np.uint32), False, i, shape.pose, colour)  # type: ignore[arg-type]
        elif len(polygons := surfaces.shape_polygons(shape, meshes)):
            local = surfaces.moved(polygons, spatial.inverse(shape.pose))
            yield _Copy(*_welded(local), shape.kind in ROUND, i, shape.pose, colour)  # type: ignore[arg-type]
    for field in mech.height_fields:
        ground = field.mesh("ground")
        yield _Copy(ground.vertices, np.asarray(ground.faces, dtype=np.uint32), False, -1, field.pose, rgb(BASE))
    size = marker_size(mech)
    for j, joint in enumerate(mech.joints):
        if joint.kind in COLOURS:
            solid, pose = marker(joint, size)
            carrier = mech.body_index(marker_body(joint))
            yield _Copy(*_welded(solid), True, carrier, pose, rgb(COLOURS[joint.kind]), j)
        if grounded(joint):
            yield _Copy(*_welded(plate(size)), False, -1, spatial.translation(ground_point(joint)), rgb(BASE))


def rgb(text: str) -> Colour:
    """A colour written #rrggbb."""
    return int(text[1:3], 16), int(text[3:5], 16), int(text[5:7], 16)


def _welded(polygons: Array) -> tuple[Array, NDArray[np.uint32]]:
    """Vertices (v, 3) and triangles (f, 3) of polygons (n, 4, 3), equal corners made one."""
    corners, index = np.unique(np.round(polygons.reshape(-1, 3), 12), axis=0, return_inverse=True)
    quads = index.reshape(-1, 4)
    faces = np.concatenate([quads[:, [0, 1, 2]], quads[:, [0, 2, 3]]])
    real = (faces[:, 0] != faces[:, 1]) & (faces[:, 1] != faces[:, 2]) & (faces[:, 2] != faces[:, 0])
    return corners, faces[real].astype(np.uint32)


# the parts


def seen_shapes(body: Body) -> list[Shape]:
    """Where a body has shapes only to be seen, they are the better likeness."""
    return [s for s in body.shapes if not s.touches] or list(body.shapes)


def skeleton(mech: Mechanism, body: Body) -> list[Array]:
    """Rods from the middle of a body without shapes to its joints, in its frame."""
    thick = 0.008 * mech.radius
    ends = [(j.pose_parent if j.parent == body.name else j.pose_child)[:3, 3] for j in mech.joints_of(body.name)]
    return [surfaces.ball() * thick + body.centre, *(surfaces.rod(body.centre, end, thick) for end in ends)]


def marker(joint: Joint, size: float) -> tuple[Array, Array]:
    """Pin, bar or ball of a joint, and its pose (4, 4) on the body that carries it."""
    frame = joint.pose_parent if marker_body(joint) == joint.parent else joint.pose_child
    if joint.kind not in ("hinge", "screw", "cylindrical", "slide"):
        return 1.5 * size * surfaces.ball(), frame
    turns = joint.twists[joint.twists[:, 3:].any(axis=1)]
    axis = turns[0, 3:] if len(turns) else joint.twists[0, :3]
    solid = surfaces.tube(size, 2.2 * size) if len(turns) else surfaces.box([size, size, 2.2 * size])
    turned: Array = frame @ spatial.pose(spatial.rotation_between([0.0, 0.0, 1.0], axis), np.zeros(3))
    return solid, turned


def marker_body(joint: Joint) -> str:
    """The body that carries a joint's marker."""
    return joint.parent if joint.parent != WORLD else joint.child


def marker_size(mech: Mechanism) -> float:
    """Radius of a pin, m: a little more than slender links', and visible in the whole picture."""
    radii = [] if bulky(mech) else [shape.size[0] for body in mech.bodies for shape in body.shapes]
    return max(0.009 * mech.radius, 1.3 * float(np.median(radii)) if radii else 0.0)


def bulky(mech: Mechanism) -> bool:
    """Whether joints hide inside bodies."""
    return any(s.kind != "capsule" for b in mech.bodies for s in b.shapes)


def grounded(joint: Joint) -> bool:
    return joint.kind != "free" and WORLD in (joint.parent, joint.child)


def ground_point(joint: Joint) -> Array:
    """(3,) where a joint holds on to the world."""
    point: Array = (joint.pose_parent if joint.parent == WORLD else joint.pose_child)[:3, 3]
    return point


def plate(size: float) -> Array:
    """A plate under a joint that is fixed to the world."""
    return surfaces.box([2.6 * size, 2.6 * size, 0.3 * size]) - [0, 0, 1.3 * size]
