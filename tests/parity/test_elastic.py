"""The compiled elements, reduced forces and interface frames against readable NumPy twins."""

from dataclasses import replace

import numpy as np
import pytest

from supple import elastic
from supple.elastic.cubature import full_force, quartic_force
from supple.elastic.mesh import EDGES

POINTS = np.full((4, 4), (5 - np.sqrt(5)) / 20) + np.eye(4) * np.sqrt(5) / 5
"""Barycentric coordinates of the quadrature points, (q, 4)."""


def shape_gradients(nodes, tets):
    """(t, 4, 10, 3) gradients of the shape functions and (t,) volumes."""
    edges = nodes[tets[:, 1:4]] - nodes[tets[:, :1]]  # rows: edges from corner 0
    inverse = np.linalg.inv(edges).transpose(0, 2, 1)  # rows: gradients of barycentric coordinates 1, 2, 3
    dL = np.concatenate([-inverse.sum(axis=1, keepdims=True), inverse], axis=1)
    corners = np.einsum("qa,tai->tqai", 4 * POINTS - 1, dL)
    p, r = EDGES.T
    middles = 4 * (
        np.einsum("qe,tei->tqei", POINTS[:, p], dL[:, r]) + np.einsum("qe,tei->tqei", POINTS[:, r], dL[:, p])
    )
    return np.concatenate([corners, middles], axis=2), np.linalg.det(edges) / 6


def density(F, material):
    """Energy density (...,) and stress (..., 3, 3)."""
    mu, lam = material.law_numbers
    I = np.eye(3)
    if material.law == "stvk":
        E = 0.5 * (np.swapaxes(F, -1, -2) @ F - I)
        trace = np.trace(E, axis1=-2, axis2=-1)
        return mu * (E**2).sum((-1, -2)) + lam / 2 * trace**2, F @ (2 * mu * E + lam * trace[..., None, None] * I)
    J, square, a = np.linalg.det(F), (F**2).sum((-1, -2)), 1 + 0.75 * mu / lam
    energy = mu / 2 * (square - 3 - np.log((square + 1) / 4)) + lam / 2 * ((J - a) ** 2 - (1 - a) ** 2)
    cofactor = J[..., None, None] * np.linalg.inv(F).swapaxes(-1, -2)
    return energy, mu * (1 - 1 / (square + 1))[..., None, None] * F + lam * (J - a)[..., None, None] * cofactor


def element_twin(part, u):
    """Energy and its gradient (n, 3)."""
    gradients, volumes = shape_gradients(part.nodes, part.tets)
    F = np.eye(3) + np.einsum("tai,tqaj->tqij", u[part.tets], gradients)
    energy, stress = density(F, part.material)
    forces = np.zeros_like(u)
    np.add.at(forces, part.tets, np.einsum("t,tqij,tqaj->tai", volumes / 4, stress, gradients))
    return (volumes / 4 * energy.sum(axis=1)).sum(), forces


@pytest.fixture(scope="module", params=["stvk", "neo-hookean"])
def part(request):
    material = elastic.Material(1e6, 0.35, 1000.0, law=request.param)
    return elastic.tube(0.1, 0.05, 0.01, material, sections=3, sides=5)


@pytest.fixture(scope="module")
def modes(part):
    return np.random.default_rng(1).standard_normal((len(part.nodes), 3, 6)) * 0.2


def test_element_forces(part):
    u = 1e-3 * np.random.default_rng(0).standard_normal(part.nodes.shape)
    energy, forces = element_twin(part, u)
    assert part.elements.energy(u) == pytest.approx(energy, rel=1e-12)
    assert part.elements.forces(u, allow_inverted=True) == pytest.approx(forces, abs=1e-12 * np.abs(forces).max())


def test_element_tangent_is_the_derivative_of_forces(part):
    rng = np.random.default_rng(0)
    u, du = 1e-3 * rng.standard_normal((2, *part.nodes.shape))
    _, K = part.elements.tangent(u, allow_inverted=True)
    difference = (element_twin(part, u + 1e-4 * du)[1] - element_twin(part, u - 1e-4 * du)[1]) / 2e-4
    assert K @ du.ravel() == pytest.approx(difference.ravel(), abs=1e-6 * np.abs(difference).max())
    assert abs(K - K.T).max() < 1e-13 * abs(K).max()


def test_small_strain_has_the_material_numbers(part):
    """Uniform stretch with free sides: stress E e, contraction nu e."""
    e, nu = 1e-7, part.material.poisson
    u = part.nodes * np.array([-nu * e, -nu * e, e])
    forces = part.elements.forces(u)
    end = np.isclose(part.nodes[:, 2], part.nodes[:, 2].max())
    area = part.interface("end").area
    assert forces[end, 2].sum() == pytest.approx(part.material.young * e * area, rel=1e-5)
    inside = ~end & (part.nodes[:, 2] > 0)
    assert np.abs(forces[inside]).max() < 1e-5 * part.material.young * e * area


def test_reduced_forces(part, modes):
    eta = 2e-3 * np.random.default_rng(2).standard_normal(6)
    twin = element_twin(part, modes @ eta)
    expected = np.einsum("nir,ni->r", modes, twin[1])
    laws = [full_force] + [quartic_force] * (part.material.law == "stvk")
    for make in laws:
        force = make(part, modes)
        result = force.evaluate(eta)
        assert result.energy == pytest.approx(twin[0], rel=1e-10)
        assert result.force == pytest.approx(expected, abs=1e-10 * np.abs(expected).max())
        step = 1e-6 * np.eye(6)
        differences = [(force.evaluate(eta + s).force - force.evaluate(eta - s).force) / 2e-6 for s in step]
        assert result.tangent == pytest.approx(np.array(differences), abs=1e-6 * np.abs(result.tangent).max())
        assert np.array_equal(force.core.force(eta)[1], result.force)


def test_threads_do_not_change_bits(part):
    u = 1e-3 * np.random.default_rng(0).standard_normal(part.nodes.shape)
    first = part.elements.tangent(u, allow_inverted=True)
    second = replace(part).elements.tangent(u, allow_inverted=True)
    assert np.array_equal(first[0], second[0])
    assert np.array_equal(first[1].data, second[1].data)


@pytest.mark.parametrize("turn", [0.0, 0.4, 2.8])
def test_interface_frames(part, turn):
    """Also where the interface has turned so far that Newton's method cannot start from rest."""
    frame = part.frame_of_nodes("end")
    rotation = _rotation(np.array([0.3, -0.8, 0.5]), turn)
    own = part.interface("end")
    noise = 2e-3 * np.random.default_rng(3).standard_normal(own.positions.shape)
    z = (own.positions @ rotation.T + noise - own.positions).ravel()
    pose, jacobian, hessian = frame.core.motion(z)
    twin = frame.motion(z, second=True)
    assert pose == pytest.approx(twin.pose, abs=1e-13)
    assert jacobian == pytest.approx(twin.jacobian, abs=1e-11 * np.abs(twin.jacobian).max())
    assert hessian == pytest.approx(twin.hessian, abs=1e-11 * np.abs(twin.hessian).max())
    wrench = np.array([1.0, -2.0, 3.0, 0.3, 0.2, -0.1])
    stiffness = np.tensordot(wrench, twin.hessian, 1)
    assert frame.core.contracted(z, wrench) == pytest.approx(stiffness, abs=1e-11 * np.abs(stiffness).max())


def _rotation(axis, angle):
    from supple.spatial import so3_exp

    return so3_exp(axis / np.linalg.norm(axis) * angle)
