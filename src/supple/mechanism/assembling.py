"""Assembles a mechanism: closes its loops within all limits, by the least motion."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from supple.errors import ConvergenceError, MechanismError, listed
from supple.mechanism.axes import axis_names
from supple.mechanism.kinematics import kinematics
from supple.mechanism.mechanism import Mechanism, check_mechanism
from supple.mechanism.mobility import constraints
from supple.mechanism.named import Coordinates
from supple.mechanism.record import Array

CLOSED = 1e-11
"""Largest violation of a constraint that counts as closed: rad, or m over the mechanism's radius."""
CONSTRAINT_WEIGHT = 1e5
"""Weight of the linearised constraints beside the motion; Newton's iterations remove the rest."""
LARGEST_STEP = 0.3
"""Largest change of a coordinate in one iteration, rad or radii."""
ITERATIONS = 100


@dataclass(frozen=True)
class Assembly:
    """A configuration in which loops are closed and limits respected."""

    mechanism: Mechanism
    """The mechanism with this configuration as its reference pose."""
    q: Coordinates
    """(dof,) coordinates of the spanning tree, rad and m, also by name."""
    moved: dict[str, float]
    """How far each coordinate moved from where it was, rad or m; those that did not move are left out."""


def assemble(mech: Mechanism, q: ArrayLike | None = None, keep: Iterable[str] | str = ()) -> Assembly:
    """Closes loops and rigid couplings within the limits of joints and couplings, by the least motion.

    Minimises the sum of the squared motions of all coordinates of the spanning tree (slides divided by the mechanism's
    radius), by Newton's method with bounded linear least squares. Coordinates of motors do not move.

    Args:
        mech: the mechanism.
        q: (dof,) coordinates to start from, rad and m; by default those of the reference pose.
        keep: names of joints or coordinates that must not move.

    Raises `ConvergenceError` if no such configuration is found nearby.
    """
    check_mechanism(mech)
    start = np.asarray(kinematics(mech, q).q)
    found = _Assembler(mech, start, _fixed(mech, keep)).solve()
    moved = {n: float(d) for n, d in zip(mech.coordinates, found - start, strict=True) if abs(d) > 1e-9}
    result = np.where([n in moved for n in mech.coordinates], found, start) if len(start) else start
    return Assembly(mech.at(result), Coordinates(mech, result), moved)


def _fixed(mech: Mechanism, keep: Iterable[str] | str) -> set[str]:
    """Names of the coordinates that must not move."""
    names, axes = [keep] if isinstance(keep, str) else list(keep), set(axis_names(mech))
    kept = {axis for name in names for axis in ([name] if name in axes else mech.joint(name).axes)}
    kept |= {motor.coordinate for motor in mech.motors}
    return kept | {axis for joint in mech.joints if joint.interface is not None for axis in joint.axes}


class _Assembler:
    """The iteration for one start. Unknowns x: coordinates of the tree, of loop joints, and lengths of couplings."""

    def __init__(self, mech: Mechanism, start: Array, fixed: set[str]) -> None:
        self.mech = mech
        at_start = mech.at(start)
        loops = [at_start.joints[j].reference for j in mech.topology.loops]
        coordinates = np.concatenate([start, *loops])
        self.names = (*mech.coordinates, *mech.loop_coordinates)
        self.limited = [c for c in mech.couplings if np.isfinite(c.limits).any()]
        self.lengths = np.zeros((len(self.limited), len(self.names)))
        for row, coupling in zip(self.lengths, self.limited, strict=True):
            row[[self.names.index(n) for n in coupling.coordinates]] = coupling.coefficients
        self.start = np.concatenate([coordinates, self.lengths @ coordinates])
        joints = [mech.joints[j] for j in (*mech.topology.tree, *mech.topology.loops)]
        limits = [np.zeros((0, 2)), *(j.limits for j in joints), *(c.limits[None] for c in self.limited)]
        self.lower, self.upper = np.concatenate(limits).T
        self.free = np.array([name not in fixed for name in self.names] + [True] * len(self.limited), dtype=bool)
        self._check_kept()
        self.cost = self._costs()
        self.unit = np.where(self.cost > 0, self.cost, 1.0)

    def _check_kept(self) -> None:
        for i in np.flatnonzero(~self.free[: len(self.names)]):
            low, high, value = self.lower[i], self.upper[i], self.start[i]
            if not low - 1e-9 <= value <= high + 1e-9:
                raise MechanismError(
                    f"'{self.names[i]}' must not move, but it is at {value:g}, outside its limits {low:g} ... {high:g}"
                )

    def _costs(self) -> Array:
        """Weights of the motions: 1 for angles, 1 / radius for lengths, 0 for what follows the tree."""
        tree = [self.mech.joints[j] for j in self.mech.topology.tree]
        per_length = 1 / (self.mech.radius or 1.0)
        weights = [1.0 if twist[3:].any() else per_length for joint in tree for twist in joint.twists]
        return np.concatenate([weights, np.zeros(len(self.start) - len(weights))])

    def solve(self) -> Array:
        """(dof,) coordinates of the tree."""
        x = np.clip(self.start, self.lower, self.upper)
        x[~self.free] = self.start[~self.free]
        for _ in range(ITERATIONS):
            step = self._step(x, self.start - x)
            x = x + step
            if np.abs(step * self.unit).max(initial=0.0) < 1e-9:
                break
        for _ in range(5):  # the weight leaves a rest of the constraints; the nearest closed configuration has none
            if np.abs(self._constraints(x)[0]).max(initial=0.0) < CLOSED:
                break
            x = x + self._step(x, np.zeros(len(x)))
        if not np.abs(self._constraints(x)[0]).max(initial=0.0) < 100 * CLOSED:
            self._fail(x[: len(self.names)])
        return np.asarray(np.clip(x, self.lower, self.upper)[: self.mech.dof])

    def _step(self, x: Array, wanted: Array) -> Array:
        """The step within the limits that closes the linearised constraints and is nearest to the wanted one.

        min  w^2 |J step + c|^2 + |W (step - wanted)|^2   with W the cost of motions and w the weight of constraints
        """
        from scipy.optimize import lsq_linear

        step = np.zeros(len(x))
        if not self.free.any():
            return step
        violation, rows = self._constraints(x)
        system = np.vstack([CONSTRAINT_WEIGHT * rows, np.diag(self.cost)])[:, self.free]
        right = np.concatenate([-CONSTRAINT_WEIGHT * violation, self.cost * wanted])
        low = np.maximum(self.lower - x, -LARGEST_STEP / self.unit)[self.free]
        high = np.minimum(self.upper - x, LARGEST_STEP / self.unit)[self.free]
        narrow = 1e-14 * (high - low < 1e-14)  # lsq_linear needs an interior
        step[self.free] = lsq_linear(system, right, (low - narrow, high + narrow), method="bvls").x
        return step

    def _constraints(self, x: Array) -> tuple[Array, Array]:
        """Violation (m,) and Jacobian (m, unknowns) of loops, rigid couplings and the lengths of couplings."""
        n = len(self.names)
        violation, rows = constraints(self.mech, x[:n])
        lengths = self.lengths @ x[:n] - x[n:]
        k = len(self.limited)
        all_rows = np.block([[rows, np.zeros((len(rows), k))], [self.lengths, -np.eye(k)]])
        return np.concatenate([violation, lengths]), all_rows

    def _fail(self, q: Array) -> None:
        mech = self.mech
        gaps = kinematics(mech, q[: mech.dof]).gaps
        name, gap = max(gaps.items(), key=lambda item: float(np.abs(item[1]).max()), default=("", np.zeros(6)))
        stopped = [
            self.names[i]
            for i in range(len(self.names))
            if not self.free[i] or min(q[i] - self.lower[i], self.upper[i] - q[i]) < 1e-9
        ]
        what = (
            f"the loop at joint '{name}' stays open by {np.abs(gap[:3]).max():.3g} m, {np.abs(gap[3:]).max():.3g} rad"
            if np.abs(gap).max() > 1e-6
            else "rigid couplings and limits contradict each other"
        )
        where = f"; at their limits or kept: {listed(stopped)}" if stopped else ""
        raise ConvergenceError(
            f"'{mech.name}' cannot be assembled near this configuration: {what}{where}; start from other coordinates "
            "(q=...), or widen the limits"
        )
