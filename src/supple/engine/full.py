"""Full simulation: all nodes of flexible bodies, without reduction. It is the reference for reduced flexible bodies,
and its runs give snapshots for their bases."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import accumulate

import numpy as np
from numpy.typing import ArrayLike

from supple.engine.assembly import Acting, Load, loads
from supple.engine.dynamics import METHODS, check_count, initial_rates, motor_value, positive_seconds
from supple.engine.full_part import PartState
from supple.engine.full_system import Failure, FullState, FullSystem
from supple.engine.full_terms import Differences
from supple.engine.linearisation import Linearisation, check_held
from supple.engine.statics import Equilibrium, checked_equilibrium
from supple.errors import ConvergenceError, MechanismError
from supple.mechanism import Mechanism, Poses
from supple.mechanism.axes import per_axis
from supple.mechanism.moving import Energy
from supple.mechanism.poses import find
from supple.mechanism.record import Array, array
from supple.progress import progress_callback

SMALLEST_FRACTION = 1 / 512
"""Smallest step of the load's fraction in statics."""
EASY = 8
"""A load step that took fewer Newton iterations than this doubles the next one."""


@dataclass(frozen=True, eq=False)
class FullEquilibrium:
    """A state of all nodes in which all forces balance."""

    mechanism: Mechanism
    poses: Poses
    """World poses (4, 4) of rigid bodies and interface frames."""
    coordinates: dict[str, Array]
    """Coordinates (k,) of every joint, except those of interfaces, by its name; rad and m."""
    reactions: dict[str, Array]
    """Wrench (6,) that each joint exerts on its child, in the joint's frame on the child; N and N m."""
    motor_torques: dict[str, float]
    """Torque or force of each motor, rigid coupling and touched limit on its coordinates, N m or N."""
    load_fraction: float
    """Fraction of the load that this state balances: 1, or less in the `state` of a `ConvergenceError`."""
    iterations: int
    """Number of Newton iterations."""
    acting: Acting = field(repr=False)
    """Loads, gravity and set-points."""
    state: FullState = field(repr=False)

    def displacements(self, name: str) -> Array:
        """(n, 3) displacements of the nodes of a flexible body, in its part's coordinates and relative to its reference
        interface, m; for `part.with_basis(snapshots=...)`."""
        return displacements_of(self.mechanism, self.state, name)


class FullSimulation:
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
        self._loads: dict[str, Load] = {}
        self._motors = dict(motors or {})
        for name in self._motors:
            find([motor.name for motor in mech.motors], name, f"motor of '{mech.name}'")
        self._state = self._initial_state(start, q, rates)
        self._system.check_start(self._state, self._acting(0.0))
        self._before = self._state
        self._fresh = True  # the next step is the first, or follows a change of contact with a limit

    def _initial_state(
        self, start: FullEquilibrium | Equilibrium | None, q: ArrayLike | None, rates: ArrayLike | None
    ) -> FullState:
        mech, eqs = self.mechanism, self._system.eqs
        if start is not None:
            if isinstance(start, Equilibrium):
                checked_equilibrium(start, mech, "start")
            else:
                _check_start_state(start, mech)
            start.acting.apply_to(eqs)
            self._loads = {load.name: load for load in start.acting.loads}
        if isinstance(start, FullEquilibrium):
            if rates is not None:
                raise MechanismError("a FullEquilibrium starts at rest; give `rates` with `q` or an Equilibrium")
            return start.state
        coordinates = eqs.reference if start is None else start.state[0]
        if q is not None:
            moved = mech.at(array(q, (mech.dof,), f"q of '{mech.name}'"))
            coordinates = per_axis(moved, "reference")
        _, reactions, mu = eqs.zero_state()
        eqs.core.set_state(coordinates, reactions, mu)
        eqs.core.evaluate(False)
        speeds = np.zeros(mech.dof) if rates is None else array(rates, (mech.dof,), f"rates of '{mech.name}'")
        return self._system.state_at(np.array(coordinates), *initial_rates(eqs, speeds))

    # loads and set-points

    def apply(self, body: str, wrench: ArrayLike, frame: str = "world") -> None:
        """Sets the wrench (6,), force (N) then torque (N m), at the origin of a body, interface frame or site. It acts
        until changed."""
        self._loads |= {load.name: load for load in loads(self.mechanism, {body: wrench}, frame)}

    def set_target(self, name: str, value: float) -> None:
        """Sets the set-point (rad or m) of a joint's spring, of a coupling or of a motor."""
        if name in self._motors:
            raise MechanismError(f"motor '{name}' follows its function of time; it takes no set-point")
        self._system.eqs.aim({name: value})

    # time

    def step(self, n: int = 1, progress: Callable[[float], None] | None = None) -> None:
        """Advances by n time steps. `progress` is called with the fraction done; by default a long run shows a bar.

        Raises:
            ConvergenceError: a step does not converge, or inverts an element. The simulation and the error's `time` are
                then those after the last step that converged.
        """
        check_count(n)
        times = list(accumulate([self.time, *[self.dt] * n]))[1:]
        with progress_callback("full simulation", progress) as report:
            for k, time in enumerate(times):
                self._advance(time)
                report((k + 1) / n)

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
        self._system.eqs.targets |= {name: acting.targets[name] for name in self._motors}

    def _solved_step(self, acting: Acting, order: int) -> FullState | Failure:
        trend = 0.0 if self._fresh else 0.5 if order == 2 else 1.0
        guess = self._system.predicted(self._state, self._before, self.dt, trend)
        step = Differences.of_order(self.dt, order)
        return self._system.solve(guess, acting, step, self._state, self._before)

    def _acting(self, time: float) -> Acting:
        eqs = self._system.eqs
        driven = {name: motor_value(name, motor, time) for name, motor in self._motors.items()}
        return Acting(tuple(self._loads.values()), self.mechanism.gravity, eqs.rest, {**eqs.targets, **driven})

    # state and forces

    @property
    def poses(self) -> Poses:
        """World poses (4, 4) of rigid bodies and interface frames."""
        return self._system.poses(self._state)

    def displacements(self, name: str) -> Array:
        """(n, 3) displacements of the nodes of a flexible body, in its part's coordinates and relative to its reference
        interface, m; for `part.with_basis(snapshots=...)`."""
        return displacements_of(self.mechanism, self._state, name)

    def positions(self, name: str) -> Array:
        """(n, 3) positions of the nodes of a flexible body in the world, m."""
        return _part_state(self.mechanism, self._state, name).positions.copy()

    @property
    def velocities(self) -> Array:
        """(bodies, 6) twists of rigid bodies and interface frames, linear (m/s) then angular (rad/s), each in its own
        axes."""
        return self._state.bodies.velocities.copy()

    @property
    def coordinates(self) -> dict[str, Array]:
        """Coordinates (k,) of every joint, except those of interfaces, by its name; rad and m."""
        return _coordinates(self._system, self._state)

    @property
    def reactions(self) -> dict[str, Array]:
        """Wrench (6,) that each joint exerts on its child, in the joint's frame on the child; N and N m."""
        return _reactions(self._system, self._state)

    @property
    def motor_torques(self) -> dict[str, float]:
        """Torque or force of each motor, rigid coupling and touched limit on its coordinates, N m or N."""
        return _motor_torques(self._system, self._state)

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


def full_equilibrium(
    mech: Mechanism,
    wrenches: Mapping[str, ArrayLike] | None = None,
    *,
    frame: str = "world",
    targets: Mapping[str, float] | None = None,
    start: FullEquilibrium | None = None,
    progress: Callable[[float], None] | None = None,
) -> FullEquilibrium:
    """Computes the static equilibrium of a mechanism with all nodes of its flexible bodies.

    Args:
        mech: the mechanism.
        wrenches: a wrench (6,), force (N) then torque (N m), for each name of a body, interface frame or site. It acts
            at the origin of that frame.
        frame: axes of the wrenches: "world", or "body" (they turn with the body).
        targets: set-points of springs and motors by name, rad or m.
        start: the equilibrium to start from; by default the reference pose without loads and gravity.
        progress: called with the fraction of the load that is reached; by default a long run shows a bar.

    Loads, gravity and set-points change in proportion from the start to their full values, in steps that shrink where
    Newton's method fails. The stability of the result is not checked: a straight column stays straight.

    Raises:
        ConvergenceError: the path ends before the full load. The error has `load_fraction` and `state`.
        MechanismError: nothing holds some coordinate, or an argument is wrong.
    """
    system = FullSystem(mech)
    eqs = system.eqs
    if targets is not None:
        eqs.aim(targets)
    goal = Acting(tuple(loads(mech, wrenches, frame)), mech.gravity, eqs.rest, eqs.targets)
    if start is None:
        begin = Acting((), 0 * mech.gravity, *eqs.at_reference())
        state = system.state_at(eqs.reference.copy(), np.zeros((len(mech.bodies), 6)), np.zeros(len(eqs.reference)))
    else:
        _check_start_state(start, mech)
        begin, state = start.acting, start.state
    done, width = 0.0, 1.0
    with progress_callback("full equilibrium", progress) as report:
        while done < 1:
            fraction = min(1.0, done + width)
            acting, iterations = begin.interpolated(goal, fraction), system.iterations
            reached = system.solve(state, acting, None, state, state)
            if isinstance(reached, Failure):
                if width == 1:
                    check_held(Linearisation.at(eqs, eqs.zero_state()))
                width = (fraction - done) / 2
                if width < SMALLEST_FRACTION:
                    raise ConvergenceError(
                        f"no equilibrium of '{mech.name}' beyond {done:.3g} of the load: {reached.reason}. "
                        "The load is too large, or the path of equilibria ends (buckling): apply less",
                        load_fraction=done,
                        state=_equilibrium(system, state, begin.interpolated(goal, done), done),
                    )
                continue
            done, state = fraction, reached
            width *= 2 if system.iterations - iterations < EASY else 1
            report(done)
    return _equilibrium(system, state, goal, done)


def _check_start_state(start: object, mech: Mechanism) -> None:
    """Raises unless the value is a full equilibrium of this mechanism."""
    if not isinstance(start, FullEquilibrium):
        raise MechanismError(f"`start` must be a FullEquilibrium (from full_equilibrium), got {type(start).__name__}")
    if start.mechanism is not mech and start.mechanism != mech:
        raise MechanismError(f"`start` is an equilibrium of '{start.mechanism.name}', not of this '{mech.name}'")


def _equilibrium(system: FullSystem, state: FullState, acting: Acting, fraction: float) -> FullEquilibrium:
    return FullEquilibrium(
        system.mechanism,
        system.poses(state),
        _coordinates(system, state),
        _reactions(system, state),
        _motor_torques(system, state),
        fraction,
        system.iterations,
        acting,
        state,
    )


def displacements_of(mech: Mechanism, state: FullState, name: str) -> Array:
    """(n, 3) displacements of the nodes of a flexible body, in its part's coordinates and relative to its reference
    interface, m."""
    own = _part_state(mech, state, name)
    flexible = mech.flexible[find([each.name for each in mech.flexible], name, f"flexible body of '{mech.name}'")]
    return np.asarray(own.offsets + flexible.basis.origin - flexible.part.nodes)


def _part_state(mech: Mechanism, state: FullState, name: str) -> PartState:
    return state.parts[find([each.name for each in mech.flexible], name, f"flexible body of '{mech.name}'")]


def _coordinates(system: FullSystem, state: FullState) -> dict[str, Array]:
    return {joint.name: state.bodies.q[axes].copy() for joint, axes, _, _ in system.bodies.joints}


def _reactions(system: FullSystem, state: FullState) -> dict[str, Array]:
    joints = (joint.name for joint, *_ in system.bodies.joints)
    return {name: -wrench for name, wrench in zip(joints, state.bodies.reactions, strict=True)}


def _motor_torques(system: FullSystem, state: FullState) -> dict[str, float]:
    rows = zip(system.bodies.rows, state.bodies.mu, strict=True)
    driven = {row.name for row in system.bodies.rows if row.equality}
    result = {}
    for row, mu in rows:
        if row.equality or mu != 0:
            name = f"{row.name}.limit" if not row.equality and row.name in driven else row.name
            result[name] = -float(mu)
    return result
