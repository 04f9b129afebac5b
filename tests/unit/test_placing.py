"""Mechanisms placed, mounted, joined, loaded and separated; what belongs to them follows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import supple
from mujoco_reference import load_quietly
from supple import spatial
from supple.mechanism import Actuator, Joint, Keyframe, Shape

PLACE = spatial.pose(spatial.so3_exp(np.array([0.2, -0.4, 1.1])), np.array([1.0, -2.0, 0.5]))
EYE = np.eye(4)


@pytest.fixture(scope="module")
def arm() -> supple.Mechanism:
    b = supple.Builder("arm")
    b.link("upper", (0, 0, 0), (0, 0, 1), mass=2.0)
    b.link("lower", (0, 0, 1), (1, 0, 1), mass=1.0)
    b.hinge("shoulder", "world", "upper", at=(0, 0, 0), axis="y", limits=(-2, 2), stiffness=5.0)
    b.hinge("elbow", "upper", "lower", at=(0, 0, 1), axis="y")
    b.site("tool0", "lower", pose=spatial.pose(spatial.so3_exp(np.array([0, 1.0, 0])), np.array([1.0, 0, 1])))
    b.site("mark", "world", at=(0, 0, 0))
    b.motor("drive", "elbow")
    b.ground(Shape("box", (1, 1, 0.1), EYE))
    return replace(b.build(), keyframes=(Keyframe("bent", np.array([0.3, -0.7])),))


@pytest.fixture(scope="module")
def gripper() -> supple.Mechanism:
    b = supple.Builder("gripper")
    b.mesh("pad", [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], [[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]])
    b.body("palm", spatial.translation(np.array([0, 0, 0.1])), 0.5, (0, 0, 0.01), (1e-3, 1e-3, 1e-3))
    for i, x in enumerate((-0.05, 0.05)):
        pad = Shape("mesh", (), EYE, mesh="pad", name=f"pad{i}")  # type: ignore[arg-type]
        pose = spatial.translation(np.array([x, 0, 0.15]))
        b.body(f"finger{i}", pose, 0.1, (0, 0, 0.02), (1e-4, 1e-4, 1e-4), [pad])
        b.slide(f"slide{i}", "palm", f"finger{i}", at=(x, 0, 0.15), axis="x", limits=(-0.03, 0.03), stiffness=10.0)
    b.fixed("mount", "world", "palm")
    b.couple("together", {"slide0": 1.0, "slide1": 1.0}, rigid=True)
    b.couple("tendon", {"slide0": 1.0, "slide1": -1.0}, stiffness=3.0)
    b.exclude("finger0", "finger1")
    b.exclude("palm", "world")
    drives = (Actuator("grip", "tendon", gear=2.0), Actuator("push", "slide0"))
    return replace(b.build(), keyframes=(Keyframe("open", np.array([-0.02, 0.02])),), actuators=drives)


# placed


def test_placed_moves_everything(arm: supple.Mechanism) -> None:
    there = arm.placed(PLACE)
    q = np.array([0.4, 0.9])
    before, after = supple.kinematics(arm, q), supple.kinematics(there, q)
    for name in ("upper", "lower", "tool0", "mark"):
        np.testing.assert_allclose(after.poses[name], PLACE @ before.poses[name], atol=1e-12)
    np.testing.assert_allclose(there.shapes[0].pose, PLACE)
    np.testing.assert_allclose(supple.mass_matrix(there, q), supple.mass_matrix(arm, q), atol=1e-12)
    np.testing.assert_array_equal(there.keyframes[0].coordinates, arm.keyframes[0].coordinates)
    np.testing.assert_array_equal(there.gravity, arm.gravity)
    with pytest.raises(supple.MechanismError, match="the pose to place 'arm' at is not a rigid pose"):
        arm.placed(2 * EYE)


# the base


def test_free_base_has_the_world_pose_as_coordinates(arm: supple.Mechanism) -> None:
    free = arm.placed(PLACE).with_base("free")
    joint = free.joint("upper_free")
    assert joint.kind == "free"
    np.testing.assert_allclose(joint.reference[:3], PLACE[:3, 3])
    np.testing.assert_allclose(free.poses.array, arm.placed(PLACE).poses.array, atol=1e-12)
    assert free.coordinates[0] == "upper_free.x"
    bent = free.at("bent")
    np.testing.assert_allclose(bent.poses["tool0"], PLACE @ arm.at("bent").poses["tool0"], atol=1e-9)
    again = free.with_base("fixed")
    np.testing.assert_allclose(again.poses.array, free.poses.array, atol=1e-12)
    assert again.coordinates == ("elbow",)
    assert [key.coordinates.tolist() for key in again.keyframes] == [[-0.7]]


def test_any_joint_as_base(arm: supple.Mechanism) -> None:
    rail = Joint("rail", "world", "upper", PLACE, EYE, [[1, 0, 0, 0, 0, 0]], limits=(0, 2), reference=[0.5])  # type: ignore[arg-type]
    moved = arm.with_base(rail)
    expected = PLACE @ spatial.translation(np.array([0.5, 0, 0]))
    np.testing.assert_allclose(moved.poses["upper"], expected, atol=1e-12)
    offset = spatial.inverse(arm.poses["upper"]) @ arm.poses["tool0"]
    np.testing.assert_allclose(moved.poses["tool0"], expected @ offset, atol=1e-12)
    assert moved.coordinates == ("rail", "elbow")


def test_bases_that_cannot_be_changed(arm: supple.Mechanism) -> None:
    for base in ("floating", 3, None):
        with pytest.raises(supple.MechanismError, match="the base is 'fixed', 'free' or a Joint"):
            arm.with_base(base)  # type: ignore[arg-type]
    with pytest.raises(supple.MechanismError, match="needs a joint from 'world' to 'upper'"):
        arm.with_base(Joint("j", "world", "lower", EYE, EYE))
    two = supple.attach(arm, "world", arm, prefix="second/", pose=PLACE)
    with pytest.raises(
        supple.MechanismError, match="to the world by 2 joints, 'shoulder', 'second/shoulder'"
    ):
        two.with_base("free")
    driven = supple.Builder("b")
    driven.link("a", (0, 0, 0), (0, 0, 1), mass=1.0)
    driven.hinge("h", "world", "a", at=(0, 0, 0), axis="y")
    driven.motor("m", "h")
    with pytest.raises(supple.MechanismError, match="'m' acts on 'h' of the old base"):
        driven.build().with_base("free")


# attach


def test_attach(arm: supple.Mechanism, gripper: supple.Mechanism) -> None:
    both = supple.attach(arm, "tool0", gripper, prefix="g/")
    assert [b.name for b in both.bodies] == ["upper", "lower", "g/palm", "g/finger0", "g/finger1"]
    assert both.coordinates == ("shoulder", "elbow", "g/slide0", "g/slide1")
    q = np.array([0.3, -0.4, 0.01, -0.01])
    state = supple.kinematics(both, q)
    at_tool = supple.kinematics(arm, q[:2]).poses["tool0"]
    alone = supple.kinematics(gripper, q[2:])
    for name in ("palm", "finger0", "finger1"):
        np.testing.assert_allclose(state.poses[f"g/{name}"], at_tool @ alone.poses[name], atol=1e-12)
    assert both.mass == pytest.approx(arm.mass + gripper.mass)
    tie, _ = both.couplings
    assert (tie.name, tie.coordinates) == ("g/together", ("g/slide0", "g/slide1"))
    assert [mesh.name for mesh in both.meshes] == ["g/pad"]
    assert both.body("g/finger1").shapes[0].mesh == "g/pad"
    assert both.contact_excludes == (("g/finger0", "g/finger1"), ("g/palm", "lower"))
    keys = {key.name: key.coordinates.tolist() for key in both.keyframes}
    assert keys == {"bent": [0.3, -0.7, 0, 0], "g/open": [0, 0, -0.02, 0.02]}
    assert both.motors == arm.motors
    drives = [("g/grip", "g/tendon", 2), ("g/push", "g/slide0", 1)]
    assert [(a.name, a.drives, a.gear) for a in both.actuators] == drives
    supple.Simulation(both, dt=1e-3).step(5)


def test_attach_with_an_offset_and_to_the_world(arm: supple.Mechanism, gripper: supple.Mechanism) -> None:
    on_body = supple.attach(arm, "lower", gripper, pose=PLACE)
    np.testing.assert_allclose(on_body.poses["palm"], arm.poses["lower"] @ PLACE @ gripper.poses["palm"], atol=1e-12)
    beside = supple.attach(arm, "world", arm, prefix="second/", pose=PLACE)
    np.testing.assert_allclose(beside.poses["second/tool0"], PLACE @ arm.poses["tool0"], atol=1e-12)
    assert len(beside.shapes) == 2


def test_a_free_base_is_fixed_at_the_mount(arm: supple.Mechanism, gripper: supple.Mechanism) -> None:
    free = gripper.placed(PLACE).with_base("free")
    both = supple.attach(arm, "tool0", free)
    assert both.joint("palm_fixed").kind == "fixed"
    np.testing.assert_allclose(both.poses["palm"], arm.poses["tool0"], atol=1e-12)
    assert both.keyframes[-1].coordinates.tolist() == [0, 0, -0.02, 0.02]


def test_attach_refuses(arm: supple.Mechanism, gripper: supple.Mechanism) -> None:
    with pytest.raises(supple.MechanismError, match=r"no body or site of 'arm' named 'tool'; did you mean 'tool0'"):
        supple.attach(arm, "tool", gripper)
    with pytest.raises(supple.MechanismError, match=r"both have a body or site named 'lower'.*; give another prefix"):
        supple.attach(arm, "tool0", arm)
    once = supple.attach(arm, "tool0", gripper, prefix="g/")
    with pytest.raises(supple.MechanismError, match="both have a body or site named 'g/finger0'"):
        supple.attach(once, "tool0", gripper, prefix="g/")
    with pytest.raises(supple.MechanismError, match="prefix of names is a text"):
        supple.attach(arm, "tool0", gripper, prefix=3)  # type: ignore[arg-type]
    with pytest.raises(supple.MechanismError, match="a Mechanism is needed"):
        supple.attach(arm, "tool0", "gripper.xml")  # type: ignore[arg-type]
    floor = replace(gripper, shapes=(Shape("plane", (0, 0, 1), EYE),))
    with pytest.raises(supple.MechanismError, match=r"has ground .* which 'lower' cannot carry"):
        supple.attach(arm, "tool0", floor, prefix="g/")


# payload


def test_payload_is_a_fixed_body(arm: supple.Mechanism) -> None:
    loaded = arm.with_payload("tool0", 2.0, (0.1, 0.2, 0.3), (0.1, 0.2, 0.25))
    b = supple.Builder("load")
    b.body("ball", None, 2.0, (0.1, 0.2, 0.3), (0.1, 0.2, 0.25))
    b.fixed("f", "world", "ball")
    fixed = supple.attach(arm, "tool0", b.build())
    q = np.array([0.5, -1.0])
    np.testing.assert_allclose(supple.mass_matrix(loaded, q), supple.mass_matrix(fixed, q), rtol=1e-12)
    np.testing.assert_allclose(loaded.centre, fixed.centre, atol=1e-12)
    assert loaded.mass == pytest.approx(5.0)
    with pytest.raises(supple.MechanismError, match="'mark' is fixed to the world"):
        arm.with_payload("mark", 1.0)
    with pytest.raises(supple.MechanismError, match="negative mass"):
        arm.with_payload("tool0", -1.0)
    with pytest.raises(supple.MechanismError, match="did you mean"):
        arm.with_payload("tol0", 1.0)


# taking away


def test_without_undoes_attach(arm: supple.Mechanism, gripper: supple.Mechanism) -> None:
    both = supple.attach(arm, "tool0", gripper, prefix="g/")
    alone = both.without("g/palm")
    assert replace(alone, keyframes=()) == replace(arm, keyframes=())
    assert [key.coordinates.tolist() for key in alone.keyframes] == [[0.3, -0.7], [0, 0]]
    one_finger = both.without(["g/finger1"])
    assert one_finger.coordinates == ("shoulder", "elbow", "g/slide0")
    assert one_finger.couplings == ()
    assert [actuator.name for actuator in one_finger.actuators] == ["g/push"]
    with pytest.raises(supple.MechanismError, match="nothing is left of 'arm'"):
        arm.without("upper")
    with pytest.raises(supple.MechanismError, match="'world' is the fixed frame"):
        arm.without("world")
    with pytest.raises(supple.MechanismError, match="no body of 'arm' named 'hand'"):
        arm.without("hand")


def test_split(arm: supple.Mechanism, tmp_path) -> None:
    text = """<mujoco model="scene"><worldbody><geom name="floor" type="plane" size="1 1 .1"/>
      <body name="arm" pos="0 0 1"><joint name="j" axis="0 1 0"/><geom size=".1"/>
        <body name="hand" pos="0 0 1"><joint name="k" axis="0 1 0"/><geom size=".1"/></body></body>
      <body name="cube" pos="1 2 3"><freejoint name="cube"/><geom type="box" size=".1 .1 .1"/></body>
      <body name="ball" pos="1 2 4"><freejoint/><geom size=".1"/></body></worldbody>
      <keyframe><key name="home" qpos="0.1 0.2 0 0 0 1 0 0 0 0 0 1 1 0 0 0"/></keyframe></mujoco>"""
    path = tmp_path / "scene.xml"
    path.write_text(text)
    scene = load_quietly(path)
    robot, objects = scene.split()
    assert [b.name for b in robot.bodies] == ["arm", "hand"]
    assert [b.name for b in objects] == ["cube", "ball"]
    np.testing.assert_array_equal(objects[0].pose[:3, 3], [1, 2, 3])
    assert robot.keyframes[0].coordinates.tolist() == [0.1, 0.2]
    assert [s.name for s in robot.shapes] == ["floor"]
    world = supple.World()
    world.add(supple.Simulation(robot, dt=1e-3))
    for body in objects:
        world.add(body, meshes=scene.meshes)
    world.step(3)
    assert arm.split() == (arm, ())
    with pytest.raises(supple.MechanismError, match="has only loose objects"):
        scene.without("arm").split()
