"""The probe: its coupling to the device, force and stiffness, bounded forces, and its thread."""

import time

import numpy as np
import pytest

import supple
from supple import MechanismError, zones
from supple.contact import Pad
from supple.mechanism import Shape

PATIENCE = 600.0
"""s after which the test of the thread gives up. Nothing is asserted about speed."""
RADIUS, YOUNG = 4e-3, 1e5
TOP = RADIUS


@pytest.fixture(scope="module")
def skin(tmp_path_factory):
    builder = supple.Builder("bench")
    builder.body("bench", mass=1.0, inertia=(1e-3,) * 3)
    builder.hinge("turn", "world", "bench", at=(0, 0, 0), axis="y", limits=(-1, 1))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SUPPLE_CACHE", str(tmp_path_factory.mktemp("cache")))
        solid = zones.block((0.02, 0.02, 0.008), (10, 10, 4), growth=1.2)
        zone = zones.Zone.from_solid(solid, bone="bottom", touch="top")
        return zones.Skin(builder.build(), {"block": zones.Attached(zone, "bench")}).prepare()


@pytest.fixture(scope="module")
def pad(skin):
    return skin.pad(friction=0.3)


def pressed(pad, depth, ticks=300, **options):
    probe = zones.Probe(pad, RADIUS, [0, 0, TOP + 1e-3], **options)
    for k in range(ticks):
        probe.move([0, 0, TOP + 1e-3 - (1e-3 + depth) * min(1, (k + 1) / (ticks - 20))])
        probe.tick()
    return probe


def test_a_resting_probe_is_in_the_balance_of_statics(pad):
    probe = pressed(pad, 2e-3)
    depth = TOP - probe.position[2]
    assert 0 < depth < 2e-3
    assert probe.force[2] == pytest.approx(1000 * (2e-3 - depth), rel=1e-6)  # that of the spring
    ball, touch = Shape("sphere", [RADIUS], np.eye(4), friction=(0, 0, 0)), None
    for part in np.linspace(0, 1, 50):  # friction depends on the way
        at = supple.spatial.translation(np.array([0, 0, TOP - part * depth]))
        touch = pad.press(ball, at, start=touch)
    # the probe's gaps are taken along its own direction, those of a press to the nearest place of the ball
    assert probe.force[2] == pytest.approx(-touch.force[2], rel=0.02)
    assert np.abs(probe.force[:2]).max() < 1e-6


def test_the_stiffness_is_the_slope_of_the_force(pad):
    probe = pressed(pad, 2e-3)
    force, at, K = probe.force, probe.position, probe.stiffness
    assert np.allclose(K, K.T)
    probe.move([0, 0, TOP - 2e-3 - 1e-6])
    probe.tick(40)
    slope = (probe.force - force)[2] / (at - probe.position)[2]
    assert K[2, 2] == pytest.approx(slope, rel=0.1)
    probe.move([1e-6, 0, TOP - 2e-3 - 1e-6])
    side = probe.force[0]
    probe.tick(40)
    assert (probe.force[0] - side) * 1 < 0  # the skin holds the probe by friction
    free = zones.Probe(pad, RADIUS, [0, 0, 0.1])
    free.tick()
    assert free.stiffness.any() == free.force.any() == False  # noqa: E712


def test_a_pressure_mask_gives_the_force_of_its_compliance(pad):
    """A given pressure: the force is the depth over the weighted compliance of the points and of the spring."""
    probe = zones.Probe(pad, 3e-3, [0, 0, 1e-3], kind="mask", damping=0.0)
    probe.move([0, 0, -5e-4])
    probe.tick(30)
    distance = np.linalg.norm(pad.points[:, :2] - probe.position[:2], axis=1)
    weights = pad.areas * np.sqrt(np.maximum(0, 1 - (distance / 3e-3) ** 2))
    weights /= weights.sum()
    C = np.einsum("i,ij,j->", weights, pad.compliance[2::3, 2::3], weights)
    assert probe.force[2] == pytest.approx(5e-4 / (C + 1e-3), rel=1e-3)
    assert probe.stiffness[2, 2] == pytest.approx(1 / C, rel=0.2)


def test_forces_are_bounded_and_finite(pad):
    probe = zones.Probe(pad, RADIUS, [0, 0, 0.02], most_force=0.5)
    rng = np.random.default_rng(1)
    for k in range(400):  # a device that jumps by metres
        probe.move(rng.normal(size=3) * 10.0 ** rng.integers(-3, 8))
        force = probe.tick()
        assert np.linalg.norm(force) <= 0.5 * (1 + 1e-12)
        assert np.isfinite(probe.position).all()
        if k % 50 == 0:
            for wrong in ([np.nan, 0, 0], [0, np.inf, 0]):
                with pytest.raises(MechanismError, match="position of the device"):
                    probe.move(wrong)
    probe.move([0, 0, 0])
    probe.tick(2000)  # it comes back
    probe.move([0, 0, 0.05])
    assert np.abs(probe.tick(2000)).max() < 1e-9


@pytest.mark.parametrize("radius", [2e-3, 5e-4])  # the second slips between the nodes, which are 2 mm apart
@pytest.mark.parametrize("kind", ["ball", "mask"])
def test_a_probe_does_not_pop_through_the_skin(pad, radius, kind):
    size = radius if kind == "ball" else 2e-3
    probe = zones.Probe(pad, size, [4e-4, 7e-4, size + 1e-4], kind=kind, most_force=20)
    forces = []
    for depth in np.linspace(0, 10e-3, 200):  # deeper than the block is thick
        probe.move([4e-4, 7e-4, size - depth])
        forces.append(probe.tick()[2])
    rise = np.diff(forces)
    assert rise[20:].min() > -0.02 * max(forces)
    assert forces[-1] == max(forces) > 0.5
    assert probe.position[2] > size - 10e-3
    probe.move([4e-4, 7e-4, size + 1e-3])
    probe.tick(500)
    assert np.abs(probe.force).max() < 1e-9  # it comes out as it went in
    assert probe.position[2] == pytest.approx(size + 1e-3, rel=1e-6)


def test_a_small_ball_on_a_moving_skin_touches_the_triangle_below(skin, pad):
    moving = skin.moving()
    moving.move([0.0])
    followed = moving.pad(skin.touch, friction=0.3)
    assert len(followed.triangles) == len(pad.triangles)
    forces = []
    for own in (pad, followed):
        probe = zones.Probe(own, 5e-4, [4e-4, 7e-4, 6e-4])
        for depth in np.linspace(0, 1e-3, 20):
            probe.move([4e-4, 7e-4, 5e-4 - depth])
            probe.tick()
        forces.append(probe.force)
    assert np.allclose(forces[0], forces[1], rtol=1e-6)
    assert forces[0][2] > 0.05


def test_a_deep_press_in_steps_keeps_its_side(pad):
    ball, touch, forces = Shape("sphere", [2e-3], np.eye(4), friction=(0, 0, 0)), None, []
    for depth in np.linspace(1e-4, 6e-3, 25):
        touch = pad.press(ball, supple.spatial.translation(np.array([0, 0, 2e-3 - depth])), start=touch)
        forces.append(-touch.force[2])
    assert np.diff(forces).min() > -0.05 * max(forces)
    assert forces[-1] > 3 * forces[7]  # which is as deep as the ball's radius, nearly


@pytest.mark.parametrize("of", ["pad", "skin"])
@pytest.mark.parametrize(("kind", "size"), [("sphere", [3e-3]), ("box", [3e-3, 2.3e-3, 2.6e-3])])
def test_a_deep_press_at_once_is_that_in_steps(skin, monkeypatch, of, kind, size):
    """Without friction, up to nine tenths of the shape's half height. Shallow presses are solved once."""
    shape, presses = Shape(kind, size, np.eye(4), friction=(0, 0, 0)), []
    solve = Pad.press_from
    monkeypatch.setattr(Pad, "press_from", lambda *given: presses.append(given) or solve(*given))
    smooth = skin.pad(friction=0.0)

    def press(depth, start=None):
        at = supple.spatial.translation(np.array([0, 0, size[-1] - depth]))
        return smooth.press(shape, at, start) if of == "pad" else skin.press(shape, at, start=start, friction=0.0)

    forces, stepped = [], None
    for depth in np.linspace(0.1, 0.9, 9) * size[-1]:
        at_once, stepped = press(depth), press(depth, stepped)
        np.testing.assert_allclose(at_once.force, stepped.force, rtol=1e-3, atol=1e-3 * at_once.depth)
        forces.append(-at_once.force[2])
    assert np.diff(forces).min() > 0.05 * forces[0]
    presses.clear()
    press(0.1 * size[-1])
    assert len(presses) == 1


@pytest.mark.parametrize("of", ["pad", "skin"])
def test_a_shape_below_the_skin_says_so(pad, skin, of):
    small, below = Shape("sphere", [5e-4], np.eye(4)), supple.spatial.translation(np.array([0, 0, -3e-3]))
    with pytest.warns(supple.RangeWarning, match="wholly below the surface"):
        touch = {"pad": pad, "skin": skin}[of].press(small, below)
    assert not touch.forces.any()
    with pytest.raises(MechanismError, match="pressed by a Shape"):
        {"pad": pad, "skin": skin}[of].press("ball")


def test_the_skin_moves_under_the_probe(skin, pad):
    probe = pressed(pad, 1e-3)
    before = probe.force[2]
    deeper = skin.pad(where=[0.0], friction=0.3)
    probe.pad = deeper
    assert probe.tick(5)[2] == pytest.approx(before, rel=1e-3)
    probe.pad = skin.pad(where=[0.1], friction=0.3)  # the block turns: the ball is carried sideways
    assert np.linalg.norm(probe.tick(50) - [0, 0, before]) > 5e-3
    with pytest.raises(MechanismError, match="needs a Pad"):
        probe.pad = skin


def test_the_thread_ticks_and_keeps_statistics(pad):
    with zones.Probe(pad, RADIUS, [0, 0, TOP + 1e-3]) as probe:
        probe.move([0, 0, TOP - 1e-3])
        moved_at, end = probe.ticks, time.monotonic() + PATIENCE
        while probe.ticks < moved_at + 30 and time.monotonic() < end:
            time.sleep(1e-3)
        with pytest.raises(MechanismError, match="thread is running"):
            probe.tick()
    result = probe.statistics
    assert result.ticks >= 30
    assert result.work.sum() == result.lateness.sum() == result.ticks
    assert 0 < result.mean_work <= result.most_work
    assert 0 <= result.share_below(5e-4) <= 1
    assert probe.force[2] > 0
    assert probe.ticks == result.ticks


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"radius": 0}, "radius of a probe must be positive"),
        ({"stiffness": np.nan}, "settings of a probe"),
        ({"position": [0, 0]}, "position of a probe"),
        ({"kind": "needle"}, "one of ball, mask"),
        ({"friction": -1}, "friction of a probe"),
        ({"pad": "tip"}, "needs a Pad, got str"),
    ],
)
def test_bad_probes(pad, change, message):
    with pytest.raises(MechanismError, match=message):
        zones.Probe(**({"pad": pad, "radius": RADIUS, "position": [0, 0, 1]} | change))
