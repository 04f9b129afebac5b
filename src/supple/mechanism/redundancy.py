"""Redundant loop constraints that contradict each other by the rounding of a description.

Four-bar linkages, parallel cranks, scissors and the like have more constraints than they need: in a planar loop the
constraints out of the plane are redundant. If axes are parallel only to 1e-7, because a file has rounded numbers, these
constraints contradict the others as soon as the mechanism moves, and would lock it. MuJoCo's constraints are soft and
yield. Ours are exact, so the joint that closes such a loop gets a free axis for each redundant constraint: the others
determine the motion without it.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass, replace

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike

from supple import spatial
from supple.errors import listed
from supple.mechanism.coupling import ImportNote
from supple.mechanism.joint import Joint
from supple.mechanism.kinematics import Kinematics, displacement_across, kinematics
from supple.mechanism.mechanism import Mechanism
from supple.mechanism.mobility import constraints
from supple.mechanism.record import Array
from supple.mechanism.springs import stiffness_scale
from supple.mechanism.topology import Indices
from supple.threads import single_blas_thread

EXACT = 1e-13
"""Violation of constraints, rad or over the size of the loop, that is rounding of our own."""
EXACT_FAR = 1e-14
"""The same over the distance from the world's origin."""
ROUNDED = 1e-2
"""Violation, rad or over the size of the loop, beyond which constraints are meant to lock the motion."""
INDEPENDENT = 1e-3
"""Singular values of the constraints, over the largest, that do not come from rounding."""
SEPARATE = 10.0
"""Least ratio of the smallest singular value of independent constraints to the largest of redundant ones."""
MOVE = 0.1
"""rad, or over the size of the loop: how far the mechanism is moved to find out."""
NEARBY = 0.5 * MOVE
"""The same: constraints that a further motion of this size satisfies do not contradict each other."""
MANY_ROWS = 100
"""Decompositions of larger matrices use one thread: with two, a busy machine takes many times as long."""
POSES = 3
"""Number of poses at which the redundant constraints are compared."""
PREFERRED = 0.2
"""Share of the largest pivot with which a constraint of a joint that is changed already is released."""
NEWTON_LIMIT = 12
ABSORBED = 1e-6
"""Gaps of loops at the reference pose, over the radius, that the engine removes."""
FREE = 1e-9
"""Stiffness of the free rotations of a ball joint that is changed, over that of the mechanism: its massless axes need
some."""
AXES = ("x", "y", "z", "rx", "ry", "rz")

REPORT = (
    "closes only within the rounding of its numbers: redundant constraints contradict each other by about {:.1g} {} "
    "when the mechanism moves, and would lock it. The other constraints determine the motion, so this joint got the "
    "free axes {}. Write axes and positions with more digits to make it rigid"
)


@dataclass(frozen=True)
class _Group:
    """Constraints that share coordinates: loops and rigid couplings. Their Jacobian has m rows and n columns."""

    rows: Indices
    """(m,) places of the constraints."""
    columns: Indices
    """(n,) places of the coordinates."""
    row_scales: Array
    """(m,) one over the size of the loops, for rows that are lengths."""
    column_scales: Array
    """(n,) the size of the loops, for coordinates that are lengths."""
    exact: float
    """Violation that is rounding of our own."""

    def scaled(self, violation: Array, jacobian: Array) -> tuple[Array, Array]:
        """Violation (m,) and Jacobian (m, n) of the group without units."""
        own = jacobian[np.ix_(self.rows, self.columns)]
        return self.row_scales * violation[self.rows], self.row_scales[:, None] * own * self.column_scales


def with_released_constraints(mech: Mechanism) -> Mechanism:
    """The mechanism with free axes in place of redundant loop constraints that contradict each other by rounding.

    `import_report` gets a note for each joint that was changed. Other mechanisms are returned as they are.
    """
    loops = mech.topology.loops
    if not loops:
        return mech
    x = np.concatenate([mech.reference, *(mech.joints[j].reference for j in loops)])
    violation, jacobian = constraints(mech, x)
    if not (np.isfinite(jacobian).all() and np.isfinite(violation).all()):
        return mech
    motions = [(group, _motions(group.scaled(violation, jacobian)[1])) for group in _groups(mech, jacobian)]
    movable = [(group, basis) for group, basis in motions if basis.size]
    if not movable:
        return mech
    released: dict[int, dict[int, float]] = {}
    for row, size in _contradictions(_without_gaps(mech, violation, x), movable, x).items():
        released.setdefault(loops[row // 6], {})[row % 6] = size
    if not released:
        return mech
    joints, notes, state, torque = list(mech.joints), [], kinematics(mech), stiffness_scale(mech)
    for j, axes in sorted(released.items()):
        wider = _released(joints[j], sorted(axes), state, torque)
        notes.append(_note(wider, [name for name in wider.axes if name not in joints[j].axes], axes))
        joints[j] = wider
    return replace(mech, joints=tuple(joints), import_report=(*mech.import_report, *notes))


def _groups(mech: Mechanism, jacobian: Array) -> list[_Group]:
    """The groups of a mechanism. Loops with a flexible body are left out: the body yields to rounding."""
    loops = 6 * len(mech.topology.loops)
    used = jacobian != 0
    label = np.arange(len(jacobian))
    label[:loops] -= label[:loops] % 6
    for column in used.T:
        together = np.unique(label[column])
        if len(together) > 1:
            label[np.isin(label, together)] = together[0]
    joints = [mech.joints[j] for j in (*mech.topology.tree, *mech.topology.loops)]
    turning = np.concatenate([joint.twists[:, 3:].any(axis=1) for joint in joints])
    flexible = np.concatenate([np.full(len(joint.twists), joint.interface is not None) for joint in joints])
    far = float(np.abs(mech.poses.array[:, :3, 3]).max(initial=0.0))
    groups = []
    for first in np.unique(label):
        rows = np.flatnonzero(label == first)
        columns = np.flatnonzero(used[rows].any(axis=0))
        if not len(columns) or flexible[columns].any():
            continue
        lengths = (rows < loops) & (rows % 6 < 3)
        levers = np.abs(jacobian[np.ix_(rows[lengths], columns[turning[columns]])])
        size = float(levers.max(initial=0.0)) or 1.0
        exact = max(EXACT, EXACT_FAR * far / (size * (mech.radius or 1.0)))
        scales = np.where(lengths, 1 / size, 1.0), np.where(turning[columns], 1.0, size)
        groups.append(_Group(rows, columns, *scales, exact))
    return groups


def _without_gaps(mech: Mechanism, violation: Array, x: Array) -> Mechanism:
    """The mechanism with the frames of its loop joints moved by gaps below `ABSORBED`, as the engine does it."""
    joints, dof, poses = list(mech.joints), mech.dof, None
    for i, j in enumerate(mech.topology.loops):
        if EXACT < np.abs(violation[6 * i : 6 * i + 6]).max() < ABSORBED:
            poses = kinematics(mech).poses if poses is None else poses
            joint, own = joints[j], mech.topology.columns[j]
            closed = spatial.inverse(joint.displacement(x[dof + own.start : dof + own.stop]))
            frame = joint.pose_parent @ displacement_across(poses, joint.name) @ closed
            joints[j] = replace(joint, pose_parent=frame)
    return mech if poses is None else replace(mech, joints=tuple(joints))


def _contradictions(mech: Mechanism, movable: list[tuple[_Group, Array]], x: Array) -> dict[int, float]:
    """For each row that is redundant and contradicts the others, how much they do, rad or m.

    `movable`: groups and a basis (n, k) of their motions at x.
    """
    rng, loops = np.random.default_rng(0), 6 * len(mech.topology.loops)
    pose, moved = _moved(mech, movable, x, rng)
    movable = [each for each, at in zip(movable, moved, strict=True) if _contradict(*at, each[0].exact)]
    closable = _closable(mech, [group for group, _ in movable], pose)
    movable = [each for each, can_close in zip(movable, closable, strict=True) if not can_close]
    found = [_moved(mech, movable, x, rng)[1] for _ in range(POSES if movable else 0)]
    result: dict[int, float] = {}
    for i, (group, _) in enumerate(movable):
        poses = [at[i] for at in found]
        size = max(float(np.abs(values).max()) for values, _ in poses)
        if size < ROUNDED:
            chosen = _needed(_pivots([_redundant(rows) for _, rows in poses], group.rows, loops), group, poses)
            lengths = np.where(group.row_scales == 1, 1.0, mech.radius / group.row_scales)
            result |= {int(group.rows[k]): size * float(lengths[k]) for k in chosen}
    return result


def _needed(chosen: list[int], group: _Group, poses: list[tuple[Array, Array]]) -> list[int]:
    """The chosen constraints without those of loops that are redundant, but contradict no other loop at any pose."""
    rows = group.rows
    for loop in sorted({rows[k] // 6 for k in chosen}):
        fewer = [k for k in chosen if rows[k] // 6 != loop]
        kept = np.setdiff1d(np.arange(len(rows)), fewer)
        if not any(_contradict(values[kept], jacobian[kept], group.exact) for values, jacobian in poses):
            chosen = fewer
    return chosen


def _moved(
    mech: Mechanism, movable: list[tuple[_Group, Array]], x: Array, rng: Generator
) -> tuple[Array, list[tuple[Array, Array]]]:
    """Coordinates after a random motion that closes the independent constraints; violation and Jacobian of each group
    there."""
    x = x.copy()
    for group, basis in movable:
        move = basis @ rng.standard_normal(basis.shape[1])
        x[group.columns] += group.column_scales * move * (MOVE / np.abs(move).max())
    return x, _close(mech, [group for group, _ in movable], x)


def _close(mech: Mechanism, groups: list[_Group], x: Array) -> list[tuple[Array, Array]]:
    """Changes x by Newton's method such that the independent constraints are closed. Returns violation and Jacobian of
    each group."""
    before = np.inf
    for _ in range(NEWTON_LIMIT):
        violation, jacobian = constraints(mech, x)
        scaled = [group.scaled(violation, jacobian) for group in groups]
        closed = all(np.abs(values).max() < group.exact for group, (values, _) in zip(groups, scaled, strict=True))
        if closed or not (np.isfinite(violation).all() and np.isfinite(jacobian).all()):
            break
        steps = [_independent_step(values, rows) for values, rows in scaled]
        size = max(float(np.abs(step).max()) for step in steps)
        if not size < before:
            break
        before = size
        for group, step in zip(groups, steps, strict=True):
            x[group.columns] -= group.column_scales * step
    return scaled


def _closable(mech: Mechanism, groups: list[_Group], x: Array) -> list[bool]:
    """For each group whether a motion below `NEARBY` closes all constraints. At a singular pose, such as that of a
    straight strut, Newton's method converges slowly, but does not go far."""
    x, start = x.copy(), x.copy()
    before, closable = [np.inf] * len(groups), [False] * len(groups)
    undecided = list(range(len(groups)))
    while undecided:
        violation, jacobian = constraints(mech, x)
        for i in tuple(undecided):
            group = groups[i]
            values, rows = group.scaled(violation, jacobian)
            size, moved = float(np.abs(values).max()), np.abs((x - start)[group.columns] / group.column_scales).max()
            closable[i] = size < group.exact
            if closable[i] or not (moved < NEARBY and size < 0.9 * before[i] and np.isfinite(rows).all()):
                undecided.remove(i)
                continue
            step = np.linalg.lstsq(rows, values, rcond=1e-13)[0]
            x[group.columns] -= group.column_scales * step * min(1.0, 0.5 * NEARBY / np.abs(step).max())
            before[i] = size
    return closable


def _contradict(values: Array, rows: Array, exact: float) -> bool:
    """Whether no motion below `NEARBY` satisfies all constraints to first order."""
    if not np.abs(values).max() > exact:
        return False
    left, sizes, right = np.linalg.svd(rows)
    rank, count = _rank(sizes), len(sizes)
    parts = left[:, rank:].T @ values
    if not np.abs(parts).max(initial=0.0) > exact:
        return False
    steps = parts[: count - rank] / np.maximum(sizes[rank:], 1e-300)
    unchanging = parts[count - rank :]  # violation that no motion changes
    return bool(np.abs(unchanging).max(initial=0.0) > exact or np.abs(steps @ right[rank:count]).max() > NEARBY)


def _rank(sizes: Array) -> int:
    """Number of singular values, falling, of independent constraints. Those of redundant ones are much smaller."""
    small = (sizes[1:] < INDEPENDENT * sizes[0]) & (sizes[:-1] > SEPARATE * sizes[1:])
    return 1 + int(small.argmax()) if small.any() else len(sizes)


def _spectrum(square: Array) -> tuple[Array, Array]:
    """Singular values, falling, of a matrix A and the vectors in columns, from its square A^T A; several times as fast
    as a decomposition of A. Values below 1e-7 of the largest are rounding errors."""
    with single_blas_thread() if len(square) >= MANY_ROWS else nullcontext():
        squares, vectors = np.linalg.eigh(square)
    return np.sqrt(np.maximum(squares[::-1], 0.0)), vectors[:, ::-1]


def _motions(rows: Array) -> Array:
    """(n, k): basis of the motions that constraints allow, up to rounding. Empty unless some of them are redundant."""
    sizes, vectors = _spectrum(rows.T @ rows)
    rank = _rank(sizes)
    return vectors[:, rank:] if rank < min(rows.shape) else vectors[:, :0]


def _redundant(rows: Array) -> Array:
    """(m, k): basis of the combinations of constraints that do not depend on the motion, up to rounding."""
    sizes, vectors = _spectrum(rows @ rows.T)
    return vectors[:, _rank(sizes) :]


def _independent_step(values: Array, rows: Array) -> Array:
    """(n,) smallest motion with the rates `values` of the independent constraints, up to rounding."""
    sizes, vectors = _spectrum(rows.T @ rows)
    basis = vectors[:, : _rank(sizes)]
    return np.asarray(basis @ ((basis.T @ (rows.T @ values)) / sizes[: basis.shape[1]] ** 2))


def _pivots(spaces: list[Array], rows: Indices, loops: int) -> list[int]:
    """Constraints to release such that the others are independent at all poses. `spaces` has the redundant
    combinations (m, k) at each pose; `rows` below `loops` belong to loops.

    Pivots of Cholesky's method on the sum of the projectors. Loops that lose a constraint already are preferred, so
    that few joints change.
    """
    left = np.asarray(sum(space @ space.T for space in spaces))
    chosen: list[int] = []
    for _ in range(min(space.shape[1] for space in spaces)):
        sizes = np.where(rows < loops, np.diag(left), -1.0)
        in_open = np.isin(rows // 6, [rows[k] // 6 for k in chosen])
        k = int(np.where(in_open & (sizes > PREFERRED * sizes.max()), sizes + sizes.max(), sizes).argmax())
        if sizes[k] < 1e-6:  # rigid couplings contradict each other
            break
        left -= np.outer(left[k], left[k]) / left[k, k]
        chosen.append(k)
    return chosen


def _released(joint: Joint, axes: list[int], state: Kinematics, torque: float) -> Joint:
    """The joint with further axes. Their springs have the stiffness `torque`, N m/rad, and are unloaded at the
    reference pose `state`.

    They follow the joint's own axes, but precede those of a free ball joint, so that its force has no lever to the
    massless rotations.
    """
    taken = {name for each in state.mechanism.joints for name in each.axes}
    names = [f"{joint.name}.{AXES[axis]}" for axis in axes]
    twists, own = np.eye(6)[axes], joint.stiffness.copy()
    balls = _free_rotations(joint)
    if balls:
        twists = twists @ spatial.adjoint(joint.displacement(joint.reference)).T
        for part in balls:
            own[part] = FREE * torque
    count, many = len(joint.axes), len(axes)
    order = [*range(count, count + many), *range(count)] if balls else list(range(count + many))

    def joined(old: Array, new: ArrayLike) -> Array:
        return np.concatenate([old, new])[order]

    def filled(field: str, value: float) -> Array:
        return joined(getattr(joint, field), np.full(many, value))

    all_names = (*joint.axes, *(f"{name}.free" if name in taken else name for name in names))
    curves = (*joint.curves, *(None for _ in axes))
    single = (1,) * many
    wider = replace(
        joint,
        twists=joined(joint.twists, twists),
        blocks=(*single, *joint.blocks) if balls else (*joint.blocks, *single),
        axes=tuple(all_names[i] for i in order),
        stiffness=joined(own, [torque / state.mechanism.radius**2 if axis < 3 else torque for axis in axes]),
        damping=filled("damping", 0.0),
        armature=filled("armature", 0.0),
        limits=joined(joint.limits, [[-np.inf, np.inf]] * many),
        effort=filled("effort", np.inf),
        speed=filled("speed", np.inf),
        rest=filled("rest", 0.0),
        reference=filled("reference", 0.0),
        curves=tuple(curves[i] for i in order),
    )
    fitted = wider.coordinates(displacement_across(state.poses, joint.name))[0]
    at = fitted[:many] if balls else fitted[count:]
    return replace(wider, reference=joined(joint.reference, at), rest=joined(joint.rest, at))


def _free_rotations(joint: Joint) -> list[slice]:
    """Axes of the rotation vectors without spring, damper or armature."""
    found, start = [], 0
    for size in joint.blocks:
        part = slice(start, start + size)
        if size == 3 and not (joint.stiffness[part].any() or joint.damping[part].any() or joint.armature[part].any()):
            found.append(part)
        start += size
    return found


def _note(joint: Joint, names: list[str], axes: dict[int, float]) -> ImportNote:
    first = min(axes)
    return ImportNote(f"loop '{joint.name}'", REPORT.format(axes[first], "m" if first < 3 else "rad", listed(names)))
