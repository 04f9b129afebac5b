"""Input shapers and the low-pass filter that retargeting is compared with."""

from __future__ import annotations

import numpy as np
import pytest

import supple
from supple.retargeting import Motion
from supple.retargeting.baselines import ei, first_frequency, low_pass, zv, zvd

SHAPERS = (zv, zvd, ei)


@pytest.fixture
def motion() -> Motion:
    return Motion.from_samples([0, 1.0, 1.5, 3.0], {"a": [0, 0, 1, 1], "b": [0.5, 0.5, 0.2, 0.2]})


def vibration(motion: Motion, frequency: float) -> float:
    """Amplitude, at the end of a motion, of an undamped oscillator that the first motor drives."""
    times = np.linspace(0, motion.duration, 20001)
    omega = 2 * np.pi * frequency
    acceleration = motion.design(times, 2) @ motion.control[:, 0]
    return float(abs(np.trapezoid(acceleration * np.exp(1j * omega * times), times))) / omega**2


@pytest.mark.parametrize("damping", [0.0, 0.1])
@pytest.mark.parametrize("make", SHAPERS)
def test_impulses_sum_to_one(make, damping):
    shaper = make(2.0, damping)
    assert shaper.amplitudes.sum() == pytest.approx(1)
    assert shaper.times[0] == 0
    np.testing.assert_allclose(np.diff(shaper.times), 0.25 / np.sqrt(1 - damping**2))


@pytest.mark.parametrize("damping", [0.0, 0.1])
def test_residual_vibration(damping):
    assert zv(2.0, damping).residual(2.0, damping) < 1e-15
    assert zvd(2.0, damping).residual(2.0, damping) < 1e-15
    assert ei(2.0, 0.0, 0.05).residual(2.0) == pytest.approx(0.05)


def test_insensitivity_to_the_frequency():
    for error in (1e-3, 1e-2):
        assert zv(2.0).residual(2.0 * (1 + error)) == pytest.approx(np.pi / 2 * error, rel=1e-2)
        assert zvd(2.0).residual(2.0 * (1 + error)) == pytest.approx((np.pi / 2 * error) ** 2, rel=1e-2)
    # range of frequencies with less than 5 % of the vibration
    frequencies = np.linspace(1, 3, 2001)
    widths = [sum(make(2.0).residual(f) < 0.0501 for f in frequencies) for make in SHAPERS]
    assert widths[0] < widths[1] < widths[2]


def test_a_shaped_motion_leaves_no_vibration(motion):
    unshaped = vibration(motion, 2.3)
    for make in (zv, zvd):
        for advanced in (False, True):
            assert vibration(make(2.3)(motion, advanced), 2.3) < 1e-4 * unshaped


@pytest.mark.parametrize("make", SHAPERS)
def test_delays(make, motion):
    shaper = make(2.0)
    assert shaper.delay == pytest.approx(0.125 if make is zv else 0.25)
    times = np.linspace(0, 3, 3001)
    areas = [np.trapezoid(1 - m(times)[:, 0], times) for m in (motion, shaper(motion), shaper(motion, advanced=True))]
    assert areas[1] - areas[0] == pytest.approx(shaper.delay, abs=1e-4)
    assert areas[2] == pytest.approx(areas[0], abs=1e-4)


def test_shaped_motions_keep_their_ends(motion):
    for shaped in (zv(2.0)(motion), ei(2.0)(motion, True), low_pass(motion, 3.0)):
        assert shaped.motors == motion.motors
        assert shaped.duration == pytest.approx(motion.duration)
        np.testing.assert_allclose(shaped([0.0, 3.0]), motion([0.0, 3.0]), atol=1e-3)


def test_the_low_pass_has_no_delay(motion):
    times = np.linspace(0, 3, 3001)
    areas = [np.trapezoid(1 - m(times)[:, 0], times) for m in (motion, low_pass(motion, 2.0))]
    assert areas[1] == pytest.approx(areas[0], abs=1e-3)
    assert vibration(low_pass(motion, 2.0), 7.0) < 0.02 * vibration(motion, 7.0)


def test_first_frequency():
    build = supple.Builder("pendulum")
    build.link("upper", (0, 0, 0), (0.2, 0, 0), mass=0.2)
    build.link("lower", (0.2, 0, 0), (0.4, 0, 0), mass=0.2)
    build.hinge("drive", "world", "upper", at=(0, 0, 0), axis="y")
    build.hinge("spring", "upper", "lower", at=(0.2, 0, 0), axis="y", stiffness=20.0)
    build.motor("motor", "drive")
    mech = build.build()
    inertia = supple.mass_matrix(mech)[1, 1]
    turned = first_frequency(mech, {"motor": np.pi / 2})
    assert first_frequency(mech) == pytest.approx(np.sqrt(20 / inertia) / (2 * np.pi), rel=0.02)
    assert turned != pytest.approx(first_frequency(mech), rel=1e-3)


def test_bad_input(motion):
    for call in (lambda: zv(0.0), lambda: zvd(2.0, 1.0), lambda: ei(2.0, 0.0, 1.0), lambda: low_pass(motion, -1.0)):
        with pytest.raises(supple.MechanismError):
            call()
