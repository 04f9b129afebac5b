"""Reduced models of mechanisms with a free base: reduced with the base fixed, then released."""

from __future__ import annotations

import numpy as np

from supple import spatial
from supple.mechanism import Mechanism, Poses
from supple.mechanism.axes import axis_names
from supple.mechanism.projected import projected_mass
from supple.reduced.model import ReducedModel
from supple.reduced.published import floating_mass


def floating(mech: Mechanism, base: str, model: ReducedModel) -> ReducedModel:
    """The model of a mechanism with a free base, from the one with the base fixed.

    The base becomes the last end effector. With xi_rel = xi - Ad xi_base, the elastic energy is that of xi_rel, and the
    motion of every link is its map of xi_rel plus the rigid motion with the base.
    """
    e, k, n = len(model.end_effectors), model.modes, len(model.stiffness)
    home = spatial.inverse(model.rest_poses[base])
    carried = [spatial.adjoint(spatial.inverse(home @ model.rest_poses[name])) for name in model.end_effectors]
    relative = np.zeros((n, n + 6))  # from (tips, base, modes) to (tips seen from the base, modes)
    relative[: 6 * e, : 6 * e] = np.eye(6 * e)
    relative[: 6 * e, 6 * e : 6 * e + 6] = -np.concatenate([*carried, np.zeros((0, 6))])
    relative[6 * e :, 6 * e + 6 :] = np.eye(k)
    rigid = np.zeros((6, n + 6))
    rigid[:, 6 * e : 6 * e + 6] = np.eye(6)
    links = spatial.adjoint(spatial.inverse(home @ model.rest_poses.array))
    motion = model.motion_map @ relative + links @ rigid

    names, kept = axis_names(mech), axis_names(model.mechanism)
    rows = [names.index(axis) for axis in kept]
    turns, q = np.zeros((len(names), n + 6)), np.zeros(len(names))
    turns[rows] = model.coordinate_map @ relative
    free = mech.joint(next(axis for axis in names if axis not in kept))
    q[[names.index(a) for a in free.axes]] = free.reference
    q[rows] = model.q
    # coordinates of the base's free joint
    frame = spatial.inverse(model.rest_poses[base]) @ model.rest_poses.of(free.child) @ free.pose_child
    own = np.linalg.inv(free.twist_jacobian(free.reference)) @ spatial.adjoint(spatial.inverse(frame)) @ rigid
    sign = 1.0 if free.child == base else -1.0
    turns[[names.index(a) for a in free.axes]] = sign * free.increments(free.reference) @ own

    lift = np.zeros((n + 6, n))  # back from displacements seen from a fixed base
    lift[: 6 * e, : 6 * e] = np.eye(6 * e)
    lift[6 * e + 6 :, 6 * e :] = np.eye(k)
    mass = projected_mass(mech, motion, turns, q)
    pick = np.linalg.pinv(relative @ lift) @ relative  # displacement seen from the base
    basis = np.zeros((n + 6, model.basis.shape[1] + 6))
    basis[:, :-6] = lift @ model.basis
    basis[: 6 * e, -6:] = np.concatenate([*carried, np.zeros((0, 6))])
    basis[6 * e : 6 * e + 6, -6:] = np.eye(6)
    cobasis = np.concatenate([model.cobasis @ pick, rigid])
    if model.mass_kind == "accelerability":
        mass = floating_mass(mech, (*model.end_effectors, base), model.method, cobasis)
    admissible = basis @ cobasis
    maps = [np.concatenate([m, np.zeros((*m.shape[:2], 6))], axis=2) for m in (model.twist_map, model.wrench_map)]
    return ReducedModel(
        mech,
        (*model.end_effectors, base),
        compliance=lift @ model.compliance @ lift.T,
        stiffness=relative.T @ model.stiffness @ relative,
        damping=relative.T @ model.damping @ relative,
        mass=admissible.T @ ((mass + mass.T) / 2) @ admissible,
        twist_map=maps[0],
        wrench_map=maps[1],
        motion_map=motion @ admissible,
        coordinate_map=turns @ admissible,
        basis=basis,
        cobasis=cobasis,
        rank=model.rank + 6,
        modes=k,
        rest_poses=Poses(mech, model.rest_poses.array, model.rest_poses.amplitudes),
        wrenches=np.concatenate([model.wrenches, np.zeros(6)]),
        q=q,
        method=model.method,
        mass_kind=model.mass_kind,
        at=None,
        free_base=base,
    )
