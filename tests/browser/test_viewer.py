"""The viewer in a real browser: actions of a user and their results."""

import numpy as np
import pytest

import supple
from browser import pictures
from browser.browsing import BLIND, Visit, browser, chromium, free_port, until
from clocks import Clock
from supple.viewer import server
from supple.viewer.script import Script
from supple.viewer.showing import ScriptPages, replaying, viewing

pytest.importorskip("viser", reason="the viewer's tests need viser: pip install 'supple[all,test]'")
pytest.importorskip("playwright", reason="the viewer's tests need playwright: pip install 'supple[all,test]'")
pytestmark = [
    pytest.mark.skipif(chromium() is None, reason="the viewer's tests need Chromium: apt-get install chromium"),
    pytest.mark.filterwarnings("ignore::supple.RangeWarning"),
]


@pytest.fixture(autouse=True)
def _fewer_frames(monkeypatch):
    """10 frames a second instead of 60: without a graphics card every frame costs processor time, here and in the
    browser."""
    monkeypatch.setattr("supple.viewer.session.FRAME_RATE", 10)


@pytest.fixture(scope="module")
def running():
    with browser() as found:
        yield found


def test_a_user_pulls_a_ladder(running, tmp_path):
    with viewing(supple.library.ladder(), port=free_port()) as page:
        session = page.session
        visit = Visit(running, page.server)
        visit.until(lambda: visit.painted() > 0.002, "the ladder to be drawn")

        rest = session.frame.pulls["tip"].point
        visit.drag(rest, (-130, 50), lambda: np.linalg.norm(session.targets.get("tip", rest) - rest) > 0.1)
        pulled = session.targets["tip"] - rest
        follows = lambda: (session.frame.pulls["tip"].point - rest) @ pulled > 0.05 * (pulled @ pulled)  # noqa: E731
        visit.until(follows, "the tip to follow")
        visit.until(lambda: session.frame.force > 0, "the spring's force")

        session.pull("tip", rest + [0.0, 1.2, 0.0])  # further than one model is good for
        visit.until(lambda: session.frame.separation > 0.1 and session.frame.kinetic < 1e-3, "the joints to separate")
        before = session.frame.separation
        visit.press("Linearise here")
        visit.until(lambda: session.method == "blended", "the model to be added")
        visit.page.get_by_text("2 models; the joints were").wait_for()  # on the page, too
        visit.until(lambda: session.frame.separation < 0.5 * before, "the separation to fall")
        visit.until(lambda: len(session.series["separation"]) > 10, "points of the plots")

        visit.press("Reset")  # a blended ladder may still swing, out of where the engine could take over
        visit.until(lambda: not session.targets and session.frame.displacement < 1e-6, "the ladder to be at rest")
        visit.choose("Method", "engine")
        visit.until(lambda: session.frame.method == "engine" and session.frame.separation < 1e-9, "the engine")
        assert not session.paused
        assert page._thread.is_alive()

        second = Visit(running, page.server)  # two at once, and one that leaves
        second.until(lambda: second.painted() > 0.002, "the second page to be drawn")
        second.close()
        time = session.frame.time
        visit.until(lambda: session.frame.time > time, "time to go on")
        assert visit.errors == []
        visit.close()


def test_ghost_level_of_detail_and_exploring(running):
    with viewing(supple.library.ladder(rungs=3), port=free_port()) as page:
        session = page.session
        visit = Visit(running, page.server, height=1100)
        visit.until(lambda: visit.painted() > 0.002, "the ladder to be drawn")
        visit.page.get_by_label("Engine's shape").first.click()
        visit.until(lambda: session.frame.ghost is not None, "the engine's shape")
        visit.page.get_by_text("End effectors", exact=True).first.click()
        visit.choose("Body or site", "rung_1")
        visit.press("Add or remove")
        visit.until(lambda: set(session.frame.pulls) == {"tip", "rung_1"}, "another handle")
        visit.press("Add or remove")
        visit.until(lambda: set(session.frame.pulls) == {"tip"}, "the handle to be gone")
        visit.press("Explore")
        visit.page.get_by_text("test points are within an error of").wait_for()
        visit.until(lambda: session.method == "blended", "the models that were found")
        assert visit.errors == []
        visit.close()


def test_a_client_that_disconnects_during_a_drag_does_not_disturb_the_simulation(running):
    with viewing(supple.library.robot_arm(), port=free_port()) as page:
        visit = Visit(running, page.server)
        visit.until(lambda: visit.painted() > 0.002, "the arm to be drawn")
        point = page.session.frame.pulls["tip"].point
        visit.drag(point, (-60, 40), lambda: page.session.targets, release=False)
        visit.close()
        until(lambda: not page.server.get_clients(), "the client to be gone")
        time = page.session.frame.time
        until(lambda: page.session.frame.time > time + 0.2, "time to go on")
        assert np.isfinite(page.session.frame.poses).all()
        assert not [m for m in page.session.messages if m.text.startswith("paused")]


def test_a_world_with_sliders_and_a_controller(running):
    """The user's controller moves one robot, a slider another one; then the controller fails."""
    broken = []

    def controller(world):
        if broken:
            raise RuntimeError("no signal")
        return {"left:hinge_1": 0.25 * np.sin(2 * world.time)}

    with viewing(pictures.two_arms(), controller=controller, port=free_port()) as page:
        session = page.session
        visit = Visit(running, page.server, height=800)
        pictures.use_world(visit, session)
        assert abs(session.inputs.targets["left:hinge_1"]) > 0
        broken.append(True)
        visit.page.get_by_text("RuntimeError: no signal").first.wait_for()
        assert session.paused
        paused = session.frame.time
        visit.type_value("Go back, s", 0.5)
        visit.until(lambda: session.frame.time <= paused - 0.4, "the past to be shown")
        broken.clear()
        visit.press("Pause")
        visit.until(lambda: session.frame.time > paused, "time to go on")
        visit.choose("Camera follows", "box 1")
        visit.until(lambda: page._stage.offset.any(), "the view to move with the box")
        assert visit.errors == []
        visit.close()


def test_compliance_ellipsoids(running):
    """They are drawn to scale for the force that the user types, and follow the end effector."""
    with viewing(supple.library.y(), port=free_port()) as page:
        session = page.session
        visit = Visit(running, page.server, height=1100)
        pictures.use_ellipsoids(visit, session, session.frame.pulls["left_tip"].point + [0.3, 0.0, 0.0])
        node = page._stage._ellipsoids._nodes[0]
        longest = session.frame.ellipsoids["left_tip"].semi_axes[0]
        first = page._force.value
        assert 0.05 < first * longest / session.mechanism.radius <= 0.25
        np.testing.assert_allclose(max(node.scale), first * longest, rtol=1e-6)
        visit.type_value("Their force, N", 2 * first)
        visit.until(lambda: abs(max(node.scale) - 2 * first * longest) < 1e-6 * first * longest, "a larger ellipsoid")
        visit.choose("Method", "engine")
        visit.until(lambda: not node.visible and not page._force.visible, "the ellipsoids to be gone")
        assert visit.errors == []
        visit.close()


def test_a_script_is_loaded_again(running, tmp_path):
    path = tmp_path / "scene.py"
    text = "import supple\nsimulation = supple.Simulation(supple.library.robot_arm({}), 2e-3)\n"
    path.write_text(text.format(3))
    with server.serving(port=free_port()) as found, ScriptPages(found, Script(path)) as pages:
        visit = Visit(running, found)
        visit.until(lambda: visit.painted() > 0.001, "the arm to be drawn")
        path.write_text(text.format(12))
        assert pages.reload_if_changed()
        assert len(pages.page.session.mechanism.bodies) == 12
        visit.page.get_by_text("Set-points").first.wait_for()
        visit.until(lambda: visit.painted() > 0.001, "the longer arm to be drawn")
        assert visit.errors == []
        visit.close()


def test_a_recording_is_replayed(running):
    mech = supple.library.helix()
    sim = supple.Simulation(mech, 5e-3)
    sim.apply("tip", [30, 0, 0, 0, 0, 0])
    with sim.record(rate=25) as recorder:
        sim.step(480)
    with replaying(recorder.recording, port=free_port(), clock=Clock(0.01)) as page:  # 10 ms a frame
        visit = Visit(running, page.server)
        visit.until(lambda: visit.painted() > 0.002, "the helix to be drawn")
        visit.until(lambda: page.time > 0.3, "the time to go on")
        visit.press("Pause")
        visit.until(lambda: not page.playing, "the replay to pause")
        first = visit.pixels()
        page.time = (page.time + page.recording.duration / 2) % page.recording.duration
        visit.until(lambda: np.abs(visit.pixels() - first).max() > 0.2, "another moment to be drawn")
        assert visit.errors == []
        visit.close()


def test_a_browser_without_webgl_is_reported(running):
    """The page says it, and so does the terminal."""
    said = []
    blind = running.browser_type.launch(executable_path=chromium(), args=list(BLIND))
    with viewing(supple.library.ladder(), port=free_port()) as page, blind:
        server.watch(page.server, said.append, patience=3.0)
        visit = blind.new_page()
        visit.goto(f"http://127.0.0.1:{page.server.get_port()}")
        visit.get_by_text("WebGL is unavailable").wait_for()
        until(lambda: visit.wait_for_timeout(50) or said, "the line on the terminal")
        assert set(said) == {server.NO_WEBGL}
        assert visit.get_by_text("WebGL is unavailable").is_visible()
        until(lambda: page.session.frame.time > 0, "time to go on")
