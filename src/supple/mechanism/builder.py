"""Builds a mechanism part by part. Everything is given in world coordinates at the reference pose."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from supple import spatial
from supple.errors import ImportWarning, MechanismError
from supple.mechanism.actuator import Actuator
from supple.mechanism.body import WORLD, Body, Site, check_physical
from supple.mechanism.coupling import Coupling, Motor
from supple.mechanism.flexible import FlexibleBody, bodies_of, joints_of
from supple.mechanism.joint import Joint
from supple.mechanism.mechanism import STANDARD_GRAVITY, Mechanism
from supple.mechanism.poses import find
from supple.mechanism.record import Array, array, checked_pose
from supple.mechanism.redundancy import with_released_constraints
from supple.mechanism.shapes import Mesh, Shape

if TYPE_CHECKING:
    from supple.elastic import Part

AXES = {"x": (1.0, 0.0, 0.0), "y": (0.0, 1.0, 0.0), "z": (0.0, 0.0, 1.0)}
PER_AXIS = ("stiffness", "damping", "rest", "limits", "armature", "curves", "effort", "speed", "axes")
"""Fields of `Joint` that the joints of a builder take, besides `reference`."""
COUPLING_SPRING = [field.name for field in fields(Coupling)][4:]
ACTUATOR_LAW = [field.name for field in fields(Actuator)][2:]


class Builder:
    """Builds a `Mechanism` part by part; `build()` checks and returns it.

    >>> arm = supple.Builder("arm")
    >>> arm.link("upper", start=(0, 0, 0), end=(0, 0, 0.5), mass=1.0)
    >>> arm.link("lower", start=(0, 0, 0.5), end=(0, 0, 0.9), mass=0.6)
    >>> arm.hinge("shoulder", "world", "upper", at=(0, 0, 0), axis="y", stiffness=80.0, damping=0.5)
    >>> arm.hinge("elbow", "upper", "lower", at=(0, 0, 0.5), axis="y", stiffness=40.0, damping=0.5)
    >>> mech = arm.build()

    Positions, axes and poses are in world coordinates at the reference pose. Every joint takes `stiffness`,
    `damping`, `rest`, `limits`, `armature`, `reference` (the coordinates at this pose), `curves`, `effort` and `speed`:
    one value, or one per axis; and `axes`, the names of its coordinates.
    """

    def __init__(self, name: str, gravity: ArrayLike = STANDARD_GRAVITY) -> None:
        self._name, self._gravity = name, gravity
        self._bodies: dict[str, Body] = {}
        kinds = ("joints", "sites", "couplings", "motors", "actuators", "meshes", "flexible")
        self._parts: dict[str, list[Any]] = {kind: [] for kind in kinds}
        self._excludes: list[tuple[str, str]] = []
        self._ground: list[Shape] = []

    # bodies

    def body(
        self,
        name: str,
        pose: ArrayLike | None = None,
        mass: float = 0.0,
        centre: ArrayLike = (0.0, 0.0, 0.0),
        inertia: ArrayLike = ((0.0,) * 3,) * 3,
        shapes: Sequence[Shape] = (),
    ) -> None:
        """Adds a body with its frame at `pose` (4, 4).

        `centre` (3,) is the centre of mass; `inertia` (3, 3, or 3 principal moments) is about it; both in that frame.
        """
        if name in self._bodies:
            raise MechanismError(f"two bodies are named '{name}'; give each its own name")
        moments = np.diag(np.asarray(inertia, dtype=float)) if np.ndim(inertia) == 1 else inertia
        frame = np.eye(4) if pose is None else pose
        body = Body(name, frame, mass, centre, moments, tuple(shapes))  # type: ignore[arg-type]
        check_physical(body)
        self._bodies[name] = body

    def link(
        self,
        name: str,
        start: ArrayLike,
        end: ArrayLike,
        mass: float,
        radius: float | None = None,
        inertia: ArrayLike | None = None,
        rotation: ArrayLike | None = None,
    ) -> None:
        """Adds a rod from `start` to `end`. Its frame is at `start` with z along the rod; its centre of mass is in its
        middle.

        `inertia` is about the middle; without it the rod is a uniform cylinder. `rotation` (3, 3) gives the
        orientation of the frame where its rotation about z matters. The shape is a capsule of `radius` (by default a
        twentieth of the length).
        """
        a, b = array(start, (3,), f"start of '{name}'"), array(end, (3,), f"end of '{name}'")
        length = float(np.linalg.norm(b - a))
        if length == 0:
            raise MechanismError(f"link '{name}' has no length; use body() for a point")
        radius = length / 20 if radius is None else radius
        direction = (b - a) / length
        orientation = spatial.rotation_between(np.array([0.0, 0, 1]), direction) if rotation is None else rotation
        transverse = mass * (3 * radius**2 + length**2) / 12
        moments = (transverse, transverse, mass * radius**2 / 2) if inertia is None else inertia
        middle = (0.0, 0.0, length / 2)
        half_length = max(length / 2 - radius, radius / 10)
        rod = Shape("capsule", size=(radius, half_length), pose=spatial.translation(np.array(middle)))  # type: ignore[arg-type]
        self.body(name, spatial.pose(np.asarray(orientation), a), mass, middle, moments, [rod])

    def flexible(self, name: str, part: Part, pose: ArrayLike | None = None) -> None:
        """Adds an elastic part with a basis as a flexible body.

        Each interface of the part becomes a body, to which joints, sites and loads can be attached: `rod.start` and
        `rod.end` for a flexible body "rod" with the interfaces start and end. The modal amplitudes (m) are coordinates
        of the mechanism: `rod.eta0`, `rod.eta1` and so on.

        Args:
            name: name of the flexible body.
            part: the part, with a basis (`part.with_basis()`).
            pose: (4, 4) from the part's coordinates to the world at the reference pose; by default they coincide.
        """
        body = FlexibleBody(name, part)
        at = np.eye(4) if pose is None else checked_pose(pose, f"pose of flexible body '{name}'")
        for each in bodies_of(body, at):
            if each.name in self._bodies:
                raise MechanismError(f"two bodies are named '{each.name}'; give each its own name")
            self._bodies[each.name] = each
        joints, couplings = joints_of(body)
        self._parts["flexible"].append(body)
        self._parts["joints"] += joints
        self._parts["couplings"] += couplings

    # joints

    def joint(
        self,
        name: str,
        parent: str,
        child: str,
        pose: ArrayLike,
        twists: ArrayLike,
        blocks: Sequence[int] = (),
        reference: ArrayLike = 0.0,
        **per_axis: Any,
    ) -> None:
        """Adds a joint with any sequence of axes: `twists` (k, 6), linear then angular, in a joint frame.

        `pose` (4, 4) is the pose of the joint frame on the parent's side.
        """
        frame = checked_pose(pose, f"frame of joint '{name}'")
        k = len(np.reshape(np.asarray(twists, dtype=float), (-1, 6)))
        for option in per_axis:
            find(PER_AXIS, option, f"option of joint '{name}'")
        given = np.full(k, reference) if np.ndim(reference) == 0 else reference
        coordinates = array(given, (k,), f"reference of joint '{name}' ({k} axes)")
        bare_joint = Joint(name, parent, child, np.eye(4), np.eye(4), twists, tuple(blocks))  # type: ignore[arg-type]
        on_child = frame @ bare_joint.displacement(coordinates)
        self._parts["joints"].append(
            Joint(
                name,
                parent,
                child,
                spatial.inverse(self._pose_of(parent, name)) @ frame,
                spatial.inverse(self._pose_of(child, name)) @ on_child,
                twists,  # type: ignore[arg-type]
                tuple(blocks),
                reference=coordinates,
                **per_axis,
            )
        )

    def fixed(self, name: str, parent: str, child: str) -> None:
        """Adds a fixed joint, which allows no motion."""
        self.joint(name, parent, child, self._pose_of(child, name), np.zeros((0, 6)))

    def hinge(self, name: str, parent: str, child: str, at: ArrayLike, axis: ArrayLike | str, **per_axis: Any) -> None:
        """Adds a hinge: a rotation about `axis` through the point `at`."""
        self.joint(name, parent, child, _frame_at(at, name), [_rotation(axis, name)], **per_axis)

    def slide(self, name: str, parent: str, child: str, at: ArrayLike, axis: ArrayLike | str, **per_axis: Any) -> None:
        """Adds a slide: a translation along `axis`."""
        self.joint(name, parent, child, _frame_at(at, name), [_translation(axis, name)], **per_axis)

    def screw(
        self, name: str, parent: str, child: str, at: ArrayLike, axis: ArrayLike | str, pitch: float, **per_axis: Any
    ) -> None:
        """Adds a screw: a rotation about `axis` with a translation of `pitch` metres per radian along it."""
        twist = _rotation(axis, name) + pitch * _translation(axis, name)
        self.joint(name, parent, child, _frame_at(at, name), [twist], **per_axis)

    def cylindrical(
        self, name: str, parent: str, child: str, at: ArrayLike, axis: ArrayLike | str, **per_axis: Any
    ) -> None:
        """Adds a cylindrical joint: a rotation about `axis`, then a translation along it."""
        twists = [_rotation(axis, name), _translation(axis, name)]
        self.joint(name, parent, child, _frame_at(at, name), twists, **per_axis)

    def universal(
        self,
        name: str,
        parent: str,
        child: str,
        at: ArrayLike,
        axes: tuple[ArrayLike | str, ArrayLike | str],
        **per_axis: Any,
    ) -> None:
        """Adds a universal joint: rotations about two perpendicular axes at `at`, the first fixed to the parent."""
        self.joint(name, parent, child, _frame_at(at, name), [_rotation(a, name) for a in axes], **per_axis)

    def ball(self, name: str, parent: str, child: str, at: ArrayLike, **per_axis: Any) -> None:
        """Adds a ball joint: any rotation about the point `at`; its coordinates are a rotation vector in world axes."""
        self.joint(name, parent, child, _frame_at(at, name), [_rotation(a, name) for a in "xyz"], (3,), **per_axis)

    def planar(
        self, name: str, parent: str, child: str, at: ArrayLike, normal: ArrayLike | str, **per_axis: Any
    ) -> None:
        """Adds a planar joint: two translations perpendicular to `normal`, then a rotation about it."""
        n = _unit_axis(normal, name)
        rotation = spatial.rotation_between(np.array([0.0, 0, 1]), n)
        twists = [_translation(rotation[:, 0], name), _translation(rotation[:, 1], name), _rotation(n, name)]
        self.joint(name, parent, child, _frame_at(at, name), twists, **per_axis)

    def free(self, name: str, parent: str, child: str, **per_axis: Any) -> None:
        """Adds a free joint: three translations in world axes, then a rotation vector about the child's origin."""
        at = self._pose_of(child, name)[:3, 3]
        self.bushing(name, parent, child, at, **per_axis)

    def bushing(self, name: str, parent: str, child: str, at: ArrayLike, **per_axis: Any) -> None:
        """Adds a bushing, a free joint with springs, at the point `at`: three translations in world axes, then a
        rotation vector."""
        twists = [_translation(a, name) for a in "xyz"] + [_rotation(a, name) for a in "xyz"]
        self.joint(name, parent, child, _frame_at(at, name), twists, (1, 1, 1, 3), **per_axis)

    # sites, couplings, motors, shapes

    def site(self, name: str, body: str, at: ArrayLike | None = None, pose: ArrayLike | None = None) -> None:
        """Adds a site, a named frame on a body or the world, at a point or with a pose (4, 4), in world coordinates."""
        if (at is None) == (pose is None):
            raise MechanismError(f"site '{name}' needs either `at` (a point) or `pose` (a frame)")
        frame = _frame_at(at, name) if at is not None else checked_pose(pose, f"pose of site '{name}'")  # type: ignore[arg-type]
        self._parts["sites"].append(Site(name, body, spatial.inverse(self._pose_of(body, name)) @ frame))

    def couple(self, name: str, coefficients: Mapping[str, float], rigid: bool = False, **spring: Any) -> None:
        """Adds a coupling: a spring (with rigid=True a constraint) on a linear combination of joint coordinates."""
        for option in spring:
            find(COUPLING_SPRING, option, f"option of coupling '{name}'")
        numbers = np.array(list(coefficients.values()), dtype=float)
        self._parts["couplings"].append(Coupling(name, tuple(coefficients), numbers, rigid, **spring))

    def motor(self, name: str, coordinate: str, position: float = 0.0) -> None:
        """Adds a motor, which prescribes a joint coordinate."""
        self._parts["motors"].append(Motor(name, coordinate, position))

    def actuator(self, name: str, drives: str, **law: Any) -> None:
        """Adds an actuator that drives a coordinate or a coupling; `law` has the other fields of `Actuator`."""
        for option in law:
            find(ACTUATOR_LAW, option, f"option of actuator '{name}'")
        self._parts["actuators"].append(Actuator(name, drives, **law))

    def mesh(self, name: str, vertices: ArrayLike, faces: ArrayLike) -> None:
        """Adds a triangle mesh for shapes of kind "mesh": vertices (n, 3) in m, faces (m, 3)."""
        self._parts["meshes"].append(Mesh(name, vertices, faces))  # type: ignore[arg-type]

    def ground(self, *shapes: Shape) -> None:
        """Adds shapes fixed to the world."""
        self._ground.extend(shapes)

    def exclude(self, first: str, second: str) -> None:
        """Switches off contact between two bodies."""
        self._excludes.append((first, second))

    def build(self) -> Mechanism:
        """Checks the parts and returns the immutable mechanism. Raises `MechanismError` if a part is wrong.

        Redundant loop constraints that contradict each other by rounding are released, with an `ImportWarning`.
        """
        described = Mechanism(
            self._name,
            tuple(self._bodies.values()),
            gravity=self._gravity,  # type: ignore[arg-type]
            shapes=tuple(self._ground),
            contact_excludes=tuple(self._excludes),
            **{kind: tuple(parts) for kind, parts in self._parts.items()},
        )
        mech = with_released_constraints(described)
        if mech.import_report:
            notes = "".join(f"\n  {note}" for note in mech.import_report)
            text = f"'{mech.name}' is not built as described (mech.import_report):{notes}"
            warnings.warn(ImportWarning(text), stacklevel=2)
        return mech

    def _pose_of(self, body: str, user: str) -> Array:
        if body == WORLD:
            return np.eye(4)
        if body not in self._bodies:
            find([WORLD, *self._bodies], body, f"body yet (used by '{user}'; add bodies before their joints)")
        return self._bodies[body].pose


def _frame_at(point: ArrayLike, name: str) -> Array:
    frame: Array = spatial.translation(array(point, (3,), f"position of '{name}'"))
    return frame


def _unit_axis(axis: ArrayLike | str, name: str) -> Array:
    if isinstance(axis, str):
        if axis not in AXES:
            raise MechanismError(f"axis of '{name}' must be 'x', 'y', 'z' or three numbers, got {axis!r}")
        axis = AXES[axis]
    direction = array(axis, (3,), f"axis of '{name}'")
    size = float(np.linalg.norm(direction))
    if size == 0:
        raise MechanismError(f"axis of '{name}' has no direction (it is zero)")
    return direction / size


def _rotation(axis: ArrayLike | str, name: str) -> Array:
    """Twist (6,) of a rotation about an axis through the joint's origin."""
    return np.concatenate([np.zeros(3), _unit_axis(axis, name)])


def _translation(axis: ArrayLike | str, name: str) -> Array:
    """Twist (6,) of a translation along an axis."""
    return np.concatenate([_unit_axis(axis, name), np.zeros(3)])
