"""Follows the path of equilibria from one set of loads to another, and finds the reason if the path ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from supple.engine.assembly import Acting, State
from supple.engine.linearisation import RANK_TOLERANCE, Linearisation
from supple.engine.newton import LAST_MOTION, PASSING_MOTION, SHORT_TURN, Correction, Newton
from supple.engine.stability import has_potential
from supple.errors import ConvergenceError
from supple.mechanism import Mechanism
from supple.mechanism.axes import axis_slices
from supple.mechanism.notebook import brief
from supple.mechanism.record import Array, lock
from supple.mechanism.singular import singular_pose

SMALLEST_SHARE = 1e-6
"""Smallest step along a branch, as a share of the load. Where a step would have to be smaller, the branch ends."""
FIRST_SNAP = 1e-4
"""Share of the load beyond the end of a branch at which another stable state is looked for first."""
SMALLEST_UNSTABLE_SHARE = 1e-4
"""Smallest step through unstable states, as a share of the load."""
LARGEST_GROWTH = 3.0
"""Largest ratio of a step along a branch to the step before it."""
WANTED_RATE = 0.6
"""Contraction rate, over the largest accepted, that the next step aims at."""
MOST_STEPS = 20_000
"""Largest number of steps along a path, accepted or not."""
HALF_TURN = 1e-3
"""rad: rotation vectors that are shorter than pi by less end a path."""
FALLEN = 0.2
"""A stiffness or singular value below this share of its value at the start has vanished at the end of the path."""


@dataclass(frozen=True)
class LoadPath:
    """The equilibria on the way to a load, at n shares of it."""

    __repr__ = brief

    shares: Array
    """(n,) shares of the load, rising from 0 to the share reached."""
    q: Array
    """(n, dof) coordinates of the spanning tree, in the order of `mech.coordinates`; rad and m."""
    poses: Array
    """(n, bodies, 4, 4) world poses of the bodies, in the order of `mech.bodies`; m."""

    def __post_init__(self) -> None:
        lock((self.shares, self.q, self.poses))


@dataclass
class PathFollower:
    """Follows a branch of equilibria from the loads and set-points `begin` to those of `goal`."""

    newton: Newton
    begin: Acting
    goal: Acting
    progress: Callable[[float], None] | None = None
    exact: bool = False
    """True if states at shares below 1 are needed to full accuracy."""
    shares: list[float] = field(default_factory=list)
    """Accepted so far."""
    states: list[State] = field(default_factory=list)
    """Coordinates and multipliers at each of the shares."""
    snaps: list[float] = field(default_factory=list)
    """Shares at which the stable branch ended and a state of another one was found."""
    limits: tuple[int, ...] = ()
    """Rows of limits that the last failed step met or left."""
    tried: int = 0
    """Number of steps so far, accepted or not."""

    @property
    def is_too_long(self) -> bool:
        """Whether the path was given up after `MOST_STEPS`."""
        return self.tried >= MOST_STEPS

    @property
    def has_potential(self) -> bool:
        """Whether the loads along the path have a potential."""
        return has_potential(self.newton.eqs.mechanism, (*self.begin.loads, *self.goal.loads))

    def run(self) -> float:
        """Follows the path; returns the share reached. It is below 1 if the path ends and no other state was found."""
        self._accept(0.0)
        first = self._correct(1.0)
        if first.converged:
            self._accept(1.0)
            return 1.0
        self._balance_start()
        step = _next_step(1.0, first)
        while True:
            self._follow_branch(step)
            if self.shares[-1] == 1:
                return 1.0
            self._refine_end()
            if self.is_too_long:
                return self.shares[-1]
            if not self._snap_through():
                break
            step = 1.0
        if self.has_potential or self._goes_on():
            self._follow_unstable()
        return self.shares[-1]

    def acting(self, share: float | None = None) -> Acting:
        """Loads and set-points at a share, or at the last share accepted."""
        return self.begin.interpolated(self.goal, self.shares[-1] if share is None else share)

    def _accept(self, share: float) -> None:
        self.shares.append(share)
        self.states.append(self.newton.state)
        if self.progress is not None and share > 0:
            self.progress(share)

    def _correct(self, share: float) -> Correction:
        self.tried += 1
        exact = self.exact or share == 1
        return self.newton.continue_branch(self.acting(share), LAST_MOTION if exact else PASSING_MOTION)

    def _balance_start(self) -> None:
        """Solves at share 0, where the start may be no equilibrium: springs with a preload, loops with gaps."""
        if self.newton.solve(self.acting(0.0)):
            self.states[-1] = self.newton.state

    def _follow_branch(self, step: float) -> None:
        """Raises the share, by steps that the contraction rate of Newton's method allows, to 1 or the branch's end."""
        growth = LARGEST_GROWTH
        while self.shares[-1] < 1 and step > SMALLEST_SHARE and not self.is_too_long:
            reached = self.shares[-1]
            share = 1.0 if reached + step > 1 - SMALLEST_SHARE else reached + step
            correction = self._correct(share)
            step = min(_next_step(share - reached, correction), growth * (share - reached))
            growth = LARGEST_GROWTH if correction.converged else 1.0
            if correction.converged:
                self._accept(share)
            else:
                self.limits = correction.limits

    def _refine_end(self) -> None:
        """Converges the last state to full accuracy; where that fails so close to the end, the one before it."""
        while not self.newton.solve(self.acting(), minimise=False) and len(self.shares) > 1:
            del self.shares[-1], self.states[-1]
            self.newton.state = self.states[-1]
        self.states[-1] = self.newton.state

    def _snap_through(self) -> bool:
        """Looks for a stable state just beyond the end of a stable branch, by minimising the energy."""
        reached, step = self.shares[-1], FIRST_SNAP
        while True:
            share = min(1.0, reached + step)
            before = self.newton.state
            if self.newton.solve(self.acting(share)):
                if self.newton.is_stable(self.acting(share)):
                    self.snaps.append(reached)
                    self._accept(share)
                    return True
                self.newton.state = before
            if share == 1:
                return False
            step *= 4

    def _goes_on(self) -> bool:
        """Whether there is a state just beyond the end of a branch near its last one, as for a perfect column. At a
        fold there is none, and Newton's method would find a state of some other branch."""
        newton, before = self.newton, self.newton.state
        found = newton.solve(self.acting(min(1.0, self.shares[-1] + SMALLEST_UNSTABLE_SHARE)), minimise=False)
        moved = (newton.state[0] - before[0]) / _lengths(newton.eqs.mechanism)
        newton.state = before
        return found and bool(np.abs(moved).max() < SHORT_TURN)

    def _follow_unstable(self) -> None:
        """Follows the path on through unstable states, like that of a perfect column that buckles, if it leads to the
        full load; otherwise stays at the end of the stable branch."""
        accepted = len(self.shares)
        reached = self.shares[-1]
        step = 1.0 - reached
        while reached < 1:
            share = min(1.0, reached + step)
            self.tried += 1
            if self.newton.solve(self.acting(share), minimise=False):
                self._accept(share)
                reached = share
                step *= 2
                continue
            step = min(step, share - reached) / 4
            if step < SMALLEST_UNSTABLE_SHARE or self.is_too_long:
                del self.shares[accepted:], self.states[accepted:]
                self.newton.state = self.states[-1]
                return


def _next_step(step: float, correction: Correction) -> float:
    """The step along a branch after this one. The contraction rate is proportional to the step."""
    if correction.converged:
        return step * min(LARGEST_GROWTH, max(0.5, WANTED_RATE / max(correction.rate, 1e-300)))
    return step * min(0.5, max(0.1, WANTED_RATE / correction.rate))


def end_of_path(follower: PathFollower) -> ConvergenceError:
    """The error that says at which share of the load a path ended and why: snap-through, limit or singular pose."""
    eqs = follower.newton.eqs
    share = follower.shares[-1]
    if follower.is_too_long:
        return ConvergenceError(
            f"the path of equilibria of '{eqs.mechanism.name}' takes more than {MOST_STEPS} steps; they led to "
            f"{share:.2%} of the load and of the change of set-points. {_furthest_target(follower)}. The state reached "
            "is in the error's `state`; go on from there with start=error.state, or ask for less",
            load_fraction=share,
            reason="long",
        )
    reason, why = _reason(follower)
    earlier = f" (after a snap-through at {follower.snaps[-1]:.1%})" if follower.snaps else ""
    return ConvergenceError(
        f"no equilibrium of '{eqs.mechanism.name}' was found beyond {share:.1%} of the load{earlier}: {why}. "
        "The state reached is in the error's `state`; apply less, or add stiffness",
        load_fraction=share,
        reason=reason,
    )


def _furthest_target(follower: PathFollower) -> str:
    """The set-point that changes most along a path, in words."""
    names, begin, goal = list(follower.newton.eqs.axis), follower.begin, follower.goal
    before = dict(zip(names, begin.rest.tolist(), strict=True)) | begin.targets
    after = dict(zip(names, goal.rest.tolist(), strict=True)) | goal.targets
    name = max(after, key=lambda each: abs(after[each] - before[each]))
    if after[name] == before[name]:
        return "The loads are far larger than what its springs resist"
    return (
        f"The set-point of '{name}' changes most, from {before[name]:g} to {after[name]:g}; an angle counts its turns"
    )


def _reason(follower: PathFollower) -> tuple[str, str]:
    """Why a path ended: "snap", "limit" or "singular", and the same in words with the part at fault."""
    eqs = follower.newton.eqs
    mech = eqs.mechanism
    first, last = (_linearised_at(follower, i) for i in (0, -1))
    rows, before, after = _weakest_constraint(first, last)
    if after < FALLEN * before:
        return "singular", f"{rows} cannot move any further there (the constraints are singular)"
    named = [eqs.limit_names[row - len(eqs.row)] for row in follower.limits if row >= len(eqs.row)]
    if named:
        return "limit", f"'{named[0]}' meets or leaves its limit there, and no stable state follows"
    if (ball := _turned_half(mech, follower.states[-1][0])) is not None:
        return "limit", (
            f"'{ball}' has made half a turn there, beyond which the spring of a rotation vector pulls to the other "
            "side (a sequence of single axes has no such end)"
        )
    softest, stiffness = _softest_motion(last, follower.has_potential)
    if stiffness < FALLEN * _softest_motion(first, follower.has_potential)[1]:
        why = f"it snaps through there along '{softest}' (its stiffness falls to zero), without another stable state"
        return "snap", why
    pose = singular_pose(mech, follower.states[-1][0], [motor.coordinate for motor in mech.motors])
    return "singular", f"the tangent is singular there, in the motion of '{softest}'" if pose is None else str(pose)


def _turned_half(mech: Mechanism, q: Array) -> str | None:
    """The joint whose rotation vector has a spring and the length pi at coordinates q (axes,)."""
    for joint, part in zip(mech.joints, axis_slices(mech), strict=True):
        start = part.start
        for size in joint.blocks:
            vector, springs = q[start : start + size], joint.stiffness[start - part.start :][:size]
            if size == 3 and springs.any() and np.linalg.norm(vector) > np.pi - HALF_TURN:
                return joint.name
            start += size
    return None


def _linearised_at(follower: PathFollower, index: int) -> Linearisation:
    """The linearisation at an accepted state."""
    acting = follower.acting(follower.shares[index])
    return Linearisation.at(follower.newton.eqs, acting, follower.states[index])


def _softest_motion(linear: Linearisation, potential: bool) -> tuple[str, float]:
    """The coordinate that moves most in the softest admissible motion, and the stiffness of that motion, N m/rad
    (lengths over the radius).

    With a potential these are the smallest eigenvalue of the symmetric stiffness K and its vector. Otherwise K is not
    symmetric: they are its smallest singular value and the right singular vector, the null vector where det K = 0.
    """
    from scipy.linalg import cholesky, eigh, solve_triangular

    names = list(linear.equations.axis)
    if not len(linear.stiffness):
        return names[0], 0.0
    motions = linear.free / _lengths(linear.mechanism)[:, None]
    if potential:
        values, vectors = eigh((linear.stiffness + linear.stiffness.T) / 2, motions.T @ motions, subset_by_index=(0, 0))
        return names[int(np.abs(motions @ vectors[:, 0]).argmax())], float(values[0])
    unit = solve_triangular(cholesky(motions.T @ motions), np.eye(motions.shape[1]))  # motions @ unit is orthonormal
    _, sizes, right = np.linalg.svd(unit.T @ linear.stiffness @ unit)
    return names[int(np.abs(motions @ unit @ right[-1]).argmax())], float(sizes[-1])


def _lengths(mech: Mechanism) -> Array:
    """(axes,) divisors by which increments of coordinates can be compared: 1 for rotations, the radius for lengths."""
    turning = np.concatenate([np.abs(j.twists[:, 3:]).max(axis=1, initial=0.0) > 0 for j in mech.joints])
    return np.where(turning, 1.0, mech.radius or 1.0)


def _weakest_constraint(first: Linearisation, last: Linearisation) -> tuple[str, float, float]:
    """The loop or row that is nearest to singular at the last state, and its relative singular value at both."""
    if not last.conditions.size:
        return "", 1.0, 1.0
    left, sizes, _ = np.linalg.svd(last.conditions)
    rank = int((sizes > RANK_TOLERANCE * max(sizes[0], 1e-300)).sum())
    if not rank:
        return "", 1.0, 1.0
    before = np.linalg.svd(first.conditions, compute_uv=False)
    worst = int(np.abs(left[:, rank - 1]).argmax())
    loops = [last.mechanism.joints[j].name for j in last.mechanism.topology.loops]
    rows = [*last.equations.row, *last.equations.limit_names]
    names = [f"the loop closed by '{loop}'" for loop in loops for _ in range(6)] + [f"'{row}'" for row in rows]
    return names[worst], float(before[rank - 1] / max(before[0], 1e-300)), float(sizes[rank - 1] / sizes[0])
