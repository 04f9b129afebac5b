"""Imported robots and small models of every kind agree with MuJoCo itself."""

from __future__ import annotations

from pathlib import Path

import mujoco
import numpy as np
import pytest

import mujoco_reference as reference
import supple
from supple import spatial

ROBOTS = [
    "robotiq_2f85/2f85.xml",
    "robotiq_2f85/scene.xml",
    "shadow_hand/right_hand.xml",
    "shadow_hand/left_hand.xml",
    "shadow_hand/scene_right.xml",
    "shadow_hand/scene_left.xml",
    "iit_softfoot/softfoot.xml",
    "iit_softfoot/scene.xml",
]
MASS = '<inertial mass="1.3" pos=".1 .2 -.1" fullinertia=".03 .02 .025 .002 .001 -.003"/>'
TURN = 'pos=".3 -.2 .5" euler="20 -35 70"'
JOINTS = {
    "hinge": '<joint name="a" pos=".1 0 .2" axis="1 2 3"/>',
    "slide": '<joint name="a" type="slide" pos=".1 0 .2" axis="1 2 3"/>',
    "hinge with ref": '<joint name="a" pos=".1 0 .2" axis="1 2 3" ref="40" armature=".2"/>',
    "slide with ref": '<joint name="a" type="slide" axis="1 2 3" ref=".4"/>',
    "ball": '<joint name="a" type="ball" pos=".1 -.3 .2"/>',
    "fixed": "",
    "two hinges apart": '<joint name="a" pos=".1 0 .2" axis="1 2 3"/><joint name="b" pos="0 .3 0" axis="0 1 -1"/>',
    "three hinges with ref": '<joint name="a" axis="1 0 0" ref="10"/><joint name="b" pos="0 .3 0" ref="-50"/>'
    '<joint name="c" pos=".2 0 0" axis="1 1 0" ref="25"/>',
    "slides and hinges": '<joint name="a" type="slide" axis="1 0 1" ref=".2"/><joint name="b" pos="0 .3 0" ref="30"/>'
    '<joint name="c" type="slide" axis="0 1 1" ref="-.1"/><joint name="d" axis="0 1 0" pos=".1 .1 .1"/>',
    "slides and ball": '<joint name="a" type="slide" axis="1 0 0" ref=".2"/><joint name="b" type="slide" axis="0 1 0"/>'
    '<joint name="c" type="slide"/><joint name="d" type="ball" pos=".1 .2 .3"/>',
    "hinge and ball": '<joint name="a" pos=".3 0 0" axis="0 1 0" ref="50"/>'
    '<joint name="b" type="ball" pos=".1 .2 .3"/>',
    "ball and slide": '<joint name="a" type="ball" pos=".1 .2 .3"/>'
    '<joint name="b" type="slide" axis="0 1 1" ref=".3"/>',
}


def model_text(inner: str, outside: str = "", free: bool = False) -> str:
    """A base, fixed or free, with two bodies one after the other whose joints are `inner`."""
    second = inner.replace('name="', 'name="second_')
    base = '<freejoint name="float"/>' if free else ""
    return (
        f'<mujoco><worldbody><body name="base" {TURN}>{base}{MASS}'
        f'<body name="one" {TURN}>{inner}{MASS}<body name="two" {TURN}>{second}{MASS}'
        f'<site name="tip" pos=".1 .2 .3" euler="10 20 30"/></body></body></body></worldbody>{outside}</mujoco>'
    )


@pytest.fixture(params=ROBOTS)
def robot(request: pytest.FixtureRequest, robots: Path) -> tuple[supple.Mechanism, mujoco.MjModel]:
    path = robots / request.param
    return reference.load_quietly(path), mujoco.MjModel.from_xml_path(str(path))


@pytest.fixture(params=[(kind, free) for kind in JOINTS for free in (False, True)], ids=lambda p: f"{p[0]}, {p[1]}")
def small(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[supple.Mechanism, mujoco.MjModel]:
    kind, free = request.param
    return both(model_text(JOINTS[kind], free=free), tmp_path)


def both(text: str, folder: Path) -> tuple[supple.Mechanism, mujoco.MjModel]:
    """A model as supple and as MuJoCo read it."""
    path = folder / "model.xml"
    path.write_text(text)
    return reference.load_quietly(path), mujoco.MjModel.from_xml_path(str(path))


def check_bodies(mech: supple.Mechanism, model: mujoco.MjModel) -> None:
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    assert len(mech.bodies) == model.nbody - 1
    for b, body in enumerate(mech.bodies, 1):
        assert body.name == model.body(b).name
        np.testing.assert_allclose(body.pose, reference.pose(data.xpos[b], data.xmat[b]), atol=1e-10)
        assert body.mass == pytest.approx(model.body_mass[b], abs=1e-10)
        centre = model.body_ipos[b] if body.mass > 0 else np.zeros(3)  # without mass MuJoCo writes something else there
        np.testing.assert_allclose(body.centre, centre, atol=1e-10)
        turn = spatial.matrix_from_quat_wxyz(model.body_iquat[b])
        np.testing.assert_allclose(body.inertia, turn @ np.diag(model.body_inertia[b]) @ turn.T, atol=1e-10)


def check_motion(mech: supple.Mechanism, model: mujoco.MjModel, count: int) -> None:
    """Poses, mass matrix and Jacobians at random configurations."""
    rng = np.random.default_rng(7)
    for _ in range(count):
        data = reference.random_state(model, rng)
        q = reference.coordinates(model, data.qpos)
        rates = reference.velocity_map(model, q)
        state = supple.kinematics(mech, q)
        for b in range(1, model.nbody):
            np.testing.assert_allclose(state.poses[b - 1], reference.pose(data.xpos[b], data.xmat[b]), atol=1e-9)
            ours = state.jacobian(mech.bodies[b - 1].name)
            np.testing.assert_allclose(ours, reference.body_jacobian(model, data, b) @ rates, atol=1e-9)
        some = mech.bodies[rng.integers(len(mech.bodies))].name
        np.testing.assert_array_equal(supple.jacobian(mech, some, q), state.jacobian(some))
        expected = rates.T @ reference.mass_matrix(model, data) @ rates
        np.testing.assert_allclose(supple.mass_matrix(mech, q), expected, atol=1e-9)


def check_forces(mech: supple.Mechanism, model: mujoco.MjModel, count: int, tolerance: float = 1e-9) -> None:
    """Springs, dampers and spring-like actuators, with MuJoCo's force limits and dry friction taken off."""
    rng = np.random.default_rng(11)
    model.actuator_forcelimited[:] = 0
    model.opt.viscosity = 0
    for t in range(model.ntendon):
        if model.wrap_type[model.tendon_adr[t]] != mujoco.mjtWrap.mjWRAP_JOINT:
            model.tendon_stiffness[t] = model.tendon_damping[t] = 0
    for _ in range(count):
        data = reference.random_state(model, rng)
        q = reference.coordinates(model, data.qpos)
        rates = reference.velocity_map(model, q)
        expected = rates.T @ (data.qfrc_passive + data.qfrc_actuator)
        ours = reference.spring_forces(mech, q, np.linalg.solve(rates, data.qvel))
        np.testing.assert_allclose(ours, expected, atol=tolerance * max(1.0, np.abs(expected).max()))


def test_bodies_of_robots(robot: tuple[supple.Mechanism, mujoco.MjModel]) -> None:
    check_bodies(*robot)


def test_motion_of_robots(robot: tuple[supple.Mechanism, mujoco.MjModel]) -> None:
    check_motion(*robot, count=20)


def test_forces_of_robots(robot: tuple[supple.Mechanism, mujoco.MjModel]) -> None:
    check_forces(*robot, count=20)


def test_meshes_of_robots(robot: tuple[supple.Mechanism, mujoco.MjModel]) -> None:
    """World vertices of every mesh geom, and sites."""
    mech, model = robot
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    meshes = {mesh.name: mesh for mesh in mech.meshes}
    for b, body in enumerate(mech.bodies, 1):
        geoms = np.flatnonzero(model.geom_bodyid == b)
        assert len(geoms) == len(body.shapes)
        for g, shape in zip(geoms, body.shapes, strict=True):
            placed = body.pose @ shape.pose
            # MuJoCo replaces a geom's frame by the body's inertial frame where the two nearly agree
            tolerance = 1e-10 if not model.geom_sameframe[g] else 1e-5
            expected = reference.pose(data.geom_xpos[g], data.geom_xmat[g])
            np.testing.assert_allclose(placed, expected, atol=tolerance)
            if shape.mesh is not None:
                m = model.geom_dataid[g]
                start, count = model.mesh_vertadr[m], model.mesh_vertnum[m]
                np.testing.assert_array_equal(meshes[shape.mesh].vertices, model.mesh_vert[start : start + count])
    for s, site in enumerate(mech.sites):
        expected = reference.pose(data.site_xpos[s], data.site_xmat[s])
        np.testing.assert_allclose(mech.poses[site.name], expected, atol=1e-10)


def test_mobility_of_the_gripper(robots: Path) -> None:
    assert reference.load_quietly(robots / "robotiq_2f85" / "2f85.xml").mobility == 3


def test_small_models(small: tuple[supple.Mechanism, mujoco.MjModel]) -> None:
    check_bodies(*small)
    check_motion(*small, count=10)


SPRUNG = (
    '<joint name="a" axis="1 2 3" stiffness="30" springref="20" damping=".4" ref="10"/>'
    '<joint name="b" type="slide" axis="1 0 0" stiffness="7" damping=".2"/>'
)
OUTSIDE = {
    "own springs": "",
    "position": '<actuator><position joint="a" kp="50" kv="2"/><position joint="second_b" kp="20" gear="-3"/>'
    "</actuator>",
    "two damped drives": '<actuator><position joint="a" kp="50" damping=".3" armature=".2"/>'
    '<motor joint="a" gear="2" damping=".5" armature=".1"/></actuator>',
    "two on one joint": '<actuator><position joint="a" kp="50" ctrlrange=".2 .4"/>'
    '<general joint="a" gear="2" biastype="affine" gainprm="3" biasprm="4 -5 -6"/></actuator>',
    "affine gain": '<actuator><general joint="a" gaintype="affine" gainprm="1 -2 -3" biastype="affine" '
    'biasprm=".1 -5 -1" ctrlrange=".5 1"/></actuator>',
    "velocity": '<actuator><velocity joint="b" kv="4" gear="2"/></actuator>',
    "damped drive": '<actuator><position joint="b" kp="5" damping=".7" armature=".2" gear="3"/></actuator>',
    "tendon": '<tendon><fixed name="t" stiffness="9" damping=".3" springlength=".1"><joint joint="a" coef="2"/>'
    '<joint joint="second_a" coef="-1"/></fixed></tendon>',
    "driven tendon": '<tendon><fixed name="t"><joint joint="a" coef="2"/><joint joint="second_a" coef="-1"/></fixed>'
    '</tendon><actuator><position tendon="t" kp="30" kv="2" gear="2"/></actuator>',
}


@pytest.mark.parametrize("outside", OUTSIDE.values(), ids=OUTSIDE)
def test_springs(outside: str, tmp_path: Path) -> None:
    mech, model = both(model_text(SPRUNG, outside), tmp_path)
    check_forces(mech, model, count=20)
    check_motion(mech, model, count=3)  # armature of drives


def test_ball_spring(tmp_path: Path) -> None:
    check_forces(*both(model_text('<joint name="a" type="ball" stiffness="3"/>', free=True), tmp_path), count=20)


def test_polynomial_stiffness_is_sampled(tmp_path: Path) -> None:
    joints = '<joint name="a" stiffness="2 3 5" springref="10" range="-100 100"/>'
    check_forces(*both(model_text(joints), tmp_path), count=20, tolerance=1e-3)


def test_slack_tendon(tmp_path: Path) -> None:
    tendon = '<tendon><fixed name="t" stiffness="9" springlength="-.2 .3"><joint joint="a" coef="1"/></fixed></tendon>'
    mech, model = both(model_text('<joint name="a"/>', tendon), tmp_path)
    check_forces(mech, model, count=20, tolerance=1e-4)


EQUALITIES = {
    "connect": '<connect name="e" body1="one" body2="two" anchor=".1 .4 -.2"/>',
    "connect to world": '<connect name="e" body1="two" anchor=".1 .4 -.2"/>',
    "connect sites": '<connect name="e" site1="tip" site2="home"/>',
    "weld": '<weld name="e" body1="base" body2="two" anchor=".1 .2 .3"/>',
    "weld with relpose": '<weld name="e" body1="base" body2="two" relpose=".1 .2 .3 .5 .5 -.5 .5" anchor="1 2 3"/>',
    "weld sites": '<weld name="e" site1="tip" site2="home"/>',
}


@pytest.mark.parametrize("equality", EQUALITIES.values(), ids=EQUALITIES)
def test_loops(equality: str, tmp_path: Path) -> None:
    """The gap of a loop is the violation that MuJoCo's solver sees."""
    text = model_text(JOINTS["two hinges apart"], f"<equality>{equality}</equality>")
    mech, model = both(
        text.replace("<worldbody>", '<worldbody><site name="home" pos="1 2 3" euler="1 2 3"/>'), tmp_path
    )
    rng = np.random.default_rng(3)
    for _ in range(10):
        data = reference.random_state(model, rng)
        state = supple.kinematics(mech, reference.coordinates(model, data.qpos))
        joint = mech.joint("e")
        between = spatial.inverse(state.poses[joint.parent] @ joint.pose_parent) @ (
            state.poses[joint.child] @ joint.pose_child
        )
        violation = data.efc_pos[data.efc_type == mujoco.mjtConstraint.mjCNSTR_EQUALITY]
        assert np.linalg.norm(between[:3, 3]) == pytest.approx(np.linalg.norm(violation[:3]), abs=1e-9)
        if joint.kind == "fixed":
            angle = np.linalg.norm(spatial.so3_log(between[:3, :3]))
            # MuJoCo's rows are the vector part of a quaternion
            assert abs(np.sin(angle / 2)) == pytest.approx(np.linalg.norm(violation[3:6]), abs=1e-9)


COUPLED = {
    "joints": '<joint name="e" joint1="a" joint2="second_a" polycoef=".1 .7 0 0 0"/>',
    "one joint": '<joint name="e" joint1="a" polycoef=".1 0 0 0 0"/>',
    "tendons": '<tendon name="e" tendon1="t" tendon2="u" polycoef=".1 -.6 0 0 0"/>',
}


@pytest.mark.parametrize("equality", COUPLED.values(), ids=COUPLED)
def test_rigid_couplings(equality: str, tmp_path: Path) -> None:
    tendons = (
        '<tendon><fixed name="t"><joint joint="a" coef="2"/><joint joint="second_b" coef="-1"/></fixed>'
        '<fixed name="u"><joint joint="second_a" coef="3"/><joint joint="a" coef=".5"/></fixed></tendon>'
    )
    joints = '<joint name="a" axis="1 2 3" ref="30"/><joint name="b" axis="1 0 0" ref="-50"/>'
    mech, model = both(model_text(joints, f"{tendons}<equality>{equality}</equality>"), tmp_path)
    coupling = next(c for c in mech.couplings if c.name == "e")
    assert coupling.rigid
    rng = np.random.default_rng(3)
    for _ in range(10):
        data = reference.random_state(model, rng)
        q = dict(zip(mech.coordinates, reference.coordinates(model, data.qpos), strict=True))
        length = sum(c * q[name] for name, c in zip(coupling.coordinates, coupling.coefficients, strict=True))
        assert length - coupling.rest == pytest.approx(data.efc_pos[0], abs=1e-12)


DRAGGED = """<mujoco><compiler angle="radian"/><option timestep="0.001" integrator="implicitfast" gravity="0 0 -2"/>
<default><equality solimp="0.95 0.95 0.001"/></default><worldbody>
  <body name="handle" mocap="true" pos="0.55 0 0.4" quat="0.96 0 0.28 0"/>
  <body name="upper" pos="0 0 0.5"><joint name="a" type="ball" damping="0.02"/>
    <geom type="capsule" size="0.02" fromto="0 0 0 0.3 0 0"/>
    <body name="lower" pos="0.3 0 0"><joint name="b" axis="0 1 0" damping="0.02"/>
      <joint name="c" axis="0 0 1" damping="0.02"/>
      <joint name="d" axis="1 0 0" damping="0.02"/><geom type="capsule" size="0.02" fromto="0 0 0 0.3 0 0"/>
    </body>
  </body>
</worldbody><equality>{}</equality></mujoco>"""


@pytest.mark.parametrize(
    "equality",
    [
        '<weld name="e" body1="handle" body2="lower"/>',
        '<weld name="e" body1="lower" body2="handle" solimp="0.97 0.97 0.001" solref="0.01 1"/>',
        '<weld name="e" body1="handle" body2="lower" torquescale="0.5"/>',
        '<weld name="e" body1="lower" body2="handle" relpose="0.28 0.02 0.01 1 0 0 0" solimp="0.97 0.97 0.001"/>',
        '<connect name="e" body1="lower" body2="handle" anchor="0.25 0 0"/>',
        '<connect name="e" body1="handle" body2="lower" anchor="0 0 0" solref="-4000 -120"/>',
    ],
)
def test_mocap_bodies_drag_with_the_stiffness_of_mujoco(equality: str, tmp_path: Path) -> None:
    """Where the arm comes to rest under its weight, at the mocap body's first place and after the user has moved it."""
    mech, model = both(DRAGGED.format(equality), tmp_path)
    assert "moves the pose that it pulls to" in "\n".join(map(str, mech.import_report))
    (grip,) = (mech.joints[j] for j in mech.topology.loops)
    assert grip.parent == "handle"
    assert grip.axes == tuple(f"e.{x}" for x in ("x", "y", "z", "rx", "ry", "rz"))
    sim, data = supple.Simulation(mech, 2e-3), mujoco.MjData(model)
    for shift in (np.zeros(3), np.array([0.02, -0.03, 0.01])):
        along = (supple.kinematics(mech).poses["handle"] @ grip.pose_parent)[:3, :3].T @ shift
        sim.set_target({f"e.{x}": value for x, value in zip("xyz", along, strict=True)})
        data.mocap_pos[0] = model.body("handle").pos + shift
        mujoco.mj_step(model, data, 6000)
        sim.step(3000)
        held = pose(data, "lower") @ grip.pose_child
        sag = held[:3, 3] - (pose(data, "handle") @ grip.pose_parent)[:3, 3]
        assert np.linalg.norm((sim.poses["lower"] @ grip.pose_child - held)[:3, 3]) < 0.02 * np.linalg.norm(sag)
        if "weld" in equality:
            assert np.abs(sim.poses["lower"] - pose(data, "lower"))[:3, :3].max() < 1e-3
    assert sim._core.solver == "passes"


def pose(data: mujoco.MjData, body: str) -> np.ndarray:
    return reference.pose(data.body(body).xpos, data.body(body).xmat)
