"""Torques and actuators against MuJoCo: step responses, saturation, lag, tendons, and a gripper on a box."""

from dataclasses import replace

import mujoco
import numpy as np
import pytest
from tests.mujoco_reference import load_quietly

import supple
from supple.world import rigid_object

ARM = """<mujoco><option timestep="2e-4" integrator="RK4"/><worldbody>
<body name="a" pos="0 0 1"><joint name="j1" axis="0 1 0" damping="0.02" {joint}/>
 <geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.02" mass="0.5"/>
 <body name="b" pos="0.3 0 0"><joint name="j2" axis="0 1 0.2" damping="0.02" stiffness="0.3"/>
  <geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.02" mass="0.3"/>
  <body name="c" pos="0.3 0 0"><joint name="j3" type="slide" axis="1 0 0" damping="0.1"/>
   <geom type="box" size="0.02 0.02 0.02" mass="0.2"/></body></body></body></worldbody>
<contact><exclude body1="a" body2="b"/><exclude body1="b" body2="c"/><exclude body1="a" body2="c"/></contact>
<tendon><fixed name="t"><joint joint="j2" coef="1"/><joint joint="j3" coef="3"/></fixed></tendon>
<actuator>{actuator}</actuator></mujoco>"""

LAG = 'dyntype="filter" dynprm="0.05" gainprm="4" biastype="affine" biasprm="1 -3 -0.2"'
CASES = {
    "motor": ('<motor name="m" joint="j1" gear="3" ctrlrange="-1 1"/>', {"m": 0.4}),
    "clamped control": ('<motor name="m" joint="j1" ctrllimited="true" ctrlrange="-0.2 0.2"/>', {"m": 5.0}),
    "position": ('<position name="m" joint="j1" kp="20" kv="0.5"/>', {"m": 0.5}),
    "saturated": ('<position name="m" joint="j1" kp="200" kv="2" forcerange="-3 3"/>', {"m": 0.5}),
    "velocity": ('<velocity name="m" joint="j1" kv="2" gear="1.5"/>', {"m": 0.7}),
    "lag": (f'<general name="m" joint="j1" {LAG}/>', {"m": 0.9}),
    "integrator": ('<intvelocity name="m" joint="j1" kp="30" actrange="-1 1"/>', {"m": 2.0}),
    "gain of length": (
        '<general name="m" joint="j1" gaintype="affine" gainprm="5 -2 -0.3" biastype="affine" biasprm="0 -1 -0.1"/>',
        {"m": 1.3},
    ),
    "tendon": ('<position name="m" tendon="t" kp="80" kv="3" forcerange="-0.5 0.5" gear="2"/>', {"m": 0.8}),
    "force on a tendon": ('<motor name="m" tendon="t"/>', {"m": 0.3}),
    "several": (
        '<position name="m" joint="j1" kp="20"/><velocity name="v" joint="j1" kv="1"/><motor name="w" joint="j3"/>',
        {"m": 0.5, "v": 0.2, "w": 0.4},
    ),
    "limit of the joint": ('<position name="m" joint="j1" kp="200" kv="2"/>', {"m": 0.5}),
}


def arm(folder, actuator, joint=""):
    path = folder / "arm.xml"
    path.write_text(ARM.format(actuator=actuator, joint=joint))
    return load_quietly(path), mujoco.MjModel.from_xml_path(str(path))


def run_mujoco(model, seconds, controls=(), torques=None):
    data = mujoco.MjData(model)
    for name, value in dict(controls).items():
        data.ctrl[model.actuator(name).id] = value
    if torques is not None:
        data.qfrc_applied[:] = torques
    mujoco.mj_step(model, data, round(seconds / model.opt.timestep))
    return data


@pytest.mark.parametrize("case", CASES)
def test_step_responses_of_actuators_agree_with_mujoco(case, tmp_path):
    actuator, controls = CASES[case]
    mech, model = arm(tmp_path, actuator, 'actuatorfrcrange="-3 3"' if case == "limit of the joint" else "")
    data = run_mujoco(model, 0.1, controls)
    ends = []
    for dt in (1e-3, 5e-4):
        sim = supple.Simulation(mech, dt, "bdf2")
        sim.set_control(controls)
        sim.step(round(0.1 / dt))
        ends.append((np.asarray(sim.q), np.asarray(sim.qd)))
    q, qd = ((4 * fine - coarse) / 3 for coarse, fine in zip(*ends, strict=True))
    assert np.abs(q - data.qpos).max() < 1e-5
    assert np.abs(qd - data.qvel).max() < 5e-4
    sparse = supple.Simulation(mech, 1e-3, "bdf2")
    sparse._core.use_passes(False)
    sparse.set_control(controls)
    sparse.step(100)
    assert np.abs(sparse.q - ends[0][0]).max() < 1e-9


def test_a_torque_step_agrees_with_mujoco(tmp_path):
    mech, model = arm(tmp_path, "")
    torques = np.array([0.8, -0.3, 1.5])
    data = run_mujoco(model, 0.2, torques=torques)
    sim = supple.Simulation(mech, 1e-4, "bdf2")
    sim.set_torque(torques)
    sim.step(2000)
    assert np.abs(sim.q - data.qpos).max() < 1e-5
    assert np.abs(sim.qd - data.qvel).max() < 1e-4
    assert (sim.torques == torques).all()
    sim.set_torque({"j1": 0, "j3": -1.0})
    assert sim.torques["j2"] == -0.3
    assert sim.torques["j3"] == -1.0


def test_a_torque_on_the_hinge_of_a_loop_acts_between_its_bodies():
    """The same torque on a joint that closes a loop and on the same joint in the tree."""

    def linkage(order):
        b = supple.Builder("four-bar")
        b.link("crank", (0, 0, 0), (0.1, 0, 0.3), mass=0.4)
        b.link("coupler", (0.1, 0, 0.3), (0.7, 0, 0.5), mass=0.8)
        b.link("rocker", (0.6, 0, 0), (0.7, 0, 0.5), mass=0.6)
        joints = {
            "foot": ("world", "crank", (0, 0, 0)),
            "knee": ("crank", "coupler", (0.1, 0, 0.3)),
            "pivot": ("world", "rocker", (0.6, 0, 0)),
            "closure": ("rocker", "coupler", (0.7, 0, 0.5)),
        }
        for name in order:
            parent, child, at = joints[name]
            b.hinge(name, parent, child, at=at, axis="y", damping=0.02 * (name == "foot"))
        return b.build()

    sims = [supple.Simulation(linkage(order), 1e-3) for order in
            (("foot", "knee", "pivot", "closure"), ("closure", "pivot", "knee", "foot"))]  # fmt: skip
    for sim in sims:
        sim.set_torque("closure", 0.5)
        sim.step(100)
    assert np.abs(sims[0].poses.array - sims[1].poses.array).max() < 1e-9
    assert np.allclose(sims[0].reactions["closure"], sims[1].reactions["closure"], atol=1e-6)
    sparse = supple.Simulation(sims[0].mechanism, 1e-3)
    sparse._core.use_passes(False)
    sparse.set_torque("closure", 0.5)
    sparse.step(100)
    assert np.abs(sims[0].poses.array - sparse.poses.array).max() < 1e-9
    assert np.allclose(sims[0].reactions["closure"], sparse.reactions["closure"], atol=1e-6)


def test_saved_states_have_torques_controls_and_activations(tmp_path):
    mech, _ = arm(tmp_path, f'<general name="m" joint="j1" {LAG}/>')
    sim = supple.Simulation(mech, 1e-3)
    sim.set_control("m", 0.9)
    sim.set_torque("j3", 0.5)
    sim.step(20)
    saved = sim.save()
    sim.set_control("m", -2.0)
    sim.set_torque("j3", -1.0)
    sim.step(20)
    sim.restore(saved)
    assert sim.controls == {"m": 0.9}
    sim.step(20)
    there = sim.q.copy()
    sim.restore(saved)
    sim.step(20)
    assert (sim.q == there).all()
    sim.reset()
    assert sim.controls == {"m": 0.0}
    assert not sim.torques.any()


def test_a_set_point_of_an_actuator_s_spring_is_a_control(tmp_path):
    """Within the range of the force, and beyond it."""
    mech, _ = arm(tmp_path, '<position name="m" joint="j1" kp="200" kv="2" forcerange="-3 3"/>')
    by_control, by_target = (supple.Simulation(mech, 1e-3) for _ in range(2))
    by_control.set_control("m", 0.5)
    by_target.set_target("j1", 0.5)
    for sim in (by_control, by_target):
        sim.step(50)
    assert np.abs(by_control.q - by_target.q).max() < 1e-12
    assert by_target.controls["m"] == pytest.approx(0.5)
    assert abs(by_target.actuator_forces["m"]) <= 3
    off = supple.Simulation(mech, 1e-3)
    off.set_control("m", None)
    off.step(50)
    bare, _ = arm(tmp_path, "")
    free = supple.Simulation(bare, 1e-3)
    free.step(50)
    assert np.abs(off.q - free.q).max() < 1e-9
    assert off.controls == {"m": None}
    assert off.actuator_forces == {"m": 0.0}


def test_derivatives_refuse_a_saturated_actuator(tmp_path):
    mech, _ = arm(tmp_path, '<position name="m" joint="j1" kp="200" kv="2" forcerange="-3 3"/>')
    for target, refused in ((0.001, False), (0.5, True)):
        sim = supple.Simulation(mech, 1e-4)
        tape = sim.tape()
        sim.set_target("j1", target)
        sim.step(5)
        if refused:
            with pytest.raises(supple.MechanismError, match="limit of its force"):
                tape.poses  # noqa: B018
        else:
            assert tape.poses.shape == (6, 3, 4, 4)


@pytest.fixture(scope="module")
def gripper(robots):
    return replace(load_quietly(robots / "robotiq_2f85" / "2f85.xml"), gravity=(0, 0, 0))


def test_a_gripper_squeezes_with_the_force_of_its_file(gripper, robots):
    """Against MuJoCo within 2 %; the engine and a linear model that is made where the fingers nearly touch
    the box agree within 5 %."""
    half = (0.02, 0.015, 0.02)
    spec = mujoco.MjSpec.from_file(str(robots / "robotiq_2f85" / "2f85.xml"))
    spec.option.gravity = [0, 0, 0]
    spec.option.timestep = 1e-3
    body = spec.worldbody.add_body(name="box", pos=[0, 0, 0.15])
    body.add_freejoint()
    body.add_geom(type=mujoco.mjtGeom.mjGEOM_BOX, size=half, mass=0.2, friction=[0.5, 0.005, 1e-4], priority=1)
    model = spec.compile()
    data = mujoco.MjData(model)
    data.ctrl[0] = 255
    mujoco.mj_step(model, data, 600)
    expected, force = 0.0, np.zeros(6)
    for i in range(data.ncon):
        names = [model.body(model.geom_bodyid[g]).name for g in (data.contact[i].geom1, data.contact[i].geom2)]
        if "box" in names and "right_pad" in names:
            mujoco.mj_contactForce(model, data, i, force)
            expected += force[0]
    assert 40 < expected < 50

    found = []
    pads = ["right_pad", "left_pad"]
    nearly_closed = supple.equilibrium(gripper, targets={"split": 0.42})
    for sim in (
        supple.Simulation(gripper, 1e-3),
        supple.ReducedSimulation(supple.reduce(gripper, pads, at=nearly_closed), 1e-3),
    ):
        world = supple.World(gravity=(0, 0, 0))
        world.add(sim)
        world.add(rigid_object("box", "box", half, mass=0.2, at=(0, 0, 0.15), friction=0.5))
        sim.set_control("fingers_actuator", 255)
        world.step(300)
        assert sim.actuator_forces["fingers_actuator"] == pytest.approx(5.0, abs=0.01)
        found.append(sum(abs(c.force[0]) for c in world.contacts if "right_pad" in c.first + c.second))
    assert found[0] == pytest.approx(expected, rel=0.02)
    assert found[1:] == pytest.approx([found[0]], rel=0.05)


@pytest.mark.parametrize("case", ["position", "saturated", "gain of length", "tendon"])
def test_strain_energy_has_the_slope_of_the_forces_of_servos_and_none_of_those_switched_off(case, tmp_path):
    actuator, controls = CASES[case]
    mech, _ = arm(tmp_path, actuator)
    sim = supple.Simulation(mech, 1e-3)
    q, step = np.array([0.3, -0.4, 0.05]), 1e-6
    lever = 2 * np.array([0, 1, 3]) if case == "tendon" else np.array([1, 0, 0])  # gear times coefficients

    def strain(at):
        sim.set_q(at)
        return sim.energy.strain

    def own(at):  # of the spring of j2
        return 0.5 * 0.3 * at[1] ** 2

    sim.set_q(q)
    sim.set_control("m", None)
    assert sim.energy.strain == pytest.approx(own(q), abs=1e-12)
    for control in (0.0, controls["m"]):
        sim.set_control("m", control)
        sim.step()  # the activation is the control from the next step on
        slope = [(strain(q + d) - strain(q - d)) / (2 * step) for d in step * np.eye(3)]
        sim.set_q(q)
        expected = np.array([0, 0.3 * q[1], 0]) - lever * sim.actuator_forces["m"]
        assert slope == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("control", [None, 0.4])
@pytest.mark.parametrize("case", ["position", "saturated", "tendon"])
def test_linear_models_store_the_energy_of_the_engine(case, control, tmp_path):
    actuator, _ = CASES[case]
    mech = arm(tmp_path, actuator)[0].with_springs(2.0, 0.02)
    model = supple.reduce(mech, ["a", "b", "c"])
    engine, linear = supple.Simulation(mech, 1e-3), supple.ReducedSimulation(model, 1e-3)
    for sim in (engine, linear):
        sim.set_control("m", control)
        sim.step(60)
    engine.set_q(linear.q)
    assert linear.energy.strain == pytest.approx(engine.energy.strain, rel=1e-9)


def test_a_pendulum_whose_servo_is_switched_off_keeps_its_energy(tmp_path):
    path = tmp_path / "pendulum.xml"
    path.write_text("""<mujoco><worldbody><body name="a"><joint name="j" axis="0 1 0"/>
    <geom type="capsule" fromto="0 0 0 0.3 0 0" size="0.02" mass="0.5"/></body></worldbody>
    <actuator><position name="m" joint="j" kp="2000"/></actuator></mujoco>""")
    sim = supple.Simulation(load_quietly(path), 5e-4, "bdf2")
    sim.set_q([0.8])
    sim.set_control("m", None)
    before = sim.energy.total
    assert before == sim.energy.gravity
    sim.step(400)
    assert sim.energy.kinetic > 0.1
    assert sim.energy.total == pytest.approx(before, abs=1e-4)
