"""The flexible body of the engine against a cloud of point masses with the same modes, in NumPy."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations

import numpy as np
import pytest
from scipy.optimize import root

from supple import _core, spatial
from supple.elastic import InterfaceFrame

MODES, POINTS = 4, 12


@dataclass
class Cloud:
    """Points X (n, 3) with masses (n,) that move by Phi (n, 3, r) eta; a quartic energy."""

    mass: np.ndarray
    X: np.ndarray
    Phi: np.ndarray
    force: object
    frame: InterfaceFrame

    def positions(self, pose: np.ndarray, eta: np.ndarray) -> np.ndarray:
        return pose[:3, 3] + (self.X + self.Phi @ eta) @ pose[:3, :3].T


@pytest.fixture(scope="module")
def cloud() -> Cloud:
    rng = np.random.default_rng(0)
    pairs = [(k, m) for k in range(MODES) for m in range(k + 1)]
    factor = rng.normal(size=(MODES, MODES))
    K2 = factor @ factor.T + MODES * np.eye(MODES)
    K3, K4 = (_symmetric(rng.normal(size=(MODES,) * order)) for order in (3, 4))
    force = _core.QuarticForce(
        MODES,
        100 * np.array([K2[pair] for pair in pairs]),
        100 * np.array([K3[pair] for pair in pairs]),
        100 * np.array([[K4[a + b] for b in pairs] for a in pairs]),
    )
    frame = InterfaceFrame(
        np.array([0.5, 0.0, 0.0]),
        rng.normal(size=(MODES, 3)),
        np.diag([0.1, 0.1, 0.0]),  # plane
        0.1 * rng.normal(size=(MODES, 3, 3)),
    )
    X, Phi = 0.3 * rng.normal(size=(POINTS, 3)), 0.3 * rng.normal(size=(POINTS, 3, MODES))
    return Cloud(rng.uniform(0.1, 1.0, POINTS), X, Phi, force, frame)


def _symmetric(tensor: np.ndarray) -> np.ndarray:
    orders = list(permutations(range(tensor.ndim)))
    return sum(tensor.transpose(order) for order in orders) / len(orders)


def cloud_equations(cloud: Cloud, stiffness: float, tip_mass: float, alpha: float = 0.0, beta: float = 0.0):
    """A body frame on a bushing to the world, with the cloud, and a rigid body at an interface."""
    model, zeros = _core.Model(), np.zeros
    model.add_body(0.0, zeros(3), zeros((3, 3)))
    model.add_body(tip_mass, np.array([0.1, 0, 0]), 0.02 * (tip_mass > 0) * np.eye(3))
    springs = np.full(6, stiffness), zeros(6), zeros(6), zeros(6)
    model.add_joint(-1, 0, 0, np.eye(4), np.eye(4), np.eye(6), [1, 1, 1, 3], *springs, [-1] * 6)
    model.add_joint(0, 1, 1, np.eye(4), np.eye(4), zeros((MODES, 6)), [1] * MODES, *(zeros(MODES),) * 4, [-1] * MODES)
    model.set_interface(cloud.frame.core)
    psi = np.concatenate([cloud.X[:, :, None], cloud.Phi], axis=2)
    first_moment = np.einsum("n,nik->ki", cloud.mass, psi)
    gram = np.ascontiguousarray(np.einsum("n,nik,njl->klij", cloud.mass, psi, psi))
    model.add_flexible(0, 6, cloud.mass.sum(), first_moment, gram, cloud.force, alpha, beta)
    model.set_tree([0, 1], 100.0, 1.0)
    return _core.Equations(model, zeros(6 + MODES), 0.0)


def engine(cloud: Cloud, *options: float):
    """The same, to be moved in time, under gravity."""
    eqs = cloud_equations(cloud, *options)
    return _core.Engine(eqs, weight_of(eqs))


def weight_of(eqs: _core.Equations):
    """Gravity, acting alone."""
    no_loads = [], np.zeros((0, 3)), np.zeros((0, 6)), []
    return eqs.acting(*no_loads, np.array([0, 0, -9.81]), np.zeros(6 + MODES), [], [])


def test_the_tangent_of_statics_is_its_derivative(cloud):
    eqs, rng = cloud_equations(cloud, 50.0, 0.3), np.random.default_rng(1)
    weight = weight_of(eqs)
    q = 0.2 * rng.normal(size=6 + MODES)
    _, _, rows, _, _ = eqs.layout

    def residual(step: np.ndarray) -> np.ndarray:
        moved = q + step
        moved[3:6] = spatial.so3_log(spatial.so3_exp(q[3:6]) @ spatial.so3_exp(step[3:6]))
        return -eqs.evaluate(weight, moved, np.zeros((2, 6)), np.zeros(0)).residual[rows]

    linear = eqs.linearise(weight, q, np.zeros((2, 6)), np.zeros(0))
    r, c, values = linear.tangent()
    tangent = np.zeros((int(r.max()) + 1,) * 2)
    np.add.at(tangent, (r.astype(int), c.astype(int)), values)
    motions = np.vstack([linear.jacobian().reshape(len(q), 12).T, np.eye(len(q))])
    places = np.concatenate([np.arange(12), rows])
    found = motions.T @ tangent[np.ix_(places, places)] @ motions
    h = 1e-6
    columns = np.array([(residual(h * unit) - residual(-h * unit)) / (2 * h) for unit in np.eye(len(q))]).T
    # away from equilibrium the derivative has an antisymmetric part, which depends on the chart of rotations
    np.testing.assert_allclose(found, (columns + columns.T) / 2, rtol=0, atol=1e-9 * np.abs(columns).max())


@pytest.mark.parametrize(("order", "alpha", "beta"), [(1, 0.0, 0.0), (2, 0.0, 0.0), (2, 0.7, 0.01)])
def test_steps(cloud, order, alpha, beta):
    """Backward differences of every point's position give velocities, and of these accelerations."""
    h, gravity, rng = 2e-3, np.array([0.0, 0.0, -9.81]), np.random.default_rng(2)
    core = engine(cloud, 0.0, 0.0, alpha, beta)
    eta, twist, eta_rate = 0.1 * rng.normal(size=MODES), rng.normal(size=6), 0.5 * rng.normal(size=MODES)
    q = np.concatenate([[0.1, 0.2, 0.3, 0.2, -0.1, 0.3], eta])
    pose = spatial.pose(spatial.so3_exp(q[3:6]), q[:3])
    R = pose[:3, :3]
    core.place(q, np.zeros((2, 6)), np.zeros(0))
    core.start(h, order, 0.0, np.stack([twist, np.zeros(6)]), np.concatenate([R @ twist[:3], twist[3:], eta_rate]))

    mass, Phi = cloud.mass[:, None], cloud.Phi
    y = cloud.X + Phi @ eta
    x = [cloud.positions(pose, eta)] * 2
    v = [(twist[:3] + np.cross(twist[3:], y) + Phi @ eta_rate) @ R.T] * 2
    forces, etas = [cloud.force.force(eta)[1]] * 2, [eta] * 2
    modal_mass = np.einsum("n,nik,nil->kl", cloud.mass, Phi, Phi)
    poses = np.empty((2, 4, 4))
    for step in range(6):
        c = (1.0, -1.0, 0.0) if step == 0 or order == 1 else (1.5, -2.0, 0.5)

        def rate(now, past, c=c):
            return (c[0] * now + c[1] * past[0] + c[2] * past[1]) / h

        def balance(move, pose=pose, eta=eta, rate=rate, x=x, v=v, forces=forces, etas=etas):
            moved, amplitudes = pose @ spatial.exp(move[:6]), eta + move[6:]
            a = (rate(rate(cloud.positions(moved, amplitudes), x), v) - gravity) @ moved[:3, :3]
            internal = cloud.force.force(amplitudes)[1]
            on_eta = np.einsum("n,nik,ni->k", cloud.mass, Phi, a) + internal + beta * rate(internal, forces)
            on_eta += alpha * modal_mass @ rate(amplitudes, etas)
            turning = np.cross(cloud.X + Phi @ amplitudes, a)
            return np.concatenate([(mass * a).sum(axis=0), (mass * turning).sum(axis=0), on_eta])

        move = root(balance, np.zeros(6 + MODES), tol=1e-14).x
        pose, eta = pose @ spatial.exp(move[:6]), eta + move[6:]
        now = cloud.positions(pose, eta)
        x, v = [now, x[0]], [rate(now, x), v[0]]
        forces, etas = [cloud.force.force(eta)[1], forces[0]], [eta, etas[0]]
        assert core.step([], np.zeros(0), 1) == 1
        core.read_poses(poses)
        np.testing.assert_allclose(poses[0], pose, rtol=0, atol=1e-11)
        np.testing.assert_allclose(core.q[6:], eta, rtol=0, atol=1e-11)
        kinetic, strain, weight = core.energies
        assert kinetic == pytest.approx(0.5 * (mass * v[0] ** 2).sum(), rel=1e-9)
        assert weight == pytest.approx(-(mass * now * gravity).sum(), rel=1e-9)
        assert strain == pytest.approx(cloud.force.force(eta)[0], rel=1e-9)


def test_the_history_repeats_to_the_last_bit(cloud):
    core = engine(cloud, 5.0, 0.3)
    core.place(np.full(6 + MODES, 0.05), np.zeros((2, 6)), np.zeros(0))
    core.start(1e-3, 2, 0.0, np.zeros((2, 6)), np.zeros(6 + MODES))
    core.step([], np.zeros(0), 5)
    saved = core.history()
    core.step([], np.zeros(0), 5)
    after = core.q
    core.set_history(saved)
    core.step([], np.zeros(0), 5)
    np.testing.assert_array_equal(core.q, after)
