"""Batches as environments of gymnasium.vector."""

from __future__ import annotations

import numpy as np
import pytest

import supple

pytest.importorskip("gymnasium")

from supple.learning import ReachEnv

DT = 5e-3


@pytest.fixture(scope="module")
def model():
    return supple.reduce(supple.library.robot_arm(5), ["tip"])


def environment(model, n=6, **options):
    settings = {"steps_per_action": 2, "episode_steps": 4} | options
    return ReachEnv(supple.Batch(model, n, DT), model.mechanism.coordinates[:3], 0.2, (0.1, 0.1, 0.05), **settings)


def test_spaces_and_shapes(model):
    env = environment(model)
    observation, info = env.reset(seed=3)
    assert observation in env.observation_space
    assert env.num_envs == 6
    assert info == {}
    assert (np.abs(env.goals) <= env.box).all()
    actions = env.action_space.sample()
    observation, rewards, terminated, truncated, _ = env.step(actions)
    assert observation in env.observation_space
    assert rewards.shape == terminated.shape == truncated.shape == (6,)
    assert (rewards <= -env.distances).all()
    again, _ = env.reset(seed=3)
    np.testing.assert_array_equal(again, environment(model).reset(seed=3)[0])


def test_actions_are_set_points(model):
    env = environment(model, steps_per_action=7)
    env.reset(seed=0)
    actions = np.random.default_rng(1).uniform(-2, 2, env.action_space.shape)  # clipped to [-1, 1]
    env.step(actions)
    sim = supple.ReducedSimulation(model, DT)
    names = model.mechanism.coordinates[:3]
    sim.set_targets({n: model.rest_target(n) + 0.2 * a for n, a in zip(names, np.clip(actions[4], -1, 1), strict=True)})
    sim.step(7)
    np.testing.assert_allclose(env.batch.end_effector_poses[4, 0], sim.end_effector_pose("tip"), atol=1e-10)


def test_episodes_end_and_begin_again(model):
    env = environment(model)
    env.reset(seed=0)
    env.reset(options={"reset_mask": np.array([True] * 2 + [False] * 4)})
    first = env.goals.copy()
    ends = [env.step(np.ones(env.action_space.shape))[3].all() for _ in range(4)]
    assert ends == [False, False, False, True]
    _, rewards, terminated, truncated, _ = env.step(np.ones(env.action_space.shape))
    assert not rewards.any()
    assert not (terminated | truncated).any()
    assert not env.batch.time.any()
    assert (env.goals != first).any()


def test_a_copy_without_a_next_state_terminates(model):
    env = environment(model)
    env.reset(seed=0)
    wrenches = np.zeros((6, 1, 6))
    wrenches[2, 0, :3] = 1e308
    env.batch.apply(wrenches)
    observation, _, terminated, truncated, _ = env.step(np.zeros(env.action_space.shape))
    assert terminated.tolist() == [False, False, True, False, False, False]
    assert not truncated.any()
    assert np.isfinite(observation).all()
    assert not env.step(np.zeros(env.action_space.shape))[2].any()


def test_wrong_arguments_are_named(model):
    env = environment(model)
    env.reset(seed=0)
    for call, message in [
        (lambda: env.step(np.zeros((6, 2))), r"shape \(6, 3\)"),
        (lambda: env.step(np.full((6, 3), np.nan)), "finite"),
        (lambda: env.reset(options={"reset_mask": [1, 0]}), "reset_mask"),
        (lambda: environment(model, episode_steps=0), "episode_steps"),
        (lambda: ReachEnv(env.batch, [], 0.2, (1, 1, 1)), "at least one"),
        (lambda: ReachEnv(env.batch, ["hinge_1"], -1, (1, 1, 1)), "span"),
        (lambda: ReachEnv(env.batch, ["nothing"], 1, (1, 1, 1)), "nothing"),
    ]:
        with pytest.raises(supple.MechanismError, match=message):
            call()
