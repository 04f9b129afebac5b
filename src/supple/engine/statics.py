"""Full nonlinear statics: the equilibrium at the end of a load that is applied slowly."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from supple.engine.assembly import Acting, Load, equations, loads
from supple.engine.linearisation import Linearisation, check_held, null_space
from supple.engine.newton import CLOSED, Newton
from supple.engine.path import LoadPath, PathFollower, end_of_path
from supple.errors import MechanismError
from supple.mechanism import Mechanism, Poses
from supple.mechanism.axes import by_joint, of_tree
from supple.mechanism.record import Array, lock


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
    """Largest unbalanced torque of a coordinate over what its joint carries, or gap of a loop over the radius."""
    load_fraction: float
    """1 for the full load."""
    iterations: int
    """Newton steps in all."""
    acting: Acting = field(repr=False)
    """Loads, gravity and set-points that this state balances."""
    state: tuple[Array, Array, Array] = field(repr=False)
    """Coordinates of every joint, multipliers of joints and of rows: the start of a later solve."""
    snaps: tuple[float, ...] = ()
    """Shares of the load at which a stable branch ended and the mechanism jumped to another one: snap-throughs, or 0 if
    the start was not stable. Empty if the path from the start is continuous."""
    path: LoadPath | None = field(default=None, repr=False)
    """The equilibria on the way, if `path=True` was asked for."""

    def __post_init__(self) -> None:
        lock((self.state, self.coordinates, self.reactions))  # these share memory, so all of them are read-only

    @property
    def loads(self) -> tuple[Load, ...]:
        """The wrenches on bodies."""
        return self.acting.loads

    @property
    def q(self) -> Array:
        """(dof,) coordinates of the spanning tree, in the order of `mech.coordinates`."""
        return of_tree(self.mechanism, self.state[0])

    @cached_property
    def stable(self) -> bool:
        """Whether the equilibrium is a minimum of the energy: every small motion meets a restoring force."""
        from supple.engine.modes import smallest_stiffness

        return smallest_stiffness(self) > 0


def equilibrium(
    mech: Mechanism,
    wrenches: Mapping[str, ArrayLike] | None = None,
    *,
    frame: str = "world",
    targets: Mapping[str, float] | None = None,
    start: Equilibrium | None = None,
    path: bool = False,
    progress: Callable[[float], None] | None = None,
) -> Equilibrium:
    """Finds the equilibrium of a mechanism under wrenches, its springs and gravity.

    Args:
        mech: the mechanism.
        wrenches: names of bodies or sites to (6,) arrays, force (N) then torque (N m), at the frame's origin.
        frame: "world" keeps the wrenches' directions fixed in the world, "body" lets them turn with the body.
        targets: set-points of springs and motors by name, rad or m.
        start: the equilibrium to start from; the reference pose without loads and gravity if not given.
        path: whether the result's `path` has the equilibria on the way.
        progress: called with each share of the load that is reached.

    The result is that of a slow load: loads, gravity and set-points change in proportion from the start to their
    full values, and the result lies on the same continuous branch of stable equilibria. If that branch ends, the
    nearest stable state downhill in energy is followed on, and `snaps` lists the shares at which this happened.

    Raises:
        ConvergenceError: the path ends before the full load and leads to no other state. The error has
            `load_fraction`, `reason` ("snap", "limit" or "singular") and `state` (the Equilibrium there).
        MechanismError: some motion meets no resistance, or an argument is wrong.
    """
    eqs = equations(mech)
    acting = tuple(loads(mech, wrenches, frame))
    if targets is not None:
        eqs.aim(targets)
    goal = Acting(acting, mech.gravity, eqs.rest, eqs.targets)
    _check_motors(mech, goal.targets)
    newton = Newton(eqs)
    if start is None:
        begin = Acting((), 0 * mech.gravity, *eqs.at_reference())
    else:
        begin = checked_equilibrium(start, mech, "start").acting
        newton.state = start.state
    follower = PathFollower(newton, begin, goal, progress, exact=path)
    reached = follower.run()
    error = end_of_path(follower) if reached < 1 else None
    result = _result(follower, path)
    check_held(Linearisation(eqs))
    if error is not None:
        error.state = result
        raise error
    return result


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


def _minimise_reactions(newton: Newton) -> None:
    """Redundant loops have non-unique multipliers: takes the smallest reactions (forces times the radius beside
    torques) that balance. They vanish without a load, and symmetric joints carry equal parts."""
    eqs = newton.eqs
    mech, core = eqs.mechanism, eqs.core
    loops = list(mech.topology.loops)
    if not loops:
        return
    undetermined = null_space(Linearisation(eqs).conditions[: 6 * len(loops)].T)  # multipliers without effect
    q, reactions, mu = core.q, core.reactions, core.mu
    changes = []
    for multipliers in undetermined.T:
        moved = reactions.copy()
        moved[loops] += multipliers.reshape(-1, 6)
        core.set_state(q, moved, mu)
        core.evaluate(False)
        changes.append(core.reactions - reactions)
    if changes:
        weights = np.array([mech.radius or 1.0] * 3 + [1.0] * 3)
        columns = np.array([(change * weights).ravel() for change in changes]).T
        amounts = np.linalg.lstsq(columns, -(reactions * weights).ravel(), rcond=None)[0]
        reactions = reactions + np.tensordot(amounts, np.array(changes), axes=1)
    core.set_state(q, reactions, mu)
    core.evaluate(True)


def _result(follower: PathFollower, with_path: bool) -> Equilibrium:
    """The equilibrium at the last share of a path."""
    newton, acting = follower.newton, follower.acting()
    eqs = newton.eqs
    mech, core = eqs.mechanism, eqs.core
    path = _load_path(follower) if with_path else None
    acting.apply_to(eqs)
    core.set_state(*newton.state)
    core.evaluate(True)
    _minimise_reactions(newton)
    q, reactions, mu = core.q, core.reactions, core.mu
    return Equilibrium(
        mech,
        Poses(mech, core.poses),
        by_joint(mech, q),
        eqs.reactions(reactions),
        eqs.motor_torques(mu),
        max(core.imbalance, core.gap_size),
        follower.shares[-1],
        newton.iterations,
        acting,
        (q, reactions, mu),
        tuple(follower.snaps),
        path,
    )


def _load_path(follower: PathFollower) -> LoadPath:
    """The accepted states of a path."""
    eqs = follower.newton.eqs
    poses = []
    for state in follower.states:
        eqs.core.set_state(*state)
        eqs.core.evaluate(False)
        poses.append(eqs.core.poses)
    q = np.array([of_tree(eqs.mechanism, state[0]) for state in follower.states])
    return LoadPath(np.array(follower.shares), q, np.array(poses))
