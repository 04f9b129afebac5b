"""Reading MJCF: what is imported, what is reported, and errors for bad files."""

from __future__ import annotations

import os
import textwrap
import threading
import warnings
from pathlib import Path

import numpy as np
import pytest

import supple
from mujoco_reference import load_quietly
from supple.mechanism.io import compiler

BODY = '<body name="b"><joint name="j"/><geom size=".1"/></body>'
TETRAHEDRON = np.array([[1.0, 2, 3], [2, 2, 3], [1, 3, 3], [1, 2, 5]])


def write(folder: Path, text: str, name: str = "model.xml") -> Path:
    path = folder / name
    path.write_text(textwrap.dedent(text))
    return path


def world(inner: str = BODY, outside: str = "") -> str:
    return f"<mujoco model='test'>{outside}<worldbody>{inner}</worldbody></mujoco>"


def reported(mech: supple.Mechanism) -> str:
    return "\n".join(map(str, mech.import_report))


@pytest.fixture
def tetrahedron(tmp_path: Path) -> Path:
    lines = [f"v {x} {y} {z}" for x, y, z in TETRAHEDRON] + ["f 1 3 2", "f 1 2 4", "f 1 4 3", "f 2 3 4"]
    return write(tmp_path, "\n".join(lines), "tetrahedron.obj")


# what is carried over


def test_names_are_kept_or_generated(tmp_path: Path) -> None:
    inner = """<body><joint/><joint type="slide" name="s"/><geom size=".1"/>
        <body name="arm"><geom size=".1"/><site name="arm"/><site/></body></body>"""
    mech = load_quietly(write(tmp_path, world(inner)))
    assert mech.name == "test"
    assert [b.name for b in mech.bodies] == ["body1", "arm"]
    assert [j.name for j in mech.joints] == ["body1_joint+s", "arm_fixed"]
    assert mech.coordinates == ("body1_joint", "s")
    assert [s.name for s in mech.sites] == ["arm_2", "site1"]
    assert "site 'arm': shares its name with a body; it is now called 'arm_2'" in reported(mech)


def test_ball_and_free_coordinates_have_readable_names(tmp_path: Path) -> None:
    inner = """<body name="a"><freejoint name="base"/><geom size=".1"/>
        <body name="b"><joint name="wrist" type="ball"/><geom size=".1"/></body></body>"""
    mech = supple.load(write(tmp_path, world(inner)))
    assert mech.coordinates[:6] == ("base.x", "base.y", "base.z", "base.rx", "base.ry", "base.rz")
    assert mech.coordinates[6:] == ("wrist.rx", "wrist.ry", "wrist.rz")
    assert [j.kind for j in mech.joints] == ["free", "ball"]


def test_keyframe(tmp_path: Path) -> None:
    text = """<mujoco><worldbody><body name="a"><freejoint/><geom size=".1"/><body name="b" pos="0 0 1">
        <joint name="j" axis="0 1 0"/><geom size=".1"/></body></body></worldbody>
        <actuator><position joint="j" kp="10"/></actuator><keyframe><key/>
        <key name="bent" qpos="1 2 3 .7071067811865476 0 0 .7071067811865476 .5" ctrl=".25"/></keyframe></mujoco>"""
    path = write(tmp_path, text)
    straight, bent = supple.load(path), supple.load(path, keyframe="bent")
    assert [k.name for k in straight.keyframes] == ["key0", "bent"]
    expected = [1, 2, 3, 0, 0, np.pi / 2, 0.5]
    np.testing.assert_allclose(straight.keyframes[1].coordinates, expected, atol=1e-15)
    np.testing.assert_allclose(bent.reference, expected, atol=1e-15)
    np.testing.assert_allclose(bent.bodies[1].pose[:3, 3], [1, 2, 4], atol=1e-15)
    assert straight.joint("j").rest[0] == 0
    assert bent.joint("j").rest[0] == pytest.approx(0.25)
    with pytest.raises(supple.MechanismError, match=r"model\.xml: .*no keyframe named 'bend' .* has 'key0', 'bent'"):
        supple.load(path, keyframe="bend")
    path = write(tmp_path, world('<body><joint/><geom size="1"/></body>'))
    with pytest.raises(supple.MechanismError, match=r"model\.xml: .*no keyframe named 'home' .* it has no keyframes"):
        supple.load(path, keyframe="home")


def test_shapes(tmp_path: Path, tetrahedron: Path) -> None:
    text = """<mujoco><asset><mesh name="t" file="tetrahedron.obj" scale="2 1 1"/>
        <material name="red" rgba="1 0 0 1"/></asset><worldbody><geom name="floor" type="plane" size="1 2 .1"/>
        <body name="b" pos="0 0 1"><geom name="m" type="mesh" mesh="t" pos="1 0 0" euler="0 0 90" material="red"/>
        <geom type="capsule" size=".1 .3" rgba=".1 .2 .3 .4" contype="2" conaffinity="5" friction=".7 .1 .2"/>
        </body><body name="c"/></worldbody><contact><exclude body1="b" body2="c"/></contact></mujoco>"""
    mech = supple.load(write(tmp_path, text))
    mesh_shape, capsule = mech.body("b").shapes
    turn = np.array([[0.0, -1, 0], [1, 0, 0], [0, 0, 1]])
    expected = TETRAHEDRON * [2, 1, 1] @ turn.T + [1, 0, 1]
    placed = mech.poses["b"] @ mesh_shape.pose
    ours = mech.meshes[0].vertices @ placed[:3, :3].T + placed[:3, 3]
    np.testing.assert_allclose(ours, expected, atol=1e-6)  # MuJoCo keeps vertices in single precision
    np.testing.assert_allclose(mesh_shape.rgba, [1, 0, 0, 1])
    np.testing.assert_allclose(capsule.rgba, [0.1, 0.2, 0.3, 0.4])
    np.testing.assert_allclose(capsule.size, [0.1, 0.3])
    np.testing.assert_allclose(capsule.friction, [0.7, 0.1, 0.2])
    assert (capsule.contact_type, capsule.contact_affinity) == (2, 5)
    assert [s.name for s in mech.shapes] == ["floor"]
    assert mech.contact_excludes == (("b", "c"),)


def test_gravity(tmp_path: Path) -> None:
    tilted = supple.load(write(tmp_path, world(outside='<option gravity="1 2 3"/>')))
    np.testing.assert_array_equal(tilted.gravity, [1, 2, 3])
    off = supple.load(write(tmp_path, world(outside='<option><flag gravity="disable"/></option>')))
    np.testing.assert_array_equal(off.gravity, [0, 0, 0])


def test_includes_and_submodels(tmp_path: Path) -> None:
    (tmp_path / "parts").mkdir()
    write(tmp_path / "parts", world(BODY.replace('"b"', '"inner"').replace('"j"', '"k"')), "part.xml")
    write(tmp_path / "parts", world(BODY), "sub.xml")
    text = """<mujoco><include file="parts/part.xml"/><asset><model name="s" file="parts/sub.xml"/></asset>
        <worldbody><body name="outer"><attach model="s" body="b" prefix="s_"/></body></worldbody></mujoco>"""
    mech = supple.load(write(tmp_path, text))
    assert [b.name for b in mech.bodies] == ["inner", "outer", "s_b"]
    assert mech.coordinates == ("k", "s_j")


def test_assets_beside_an_included_file(tmp_path: Path, tetrahedron: Path) -> None:
    """As in MuJoCo: a mesh that is not beside the main file is looked for beside the included file that names it."""
    (tmp_path / "parts").mkdir()
    tetrahedron.rename(tmp_path / "parts" / "tetra.obj")
    write(tmp_path / "parts", '<mujoco><asset><mesh name="m" file="tetra.obj"/></asset></mujoco>', "part.xml")
    body = '<body name="b"><joint name="j"/><geom type="mesh" mesh="m"/></body>'
    mech = supple.load(write(tmp_path, world(body, outside='<include file="parts/part.xml"/>')))
    assert len(mech.meshes[0].vertices) == 4


@pytest.mark.parametrize(("constant", "rigid"), [(0.3, True), (2.5, False)])
def test_a_coupling_beyond_the_limits_of_its_joints_yields(tmp_path: Path, constant: float, rigid: bool) -> None:
    """Real grippers have such couplings. MuJoCo's constraints give way; ours would leave no pose to start in."""
    joint = '<body name="{0}"><joint name="{0}" axis="0 1 0" range="-1 1"/><geom size=".1" pos="0 0 1"/></body>'
    equality = f'<equality><joint name="tie" joint1="p" joint2="q" polycoef="{constant} 1 0 0 0"/></equality>'
    text = world(joint.format("p") + joint.format("q"), '<compiler angle="radian"/>' + equality)
    mech = load_quietly(write(tmp_path, text))
    assert mech.couplings[0].rigid == rigid
    assert ("equality 'tie': cannot be met within" in reported(mech)) != rigid
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", supple.StartWarning)
        sim = supple.Simulation(mech, 2e-3)
    sim.step(500)
    tie = sim.coordinates["p"][0] - sim.coordinates["q"][0]
    assert tie == pytest.approx(0.3 if rigid else 2.0, abs=1e-3)  # both joints at their limits


def test_a_tendon_with_the_name_of_a_joint(tmp_path: Path) -> None:
    """MuJoCo's names are unique for each kind only. The actuator of the tendon must not drive the joint."""
    joint = '<body><joint name="{0}" axis="0 1 0"/><geom size=".1" pos="0 0 -1" mass="1"/></body>'
    outside = (
        '<option><flag gravity="disable"/></option><tendon><fixed name="p"><joint joint="p" coef="1"/>'
        '<joint joint="q" coef="-1"/></fixed></tendon><actuator><position name="m" tendon="p" kp="3"/></actuator>'
    )
    mech = load_quietly(write(tmp_path, world(joint.format("p") + joint.format("q"), outside)))
    assert "tendon 'p': shares its name with a joint; it is now called 'p_2'" in reported(mech)
    assert mech.actuators[0].drives == mech.couplings[0].name == "p_2"
    assert supple.inverse_dynamics(mech, [0.4, 0.1]) == pytest.approx(
        [0.0, 0.0], abs=1e-12
    )  # the drive is not a spring
    sim = supple.Simulation(mech, 1e-3)
    sim.set_control("m", 0.2)
    sim.step(20)
    assert sim.q[0] > 1e-5
    assert sim.q[1] == pytest.approx(-sim.q[0])


# what is reported

REPORTS = {
    "frictionloss of joint 'j'": world('<body><joint name="j" frictionloss="1"/><geom size=".1"/></body>'),
    "limit of joint 'j'": world('<body><joint name="j" type="ball" range="0 9"/><geom size=".1"/></body>'),
    "springyield of joint 'j'": world(BODY.replace("<joint", '<joint stiffness="1" springyield=".1"')),
    "stiffness of joint 'j': a negative": world(BODY.replace("<joint", '<joint stiffness="-1"')),
    "damping of joint 'j': a negative": world(BODY.replace("<joint", '<joint damping="-1"')),
    "damping of actuator 'a': a negative": world(
        outside='<actuator><motor name="a" joint="j" damping="-1"/></actuator>'
    ),
    "damping of tendon 't': a negative": world(
        outside='<tendon><fixed name="t" damping="-1"><joint joint="j" coef="1"/></fixed></tendon>'
    ),
    "gravcomp of body 'b'": world(BODY.replace("<body", '<body gravcomp="1"')),
    "mocap body 'm'": world('<body name="m" mocap="true"/>'),
    "height field geom of a moving body 'h'": world(
        BODY.replace("</body>", '<geom name="h" type="hfield" hfield="f"/></body>'),
        '<asset><hfield name="f" nrow="3" ncol="3" size="1 1 1 1"/></asset>',
    ),
    "2 sensors": world(outside='<sensor><jointpos joint="j"/><jointvel joint="j"/></sensor>'),
    "1 cameras": world(BODY + "<camera/>"),
    "1 lights": world(BODY + "<light/>"),
    "1 custom numbers": world(outside='<custom><numeric name="n" data="1"/></custom>'),
    "option 'density', 'wind'": world(outside='<option density="1" wind="1 0 0"/>'),
    "1 contact pairs": world(
        '<body><joint/><geom name="g" size=".1"/></body><geom name="k" size=".1"/>',
        '<contact><pair geom1="g" geom2="k"/></contact>',
    ),
    "1 solver settings": world(BODY.replace("<geom", '<geom solref=".01 1"')),
    "equality 'e': is not linear": world(
        outside='<equality><joint name="e" joint1="j" joint2="k" polycoef="0 1 2 0 0"/></equality>',
        inner=BODY + BODY.replace('"b"', '"c"').replace('"j"', '"k"'),
    ),
    "equality 'e': is switched off": world(
        outside='<equality><connect name="e" body1="b" anchor="0 0 0" active="false"/></equality>'
    ),
    "spatial tendon 't'": world(
        BODY.replace("<geom", '<site name="p"/><geom') + '<site name="o" pos="0 0 1"/>',
        '<tendon><spatial name="t"><site site="p"/><site site="o"/></spatial></tendon>',
    ),
    "actuator 'a': is a muscle": world(outside='<actuator><muscle name="a" joint="j" lengthrange="0 1"/></actuator>'),
    "actuator 'a': acts through a site": world(
        BODY.replace("<geom", '<site name="p"/><geom'),
        '<actuator><general name="a" site="p" gear="1 0 0 0 0 0"/></actuator>',
    ),
    "actuator 'a': belongs to a group": world(
        outside='<option actuatorgroupdisable="1"/><actuator><position name="a" group="1" joint="j" kp="1"/></actuator>'
    ),
}


@pytest.mark.parametrize(("note", "text"), REPORTS.items(), ids=REPORTS)
def test_report(note: str, text: str, tmp_path: Path) -> None:
    with pytest.warns(supple.ImportWarning, match=r"not imported"):
        mech = supple.load(write(tmp_path, text))
    assert note in reported(mech)


def test_one_warning_at_the_callers_line_and_none_when_all_is_imported(tmp_path: Path) -> None:
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        supple.load(write(tmp_path, world()))
        assert not seen
        supple.load(write(tmp_path, world(BODY + "<camera/><light/>")))
    assert len(seen) == 1
    assert seen[0].filename == __file__
    assert str(seen[0].message).startswith("model.xml: 2 kinds of elements are not imported as written")


@pytest.mark.parametrize("knuckle", ["knuckle_of_digit_", "proximal_interphalangeal_joint_of_digit_"])
def test_the_warning_names_the_joints_whose_dry_friction_is_left_out(tmp_path: Path, knuckle: str) -> None:
    """Also where many other notes come before it, and the joints are many and have long names."""
    joints = "".join(
        f'<body name="b{i}" gravcomp="1"><joint name="{knuckle}{i}" frictionloss=".1"/><geom size=".1"/></body>'
        for i in range(20)
    )
    model = world(joints + BODY + "<camera/>", '<sensor><jointpos joint="j"/></sensor>')
    with pytest.warns(supple.ImportWarning) as seen:
        supple.load(write(tmp_path, model))
    line = next(line for line in str(seen[0].message).splitlines() if "dry friction" in line)
    assert f"'{knuckle}0', '{knuckle}1'" in line
    assert "(20 in all): dry friction is not simulated" in line


# what is refused

BILLION = '<!DOCTYPE m [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]><mujoco model="&b;"/>'
REFUSED = {
    "not XML": ("hello", r"line 1: not well-formed XML"),
    "empty": ("", r"not well-formed XML \(no element found\)"),
    "truncated": (world()[:-30], r"line 1: not well-formed XML.*is the file complete"),
    "another language": ("<html/>", r"line 1: the root element is <html>; a model is <mujoco>"),
    "entities": (BILLION, r"entities are not allowed"),
    "no bodies": ("<mujoco/>", r"has no bodies"),
    "too deep": ("<mujoco><worldbody>" + "<body>" * 1000, r"nested more than \d+ deep"),
    "huge count": (world(f'<replicate count="1000000000">{BODY}</replicate>'), r"expands to more than"),
    "nested counts": (
        world(f'<replicate count="1000"><replicate count="1000">{BODY}</replicate></replicate>'),
        r"expands to more than",
    ),
    "nan": (world('\n\n<body name="n" pos="0 nan 0"/>'), r"line 3: body 'n': pos=\"0 nan 0\" is not finite"),
    "infinity": (world('<body><geom size="1e999"/></body>'), r"is not finite"),
    "plugin": (world(outside='<extension><plugin plugin="x"/></extension>'), r"plugins are native code"),
    "unknown element": (world("\n<bodi/>"), r"model\.xml, line 2: .*unrecognized element"),
    "unknown attribute": (world('\n\n<body nme="x"/>'), r"model\.xml, line 3: .*unrecognized attribute: 'nme'"),
    "negative size": (world('<body>\n<geom size="-1"/></body>'), r"model\.xml, line 2: size 0 must be positive"),
    "no such mesh file": (
        world(outside='\n<asset><mesh name="m" file="no.stl"/></asset>'),
        r"line 2: mesh 'm' needs the file 'no\.stl', which does not exist",
    ),
    "no such texture": (world(outside='<asset><texture type="2d" file="no.png"/></asset>'), r"'no\.png'"),
    "unreadable mesh": (world(outside='<asset><mesh file="model.xml"/></asset>'), r"convert it to STL or OBJ"),
    "no such include": (world(outside='<include file="no.xml"/>'), r"line 1: <include> needs the file 'no\.xml'"),
    "include of itself": (world(outside='<include file="model.xml"/>'), r"included twice, or includes itself"),
    "model of itself": (world(outside='<asset><model file="model.xml"/></asset>'), r"contains itself"),
    "moving body without mass": (world("<body><joint/></body>"), r"mass and inertia of moving bodies"),
    "huge numbers": (world(f'<body pos="0 0 1e308"><body pos="0 0 1e308">{BODY}</body></body>'), r"must be finite"),
}


@pytest.mark.parametrize(("text", "message"), REFUSED.values(), ids=REFUSED)
def test_unsupported_files_raise(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "model.xml"
    path.write_text(text)
    with pytest.raises(supple.MechanismError, match=message):
        load_quietly(path)


@pytest.mark.parametrize(
    ("given", "moments"),
    [
        ('diaginertia="1 1 3"', [4 / 3, 4 / 3, 8 / 3]),
        ('diaginertia="-1 2 2"', [0, 2, 2]),
        ('fullinertia="1 1 3 0 0 0"', [4 / 3, 4 / 3, 8 / 3]),
        ('diaginertia="-1 -1 -1"', [0, 0, 0]),
    ],
)
def test_inertias_that_mujoco_refuses_are_mended(given: str, moments: list[float], tmp_path: Path) -> None:
    text = world(f'\n\n<body name="b"><joint name="j"/><inertial pos="0 0 0" mass="1" {given}/></body>')
    mech = load_quietly(write(tmp_path, text))
    np.testing.assert_allclose(np.linalg.eigvalsh(mech.body("b").inertia), moments, atol=1e-9)
    assert "inertial in model.xml, line 3: no body can have the principal moments" in reported(mech)


def test_error_in_an_included_file_names_that_file(tmp_path: Path) -> None:
    write(tmp_path, "<mujoco>\n<worldbody>\n<body>\n<geom size='-1'/></body></worldbody></mujoco>", "part.xml")
    with pytest.raises(supple.MechanismError, match=r"part\.xml, line 4: size 0 must be positive"):
        supple.load(write(tmp_path, '<mujoco>\n<include file="part.xml"/></mujoco>'))


def test_broken_mesh_file(tmp_path: Path) -> None:
    (tmp_path / "m.stl").write_bytes(b"\0" * 200)
    text = world('<body><geom type="mesh" mesh="m"/></body>', '\n<asset><mesh file="m.stl"/></asset>')
    with pytest.raises(supple.MechanismError, match=r"model\.xml.*m\.stl"):
        supple.load(write(tmp_path, text))


@pytest.mark.parametrize("path", ["missing.xml", ".", "nul\0byte", 7])
def test_bad_paths(path: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(supple.MechanismError, match=r"file"):
        supple.load(path)  # type: ignore[arg-type]


def test_unknown_suffix_to_save(tmp_path: Path) -> None:
    with pytest.raises(supple.MechanismError, match=r"\.json"):
        supple.load(write(tmp_path, world())).save(tmp_path / "model.stl")


def test_comments_with_dashes_are_accepted(tmp_path: Path) -> None:
    plain, commented = (supple.load(write(tmp_path, text + world())) for text in ("", "<!-- a -- b ---- c\n -->"))
    assert commented == plain


# the process that compiles


def test_nothing_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "cwd").mkdir()
    monkeypatch.chdir(tmp_path / "cwd")
    path = write(tmp_path, world('<body><joint/><geom size="1e-5" density="1e-9"/></body>'))
    with pytest.raises(supple.MechanismError):
        supple.load(path)
    supple.load(write(tmp_path, world()))
    assert os.listdir(tmp_path / "cwd") == []
    assert sorted(os.listdir(tmp_path)) == ["cwd", "model.xml"]


def test_worker_is_started_again_after_a_crash(tmp_path: Path) -> None:
    path = write(tmp_path, world())
    first = supple.load(path)
    process = compiler._worker._process
    assert process is not None
    process.kill()
    process.wait()
    assert supple.load(path) == first


def worker(program: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> compiler._Worker:
    """A worker whose child runs this program, which can answer with `say`."""
    start = "import sys, struct\nout = sys.stdout.buffer\n"
    start += "def say(t): out.write(struct.pack('<Q', len(t)) + t); out.flush()\n"
    monkeypatch.setattr(compiler, "CHILD_PROGRAM", write(folder, start + program, "child.py"))
    return compiler._Worker()


@pytest.mark.parametrize(
    ("program", "timeout", "message"),
    [
        ("say(b'{}'); import threading; threading.Event().wait()", 1.0, "took longer than 1 s"),
        ("say(b'{}'); sys.stdin.buffer.read(8); sys.exit(3)", 600.0, "crashed"),
        ('say(b\'{}\'); sys.stdin.buffer.read(8); say(b\'{"arrays": [["x", "<f8", [9]]]}\')', 600.0, "crashed"),
    ],
    ids=["hang", "crash", "half an answer"],
)
def test_child_that_fails(
    program: str, timeout: float, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = worker(program, tmp_path, monkeypatch)
    with pytest.raises(compiler.CompilerCrash, match=message):
        broken.compile({}, timeout)
    assert broken._process is None


def test_missing_mujoco_raises_with_the_install_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without = worker("say(b'{\"missing\": true}')", tmp_path, monkeypatch)
    with pytest.raises(ImportError, match=r"pip install 'supple\[all\]'"):
        without.compile({}, 600.0)


def test_threads(tmp_path: Path) -> None:
    paths = [write(tmp_path, world(BODY.replace('"b"', f'"b{i}"')), f"{i}.xml") for i in range(8)]
    names: dict[int, str] = {}

    def read(i: int) -> None:
        for _ in range(5):
            names[i] = supple.load(paths[i]).bodies[0].name

    threads = [threading.Thread(target=read, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert names == {i: f"b{i}" for i in range(8)}


# loops that close within rounding

CRANK = '<joint name="{0}" axis="0 1 0"/><geom type="capsule" fromto="0 0 0 0 0 .1" size=".005"/>'
CRANKS = f"""<mujoco><worldbody>
  <body name="a">{CRANK.format("a")}
    <body name="plate" pos="0 0 .1"><joint name="plate" axis="0 1 0"/><geom type="box" size=".06 .01 .005"/></body>
  </body>
  <body name="b" pos="0.05 0 0">{CRANK.format("b")}</body>
  <body name="c" pos="-0.05 0 0">{CRANK.format("c")}</body>
  </worldbody><equality><connect body1="plate" body2="b" anchor="0.05 0 0"/>
  <connect body1="plate" body2="c" anchor="-0.05 0 {{}}"/></equality></mujoco>"""


@pytest.mark.parametrize("rounded", ["0", "1e-8"])
def test_parallel_cranks_with_rounded_lengths_move(tmp_path: Path, rounded: str) -> None:
    mech = load_quietly(write(tmp_path, CRANKS.format(rounded)))
    notes = [note for note in mech.import_report if "rounding" in note.reason]
    assert len(notes) == (rounded != "0")
    sim = supple.Simulation(mech, 2e-3)
    sim.apply("plate", [0.1, 0, 0, 0, 0, 0])
    sim.step(150)
    angles = [float(sim.coordinates[name][0]) for name in "abc"]
    assert angles[0] > 0.1
    np.testing.assert_allclose(angles, angles[0], atol=1e-5)
    assert float(sim.coordinates["plate"][0]) == pytest.approx(-angles[0], abs=1e-5)
