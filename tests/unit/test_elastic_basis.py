"""Reduced bases: integrals, frames, methods, files, refusals."""

import numpy as np
import pytest

from supple import MechanismError, elastic
from supple.elastic.modal import static_shapes
from supple.elastic.reduction import in_reference_frame
from supple.spatial import so3_exp


@pytest.fixture(scope="module")
def strip():
    material = elastic.Material(1e7, 0.3, 1000.0, beta=1e-3, alpha=0.2)
    return elastic.plate(0.1, 0.02, 0.01, material, divisions=(6, 1, 1))


@pytest.fixture(scope="module")
def part(strip):
    return strip.with_basis(9, method="linear", progress=lambda fraction: None)


def test_modes_keep_the_reference_interface_at_rest(part):
    basis = part.basis
    own = part.interface("start")
    for k in range(basis.size):
        z = 0.01 * basis.modes[own.nodes, :, k].ravel()
        assert own.frame().pose(z) == pytest.approx(part.rest_frame("start"), abs=1e-12)
    assert np.linalg.norm(basis.modes, axis=1).max(axis=0) == pytest.approx(np.ones(basis.size))
    assert (basis.alpha, basis.beta) == (0.2, 1e-3)


def test_inertia_integrals(part):
    basis, M = part.basis, part.mass_matrix()
    eta = 5e-3 * np.random.default_rng(0).standard_normal(basis.size)
    y = part.nodes - basis.origin + basis.displacements(eta)
    My = M @ y
    first, inertia = basis.inertia(eta)
    assert first == pytest.approx(My.sum(axis=0), rel=1e-10)
    second = y.T @ My
    assert inertia == pytest.approx(np.trace(second) * np.eye(3) - second, abs=1e-12 * np.trace(second))
    rates = np.einsum("nir,nj->rij", basis.modes, My)
    expected = np.stack([rates[:, j, i] - rates[:, i, j] for i, j in ((1, 2), (2, 0), (0, 1))], axis=1)
    assert basis.spin_coupling(eta) == pytest.approx(expected, abs=1e-12 * np.abs(expected).max() + 1e-15)
    MPhi = (M @ basis.modes.reshape(len(y), -1)).reshape(basis.modes.shape)
    assert basis.mass_matrix == pytest.approx(np.einsum("nik,nil->kl", basis.modes, MPhi), abs=1e-15)
    assert basis.amplitudes(basis.displacements(eta), M) == pytest.approx(eta, abs=1e-9)


def test_gravity_follows_from_the_first_moment(part):
    basis, g = part.basis, np.array([1.0, -2.0, -9.0])
    weights = part.mass_matrix() @ np.tile(g, (len(part.nodes), 1))
    assert basis.first_moment[1:] @ g == pytest.approx(np.einsum("nir,ni->r", basis.modes, weights), abs=1e-13)


def test_frames_follow_the_mesh(part):
    basis = part.basis
    eta = 5e-3 * np.random.default_rng(1).standard_normal(basis.size)
    own = part.interface("end")
    pose = part.frame_of_nodes("end").pose(basis.displacements(eta)[own.nodes].ravel())
    pose[:3, 3] -= basis.origin
    assert basis.frame("end", eta).pose == pytest.approx(pose, abs=1e-12)
    still = basis.frame("start", eta, second=True)
    assert np.array_equal(still.pose, np.eye(4))
    assert not still.jacobian.any()


def test_rigid_motion_of_snapshots_is_removed(strip, part):
    shapes = np.array([part.basis.displacements(3e-3 * unit) for unit in np.eye(9)])
    R, shift = so3_exp([0.5, -1.0, 0.3]), np.array([1.0, 2.0, 3.0])
    moved = (strip.nodes + shapes) @ R.T + shift - strip.nodes
    assert in_reference_frame(strip, "start", moved) == pytest.approx(shapes, abs=1e-12)
    basis = strip.with_basis(4, snapshots=moved[:4]).basis
    assert basis.method == "snapshots"
    span = np.linalg.lstsq(basis.modes.reshape(-1, 4), shapes[:4].reshape(4, -1).T, rcond=None)[0]
    assert basis.modes.reshape(-1, 4) @ span == pytest.approx(shapes[:4].reshape(4, -1).T, abs=1e-12)
    assert basis.range_ratio(span[:, 0]) <= 1 + 1e-9
    with pytest.raises(MechanismError, match="5 modes were asked for, but the 8 shapes span 4 only"):
        strip.with_basis(5, snapshots=np.concatenate([moved[:4], moved[:4]]))


@pytest.mark.parametrize(("method", "tolerance"), [("linear", 1e-6), ("interface", 4e-3)])
def test_methods_have_the_first_frequencies(strip, method, tolerance):
    basis = strip.with_basis(method=method, progress=lambda fraction: None).basis
    assert basis.frequencies()[:4] == pytest.approx(strip.frequencies(4), rel=tolerance)
    assert np.isfinite(basis.trained_range) == (method == "interface")


def test_interface_shapes_have_the_compliance_of_the_mesh(strip):
    basis = strip.with_basis(21, progress=lambda fraction: None).basis
    assert basis.size == 21  # six wrenches, fifteen derivatives
    J = basis.frame("end", np.zeros(21)).jacobian
    shapes = static_shapes(strip, "start").reshape(len(strip.nodes), 3, 6)
    own = strip.interface("end")
    exact = own.frame_of_modes(shapes, own.centroid).motion(np.zeros(6)).jacobian
    assert J @ np.linalg.solve(basis.stiffness, J.T) == pytest.approx(exact, rel=1e-6, abs=1e-9 * np.abs(exact).max())


@pytest.mark.parametrize("plane", [None, "y"])
def test_parts_with_one_or_three_interfaces(strip, plane):
    """They are compared under their weight, and under wrenches on two interfaces."""
    alone = elastic.Part(strip.nodes, strip.tets, strip.material, {"start": strip.interfaces["start"]})
    profile = np.array([[0, 0.01, 0.02], [0.1, 0.01, 0.02]])
    three = elastic.bar(profile, strip.material, pads={"pad": ("+x", 0.04, 0.06)}, length=0.01)
    for part, statics in ((alone, 0), (three, 2)):
        basis = part.with_basis(plane=plane, progress=lambda fraction: None).basis
        assert len(basis.frames) == statics
        assert basis.difference < 0.02
        assert basis.frequencies()[0] == pytest.approx(part.frequencies(1)[0], rel=1e-3)


def test_cubature_is_near_the_exact_force(strip, part):
    reduced = strip.with_basis(9, method="linear", cubature=60, progress=lambda fraction: None).basis
    assert len(reduced.force.weights) <= 60
    assert (reduced.force.weights > 0).all()
    assert 0 < reduced.force.training_error < 0.02
    eta = np.zeros(9)
    eta[0] = 5e-3
    exact = part.basis.force.evaluate(eta)
    assert reduced.modes == pytest.approx(part.basis.modes)
    assert reduced.force.evaluate(eta).energy == pytest.approx(exact.energy, rel=0.05)


def test_another_reference(strip):
    basis = strip.with_basis(2, reference="end", method="linear").basis
    assert basis.origin == pytest.approx([0.1, 0, 0])
    assert list(basis.frames) == ["start"]
    assert basis.frame("start", np.zeros(2)).pose[:3, 3] == pytest.approx([-0.1, 0, 0])


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"method": "guess"}, "no method 'guess'"),
        ({"modes": 0}, "a mode at least"),
        ({"reference": "tip"}, "no interface 'tip'"),
        ({"plane": "xy"}, "named by its normal"),
        ({"snapshots": np.zeros((2, 3, 3))}, "snapshots must have shape"),
    ],
)
def test_bad_options(strip, options, text):
    with pytest.raises(MechanismError, match=text):
        strip.with_basis(**options)


@pytest.mark.parametrize("cubature", [None, 20])
def test_files(strip, part, tmp_path, cubature):
    if cubature:
        part = strip.with_basis(2, snapshots=part.basis.modes[:, :, :2].transpose(2, 0, 1) * 1e-2, cubature=cubature)
    path = tmp_path / "strip.npz"
    part.save(path)
    back = elastic.load(path)
    assert back.material == part.material
    assert np.array_equal(back.nodes, part.nodes)
    assert np.array_equal(back.interfaces["end"], part.interfaces["end"])
    eta = np.full(part.basis.size, 1e-3)
    assert np.array_equal(back.basis.force.evaluate(eta).force, part.basis.force.evaluate(eta).force)
    assert np.array_equal(back.basis.gram, part.basis.gram)
    assert np.array_equal(back.basis.frame("end", eta).pose, part.basis.frame("end", eta).pose)
    assert back.basis.trained_range == part.basis.trained_range


def test_damaged_files_are_named(part, tmp_path):
    path = tmp_path / "strip.npz"
    with pytest.raises(MechanismError, match=r"there is no file .*strip\.npz"):
        elastic.load(path)
    part.save(path)
    whole = dict(np.load(path))
    path.write_bytes(path.read_bytes()[:2000])
    with pytest.raises(MechanismError, match=r"strip\.npz is not an elastic part, or is damaged"):
        elastic.load(path)
    np.savez(path, nodes=whole["nodes"])
    with pytest.raises(MechanismError, match=r"strip\.npz is not an elastic part"):
        elastic.load(path)
    for name, value in {
        "basis/gram": whole["basis/gram"][1:],
        "basis/modes": whole["basis/modes"][:-1],
        "tets": whole["tets"] + 10000,
        "nodes": whole["nodes"] * np.nan,
    }.items():
        np.savez(path, **(whole | {name: value}))
        with pytest.raises(MechanismError, match=r"strip\.npz is damaged"):
            elastic.load(path)


def test_a_basis_of_another_mesh_is_refused(part):
    other = elastic.plate(0.1, 0.02, 0.01, divisions=(2, 1, 1))
    with pytest.raises(MechanismError, match=r"the basis has .* nodes, the mesh has"):
        elastic.Part(other.nodes, other.tets, other.material, other.interfaces, None, part.basis)
