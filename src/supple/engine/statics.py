"""Full nonlinear statics: the equilibrium that a slowly applied load leads to."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from supple.engine.assembly import Acting, Equations, Load, State, Targets, equations, loads
from supple.engine.holding import HeldMechanism, Holds, hold_frames, holding_loads, with_balancing_multipliers
from supple.engine.linearisation import Linearisation, check_held, linearised, null_space
from supple.engine.newton import CLOSED, Newton
from supple.engine.path import LoadPath, PathFollower, end_of_path
from supple.engine.stability import has_potential, is_stable
from supple.errors import ConvergenceError, MechanismError
from supple.mechanism import Curve, Mechanism, Poses
from supple.mechanism.axes import axis_names, by_joint, of_tree
from supple.mechanism.flexible import warn_beyond_range
from supple.mechanism.idle import idle_spins
from supple.mechanism.mechanism import check_mechanism
from supple.mechanism.named import Coordinates
from supple.mechanism.notebook import html_table
from supple.mechanism.poses import amplitudes_in
from supple.mechanism.record import Array, lock
from supple.mechanism.singular import singular_pose

HOLDING = 1e-3
"""Stiffness of the springs that hold idle spins, over that of the mechanism, until they are unloaded."""
UNLOADED = 1e-9
"""rad: deflection of the springs of idle spins that is left."""
UNLOADING_LIMIT = 8


@dataclass(frozen=True)
class Equilibrium:
    """A state in which all forces balance."""

    mechanism: Mechanism
    poses: Poses
    """World poses (4, 4) of every body."""
    coordinates: dict[str, Array]
    """Coordinates (k,) of every joint, by its name; rad and m."""
    reactions: dict[str, Array]
    """Wrench (6,) that each joint exerts on its child, in the joint's frame on the child; N and N m."""
    motor_torques: dict[str, float]
    """Torque or force of each motor, rigid coupling and touched limit on its coordinates, N m or N."""
    residual: float
    """The largest of three errors: the unbalanced torque of a coordinate relative to the torque that its joint carries
    (or, where nothing loads, to that of 1e-7 rad of the stiffest spring), the gap of a loop over the radius, and the
    error of a motor, rigid coupling or touched limit."""
    load_fraction: float
    """Share of the load that this state balances: 1, or less in the `state` of a `ConvergenceError`."""
    iterations: int
    """Total number of Newton iterations."""
    acting: Acting = field(repr=False)
    """Loads, gravity and set-points that this state balances."""
    state: State = field(repr=False)
    """Coordinates of every joint, multipliers of joints and of constraint rows; a later solve can start from them."""
    snaps: tuple[float, ...] = ()
    """Shares of the load (0 to 1) at which a stable branch ended and the mechanism jumped to another one. The share is
    0 if the start was not stable. Empty if the path from the start is continuous."""
    path: LoadPath | None = field(default=None, repr=False)
    """The equilibria on the way to the load; None without `path=True`."""
    holds: dict[str, Array] = field(default_factory=dict)
    """Wrench (6,) that holds each body or site of `hold`: force then torque at its origin, world axes, N and N m. It is
    one of the `loads`, added to one that was applied there."""
    _with_holds: Equilibrium | None = field(default=None, repr=False)
    """The equilibrium of the mechanism with the joints that hold it."""

    def __post_init__(self) -> None:
        lock((self.state, self.coordinates, self.reactions, self.holds))  # some share memory, so all are read-only

    @property
    def loads(self) -> tuple[Load, ...]:
        """The wrenches on bodies."""
        return self.acting.loads

    def __repr__(self) -> str:
        acting = ", ".join(f"'{load.name}'" for load in self.loads[:4]) + (" ..." if len(self.loads) > 4 else "")
        snaps = f", {len(self.snaps)} snaps" if self.snaps else ""
        return f"Equilibrium('{self.mechanism.name}': loads on {acting or 'no body'}{snaps})"

    def _repr_html_(self) -> str:
        return html_table(f"Equilibrium of {self.mechanism.name}", {
            "mechanism": self.mechanism, "loads": ", ".join(load.name for load in self.loads) or "none",
            "snaps at shares of the load": ", ".join(f"{share:.3g}" for share in self.snaps) or "none",
            "coordinates": len(self.q), "joints": len(self.coordinates),
        })  # fmt: skip

    @property
    def q(self) -> Coordinates:
        """(dof,) coordinates of the spanning tree, in the order of `mech.coordinates`, also by name."""
        q: Coordinates = Coordinates(self.mechanism, of_tree(self.mechanism, self.state[0]), copy=False)
        return q

    @property
    def torques(self) -> dict[str, float]:
        """Torque or force that each spring, motor, rigid coupling and touched limit exerts on its coordinate or
        coupling, N m or N; positive in the direction of the coordinate.

        Springs have the name of their coordinate or coupling, or 'elbow.spring' if a motor or rigid coupling has that
        name; the others are those of `motor_torques`.
        """
        result = spring_torques(self.mechanism, self.state[0], self.acting)
        names = {motor.name for motor in self.mechanism.motors} | {c.name for c in self.mechanism.couplings if c.rigid}
        named = {f"{name}.spring" if name in names else name: torque for name, torque in result.items()}
        limits = {f"{name}.limit" if name in named else name: t for name, t in self.motor_torques.items()}
        return named | limits

    def linear(self, end_effectors: Sequence[str] | str) -> Any:
        """The linear model of bodies or sites here: `supple.reduce(mech, end_effectors, at=eq)`."""
        from supple import reduce

        return reduce(self.mechanism, end_effectors, at=self)

    @cached_property
    def stable(self) -> bool:
        """Whether no small motion around this state grows.

        If the loads have a potential (gravity, forces fixed in the world, torques on planar mechanisms), the energy has
        a minimum here, so that every small motion causes a restoring force. Torques fixed in the world and wrenches
        fixed in the body have no potential; then no solution of the linear equations of motion M x'' + D x' + K x = 0
        grows, neither monotonically (divergence) nor as a vibration (flutter). This depends on mass and damping.
        What `hold` prescribes does not move.
        """
        if self._with_holds is not None:
            return self._with_holds.stable
        linear = linearised(self.mechanism, self)
        return is_stable(linear, has_potential(self.mechanism, self.loads))


def equilibrium(
    mech: Mechanism,
    wrenches: Mapping[str, ArrayLike] | None = None,
    *,
    hold: Holds | None = None,
    frame: str = "world",
    targets: Targets | None = None,
    start: Equilibrium | None = None,
    path: bool = False,
    progress: Callable[[float], None] | None = None,
) -> Equilibrium:
    """Computes the static equilibrium of a mechanism under its springs, gravity and applied wrenches.

    Args:
        mech: the mechanism.
        wrenches: a wrench (6,), force (N) then torque (N m), for each name of a body or site. It acts at the origin of
            the body or site.
        hold: world poses (4, 4) that bodies or sites are moved to and held at, by name; with
            `supple.engine.Hold(pose, directions)` in some directions only. The wrenches that hold them are the result's
            `holds`.
        frame: axes of the wrenches. "world": their directions are fixed in the world. "body": they turn with the body.
        targets: set-points of springs and motors, rad or m: {name: value}, or an array (dof,) or number for all.
        start: the equilibrium to start from; by default the reference pose without loads and gravity.
        path: whether the result's `path` has the equilibria on the way.
        progress: a function that is called with each share of the load (0 to 1) that is reached.

    The result is that of a slowly applied load. Loads, gravity and set-points change in proportion from the start to
    their full values, and the result lies on the same continuous branch of stable equilibria. If that branch ends, the
    solver minimises the energy to find another stable state and follows its branch; `snaps` lists the shares of the
    load at which this happened. Held bodies move straight, and turn about one axis, from the start to their poses.
    Torques, and wrenches that turn with the body, have no potential in general: a branch
    then ends where the tangent becomes singular (divergence) and goes on through flutter; see `Equilibrium.stable`.

    Raises:
        ConvergenceError: the path ends before the full load, and no other stable state was found. The error has
            `load_fraction`, `reason` ("snap", "limit", "singular" or "long") and `state` (the Equilibrium there).
        MechanismError: nothing holds some coordinate, or an argument is wrong.
    """
    result = equilibrium_at_any_range(
        mech, wrenches, hold=hold, frame=frame, targets=targets, start=start, path=path, progress=progress
    )
    if mech.flexible:
        warn_beyond_range(mech.flexible, result.coordinates, set())
    return result


def equilibrium_at_any_range(
    mech: Mechanism,
    wrenches: Mapping[str, ArrayLike] | None = None,
    *,
    hold: Holds | None = None,
    frame: str = "world",
    targets: Targets | None = None,
    start: Equilibrium | None = None,
    path: bool = False,
    progress: Callable[[float], None] | None = None,
) -> Equilibrium:
    """As `equilibrium`, without its warning of flexible bodies that are deformed beyond the shapes of their bases."""
    check_mechanism(mech)
    acting = loads(mech, wrenches, frame)
    if hold is not None:
        return _held_equilibrium(mech, acting, hold, targets, start, path, progress)
    eqs = equations(mech, held=idle_spins(mech, wrenches or ()), weak=HOLDING)
    goal = eqs.acting(acting)
    if targets is not None:
        goal = eqs.aimed(goal, targets)
    if start is None:
        begin, state = eqs.unloaded(), eqs.zero_state()
    else:
        begin, state = checked_equilibrium(start, mech, "start").acting, start.state
    return _follow(eqs, begin, state, goal, path, progress)


def _follow(
    eqs: Equations, begin: Acting, state: State, goal: Acting, path: bool, progress: Callable[[float], None] | None
) -> Equilibrium:
    """The equilibrium at the end of the path from `begin` and its state to `goal`, or `ConvergenceError`."""
    mech, newton = eqs.mechanism, Newton(eqs)
    _check_motors(mech, goal.targets)
    newton.state = state
    follower = PathFollower(newton, begin, goal, progress, exact=path)
    reached = follower.run()
    error = end_of_path(follower) if reached < 1 else None
    states = _load_path(follower) if path else None
    acting_there = _without_spin_torques(newton, follower.acting())
    result = solved_equilibrium(newton, acting_there, follower.shares[-1], tuple(follower.snaps), states)
    if error is None or singular_pose(mech, result.state[0]) is None:
        check_held(Linearisation.at(eqs, acting_there, result.state))
    if error is not None:
        error.state = result
        raise error
    return result


def _held_equilibrium(
    mech: Mechanism,
    acting: Sequence[Load],
    hold: Holds,
    targets: Targets | None,
    start: Equilibrium | None,
    path: bool,
    progress: Callable[[float], None] | None,
) -> Equilibrium:
    """The equilibrium with prescribed poses: that of a mechanism with joints whose motors carry bodies there."""
    begin = None if start is None else checked_equilibrium(start, mech, "start")
    held = hold_frames(mech, hold, None if begin is None else begin.q)
    idle = idle_spins(mech, [*held.holds, *(load.name for load in acting)])
    bare = equations(mech, held=idle, weak=HOLDING)
    eqs = equations(held.mechanism, held=idle, weak=HOLDING)
    if begin is None:
        at, state = eqs.unloaded(), eqs.zero_state()
    else:
        at, state = held.acting(begin.acting, dict.fromkeys(held.targets, 0.0)), held.extended(begin.state)
    goal = bare.acting(acting)
    if targets is not None:
        goal = bare.aimed(goal, targets)
    _check_motors(mech, goal.targets)
    try:
        return _without_holds(held, bare, _follow(eqs, at, state, held.acting(goal, held.targets), path, progress))
    except ConvergenceError as error:
        error.state = _without_holds(held, bare, error.state)
        error.args = (
            f"{error}. Held frames go straight to their poses; one that cannot is held in too many directions "
            "(supple.engine.Hold names fewer), or the path must start nearer (start=...)",
        )
        raise


def _without_holds(held: HeldMechanism, eqs: Equations, found: Equilibrium) -> Equilibrium:
    """An equilibrium with holds as one of the mechanism without them, under the wrenches that they exert."""
    acting = held.reduced_acting(found.acting)
    wrenches = holding_loads(held, eqs, acting, found.state)
    loaded = replace(acting, loads=(*acting.loads, *wrenches))
    newton = Newton(eqs)
    newton.state = with_balancing_multipliers(eqs, loaded, held.reduced(found.state))
    newton.iterations = found.iterations
    result = solved_equilibrium(newton, loaded, found.load_fraction, found.snaps, found.path)
    return replace(result, holds={load.name: load.wrench for load in wrenches}, _with_holds=found)


def _without_spin_torques(newton: Newton, acting: Acting) -> Acting:
    """Loads and set-points with the weak springs of idle spins unloaded at the state of equilibrium, which is changed
    accordingly. An iteration reduces the error of these springs by their stiffness over that of the mechanism."""
    joints = newton.eqs.mechanism.axis_slices
    for _ in range(UNLOADING_LIMIT if newton.eqs.idle else 0):
        rest = acting.rest.copy()
        for spin in newton.eqs.idle:
            own = joints[spin.joints[0]]
            rest[own] = newton.state[0][own]
        if np.abs(rest - acting.rest).max() < UNLOADED:
            break
        changed = replace(acting, rest=rest)
        if not newton.continue_branch(changed).converged:
            break
        acting = changed
    return acting


def spring_torques(mech: Mechanism, q: Array, acting: Acting) -> dict[str, float]:
    """Torque of each spring at coordinates (axes,), by coordinate or coupling, N m or N: -k (q - rest) - curve."""
    result, values, start = {}, dict(zip(axis_names(mech), q.tolist(), strict=True)), 0
    for joint in mech.joints:
        for k, (name, curve) in enumerate(zip(joint.axes, joint.curves, strict=True)):
            deflection = values[name] - float(acting.rest[start + k])
            if joint.stiffness[k] > 0 or curve is not None:
                result[name] = spring_torque(float(joint.stiffness[k]), curve, deflection)
        start += len(joint.axes)
    for c in mech.couplings:
        if not c.rigid:
            stretch = sum(a * values[n] for a, n in zip(c.coefficients.tolist(), c.coordinates, strict=True))
            name = f"{c.name}.coupling" if c.name in values else c.name
            result[name] = spring_torque(c.stiffness, c.curve, stretch - acting.targets[c.name])
    return result


def spring_torque(stiffness: float, curve: Curve | None, deflection: float) -> float:
    """Torque of a spring at a deflection from its rest."""
    return -stiffness * deflection - (0.0 if curve is None else float(curve(deflection)))


def checked_equilibrium(value: object, mech: Mechanism, argument: str) -> Equilibrium:
    """Returns the value of an argument that must be an equilibrium of this mechanism, or raises."""
    if not isinstance(value, Equilibrium):
        raise MechanismError(
            f"`{argument}` must be an Equilibrium (from supple.equilibrium), got {type(value).__name__}"
        )
    if value.mechanism is not mech and value.mechanism != mech:
        raise MechanismError(f"`{argument}` is an equilibrium of '{value.mechanism.name}', not of this '{mech.name}'")
    return value


def _check_motors(mech: Mechanism, targets: Mapping[str, float]) -> None:
    """Raises if a motor's position is outside the limits of its coordinate."""
    for motor in mech.motors:
        joint, target = mech.joint(motor.coordinate), targets[motor.name]
        lower, upper = joint.limits[joint.axes.index(motor.coordinate)]
        if not lower - CLOSED <= target <= upper + CLOSED:
            raise MechanismError(
                f"motor '{motor.name}' holds '{motor.coordinate}' at {target:g}, outside its limits {lower:g} ... "
                f"{upper:g}; move the motor inside or widen the limits"
            )


def _with_least_reactions(eqs: Equations, acting: Acting, state: State) -> Any:
    """The equations at an equilibrium. Redundant loops have non-unique multipliers: takes the smallest reactions
    (forces times the radius beside torques) that balance. They vanish without a load, and symmetric joints carry equal
    parts."""
    mech, given = eqs.mechanism, eqs.compiled(acting)
    loops = list(mech.topology.loops)
    balanced = eqs.core.evaluate(given, *state)
    if not loops:
        return balanced
    q, reactions, mu = state[0], balanced.reactions, state[2]
    conditions = Linearisation.at(eqs, acting, state).loop_conditions
    undetermined = null_space(conditions.T)  # multipliers without effect
    if not undetermined.shape[1]:
        return balanced
    changes = []
    for multipliers in undetermined.T:
        moved = reactions.copy()
        moved[loops] += multipliers.reshape(-1, 6)
        changes.append(eqs.core.evaluate(given, q, moved, mu).reactions - reactions)
    weights = np.array([mech.radius or 1.0] * 3 + [1.0] * 3)
    columns = np.array([(change * weights).ravel() for change in changes]).T
    amounts = np.linalg.lstsq(columns, -(reactions * weights).ravel(), rcond=None)[0]
    return eqs.core.evaluate(given, q, reactions + np.tensordot(amounts, np.array(changes), axes=1), mu)


def solved_equilibrium(
    newton: Newton, acting: Acting, share: float = 1.0, snaps: tuple[float, ...] = (), path: LoadPath | None = None
) -> Equilibrium:
    """The equilibrium at the state that Newton's method has reached under `acting`."""
    eqs, mech = newton.eqs, newton.eqs.mechanism
    found = _with_least_reactions(eqs, acting, newton.state)
    q, reactions, mu = found.q, found.reactions, found.mu
    return Equilibrium(
        mech,
        poses=Poses(mech, found.poses, amplitudes_in(mech, q)),
        coordinates=by_joint(mech, q),
        reactions=eqs.reactions(reactions),
        motor_torques=eqs.motor_torques(mu),
        residual=found.error,
        load_fraction=share,
        iterations=newton.iterations,
        acting=acting,
        state=(q, reactions, mu),
        snaps=snaps,
        path=path,
    )


def _load_path(follower: PathFollower) -> LoadPath:
    """The accepted states of a path."""
    eqs = follower.newton.eqs
    given = eqs.compiled(eqs.acting())  # poses do not depend on it
    poses = [eqs.core.evaluate(given, *state).poses for state in follower.states]
    q = np.array([of_tree(eqs.mechanism, state[0]) for state in follower.states])
    return LoadPath(np.array(follower.shares), q, np.array(poses))
