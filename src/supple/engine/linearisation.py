"""The linearisation at a state: the tangent of the full equations, its solutions, and the admissible motions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from supple import _core, spatial
from supple.engine.assembly import ROUNDED, Acting, Equations, Layout, State, equations, turned
from supple.errors import MechanismError, listed
from supple.mechanism import Curve, Mechanism, Poses, kinematics
from supple.mechanism.idle import idle_spins, spin_increments
from supple.mechanism.mechanism import check_mechanism
from supple.mechanism.notebook import brief
from supple.mechanism.poses import amplitudes_in
from supple.mechanism.projected import projected_mass
from supple.mechanism.record import Array
from supple.mechanism.singular import singular_pose

if TYPE_CHECKING:
    from supple.engine.statics import Equilibrium

RANK_TOLERANCE = 1e-9
"""Singular values below this, relative to the largest, count as zero."""
REMEDY = "try supple.assemble(mech).mechanism, in which loops are closed within limits, or give at=..."


@dataclass(frozen=True)
class Linearisation:
    """The equations of a mechanism at one state, with their factorised tangent."""

    __repr__ = brief

    equations: Equations
    acting: Acting
    core: _core.Linearisation

    @classmethod
    def at(cls, eqs: Equations, acting: Acting, state: State) -> Linearisation:
        """At a state, under loads and set-points."""
        return cls(eqs, acting, eqs.core.linearise(eqs.compiled(acting), *state))

    @property
    def mechanism(self) -> Mechanism:
        return self.equations.mechanism

    @property
    def layout(self) -> Layout:
        return self.equations.layout

    @cached_property
    def poses(self) -> Poses:
        """World poses (4, 4) of every body."""
        return Poses(self.mechanism, self.core.poses, amplitudes_in(self.mechanism, self.core.q))

    @cached_property
    def q(self) -> Array:
        """(axes,) coordinates of every joint."""
        q: Array = self.core.q
        return q

    def solve(self, rhs: Array) -> Array:
        """Responses (m, unknowns) to right-hand sides (m, unknowns), both arranged as `layout` says."""
        return self._checked(self.core.solve(np.ascontiguousarray(rhs)))

    def solve_transposed(self, rhs: Array) -> Array:
        """Solutions (m, unknowns) with the transposed tangent."""
        return self._checked(self.core.solve_transposed(np.ascontiguousarray(rhs)))

    def _checked(self, solution: Array) -> Array:
        if not np.isfinite(solution).all():
            raise MechanismError(
                f"the tangent of '{self.mechanism.name}' is singular at this state: some motion meets no "
                "resistance; add a spring, or take another state"
            )
        return solution

    @cached_property
    def jacobian(self) -> Array:
        """(axes, bodies, 6): twist of every body, in its own frame, per increment of a tree joint's coordinate;
        zero for the coordinates of loop joints."""
        jacobian: Array = self.core.jacobian()
        return jacobian

    @property
    def _twists(self) -> Array:
        """(6 bodies, axes): the Jacobian of all bodies, as one matrix."""
        return self.jacobian.reshape(len(self.q), self.layout.twists.stop).T

    def jacobian_of(self, names: Sequence[str]) -> Array:
        """(6 names, axes): twists of bodies and sites, each in its own frame, per increment of a tree joint's
        coordinate."""
        rows = [np.zeros((0, len(self.q)))]
        for name in names:
            body, pose_body_frame = self.mechanism.frame(name)
            rows.append(spatial.adjoint(spatial.inverse(pose_body_frame)) @ self.jacobian[:, body].T)
        return np.concatenate(rows)

    @cached_property
    def conditions(self) -> Array:
        """(6 loops + rows, axes): Jacobian of the loops' gaps and of the rows with respect to the coordinates."""
        at, places = self.layout, np.arange(self.layout.size)
        tied = [*(at.multipliers[j] for j in self.mechanism.topology.loops), at.rows]
        rows = self._tangent[np.concatenate([places[part] for part in tied])]
        by_twists: Array = rows[:, at.twists] @ self._twists
        by_coordinates: Array = rows[:, at.coordinates].toarray()
        return by_twists + by_coordinates

    @property
    def loop_conditions(self) -> Array:
        """(6 loops, axes): Jacobian of the loops' gaps with respect to the coordinates."""
        rows = self.layout.rows
        return self.conditions[: len(self.conditions) - (rows.stop - rows.start)]

    @cached_property
    def free(self) -> Array:
        """(axes, m): basis of the admissible increments, which keep loops closed and rows satisfied. Idle spins that a
        weak spring holds are left out: the basis is orthogonal to them in the mass matrix, or in the coordinates where
        a spin has no mass."""
        basis = null_space(self.conditions)
        if not self.equations.idle:
            return basis
        spins = basis.T @ spin_increments(self.mechanism, self.equations.idle, self.poses).T  # (m, spins) in the basis
        momenta = self._projected_mass(basis) @ spins
        massless = np.abs(momenta).max(axis=0) <= 1e-14 * np.abs(momenta).max(initial=1e-300)
        rows = np.where(massless, spins, momenta / np.linalg.norm(momenta + massless, axis=0))
        free: Array = basis @ null_space(rows.T)
        return free

    @cached_property
    def motions(self) -> Array:
        """(6 bodies + axes, m): the admissible motions as twists of bodies and increments of coordinates."""
        return np.vstack([self._twists @ self.free, self.free])

    @cached_property
    def stiffness(self) -> Array:
        """(m, m): the tangent in the admissible motions."""
        keep = np.concatenate([np.arange(self.layout.size)[self.layout.twists], self.layout.coordinates])
        stiffness: Array = self.motions.T @ (self._tangent[keep][:, keep] @ self.motions)
        return stiffness

    @cached_property
    def _tangent(self) -> Any:
        """(unknowns, unknowns) the tangent, sparse, stored by rows."""
        from scipy.sparse import coo_matrix

        rows, columns, values = self.core.tangent()
        return coo_matrix((values, (rows.astype(int), columns.astype(int))), shape=(self.layout.size,) * 2).tocsr()

    @cached_property
    def mass(self) -> Array:
        """(m, m): mass and armature in the admissible motions."""
        return self._projected_mass(self.free)

    def _projected_mass(self, basis: Array) -> Array:
        """(m, m): mass and armature in motions given by increments (axes, m)."""
        twists = (self._twists @ basis).reshape(len(self.mechanism.bodies), 6, basis.shape[1])
        return projected_mass(self.mechanism, twists, basis, self.q)


def linearised(mech: Mechanism, at: Equilibrium | None = None, turning: Sequence[str] = ()) -> Linearisation:
    """The linearisation at an equilibrium, or at the reference pose.

    At the reference pose preload and gravity count as balanced, so the tangent is that of the unloaded springs.
    A load on a body or site in `turning` turns with the body, even if it was given in world axes.
    """
    from supple.engine.statics import checked_equilibrium

    check_mechanism(mech)
    loaded = set(turning)
    if at is not None:
        loaded.update(load.name for load in checked_equilibrium(at, mech, "at").loads)
    eqs = equations(mech if at is not None else _unloaded(mech), held=idle_spins(mech, loaded))
    eqs = replace(eqs, mechanism=mech)
    if at is None:
        return Linearisation.at(eqs, eqs.unloaded(), eqs.zero_state())
    if not at.residual < 1e-6:
        raise MechanismError(f"`at` is no equilibrium: its residual is {at.residual:.1e}; solve it first")
    loads = []
    for load in at.loads:
        if load.world and load.name in turning:
            to_body = at.poses.array[load.body][:3, :3].T
            load = replace(load, wrench=turned(to_body, load.wrench), world=False)
        loads.append(load)
    return Linearisation.at(eqs, replace(at.acting, loads=tuple(loads)), at.state)


def _unloaded(mech: Mechanism) -> Mechanism:
    """The mechanism with all spring curves shifted to zero torque at zero deflection."""
    loaded = [j for j in mech.joints if any(c is not None and c(0.0) != 0 for c in j.curves)]
    if not loaded and not any(c.curve is not None and c.curve(0.0) != 0 for c in mech.couplings):
        return mech

    def without_preload(curve: Curve | None) -> Curve | None:
        return None if curve is None else Curve(curve.deflection, curve.torque - curve(0.0))

    joints = tuple(replace(j, curves=tuple(without_preload(c) for c in j.curves)) for j in mech.joints)
    couplings = tuple(replace(c, curve=without_preload(c.curve)) for c in mech.couplings)
    return replace(mech, joints=joints, couplings=couplings)


def null_space(rows: Array, tolerance: float = RANK_TOLERANCE) -> Array:
    """(n, k) orthonormal basis of the null space of (m, n) rows."""
    if not rows.size:
        return np.eye(rows.shape[1])
    _, sizes, basis = np.linalg.svd(rows)
    rank = int((sizes > tolerance * max(sizes[0], 1e-300)).sum())
    null: Array = basis[rank:].T
    return null


def evenly_scaled(matrix: Array) -> tuple[Array, Array]:
    """Scales s (n,) and the matrix s_i s_j A_ij, whose diagonal entries are 1 or -1, and 0 where those of A are: its
    eigenvalues do not depend on units."""
    diagonal = np.abs(np.diag(matrix))
    scales = 1 / np.sqrt(np.maximum(diagonal, 1e-14 * max(np.abs(matrix).max(), 1e-300)))
    return scales, scales[:, None] * matrix * scales


def loose_coordinates(linear: Linearisation) -> list[str]:
    """Coordinates that move in some admissible motion without stiffness."""
    if not len(linear.stiffness):
        return []
    scales, stiffness = evenly_scaled(linear.stiffness)
    _, values, vectors = np.linalg.svd(stiffness)
    loose = linear.free @ (scales[:, None] * vectors[values <= 1e-10].T)
    largest = np.abs(loose).max(axis=1, initial=0.0)
    names = linear.equations.axis
    return [name for name, size in zip(names, largest, strict=True) if size > 1e-3 * max(largest.max(), 1e-300)]


def check_loops_closed(mech: Mechanism) -> None:
    """Raises if a loop has a gap at the reference pose."""
    if not mech.topology.loops:
        return
    for name, gap in kinematics(mech).gaps.items():
        if np.abs(gap).max() > ROUNDED:
            raise MechanismError(
                f"the loop at joint '{name}' of '{mech.name}' is open by {np.abs(gap[:3]).max():.2g} m and "
                f"{np.abs(gap[3:]).max():.2g} rad at the reference pose; {REMEDY}"
            )


def check_held(linear: Linearisation, at_reference: str = "") -> None:
    """Raises if some motion has zero stiffness; the error names its coordinates.

    `at_reference` is the name of the call that linearises at the reference pose, where weight counts as balanced; it is
    empty for other states.
    """
    mech = linear.mechanism
    if all((j.stiffness > 0).all() for j in mech.joints):
        return
    loose = loose_coordinates(linear)
    if loose and (singular := singular_pose(mech, linear.q, [motor.coordinate for motor in mech.motors])) is not None:
        raise MechanismError(f"'{mech.name}' cannot be linearised: {singular}. Move it a little off this pose")
    if loose:
        floats = all(mech.joint(name).kind == "free" for name in loose)
        remedy = "Add springs (mech.with_springs(stiffness=...)), a motor, or fix the base"
        reason = "no spring, motor, constraint or weight resists its motion"
        if at_reference:
            reason = "no spring, motor or constraint does, and at the reference pose weight counts as balanced"
            if mech.gravity.any():
                remedy += f"; if weight holds it: {at_reference}(mech, ..., at=supple.equilibrium(mech))"
        raise MechanismError(
            f"nothing holds {listed(loose)} of '{mech.name}': {reason}. "
            f"{'It floats: fix it, or move it in time with supple.Simulation' if floats else remedy}"
        )
