"""The two compiled interiors against each other and NumPy: trees in two passes, any mechanism by the tangent."""

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


def core(mech, tips, sparse, dt=2e-3, order=1):
    eqs, rest = equations(mech), supple.equilibrium(mech)
    eqs.core.set_state(*rest.state)
    frames = [mech.frame(name) for name in tips]
    poses = np.ascontiguousarray(np.array([pose for _, pose in frames]))
    made = _core.CondensedCore(eqs.core, [body for body, _ in frames], poses, dt, order, True, sparse)
    assert made.passes != sparse
    return made, rest


@pytest.mark.parametrize("name", TREES)
@pytest.mark.parametrize("order", [1, 2])
def test_tree_solver_agrees_with_the_sparse_tangent(name, order):
    mech, tips = TREES[name]
    (tree, rest), (full, _) = (core(mech, tips, sparse, order=order) for sparse in (False, True))
    compliance = full.compliance()
    assert np.abs(tree.compliance() - compliance).max() < 1e-10 * np.abs(compliance).max()
    rng = np.random.default_rng(4)
    for each in (tree, full):
        each.set_wrench(0, np.array([3.0, -2.0, 4.0, 0.3, 0.2, -0.1]), True)
        assert each.balance() == 1
        each.update()
    assert np.abs(tree.poses - full.poses).max() < 1e-11
    point = rng.normal(size=3)
    for each in (tree, full):
        each.place(*rest.state, np.zeros(6 * len(tips)))
        each.set_handle(0, True, np.array([0.1, 0.0, 0.05]), point, 30.0, 1.0)
        assert each.step(60, True) == 60
    assert np.abs(tree.poses - full.poses).max() < 1e-6
    assert tree.iterations <= full.iterations  # whose first tangent leaves out the stiffness of inertial forces


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

