"""Full nonlinear statics: Newton's method with adaptive load stepping."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from supple.engine.assembly import Equations, Load, equations, loads
from supple.errors import ConvergenceError, MechanismError
from supple.mechanism import Mechanism, Poses
from supple.mechanism.record import Array

TOLERANCE = 1e-11
"""Of torques over the mechanism's stiffest spring, of loop gaps over its radius."""
NEWTON_LIMIT = 30
SMALLEST_LOAD_STEP = 1e-4


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
    """Largest unbalanced torque over the stiffest spring (rad), or loop gap over the radius."""
    load_fraction: float
    """1 for the full load."""
    iterations: int
    """Newton steps in all."""
    loads: tuple[Load, ...] = ()
    """What acts on the bodies."""
    targets: dict[str, float] = field(default_factory=dict)
    """Set-points that were moved."""
    state: tuple[Array, Array, Array] = field(default=(), repr=False)  # type: ignore[assignment]
    """Coordinates of every joint, multipliers of joints and rows: where a later solve starts."""

    @property
    def q(self) -> Array:
        """(dof,) coordinates of the spanning tree, in the order of `mech.coordinates`."""
        joints, tree = self.mechanism.joints, self.mechanism.topology.tree
        return np.concatenate([np.zeros(0), *(self.coordinates[joints[j].name] for j in tree)])

    @cached_property
    def stable(self) -> bool:
        """Whether the equilibrium is a minimum of the energy (every small motion is pushed back)."""
        from supple.engine.modes import smallest_stiffness

        return smallest_stiffness(self) > 0


@dataclass(frozen=True)
class _Goal:
    """All that acts: loads, gravity (3,), rest positions (axes,) and targets of rows and springs."""

    loads: list[Load]
    gravity: Array
    rest: Array
    targets: dict[str, float]

    @classmethod
    def of(cls, eqs: Equations, acting: list[Load], targets: Mapping[str, float]) -> _Goal:
        before = eqs.rest, eqs.targets
        for name, value in targets.items():
            if not np.isfinite(value):
                raise MechanismError(f"target of '{name}' must be finite, got {value}")
            eqs.set_target(name, float(value))
        goal = cls(acting, eqs.mechanism.gravity, eqs.rest, eqs.targets)
        eqs.set_targets(*before)
        return goal

    def mixed(self, other: _Goal, fraction: float) -> _Goal:
        """This goal at fraction 0, the other at 1."""
        a, b = 1 - fraction, fraction
        return _Goal(
            [load.scaled(a) for load in self.loads] + [load.scaled(b) for load in other.loads],
            a * self.gravity + b * other.gravity,
            a * self.rest + b * other.rest,
            {name: a * self.targets[name] + b * value for name, value in other.targets.items()},
        )


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
    goal = _Goal.of(eqs, loads(mech, wrenches, frame), targets or {})
    solver = _Solver(eqs)
    if start is None:
        begin = _Goal([], 0 * mech.gravity, *eqs.at_reference())
    else:
        if start.mechanism is not mech and start.mechanism != mech:
            raise MechanismError(f"`start` is an equilibrium of '{start.mechanism.name}', not of '{mech.name}'")
        begin = _Goal.of(eqs, list(start.loads), start.targets)
        solver.state = start.state
    reached = _follow(solver, begin, goal, progress)
    result = _result(solver, reached, begin.mixed(goal, reached), dict(targets or {}))
    _name_unheld(solver)
    if reached < 1:
        raise ConvergenceError(
            f"no equilibrium of '{mech.name}' was found beyond {reached:.1%} of the load: it buckles or runs away "
            "there. The state reached is in the error's `state`; apply less, or add stiffness",
            load_fraction=reached,
            state=result,
        )
    return result


class _Solver:
    """Newton's method on the compiled equations."""

    def __init__(self, eqs: Equations) -> None:
        self.eqs = eqs
        self.state: tuple[Array, Array, Array] = eqs.zero_state()
        self.iterations = 0
        self.history: list[float] = []
        """Residuals of the last Newton solve."""

    def aim(self, goal: _Goal) -> None:
        self.eqs.set_loads(goal.loads)
        self.eqs.core.set_gravity(goal.gravity)
        self.eqs.set_targets(goal.rest, goal.targets)

    def newton(self) -> bool:
        """Converges from `state`, with a line search on the residual; leaves `state` alone if it fails."""
        core = self.eqs.core
        state, self.history = self.state, []
        core.set_state(*state)
        rhs, *sizes = core.evaluate(True)
        size = max(sizes)
        for _ in range(NEWTON_LIMIT):
            self.history.append(size)
            if not np.isfinite(size):
                return False
            if size < TOLERANCE:
                self.state = core.q, core.reactions, core.mu
                return True
            core.factorise(0.0)
            step, _ = core.solve(rhs, False)
            self.iterations += 1
            if not np.isfinite(step).all():
                return False
            alpha = min(1.0, 1.0 / max(np.abs(step[core.axis_rows]).max(initial=0.0), 1e-300))
            while True:
                core.retract(*state, step, alpha)
                rhs, *sizes = core.evaluate(True)
                if max(sizes) < (1 - 0.1 * alpha) * size or max(sizes) < TOLERANCE:
                    break
                alpha /= 2
                if alpha < 0.01:
                    # as far as rounding lets it go, or stuck
                    return self._settle(state, size)
            state = core.q, core.reactions, core.mu
            size = max(sizes)
        return self._settle(state, size)

    def _settle(self, state: tuple[Array, Array, Array], size: float) -> bool:
        if size > 100 * TOLERANCE:
            return False
        self.eqs.core.set_state(*state)
        self.eqs.core.evaluate(True)
        self.state = state
        return True


def _follow(solver: _Solver, begin: _Goal, goal: _Goal, progress: Callable[[float], None] | None) -> float:
    """Raises the load in steps that grow while Newton's method converges; returns the fraction reached."""
    reached, step = 0.0, 1.0
    while reached < 1:
        fraction = min(1.0, reached + step)
        solver.aim(begin.mixed(goal, fraction))
        if solver.newton():
            reached = fraction
            step *= 2
            if progress is not None:
                progress(reached)
            continue
        step = min(step, fraction - reached) / 4
        if step < SMALLEST_LOAD_STEP:
            solver.aim(begin.mixed(goal, reached))
            solver.newton()
            return reached
    return 1.0


def _name_unheld(solver: _Solver) -> None:
    """Raises if coordinates move in a motion that nothing resists."""
    from supple.engine.linear import Linear, loose_coordinates

    mech = solver.eqs.mechanism
    if all((j.stiffness > 0).all() for j in mech.joints):
        return
    loose = loose_coordinates(Linear(solver.eqs))
    if loose:
        some = ", ".join(f"'{name}'" for name in loose[:6]) + (" ..." if len(loose) > 6 else "")
        raise MechanismError(
            f"nothing holds {some} of '{mech.name}': no spring, motor, constraint or weight resists its motion. "
            "Add springs (mech.with_springs(stiffness=...)), a motor, or fix the base"
        )


def _result(solver: _Solver, fraction: float, acting: _Goal, targets: dict[str, float]) -> Equilibrium:
    eqs = solver.eqs
    mech, core = eqs.mechanism, eqs.core
    core.set_state(*solver.state)
    _, *sizes = core.evaluate(True)
    q, reactions, mu = core.q, core.reactions, core.mu
    names = [*eqs.row, *eqs.limit_names]
    return Equilibrium(
        mech,
        Poses(mech, core.poses),
        {j.name: q[part] for j, part in zip(mech.joints, eqs.joint_slices(), strict=True)},
        {j.name: -row for j, row in zip(mech.joints, reactions, strict=True)},  # lambda is what the child exerts
        {name: -float(m) for name, m in zip(names, mu, strict=True) if m != 0 or name in eqs.row},
        max(sizes),
        fraction,
        solver.iterations,
        tuple(load for load in acting.loads if load.wrench.any()),
        targets,
        (q, reactions, mu),
    )
