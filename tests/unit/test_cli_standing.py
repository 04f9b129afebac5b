"""`supple view` and `supple run --time` of files with ground or a free base: contact, keyframe and floor."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest

import supple
from supple.viewer import Session

LEG = """<body name="{0}{1}" pos="{0}.15 {1}.1 0"><joint name="knee{0}{1}" axis="0 1 0" range="-110 110" damping="0.1"/>
<geom type="capsule" fromto="0 0 0 0 0 -0.3" size="0.02" mass="0.2"/></body>"""
LEGS = "".join(LEG.format(x, y) for x in "+-" for y in "+-")
SERVOS = "".join(f'<position name="s{x}{y}" joint="knee{x}{y}" kp="60" kv="2"/>' for x in "+-" for y in "+-")
FLOOR = '<geom name="floor" type="plane" size="5 5 1"/>'
KEYS = """<keyframe><key name="high" qpos="0 0 2 1 0 0 0 0 0 0 0" ctrl="0 0 0 0"/>
<key name="home" qpos="0 0 0.3 1 0 0 0 .3 .3 .3 .3" ctrl=".3 .3 .3 .3"/></keyframe>"""
DEPTH = 0.3 * np.cos(0.3) + 0.02 - 0.3
"""m of the feet below the floor at home."""


def dog(ground: str = FLOOR, keys: str = KEYS, base: str = "<freejoint/>") -> str:
    return f"""<mujoco model="dog"><worldbody>{ground}<body name="trunk" pos="0 0 0.5">{base}
    <geom type="box" size="0.2 0.1 0.05" mass="3"/>{LEGS}</body></worldbody>
    <actuator>{SERVOS}</actuator>{keys}</mujoco>"""


@pytest.fixture
def shown(run, tmp_path, monkeypatch):
    """Calls `supple view` for a file with this text; returns what it shows and what it says."""

    def view(text, *options):
        subjects = []

        def show(subject, end_effectors, **rest):
            subjects.append((subject, end_effectors, rest["method"]))

        monkeypatch.setattr("supple.viewer.showing.view", show)
        (tmp_path / "dog.xml").write_text(text)
        result = run("view", "dog.xml", *options)
        assert result.exit_code == 0, result.stderr
        return *subjects[0], result.stderr

    return view


def test_a_legged_robot_stands_on_its_floor_from_its_keyframe(shown):
    world, tips, method, said = shown(dog())
    assert isinstance(world, supple.World)
    assert (tips, method) == (None, None)
    assert "'dog' starts from its keyframe 'home'" in said
    trunk = world.pose("dog:trunk")
    np.testing.assert_allclose(trunk[:3, 3], [0, 0, 0.3], atol=1e-12)
    assert set(world.controls.values()) == {0.3}
    session = Session(world)
    with pytest.warns(supple.StartWarning, match=rf"dog:\+\+ and floor by {DEPTH:.2g} m"):
        session.step(1500)
    assert world.pose("dog:trunk")[2, 3] > 0.28
    assert sum(c.force[2] for c in session.frame.contacts if c.second == "floor") == pytest.approx(3.8 * 9.81, rel=0.01)
    session.reset()
    np.testing.assert_allclose(world.pose("dog:trunk"), trunk, atol=1e-12)


def test_the_keyframe_can_be_chosen_and_tips_named(shown):
    world, tips, _, said = shown(dog(), "--keyframe", "high", "-e", "trunk")
    assert "keyframe" not in said
    assert tips == ["dog:trunk"]
    assert world.pose("dog:trunk")[2, 3] == 2
    assert Session(world, tips).end_effectors == ("dog:trunk",)
    world, _, _, said = shown(dog(), "--q", "knee++", "0.5")
    assert "keyframe" not in said
    assert world.q["dog:knee++"] == pytest.approx(0.5)


def test_a_floating_robot_without_ground_gets_a_floor_under_its_lowest_point(shown):
    world, _, _, said = shown(dog(ground=""))
    assert f"'dog' has no ground; it gets a floor under its lowest point, z = {-DEPTH:.4g}" in said
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # nothing begins below it
        world.step(1000)
    assert world.pose("dog:trunk")[2, 3] > 0.2


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (dog(ground="", keys="", base=""), ()),  # hangs on a fixed base over nothing
        (dog(base="", keys=""), ("--method", "linear")),
        (dog(ground="", keys="").replace("<geom", '<geom contype="0" conaffinity="0"'), ()),  # cannot touch
    ],
)
def test_others_are_shown_without_contact(shown, text, options):
    subject, _, method, said = shown(text, *options)
    assert isinstance(subject, supple.Mechanism)
    assert method == (options[1] if options else None)
    assert said == ""


def test_loose_objects_of_a_scene_touch_the_robot(shown):
    """A ball that is dropped onto a fixed table, both of one file."""
    text = """<mujoco model="table"><worldbody><body name="table"><joint name="lift" type="slide" axis="0 0 1"
    stiffness="5000" damping="100"/><geom type="box" size="0.3 0.3 0.05" mass="5"/></body>
    <body name="ball" pos="0 0 0.2"><freejoint/><geom type="sphere" size="0.05" mass="0.2"/></body>
    </worldbody></mujoco>"""
    world, *_ = shown(text)
    world.step(1000)
    assert world.pose("table:ball")[2, 3] - world.pose("table:table")[2, 3] == pytest.approx(0.1, abs=1e-4)


def test_joints_whose_dry_friction_is_left_out_are_named(shown):
    *_, said = shown(dog().replace('damping="0.1"', 'damping="0.1" frictionloss="0.2"'))
    assert said.startswith("supple: frictionloss of joint 'knee++', 'knee+-', 'knee-+', 'knee--': dry friction is")


def test_run_simulates_contact(run, tmp_path):
    (tmp_path / "dog.xml").write_text(dog())
    result = run("run", "dog.xml", "--time", "1", "--json", "-o", "dog.npz")
    assert result.exit_code == 0, result.stderr
    assert "'dog' starts from its keyframe 'home'" in result.stderr
    found = {body["name"]: body for body in json.loads(result.stdout)["bodies"]}
    assert 0.28 < found["trunk"]["position"][2] < 0.31
