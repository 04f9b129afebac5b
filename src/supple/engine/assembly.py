"""The compiled equations of a mechanism: numbering of unknowns, loads, set-points and limits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from supple import _core
from supple.engine.actuation import add_actuator, as_in_spring
from supple.errors import MechanismError
from supple.mechanism import Actuator, Mechanism
from supple.mechanism.axes import per_axis
from supple.mechanism.idle import IdleSpin
from supple.mechanism.kinematics import FURTHEST
from supple.mechanism.mechanism import check_mechanism
from supple.mechanism.notebook import brief
from supple.mechanism.poses import find
from supple.mechanism.record import Array, array, lock, number
from supple.mechanism.springs import stiffness_scale
from supple.mechanism.values import by_coordinate, named_values

AXES_PER_JOINT = 64
WEAK = 1e-7
"""Stiffness of the springs that hold idle spins, over the stiffness of the mechanism; with less, rounding errors turn
the rods."""
ROUNDED = 1e-6
"""Loop gaps at the reference pose below this, rad or radii, come from rounded numbers in a file and are removed."""


@dataclass(frozen=True)
class Load:
    """A wrench on a body: force then torque, acting at `point` (body frame), in world or body axes."""

    __repr__ = brief

    name: str
    """Name of the body or site that the user gave."""
    body: int
    point: Array
    wrench: Array
    world: bool

    def __post_init__(self) -> None:
        self.point.setflags(write=False)
        self.wrench.setflags(write=False)

    def scaled(self, by: float) -> Load:
        """The load times a factor."""
        return replace(self, wrench=by * self.wrench)


@dataclass(frozen=True)
class Layout:
    """Places of the unknowns in a vector of them, as the core numbers them: twists of bodies, multipliers and
    coordinates of each joint, rows."""

    size: int
    """Number of unknowns."""
    twists: slice
    """Twists of all bodies, (bodies, 6) in sequence."""
    coordinates: Array
    """(axes,) place of every coordinate, in the order of `Equations.axis`."""
    multipliers: tuple[slice, ...]
    """Multipliers of each joint: its reaction (6,). In right-hand sides the gap of the joint."""
    rows: slice
    """Multipliers of the rows. In right-hand sides the errors of the rows."""

    def twist(self, body: int) -> slice:
        """The twist of a body. In right-hand sides its wrench."""
        return slice(self.twists.start + 6 * body, self.twists.start + 6 * body + 6)


State: TypeAlias = tuple[Array, Array, Array]
"""Coordinates (axes,) of every joint, multipliers of joints (joints, 6) and of rows (rows,)."""


@dataclass(frozen=True, eq=False)
class Equations:
    """The compiled equations of a mechanism, and the indices of its parts in them. They have no state.

    Coordinates are those of every joint, in the order of `mech.joints`. Rows are rigid constraints on
    coordinates: rigid couplings, then motors, then limits of coordinates and of couplings.
    """

    mechanism: Mechanism
    core: _core.Equations
    """Evaluates and linearises them at a state, under what `compiled` gives."""
    axis: dict[str, int]
    """Index of each coordinate."""
    reference: Array
    """(axes,) coordinates at the reference pose."""
    rest: Array
    """(axes,) rest positions of the joints' springs in the mechanism."""
    spring: dict[str, int]
    """Index of each coupling's spring."""
    row: dict[str, int]
    """Index of each rigid coupling's and motor's row."""
    targets: dict[str, float]
    """Positions of motors and rest lengths of couplings in the mechanism, rad or m."""
    limit_names: tuple[str, ...] = ()
    """Coordinate or coupling of each limit row; limit rows are the last ones."""
    actuators: tuple[Actuator, ...] = ()
    """As in the springs that contain them; empty unless the equations have them."""
    idle: tuple[IdleSpin, ...] = ()
    """Idle spins that a weak spring holds."""

    @cached_property
    def actuator(self) -> dict[str, int]:
        """Index of each actuator."""
        return {each.name: i for i, each in enumerate(self.actuators)}

    @cached_property
    def names(self) -> tuple[str, ...]:
        """(axes,) names of all coordinates."""
        return tuple(self.axis)

    @cached_property
    def held(self) -> dict[str, str]:
        """Motor of each coordinate that has one, by name."""
        return {motor.coordinate: motor.name for motor in self.mechanism.motors}

    @cached_property
    def efforts(self) -> Array:
        """(axes,) efforts of all coordinates, N m or N."""
        return per_axis(self.mechanism, "effort")

    @cached_property
    def sprung(self) -> dict[str, int]:
        """Index of each coordinate that has a spring."""
        return {name: self.axis[name] for name in sprung_axes(self.mechanism)}

    @cached_property
    def layout(self) -> Layout:
        """Places of the unknowns in right-hand sides and solutions."""
        size, twists, coordinates, multipliers, rows = self.core.layout
        return Layout(
            size,
            slice(*twists),
            np.array(coordinates, dtype=int),
            tuple(slice(start, start + 6) for start in multipliers),
            slice(*rows),
        )

    def zero_state(self) -> State:
        """Coordinates of the reference pose with all multipliers zero."""
        rows = len(self.row) + len(self.limit_names)
        return self.reference.copy(), np.zeros((len(self.mechanism.joints), 6)), np.zeros(rows)

    def acting(self, loads: Sequence[Load] = ()) -> Acting:
        """Loads with the mechanism's gravity and set-points."""
        return Acting(tuple(loads), self.mechanism.gravity, self.rest, self.targets)

    def unloaded(self) -> Acting:
        """No loads, no gravity, and the positions of the reference pose as set-points. The reference pose is an
        equilibrium then, unless a spring's curve has a torque at zero deflection."""
        targets = {}
        for c in self.mechanism.couplings:
            targets[c.name] = float(c.coefficients @ self.reference[[self.axis[n] for n in c.coordinates]])
        for motor in self.mechanism.motors:
            targets[motor.name] = float(self.reference[self.axis[motor.coordinate]])
        return Acting((), 0 * self.mechanism.gravity, self.reference, targets)

    def compiled(self, acting: Acting) -> _core.Acting:
        """What acts, as the core takes it."""
        return self.core.acting(*load_arrays(acting.loads), acting.gravity, *self.compiled_set_points(acting))

    def compiled_set_points(self, acting: Acting) -> tuple[Array, list[float], list[float]]:
        """Rest positions of joints (axes,) and of couplings' springs, and targets of rows, as the core takes them."""
        targets = acting.targets
        return acting.rest, [targets[name] for name in self.spring], [targets[name] for name in self.row]

    def acting_at(self, rest: Array, spring_rest: list[float], rows: list[float]) -> Acting:
        """No loads, the mechanism's gravity, and set-points as `compiled_set_points` returns them."""
        found = dict(zip(self.spring, spring_rest, strict=True)) | dict(zip(self.row, rows, strict=False))
        return Acting((), self.mechanism.gravity, rest, {name: found[name] for name in self.targets})

    def evaluated(self, acting: Acting, state: State) -> _core.Evaluation:
        """The equations at a state, in the core."""
        return self.core.evaluate(self.compiled(acting), *state)

    def aimed(self, acting: Acting, targets: Targets) -> Acting:
        """`acting` with other set-points (rad or m) by joint, coordinate, coupling or motor."""
        rest, of_rows = acting.rest.copy(), dict(acting.targets)
        for name, value in read_targets(self.mechanism, targets).items():
            if name in of_rows:
                of_rows[name] = value
            else:
                rest[self.sprung_axis(name)] = value
        return Acting(acting.loads, acting.gravity, rest, of_rows)

    def set_points(self, acting: Acting) -> dict[str, float]:
        """All set-points by name of coordinate, coupling or motor, rad or m: those that `aimed` takes."""
        return {name: float(acting.rest[at]) for name, at in self.sprung.items()} | acting.targets

    def reactions(self, multipliers: Array) -> dict[str, Array]:
        """Wrench (6,) of each joint on its child, in the joint's frame there, from the core's (joints, 6); N, N m."""
        return {j.name: -row for j, row in zip(self.mechanism.joints, multipliers, strict=True)}

    def motor_torques(self, multipliers: Array) -> dict[str, float]:
        """Torque or force of each motor, rigid coupling and touched limit, from the multipliers (rows,); N m or N. The
        limit of 'elbow' has that name, or 'elbow.limit' if a motor or coupling has it already."""
        rows = len(self.row)
        result = {name: -float(m) for name, m in zip(self.row, multipliers[:rows], strict=True)}
        for name, m in zip(self.limit_names, multipliers[rows:], strict=True):
            if m != 0:
                result[f"{name}.limit" if name in self.row else name] = -float(m)
        return result

    def sprung_axis(self, name: str) -> int:
        """Index of a coordinate with a spring, by its name or by that of a joint with one axis."""
        mech = self.mechanism
        if name in self.sprung:
            return self.sprung[name]
        if name not in self.axis:
            known = [*self.axis, *self.row, *self.spring]
            if name in {j.name for j in mech.joints}:
                raise MechanismError(f"joint '{name}' has several axes; name one: {', '.join(mech.joint(name).axes)}")
            for actuator in mech.actuators:
                if actuator.name == name:
                    raise MechanismError(
                        f"'{name}' is an actuator and has no set-point: sim.set_control sets its control; it acts on "
                        f"'{actuator.drives}'"
                    )
            find(known, name, f"joint, coordinate, coupling or motor of '{mech.name}'")
        raise MechanismError(f"'{name}' has no spring to set a target for; add one with mech.with_springs(...)")


@dataclass(frozen=True)
class Acting:
    """Everything that acts on a mechanism: loads, gravity and set-points."""

    __repr__ = brief

    loads: tuple[Load, ...]
    gravity: Array
    """(3,) m/s^2."""
    rest: Array
    """(axes,) rest positions of the joints' springs, in the order of `mech.joints`."""
    targets: dict[str, float]
    """Rest lengths of couplings and positions of motors."""

    def __post_init__(self) -> None:
        own = {"gravity": self.gravity.copy(), "rest": self.rest.copy(), "targets": dict(self.targets)}
        lock(own)
        for name, value in own.items():
            object.__setattr__(self, name, value)

    def interpolated(self, other: Acting, share: float) -> Acting:
        """This at share 0, the other at share 1, linear in between."""
        a, b = 1 - share, share
        mixed = [load.scaled(a) for load in self.loads] + [load.scaled(b) for load in other.loads]
        return Acting(
            tuple(load for load in mixed if load.wrench.any()),
            a * self.gravity + b * other.gravity,
            a * self.rest + b * other.rest,
            {name: a * self.targets[name] + b * value for name, value in other.targets.items()},
        )


def equations(
    mech: Mechanism, with_actuators: bool = False, held: Sequence[IdleSpin] = (), weak: float = WEAK
) -> Equations:
    """Builds the compiled equations of a mechanism. Without actuators, their springs act alone.

    A spring holds the idle spins `held`, for statics, which nothing else would hold; its stiffness is `weak` over that
    of the mechanism.
    """
    check_mechanism(mech)
    model = _core.Model()
    described, mech = mech, with_held_spins(mech, held, weak)
    references = {each.reference for each in mech.flexible}
    for body in mech.bodies:
        rigid = body.name not in references  # `add_flexible` adds the mass of a flexible body
        model.add_body(rigid * body.mass, rigid * body.centre, rigid * body.inertia)
    curves: list[Any] = []

    def add_curve(curve: Any) -> int:
        if curve is None:
            return -1
        curves.append(curve)
        model.add_curve(*(np.ascontiguousarray(part) for part in curve.pieces))
        return len(curves) - 1

    outer = {int(j): b for b, j in enumerate(mech.topology.joint)}
    axis: dict[str, int] = {}
    for i, joint in enumerate(mech.joints):
        if len(joint.axes) > AXES_PER_JOINT:
            raise MechanismError(f"joint '{joint.name}' has {len(joint.axes)} axes; the engine takes {AXES_PER_JOINT}")
        axis |= {name: len(axis) + k for k, name in enumerate(joint.axes)}
        model.add_joint(
            mech.body_index(joint.parent),
            mech.body_index(joint.child),
            outer.get(i, -1),
            np.ascontiguousarray(joint.pose_parent),
            np.ascontiguousarray(joint.pose_child),
            np.ascontiguousarray((joint.interface is None) * joint.twists),  # zero for amplitudes, which are lengths
            list(joint.blocks),
            np.ascontiguousarray(joint.stiffness),
            np.ascontiguousarray(joint.damping),
            np.ascontiguousarray(joint.armature),
            np.ascontiguousarray(joint.rest),
            [add_curve(curve) for curve in joint.curves],
        )
        if joint.interface is not None:
            model.set_interface(joint.interface.core)
    for each in mech.flexible:
        basis = each.basis
        model.add_flexible(
            mech.body_index(each.reference),
            axis[each.coordinates[0]],
            basis.mass,
            np.ascontiguousarray(basis.first_moment),
            np.ascontiguousarray(basis.gram),
            basis.force.core,
            basis.alpha,
            basis.beta,
        )

    spring: dict[str, int] = {}
    row: dict[str, int] = {}
    targets: dict[str, float] = {}
    for c in mech.couplings:
        where, how = [axis[n] for n in c.coordinates], c.coefficients.tolist()
        targets[c.name] = c.rest
        if c.rigid:
            row[c.name] = len(row)
            model.add_row(where, how, c.rest, c.rest, True)
        else:
            spring[c.name] = len(spring)
            model.add_spring(where, how, c.stiffness, c.damping, c.rest, add_curve(c.curve))
    for motor in mech.motors:
        row[motor.name] = len(row)
        targets[motor.name] = motor.position
        model.add_row([axis[motor.coordinate]], [1.0], motor.position, motor.position, True)
    limit_names = []
    for joint in mech.joints:
        for name, (lower, upper) in zip(joint.axes, joint.limits, strict=True):
            if np.isfinite(lower) or np.isfinite(upper):
                limit_names.append(name)
                model.add_row([axis[name]], [1.0], lower, upper, bool(lower == upper))
    for c in mech.couplings:
        if not c.rigid and np.isfinite(c.limits).any():
            limit_names.append(c.name)
            lower, upper = c.limits.tolist()
            model.add_row([axis[n] for n in c.coordinates], c.coefficients.tolist(), lower, upper, bool(lower == upper))

    actuators = tuple(as_in_spring(mech, drive) for drive in mech.actuators) if with_actuators else ()
    for drive in actuators:
        add_actuator(model, mech, drive, axis, spring)

    model.set_tree(list(mech.topology.order), stiffness_scale(mech), mech.radius or 1.0)
    reference = per_axis(mech, "reference")
    return Equations(
        described,
        _core.Equations(model, reference, ROUNDED),
        axis=axis,
        reference=reference,
        rest=per_axis(mech, "rest"),
        spring=spring,
        row=row,
        targets=targets,
        limit_names=tuple(limit_names),
        actuators=actuators,
        idle=tuple(held),
    )


def with_held_spins(mech: Mechanism, held: Sequence[IdleSpin], weak: float) -> Mechanism:
    """The mechanism with a weak spring, unloaded at the reference pose, on one ball joint of each idle spin."""
    if not held:
        return mech
    joints, stiffness = list(mech.joints), weak * stiffness_scale(mech)
    for spin in held:
        joint = joints[spin.joints[0]]
        joints[spin.joints[0]] = replace(joint, stiffness=np.full(3, stiffness), rest=joint.reference)
    return replace(mech, joints=tuple(joints))


def load_arrays(loads: Sequence[Load]) -> tuple[list[int], Array, Array, list[bool]]:
    """Bodies, points (n, 3), wrenches (n, 6) and whether they are in world axes, as the core takes loads."""
    points = np.array([load.point for load in loads]).reshape(-1, 3)
    wrenches = np.array([load.wrench for load in loads]).reshape(-1, 6)
    return [load.body for load in loads], points, wrenches, [load.world for load in loads]


def loads(mech: Mechanism, wrenches: Mapping[str, ArrayLike] | None, frame: str = "world") -> list[Load]:
    """Loads from wrenches (6,) by body or site. They act at the origin of that frame, in world axes or its own."""
    check_frame(frame)
    if wrenches is not None and not isinstance(wrenches, Mapping):
        raise MechanismError("wrenches are given as {body name: [fx, fy, fz, tx, ty, tz]}")
    result = []
    for name, value in (wrenches or {}).items():
        result.append(body_load(mech, name, value, frame))
    return result


def check_frame(frame: object) -> None:
    """Raises unless a wrench can be given in the axes of this frame."""
    if frame not in ("world", "body"):
        raise MechanismError(f"frame must be 'world' or 'body', got {frame!r}")


def body_load(mech: Mechanism, name: str, wrench: ArrayLike, frame: str) -> Load:
    """The load of a wrench (6,) on a body or site."""
    body, pose_body_frame = mech.frame(name)
    values = array(wrench, (6,), f"wrench on '{name}' (force, then torque)")
    if body < 0:
        raise MechanismError(f"'{name}' is fixed to the world; a wrench on it does nothing")
    if frame == "body":  # from the site's axes to the body's
        values = turned(pose_body_frame[:3, :3], values)
    return Load(name, body, pose_body_frame[:3, 3].copy(), values, frame == "world")


def turned(rotation: Array, wrench: Array) -> Array:
    """A wrench (6,) rotated into other axes by a rotation matrix (3, 3), at the same point."""
    return np.concatenate([rotation @ wrench[:3], rotation @ wrench[3:]])


Targets: TypeAlias = Mapping[str, ArrayLike] | ArrayLike
"""Set-points: {name of a joint, coordinate, coupling or motor: position}, an array (dof,) or one number for all."""


def read_targets(mech: Mechanism, targets: Targets) -> dict[str, float]:
    """Checked set-points by name, or a `MechanismError`.

    A number or an array (dof,) stands for all coordinates; those without spring or motor take none and are left out.
    """
    if targets is None or isinstance(targets, str):
        raise MechanismError(f"targets are given as {{name: position}}, an array (dof,) or a number, got {targets!r}")
    if not isinstance(targets, Mapping):
        targets = _targets_of_coordinates(mech, by_coordinate(mech, targets, mech.reference, "targets"))
    checked: dict[str, float] = {}
    for name, value in targets.items():
        if np.ndim(value) == 0:
            checked[name] = number(value, f"target of '{name}'")
        else:
            checked |= named_values(mech, {name: value}, "targets")
    for name, target in checked.items():
        if abs(target) > FURTHEST:
            raise MechanismError(f"target of '{name}' must be within {FURTHEST:g} rad or m, got {target:g}")
    return checked


def one_or_more_targets(name: str | Targets, value: ArrayLike | None) -> Targets:
    """The set-points that a call such as f("elbow", 0.3) or f({"elbow": 0.3}) gives."""
    if isinstance(name, str):
        if value is None:
            raise MechanismError(f"a position is missing: set_target({name!r}, position)")
        return {name: value}
    if value is not None:
        raise MechanismError("set_target takes a name and a position, or all positions in one argument")
    return name


def sprung_axes(mech: Mechanism) -> list[str]:
    """Names of the coordinates of all joints that have a spring."""
    return [
        name
        for joint in mech.joints
        for name, stiffness, curve in zip(joint.axes, joint.stiffness, joint.curves, strict=True)
        if stiffness > 0 or curve is not None
    ]


def _targets_of_coordinates(mech: Mechanism, values: Array) -> dict[str, float]:
    """Set-points of the motors and springs on coordinates, from values (dof,)."""
    places = target_places(mech)
    if not places:
        raise MechanismError(
            f"'{mech.name}' has no spring or motor to set a target for; add springs: mech.with_springs"
        )
    return {name: float(values[at]) for name, at in places.items()}


def target_places(mech: Mechanism) -> dict[str, int]:
    """Places in an array (dof,) of the set-points that it sets, by name of a motor or of a coordinate with a spring."""
    motors = {motor.coordinate: motor.name for motor in mech.motors}
    sprung = set(sprung_axes(mech))
    return {motors.get(name, name): i for i, name in enumerate(mech.coordinates) if name in motors or name in sprung}
