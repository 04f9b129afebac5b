"""The probe: its coupling to the device, force and stiffness, bounded forces, and its thread."""

import time

import numpy as np
import pytest

import supple
from supple import MechanismError, zones
from supple.mechanism import Shape

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
    assert probe.force[2] == pytest.approx(-touch.force[2], rel=2e-3)
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
        end = time.monotonic() + 5
        while probe.ticks < 30 and time.monotonic() < end:
            probe.move([0, 0, TOP - 1e-3])
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
