"""The compiled moving base against a readable twin of the same equations."""

from __future__ import annotations

import numpy as np
import pytest

import supple
from supple import spatial
from supple.mechanism.axes import per_axis
from supple.mechanism.kinematics import inertias


class Twin:
    """A reduced model on a moving base, every link's 6 x (6 + m) Jacobian written out (core/reduced/floating.hpp)."""

    def __init__(self, model: supple.ReducedModel, dt: float) -> None:
        m = model.basis.shape[1] - 6
        basis, self.h, self.m = model.basis[:, :m], dt, m
        self.base = np.array(model.rest_poses[model.free_base])
        self.rest = spatial.inverse(self.base) @ model.rest_poses.array
        self.maps, self.inertia = model.motion_map @ basis, inertias(model.mechanism)
        self.damping, self.stiffness = (basis.T @ part @ basis for part in (model.damping, model.stiffness))
        turns = model.coordinate_map @ basis
        self.armature = turns.T @ (per_axis(model.mechanism, "armature")[:, None] * turns)
        self.gravity = model.mechanism.gravity
        self.y, self.v, self.momentum, self.twist = np.zeros(m), np.zeros(m), np.zeros(6), np.zeros(6)

    def jacobians(self) -> np.ndarray:
        """(bodies, 6, 6 + m): each link's own twist per (V, v)."""
        xi = self.maps @ self.y
        seen = spatial.adjoint(spatial.inverse(self.rest @ spatial.exp(xi)))
        return np.concatenate([seen, spatial.right_jacobian(xi) @ self.maps], axis=2)

    def mass(self) -> np.ndarray:
        J = self.jacobians()
        M = np.einsum("bim,bij,bjn->mn", J, self.inertia, J)
        M[6:, 6:] += self.armature
        return M

    def set_twist(self, twist: np.ndarray) -> None:
        M = self.mass()
        seen = M[:6, :6] @ twist + M[:6, 6:] @ self.v
        self.momentum = spatial.adjoint(spatial.inverse(self.base)).T @ seen
        self.twist = twist

    def step(self) -> None:
        h, M, J = self.h, self.mass(), self.jacobians()
        u = np.concatenate([self.twist, self.v])
        right = M @ u
        for body, jacobian in zip(self.inertia, J, strict=True):
            carried, own = jacobian[:, :6] @ self.twist, jacobian[:, 6:] @ self.v
            phi = carried + own
            right -= h * jacobian.T @ (body @ -(spatial.ad(own) @ carried) - spatial.ad(phi).T @ (body @ phi))
        right[6:] -= h * self.stiffness @ self.y
        fall = np.concatenate([self.base[:3, :3].T @ self.gravity, np.zeros(3)])
        right += h * M[:, :6] @ fall
        A = M.copy()
        A[6:, 6:] += h * self.damping + h * h * self.stiffness
        fresh = np.linalg.solve(A, right)
        self.momentum = self.momentum + h * spatial.adjoint(spatial.inverse(self.base)).T @ (M[:6, :6] @ fall)
        self.base = self.base @ spatial.exp(h * fresh[:6])
        self.v = fresh[6:]
        self.y = self.y + h * self.v
        M = self.mass()
        seen = spatial.adjoint(self.base).T @ self.momentum - M[:6, 6:] @ self.v
        self.twist = np.linalg.solve(M[:6, :6], seen)


def walker(gravity: tuple[float, float, float]) -> supple.Mechanism:
    """Three legs of different make on one hull: parts of one, two and three coordinates."""
    b = supple.Builder("walker", gravity=gravity)
    b.body("hull", spatial.exp(np.array([0.1, 0, 0.5, 0.1, 0.2, -0.3])), 3.0, (0.02, 0, 0.01), (0.05, 0.06, 0.08))
    b.free("float", "world", "hull")
    for leg in range(3):
        parent, at = "hull", np.array([0.3 * leg - 0.3, 0.2, 0.4])
        for k in range(leg + 1):
            b.link(f"leg{leg}_{k}", at, at + [0.05, 0.1, -0.2], 0.4)
            spring = {"stiffness": 15.0, "damping": 0.3, "armature": 0.002}
            b.hinge(f"hinge{leg}_{k}", parent, f"leg{leg}_{k}", at, "xyz"[(k + leg) % 3], **spring)
            parent, at = f"leg{leg}_{k}", at + [0.05, 0.1, -0.2]
    return b.build()


@pytest.mark.parametrize("gravity", [(0, 0, 0), (0, 0, -9.81)])
@pytest.mark.parametrize("tips", [["leg0_0", "leg1_1", "leg2_2"], ["leg2_2"]])
def test_a_moving_base_agrees_with_its_twin(tips, gravity):
    model = supple.reduce(walker(gravity), tips)
    sim, twin = supple.ReducedSimulation(model, 1e-3), Twin(model, 1e-3)
    twist = np.array([0.4, -0.2, 0.3, 2.0, -1.0, 3.0])
    sim.set_base_velocity(twist)
    twin.set_twist(twist)
    np.testing.assert_allclose(sim.momentum, twin.momentum, atol=1e-12)
    for _ in range(200):
        sim.step()
        twin.step()
    np.testing.assert_allclose(sim.poses["hull"], twin.base, atol=1e-10)
    np.testing.assert_allclose(sim.momentum, twin.momentum, atol=1e-10)
    links = twin.base @ twin.rest @ spatial.exp(twin.maps @ twin.y)
    np.testing.assert_allclose(sim.poses.array, links, atol=1e-9)
    assert np.abs(twin.y).max() > 1e-3  # it bends as it spins
