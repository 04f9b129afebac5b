"""Properties of every adaptive linkage."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import mechanisms
import supple
from linkages import joint_columns, loaded, true_error
from supple import spatial
from supple.linkage.adaptive import MEASURES

seeds, few = st.integers(0, 2**32 - 1), settings(max_examples=30, deadline=None)
trees = mechanisms.mechanisms(max_bodies=12, loops=0)


def pushes(rng, mech):
    return {int(b): rng.normal(size=6) for b in rng.integers(len(mech.bodies), size=2)}


@few
@given(trees, seeds, st.sampled_from(MEASURES), st.floats(-6, 0))
def test_the_bound_holds(mech, seed, measure, power):
    loads = pushes(np.random.default_rng(seed), mech)
    chain = loaded(mech, loads, measure=measure)
    chain.accelerate()
    exact, columns = chain.accelerations, joint_columns(mech)
    if not columns or not exact.any():
        return
    chain.error = 10.0**power
    info = chain.accelerate()
    assert true_error(measure, exact, chain.accelerations, columns) <= info.error_bound * (1 + 1e-9)
    # with every joint computed, what is left is the rounding term, which may exceed a very small error
    assert info.error_bound <= chain.error or info.computed == len(columns)


@few
@given(trees, seeds, st.floats(1e-3, 1e3))
def test_accelerations_are_linear_in_the_loads(mech, seed, factor):
    rng = np.random.default_rng(seed)
    base = supple.AdaptiveLinkage(mech)
    base.accelerate()
    loads = pushes(rng, mech)
    one = loaded(mech, loads)
    one.accelerate()
    many = loaded(mech, {b: factor * w for b, w in loads.items()})
    many.accelerate()
    response = one.accelerations - base.accelerations
    size = np.abs([one.accelerations, base.accelerations]).max(initial=0.0) * max(1.0, factor)
    np.testing.assert_allclose(many.accelerations - base.accelerations, factor * response, rtol=0, atol=1e-9 * size)


@few
@given(trees, seeds)
def test_the_order_of_the_bodies_does_not_matter(mech, seed):
    rng = np.random.default_rng(seed)
    loads = pushes(rng, mech)
    order = rng.permutation(len(mech.bodies))
    shuffled = replace(mech, bodies=tuple(mech.bodies[i] for i in order))
    place = {int(old): new for new, old in enumerate(order)}
    one, other = loaded(mech, loads), loaded(shuffled, {place[b]: w for b, w in loads.items()})
    one.accelerate()
    other.accelerate()
    size = np.abs(one.accelerations).max(initial=0.0)
    np.testing.assert_allclose(other.accelerations, one.accelerations, rtol=0, atol=1e-9 * size)


@few
@given(trees, seeds)
def test_a_rigid_motion_of_the_whole_changes_nothing(mech, seed):
    """Turned and shifted with its loads and gravity, joints accelerate as before."""
    rng = np.random.default_rng(seed)
    loads = pushes(rng, mech)
    away = spatial.pose(spatial.so3_exp(rng.normal(size=3)), rng.normal(size=3) * 3)
    turn = away[:3, :3]
    bodies = tuple(replace(b, pose=away @ b.pose) for b in mech.bodies)
    joints = []
    for joint in mech.joints:
        frames = {"parent": "pose_parent", "child": "pose_child"}
        grounded = [field for end, field in frames.items() if getattr(joint, end) == "world"]
        joints.append(replace(joint, **{field: away @ getattr(joint, field) for field in grounded}))
    moved = replace(mech, bodies=bodies, joints=tuple(joints), gravity=turn @ mech.gravity, sites=())
    one = loaded(mech, loads)
    other = loaded(moved, {b: np.concatenate([turn @ w[:3], turn @ w[3:]]) for b, w in loads.items()})
    one.accelerate()
    other.accelerate()
    size = np.abs(one.accelerations).max(initial=0.0)
    np.testing.assert_allclose(other.accelerations, one.accelerations, rtol=0, atol=1e-8 * size)


@few
@given(trees, seeds)
def test_a_load_in_body_axes_turns_with_its_body(mech, seed):
    """A wrench in body axes equals the same wrench in world axes, turned, at the present pose."""
    rng = np.random.default_rng(seed)
    body, wrench = int(rng.integers(len(mech.bodies))), rng.normal(size=6)
    turn = mech.poses[body][:3, :3]
    one, other = supple.AdaptiveLinkage(mech), supple.AdaptiveLinkage(mech)
    one.apply(body, wrench, frame="body")
    other.apply(body, np.concatenate([turn @ wrench[:3], turn @ wrench[3:]]))
    one.accelerate()
    other.accelerate()
    size = np.abs(one.accelerations).max(initial=0.0)
    np.testing.assert_allclose(other.accelerations, one.accelerations, rtol=0, atol=1e-9 * size)
