"""Full constrained dynamics in time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from supple import spatial
from supple.engine.assembly import Equations, Load, equations, loads, read_targets
from supple.engine.linearisation import evenly_scaled, linearised
from supple.engine.statics import Equilibrium, checked_equilibrium
from supple.errors import ConvergenceError, MechanismError, listed
from supple.mechanism import Mechanism, Poses, kinematics
from supple.mechanism.axes import axis_slices, by_joint, of_tree, per_axis
from supple.mechanism.record import Array, array

METHODS = {"euler": 1, "bdf2": 2}
NOTICEABLE = 0.02
"""Change of a motor's curve within one step, rad or m, from which on it is looked at for a jump."""
STEPS_AT_ONCE = 256
"""In the core, after which Ctrl-C is heard."""
GAPING = 1e-6
"""Gap of a loop, m or rad, or distance of a motor from its coordinate, that a simulation may start with."""


@dataclass(frozen=True)
class Energy:
    """Mechanical energy of a state, J."""

    kinetic: float
    strain: float
    """In springs, from their rest positions."""
    gravity: float
    """From the world's origin."""

    @property
    def total(self) -> float:
        return self.kinetic + self.strain + self.gravity


@dataclass(frozen=True)
class Handle:
    """A spring from a point of a body to a point of the world."""

    body: int
    point: Array
    """(3,) in the body's frame, m."""
    target: Array
    """(3,) in the world, m."""
    stiffness: float
    damping: float


@dataclass(frozen=True)
class SavedState:
    """Everything a simulation needs to go on, to the same bits."""

    history: Array
    loads: dict[str, Load]
    handles: dict[str, Handle]
    rest: Array
    targets: dict[str, float]


class Simulation:
    """A mechanism moving in time: implicit steps of `dt` seconds, joints closed at the end of each.

    `method="euler"` (backward Euler, first order, damps fast vibrations) or `"bdf2"` (second order). `q` (dof,)
    and `rates` (dof,) start it somewhere else than at rest in the reference pose; `at` starts it in an
    equilibrium, with that equilibrium's loads. `motors` maps motors to functions of time (s) that give their
    positions (rad or m).
    """

    def __init__(
        self,
        mech: Mechanism,
        dt: float,
        method: str = "euler",
        *,
        q: ArrayLike | None = None,
        rates: ArrayLike | None = None,
        at: Equilibrium | None = None,
        motors: Mapping[str, Callable[[float], float]] | None = None,
    ) -> None:
        dt = positive_seconds(dt)
        if method not in tuple(METHODS):
            raise MechanismError(f"method must be 'euler' or 'bdf2', got {method!r}")
        self.mechanism, self.dt, self.method = mech, dt, method
        self._eqs: Equations = equations(mech)
        check_inertia(mech)
        self._core = self._eqs.core
        if motors is not None and not isinstance(motors, Mapping):
            raise MechanismError("motors are given as {name: function of time (s)}")
        self._motors = dict(motors or {})
        names = [motor.name for motor in mech.motors]
        for name in self._motors:
            if name not in names:
                raise MechanismError(f"there is no motor named '{name}'; '{mech.name}' has {names or 'none'}")
        self._loads: dict[str, Load] = {}
        self._handles: dict[str, Handle] = {}
        self._begin(q, rates, at)
        self._origin = self.save()

    def _begin(self, q: ArrayLike | None, rates: ArrayLike | None, at: Equilibrium | None) -> None:
        mech, eqs, core = self.mechanism, self._eqs, self._core
        state = eqs.zero_state()
        if at is not None and q is not None:
            raise MechanismError("`at` and `q` both say where the simulation starts; give one of them")
        if at is not None:
            state = checked_equilibrium(at, mech, "at").state
            at.acting.apply_to(eqs)
            self._loads = {load.name: load for load in at.loads}
        elif q is not None:
            moved = mech.at(array(q, (mech.dof,), f"q of '{mech.name}'"))
            state = (per_axis(moved, "reference"), *state[1:])
        core.set_state(*state)
        core.evaluate(False)
        turn = np.zeros(mech.dof) if rates is None else array(rates, (mech.dof,), f"rates of '{mech.name}'")
        twists, all_rates = _rates(eqs, turn)
        core.start(self.dt, METHODS[self.method], 0.0, twists, all_rates)
        self._check_start()

    def _check_start(self) -> None:
        """Motors stand where their coordinates are, loops are closed, and limits are kept."""
        mech, eqs, core = self.mechanism, self._eqs, self._core
        for motor in mech.motors:
            function = self._motors.get(motor.name)
            aim = eqs.targets[motor.name] if function is None else _motor_value(motor.name, function, 0.0)
            stands = core.q[eqs.axis[motor.coordinate]]
            if abs(aim - stands) > GAPING:
                raise MechanismError(
                    f"motor '{motor.name}' starts at {aim:g} but its coordinate stands at {stands:g}; start the "
                    "simulation there (q=..., or at=supple.equilibrium(mech)), or the curve where the mechanism is"
                )
            core.set_row(eqs.row[motor.name], aim, aim)
        gaps = np.abs(core.gaps).max(axis=1, initial=0.0)
        if gaps.size and gaps.max() > GAPING:
            name = mech.joints[int(gaps.argmax())].name
            raise MechanismError(
                f"the loop at joint '{name}' gapes by {gaps.max():.2g} at the start; start where loops are closed, "
                "for instance at=supple.equilibrium(mech)"
            )
        q = core.q
        limits = [
            (name, q[eqs.axis[name]], *pair)
            for joint in mech.joints
            for name, pair in zip(joint.axes, joint.limits, strict=True)
        ]
        for c in mech.couplings:
            limits.append((c.name, float(c.coefficients @ q[[eqs.axis[n] for n in c.coordinates]]), *c.limits))
        for name, value, lower, upper in limits:
            if value < lower - 1e-9 or value > upper + 1e-9:
                raise MechanismError(
                    f"'{name}' starts at {value:g}, outside its limits {lower:g} ... {upper:g}; "
                    "start inside (q=...) or widen the limits"
                )

    # acting on it

    def apply(self, body: str, wrench: ArrayLike, frame: str = "world") -> None:
        """A wrench (6,), force (N) then torque (N m), on a body or site at its origin, until changed."""
        acting = loads(self.mechanism, {body: wrench}, frame)
        self._loads |= {load.name: load for load in acting}
        self._push()

    def pull(
        self,
        body: str,
        point: ArrayLike | None,
        stiffness: float | None = None,
        damping: float | None = None,
        at: ArrayLike = (0.0, 0.0, 0.0),
    ) -> None:
        """A handle: a spring from a body (its point `at`, in its frame) to a `point` of the world, m.

        Call it again to move the point; `point=None` lets go. By default the spring is as stiff as moves the
        mechanism's whole mass at two hertz, critically damped.
        """
        frame, pose_body_frame = self.mechanism.frame(body)
        if point is None:
            self._handles.pop(body, None)
        else:
            if frame < 0:
                raise MechanismError(f"'{body}' is fixed to the world; it cannot be pulled")
            k, d = handle_spring(self.mechanism, stiffness, damping)
            held = pose_body_frame[:3, :3] @ array(at, (3,), "the handle's point") + pose_body_frame[:3, 3]
            self._handles[body] = Handle(frame, held, array(point, (3,), "the point to pull to"), k, d)
        self._push()

    def _push(self) -> None:
        self._eqs.set_loads(list(self._loads.values()))
        handles = list(self._handles.values())
        self._core.set_handles(
            [h.body for h in handles],
            np.array([h.point for h in handles]).reshape(-1, 3),
            np.array([h.target for h in handles]).reshape(-1, 3),
            [h.stiffness for h in handles],
            [h.damping for h in handles],
        )

    def set_target(self, name: str, value: float) -> None:
        """Set-point (rad or m) of a sprung joint, of a coupling or of a motor."""
        self.set_targets({name: value})

    def set_targets(self, targets: Mapping[str, float]) -> None:
        """Several set-points at once."""
        for name in read_targets(targets):
            if name in self._motors:
                raise MechanismError(f"motor '{name}' follows its function of time; it takes no set-point")
        self._eqs.aim(targets)

    def step(self, n: int = 1) -> None:
        """Advances by n steps. Raises `ConvergenceError` with the `time` reached if a step cannot be solved,
        however small; the state stays at the last good step."""
        check_count(n)
        driven, targets = self._targets(n)
        for first in range(0, n, STEPS_AT_ONCE):
            ahead = targets[first : first + STEPS_AT_ONCE]
            done = self._core.step(driven, ahead, len(ahead))
            self.reached(ahead, done)
            if done < len(ahead):
                raise ConvergenceError(
                    f"the step from t = {self.time:.6g} s did not converge, even in a thousandth of dt: "
                    f"{self._unsettled()}. The motion is violent there (a limit or motor that fights another, a force "
                    "that is too large); the state is that of the last good step",
                    time=self.time,
                )

    def _unsettled(self) -> str:
        """What kept the last step from converging, for an error message."""
        eqs = self._eqs
        axis, joint, row, size = self._core.unsettled
        if axis >= 0:
            return f"coordinate '{list(eqs.axis)[axis]}' still moves by {size:.1g}"
        if joint >= 0:
            return f"the loop at joint '{eqs.mechanism.joints[joint].name}' stays open by {size:.1g}"
        if row >= 0:
            name = [*eqs.row, *eqs.limit_names][row]
            return f"the motor, coupling or limit '{name}' is off by {size:.1g}"
        return "a body or joint turns too far in one step"

    def _targets(self, n: int) -> tuple[list[int], Array]:
        """Rows of the motors with a function of time, and what these prescribe (n, rows) at the ends of n steps."""
        if not self._motors:
            return [], np.zeros((n, 0))
        driven = [self._eqs.row[name] for name in self._motors]
        times = list(accumulate([self.time, *[self.dt] * n]))  # as the core adds them up, so that every split agrees
        targets = np.zeros((n, len(driven)))
        for i, (name, motor) in enumerate(self._motors.items()):
            values = [_motor_value(name, motor, time) for time in times]
            for k in np.flatnonzero(np.abs(np.diff(values)) > NOTICEABLE):
                _check_jump(name, motor, times[k], times[k + 1])
            targets[:, i] = values[1:]
        return driven, targets

    # stepped by a World

    @property
    def participant(self) -> Any:
        """The core's part in a `World`."""
        return self._core.participant

    def plan(self, n: int) -> Array:
        """Hands the core what the motors prescribe (n, motors) in the next n steps of a `World`."""
        driven, targets = self._targets(n)
        self._core.schedule(driven, targets)
        return targets

    def reached(self, targets: Array, done: int) -> None:
        """Takes note that `done` of the planned steps were made."""
        if done:
            self._eqs.targets |= dict(zip(self._motors, targets[done - 1].tolist(), strict=True))

    # looking at it

    @property
    def time(self) -> float:
        """s."""
        return float(self._core.time)

    @property
    def poses(self) -> Poses:
        """World poses (4, 4) of every body."""
        return Poses(self.mechanism, self._core.poses)

    @property
    def velocities(self) -> Array:
        """(bodies, 6) twists, linear (m/s) then angular (rad/s), each in its body's own frame."""
        velocities: Array = self._core.velocities
        return velocities

    @property
    def coordinates(self) -> dict[str, Array]:
        """Coordinates (k,) of every joint by name, rad and m."""
        return by_joint(self.mechanism, self._core.q)

    @property
    def reactions(self) -> dict[str, Array]:
        """Wrench (6,) that each joint exerts on its child, in the joint's frame on the child; N and N m."""
        return self._eqs.reactions(self._core.reactions)

    @property
    def motor_torques(self) -> dict[str, float]:
        """Torque or force of each motor, rigid coupling and touched limit on its coordinates, N m or N."""
        return self._eqs.motor_torques(self._core.mu)

    @property
    def gap(self) -> float:
        """Largest violation of a joint that closes a loop, m or rad (the others are closed by construction)."""
        return float(np.abs(self._core.gaps).max(initial=0.0))

    @property
    def energy(self) -> Energy:
        return Energy(*self._core.energies)

    # keeping it

    def save(self) -> SavedState:
        """The present state; `restore` continues from it to the same bits."""
        return SavedState(
            self._core.history(), dict(self._loads), dict(self._handles), self._eqs.rest, dict(self._eqs.targets)
        )

    def restore(self, saved: SavedState) -> None:
        """Back to a saved state, with the loads, handles and targets of then."""
        if not isinstance(saved, SavedState) or len(saved.history) != len(self._core.history()):
            raise MechanismError("this state was saved by a simulation of another mechanism")
        self._loads, self._handles = dict(saved.loads), dict(saved.handles)
        self._push()
        self._eqs.set_targets(saved.rest, saved.targets)
        self._core.set_history(saved.history)

    def reset(self) -> None:
        """Back to the start."""
        self.restore(self._origin)


def _rates(eqs: Equations, rates: Array) -> tuple[Array, Array]:
    """Twists (bodies, 6) of the bodies and rates (axes,) of every joint's increments at given rates of q."""
    mech, q = eqs.mechanism, eqs.core.q
    slices, columns = axis_slices(mech), mech.topology.columns
    state = kinematics(mech, of_tree(mech, q))
    world = state.screws.T @ (mech.topology.moves * rates).T  # (6, bodies), at the world's origin
    twists = (spatial.adjoint(spatial.inverse(state.poses.array)) @ world.T[:, :, None])[..., 0]
    result = np.zeros(len(q))
    for i, joint in enumerate(mech.joints):
        if i in mech.topology.loops:  # from the bodies' motion relative to each other
            ends = [mech.body_index(name) for name in (joint.child, joint.parent)]
            across = sum((sign * world[:, b] for b, sign in zip(ends, (1, -1), strict=True) if b >= 0), np.zeros(6))
            frame = spatial.adjoint(spatial.inverse(state.poses[joint.child] @ joint.pose_child))
            turn = np.linalg.lstsq(joint.twist_jacobian(q[slices[i]]), frame @ across, rcond=None)[0]
        else:
            turn = rates[columns[i]]
        result[slices[i]] = joint.increments(q[slices[i]]) @ turn
    return twists, result


def _motor_value(name: str, motor: Callable[[float], float], time: float) -> float:
    if not callable(motor):
        raise MechanismError(f"motor '{name}' needs a function of time (s), got {motor!r:.60}")
    value = motor(time)
    if not isinstance(value, int | float | np.number):
        raise MechanismError(f"the function of motor '{name}' must return a number; at t = {time:g} s: {value!r:.40}")
    value = float(value)
    if not np.isfinite(value):
        raise MechanismError(f"motor '{name}' is not finite at t = {time:g} s: {value}")
    return value


def _check_jump(name: str, motor: Callable[[float], float], a: float, b: float) -> None:
    """Raises if halving the step again and again leaves most of the change in one half: a jump."""
    whole = abs(_motor_value(name, motor, b) - _motor_value(name, motor, a))
    for _ in range(20):
        middle = (a + b) / 2
        first, second, third = (_motor_value(name, motor, t) for t in (a, middle, b))
        a, b = (a, middle) if abs(second - first) > abs(third - second) else (middle, b)
    if abs(_motor_value(name, motor, b) - _motor_value(name, motor, a)) > 0.5 * whole:
        raise MechanismError(f"the curve of motor '{name}' jumps by {whole:g} at t = {b:g} s; motors move continuously")


def handle_spring(mech: Mechanism, stiffness: float | None, damping: float | None) -> tuple[float, float]:
    """Stiffness (N/m) and damping (N s/m) of a handle: by default what moves the whole mass at two hertz, critically
    damped."""
    k = mech.mass * (2 * np.pi * 2) ** 2 if stiffness is None else float(array(stiffness, (), "the handle's stiffness"))
    if k < 0:
        raise MechanismError(f"the stiffness of a handle must not be negative, got {k}")
    d = 2 * np.sqrt(k * mech.mass) if damping is None else float(array(damping, (), "the handle's damping"))
    if d < 0:
        raise MechanismError(f"the damping of a handle must not be negative, got {d}")
    return k, float(d)


def positive_seconds(value: object, what: str = "dt") -> float:
    """A time step or another time, or a clear error."""
    if not isinstance(value, int | float | np.number) or not 0 < value < np.inf:
        raise MechanismError(f"{what} must be a positive number of seconds, got {value!r}")
    return float(value)


def check_count(n: object) -> None:
    """Raises unless n is a number of steps."""
    if not isinstance(n, (int, np.integer)) or n < 0:  # a union would be made anew at every call
        raise MechanismError(f"the number of steps must be a whole number, 0 or more, got {n!r}")


def check_inertia(mech: Mechanism) -> None:
    """Every motion that joints and loops allow must move some mass, or have an armature."""
    if all(b.mass > 0 and np.linalg.eigvalsh(b.inertia)[0] > 0 for b in mech.bodies):
        return
    linear = linearised(mech)
    if not linear.mass.size:
        return
    scales, mass = evenly_scaled(linear.mass)
    values, vectors = np.linalg.eigh(mass)
    if values[0] > 1e-13:
        return
    light = np.abs(linear.free @ (scales[:, None] * vectors[:, values <= 1e-13])).max(axis=1)
    names = [name for name, size in zip(linear.equations.axis, light, strict=True) if size > 1e-3 * light.max()]
    raise MechanismError(
        f"dynamics cannot move {listed(names)} of '{mech.name}': the bodies beyond have no "
        "inertia; give them mass and inertia, or the joint an armature"
    )
