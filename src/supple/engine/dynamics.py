"""Full constrained dynamics: implicit time steps of a mechanism."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import accumulate
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from supple import spatial
from supple.engine.actuation import engine_core, set_controls, set_torques
from supple.engine.assembly import (
    Acting,
    Equations,
    Load,
    Targets,
    body_load,
    check_frame,
    equations,
    load_arrays,
    one_or_more_targets,
    read_targets,
)
from supple.engine.linearisation import evenly_scaled, linearised
from supple.engine.starting import LARGEST_START_GAP, broken_limits, closed_start, start_faults
from supple.engine.statics import Equilibrium, checked_equilibrium
from supple.engine.tape import Tape
from supple.errors import ConvergenceError, MechanismError, listed, user_level
from supple.mechanism import Mechanism, Poses, assemble, kinematics, mass_matrix
from supple.mechanism.axes import axis_slices, by_joint, of_tree, per_axis
from supple.mechanism.flexible import warn_beyond_range
from supple.mechanism.identity import Identity
from supple.mechanism.kinematics import FURTHEST
from supple.mechanism.moving import Contact, Energy
from supple.mechanism.named import Coordinates, Twists
from supple.mechanism.notebook import brief, html_table
from supple.mechanism.poses import amplitudes_in
from supple.mechanism.record import Array, array
from supple.mechanism.singular import singular_pose
from supple.mechanism.values import by_coordinate
from supple.recording.observing import Observer, advance_observed
from supple.recording.recordable import Recordable

METHODS = {"euler": 1, "bdf2": 2}
JUMP_CHECK = 0.02
"""Change of a motor's curve within one time step, rad or m, above which the curve is checked for a jump."""
NO_MOTORS = np.zeros((0, 0))
STEPS_AT_ONCE = 256
"""Time steps in one call of the core; Ctrl-C takes effect between calls."""


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
    """Everything that the next time steps depend on: a restored simulation repeats to the last bit."""

    __repr__ = brief

    of: Identity
    dt: float
    """Time step of the simulation, s."""
    history: Array
    loads: dict[str, Load]
    handles: dict[str, Handle]
    rest: Array
    targets: dict[str, float]
    torques: Array
    """(axes,) of `set_torque`."""
    actuation: Array
    """(actuators, 4): whether it is on, control, activation, and the constant force that the springs contain."""


class Simulation(Recordable):
    """Simulates a mechanism by implicit time steps of `dt` seconds. All joints are closed at the end of each step.

    Args:
        mech: the mechanism.
        dt: time step, s.
        method: "euler" (backward Euler, first order, damps fast vibrations) or "bdf2" (second order).
        q: (dof,) initial coordinates, rad and m; those of the reference pose if not given.
        rates: (dof,) their initial rates; zero if not given.
        at: an equilibrium to start in; its loads and set-points keep acting.
        motors: for each motor name a function of time (s) that returns the motor's position (rad or m).
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
        self._prepare(mech, positive_seconds(dt), method, motors)
        self._begin(q, rates, at)
        self._origin = self.save()

    def _prepare(
        self, mech: Mechanism, dt: float, method: str, motors: Mapping[str, Callable[[float], float]] | None
    ) -> None:
        """Builds the equations; the state follows by `_begin` or `restore`."""
        if method not in tuple(METHODS):
            raise MechanismError(f"method must be 'euler' or 'bdf2', got {method!r}")
        self.mechanism, self.dt, self.method = mech, dt, method
        self._eqs: Equations = equations(mech, with_actuators=True)
        check_inertia(mech)
        self._core = engine_core(self._eqs, self._eqs.acting())
        if motors is not None and not isinstance(motors, Mapping):
            raise MechanismError("motors are given as {name: function of time (s)}")
        self._motors = dict(motors or {})
        self._beyond_range: set[str] = set()
        self._softened = False
        names = [motor.name for motor in mech.motors]
        for name in self._motors:
            if name not in names:
                raise MechanismError(f"there is no motor named '{name}'; '{mech.name}' has {names or 'none'}")
        self.observers: list[Observer] = []
        """Recordings and logs of this simulation."""
        self._load_places: dict[str, int] = {}
        """Place of the load on each body or site in the core."""
        self._loads_given: list[Load] = []
        """Loads by place, with the wrenches of the first calls of `apply`."""
        self._like_q, self._like_velocities = Coordinates.like(mech, mech.dof), Twists.like(mech, len(mech.bodies), 6)
        self._handles: dict[str, Handle] = {}

    def _begin(self, q: ArrayLike | None, rates: ArrayLike | None, at: Equilibrium | None) -> None:
        mech, eqs, core = self.mechanism, self._eqs, self._core
        state = eqs.zero_state()
        if at is not None and q is not None:
            raise MechanismError("`at` and `q` both give the initial pose; pass one of them")
        if at is not None:
            state = checked_equilibrium(at, mech, "at").state
            core.aim(*eqs.compiled_set_points(at.acting))
            core.act(eqs.compiled(at.acting))
            self._set_loads({load.name: load for load in at.loads})
        elif q is not None:
            moved = mech.at(array(q, (mech.dof,), f"q of '{mech.name}'"))
            state = (per_axis(moved, "reference"), *state[1:])
        core.place(*state)
        if at is None and (closed := closed_start(eqs, self._set_points, core)) is not None:
            state = (per_axis(mech.at(closed), "reference"), *state[1:])
            core.place(*state)
        turn = np.zeros(mech.dof) if rates is None else array(rates, (mech.dof,), f"rates of '{mech.name}'")
        core.start(self.dt, METHODS[self.method], 0.0, *initial_rates(mech, state[0], turn))
        self._check_start(state[0])

    def _check_start(self, q: Array) -> None:
        """Raises unless motors are at their coordinates."""
        mech, eqs, targets = self.mechanism, self._eqs, dict(self._set_points.targets)
        for motor in mech.motors:
            if (function := self._motors.get(motor.name)) is not None:
                targets[motor.name] = motor_value(motor.name, function, 0.0)
            target, value = targets[motor.name], q[eqs.axis[motor.coordinate]]
            if abs(target - value) > LARGEST_START_GAP:
                raise MechanismError(
                    f"motor '{motor.name}' starts at {target:g} but its coordinate is at {value:g}; start the "
                    "simulation there (q=..., or at=supple.equilibrium(mech)), or let the motor start at its coordinate"
                )
        self._core.aim(*eqs.compiled_set_points(replace(self._set_points, targets=targets)))

    # loads and set-points

    def apply(self, body: str, wrench: ArrayLike, frame: str = "world") -> None:
        """Sets the wrench (6,), force (N) then torque (N m), at the origin of a body or site. It acts until changed.

        `frame` is "world" (directions fixed in the world) or "body" (the wrench is in body axes and turns with them).
        """
        place = self._load_places.get(body) if isinstance(body, str) else None
        same_axes = frame == "world" or (frame == "body" and body in self.mechanism.body_indices)
        if place is not None and same_axes and self._core.set_wrench(place, wrench, frame == "world"):
            return
        check_frame(frame)
        load = body_load(self.mechanism, body, wrench, frame)
        if place is None:
            place = self._load_places[body] = len(self._loads_given)
            self._loads_given.append(load)
        self._loads_given[place] = load
        self._core.set_load(place, load.body, load.point, load.wrench, load.world)

    @property
    def _loads(self) -> dict[str, Load]:
        """The present loads by body or site."""
        given = zip(self._loads_given, self._core.wrenches, strict=True)
        return {load.name: replace(load, wrench=wrench) for load, wrench in given}

    def _set_loads(self, loads: Mapping[str, Load]) -> None:
        self._loads_given = list(loads.values())
        self._load_places = {name: place for place, name in enumerate(loads)}
        self._core.set_loads(*load_arrays(self._loads_given))

    def pull(
        self,
        body: str,
        point: ArrayLike | None,
        stiffness: float | None = None,
        damping: float | None = None,
        at: ArrayLike = (0.0, 0.0, 0.0),
    ) -> None:
        """Attaches a handle: a spring from a point `at` of a body (in its frame, m) to a `point` of the world, m.

        A later call moves the point; `point=None` removes the handle. By default the spring gives the mechanism's
        whole mass a frequency of 2 Hz with critical damping.
        """
        frame, pose_body_frame = self.mechanism.frame(body)
        if point is None:
            self._handles.pop(body, None)
        else:
            if frame < 0:
                raise MechanismError(f"'{body}' is fixed to the world; it cannot be pulled")
            k, d = handle_spring(self.mechanism, stiffness, damping)
            on_body = pose_body_frame[:3, :3] @ array(at, (3,), "the handle's point") + pose_body_frame[:3, 3]
            self._handles[body] = Handle(frame, on_body, array(point, (3,), "the point to pull to"), k, d)
        self._send_handles()

    def _send_handles(self) -> None:
        """Hands the handles to the core."""
        handles = list(self._handles.values())
        self._core.set_handles(
            [h.body for h in handles],
            np.array([h.point for h in handles]).reshape(-1, 3),
            np.array([h.target for h in handles]).reshape(-1, 3),
            [h.stiffness for h in handles],
            [h.damping for h in handles],
        )

    def set_target(self, name: str | Targets, value: ArrayLike | None = None) -> None:
        """Sets set-points (rad or m) of springs of joints, of couplings and of motors.

        `set_target("elbow", 0.3)` sets one, `set_target({"elbow": 0.3, "wrist": 0.1})` several, `set_target(q)` with q
        (dof,) those of all coordinates with a spring or motor. If one is wrong, none is changed.
        """
        if self._motors or not self._core.set_targets(name, value, FURTHEST):
            self._set_targets(one_or_more_targets(name, value))

    def set_targets(self, targets: Targets) -> None:
        """Sets several set-points, as `set_target` does. If one is wrong, none is changed."""
        if isinstance(targets, str) or self._motors or not self._core.set_targets(targets, None, FURTHEST):
            self._set_targets(targets)

    def _set_targets(self, targets: Targets) -> None:
        """Checks set-points and sets them."""
        targets = read_targets(self.mechanism, targets)
        for name in targets:
            if name in self._motors:
                raise MechanismError(f"motor '{name}' follows its function of time; it takes no set-point")
        self._aim(self._eqs.aimed(self._set_points, targets))

    @property
    def _set_points(self) -> Acting:
        """The present set-points, without the loads."""
        return self._eqs.acting_at(*self._core.set_points)

    def _aim(self, acting: Acting) -> None:
        """Hands other set-points to the core."""
        self._core.aim(*self._eqs.compiled_set_points(acting))

    @property
    def targets(self) -> dict[str, float]:
        """Set-points of springs of joints, of couplings and of motors by name, rad or m; without the motors that follow
        a function of time."""
        found = self._eqs.set_points(self._set_points)
        return {name: value for name, value in found.items() if name not in self._motors}

    def set_torque(self, name: str | Mapping[str, ArrayLike] | ArrayLike, torque: ArrayLike | None = None) -> None:
        """Sets the torques of drives on joints, N m or N. They act until changed, and saturate at `Joint.effort`.

        `set_torque("elbow", 2.0)` sets one joint or coordinate, `set_torque({"elbow": 2.0, "wrist": 0.1})` several,
        `set_torque(tau)` with tau (dof,) all of them. A joint of several axes takes one number for each axis. Torques
        are paired with `qd`: their power is tau @ qd. They are added to the forces of springs and actuators. If one is
        wrong, none is changed.
        """
        if not self._core.set_torques(name, torque):
            set_torques(self._eqs, self._core, name, torque)

    def set_control(self, name: str | Mapping[str, float | None] | ArrayLike, control: float | None = None) -> None:
        """Sets the controls of actuators by name, in the units of their file; limited to the actuator's range.

        `set_control("grip", 255)` sets one, `set_control({"grip": 255})` several, `set_control(values)` with an array
        (actuators,) all. The control None switches an actuator off: its force is zero. If one is wrong, none is
        changed.
        """
        if not self._core.set_controls(name, control):
            set_controls(self._eqs, self._core, name, control)

    def step(self, n: int = 1) -> None:
        """Advances by n time steps.

        Raises `ConvergenceError` if a step does not converge, even when divided into smaller ones. The error's `time`
        and the simulation are then those after the last step that converged.
        """
        check_count(n)
        if self.in_world is not None:
            raise stepped_by_world(self.in_world)
        if self.observers:
            advance_observed(self.observers, self._advance, n)
        else:
            self._advance(n)

    def _advance(self, n: int) -> None:
        for first in range(0, n, STEPS_AT_ONCE):
            count = min(STEPS_AT_ONCE, n - first)
            done = self._core.step(*self._targets(count), count) if self._motors else self._core.step(count)
            if self._core.softened:
                self._warn_of_softened_limits()
            if self.mechanism.flexible:
                warn_beyond_range(self.mechanism.flexible, self.coordinates, self._beyond_range)
            if done < count:
                raise ConvergenceError(
                    f"the step from t = {self.time:.6g} s did not converge, even with a thousandth of dt: "
                    f"{self._failure_reason()}. The state is that before this step",
                    time=self.time,
                )

    def _warn_of_softened_limits(self) -> None:
        """Warns once if limits gave way in steps that have no solution with exact ones."""
        if self._softened:
            return
        self._softened = True
        beyond = "; ".join(fault.text for fault in broken_limits(self._eqs, self._core.q, "is")[:3])
        light = (
            ". No joint is beyond its limit now; if none was near it, a light body turned too far in a time step: "
            "take a smaller dt, or give its joint damping or an armature"
        )
        warnings.warn(
            f"limits of '{self.mechanism.name}' contradict each other, its loops or its motors before "
            f"t = {self.time:.6g} s{': ' * bool(beyond)}{beyond}. Steps that have no solution with exact limits treat "
            f"them as stiff springs{'' if beyond else light}",
            stacklevel=user_level(),
        )

    def _failure_reason(self) -> str:
        """Why the last step did not converge and what helps, for an error message."""
        motors = [motor.coordinate for motor in self.mechanism.motors]
        *_, q = self._core.convergence_failure  # after the last part of the step that converged
        if (singular := singular_pose(self.mechanism, np.array(q), motors)) is not None:
            return f"{singular}. Start or stay a little off this pose, for instance by a limit or a spring"
        remedy = "Limits or motors contradict each other, or a force is too large; apply less, or take a smaller dt"
        return f"{self._unconverged()}. {remedy}"

    def _unconverged(self) -> str:
        """The part that did not converge in the last step."""
        eqs = self._eqs
        axis, joint, row, size, _ = self._core.convergence_failure
        if axis >= 0:
            return f"coordinate '{list(eqs.axis)[axis]}' still moves by {size:.1g}"
        if joint >= 0:
            return f"the loop at joint '{eqs.mechanism.joints[joint].name}' stays open by {size:.1g}"
        if row >= 0:
            name = [*eqs.row, *eqs.limit_names][row]
            return f"the motor, coupling or limit '{name}' is off by {size:.1g}"
        return "a body or joint turns too far in one step"

    def _targets(self, n: int) -> tuple[list[int], Array]:
        """Rows of the motors with a function of time, and their positions (n, rows) at the ends of n time steps."""
        driven = [self._eqs.row[name] for name in self._motors]
        times = list(accumulate([self.time, *[self.dt] * n]))  # summed as in the core, so that any split agrees
        targets = np.zeros((n, len(driven)))
        for i, (name, motor) in enumerate(self._motors.items()):
            values = [motor_value(name, motor, time) for time in times]
            for k in np.flatnonzero(np.abs(np.diff(values)) > JUMP_CHECK):
                _check_jump(name, motor, times[k], times[k + 1])
            targets[:, i] = values[1:]
        return driven, targets

    # stepped by a World

    @property
    def participant(self) -> Any:
        """The core's part in a `World`."""
        return self._core.participant

    def plan(self, n: int) -> Array:
        """Hands the positions (n, motors) of the motors in the next n time steps of a `World` to the core."""
        if not self._motors:
            return NO_MOTORS
        driven, targets = self._targets(n)
        self._core.schedule(driven, targets)
        return targets

    def reached(self, targets: Array, done: int) -> None:
        """Takes note that `done` of the planned time steps succeeded; the core has the motors' positions."""
        if self._core.softened:
            self._warn_of_softened_limits()

    # state and forces

    @property
    def time(self) -> float:
        """Simulated time, s."""
        return float(self._core.time)

    @property
    def poses(self) -> Poses:
        """World poses (4, 4) of every body."""
        mech = self.mechanism
        amplitudes = amplitudes_in(mech, self._core.q) if mech.flexible else None
        poses = np.empty((len(mech.bodies), 4, 4))
        self._core.read_poses(poses)
        return Poses(mech, poses, amplitudes, False)

    @property
    def velocities(self) -> Twists:
        """(bodies, 6) twists, linear (m/s) then angular (rad/s), each in its body's own frame; also by name of a body
        or site."""
        velocities: Twists = self._core.velocities(self._like_velocities)
        return velocities

    @property
    def q(self) -> Coordinates:
        """(dof,) coordinates of the spanning tree, rad and m, in the order of `mech.coordinates`; also by name."""
        q: Coordinates = self._core.tree_q(self._like_q)
        return q

    @property
    def qd(self) -> Coordinates:
        """(dof,) time derivative of `q`, rad/s and m/s; also by name. For a rotation vector it is not the angular
        velocity."""
        qd: Coordinates = self._core.tree_rates(self._like_q)
        return qd

    @property
    def torques(self) -> Coordinates:
        """(dof,) torques that `set_torque` has set, limited to the joints' efforts, N m or N; also by name."""
        torques: Coordinates = Coordinates(self.mechanism, of_tree(self.mechanism, self._core.applied))
        return torques

    @property
    def controls(self) -> dict[str, float | None]:
        """Control of each actuator by name; None if it is switched off."""
        values = self._core.actuation
        return {name: float(values[i, 1]) if values[i, 0] else None for name, i in self._eqs.actuator.items()}

    @property
    def actuator_forces(self) -> dict[str, float]:
        """Force of each actuator by name, before its gear, N m or N."""
        return dict(zip(self._eqs.actuator, self._core.actuator_forces.tolist(), strict=True))

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
        """Largest gap of a joint that closes a loop, m or rad. The joints of the spanning tree have no gap."""
        return float(np.abs(self._core.gaps).max(initial=0.0))

    @property
    def momentum(self) -> Array:
        """(6,) linear momentum, kg m/s, and angular momentum about the world's origin, kg m^2/s; world axes. Armatures
        have none."""
        momentum: Array = self._core.momentum[0]
        return momentum

    @property
    def energy(self) -> Energy:
        """Kinetic energy, energy of the springs and of gravity, J."""
        return Energy(*self._core.energies)

    def handle_stiffness(self, name: str) -> float:
        """N/m of a handle where `pull` names none."""
        return handle_spring(self.mechanism, None, None)[0]

    def set_q(self, q: ArrayLike | Mapping[str, float]) -> None:
        """Places the joints at coordinates (dof,) or {name: position}, rad or m, at rest. Time, loads, handles and
        set-points stay; motors are moved to their coordinates. Loops are closed by the least motion."""
        mech, eqs, core = self.mechanism, self._eqs, self._core
        values = by_coordinate(mech, q, np.asarray(self.q), "q")
        moves = dict(zip(mech.coordinates, values != np.asarray(self.q), strict=True))
        for motor in mech.motors:
            if motor.name in self._motors and moves.get(motor.coordinate):
                raise MechanismError(
                    f"'{motor.coordinate}' follows the function of motor '{motor.name}'; it cannot be placed"
                )
        state = (per_axis(mech.at(values), "reference"), *eqs.zero_state()[1:])
        if start_faults(eqs, self._set_points, eqs.evaluated(self._set_points, state)):
            closed = assemble(mech, values, keep=[name for name in mech.coordinates if moves[name]]).q
            state = (per_axis(mech.at(closed), "reference"), *state[1:])
        rates = initial_rates(mech, state[0], np.zeros(mech.dof))
        core.place(*state)
        core.start(self.dt, METHODS[self.method], self.time, *rates)
        moved = {motor.name: state[0][eqs.axis[motor.coordinate]] for motor in mech.motors}
        self._aim(eqs.aimed(self._set_points, {name: q for name, q in moved.items() if name not in self._motors}))

    # what `supple.mechanism.moving.Moving` asks for

    kind = "engine"
    contacts: tuple[Contact, ...] = ()
    """None: only a `World` has contact."""
    touches: Mapping[str, Any] = MappingProxyType({})
    """None: only a `World` has pads."""
    ellipsoids: Mapping[str, Any] = MappingProxyType({})
    """None: reduced models give the compliance of their end effectors."""
    moving_joints: None = None
    """All joints move."""
    can_set_torque = has_velocities = True
    has_contacts = joints_separate = limits_forces = False

    @property
    def end_effectors(self) -> tuple[str, ...]:
        """Bodies and sites that `apply` and `pull` act on: all but those of the world."""
        return movable_frames(self.mechanism)

    @property
    def placeable(self) -> tuple[str, ...]:
        """Coordinates that `set_q` can place: all."""
        return self.mechanism.coordinates

    def limit_forces(self) -> None:
        """Does nothing: the engine limits the forces of actuators within each time step."""

    def contact_frames(self) -> list[tuple[int, int, Array]]:
        """Frames that a `World` fixes shapes to: index of the frame, index of its body, pose (4, 4) of the body in the
        frame. Every body is one."""
        return [(i, i, np.eye(4)) for i in range(len(self.mechanism.bodies))]

    # tape and saving

    def tape(self) -> Tape:
        """Starts a record of the time steps that follow, for the derivatives of `supple.engine.adjoint`.

        The recording ends with `Tape.stop()` or with the `with` block of the tape.
        """
        return Tape(self._eqs, self._core)

    def save(self) -> SavedState:
        """Returns the present state. After `restore` the simulation repeats to the last bit."""
        acting = self._set_points
        return SavedState(
            Identity(self.mechanism),
            self.dt,
            self._core.history(),
            self._loads,
            dict(self._handles),
            acting.rest,
            acting.targets,
            self._core.applied,
            self._core.actuation,
        )

    def restore(self, saved: SavedState) -> None:
        """Returns to a saved state with its loads, handles and set-points. The state may be that of another simulation
        of an equal mechanism. If it had another time step, the next step is backward Euler, as at the start."""
        self.check_saved(saved)
        self._handles = dict(saved.handles)
        self._set_loads(saved.loads)
        self._send_handles()
        self._aim(replace(self._set_points, rest=saved.rest, targets=dict(saved.targets)))
        self._core.set_applied(saved.torques)
        self._core.set_actuation(saved.actuation)
        self._core.set_history(saved.history)
        if saved.dt != self.dt:
            self._core.forget_past()

    def check_saved(self, saved: object) -> None:
        """Raises unless `saved` is a state of an equal mechanism."""
        if not isinstance(saved, SavedState) or not saved.of.is_of(self.mechanism):
            raise MechanismError(
                f"this state was saved by a simulation of another mechanism than '{self.mechanism.name}', or of one "
                "with other masses, springs or poses"
            )
        if not self._core.fits(saved.history):
            raise MechanismError("this state was saved by another version of supple")

    def reset(self) -> None:
        """Returns to the initial state."""
        self.restore(self._origin)

    def __reduce__(self) -> Any:
        """For pickle and copy: the mechanism, the options, the present and the initial state. Functions of motors are
        pickled by their names."""
        return _restored, (self.mechanism, self.dt, self.method, self._motors, self.save(), self._origin)

    def __repr__(self) -> str:
        return f"Simulation('{self.mechanism.name}': t = {self.time:g} s, dt = {self.dt:g} s, {self.method})"

    def _repr_html_(self) -> str:
        return html_table(f"Simulation of {self.mechanism.name}", {
            "mechanism": self.mechanism, "time": f"{self.time:g} s", "time step": f"{self.dt:g} s ({self.method})",
            "kinetic energy": f"{self.energy.kinetic:.4g} J", "loads": ", ".join(self._load_places) or "none",
        })  # fmt: skip


def _restored(
    mech: Mechanism, dt: float, method: str, motors: dict[str, Callable[[float], float]], present: SavedState,
    origin: SavedState,
) -> Simulation:  # fmt: skip
    """A simulation in a saved state."""
    sim = Simulation.__new__(Simulation)
    sim._prepare(mech, dt, method, motors)
    core, eqs = sim._core, sim._eqs
    core.place(*eqs.zero_state())
    core.start(dt, METHODS[method], 0.0, np.zeros((len(mech.bodies), 6)), np.zeros(len(eqs.reference)))
    sim._origin = origin
    sim.restore(present)
    return sim


def initial_rates(mech: Mechanism, q: Array, rates: Array) -> tuple[Array, Array]:
    """Twists (bodies, 6) of the bodies and rates (axes,) of every joint's increments at coordinates q (axes,), from
    rates (dof,) of those of the tree."""
    slices, columns = axis_slices(mech), mech.topology.columns
    state = kinematics(mech, of_tree(mech, q))
    world = state.screws.T @ (mech.topology.moves * rates).T  # (6, bodies), at the world's origin
    twists = (spatial.adjoint(spatial.inverse(state.poses.array)) @ world.T[:, :, None])[..., 0]
    result = np.zeros(len(q))
    for i, joint in enumerate(mech.joints):
        if i in mech.topology.loops:  # from the relative motion of its bodies
            ends = [mech.body_index(name) for name in (joint.child, joint.parent)]
            across = sum((sign * world[:, b] for b, sign in zip(ends, (1, -1), strict=True) if b >= 0), np.zeros(6))
            frame = spatial.adjoint(spatial.inverse(state.poses[joint.child] @ joint.pose_child))
            turn = np.linalg.lstsq(joint.twist_jacobian(q[slices[i]]), frame @ across, rcond=None)[0]
        else:
            turn = rates[columns[i]]
        result[slices[i]] = joint.increments(q[slices[i]]) @ turn
    return twists, result


def tree_rates(mech: Mechanism, q: Array, increments: Array) -> Array:
    """(dof,) rates of q from the rates (axes,) of every joint's increments at coordinates q (axes,)."""
    slices, rates = axis_slices(mech), of_tree(mech, increments)
    for j in mech.topology.tree:
        joint, part = mech.joints[j], slices[j]
        if 3 in joint.blocks:
            rates[mech.topology.columns[j]] = np.linalg.solve(joint.increments(q[part]), increments[part])
    return rates


def motor_value(name: str, motor: Callable[[float], float], time: float) -> float:
    """The position that a motor's function returns, or a `MechanismError`."""
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
    """Raises if the function jumps between a and b: bisection leaves most of the change in one half every time."""
    whole = abs(motor_value(name, motor, b) - motor_value(name, motor, a))
    for _ in range(20):
        middle = (a + b) / 2
        first, second, third = (motor_value(name, motor, t) for t in (a, middle, b))
        a, b = (a, middle) if abs(second - first) > abs(third - second) else (middle, b)
    if abs(motor_value(name, motor, b) - motor_value(name, motor, a)) > 0.5 * whole:
        raise MechanismError(f"the curve of motor '{name}' jumps by {whole:g} at t = {b:g} s; motors move continuously")


def handle_spring(mech: Mechanism, stiffness: float | None, damping: float | None) -> tuple[float, float]:
    """Stiffness (N/m) and damping (N s/m) of a handle. By default the whole mass has a frequency of 2 Hz on it with
    critical damping."""
    k = mech.mass * (2 * np.pi * 2) ** 2 if stiffness is None else float(array(stiffness, (), "the handle's stiffness"))
    if k < 0:
        raise MechanismError(f"the stiffness of a handle must not be negative, got {k}")
    d = 2 * np.sqrt(k * mech.mass) if damping is None else float(array(damping, (), "the handle's damping"))
    if d < 0:
        raise MechanismError(f"the damping of a handle must not be negative, got {d}")
    return k, float(d)


def movable_frames(mech: Mechanism) -> tuple[str, ...]:
    """Names of all bodies, and of the sites that are not fixed to the world."""
    return (*(b.name for b in mech.bodies), *(s.name for s in mech.sites if mech.frame(s.name)[0] >= 0))


def positive_seconds(value: object, argument: str = "dt") -> float:
    """Returns a positive time in seconds, or raises."""
    if not isinstance(value, int | float | np.number) or not 0 < value < np.inf:
        raise MechanismError(f"{argument} must be a positive number of seconds, got {value!r}")
    return float(value)


def check_count(n: object) -> None:
    """Raises unless n is a number of steps."""
    if not isinstance(n, (int, np.integer)) or n < 0:  # int | np.integer would build a union at every call
        raise MechanismError(f"the number of steps must be a whole number, 0 or more, got {n!r}")


def stepped_by_world(name: str) -> MechanismError:
    """The error for a simulation that is in a world under a name and was stepped by itself."""
    return MechanismError(
        f"'{name}' is in a world, which steps it together with all that it touches; call step of the world, or make "
        "another simulation"
    )


def check_inertia(mech: Mechanism) -> None:
    """Raises if joints and loops allow a motion without mass or armature."""
    if all(b.mass > 0 and np.linalg.eigvalsh(b.inertia)[0] > 0 for b in mech.bodies):
        return
    if not mech.dof or np.linalg.eigvalsh(evenly_scaled(mass_matrix(mech))[1])[0] > 1e-13:
        return  # the tree has mass in all its motions, so also in those that loops allow
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
        f"dynamics cannot move {listed(names)} of '{mech.name}': the bodies that they move "
        "have no inertia; give them mass and inertia, or the joint an armature"
    )
