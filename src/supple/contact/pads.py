"""Soft pads as contact sees them: points of a skin, and the compliance between them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple import _core, spatial
from supple.contact.colliders import Collider, collider
from supple.contact.deep_press import points_behind, press_in_steps
from supple.errors import MechanismError, RangeWarning
from supple.mechanism.record import Array, array, checked_pose
from supple.mechanism.shapes import HeightField, Mesh, Shape

ASYMMETRY = 1e-6
"""Largest difference between a compliance and its transpose, over its largest entry."""

NEAR = 0.01
"""Distance from a shape, over the size of the pad, within which points may touch it."""
NOTHING: Array = np.zeros(0)


@dataclass(frozen=True)
class Pad:
    """Points of a soft skin that is fixed to a body, with the compliance between them.

    A force f_j on point j moves point i by `compliance[3i:3i+3, 3j:3j+3] @ f_j`. Points, normals and the compliance are
    in the body's frame. `World.cover` fixes a pad to a body of a world, `press` presses a shape into it.
    """

    points: Array
    """(n, 3) m, of the unpressed skin."""
    normals: Array
    """(n, 3) outward, of length 1."""
    areas: Array
    """(n,) m^2 of skin that each point stands for."""
    compliance: Array
    """(3n, 3n) m/N, symmetric and positive semidefinite."""
    triangles: Array = field(default_factory=lambda: np.zeros((0, 3), dtype=int))
    """(m, 3) indices of points: the surface between them. Of two pads that touch, one at least needs it."""
    friction: float = 1.0
    """Sliding coefficient. A contact has the larger one of its two sides, as in MuJoCo."""
    relaxation: float = 0.0
    """Time constant with which the skin follows a change of its forces, s; 0: at once."""
    vertices: NDArray[np.int64] = field(default_factory=lambda: np.zeros((0, 1), dtype=np.int64))
    """(n, k) vertices of a surface whose weighted mean each point is, if the maker of the pad names them."""
    weights: Array = field(default_factory=lambda: np.zeros((0, 1)))
    """(n, k) weights of the vertices."""

    def __post_init__(self) -> None:
        points = array(self.points, (-1, 3), "points of a pad")
        n = len(points)
        if not n:
            raise MechanismError("a pad needs a point at least")
        normals = array(self.normals, (n, 3), "normals of a pad")
        lengths = np.linalg.norm(normals, axis=1)
        if np.abs(lengths - 1).max() > 1e-6:
            worst = int(np.abs(lengths - 1).argmax())
            raise MechanismError(f"normals of a pad must have length 1; that of point {worst} has {lengths[worst]:.3g}")
        areas = array(self.areas, (n,), "areas of a pad")
        if areas.min() < 0:
            raise MechanismError(f"the area of a pad's point {int(areas.argmin())} is negative: {areas.min():.3g} m^2")
        triangles = np.asarray(self.triangles, dtype=int).reshape(-1, 3)
        if triangles.size and not (triangles.min() >= 0 and triangles.max() < n):
            raise MechanismError(f"triangles of a pad must name points from 0 to {n - 1}")
        vertices, weights = np.asarray(self.vertices, dtype=int), np.asarray(self.weights, dtype=float)
        if vertices.ndim != 2 or vertices.shape != weights.shape or (vertices.size and len(vertices) != n):
            raise MechanismError(f"vertices and weights of a pad must be arrays of {n} rows and of equal shape")
        for name in ("friction", "relaxation"):
            value = float(array(getattr(self, name), (), f"{name} of a pad"))
            if value < 0:
                raise MechanismError(f"{name} of a pad must not be negative, got {value:g}")
            object.__setattr__(self, name, value)
        values = {"points": points, "normals": normals, "areas": areas, "triangles": triangles}
        values |= {"vertices": vertices, "weights": weights}
        for name, numbers in (values | {"compliance": checked_compliance(self.compliance, n, "a pad")}).items():
            own = np.array(numbers, order="C")
            own.flags.writeable = False
            object.__setattr__(self, name, own)

    def core(self, pose: ArrayLike) -> Any:
        """The collider of this pad in the core; `pose` (4, 4) is that of the body in the frame it is fixed to."""
        at = np.ascontiguousarray(pose, dtype=float)
        triangles = np.ascontiguousarray(self.triangles, dtype=float)
        return _core.pad_collider(self.points, self.normals, triangles, at, self.friction)

    def collider(self, pose: Array) -> Collider:
        """The same for lists of colliders."""
        return Collider("pad", np.zeros(3), pose, np.array([self.friction, 0.0, 0.0]), self.points)

    def press(
        self,
        shape: Shape | HeightField,
        pose: ArrayLike | None = None,
        start: Touch | None = None,
        meshes: Sequence[Mesh] = (),
    ) -> Touch:
        """Statics: the forces with which a shape at `pose` presses into the pad.

        Args:
            shape: its own pose and friction count, too.
            pose: (4, 4) of the shape's body in the frame of the pad; by default the same frame.
            start: the result for the previous pose of the same shape. On the way from there the skin sticks to the
                shape, or slides on it. Without `start`, points stick where they are first touched, and a deep shape is
                pressed in along the normal of the skin, in several steps.
            meshes: those that the shape refers to.
        """
        check_shape(shape)
        pose = checked_pose(np.eye(4) if pose is None else pose, "pose of the shape")
        other = collider(shape, {mesh.name: mesh for mesh in meshes}, np.eye(4))
        if start is None:
            touch = press_in_steps(
                lambda away, start: self._press(other, spatial.translation(away) @ pose, start),
                self.points,
                self.normals,
                other,
                pose,
            )
            if not touch.forces.any():
                warn_if_behind(self.points, self.normals, other, pose, stacklevel=3)
            return touch
        if start.displacements.shape != self.points.shape:
            raise MechanismError("start is the touch of another pad; give the last result of this one")
        return self._press(other, pose, start)

    def _press(self, other: Collider, pose: Array, start: Touch | None) -> Touch:
        if start is None:
            return self.press_from(other, pose)
        # points that have moved with their bones carry what sticks to them
        before = start.displacements - (self.points - start.pad.points)
        return self.press_from(other, pose, before, start.forces, start.pose)

    def press_from(
        self,
        shape: Collider,
        pose: Array,
        before: Array = NOTHING,
        forces: Array = NOTHING,
        pose_before: Array | None = None,
    ) -> Touch:
        """`press` for a collider. `before` (n, 3), m, are the displacements that the points had when the shape was at
        `pose_before` (4, 4), or an empty array; `forces` (n, 3), N, those of then: the solver starts from them."""
        move = np.eye(4) if pose_before is None else pose @ spatial.inverse(pose_before)
        margin = NEAR * self._size
        given = [np.ascontiguousarray(values) for values in (pose, before, move, forces)]
        try:
            results = self._statics.press(shape.core, given[0], margin, *given[1:])
        except RuntimeError:
            raise MechanismError("the contact forces are not finite; check the compliance of the pad") from None
        u, f, normals = (values.reshape(-1, 3) for values in results[:3])
        return Touch(self, pose, f, u, normals, results[3])

    @cached_property
    def _size(self) -> float:
        return float(np.linalg.norm(np.ptp(self.points, axis=0)))

    @cached_property
    def _statics(self) -> Any:
        return _core.PadStatics(self.core(np.eye(4)), self.compliance)


@dataclass(frozen=True)
class Touch:
    """Contact forces on a pad and the displacements of its points, as a tactile sensor sees them. All arrays are in the
    frame of the pad."""

    pad: Pad
    pose: Array
    """(4, 4): for `Pad.press` the pose of the shape in the frame of the pad, for `World.touch` that of the pad in the
    world."""
    forces: Array
    """(n, 3) N, on the points."""
    displacements: Array
    """(n, 3) m, of the points from the unpressed skin: markers on the skin move by as much."""
    contact_normals: Array
    """(n, 3) from the other surface to the pad; zero where nothing is near."""
    friction: Array
    """(n,) sliding coefficient of each point's contact; 0 where nothing is near."""

    @cached_property
    def normal_forces(self) -> Array:
        """(n,) N, not negative."""
        return np.asarray(np.einsum("ni,ni->n", self.forces, self.contact_normals))

    @cached_property
    def pressures(self) -> Array:
        """(n,) Pa: normal force over the area of the point; 0 for points without area."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.asarray(np.where(self.pad.areas > 0, self.normal_forces / self.pad.areas, 0.0))

    @property
    def force(self) -> Array:
        """(3,) N, sum of the forces on the pad."""
        return np.asarray(self.forces.sum(axis=0))

    @property
    def wrench(self) -> Array:
        """(6,) force (N) and torque (N m) on the pad about its frame's origin; forces act at the unpressed points."""
        return np.concatenate([self.force, np.cross(self.pad.points, self.forces).sum(axis=0)])

    @property
    def centre(self) -> Array:
        """(3,) m, centre of pressure: the mean of the points, weighted by their normal forces.

        Raises:
            MechanismError: nothing touches the pad.
        """
        total = float(self.normal_forces.sum())
        if not total > 0:
            raise MechanismError("nothing presses on the pad, so there is no centre of pressure; look at .force first")
        return np.asarray(self.normal_forces @ self.pad.points / total)

    @property
    def friction_used(self) -> Array:
        """(n,) tangential force over the largest that friction allows, from 0 to 1 (1: the point slides). It is 0 where
        nothing touches."""
        normal = self.normal_forces
        tangential = np.linalg.norm(self.forces - normal[:, None] * self.contact_normals, axis=1)
        allowed = self.friction * normal
        return np.asarray(np.where(allowed > 0, tangential / np.where(allowed > 0, allowed, 1.0), 0.0))

    @property
    def depth(self) -> float:
        """m, largest displacement of a point along its normal, inward."""
        return float(np.max(-np.einsum("ni,ni->n", self.displacements, self.pad.normals), initial=0.0))

    def vertex_forces(self, count: int) -> Array:
        """(count, 3) N: the forces on the vertices of the surface that the pad's maker names, in the pad's frame.
        `PosedSkin.solve` takes them for a pad of a skin."""
        if not len(self.pad.vertices):
            raise MechanismError("the pad names no vertices of a surface; only pads that a skin makes do")
        result = np.zeros((count, 3))
        np.add.at(result, self.pad.vertices, self.pad.weights[..., None] * self.forces[:, None])
        return result

    def taxels(self, points: ArrayLike, radius: float) -> Array:
        """(k,) Pa: readings of tactile elements at `points` (k, 3), m. Each averages the pressure over the skin within
        `radius`, m, weighted by areas.

        Raises:
            MechanismError: no point of the skin is near an element.
        """
        points = array(points, (-1, 3), "tactile elements")
        if not radius > 0:
            raise MechanismError(f"the radius of a tactile element must be positive, got {radius:g} m")
        near = np.linalg.norm(points[:, None] - self.pad.points[None], axis=2) <= radius
        areas = near @ self.pad.areas
        if (areas <= 0).any():
            worst = int(np.argmin(areas))
            raise MechanismError(
                f"tactile element {worst} at {np.round(points[worst], 5).tolist()} has no skin within {radius:g} m; "
                "enlarge the radius or move it"
            )
        return np.asarray(near @ (self.pressures * self.pad.areas) / areas)


def check_shape(shape: object) -> None:
    """Raises `MechanismError` unless this is a shape that can press."""
    if not isinstance(shape, (Shape, HeightField)):
        raise MechanismError(
            f"a pad is pressed by a Shape or a HeightField, got {type(shape).__name__}; for a ball of 1 cm give "
            'Shape("sphere", [0.01], numpy.eye(4))'
        )


def warn_if_behind(points: Array, normals: Array, shape: Collider, pose: Array, stacklevel: int) -> None:
    """Warns if a shape at `pose` (4, 4) touches nothing because it is below the skin: points (n, 3) lie in it, but
    nearer to its far side, or it lies between the points and the bone."""
    behind = points_behind(points, normals, shape, pose)
    if len(behind):
        warnings.warn(
            f"{len(behind)} points of the skin lie inside the shape, but nearer to its far side, so nothing presses on "
            "them. The shape is too deep in the skin, thinner than its depth, or on the wrong side. Press from outside "
            "in steps, each with start= the last result",
            RangeWarning,
            stacklevel=stacklevel,
        )
    elif _below_skin(points, normals, (pose @ shape.pose)[:3, 3], shape.kind):
        warnings.warn(
            "the shape lies wholly below the surface of the skin, so nothing presses on it. Press from outside in "
            "steps, each with start= the last result: the skin then knows from which side the shape came",
            RangeWarning,
            stacklevel=stacklevel,
        )


def _below_skin(points: Array, normals: Array, centre: Array, kind: str) -> bool:
    """Whether a shape's centre (3,) is below the skin: straight behind the point that is nearest to it, and not farther
    away than half the skin's size."""
    if kind in ("plane", "height_field"):
        return False
    nearest = int(np.linalg.norm(points - centre, axis=1).argmin())
    behind = points[nearest] - centre
    distance = float(np.linalg.norm(behind))
    size = float(np.linalg.norm(np.ptp(points, axis=0)))
    return 0 < distance < 0.5 * size and float(behind @ normals[nearest]) > 0.7 * distance


def _positive(matrix: Array) -> bool:
    try:
        np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return False
    return True


def checked_compliance(value: ArrayLike, n: int, of: str) -> Array:
    """(3n, 3n) the symmetric part of a compliance between n points, m/N.

    Raises:
        MechanismError: it is zero, not symmetric, or not positive semidefinite.
    """
    C = array(value, (3 * n, 3 * n), f"compliance of {of} with {n} points")
    most = float(np.abs(C).max())
    if most == 0:
        raise MechanismError(f"the compliance of {of} is zero: nothing yields; use a rigid shape instead")
    if float(np.abs(C - C.T).max()) > ASYMMETRY * most:
        i, j = np.unravel_index(int(np.abs(C - C.T).argmax()), C.shape)
        raise MechanismError(
            f"the compliance of {of} must be symmetric; entries ({i}, {j}) and ({j}, {i}) are {C[i, j]:.6g} and "
            f"{C[j, i]:.6g} m/N; average it with its transpose if the difference is noise of a measurement"
        )
    C = 0.5 * (C + C.T)
    rounding = 1e-9 * most * len(C)
    if not _positive(C + rounding * np.eye(len(C))) and (least := float(np.linalg.eigvalsh(C)[0])) < -rounding:
        raise MechanismError(
            f"the compliance of {of} must be positive semidefinite; its least eigenvalue is {least:.3g} m/N, so that "
            "pressing it would release energy"
        )
    return np.asarray(C)
