"""Inverse kinematics: poses are reached with closed loops, within limits and by the least motion."""

import numpy as np
import pytest
from tests.mechanisms import KINDS, random_mechanism, random_q

import supple


def test_random_poses_of_an_arm_are_reached():
    mech, rng = supple.library.robot_arm(6), np.random.default_rng(0)
    for _ in range(3):
        q = rng.uniform(-1.2, 1.2, 6)
        pose = supple.kinematics(mech, q).poses["tip"]
        found = supple.inverse_kinematics(mech, {"tip": pose})
        assert found.reached
        assert found.residual < 1e-9
        assert np.abs(supple.kinematics(mech, found.q).poses["tip"] - pose).max() < 1e-8


def test_a_redundant_arm_moves_as_little_as_possible():
    """At the least motion, q - q0 is a combination of the rows of the Jacobian."""
    mech, rng = supple.library.robot_arm(10), np.random.default_rng(1)
    start = rng.uniform(-0.3, 0.3, 10)
    q = start + rng.uniform(-0.5, 0.5, 10)
    found = supple.inverse_kinematics(mech, {"tip": supple.kinematics(mech, q).poses["tip"]}, start)
    assert found.reached
    jacobian, moved = supple.jacobian(mech, "tip", found.q), found.q - start
    assert np.linalg.norm(moved) < np.linalg.norm(q - start)
    assert np.linalg.norm(moved - np.linalg.pinv(jacobian) @ jacobian @ moved) < 1e-5 * np.linalg.norm(moved)
    point = supple.inverse_kinematics(mech, {"tip": supple.kinematics(mech, q).poses["tip"][:3, 3]}, start)
    assert np.linalg.norm(point.q - start) <= np.linalg.norm(moved) + 1e-9  # any orientation will do
    still = supple.inverse_kinematics(mech, {"tip": supple.kinematics(mech, start).poses["tip"]}, start)
    assert np.abs(still.q - start).max() < 1e-12


def test_loops_and_rigid_couplings_stay_closed():
    mech = supple.library.ladder(rungs=4)
    eq = supple.equilibrium(mech, {"tip": [0, 50, 0, 0, 0, 0]})
    found = supple.inverse_kinematics(mech, {"tip": eq.poses["tip"]})
    assert found.reached
    gaps = supple.kinematics(mech, found.q).gaps.values()
    assert max(np.abs(gap).max() for gap in gaps) < 1e-9
    rng = np.random.default_rng(3)
    geared = random_mechanism(rng, 6, ("hinge",), couplings=3, branching=0.0)  # one of the couplings is rigid
    gear = next(c for c in geared.couplings if c.rigid)
    places = [geared.coordinates.index(n) for n in gear.coordinates]
    q = supple.equilibrium(geared).q
    found = supple.inverse_kinematics(geared, {"body5": supple.kinematics(geared, q).poses["body5"][:3, 3]})
    assert abs(gear.coefficients @ found.q[places] - gear.rest) < 1e-9


def test_limits_are_respected():
    b = supple.Builder("planar", gravity=(0, 0, 0))
    for i in range(3):
        b.link(f"link{i}", (i, 0, 0), (i + 1, 0, 0), mass=1.0)
        b.hinge(f"hinge{i}", f"link{i - 1}" if i else "world", f"link{i}", (i, 0, 0), "z", limits=(-0.5, 0.5))
    b.site("hand", "link2", at=(3, 0, 0))
    mech = b.build()
    free = supple.inverse_kinematics(mech, {"hand": [1.5, 2.2, 0]}, limits=False)
    assert free.reached
    assert np.abs(free.q).max() > 0.5
    bound = supple.inverse_kinematics(mech, {"hand": [2.2, 1.7, 0]})
    assert bound.reached
    assert np.abs(bound.q).max() <= 0.5
    stuck = supple.inverse_kinematics(mech, {"hand": [1.5, 2.2, 0]})
    assert stuck.status == "limits"
    assert np.abs(stuck.q).max() <= 0.5
    far = supple.inverse_kinematics(mech, {"hand": [5.0, 0, 0]}, limits=False)
    assert far.status == "out of reach"
    assert far.residual == pytest.approx(2.0, abs=1e-3)
    kept = supple.inverse_kinematics(mech, {"hand": [2.686, 1.033, 0]}, keep=["hinge0"])
    assert kept.reached
    assert kept.q["hinge0"] == 0


def test_any_kind_of_joint_and_a_free_base():
    kinds = [kind for kind in KINDS if kind != "bushing"]  # without springs it would be another free base
    for seed in range(3):
        rng = np.random.default_rng(seed)
        mech = random_mechanism(rng, 5, kinds, sprung=False, free_base=True, branching=0.2)
        start = random_q(rng, mech, 0.2)
        q = start + rng.uniform(-0.1, 0.1, mech.dof)
        q[:6] = start[:6]
        poses = supple.kinematics(mech, q).poses
        found = supple.inverse_kinematics(mech, {"body4": poses["body4"]}, start)
        assert found.reached
        assert (found.q[:6] == start[:6]).all()


def test_refusals():
    mech = supple.library.robot_arm(3)
    for poses, text in (
        ({}, "one or more"),
        ({"tipp": np.eye(4)}, "did you mean"),
        ({"tip": np.zeros((4, 4))}, "not a rigid pose"),
        ({"tip": [1.0, np.nan, 0]}, "finite"),
        ({"tip": [1.0, 0]}, "position of 'tip'"),
    ):
        with pytest.raises(supple.MechanismError, match=text):
            supple.inverse_kinematics(mech, poses)
    with pytest.raises(supple.MechanismError, match="q0"):
        supple.inverse_kinematics(mech, {"tip": np.eye(4)}, [0.0])


def test_joints_that_do_not_move_a_target_stay():
    """A target out of reach for one of two fingers, from all starts."""
    b = supple.Builder("fingers")
    for name, x in (("left", -0.1), ("right", 0.1)):
        b.link(f"{name} bone", (x, 0, 0), (x, 0, 0.1), mass=0.1)
        b.link(f"{name} tip", (x, 0, 0.1), (x, 0, 0.2), mass=0.1)
        b.hinge(f"{name} knuckle", "world", f"{name} bone", (x, 0, 0), "y", limits=(-1.0, 1.0))
        b.hinge(f"{name} joint", f"{name} bone", f"{name} tip", (x, 0, 0.1), "y", limits=(-1.0, 1.0))
    mech = b.build()
    start = np.array([0.1, 0.2, 0.3, 0.4])
    found = supple.inverse_kinematics(mech, {"left tip": [-0.1, 0, -0.1]}, start)
    assert found.status == "limits"
    assert (found.q[2:] == start[2:]).all()
    assert abs(found.q["left knuckle"]) == pytest.approx(1.0)


def test_errors_are_named_and_starts_are_given_by_name():
    mech = supple.library.robot_arm(6)
    pose = mech.poses["tip"].copy()
    pose[:3, 3] *= 3
    far = supple.inverse_kinematics(mech, {"tip": pose})
    assert far.status == "out of reach"
    assert far.iterations < 110  # no other start is tried: it is further away than the links are long
    here = supple.kinematics(mech, far.q).poses["tip"]
    assert far.position_error == pytest.approx(np.linalg.norm(here[:3, 3] - pose[:3, 3]))
    assert far.rotation_error == pytest.approx(np.linalg.norm(supple.spatial.so3_log(here[:3, :3].T @ pose[:3, :3])))
    name = mech.coordinates[2]
    start = supple.kinematics(mech, {name: 0.3})
    near = supple.inverse_kinematics(mech, {"tip": start.poses["tip"]}, {name: 0.3})
    assert near.reached
    np.testing.assert_allclose(near.q, start.q, atol=1e-9)
    with pytest.raises(supple.MechanismError, match="elbw"):
        supple.inverse_kinematics(mech, {"tip": pose}, {"elbw": 0.3})
