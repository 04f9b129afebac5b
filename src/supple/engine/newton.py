"""Newton's method on the equations of statics: along a branch of equilibria, and as a minimisation of the energy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from supple.engine.assembly import Acting, Equations, State
from supple.engine.linearisation import Linearisation
from supple.engine.stability import diverges, has_potential
from supple.mechanism.record import Array

LAST_MOTION = 1e-9
"""Newton's last step, rad (lengths over the radius). The error that it leaves is of the order of its square."""
PASSING_MOTION = 1e-4
"""The same at shares of the load that the path only passes through."""
CLOSED = 1e-10
"""Gaps of loops over the radius; errors of motors, rigid couplings and touched limits."""
NEWTON_LIMIT = 150
LARGEST_TURN = 1.0
"""Largest motion of a coordinate in one Newton iteration in a descent, rad or radii."""
BRANCH_LIMIT = 12
"""Largest number of Newton iterations of one step along a branch."""
LARGEST_RATES = (0.5, 0.25)
"""Largest contraction rates |dx_1| / |dx_0| and |dx_k+1| / |dx_k| of Newton's steps along a branch."""
LARGEST_BRANCH_TURN = 2.0
"""Largest motion of a coordinate in one Newton iteration along a branch, rad or radii."""
SHORT_TURN = 0.1
"""The same in a step in which a limit is met or left, or in which pivots are negative without a potential."""


@dataclass(frozen=True)
class Correction:
    """How Newton's method went in one step along a branch."""

    converged: bool
    """True if the new state continues the branch."""
    rate: float
    """Largest contraction rate, or motion, over the largest accepted: above 1 where the step must be shorter."""
    limits: tuple[int, ...] = ()
    """Rows of limits that were met or left."""


class Newton:
    """Newton's method on the compiled equations, from `state`."""

    def __init__(self, eqs: Equations) -> None:
        self.eqs = eqs
        self.state: State = eqs.zero_state()
        self.iterations = 0
        self.history: list[float] = []
        """Step sizes of the last solve, rad (lengths over the radius)."""

    def continue_branch(self, acting: Acting, last_motion: float = LAST_MOTION) -> Correction:
        """Converges along the branch from `state`, an equilibrium under other loads. Else `state` is unchanged.

        By the theorem of Newton and Kantorovich there is exactly one solution near the start if Newton's steps dx_k
        contract fast. The rates of a smaller share of the load change are smaller still, so there is one solution for
        every share, and these form a continuous branch (P. Deuflhard, Newton Methods for Nonlinear Problems, 2004,
        chapter 5). The tangent must stay regular: no pivot may become negative if the loads have a potential. Without
        a potential the tangent is not symmetric, and its determinant must stay positive. Rates are measured at this
        share only, so this is an estimate; `LARGEST_RATES` leave a margin.
        """
        potential = has_potential(self.eqs.mechanism, acting.loads)
        return self.correct(self.eqs.compiled(acting), potential, last_motion)

    def correct(self, acting: Any, potential: bool, last_motion: float = LAST_MOTION) -> Correction:
        """`continue_branch` with compiled loads and set-points. `potential`: whether the loads have one."""
        found = self.eqs.core.continue_branch(acting, *self.state, newton_limits(last_motion), BRANCH_LIMIT, potential)
        converged, reached, rate, changed, self.history = found
        self.iterations += len(self.history)
        if converged:
            self.state = reached
        return Correction(converged, rate, tuple(changed))

    def solve(self, acting: Acting, minimise: bool = True) -> bool:
        """Converges to an equilibrium from `state`, on whatever branch. Else `state` is unchanged.

        With `minimise`, the search leaves saddle points of the energy, and without a potential states that diverge.
        """
        limits = newton_limits(largest_turn=LARGEST_TURN)
        potential = has_potential(self.eqs.mechanism, acting.loads)
        found, reached, self.history = self.eqs.core.find_equilibrium(
            self.eqs.compiled(acting), *self.state, limits, NEWTON_LIMIT, potential, minimise
        )
        self.iterations += len(self.history)
        if found:
            self.state = reached
        return bool(found)

    def is_stable(self, acting: Acting) -> bool:
        """Whether `state` is a stable equilibrium under `acting`: no pivot of the tangent's factors is negative.
        Without a potential it must not diverge, but may flutter."""
        linear = Linearisation.at(self.eqs, acting, self.state)
        if not has_potential(self.eqs.mechanism, acting.loads):
            return not diverges(linear)
        return not linear.core.negative


def newton_limits(last_motion: float = LAST_MOTION, largest_turn: float = LARGEST_BRANCH_TURN) -> Array:
    """(7,) the first fields of the core's `BranchLimits`: size of the last step, the same for a final state, gaps,
    largest step, largest step where a limit is met or left, and the largest two contraction rates."""
    return np.array([last_motion, LAST_MOTION, CLOSED, largest_turn, SHORT_TURN, *LARGEST_RATES])
