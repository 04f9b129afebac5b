"""Errors of blended models and their simulation for bad input."""

from __future__ import annotations

import contextlib
import warnings

import numpy as np
import pytest

import pulls
import supple
from pulls import helix_models


def test_bad_arguments_of_blend():
    with pytest.raises(supple.MechanismError, match="nothing to blend: give at least one model"):
        supple.blend([])
    model = helix_models(1)[0]
    for wrong in (model, None, [model, 3], "model", [supple.blend([model])]):
        with pytest.raises(supple.MechanismError, match=r"list of reduced models \(from supple.reduce\)"):
            supple.blend(wrong)
    for power in (0, 0.5, np.nan, np.inf, "4"):
        with pytest.raises(supple.MechanismError, match="power must be a number of at least 1"):
            supple.blend([model], power=power)
    with pytest.raises(supple.MechanismError, match=r"support is one of .*local.*global.*got 'none'"):
        supple.blend([model], support="none")
    with pytest.raises(supple.MechanismError, match=r"scheme is one of .*corrected.*published.*got 'paper'"):
        supple.blend([model], scheme="paper")


def test_different_mechanisms_units_and_end_effectors():
    models = helix_models(2)
    with pytest.raises(supple.MechanismError, match=r"one mechanism blend: this one is of 'y'.*the others of 'helix'"):
        supple.blend([models[0], supple.reduce(*pulls.library_case("y"))])
    stiffer = supple.reduce(supple.library.helix(8, stiffness=7.0), ["tip"])
    with pytest.raises(supple.MechanismError, match="only models of one mechanism blend"):
        supple.blend([models[0], stiffer])
    mech, tips = pulls.library_case("y")
    with pytest.raises(supple.MechanismError, match=r"same end effectors.*right_tip, left_tip.*left_tip, right_tip"):
        supple.blend([supple.reduce(mech, tips), supple.reduce(mech, tips[::-1])])
    with pytest.raises(supple.MechanismError, match=r"has left_tip, the others left_tip, right_tip"):
        supple.blend([supple.reduce(mech, tips), supple.reduce(mech, tips[:1])])
    with pytest.raises(supple.MechanismError, match=r"mass='consistent' and 'accelerability' do not blend"):
        supple.blend([models[0], helix_models(2, mass="accelerability")[1]])


def test_other_units_are_suspected():
    """The same strut in metres and in millimetres."""

    def strut(unit: float) -> supple.ReducedModel:
        b = supple.Builder("strut", gravity=(0, 0, 0))
        b.link("link", (0, 0, 0), (0.4 * unit, 0, 0), mass=1.0)
        b.universal("joint", "world", "link", (0, 0, 0), ("z", "y"), stiffness=10.0, damping=1.0)
        b.site("tip", "link", (0.4 * unit, 0, 0))
        return supple.reduce(b.build(), ["tip"])

    with pytest.raises(supple.MechanismError, match=r"it is 1000 times as large: are its units different\?"):
        supple.blend([strut(1.0), strut(1000.0)])


def test_a_duplicate_linearisation_point():
    models = helix_models(3)
    with pytest.raises(supple.MechanismError, match=r"'helix' was made where model 1 already is; leave one out"):
        supple.blend([*models, supple.reduce(models[1].mechanism, ["tip"], at=models[1].at)])
    many = supple.blend(models)
    for _ in range(2):
        with pytest.raises(supple.MechanismError, match="made where model 2 already is"):
            many.add(models[2])
    assert many.models == tuple(models)  # unchanged
    for fade in (-1.0, np.nan, np.inf):
        with pytest.raises(supple.MechanismError, match="fade must be a time in seconds"):
            many.add(helix_models(4)[3], fade)
    with pytest.raises(supple.MechanismError, match="a reduced model is needed"):
        many.add(None)


def test_fade_that_is_no_number():
    models = helix_models(2)
    with pytest.raises(supple.MechanismError, match="fade must be a time in seconds"):
        supple.blend(models[:1]).add(models[1], "soon")


def test_floating_mechanisms():
    b = supple.Builder("floats", gravity=(0, 0, 0))
    b.link("base", (0, 0, 0), (0.3, 0, 0), mass=1.0)
    b.link("arm", (0.3, 0, 0), (0.6, 0, 0), mass=1.0)
    b.free("free", "world", "base")
    b.hinge("hinge", "base", "arm", (0.3, 0, 0), "y", stiffness=10.0, damping=1.0)
    with pytest.raises(supple.MechanismError, match=r"'floats' floats: its models .* do not blend"):
        supple.blend([supple.reduce(b.build(), ["arm"])])


def test_poses_of_wrong_shape_or_size():
    many = supple.blend(helix_models(2))
    for wrong in (np.eye(4), np.full((1, 4, 4), np.nan), np.zeros((2, 4, 4)), "here"):
        with pytest.raises(supple.MechanismError, match="poses of the end effectors"):
            many.at(wrong)
        with pytest.raises(supple.MechanismError, match="poses of the end effectors"):
            many.distances(wrong)


@pytest.mark.parametrize("wrong", [np.zeros((1, 4, 4)), np.diag([2.0, 2, 2, 1])[None], np.diag([1.0, 1, -1, 1])[None]])
def test_poses_that_are_not_rigid(wrong):
    with pytest.raises(supple.MechanismError, match="poses of the end effectors"):
        supple.blend(helix_models(2)).at(wrong)


def test_huge_poses_and_set_points():
    """All weights vanished there once, and the process crashed."""
    many = supple.blend(helix_models(2))
    far = many.models[0].end_effector_poses.copy()
    far[0, 0, 3] = 1e200
    with pytest.raises(supple.MechanismError, match=r"within 1e\+06 radii, got one at 1e\+200 m"):
        many.at(far)
    sim = supple.ReducedSimulation(many, 1e-3)
    with pytest.raises(supple.MechanismError, match=r"target of 'hinge_1' must be within 1e\+09 rad or m, got 1e\+200"):
        sim.set_target("hinge_1", 1e200)
    sim.step()


def test_reconstruction_by_joints_raises():
    with pytest.raises(supple.MechanismError, match=r'reconstruction="twist"'):
        supple.ReducedSimulation(supple.blend(helix_models(2)), 1e-3, reconstruction="joints")


def test_bad_names_and_wrenches_of_the_simulation():
    sim = supple.ReducedSimulation(supple.blend(helix_models(2)), 1e-3)
    with pytest.raises(supple.MechanismError, match="not an end effector of this model"):
        sim.apply("link_2", np.zeros(6))
    with pytest.raises(supple.MechanismError, match="nobody"):
        sim.pull("nobody", [0, 0, 0])
    with pytest.raises(supple.MechanismError, match="nothing"):
        sim.set_target("nothing", 1.0)
    with pytest.raises(supple.MechanismError):
        sim.apply("tip", [np.nan] * 6)


@pytest.mark.parametrize("size", [1e5, 1e10, 1e200])
def test_a_huge_load_raises(size):
    """Or the state stays finite; poses that are not finite are never returned. (1e5 N stretch a linear model to 40
    m.)"""
    sim = supple.ReducedSimulation(supple.blend(helix_models(3)), 2e-3)
    sim.apply("tip", [size, 0, size, 0, 0, size])
    with warnings.catch_warnings(), contextlib.suppress(supple.ConvergenceError):
        warnings.simplefilter("ignore")
        sim.step(1000)
    assert np.isfinite(sim.end_effector_pose("tip")).all()


def test_displacement_beyond_the_range_gives_a_warning():
    mech, tips = pulls.library_case("helix")
    sim = supple.ReducedSimulation(supple.blend(pulls.random_models(mech, tips, 2, 0.1)), 0.01)
    sim.apply("tip", [0, 400.0, 0, 0, 0, 0])
    sim.step(3000)
    with pytest.warns(supple.RangeWarning, match="beyond the range"):
        sim.poses  # noqa: B018
