"""Stability of an equilibrium: by the energy if its loads have a potential, otherwise (non-conservative loads) by the
eigenvalues of motion."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from supple.engine.assembly import Load
from supple.engine.linearisation import Linearisation, evenly_scaled
from supple.mechanism import Mechanism
from supple.mechanism.projected import projected_damping
from supple.mechanism.record import Array

PARALLEL = 1e-9
"""Sine of the angle below which two axes are parallel."""
NEUTRAL = 1e-10
"""Stiffness, over that of single coordinates, that counts as zero."""
MASSLESS = 1e-13
"""Mass or damping of a motion over its stiffness, compared with the largest such ratio, that counts as zero."""
ROUNDING = 1e-7
"""Real or imaginary part of an eigenvalue, over its modulus, that counts as zero."""


def has_potential(mech: Mechanism, loads: Sequence[Load]) -> bool:
    """Whether the work of all loads depends on the pose alone, whatever the path to it; the tangent is then symmetric.

    Gravity and forces fixed in the world have a potential. On a body that turns about one fixed direction only, as in
    planar mechanisms, torques have one too, and so do forces fixed in the body along that direction. On a body that
    does not turn, all loads have one. Otherwise torques fixed in the world and wrenches fixed in the body have none.
    """
    for load in loads:
        force, torque = load.wrench[:3], load.wrench[3:]
        if not (torque.any() if load.world else load.wrench.any()):
            continue
        direction = _turning_direction(mech, load.body)
        if direction is None:
            return False
        if not load.world:
            across = np.cross(mech.poses.array[load.body][:3, :3] @ force, direction)
            if np.linalg.norm(across) > PARALLEL * np.linalg.norm(force):
                return False
    return True


def _turning_direction(mech: Mechanism, body: int) -> Array | None:
    """(3,) unit vector in world axes about which the joints between the world and a body turn it, the same in every
    pose; zero if they do not turn it, None if it may turn about several directions."""
    topology, direction = mech.topology, np.zeros(3)
    while body >= 0:
        joint, inner = mech.joints[topology.joint[body]], int(topology.parent[body])
        if joint.interface is not None:
            return None
        frame = (joint.pose_child if topology.reversed[body] else joint.pose_parent)[:3, :3]
        if inner >= 0:
            frame = mech.poses.array[inner][:3, :3] @ frame
        for axis in joint.twists[:, 3:] @ frame.T:
            if not axis.any():
                continue
            axis = axis / np.linalg.norm(axis)
            if np.linalg.norm(np.cross(axis, direction)) > PARALLEL:
                return None
            direction = axis
        body = inner
    return direction


def is_stable(linear: Linearisation, potential: bool) -> bool:
    """Whether no small motion around an equilibrium grows. `potential`: whether its loads have one.

    With a potential the energy must have a minimum: the stiffness K on the admissible motions is positive definite.
    Without one K is not symmetric. Then no solution of  M x'' + D x' + K x = 0  may grow, neither monotonically
    (divergence) nor as a vibration (flutter), and K must be regular.
    """
    if not len(linear.stiffness):
        return True
    if potential:
        symmetric = evenly_scaled((linear.stiffness + linear.stiffness.T) / 2)[1]
        return bool(np.linalg.eigvalsh(symmetric)[0] > NEUTRAL)
    return not len(_growing(linear))


def diverges(linear: Linearisation) -> bool:
    """Whether a small motion grows monotonically, under loads without a potential: an eigenvalue of
    M x'' + D x' + K x = 0  is real and positive, or K is singular."""
    rates = _growing(linear)
    return bool((np.isinf(rates) | (np.abs(rates.imag) <= ROUNDING * np.abs(rates))).any())


def _growing(linear: Linearisation) -> NDArray[np.complex128]:
    """Eigenvalues of the motions around an equilibrium that grow, 1/s; an infinite one if K is singular."""
    if not len(linear.stiffness):
        return np.zeros(0, dtype=complex)
    if np.linalg.svd(evenly_scaled(linear.stiffness)[1], compute_uv=False)[-1] <= NEUTRAL:
        return np.array([np.inf], dtype=complex)
    damping = projected_damping(linear.mechanism, linear.free, linear.q)
    rates = eigenvalues(linear.mass, damping, linear.stiffness)
    return rates[np.isinf(rates) | (rates.real > ROUNDING * np.abs(rates))]


def eigenvalues(mass: Array, damping: Array, stiffness: Array) -> NDArray[np.complex128]:
    """Eigenvalues s (1/s) of  (s^2 M + s D + K) x = 0  for M and D (m, m) symmetric and semidefinite, K (m, m) regular.

    Two for each motion with mass, one for each motion with damping only. Motions with neither follow the others
    statically; where K would not hold them if they had equal dampers, an infinite eigenvalue says so.
    """
    scales, stiffness = evenly_scaled(stiffness)
    mass, damping = (scales[:, None] * matrix * scales for matrix in (mass, damping))
    moving, static = _range_and_null_space(_over_largest(mass) + _over_largest(damping))
    if static.shape[1]:
        held = static.T @ stiffness @ static
        if np.linalg.eigvals(held).real.min() <= NEUTRAL:
            return np.array([np.inf], dtype=complex)
        stiffness = stiffness - stiffness @ static @ np.linalg.solve(held, static.T @ stiffness)
    heavy, light = _range_and_null_space(moving.T @ mass @ moving)
    heavy, light = moving @ heavy, moving @ light
    r, n = heavy.shape[1], light.shape[1]
    # x = heavy a + light b and v = a':  b' from the rows of the light motions, v' from those of the heavy ones
    light_rate = -np.linalg.solve(
        light.T @ damping @ light,
        np.hstack([light.T @ stiffness @ heavy, light.T @ damping @ heavy, light.T @ stiffness @ light]),
    )
    forces = np.hstack([heavy.T @ stiffness @ heavy, heavy.T @ damping @ heavy, heavy.T @ stiffness @ light])
    forces += heavy.T @ damping @ light @ light_rate
    acceleration = -np.linalg.solve(heavy.T @ mass @ heavy, forces)
    speed = np.hstack([np.zeros((r, r)), np.eye(r), np.zeros((r, n))])
    return np.linalg.eigvals(np.vstack([speed, acceleration, light_rate])).astype(complex)


def _over_largest(matrix: Array) -> Array:
    scaled: Array = matrix / max(np.abs(matrix).max(), 1e-300)
    return scaled


def _range_and_null_space(matrix: Array) -> tuple[Array, Array]:
    """Orthonormal bases (m, r) and (m, m - r) of range and null space of a symmetric, semidefinite matrix (m, m)."""
    values, vectors = np.linalg.eigh(matrix)
    null = values <= MASSLESS * values.max(initial=0.0)
    return vectors[:, ~null], vectors[:, null]
