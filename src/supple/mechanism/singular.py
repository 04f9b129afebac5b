"""Singular poses: where loops and motors allow a motion to first order that they resist to second order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from supple.errors import listed
from supple.mechanism.axes import axis_slices, of_tree
from supple.mechanism.mechanism import Mechanism
from supple.mechanism.mobility import constraints
from supple.mechanism.record import Array

NEAR = 1e-4
"""Singular values of the constraints, over the largest, that vanish at a singular pose nearby."""
MOVE = 1e-2
"""rad, or over the radius: how far the mechanism is moved along a motion to find out whether constraints resist it."""
RESISTED = 1e-3 * MOVE**2
"""Violation after that motion, rad or over the radius, that is of second order."""


@dataclass(frozen=True)
class SingularPose:
    """A motion that constraints allow to first order only: that of a straight strut or at a dead point."""

    moving: tuple[str, ...]
    """Coordinates of that motion."""
    resisting: str
    """The loop, coupling or motor that resists it, in words."""

    def __str__(self) -> str:
        return (
            f"this is a singular pose (a straight strut or a dead point): to first order {self.resisting} does not "
            f"resist the motion of {listed(self.moving)}, so that its force has no bound"
        )


def singular_pose(mech: Mechanism, q: Array, held: Sequence[str] = ()) -> SingularPose | None:
    """The singularity of the pose with coordinates q (axes,) of all joints; None if there is none.

    Let J be the Jacobian of the constraints, n a motion with J n = 0 and u a combination of constraints with u^T J = 0.
    Near a regular pose a motion along n, corrected along the rows of J, keeps all constraints. Near a singular one u
    changes by a second-order term. `held`: coordinates that motors prescribe.
    """
    slices, names = axis_slices(mech), (*mech.coordinates, *mech.loop_coordinates)
    start = np.concatenate([of_tree(mech, q), *(q[slices[j]] for j in mech.topology.loops)])
    turning = np.concatenate(
        [mech.joints[j].twists[:, 3:].any(axis=1) for j in (*mech.topology.tree, *mech.topology.loops)]
    )
    scales = np.where(turning, 1.0, mech.radius or 1.0)
    units = np.eye(len(names))[[names.index(name) for name in held]]

    def violation_and_jacobian(x: Array) -> tuple[Array, Array]:
        values, rows = constraints(mech, x)
        return np.append(values, units @ (x - start)), np.vstack([rows, units]) * scales

    at_start, rows = violation_and_jacobian(start)
    if not rows.size:
        return None
    left, sizes, right = np.linalg.svd(rows)
    rank = int((sizes > NEAR * sizes[0]).sum())
    if rank == len(rows) or rank == len(names):
        return None
    inverse = (right[:rank].T / sizes[:rank]) @ left[:, :rank].T
    rng = np.random.default_rng(0)
    for motion in (*right[rank:], *rng.standard_normal((2, len(names) - rank)) @ right[rank:]):
        step = MOVE * motion / np.abs(motion).max()
        for _ in range(4):
            change = violation_and_jacobian(start + scales * step)[0] - at_start
            step = step - inverse @ change
        resisted = left[:, rank:] @ (left[:, rank:].T @ change)
        if np.abs(resisted).max() > RESISTED:
            moving = np.flatnonzero(np.abs(motion) > 0.1 * np.abs(motion).max())
            return SingularPose(
                tuple(names[i] for i in moving), _constraint(mech, int(np.abs(resisted).argmax()), held)
            )
    return None


def _constraint(mech: Mechanism, row: int, held: Sequence[str]) -> str:
    loops = mech.topology.loops
    if row < 6 * len(loops):
        return f"the loop at joint '{mech.joints[loops[row // 6]].name}'"
    others = [
        *(f"coupling '{c.name}'" for c in mech.couplings if c.rigid),
        *(f"the motor on '{name}'" for name in held),
    ]
    return others[row - 6 * len(loops)]
