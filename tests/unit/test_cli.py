"""The command line, through typer's runner and once as a user starts it: info, demo, errors."""

import json
import subprocess
import sys

import numpy as np
import pytest

import supple
from supple import _core


@pytest.fixture
def rich_mechanism():
    """A mechanism with every kind of part that `info` prints."""
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
    assert (result.exit_code, result.stdout.strip()) == (
        0,
        f"supple {supple.__version__}, compiled for {_core.VARIANT}",
    )


def test_info_of_the_library(run):
    result = run("info", "ladder")
    assert result.exit_code == 0
    for expected in ("64 hinge", "16: closed by right_pin_1", "32 (the spanning tree has 48", "right_pin_16"):
        assert expected in result.stdout
    row = next(line for line in result.stdout.splitlines() if line.split()[:1] == ["tip"])
    assert " ".join(row.split()) == "tip 1 0.0000 0.0000 3.2000 0.0 90.0 0.0 left_pin_16, right_pin_16"


def test_info_lists_actuators(run):
    b = supple.Builder("finger")
    b.link("bone", (0, 0, 0), (0, 0, 0.1), mass=0.1)
    b.hinge("knuckle", "world", "bone", at=(0, 0, 0), axis="y")
    b.actuator("grip", "knuckle", gain=(2, 0, 0), control_range=(0, 255), force_range=(-5, 5))
    b.build().save("finger.json")
    lines = [" ".join(line.split()) for line in run("info", "finger.json").stdout.splitlines()]
    assert "grip knuckle 0 0 … 255 -5 … 5" in lines
    facts = json.loads(run("info", "finger.json", "--json").stdout)["actuators"][0]
    assert (facts["name"], facts["control_range"], facts["dynamics"]) == ("grip", [0.0, 255.0], "none")


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
        (("info", "laddr"), 1, "neither a file nor a mechanism of the library (bicycle_chain, flexible_four_bar"),
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
        (("reduce", "ladder", "-o", "model.txt"), 1, "the name of a model must end in .npz"),
        (("compare", "ladder", "-e", "tap"), 1, "did you mean 'tip'"),
        (("compare", "ladder", "-e", "tip", "--force", "rung_3", "0", "1", "0"), 1, "--end-effector rung_3"),
        (("explore", "ladder", "--max-error", "0"), 1, "max_error must be a positive number"),
        (("replay", "model.npz"), 1, "is not a recording but a reduced model; make one with sim.record"),
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
    """A new interpreter that calls the entry point."""
    command = [sys.executable, "-c", f"{before}\nfrom supple.cli import main; main()", *args]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600)


def test_started_as_a_program(tmp_path):
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


def test_the_shell_completes_mechanisms(tmp_path):
    asked = {"_SUPPLE_COMPLETE": "complete_bash", "COMP_WORDS": "supple view lad", "COMP_CWORD": "2"}
    before = f"import os, sys; os.environ.update({asked!r}); sys.argv[0] = 'supple'"
    assert start(tmp_path, before=before).stdout.split() == ["ladder"]


def test_large_linkages_are_opened_in_a_small_size(run):
    result = run("info", "millipede", "--json")
    assert result.exit_code == 0, result.stderr
    assert len(json.loads(result.stdout)["bodies"]) == 1300
