"""Simulations and worlds in the viewer: controllers, inputs, going back, scripts, notebooks. Without a browser."""

import sys
from types import SimpleNamespace
from urllib.request import urlopen

import numpy as np
import pytest

import supple
from browser.browsing import free_port
from clocks import Clock
from small_mechanisms import arm, chain, with_motor
from supple.mechanism import Actuator, Shape
from supple.viewer.forces import contact_forces
from supple.viewer.history import LENGTH
from supple.viewer.runner import PERIOD
from supple.viewer.script import Script
from supple.viewer.session import Session
from supple.viewer.showing import ScriptPages, view
from supple.viewer.sliders import input_ranges
from supple.world import rigid_object

ARM = supple.library.robot_arm(4)
AXIS = ARM.coordinates[0]


def world():
    made = supple.World(dt=2e-3)
    made.add(supple.Simulation(ARM, 2e-3), "arm")
    made.ground(Shape("plane", (0, 0, 1), np.eye(4), name="floor"))
    made.add(rigid_object("box", "box", (0.05, 0.05, 0.05), 0.5, (0.5, 0.5, 0.05)))
    made.exclude("arm", "floor")
    return made


def session_of(subject, **options):
    return Session(subject, clock=Clock(1e-3), **options)


def run(session, seconds):
    """Does the work of the session's thread for so many seconds, without a thread."""
    for _ in range(round(seconds / PERIOD)):
        session.clock.advance(PERIOD)
        session._runner.poll()


def test_a_world_is_shown_with_all_its_parts():
    made = world()
    session = session_of(made)
    assert session.end_effectors == ("arm:tip", "box")
    session.step(100)
    frame = session.frame
    assert (frame.poses["box"] == made.pose("box")).all()
    assert session.has_contacts
    points, forces = contact_forces(frame.contacts, {body.name for body in frame.mechanism.bodies})
    assert forces.sum(axis=0) == pytest.approx([0, 0, 0.5 * 9.81], abs=1e-3)
    assert points[:, 2] == pytest.approx(0.0, abs=1e-3)
    session.pull("box", frame.pulls["box"].point + [0, 0, 0.3])
    session.pull("arm:tip", frame.pulls["arm:tip"].point + [0, 0.1, 0])
    session.step(200)
    assert session.frame.pulls["box"].point[2] > 0.1
    assert session.frame.displacement > 1e-3
    session.reset()
    assert session.frame.time == 0


@pytest.mark.parametrize(
    "make",
    [
        lambda: supple.Simulation(ARM, 1e-3),
        lambda: supple.ReducedSimulation(supple.reduce(ARM, ["tip"]), 1e-3),
        lambda: supple.ReducedSimulation(supple.blend([supple.reduce(ARM, ["tip"])]), 1e-3),
    ],
)
def test_a_given_simulation_is_shown_as_it_is(make):
    sim = make()
    session = session_of(sim)
    assert "tip" in session.end_effectors
    assert list(session.methods) == [sim.kind]
    session.pull("tip", session.frame.pulls["tip"].point + [0, 0.05, 0])
    session.step(20)
    assert session._runner.sim is sim
    assert session.frame.time == pytest.approx(0.02)
    with pytest.raises(supple.MechanismError, match="this is for mechanisms"):
        session.explore()
    with pytest.raises(supple.MechanismError, match="did you mean 'tip'"):
        session_of(sim, end_effectors=["tap"])


def test_a_controller_is_called_before_every_step():
    times = []

    def controller(sim):
        times.append(sim.time)
        return {f"arm:{AXIS}": 0.1}

    made = world()
    session = session_of(made, controller=controller)
    session.step(5)
    assert times == pytest.approx(np.arange(5) * made.dt)
    assert made.targets[f"arm:{AXIS}"] == 0.1
    session = session_of(ARM, controller=lambda sim: {AXIS: 0.2})
    session.step(2)
    session.method = "engine"
    session.step(2)
    assert session.inputs.targets[AXIS] == 0.2
    session.ghost = True
    assert not session.ghost


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (lambda: 1 / 0, "ZeroDivisionError: division by zero"),
        (lambda: {AXIS: np.nan}, "finite"),
        (lambda: np.full(4, np.nan), "finite"),
        (lambda: {"elbow": 1.0}, "named 'elbow'"),
        (lambda: "text", "targets are given as"),
        (lambda: {}["key"], "KeyError: 'key'"),
    ],
)
def test_a_controller_that_fails_pauses_and_loses_nothing(wrong, text):
    failing = [False]
    session = session_of(supple.Simulation(ARM, 2e-3), controller=lambda sim: wrong() if failing[0] else None)
    session.pull("tip", session.frame.pulls["tip"].point + [0, 0.05, 0])
    run(session, 0.1)
    failing[0] = True
    before = session._runner.sim.save()
    run(session, 0.1)
    assert session.paused
    assert text in session.messages[-1].text
    assert "the controller failed at t = 0.26 s" in session.messages[-1].text
    assert session.messages[-1].warning
    assert (session._runner.sim.save().history == before.history).all()
    session.paused = False
    run(session, 0.05)
    assert session.paused  # it fails again
    failing[0], session.paused = False, False
    time = session.frame.time
    run(session, 0.1)
    assert session.frame.time > time
    assert session.targets  # the handle still pulls


def test_the_place_of_an_error_is_named():
    def controller(sim):
        raise RuntimeError("broken")

    session = session_of(supple.Simulation(ARM, 2e-3), controller=controller)
    session.step(1)
    line = controller.__code__.co_firstlineno + 1
    assert f"(test_viewer_world.py, line {line}): RuntimeError: broken" in session.messages[-1].text
    with pytest.raises(supple.MechanismError, match="a controller is a function"):
        session_of(ARM, controller=3)


def test_a_world_that_cannot_start_pauses():
    made = supple.World()
    for name in ("a", "b"):
        made.add(rigid_object(name, "box", (0.05, 0.05, 0.05), 0.5, (0, 0, 0)))
    session = session_of(made)
    run(session, 0.05)
    assert session.paused
    assert "'a' and 'b' overlap" in session.messages[-1].text


def test_going_back_and_on_again():
    session = session_of(world())
    session.pull("box", [0.5, 0.5, 0.5])
    for _ in range(10):
        session.step(50)
    assert session.rewindable == pytest.approx(1.0)
    late = session.frame.poses["box"][2, 3]
    session.rewind(0.5)
    assert session.paused
    assert session.frame.time == pytest.approx(0.5)
    early = session.frame.poses["box"][2, 3]
    assert early < late
    run(session, 0.1)  # the thread polls in the pause, too
    session.rewind(0.0)
    assert session.frame.poses["box"][2, 3] == late
    session.rewind(0.5)
    session.step(250)
    assert session.frame.poses["box"][2, 3] == late  # the same again, to the last bit
    assert session.rewindable == pytest.approx(1.0)
    session.rewind(2 * LENGTH)
    assert session.frame.time == 0
    with pytest.raises(supple.MechanismError, match="seconds to go back"):
        session.rewind(np.nan)
    session.reset()
    assert session.rewindable == 0


def test_inputs_are_read_and_set():
    session = session_of(world())
    assert list(session.inputs.targets) == [f"arm:{axis}" for axis in ARM.coordinates]
    session.set_input("targets", f"arm:{AXIS}", 0.3)
    session.step(1)
    assert session.inputs.targets[f"arm:{AXIS}"] == 0.3
    session.paused = True
    session.set_input("q", f"arm:{AXIS}", 0.5)
    run(session, 0.05)
    assert session.inputs.q[f"arm:{AXIS}"] == pytest.approx(0.5)
    session.set_input("targets", "arm:elbow", 1.0)
    session.set_input("q", f"arm:{AXIS}", np.inf)
    run(session, 0.05)
    assert sorted(m.text.split(":")[1] for m in session.messages) == ["elbow", AXIS]
    with pytest.raises(supple.MechanismError, match="no kind of input named 'speed'"):
        session.set_input("speed", AXIS, 1.0)
    reduced = session_of(ARM, method="linear")
    assert reduced.inputs.q == {}
    reduced.set_input("targets", AXIS, 0.25)
    reduced.step(1)
    reduced.method = "engine"
    assert reduced.inputs.targets[AXIS] == 0.25  # it goes along


def test_ranges_of_sliders_have_units():
    hinge = input_ranges(arm(), "q")
    assert {own.unit for own in hinge.values()} == {"rad"}
    limited = chain([5.0, 5.0], limits=(-0.2, 0.7))
    assert {(own.low, own.high) for own in input_ranges(limited, "targets").values()} == {(-0.2, 0.7)}
    driven = with_motor()
    assert driven.motors[0].name in input_ranges(driven, "targets")
    free = world().mechanism
    assert not [name for name in input_ranges(free, "q") if name.startswith("box")]
    b = supple.Builder("slider")
    b.link("bar", (0, 0, 0), (0, 0, 1), mass=1.0)
    b.slide("rail", "world", "bar", at=(0, 0, 0), axis="x", stiffness=10.0)
    from dataclasses import replace

    mech = replace(b.build(), actuators=(Actuator("grip", "rail", control_range=(0, 255)), Actuator("free", "rail")))
    assert input_ranges(mech, "q")["rail"].unit == "m"
    assert (input_ranges(mech, "controls")["grip"].low, input_ranges(mech, "controls")["grip"].high) == (0, 255)
    assert np.isfinite(input_ranges(mech, "controls")["free"].high)
    session = session_of(mech, method="engine")
    session.set_input("controls", "grip", 200.0)
    session.step(1)
    assert session.inputs.controls["grip"] == 200.0


SCENE = """
import numpy as np, supple
from supple.mechanism import Shape
world = supple.World(dt=2e-3)
world.add(supple.Simulation(supple.library.robot_arm(3), 2e-3), "arm")
def controller(sim):
    return {"arm:hinge_1": 0.1}
if __name__ == "__main__":
    world.step(100000)
"""


def test_a_script_is_shown_and_loaded_again(tmp_path):
    pytest.importorskip("viser", reason="the viewer's tests need viser: pip install 'supple[all,test]'")
    from supple.viewer.server import serving

    path = tmp_path / "scene.py"
    path.write_text(SCENE)
    with serving(port=free_port()) as server, ScriptPages(server, Script(path), Clock(1e-3)) as pages:
        first = pages.page.session
        assert first.name == "arm"
        first.step(1)
        assert first.inputs.targets["arm:hinge_1"] == 0.1
        assert not pages.reload_if_changed()
        path.write_text(SCENE.replace('"arm"', '"longer arm"').replace("arm:", "longer arm:"))
        assert pages.reload_if_changed()
        assert pages.error is None
        second = pages.page.session
        assert second.name == "longer arm"
        path.write_text(SCENE + "\nworld.stop()\n")
        assert pages.reload_if_changed()
        assert pages.error == "scene.py, line 11: AttributeError: 'World' object has no attribute 'stop'"
        assert pages.page.session is second
        assert second.messages[-1].warning
        assert not pages.reload_if_changed()
        path.unlink()
        assert not pages.reload_if_changed()  # while an editor replaces it


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = 1", "leaves none of the variables world, simulation, mechanism"),
        ("def f(:\n", "scene.py, line 1: SyntaxError"),
        ("import sys\nsys.exit(3)", "scene.py, line 2: SystemExit: 3"),
        ("\n\n1 / 0", "scene.py, line 3: ZeroDivisionError: division by zero"),
    ],
)
def test_errors_of_scripts_name_the_line(tmp_path, text, message):
    path = tmp_path / "scene.py"
    path.write_text(text)
    with pytest.raises(supple.MechanismError, match=message):
        Script(path).run()


def test_a_notebook_shows_the_page_in_its_cell(monkeypatch):
    pytest.importorskip("viser", reason="the viewer's tests need viser: pip install 'supple[all,test]'")
    kernel = SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel=object()))
    monkeypatch.setitem(sys.modules, "IPython", kernel)
    shown = view(supple.Simulation(ARM, 2e-3))
    try:
        assert f'<iframe src="{shown.url}"' in shown._repr_html_()
        with urlopen(shown.url.replace("localhost", "127.0.0.1"), timeout=600) as page:
            assert b"<html" in page.read().lower()
        assert shown.session.end_effectors == ("tip",)
        assert "NotebookView of 'robot_arm'" in repr(shown)
    finally:
        shown.close()
    assert not shown.session._runner._thread.is_alive()
