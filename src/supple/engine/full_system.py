"""Newton's method on the full equations: bodies, joints and all nodes of flexible parts together."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from supple.engine.assembly import Acting, Equations, equations
from supple.engine.full_multibody import Multibody
from supple.engine.full_part import Factors, NodalPart, PartState
from supple.engine.full_terms import BodyState, Differences, Instant
from supple.engine.starting import LARGEST_START_GAP
from supple.errors import MechanismError
from supple.mechanism import Mechanism, Poses, kinematics
from supple.mechanism.axes import of_tree
from supple.mechanism.record import Array

NEWTON_LIMIT = 30
NEGLIGIBLE = 1e-12
"""Estimated error of the solution at which Newton's method ends, rad, or lengths over the radius."""
ROUNDING = 1e-8
"""Newton steps below this that no longer shrink are rounding errors (of thin stiff parts)."""
LARGEST_RATE = 0.2
"""Contraction rate above which the tangent is factorised again."""
LARGEST_MOTION = 0.5
"""Largest Newton step, rad or radii."""
HOPELESS = 0.1
"""Newton's method gives up if its steps are still larger than this after eight iterations, rad or radii."""
REDUNDANT = 1e-12
"""Relative singular values below this belong to redundant constraints."""


@dataclass(frozen=True, eq=False)
class FullState:
    """Bodies, joints and nodes at one time."""

    bodies: BodyState
    parts: tuple[PartState, ...]


@dataclass(frozen=True)
class Failure:
    """Why Newton's method found no solution, for an error message."""

    reason: str


class FullSystem:
    """The full equations of a mechanism."""

    def __init__(self, mech: Mechanism) -> None:
        self.mechanism = mech
        self.eqs: Equations = equations(mech)
        self.bodies = Multibody(mech, self.eqs)
        self.parts = [NodalPart(each, mech) for each in mech.flexible]
        self.layout = self.bodies.layout
        self._length = mech.radius or 1.0
        self._factors: list[Factors] = []
        self._factors_slope: float | None = None
        self.iterations = 0
        self.factorisations = 0

    def state_at(self, q: Array, twists: Array, rates: Array) -> FullState:
        """The state at coordinates q (axes,) of every joint, modal amplitudes included, with twists (bodies, 6) and
        rates (axes,)."""
        mech = self.mechanism
        poses = np.array(kinematics(mech, of_tree(mech, q)).poses.array)
        parts, velocities = [], np.array(twists)
        for part, flexible in zip(self.parts, mech.flexible, strict=True):
            first, modes = self.eqs.axis[flexible.coordinates[0]], flexible.basis.modes
            amplitudes = slice(first, first + flexible.basis.size)
            reference = part.bodies[0]
            moved = modes @ q[amplitudes]
            offsets = part.part.nodes - part.origin + moved
            v, w = twists[reference, :3], twists[reference, 3:]
            relative = v + np.cross(w, offsets) + modes @ rates[amplitudes]
            parts.append(part.state_at(poses[reference], moved, relative @ poses[reference, :3, :3].T))
            poses[part.bodies] = parts[-1].poses
        return FullState(self.bodies.start(q, poses, velocities, rates), tuple(parts))

    def poses(self, state: FullState) -> Poses:
        """World poses (4, 4) of all bodies, interface frames included."""
        return Poses(self.mechanism, state.bodies.poses)

    def forget_factors(self) -> None:
        """Makes the next step factorise the elements again, so that it does not depend on earlier ones."""
        self._factors = []

    def predicted(self, past: FullState, before: FullState, h: float, trend: float) -> FullState:
        """The state after a time step with extrapolated velocities."""
        parts: list[PartState] = []
        frames: dict[int, Array] = {}
        for part, now, last in zip(self.parts, past.parts, before.parts, strict=True):
            velocities = now.velocities + trend * (now.velocities - last.velocities)
            moved = part.observed(replace(now, positions=now.positions + h * velocities))
            parts.append(moved)
            frames |= dict(zip(part.bodies, moved.poses, strict=True))
        x = self.bodies.predicted(past.bodies, before.bodies, h, trend)
        return FullState(self.bodies.moved(past.bodies, x, frames), tuple(parts))

    def solve(
        self, guess: FullState, acting: Acting, step: Differences | None, past: FullState, before: FullState
    ) -> FullState | Failure:
        """The solution near `guess`: the end of a time step, or an equilibrium without `step`.

        Factors of the elements are kept while Newton's steps shrink fast, also from one time step to the next. If a
        time step fails with them, it is tried again with new factors in every iteration.
        """
        slope = None if step is None else step.slope
        if self._factors_slope != slope:
            self._factors = []
        self._factors_slope = slope
        result: FullState | Failure = Failure("")
        for keep_factors in (True, False)[step is None or not self.parts :]:
            result = self._newton(guess, acting, step, past, before, keep_factors)
            if not isinstance(result, Failure):
                break
            self._factors = []
        return result

    def _newton(
        self,
        guess: FullState,
        acting: Acting,
        step: Differences | None,
        past: FullState,
        before: FullState,
        keep_factors: bool,
    ) -> FullState | Failure:
        """Newton's method from `guess`; with `keep_factors`, factors are renewed only where it is slow."""
        state, size, last = guess, np.inf, np.inf
        changes: list[Array | None] = [None] * len(self.parts)
        renew = not keep_factors
        for k in range(NEWTON_LIMIT):
            if (renew or not self._factors) and not self._factorise(state, step, changes):
                return Failure("the stiffness of an elastic part is singular")
            assumed, state, size, changes = self._newton_step(state, acting, step, past, before)
            self.iterations += 1
            if not np.isfinite(size) or (k >= 8 and size > max(ROUNDING, min(last, HOPELESS))):
                break
            if _is_negligible(k, size, last):
                reached = self.with_rates(state, acting, step, past, before)
                if reached.bodies.active == assumed:
                    inverted = self._inverted(reached)
                    return Failure(inverted) if inverted else reached
            renew = not keep_factors or size > LARGEST_RATE * last
            last = size
        return Failure(self._inverted(state) or f"Newton's method still moves by {size:.1g} (rad, or radii)")

    def with_rates(
        self, state: FullState, acting: Acting, step: Differences | None, past: FullState, before: FullState
    ) -> FullState:
        """The state with velocities, momenta and active limits at the end of a time step. Without `step`: at rest."""
        parts = []
        bodies = self.bodies.evaluate(Instant(state.bodies, acting, step, past.bodies, before.bodies))[2]
        for part, own, last, first in zip(self.parts, state.parts, past.parts, before.parts, strict=True):
            parts.append(part.residual(own, acting.gravity, step, last, first)[2])
            bodies.velocities[part.bodies] = part.frame_twists(parts[-1])
        return FullState(bodies, tuple(parts))

    def check_start(self, state: FullState, acting: Acting) -> None:
        """Raises unless motors are at their coordinates, joints are closed and limits satisfied."""
        residual, _, now = self.bodies.evaluate(Instant(state.bodies, acting, None, state.bodies, state.bodies))
        remedy = "start the simulation at an equilibrium (start=supple.engine.full_equilibrium(mech)) or with other q"
        for row, error, active in zip(self.bodies.rows, residual[self.layout.rows], now.active, strict=True):
            if active and abs(error) > LARGEST_START_GAP:
                raise MechanismError(
                    f"the motor, coupling or limit '{row.name}' is off by {error:.3g} at the start; {remedy}"
                )
        for (joint, *_), gap in zip(self.bodies.joints, residual[self.layout.multipliers], strict=True):
            if np.abs(gap).max() > LARGEST_START_GAP:
                raise MechanismError(
                    f"joint '{joint.name}' has a gap of {np.abs(gap).max():.2g} at the start; {remedy}"
                )

    def _factorise(self, state: FullState, step: Differences | None, changes: list[Array | None]) -> bool:
        """Factorises the tangents of all parts at a state; False if one is singular."""
        self.factorisations += 1
        try:
            pairs = zip(self.parts, state.parts, changes, strict=True)
            self._factors = [part.factorise(own, step, change) for part, own, change in pairs]
        except RuntimeError:  # of SuperLU: exactly singular
            self._factors = []
        return len(self._factors) == len(self.parts)

    def _newton_step(
        self, state: FullState, acting: Acting, step: Differences | None, past: FullState, before: FullState
    ) -> tuple[tuple[int, ...], FullState, float, list[Array | None]]:
        """One Newton step: the active rows that it assumes, the new state, the size of the step (rad, or radii), and
        the increments of the nodes relative to their reference frames.

        The nodes are eliminated; a dense system of bodies, joints and wrenches of the interface frames remains.
        """
        residual, tangent, now = self.bodies.evaluate(Instant(state.bodies, acting, step, past.bodies, before.bodies))
        layout = self.layout
        matrix, right = np.zeros((layout.size, layout.size)), np.zeros(layout.size)
        matrix[layout.bodies, layout.bodies], right[layout.bodies] = tangent, -residual
        free = []
        for i, part in enumerate(self.parts):
            own = state.parts[i]
            of_nodes, wrench, _ = part.residual(own, acting.gravity, step, past.parts[i], before.parts[i])
            free.append(self._factors[i].lu.solve(-of_nodes))
            places = layout.twists[part.bodies], layout.wrenches[i]
            part.add_rows(self._factors[i], own, free[i], wrench, *places, matrix, right)
        x = _dense_solution(matrix, right, bool(self.mechanism.topology.loops))
        moved, sizes = [], [self._motion_size(x)]
        for i, part in enumerate(self.parts):
            twists, wrenches = x[layout.twists[part.bodies]], x[layout.wrenches[i]]
            change = part.increments(self._factors[i], state.parts[i], free[i], twists, wrenches)
            moved.append((change, twists[0], wrenches))
            sizes.append(float(np.abs(change).max()) / self._length)
        size = max(sizes)
        if not np.isfinite(size):
            return now.active, state, np.inf, [None] * len(self.parts)
        scale = min(1.0, LARGEST_MOTION / max(size, 1e-300))
        parts: list[PartState] = []
        frames: dict[int, Array] = {}
        changes: list[Array | None] = []
        for part, own, (change, twist, wrenches) in zip(self.parts, state.parts, moved, strict=True):
            changes.append(part.deformation(own, scale * change, scale * twist))
            parts.append(part.moved(own, scale * change, scale * twist, scale * wrenches))
            frames |= dict(zip(part.bodies, parts[-1].poses, strict=True))
        bodies = self.bodies.moved(state.bodies, scale * x, frames)
        return now.active, FullState(bodies, tuple(parts)), size, changes

    def _motion_size(self, x: Array) -> float:
        """Largest motion of a body in a Newton step, rad, or lengths over the radius."""
        twists, places = np.abs(x[self.layout.twists]), self.layout.coordinates
        coordinates = np.abs(x[places[places >= 0]])
        sizes = [twists[:, :3].max(initial=0.0) / self._length, twists[:, 3:].max(initial=0.0)]
        return float(max(*sizes, coordinates.max(initial=0.0) / max(1.0, self._length)))

    def _inverted(self, state: FullState) -> str:
        """Names an inverted element, for an error message; empty if there is none."""
        for part, own in zip(self.parts, state.parts, strict=True):
            if own.inverted >= 0:
                corners = part.part.tets[own.inverted, :4].tolist()
                return f"tetrahedron {own.inverted} of '{part.name}' (corners {corners}) is inverted"
        return ""


def _is_negligible(k: int, size: float, last: float) -> bool:
    """Whether Newton's method has converged after step k, by its size and that of the step before."""
    if size < NEGLIGIBLE or k == 0:
        return size < NEGLIGIBLE
    rate = size / last
    stalled = k >= 2 and size < ROUNDING and rate > 0.3
    return stalled or (rate < 0.5 and size * rate / (1 - rate) < NEGLIGIBLE)


def _dense_solution(matrix: Array, right: Array, redundant: bool) -> Array:
    """Solves the dense system, scaled to entries of similar size. With `redundant` constraints: its smallest
    solution."""
    scales = np.ones(len(right))
    for _ in range(3):
        largest = np.abs(matrix * scales[:, None] * scales).max(axis=1, initial=0.0)
        scales /= np.sqrt(np.where(largest > 0, largest, 1.0))
    scaled, goal = matrix * scales[:, None] * scales, right * scales
    if not np.isfinite(scaled).all():
        return np.full(len(right), np.nan)
    try:
        if redundant:
            return np.asarray(scales * np.linalg.lstsq(scaled, goal, rcond=REDUNDANT)[0])
        return np.asarray(scales * np.linalg.solve(scaled, goal))
    except np.linalg.LinAlgError:
        return np.full(len(right), np.nan)
