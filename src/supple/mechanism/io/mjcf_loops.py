"""Loops that close only within the rounding of a file, and couplings that contradict limits.

Parallel cranks and the like have more constraints than they need. If the file rounds their lengths, the constraints
contradict each other as soon as the mechanism moves, by 1e-10 of its size perhaps. MuJoCo's constraints are soft and
yield. Ours do not, so that the mechanism would be locked. Such loops are closed by stiff springs instead.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from supple.mechanism.joint import Joint
from supple.mechanism.mechanism import Mechanism
from supple.mechanism.mobility import constraints
from supple.mechanism.record import Array

EXACT = 1e-12
"""Violation of constraints, rad or over the radius, that is rounding of our own."""
ROUNDED = 1e-3
"""Violation, rad or over the radius, beyond which constraints are meant to lock the motion."""
INDEPENDENT = 1e-3
"""Singular values of the constraints, over the largest, that do not come from rounding."""
MOVE = 0.1
"""rad, or over the radius: how far the mechanism is moved to find out."""
SAG = 1e-4
"""Displacement of the springs under the mechanism's weight, over its radius."""
FREE = 1e-9
"""Stiffness of free rotations, over that of springs that would hold them."""
RELAXATION = 1e-3
"""s: damping of the springs over their stiffness."""


def with_yielding_loops(mech: Mechanism) -> tuple[Mechanism, dict[str, float]]:
    """The mechanism with springs in place of loops that contradict others by rounding; and by how much each such joint
    does, m."""
    found: dict[str, float] = {}
    gaps = _gaps(mech)
    while gaps and (name := _last_contradicting(gaps)) is not None:
        found[name] = gaps[name] * mech.radius
        mech = _with_springs(mech, name)
        gaps = _gaps(mech)
    return mech, found


def with_yielding_couplings(mech: Mechanism) -> tuple[Mechanism, dict[str, float]]:
    """The mechanism with springs in place of rigid couplings that the limits of their coordinates do not allow; and by
    how much each misses its value, rad or m. MuJoCo's couplings and limits are soft and share the difference."""
    limits = {name: row for joint in mech.joints for name, row in zip(joint.axes, joint.limits, strict=True)}
    found, couplings = {}, []
    for c in mech.couplings:
        reach = np.array([sorted(by * limits[name]) for name, by in zip(c.coordinates, c.coefficients, strict=True)])
        lowest, highest = reach.sum(axis=0)
        missing = max(lowest - c.rest, c.rest - highest)
        if c.rigid and missing > 1e-9:
            found[c.name] = float(missing)
            stiffness = _weight(mech) * mech.radius / (SAG * float(np.abs(c.coefficients).max()))
            c = replace(c, rigid=False, stiffness=stiffness, damping=RELAXATION * stiffness)
        couplings.append(c)
    return (replace(mech, couplings=tuple(couplings)) if found else mech), found


def _weight(mech: Mechanism) -> float:
    return max(9.81 * sum(body.mass for body in mech.bodies), 1e-3)


def _last_contradicting(gaps: dict[str, float]) -> str | None:
    largest = max(gaps.values())
    if not EXACT < largest < ROUNDED:
        return None
    return [name for name, gap in gaps.items() if gap > EXACT][-1]


def _gaps(mech: Mechanism) -> dict[str, float]:
    """The largest violation of each loop, rad or over the radius, after a motion that the constraints allow up to
    rounding."""
    loops = [mech.joints[j] for j in mech.topology.loops]
    if len(loops) < 2:  # one loop alone does not contradict another
        return {}
    x = np.concatenate([mech.reference, *(joint.reference for joint in loops)])
    violation, jacobian = constraints(mech, x)
    if not np.isfinite(jacobian).all():
        return {}
    motions = _allowed(jacobian)
    if not motions.shape[1] or np.linalg.matrix_rank(jacobian, INDEPENDENT) == len(jacobian):
        return {}
    move = motions @ np.random.default_rng(0).normal(size=motions.shape[1])
    x = x + MOVE * move / np.abs(move).max()
    violation, jacobian = constraints(mech, x)
    before = np.inf
    for _ in range(10):  # Newton's method, until it stalls
        size = float(np.abs(violation).max())
        if not np.isfinite(jacobian).all() or (size > 0.5 * before and before < ROUNDED):
            break
        x = x - np.linalg.pinv(jacobian, rcond=INDEPENDENT) @ violation
        violation, jacobian = constraints(mech, x)
        before = size
    worst = np.abs(violation[: 6 * len(loops)]).reshape(-1, 6).max(axis=1)
    return {joint.name: float(gap) for joint, gap in zip(loops, worst, strict=True)}


def _allowed(jacobian: Array) -> Array:
    """(n, k) motions that the constraints allow, up to rounding."""
    _, sizes, right = np.linalg.svd(jacobian)
    return np.asarray(right[int((sizes > INDEPENDENT * sizes.max(initial=0.0)).sum()) :].T)


def _with_springs(mech: Mechanism, name: str) -> Mechanism:
    """The mechanism with a joint of six axes in place of a loop joint; springs hold the axes that it did not have."""
    joint = mech.joint(name)
    stiffness = _weight(mech) / (SAG * mech.radius)
    ball = joint.blocks == (3,)  # its rotations stay free, but for as much as a massless axis needs
    turning = joint.axes if ball else tuple(f"{name}.{letter}" for letter in ("rx", "ry", "rz"))
    about = (FREE if ball else 1.0) * stiffness * mech.radius**2
    springs = np.array([stiffness] * 3 + [about] * 3)
    free = Joint(
        name,
        joint.parent,
        joint.child,
        joint.pose_parent,
        joint.pose_child,
        np.eye(6),
        (1, 1, 1, 3),
        axes=(*(f"{name}.{letter}" for letter in "xyz"), *turning),
        stiffness=springs,
        damping=RELAXATION * springs,
    )
    return replace(mech, joints=tuple(free if each.name == name else each for each in mech.joints))
