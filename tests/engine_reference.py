"""The engine's equations written plainly, and states to compare them in."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
from scipy.sparse import coo_matrix

from supple import spatial
from supple.engine.assembly import Acting, Equations, Load, State
from supple.engine.linearisation import Linearisation
from supple.mechanism import Mechanism, kinematics, mobility
from supple.mechanism.axes import axis_slices, of_tree
from supple.mechanism.kinematics import displacement_across
from supple.mechanism.springs import stiffness_scale

Rng = np.random.Generator
ROTATION_VECTORS = ("ball", "bushing", "free")
"""Kinds of joints whose rotations share one exponential."""


def unlimited(mech: Mechanism) -> Mechanism:
    """A copy without limits."""
    return replace(
        mech,
        joints=tuple(replace(j, limits=None) for j in mech.joints),
        couplings=tuple(replace(c, limits=(-np.inf, np.inf)) for c in mech.couplings),
    )


def uncoupled(mech: Mechanism, kinds: Iterable[str]) -> Mechanism:
    """A copy without the couplings and motors that act on joints of these kinds."""
    kinds = tuple(kinds)
    return replace(
        mech,
        couplings=tuple(c for c in mech.couplings if not any(mech.joint(n).kind in kinds for n in c.coordinates)),
        motors=tuple(m for m in mech.motors if mech.joint(m.coordinate).kind not in kinds),
    )


def closed_coordinates(mech: Mechanism, rng: Rng, size: float = 0.4) -> np.ndarray:
    """(axes,) random coordinates of every joint, in the order of `mech.joints`, that close all loops."""
    loops = mech.topology.loops
    start = np.concatenate([mech.reference, *(mech.joints[j].reference for j in loops)])
    while (q := mobility._close_loops(mech, start + rng.uniform(-size, size, len(start)))) is None:
        size /= 2
    return all_coordinates(mech, q)


def all_coordinates(mech: Mechanism, q: np.ndarray) -> np.ndarray:
    """(axes,) in the order of `mech.joints`, from those of the tree and then of the loops."""
    columns, parts = mech.topology.columns, []
    for j in range(len(mech.joints)):
        shift = mech.dof if j in mech.topology.loops else 0
        parts.append(q[columns[j].start + shift : columns[j].stop + shift])
    return np.concatenate([np.zeros(0), *parts])


def dense_tangent(linear: Linearisation) -> np.ndarray:
    """(unknowns, unknowns)"""
    rows, columns, values = linear.core.tangent()
    n = linear.layout.size
    return coo_matrix((values, (rows.astype(int), columns.astype(int))), shape=(n, n)).toarray()


def residual_rows(eqs: Equations) -> np.ndarray:
    """Rows of the unknowns that leave a residual: coordinates, loops, rigid rows."""
    at, places = eqs.layout, np.arange(eqs.layout.size)
    loops = [places[at.multipliers[j]] for j in eqs.mechanism.topology.loops]
    return np.concatenate([at.coordinates, *loops, places[at.rows]])


def load_wrench(load: Load, pose: np.ndarray) -> np.ndarray:
    """(6,) at the world's origin in world axes."""
    rotation = np.eye(3) if load.world else pose[:3, :3]
    force, torque = rotation @ load.wrench[:3], rotation @ load.wrench[3:]
    at = pose[:3, :3] @ load.point + pose[:3, 3]
    return np.concatenate([force, torque + np.cross(at, force)])


def statics_residual(
    eqs: Equations, acting: list[Load], q: np.ndarray, reactions: np.ndarray, mu: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Residual at coordinates q (axes,) with the loops' multipliers (joints, 6) and the rows' mu:
    generalised forces on the coordinates' increments (axes,), minus the loops' gaps (loops, 6), minus the rows'
    errors.

    Virtual work: a coordinate of the tree feels screw . wrench of every body it moves, less its own spring.
    """
    mech, topology = eqs.mechanism, eqs.mechanism.topology
    slices = axis_slices(mech)
    state = kinematics(mech, of_tree(mech, q))

    wrenches = np.zeros((len(mech.bodies), 6))  # at the world's origin, world axes
    for b, body in enumerate(mech.bodies):
        weight = Load(body.name, b, body.centre, np.array([*(body.mass * mech.gravity), 0, 0, 0]), True)
        for load in [weight, *(load for load in acting if load.body == b)]:
            wrenches[b] += load_wrench(load, state.poses[b])
    force, gaps = np.zeros(len(q)), []
    for j in topology.loops:
        joint, part, wrench = mech.joints[j], slices[j], reactions[j]
        displacement = joint.displacement(q[part])
        gaps.append(spatial.log(spatial.inverse(displacement) @ displacement_across(state.poses, joint.name)))
        on_child = state.poses[joint.child] @ joint.pose_child
        on_parent = state.poses[joint.parent] @ joint.pose_parent @ displacement
        # the gradient of wrench . c for a joint with the gap c: one frame is exp(c) away from the other
        by_child = spatial.right_jacobian_inverse(gaps[-1]).T @ wrench
        by_parent = spatial.adjoint(spatial.exp(-gaps[-1])).T @ by_child
        for name, frame, carried in ((joint.child, on_child, -by_child), (joint.parent, on_parent, by_parent)):
            if name != "world":
                wrenches[mech.body_index(name)] += spatial.adjoint(spatial.inverse(frame)).T @ carried
        force[part] += joint.twist_jacobian(q[part]).T @ by_parent

    felt = np.einsum("di,bi,bd->d", state.screws, wrenches, topology.moves)
    for j in topology.tree:
        force[slices[j]] += felt[topology.columns[j]]
    for joint, part in zip(mech.joints, slices, strict=True):
        deflection = q[part] - eqs.rest[part]
        force[part] -= joint.stiffness * deflection
        force[part] -= [0.0 if c is None else float(c(x)) for c, x in zip(joint.curves, deflection, strict=True)]
    errors = []
    for c in mech.couplings:
        where = [eqs.axis[name] for name in c.coordinates]
        stretch = c.coefficients @ q[where] - eqs.targets[c.name]
        if c.rigid:
            errors.append(-stretch)
            force[where] -= c.coefficients * mu[eqs.row[c.name]]
        else:
            force[where] -= c.coefficients * (
                c.stiffness * stretch + (0.0 if c.curve is None else float(c.curve(stretch)))
            )
    for motor in mech.motors:
        errors.append(eqs.targets[motor.name] - q[eqs.axis[motor.coordinate]])
        force[eqs.axis[motor.coordinate]] -= mu[eqs.row[motor.name]]
    for joint, part in zip(mech.joints, slices, strict=True):  # from rates of q to rates of increments
        force[part] = np.linalg.solve(joint.increments(q[part]).T, force[part])
    return force, -np.array(gaps).reshape(-1, 6), np.array(errors)


@dataclass
class Search:
    """Where a search for an equilibrium ended."""

    found: bool
    state: State
    history: list[float]
    """Size of each Newton step, rad (lengths over the radius)."""
    shifts: int = 0
    """Number of steps for which stiffness was added."""
    halved: int = 0
    """Number of times that a step was halved."""


def find_equilibrium(
    eqs: Equations, acting: Acting, state: State, limits: np.ndarray, iterations: int, minimise: bool
) -> Search:
    """Newton's method from a state to an equilibrium on any branch, under loads with a potential and without redundant
    loops and rows. `limits`: those of `newton_limits`.

    The state moves by alpha x, where K x = r. The share alpha is halved until the next step, with the same K, is
    shorter. With `minimise` and unless K is positive definite in the admissible motions, x solves (K + S) x = r, where
    S is a stiffness of all coordinates.
    """
    _, accurate, closed, most_turn = limits[:4]
    coordinates = np.zeros(eqs.layout.size)
    coordinates[eqs.layout.coordinates] = stiffness_scale(eqs.mechanism)
    result = Search(False, state, [])
    for _ in range(iterations):
        base = result.state
        linear = Linearisation.at(eqs, acting, base)
        tangent, active = dense_tangent(linear), active_rows(linear)
        x = np.linalg.solve(tangent, linear.core.residual)
        size = motion_size(eqs, x)
        shift = minimise and size > accurate and has_negative(linear, 0.0)
        if shift:
            stiffness = next((s for s in 10.0 ** np.arange(-4, 3) if not has_negative(linear, s)), 1e3)
            x = np.linalg.solve(tangent + 3 * stiffness * np.diag(coordinates), linear.core.residual)
            size = motion_size(eqs, x)
            result.shifts += 1
        result.history.append(size)
        alpha = min(1.0, most_turn / size) if size else 1.0
        while True:
            result.state = moved(eqs, base, alpha * x)
            reached = Linearisation.at(eqs, acting, result.state)
            if shift or size < accurate or (active_rows(reached) != active).any():
                break
            following = motion_size(eqs, np.linalg.solve(tangent, reached.core.residual))
            if following < max((1 - alpha / 4) * size, accurate):
                break
            alpha /= 2
            result.halved += 1
            if alpha < 0.005:
                return result
        settled = size < accurate and not (active_rows(reached) != active).any()
        result.found = bool(settled and gap_size(reached) < closed)
        if result.found:
            break
    return result


def moved(eqs: Equations, state: State, x: np.ndarray) -> State:
    """The state moved by x (unknowns,); the multipliers of the tree's joints stay as they are."""
    q, reactions, mu = (part.copy() for part in state)
    at, mech = eqs.layout, eqs.mechanism
    axis = 0
    for joint in mech.joints:
        for size in joint.blocks:
            here, step = slice(axis, axis + size), x[at.coordinates[axis : axis + size]]
            if size == 3:
                q[here] = spatial.so3_log(spatial.so3_exp(q[here]) @ spatial.so3_exp(step))
            else:
                q[here] += step
            axis += size
    for j in mech.topology.loops:
        reactions[j] += x[at.multipliers[j]]
    return q, reactions, mu + x[at.rows]


def motion_size(eqs: Equations, x: np.ndarray) -> float:
    """Largest increment of a coordinate in x, rad, or lengths over the radius. Amplitudes count as lengths."""
    turning = np.concatenate([j.twists[:, 3:].any(axis=1) & (j.interface is None) for j in eqs.mechanism.joints])
    return float((np.abs(x[eqs.layout.coordinates]) / np.where(turning, 1.0, eqs.mechanism.radius)).max())


def gap_size(linear: Linearisation) -> float:
    """Largest gap of a loop, rad, or lengths over the radius, and error of an active row."""
    gaps = linear.core.gaps[list(linear.mechanism.topology.loops)] / ([linear.mechanism.radius] * 3 + [1.0] * 3)
    errors = linear.core.residual[linear.layout.rows][active_rows(linear)]
    return float(max(np.abs(gaps).max(initial=0.0), np.abs(errors).max(initial=0.0)))


def active_rows(linear: Linearisation) -> np.ndarray:
    """(rows,) which rows are active. The equation of others is mu = 0, so they have an entry on the diagonal."""
    return dense_tangent(linear).diagonal()[linear.layout.rows] == 0


def has_negative(linear: Linearisation, shift: float) -> bool:
    """Whether the stiffness of some admissible motion is negative, with `shift` times the scale of stiffness added to
    all coordinates."""
    stiffness = (linear.stiffness + linear.stiffness.T) / 2
    added = shift * stiffness_scale(linear.mechanism) * linear.free.T @ linear.free
    return bool(np.linalg.eigvalsh(stiffness + added).min(initial=1.0) < 0)
