"""supple run and its options."""

import io
import json

import numpy as np
import pytest
from rich.console import Console

import supple
from supple.cli import grouped_options
from supple.progress import Bar


def test_run_prints_and_draws_the_equilibrium(run, tmp_path):
    result = run("run", "ladder", "--force", "tip", "0", "100", "0")
    assert result.exit_code == 0, result.stderr
    for expected in ("(0, 100, 0) N, world axes", "100.0%", "Newton iterations", "left_hinge_1", "… and 38 more"):
        assert expected in result.stdout
    eq = supple.equilibrium(supple.library.ladder(), {"tip": [0, 100, 0, 0, 0, 0]})
    moved = np.linalg.norm(eq.poses["tip"][:3, 3] - supple.library.ladder().poses["tip"][:3, 3])
    row = next(line for line in result.stdout.splitlines() if line.split()[:1] == ["tip"])
    assert row.split()[1] == f"{moved:.4f}"
    assert (tmp_path / "supple-run.png").read_bytes().startswith(b"\x89PNG")


def test_run_as_json(run, tmp_path):
    forces = ("--force", "left_tip", "0", "-30", "0", "--force", "left_tip", "0", "-10", "5")
    torque = ("--torque", "left_tip", "1", "2", "3")
    result = run("run", "y", *forces, *torque, "--frame", "body", "--json", "-o", "y.svg")
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    wrench = [0, -40, 5, 1, 2, 3]
    assert found["loads"] == [{"on": "left_tip", "wrench": wrench, "frame": "body"}]
    assert (found["converged"], found["stable"], found["load_fraction"]) == (True, True, 1.0)
    mech = supple.library.y()
    eq = supple.equilibrium(mech, {"left_tip": wrench}, frame="body")
    for body, pose in zip(found["bodies"], eq.poses, strict=True):
        np.testing.assert_allclose(body["position"], pose[:3, 3])
    for joint in found["joints"]:
        np.testing.assert_allclose(joint["reaction"], eq.reactions[joint["name"]])
    assert (tmp_path / found["picture"]).exists()


def test_run_in_time(run):
    args = ("--time", "0.1", "--dt", "0.001", "--method", "bdf2", "--target", "hinge_1", "0.2", "--json")
    result = run("run", "robot_arm", "--force", "tip", "0", "50", "0", *args)
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    sim = supple.Simulation(supple.library.robot_arm(), 1e-3, "bdf2")
    sim.apply("tip", [0, 50, 0, 0, 0, 0])
    sim.set_target("hinge_1", 0.2)
    sim.step(100)
    assert found["time"] == pytest.approx(0.1)
    assert (found["dt"], found["method"]) == (0.001, "bdf2")
    assert found["bodies"][-1]["position"] == sim.poses["tip"][:3, 3].tolist()
    assert found["energy"]["kinetic"] == sim.energy.kinetic
    printed = run("run", "robot_arm", "--time", "0.01", "--all").stdout
    assert "0.01 s in time steps of 0.002 s (euler)" in printed
    assert "speed m/s" in printed
    assert "more" not in printed


def test_run_with_springs_and_keyframe(run, tmp_path):
    (tmp_path / "m.xml").write_text(
        "<mujoco><worldbody><body name='rod'><joint name='pivot' type='hinge' axis='0 1 0'/>"
        "<geom type='capsule' size='.01' fromto='0 0 0 1 0 0' mass='2'/></body></worldbody>"
        "<keyframe><key name='bent' qpos='0.5'/></keyframe></mujoco>"
    )
    result = run("run", "m.xml", "--keyframe", "bent", "--springs", "40", "--json")
    assert result.exit_code == 0, result.stderr
    angle = json.loads(result.stdout)["joints"][0]["coordinates"][0]
    assert 40 * (angle - 0.5) == pytest.approx(2 * 9.81 * 0.5 * np.cos(angle))


@pytest.fixture
def stuck():
    """A four-bar whose rocker cannot follow the crank all the way."""
    b = supple.Builder("stuck")
    b.link("crank", (0, 0, 0), (0, 0, 0.5), mass=0.4)
    b.link("coupler", (0, 0, 0.5), (0.5, 0, 0.5), mass=0.8)
    b.link("rocker", (0.5, 0, 0), (0.5, 0, 0.5), mass=0.6)
    b.hinge("foot", "world", "crank", at=(0, 0, 0), axis="y")
    b.hinge("knee", "crank", "coupler", at=(0, 0, 0.5), axis="y", stiffness=1.0)
    b.hinge("pivot", "world", "rocker", at=(0.5, 0, 0), axis="y", limits=(-0.3, 0.3))
    b.hinge("closure", "rocker", "coupler", at=(0.5, 0, 0.5), axis="y")
    b.motor("drive", "foot", position=0.0)
    return b.build()


def test_run_shows_the_state_that_was_reached(run, tmp_path, stuck):
    stuck.save("stuck.json")
    result = run("run", "stuck.json", "--target", "drive", "1.0", "-o", "far.png")
    assert result.exit_code == 1
    assert len(result.stderr.splitlines()) == 1
    assert "no equilibrium of 'stuck' was found beyond" in result.stderr
    reached = next(line for line in result.stdout.splitlines() if "load reached" in line).split()[-1]
    assert 0 < float(reached.rstrip("%")) < 100
    assert (tmp_path / "far.png").exists()


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (("y", "--force", "left_tp", "0", "0", "1"), "did you mean 'left_tip'"),
        (("y", "--force", "left_tip", "0", "1"), "--force takes BODY FX FY FZ, got 'left_tip 0 1'"),
        (("y", "--force", "left_tip", "0", "up", "1"), "--force left_tip: 'up' is not a number"),
        (("y", "--torque", "left_tip", "0", "nan", "1"), "nan is not finite"),
        (("y", "--target", "elbow", "1"), "elbow"),
        (("y", "--frame", "tip"), "frame must be 'world' or 'body'"),
        (("y", "--springs", "-1"), "not negative"),
        (("y", "--time", "0"), "--time must be a positive number"),
        (("y", "--time", "1", "--dt", "2"), "a time step of 2 s (--dt) is longer than the simulation"),
        (("y", "--time", "1", "--dt", "-1"), "dt must be a positive number"),
        (("y", "--time", "1", "--method", "rk4"), "method must be"),
        (("y", "--picture", "y.gif"), "--time"),
        (("y", "-o", "nowhere/y.png"), "nowhere"),
        (("rod.json",), "nothing holds 'pivot'"),
        (("rod.json",), "Add springs (--springs 50)"),
        (("ball.json", "--springs", "5"), "It floats: fix it, or move it in time with --time 2"),
        (("rod.json", "--target", "pivot", "1"), "no spring to set a target for; add one with --springs 50"),
    ],
)
def test_run_errors_are_one_line(run, tmp_path, args, text):
    b = supple.Builder("rod", gravity=(0, 0, 0))
    b.link("rod", (0, 0, 0), (0, 0, 1), mass=1.0)
    b.hinge("pivot", "world", "rod", at=(0, 0, 0), axis="y")
    b.build().save("rod.json")
    b = supple.Builder("ball")
    b.link("ball", (0, 0, 0), (0, 0, 1), mass=1.0)
    b.free("loose", "world", "ball")
    b.build().save("ball.json")
    result = run("run", *args)
    assert result.exit_code == 1
    assert text in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert not list(tmp_path.glob("*.png"))


def test_groups_are_joined_up_to_a_double_dash():
    assert grouped_options.join_groups(["a", "--target", "x", "1", "--json"]) == ["a", "--target", "x\x001", "--json"]
    assert grouped_options.join_groups(["--", "--target", "x", "1"]) == ["--", "--target", "x", "1"]
    assert grouped_options.join_groups(["--target"]) == ["--target"]


def test_the_progress_bar_appears_in_long_computations_only():
    def shown(delay, late):
        text = io.StringIO()
        with Bar("working", delay, Console(file=text, force_terminal=True)) as bar:
            bar.set_fraction(0.5)
            if late:
                bar._timer.join()  # until the timer has run out
        return text.getvalue()

    assert shown(delay=3600.0, late=False) == ""
    assert "working" in shown(delay=0.0, late=True)
    assert "50%" in shown(delay=0.0, late=True)


@pytest.mark.parametrize("options", [("--dt", "0.01"), ("--method", "bdf2"), ("--damping", "1")])
def test_options_without_effect_are_errors(run, options):
    result = run("run", "ladder", *options)
    assert result.exit_code == 2
    assert "--time" in result.output or "--springs" in result.output


def test_springs_with_damping(run, tmp_path):
    b = supple.Builder("loose", gravity=(0, 0, 0))
    b.link("arm", (0, 0, 0), (1, 0, 0), mass=1.0)
    b.hinge("axle", "world", "arm", at=(0, 0, 0), axis="z")
    b.build().save(tmp_path / "loose.json")
    told = ["run", "loose.json", "--springs", "50", "--torque", "arm", "0", "0", "1", "--time", "0.02", "--json"]
    free, damped = (json.loads(run(*told, *more).stdout) for more in ((), ("--damping", "100")))
    turns = [found["bodies"][0]["rotation"][2] for found in (free, damped)]
    assert 0 < turns[1] < 0.5 * turns[0]
    assert run(*told, "--dt", "0").exit_code == 1


URDF = """<robot name="r"><link name="base"/>
<link name="arm"><inertial><origin xyz="0 0 .5"/><mass value="1"/><inertia ixx=".1" ixy="0" ixz="0" iyy=".1" iyz="0"
 izz=".01"/></inertial></link><link name="wheel"/>
<joint name="shoulder" type="revolute"><parent link="base"/><child link="arm"/><axis xyz="0 1 0"/>
 <limit lower="0.7" upper="2" effort="1" velocity="1"/></joint>
<joint name="spin" type="continuous"><parent link="arm"/><child link="wheel"/><origin xyz="0 0 1"/></joint></robot>"""


def test_a_urdf_file_with_faults_runs(run, tmp_path):
    """A reference pose far outside a limit, and a wheel without mass."""
    (tmp_path / "r.urdf").write_text(URDF)
    result = run("run", "r.urdf", "--time", "0.1", "--json")
    assert result.exit_code == 0, result.stderr
    assert "supple: 'shoulder' starts at 0 rad, outside its limits 0.7 ... 2" in result.stderr
    assert "supple: joints that move no mass get an armature, kg m^2 or kg: 'spin' " in result.stderr
    joints = {joint["name"]: joint["coordinates"] for joint in json.loads(result.stdout)["joints"]}
    assert joints["shoulder"][0] > 0.7


def test_springs_keep_the_damping_of_a_urdf_file(run, tmp_path):
    """Without --damping, or with less than the file's, the motion is the same; a larger one replaces it."""
    damped = URDF.replace('velocity="1"/>', 'velocity="1"/><dynamics damping="0.3"/>')
    (tmp_path / "r.urdf").write_text(damped)
    assert supple.load("r.urdf").with_springs(50.0).joint("shoulder").damping == 0.3
    told = ("run", "r.urdf", "--q", "shoulder", "1.5", "--springs", "50", "--time", "0.1", "--json")
    plain, less, more = (run(*told, *given) for given in ((), ("--damping", "0.1"), ("--damping", "2")))
    states = [json.loads(result.stdout)["joints"] for result in (plain, less, more)]
    assert states[0] == states[1] != states[2]
    lines = [line for line in more.stderr.splitlines() if "damping" in line]
    assert lines == ["supple: --damping replaces the damping of 'shoulder' (0.3 by 2)"]
    assert "Warning" not in more.stderr


def test_coordinates_base_and_targets(run, tmp_path):
    (tmp_path / "r.urdf").write_text(URDF)
    options = ("--q", "shoulder", "1.5", "--springs", "50", "--json")
    result = run("run", "r.urdf", *options, "--target", "shoulder", "1.2")
    assert result.exit_code == 0, result.stderr
    joints = {joint["name"]: joint["coordinates"] for joint in json.loads(result.stdout)["joints"]}
    assert joints["shoulder"][0] == pytest.approx(1.2, abs=0.2)
    assert run("run", "r.urdf", *options).stderr == ""
    result = run("run", "r.urdf", "--q", "shoulder", "1.5", "--base", "free", "--time", "0.02", "--json")
    assert result.exit_code == 0, result.stderr
    assert "base_free" in result.stdout
    result = run("run", "ladder", "--q", "left_hinge_1", "0.1")
    assert "supple: to close loops within limits, these move too, rad or m: '" in result.stderr


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--q", "elbow", "1"), "no coordinate of 'r' named 'elbow'"),
        (("--q", "shoulder", "0.1"), "'shoulder' must not move, but it is at 0.1, outside its limits 0.7 ... 2"),
        (("--q", "shoulder", "x"), "--q shoulder: 'x' is not a number"),
        (("--base", "swing"), "the base is 'fixed', 'free' or a Joint, got 'swing'"),
    ],
)
def test_bad_preparations_are_one_line(run, tmp_path, options, text):
    (tmp_path / "r.urdf").write_text(URDF)
    result = run("run", "r.urdf", *options)
    assert result.exit_code == 1
    assert text in result.stderr
    assert result.stderr.count("\n") == 1
