"""Motions: splines, files and errors."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.interpolate import BSpline

import supple
from supple.retargeting import Motion
from supple.retargeting.problem import simpson


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


def test_bad_motions():
    with pytest.raises(supple.MechanismError, match="control points or more"):
        Motion(("a",), np.zeros((2, 1)), 0.1)
    with pytest.raises(supple.MechanismError, match="motor at least"):
        Motion.from_samples([0, 1], {})
    with pytest.raises(supple.MechanismError, match="must be positive"):
        Motion.from_samples([0, 1], {"a": [0, 1]}, rate=0)


def test_simpson_is_exact_for_cubics():
    for steps in (2, 4, 10):
        times = np.linspace(0, 2, steps + 1)
        assert simpson(steps, 2 / steps) @ times**3 == pytest.approx(4.0)
    assert simpson(5, 0.2).sum() == pytest.approx(1.0)


def test_bad_arguments():
    loop = supple.library.loop()
    motion = example()
    with pytest.raises(supple.MechanismError, match="has no motors"):
        supple.retarget(loop, motion, {"tip": 1.0})
    build = supple.Builder("bar")
    build.link("bar", (0, 0, 0), (0, 0, 0.5), mass=1.0)
    build.hinge("a", "world", "bar", at=(0, 0, 0), axis="y")
    build.motor("a", "a")
    mech = build.build()
    with pytest.raises(supple.MechanismError, match="'b'"):
        supple.retarget(mech, motion, {"bar": 1.0})
    motion = Motion.from_samples([0, 1], {"a": [0, 1]})
    for track, told in (({"none": 1.0}, "none"), ({"bar": -1.0}, "negative"), ({"bar": 0.0}, "zero"), ({}, "zero")):
        with pytest.raises(supple.MechanismError, match=told):
            supple.retarget(mech, motion, track)
    with pytest.raises(supple.MechanismError, match="no method 'adam'"):
        supple.retarget(mech, motion, {"bar": 1.0}, method="adam")
    with pytest.raises(supple.MechanismError, match="time steps"):
        supple.retarget(mech, motion, {"bar": 1.0}, dt=0.0)
    with pytest.raises(supple.MechanismError, match="robust"):
        supple.retarget(mech, motion, {"bar": 1.0}, robust={"mass": 0.1})
