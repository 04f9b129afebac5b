"""The figure of 80 cm that drums and boxes, its motions, and the rapper's motion."""

import numpy as np
import pytest

import supple
from supple import MechanismError
from supple.mechanism.library import characters
from supple.mechanism.library.characters import motions
from supple.retargeting import Motion
from supple.retargeting.problem import Problem
from supple.retargeting.weights import Weights

TRACKED = dict.fromkeys(("head", "pelvis", "left_hand", "right_hand"), 1.0)


def motion_of(keys):
    return Motion.from_samples(keys.times, keys.positions, keys.rate)


@pytest.fixture(scope="module")
def figures():
    return {name: getattr(characters, name)(sections=12) for name in ("boxer", "drummer")}


@pytest.mark.parametrize("name", ["boxer", "drummer"])
def test_numbers(figures, name):
    mech = figures[name]
    rods = [body for body in mech.bodies if "leg" in body.name or "forearm" in body.name]
    rigid = [body for body in mech.bodies if body not in rods]
    assert (len(mech.motors), len(rigid), len(mech.flexible)) == (13, 16, 4)
    assert sum(body.mass for body in rigid) == pytest.approx(2.0, abs=0.1)
    assert mech.flexible[0].part.nodes[:, 2].max() == pytest.approx(0.45)
    head = mech.bodies[[body.name for body in mech.bodies].index("head")]
    assert head.pose[2, 3] + 0.053 == pytest.approx(0.8, abs=0.01)
    upright = supple.equilibrium(mech)
    assert supple.modes(mech, at=upright, count=1).frequencies[0] == pytest.approx(1.3, abs=0.15)  # Hz


@pytest.mark.parametrize(
    ("name", "peak", "control"), [("boxing", 0.06, 3250), ("drumming", 0.05, 2600)], ids=["boxing", "drumming"]
)
def test_the_motions_make_the_figure_sway(figures, name, peak, control):
    keys = getattr(motions, name)()
    motion = motion_of(keys)
    assert motion.control[3:].size == pytest.approx(control, rel=0.01)
    run = (problem := Problem(figures[keys.robot], motion, Weights(TRACKED), 5e-3)).simulate(motion.control)
    sway = np.linalg.norm(run.deviation["head"], axis=1)
    assert sway.max() > peak
    if name == "drumming":  # it swells, fades and swells
        faded = (problem.times > 4.7) & (problem.times < 5.4)
        assert sway[faded].max() < 0.4 * min(sway[problem.times < 4].max(), sway[problem.times > 6].max())


@pytest.mark.parametrize(("name", "duration"), [("boxing", 9.75), ("drumming", 10.0), ("rap", 10.0)])
def test_motions_stay_within_the_speed_limit(name, duration):
    keys = getattr(motions, name)()
    assert keys.duration == pytest.approx(duration)
    motion = motion_of(keys)
    times = np.linspace(0, motion.duration, 2000)
    assert np.abs(motion.design(times, 1) @ motion.control).max() < 8.0
    for curve in keys.positions.values():  # at rest at both ends
        assert curve[1] == curve[0] or keys.times[1] >= 0.3
        assert curve[-1] == curve[-2]


def test_legs_that_buckle_are_refused():
    with pytest.raises(MechanismError, match=r"the boxer's pair of legs buckles .* bear .* N there, and .* N rest"):
        characters.boxer(leg_diameter=2e-3)
    with pytest.raises(MechanismError, match="`leg` must be positive"):
        characters.drummer(leg=-1.0)
