"""URDF files as ROS tools and vendors write them: what Pinocchio's reader takes is loaded, or refused with a reason."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import supple
from mujoco_reference import load_quietly

INERTIAL = '<inertial><mass value="1"/><inertia ixx="0.1" iyy="0.2" izz="0.3" ixy="0" ixz="0" iyz="0"/></inertial>'
AXIS, LIMIT = '<axis xyz="0 0 1"/>', '<limit lower="-1" upper="1" effort="5" velocity="2"/>'
SPHERE = "<geometry><sphere radius='1'/></geometry>"


def link(name: str, inner: str = INERTIAL) -> str:
    return f'<link name="{name}">{inner}</link>'


def joint(name: str = "j", kind: str = "revolute", parent: str = "b", child: str = "a", inner: str = "") -> str:
    inner = inner or AXIS + LIMIT
    return f'<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>{inner}</joint>'


def robot(*parts: str, head: str = '<?xml version="1.0"?>', more: str = "") -> str:
    return f'{head}\n<robot name="r"{more}>\n' + "\n".join(parts) + "\n</robot>\n"


def with_joint(inner: str) -> str:
    return robot(link("b"), link("a"), joint(inner=inner))


def with_visual(inner: str, *before: str) -> str:
    return robot(*before, link("b", INERTIAL + f"<visual>{inner}</visual>"), link("a"), joint())


MESH = "<geometry><mesh filename='{}'/></geometry>"
PLAIN = with_joint(AXIS + LIMIT)
THREE = (link("b"), link("a"), link("c"), joint())
LOADED = {
    "unknown package": (with_visual(MESH.format("package://nowhere/meshes/a.dae")), "is not there"),
    "mesh at a web address": (with_visual(MESH.format("http://x.org/a.dae")), "is not there"),
    "mesh of another system": (with_visual(MESH.format("C:\\robots\\a.STL")), "is not there"),
    "mesh by xacro's find": (with_visual(MESH.format("$(find a)/a.dae")), "is not there"),
    "mesh without a name": (with_visual(MESH.format("")), "no filename"),
    "gazebo": (robot(*THREE[:2], joint(), '<gazebo reference="a"><mu1>0.2</mu1></gazebo>'), "1 <gazebo>"),
    "ros2_control": (
        robot(*THREE[:2], joint(), '<ros2_control name="x"><joint name="j"/></ros2_control>'),
        "1 <ros2_control>",
    ),
    "old transmission": (
        robot(*THREE[:2], joint(), '<transmission type="pr2/Simple" name="t"><joint name="j"/></transmission>'),
        "1 <transmission>",
    ),
    "safety controller": (
        with_joint(AXIS + LIMIT + '<safety_controller k_velocity="1" soft_lower_limit="-0.9"/>'),
        "1 <safety_controller>",
    ),
    "dry friction": (with_joint(AXIS + LIMIT + '<dynamics damping="0.5" friction="0.2"/>'), "dry friction"),
    "numbers": (with_joint('<origin xyz=" 1E-3  1.e-3 .5" rpy="-0 +1.5 1e0"/>' + AXIS + LIMIT), ""),
    "many turns": (with_joint('<origin rpy="1000 -500.25 12345.678"/>' + AXIS + LIMIT), ""),
    "axis not of unit length": (with_joint('<axis xyz="1 -2 0.5"/>' + LIMIT), ""),
    "axis twice": (with_joint(AXIS + '<axis xyz="1 0 0"/>' + LIMIT), ""),
    "empty range": (with_joint(AXIS + '<limit lower="0.5" upper="0.5" effort="1" velocity="1"/>'), "limits of joint"),
    "upside down": (with_joint(AXIS + '<limit lower="1" upper="-1" effort="1" velocity="1"/>'), "not below upper"),
    "huge range": (with_joint(AXIS + '<limit lower="-1.7e308" upper="1.7e308" effort="1e308" velocity="1"/>'), ""),
    "speed of zero": (with_joint(AXIS + '<limit lower="-1" upper="1" effort="1" velocity="0"/>'), "velocity of joint"),
    "colour of three numbers": (with_visual(SPHERE + '<material><color rgba="1 0 0"/></material>'), ""),
    "colour in words": (with_visual(SPHERE + '<material name="m"><color rgba="red"/></material>'), "not a colour"),
    "unknown material": (with_visual(SPHERE + '<material name="m"/>'), ""),
    "visuals without a name": (with_visual(SPHERE + "</visual><visual><!-- c -->" + SPHERE), ""),
    "empty geometry": (with_visual("<geometry/>"), "has no geometry"),
    "mimic of a mimic": (
        robot(
            *THREE, link("d"), joint("k", "revolute", "a", "c", AXIS + LIMIT + '<mimic joint="j" multiplier="2"/>'),
            joint("l", "prismatic", "c", "d", AXIS + LIMIT + '<mimic joint="k" offset="0.1"/>'),
        ),
        "",
    ),
    "mimic of a fixed joint": (
        robot(*THREE[:3], joint(kind="fixed"), joint("k", "revolute", "a", "c", AXIS + LIMIT + '<mimic joint="j"/>')),
        "follows the fixed joint 'j'",
    ),
    "fixed joint that mimics": (
        robot(*THREE, joint("k", "fixed", "a", "c", '<mimic joint="j"/>')), "follows nothing"
    ),
    "dummy links": (
        robot(link("b", ""), link("a", ""), link("c"), joint(kind="fixed"), joint("k", "revolute", "a", "c")), ""
    ),
    "names with spaces": (robot(link("the base"), link(" a "), joint("a joint", parent="the base", child=" a ")), ""),
    "joint named like a link": (robot(link("b"), link("a"), joint("a")), ""),
    "name spaces": (robot(*THREE[:2], joint(), more=' xmlns:xacro="http://www.ros.org/wiki/xacro" version="1.0"'), ""),
    "comments and text": (robot(*THREE[:2], joint(), "<!-- a -- b --><![CDATA[ <x> ]]> text"), ""),
    "document type": (robot(*THREE[:2], joint(), head='<?xml version="1.0"?><!DOCTYPE robot>'), ""),
    "blanks at the start": ("\n  " + PLAIN, ""),
    "no declaration": (robot(*THREE[:2], joint(), head=""), ""),
    "unknown elements": (robot(link("b", INERTIAL + "<foo><bar/></foo>"), link("a"), joint()), ""),
    "version 1.1": (PLAIN.replace("1.0", "1.1", 1), ""),
    "end of line as on Windows": (PLAIN.replace("\n", "\r\n"), ""),
}  # fmt: skip


@pytest.mark.parametrize(("text", "note"), LOADED.values(), ids=LOADED)
def test_files_that_pinocchio_reads_are_loaded(text: str, note: str, tmp_path: Path) -> None:
    path = tmp_path / "robot.urdf"
    path.write_bytes(text.encode())
    mech = load_quietly(path)
    assert note in "\n".join(map(str, mech.import_report))
    pinocchio = pytest.importorskip("pinocchio")
    model = pinocchio.buildModelFromUrdf(str(path))
    data = model.createData()
    assert mech.dof == model.nq
    assert mech.mass == pytest.approx(sum(inertia.mass for inertia in model.inertias), abs=1e-12)
    order = [mech.coordinates.index(name) for name in model.names[1:]]
    q = np.linspace(0.3, -0.4, mech.dof)
    pinocchio.framesForwardKinematics(model, data, q[order])
    poses = supple.kinematics(mech, q).poses
    for frame, pose in zip(model.frames, data.oMf, strict=True):
        if frame.type == pinocchio.FrameType.BODY and frame.name != "universe":
            np.testing.assert_allclose(poses[frame.name], pose.homogeneous, atol=1e-9)


XACRO = "has a xacro expression that was not evaluated"
REFUSED = {
    "expression": (with_joint('<origin xyz="${x} 0 0"/>' + AXIS + LIMIT), f'xyz="${{x}} 0 0" {XACRO}'),
    "argument": (with_joint('<origin xyz="$(arg x) 0 0"/>' + AXIS + LIMIT), XACRO),
    "prefix": (robot(link("${prefix}b"), link("a"), joint(parent="${prefix}b")), XACRO),
    "commas": (with_joint('<origin xyz="1, 0, 0"/>' + AXIS + LIMIT), 'xyz="1, 0, 0" must be 3 numbers'),
    "Python's numbers": (with_joint('<origin xyz="1_0 0 0"/>' + AXIS + LIMIT), 'xyz="1_0 0 0" must be 3 numbers'),
    "unit": (PLAIN.replace('value="1"', 'value="1 kg"'), 'value="1 kg" must be a number'),
    "axis of zero": (with_joint('<axis xyz="0 0 0"/>' + LIMIT), "has no direction"),
    "speed that is not a number": (with_joint(AXIS + LIMIT.replace('"2"', '"nan"')), 'velocity="nan" is not finite'),
    "entity": (PLAIN.replace("?>", '?><!DOCTYPE r [<!ENTITY x "1">]>', 1), "entities are not allowed"),
    "external document type": (PLAIN.replace("?>", '?><!DOCTYPE r SYSTEM "a.dtd">', 1), "entities are not allowed"),
    "truncated": (PLAIN[:-20], "is the file complete?"),
}


@pytest.mark.parametrize(("text", "reason"), REFUSED.values(), ids=REFUSED)
def test_what_is_refused_says_why(text: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / "robot.urdf").write_text(text, encoding="utf-8")
    with pytest.raises(supple.MechanismError, match=re.escape(reason)):
        supple.load(tmp_path / "robot.urdf")


ENCODED = {
    "byte order mark": b"\xef\xbb\xbf" + PLAIN.encode(),
    "zero byte at the end": PLAIN.encode() + b"\n\0",
    "Latin-1 comment": PLAIN.replace("<robot", "<!-- gr\xf6\xdfe --><robot", 1).encode("latin-1"),
} | {
    encoding: PLAIN.replace("?>", f' encoding="{encoding}"?>', 1).replace('"a"', f'"{name}"').encode(codec)
    for encoding, codec, name in (
        ("UTF-16", "utf-16", "a手"),
        ("ISO-8859-1", "latin-1", "Gr\xf6\xdfe"),
        ("windows-1252", "cp1252", "\u201ca\u201d"),
        ("Shift_JIS", "shift_jis", "手"),
        ("GB2312", "gb2312", "手"),
        ("us-ascii", "utf-8", "手"),
    )
}


@pytest.mark.parametrize("data", ENCODED.values(), ids=ENCODED)
def test_encodings(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "robot.urdf").write_bytes(data)
    mech = load_quietly(tmp_path / "robot.urdf")
    assert mech.dof == 1
    assert mech.bodies[1].name in ("a", "a手", "手", "Gr\xf6\xdfe", "\u201ca\u201d")


def test_an_unknown_encoding_is_named(tmp_path: Path) -> None:
    (tmp_path / "robot.urdf").write_bytes(PLAIN.replace("?>", ' encoding="klingon"?>', 1).encode())
    with pytest.raises(supple.MechanismError, match=r"klingon.*save it as UTF-8"):
        supple.load(tmp_path / "robot.urdf")


def test_speed_limits_are_kept(tmp_path: Path) -> None:
    (tmp_path / "robot.urdf").write_text(PLAIN, encoding="utf-8")
    mech = supple.load(tmp_path / "robot.urdf")
    assert mech.joints[1].speed == 2
    assert mech.speed_limits == {"j": 2.0}
    mech.save(tmp_path / "robot.json")
    assert supple.load(tmp_path / "robot.json").speed_limits == {"j": 2.0}
