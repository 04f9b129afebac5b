"""A session without a browser: time, methods, handles, models, series, recordings."""

from threading import Event

import numpy as np
import pytest

import supple
from clocks import Clock
from supple.errors import StartWarning
from supple.viewer import draw
from supple.viewer.methods import METHODS, likely_end_effectors
from supple.viewer.runner import MAX_LAG, PERIOD, Runner
from supple.viewer.scenery import SCENES, SceneModels
from supple.viewer.session import Session

pytestmark = pytest.mark.filterwarnings("ignore::supple.RangeWarning")
TICK = 1e-3
"""s that a reading of the clock takes: a method that is switched to gets 150 readings, 750 steps, to get there."""


@pytest.fixture
def clock():
    return Clock(TICK)


@pytest.fixture
def session(clock):
    return Session(supple.library.ladder(rungs=6), clock=clock)


def run(session, clock, seconds):
    """Does the work of the session's thread for so many seconds, without a thread."""
    for _ in range(round(seconds / PERIOD)):
        clock.advance(PERIOD)
        session._runner.poll()


def test_steps_are_those_of_the_simulation(session):
    """The session adds nothing: the same handle, the same bits."""
    point = session.frame.pulls["tip"].point + [0, 0.2, 0]
    session.pull("tip", point)
    session.step(50)
    mech = session.mechanism
    sim = supple.ReducedSimulation(supple.reduce(mech, ["tip"], at=supple.equilibrium(mech)), 2e-3)
    sim.pull("tip", point)
    sim.step(50)
    assert (session.frame.poses == sim.poses.array).all()
    assert session.frame.time == pytest.approx(0.1)
    pull = session.frame.pulls["tip"]
    assert pull.force == pytest.approx(mech.mass * (4 * np.pi) ** 2 * (point - sim.poses["tip"][:3, 3]))
    assert session.frame.separation == pytest.approx(sim.separation.total)


IN_TIME = [name for name, method in METHODS.items() if method.in_time]


@pytest.mark.parametrize("method", IN_TIME)
def test_every_method_comes_to_rest_where_the_engine_does(method):
    """Pulled a little, all of them agree: the handle's spring, the mechanism and the measures are the same."""
    mech = supple.library.robot_arm()
    session = Session(mech, method=method, clock=Clock(TICK))
    rest = session.frame.pulls["tip"].point
    session.pull("tip", rest + [0.0, 0.02, 0.0])
    session.step(4000)
    frame = session.frame
    exact = supple.equilibrium(mech, {"tip": [*frame.pulls["tip"].force, 0, 0, 0]})
    assert np.linalg.norm(frame.poses[:, :3, 3] - exact.poses.array[:, :3, 3], axis=1).max() < 2e-4
    assert frame.displacement > 1e-3
    assert frame.stored > 0
    assert frame.kinetic < 1e-9


def test_ellipsoids_where_a_method_gives_the_compliance(session):
    session.ellipsoids = True
    session.pull("tip", session.frame.pulls["tip"].point + [0, 0.2, 0])
    session.step(20)
    found = session.frame.ellipsoids["tip"]
    assert found.centre == pytest.approx(session.frame.poses["tip"][:3, 3])
    assert found.semi_axes[0] > 0
    session.method = "engine"
    assert session.ellipsoids
    assert not session.frame.ellipsoids
    session.ellipsoids = True
    assert not session.ellipsoids
    assert "gives no compliance" in session.messages[-1].text


def test_energies_of_engine_and_reduced_model_agree():
    mech = supple.library.robot_arm()
    energies = []
    for method in ("engine", "linear"):
        session = Session(mech, method=method, clock=Clock(TICK))
        session.pull("tip", session.frame.pulls["tip"].point + [0.0, 0.01, 0.0])
        session.step(60)
        energies.append((session.frame.kinetic, session.frame.stored))
    assert energies[1][1] == pytest.approx(energies[0][1], rel=0.1)
    assert energies[1][0] == pytest.approx(energies[0][0], rel=0.3)


def test_it_runs_at_real_time():
    clock = Clock()  # steps take no time
    session = Session(supple.library.ladder(rungs=6), clock=clock)
    run(session, clock, 2.0)
    assert session.frame.time == pytest.approx(2.0, abs=1 / 60 + session.dt)
    assert session.frame.real_time_factor == pytest.approx(1.0, abs=0.05)
    session.paused = True
    run(session, clock, 0.5)
    paused = session.frame.time
    run(session, clock, 0.5)
    assert session.frame.time == paused
    session.step(5)
    assert session.frame.time == pytest.approx(paused + 0.01)
    session.paused, session.speed = False, 5.0
    run(session, clock, 1.0)
    assert session.frame.time == pytest.approx(paused + 5.01, abs=5 / 60 + session.dt)
    series = session.series
    assert {len(values) for values in series.values()} == {len(series["time"])}
    assert 60 <= len(series["time"]) <= 100  # 20 a second
    assert (np.diff(series["time"]) >= 0).all()


def test_it_runs_in_a_thread_of_its_own(session):
    """On the wall clock, however slow: frames come by themselves, and none after the end."""
    session = Session(session.mechanism)
    with session:
        for _ in range(3):
            session.new_frame.clear()
            assert session.new_frame.wait(300)
        time = session.frame.time
        while session.frame.time == time:
            assert session.new_frame.wait(300)
            session.new_frame.clear()
        assert session.frame.time > time
    assert not session._runner._thread.is_alive()


def test_a_slow_simulation_drops_overdue_steps(session):
    clock, steps = Clock(), []
    runner = Runner(session._runner.sim, clock=clock)
    runner.sim.step = lambda n: (steps.append(n), clock.advance(0.02 * n))
    runner.advance(10.0)
    assert sum(steps) == 1  # one slice of computing
    assert runner._overdue <= MAX_LAG
    assert runner.step_cost == pytest.approx(0.02)
    for _ in range(100):
        runner.advance(0.02)
    assert runner.real_time_factor == pytest.approx(0.1, rel=0.1)


def test_methods_are_switched_while_it_runs(session, clock):
    session.pull("tip", session.frame.pulls["tip"].point + [0, 0.1, 0])
    times = []
    for method in IN_TIME:
        session.method = method
        assert session.frame.method == method
        times.append(session.frame.time)
        run(session, clock, 0.5)
        assert session.frame.displacement > 0.01
    assert (np.diff(times) > 0).all()
    assert not [m for m in session.messages if m.warning]


@pytest.mark.parametrize("method", ["engine", "linear"])
def test_a_new_method_starts_where_a_swinging_one_was(session, method):
    session.method = "blended"
    rest = session.frame.pulls["tip"].point
    session.pull("tip", rest + [0, 0.8, -0.1])
    session.step(700)
    session.linearise_here()
    session.step(300)
    session.let_go()
    session.step(12)  # on its way back
    before = session.frame.pulls["tip"].point
    assert np.linalg.norm(before - rest) > 0.1
    session.method = method
    assert session.method == method
    assert np.linalg.norm(session.frame.pulls["tip"].point - before) < 0.3 * np.linalg.norm(before - rest)
    away = 0.0
    for _ in range(20):  # nothing of what brought it there holds it
        session.step(25)
        away = max(away, float(np.linalg.norm(session.frame.pulls["tip"].point - before)))
    assert away > 0.5 * np.linalg.norm(before - rest)


def test_a_method_that_cannot_reach_the_present_pose_starts_at_rest(session, monkeypatch):
    def fail(sim, n=1):
        raise supple.ConvergenceError("too far", time=0.0)

    rest = session.frame.pulls["tip"].point
    session.pull("tip", rest + [0, 0.3, 0])
    session.step(500)
    with monkeypatch.context() as patch:
        patch.setattr(supple.Simulation, "step", fail)
        session.method = "engine"
    assert session.method == "engine"
    assert "engine: starts at rest, since it cannot reach the present pose: too far" in session.messages[-2].text
    np.testing.assert_allclose(session.frame.pulls["tip"].point, rest, atol=1e-9)
    session.step(500)
    assert session.frame.displacement > 0.05  # the handle still pulls


def test_moving_joints_of_an_adaptive_linkage_are_highlighted():
    session = Session(supple.library.bicycle_chain(), clock=Clock(TICK))
    assert session.method == "adaptive"  # nothing holds the chain
    rest = session.frame.pulls["tip"].point
    target = rest + [-0.05, 0, 0.1]
    session.pull("tip", target)
    session.step(1)
    assert 0 < session.frame.moving_joints.sum() < 30
    for _ in range(40):
        session.step(25)
    assert np.linalg.norm(session.frame.pulls["tip"].point - target) < 0.2 * np.linalg.norm(target - rest)
    assert session.frame.separation == 0
    session.reset()
    assert session.frame.displacement < 1e-12
    session.method = "linear"  # which springs would be needed for
    assert session.method == "adaptive"
    assert session.messages[-1].warning


def test_a_linear_model_at_the_present_pose_reduces_the_separation(session):
    rest = session.frame.pulls["tip"].point
    session.pull("tip", rest + [0, 0.8, 0])
    session.step(3000)
    before = session.frame.separation
    assert session.linearise_here()
    session.step(3000)
    assert session.method == "blended"
    assert session.frame.separation < 0.5 * before
    session.method = "linear"
    session.method = "blended"  # what was added is still there
    assert len(session._runner.sim.model.models) == 2
    session.method = "engine"
    assert not session.linearise_here()
    assert "exact" in session.messages[-1].text


def test_reset_releases_handles_and_keeps_the_models(session):
    session.pull("tip", session.frame.pulls["tip"].point + [0, 0.5, 0])
    session.step(500)
    session.linearise_here()
    session.step(500)
    session.reset()
    assert session.frame.displacement < 1e-9
    assert session.targets == {}
    session.step(100)
    assert session.frame.displacement < 1e-6
    assert session.method == "blended"


def test_level_of_detail_is_switched(session):
    session.end_effectors = ["tip", "rung_3"]
    assert set(session.frame.pulls) == {"tip", "rung_3"}
    session.pull("rung_3", session.frame.pulls["rung_3"].point + [0, 0.05, 0])
    session.step(2000)
    assert session.frame.pulls["rung_3"].force[1] > 0
    session.end_effectors = ["tip"]
    assert session.targets == {}
    with pytest.raises(supple.MechanismError, match="no end effector now"):
        session.pull("rung_3", [0, 0, 0])
    with pytest.raises(supple.MechanismError, match="did you mean 'tip'"):
        session.end_effectors = ["tap"]
    assert session.end_effectors == ("tip",)


def test_the_ghost_is_the_engine(session):
    session.paused = True
    session.ghost = True
    session.pull("tip", session.frame.pulls["tip"].point + [0, 0.3, 0])
    session.step(200)
    frame = session.frame
    assert 0 < np.abs(frame.ghost.array - frame.poses.array).max() < 0.1
    session.method = "engine"
    assert not session.ghost
    assert session.frame.ghost is None
    session.stop()


def test_exploring_runs_in_the_background():
    session = Session(supple.library.ladder(rungs=3), clock=Clock(TICK))
    thread = session.explore(max_error=0.05, reach=0.3, budget=20)
    session.step(10)
    thread.join()
    assert session.progress is None
    assert session.method == "blended"
    assert "models" in session.messages[-2].text or "models" in session.messages[-1].text


def test_an_exploration_is_cancelled(session, monkeypatch):
    reported, cancelled = Event(), Event()

    def search(*args, progress, **options):
        progress(0.5)
        reported.set()
        cancelled.wait()
        progress(0.6)

    monkeypatch.setattr("supple.viewer.exploration.explore", search)
    thread = session.explore()
    reported.wait()
    assert session.progress == 0.5
    with pytest.raises(supple.MechanismError, match="running already"):
        session.explore()
    session.cancel()
    cancelled.set()
    thread.join()
    assert session.progress is None
    assert session.messages[-1].text == "the exploration was cancelled"


def test_a_failed_step_pauses_and_is_reported(session):
    session.method = "engine"

    def fail(n):
        raise supple.ConvergenceError("violent", time=0.0)

    session._runner.sim.step = fail
    session._runner.advance(0.1)
    assert session.paused
    assert session.messages[-1].text == "paused: violent. To go on, reset or choose another method"
    session.method = "linear"
    assert not session.paused
    session._runner.sim.step = fail
    session._runner.advance(0.1)
    session.reset()
    assert not session.paused
    session.paused = True
    session.reset()  # a user's own pause stays
    assert session.paused


def test_a_failed_step_of_the_ghost_does_not_stop_the_session(session):
    session.ghost = True
    session._on_failed_ghost_step(supple.ConvergenceError("violent", time=0.0))
    assert not session.paused
    assert "the engine's shape stopped: violent" in session.messages[-1].text
    session.stop()


def test_a_recording_is_saved_and_replayed(session):
    with pytest.raises(supple.MechanismError, match="nothing is being recorded"):
        session.recorded()
    session.record()
    session.pull("tip", session.frame.pulls["tip"].point + [0, 0.2, 0])
    for _ in range(5):
        session.step(20)
    session.reset()
    session.step(20)
    recording = session.recorded()
    assert len(recording.times) == 7
    assert (np.diff(recording.times) > 0).all()
    np.testing.assert_allclose(recording.at(recording.times[-1]), session.frame.poses, atol=1e-6)


@pytest.mark.parametrize("name", SCENES)
def test_scenes_are_moved_at_both_levels(name):
    session = Session(SceneModels(name), clock=Clock(TICK))
    scene = SCENES[name]("reduced")
    session.step(100)
    scene.run(100 * scene.world.dt)
    objects = np.array([scene.world.pose(each) for each in scene.world.objects]).reshape(-1, 4, 4)
    assert (session.frame.poses == np.concatenate([scene.robot.poses.array, objects])).all()
    session.method = "full"
    session.step(10)
    assert session.frame.method == "full"
    assert np.isfinite(session.frame.poses).all()
    for forbidden in (session.linearise_here, session.explore, lambda: setattr(session, "end_effectors", ["tip"])):
        with pytest.raises(supple.MechanismError, match="scene"):
            forbidden()
    session.reset()
    assert session.frame.time == 0


def test_objects_of_a_scene_are_pulled():
    session = Session(SceneModels("trampoline"), clock=Clock(TICK))
    session.pull("body", session.frame.pulls["body"].point + [0, 0, 0.5])
    before = session.frame.pulls["body"].point[2]
    session.step(400)
    assert session.frame.pulls["body"].point[2] > before - 0.05  # it does not fall
    with pytest.raises(supple.MechanismError, match="no scene named 'tramp'"):
        SceneModels("tramp")
    with pytest.raises(supple.MechanismError, match="its own end effectors"):
        Session(SceneModels("hand"), ["palm"])


def test_loose_objects_are_simulated_by_the_engine():
    """They fall (only a world has contact), and the rest of the mechanism is drawn, too."""
    b = supple.Builder("table")
    b.link("arm", (0, 0, 0), (0, 0, 1), mass=1.0)
    b.hinge("pivot", "world", "arm", at=(0, 0, 0), axis="y", stiffness=50.0)
    b.site("grip", "arm", at=(0, 0, 1))
    b.body("frame", np.eye(4))
    b.fixed("stand", "world", "frame")
    for name in ("ball", "cube"):
        b.body(name, np.eye(4), mass=1.0, inertia=(1, 1, 1))
        b.free(f"loose {name}", "frame", name)
    session = Session(b.build(), ["grip"], clock=Clock(TICK))
    session.step(10)
    assert session.method == "engine"
    assert session.frame.time > 0


def test_end_effectors_are_guessed():
    assert likely_end_effectors(supple.library.y()) == ("left_tip", "right_tip")
    b = supple.Builder("fork")
    b.link("stem", (0, 0, 0), (0, 0, 1), mass=1.0)
    for side in (-1, 1):
        b.link(f"prong_{side}", (0, 0, 1), (side, 0, 2), mass=1.0)
        b.hinge(f"bend_{side}", "stem", f"prong_{side}", at=(0, 0, 1), axis="y", stiffness=10.0)
    b.hinge("root", "world", "stem", at=(0, 0, 0), axis="y", stiffness=10.0)
    assert likely_end_effectors(b.build()) == ("prong_-1", "prong_1")
    b.link("tie", (-1, 0, 2), (1, 0, 2), mass=1.0)  # closes a loop, so that neither prong nor tie is an end
    b.link("flag", (0, 0, 2), (0, 0, 3), mass=1.0)
    for side in (-1, 1):
        b.hinge(f"pin_{side}", f"prong_{side}", "tie", at=(side, 0, 2), axis="y")
    b.hinge("pole", "tie", "flag", at=(0, 0, 2), axis="x", stiffness=10.0)
    assert likely_end_effectors(b.build()) == ("flag",)
    assert likely_end_effectors(supple.library.molecule(50).mechanism())


def test_end_effectors_that_are_guessed_move():
    b = supple.Builder("robot")
    b.body("base tip", np.eye(4))  # fixed to the world, whatever its name
    b.fixed("stand", "world", "base tip")
    b.link("arm", (0, 0, 0), (0, 0, 1), mass=1.0)
    b.hinge("pivot", "base tip", "arm", at=(0, 0, 0), axis="y")
    b.site("wall tip", "world", at=(0, 0, 0))
    for name in ("flange", "camera"):
        b.body(name, np.eye(4))
    b.fixed("screw", "arm", "flange")
    b.fixed("clip", "flange", "camera")
    assert likely_end_effectors(b.build()) == ("camera",)  # the links that are fixed to the arm count once
    b = supple.Builder("still")
    b.body("post", np.eye(4), mass=1.0)
    b.fixed("stand", "world", "post")
    assert likely_end_effectors(b.build()) == ("post",)


def test_a_session_starts_within_limits():
    b = supple.Builder("arm")
    b.link("arm", (0, 0, 0), (0, 0, 1), mass=1.0)
    b.hinge("pivot", "world", "arm", at=(0, 0, 0), axis="y", stiffness=5.0, damping=1.0, limits=(0.8, 2.0))
    with pytest.warns(StartWarning, match="'pivot' starts at 0 rad"):
        session = Session(b.build(), clock=Clock(TICK))
    session.step(5)
    assert session.mechanism.reference == pytest.approx([0.8])
    assert session.method == "engine"  # the limit holds it, so there is no linear model
    assert "because the linear method cannot: end effector 'arm' cannot move" in session.messages[0].text


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"end_effectors": ["tap"]}, "did you mean 'tip'"),
        ({"end_effectors": []}, "at least one end effector"),
        ({"method": "magic"}, "no method named 'magic'"),
        ({"dt": 0.0}, "dt must be a positive"),
    ],
)
def test_bad_sessions_raise(options, text):
    with pytest.raises(supple.MechanismError, match=text):
        Session(supple.library.ladder(rungs=3), **options)


@pytest.mark.parametrize("call", [Session, lambda name: draw(name, path="arm.png")])
def test_a_file_name_instead_of_a_mechanism_raises(call):
    with pytest.raises(supple.MechanismError, match=r"a Mechanism is needed, got 'arm.urdf'"):
        call("arm.urdf")


def test_a_bad_speed_raises(session):
    with pytest.raises(supple.MechanismError, match="speed"):
        session.speed = 0.0


@pytest.mark.parametrize(("along", "there", "back", "steps"), [((-0.4031, 0.9022, -0.1535), 1.7546, 1.9662, 334),
                                                              ((0.2, -0.5, 0.84), 1.9, 1.5, 120)])  # fmt: skip
def test_a_model_made_at_a_large_displacement_stays_bounded(along, there, back, steps):
    """The Y dragged by nearly two radii, linearised there, and dragged to the other side at once."""
    mech = supple.library.y()
    session = Session(mech, method="blended", clock=Clock(TICK))
    tip = session.end_effectors[0]
    start, way = session.frame.pulls[tip].point, np.array(along) * mech.radius
    session.pull(tip, start + there * way)
    session.step(steps)
    assert session.linearise_here()
    session.step(200)
    session.pull(tip, start - back * way)
    for _ in range(20):
        session.step(50)
        assert not session.paused
        assert np.abs(session.frame.poses[:, :3, 3] - mech.poses.array[:, :3, 3]).max() < 20 * mech.radius
