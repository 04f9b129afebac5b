"""A probe that a haptic device moves over a skin, with force feedback at 1 kHz."""

from __future__ import annotations

from dataclasses import dataclass
from types import TracebackType

import numpy as np
from numpy.typing import ArrayLike

from supple import _core
from supple.contact.pads import Pad
from supple.elastic._checks import Array, numbers
from supple.errors import MechanismError

KINDS = ("ball", "mask")
TICK = 0.5e-3
"""Thread time of a tick that leaves half of a millisecond to others, s."""


@dataclass(frozen=True)
class ProbeStatistics:
    """Times of the ticks since `Probe.start`. Work is processor time of the thread; lateness is the time from the
    instant at which a tick was due to its start."""

    ticks: int
    missed: int
    """Ticks that ended after the next one was due; the ticks that were due in between are skipped."""
    mean_work: float
    """s."""
    most_work: float
    """s."""
    mean_lateness: float
    """s."""
    most_lateness: float
    """s."""
    work: Array
    """Number of ticks by microsecond of work; the last entry holds all above."""
    lateness: Array
    """Number of ticks by microsecond of lateness."""

    def share_below(self, time: float = TICK) -> float:
        """Share of the ticks with less than that work, s."""
        return float(self.work[: max(0, round(1e6 * time))].sum() / max(1, self.ticks))

    def work_of(self, share: float) -> float:
        """Largest work, s, among this share of the ticks (e.g. 0.999) with the least work."""
        reached = np.cumsum(self.work) >= share * max(1, self.ticks)
        return float(1e-6 * (1 + int(reached.argmax())))


class Probe:
    """A ball, or a pressure mask, that a device moves over a skin.

    A spring and a damper couple the probe to the device, and the force of the spring and damper is bounded. The probe
    has no mass, and the skin is in static equilibrium, with friction. A thread of the core, without Python, computes
    the contact each millisecond (a tick): `move` gives it the device's position, `force` is the latest result. `tick`
    computes ticks without the thread.

    Args:
        pad: points of the skin near the probe, in the frame of the device, e.g. `skin.pad(...)`. About 100 points take
            less than half a millisecond.
        radius: of the ball or of the mask, m. It is positive: under a point load the skin's stiffness falls to zero as
            the mesh is refined.
        position: (3,) of the device and of the probe at the beginning, m; a place where the probe does not touch.
        kind: "ball"; or "mask": the pressure falls from the middle to the radius like that of a Hertz contact.
        stiffness: of the spring between device and probe, N/m.
        damping: of the damper between them, N s/m.
        most_force: bound of its force, N.
        friction: sliding coefficient of the probe. A contact has the larger one of both sides.
        period: of the ticks, s.
    """

    def __init__(
        self,
        pad: Pad,
        radius: float,
        position: ArrayLike,
        *,
        kind: str = "ball",
        stiffness: float = 1000.0,
        damping: float = 1.0,
        most_force: float = 5.0,
        friction: float = 0.0,
        period: float = 1e-3,
    ) -> None:
        if kind not in KINDS:
            raise MechanismError(f"a probe is one of {', '.join(KINDS)}, got '{kind}'")
        _check_pad(pad)
        at = numbers(position, (3,), "position of a probe")
        given = [radius, stiffness, damping, most_force, friction, period]
        settings = np.array(numbers(given, (6,), "settings of a probe"))
        names = ("radius", "stiffness", "damping", "most_force", "friction", "period")
        for name, value in zip(names, settings.tolist(), strict=True):
            if value < 0 or (value == 0 and name not in ("damping", "friction")):
                raise MechanismError(f"{name} of a probe must be positive, got {value:g}")
        settings[names.index("friction")] = max(friction, pad.friction)
        self._pad = pad
        self._core = _core.Probe(settings, kind == "mask", pad.core(np.eye(4)), pad.compliance, pad.areas, at)

    @property
    def pad(self) -> Pad:
        """The skin near the probe. Setting it hands a new one to the thread, e.g. after the finger has bent. If it
        names the same vertices, points that stick to the probe go on sticking."""
        return self._pad

    @pad.setter
    def pad(self, pad: Pad) -> None:
        _check_pad(pad)
        same = np.array_equal(pad.vertices, self._pad.vertices) and len(pad.points) == len(self._pad.points)
        self._core.set_skin(pad.core(np.eye(4)), pad.compliance, pad.areas, same)
        self._pad = pad

    def move(self, position: ArrayLike) -> None:
        """Moves the device to (3,), m.

        Raises:
            MechanismError: a position that is not finite; the device stays where it was.
        """
        self._core.move(numbers(position, (3,), "position of the device"))

    @property
    def force(self) -> Array:
        """(3,) N, of the skin on the probe, for the device to display. It never exceeds `most_force`."""
        return np.asarray(self._core.output()[0])

    @property
    def position(self) -> Array:
        """(3,) m, of the probe; the device may be deeper in the skin."""
        return np.asarray(self._core.output()[1])

    @property
    def stiffness(self) -> Array:
        """(3, 3) N/m: change of the force per displacement of the probe against it, at the present contact: all closed
        contacts stay closed, sliding ones slide on."""
        return np.asarray(self._core.output()[2])

    @property
    def ticks(self) -> int:
        """Number of ticks so far."""
        return int(self._core.output()[3])

    def tick(self, count: int = 1) -> Array:
        """Computes ticks without the thread; returns the force (3,), N."""
        if self._core.running:
            raise MechanismError("the probe's thread is running; stop it before computing ticks by hand")
        for _ in range(count):
            self._core.tick()
        return self.force

    def start(self) -> None:
        """Starts the thread, and the statistics anew."""
        self._core.start()

    def stop(self) -> None:
        """Ends the thread."""
        self._core.stop()

    def __enter__(self) -> Probe:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def statistics(self) -> ProbeStatistics:
        """Times of the thread's ticks since its start."""
        ticks, missed, most_work, total_work, most_late, total_late, work, late = self._core.statistics()
        count = max(1, ticks)
        return ProbeStatistics(ticks, missed, total_work / count, most_work, total_late / count, most_late, work, late)


def _check_pad(pad: object) -> None:
    if not isinstance(pad, Pad):
        raise MechanismError(f"a probe needs a Pad, got {type(pad).__name__}; skin.pad(...) makes one")
