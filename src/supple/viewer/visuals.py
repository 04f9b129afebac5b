"""The surfaces that pictures, the viewer and glTF files draw: triangles fixed to bodies. `skins` has the
surfaces of flexible bodies."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from supple import spatial
from supple.mechanism import WORLD, Body, Joint, Mechanism, Shape
from supple.mechanism.record import Array
from supple.viewer import facets
from supple.viewer.skins import interface_bodies

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
"""Colour of a joint by its kind. Fixed and free joints are not drawn."""
BASE = "#3d434c"
ROUND = ("sphere", "capsule", "cylinder", "ellipsoid")

Colour = tuple[int, int, int]


@dataclass(frozen=True)
class Surface:
    """Triangles that are drawn, with a copy on each of n bodies."""

    vertices: Array
    """(v, 3) m."""
    faces: NDArray[np.uint32]
    """(f, 3), counter-clockwise seen from outside."""
    smooth: bool
    bodies: NDArray[np.intp]
    """(n,) index of the body that each copy is fixed to, -1 for the world."""
    poses: Array
    """(n, 4, 4) pose of each copy in its body's frame."""
    colours: NDArray[np.uint8]
    """(n, 3) colour of each copy."""
    joints: NDArray[np.intp]
    """(n,) index of the joint that each copy marks; -1 if it is a part of its body."""

    def world_poses(self, poses: Array) -> Array:
        """(n, 4, 4) world poses of the copies, with the bodies at poses (bodies, 4, 4)."""
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


def mechanism_surfaces(mech: Mechanism) -> list[Surface]:
    """The surfaces of a mechanism: rigid bodies, ground, joint markers, base plates. Equal surfaces are merged into one
    with a copy for each body, so that a chain of 400 links is a single surface."""
    groups: dict[tuple[bytes, bytes, bool], list[_Copy]] = {}
    for copy in _copies(mech):
        key = (np.round(copy.vertices, 9).tobytes(), copy.faces.tobytes(), copy.smooth)
        groups.setdefault(key, []).append(copy)
    return [
        Surface(
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
    with_skin = interface_bodies(mech)
    for i, body in enumerate(mech.bodies):
        seen = seen_shapes(body)
        carried += [(i, shape) for shape in seen]
        if not seen and body.name not in with_skin:
            for polygons in skeleton(mech, body):
                yield _Copy(*_welded(polygons), True, i, np.eye(4), (143, 163, 181))
    for i, shape in carried:
        colour = tuple(round(255 * float(c)) for c in np.clip(shape.rgba[:3], 0, 1))
        if shape.kind == "mesh" and shape.mesh is not None:
            mesh = meshes[shape.mesh]
            yield _Copy(mesh.vertices, np.asarray(mesh.faces, dtype=np.uint32), False, i, shape.pose, colour)  # type: ignore[arg-type]
        elif len(polygons := facets.shape_polygons(shape, meshes)):
            local = facets.moved(polygons, spatial.inverse(shape.pose))
            yield _Copy(*_welded(local), shape.kind in ROUND, i, shape.pose, colour)  # type: ignore[arg-type]
    for field in mech.height_fields:
        ground = field.mesh("ground")
        yield _Copy(ground.vertices, np.asarray(ground.faces, dtype=np.uint32), False, -1, field.pose, rgb(BASE))
    size = marker_size(mech)
    for j, joint in enumerate(mech.joints):
        if joint.kind in COLOURS:
            polygons, pose = marker(joint, size)
            carrier = mech.body_index(marker_body(joint))
            yield _Copy(*_welded(polygons), True, carrier, pose, rgb(COLOURS[joint.kind]), j)
        if grounded(joint):
            yield _Copy(*_welded(plate(size)), False, -1, spatial.translation(ground_point(joint)), rgb(BASE))


def rgb(text: str) -> Colour:
    """Red, green and blue, 0 to 255, of a colour written #rrggbb."""
    return int(text[1:3], 16), int(text[3:5], 16), int(text[5:7], 16)


def _welded(polygons: Array) -> tuple[Array, NDArray[np.uint32]]:
    """Vertices (v, 3) and triangles (f, 3) of polygons (n, 4, 3), with equal corners merged."""
    corners, index = np.unique(np.round(polygons.reshape(-1, 3), 12), axis=0, return_inverse=True)
    quads = index.reshape(-1, 4)
    faces = np.concatenate([quads[:, [0, 1, 2]], quads[:, [0, 2, 3]]])
    real = (faces[:, 0] != faces[:, 1]) & (faces[:, 1] != faces[:, 2]) & (faces[:, 2] != faces[:, 0])
    return corners, faces[real].astype(np.uint32)


# parts


def seen_shapes(body: Body) -> list[Shape]:
    """The visual shapes of a body (those without contact) if there are any, else all its shapes."""
    return [s for s in body.shapes if not s.touches] or list(body.shapes)


def skeleton(mech: Mechanism, body: Body) -> list[Array]:
    """For a body without shapes: rods from its centre of mass to its joints, in its frame."""
    thick = 0.008 * mech.radius
    ends = [(j.pose_parent if j.parent == body.name else j.pose_child)[:3, 3] for j in mech.joints_of(body.name)]
    return [facets.ball() * thick + body.centre, *(facets.rod(body.centre, end, thick) for end in ends)]


def marker(joint: Joint, size: float) -> tuple[Array, Array]:
    """Polygons that mark a joint (pin, bar or ball), and their pose (4, 4) on the body that `marker_body` names."""
    frame = joint.pose_parent if marker_body(joint) == joint.parent else joint.pose_child
    if joint.kind not in ("hinge", "screw", "cylindrical", "slide"):
        return 1.5 * size * facets.ball(), frame
    turns = joint.twists[joint.twists[:, 3:].any(axis=1)]
    axis = turns[0, 3:] if len(turns) else joint.twists[0, :3]
    polygons = facets.tube(size, 2.2 * size) if len(turns) else facets.box([size, size, 2.2 * size])
    turned: Array = frame @ spatial.pose(spatial.rotation_between([0.0, 0.0, 1.0], axis), np.zeros(3))
    return polygons, turned


def marker_body(joint: Joint) -> str:
    """The body that a joint's marker is fixed to."""
    return joint.parent if joint.parent != WORLD else joint.child


def marker_size(mech: Mechanism) -> float:
    """Radius of a pin, m: larger than that of slender links, and large enough to see in the whole picture."""
    radii = [] if bulky(mech) else [shape.size[0] for body in mech.bodies for shape in body.shapes]
    return max(0.009 * mech.radius, 1.3 * float(np.median(radii)) if radii else 0.0)


def bulky(mech: Mechanism) -> bool:
    """Whether bodies have shapes that hide joints."""
    return any(s.kind != "capsule" for b in mech.bodies for s in b.shapes)


def grounded(joint: Joint) -> bool:
    """Whether a joint connects a body to the world."""
    return joint.kind != "free" and WORLD in (joint.parent, joint.child)


def ground_point(joint: Joint) -> Array:
    """(3,) position of a joint on the world, m."""
    point: Array = (joint.pose_parent if joint.parent == WORLD else joint.pose_child)[:3, 3]
    return point


def plate(size: float) -> Array:
    """A base plate under a joint to the world."""
    return facets.box([2.6 * size, 2.6 * size, 0.3 * size]) - [0, 0, 1.3 * size]
