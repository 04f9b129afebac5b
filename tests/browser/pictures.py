"""Makes the pictures of docs/viewer.md with the system's Chromium:  python tests/browser/pictures.py docs/pictures"""

import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np

import supple
from browser.browsing import Visit, browser, free_port, until
from supple.mechanism import Shape
from supple.viewer.scenery import SceneModels
from supple.viewer.showing import viewing
from supple.world import rigid_object


def ladder(running, path):
    with viewing(supple.library.ladder(), port=free_port()) as page:
        session = page.session
        visit = Visit(running, page.server, 1280, 800, 1.0)
        session.ghost = True
        session.pull("tip", session.frame.pulls["tip"].point + [0.0, -1.3, -0.2])
        until(lambda: session.frame.displacement > 0.3 and session.frame.kinetic < 1e-2, "the ladder to come to rest")
        _shot(visit, path)


def chain(running, path):
    with viewing(supple.library.bicycle_chain(), port=free_port()) as page:
        session = page.session
        visit = Visit(running, page.server, 900, 620, 1.0)
        visit.until(lambda: visit.painted() > 0.001, "the chain to be drawn")
        session.pull("tip", session.frame.pulls["tip"].point + [-0.1, 0.0, 0.14])
        time = session.frame.time
        until(lambda: session.frame.time > time + 1.0, "the chain to move")
        session.paused = True
        _shot(visit, path)


def hand(running, path):
    with viewing(SceneModels("hand"), port=free_port()) as page:
        visit = Visit(running, page.server, 900, 620, 1.0)
        visit.until(lambda: visit.painted() > 0.01, "the hand to be drawn")
        page.session.reset()
        until(lambda: page.session.frame.time > 1.4, "the hand to lift")
        page.session.paused = True
        _shot(visit, path)


def rod(running, path):
    with viewing(supple.library.rod_on_motor(), port=free_port()) as page:
        session = page.session
        visit = Visit(running, page.server, 900, 620, 1.0)
        start = session.frame.pulls["tip"].point
        session.pull("tip", start + [0.5, 0.0, -0.1])
        until(lambda: session.frame.poses["tip"][0, 3] > start[0] + 0.2, "the rod to bend")
        session.paused = True
        _shot(visit, path)


def two_arms():
    """A world with two robots, one in full and one reduced, three boxes and the ground."""
    arm, turned = supple.library.robot_arm(6), np.diag([-1.0, -1.0, 1.0, 1.0])
    turned[:3, 3] = 1.1, 0.1, 0.0
    world = supple.World(dt=2e-3)
    world.add(supple.Simulation(arm, 2e-3), "left")
    world.add(supple.ReducedSimulation(supple.reduce(arm.placed(turned), ["tip"]), 2e-3), "right")
    world.ground(Shape("plane", (0, 0, 1), np.eye(4), name="floor"))
    for name in ("left", "right"):
        world.exclude(name, "floor")
    for k in range(3):
        world.add(rigid_object(f"box {k}", "box", (0.06, 0.06, 0.06), 0.3, (0.55, 0.0, 0.06 + 0.12 * k)))
    return world


def use_world(visit, session):
    """What a user does with the world: moves a slider and drags a box that hides its handle."""
    visit.until(lambda: visit.painted() > 0.002, "the world to be drawn")
    visit.until(lambda: session.frame.contacts, "the boxes to touch")
    visit.type_value("right:hinge_3, rad", 0.4)
    visit.until(lambda: session.inputs.targets["right:hinge_3"] == 0.4, "the slider to be read")
    visit.drag(session.frame.pulls["box 1"].point, (90, -30), lambda: "box 1" in session.targets)
    time = session.frame.time
    visit.until(lambda: session.frame.time > time + 0.6, "the box to move")


def world(running, path):
    made = two_arms()
    with viewing(made, controller=lambda w: {"left:hinge_1": 0.25 * np.sin(2 * w.time)}, port=free_port()) as page:
        visit = Visit(running, page.server, 1280, 800, 1.0)
        use_world(visit, page.session)
        page.session.paused = True
        _shot(visit, path)


def use_ellipsoids(visit, session, point):
    """What a user does to see the compliance: ticks the box, then pulls a tip to a point."""
    visit.until(lambda: visit.painted() > 0.001, "the mechanism to be drawn")
    visit.page.get_by_label("Compliance ellipsoids").first.click()
    visit.until(lambda: session.frame.ellipsoids, "the ellipsoids")
    session.pull("left_tip", point)
    visit.until(lambda: session.frame.displacement > 0.05, "the tip to follow")


def ellipsoids(running, path):
    with viewing(supple.library.y(), port=free_port()) as page:
        visit = Visit(running, page.server, 1280, 800, 1.0)
        use_ellipsoids(visit, page.session, page.session.frame.pulls["left_tip"].point + [0.4, 0.0, 0.1])
        _shot(visit, path)


def _shot(visit, path):
    visit.until(lambda: visit.painted() > 0.001, "the mechanism to be drawn")
    close = visit.page.locator(".mantine-Notification-closeButton")
    if close.count():  # that drawing is done in software
        close.first.click()
    visit.page.wait_for_timeout(6000)
    visit.page.screenshot(path=path)
    visit.close()
    _small(path)


def _small(path):
    """256 colours, as other pictures of the docs."""
    from PIL import Image

    with Image.open(path) as picture:
        small = picture.convert("RGB").quantize(256)
    small.save(path, optimize=True)


PICTURES = {"ladder": ladder, "chain": chain, "hand": hand, "rod": rod, "world": world, "ellipsoids": ellipsoids}

if __name__ == "__main__":
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    warnings.simplefilter("ignore", supple.RangeWarning)
    with browser() as running:
        for name, make in PICTURES.items():
            if len(sys.argv) < 3 or name in sys.argv[2:]:
                make(running, folder / f"viewer_{name}.png")
                print(f"viewer_{name}.png")
