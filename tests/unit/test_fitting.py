"""Fitting of materials: faults of the input, files, and the command."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import supple
from supple import elastic, spatial
from supple.cli.app import app
from supple.elastic.cache import with_cached_basis
from supple.retargeting import MeasuredMotion, Motion, fit_material

TURN = Motion.from_samples([0, 0.05, 0.2, 0.6], {"motor": [0, 0, 0.5, 0.5]})


def build_arm(rods: int = 1):
    material = elastic.Material(young=200e9, poisson=0.3, density=7850, beta=4e-4)
    part = with_cached_basis(elastic.rod(0.3, 4e-3, material, sections=4, sides=6), modes=3, method="linear", plane="y")
    build = supple.Builder("arm")
    build.flexible("rod", part)
    build.hinge("foot", "world", "rod.start", at=(0, 0, 0), axis="y")
    build.motor("motor", "foot")
    if rods == 2:
        build.flexible("other", part, pose=spatial.translation([0, 0, 0.3]))
        build.fixed("middle", "rod.end", "other.start")
    build.body("tip", spatial.translation([0, 0, 0.3 * rods]), mass=0.1, inertia=(1e-5, 1e-5, 1e-5))
    build.fixed("clamp", "rod.end" if rods == 1 else "other.end", "tip")
    return build.build()


@pytest.fixture(scope="module")
def arm():
    return build_arm()


@pytest.fixture(scope="module")
def measured(arm):
    """The tip of the arm as it is, every 10 ms."""
    sim = supple.Simulation(arm, 2e-3, "bdf2", at=supple.equilibrium(arm), motors={"motor": lambda t: TURN(t)[0]})
    with sim.tape() as tape:
        sim.step(300)
    return MeasuredMotion(np.arange(61) / 100, tape.poses[::5, arm.frame("tip")[0], :3, 3])


def refused(match):
    return pytest.raises(supple.MechanismError, match=match)


def test_wrong_names(arm, measured):
    with refused("'hand'"):
        fit_material(arm, TURN, measured, "hand")
    with refused("no flexible body"):
        fit_material(supple.library.loop(), TURN, measured, "tip")
    with refused("'bar'"):
        fit_material(arm, TURN, measured, "tip", part="bar")
    with refused("'rod', 'other'; choose one with part=NAME"):
        fit_material(build_arm(2), TURN, measured, "tip")
    with refused("'elbow'"):
        fit_material(arm, Motion.from_samples([0, 1], {"elbow": [0, 1]}), measured, "tip")
    with refused("`fit` names some of"):
        fit_material(arm, TURN, measured, "tip", fit=("young", "poisson"))


def test_a_long_time_step_is_said(arm, measured):
    with pytest.warns(supple.RangeWarning, match=r"4 ms is long for a vibration of .* Hz.*take at most"):
        fit_material(arm, TURN, measured, "tip", dt=4e-3, fit=("young",))
    for wrong in (0.0, np.nan, "fine"):
        with refused("time step must be positive|dt must be"):
            fit_material(arm, TURN, measured, "tip", dt=wrong)
    with refused("a Motion is needed"):
        fit_material(arm, "turn.csv", measured, "tip")
    with refused("MeasuredMotion or the name"):
        fit_material(arm, TURN, measured.positions, "tip")


def test_measurements_that_do_not_serve(arm, measured):
    times, positions = measured.times, measured.positions
    with refused("do not move"):
        fit_material(arm, Motion.from_samples([0, 1], {"motor": [0, 0]}), measured, "tip")
    with refused("ends 0.0.* s after the motors start"):
        fit_material(arm, TURN, MeasuredMotion(times / 6, positions), "tip")
    with refused("samples a period"):
        fit_material(arm, TURN, MeasuredMotion(5 * times, positions), "tip")
    with refused("positions are in metres"):
        fit_material(arm, TURN, MeasuredMotion(times, 1e3 * positions), "tip")
    with refused("no material makes the simulation follow"):
        fit_material(arm, TURN, MeasuredMotion(times, positions * [-1, 1, 1]), "tip", dt=4e-3, fit=("beta",))


def test_samples_at_fault():
    times, positions = np.arange(30) / 100, np.zeros((30, 3))
    with refused("20 samples or more, got 5"):
        MeasuredMotion(times[:5], positions[:5])
    with refused("sample 4 .* not finite"):
        MeasuredMotion(times, np.where(np.arange(30)[:, None] == 3, np.nan, positions))
    with refused("jumps from 0.14 to 0.35 s"):
        MeasuredMotion(np.where(times > 0.145, times + 0.2, times), positions)
    with refused("must rise"):
        MeasuredMotion(np.where(times > 0.145, times - 0.1, times), positions)
    with refused("starts at -1 s"):
        MeasuredMotion(times - 1, positions)
    with refused(r"times \(n,\)"):
        MeasuredMotion(times, positions[:, :2])


def test_files_at_fault(tmp_path):
    file = tmp_path / "tip.csv"
    with refused("cannot read"):
        MeasuredMotion.load(file)
    file.write_text("t,x,y,z\n0,0,0,0\n")
    with refused("first line .* must be time,x,y,z"):
        MeasuredMotion.load(file)
    file.write_text("time,x,y,z\n0,0,0\n")
    with refused("rows of time,x,y,z"):
        MeasuredMotion.load(file)
    file.write_text("time,x,y,z\n0,0,0,zero\n")
    with refused("cannot read the measured motion"):
        MeasuredMotion.load(file)
    with refused("cannot write"):
        MeasuredMotion(np.arange(30) / 100, np.zeros((30, 3))).save(tmp_path / "none" / "tip.csv")


def test_command(arm, measured, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arm.save("arm.json")
    TURN.save("turn.csv", 1000)
    measured.save("tip.csv")
    args = ["fit", "arm.json", "turn.csv", "tip.csv", "--body", "tip", "--dt", "0.002"]
    done = CliRunner().invoke(app, [*args, "-o", "rod.npz", "--fit", "young", "--fit", "beta", "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["young"] == pytest.approx(200e9, rel=1e-3)
    assert elastic.load("rod.npz").material.beta == pytest.approx(4e-4, rel=0.01)
    wrong = CliRunner().invoke(app, [*args[:-3], "hand"])
    assert wrong.exit_code == 1
    assert "hand" in wrong.output
