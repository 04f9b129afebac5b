"""Exact derivatives of recorded time steps.

`gradient` sweeps backward (the discrete adjoint): from the gradient of a scalar with respect to the recorded motion
to its gradient with respect to the inputs (the fields of `Gradient`). `tangent` sweeps forward: from directions of
those inputs to the derivatives of the motion. Both differentiate the time stepping itself, so they agree with
differences of the simulation to rounding. The set of touched limits is kept in each step; `Tape.impacts` lists the
steps in which it changes.

Arrays over time have a row for the start and one for the end of each step. Inputs in row k act in the step that ends
there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from supple.engine.tape import Tape
from supple.errors import MechanismError
from supple.mechanism import Mechanism
from supple.mechanism.axes import axis_slices, of_tree
from supple.mechanism.poses import find
from supple.mechanism.record import Array, array

Columns = Sequence[Mapping[str, Array]]
"""Directions as arrays of the compiled sweep."""
MOTION = ("coordinates", "poses", "velocities", "torques")
LANES = 8
"""Directions that a sweep forward processes at once."""
AT_START = ("twists", "increments", "rates", "velocities")
"""Arrays of the compiled sweep that describe the state at the start: increments of poses and coordinates, and changes
of the rates of joints and of the twists of bodies."""
BEFORE = tuple(f"{name}_before" for name in AT_START)
"""Those of the state one time step before the start."""


@dataclass(frozen=True)
class _State:
    """Gradient with respect to one of the two states that a tape starts from, computed when it is first asked for."""

    tape: Tape
    found: dict[str, Array]
    parts: tuple[str, ...]

    @cached_property
    def q(self) -> Array:
        return self._products(self._maps[0], self.parts)

    @cached_property
    def rates(self) -> Array:
        return self._products(self._maps[1], self.parts)

    @cached_property
    def coordinates(self) -> Array:
        return self._products(self._maps[0], self.parts[:2])

    @property
    def velocities(self) -> Array:
        return self.found[self.parts[3]].reshape(-1, 6)

    @cached_property
    def _maps(self) -> tuple[Columns, Columns]:
        return _state_maps(self.tape, self.parts)

    def _products(self, columns: Columns, parts: tuple[str, ...]) -> Array:
        return np.array([sum(float(column[part] @ self.found[part]) for part in parts) for column in columns])


@dataclass(frozen=True)
class Gradient:
    """Gradient of a scalar with respect to the inputs of a recorded motion.

    Springs are named by their coordinate or coupling; a coupling that has the name of a coordinate gets '.coupling'
    added.
    """

    tape: Tape
    motors: dict[str, Array]
    """(steps + 1,) by motor: with respect to its position at the end of each time step. The first one, the position
    at the start, matters only where the first time step was divided."""
    set_points: dict[str, Array]
    """(steps + 1,) by coordinate or coupling: with respect to the rest of its spring, or the length of a rigid
    coupling."""
    joint_torques: dict[str, Array]
    """(steps + 1,) by coordinate: with respect to its torque of `Simulation.set_torque`, limited to the effort, per
    N m or N. Row 0 is zero."""
    stiffness: dict[str, float]
    """By coordinate or coupling: with respect to the stiffness of its spring."""
    damping: dict[str, float]
    """By coordinate or coupling: with respect to its damping."""
    rest: dict[str, float]
    """By coordinate or coupling: with respect to a rest that is the same in all steps, the sum of `set_points`."""
    armature: dict[str, float]
    """By coordinate."""
    mass: dict[str, float]
    """By body, with its centre of mass and its inertia about that unchanged."""
    centre: Array
    """(bodies, 3): with respect to the centre of mass, in body axes."""
    inertia: Array
    """(bodies, 3, 3): with respect to the inertia about the centre of mass, symmetric."""
    gravity: Array
    """(3,): with respect to the gravity of the mechanism, world axes."""
    young: dict[str, float]
    """By flexible body: with respect to Young's modulus, 1/Pa."""
    alpha: dict[str, float]
    """By flexible body: with respect to its mass-proportional damping."""
    beta: dict[str, float]
    """By flexible body: with respect to its stiffness-proportional damping."""
    _wrenches: Array
    """(parts, bodies, 6): with respect to a wrench at the body's origin, in body axes, for each part of a time step."""
    _start: _State
    _before: _State

    @property
    def q(self) -> Array:
        """(dof,): with respect to the coordinates at the start, rad or m, where bodies move as coordinates and rates
        say. Where there are loops, for directions that keep them closed."""
        return self._start.q

    @property
    def rates(self) -> Array:
        """(dof,): with respect to the rates `Simulation.qd` at the start, rad/s or m/s. Where there are loops, for
        rates that keep them closed."""
        return self._start.rates

    @property
    def coordinates(self) -> Array:
        """(dof,): with respect to the coordinates at the start, where bodies keep their `velocities`."""
        return self._start.coordinates

    @property
    def velocities(self) -> Array:
        """(bodies, 6): with respect to `Simulation.velocities` at the start, where coordinates and rates are kept."""
        return self._start.velocities

    @property
    def q_before(self) -> Array:
        """(dof,): as `q`, one time step before the start. This and the next three are zero unless the first step is one
        of BDF2, on a tape that began in the middle of a run."""
        return self._before.q

    @property
    def rates_before(self) -> Array:
        """(dof,): as `rates`, one time step before the start."""
        return self._before.rates

    @property
    def coordinates_before(self) -> Array:
        """(dof,): as `coordinates`, one time step before the start."""
        return self._before.coordinates

    @property
    def velocities_before(self) -> Array:
        """(bodies, 6): as `velocities`, one time step before the start."""
        return self._before.velocities

    def load(self, name: str, frame: str = "world") -> Array:
        """(steps + 1, 6): with respect to the wrench at the origin of a body or site, in world axes or its own."""
        body, point, turns = _frame_of_parts(self.tape, name, frame)
        v, w = self._wrenches[:, body, :3], self._wrenches[:, body, 3:]
        moved = np.stack([v + np.cross(w, point), w], axis=1)  # (parts, 2, 3), body axes
        result = np.zeros((self.tape.steps + 1, 6))
        np.add.at(result, self.tape.core.step_of_part, np.einsum("pij,pkj->pki", turns, moved).reshape(-1, 6))
        return result

    def payload(self, name: str) -> float:
        """Derivative with respect to a point mass (kg) added at the origin of a body or site."""
        body, mass, centre, inertia = _point_mass(self.tape, name)
        by_mass = self.mass[self.tape.mechanism.bodies[body].name]
        return float(by_mass * mass + self.centre[body] @ centre + np.sum(self.inertia[body] * inertia))


@dataclass(frozen=True)
class Motion:
    """Derivatives of a recorded motion, one for each direction of the inputs."""

    coordinates: Array
    """(directions, steps + 1, dof)"""
    poses: Array
    """(directions, steps + 1, bodies, 6) twists in body frames: a pose H moves to H exp(twist)."""
    velocities: Array
    """(directions, steps + 1, bodies, 6) changes of the bodies' twists, as in `Simulation.velocities`."""
    torques: Array
    """(directions, steps + 1, motors) changes of the motors' torques or forces, in the order of `mech.motors`."""


def gradient(
    tape: Tape,
    *,
    coordinates: ArrayLike | None = None,
    poses: ArrayLike | None = None,
    velocities: ArrayLike | None = None,
    torques: Mapping[str, ArrayLike] | None = None,
) -> Gradient:
    """Gradient of a scalar with respect to the inputs, by a sweep backward over the tape.

    Args:
        tape: the recorded time steps.
        coordinates: (steps + 1, dof) gradient of the scalar with respect to `tape.coordinates`.
        poses: (steps + 1, bodies, 6) gradient with respect to the poses, as wrenches in body frames: its product with a
            twist of a body is the change of the scalar. `point_gradient` gives it for points.
        velocities: (steps + 1, bodies, 6) gradient with respect to the bodies' twists.
        torques: (steps + 1,) by motor, gradient with respect to `tape.torques`. The torque at the start is kept.

    Raises:
        MechanismError: an array has the wrong shape or is not finite, or there is no such motor.
    """
    mech, n = tape.mechanism, tape.steps + 1
    given: dict[str, Array] = {}
    if coordinates is not None:
        values = array(coordinates, (n, mech.dof), "the gradient with respect to coordinates")
        given["coordinates"] = _to_axes(tape, values)
    for name, value in (("poses", poses), ("velocities", velocities)):
        if value is not None:
            given[name] = array(value, (n, len(mech.bodies), 6), f"the gradient with respect to {name}")
    if torques is not None:
        given["multipliers"] = np.zeros(tape.core.multipliers.shape)
        for motor, value in torques.items():
            row = _motor_row(tape, motor)
            given["multipliers"][:, row] -= array(value, (n,), f"the gradient with respect to the torque of '{motor}'")
    found = tape.sweep.backward({name: np.ascontiguousarray(value) for name, value in given.items()})
    return _gradient(tape, found)


def _gradient(tape: Tape, found: dict[str, Array]) -> Gradient:
    eqs, mech, n = tape.equations, tape.mechanism, tape.steps + 1
    axes, couplings = list(eqs.axis), _coupling_names(tape)
    rest, spring_rest = found["rest"].reshape(n, -1), found["spring_rest"].reshape(n, -1)
    targets = found["targets"].reshape(n, -1)
    set_points = dict(zip(axes, rest.T, strict=True))
    stiffness = dict(zip(axes, found["stiffness"].tolist(), strict=True))
    damping = dict(zip(axes, found["damping"].tolist(), strict=True))
    for coupling in mech.couplings:
        name = couplings[coupling.name]
        if coupling.rigid:
            set_points[name] = targets[:, eqs.row[coupling.name]]
            continue
        index = eqs.spring[coupling.name]
        set_points[name] = spring_rest[:, index]
        stiffness[name] = float(found["spring_stiffness"][index])
        damping[name] = float(found["spring_damping"][index])
    inertia = found["inertia"].reshape(-1, 3, 3)
    young, alpha, beta = _by_material(mech, found["materials"].reshape(-1, 3))
    return Gradient(
        tape,
        motors={motor.name: targets[:, eqs.row[motor.name]] for motor in mech.motors},
        set_points=set_points,
        joint_torques=dict(zip(axes, found["torques"].reshape(n, -1).T, strict=True)),
        stiffness=stiffness,
        damping=damping,
        rest={name: float(values.sum()) for name, values in set_points.items()},
        armature=dict(zip(axes, found["armature"].tolist(), strict=True)),
        mass={body.name: float(value) for body, value in zip(mech.bodies, found["mass"], strict=True)},
        centre=found["centre"].reshape(-1, 3),
        inertia=(inertia + inertia.transpose(0, 2, 1)) / 2,
        gravity=found["gravity"],
        young=young,
        alpha=alpha,
        beta=beta,
        _wrenches=found["wrenches"].reshape(-1, len(mech.bodies), 6),
        _start=_State(tape, found, AT_START),
        _before=_State(tape, found, BEFORE),
    )


def _by_material(mech: Mechanism, found: Array) -> tuple[dict[str, float], dict[str, float], dict[str, float]]:
    """Derivatives by Young's modulus, alpha and beta, from those (flexible bodies, 3) by log(Young's modulus), ..."""
    scaled = found / np.array([[each.part.material.young, 1.0, 1.0] for each in mech.flexible]).reshape(-1, 3)
    young, alpha, beta = (dict(zip((f.name for f in mech.flexible), part.tolist(), strict=True)) for part in scaled.T)
    return young, alpha, beta


def tangent(
    tape: Tape,
    *,
    q: ArrayLike | None = None,
    rates: ArrayLike | None = None,
    velocities: ArrayLike | None = None,
    q_before: ArrayLike | None = None,
    rates_before: ArrayLike | None = None,
    velocities_before: ArrayLike | None = None,
    motors: Mapping[str, ArrayLike] | None = None,
    set_points: Mapping[str, ArrayLike] | None = None,
    joint_torques: Mapping[str, ArrayLike] | None = None,
    loads: Mapping[str, ArrayLike] | None = None,
    frame: str = "world",
    stiffness: Mapping[str, ArrayLike] | None = None,
    damping: Mapping[str, ArrayLike] | None = None,
    armature: Mapping[str, ArrayLike] | None = None,
    mass: Mapping[str, ArrayLike] | None = None,
    payload: Mapping[str, ArrayLike] | None = None,
    gravity: ArrayLike | None = None,
    young: Mapping[str, ArrayLike] | None = None,
    alpha: Mapping[str, ArrayLike] | None = None,
    beta: Mapping[str, ArrayLike] | None = None,
    want: Sequence[str] = MOTION,
) -> Motion:
    """Derivatives of the recorded motion along directions of the inputs, by a sweep forward over the tape.

    One sweep with one factorisation per step computes the derivatives along all directions. A direction costs nothing
    before the first step in which it acts.

    Args:
        tape: the recorded time steps.
        q, rates: (directions, dof) of the coordinates at the start and of their rates.
        velocities: (directions, bodies, 6) of the bodies' twists at the start; if not given, those that follow from q
            and rates.
        q_before, rates_before, velocities_before: the same, one time step before the start.
        motors, set_points, joint_torques: (directions, steps + 1) by name, as in `Gradient`.
        loads: (directions, steps + 1, 6) wrench at the origin of a body or site, by name.
        frame: axes of the loads, "world" or "body".
        stiffness, damping, armature, mass: (directions,) by name, as in `Gradient`.
        payload: (directions,) point mass at the origin of a body or site, by name, kg.
        gravity: (directions, 3), m/s^2.
        young, alpha, beta: (directions,) Young's modulus (Pa) and Rayleigh damping (1/s, s), by flexible body.
        want: the arrays to compute, some of "coordinates", "poses", "velocities" and "torques"; the others are empty.

    Raises:
        MechanismError: an array has the wrong shape or is not finite, or a name is not known.
    """
    directions = _Directions(tape)
    directions.state(AT_START, q=q, rates=rates, velocities=velocities)
    directions.state(BEFORE, q_before=q_before, rates_before=rates_before, velocities_before=velocities_before)
    directions.over_time(motors, "motors", lambda name: ("targets", _motor_row(tape, name)))
    directions.over_time(set_points, "set_points", directions.set_point)
    directions.over_time(joint_torques, "joint_torques", lambda name: ("torques", directions.axis(name)))
    directions.loads(loads, frame)
    directions.constants(stiffness, "stiffness", lambda name: directions.spring(name, "stiffness"))
    directions.constants(damping, "damping", lambda name: directions.spring(name, "damping"))
    directions.constants(armature, "armature", lambda name: ("armature", directions.axis(name)))
    directions.constants(mass, "mass", lambda name: ("mass", tape.mechanism.body_index(name)))
    directions.payload(payload)
    directions.gravity(gravity)
    for k, (given, what) in enumerate(((young, "young"), (alpha, "alpha"), (beta, "beta"))):
        directions.material(given, what, k)
    unknown = [name for name in want if name not in MOTION]
    if unknown:
        raise MechanismError(f"`want` is some of {MOTION}, got {unknown[0]!r}")
    columns = directions.finished()
    found = _swept_forward(tape, columns, [name in want for name in MOTION])
    mech, n = tape.mechanism, tape.steps + 1

    def stacked(name: str, *shape: int) -> Array:
        return np.array([column[name] for column in found]).reshape((len(found), n, *shape) if name in want else (0,))

    coordinates = stacked("coordinates", len(tape.equations.axis))
    if coordinates.size:
        coordinates = of_tree(mech, coordinates)
    bodies, torques = len(mech.bodies), np.zeros(0)
    if "torques" in want:
        rows = [tape.equations.row[motor.name] for motor in mech.motors]
        torques = -np.array([column["multipliers"].reshape(n, -1)[:, rows] for column in found])
    return Motion(coordinates, stacked("poses", bodies, 6), stacked("velocities", bodies, 6), torques)


def _swept_forward(tape: Tape, columns: list[dict[str, Array]], wanted: list[bool]) -> list[dict[str, Array]]:
    """The sweep forward of all directions. Groups of directions that share a sweep are divided among threads."""
    groups = [columns[i : i + LANES] for i in range(0, len(columns), LANES)]
    threads = min(os.cpu_count() or 1, len(groups) // 2)
    if threads < 2:
        return list(tape.sweep.forward(columns, *wanted))
    # alternate groups, since directions that begin to act late cost less
    parts = [[column for group in groups[k::threads] for column in group] for k in range(threads)]
    sweeps = [tape.sweep, *(tape.new_sweep() for _ in parts[1:])]
    with ThreadPoolExecutor(threads) as pool:
        swept = list(pool.map(lambda sweep, part: sweep.forward(part, *wanted), sweeps, parts))
    found: list[dict[str, Array]] = []
    for i, group in enumerate(groups):
        start = i // threads * LANES
        found += swept[i % threads][start : start + len(group)]
    return found


def point_gradient(tape: Tape, name: str, forces: ArrayLike) -> Array:
    """(steps + 1, bodies, 6) gradient with respect to poses, from the gradient with respect to a point's world
    position.

    Args:
        tape: the recorded time steps.
        name: the body or site whose origin is the point.
        forces: (steps + 1, 3) gradient of the scalar with respect to the point's world position at each time.
    """
    values = array(forces, (tape.steps + 1, 3), f"the gradient with respect to the positions of '{name}'")
    body, point = _point(tape, name)
    result = np.zeros((tape.steps + 1, len(tape.mechanism.bodies), 6))
    force = np.einsum("tji,tj->ti", tape.poses[:, body, :3, :3], values)
    result[:, body, :3], result[:, body, 3:] = force, np.cross(point, force)
    return result


def points(tape: Tape, name: str) -> Array:
    """(steps + 1, 3) world positions of the origin of a body or site, m."""
    body, point = _point(tape, name)
    poses = tape.poses[:, body]
    positions: Array = poses[:, :3, :3] @ point + poses[:, :3, 3]
    return positions


def velocities(tape: Tape) -> Array:
    """(steps + 1, bodies, 6) twists of the bodies, as in `Simulation.velocities`."""
    found: Array = tape.sweep.velocities()
    return found.reshape(tape.steps + 1, -1, 6)


class _Directions:
    """Directions of the inputs as arrays of the compiled sweep, one dictionary for each direction."""

    def __init__(self, tape: Tape) -> None:
        self.tape, self.eqs = tape, tape.equations
        self.columns: list[dict[str, Array]] | None = None
        n = tape.steps + 1
        bodies, axes, springs = len(tape.mechanism.bodies), len(self.eqs.axis), len(self.eqs.spring)
        parts = len(tape.core.step_of_part)
        self.shapes: dict[str, tuple[int, ...]] = {
            "targets": (n, len(self.eqs.row) + len(self.eqs.limit_names)),
            "rest": (n, axes),
            "spring_rest": (n, springs),
            "torques": (n, axes),
            "wrenches": (parts, bodies, 6),
            **dict.fromkeys(("stiffness", "damping", "armature"), (axes,)),
            **dict.fromkeys(("spring_stiffness", "spring_damping"), (springs,)),
            "mass": (bodies,),
            "centre": (bodies, 3),
            "inertia": (bodies, 3, 3),
            "gravity": (3,),
            "materials": (len(tape.mechanism.flexible), 3),
        }

    def checked(self, values: ArrayLike, shape: tuple[int, ...], what: str) -> Array:
        """(directions, *shape), with as many directions as the other inputs have."""
        given = np.asarray(values, dtype=float)
        count = len(given) if given.ndim and self.columns is None else len(self.columns or ())
        result = array(given, (count, *shape), f"directions of {what}, (directions, ...)")
        if self.columns is None:
            self.columns = [{} for _ in range(count)]
        return result

    def entry(self, column: dict[str, Array], name: str) -> Array:
        return column.setdefault(name, np.zeros(self.shapes[name]))

    def state(self, parts: tuple[str, ...], **given: ArrayLike | None) -> None:
        """Coordinates, their rates and velocities, in this order, as `parts` of the compiled sweep."""
        if all(values is None for values in given.values()):
            return
        mech, (*joints, (bodies, twists)) = self.tape.mechanism, given.items()
        for (what, values), of in zip(joints, _state_maps(self.tape, parts), strict=True):
            if values is None:
                continue
            checked = self.checked(values, (mech.dof,), what)
            for column, direction in zip(self.columns or (), checked, strict=True):
                for part in parts:
                    change = sum((d * each[part] for d, each in zip(direction, of, strict=True)), np.zeros(1))
                    column[part] = column.get(part, 0.0) + change
        if twists is not None:
            checked = self.checked(twists, (len(mech.bodies), 6), bodies)
            for column, direction in zip(self.columns or (), checked, strict=True):
                column[parts[3]] = direction.ravel()

    def over_time(
        self, given: Mapping[str, ArrayLike] | None, what: str, place: Callable[[str], tuple[str, int]]
    ) -> None:
        for name, values in (given or {}).items():
            target, index = place(name)
            checked = self.checked(values, (self.tape.steps + 1,), f"{what}['{name}']")
            for column, curve in zip(self.columns or (), checked, strict=True):
                self.entry(column, target)[:, index] += curve

    def constants(
        self, given: Mapping[str, ArrayLike] | None, what: str, place: Callable[[str], tuple[str, int]]
    ) -> None:
        for name, values in (given or {}).items():
            target, index = place(name)
            checked = self.checked(values, (), f"{what}['{name}']")
            for column, value in zip(self.columns or (), checked, strict=True):
                self.entry(column, target)[index] += value

    def loads(self, given: Mapping[str, ArrayLike] | None, frame: str) -> None:
        for name, values in (given or {}).items():
            body, point, turns = _frame_of_parts(self.tape, name, frame)
            checked = self.checked(values, (self.tape.steps + 1, 6), f"loads['{name}']")
            for column, wrench in zip(self.columns or (), checked[:, self.tape.core.step_of_part], strict=True):
                force, torque = (np.einsum("pji,pj->pi", turns, part) for part in (wrench[:, :3], wrench[:, 3:]))
                on_body = self.entry(column, "wrenches")[:, body]
                on_body += np.concatenate([force, torque + np.cross(point, force)], axis=1)

    def payload(self, given: Mapping[str, ArrayLike] | None) -> None:
        for name, values in (given or {}).items():
            body, *parts = _point_mass(self.tape, name)
            checked = self.checked(values, (), f"payload['{name}']")
            for column, value in zip(self.columns or (), checked, strict=True):
                for target, part in zip(("mass", "centre", "inertia"), parts, strict=True):
                    self.entry(column, target)[body] += value * part

    def gravity(self, given: ArrayLike | None) -> None:
        if given is None:
            return
        checked = self.checked(given, (3,), "gravity")
        for column, value in zip(self.columns or (), checked, strict=True):
            self.entry(column, "gravity")[:] += value

    def material(self, given: Mapping[str, ArrayLike] | None, what: str, k: int) -> None:
        mech = self.tape.mechanism
        for name, values in (given or {}).items():
            index = find([each.name for each in mech.flexible], name, f"flexible body of '{mech.name}'")
            unit = mech.flexible[index].part.material.young if what == "young" else 1.0
            checked = self.checked(values, (), f"{what}['{name}']")
            for column, value in zip(self.columns or (), checked, strict=True):
                self.entry(column, "materials")[index, k] += value / unit

    def finished(self) -> list[dict[str, Array]]:
        if self.columns is None:
            raise MechanismError("`tangent` needs directions of at least one input, motors={'name': ...} for instance")
        return [{name: np.ascontiguousarray(value) for name, value in column.items()} for column in self.columns]

    # places of names in the arrays

    def axis(self, name: str) -> int:
        return find(list(self.eqs.axis), name, f"coordinate of '{self.tape.mechanism.name}'")

    def spring(self, name: str, field: str) -> tuple[str, int]:
        couplings = {shown: own for own, shown in _coupling_names(self.tape).items() if own in self.eqs.spring}
        if name in couplings:
            return f"spring_{field}", self.eqs.spring[couplings[name]]
        find(
            [*self.eqs.axis, *couplings], name, f"coordinate or coupling with a spring of '{self.tape.mechanism.name}'"
        )
        return field, self.eqs.axis[name]

    def set_point(self, name: str) -> tuple[str, int]:
        couplings = {shown: own for own, shown in _coupling_names(self.tape).items()}
        if name in couplings and couplings[name] in self.eqs.row:
            return "targets", self.eqs.row[couplings[name]]
        if name in couplings:
            return "spring_rest", self.eqs.spring[couplings[name]]
        find([*self.eqs.axis, *couplings], name, f"coordinate or coupling of '{self.tape.mechanism.name}'")
        return "rest", self.eqs.axis[name]


def _motor_row(tape: Tape, name: str) -> int:
    names = [motor.name for motor in tape.mechanism.motors]
    return tape.equations.row[names[find(names, name, f"motor of '{tape.mechanism.name}'")]]


def _coupling_names(tape: Tape) -> dict[str, str]:
    """The name of each coupling in the results: with '.coupling' where a coordinate has the same name."""
    axes = tape.equations.axis
    return {c.name: f"{c.name}.coupling" if c.name in axes else c.name for c in tape.mechanism.couplings}


def _to_axes(tape: Tape, values: Array) -> Array:
    """(..., axes) with values (..., dof) of the spanning tree in place, zero for the joints that close loops."""
    result = np.zeros((*values.shape[:-1], len(tape.equations.axis)))
    slices, columns = axis_slices(tape.mechanism), tape.mechanism.topology.columns
    for j in tape.mechanism.topology.tree:
        result[..., slices[j]] = values[..., columns[j]]
    return result


def _state_maps(tape: Tape, parts: tuple[str, ...]) -> tuple[Columns, Columns]:
    """Directions along each coordinate of the state that `parts` describe, then along each rate."""
    units, before = _to_axes(tape, np.eye(tape.mechanism.dof)), parts == BEFORE
    still, start = np.zeros(units.shape[1]), tape.sweep.start
    return [start(unit, still, before) for unit in units], [start(still, unit, before) for unit in units]


def _point(tape: Tape, name: str) -> tuple[int, Array]:
    """Body of a body or site, and its origin there (3,)."""
    body, pose = tape.mechanism.frame(name)
    if body < 0:
        raise MechanismError(f"'{name}' is fixed to the world; it does not move")
    return body, pose[:3, 3]


def _frame_of_parts(tape: Tape, name: str, frame: str) -> tuple[int, Array, Array]:
    """Body of a body or site, its origin there (3,), and rotations (parts, 3, 3) from body axes to those of `frame`, at
    the start and at the end of each time step or of each part of a divided one."""
    if frame not in ("world", "body"):
        raise MechanismError(f"frame must be 'world' or 'body', got {frame!r}")
    body, point = _point(tape, name)
    if frame == "world":
        return body, point, tape.sweep.part_rotations(body)
    turn = tape.mechanism.frame(name)[1][:3, :3].T
    return body, point, np.broadcast_to(turn, (len(tape.core.step_of_part), 3, 3))


def _point_mass(tape: Tape, name: str) -> tuple[int, float, Array, Array]:
    """Body of a body or site, and how its mass, centre (3,) and inertia (3, 3) change with a point mass there, per
    kg."""
    body, pose = tape.mechanism.frame(name)
    if body < 0:
        raise MechanismError(f"'{name}' is fixed to the world; a payload there does nothing")
    part = tape.mechanism.bodies[body]
    if part.mass == 0:
        raise MechanismError(f"'{part.name}' has no mass, so its centre jumps to a payload; give the body a small mass")
    arm = pose[:3, 3] - part.centre
    return body, 1.0, arm / part.mass, arm @ arm * np.eye(3) - np.outer(arm, arm)
