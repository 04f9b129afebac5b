"""What a control loop calls: arrays of controls, torques and set-points, and reading after a change of the state."""

import copy
import pickle
import warnings
from dataclasses import replace
from functools import cache
from types import MappingProxyType

import mujoco
import numpy as np
import pytest
from tests import mechanisms, mujoco_reference
from tests.small_mechanisms import driven, pendulum, satellite

import supple
from supple import spatial
from supple.engine.dynamics import tree_rates

SERVO = {"gain": (20, 0, 0), "bias": (0, -20, 0), "in_spring": True}


def robot(actuators=True):
    """A floating body with a ball joint, a sprung leg, a wheel on a belt and a tail on a motor. The springs of the leg
    contain two actuators, one of them with dynamics; a third one pulls the belt."""
    b = supple.Builder("robot")
    b.link("trunk", (0, 0, 0), (0.4, 0, 0), mass=3.0, radius=0.1)
    b.link("neck", (0.4, 0, 0), (0.5, 0, 0.2), mass=0.5)
    b.link("thigh", (0, 0, 0), (0, 0.1, -0.3), mass=0.8)
    b.link("shank", (0, 0.1, -0.3), (0.1, 0.1, -0.6), mass=0.5)
    b.link("wheel", (0.2, 0, 0), (0.2, 0.2, 0), mass=0.4, radius=0.05)
    b.link("tail", (0, 0, 0), (-0.3, 0, 0), mass=0.2)
    b.free("base", "world", "trunk")
    b.ball("atlas", "trunk", "neck", at=(0.4, 0, 0), stiffness=8.0, damping=0.1)
    b.hinge("hip", "trunk", "thigh", (0, 0, 0), "y", stiffness=20.0, damping=0.3, effort=5.0)
    b.hinge("knee", "thigh", "shank", (0, 0.1, -0.3), "x", stiffness=20.0, damping=0.3, rest=0.1)
    b.hinge("axle", "trunk", "wheel", (0.2, 0, 0), "y", damping=0.01, effort=0.0)
    b.hinge("wag", "trunk", "tail", (0, 0, 0), "z")
    b.couple("belt", {"hip": 1.0, "axle": 0.5}, stiffness=3.0, damping=0.1)
    b.motor("tail drive", "wag")
    if actuators:
        b.actuator("hip servo", "hip", control_range=(-0.5, 0.4), **SERVO)
        law = SERVO | {"dynamics": "integrator"}
        b.actuator("knee servo", "knee", control_range=(-2, 2), **law)
        b.actuator("push", "belt", control_range=(0, 255), gain=(0.01, 0, 0))
    b.site("foot", "shank", at=(0.1, 0.1, -0.6))
    return b.build()


def effortless(mech):
    """The mechanism with the effort of its actuators' joints unlimited."""
    return replace(mech, joints=tuple(replace(j, effort=np.inf) for j in mech.joints))


def inputs(sim):
    """All that a user can set by arrays."""
    return dict(sim.controls), np.array(sim.torques), sim.targets


def same(a, b):
    return a[0] == b[0] and np.array_equal(a[1], b[1]) and a[2] == b[2]


WRONG = (
    ("must be finite", lambda n: np.where(np.arange(n) == n - 1, np.nan, 0.1)),
    ("must be finite", lambda n: np.where(np.arange(n) == 0, -np.inf, 0.1)),
    (r"must have shape \d+, got \d+x1", lambda n: np.full((n, 1), 0.1)),
    (r"must have shape \d+, got \d+$", lambda n: np.full(n + 1, 0.1)),
    (r"must have shape \d+, got 0", lambda n: np.zeros(0)),
    ("must be numbers", lambda n: np.full(n, "x")),
    ("must be numbers", lambda n: np.array([None] * n)),
)


@pytest.mark.parametrize(("text", "make"), WRONG)
def test_a_wrong_array_raises_the_text_of_a_wrong_list_and_changes_nothing(text, make):
    sim = supple.Simulation(robot(), 1e-3)
    dof = sim.mechanism.dof
    sim.set_control([0.1, 0.2, 3.0])
    sim.set_target("knee", 0.2)
    before = inputs(sim)
    for set_all, count, what in (
        (sim.set_control, 3, r"controls of 'robot' \(3 actuators\) "),
        (sim.set_torque, dof, rf"torques of 'robot' \({dof} coordinates\) "),
        (sim.set_target, dof, rf"targets of 'robot' \({dof} coordinates\) "),
    ):
        with pytest.raises(supple.MechanismError, match=what + text) as of_array:
            set_all(make(count))
        assert same(inputs(sim), before)
        if make(count).size:
            with pytest.raises(supple.MechanismError) as of_list:
                set_all(make(count).tolist())
            assert str(of_array.value).split("got")[0] == str(of_list.value).split("got")[0]


def test_an_array_of_controls_is_limited_to_the_ranges_and_switches_actuators_on():
    sim = supple.Simulation(robot(), 1e-3)
    sim.set_control("push", None)
    sim.set_control(np.array([-7.0, 7.0, 300.0]))
    assert sim.controls == {"hip servo": -0.5, "knee servo": 2.0, "push": 255.0}
    sim.set_control(np.array([7.0, 0.3, -1.0]))
    assert sim.controls == {"hip servo": 0.4, "knee servo": 0.3, "push": 0.0}
    named = supple.Simulation(robot(), 1e-3)
    named.set_control({"hip servo": 7.0, "knee servo": 0.3, "push": -1.0})
    for each in (sim, named):
        each.step(5)
    assert np.array_equal(sim.q, named.q)
    assert sim.actuator_forces == named.actuator_forces
    for given in ([1, 0, 2], np.array([1, 0, 2]), np.array([1, 0, 2], np.float32), np.array([1.0, 9, 0, 9, 2, 9])[::2]):
        sim.set_control(given)
        assert sim.controls == {"hip servo": 0.4, "knee servo": 0.0, "push": 2.0}
    frozen = np.array([0.2, 0.1, 5.0])
    frozen.flags.writeable = False
    sim.set_control(frozen)
    assert sim.controls == {"hip servo": 0.2, "knee servo": 0.1, "push": 5.0}


def test_without_actuators_no_array_is_a_control():
    sim = supple.Simulation(driven(), 1e-3)
    for given in (np.zeros(0), np.zeros(2)):
        with pytest.raises(supple.MechanismError, match="'driven' has no actuators"):
            sim.set_control(given)


def test_an_array_of_torques_is_limited_to_the_efforts():
    mech = robot()
    sim, at = supple.Simulation(mech, 1e-3), {name: i for i, name in enumerate(mech.coordinates)}
    tau = np.arange(mech.dof, dtype=float)
    tau[[at["axle"], at["wag"]]] = 0
    tau[at["hip"]] = -70
    sim.set_torque(tau)
    tau[at["hip"]] = -5
    assert np.array_equal(sim.torques, tau)
    named = supple.Simulation(mech, 1e-3)
    named.set_torque({joint.name: sim.torques[joint.name] for joint in mech.joints})
    for each in (sim, named):
        each.step(5)
    assert np.array_equal(sim.q, named.q)
    saved = sim.save()
    sim.set_torque(np.zeros(mech.dof))
    sim.restore(saved)
    assert np.array_equal(sim.torques, tau)


@pytest.mark.parametrize(
    ("name", "text"),
    [("axle", "the effort of 'axle' is zero"), ("wag", "motor 'tail drive' prescribes 'wag'")],
)
def test_an_array_with_a_torque_that_cannot_act_is_refused(name, text):
    mech = robot()
    sim = supple.Simulation(mech, 1e-3)
    sim.set_torque("knee", 0.5)
    before = inputs(sim)
    for value in (1.0, -1e-300):
        names = np.array(mech.coordinates)
        tau = np.where(names == name, value, 0.1 * (names == "knee"))
        with pytest.raises(supple.MechanismError, match=text):
            sim.set_torque(tau)
        assert same(inputs(sim), before)


def test_amplitudes_take_no_torque_from_an_array():
    mech = supple.library.rod_on_motor(modes=4, sections=4)
    sim = supple.Simulation(mech, 1e-3)
    amplitude = mech.flexible[0].coordinates[0]
    with pytest.raises(supple.MechanismError, match="belongs to a flexible body"):
        sim.set_torque(np.where(np.array(mech.coordinates) == amplitude, 1.0, 0.0))
    assert not sim.torques.any()
    sim.set_torque(np.zeros(mech.dof))


def test_an_array_of_set_points_acts_as_their_names():
    mech = effortless(robot())
    rng = np.random.default_rng(3)
    values = rng.uniform(-0.3, 0.3, mech.dof)
    q = dict(zip(mech.coordinates, values.tolist(), strict=True))
    names = [name for name in mech.coordinates if name.startswith("atlas")] + ["hip", "knee"]
    by_name, by_array = supple.Simulation(mech, 1e-3), supple.Simulation(mech, 1e-3)
    for sim in (by_name, by_array):
        sim.set_target("belt", 0.05)  # stays: it is not a coordinate
    by_name.set_target({name: q[name] for name in names} | {"tail drive": 0.0})
    values[list(mech.coordinates).index("wag")] = 0.0
    by_array.set_target(values)
    assert by_name.targets == by_array.targets
    assert by_array.targets["belt"] == 0.05
    assert by_name.controls == pytest.approx(by_array.controls)
    assert by_array.controls["hip servo"] == pytest.approx(q["hip"])  # the actuator follows its spring
    for sim in (by_name, by_array):
        sim.step(20)
    assert np.allclose(by_name.q, by_array.q, rtol=0, atol=1e-13)
    assert by_name.actuator_forces == pytest.approx(by_array.actuator_forces, abs=1e-10)
    other = supple.Simulation(mech, 1e-3)
    other.set_target(values.tolist())
    assert other.targets == {**by_array.targets, "belt": 0.0}


def test_an_array_with_a_set_point_too_far_is_refused():
    mech = robot()
    sim = supple.Simulation(mech, 1e-3)
    before = inputs(sim)
    for name in ("hip", "wag"):
        with pytest.raises(supple.MechanismError, match=r"target of .* must be within 1e\+09 rad or m, got 2e\+09"):
            sim.set_target(np.where(np.array(mech.coordinates) == name, 2e9, 0.1))
        assert same(inputs(sim), before)
    far = np.where(np.array(mech.coordinates) == "axle", 2e9, 0.0)  # no spring: it takes none
    sim.set_target(far)
    assert sim.targets["hip"] == 0
    with pytest.raises(supple.MechanismError, match="motor 'tail drive' follows its function of time"):
        supple.Simulation(mech, 1e-3, motors={"tail drive": np.sin}).set_target(np.zeros(mech.dof))
    with pytest.raises(supple.MechanismError, match="'pendulum' has no spring or motor"):
        supple.Simulation(pendulum(), 1e-3).set_target(np.zeros(1))


def test_motors_that_follow_functions_have_their_position_in_saved_states():
    sim = supple.Simulation(robot(), 1e-2, motors={"tail drive": lambda t: 0.5 * t})
    sim.step(4)
    saved = sim.save()
    assert saved.targets["tail drive"] == pytest.approx(0.02)
    assert "tail drive" not in sim.targets
    sim.step(3)
    sim.restore(saved)
    sim.step(3)
    assert sim.q["wag"] == pytest.approx(0.035, abs=1e-9)


@cache
def loops():
    """Mechanisms whose loops the passes may close at other joints than the description, and others."""
    b = supple.Builder("ring")  # a chain of six from the world and back, described from one end
    points = np.array([(0, 0, 0), (0, 0, 0.5), (0.5, 0.1, 0.8), (1, 0, 0.8), (1.5, 0, 0.5), (1.5, 0, 0)])
    for i in range(5):
        b.link(f"link{i}", points[i], points[i + 1], mass=1.0)
        b.hinge(f"pin{i}", f"link{i - 1}" if i else "world", f"link{i}", points[i], "y", stiffness=1.0, damping=0.1)
    b.ball("last", "world", "link4", points[5])
    return {
        "ring": b.build(),
        "four_bar": mechanisms.four_bar(),
        "stewart": mechanisms.stewart(),
        "satellite": satellite(),
        "robot": robot(),
        "rod_on_motor": supple.library.rod_on_motor(modes=4, sections=4),
        "two_rods": supple.library.two_rods(modes=4, sections=4),
        "ladder": supple.library.ladder(gravity=(0, 0, -9.81)),
    }


def check_fresh(sim):
    """What is read agrees with what follows from the coordinates, and with the synchronised core."""
    mech, q, qd, poses = sim.mechanism, np.array(sim.q), np.array(sim.qd), sim.poses
    velocities = np.array(sim.velocities)
    last = mech.bodies[-1].name
    if not mech.flexible:
        found = supple.kinematics(mech, q).poses
        assert np.allclose(found.array, poses.array, rtol=0, atol=1e-12)
        assert np.allclose(found[last], sim.poses[last], rtol=0, atol=1e-12)
        # twists are those of momenta, qd those of coordinates: they differ by the time step
        assert np.allclose(supple.jacobian(mech, last, q) @ qd, sim.velocities[last], atol=2e-3)
    core = sim._core
    core.gaps  # noqa: B018  evaluates the whole system
    assert np.array_equal(core.q[mech.tree_axes], q)
    assert np.allclose(tree_rates(mech, core.q, core.rates), qd, rtol=1e-13, atol=1e-13)
    assert np.array_equal(sim.q, q)
    assert np.array_equal(sim.qd, qd)
    assert np.array_equal(sim.poses.array, poses.array)
    assert np.array_equal(sim.velocities, velocities)


@pytest.mark.parametrize("passes", [True, False], ids=["passes", "sparse"])
@pytest.mark.parametrize("name", list(loops()))
def test_what_is_read_is_fresh_after_every_change(name, passes):
    mech = loops()[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sim = supple.Simulation(mech, 2e-3)
        sim._core.use_passes(passes)
        check_fresh(sim)
        start = np.array(sim.q)
        sim.apply(mech.bodies[-1].name, [2.0, 1.0, 3.0, 0.1, 0.2, 0.3])
        sim.step(5)
        assert not np.array_equal(sim.q, start)
        check_fresh(sim)
        sim.step(1)
        saved, q, poses, qd = sim.save(), np.array(sim.q), sim.poses.array.copy(), np.array(sim.qd)
        sim.step(2)
        assert not np.array_equal(sim.poses.array, poses)
        assert not np.array_equal(sim.qd, qd)
        check_fresh(sim)
        sim.restore(saved)
        assert np.array_equal(sim.q, q)
        assert np.array_equal(sim.qd, qd)
        assert np.array_equal(sim.poses.array, poses)
        check_fresh(sim)
        for other in (pickle.loads(pickle.dumps(sim)), copy.deepcopy(sim)):
            assert np.array_equal(other.q, q)
            assert np.array_equal(other.qd, qd)
            assert np.array_equal(other.poses.array, poses)
        sim.step(2)
        sim.reset()
        assert np.array_equal(sim.q, start)
        assert not sim.qd.any()
        check_fresh(sim)
        sim.step(3)
        held = sim.poses[mech.bodies[-1].name]
        kept = held.copy()
        if not mech.flexible:
            sim.set_q(start)
            assert np.allclose(sim.q, start, atol=1e-8)
            assert not sim.qd.any()
            check_fresh(sim)
        sim.step(1)
        check_fresh(sim)
    assert np.array_equal(held, kept)  # a pose that was read does not change
    held[0, 3] += 1  # and it is the user's own
    assert not np.array_equal(sim.poses[mech.bodies[-1].name], held)


def test_what_is_read_after_steps_of_a_world():
    world, mech = supple.World(), robot()
    sim = supple.Simulation(mech, 2e-3)
    world.add(sim)
    for _ in range(3):
        world.step(4)
        check_fresh(sim)
        assert np.array_equal(world.q[: mech.dof], sim.q)
        assert np.array_equal(world.poses.array, sim.poses.array)


def test_what_is_read_after_a_step_that_fails():
    mech = replace(driven(), motors=driven().motors)
    mech = mech.with_springs(stiffness=1.0)
    sim = supple.Simulation(mech, 1e-2, motors={"drive": lambda t: 0.5 * t})
    sim.step(3)
    q, qd, poses = np.array(sim.q), np.array(sim.qd), sim.poses.array.copy()
    core, driven_rows = sim._core, [sim._eqs.row["drive"]]
    assert core.step(driven_rows, np.array([[np.nan]]), 1) == 0
    assert np.array_equal(sim.q, q)
    assert np.array_equal(sim.qd, qd)
    assert np.array_equal(sim.poses.array, poses)
    assert sim.save().targets["drive"] == pytest.approx(0.015)
    check_fresh(sim)


@pytest.mark.parametrize("size", [0.5, 3.0, 4.5])
def test_qd_is_the_rate_of_q_with_a_free_and_a_ball_joint(size):
    """By central differences of q along the steps of a body that spins; rotation vectors of every length."""
    mech = satellite()
    rng = np.random.default_rng(5)
    q = rng.uniform(-0.4, 0.4, mech.dof)
    for joint in mech.joints:
        if 3 in joint.blocks:
            part = mech.topology.columns[mech.joint_index(joint.name)]
            turn = slice(part.stop - 3, part.stop)
            q[turn] *= size / np.linalg.norm(q[turn])
    h = 1e-4
    rates0 = rng.normal(size=mech.dof)
    sim = supple.Simulation(mech, h, "bdf2", q=q, rates=rates0)
    if size < np.pi:  # longer rotation vectors are read as the shortest of the same rotation
        assert np.allclose(sim.q, q)
        assert np.allclose(sim.qd, rates0)
    assert np.allclose(sim.poses.array, supple.kinematics(mech, q).poses.array)
    sim.step(20)
    rows = []
    for _ in range(3):
        sim.step()
        rows.append((np.array(sim.q), np.array(sim.qd)))
    (first, _), (_, rates), (last, _) = rows
    assert np.allclose(rates, (last - first) / (2 * h), rtol=1e-3, atol=2e-3)


def test_q_qd_poses_and_velocities_are_those_of_mujoco(tmp_path):
    """At a state of a floating body with a ball joint and hinges that both have."""
    text = """<mujoco><option gravity="0 0 -9.81"/><worldbody><body name="trunk" pos="0 0 1"><freejoint/>
      <geom type="box" size=".2 .1 .05" mass="3"/>
      <body name="head" pos=".2 0 .1"><joint name="neck" type="ball" damping=".1"/>
        <geom size=".06" mass=".5" pos=".02 0 .1"/></body>
      <body name="arm" pos="0 .2 0"><joint name="shoulder" axis="0 1 0" damping=".2"/>
        <geom type="capsule" fromto="0 0 0 .2 .1 0" size=".03" mass=".4"/>
        <body name="hand" pos=".2 .1 0"><joint name="rail" type="slide" axis="1 0 0" damping="1"/>
          <geom size=".05" mass=".2"/></body></body>
    </body></worldbody></mujoco>"""
    path = tmp_path / "robot.xml"
    path.write_text(text)
    mech, model = mujoco_reference.load_quietly(path), mujoco.MjModel.from_xml_path(str(path))
    data = mujoco_reference.random_state(model, np.random.default_rng(2))
    q = mujoco_reference.coordinates(model, data.qpos)
    rates = np.linalg.solve(mujoco_reference.velocity_map(model, q), data.qvel)
    sim = supple.Simulation(mech, 1e-9, q=q, rates=rates)
    for steps in (0, 1):  # the state of the system, then that of the passes
        sim.step(steps)
        assert np.allclose(sim.q, q, atol=1e-7)
        assert np.allclose(sim.qd, rates, atol=1e-5)
        for body in mech.bodies:
            found = sim.poses[body.name]
            assert np.allclose(found[:3, 3], data.body(body.name).xpos, atol=1e-7)
            assert np.allclose(found[:3, :3].ravel(), data.body(body.name).xmat, atol=1e-7)
            twist = np.zeros(6)
            mujoco.mj_objectVelocity(model, data, mujoco.mjtObj.mjOBJ_XBODY, model.body(body.name).id, twist, 1)
            assert np.allclose(sim.velocities[body.name], np.roll(twist, 3), atol=1e-5)


def test_reading_one_thing_does_not_change_the_steps():
    read, unread = (supple.Simulation(robot(), 2e-3) for _ in range(2))
    for i in range(30):
        for sim in (read, unread):
            sim.set_control(np.array([0.3 * np.sin(i), 0.2, 10.0 * i]))
            sim.step()
        (read.q, read.poses, read.qd, read.velocities)[i % 4]
    assert np.array_equal(read.save().history, unread.save().history)


def test_a_load_that_is_changed_keeps_the_others():
    sims = [supple.Simulation(robot(), 2e-3) for _ in range(2)]
    for sim in sims:
        sim.apply("shank", [1, 0, 0, 0, 0, 0])
        sim.apply("foot", [0, 0, 5, 0, 0, 1], frame="body")
        sim.apply("trunk", [0, 2, 0, 0, 0, 0])
    sims[0].apply("foot", np.array([0, 3.0, 0, 0, 0, 0]))
    sims[1].apply("foot", [0, 0, 0, 0, 0, 0])
    sims[1].apply("foot", [0, 3, 0, 0, 0, 0])
    before = sims[0].save()
    with pytest.raises(supple.MechanismError, match="wrench on 'foot'"):
        sims[0].apply("foot", np.array([np.nan] * 6))
    with pytest.raises(supple.MechanismError, match="frame must be"):
        sims[0].apply("foot", np.zeros(6), frame="tool")
    assert sims[0].save().loads.keys() == before.loads.keys()
    for sim in sims:
        sim.step(10)
    other = supple.Simulation(robot(), 2e-3)
    other.restore(before)
    other.step(10)
    assert np.array_equal(sims[0].q, sims[1].q)
    assert np.array_equal(sims[0].q, other.q)


@cache
def reduced_model(kind):
    mech = robot(actuators=False)
    if kind == "floating":
        return supple.reduce(mech, ["foot", "trunk"])
    fixed = mech.with_base("fixed")
    linear = supple.reduce(fixed, ["foot", "neck"])
    if kind != "blended":
        return linear
    bent = supple.equilibrium(fixed, {"foot": [0, 0, 2.0, 0, 0, 0]})
    return supple.blend([linear, supple.reduce(fixed, ["foot", "neck"], at=bent)])


@pytest.mark.parametrize("kind", ["linear", "joints", "blended", "floating"])
def test_an_array_of_set_points_of_a_reduced_model_acts_as_their_names(kind):
    model = reduced_model(kind)
    mech = model.mechanism
    options = {"reconstruction": "joints"} if kind == "joints" else {}
    places = {name: i for i, name in enumerate(mech.coordinates)}
    sprung = ["hip", "knee", *(name for name in places if name.startswith("atlas"))]
    rng = np.random.default_rng(1)
    by_array, by_name = (supple.ReducedSimulation(model, 1e-3, **options) for _ in range(2))
    by_name.set_target("belt", by_name.targets["belt"])  # more than an array gives: names are taken one by one

    def agree():
        assert by_array.targets == pytest.approx(by_name.targets)
        assert np.allclose(by_array.q, by_name.q, rtol=0, atol=1e-10)
        assert np.allclose(by_array.poses.array, by_name.poses.array, rtol=0, atol=1e-10)
        assert np.allclose(by_array.velocities, by_name.velocities, rtol=0, atol=1e-8)
        assert np.allclose(by_array.displacement, by_name.displacement, rtol=0, atol=1e-10)
        if kind == "joints":
            assert np.allclose(by_array.gaps, by_name.gaps, rtol=0, atol=1e-10)

    for round_ in range(3):
        values = rng.uniform(-0.05, 0.05, mech.dof)
        by_name.set_target({name: values[places[name]] for name in sprung} | {"tail drive": values[places["wag"]]})
        by_array.set_target(values)
        agree()
        for sim in (by_array, by_name):
            sim.step(7)
        agree()
        if round_ == 1:  # one by name in between
            for sim in (by_array, by_name):
                sim.set_target("knee", 0.07)
                sim.step(3)
            agree()
    saved = by_array.save()
    copied, restored = pickle.loads(pickle.dumps(by_array)), supple.ReducedSimulation(model, 1e-3, **options)
    restored.restore(saved)
    for sim in (by_array, copied, restored):
        sim.step(5)
    assert np.array_equal(by_array.q, restored.q)
    assert np.array_equal(by_array.q, copied.q)
    by_array.reset()
    by_name.reset()
    agree()
    for sim in (by_array, by_name):  # a set-point that is no coordinate, then an array
        sim.set_target("belt", 0.02)
    values = rng.uniform(-0.05, 0.05, mech.dof)
    by_array.set_target(values)
    by_name.set_target({name: values[places[name]] for name in sprung} | {"tail drive": values[places["wag"]]})
    for sim in (by_array, by_name):
        sim.step(5)
    agree()
    assert by_array.targets["belt"] == 0.02


@pytest.mark.parametrize("kind", ["linear", "blended", "floating"])
def test_wrong_arrays_of_set_points_of_a_reduced_model_change_nothing(kind):
    model = reduced_model(kind)
    sim, dof = supple.ReducedSimulation(model, 1e-3), model.mechanism.dof
    sim.set_target(np.full(dof, 0.01))
    sim.step(3)
    before, targets = np.array(sim.q), sim.targets
    for text, make in WRONG:
        with pytest.raises(supple.MechanismError, match=rf"targets of '.*' \({dof} coordinates\) {text}"):
            sim.set_target(make(dof))
    with pytest.raises(supple.MechanismError, match=r"must be within 1e\+09 rad or m"):
        sim.set_target(np.full(dof, 2e9))
    assert sim.targets == targets
    assert np.array_equal(sim.q, before)


def test_an_array_of_set_points_with_a_torque_or_control_of_a_reduced_model():
    mech = effortless(robot()).with_base("fixed")
    model = supple.reduce(mech, ["foot"])
    by_array, by_name = (supple.ReducedSimulation(model, 1e-3) for _ in range(2))
    values = dict.fromkeys(mech.coordinates, 0.03)
    for sim in (by_array, by_name):
        sim.set_torque("knee", 0.2)
        sim.set_control("hip servo", 0.1)
    by_array.set_target(np.array(list(values.values())))
    by_name.set_target([0.03] * mech.dof)
    for sim in (by_array, by_name):
        sim.step(10)
    assert np.array_equal(by_array.q, by_name.q)


def test_limits_follow_an_array_of_set_points_in_a_world():
    """Set-points of a linear model that drive a limited hinge against its limit, by name and by array."""
    mech = robot(actuators=False).with_base("fixed")
    joints = tuple(replace(j, limits=[[-0.02, 0.02]]) if j.name == "knee" else j for j in mech.joints)
    mech = replace(mech, joints=joints)
    places, model = list(mech.coordinates), supple.reduce(mech, ["foot"])
    found = []
    for array in (True, False):
        world, sim = supple.World(), supple.ReducedSimulation(model, 1e-3)
        world.add(sim)
        value = np.where(np.array(places) == "knee", 0.2, 0.0)
        sim.set_target(value if array else dict.fromkeys(("hip", "tail drive"), 0.0) | {"knee": 0.2})
        world.step(200)
        found.append(np.array(sim.q))
        assert sim.q["knee"] < 0.03
    assert np.allclose(*found, atol=1e-9)


def test_models_that_are_added_after_an_array_of_set_points():
    model = reduced_model("linear")
    by_array, by_name = (supple.ReducedSimulation(supple.blend([model]), 1e-3) for _ in range(2))
    by_array.set_target(np.full(model.mechanism.dof, 0.02))
    by_name.set_target([0.02] * model.mechanism.dof)
    for sim in (by_array, by_name):
        sim.apply("foot", [0, 0, 1.0, 0, 0, 0])
        sim.step(20)
        sim.grow(fade=0.01)
        sim.step(20)
    by_array.set_target(np.full(model.mechanism.dof, 0.03))
    by_name.set_target([0.03] * model.mechanism.dof)
    for sim in (by_array, by_name):
        sim.step(20)
    assert np.allclose(by_array.q, by_name.q, rtol=0, atol=1e-9)
    assert np.allclose(by_array.poses.array, by_name.poses.array, rtol=0, atol=1e-9)


def test_named_coordinates_of_what_is_read():
    sim = supple.Simulation(robot(), 1e-3)
    sim.step(3)
    mech, q = sim.mechanism, np.array(sim.q)
    assert sim.q["knee"] == q[list(mech.coordinates).index("knee")]
    assert sim.q["atlas"].shape == (3,)
    for read in (sim.q, sim.qd, sim.velocities, sim.torques):
        with pytest.raises(ValueError, match="read-only"):
            read[0] = 1.0
        assert pickle.loads(pickle.dumps(read)).mechanism == mech
        changed = read.copy()
        changed[0] = 1.0
    assert np.array_equal(sim.q, q)
    assert np.array_equal(spatial.inverse(spatial.inverse(sim.poses["shank"])).round(12), sim.poses["shank"].round(12))


def test_a_load_that_is_changed_after_a_start_in_equilibrium():
    mech = robot(actuators=False).with_base("fixed")
    start = supple.equilibrium(mech, {"neck": [0, 0, 0, 0, 0.1, 0], "foot": [0, 0, 1.0, 0, 0, 0]})
    sims = [supple.Simulation(mech, 1e-3, at=start) for _ in range(2)]
    sims[0].apply("foot", [0, 0, 2.0, 0, 0, 0])
    for name, wrench in (("foot", [0, 0, 0, 0, 0, 0]), ("neck", [0, 0, 0, 0, 0.1, 0]), ("foot", [0, 0, 2.0, 0, 0, 0])):
        sims[1].apply(name, wrench)
    fresh = supple.Simulation(mech, 1e-3, q=start.q)
    fresh.apply("foot", [0, 0, 2.0, 0, 0, 0])
    fresh.apply("neck", [0, 0, 0, 0, 0.1, 0])
    for sim in (*sims, fresh):
        sim.step(30)
    assert np.array_equal(sims[0].q, sims[1].q)
    assert np.allclose(sims[0].q, fresh.q, rtol=0, atol=1e-9)
    assert not np.allclose(sims[0].q, start.q, atol=1e-5)


NAMED = (
    ("set_target", "knee", 0.2),
    ("set_target", "belt", 0.1),
    ("set_target", "tail drive", 0.05),
    ("set_torque", "hip", 1.5),
    ("set_torque", "hip", 50.0),
    ("set_control", "push", 300.0),
    ("set_control", "hip servo", -0.3),
)


@pytest.mark.parametrize(("setter", "name", "value"), NAMED)
def test_all_ways_to_give_one_number_by_name_agree(setter, name, value):
    """A float, a float in a dictionary and NumPy's are read in the core; an array of one number takes the slow way."""
    sims = [supple.Simulation(robot(), 1e-3) for _ in range(5)]
    getattr(sims[0], setter)(name, value)
    getattr(sims[1], setter)({name: value})
    getattr(sims[2], setter)(name, np.float64(value))
    getattr(sims[3], setter)({name: np.array(value)})
    getattr(sims[4], setter)(MappingProxyType({name: value}))
    for sim in sims:
        sim.step(20)
        assert same(inputs(sim), inputs(sims[0]))
        assert np.array_equal(sim.q, sims[0].q)


WRONG_NAMED = (
    ("set_target", "knee", np.nan, "must be finite"),
    ("set_target", "knee", 2e9, "must be within 1e"),
    ("set_target", "kneee", 0.1, "did you mean 'knee'"),
    ("set_target", "axle", 0.1, "has no spring"),
    ("set_target", "knee", 10**400, "must be numbers"),
    ("set_torque", "axle", 0.1, "effort of 'axle' is zero"),
    ("set_torque", "wag", 0.1, "motor 'tail drive' prescribes 'wag'"),
    ("set_torque", "atlas", 0.1, "must have shape 3"),
    ("set_torque", "hip", "1", "must be numbers"),
    ("set_control", "hip", 0.1, "no actuator"),
    ("set_control", "push", np.inf, "must be finite"),
    ("set_control", ("push",), 0.1, "set_control takes a name"),
)


@pytest.mark.parametrize(("setter", "name", "value", "text"), WRONG_NAMED)
def test_a_wrong_name_or_number_changes_nothing(setter, name, value, text):
    sim = supple.Simulation(robot(), 1e-3)
    before = inputs(sim)
    with pytest.raises(supple.MechanismError, match=text):
        getattr(sim, setter)(name, value)
    if isinstance(name, str):
        right = {"set_target": ("hip", 0.1), "set_torque": ("hip", 0.1), "set_control": ("hip servo", 0.1)}[setter]
        with pytest.raises(supple.MechanismError, match=text):
            getattr(sim, setter)(dict([right, (name, value)]))
    assert same(inputs(sim), before)


def test_another_wrench_on_the_same_body():
    """The first call on a body resolves its name; later ones set the numbers only."""
    mech = robot()
    quick, slow = supple.Simulation(mech, 1e-3), supple.Simulation(mech, 1e-3)
    wrenches = ([1, 2, 3, 0.1, 0, 0], "world"), ([0, -2, 1, 0, 0.2, 0], "world"), ([3, 0, 0, 0, 0, 0.1], "body")
    for wrench, frame in wrenches:
        for name in ("foot", "trunk"):
            quick.apply(name, np.array(wrench, dtype=float), frame)
            quick.apply(name, np.array(wrench, dtype=float), frame)
            slow.apply(name, wrench, frame)
        quick.step(5)
        slow.step(5)
        assert np.array_equal(quick.q, slow.q)
    saved = quick.save()
    assert np.array_equal(saved.loads["trunk"].wrench, [3, 0, 0, 0, 0, 0.1])
    for wrong, text in ((np.full(6, np.nan), "must be finite"), (np.zeros(5), "must have shape 6")):
        with pytest.raises(supple.MechanismError, match=text):
            quick.apply("trunk", wrong)
    with pytest.raises(supple.MechanismError, match="frame must be"):
        quick.apply("trunk", np.zeros(6), "sideways")
    other = supple.Simulation(mech, 1e-3)
    other.restore(saved)
    for sim in (quick, other):
        sim.apply("trunk", np.ones(6))
        sim.step(10)
    assert np.array_equal(quick.q, other.q)


def test_unchanged_inputs_are_not_read_again():
    """One call of 50 steps and 50 calls of one step are the same to the last bit, with dynamics of actuators."""
    one, many = supple.Simulation(robot(), 1e-3), supple.Simulation(robot(), 1e-3)
    for sim in (one, many):
        sim.set_control({"knee servo": 1.0, "push": 100.0})
    one.step(50)
    for _ in range(50):
        many.step()
    assert np.array_equal(one.q, many.q)
    assert np.array_equal(one.qd, many.qd)
