"""Geometric shapes in a body's frame, for drawing and for contact, and the meshes they share."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike

from supple.errors import MechanismError
from supple.mechanism.record import Array, Record, array, checked_name, checked_pose

Kind: TypeAlias = Literal["plane", "sphere", "capsule", "box", "cylinder", "ellipsoid", "mesh"]
KINDS: tuple[str, ...] = get_args(Kind)
SIZES = {"plane": 3, "sphere": 1, "capsule": 2, "box": 3, "cylinder": 2, "ellipsoid": 3, "mesh": 0}
CONDIMS = (1, 3, 4, 6)


@dataclass(frozen=True, eq=False)
class Mesh(Record):
    """A triangle mesh that shapes refer to by name."""

    name: str
    vertices: Array
    """(n, 3), metres, in the shape's frame."""
    faces: np.ndarray[tuple[int, int], np.dtype[np.int32]]
    """(m, 3), indices into `vertices`, counter-clockwise seen from outside."""

    def __post_init__(self) -> None:
        checked_name(self.name, "a mesh")
        vertices = array(self.vertices, (-1, 3), f"vertices of mesh '{self.name}'")
        faces = np.array(self.faces)
        if faces.ndim != 2 or faces.shape[1] != 3 or not np.issubdtype(faces.dtype, np.integer):
            raise MechanismError(f"faces of mesh '{self.name}' must be an m x 3 array of integers")
        if faces.size and (faces.min() < 0 or faces.max() >= len(vertices)):
            raise MechanismError(f"mesh '{self.name}' has a face that names a vertex outside 0 ... {len(vertices) - 1}")
        faces = faces.astype(np.int32)
        faces.flags.writeable = False
        self._freeze(vertices=vertices, faces=faces)

    @cached_property
    def box(self) -> tuple[Array, Array]:
        """Lowest and highest corner (3,) of the vertices."""
        return self.vertices.min(axis=0), self.vertices.max(axis=0)


@dataclass(frozen=True, eq=False)
class Shape(Record):
    """A shape fixed to a body. Sizes are half-lengths, as in MuJoCo; round shapes have their axis along z."""

    kind: Kind
    size: Array
    """Metres. sphere (radius), capsule and cylinder (radius, half length), box and ellipsoid (half
    lengths along x, y, z), plane (half lengths, 0 for infinite, and a spacing for drawing), mesh: empty."""
    pose: Array
    """(4, 4), from the shape's frame to the body's (to the world's for shapes of the world)."""
    mesh: str | None = None
    """Name of the mesh, for kind "mesh"."""
    name: str | None = None
    rgba: Array = (0.6, 0.65, 0.7, 1.0)  # type: ignore[assignment]
    friction: Array = (1.0, 0.005, 0.0001)  # type: ignore[assignment]
    """(3,): sliding (no unit), torsional (m), rolling (m)."""
    contact_type: int = 1
    contact_affinity: int = 1
    """Bit masks as in MuJoCo: two shapes can touch if one's type shares a bit with the other's affinity."""
    condim: int = 3
    """Which friction acts, as in MuJoCo: 1 none, 3 sliding, 4 also torsional, 6 also rolling."""
    restitution: float = 0.0
    """Normal velocity after an impact over that before it, from 0 to 1."""
    priority: int = 0
    """As in MuJoCo: between two shapes, the one with the higher priority determines friction, condim and restitution.
    If the priorities are equal, the larger of each number holds."""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise MechanismError(f"unknown shape kind {self.kind!r}; known: {', '.join(KINDS)}")
        what = f"shape '{self.name}'" if self.name else f"a {self.kind}"
        size = array(self.size, (SIZES[self.kind],), f"size of {what}")
        if (size < 0).any() or (self.kind != "plane" and (size == 0).any()):
            raise MechanismError(f"size of {what} must be positive, got {size.tolist()}")
        if (self.mesh is None) == (self.kind == "mesh"):
            raise MechanismError(f"{what}: give `mesh` (the name of a mesh) with kind 'mesh' and with no other kind")
        friction = checked_friction(self.friction, what)
        _check_contact(self, what)
        self._freeze(
            size=size,
            pose=checked_pose(self.pose, f"pose of {what}"),
            rgba=array(self.rgba, (4,), f"rgba of {what}"),
            friction=friction,
        )

    @property
    def touches(self) -> bool:
        """Whether this shape takes part in contact; otherwise it is only drawn."""
        return bool(self.contact_type or self.contact_affinity)


@dataclass(frozen=True, eq=False)
class HeightField(Record):
    """Terrain given by heights over a rectangle, fixed to the world. Each grid cell is two triangles, divided by the
    diagonal that starts at the smallest x and y."""

    heights: Array
    """(rows, columns), metres: rows along y, columns along x, both ascending; at least 2 x 2."""
    size: Array
    """(2,) half lengths along x and y, metres."""
    pose: Array
    """(4, 4), from the field's frame (middle of the rectangle, z up) to the world."""
    name: str | None = None
    friction: Array = (1.0, 0.005, 0.0001)  # type: ignore[assignment]
    """(3,): sliding (no unit), torsional (m), rolling (m)."""
    contact_type: int = 1
    contact_affinity: int = 1
    condim: int = 3
    restitution: float = 0.0
    priority: int = 0
    """As in `Shape`."""

    def __post_init__(self) -> None:
        what = f"height field '{self.name}'" if self.name else "a height field"
        heights = array(self.heights, (-1, -1), f"heights of {what}")
        if min(heights.shape) < 2:
            raise MechanismError(f"{what} needs at least 2 x 2 heights, got {heights.shape[0]} x {heights.shape[1]}")
        size = array(self.size, (2,), f"size of {what}")
        if (size <= 0).any():
            raise MechanismError(f"size of {what} must be positive, got {size.tolist()}")
        friction = checked_friction(self.friction, what)
        _check_contact(self, what)
        self._freeze(heights=heights, size=size, pose=checked_pose(self.pose, f"pose of {what}"), friction=friction)

    @property
    def touches(self) -> bool:
        """Whether the field takes part in contact; otherwise it is only drawn."""
        return bool(self.contact_type or self.contact_affinity)

    def mesh(self, name: str) -> Mesh:
        """The field's triangles, in its frame."""
        rows, columns = self.heights.shape
        x, y = (np.linspace(-half, half, n) for half, n in zip(self.size, (columns, rows), strict=True))
        corners = np.stack([*np.meshgrid(x, y), self.heights], axis=-1).reshape(-1, 3)
        first = (np.arange(rows - 1)[:, None] * columns + np.arange(columns - 1)).reshape(-1)
        right, above, across = first + 1, first + columns, first + columns + 1
        faces = np.concatenate([np.stack([first, right, across], axis=1), np.stack([first, across, above], axis=1)])
        return Mesh(name, corners, faces)

    def height(self, x: float, y: float) -> float:
        """Height over a point of the field's own plane, metres; NaN outside it."""
        rows, columns = self.heights.shape
        u = (x + self.size[0]) / (2 * self.size[0]) * (columns - 1)
        v = (y + self.size[1]) / (2 * self.size[1]) * (rows - 1)
        if not (0 <= u <= columns - 1 and 0 <= v <= rows - 1):
            return float("nan")
        i, j = min(int(u), columns - 2), min(int(v), rows - 2)
        low, high = self.heights[j], self.heights[j + 1]
        s, t = u - i, v - j
        if s >= t:
            return float(low[i] + s * (low[i + 1] - low[i]) + t * (high[i + 1] - low[i + 1]))
        return float(low[i] + s * (high[i + 1] - high[i]) + t * (high[i] - low[i]))


def _check_contact(shape: Shape | HeightField, what: str) -> None:
    for mask in (shape.contact_type, shape.contact_affinity):
        if not isinstance(mask, int) or not 0 <= mask < 2**32:
            raise MechanismError(f"contact masks of {what} must be integers from 0 to 2^32 - 1, got {mask!r}")
    if shape.condim not in CONDIMS:
        raise MechanismError(
            f"condim of {what} must be 1 (no friction), 3 (sliding), 4 (also torsional) or 6 (also rolling), "
            f"got {shape.condim!r}"
        )
    if not isinstance(shape.priority, int):
        raise MechanismError(f"priority of {what} must be an integer, got {shape.priority!r}")
    if not 0 <= float(array(shape.restitution, (), f"restitution of {what}")) <= 1:
        raise MechanismError(f"restitution of {what} must be from 0 to 1, got {shape.restitution!r}")


def checked_friction(value: ArrayLike, what: str) -> Array:
    """Coefficients (3,); raises unless they are finite and not negative."""
    friction = array(value, (3,), f"friction of {what}")
    if (friction < 0).any():
        raise MechanismError(f"friction of {what} must not be negative, got {friction.tolist()}")
    return friction


def extreme_points(shape: Shape, meshes: dict[str, Mesh]) -> Array:
    """(n, 3) points in the shape's frame whose convex hull, enlarged by `margin(shape)`, contains the shape."""
    match shape.kind:
        case "sphere":
            return np.zeros((1, 3))
        case "capsule":
            return np.array([[0.0, 0, -shape.size[1]], [0.0, 0, shape.size[1]]])
        case "cylinder":
            angles = np.arange(32) * (2 * np.pi / 32)
            ring = shape.size[0] * np.stack([np.cos(angles), np.sin(angles), 0 * angles], axis=1)
            return np.concatenate([ring + [0, 0, -shape.size[1]], ring + [0, 0, shape.size[1]]])
        case "box" | "ellipsoid":
            corners = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], dtype=float)
            if shape.kind == "ellipsoid":
                corners = np.concatenate([np.eye(3), -np.eye(3)])
            return corners * shape.size
        case "mesh":
            assert shape.mesh is not None
            return meshes[shape.mesh].vertices
    return np.zeros((0, 3))


def margin(shape: Shape) -> float:
    """Radius of a sphere or capsule around its `extreme_points`, metres; 0 for other shapes."""
    return float(shape.size[0]) if shape.kind in ("sphere", "capsule") else 0.0
