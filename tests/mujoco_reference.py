"""MuJoCo's results in supple's coordinates: rotation vectors for quaternions, body axes for Jacobians."""

from __future__ import annotations

import warnings
from os import PathLike

import mujoco
import numpy as np

import supple
from supple import spatial
from supple.mechanism import Mechanism

FREE, BALL = 0, 1


def load_quietly(path: str | PathLike[str], keyframe: str | None = None) -> Mechanism:
    """`supple.load` without the warning about what is not imported."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", supple.ImportWarning)
        return supple.load(path, keyframe)


def random_state(model: mujoco.MjModel, rng: np.random.Generator) -> mujoco.MjData:
    """Kinematics, mass matrix and forces at a random configuration and velocity."""
    data = mujoco.MjData(model)
    data.qpos[:] = rng.uniform(-1.5, 1.5, model.nq)
    data.qvel[:] = rng.uniform(-1, 1, model.nv)
    mujoco.mj_normalizeQuat(model, data.qpos)
    mujoco.mj_forward(model, data)
    return data


def coordinates(model: mujoco.MjModel, qpos: np.ndarray) -> np.ndarray:
    """qpos as coordinates of the imported mechanism."""
    parts = []
    for j in range(model.njnt):
        start = model.jnt_qposadr[j]
        kind = model.jnt_type[j]
        if kind == FREE:
            parts.append(qpos[start : start + 3])
            start += 3
        if kind in (FREE, BALL):
            parts.append(spatial.so3_log(spatial.matrix_from_quat_wxyz(qpos[start : start + 4])))
        else:
            parts.append(qpos[start : start + 1])
    return np.concatenate([np.zeros(0), *parts])


def velocity_map(model: mujoco.MjModel, q: np.ndarray) -> np.ndarray:
    """(nv, nv) E with qvel = E dq/dt: MuJoCo's angular velocities are in the body's axes."""
    result = np.eye(model.nv)
    for j in range(model.njnt):
        if model.jnt_type[j] in (FREE, BALL):
            start = model.jnt_dofadr[j] + (3 if model.jnt_type[j] == FREE else 0)
            turn = slice(start, start + 3)
            result[turn, turn] = spatial.so3_right_jacobian(q[turn])
    return result


def pose(position: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    return spatial.pose(np.reshape(matrix, (3, 3)), np.asarray(position))


def mass_matrix(model: mujoco.MjModel, data: mujoco.MjData) -> np.ndarray:
    full = np.zeros((model.nv, model.nv))
    mujoco.mj_fullM(model, data, full)
    return full


def body_jacobian(model: mujoco.MjModel, data: mujoco.MjData, body: int) -> np.ndarray:
    """(6, nv) at the body's origin in its own axes, linear then angular."""
    linear, angular = np.zeros((3, model.nv)), np.zeros((3, model.nv))
    mujoco.mj_jacBody(model, data, linear, angular, body)
    turn = data.xmat[body].reshape(3, 3).T
    return np.concatenate([turn @ linear, turn @ angular])


def spring_forces(mech: Mechanism, q: np.ndarray, rate: np.ndarray) -> np.ndarray:
    """(dof,) generalised forces of the springs and dampers on joints and couplings of a tree."""
    names = list(mech.coordinates)
    total = np.zeros(mech.dof)
    for j in mech.topology.tree:
        joint, own = mech.joints[j], mech.topology.columns[j]
        total[own] -= joint.stiffness * (q[own] - joint.rest) + joint.damping * rate[own]
        for i, curve in enumerate(joint.curves):
            if curve is not None:
                total[own.start + i] -= curve(q[own.start + i] - joint.rest[i])
    for coupling in mech.couplings:
        if coupling.rigid:
            continue
        row = np.zeros(mech.dof)
        row[[names.index(n) for n in coupling.coordinates]] = coupling.coefficients
        stretch = row @ q - coupling.rest
        force = coupling.stiffness * stretch + coupling.damping * (row @ rate)
        total -= row * (force + (0.0 if coupling.curve is None else coupling.curve(stretch)))
    return total
