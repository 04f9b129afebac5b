"""Equilibria with prescribed poses, beside equilibria under wrenches and closed forms."""

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import supple
from mechanisms import random_mechanism
from supple import spatial
from supple.engine import Hold

LOAD = np.array([2.0, 3.0, -8.0, 0.0, 0.0, 0.2])


LENGTHS, ANGLES, STIFFNESS = np.array([0.3, 0.25]), np.array([0.4, 0.5]), np.array([20.0, 10.0])


def planar_arm():
    """Two links on hinges about y, bent; the springs are unloaded at the reference pose."""
    b = supple.Builder("planar", gravity=(0, 0, 0))
    points = [np.zeros(3), end_of_arm(ANGLES[:1]), end_of_arm(ANGLES)]
    for i in range(2):
        b.link(f"link{i}", points[i], points[i + 1], mass=0.5)
        b.hinge(f"hinge{i}", f"link{i - 1}" if i else "world", f"link{i}", points[i], "y", stiffness=STIFFNESS[i])
    b.site("tip", "link1", at=points[-1])
    return b.build()


def end_of_arm(angles):
    """Where the links end that are turned by these angles, each from the one before."""
    directions = np.cumsum(angles)
    along = np.stack([np.cos(directions), 0 * directions, -np.sin(directions)], axis=1)
    return LENGTHS[: len(angles)] @ along


@pytest.mark.parametrize("mech", [supple.library.helix(20), supple.library.loop()], ids=lambda mech: mech.name)
def test_the_pose_under_a_wrench_is_held_by_that_wrench(mech):
    loaded = supple.equilibrium(mech, {"tip": LOAD})
    held = supple.equilibrium(mech, hold={"tip": loaded.poses["tip"]})
    np.testing.assert_allclose(held.holds["tip"], LOAD, atol=1e-9)
    np.testing.assert_allclose(held.poses.array, loaded.poses.array, atol=1e-12)
    assert held.stable
    assert held.residual < 1e-10
    again = supple.equilibrium(mech, held.holds)
    np.testing.assert_allclose(again.poses["tip"], loaded.poses["tip"], atol=1e-10)


def test_two_tips_with_a_load_and_gravity():
    mech = supple.library.y()
    push = {"trunk_4": [0.5, 0, -1, 0, 0, 0]}
    wrenches = {"left_tip": [1, 2, 0.5, 0, 0, 0.1], "right_tip": [0, -1, 1.5, 0.05, 0, 0]}
    loaded = supple.equilibrium(mech, push | wrenches)
    held = supple.equilibrium(mech, push, hold={name: loaded.poses[name] for name in wrenches})
    for name, wrench in wrenches.items():
        np.testing.assert_allclose(held.holds[name], wrench, atol=1e-6)
    assert [load.name for load in held.loads] == ["trunk_4", "left_tip", "right_tip"]


def test_a_planar_arm_in_closed_form():
    """The force F at the tip balances the springs: J^T F = K q, with J by differences of the closed form."""
    turned, h = np.array([0.2, -0.3]), 1e-6
    point = end_of_arm(ANGLES + turned)
    columns = [(end_of_arm(ANGLES + turned + s) - end_of_arm(ANGLES + turned - s)) / (2 * h) for s in h * np.eye(2)]
    force = np.linalg.solve(np.array(columns)[:, [0, 2]], STIFFNESS * turned)
    eq = supple.equilibrium(planar_arm(), hold={"tip": Hold(spatial.translation(point), ("x", "z"))})
    np.testing.assert_allclose(eq.q, turned, atol=1e-9)
    np.testing.assert_allclose(eq.holds["tip"], [force[0], 0, force[1], 0, 0, 0], atol=1e-7)


def test_free_directions_have_no_wrench_and_held_ones_their_pose():
    """Directions are along and about the axes of the pose."""
    mech = supple.library.helix(20)
    goal = supple.equilibrium(mech, {"tip": LOAD}).poses["tip"] @ spatial.exp([0, 0, 0, 0.3, -0.2, 0.4])
    for directions in (("x", "z"), ("z", "rx"), ("rx", "ry", "rz"), ("y", "rx", "rz")):
        eq = supple.equilibrium(mech, hold={"tip": Hold(goal, directions)})
        force = goal[:3, :3].T @ eq.holds["tip"][:3]
        np.testing.assert_allclose(force[[k for k in range(3) if "xyz"[k] not in directions]], 0, atol=1e-9)
        off = np.linalg.inv(goal) @ eq.poses["tip"]
        held = [k for k in range(3) if "xyz"[k] in directions]
        np.testing.assert_allclose(off[held, 3], 0, atol=1e-10)
        if {"rx", "ry", "rz"} <= set(directions):
            np.testing.assert_allclose(off[:3, :3], np.eye(3), atol=1e-10)
        if directions == ("z", "rx"):  # turned about the pose's y, then its own z, which stays across that y
            assert abs(off[1, 2]) < 1e-10
        work = supple.equilibrium(mech, eq.holds, start=eq)
        np.testing.assert_allclose(work.poses.array, eq.poses.array, atol=1e-9)


def test_from_a_start_and_back():
    mech = supple.library.loop()
    first = supple.equilibrium(mech, {"tip": LOAD})
    second = supple.equilibrium(mech, {"tip": -LOAD})
    held = supple.equilibrium(mech, hold={"tip": second.poses["tip"]}, start=first)
    np.testing.assert_allclose(held.holds["tip"], -LOAD, atol=1e-9)
    back = supple.equilibrium(mech, hold={"tip": first.poses["tip"]}, start=held)
    np.testing.assert_allclose(back.holds["tip"], LOAD, atol=1e-9)


def test_set_points_and_a_motor():
    mech = planar_arm()
    targets = {"hinge0": 0.3, "hinge1": -0.2}
    free = supple.equilibrium(mech, targets=targets)
    held = supple.equilibrium(mech, hold={"tip": Hold(mech.poses["tip"], ("x", "z"))}, targets=targets)
    moved = supple.equilibrium(mech, held.holds, targets=targets)
    assert np.abs(free.q).max() > 0.1
    np.testing.assert_allclose(held.q, 0, atol=1e-9)
    np.testing.assert_allclose(moved.q, 0, atol=1e-8)


def test_more_directions_than_the_frame_can_move_in():
    """The arm's tip is held in six directions and moves in two: the wrench is the smallest of those that balance."""
    mech, turned = planar_arm(), np.array([0.2, -0.3])
    pose = supple.kinematics(mech, turned).poses["link1"]
    eq = supple.equilibrium(mech, hold={"link1": pose})
    np.testing.assert_allclose(eq.q, turned, atol=1e-9)
    jacobian = supple.jacobian(mech, "link1", turned)
    to_world = np.kron(np.eye(2), pose[:3, :3])
    torques = (to_world @ jacobian).T @ eq.holds["link1"]
    np.testing.assert_allclose(torques, STIFFNESS * turned, atol=1e-9)
    np.testing.assert_allclose(eq.holds["link1"][[1, 3, 5]], 0, atol=1e-12)  # out of the plane


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seed=st.integers(0, 2**32 - 1), bodies=st.integers(1, 6), loops=st.integers(0, 1))
def test_random_mechanisms(seed, bodies, loops):
    """With the wrenches that hold it, a random mechanism stays where it is held."""
    rng = np.random.default_rng(seed)
    mech = random_mechanism(rng, bodies, loops=loops, motors=0)
    names = [body.name for body in mech.bodies]
    tip = names[-1]
    try:
        loaded = supple.equilibrium(mech, {tip: 0.2 * rng.normal(size=6)})
        held = supple.equilibrium(mech, hold={tip: loaded.poses[tip]})
    except supple.ConvergenceError:
        assume(False)
    np.testing.assert_allclose(held.poses[tip], loaded.poses[tip], atol=1e-7)
    assert held.residual < 1e-6
    assert set(held.holds) == {tip}


def test_a_simulation_starts_at_rest_and_a_linear_model_is_made_there():
    mech = supple.library.helix(20)
    eq = supple.equilibrium(mech, hold={"tip": supple.equilibrium(mech, {"tip": LOAD}).poses["tip"]})
    sim = supple.Simulation(mech, 1e-3, at=eq)
    sim.step(100)
    np.testing.assert_allclose(sim.poses.array, eq.poses.array, atol=1e-9)
    model = eq.linear(["tip"])
    expected = supple.reduce(mech, ["tip"], at=supple.equilibrium(mech, {"tip": LOAD}))
    np.testing.assert_allclose(model.compliance, expected.compliance, rtol=1e-7, atol=1e-12)


def test_what_is_held_is_stable_where_its_loads_alone_are_not():
    """A rod stands upright on a hinge whose spring is weaker than the moment of its weight."""
    b = supple.Builder("rod")
    b.link("rod", (0, 0, 0), (0, 0, 1), mass=1.0)
    b.hinge("hinge", "world", "rod", (0, 0, 0), "y", stiffness=1.0)
    b.site("tip", "rod", at=(0, 0, 1))
    mech = b.build()
    held = supple.equilibrium(mech, hold={"tip": Hold(mech.poses["tip"], ("x",))})
    assert held.stable
    assert held.snaps == ()
    assert not supple.equilibrium(mech).stable
    leaning = spatial.translation([np.sin(0.3), 0, np.cos(0.3)])
    held = supple.equilibrium(mech, hold={"tip": Hold(leaning, ("x",))})
    assert held.stable
    force = (1.0 * 0.3 - 0.5 * 9.81 * np.sin(0.3)) / np.cos(0.3)  # of spring and weight about the hinge
    np.testing.assert_allclose(held.holds["tip"], [force, 0, 0, 0, 0, 0], atol=1e-9)


def test_path():
    mech = supple.library.loop()
    goal = supple.equilibrium(mech, {"tip": 10 * LOAD}).poses["tip"]
    eq = supple.equilibrium(mech, hold={"tip": goal}, path=True)
    assert eq.path.q.shape == (len(eq.path.shares), mech.dof)
    np.testing.assert_allclose(eq.path.q[-1], eq.q, atol=1e-9)
    assert eq.path.poses.shape[1:] == (len(mech.bodies), 4, 4)


def test_poses_out_of_reach():
    mech = planar_arm()
    with pytest.raises(supple.ConvergenceError, match="no equilibrium of 'planar'") as error:
        supple.equilibrium(mech, hold={"tip": Hold(spatial.translation([0.6, 0, 0]), ("x", "z"))})
    assert 0 < error.value.load_fraction < 1


@pytest.mark.parametrize(
    ("hold", "text"),
    [
        ([("tip", np.eye(4))], "hold is given as"),
        ({"tap": np.eye(4)}, "no body or site of 'planar' named 'tap'"),
        ({"tip": np.eye(3)}, "pose at which 'tip' is held must have shape 4x4, got 3x3"),
        ({"tip": np.full((4, 4), np.nan)}, "pose at which 'tip' is held must be finite"),
        ({"tip": 2 * np.eye(4)}, "pose at which 'tip' is held is not a rigid pose"),
        ({"tip": None}, "pose at which 'tip' is held must be numbers"),
        ({"wall": np.eye(4)}, "'wall' is fixed to the world"),
    ],
)
def test_what_is_refused(hold, text):
    b = supple.Builder("planar")
    b.link("arm", (0, 0, 0), (1, 0, 0), mass=1.0)
    b.hinge("hinge", "world", "arm", (0, 0, 0), "y", stiffness=1.0)
    b.site("tip", "arm", at=(1, 0, 0))
    b.site("wall", "world", at=(1, 0, 0))
    with pytest.raises(supple.MechanismError, match=text):
        supple.equilibrium(b.build(), hold=hold)


def welded_arm():
    """An arm on a hinge about y, on a base that is fixed to the world."""
    b = supple.Builder("welded")
    b.link("base", (0, 0, 0), (0, 0, 0.1), mass=1.0)
    b.link("arm", (0, 0, 0.1), (1, 0, 0.1), mass=1.0)
    b.fixed("weld", "world", "base")
    b.hinge("hinge", "base", "arm", (0, 0, 0.1), "y", stiffness=100.0)
    b.site("tip", "arm", at=(1, 0, 0.1))
    return b.build()


@pytest.mark.parametrize("name", ["base", "tip"])
def test_a_frame_that_cannot_move_there(name):
    """A base that is fixed to the world, and a tip that leaves its plane."""
    mech = welded_arm()
    pose = mech.poses[name] + np.pad([[0.1]], ((1, 2), (3, 0)))
    with pytest.raises(supple.ConvergenceError, match="one that cannot is held in too many directions"):
        supple.equilibrium(mech, hold={name: pose})


def test_a_frame_that_cannot_move_is_held_where_it_is():
    mech = welded_arm()
    eq = supple.equilibrium(mech, hold={"base": mech.poses["base"]})
    np.testing.assert_allclose(eq.poses.array, supple.equilibrium(mech).poses.array, atol=1e-10)
    np.testing.assert_allclose(eq.holds["base"], 0, atol=1e-9)  # the weld carries it


def test_two_frames_of_one_body():
    """Agreeing poses are held; those that would change the body's size are not."""
    mech = welded_arm()
    there = supple.kinematics(mech, [0.2]).poses
    eq = supple.equilibrium(mech, hold={name: there[name] for name in ("arm", "tip")})
    np.testing.assert_allclose(eq.q, [0.2], atol=1e-9)
    work = supple.equilibrium(mech, eq.holds, start=eq)
    np.testing.assert_allclose(work.q, [0.2], atol=1e-8)
    apart = {"arm": Hold(there["arm"]), "tip": Hold(mech.poses["tip"])}
    with pytest.raises(supple.ConvergenceError, match="held in too many directions"):
        supple.equilibrium(mech, hold=apart)


@pytest.mark.parametrize("make", [supple.library.robot_arm, supple.library.loop, supple.library.helix])
def test_a_far_pose_in_steps_is_that_of_the_wrench(make):
    """Along a path of held poses, each from the one before, the tip returns to its start without a wrench."""
    mech, tip = make(), "tip"
    rest = supple.equilibrium(mech)
    goal, at = supple.equilibrium(mech, {tip: 5 * LOAD}).poses[tip], rest
    twist = spatial.log(spatial.inverse(rest.poses[tip]) @ goal)
    for share in (0.2, 0.4, 0.6, 0.8, 1.0):
        at = supple.equilibrium(mech, hold={tip: rest.poses[tip] @ spatial.exp(share * twist)}, start=at)
        assert at.stable
    np.testing.assert_allclose(at.holds[tip], 5 * LOAD, atol=1e-6)
    for share in (0.5, 0.0):
        at = supple.equilibrium(mech, hold={tip: rest.poses[tip] @ spatial.exp(share * twist)}, start=at)
    np.testing.assert_allclose(at.holds[tip], 0, atol=1e-6)


def test_directions_that_are_wrong():
    for directions in ((), ("x", "up"), "rx"):
        with pytest.raises(supple.MechanismError, match="directions of a Hold are some of"):
            Hold(np.eye(4), directions)
