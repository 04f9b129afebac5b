"""Condensed models: time steps by passes against those by the sparse tangent, and statics against NumPy."""

import numpy as np
import pytest

import supple
from supple import _core
from supple.engine.assembly import equations

TREES = {
    "helix": (supple.library.helix(20, gravity=(0.2, 0.3, -1.0)), ["tip"]),
    "arm": (supple.library.robot_arm(gravity=(0, 0, -9.81)), ["tip"]),
    "y": (supple.library.y(gravity=(0, 0, -9.81)), ["left_tip", "right_tip"]),
    "half": (supple.library.y(), ["right_tip"]),
}


def finger():
    """A chain on its limits, with a damped tendon."""
    b = supple.Builder("finger", gravity=(0, 0, -9.81))
    before = "world"
    for i, name in enumerate(["knuckle", "link", "tip"]):
        b.link(name, (0.1 * i, 0, 0), (0.1 * i + 0.1, 0, 0), mass=0.1)
        b.hinge(f"joint_{i}", before, name, (0.1 * i, 0, 0), "y", stiffness=1.0, damping=0.05, limits=(-0.05, 0.05))
        before = name
    b.couple("tendon", {"joint_1": 1.0, "joint_2": -1.0}, stiffness=0.5, damping=0.02)
    return b.build()


TIED = {
    "ladder": (supple.library.ladder(gravity=(0, 0, -9.81)), ["tip"]),
    "loop": (supple.library.loop(), ["tip"]),
    "finger": (finger(), ["tip"]),
}


def core(mech, tips, sparse, dt=2e-3, order=1):
    eqs, rest = equations(mech), supple.equilibrium(mech)
    engine = _core.Engine(eqs.core, eqs.compiled(rest.acting))
    engine.place(*rest.state)
    frames = [mech.frame(name) for name in tips]
    poses = np.ascontiguousarray(np.array([pose for _, pose in frames]))
    made = _core.CondensedCore(engine, [body for body, _ in frames], poses, dt, order, True, sparse)
    assert made.passes != sparse
    return made, rest


@pytest.mark.parametrize("name", [*TREES, *TIED])
@pytest.mark.parametrize("order", [1, 2])
def test_steps_by_passes_agree_with_the_sparse_tangent(name, order):
    mech, tips = {**TREES, **TIED}[name]
    (passes, rest), (full, _) = (core(mech, tips, sparse, order=order) for sparse in (False, True))
    point = np.random.default_rng(4).normal(size=3)
    for each in (passes, full):
        each.place(*rest.state, np.zeros(6 * len(tips)))
        each.set_wrench(0, np.array([0.3, -0.2, 0.4, 0.03, 0.02, -0.01]), True)
        each.set_handle(0, True, np.array([0.1, 0.0, 0.05]), point, 30.0, 1.0)
        assert each.step(60, True) == 60
    assert np.abs(passes.poses - full.poses).max() < 1e-6
    assert passes.tangents <= full.tangents  # whose first tangent leaves out the stiffness of inertial forces


@pytest.mark.parametrize("name", [*TREES, "loop", "finger"])
def test_steps_with_the_tangent_of_an_earlier_step_have_the_same_solution(name):
    """Steps whose tangent of motion is an earlier one's against steps that all compute their own."""
    mech, tips = {**TREES, **TIED}[name]
    (kept, rest), (own, _) = (core(mech, tips, False) for _ in range(2))
    for each in (kept, own):
        each.place(*rest.state, np.zeros(6 * len(tips)))
        each.set_handle(0, True, np.zeros(3), each.tip_pose(0)[:3, 3] + [0.002, 0.001, 0.0], 30.0, 1.0)
    poses = {}
    for each in (kept, own):
        for _ in range(300):
            if each is own:
                each.state()  # the earlier tangent is not part of the state: the next step does without it
            assert each.step(1, True) == 1
        poses[each] = each.poses.copy()
    assert np.abs(poses[kept] - poses[own]).max() < 1e-7
    assert own.tangents >= 300
    assert kept.tangents < own.tangents


@pytest.mark.parametrize("name", TIED)
def test_steps_go_on_by_the_sparse_tangent(name):
    """A state that the passes hand over is the one that they were in."""
    mech, tips = TIED[name]
    moved = []
    for left_after in (60, 30):
        made, rest = core(mech, tips, False)
        made.place(*rest.state, np.zeros(6 * len(tips)))
        made.set_wrench(0, np.array([3.0, -2.0, 4.0, 0.3, 0.2, -0.1]), True)
        made.step(left_after, True)
        made.leave_passes()
        made.step(60 - left_after, True)
        made.update()
        moved.append(made.poses.copy())
    assert np.abs(moved[0] - moved[1]).max() < 1e-6


@pytest.mark.parametrize("name", TREES)
def test_balance_agrees_with_numpy(name):
    """K (q - rest) = J^T lambda + gravity's torques, with the Jacobians of the description."""
    mech, tips = TREES[name]
    model = supple.condense(mech, tips)
    pose = model.under({tips[0]: [3.0, -2.0, 4.0, 0.3, 0.2, -0.1]})
    q = np.concatenate([pose.coordinates[j.name] for j in mech.joints])
    springs = np.concatenate([j.stiffness * (pose.coordinates[j.name] - j.rest) for j in mech.joints])
    pushed = sum(
        supple.jacobian(mech, name, q).T @ wrench
        for name, wrench in zip(tips, pose.wrenches.reshape(-1, 6), strict=True)
    )
    for body in mech.bodies:
        jacobian = supple.jacobian(mech, body.name, q)
        turn = pose.poses[body.name][:3, :3]
        force = turn.T @ (body.mass * mech.gravity)
        pushed = pushed + jacobian.T @ np.concatenate([force, np.cross(body.centre, force)])
    assert np.abs(springs - pushed).max() < 1e-9 * np.abs(springs).max()
