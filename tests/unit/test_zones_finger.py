"""A finger with a skin: bending, approximations of its seams, its resistance as spring curves."""

from dataclasses import replace

import numpy as np
import pytest

import supple
from supple import MechanismError, RangeWarning, spatial, zones

COARSE = (10, 6, 2)
BENT = (0.1, 0.7, 0.5)


@pytest.fixture(scope="module")
def finger():
    return zones.finger(cells=COARSE)


@pytest.fixture(scope="module")
def plain():
    return zones.finger(cells=COARSE, halfway=False)


def rms(a, b):
    return float(np.sqrt(((a - b) ** 2).sum(axis=1).mean()))


def test_a_finger_is_a_chain_of_pads_and_half_way_zones(finger, plain):
    assert list(finger.skin.zones) == ["proximal", "pip", "middle", "dip", "distal"]
    assert list(plain.skin.zones) == ["proximal", "middle", "distal"]
    assert [seam.zones for seam in finger.skin.seams] == [(0, 1), (1, 2), (2, 3), (3, 4)]
    zones_ = finger.skin.zones
    assert zones_["pip"].greens is zones_["dip"].greens  # equal zones are computed once
    assert finger.mechanism.coordinates == ("knuckle", "pip", "dip")


def test_bending_is_continuous_and_half_way_zones_strain_less(finger, plain):
    bent = finger.skin.at(BENT).solve()
    by_cg = finger.skin.at(BENT, solver="cg").solve()
    assert np.abs(by_cg.vertices - bent.vertices).max() < 1e-10
    assert 0 < by_cg.iterations <= 20
    assert plain.skin.at(BENT, solver="cg").solve().iterations <= 10
    assert bent.volume_ratio > plain.skin.at(BENT).solve().volume_ratio
    # the whole finger may turn: the shape turns with it
    turned = finger.skin.at((BENT[0] + 0.3, *BENT[1:])).solve()
    R = spatial.so3_exp(np.array([0, 0.3, 0]))
    assert np.abs(turned.vertices - bent.vertices @ R.T).max() < 1e-12
    assert turned.energy == pytest.approx(bent.energy)


def test_the_diagonal_blocks_dominate(plain):
    blocks = plain.skin.at().blocks
    assert np.linalg.norm(blocks[0, 0], 2) > 50 * np.linalg.norm(blocks[1, 0], 2)


def test_far_bending_warns(plain):
    with pytest.warns(RangeWarning, match="of its volume"):
        plain.skin.at((0, 1.5, 1.1)).solve()


def test_approximations_of_the_seams(finger):
    """Errors over the largest displacement from blending, in the order of the paper's approximations."""
    skin = finger.skin
    exact = skin.at(BENT).solve().vertices
    blended = skin.with_blended_seams().at(BENT).solve().vertices
    near = skin.with_seams_near_surface(0.0).at(BENT).solve().vertices
    basis = skin.with_seam_basis(10)
    few = basis.at(BENT).solve()
    diagonal = skin.at(BENT, solver="diagonal").solve().vertices
    samples = [(0, 1.6 * s, 1.2 * s) for s in np.linspace(0, 1, 5)]
    interpolated = skin.with_interpolated_seams(samples).at(BENT, solver="interpolated").solve().vertices
    errors = {"basis": rms(few.vertices, exact), "diagonal": rms(diagonal, exact), "near": rms(near, exact)}
    errors |= {"interpolated": rms(interpolated, exact), "blended": rms(blended, exact)}
    assert errors["basis"] < 0.05 * errors["blended"]
    assert errors["diagonal"] < 0.5 * errors["blended"]
    assert errors["interpolated"] < 0.6 * errors["blended"]
    assert errors["near"] < errors["blended"]
    assert basis.pattern.sizes == (30,) * 4
    assert np.abs(basis.with_full_seams().at(BENT).solve().vertices - exact).max() < 1e-15
    with pytest.raises(MechanismError, match="with_interpolated_seams"):
        skin.at(BENT, solver="interpolated")
    with pytest.raises(MechanismError, match="does not turn"):
        skin.with_interpolated_seams([None])


def test_the_compliance_of_a_seam_basis_is_its_response(finger):
    skin = finger.skin.with_seam_basis(8)
    posed = skin.at(BENT)
    near_seam = skin.touch_of_zone["pip"]
    points = posed.pad(near_seam)
    forces = np.zeros((skin.vertex_count, 3))
    forces[near_seam] = 0.01 * np.random.default_rng(0).standard_normal((len(near_seam), 3))
    moved = posed.solve(forces).vertices - posed.solve().vertices
    at = points.vertices[:, 0]
    predicted = (points.compliance @ forces[at].ravel()).reshape(-1, 3)
    assert np.abs(predicted - moved[at]).max() < 1e-11


def test_a_press_on_the_seam_keeps_what_the_basis_leaves_out(finger, plain):
    """The residual compliance makes up for most of the basis's error, in bent poses too."""
    for skin in (finger.skin, plain.skin):
        basis = skin.with_seam_basis(8)
        without = basis.with_bases(basis.bases)
        assert all(residual is not None for residual in basis.residuals)
        seam = np.intersect1d(skin.seam_vertices(1), skin.touch)
        forces = np.zeros((skin.vertex_count, 3))
        forces[seam[:2]] = [0.3, 0.2, 1.0]
        for q in ((0, 0, 0), (0, 0.35, 0.35), BENT):
            exact = skin.at(q).motion(forces)[skin.touch]
            few, fewer = (np.abs(own.at(q).motion(forces)[skin.touch] - exact).max() for own in (basis, without))
            assert few < 0.02 * np.abs(exact).max()
            assert few < 0.5 * fewer
        for residual in basis.residuals:
            assert np.linalg.eigvalsh(residual.compliances).min() > -1e-12 * residual.compliances.max()
    complete = skin.with_seam_basis(max(seam.size for seam in skin.seams))
    assert complete.residuals == (None,) * len(skin.seams)


def test_the_resistance_to_bending_as_spring_curves(finger):
    curves = finger.curves(7)
    assert set(curves) == {"pip", "dip"}
    posed = finger.skin.at((0, 0.8, 0))
    assert float(curves["pip"].energy(0.8)) == pytest.approx(posed.energy(), rel=2e-3)
    assert (np.diff(curves["pip"].torque) > 0).all()
    stiff = finger.with_curves(7)
    load = {"distal": [0, 0, -0.5, 0, 0.01, 0]}  # the moment bends the last joint
    free = supple.equilibrium(finger.mechanism, load).q
    held = supple.equilibrium(stiff, load).q
    assert (np.abs(held[1:]) < np.abs(free[1:])).all()
    with pytest.raises(MechanismError, match="already has a spring curve"):
        replace(finger, mechanism=stiff).with_curves(3)


def test_vertices_off_the_pads_are_blended(finger):
    """They follow the zones near them rigidly, and lie between those of two zones."""
    tip, back = np.array([0.085, 0, 0.004]), np.array([0.03, 0, 0.0045])
    blended = zones.BlendedVertices.of(finger.skin, [tip, back])
    assert np.allclose(blended.weights.sum(axis=1), 1)
    assert np.allclose(blended.at(), [tip, back])
    posed = finger.skin.frames(BENT)[0]
    carried = [H @ np.linalg.inv(rest) for H, rest in zip(posed, finger.skin.reference_frames, strict=True)]
    at_tip, at_back = blended.at(BENT)
    assert np.allclose(at_tip, (carried[-1] @ [*tip, 1])[:3], atol=2e-4)
    assert np.allclose(at_back, (carried[1] @ [*back, 1])[:3], atol=2e-4)
    with pytest.raises(MechanismError, match="vertices"):
        zones.BlendedVertices.of(finger.skin, [[0, 0]])


def test_bad_fingers_are_refused():
    with pytest.raises(MechanismError, match="3 positive lengths"):
        zones.finger(lengths=(0.02, 0.02))
    with pytest.raises(MechanismError, match="gap"):
        zones.finger(gap=0.015)
