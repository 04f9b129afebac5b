"""Joint accelerations of a tree at rest from its dense mass matrix, in long double or with any number of digits.

This code shares nothing with the package: kinematics, mass matrix and Cholesky factorisation are written out for any
number type that NumPy arrays can hold.
"""

from __future__ import annotations

from collections.abc import Mapping

import mpmath
import numpy as np

from supple import spatial
from supple.linkage import AdaptiveLinkage
from supple.linkage.adaptive import MEASURES
from supple.mechanism.tree import Tree

LONG = np.longdouble


class Numbers:
    """A number type: `numpy.longdouble` (64 bits of mantissa), or mpmath with so many decimal digits."""

    def __init__(self, digits: int | None = None) -> None:
        self.digits = digits
        if digits is not None:
            mpmath.mp.dps = digits

    def array(self, values: object) -> np.ndarray:
        given = np.asarray(values, dtype=float)
        if self.digits is None:
            return given.astype(LONG)
        return np.vectorize(mpmath.mpf, otypes=[object])(given) if given.size else given.astype(object)

    def sin_cos(self, angle: object) -> tuple[object, object]:
        return (np.sin(angle), np.cos(angle)) if self.digits is None else (mpmath.sin(angle), mpmath.cos(angle))

    def sqrt(self, value: object) -> object:
        return np.sqrt(value) if self.digits is None else mpmath.sqrt(value)


def cross(v: np.ndarray) -> np.ndarray:
    zero = 0 * v[0]
    return np.array([[zero, -v[2], v[1]], [v[2], zero, -v[0]], [-v[1], v[0], zero]])


def adjoint(pose: np.ndarray) -> np.ndarray:
    """(6, 6) takes twists (linear, angular) from a frame to the one in which its pose is given."""
    turn, zero = pose[:3, :3], 0 * pose[:3, :3]
    return np.block([[turn, cross(pose[:3, 3]) @ turn], [zero, turn]])


def inverse(pose: np.ndarray) -> np.ndarray:
    result = pose.copy()
    result[:3, :3] = pose[:3, :3].T
    result[:3, 3] = -pose[:3, :3].T @ pose[:3, 3]
    return result


def exponential(numbers: Numbers, xi: np.ndarray) -> np.ndarray:
    """Pose of a constant twist xi (6,) held for a unit of time."""
    v, w = xi[:3], xi[3:]
    result = numbers.array(np.eye(4))
    angle = numbers.sqrt(w @ w)
    if angle == 0:
        result[:3, 3] = v
        return result
    axis, (sine, cosine) = cross(w / angle), numbers.sin_cos(angle)
    identity = numbers.array(np.eye(3))
    result[:3, :3] = identity + sine * axis + (1 - cosine) * (axis @ axis)
    along = identity + (1 - cosine) / angle * axis + (angle - sine) / angle * (axis @ axis)
    result[:3, 3] = along @ v
    return result


def joint_motion(numbers: Numbers, tree: Tree, body: int, first: int) -> tuple[np.ndarray, np.ndarray]:
    """Pose of a body in its parent, and the columns (6, k) by which its axes move it, in its own frame."""
    count = int(tree.axes[body])
    pose_parent, pose_child = numbers.array(tree.pose_parent[body]), numbers.array(tree.pose_child[body])
    twists, q = numbers.array(tree.twists[first : first + count]), numbers.array(tree.reference[first : first + count])
    poses = [numbers.array(np.eye(4))]
    a = 0
    while a < count:
        size = int(tree.blocks[first + a])
        poses += size * [poses[-1] @ exponential(numbers, sum(q[a + i] * twists[a + i] for i in range(size)))]
        a += size
    moved = poses[-1]
    if tree.reversed[body]:
        pose = pose_child @ inverse(moved) @ inverse(pose_parent)
        columns = [-adjoint(pose_parent @ poses[i + 1]) @ twists[i] for i in range(count)]
    else:
        pose = pose_parent @ moved @ inverse(pose_child)
        columns = [adjoint(pose_child @ inverse(moved) @ poses[i + 1]) @ twists[i] for i in range(count)]
    return pose, np.array(columns).T if count else numbers.array(np.zeros((6, 0)))


def equations(
    tree: Tree, loads: Mapping[int, np.ndarray], forces: np.ndarray | None = None, digits: int | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Mass matrix (dof, dof) and generalised forces (dof,): loads in world axes at the bodies' origins, gravity,
    linear springs of axes that are no rotation vectors, and given joint forces."""
    numbers = Numbers(digits)
    n, dof = len(tree.parent), len(tree.twists)
    starts = np.concatenate([[0], np.cumsum(tree.axes)]).astype(int)
    poses: list[np.ndarray] = [np.zeros(0)] * n
    jacobians: list[np.ndarray] = [np.zeros(0)] * n
    mass = numbers.array(np.diag(tree.armature))
    pull = numbers.array(tree.stiffness) * (numbers.array(tree.rest) - numbers.array(tree.reference))
    if forces is not None:
        pull = pull + numbers.array(forces)
    gravity = numbers.array(tree.gravity)
    for body in parents_first(tree.parent):
        above = int(tree.parent[body])
        pose, columns = joint_motion(numbers, tree, body, starts[body])
        poses[body] = pose if above < 0 else poses[above] @ pose
        jacobian = numbers.array(np.zeros((6, dof)))
        if above >= 0:
            jacobian = adjoint(inverse(pose)) @ jacobians[above]
        jacobian[:, starts[body] : starts[body + 1]] = columns
        jacobians[body] = jacobian
        m = numbers.array(tree.mass[body : body + 1])[0]
        centre = cross(numbers.array(tree.centre[body]))
        inertia = np.block(
            [
                [m * numbers.array(np.eye(3)), -m * centre],
                [m * centre, numbers.array(tree.inertia[body]) - m * (centre @ centre)],
            ]
        )
        turn = poses[body][:3, :3].T
        weight = m * (turn @ gravity)
        wrench = np.concatenate([weight, centre @ weight])
        if body in loads:
            load = numbers.array(loads[body])
            wrench = wrench + np.concatenate([turn @ load[:3], turn @ load[3:]])
        used = [i for i in range(dof) if (jacobian[:, i] != 0).any()]
        part = jacobian[:, used]
        mass[np.ix_(used, used)] += part.T @ (inertia @ part)
        pull[used] += part.T @ wrench
    return mass, pull


def parents_first(parent: np.ndarray) -> list[int]:
    order: list[int] = []
    placed: set[int] = {-1}
    waiting = list(range(len(parent)))
    while waiting:
        ready = [b for b in waiting if int(parent[b]) in placed]
        order += ready
        placed |= set(ready)
        waiting = [b for b in waiting if b not in placed]
    return order


def solve(mass: np.ndarray, forces: np.ndarray, digits: int | None = None) -> np.ndarray:
    """mass^-1 forces by a Cholesky factorisation."""
    n, numbers = len(mass), Numbers(digits)
    factor = mass.copy()
    for j in range(n):
        pivot = numbers.sqrt(factor[j, j])
        factor[j:, j] = factor[j:, j] / pivot
        factor[j + 1 :, j + 1 :] -= np.outer(factor[j + 1 :, j], factor[j + 1 :, j])

    x = forces.copy()
    for i in range(n):
        x[i] = (x[i] - factor[i, :i] @ x[:i]) / factor[i, i]
    for i in reversed(range(n)):
        x[i] = (x[i] - factor[i + 1 :, i] @ x[i + 1 :]) / factor[i, i]
    return x


def exact_accelerations(
    tree: Tree, loads: Mapping[int, np.ndarray], forces: np.ndarray | None = None, digits: int | None = None
) -> np.ndarray:
    """(dof,) joint accelerations; of rotation vectors, angular accelerations in the joint's axes on the child."""
    mass, pull = equations(tree, loads, forces, digits)
    return solve(mass, pull, digits)


def graded_tree(rng: np.random.Generator, bodies: int, decades: float = 8.0) -> Tree:
    """A random tree of joints with one to three axes, whose masses span so many decades."""
    n, chance = int(rng.integers(2, bodies)), rng.uniform()
    parent = [-1]
    for i in range(1, n):
        parent.append(i - 1 if rng.random() < chance else int(rng.integers(-(rng.random() < 0.1), i)))
    axes = rng.integers(1, 4, size=n)
    k = int(axes.sum())
    turns, ways = rng.random((k, 1)) < 0.8, rng.normal(size=(k, 3))
    ways /= np.linalg.norm(ways, axis=1, keepdims=True)
    points = rng.normal(size=(n, 5, 3)) * rng.uniform(0.02, 0.2, (n, 1, 1))
    away = points - points.mean(axis=1, keepdims=True)
    moments = np.einsum("npi,npi->n", away, away)[:, None, None] * np.eye(3) - np.einsum("npi,npj->nij", away, away)
    mass = 10 ** rng.uniform(-decades / 2, decades / 2, n)
    return Tree(
        parent=np.array(parent),
        pose_parent=spatial.pose(spatial.so3_exp(rng.normal(size=(n, 3))), rng.normal(size=(n, 3)) * 0.2),
        pose_child=spatial.pose(spatial.so3_exp(rng.normal(size=(n, 3))), rng.normal(size=(n, 3)) * 0.1),
        twists=np.concatenate([np.where(turns, 0, ways), np.where(turns, ways, 0)], axis=1),
        mass=mass,
        centre=points.mean(axis=1),
        inertia=mass[:, None, None] / 5 * moments,
        axes=axes,
        reference=rng.uniform(-1, 1, k),
        gravity=rng.normal(size=3) * (rng.random() < 0.3),
    )


def hub_tree(rng: np.random.Generator, hub: float) -> Tree:
    """A light hub (kg) on a heavy arm, with three more heavy arms on it; hinges in random directions."""
    mass = np.array([100.0, hub, 100.0, 450.0, 800.0])
    turns = spatial.so3_exp(rng.normal(size=(10, 3)))
    return Tree(
        parent=np.array([-1, 0, 1, 1, 1]),
        pose_parent=spatial.pose(turns[:5], rng.normal(size=(5, 3)) * 0.3),
        pose_child=spatial.pose(turns[5:], rng.normal(size=(5, 3)) * 0.3),
        twists=np.tile([0.0, 0, 0, 0, 0, 1], (5, 1)),
        mass=mass,
        centre=rng.normal(size=(5, 3)) * 0.1,
        inertia=0.05 * mass[:, None, None] * np.diag([1, 2, 2.5]),
    )


def true_error(measure: str, tree: Tree, exact: np.ndarray, found: np.ndarray) -> float:
    """By the definitions of the paper (4.1), rounding of the computed accelerations included."""
    starts = np.cumsum(tree.axes) - tree.axes
    wrong, sizes = (np.sqrt(np.add.reduceat(v**2, starts)) for v in (found - exact, exact))
    by_joint = measure.endswith("joint")
    error, whole = (v.max() if by_joint else np.sqrt(v @ v) for v in (wrong, sizes))
    return float(error / whole if measure.startswith("relative") else error)


def count_exceeded(seed: int, bodies: int = 20) -> tuple[int, float]:
    """Checks of the stated bound with all four measures on one random linkage: how many failed, and the error of the
    full pass over the condition of the mass matrix."""
    rng = np.random.default_rng(seed)
    tree = graded_tree(rng, bodies)
    n = len(tree.parent)
    loads = {int(b): rng.normal(size=6) for b in rng.choice(n, size=min(3, n), replace=False)}
    mass, forces = equations(tree, loads)
    exact = solve(mass, forces)
    chain = AdaptiveLinkage(tree)
    for body, wrench in loads.items():
        chain.apply(body, wrench)
    chain.accelerate()
    off = true_error("relative_linkage", tree, exact, chain.accelerations)
    failed = 0
    for measure in MEASURES:
        scale = 1.0 if measure.startswith("relative") else float(np.abs(exact).max())
        chain.measure, chain.error = measure, float(10 ** rng.uniform(-9, 0) * scale)
        info = chain.accelerate()
        failed += true_error(measure, tree, exact, chain.accelerations) > info.error_bound
    return failed, off / condition(mass)


def condition(mass: np.ndarray) -> float:
    return float(np.linalg.cond(mass.astype(float)))
