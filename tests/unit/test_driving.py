"""Coordinates, torques and controls by name: views, effort, files, and what is refused."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import brentq
from tests.small_mechanisms import arm, driven, satellite

import supple
from supple import spatial
from supple.mechanism import Actuator
from supple.mechanism.io import json


def actuated(**law):
    mech = arm(stiffness=20.0, damping=0.5)
    name = mech.coordinates[0]
    servo = {"gain": (20, 0, 0), "bias": (0, -20, -0.5), "in_spring": True}
    return replace(mech, actuators=(Actuator("servo", name, **(servo | law)),))


def test_coordinates_and_velocities_are_indexed_by_name():
    mech = satellite()
    rng = np.random.default_rng(0)
    q, rates = rng.uniform(-0.5, 0.5, mech.dof), rng.normal(size=mech.dof)
    sim = supple.Simulation(mech, 1e-4, "bdf2", q=q, rates=rates)
    assert np.allclose(sim.q, q)
    assert np.allclose(sim.qd, rates)
    free = next(joint for joint in mech.joints if len(joint.axes) == 6)
    columns = mech.topology.columns[mech.joint_index(free.name)]
    assert np.allclose(sim.q[free.name], q[columns])
    assert sim.q[free.axes[1]] == sim.q[columns.start + 1]
    assert type(sim.q + 1) is np.ndarray
    assert type(sim.q[:2]) is np.ndarray
    sim.step(200)
    h = 1e-4
    last = sim.q
    sim.step()
    middle = sim.qd
    sim.step()
    assert np.allclose(middle, (sim.q - last) / (2 * h), atol=1e-3, rtol=1e-3)
    body = mech.bodies[0].name
    assert (sim.velocities[body] == sim.velocities[0]).all()
    for site in mech.sites:
        expected = supple.jacobian(mech, site.name, sim.q) @ sim.qd
        assert np.allclose(sim.velocities[site.name], expected, atol=1e-7)
    with pytest.raises(supple.MechanismError, match="no joint or coordinate"):
        sim.q["nothing"]
    with pytest.raises(ValueError, match="read-only"):
        sim.q[0] = 1.0
    copied = sim.q.copy()
    copied[free.axes[1]] = 0.25
    assert copied[free.name][1] == 0.25
    assert np.allclose(supple.Simulation(mech, 1e-4, q=copied).q, copied)


def test_names_are_tested_with_in():
    mech = satellite()
    sim = supple.Simulation(mech, 1e-3)
    free = next(joint for joint in mech.joints if len(joint.axes) == 6)
    assert free.name in sim.q
    assert free.axes[1] in sim.qd
    assert "nothing" not in sim.q
    assert float(sim.q[0]) in sim.q
    for frames in (sim.poses, sim.velocities):
        for name in (mech.bodies[0].name, mech.sites[0].name, "world"):
            assert name in frames
        assert "nothing" not in frames
    assert mech.poses[0] in mech.poses
    assert np.zeros((4, 4)) not in mech.poses
    assert sim.poses.keys() == (*(b.name for b in mech.bodies), *(s.name for s in mech.sites))
    site = mech.sites[0].name
    np.testing.assert_array_equal(dict(sim.poses)[site], sim.poses[site])


def test_every_q_is_indexed_by_name():
    mech = arm(stiffness=20.0)
    name = mech.coordinates[-1]
    for q in (mech.reference, supple.equilibrium(mech).q, supple.assemble(mech).q, supple.kinematics(mech).q):
        assert q[name] == q[-1]
        assert name in q
        assert pickle.loads(pickle.dumps(q))[name] == q[name]


def test_what_numpy_makes_of_coordinates_is_plain():
    for plain in (np.zeros_like(arm().reference), arm().reference.reshape(1, -1)):
        assert arm().coordinates[0] not in plain
        np.testing.assert_array_equal(plain.copy(), plain)
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(plain)), plain)
        with pytest.raises(IndexError):
            plain[arm().coordinates[0]]


def test_torques_saturate_at_the_effort():
    mech = arm()
    name = mech.coordinates[0]
    mech = replace(mech, joints=tuple(replace(j, effort=2.0) if name in j.axes else j for j in mech.joints))
    sim = supple.Simulation(mech, 1e-3)
    sim.set_torque(name, 5.0)
    assert sim.torques[name] == 2.0
    sim.set_torque({name: -5.0})
    assert sim.torques[name] == -2.0
    fast = supple.ReducedSimulation(supple.reduce(arm(stiffness=20.0), [arm().bodies[-1].name]), 1e-3)
    fast.set_torque(name, 0.1)
    fast.step(3)
    assert fast.q[name] > 0
    assert fast.qd[name] > 0


def test_what_cannot_act_is_refused_and_nothing_is_changed():
    mech = driven()
    motor = mech.motors[0]
    sim = supple.Simulation(mech, 1e-3)
    other = next(name for name in mech.coordinates if name != motor.coordinate)
    for wrong, text in (
        (lambda: sim.set_torque({other: 1.0, motor.coordinate: 1.0}), f"motor '{motor.name}' prescribes"),
        (lambda: sim.set_torque({other: 1.0, "nothing": 1.0}), "no joint"),
        (lambda: sim.set_torque(other, np.nan), "finite"),
        (lambda: sim.set_torque(other, [1.0, 2.0]), "shape"),
        (lambda: sim.set_torque(np.ones(mech.dof + 1)), "coordinates"),
        (lambda: sim.set_torque(np.ones(mech.dof), 1.0), "a name and a torque"),
        (lambda: sim.set_torque({other: 1.0}, 1.0), "a name and a torque"),
        (lambda: sim.set_control("grip", 1.0), "has no actuators"),
    ):
        with pytest.raises(supple.MechanismError, match=text):
            wrong()
        assert not sim.torques.any()
    idle = replace(mech, joints=tuple(replace(j, effort=0.0) for j in mech.joints))
    with pytest.raises(supple.MechanismError, match=f"effort of '{other}' is zero"):
        supple.Simulation(idle, 1e-3).set_torque(other, 1.0)
    supple.Simulation(idle, 1e-3).set_torque(other, 0.0)


def test_wrong_controls_are_refused():
    mech = actuated(control_range=(-1, 1))
    sim = supple.Simulation(mech, 1e-3)
    for wrong, text in (
        (lambda: sim.set_control("servo", np.nan), "control of actuator 'servo' must be finite"),
        (lambda: sim.set_control({"servo": 1.0, "serve": 1.0}), "did you mean 'servo'"),
        (lambda: sim.set_control([1.0, 2.0]), "actuators"),
        (lambda: sim.set_control({"servo": 1.0}, 2.0), "a name and a control"),
    ):
        with pytest.raises(supple.MechanismError, match=text):
            wrong()
        assert sim.controls == {"servo": 0.0}
    with pytest.raises(supple.MechanismError, match=r"'servo' is an actuator .* acts on 'shoulder.0'"):
        sim.set_target("servo", 1.0)
    sim.set_control([7.0])
    assert sim.controls == {"servo": 1.0}
    idle = replace(mech, joints=tuple(replace(j, effort=0.0) for j in mech.joints))
    with pytest.raises(supple.MechanismError, match=r"effort of .* is zero, so that actuator 'servo'"):
        supple.Simulation(idle, 1e-3)
    push = actuated(in_spring=False, bias=(0, 0, 0))
    fast = supple.ReducedSimulation(supple.reduce(push, [push.bodies[-1].name]), 1e-3)
    with pytest.raises(supple.MechanismError, match="does not act like a spring"):
        fast.set_control("servo", 1.0)
    with pytest.raises(supple.MechanismError, match="linear spring"):
        supple.ReducedSimulation(supple.reduce(driven(), [driven().bodies[-1].name]), 1e-3).set_torque(
            driven().motors[0].coordinate, 1.0
        )


@pytest.mark.parametrize(
    ("law", "text"),
    [
        ({"gear": 0}, "gear of zero"),
        ({"force_range": (0, 0)}, "limited to zero"),
        ({"force_range": (1, -1)}, "upside down"),
        ({"dynamics": "muscle"}, "is one of"),
        ({"dynamics": "filter"}, "positive lag"),
        ({"lag": np.inf}, "finite"),
        ({"gain": (1, 2)}, "shape"),
        ({"in_spring": 1}, "true or false"),
    ],
)
def test_actuators_that_make_no_sense(law, text):
    with pytest.raises(supple.MechanismError, match=text):
        actuated(**law)


def test_actuators_drive_something_that_exists():
    with pytest.raises(supple.MechanismError, match="driven by actuator 'a'"):
        replace(arm(), actuators=(Actuator("a", "nothing"),))
    with pytest.raises(supple.MechanismError, match="two actuators"):
        replace(arm(), actuators=(Actuator("a", arm().coordinates[0]),) * 2)


def test_files_hold_actuators_and_efforts():
    mech = actuated(control_range=(-1, 1), force_range=(-np.inf, 3), dynamics="filter", lag=0.1, control=0.2)
    mech = replace(mech, joints=tuple(replace(j, effort=[2.5] * len(j.axes)) for j in mech.joints))
    again = json.loads(json.dumps(mech))
    assert again == mech
    assert again.actuators[0].force_range.tolist() == [-np.inf, 3]


def test_springs_given_to_a_joint_replace_its_actuator():
    mech = actuated()
    assert mech.with_springs(5.0).actuators == mech.actuators
    assert mech.with_springs(5.0, joints=[mech.coordinates[0]]).actuators == ()
    softer = replace(mech, joints=tuple(replace(j, stiffness=j.stiffness / 4) for j in mech.joints))
    bare = replace(softer, actuators=())
    ends = []
    for each in (softer, bare):
        sim = supple.Simulation(each, 1e-3)
        sim.step(100)
        ends.append(sim.q)
    assert np.abs(ends[0] - ends[1]).max() < 1e-9  # the actuator is as soft as its spring


def test_mjcf_files_hold_efforts_and_warn_about_actuators(tmp_path):
    mech = actuated()
    mech = replace(mech, joints=tuple(replace(j, effort=2.5) for j in mech.joints))
    with pytest.warns(supple.ExportWarning, match="actuator 'servo' is written as the spring"):
        mech.save(tmp_path / "arm.xml")
    again = supple.load(tmp_path / "arm.xml")
    assert all((joint.effort == 2.5).all() for joint in again.joints)


def test_an_actuator_has_the_control_of_its_changed_spring():
    mech = actuated(force_range=(-1.0, 1.0))
    name = mech.coordinates[0]
    joint = mech.joint(name)
    moved = replace(joint, rest=[0.3, *joint.rest[1:]])
    mech = replace(mech, gravity=(0, 0, 0), joints=[moved if j is joint else j for j in mech.joints])
    sim = supple.Simulation(mech, 1e-3, q=[0.3, 0, 0])
    assert sim.controls["servo"] == pytest.approx(0.3)
    assert sim.actuator_forces["servo"] == pytest.approx(0.0, abs=1e-12)
    sim.step(10)
    assert sim.q[name] == pytest.approx(0.3, abs=1e-9)


def test_a_reduced_model_has_torques_and_controls_and_switches_actuators_off():
    """One hinge, where the linear model is exact: a spring of 1 N m/rad and a servo of 2 N m/rad."""
    b = supple.Builder("finger", gravity=(0, 0, 0))
    b.link("bone", (0, 0, 0), (0, 0, 0.1), mass=0.1)
    b.hinge("knuckle", "world", "bone", at=(0, 0, 0), axis="y", stiffness=3.0, damping=0.1)
    b.actuator("servo", "knuckle", gain=(2, 0, 0), bias=(0, -2, 0), in_spring=True)
    mech = b.build()
    for sim in (supple.Simulation(mech, 1e-2), supple.ReducedSimulation(supple.reduce(mech, ["bone"]), 1e-2)):
        assert sim.controls == {"servo": 0.0}
        sim.set_torque("knuckle", 0.3)
        assert sim.torques["knuckle"] == 0.3
        for control, expected in ((0.0, 0.1), (None, 0.3), (0.3, 0.3), (-0.15, 0.0)):
            sim.set_control("servo", control)
            assert sim.controls == {"servo": control}
            sim.step(300)
            assert sim.q["knuckle"] == pytest.approx(expected, abs=1e-6)
        with pytest.raises(supple.MechanismError, match="a name and a torque"):
            sim.set_torque({"knuckle": 0.3}, 1.0)
        with pytest.raises(supple.MechanismError, match="a name and a control"):
            sim.set_control({"servo": 0.3}, 1.0)


def servo_arm():
    """Three links; a servo of 50 N m/rad and at most 2 N m moves the middle hinge."""
    b = supple.Builder("servo arm", gravity=(0, 0, 0))
    for i in range(3):
        b.link(f"l{i}", (0.2 * i, 0, 0), (0.2 * i + 0.2, 0, 0), mass=0.3)
        parent, damping = f"l{i - 1}" if i else "world", 5.0 if i == 1 else 0.5
        b.hinge(f"h{i}", parent, f"l{i}", (0.2 * i, 0, 0), "y", stiffness=50.0, damping=damping)
    law = {"gain": (50, 0, 0), "bias": (0, -50, -5), "force_range": (-2, 2), "control_range": (-3, 3)}
    b.actuator("servo", "h1", in_spring=True, **law)
    return b.build()


def strong_servos(count, inertia=1e-3, limits=(-np.inf, np.inf)):
    """Light links without armature; servos of 2000 N m/rad and at most 28 N m."""
    b = supple.Builder("robot", gravity=(0, 0, 0))
    for i in range(count):
        b.body(f"b{i}", spatial.pose(np.eye(3), (0, 0, 0.1 * i)), mass=0.5, inertia=(inertia,) * 3)
        b.hinge(f"j{i}", f"b{i - 1}" if i else "world", f"b{i}", (0, 0, 0.1 * i), "xy"[i % 2], limits=limits)
        law = {"gain": (2000, 0, 0), "bias": (0, -2000, -100), "force_range": (-28, 28)}
        b.actuator(f"servo{i}", f"j{i}", **law)
    return b.build()


@pytest.mark.parametrize("method", ["euler", "bdf2"])
def test_servos_at_the_limit_of_their_force_cost_few_iterations(method):
    """Newton's method on the whole law would jump between the ends of its range."""
    sim = supple.Simulation(strong_servos(6), 2e-3, method)
    goals = 0.8 * (-1.0) ** np.arange(6)
    sim.set_control({f"servo{i}": goal for i, goal in enumerate(goals)})
    sim.step(5)
    assert np.abs(list(sim.actuator_forces.values())).max() == pytest.approx(28)
    sim.step(495)
    assert sim._core.solver == "passes"
    assert not sim._core.softened
    assert sim._core.iterations < 4 * 500
    assert sim.q == pytest.approx(goals, abs=1e-3)


def test_steps_that_fail_far_from_limits_do_not_blame_them_alone():
    """The sparse solver, which the passes make rarely needed, jumps between the ends of the servo's range."""
    sim = supple.Simulation(strong_servos(1, limits=(-3, 3)), 2e-3)
    sim._core.use_passes(False)
    sim.set_control("servo0", 0.8)
    with pytest.warns(UserWarning, match="if none was near it, a light body turned too far .* take a smaller dt"):
        sim.step(50)


@pytest.mark.parametrize("inertia", [1e-3, 0.05, 2.0])
def test_a_servo_at_the_limit_of_its_force_against_a_scalar_equation(inertia):
    """Backward Euler of one hinge, I q'' = force, each step solved by bisection."""
    dt, goal = 2e-3, 0.8
    sim = supple.Simulation(strong_servos(1, inertia), dt)
    sim.set_control("servo0", goal)
    q = rate = 0.0

    def imbalance(at):
        speed = (at - q) / dt
        return inertia * (speed - rate) / dt - np.clip(2000 * (goal - at) - 100 * speed, -28, 28)

    ends = set()
    for _ in range(200):
        after = brentq(imbalance, q - 1, q + 1, xtol=1e-15, rtol=1e-14)
        q, rate = after, (after - q) / dt
        sim.step()
        ends.add(round(sim.actuator_forces["servo0"]))
        assert sim.q["j0"] == pytest.approx(q, abs=1e-10)
    assert (28 in ends) == (inertia > 0.01)
    assert min(ends) < 20  # the limit is left, too


def test_a_blended_motion_that_diverges_raises():
    mech = servo_arm()
    models = [supple.reduce(mech, "l2", at=supple.equilibrium(mech, targets={"h1": at})) for at in (0.0, 0.5)]
    sim = supple.ReducedSimulation(supple.blend(models), 1e-3)
    sim.step(1)
    tips, twists = sim._motion.tips
    tips[:, 0, 3] += 20 * mech.radius
    sim._motion.place(tips, twists)
    with pytest.raises(supple.ConvergenceError, match="'servo arm' are more than 10 radii"):
        sim.step(1)


def test_the_limit_of_a_force_holds_where_set_points_move_the_joint_at_once():
    """A joint beyond the end effector follows its set-point without delay. The damper's speed must not count this."""
    mech = servo_arm()
    for tip, time_steps in (("l0", 60), ("l2", 1500)):  # the pose of l2 does not tell the joints of a straight arm
        sim = supple.ReducedSimulation(supple.reduce(mech, tip), 1e-3)
        sim.set_control("servo", 0.6)
        highest = 0.0
        for _ in range(20):
            sim.step(time_steps // 20)
            highest = max(highest, abs(sim.q["h1"]))
        assert 0.59 < highest < 0.601 if tip == "l0" else highest < 1
        assert sim.q["h1"] == pytest.approx(0.6, abs=1e-6 if tip == "l0" else 1e-2)
