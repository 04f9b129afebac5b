"""What people put between an animator's curves and the motors today: input shapers and a low-pass filter.

An input shaper is a sequence of impulses. It replaces a curve p(t) by the sum of a_i p(t - t_i), with sum a_i = 1, so
that the vibrations which the copies excite cancel at one frequency (N. C. Singer and W. P. Seering 1990; W. Singhose
et al. 1994). Impulses are half a damped period apart. With the damping ratio zeta and K = exp(-zeta pi / sqrt(1 -
zeta^2)) their amplitudes are proportional to

    ZV:  1, K                                 no vibration at the frequency
    ZVD: 1, 2 K, K^2                          and its derivative with respect to the frequency vanishes
    EI:  1 + V, 2 (1 - V) K, (1 + V) K^2      a share V of the vibration at the frequency, none at one on each side
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from supple.engine import equilibrium, modes
from supple.errors import MechanismError
from supple.mechanism import Mechanism
from supple.mechanism.record import Array
from supple.retargeting.motion import Motion

REFINEMENT = 2
"""Control points of a shaped motion per control point of the input; shaped curves have more corners."""
ORDER = 2
"""Of the Butterworth filter, which is applied forward and backward."""


@dataclass(frozen=True, eq=False)
class Shaper:
    """A sequence of impulses. Make one with `zv`, `zvd` or `ei`."""

    times: Array
    """(k,) s, the first is 0."""
    amplitudes: Array
    """(k,) sum 1."""

    @property
    def delay(self) -> float:
        """Mean delay of a shaped motion, s."""
        return float(self.amplitudes @ self.times)

    def __call__(self, motion: Motion, advanced: bool = False) -> Motion:
        """The shaped motion, with the duration of the input.

        A causal shaper delays the motion by `delay` on average; the part that it moves beyond the end is lost. An
        `advanced` one starts earlier by `delay`: it needs to know the motion in advance, and the input must hold still
        for that long at its start.
        """
        lead = self.delay if advanced else 0.0
        times = _sample_times(motion)
        copies = [a * motion(times + lead - t) for a, t in zip(self.amplitudes, self.times, strict=True)]
        return _fitted(motion, times, np.sum(copies, axis=0))

    def residual(self, frequency: float, damping: float = 0.0) -> float:
        """Vibration of an oscillator (Hz, damping ratio) after the last impulse, relative to that of one impulse of
        unit amplitude at the time of the last one."""
        check_oscillator(frequency, damping)
        omega = 2 * np.pi * frequency
        decay = damping * omega + 1j * omega * np.sqrt(1 - damping**2)
        return float(abs(self.amplitudes @ np.exp(decay * (self.times - self.times[-1]))))


def zv(frequency: float, damping: float = 0.0) -> Shaper:
    """The shaper with zero vibration at a natural frequency, Hz, and damping ratio."""
    return _shaper(frequency, damping, np.array([1.0, 1.0]))


def zvd(frequency: float, damping: float = 0.0) -> Shaper:
    """The shaper with zero vibration and zero derivative at a natural frequency, Hz, and damping ratio."""
    return _shaper(frequency, damping, np.array([1.0, 2.0, 1.0]))


def ei(frequency: float, damping: float = 0.0, tolerance: float = 0.05) -> Shaper:
    """The extra-insensitive shaper: it admits the share `tolerance` of vibration at a natural frequency, Hz, and
    suppresses a wider range of frequencies than `zvd`."""
    if not 0 <= tolerance < 1:
        raise MechanismError(f"the tolerated vibration must be at least 0 and below 1, got {tolerance}")
    return _shaper(frequency, damping, np.array([1 + tolerance, 2 * (1 - tolerance), 1 + tolerance]))


def low_pass(motion: Motion, cutoff: float) -> Motion:
    """The motion without frequencies above `cutoff`, Hz, and without delay: a Butterworth filter, applied forward and
    backward. It needs to know the motion in advance."""
    from scipy.signal import butter, sosfiltfilt

    times = _sample_times(motion)
    rate = 1 / (times[1] - times[0])
    if not 0 < cutoff < rate / 2:
        raise MechanismError(f"the cutoff must be between 0 and {rate / 2:g} Hz here, got {cutoff}")
    margin = int(np.ceil(2 * rate / cutoff))
    extended = np.pad(motion(times), ((margin, margin), (0, 0)), mode="edge")
    filtered = sosfiltfilt(butter(ORDER, cutoff, fs=rate, output="sos"), extended, axis=0, padtype=None)
    return _fitted(motion, times, filtered[margin : margin + len(times)])


def first_frequency(mech: Mechanism, targets: Mapping[str, float] | None = None) -> float:
    """Lowest natural frequency at the equilibrium with the motors at `targets`, Hz."""
    return float(modes(mech, at=equilibrium(mech, targets=targets), count=1).frequencies[0])


def check_oscillator(frequency: float, damping: float) -> None:
    """Raises unless the frequency is positive and the oscillator is underdamped."""
    if not (np.isfinite(frequency) and frequency > 0):
        raise MechanismError(f"the frequency must be positive, got {frequency}")
    if not 0 <= damping < 1:
        raise MechanismError(f"the damping ratio must be at least 0 and below 1, got {damping}")


def _shaper(frequency: float, damping: float, undamped: Array) -> Shaper:
    check_oscillator(frequency, damping)
    root = np.sqrt(1 - damping**2)
    index = np.arange(len(undamped))
    amplitudes = undamped * np.exp(-damping * np.pi / root * index)
    return Shaper(index / (2 * frequency * root), amplitudes / amplitudes.sum())


def _sample_times(motion: Motion) -> Array:
    spans = len(motion.control) - 3
    return np.linspace(0, motion.duration, 8 * REFINEMENT * spans + 1)


def _fitted(motion: Motion, times: Array, values: Array) -> Motion:
    """The motion through values (t, motors), from the start of the input."""
    values[0] = motion(0.0)
    positions = {name: values[:, i] for i, name in enumerate(motion.motors)}
    return Motion.from_samples(times, positions, REFINEMENT / motion.interval)
