"""Newton's method on the equations of statics: along a branch of equilibria, and as a minimisation of the energy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from supple.engine.assembly import Acting, Equations
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
        self.state: tuple[Array, Array, Array] = eqs.zero_state()
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
        acting.apply_to(self.eqs)
        return self.correct(has_potential(self.eqs.mechanism, acting.loads), last_motion)

    def correct(self, potential: bool, last_motion: float = LAST_MOTION) -> Correction:
        """`continue_branch` with the loads and set-points that the equations have. `potential`: whether the loads have
        one."""
        core = self.eqs.core
        found = core.continue_branch(*self.state, branch_sizes(last_motion), BRANCH_LIMIT, potential)
        converged, rate, changed, self.history = found
        self.iterations += len(self.history)
        if converged:
            self.state = core.q, core.reactions, core.mu
        return Correction(converged, rate, tuple(changed))

    def solve(self, acting: Acting, minimise: bool = True) -> bool:
        """Converges to an equilibrium from `state`, on whatever branch. Else `state` is unchanged.

        The line search requires that the next step, computed with the old factors, is smaller than this one (the
        natural level function, which does not depend on units or stiffness). With `minimise`, stiffness is added to
        an indefinite tangent until it is positive definite, so that the search leaves saddle points of the energy.
        Without a potential there is no energy; stiffness is added where the determinant is negative (divergence).
        """
        core = self.eqs.core
        potential = has_potential(self.eqs.mechanism, acting.loads)
        acting.apply_to(self.eqs)
        state, self.history = self.state, []
        core.set_state(*state)
        for _ in range(NEWTON_LIMIT):
            rhs = core.evaluate(True)
            touching = core.active
            core.factorise(0.0)
            step, _ = core.solve(rhs, False)
            size = core.motion_size(step)
            unstable = core.negative > 0 if potential else core.negative_determinant
            shifted = minimise and unstable and size > LAST_MOTION
            if shifted:
                self._factorise_definite()
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

    def _factorise_definite(self) -> None:
        """Factorises with enough stiffness added to the coordinates to make the tangent positive definite."""
        shift = 1e-4
        while shift < 1e3:
            self.eqs.core.factorise(shift)
            if not self.eqs.core.negative:
                break
            shift *= 10
        self.eqs.core.factorise(3 * shift)  # a factor 3 away from singular

    def is_stable(self, acting: Acting) -> bool:
        """Whether `state` is a stable equilibrium under the loads and set-points `acting`, which the equations have: no
        pivot of the tangent's factors is negative. Without a potential it must not diverge, but may flutter."""
        core = self.eqs.core
        if not has_potential(self.eqs.mechanism, acting.loads):
            return not diverges(Linearisation.at(self.eqs, self.state))
        core.set_state(*self.state)
        core.evaluate(True)
        core.factorise(0.0)
        return not core.negative


def branch_sizes(last_motion: float = LAST_MOTION) -> Array:
    """(7,) tolerances and largest steps of the core's steps along a branch."""
    return np.array([last_motion, LAST_MOTION, CLOSED, LARGEST_BRANCH_TURN, SHORT_TURN, *LARGEST_RATES])
