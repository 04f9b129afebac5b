"""Blends of two models next to a model whose stiffness is nearly zero or negative: tests/blend_sweep.py."""

from __future__ import annotations

import numpy as np
import pytest

import blend_sweep
import supple
from blend_sweep import LIBRARY_PULLS, NEARLY_SINGULAR_PULLS, library_pull, outcomes, random_pull

TAUT = [11, 31, 43, 47]
"""Seeds of random mechanisms whose second model is pulled taut, with a stiffness many times that of the first."""
BETWEEN = [34, 38, 39, 41, 43, 47, 65, 95, 113, 125, 126, 159]
"""Seeds of random mechanisms at which predictions from the two models missed the target. 159 is nearly rigid in one
direction at its first model (1e-10 of the largest compliance)."""


@pytest.mark.parametrize(("name", "direction", "force"), NEARLY_SINGULAR_PULLS)
def test_a_blend_with_a_model_of_almost_zero_stiffness_comes_to_rest(name, direction, force):
    """These pulls once diverged: the compliance for wrenches that turn with the end effector is huge in one of the
    models."""
    pull = library_pull(name, direction, force, count=4)
    rest, second = pull.models
    smallest = [np.linalg.eigvalsh(m.basis.T @ m.stiffness @ m.basis)[0] for m in (rest, second)]
    assert smallest[1] < 0.02 * smallest[0]
    for each in outcomes(pull):
        assert each.good
        assert each.blend < 0.01


@pytest.mark.parametrize("seed", range(4))
def test_random_arms_and_loops_come_to_rest(seed):
    pull = random_pull(seed, count=4)
    if pull is None:
        pytest.skip("the force moves nothing")
    for each in outcomes(pull):
        assert each.good
        assert each.blend < 0.01


@pytest.mark.parametrize("seed", TAUT)
def test_next_to_a_model_that_is_pulled_taut(seed):
    """These followed the soft model far beyond both samples, at all loads but a few."""
    for each in outcomes(random_pull(seed, count=3)):
        assert each.good


@pytest.mark.parametrize("seed", BETWEEN)
def test_between_the_loads_of_two_models(seed):
    """Predictions from the two models alone erred here; the engine's equilibria between them do not. A blend is not
    only as good as the better of its models, it is close to the engine."""
    for each in outcomes(random_pull(seed)):
        assert each.good
        assert each.blend < 0.01


def test_a_direction_that_the_nearest_model_does_not_have_is_not_driven():
    """At the reference pose the ladder cannot be stretched, bent it can. Next to this pose the blend is nearly rigid in
    this direction, with a stiffness that changes by orders of magnitude with the pose; this kept the ladder swinging at
    1e-3 per second."""
    pull = library_pull("ladder", (0, 1, -1), None)
    assert [model.rank for model in pull.models] == [2, 3]
    for each in outcomes(pull, slice(2)):
        assert each.speed < 1e-5
        assert each.blend < 1e-3


def test_next_to_the_line_between_two_loads():
    """There a blend moves from the path by its compliance: closer to the engine than by the path alone."""
    pull = random_pull(38, count=2)
    mech, many = pull.models[0].mechanism, supple.blend(pull.models)
    sideways = np.cross(pull.force, [0, 0, 1.0])
    sideways *= 0.03 * np.linalg.norm(pull.force) / np.linalg.norm(sideways)
    for share in (0.4, 0.7):
        on_line = supple.equilibrium(mech, {"tip": [*(share * pull.force), 0, 0, 0]}).poses["tip"]
        wrench = np.array([*(share * pull.force + sideways), 0, 0, 0])
        goal = supple.equilibrium(mech, {"tip": wrench}).poses["tip"]
        moved = blend_sweep.relative_displacement(mech, on_line[None], goal[None])
        error, speed = blend_sweep.final_error(many, wrench, goal[None])
        assert speed < blend_sweep.STILL
        assert error < 0.5 * moved


def test_at_a_sample_a_blend_is_its_model_under_any_load():
    """The predicted rest pose has no share at the poses of the models: a handle that holds the end effector there has
    to carry the model's own load less the applied one."""
    pull = random_pull(38, count=2)
    motion = supple.blend(pull.models).motion(blend_sweep.DT, "twist", 0, 1)
    motion.core.set_wrench(0, np.array([*(0.4 * pull.force), 0, 0, 0]), True)
    for model in pull.models:
        for away, most in ((0.0, 1e-9), (1e-4, 1e-2)):
            moved = supple.spatial.exp(np.array([away * model.mechanism.radius, 0, 0, 0, 0, 0]))
            motion.place(model.end_effector_poses @ moved)
            motion.core.blend()
            expected = model.wrenches + model.stiffness @ supple.spatial.log(moved)
            missing = model.basis.T @ (motion.core.holding_wrench - expected)  # along directions that the arm has
            assert np.abs(missing).max() < most * np.abs(model.basis.T @ pull.models[1].wrenches).max()


@pytest.mark.parametrize("case", [("loop", (0, 0, 1), None), ("y", (0, 0, 1), None)])
def test_under_a_quarter_of_the_load_of_a_taut_model(case):
    """The geometric stiffness of the missing load outweighs the stiffness of the second model, which alone diverges.
    Both ended more than a radius away before this geometric stiffness was limited."""
    pull = library_pull(*case, count=5)
    (found,) = outcomes(pull, slice(0, 1))
    assert pull.fractions[0] < 0.25
    assert found.good
    assert found.blend < 0.25


@pytest.mark.long
def test_library_and_random_mechanisms(capsys):
    """No load is bad: too far from the equilibrium, or still moving."""
    pulls = [library_pull(*case) for case in LIBRARY_PULLS] + [random_pull(seed) for seed in range(50)]
    found = [outcome for pull in pulls if pull is not None for outcome in outcomes(pull)]
    with capsys.disabled():
        print(f"\n{sum(not each.good for each in found)} of {len(found)} loads bad")
    assert len(found) > 3200
    assert [each for each in found if not each.good] == []


def test_response_to_forces_of_fixed_direction_is_exact_to_first_order():
    """Near a sample, the blend moves under a small change of its load as the engine does."""
    pull = library_pull("helix", (0, 0, 1), 246.0, count=2)
    mech, many = pull.models[0].mechanism, supple.blend(pull.models)
    wrench = np.array([*(1.002 * pull.force), 0, 0, 0])
    goal = supple.equilibrium(mech, {"tip": wrench}, start=pull.models[1].at).poses["tip"][None]
    moved = blend_sweep.relative_displacement(mech, pull.models[1].end_effector_poses, goal)
    error, _ = blend_sweep.final_error(many, wrench, goal, 400.0)
    assert error < 0.02 * moved
