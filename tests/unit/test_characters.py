"""Characters of the library: their sizes and motions, bad input, and the stored optimised curves."""

from dataclasses import replace

import numpy as np
import pytest

import supple
from supple.cli.performing import performance
from supple.mechanism.library.characters import motions
from supple.retargeting import Motion, characters
from supple.retargeting.optimiser import DAMPINGS, _best_step, rms
from supple.retargeting.problem import Problem
from supple.retargeting.spilling import RIM_ANGLE, surface_angles
from supple.retargeting.weights import Weights

SIZES = {"dancer": (4, 7, 3), "bartender": (4, 6, 2)}
"""Motors, rigid bodies, rods."""
CONTROL = {"dancer": 800, "bartender": 1000}


@pytest.fixture(scope="module", params=sorted(SIZES))
def name(request):
    return request.param


@pytest.fixture(scope="module")
def robot(name):
    return characters.character(name).robot()


def test_counts_of_the_paper(name, robot):
    rigid = len(robot.bodies) - sum(len(each.part.interfaces) for each in robot.flexible)
    assert (len(robot.motors), rigid, len(robot.flexible)) == SIZES[name]


def test_slowest_vibration_of_the_dancer(name, robot):
    if name == "dancer":
        raised = {"left_raise": np.pi / 2, "right_raise": np.pi / 2}
        assert supple.modes(robot, at=supple.equilibrium(robot, targets=raised), count=1).frequencies[0] == (
            pytest.approx(3.4, abs=0.15)
        )
    else:
        heights = [body.pose[2, 3] for body in robot.bodies]
        assert max(heights) == pytest.approx(0.45)


def test_motion_fits_the_robot(name, robot):
    motion = characters.character(name).motion
    assert set(motion.motors) == {motor.name for motor in robot.motors}
    assert len(motion.motors) * (len(motion.control) - 3) == pytest.approx(CONTROL[name], rel=0.01)
    assert motion.duration == pytest.approx(8.5)
    characters.check_speed(name, motion)
    at = np.linspace(0, motion.duration, 100)
    assert np.abs(motion.design(at[:2], 1) @ motion.control)[0] == pytest.approx(0, abs=1e-12)


def test_glass_is_upright_in_the_input():
    angles = motions.serving().positions
    np.testing.assert_allclose(angles["shoulder"] + angles["elbow"] + angles["wrist"], 0, atol=1e-12)


def test_dance_waves_for_two_seconds():
    begin, end = motions.WAVE
    angles = [angle for time, angle in motions.dance().curves["left_raise"] if begin - 1e-9 <= time <= end + 1e-9]
    assert end - begin == pytest.approx(2)
    assert len(angles) == 15  # seven waves
    assert set(np.sign(np.diff(angles))) == {-1, 1}


@pytest.fixture(scope="module")
def errors_while_waving():
    """Root mean square deviations, m, by dance and body, while the left hand waves."""
    own = characters.character("dancer")
    problem = Problem(own.robot(), characters.beginning(own.motion, motions.WAVE[1]), own.weights(), 2e-3)
    waving = problem.times >= motions.WAVE[0]
    found = {}
    for dance in characters.DANCES:
        made = characters.beginning(characters.load_curves("dancer", dance), motions.WAVE[1])
        deviations = problem.deviation_of(problem.play(made(problem.times)))
        found[dance] = {body: rms(values[waving]) for body, values in deviations.items()}
    return found


def test_heavy_clavicle_halves_its_deviation_and_the_wave_suffers(errors_while_waving):
    one, heavy = errors_while_waving["all one"], errors_while_waving["clavicle 100"]
    assert heavy["clavicle"] < 0.5 * one["clavicle"]
    assert heavy["left_hand"] > 1.5 * one["left_hand"]


def test_heavy_left_hand_follows_its_wave_and_the_right_hand_suffers(errors_while_waving):
    one, heavy = errors_while_waving["all one"], errors_while_waving["left hand 100"]
    assert heavy["left_hand"] < one["left_hand"] / 3
    assert heavy["right_hand"] > 1.2 * one["right_hand"]


def test_another_dance_begins_with_given_curves():
    motion, start = (
        characters.beginning(each, 1.0)
        for each in (characters.character("dancer").motion, characters.load_curves("dancer"))
    )
    options = {"motion": motion, "dt": 8e-3, "max_iterations": 1, "progress": lambda cost: None}
    heavy = characters.another_dance("clavicle 100", start, **options)
    input_cost, start_cost, cost = heavy.history
    assert cost < start_cost < input_cost


def test_dances_are_named():
    with pytest.raises(supple.MechanismError, match=r"dance of the dancer.*'waltz'|'waltz'.*dance of the dancer"):
        characters.load_curves("dancer", "waltz")
    with pytest.raises(supple.MechanismError, match=r"dance of the boxer"):
        characters.stored("boxer", "clavicle 100")


def test_part_of_a_motion_is_its_beginning():
    whole = characters.character("dancer").motion
    part = characters.beginning(whole, 2.0)
    at = np.linspace(0, part.duration, 50)
    assert part.duration == pytest.approx(2.0, abs=whole.interval)
    np.testing.assert_allclose(part(at), whole(at), atol=1e-12)
    with pytest.raises(supple.MechanismError, match="positive time, got 0"):
        characters.beginning(whole, 0)


@pytest.mark.parametrize(
    ("make", "sizes", "message"),
    [
        ("dancer", {"body_diameter": 5e-4}, r"the dancer's body buckles under its own weight: .* bear 0\.\d+ N"),
        ("bartender", {"fore_diameter": 4e-4}, r"the bartender's fore rod buckles .* 4.34 N rest on it"),
        ("rapper", {"rod_thickness": 2e-3}, r"the rapper's push rod buckles .* bear 0\.611 N, and 7\.5 N press on it"),
        ("drummer", {"leg_diameter": 2e-3}, r"the drummer's pair of legs buckles .* bear 2\.08 N there, and 20\.1 N"),
        ("dancer", {"arm": -0.2}, "dancer: `arm` must be positive, got -0.2"),
        ("bartender", {"upper": np.nan}, "bartender: `upper` must be positive, got nan"),
    ],
)
def test_impossible_sizes(make, sizes, message):
    with pytest.raises(supple.MechanismError, match=message):
        getattr(supple.library.characters, make)(**sizes)


def test_bad_input_is_named():
    with pytest.raises(supple.MechanismError, match=r"'yaw'.*motor of 'dancer'|motor of 'dancer'.*'yaw'"):
        characters.retargeted("dancer", characters.character("bartender").motion)
    with pytest.raises(supple.MechanismError, match="'head'"):
        characters.retargeted("dancer", track={"head": 1.0})
    with pytest.raises(supple.MechanismError, match=r"character.*'singer'|'singer'.*character"):
        characters.retargeted("singer")
    quick = Motion.from_samples([0, 0.3, 0.5, 1.0], {"left_raise": [0, 0, 2.2, 2.2]}, rate=25)
    with pytest.raises(supple.MechanismError, match=r"'left_raise' of the dancer would turn at 12\.2 rad/s at 0\.35 s"):
        characters.retargeted("dancer", quick)


def test_unreadable_curves_are_named(tmp_path, monkeypatch):
    monkeypatch.setattr(characters, "FOLDER", tmp_path)
    with pytest.raises(supple.MechanismError, match=r"stored curves of 'dancer' .*--character dancer --write"):
        characters.load_curves("dancer")
    motion = characters.character("dancer").motion
    characters.save_curves("dancer", motion)
    np.testing.assert_array_equal(characters.load_curves("dancer").control, motion.control)


def test_water_in_an_accelerated_glass():
    times = np.arange(50) * 1e-2
    poses = np.tile(np.eye(4), (50, 1, 1))
    assert surface_angles(times, poses).max() < 1e-6
    poses[:, 0, 3] = 0.5 * 3.0 * times**2
    np.testing.assert_allclose(surface_angles(times, poses)[1:-1], np.arctan2(3.0, 9.81), rtol=1e-3)
    assert 0 < RIM_ANGLE < np.pi / 4
    with pytest.raises(supple.MechanismError, match="three poses"):
        surface_angles(times[:2], poses[:2])


@pytest.mark.parametrize(("method", "limit"), [("mixed", 0.6), ("l-bfgs", np.inf)])
def test_other_methods_find_the_minimum_of_gauss_newton(method, limit):
    mech = supple.library.rod_on_motor(modes=8, sections=12)
    motion = Motion.from_samples([0, 0.3, 0.6, 1.2], {"motor": [0, 0, 0.3, 0.3]})
    quiet = {"progress": lambda cost: None, "track": {"tip": 1.0}, "torque_limit": limit}
    exact = supple.retarget(mech, motion, dt=4e-3, **quiet)
    other = supple.retarget(mech, motion, dt=(8e-3, 4e-3), method=method, **quiet)
    assert other.history[-1] == pytest.approx(exact.history[-1], rel=0.03)


@pytest.mark.filterwarnings("ignore::supple.errors.RangeWarning")  # of the long steps
def test_damping_of_a_step_with_a_poor_model():
    mech = supple.library.rod_on_motor(modes=8, sections=12)
    motion = Motion.from_samples([0, 0.3, 0.6, 1.2], {"motor": [0, 0, 0.3, 0.3]})
    problem = Problem(mech, motion, Weights({"tip": 1.0}), 8e-3)
    run = problem.simulate(motion.control)
    model = problem.model(run)
    good = _best_step([problem], motion.control, run.cost, model, level=0)
    assert good.good
    assert DAMPINGS[good.level] == 0
    poor = _best_step([problem], motion.control, run.cost, replace(model, matrix=model.matrix / 20), level=0)
    assert DAMPINGS[poor.level] > 0
    assert poor.cost < 0.8 * run.cost
    uphill = replace(model, gradient=-model.gradient)
    assert _best_step([problem], motion.control, run.cost, uphill, level=0) is None


def test_recording_of_a_performance():
    recording = performance("dancer", "dance")
    assert recording.duration == pytest.approx(8.5, abs=0.05)
    assert {body.name.split()[0] for body in recording.mechanism.bodies} == {"target", "input", "optimised"}


@pytest.mark.parametrize(
    ("name", "motion", "message"),
    [
        ("dancer", "rap", "motion of 'dancer'.*'rap'|'rap'.*motion of 'dancer'"),
        ("ladder", "dance", "character with motions.*'ladder'|'ladder'.*character with"),
    ],
)
def test_unknown_performances(name, motion, message):
    with pytest.raises(supple.MechanismError, match=message):
        performance(name, motion)
