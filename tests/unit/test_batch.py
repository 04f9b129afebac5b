"""Batches: n copies of a model give what n single simulations give."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import supple
from supple import spatial

DT = 2e-3


def arm() -> supple.ReducedModel:
    return supple.reduce(supple.library.robot_arm(7), ["tip"])


def y() -> supple.ReducedModel:
    return supple.reduce(supple.library.y(), ["left_tip", "right_tip"])


def ladder() -> supple.ReducedModel:
    return supple.reduce(supple.library.ladder(5), ["tip", "rung_2"], modes=2)


def loaded() -> supple.ReducedModel:
    """Made under load."""
    mech = supple.library.helix(9)
    return supple.reduce(mech, ["tip"], at=supple.equilibrium(mech, {"tip": [0, 30, 60, 1, 0, 0]}))


def blended() -> supple.reduced.BlendedModel:
    mech = supple.library.helix(9)
    bent = supple.equilibrium(mech, {"tip": [0, 20, 0, 0, 0, 0]})
    return supple.blend([supple.reduce(mech, ["tip"]), supple.reduce(mech, ["tip"], at=bent)])


MODELS = {"arm": arm, "y": y, "ladder": ladder, "loaded": loaded, "blended": blended}


@pytest.fixture(scope="module", params=MODELS)
def model(request):
    return MODELS[request.param]()


@pytest.fixture(scope="module")
def linear():
    return arm()


def random_wrenches(rng, n, model):
    return rng.normal(size=(n, len(model.end_effectors), 6)) * np.array([20, 20, 20, 1, 1, 1])


def apply_to(sims, model, wrenches, frame="world"):
    for sim, each in zip(sims, wrenches, strict=True):
        for name, wrench in zip(model.end_effectors, each, strict=True):
            sim.apply(name, wrench, frame)


def assert_same(batch, sims, tolerance=1e-9):
    poses = np.array([sim._motion.tips[0] for sim in sims])
    twists = np.array([sim._motion.tips[1] for sim in sims])
    np.testing.assert_allclose(batch.end_effector_poses, poses, atol=tolerance)
    np.testing.assert_allclose(batch.end_effector_velocities, twists, atol=100 * tolerance)
    np.testing.assert_allclose(batch.time, [sim.time for sim in sims], atol=1e-12)


def test_copies_move_like_single_simulations(model):
    n = 11 if isinstance(model, supple.ReducedModel) else 3
    rng = np.random.default_rng(3)
    batch = supple.Batch(model, n, DT, threads=2)
    sims = [supple.ReducedSimulation(model, DT) for _ in range(n)]
    assert_same(batch, sims)
    for frame, steps in (("world", 30), ("body", 20)):
        wrenches = random_wrenches(rng, n, model)
        wrenches[1] = 0
        batch.apply(wrenches, frame=frame)
        apply_to(sims, model, wrenches, frame)
        batch.step(steps)
        for sim in sims:
            sim.step(steps)
        assert_same(batch, sims)
        np.testing.assert_array_equal(batch.wrenches, wrenches)


def test_wrenches_by_name(model):
    tip, last = model.end_effectors[0], model.end_effectors[-1]
    named, whole = supple.Batch(model, 3, DT), supple.Batch(model, 3, DT)
    wrenches = random_wrenches(np.random.default_rng(3), 3, model)
    named.apply(wrenches)
    named.apply(tip, wrenches[0, 0])
    wrenches[:, 0] = wrenches[0, 0]
    whole.apply(wrenches)
    np.testing.assert_array_equal(named.wrenches, whole.wrenches)
    named.apply({last: wrenches[1:, -1]}, frame="body", copies=[1, 2])
    named.step(20)
    single = supple.ReducedSimulation(model, DT)
    for place, name in enumerate(model.end_effectors):
        single.apply(name, wrenches[2, place], "body" if name == last else "world")
    single.step(20)
    for place, name in enumerate(model.end_effectors):
        np.testing.assert_allclose(named.end_effector_poses[2, place], single.end_effector_pose(name), atol=1e-9)


def test_large_rotations_and_an_indefinite_stiffness():
    """Loads beyond the range of the model: angles above pi, and a geometric stiffness that is left out."""
    model = arm()
    batch, sims = supple.Batch(model, 9, DT), [supple.ReducedSimulation(model, DT) for _ in range(9)]
    wrenches = np.zeros((9, 1, 6))
    wrenches[:, 0, 2] = np.linspace(-4000, 4000, 9)
    wrenches[:, 0, 4] = np.linspace(3000, -2000, 9)
    batch.apply(wrenches)
    apply_to(sims, model, wrenches)
    batch.step(40)
    for sim in sims:
        sim.step(40)
    turn = np.linalg.norm(model.basis[3:6] @ batch.y.T, axis=0)
    assert turn.max() > np.pi
    assert_same(batch, sims, 1e-7)


def test_different_set_points(model):
    mech = model.mechanism
    n = 9 if isinstance(model, supple.ReducedModel) else 2
    names = [name for joint in mech.joints for name, k in zip(joint.axes, joint.stiffness, strict=True) if k > 0][:2]
    values = {name: np.linspace(-0.1, 0.05, n) for name in names}
    batch = supple.Batch(model, n, DT)
    sims = [supple.ReducedSimulation(model, DT) for _ in range(n)]
    wrenches = random_wrenches(np.random.default_rng(1), n, model)
    batch.apply(wrenches)
    batch.set_targets(values)
    apply_to(sims, model, wrenches)
    for i, sim in enumerate(sims):
        sim.set_targets({name: each[i] for name, each in values.items()})
    batch.step(25)
    for sim in sims:
        sim.step(25)
    assert_same(batch, sims)
    batch.reset([1])
    assert batch.targets[names[0]][1] != values[names[0]][1]
    pose = batch.simulation(0).end_effector_pose(model.end_effectors[0])
    np.testing.assert_allclose(pose, batch.end_effector_poses[0, 0], atol=1e-12)


def test_base_poses_place_the_copies(linear):
    gravity = np.asarray(linear.mechanism.gravity)
    axis = gravity / np.linalg.norm(gravity) if gravity.any() else np.array([0.6, 0, 0.8])
    bases = np.array([spatial.pose(spatial.so3_exp(turn * axis), [k, 2.0, 0]) for k, turn in enumerate((0, 1.0, -2.5))])
    batch, plain = supple.Batch(linear, 3, DT), supple.Batch(linear, 3, DT)
    batch.set_base_poses(bases)
    wrenches = random_wrenches(np.random.default_rng(7), 3, linear)
    batch.apply(wrenches)
    own = np.einsum("nji,neaj->neai", bases[:, :3, :3], wrenches.reshape(3, -1, 2, 3)).reshape(wrenches.shape)
    plain.apply(own)
    for each in (batch, plain):
        each.step(20)
    np.testing.assert_allclose(batch.end_effector_poses, bases[:, None] @ plain.end_effector_poses, atol=1e-11)
    np.testing.assert_allclose(batch.end_effector_velocities, plain.end_effector_velocities, atol=1e-10)
    np.testing.assert_array_equal(batch.base_poses, bases)
    np.testing.assert_allclose(batch.simulation(2).displacement, plain.simulation(2).displacement, atol=1e-10)


def test_reset_of_some_copies(model):
    n = 10 if isinstance(model, supple.ReducedModel) else 3
    batch = supple.Batch(model, n, DT)
    start, acting = np.array(batch.end_effector_poses), np.array(batch.wrenches)
    batch.apply(random_wrenches(np.random.default_rng(5), n, model))
    batch.step(10)
    moved = np.array(batch.end_effector_poses)
    batch.reset([2, 0])
    np.testing.assert_array_equal(batch.end_effector_poses[[0, 2]], start[[0, 2]])
    np.testing.assert_array_equal(batch.wrenches[[0, 2]], acting[[0, 2]])
    np.testing.assert_array_equal(batch.end_effector_poses[1], moved[1])
    assert batch.time[1] > 0
    assert batch.time[0] == 0
    mask = np.zeros(n, dtype=bool)
    mask[1] = True
    batch.reset(mask)
    np.testing.assert_array_equal(batch.end_effector_poses[1], start[1])
    batch.reset(slice(None))
    assert not batch.time.any()


def test_views_are_the_memory_of_the_core(linear):
    batch = supple.Batch(linear, 20, DT)
    poses, rates = batch.end_effector_poses, batch.v
    batch.apply(np.ones((20, 1, 6)))
    batch.step()
    assert batch.end_effector_poses is poses
    assert rates.any()
    with pytest.raises(ValueError, match="read-only"):
        poses[0] = 0
    strided = np.ones((6, 1, 20)).T  # columns of another layout are read in place
    batch.apply(strided)
    batch.apply(np.full((20, 1, 6), 2, dtype=np.float32))
    assert (batch.wrenches == 2).all()


def test_any_split_of_steps_and_threads_agrees(linear):
    results = []
    for threads, parts in ((1, (7,)), (2, (3, 4)), (3, (1,) * 7)):
        batch = supple.Batch(linear, 37, DT, threads=threads)
        batch.apply(random_wrenches(np.random.default_rng(2), 37, linear))
        for k in parts:
            batch.step(k)
        results.append(np.array(batch.end_effector_poses))
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])


def test_placing_saving_and_pickling(model):
    n = 9 if isinstance(model, supple.ReducedModel) else 2
    batch = supple.Batch(model, n, DT)
    if isinstance(model, supple.ReducedModel):
        batch.place(np.full(batch.y.shape, 1e-3), copies=None)
        assert (batch.y == 1e-3).all()
    else:
        with pytest.raises(supple.MechanismError, match="linear models"):
            batch.place(np.zeros((n, 6)))
    batch.apply(random_wrenches(np.random.default_rng(9), n, model), frame="body")
    batch.step(5)
    saved = batch.save()
    others = [pickle.loads(pickle.dumps(batch)), copy.copy(batch), copy.deepcopy(batch)]
    batch.step(5)
    for other in others:
        other.step(5)
        np.testing.assert_array_equal(other.end_effector_poses, batch.end_effector_poses)
    after = np.array(batch.end_effector_poses)
    batch.restore(saved)
    batch.step(5)
    np.testing.assert_array_equal(batch.end_effector_poses, after)
    with pytest.raises(supple.MechanismError, match="not saved by a batch"):
        supple.Batch(model, n + 1, DT).restore(saved)


def test_a_copy_that_fails_keeps_its_state_and_is_named(linear):
    batch = supple.Batch(linear, 10, DT)
    wrenches = np.zeros((10, 1, 6))
    wrenches[3, 0, :3] = 1e308
    batch.apply(wrenches)
    with pytest.raises(supple.ConvergenceError, match=r"1 of 10 copies .*copies 3\)"):
        batch.step(3)
    assert batch.failed == [3]
    assert np.isfinite(batch.end_effector_poses).all()
    np.testing.assert_allclose(batch.time, [3 * DT] * 3 + [batch.time[3]] + [3 * DT] * 6)
    batch.reset(batch.failed)
    batch.step()
    assert batch.failed == []


@pytest.mark.parametrize("n", [0, -1, 2.5, True, "3", None, 10**12])
def test_numbers_of_copies(linear, n):
    with pytest.raises(supple.MechanismError, match="number of copies"):
        supple.Batch(linear, n, DT)


def test_wrong_arguments_are_named(linear):
    batch = supple.Batch(linear, 4, DT)
    bad = np.zeros((4, 1, 6))
    bad[2, 0, 1] = np.nan
    tilted = np.tile(spatial.pose(spatial.so3_exp([0.3, 0.4, 0.1]), [0, 0, 0]), (4, 1, 1))
    cases = [
        (lambda: batch.apply(np.zeros((4, 6))), r"shape \(4, 1, 6\), got \(4, 6\)"),
        (lambda: batch.apply(np.zeros((3, 1, 6)), copies=[0, 1]), r"shape \(2, 1, 6\)"),
        (lambda: batch.apply(np.zeros((4, 1, 6), dtype=complex)), "complex"),
        (lambda: batch.apply(np.full((4, 1, 6), "a")), "must be numbers"),
        (lambda: batch.apply([[1, 2], [3]]), "array"),
        (lambda: batch.apply(np.zeros((4, 1, 6)), "body"), "frame='body'"),
        (lambda: batch.apply("tip", np.zeros((3, 6))), r"wrench on 'tip' must be .*\(6,\).*\(4, 6\)"),
        (lambda: batch.apply("tip"), "wrench on 'tip' must be .*got None"),
        (lambda: batch.apply({"tip": [[1], [1, 2]]}), "wrench on 'tip' must be"),
        (lambda: batch.apply({"tip": [np.nan] * 6}), "wrench on 'tip' must be finite"),
        (lambda: batch.apply({"tpi": np.zeros(6)}), "did you mean 'tip'"),
        (lambda: batch.apply(bad), "copy 2"),
        (lambda: batch.apply(np.zeros((4, 1, 6)), frame="tip"), "'world' or 'body'"),
        (lambda: batch.apply(np.zeros((1, 1, 6)), copies=4), "below 4"),
        (lambda: batch.reset(np.zeros(3, dtype=bool)), "mask"),
        (lambda: batch.reset("a"), "index"),
        (lambda: batch.step(-1), "number of steps"),
        (lambda: batch.set_targets({"nothing": 1.0}), "nothing"),
        (lambda: batch.set_targets(3.0), "name: values"),
        (lambda: batch.set_targets({linear.mechanism.coordinates[0]: [1.0, 2.0]}), r"shape \(4,\)"),
        (lambda: batch.set_targets({linear.mechanism.coordinates[0]: np.nan}), "finite"),
        (lambda: batch.set_base_poses(np.zeros((4, 4, 4))), "copy 0"),
        (lambda: batch.set_base_poses(np.full((4, 4, 4), np.inf)), "finite"),
        (lambda: batch.place(np.full((4, batch.y.shape[1]), np.nan)), "finite"),
        (lambda: supple.Batch(linear, 4, 0.0), "dt"),
        (lambda: supple.Batch(linear, 4, DT, threads=0), "threads"),
        (lambda: supple.Batch("arm", 4, DT), "reduced model"),
    ]
    if np.asarray(linear.mechanism.gravity).any():
        cases.append((lambda: batch.set_base_poses(tilted), "gravity"))
    for call, message in cases:
        with pytest.raises(supple.MechanismError, match=message):
            call()
    assert not batch.wrenches.any()
    assert "4 copies" in repr(batch)
    assert len(batch) == 4
