"""Motions of the characters as an animator's export has them: keyframes with straight lines between them.

`supple.retargeting.Motion.from_samples(keys.times, keys.positions, keys.rate)` makes a motion of keyframes. Every
motion begins and ends at rest and stays below the speed limit of the servos.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from supple.mechanism.record import Array

Corners = Sequence[tuple[float, float]]
"""Times, s, and angles, rad."""


@dataclass(frozen=True, eq=False)
class Keyframes:
    """Angles of motors over time, with straight lines between the keyframes."""

    robot: str
    """Name of the character that performs it."""
    rate: float
    """Control points a second and motor for retargeting: those of the paper in all."""
    curves: Mapping[str, Corners]
    """Keyframes by motor. Before its first one and after its last one a motor stands still."""

    @property
    def times(self) -> Array:
        """(n,) all times at which a motor has a keyframe, s."""
        return np.unique(np.concatenate([[t for t, _ in corners] for corners in self.curves.values()]))

    @property
    def positions(self) -> dict[str, Array]:
        """(n,) angles at `times` by motor, rad."""
        at = self.times
        tables = {name: np.array(corners) for name, corners in self.curves.items()}
        return {name: np.interp(at, table[:, 0], table[:, 1]) for name, table in tables.items()}

    @property
    def duration(self) -> float:
        """s."""
        return float(self.times[-1])


def repeated(begin: float, end: float, first: float, second: float, frequency: float) -> list[tuple[float, float]]:
    """Corners of a motion to and fro, with `frequency` in Hz: from `first` at `begin` to `second`, back to `first`, and
    so on until `end`, where the motor is at `first`."""
    strokes = 2 * round((end - begin) * frequency)
    times = np.linspace(begin, end, strokes + 1)
    return [(float(t), second if k % 2 else first) for k, t in enumerate(times)]


def dance() -> Keyframes:
    """8.5 s for the dancer: both arms rise, the left hand waves for 2 s near the slowest frequency of the body, then
    four poses."""
    end = 8.5
    curves = {
        "left_raise": [
            (0.5, 0.3), (1.1, 1.7), *repeated(1.3, 3.3, 1.7, 1.98, 3.5), (3.9, 1.0), (4.3, 1.0),
            (4.9, 1.9), (5.2, 1.9), (5.8, 0.7), (6.1, 0.7), (6.7, 1.4), (7.0, 1.4), (7.7, 0.3), (end, 0.3),
        ],
        "left_swing": [
            (0.5, 0.0), (1.1, 0.2), (3.3, 0.2), (3.9, 0.7), (4.3, 0.7), (4.9, -0.2), (5.2, -0.2), (5.8, 0.9),
            (6.1, 0.9), (6.7, 0.0), (7.0, 0.2), (7.7, 0.0), (end, 0.0),
        ],
        "right_raise": [
            (0.5, 0.3), (1.1, 0.9), (3.3, 0.9), (3.9, 1.0), (4.3, 1.0), (4.9, 0.7), (5.2, 0.7), (5.8, 1.9),
            (6.1, 1.9), (6.7, 1.4), (7.0, 1.4), (7.7, 0.3), (end, 0.3),
        ],
        "right_swing": [
            (0.5, 0.0), (1.1, 0.4), (3.3, 0.4), (3.9, 0.7), (4.3, 0.7), (4.9, 0.9), (5.2, 0.9), (5.8, -0.2),
            (6.1, -0.2), (6.7, 0.2), (7.0, 0.0), (7.7, 0.0), (end, 0.0),
        ],
    }  # fmt: skip
    return Keyframes("dancer", 23.5, {name: [(0.0, corners[0][1]), *corners] for name, corners in curves.items()})


WAVE = (1.3, 3.3)
"""Begin and end of the dance's waving, s."""


def serving() -> Keyframes:
    """8.5 s for the bartender: it takes the glass from a shelf to the right, holds it up in front, and serves it to the
    left. The glass is upright throughout."""
    end = 8.5
    places = {  # yaw, shoulder, elbow
        "shelf": (-1.2, 0.35, 1.25),
        "front": (0.0, -0.35, 1.6),
        "guest": (1.2, 0.75, 0.75),
    }
    stops = [
        (0.0, 0.6, "shelf"), (1.2, 2.2, "front"), (2.8, 4.0, "guest"), (4.7, 5.5, "front"), (6.1, 7.0, "shelf"),
        (7.6, end, "front"),
    ]  # fmt: skip
    names = "yaw", "shoulder", "elbow"
    curves = {
        name: [(t, places[place][i]) for begin, leave, place in stops for t in (begin, leave)]
        for i, name in enumerate(names)
    }
    curves["wrist"] = [(t, -a - b) for (t, a), (_, b) in zip(curves["shoulder"], curves["elbow"], strict=True)]
    return Keyframes("bartender", 29.4, curves)
