"""Elastic parts against closed forms: patch test, order of convergence, beams, the elastica, derivatives of frames."""

import numpy as np
import pytest
from scipy.integrate import solve_bvp

from supple import elastic
from supple.elastic.held import HeldStiffness, held_rows
from supple.elastic.statics import static_path

LENGTH, DIAMETER = 0.7, 4e-3
AREA, INERTIA = np.pi * DIAMETER**2 / 4, np.pi * DIAMETER**4 / 64
BENDING = 200e9 * INERTIA
"""E I, N m^2."""


@pytest.fixture(scope="module")
def rod():
    return elastic.rod(LENGTH, DIAMETER)


def tip_force(part, wrench):
    end = part.interface("end")
    forces = np.zeros_like(part.nodes)
    forces[end.nodes] = end.nodal_forces(np.asarray(wrench, dtype=float))
    return forces


def tip(part, u):
    end = part.interface("end")
    return end.weights @ u[end.nodes]


@pytest.mark.parametrize("law", ["stvk", "neo-hookean"])
def test_patch(law):
    """A uniform deformation gradient leaves inner nodes in balance, on an irregular mesh."""
    material = elastic.Material(1e6, 0.3, 1000.0, law=law)
    regular = elastic.plate(1.0, 1.0, 1.0, material, divisions=(3, 3, 3))
    corners = regular.tets[:, :4]
    nodes = regular.nodes[: corners.max() + 1].copy()
    inside = ((np.abs(nodes - [0.5, 0, 0]) < 0.4).all(axis=1)).nonzero()[0]
    nodes[inside] += 0.05 * np.random.default_rng(0).standard_normal((len(inside), 3))
    facets = {name: own[:, :3] for name, own in regular.interfaces.items()}
    part = elastic.Part(nodes, corners, material, facets)
    F = np.eye(3) + 0.2 * np.random.default_rng(1).standard_normal((3, 3))
    forces = part.elements.forces(part.nodes @ (F - np.eye(3)).T)
    skin = np.unique(part.skin)
    inner = np.setdiff1d(np.arange(len(part.nodes)), skin)
    assert len(inner) > 50
    assert np.abs(forces[inner]).max() < 1e-12 * np.abs(forces[skin]).max()


def test_order_three_in_l2():
    """Manufactured solution of linear elasticity on a cube: halving elements divides the L2 error by eight."""
    material = elastic.Material(1.0, 0.3, 1.0)
    mu, lam = material.lame

    def exact(x):  # a smooth displacement
        return np.stack(
            [np.sin(2 * x[:, 0] + x[:, 1]), np.cos(x[:, 1] - 2 * x[:, 2]), np.sin(x[:, 0] + x[:, 2])], axis=1
        )

    def body_force(x):  # -(mu lap u + (lam + mu) grad div u)
        a, b, c = 2 * x[:, 0] + x[:, 1], x[:, 1] - 2 * x[:, 2], x[:, 0] + x[:, 2]
        laplacian = np.stack([-5 * np.sin(a), -5 * np.cos(b), -2 * np.sin(c)], axis=1)
        gradient = np.stack([-4 * np.sin(a) - np.sin(c), -2 * np.sin(a) - np.cos(b), 2 * np.cos(b) - np.sin(c)], axis=1)
        return -(mu * laplacian + (lam + mu) * gradient)

    errors = []
    for n in (2, 4):
        part = elastic.plate(1.0, 1.0, 1.0, material, divisions=(n, n, n))
        _, K = part.elements.tangent(np.zeros_like(part.nodes))
        fine = part.mass_matrix()  # density 1
        loads = (fine @ body_force(part.nodes)).ravel()
        u = exact(part.nodes).ravel()
        skin = np.zeros(len(part.nodes), dtype=bool)
        skin[part.skin] = True
        free = np.repeat(~skin, 3)
        K = K.toarray()
        solved = u.copy()
        solved[free] = np.linalg.solve(K[free][:, free], loads[free] - K[free][:, ~free] @ u[~free])
        errors.append(l2_error(part, solved.reshape(-1, 3), exact))
    assert 2.7 < np.log2(errors[0] / errors[1]) < 3.5


def l2_error(part, u, exact):
    """Norm of u - exact by quadrature inside the elements, away from nodes where the interpolant is too good."""
    from skfem.quadrature import get_quadrature
    from skfem.refdom import RefTet

    points, weights = get_quadrature(RefTet, 6)
    L = np.vstack([1 - points.sum(axis=0), points])  # (4, q)
    pairs = ((0, 1), (1, 2), (0, 2), (0, 3), (1, 3), (2, 3))
    N = np.vstack([L * (2 * L - 1), [4 * L[a] * L[b] for a, b in pairs]])
    there = np.einsum("aq,tai->tqi", L, part.nodes[part.tets[:, :4]])
    difference = np.einsum("aq,tai->tqi", N, u[part.tets]) - exact(there.reshape(-1, 3)).reshape(there.shape)
    return np.sqrt(np.einsum("t,q,tqi->", 6 * part.volumes, weights, difference**2))


def test_cantilever(rod):
    """Deflection and three frequencies of beam theory within 1 %, with at most 7,000 degrees of freedom."""
    assert 3 * len(rod.nodes) <= 7000
    _, K = rod.elements.tangent(np.zeros_like(rod.nodes))
    u = HeldStiffness(K, held_rows(rod, ["start"])).solve(tip_force(rod, [1, 0, 0, 0, 0, 0]).ravel())
    assert tip(rod, u.reshape(-1, 3))[0] == pytest.approx(LENGTH**3 / (3 * BENDING), rel=0.01)
    roots = np.array([1.87510407, 4.69409113, 7.85475744])
    expected = roots**2 / (2 * np.pi) * np.sqrt(BENDING / (7850 * AREA * LENGTH**4))
    found = rod.frequencies(6)
    assert found[::2] == pytest.approx(expected, rel=0.01)
    assert found[1::2] == pytest.approx(expected, rel=0.01)


def test_elastica(rod):
    """A tip force that bends the rod by half its length, against the inextensible elastica."""
    force = 10.0
    k = force / BENDING
    s = np.linspace(0, LENGTH, 50)
    # theta'' = -k cos(theta) (theta from the axis), theta(0) = 0, theta'(L) = 0
    curve = solve_bvp(
        lambda s, y: np.array([y[1], -k * np.cos(y[0])]),
        lambda a, b: np.array([a[0], b[1]]),
        s,
        np.array([0.5 * s / LENGTH, 0 * s]),
        tol=1e-8,
    )
    theta = curve.sol(np.linspace(0, LENGTH, 2001))[0]
    across, along = (np.trapezoid(f(theta), dx=LENGTH / 2000) for f in (np.sin, np.cos))
    moved = tip(rod, static_path(rod, "start", tip_force(rod, [force, 0, 0, 0, 0, 0]))[0])
    assert across > 0.45 * LENGTH
    assert moved[0] == pytest.approx(across, rel=0.01)
    assert LENGTH + moved[2] == pytest.approx(along, rel=0.01)


@pytest.mark.parametrize("thickness", [0.0, 1.0])
def test_derivatives_of_frames(thickness):
    """First and second derivatives of the polar rotation to 1e-7 of differences, for plane and curved interfaces."""
    part = elastic.tube(0.1, 0.05, 0.01, sections=2, sides=5)
    if thickness:  # the whole skin: an interface that is not plane
        part = elastic.Part(part.nodes, part.tets, part.material, {"end": part.skin})
    frame = part.frame_of_nodes("end")
    assert (np.linalg.matrix_rank(frame.matrix, tol=1e-12) == 2) == (thickness == 0)
    rng = np.random.default_rng(0)
    z = 5e-3 * rng.standard_normal(len(frame.point_rate))
    direction = rng.standard_normal(len(z))
    motion = frame.motion(z, second=True)
    h = 1e-5
    ahead, behind = frame.motion(z + h * direction), frame.motion(z - h * direction)
    R = motion.pose[:3, :3]
    spin = R.T @ (ahead.pose[:3, :3] - behind.pose[:3, :3]) / (2 * h)
    twist = motion.jacobian @ direction
    assert np.array([spin[2, 1], spin[0, 2], spin[1, 0]]) == pytest.approx(
        twist[3:], abs=1e-7 * np.abs(twist[3:]).max()
    )
    moved = R.T @ (ahead.pose[:3, 3] - behind.pose[:3, 3]) / (2 * h)
    assert moved == pytest.approx(twist[:3], abs=1e-7 * np.abs(twist[:3]).max())
    change = (ahead.jacobian - behind.jacobian) / (2 * h)
    assert motion.hessian @ direction == pytest.approx(change, abs=1e-7 * np.abs(change).max())


def reduced_tip(part, wrench, gravity=(0.0, 0.0, 0.0)):
    """Tip displacement of the reduced part in balance with a wrench whose nodal forces are dead, and gravity."""
    basis = part.basis
    end = part.interface("end")
    load = np.einsum("nir,ni->r", basis.modes[end.nodes], end.nodal_forces(np.asarray(wrench, dtype=float)))
    load = load + basis.first_moment[1:] @ np.asarray(gravity)
    eta = np.zeros(basis.size)
    for _ in range(300):
        at = basis.force.evaluate(eta)
        step = np.linalg.solve(at.tangent, load - at.force)
        size = np.abs(basis.modes @ step).max()
        eta += step * min(1.0, 0.03 / size)
        if size < 1e-12:
            break
    assert size < 1e-12
    return basis.frame("end", eta).pose[:3, 3] - part.rest_frame("end")[:3, 3] + basis.origin


LOADS = (([0.3, 0, 0, 0, 0, 0], [0, 0, 0]), ([0.15, 0, -0.1, 0, 0.02, 0], [3.0, 0, -9.0]))


@pytest.mark.parametrize("plane", ["y", None])
def test_reduced_statics(plane):
    """A coarse rod under loads that were not sampled: tip of the reduced part against that of all nodes."""
    material = elastic.Material(2e9, 0.3, 1200.0)
    coarse = elastic.rod(0.3, 4e-3, material, sections=10, sides=4)
    part = coarse.with_basis(plane=plane, progress=lambda fraction: None)
    for wrench, gravity in LOADS:
        weight = coarse.mass_matrix() @ np.tile(gravity, (len(coarse.nodes), 1))
        full = tip(coarse, static_path(coarse, "start", tip_force(coarse, wrench) + weight)[0])
        assert np.linalg.norm(full) > 0.02 * 0.3
        assert np.linalg.norm(reduced_tip(part, wrench, gravity) - full) < 0.01 * np.linalg.norm(full)


@pytest.mark.long
@pytest.mark.parametrize(
    ("options", "tolerance"), [({"plane": "y"}, 0.005), ({"plane": "y", "cubature": 80}, 0.01), ({}, 0.01)]
)
def test_reduced_statics_of_a_steel_rod(rod, options, tolerance):
    part = rod.with_basis(progress=lambda fraction: None, **options)
    for wrench in ([1, 0, 0, 0, 0, 0], [3, 0, 1, 0, 0.2, 0], [0, 0, 0, 0, 0.5, 0]):
        full = tip(rod, static_path(rod, "start", tip_force(rod, wrench))[0])
        assert np.linalg.norm(reduced_tip(part, wrench) - full) < tolerance * np.linalg.norm(full)
