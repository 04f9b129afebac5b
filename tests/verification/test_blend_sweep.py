"""Blends of two models next to a model whose stiffness is nearly zero or negative: tests/blend_sweep.py."""

from __future__ import annotations

import numpy as np
import pytest

import blend_sweep
import supple
from blend_sweep import FLEW_OFF, LIBRARY_PULLS, Outcome, library_pull, outcomes, random_pull

MEASURED = "{bad} of {all} loads end too far from the equilibrium or still move: {worst}"


def check(found: list[Outcome]) -> None:
    bad = [each for each in found if not each.good]
    worst = max(bad, key=lambda each: each.blend - blend_sweep.WORSE * each.alone, default=None)
    assert not bad, MEASURED.format(bad=len(bad), all=len(found), worst=worst)


@pytest.mark.parametrize(("name", "direction", "force"), FLEW_OFF)
def test_a_blend_next_to_a_model_of_nearly_no_stiffness_comes_to_rest(name, direction, force):
    """These flew off: the compliance for wrenches that turn with the end effector is huge in one of the models."""
    pull = library_pull(name, direction, force, count=4)
    rest, second = pull.models
    smallest = [np.linalg.eigvalsh(m.basis.T @ m.stiffness @ m.basis)[0] for m in (rest, second)]
    assert smallest[1] < 0.02 * smallest[0]
    for each in outcomes(pull):
        assert each.speed < blend_sweep.STILL
        assert each.blend < 0.2


@pytest.mark.parametrize("seed", range(4))
def test_random_arms_and_loops_come_to_rest(seed):
    pull = random_pull(seed, count=4)
    if pull is None:
        pytest.skip("the force moves nothing")
    for each in outcomes(pull):
        assert each.speed < blend_sweep.STILL
        assert each.blend < 0.25


@pytest.mark.long
@pytest.mark.parametrize(("name", "direction", "force"), LIBRARY_PULLS)
def test_library_mechanisms_under_forty_loads(name, direction, force):
    pull = library_pull(name, direction, force)
    check(outcomes(pull) if pull is not None else [])


@pytest.mark.long
@pytest.mark.parametrize("seed", range(50))
def test_random_mechanisms_under_forty_loads(seed):
    pull = random_pull(seed)
    check(outcomes(pull) if pull is not None else [])


def test_forces_of_fixed_direction_meet_the_engine_at_first_order():
    """Near a sample, the blend moves under a small change of its load as the engine does."""
    pull = library_pull("helix", (0, 0, 1), 246.0, count=2)
    mech, many = pull.models[0].mechanism, supple.blend(pull.models)
    wrench = np.array([*(1.002 * pull.force), 0, 0, 0])
    goal = supple.equilibrium(mech, {"tip": wrench}, start=pull.models[1].at).poses["tip"][None]
    moved = blend_sweep.relative(mech, pull.models[1].end_effector_poses, goal)
    error, _ = blend_sweep.ended(many, wrench, goal, 400.0)
    assert error < 0.02 * moved
