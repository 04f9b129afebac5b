"""Motions: splines, files and errors."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.interpolate import BSpline

import supple
from supple.retargeting import Motion
from supple.retargeting.problem import simpson
from supple.retargeting.tracking import moved_bodies


def example() -> Motion:
    return Motion.from_samples([0, 0.5, 1.1, 2], {"a": [0, 0, 1, 1], "b": [0.2, 0.2, 0.2, -0.4]})


def test_the_spline_is_a_cubic_b_spline():
    motion = example()
    knots = motion.interval * (np.arange(len(motion.control) + 4) - 3)
    times = np.linspace(0, motion.duration, 101)
    for derivative in range(3):
        found = motion.design(times, derivative) @ motion.control
        np.testing.assert_allclose(found, BSpline(knots, motion.control, 3)(times, nu=derivative), atol=1e-9)
    np.testing.assert_array_equal(motion(-1.0), motion(0.0))
    np.testing.assert_array_equal(motion(9.0), motion(motion.duration))


def test_it_starts_at_rest_at_the_first_sample():
    motion = example()
    np.testing.assert_allclose(motion(0.0), [0, 0.2], atol=1e-14)
    for derivative in (1, 2):
        np.testing.assert_allclose(motion.design(np.zeros(1), derivative) @ motion.control, 0, atol=1e-12)
    assert motion.fit_error < 0.02
    assert len(motion.control) == 53


@pytest.mark.parametrize("name", ["m.csv", "m.json", "m.npz"])
def test_files(name, tmp_path):
    motion = example()
    motion.save(tmp_path / name, rate=200)
    again = Motion.load(tmp_path / name)
    times = np.linspace(0, 2, 50)
    np.testing.assert_allclose(again(times), motion(times), atol=1e-3)
    assert again.motors == ("a", "b")


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("m.txt", "", "ends in"),
        ("m.csv", "", "first line"),
        ("m.csv", "time,a\n0,1,2\n", "line 2 has 3"),
        ("m.csv", "time,a\n0,x\n1,2\n", "cannot read"),
        ("m.csv", "time,a\n0,1\n0,2\n", "rising"),
        ("m.csv", "time,a\n0,1\n", "two samples"),
        ("m.csv", "time,a\n0,nan\n1,2\n", "finite"),
        ("m.csv", "time,a,a\n0,1,2\n1,1,2\n", "two columns have the name 'a'"),
        ("m.json", '{"time": [0, 1]}', "cannot read"),
        ("m.json", "[", "cannot read"),
        ("m.npz", "none", "cannot read"),
    ],
)
def test_bad_files(name, text, told, tmp_path):
    (tmp_path / name).write_text(text)
    with pytest.raises(supple.MechanismError, match=told):
        Motion.load(tmp_path / name)
    with pytest.raises(supple.MechanismError, match="missing"):
        Motion.load(tmp_path / "missing.csv")


def test_the_fit_is_that_of_least_squares():
    times = np.linspace(0, 2, 50)
    motion = Motion.from_samples(times, {"a": np.cos(3 * times), "b": times**2})
    dense = np.linspace(0, 2, 8 * 50 + 1)
    samples = np.stack([np.interp(dense, times, values) for values in (np.cos(3 * times), times**2)], axis=1)
    design = motion.design(dense)
    rest = samples - design[:, :3] @ motion.control[:3]
    assert np.allclose(motion.control[3:], np.linalg.lstsq(design[:, 3:], rest, rcond=None)[0], rtol=0, atol=1e-12)


def test_a_motion_of_half_an_hour():
    times = np.linspace(0, 1800, 20_000)
    assert Motion.from_samples(times, {"a": np.sin(times)}, rate=10).fit_error < 0.1


def test_bad_motions():
    with pytest.raises(supple.MechanismError, match="control points or more"):
        Motion(("a",), np.zeros((2, 1)), 0.1)
    with pytest.raises(supple.MechanismError, match="motor at least"):
        Motion.from_samples([0, 1], {})
    with pytest.raises(supple.MechanismError, match="must be positive"):
        Motion.from_samples([0, 1], {"a": [0, 1]}, rate=0)
    with pytest.raises(supple.MechanismError, match=r"lasts 0.02 s, less than the 0.04 s between two control points"):
        Motion.from_samples([0, 0.02], {"a": [0, 0.01]})
    with pytest.raises(supple.MechanismError, match="give times in seconds"):
        Motion.from_samples([0, 1e6], {"a": [0, 1]})
    with pytest.raises(supple.MechanismError, match="samples"):
        Motion.from_samples([0, 1], {"a": [0, 0.1]}).sampled(1e12)
    with pytest.raises(supple.MechanismError, match="NaN"):
        Motion.from_samples([0, 1], {"a": [0, 0.1]})(np.nan)
    for values in ([0, 0, 1, 1], [0, 0, 1, 0], [0, np.inf, 0, 0]):
        with pytest.raises(supple.MechanismError, match=r"motor 'a' jumps near 0\.5.* s|'a' must be finite"):
            Motion.from_samples([0, 0.5, 0.502, 0.504 if values[-1] == 0 else 1.0], {"b": [0, 0, 0, 0], "a": values})
    Motion.from_samples([0, 0.5, 0.6, 1.0], {"a": [0, 0, 1, 1]})  # fast, but no jump


def test_simpson_is_exact_for_cubics():
    for steps in (2, 4, 10):
        times = np.linspace(0, 2, steps + 1)
        assert simpson(steps, 2 / steps) @ times**3 == pytest.approx(4.0)
    assert simpson(5, 0.2).sum() == pytest.approx(1.0)


def refused(match: str):
    return pytest.raises(supple.MechanismError, match=match)


@pytest.fixture(scope="module")
def bar() -> supple.Mechanism:
    """A bar on a motor, an arm that no motor moves, and a plate that is fixed to the world."""
    build = supple.Builder("bar")
    build.link("bar", (0, 0, 0), (0, 0, 0.5), mass=1.0)
    build.link("other", (1, 0, 0), (1, 0, 0.5), mass=1.0)
    build.link("plate", (0, 0, 0), (0.1, 0, 0), mass=1.0)
    build.hinge("a", "world", "bar", at=(0, 0, 0), axis="y", limits=(-0.5, 1.2))
    build.hinge("b", "world", "other", at=(1, 0, 0), axis="y", stiffness=20.0)
    build.fixed("weld", "world", "plate")
    build.motor("a", "a")
    build.site("wall", "world", at=(0, 0, 1))
    return build.build()


@pytest.fixture
def motion() -> Motion:
    return Motion.from_samples([0, 1], {"a": [0, 1]})


def test_motions_that_do_not_fit_the_mechanism(bar):
    with refused("has no motors"):
        supple.retarget(supple.library.loop(), example(), {"tip": 1.0})
    with refused("'b'"):
        supple.retarget(bar, example(), {"bar": 1.0})
    with refused(r"'a' moves to 1.\d+ at .* s, beyond the limits -0.5 ... 1.2 of joint 'a'"):
        supple.retarget(bar, Motion.from_samples([0, 1, 2], {"a": [0, 1.3, 1.3]}), {"bar": 1.0})


@pytest.mark.parametrize(
    ("track", "told"),
    [
        ({"none": 1.0}, "named 'none'"),
        ({"wall": 1.0}, "'wall' is fixed to the world"),
        ({"plate": 1.0}, "no motor of the motion moves 'plate'"),
        ({"other": 1.0}, "no motor of the motion moves 'other'"),
        ({"bar": -1.0}, "'bar' in `track` must not be negative, got -1"),
        ({"bar": lambda t: 0.5 - t}, r"must not be negative, got .* at 0.51 s"),
        ({"bar": ([0, 1], [1, np.nan])}, "finite"),
        ({"bar": ([1, 0], [1, 1])}, "must rise"),
        ({"bar": ([0, 1], [1, 1], 2)}, r"\(times, values\)"),
        ({"bar": "much"}, "numbers"),
        ({"bar": np.inf}, "finite"),
        ({"bar": 0.0}, "all weights are zero"),
        ({"bar": lambda t: 0.0}, "all weights are zero"),
        ({}, "all weights are zero"),
        ("bar", "{body: weight}"),
    ],
)
def test_bad_weights(bar, motion, track, told):
    with refused(told):
        supple.retarget(bar, motion, track)


def test_a_motion_is_needed(bar):
    with refused("a Motion is needed, got str; Motion.load"):
        supple.retarget(bar, "turn.csv", {"bar": 1.0})


@pytest.mark.parametrize(
    ("option", "told"),
    [
        ({"orientation": {"bar": -1.0}}, "'bar' in `orientation` must not be negative"),
        ({"closeness": -1.0}, "`closeness` must not be negative"),
        ({"acceleration": {"a": lambda t: -t}}, "`acceleration` of 'a' must not be negative"),
        ({"closeness": {"b": 1.0}}, "motor of the motion, in `closeness` named 'b'"),
        ({"torque_limit": 0.0}, "`torque_limit` must be positive"),
        ({"speed_limit": np.nan}, "`speed_limit` must be finite"),
        ({"acceleration_limit": {"c": 1.0}}, "in `acceleration_limit` named 'c'"),
        ({"method": "adam"}, "no method 'adam'"),
        ({"dt": 0.0}, "time steps"),
        ({"dt": ()}, "time steps"),
        ({"dt": "fine"}, "numbers"),
        ({"dt": 5.0}, "exceeds the 0.04 s between two control points"),
        ({"max_iterations": 0}, "max_iterations"),
        ({"start": Motion.from_samples([0, 0.5, 9], {"a": [0, 0, 1]})}, "control points of a; the motion has"),
        ({"start": Motion(("b",), np.zeros((8, 1)), 0.04)}, "control points of b; the motion has"),
        ({"robust": 0.1}, "robust"),
        ({"robust": {"mass": 0.1}}, "robust"),
        ({"robust": {"stiffness": 1.5}}, "robust"),
    ],
)
def test_bad_options(bar, motion, option, told):
    with refused(told):
        supple.retarget(bar, motion, {"bar": 1.0}, **option)


def test_bodies_that_motors_move(bar):
    assert moved_bodies(bar, ("a",)) == {bar.body_index("bar")}
    build = supple.Builder("chain")
    for i in range(3):
        build.link(f"link{i}", (i, 0, 0), (i + 1, 0, 0), mass=1.0)
        build.hinge(f"h{i}", f"link{i - 1}" if i else "world", f"link{i}", at=(i, 0, 0), axis="y")
    build.link("gear", (0, 1, 0), (1, 1, 0), mass=1.0)
    build.hinge("g", "world", "gear", at=(0, 1, 0), axis="y")
    build.couple("gears", {"h2": 1.0, "g": -1.0}, rigid=True)
    build.motor("m", "h1")
    assert moved_bodies(build.build(), ("m",)) == {0, 1, 2, 3}


def test_reports_have_a_known_suffix(bar, motion, tmp_path):
    result = supple.retarget(bar, motion, {"bar": ([0, 1], [1, 2])}, dt=0.02, speed_limit={"a": 2.0})
    result.report(tmp_path / "report.PNG")
    assert (tmp_path / "report.PNG").stat().st_size > 10_000
    with refused("the name of a report ends in .html, .png"):
        result.report(tmp_path / "report.txt")
    with refused("cannot write the report"):
        result.report(tmp_path / "missing" / "report.html")
