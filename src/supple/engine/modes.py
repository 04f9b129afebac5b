"""The linear system at a state: stability, what nothing holds, natural frequencies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from supple.engine.assembly import Equations, equations
from supple.errors import MechanismError
from supple.mechanism import Mechanism, kinematics
from supple.mechanism.record import Array

if TYPE_CHECKING:
    from supple.engine.statics import Equilibrium


@dataclass(frozen=True)
class Modes:
    """Natural vibrations of the undamped linear system, slowest first."""

    mechanism: Mechanism
    frequencies: Array
    """(m,) Hz; imaginary ones of an unstable state are given as negative."""
    shapes: Array
    """(m, axes): coordinates of every joint, in the order of `mech.joints`, scaled to unit modal mass."""
    twists: Array
    """(m, bodies, 6): twists of the bodies, each in its own frame."""


def modes(mech: Mechanism, at: Equilibrium | None = None, count: int | None = None) -> Modes:
    """Natural frequencies and shapes at an equilibrium, or (without `at`) at the reference pose taken as held:
    preload and gravity count as balanced there, so the stiffness is that of the unloaded springs."""
    from scipy.linalg import eigh

    eqs = _at(mech, at)
    stiffness, motions = _reduced(eqs)
    mass = motions.T @ _mass(eqs) @ motions
    mass = (mass + mass.T) / 2
    if not len(mass):
        raise MechanismError(f"'{mech.name}' cannot move, so it has no natural frequencies")
    if np.linalg.eigvalsh(mass)[0] <= 0:
        raise MechanismError(
            f"some motion of '{mech.name}' moves no mass, so it has no natural frequency; give every moving body a mass "
            "or its joint an armature"
        )
    values, vectors = eigh((stiffness + stiffness.T) / 2, mass)
    values, vectors = values[:count], vectors[:, :count]
    full = motions @ vectors
    nb = len(mech.bodies)
    return Modes(
        mech,
        np.sign(values) * np.sqrt(np.abs(values)) / (2 * np.pi),
        np.ascontiguousarray(full[6 * nb :].T),
        np.ascontiguousarray(full[: 6 * nb].T.reshape(-1, nb, 6)),
    )


def smallest_stiffness(eq: Equilibrium) -> float:
    """Smallest eigenvalue of the symmetric stiffness in the allowed motions, over the largest; 0 for none."""
    stiffness, _ = _reduced(_at(eq.mechanism, eq))
    if not len(stiffness):
        return 1.0
    values = np.linalg.eigvalsh((stiffness + stiffness.T) / 2)
    scale = max(abs(values[0]), abs(values[-1]), 1e-300)
    return float(values[0] / scale) if abs(values[0]) > 1e-10 * scale else 0.0


def loose_coordinates(eqs: Equations) -> list[str]:
    """Coordinates that move in a motion which the stiffness, as last evaluated, does not resist."""
    stiffness, motions = _reduced(eqs)
    if not len(stiffness):
        return []
    _, values, vectors = np.linalg.svd(stiffness)
    loose = motions[6 * len(eqs.mechanism.bodies) :] @ vectors[values <= 1e-10 * max(values[0], 1e-300)].T
    largest = np.abs(loose).max(axis=1, initial=0.0)
    return [name for name, size in zip(eqs.axis, largest, strict=True) if size > 1e-3 * max(largest.max(), 1e-300)]


def _at(mech: Mechanism, at: Equilibrium | None) -> Equations:
    """Equations evaluated at an equilibrium, or at the unloaded reference."""
    eqs = equations(mech)
    core = eqs.core
    if at is None:
        core.set_gravity(np.zeros(3))
        eqs.set_targets(*eqs.at_reference())
        core.set_state(*eqs.zero_state())
    else:
        if at.mechanism is not mech and at.mechanism != mech:
            raise MechanismError(f"`at` is an equilibrium of '{at.mechanism.name}', not of this mechanism")
        for name, value in at.targets.items():
            eqs.set_target(name, value)
        eqs.set_loads(list(at.loads))
        core.set_state(*at.state)
    core.evaluate(True)
    return eqs


def _reduced(eqs: Equations) -> tuple[Array, Array]:
    """Stiffness (m, m) in the allowed motions, and those motions (6 bodies + axes, m).

    Allowed are the motions in which joints stay closed and active rows satisfied: of the spanning tree by its
    Jacobian, of loops and rows by the null space of their rows of the tangent.
    """
    from scipy.sparse import coo_matrix

    mech, core = eqs.mechanism, eqs.core
    nb = len(mech.bodies)
    rows, columns, values = core.tangent()
    n = core.unknowns
    full = coo_matrix((values, (rows.astype(int), columns.astype(int))), shape=(n, n)).tocsr()
    keep = np.concatenate([np.arange(6 * nb), core.axis_rows]).astype(int)
    motions = _tree_motions(eqs)
    starts = core.lambda_rows
    loops = [start + i for start in (starts[j] for j in mech.topology.loops) for i in range(6)]
    rows_of = range(n - len(eqs.row) - len(eqs.limit_names), n)
    tied = full[[*loops, *rows_of]][:, keep] @ motions
    if tied.size:
        _, sizes, right = np.linalg.svd(tied)
        motions = motions @ right[int((sizes > 1e-9 * max(sizes[0], 1e-300)).sum()) :].T
    stiffness = motions.T @ (full[keep][:, keep] @ motions)
    return stiffness, motions


def _tree_motions(eqs: Equations) -> Array:
    """(6 bodies + axes, free): motions of bodies and coordinates per coordinate of the tree and of the loops."""
    from supple import spatial

    mech, topology = eqs.mechanism, eqs.mechanism.topology
    nb, na = len(mech.bodies), len(eqs.axis)
    q = eqs.core.q
    slices = eqs.joint_slices()
    state = kinematics(mech, np.concatenate([np.zeros(0), *(q[slices[j]] for j in topology.tree)]))
    motions = np.zeros((6 * nb + na, na))
    inverses = spatial.adjoint(spatial.inverse(state.poses.array))
    # the core moves a rotation vector by an increment in its own frame: increment = Jr(q) dq
    tangents = {j: np.linalg.inv(mech.joints[j].increments(q[slices[j]])) for j in topology.tree}
    for j in topology.tree:
        screws = state.screws[topology.columns[j]].T @ tangents[j]
        moved = topology.moves[:, topology.columns[j]].any(axis=1)
        part = inverses @ screws
        part[~moved] = 0
        motions[: 6 * nb, slices[j]] = part.reshape(6 * nb, -1)
    motions[6 * nb :] = np.eye(na)
    return motions


def _mass(eqs: Equations) -> Any:
    """Sparse mass matrix of bodies and armature, (6 bodies + axes) square."""
    from scipy.sparse import block_diag, diags

    from supple import spatial

    mech = eqs.mechanism
    bodies = [spatial.spatial_inertia(b.mass, b.centre, b.inertia) for b in mech.bodies]
    armature = np.concatenate([np.zeros(0), *(j.armature for j in mech.joints)])
    return block_diag([*bodies, diags(armature)]).tocsr()
