"""The command line, through typer's runner and once as a user starts it."""

import io
import json
import signal
import socket
import subprocess
import sys
from dataclasses import replace
from time import sleep
from urllib.request import urlopen

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

import supple
from browser.browsing import free_port
from supple.cli import words
from supple.cli.app import app
from supple.progress import Bar
from supple.viewer.methods import METHODS
from supple.viewer.recording import Recording


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return lambda *args: CliRunner().invoke(app, args)


@pytest.fixture
def rich_mechanism():
    """One with everything that `info` has a line for."""
    b = supple.Builder("gantry [red]")
    b.link("beam", (0, 0, 0), (1, 0, 0), mass=2.0)
    b.link("arm", (1, 0, 0), (1, 0, -0.5), mass=1.0)
    b.slide("rail", "world", "beam", at=(0, 0, 0), axis="x", limits=(-0.5, 0.5))
    b.hinge("elbow", "beam", "arm", at=(1, 0, 0), axis="y", damping=0.2)
    b.bushing("mount", "world", "arm", at=(1, 0, -0.5), stiffness=[1e4, 1e4, 1e4, 10, 10, 20], damping=1.0)
    b.site("camera", "arm", at=(1, 0, -0.4))
    b.couple("cable", {"rail": 2.0, "elbow": -1.0}, stiffness=30.0, rest=0.1)
    b.motor("drive", "rail", position=0.0)
    return b.build()


def test_version(run):
    result = run("--version")
    assert (result.exit_code, result.stdout.strip()) == (0, f"supple {supple.__version__}")


def test_info_of_the_library(run):
    result = run("info", "ladder")
    assert result.exit_code == 0
    for expected in ("64 hinge", "16: closed by right_pin_1", "32 (the spanning tree has 48", "right_pin_16"):
        assert expected in result.stdout
    row = next(line for line in result.stdout.splitlines() if line.split()[:1] == ["tip"])
    assert " ".join(row.split()) == "tip 1 0.0000 0.0000 3.2000 0.0 90.0 0.0 left_pin_16, right_pin_16"


def test_info_as_json(run, rich_mechanism):
    rich_mechanism.save("gantry.json")
    result = run("info", "gantry.json", "--json")
    assert result.exit_code == 0
    facts = json.loads(result.stdout)
    assert (facts["mass"], facts["mobility"], facts["unheld"]) == (3.0, rich_mechanism.mobility, [])
    assert facts["loops"] == ["mount"]
    np.testing.assert_allclose(facts["centre"], rich_mechanism.centre)
    rail, _, mount = facts["joints"]
    assert (rail["kind"], rail["limits"], rail["closes_loop"]) == ("slide", [[-0.5, 0.5]], False)
    assert (mount["kind"], mount["limits"]) == ("bushing", [[None, None]] * 6)
    assert mount["stiffness"] == [1e4, 1e4, 1e4, 10, 10, 20]
    assert facts["bodies"][1]["held_by"] == ["elbow", "mount"]
    assert facts["couplings"][0]["coefficients"] == {"rail": 2.0, "elbow": -1.0}
    assert facts["motors"] == [{"name": "drive", "coordinate": "rail", "position": 0.0}]
    assert facts["sites"][0]["name"] == "camera"


def test_info_names_everything(run, rich_mechanism):
    rich_mechanism.save("gantry.json")
    result = run("info", "gantry.json")
    assert result.exit_code == 0
    for expected in (
        "gantry [red]",
        "-0.5 … 0.5",
        "10000 10000 10000 10 10 20",
        "2 rail + -1 elbow",
        "spring 30 about 0.1",
        "drive",
        "camera",
        "closes a loop",
        "beam → arm",
        "elbow, mount",
    ):
        assert expected in result.stdout
    assert "Not imported" not in result.stdout


def test_info_lists_what_is_not_held(run):
    b = supple.Builder("pendulum")
    b.link("rod", (0, 0, 0), (0, 0, -1), mass=1.0)
    b.hinge("pivot", "world", "rod", at=(0, 0, 0), axis="y")
    b.build().save("pendulum.json")
    assert "not held  pivot" in run("info", "pendulum.json").stdout


def test_info_of_mjcf_lists_what_was_not_imported(run, tmp_path):
    (tmp_path / "m.xml").write_text(
        "<mujoco><worldbody><body name='rod'><joint name='pivot' type='hinge' axis='0 1 0' stiffness='3'/>"
        "<geom type='capsule' size='.01' fromto='0 0 0 0 0 -1'/></body></worldbody>"
        "<sensor><jointpos joint='pivot'/></sensor>"
        "<keyframe><key name='bent' qpos='0.5'/></keyframe></mujoco>"
    )
    result = run("info", "m.xml", "--keyframe", "bent", "--json")
    assert result.exit_code == 0, result.stderr
    facts = json.loads(result.stdout)
    assert facts["joints"][0]["reference"] == [0.5]
    assert [note["item"] for note in facts["not_imported"]] == ["1 sensors"]
    printed = run("info", "m.xml").stdout
    assert "Not imported" in printed
    assert "read poses and coordinates from the simulation" in printed


def test_control_characters_do_not_reach_the_terminal(run, tmp_path):
    b = supple.Builder("evil\x1b[2J")
    b.link("ball", (0, 0, 0), (0, 0, 1), mass=1.0)
    b.free("base", "world", "ball")
    b.build().save("evil.json")
    result = run("info", "evil.json")
    assert result.exit_code == 0
    assert "\x1b" not in result.stdout


@pytest.mark.parametrize(
    ("args", "code", "text"),
    [
        (("info", "laddr"), 1, "neither a file nor a mechanism of the library (bicycle_chain, helix, ladder"),
        (("info", "missing.xml"), 1, "missing.xml"),
        (("info", "bad.json"), 1, "bad.json"),
        (("info", "ladder", "--keyframe", "home"), 1, "keyframe"),
        (("demo", "--picture", "nowhere/a.png"), 1, "nowhere"),
        (("view", "missing.xml"), 1, "missing.xml"),
        (("view", "ladder", "--end-effector", "tap", "--no-browser"), 1, "did you mean 'tip'"),
        (("view", "ladder", "--method", "magic", "--no-browser"), 1, "no method named 'magic'"),
        (("view", "ladder", "--port", "0"), 1, "a port is a number from 1 to 65535"),
        (("view", "ladder", "--host", "no.such.host.invalid"), 1, "no.such.host.invalid"),
        (("replay", "missing.npz"), 1, "there is no file missing.npz"),
        (("replay", "bad.json"), 1, "bad.json is not a recording"),
        (("reduce", "ladder", "-e", "tap"), 1, "did you mean 'tip'"),
        (("reduce", "ladder", "-o", "model.txt"), 1, "a model's name ends in .npz"),
        (("compare", "ladder", "-e", "tap"), 1, "did you mean 'tip'"),
        (("compare", "ladder", "-e", "tip", "--force", "rung_3", "0", "1", "0"), 1, "--end-effector rung_3"),
        (("explore", "ladder", "--max-error", "0"), 1, "max_error must be a positive number"),
        (("replay", "model.npz"), 1, "is not a recording but a reduced model; make one with supple run"),
        (("run", "ladder", "-o", "run.npz"), 1, "'run.npz' holds a motion: give its length, with --time"),
        (("demo", "--picture", "a.docx"), 1, ".png"),
        (("info",), 2, "Missing argument"),
        (("infos", "ladder"), 2, "No such command"),
        (("info", "ladder", "--colour"), 2, "No such option"),
    ],
)
def test_errors_are_one_line_and_an_exit_code(run, tmp_path, args, code, text):
    (tmp_path / "bad.json").write_text('{"format": ')
    supple.reduce(supple.library.ladder(rungs=1), "tip").save("model.npz")
    result = run(*args)
    assert result.exit_code == code
    assert text in result.stderr
    assert "Traceback" not in result.output
    if code == 1:
        assert len(result.stderr.splitlines()) == 1
        assert result.stderr.startswith("supple: ")


def test_demo(run, tmp_path):
    result = run("demo")
    assert result.exit_code == 0
    told = ("closed by right_pin_1", "16 closed loops", "engine", "linear", "blended", "MuJoCo", "supple view ladder")
    for expected in told:
        assert expected in result.stdout
    picture = (tmp_path / "supple-demo.png").read_bytes()
    assert picture.startswith(b"\x89PNG")
    assert 10_000 < len(picture) < 200_000


def start(folder, *args, before=""):
    """A fresh interpreter that calls the entry point."""
    command = [sys.executable, "-c", f"{before}\nfrom supple.cli import main; main()", *args]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60)


def test_as_a_user_starts_it(tmp_path):
    done = start(tmp_path, "info", "y", "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["name"] == "y"
    failed = start(tmp_path, "info", "no.json")
    assert failed.returncode == 1
    assert failed.stdout == ""
    assert len(failed.stderr.splitlines()) == 1


def test_without_typer_it_says_what_to_install(tmp_path):
    done = start(tmp_path, "demo", before="import sys; sys.modules['typer'] = None")
    assert done.returncode == 1
    assert done.stderr.strip() == "supple: the command line needs typer; run: pip install 'supple[all]'"


# supple run


def test_run_prints_and_draws_the_equilibrium(run, tmp_path):
    result = run("run", "ladder", "--force", "tip", "0", "100", "0")
    assert result.exit_code == 0, result.stderr
    for expected in ("(0, 100, 0) N, world axes", "100.0%", "Newton steps", "left_hinge_1", "… and 38 more"):
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
    assert "0.01 s in steps of 0.002 s (euler)" in printed
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


def test_run_shows_how_far_it_got(run, tmp_path, stuck):
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
        (("y", "--time", "1", "--dt", "2"), "a step of 2 s (--dt) is longer than the simulation"),
        (("y", "--time", "1", "--dt", "-1"), "dt must be a positive number"),
        (("y", "--time", "1", "--method", "rk4"), "method must be"),
        (("y", "--picture", "y.gif"), ".png"),
        (("y", "-o", "nowhere/y.png"), "nowhere"),
        (("rod.json",), "nothing holds 'pivot'"),
        (("rod.json",), "Add springs (--springs 50)"),
        (("ball.json", "--springs", "5"), "It floats: fix it, or move it in time with --time 2"),
        (("rod.json", "--target", "pivot", "1"), "no spring to set a target for; add one with --springs 50"),
    ],
)
def test_run_refuses_in_one_line(run, tmp_path, args, text):
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


def test_words_are_tied_up_to_a_double_dash():
    assert words.tied(["a", "--target", "x", "1", "--json"]) == ["a", "--target", "x\x001", "--json"]
    assert words.tied(["--", "--target", "x", "1"]) == ["--", "--target", "x", "1"]
    assert words.tied(["--target"]) == ["--target"]


def test_the_bar_appears_only_when_it_takes_long():
    def shown(patience):
        text = io.StringIO()
        with Bar("working", patience, Console(file=text, force_terminal=True)) as bar:
            sleep(0.2)
            bar.reach(0.5)
            sleep(0.2)
        return text.getvalue()

    assert shown(patience=10.0) == ""
    assert "working" in shown(patience=0.05)
    assert "50%" in shown(patience=0.05)


@pytest.mark.parametrize("options", [("--dt", "0.01"), ("--method", "bdf2"), ("--damping", "1")])
def test_options_that_would_do_nothing(run, options):
    result = run("run", "ladder", *options)
    assert result.exit_code == 2
    assert "--time" in result.output or "--springs" in result.output


@pytest.mark.parametrize("options", [("--springs", "5"), ("--damping", "1"), ("--keyframe", "home")])
def test_options_that_a_scene_does_not_take(run, options):
    result = run("view", "trampoline", "--no-browser", *options)
    assert result.exit_code == 2
    assert "are for mechanisms" in result.output


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


# models


def test_reduce_saves_a_model(run, tmp_path):
    result = run("reduce", "y", "-e", "left_tip", "-o", "y.npz", "--json")
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    model = supple.ReducedModel.load(tmp_path / "y.npz")
    assert (model.end_effectors, model.rank) == (("left_tip",), found["rank"])
    np.testing.assert_allclose(found["end_effectors"][0]["compliance"], np.diag(model.compliance))
    printed = run("reduce", "y", "-o", "both.npz").stdout
    assert "into 12 numbers of rank" in printed
    assert supple.ReducedModel.load(tmp_path / "both.npz").end_effectors == ("left_tip", "right_tip")


def test_explore_saves_a_blended_model(run, tmp_path):
    args = ("explore", "loop", "--max-error", "0.1", "--reach", "0.1", "-o", "many.npz")
    result = run(*args, "--json")
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    many = type(supple.blend([supple.reduce(supple.library.loop(), ["tip"])])).load(tmp_path / "many.npz")
    assert len(many.models) == found["models"]
    assert found["met"]
    assert found["error_after"] <= 0.1


def test_explore_says_what_it_missed(run):
    result = run("explore", "robot_arm", "--max-error", "1e-6", "--reach", "0.5", "--budget", "2")
    assert result.exit_code == 1
    assert "raise --budget or --max-error" in result.stderr
    assert "with one model" in result.stdout


def test_compare_puts_every_method_beside_the_engine(run, tmp_path):
    result = run("compare", "loop", "-e", "tip", "--force", "tip", "200", "0", "20", "--json")
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    rows = {row["method"]: row for row in found["methods"]}
    assert {"engine", "linear", "blended", "MuJoCo"} <= set(rows)
    mech = supple.library.loop()
    eq = supple.equilibrium(mech, {"tip": [200, 0, 20, 0, 0, 0]})
    moved = np.linalg.norm(eq.poses.array[:, :3, 3] - mech.poses.array[:, :3, 3], axis=1).max()
    assert found["moved"] == pytest.approx(moved)
    model = supple.reduce(mech, ["tip"])
    expected = model.compliance @ np.concatenate([model.end_effector_poses[0][:3, :3].T @ [200, 0, 20], np.zeros(3)])
    tip = model.end_effector_poses[0] @ supple.spatial.exp(expected)
    assert rows["linear"]["tip_error"] == pytest.approx(np.linalg.norm(tip[:3, 3] - eq.poses["tip"][:3, 3]), rel=0.05)
    assert rows["blended"]["error"] < 0.3 * rows["linear"]["error"]
    assert rows["MuJoCo"]["error"] < 0.05 * moved
    assert rows["engine"]["loop_drift"] < 1e-12 < rows["MuJoCo"]["loop_drift"]
    assert (tmp_path / "supple-compare.png").read_bytes().startswith(b"\x89PNG")


def test_compare_chooses_a_force_and_prints_a_table(run):
    result = run("compare", "robot_arm")
    assert result.exit_code == 0, result.stderr
    for expected in ("on tip", "links off by mm", "exact", "times the engine's speed", "supple-compare.png"):
        assert expected in result.stdout


def test_compare_leaves_out_what_does_not_work(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "mujoco", None)
    result = run("compare", "loop", "--json")
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert "needs the package mujoco" in found["failed"]["MuJoCo"]


def gripper():
    """Two fingers on one spring between stops."""
    b = supple.Builder("gripper", gravity=(0, 0, 0))
    for side in (-1, 1):
        name = {-1: "left", 1: "right"}[side]
        b.link(name, (0.1 * side, 0, 0), (0.1 * side, 0, 0.3), mass=0.2)
        spring = {"stiffness": 5.0, "limits": (-0.01, 1.0)}
        b.hinge(f"{name}_hinge", "world", name, at=(0.1 * side, 0, 0), axis=(0, -side, 0), **spring)
        b.site(f"{name}_tip", name, at=(0.1 * side, 0, 0.3))
    b.couple("gear", {"left_hinge": 1.0, "right_hinge": -1.0}, stiffness=1e3)
    return b.build()


def test_compare_pulls_end_effectors_together_and_away_from_stops(run):
    gripper().save("gripper.json")
    result = run("compare", "gripper.json", "--json")
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    pulls = {load["on"]: load["wrench"][0] for load in found["loads"]}
    assert pulls["left_tip"] > 0 > pulls["right_tip"]  # both close, which the stops allow
    rows = {row["method"]: row for row in found["methods"]}
    assert 0.2 < found["moved"] / (0.3 * found["radius"]) < 1.5
    assert rows["blended"]["error"] < 0.1 * found["moved"]


def test_compare_says_why_there_is_no_blended_model(run):
    gripper().save("gripper.json")
    args = ("--force", "left_tip", "-9", "0", "0", "--force", "right_tip", "9", "0", "0")
    result = run("compare", "gripper.json", *args, "--json")
    assert result.exit_code == 0, result.stderr
    assert "stops hold it; try another --force" in json.loads(result.stdout)["failed"]["blended"]


def test_compare_tells_remedies_as_options(run, monkeypatch):
    def fail(models, dt):
        raise supple.MechanismError("nothing holds it. Add springs (mech.with_springs(stiffness=...))")

    monkeypatch.setitem(METHODS, "condensed", replace(METHODS["condensed"], begin=fail))
    result = run("compare", "loop", "--json")
    assert json.loads(result.stdout)["failed"]["condensed"] == "nothing holds it. Add springs (--springs 50)"


def test_compare_refuses_what_floats(run):
    b = supple.Builder("scene")
    b.link("arm", (0, 0, 0), (0, 0, 1), mass=1.0)
    b.hinge("pivot", "world", "arm", at=(0, 0, 0), axis="y", stiffness=50.0)
    b.link("ball", (1, 0, 0), (1, 0, 0.1), mass=1.0)
    b.free("ball_joint", "world", "ball")
    b.build().save("scene.json")
    result = run("compare", "scene.json", "-e", "arm")
    assert result.exit_code == 1
    assert "'ball' of 'scene' floats free" in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize("robot", ["robotiq_2f85/2f85.xml", "shadow_hand/right_hand.xml"])
def test_compare_on_real_robots(run, robots, robot):
    """With springs on what nothing holds every method has its row, and the default load fits the blended model."""
    result = run("compare", str(robots / robot), "--springs", "0.5", "--json")
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert found["failed"] == {}
    rows = {row["method"]: row for row in found["methods"]}
    assert set(rows) == {"engine", "linear", "blended", "condensed", "MuJoCo"}
    assert rows["blended"]["error"] < 0.5 * rows["linear"]["error"]
    assert rows["condensed"]["error"] < 0.05 * found["moved"]


# recordings and the viewer


def test_a_run_is_recorded_and_turned_into_other_files(run, tmp_path):
    args = ("--force", "tip", "0", "20", "0", "--time", "0.5", "-o", "run.npz", "-o", "run.glb", "-o", "run.png")
    result = run("run", "robot_arm", *args, "--json")
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert (found["files"], found["picture"]) == (["run.npz", "run.glb", "run.png"], "run.png")
    recording = Recording.load("run.npz")
    assert len(recording.times) == 16
    np.testing.assert_allclose(recording.at(9.0)[-1, :3, 3], found["bodies"][-1]["position"], atol=1e-6)
    assert (tmp_path / "run.glb").read_bytes().startswith(b"glTF")
    again = run("replay", "run.npz", "-o", "again.glb")
    assert again.exit_code == 0, again.stderr
    assert (tmp_path / "again.glb").read_bytes() == (tmp_path / "run.glb").read_bytes()
    assert run("replay", "run.npz", "-o", "end.png").stdout.endswith("where it began pale, where it ended solid.\n")
    assert (tmp_path / "end.png").read_bytes().startswith(b"\x89PNG")
    assert "supple replay run.npz" in run("run", "y", "--time", "0.1", "-o", "run.npz").stdout


def test_a_port_in_use_is_one_line(run):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        result = run("view", "ladder", "--no-browser", "--port", str(port))
    assert result.exit_code == 1
    assert result.stderr == f"supple: port {port} is in use; choose another one (--port), or end what uses it\n"


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (("view", "nope.xml"), "'nope.xml' is not there"),
        (("view", "broken.xml"), "broken.xml, line 1: not well-formed XML"),
        (("view", "nosuch"), "robot_arm, y), nor a scene ("),
        (("view", "ladder", "-e", "tap"), "did you mean 'tip'"),
        (("view", "ladder", "--method", "magic"), "no method named 'magic'"),
        (("view", "ladder", "--port", "99999"), "a port is a number from 1 to 65535"),
        (("view", "ladder", "--host", "192.0.2.1"), "cannot listen on 192.0.2.1"),
        (("view", "trampoline", "-e", "tip"), "comes with its own end effectors"),
        (("replay", "nope.npz"), "there is no file nope.npz"),
        (("replay", "broken.npz"), "is not a recording, or is damaged"),
        (("compare", "broken.xml"), "broken.xml, line 1: not well-formed XML"),
    ],
)
def test_what_cannot_be_shown_is_one_line(run, tmp_path, args, text):
    (tmp_path / "broken.xml").write_text("<mujoco><body")
    (tmp_path / "broken.npz").write_text("nothing")
    free = () if "--port" in args or args[0] == "compare" else ("--port", str(free_port()))
    result = run(*args, *free, *(() if args[0] == "compare" else ("--no-browser",)))
    assert result.exit_code == 1
    assert text in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_without_viser_it_says_what_to_install(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "viser", None)
    result = run("view", "ladder", "--no-browser")
    assert result.exit_code == 1
    assert "pip install 'supple[all]'" in result.stderr


def test_view_shows_a_page_until_it_is_ended(tmp_path):
    port = free_port()
    command = [sys.executable, "-u", "-c", "from supple.cli import main; main()"]
    command += ["view", "ladder", "--no-browser", "--port", str(port)]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        first = process.stdout.readline()
        assert first == f"'ladder' is at http://localhost:{port}, pulled at tip.\n"
        assert process.stdout.readline() == "Open that address in a browser; end with Ctrl-C.\n"
        with urlopen(f"http://127.0.0.1:{port}", timeout=60) as page:
            assert b"<html" in page.read().lower()
    finally:
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 0
    assert errors == ""


def test_the_shell_completes_mechanisms(tmp_path):
    asked = {"_SUPPLE_COMPLETE": "complete_bash", "COMP_WORDS": "supple view lad", "COMP_CWORD": "2"}
    before = f"import os, sys; os.environ.update({asked!r}); sys.argv[0] = 'supple'"
    assert start(tmp_path, before=before).stdout.split() == ["ladder"]


def test_huge_linkages_come_in_a_size_that_can_be_shown(run):
    result = run("info", "millipede", "--json")
    assert result.exit_code == 0, result.stderr
    assert len(json.loads(result.stdout)["bodies"]) == 1300
