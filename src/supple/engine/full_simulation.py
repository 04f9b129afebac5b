"""Dynamics with all nodes of flexible bodies, without reduction: the reference for reduced flexible bodies."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from supple.engine.assembly import Acting, Load, Targets, loads, one_or_more_targets, read_targets
from supple.engine.dynamics import (
    METHODS,
    Handle,
    check_count,
    handle_spring,
    initial_rates,
    motor_value,
    movable_frames,
    positive_seconds,
    tree_rates,
)
from supple.engine.full import (
    FullEquilibrium,
    check_start_state,
    displacements_of,
    motor_torques_of,
    part_state,
    reactions_of,
)
from supple.engine.full_system import Failure, FullState, FullSystem
from supple.engine.full_terms import Differences
from supple.engine.statics import Equilibrium, checked_equilibrium
from supple.errors import ConvergenceError, MechanismError
from supple.mechanism import Mechanism, Poses
from supple.mechanism.axes import axis_slices, by_joint, of_tree, per_axis
from supple.mechanism.identity import Identity
from supple.mechanism.moving import Contact, Energy
from supple.mechanism.named import Coordinates, Twists
from supple.mechanism.notebook import brief
from supple.mechanism.poses import find
from supple.mechanism.record import Array, array
from supple.progress import progress_callback
from supple.recording.observing import Observer, advance_observed
from supple.recording.recordable import Recordable


@dataclass(frozen=True, eq=False)
class FullSavedState:
    """State of a full simulation of all nodes."""

    __repr__ = brief

    of: Identity
    dt: float
    """Time step of the simulation, s."""
    state: FullState
    before: FullState
    """One time step before."""
    fresh: bool
    """Whether the next step is the first, or follows a change of contact with a limit."""
    time: float
    loads: dict[str, Load]
    handles: dict[str, Handle]
    rest: Array
    targets: dict[str, float] = field(repr=False)


class FullSimulation(Recordable):
    """Simulates a mechanism with all nodes of its flexible bodies by implicit time steps of `dt` seconds.

    Positions of all nodes, poses of rigid bodies, joint coordinates and multipliers of joints and motors are solved
    together. The time differences are those of `Simulation` with the same method, so both agree where there are no
    flexible bodies, and where a basis represents the motion.

    Args:
        mech: the mechanism. A flexible body needs a basis for its description only: the full simulation uses its
            reference interface, and its modes if `q`, `rates` or `start` have modal amplitudes.
        dt: time step, s.
        method: "bdf2" (second order; the first step is backward Euler) or "euler".
        start: an equilibrium to start in, from `full_equilibrium` or `equilibrium`; its loads keep acting.
        q: (dof,) initial coordinates in the order of `mech.coordinates`, rad and m; by default the reference pose.
        rates: (dof,) their initial rates; zero if not given.
        motors: for each motor name a function of time (s) that returns the motor's position (rad or m).
    """

    def __init__(
        self,
        mech: Mechanism,
        dt: float = 5e-4,
        method: str = "bdf2",
        *,
        start: FullEquilibrium | Equilibrium | None = None,
        q: ArrayLike | None = None,
        rates: ArrayLike | None = None,
        motors: Mapping[str, Callable[[float], float]] | None = None,
    ) -> None:
        if method not in METHODS:
            raise MechanismError(f"method must be 'euler' or 'bdf2', got {method!r}")
        if start is not None and q is not None:
            raise MechanismError("`start` and `q` both give the initial pose; pass one of them")
        self.mechanism, self.dt, self.method = mech, positive_seconds(dt), method
        self.time = 0.0
        """Simulated time, s."""
        self._system = FullSystem(mech)
        self._set_points = self._system.eqs.acting()
        """What acts, as far as set-points go."""
        self._loads: dict[str, Load] = {}
        self._handles: dict[str, Handle] = {}
        self._motors = dict(motors or {})
        for name in self._motors:
            find([motor.name for motor in mech.motors], name, f"motor of '{mech.name}'")
        self._state = self._initial_state(start, q, rates)
        self._system.check_start(self._state, self._acting(0.0))
        self._before = self._state
        self._fresh = True  # the next step is the first, or follows a change of contact with a limit
        self.observers: list[Observer] = []
        """Recordings and logs of this simulation."""
        self._origin = self.save()

    def _initial_state(
        self, start: FullEquilibrium | Equilibrium | None, q: ArrayLike | None, rates: ArrayLike | None
    ) -> FullState:
        mech, eqs = self.mechanism, self._system.eqs
        if start is not None:
            if isinstance(start, Equilibrium):
                checked_equilibrium(start, mech, "start")
            else:
                check_start_state(start, mech)
            self._set_points = replace(start.acting)  # with targets of its own
            self._loads = {load.name: load for load in start.acting.loads}
        if isinstance(start, FullEquilibrium):
            if rates is not None:
                raise MechanismError("a FullEquilibrium starts at rest; give `rates` with `q` or an Equilibrium")
            return start.state
        coordinates = eqs.reference if start is None else start.state[0]
        if q is not None:
            moved = mech.at(array(q, (mech.dof,), f"q of '{mech.name}'"))
            coordinates = per_axis(moved, "reference")
        speeds = np.zeros(mech.dof) if rates is None else array(rates, (mech.dof,), f"rates of '{mech.name}'")
        return self._system.state_at(np.array(coordinates), *initial_rates(mech, coordinates, speeds))

    # loads and set-points

    def apply(self, body: str, wrench: ArrayLike, frame: str = "world") -> None:
        """Sets the wrench (6,), force (N) then torque (N m), at the origin of a body, interface frame or site. It acts
        until changed."""
        self._loads |= {load.name: load for load in loads(self.mechanism, {body: wrench}, frame)}

    def pull(
        self,
        body: str,
        point: ArrayLike | None,
        stiffness: float | None = None,
        damping: float | None = None,
        at: ArrayLike = (0.0, 0.0, 0.0),
    ) -> None:
        """Attaches a handle, as `Simulation.pull` does; `point=None` removes it. Its force lags one time step
        behind."""
        frame, pose_body_frame = self.mechanism.frame(body)
        if point is None:
            self._handles.pop(body, None)
            return
        if frame < 0:
            raise MechanismError(f"'{body}' is fixed to the world; it cannot be pulled")
        k, d = handle_spring(self.mechanism, stiffness, damping)
        on_body = pose_body_frame[:3, :3] @ array(at, (3,), "the handle's point") + pose_body_frame[:3, 3]
        self._handles[body] = Handle(frame, on_body, array(point, (3,), "the point to pull to"), k, d)

    def handle_stiffness(self, name: str) -> float:
        """N/m of a handle where `pull` names none."""
        return handle_spring(self.mechanism, None, None)[0]

    def _handle_loads(self) -> list[Load]:
        """Forces of the handles at the present state."""
        found = []
        for name, handle in self._handles.items():
            pose, twist = self._state.bodies.poses[handle.body], self._state.bodies.velocities[handle.body]
            at = pose[:3, :3] @ handle.point + pose[:3, 3]
            speed = pose[:3, :3] @ (twist[:3] + np.cross(twist[3:], handle.point))
            force = handle.stiffness * (handle.target - at) - handle.damping * speed
            found.append(Load(name, handle.body, handle.point, np.concatenate([force, np.zeros(3)]), True))
        return found

    def set_target(self, name: str | Targets, value: ArrayLike | None = None) -> None:
        """Sets set-points (rad or m) of springs of joints, of couplings and of motors, as `Simulation.set_target`."""
        self.set_targets(one_or_more_targets(name, value))

    def set_targets(self, targets: Targets) -> None:
        """Sets several set-points, as `set_target` does. If one is wrong, none is changed."""
        targets = read_targets(self.mechanism, targets)
        for name in targets:
            if name in self._motors:
                raise MechanismError(f"motor '{name}' follows its function of time; it takes no set-point")
        self._set_points = self._system.eqs.aimed(self._set_points, targets)

    @property
    def targets(self) -> dict[str, float]:
        """Set-points by name, rad or m; without the motors that follow a function of time."""
        found = self._system.eqs.set_points(self._set_points)
        return {name: value for name, value in found.items() if name not in self._motors}

    # time

    def step(self, n: int = 1, progress: Callable[[float], None] | None = None) -> None:
        """Advances by n time steps. `progress` is called with the fraction done; by default a long run shows a bar.

        Raises:
            ConvergenceError: a step does not converge, or inverts an element. The simulation and the error's `time` are
                then those after the last step that converged.
        """
        check_count(n)
        with progress_callback("full simulation", progress) as report:
            made = 0

            def advance(count: int) -> None:
                nonlocal made
                for _ in range(count):
                    self._advance(self.time + self.dt)
                    made += 1
                    report(made / n)

            advance_observed(self.observers, advance, n)

    def _advance(self, time: float) -> None:
        """One time step to `time`."""
        acting = self._acting(time)
        reached = self._solved_step(acting, 1 if self._fresh else METHODS[self.method])
        limits_changed = not isinstance(reached, Failure) and reached.bodies.active != self._state.bodies.active
        if limits_changed and not self._fresh:  # a second-order difference across an impact would add energy
            reached = self._solved_step(acting, 1)
        if isinstance(reached, Failure):
            raise ConvergenceError(
                f"the step from t = {self.time:.6g} s did not converge: {reached.reason}. The state is that of "
                "the last step that converged; take a smaller dt, slower motions or smaller loads",
                time=self.time,
            )
        self._before, self._state, self.time, self._fresh = self._state, reached, time, limits_changed
        self._set_points = acting

    def _solved_step(self, acting: Acting, order: int) -> FullState | Failure:
        trend = 0.0 if self._fresh else 0.5 if order == 2 else 1.0
        guess = self._system.predicted(self._state, self._before, self.dt, trend)
        step = Differences.of_order(self.dt, order)
        return self._system.solve(guess, acting, step, self._state, self._before)

    def _acting(self, time: float) -> Acting:
        driven = {name: motor_value(name, motor, time) for name, motor in self._motors.items()}
        loads = (*self._loads.values(), *self._handle_loads())
        rest, targets = self._set_points.rest, self._set_points.targets | driven
        return Acting(loads, self.mechanism.gravity, rest, targets)

    # state and forces

    @property
    def poses(self) -> Poses:
        """World poses (4, 4) of rigid bodies and interface frames. The amplitudes of flexible bodies are those that
        describe the displacements of their nodes best."""
        names = [flexible.name for flexible in self.mechanism.flexible]
        return Poses(self.mechanism, self._state.bodies.poses, dict(zip(names, self._amplitudes, strict=True)))

    @property
    def _amplitudes(self) -> list[Array]:
        """(r,) amplitudes of each flexible body, m, by least squares over its nodes."""
        parts = zip(self._system.parts, self._state.parts, self._inverse_modes, strict=True)
        return [inverse @ part.displacements(own.offsets).ravel() for part, own, inverse in parts]

    @property
    def _amplitude_rates(self) -> list[Array]:
        """(r,) rates of the amplitudes of each flexible body, m/s, by least squares over its nodes."""
        result = []
        for part, own, inverse in zip(self._system.parts, self._state.parts, self._inverse_modes, strict=True):
            pose, twist = own.poses[0], self._state.bodies.velocities[part.bodies[0]]
            relative = own.velocities @ pose[:3, :3] - twist[:3] - np.cross(twist[3:], own.offsets)
            result.append(inverse @ relative.ravel())
        return result

    @cached_property
    def _inverse_modes(self) -> list[Array]:
        """(r, 3n) of each flexible body: the pseudoinverse of its modes."""
        modes = (flexible.basis.modes for flexible in self.mechanism.flexible)
        return [np.asarray(np.linalg.pinv(each.reshape(-1, each.shape[2])), np.float64) for each in modes]

    def _with_amplitudes(self, values: Array, amplitudes: list[Array]) -> Array:
        """Values (axes,) of every joint, with those of the amplitudes of flexible bodies."""
        result, slices = values.copy(), axis_slices(self.mechanism)
        for flexible, own in zip(self.mechanism.flexible, amplitudes, strict=True):
            for name in flexible.moving:
                result[slices[self.mechanism.joint_index(flexible.frame(name))]] = own
        return result

    def displacements(self, name: str) -> Array:
        """(n, 3) displacements of the nodes of a flexible body, in its part's coordinates and relative to its reference
        interface, m; for `part.with_basis(snapshots=...)`."""
        return displacements_of(self.mechanism, self._state, name)

    def positions(self, name: str) -> Array:
        """(n, 3) positions of the nodes of a flexible body in the world, m."""
        return part_state(self.mechanism, self._state, name).positions.copy()

    @property
    def velocities(self) -> Twists:
        """(bodies, 6) twists of rigid bodies and interface frames, linear (m/s) then angular (rad/s), each in its own
        axes; also by name."""
        velocities: Twists = Twists(self.mechanism, self._state.bodies.velocities)
        return velocities

    @property
    def q(self) -> Coordinates:
        """(dof,) coordinates of the spanning tree, rad and m, also by name; amplitudes as in `poses`."""
        q: Coordinates = Coordinates(self.mechanism, of_tree(self.mechanism, self._all_coordinates))
        return q

    @property
    def qd(self) -> Coordinates:
        """(dof,) time derivative of `q`, rad/s and m/s; also by name."""
        rates = self._with_amplitudes(self._state.bodies.rates, self._amplitude_rates)
        qd: Coordinates = Coordinates(self.mechanism, tree_rates(self.mechanism, self._all_coordinates, rates))
        return qd

    @property
    def coordinates(self) -> dict[str, Array]:
        """Coordinates (k,) of every joint by name, rad and m; those of interfaces are the amplitudes, as in `poses`."""
        return by_joint(self.mechanism, self._all_coordinates)

    @property
    def _all_coordinates(self) -> Array:
        """(axes,) coordinates of every joint."""
        return self._with_amplitudes(self._state.bodies.q, self._amplitudes)

    @property
    def reactions(self) -> dict[str, Array]:
        """Wrench (6,) that each joint exerts on its child, in the joint's frame on the child; N and N m."""
        return reactions_of(self._system, self._state)

    @property
    def motor_torques(self) -> dict[str, float]:
        """Torque or force of each motor, rigid coupling and touched limit on its coordinates, N m or N."""
        return motor_torques_of(self._system, self._state)

    @property
    def energy(self) -> Energy:
        """Kinetic, strain and potential energy of bodies, springs and nodes."""
        system, state = self._system, self._state
        acting, gravity = self._acting(self.time), self.mechanism.gravity
        pairs = list(zip(system.parts, state.parts, strict=True))
        return Energy(
            system.bodies.kinetic_energy(state.bodies) + sum(part.kinetic_energy(own) for part, own in pairs),
            system.bodies.strain_energy(state.bodies, acting) + sum(part.strain_energy(own) for part, own in pairs),
            system.bodies.gravity_energy(state.bodies, gravity)
            + sum(part.gravity_energy(own, gravity) for part, own in pairs),
        )

    @property
    def momentum(self) -> Array:
        """(6,) linear momentum (kg m/s), and angular momentum about the world's origin (kg m^2/s)."""
        bodies = self._state.bodies
        own = bodies.momentum
        centres = self._system.bodies.centres(bodies.poses)
        total = np.concatenate([own[:, :3].sum(axis=0), (own[:, 3:] + np.cross(centres, own[:, :3])).sum(axis=0)])
        return sum((p.momentum(s) for p, s in zip(self._system.parts, self._state.parts, strict=True)), total)

    # what `supple.mechanism.moving.Moving` asks for

    kind = "nodes"
    contacts: tuple[Contact, ...] = ()
    """None: only a `World` has contact."""
    touches: Mapping[str, Any] = MappingProxyType({})
    """None: only a `World` has pads."""
    ellipsoids: Mapping[str, Any] = MappingProxyType({})
    """None: reduced models give the compliance of their end effectors."""
    controls: Mapping[str, float | None] = MappingProxyType({})
    """None: actuators of a file do not act here."""
    moving_joints: None = None
    """All joints move."""
    placeable: tuple[str, ...] = ()
    """None: a pose of the joints does not determine the nodes."""
    has_velocities = True
    can_set_torque = has_contacts = joints_separate = False

    @property
    def end_effectors(self) -> tuple[str, ...]:
        """Bodies, interface frames and sites that `apply` and `pull` act on: all but those of the world."""
        return movable_frames(self.mechanism)

    def set_q(self, q: Any) -> None:
        """Raises: a pose of the joints does not determine the nodes."""
        raise MechanismError("a full simulation of all nodes cannot be placed at joint coordinates; start one with q=")

    def set_torque(self, name: Any, torque: Any = None) -> None:
        """Raises: a full simulation of all nodes takes loads and set-points only."""
        raise MechanismError("a full simulation of all nodes takes no torques of joints; apply wrenches instead")

    def set_control(self, name: Any, control: Any = None) -> None:
        """Raises: a full simulation of all nodes takes loads and set-points only."""
        raise MechanismError("a full simulation of all nodes has no actuators; set the set-points of motors instead")

    def save(self) -> FullSavedState:
        """Returns the present state. After `restore` the simulation repeats to the last bit; for this, the next step
        factorises the elements again."""
        self._system.forget_factors()
        return FullSavedState(
            Identity(self.mechanism), self.dt, self._state, self._before, self._fresh, self.time, dict(self._loads),
            dict(self._handles), self._set_points.rest, dict(self._set_points.targets),
        )  # fmt: skip

    def restore(self, saved: FullSavedState) -> None:
        """Returns to a saved state with its loads, handles and set-points. The state may be that of another simulation
        of an equal mechanism. If it had another time step, the next step is backward Euler, as at the start."""
        if not isinstance(saved, FullSavedState) or not saved.of.is_of(self.mechanism):
            raise MechanismError(
                f"this state was saved by a simulation of another mechanism than '{self.mechanism.name}', or of one "
                "with other masses, springs or poses"
            )
        self._state, self._before, self.time = saved.state, saved.before, saved.time
        self._fresh = saved.fresh or saved.dt != self.dt
        self._loads, self._handles = dict(saved.loads), dict(saved.handles)
        self._set_points = replace(self._set_points, rest=saved.rest, targets=dict(saved.targets))
        self._system.forget_factors()

    def reset(self) -> None:
        """Returns to the initial state."""
        self.restore(self._origin)

    def __repr__(self) -> str:
        return f"FullSimulation('{self.mechanism.name}': t = {self.time:g} s, dt = {self.dt:g} s, {self.method})"
