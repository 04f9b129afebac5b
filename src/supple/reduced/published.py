"""Every variant of the published method (FORK-1S) that differs from what `supple.reduce` does by default.

- `reduce(method="recursion")`: chaining, splitting and merging (algorithms 1 and 2), in `recursion.py`. The default
  solves the engine's tangent.
- `reduce(mass="accelerability")`: inverse mass and inverse damping projected (eqs. 7 and 8), in this file; with
  `method="recursion"` chained joint by joint. The default is Phi^T M Phi.
- `ReducedSimulation(base="decoupled")`: no inertial coupling between a free base and the end effectors (section 6.1);
  the branches on `Floating::decoupled` in `core/reduced/floating_groups.cpp`.
- `blend(scheme="published")`: blending as printed (eqs. 24 to 28), in `blending.py`.

Published mass and damping are too small after the first instant: `docs/measured/reduced.md` has the figures.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from supple import spatial
from supple.engine.linearisation import RANK_TOLERANCE, Linearisation, linearised, null_space
from supple.errors import MechanismError
from supple.mechanism import Joint, Mechanism
from supple.mechanism.axes import axis_names
from supple.mechanism.projected import projected_damping
from supple.mechanism.record import Array
from supple.reduced.admissible import AdmissibleSpace
from supple.reduced.recursion import Graph, chained, inverse_over_free_axes

# mass


def published_mass(at: Linearisation, space: AdmissibleSpace, method: str) -> Array:
    """(r, r) mass in admissible coordinates whose inverse is the projected inverse mass, J M^-1 J^T.

    J: end effectors' twists per allowed motion; M: mass of the allowed motions. With `method="recursion"` the inverse
    mass is chained joint by joint (`accelerability`).
    """
    if method == "recursion":
        return space.inverted(accelerability(at.mechanism, space.names))
    return space.inverted(space.tips @ np.linalg.solve(at.mass, space.tips.T))


def accelerability(mech: Mechanism, end_effectors: Sequence[str]) -> Array:
    """(6e, 6e) the inverse mass chained by the recursion (eq. 7).

    The inverse of the child link's inertia about each joint, (J^T M_child J + armature)^-1, takes the place of the
    joint's compliance.
    """
    return chained(mech, end_effectors, _joint_accelerability)


def floating_mass(mech: Mechanism, names: Sequence[str], method: str, cobasis: Array) -> Array:
    """(n, n) the published mass of a mechanism whose base is free; the base is the last of the end effectors."""
    if method == "recursion":
        raise MechanismError(f"'{mech.name}' floats, and the recursion has no mass for that; use mass='consistent'")
    at = linearised(mech)
    tips = at.jacobian_of(names) @ at.free
    mass: Array = cobasis.T @ np.linalg.inv(cobasis @ tips @ np.linalg.solve(at.mass, tips.T) @ cobasis.T) @ cobasis
    return mass


def _joint_accelerability(graph: Graph, j: int) -> Array:
    """A_theta = (J^T M_child J + armature)^-1, (k, k)."""
    mech, joint, jacobian = graph.mech, graph.mech.joints[j], graph.jacobians[j]
    body = mech.bodies[graph.child[j]]
    own = jacobian.T @ spatial.spatial_inertia(body.mass, body.centre, body.inertia) @ jacobian
    inertia = own + _matrix_of_rates(joint, joint.armature)
    free = graph.free[j]
    moving = inertia[np.ix_(free, free)]
    size = np.sqrt(moving.diagonal())
    if (size == 0).any() or (len(size) and np.linalg.eigvalsh(moving / np.outer(size, size))[0] < 1e-12):
        raise MechanismError(
            f"joint '{joint.name}' of '{mech.name}' can move without moving any mass of '{body.name}', so its "
            "accelerability is infinite; give the body mass and inertia, the joint armature, or use mass='consistent'"
        )
    return inverse_over_free_axes(inertia, free)


# damping


def published_damping(at: Linearisation, space: AdmissibleSpace, method: str) -> Array:
    """(r, r) damping in admissible coordinates whose inverse is the projected inverse damping, J D^-1 J^T.

    J: end effectors' twists per allowed motion; D: dampers of joints and couplings in the allowed motions. With
    `method="recursion"` the inverse damping is chained joint by joint (`inverse_damping`). Where some allowed motions
    are undamped, J D^-1 J^T is infinite, and both methods return the limit (`least_damping`).
    """
    if method == "recursion":
        inverse = inverse_damping(at.mechanism, space.names)
        if inverse is not None:
            return space.inverted(inverse)
    return least_damping(at, space)


def least_damping(at: Linearisation, space: AdmissibleSpace) -> Array:
    """(r, r): z^T D z is the least power that the dampers dissipate among all motions that move the end effectors by z.

    It equals (J D^-1 J^T)^-1 where every allowed motion is damped, and is the limit of
    (J (D + eps I)^-1 J^T)^-1 otherwise: zero for twists that undamped joints produce by themselves.
    """
    mech, motions = at.mechanism, space.motions
    undamped = null_space(_damper_rows(mech) @ at.free)
    left, sizes, _ = np.linalg.svd(motions @ undamped)
    damped = left[:, int((sizes > RANK_TOLERANCE * np.abs(motions).max(initial=0.0)).sum()) :]
    across = null_space(undamped.T)  # allowed motions orthogonal to the undamped ones
    damping = across.T @ projected_damping(mech, at.free, at.q) @ across
    rows = damped.T @ motions @ across
    least: Array = damped @ np.linalg.inv(rows @ np.linalg.solve(damping, rows.T)) @ damped.T
    return (least + least.T) / 2


def _damper_rows(mech: Mechanism) -> Array:
    """(dampers, axes): elongation of each damper per increment of the coordinates, scaled to length one."""
    names = axis_names(mech)
    rows = [np.zeros((0, len(names)))]
    unit = np.eye(len(names))
    damping = np.concatenate([np.zeros(0), *(joint.damping for joint in mech.joints)])
    rows.append(unit[damping > 0])
    for coupling in mech.couplings:
        if not coupling.rigid and coupling.damping > 0:
            row = coupling.coefficients @ unit[[names.index(name) for name in coupling.coordinates]]
            rows.append(row[None] / np.linalg.norm(row))
    return np.concatenate(rows)


def inverse_damping(mech: Mechanism, end_effectors: Sequence[str]) -> Array | None:
    """(6e, 6e) the inverse damping chained by the recursion: D_theta^-1 in place of each joint's compliance.

    None where some axis that can move has no damper: its inverse damping is infinite.
    """
    moving = {name for joint in mech.joints for name in joint.axes} - {motor.coordinate for motor in mech.motors}
    damped = {name for j in mech.joints for name, d in zip(j.axes, j.damping, strict=True) if d > 0}
    return chained(mech, end_effectors, _joint_inverse_damping) if moving <= damped else None


def _joint_inverse_damping(graph: Graph, j: int) -> Array:
    """D_theta^-1, (k, k)."""
    joint = graph.mech.joints[j]
    return inverse_over_free_axes(_matrix_of_rates(joint, joint.damping), graph.free[j])


def _matrix_of_rates(joint: Joint, values: Array) -> Array:
    """(k, k) matrix, for rates of q, of dampers or armatures (k,).

    Both act on the angular velocity of a rotation vector, not on its rate.
    """
    speed = joint.increments(joint.reference)
    result: Array = speed.T @ np.diag(values) @ speed
    return result
