"""Properties of every mechanism, for random joints, loops and branches."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import mechanisms
import supple
from supple import spatial
from supple.mechanism import mobility
from supple.mechanism.io import json

SEEDS = st.integers(0, 2**32 - 1)
few = settings(max_examples=20, deadline=None)


@few
@given(mechanisms.mechanisms(max_bodies=8, shapes=True, couplings=3, motors=2))
def test_saves_and_loads_identical(mech):
    text = json.dumps(mech)
    again = json.loads(text)
    assert again == mech
    assert json.dumps(again) == text


@few
@given(mechanisms.mechanisms())
def test_reference_gives_reference_poses(mech):
    state = supple.kinematics(mech)
    np.testing.assert_allclose(state.poses.array, mech.poses.array, atol=1e-12)
    for gap in state.gaps.values():
        np.testing.assert_allclose(gap, 0, atol=1e-10)


@few
@given(mechanisms.mechanisms(max_bodies=5), SEEDS)
def test_jacobian_is_the_derivative_of_poses(mech, seed):
    q = mechanisms.random_q(np.random.default_rng(seed), mech)
    names = [b.name for b in mech.bodies] + [s.name for s in mech.sites]
    step = 1e-5
    ahead = [supple.kinematics(mech, q + step * e).poses for e in np.eye(mech.dof)]
    behind = [supple.kinematics(mech, q - step * e).poses for e in np.eye(mech.dof)]
    for name in names:
        columns = [
            spatial.log(spatial.inverse(b[name]) @ a[name]) / (2 * step)
            for a, b in zip(ahead, behind, strict=True)
        ]
        numeric = np.array(columns).reshape(mech.dof, 6).T
        np.testing.assert_allclose(supple.jacobian(mech, name, q), numeric, atol=1e-8)


@few
@given(mechanisms.mechanisms(), SEEDS)
def test_mass_matrix_is_the_sum_over_bodies(mech, seed):
    q = mechanisms.random_q(np.random.default_rng(seed), mech)
    total = np.zeros((mech.dof, mech.dof))
    for j in mech.topology.tree:
        own = mech.topology.columns[j]
        speed = mech.joints[j].increments(q[own])
        total[own, own] = speed.T @ np.diag(mech.joints[j].armature) @ speed
    for body in mech.bodies:
        rows = supple.jacobian(mech, body.name, q)
        total = total + rows.T @ spatial.spatial_inertia(body.mass, body.centre, body.inertia) @ rows
    np.testing.assert_allclose(
        supple.mass_matrix(mech, q), total, atol=1e-12 * max(1.0, np.abs(total).max(initial=0))
    )


@few
@given(mechanisms.mechanisms(sprung=False, free_base=False), SEEDS)
def test_mobility_does_not_depend_on_the_order_of_joints(mech, seed):
    """Another order gives another spanning tree, not another mechanism."""
    order = np.random.default_rng(seed).permutation(len(mech.joints))
    shuffled = replace(mech, joints=tuple(mech.joints[i] for i in order))
    assert shuffled.mobility == mech.mobility


@few
@given(mechanisms.mechanisms(sprung=False))
def test_with_springs_leaves_nothing_unheld(mech):
    held = mech.with_springs(10.0, 1.0)
    assert all(mech.joint(name).kind == "free" for name in held.unheld)
    assert held.bodies == mech.bodies


@few
@given(mechanisms.mechanisms(sprung=False, couplings=2, motors=1), SEEDS)
def test_unheld_lists_coordinates_without_spring_motor_or_constraint(mech, seed):
    """Coordinates with a spring of their own are left out of the search; searching with them finds the same."""
    rng = np.random.default_rng(seed)
    chosen = [name for name in (*mech.coordinates, *mech.loop_coordinates) if rng.random() < 0.4]
    mech = mech.with_springs(10.0, joints=[name for name in chosen if mech.joint(name).kind != "free"])
    names, motions = (*mech.coordinates, *mech.loop_coordinates), []
    for q in mobility._generic_poses(mech):
        rows = np.vstack([mobility.constraints(mech, q)[1], mobility._holding_rows(mech)])
        motions.append(mobility._null_space(rows))
    free = min(motions, key=lambda basis: basis.shape[1])
    moving = np.abs(free).max(axis=1, initial=0.0) > 1e-6
    assert mech.unheld == tuple(name for name, moves in zip(names, moving, strict=True) if moves)


@few
@given(mechanisms.mechanisms(), SEEDS)
def test_at_moves_the_reference(mech, seed):
    q = mechanisms.random_q(np.random.default_rng(seed), mech, 0.3)
    moved = mech.at(q)
    state = supple.kinematics(mech, q)
    np.testing.assert_array_equal(moved.reference, q)
    np.testing.assert_allclose(moved.poses.array, state.poses.array, atol=1e-12)
    np.testing.assert_allclose(supple.kinematics(moved, q).poses.array, state.poses.array, atol=1e-12)
    np.testing.assert_allclose(supple.mass_matrix(moved), supple.mass_matrix(mech, q), atol=1e-10)
    for name, gap in state.gaps.items():
        np.testing.assert_allclose(supple.kinematics(moved).gaps[name], gap, atol=1e-6)
