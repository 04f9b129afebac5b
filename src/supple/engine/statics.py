"""Full nonlinear statics: Newton's method with adaptive load stepping."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from supple.engine.assembly import Equations, Load, equations, loads
from supple.engine.linear import Linear, check_held, null_space
from supple.errors import ConvergenceError, MechanismError
from supple.mechanism import Mechanism, Poses
from supple.mechanism.axes import by_joint, of_tree
from supple.mechanism.record import Array, lock

LAST_MOTION = 1e-9
"""Newton's last step, rad (lengths over the radius): what it leaves is its square."""
CLOSED = 1e-10
"""Gaps of loops over the radius, errors of motors, rigid couplings and touched limits."""
NEWTON_LIMIT = 150
SMALLEST_LOAD_STEP = 1e-4
LARGEST_TURN = 1.0
"""Most that a coordinate moves in one Newton step, rad or radii."""


@dataclass(frozen=True)
class Acting:
    """All that acts on a mechanism."""

    loads: tuple[Load, ...]
    gravity: Array
    """(3,) m/s^2."""
    rest: Array
    """(axes,) rest positions of the joints' springs, in the order of `mech.joints`."""
    targets: dict[str, float]
    """Rest lengths of couplings and positions of motors."""

    def mixed(self, other: Acting, fraction: float) -> Acting:
        """This at fraction 0, the other at 1."""
        a, b = 1 - fraction, fraction
        mixed = [load.scaled(a) for load in self.loads] + [load.scaled(b) for load in other.loads]
        return Acting(
            tuple(load for load in mixed if load.wrench.any()),
            a * self.gravity + b * other.gravity,
            a * self.rest + b * other.rest,
            {name: a * self.targets[name] + b * value for name, value in other.targets.items()},
        )

    def on(self, eqs: Equations) -> None:
        """Sets equations to this."""
        eqs.set_loads(list(self.loads))
        eqs.core.set_gravity(self.gravity)
        eqs.set_targets(self.rest, self.targets)


@dataclass(frozen=True)
class Equilibrium:
    """A state in which everything balances."""

    mechanism: Mechanism
    poses: Poses
    """World poses (4, 4) of every body."""
    coordinates: dict[str, Array]
    """Coordinates (k,) of every joint, by its name; rad and m."""
    reactions: dict[str, Array]
    """Wrench (6,) that each joint exerts on its child, in the joint's frame on the child; N and N m."""
    held: dict[str, float]
    """Torque or force of each motor, rigid coupling and touched limit on its coordinates, N m or N."""
    residual: float
    """Largest unbalanced torque of a coordinate over what its joint carries, or gap of a loop over the radius."""
    load_fraction: float
    """1 for the full load."""
    iterations: int
    """Newton steps in all."""
    acting: Acting = field(repr=False)
    """Loads, gravity and set-points, as far as they were applied."""
    state: tuple[Array, Array, Array] = field(repr=False)
    """Coordinates of every joint, multipliers of joints and rows: where a later solve starts."""

    def __post_init__(self) -> None:
        lock((self.state, self.coordinates, self.reactions))  # which share memory: what is found stays as it is

    @property
    def loads(self) -> tuple[Load, ...]:
        """What acts on the bodies."""
        return self.acting.loads

    @property
    def q(self) -> Array:
        """(dof,) coordinates of the spanning tree, in the order of `mech.coordinates`."""
        return of_tree(self.mechanism, self.state[0])

    @cached_property
    def stable(self) -> bool:
        """Whether the equilibrium is a minimum of the energy (every small motion is pushed back)."""
        from supple.engine.modes import smallest_stiffness

        return smallest_stiffness(self) > 0


def equilibrium(
    mech: Mechanism,
    wrenches: Mapping[str, ArrayLike] | None = None,
    *,
    frame: str = "world",
    targets: Mapping[str, float] | None = None,
    start: Equilibrium | None = None,
    progress: Callable[[float], None] | None = None,
) -> Equilibrium:
    """Finds where a mechanism comes to rest under wrenches, its springs and gravity.

    `wrenches` maps names of bodies or sites to (6,) arrays, force (N) then torque (N m), at the frame's origin;
    `frame="world"` keeps their direction fixed in the world, `frame="body"` lets them turn with the body.
    `targets` moves set-points of springs and motors. The load is applied from the reference pose, or from
    `start`, in steps that adapt; `progress` is called with the fraction reached.

    Raises `ConvergenceError` with `load_fraction` and `state` (an Equilibrium at that fraction) if the mechanism
    buckles or has no equilibrium, and `MechanismError` if something is held by nothing.
    """
    eqs = equations(mech)
    acting = tuple(loads(mech, wrenches, frame))
    if targets is not None:
        eqs.aim(targets)
    goal = Acting(acting, mech.gravity, eqs.rest, eqs.targets)
    _check_motors(mech, goal.targets)
    solver = _Solver(eqs)
    if start is None:
        begin = Acting((), 0 * mech.gravity, *eqs.at_reference())
    else:
        begin = checked_equilibrium(start, mech, "start").acting
        solver.state = start.state
    reached = _follow(solver, begin, goal, progress)
    result = _result(solver, reached, begin.mixed(goal, reached))
    check_held(Linear(eqs))
    if reached < 1:
        raise ConvergenceError(
            f"no equilibrium of '{mech.name}' was found beyond {reached:.1%} of the load: it buckles or runs away "
            "there. The state reached is in the error's `state`; apply less, or add stiffness",
            load_fraction=reached,
            state=result,
        )
    return result


def checked_equilibrium(value: object, mech: Mechanism, what: str) -> Equilibrium:
    """An argument `what` that must be an equilibrium of this mechanism, or a clear error."""
    if not isinstance(value, Equilibrium):
        raise MechanismError(f"`{what}` must be an Equilibrium (from supple.equilibrium), got {type(value).__name__}")
    if value.mechanism is not mech and value.mechanism != mech:
        raise MechanismError(f"`{what}` is an equilibrium of '{value.mechanism.name}', not of this '{mech.name}'")
    return value


def _check_motors(mech: Mechanism, targets: Mapping[str, float]) -> None:
    """A motor and the limits of its coordinate cannot both have their way."""
    for motor in mech.motors:
        joint, aim = mech.joint(motor.coordinate), targets[motor.name]
        lower, upper = joint.limits[joint.axes.index(motor.coordinate)]
        if not lower - CLOSED <= aim <= upper + CLOSED:
            raise MechanismError(
                f"motor '{motor.name}' holds '{motor.coordinate}' at {aim:g}, outside its limits {lower:g} ... "
                f"{upper:g}; move the motor inside or widen the limits"
            )


class _Solver:
    """Newton's method on the compiled equations."""

    def __init__(self, eqs: Equations) -> None:
        self.eqs = eqs
        self.state: tuple[Array, Array, Array] = eqs.zero_state()
        self.iterations = 0
        self.history: list[float] = []
        """Residuals of the last Newton solve."""

    def newton(self, acting: Acting, downhill: bool = True) -> bool:
        """Converges from `state`; leaves `state` alone if it fails.

        The line search asks that the step still left, by the old factors, gets smaller (the natural level
        function: independent of units and of how stiff anything is). With `downhill`, a tangent that is not
        stable is stiffened until it is, so that the search goes away from saddle points.
        """
        core = self.eqs.core
        acting.on(self.eqs)
        state, self.history = self.state, []
        core.set_state(*state)
        for _ in range(NEWTON_LIMIT):
            rhs = core.evaluate(True)
            touching = core.active
            core.factorise(0.0)
            step, _ = core.solve(rhs, False)
            size = core.motion_size(step)
            shifted = downhill and core.negative > 0 and size > LAST_MOTION
            if shifted:
                self._stiffen()
                step, _ = core.solve(rhs, False)
                size = core.motion_size(step)
            self.history.append(size)
            self.iterations += 1
            if not np.isfinite(size):
                return False
            alpha = min(1.0, LARGEST_TURN / max(size, 1e-300))
            while True:
                core.retract(*state, step, alpha)
                left = core.evaluate(False)
                if shifted or size < LAST_MOTION or core.active != touching:  # limits met or left change the equations
                    break
                if core.motion_size(core.solve(left, False)[0]) < max((1 - alpha / 4) * size, LAST_MOTION):
                    break
                alpha /= 2
                if alpha < 0.005:
                    return False
            state = core.q, core.reactions, core.mu
            if size < LAST_MOTION and core.gap_size < CLOSED and core.active == touching:
                self.state = state
                return True
        return False

    def _stiffen(self) -> None:
        """Factorises with as much stiffness added to the coordinates as makes the tangent stable."""
        shift = 1e-4
        while shift < 1e3:
            self.eqs.core.factorise(shift)
            if not self.eqs.core.negative:
                break
            shift *= 10
        self.eqs.core.factorise(3 * shift)  # well clear of singular

    def stable(self) -> bool:
        """Whether the state found is stable, by the signs of the factors' pivots."""
        core = self.eqs.core
        core.set_state(*self.state)
        core.evaluate(True)
        core.factorise(0.0)
        return not core.negative


def _follow(solver: _Solver, begin: Acting, goal: Acting, progress: Callable[[float], None] | None) -> float:
    """Raises the load in steps that grow while Newton's method converges to stable states; returns the fraction
    reached. Where the path itself turns unstable (a column that buckles) it is followed all the same."""
    reached, step, picky = 0.0, 1.0, True
    while reached < 1:
        fraction = min(1.0, reached + step)
        before = solver.state
        if solver.newton(begin.mixed(goal, fraction), downhill=picky):
            unmoved = solver.history[0] < LAST_MOTION  # what does not move at all needs no smaller steps
            if unmoved or not picky or solver.stable():
                reached = fraction
                step *= 2
                if progress is not None:
                    progress(reached)
                continue
            solver.state = before
        step = min(step, fraction - reached) / 4
        if step < SMALLEST_LOAD_STEP:
            if not picky:
                return reached
            picky, step = False, 1.0 - reached
    return 1.0


def _share_reactions(solver: _Solver) -> None:
    """Where redundant loops leave open which joint carries what, takes the smallest reactions (lengths over the
    radius): nothing is carried without a load, and what is symmetric is carried evenly."""
    eqs = solver.eqs
    mech, core = eqs.mechanism, eqs.core
    loops = list(mech.topology.loops)
    if not loops:
        return
    undetermined = null_space(Linear(eqs).conditions[: 6 * len(loops)].T)  # multipliers that push nothing
    q, reactions, mu = core.q, core.reactions, core.mu
    changes = []
    for push in undetermined.T:
        moved = reactions.copy()
        moved[loops] += push.reshape(-1, 6)
        core.set_state(q, moved, mu)
        core.evaluate(False)
        changes.append(core.reactions - reactions)
    if changes:
        weights = np.array([mech.radius or 1.0] * 3 + [1.0] * 3)
        rows = np.array([(change * weights).ravel() for change in changes]).T
        share = np.linalg.lstsq(rows, -(reactions * weights).ravel(), rcond=None)[0]
        reactions = reactions + np.tensordot(share, np.array(changes), axes=1)
    core.set_state(q, reactions, mu)
    core.evaluate(True)


def _result(solver: _Solver, fraction: float, acting: Acting) -> Equilibrium:
    eqs = solver.eqs
    mech, core = eqs.mechanism, eqs.core
    acting.on(eqs)
    core.set_state(*solver.state)
    core.evaluate(True)
    _share_reactions(solver)
    q, reactions, mu = core.q, core.reactions, core.mu
    return Equilibrium(
        mech,
        Poses(mech, core.poses),
        by_joint(mech, q),
        eqs.reactions(reactions),
        eqs.held(mu),
        max(core.imbalance, core.gap_size),
        fraction,
        solver.iterations,
        acting,
        (q, reactions, mu),
    )
