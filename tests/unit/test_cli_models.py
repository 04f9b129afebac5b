"""supple reduce, explore and compare."""

import json
import sys
from dataclasses import replace

import numpy as np
import pytest

import supple
from supple.cli.comparison import MethodUnderLoad, _MuJoCoMethod, _seconds_per_step, compare
from supple.viewer.methods import METHODS


def test_reduce_saves_a_model(run, tmp_path):
    result = run("reduce", "y", "-e", "left_tip", "-o", "y.npz", "--json")
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    model = supple.ReducedModel.load(tmp_path / "y.npz")
    assert (model.end_effectors, model.rank) == (("left_tip",), found["rank"])
    np.testing.assert_allclose(found["end_effectors"][0]["compliance"], np.diag(model.compliance))
    printed = run("reduce", "y", "-o", "both.npz").stdout
    assert "to 12 numbers of rank" in printed
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


def test_explore_reports_a_missed_bound(run):
    result = run("explore", "robot_arm", "--max-error", "1e-6", "--reach", "0.5", "--budget", "2")
    assert result.exit_code == 1
    assert "raise --budget or --max-error" in result.stderr
    assert "with one model" in result.stdout


@pytest.fixture
def patient(monkeypatch):
    """Simulations come to rest, however long that takes here."""
    monkeypatch.setattr("supple.cli.comparison.MAX_SECONDS", 600.0)


@pytest.mark.usefixtures("patient")
def test_compare_runs_every_method_and_the_engine(run, tmp_path):
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


def test_compare_lists_methods_that_fail(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "mujoco", None)
    result = run("compare", "loop", "--json")
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert "needs the package mujoco" in found["failed"]["MuJoCo"]


def gripper():
    """Two fingers on one spring, with joint limits."""
    b = supple.Builder("gripper", gravity=(0, 0, 0))
    for side in (-1, 1):
        name = {-1: "left", 1: "right"}[side]
        b.link(name, (0.1 * side, 0, 0), (0.1 * side, 0, 0.3), mass=0.2)
        spring = {"stiffness": 5.0, "limits": (-0.01, 1.0)}
        b.hinge(f"{name}_hinge", "world", name, at=(0.1 * side, 0, 0), axis=(0, -side, 0), **spring)
        b.site(f"{name}_tip", name, at=(0.1 * side, 0, 0.3))
    b.couple("gear", {"left_hinge": 1.0, "right_hinge": -1.0}, stiffness=1e3)
    return b.build()


@pytest.mark.usefixtures("patient")
def test_compare_pulls_end_effectors_together_and_away_from_limits(run):
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
    assert "joint limits block it; try another --force" in json.loads(result.stdout)["failed"]["blended"]


def test_compare_gives_remedies_as_options(run, monkeypatch):
    def fail(models, dt):
        raise supple.MechanismError("nothing holds it. Add springs (mech.with_springs(stiffness=...))")

    monkeypatch.setitem(METHODS, "blended", replace(METHODS["blended"], begin=fail))
    result = run("compare", "loop", "--json")
    assert json.loads(result.stdout)["failed"]["blended"] == "nothing holds it. Add springs (--springs 50)"


def driven_arm(limits=(-np.inf, np.inf)):
    """A link on a spring of 5 N m/rad, which is an actuator with a range of 0.4 N m and a position control of zero."""
    b = supple.Builder("driven", gravity=(0, 0, 0))
    b.link("arm", (0, 0, 0), (0, 0, 0.5), mass=1.0)
    b.hinge("pivot", "world", "arm", at=(0, 0, 0), axis="y", stiffness=5.0, damping=0.5, limits=limits)
    b.actuator("drive", "pivot", gain=(5, 0, 0), bias=(0, -5, 0), force_range=(-0.4, 0.4), in_spring=True)
    b.site("tip", "arm", (0, 0, 0.5))
    return b.build()


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        ((-np.inf, np.inf), "actuator 'drive' exceeds the range of its force"),
        ((-0.06, 0.06), "'pivot' reaches a limit"),
    ],
)
def test_the_default_load_keeps_actuators_and_coordinates_within_their_ranges(limits, reason):
    found = compare(driven_arm(limits), ["tip"])
    assert found.load_note.endswith(f"under more, {reason}")
    largest = 4 / 3 * np.linalg.norm(found.wrenches["tip"]) * 0.5 / 5.0  # of the samples, rad
    bound = min(0.4 / 5.0, limits[1])
    assert 0.45 * bound < largest < bound
    assert found.engine_stays
    assert found.row("engine").error < 1e-9


@pytest.mark.usefixtures("patient")
def test_compare_says_that_the_engine_leaves_an_equilibrium_without_ranges(run):
    """The torque of 2 N m exceeds the actuator's range: the simulated arm falls over."""
    driven_arm().save("driven.json")
    result = run("compare", "driven.json", "--force", "tip", "4", "0", "0")
    assert result.exit_code == 0, result.stderr
    assert "under this load, actuator 'drive' exceeds the range of its force" in result.stdout
    assert "its simulation leaves the equilibrium" in result.stdout
    assert "exact\n" not in result.stdout


def test_the_default_load_leaves_out_end_effectors_that_no_force_moves():
    b = supple.Builder("crank", gravity=(0, 0, 0))
    b.link("hub", (0, 0, 0), (0, 0, 0.1), mass=0.2)
    b.hinge("shaft", "world", "hub", at=(0, 0, 0), axis="z", stiffness=3.0)
    b.link("rod", (0.1, 0, 0.1), (0.4, 0, 0.1), mass=0.1)
    b.hinge("pin", "hub", "rod", at=(0.1, 0, 0.1), axis="z", stiffness=3.0)
    b.site("tip", "rod", (0.4, 0, 0.1))
    found = compare(b.build(), ["hub", "tip"])
    assert set(found.wrenches) == {"tip"}
    assert 0.1 < found.moved / found.mechanism.radius < 1


class Counted(MethodUnderLoad):
    """Records its calls; fails at the given repetition."""

    def __init__(self, name, calls, fails_at=None):
        self.name, self.calls, self.fails_at, self.resets = name, calls, fails_at, 0

    def reset(self):
        self.resets += 1
        self.calls.append(self.name)

    def step(self, n):
        if self.resets == self.fails_at:
            raise supple.ConvergenceError("it diverges")

    def poses(self):
        raise NotImplementedError


def test_methods_are_timed_in_turns_and_leave_out_those_that_fail():
    calls, failed = [], {}
    methods = {"a": Counted("a", calls), "b": Counted("b", calls, fails_at=2), "c": Counted("c", calls)}
    steps = _seconds_per_step(methods, failed)
    assert calls[:8] == ["a", "b", "c", "a", "b", "c", "a", "c"]
    assert list(steps) == ["a", "c"]
    assert failed == {"b": "it diverges"}


def test_a_simulation_of_mujoco_that_diverges_has_no_row(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    method = _MuJoCoMethod(supple.library.robot_arm(), {"tip": np.array([0, 1.0, 0, 0, 0, 0])})
    method.reset()
    method.step(10)
    method.data.qvel[0] = np.nan
    with pytest.raises(supple.MechanismError, match="diverges with time steps of 2 ms"):
        method.step(10)
    assert not list(tmp_path.iterdir())  # MuJoCo's own log


def test_mujoco_is_not_compared_where_bodies_are_flexible():
    with pytest.raises(supple.MechanismError, match="no flexible bodies such as 'rod'"):
        _MuJoCoMethod(supple.library.rod_on_motor(), {})


def test_an_open_loop_is_closed_by_compare_and_by_the_option_that_reduce_advises(run):
    b = supple.Builder("square")
    corners = [(0, 0, 0), (0, 0, 1), (1, 0, 1), (1, 0, 0)]
    for i, (before, name) in enumerate((("world", "left"), ("left", "top"), ("top", "right"))):
        b.link(name, corners[i], corners[i + 1], mass=1.0)
        b.hinge(f"{name}_hinge", before, name, at=corners[i], axis="y", stiffness=50.0)
    b.hinge("last", "right", "world", at=corners[3], axis="y")
    mech = b.build()
    *others, last = mech.joints
    beside = last.pose_child @ supple.spatial.translation([0.005, 0, 0])
    replace(mech, joints=(*others, replace(last, pose_child=beside))).save("square.json")
    refused = run("reduce", "square.json", "-e", "top")
    assert refused.exit_code == 1
    assert "is open by 0.005 m" in refused.stderr
    assert "give --q NAME VALUE, which closes loops within limits" in refused.stderr
    assert "at=" not in refused.stderr
    assert run("reduce", "square.json", "-e", "top", "--q", "left_hinge", "0").exit_code == 0
    result = run("compare", "square.json", "-e", "top", "--json")
    assert result.exit_code == 0, result.stderr
    assert "has a gap of 0.005 m at the start" in result.stderr
    assert json.loads(result.stdout)["failed"] == {}


def test_compare_raises_for_a_free_body(run):
    b = supple.Builder("scene")
    b.link("arm", (0, 0, 0), (0, 0, 1), mass=1.0)
    b.hinge("pivot", "world", "arm", at=(0, 0, 0), axis="y", stiffness=50.0)
    b.link("ball", (1, 0, 0), (1, 0, 0.1), mass=1.0)
    b.free("ball_joint", "world", "ball")
    b.build().save("scene.json")
    result = run("compare", "scene.json", "-e", "arm")
    assert result.exit_code == 1
    assert "'ball' of 'scene' floats free" in result.stderr
    assert "give a file without it" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_every_command_on_a_mechanism_can_fix_its_base_and_set_coordinates(run):
    b = supple.Builder("walker")
    b.link("hull", (0, 0, 0), (0, 0, 0.2), mass=1.0)
    b.free("base", "world", "hull")
    b.link("leg", (0, 0, 0), (0, 0, -0.5), mass=0.5)
    b.hinge("hip", "hull", "leg", at=(0, 0, 0), axis="y", stiffness=20.0, damping=0.1)
    b.site("foot", "leg", (0, 0, -0.5))
    b.build().save("walker.json")
    result = run("compare", "walker.json")
    assert result.exit_code == 1
    assert "'hull' of 'walker' floats free" in result.stderr
    assert "hold it with --base fixed" in result.stderr
    fixed = ("walker.json", "--base", "fixed", "--json")
    assert "free" not in {joint["kind"] for joint in json.loads(run("info", *fixed).stdout)["joints"]}
    of_foot = (*fixed, "-e", "foot")
    for command in (
        ("compare", *of_foot),
        ("reduce", *of_foot),
        ("explore", *of_foot, "--reach", "0.05", "--budget", "5"),
        ("sweep", *fixed, "--measure", "foot", "--vary", "hip.stiffness", "20,30"),
    ):
        result = run(*command, "--q", "hip", "0.1")
        assert result.exit_code == 0, (command[0], result.stderr)
        json.loads(result.stdout)


@pytest.mark.usefixtures("patient")
def test_the_default_load_of_a_gripper_does_not_exceed_its_actuator(run, robots):
    pads = ("-e", "right_pad", "-e", "left_pad")
    result = run("compare", str(robots / "robotiq_2f85/2f85.xml"), *pads, "--json")
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert "under more, actuator 'fingers_actuator' exceeds the range of its force" in found["load_note"]
    assert max(np.linalg.norm(load["wrench"]) for load in found["loads"]) < 50
    assert found["engine_stays"]
    assert found["failed"] == {}
    assert not result.stderr  # that limits contradict each other


@pytest.mark.parametrize("robot", ["robotiq_2f85/2f85.xml", "shadow_hand/right_hand.xml"])
def test_compare_on_real_robots(run, robots, robot):
    """With springs where nothing holds a coordinate, every method has a row and the default load suits blends."""
    result = run("compare", str(robots / robot), "--springs", "0.5", "--json")
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert found["failed"] == {}
    rows = {row["method"]: row for row in found["methods"]}
    assert set(rows) == {"engine", "linear", "blended", "MuJoCo"}
    assert rows["blended"]["error"] < 0.5 * rows["linear"]["error"]
