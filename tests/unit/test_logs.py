"""Logs: columns with units, rows at any rate, tables and plots."""

import csv
import sys

import numpy as np
import pytest

import supple
from supple.mechanism import Shape
from supple.world.objects import rigid_object


def arm():
    """A hinge with a motor and a slide, with a site at the end."""
    b = supple.Builder("arm")
    b.link("upper", (0, 0, 1), (0.5, 0, 1), mass=1.0)
    b.link("lower", (0.5, 0, 1), (1, 0, 1), mass=1.0)
    b.hinge("shoulder", "world", "upper", at=(0, 0, 1), axis="y")
    b.slide("reach", "upper", "lower", at=(0.5, 0, 1), axis="x", stiffness=500.0, damping=5.0)
    b.motor("drive", "shoulder")
    b.site("tip", "lower", at=(1, 0, 1))
    return b.build()


@pytest.fixture(scope="module")
def run():
    """A simulation with a log of every step and its values, step by step."""
    sim = supple.Simulation(arm(), 2e-3, motors={"drive": lambda t: 0.3 * t**2})
    log = sim.log(["q", "qd", "energy", "tip", "motor torque"])
    rows = []
    for k in range(60):
        energy = sim.energy
        parts = energy.kinetic, energy.strain, energy.gravity, energy.total
        torque = sim.motor_torques["drive"]
        rows.append([sim.time, *sim.q, *sim.qd, *parts, *sim.poses["tip"][:3, 3], torque])
        if k < 59:
            sim.step(1)
    return sim, log, np.array(rows)


def test_columns_have_units(run):
    _, log, _ = run
    assert log.columns == (
        "time [s]", "q shoulder [rad]", "q reach [m]", "qd shoulder [rad/s]", "qd reach [m/s]", "energy kinetic [J]",
        "energy strain [J]", "energy gravity [J]", "energy total [J]", "tip x [m]", "tip y [m]", "tip z [m]",
        "motor torque drive [N m]",
    )  # fmt: skip
    assert "60 rows" in repr(log)


def test_rows_are_the_states_of_the_simulation(run):
    _, log, rows = run
    np.testing.assert_array_equal(log.values, rows)
    np.testing.assert_array_equal(log["time"], rows[:, 0])
    np.testing.assert_array_equal(log["tip x [m]"], log["tip x"])
    assert log["tip"].shape == (60, 3)
    assert log["q"].shape == (60, 2)
    with pytest.raises(supple.MechanismError, match="the log has no 'tap'; its columns are time"):
        log["tap"]


def test_steps_taken_at_once_give_the_same_rows(run):
    sim = supple.Simulation(arm(), 2e-3, motors={"drive": lambda t: 0.3 * t**2})
    log, coarse = sim.log(["q"]), sim.log(["q"], rate=100)
    sim.step(59)
    np.testing.assert_array_equal(log["q"], run[1]["q"])
    np.testing.assert_array_equal(coarse["q"], run[1]["q"][::5])
    log.stop()
    log.stop()
    sim.step(3)
    assert (len(log), len(coarse)) == (60, 13)


def test_times_increase_after_going_back():
    sim = supple.Simulation(arm(), 2e-3)
    log = sim.log(["tip"])
    sim.step(3)
    saved = sim.save()
    sim.step(4)
    sim.apply("tip", [1.0, 0, 0, 0, 0, 0])
    sim.restore(saved)
    sim.apply("tip", [1.0, 0, 0, 0, 0, 0])
    sim.step(2)
    np.testing.assert_allclose(log["time"], 2e-3 * np.arange(6))
    assert log["tip"][-1] == pytest.approx(sim.poses["tip"][:3, 3])
    sim.reset()
    sim.step(1)
    np.testing.assert_allclose(log["time"], [0.0, 2e-3])


def test_a_table_reads_back_the_same(run, tmp_path):
    _, log, rows = run
    log.to_csv(tmp_path / "log.csv")
    with open(tmp_path / "log.csv", newline="") as file:
        head, *lines = csv.reader(file)
    assert tuple(head) == log.columns
    np.testing.assert_array_equal(np.array(lines, dtype=float), rows)
    with pytest.raises(supple.MechanismError, match="check its name and folder"):
        log.to_csv(tmp_path / "none" / "log.csv")


def test_pandas(run, monkeypatch):
    log = run[1]
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="pip install pandas, or use to_csv"):
        log.to_pandas()
    monkeypatch.undo()
    pytest.importorskip("pandas")
    np.testing.assert_array_equal(log.to_pandas()["tip x [m]"], log["tip x"])


def test_a_plot(run, tmp_path):
    sim, _, _ = run
    log = sim.log(["q", "energy"])
    figure = log.plot(tmp_path / "log.png")
    assert (tmp_path / "log.png").read_bytes().startswith(b"\x89PNG")
    labels = [axes.get_ylabel() for axes in figure.axes]
    assert labels == ["q, rad", "q, m", "energy, J"]
    log.stop()
    with pytest.raises(supple.MechanismError, match=r"ends in \.png"):
        log.plot(tmp_path / "log.doc")


def test_a_recording_gives_the_same_log(run):
    sim = supple.Simulation(arm(), 2e-3, motors={"drive": lambda t: 0.3 * t**2})
    with sim.record(rate=500) as own:
        sim.step(59)
    log = own.recording.log(["q", "qd", "energy", "tip"])
    np.testing.assert_allclose(log.values, run[2][:, :-1], atol=1e-12)
    with pytest.raises(supple.MechanismError, match=r"known to supple\.Simulation only"):
        own.recording.log(["motor torque"])
    with pytest.raises(supple.MechanismError, match="no contacts; log a World"):
        own.recording.log(["contact force"])


def test_quantities_by_name_of_a_joint():
    sim = supple.Simulation(arm(), 2e-3)
    columns = sim.log(["shoulder", "qd reach", "upper", "target"]).columns[1:]
    assert columns[:2] == ("q shoulder [rad]", "qd reach [m/s]")
    assert columns[2:5] == ("upper x [m]", "upper y [m]", "upper z [m]")
    assert set(columns[5:]) == {"target reach [m]", "target drive [rad]"}


@pytest.mark.parametrize(
    ("names", "text"),
    [
        ([], "name at least one quantity"),
        (["tap"], "did you mean 'tip'"),
        (["q elbow"], "named 'elbow'"),
        ([3], "a quantity of a log is a name"),
        (["tip", "tip"], "is in the log twice"),
        (["contact force"], "no contacts; log a World"),
        (["actuator force"], "'arm' has nothing whose actuator force"),
    ],
)
def test_quantities_that_are_not_there(names, text):
    sim = supple.Simulation(arm(), 2e-3)
    with pytest.raises(supple.MechanismError, match=text):
        sim.log(names)
    assert sim.observers == []


def test_a_world_logs_objects_mechanisms_and_contact_forces():
    world = supple.World(dt=2e-3)
    world.add(supple.Simulation(arm(), 2e-3), "arm")
    world.ground(Shape("plane", (0, 0, 1), np.eye(4), name="floor"))
    world.add(rigid_object("ball", "sphere", (0.1,), 2.0, (3, 0, 0.1)))
    log = world.log(["ball", "arm:tip", "q arm:shoulder", "contact force", "energy", "motor torque"], rate=100)
    world.step(100)
    assert len(log) == 21
    assert log.columns[7] == "q arm:shoulder [rad]"
    assert log["contact force ball"][-1] == pytest.approx([0, 0, 2 * 9.81], abs=1e-6)
    assert log["energy total"][-1] == pytest.approx(world.energy.total)
    assert log["motor torque arm:drive"].shape == (21,)
    np.testing.assert_array_equal(log["arm:tip"][-1], world.poses["arm:tip"][:3, 3])
