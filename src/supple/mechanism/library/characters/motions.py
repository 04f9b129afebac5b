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
    """8.5 s for the dancer: both arms rise, the left hand waves overhead for 2 s near the slowest frequency of the
    body, then four poses."""
    end = 8.5
    curves = {
        "left_raise": [
            (0.5, 0.3), (1.1, 2.5), *repeated(1.3, 3.3, 2.5, 2.68, 3.5), (3.9, 1.0), (4.3, 1.0),
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
    """8.5 s for the bartender: it takes the glass from a shelf to the right, holds it up in front, serves it to the
    left, and returns the same way. The glass is upright throughout."""
    end = 8.5
    places = {  # yaw, shoulder, elbow
        "shelf": (-0.8, 0.35, 1.25),
        "front": (0.0, 0.05, 1.25),
        "guest": (0.8, 0.6, 0.95),
    }
    stops = [
        (0.0, 0.6, "shelf"), (1.6, 2.4, "front"), (3.4, 4.2, "guest"), (5.2, 6.0, "front"), (7.0, end, "shelf"),
    ]  # fmt: skip
    names = "yaw", "shoulder", "elbow"
    curves = {
        name: [(t, places[place][i]) for begin, leave, place in stops for t in (begin, leave)]
        for i, name in enumerate(names)
    }
    curves["wrist"] = [(t, -a - b) for (t, a), (_, b) in zip(curves["shoulder"], curves["elbow"], strict=True)]
    return Keyframes("bartender", 29.4, curves)


def staged(
    start: Mapping[str, float], moves: Sequence[tuple[float, float, Mapping[str, float]]], end: float
) -> dict[str, list[tuple[float, float]]]:
    """Curves that begin in a pose, angles by motor. Each move has a begin, an end and the angles that motors have then;
    motors that it does not name stand still."""
    curves = {name: [(0.0, angle)] for name, angle in start.items()}
    for begin, done, pose in moves:
        for name, angle in pose.items():
            if begin > curves[name][-1][0]:
                curves[name].append((begin, curves[name][-1][1]))
            curves[name].append((done, angle))
    for corners in curves.values():
        if corners[-1][0] < end:
            corners.append((end, corners[-1][1]))
    return curves


def rap() -> Keyframes:
    """10 s for the rapper's arm: chops to the beat, a wide sweep to either side, a point upward and a throw down."""
    poses = {  # swing, raise, twist, elbow
        "rest": (0.2, 0.2, 0.2, 1.2),
        "mouth": (0.6, 0.3, 0.4, 1.8),
        "chop": (0.85, 0.25, 0.1, 1.15),
        "out": (0.75, 0.85, -0.2, 0.9),
        "across": (0.9, 0.15, 0.8, 1.5),
        "high": (1.7, 0.3, 0.0, 0.9),
        "low": (0.35, 0.4, 0.0, 0.8),
        "proud": (0.4, 0.9, 0.5, 1.8),
    }
    names = "swing", "raise", "twist", "elbow"
    score = [
        (0.5, 0.9, "mouth"), (1.2, 1.45, "chop"), (1.5, 1.75, "mouth"), (1.8, 2.05, "chop"), (2.1, 2.4, "mouth"),
        (2.55, 2.95, "out"), (3.15, 3.6, "across"), (3.8, 4.25, "out"), (4.4, 4.75, "mouth"),
        (4.85, 5.4, "high"), (5.6, 6.25, "low"), (6.35, 6.75, "mouth"), (6.8, 7.05, "chop"), (7.1, 7.35, "mouth"),
        (7.4, 7.65, "chop"), (7.75, 8.15, "proud"), (8.35, 8.75, "across"), (8.9, 9.3, "rest"),
    ]  # fmt: skip
    start = dict(zip(names, poses["rest"], strict=True))
    moves = [(begin, done, dict(zip(names, poses[pose], strict=True))) for begin, done, pose in score]
    return Keyframes("rapper", 25.0, staged(start, moves, 10.0))


def arms(swing: float, out: float, twist: float, elbow: float, sides: str = "left right") -> dict[str, float]:
    """Angles of the motors of one arm or both of the figure."""
    angles = {"swing": swing, "raise": out, "twist": twist, "elbow": elbow}
    return {f"{side}_{name}": angle for side in sides.split() for name, angle in angles.items()}


def trunk(
    pelvis: float = 0.0, spine: float = 0.0, torso: float = 0.0, neck: float = 0.0, head: float = 0.0
) -> dict[str, float]:
    """Angles of the motors of the figure's trunk, by motor."""
    return {"pelvis": pelvis, "spine": spine, "torso": torso, "neck": neck, "head": head}


def boxing() -> Keyframes:
    """9.75 s for the boxer: jabs, crosses and hooks, two blocks, and two dodges backward."""
    stance = trunk(pelvis=-0.15, spine=0.08, neck=0.1)
    guard = (0.55, 0.2, 0.35, 2.0)
    jab, hook, block = (1.45, 0.15, 0.3, 0.65), (1.2, 1.0, 0.8, 1.3), (0.95, 0.15, 0.55, 2.2)
    back = {**stance, **arms(*guard)}
    left_jab = {**trunk(pelvis=-0.45, spine=0.15, neck=0.4), **arms(*jab, "left")}
    right_cross = {**trunk(pelvis=0.45, spine=0.18, neck=-0.4), **arms(*jab, "right")}
    right_hook = {**trunk(pelvis=0.5, spine=0.1, torso=0.12, neck=-0.4), **arms(*hook, "right")}
    left_hook = {**trunk(pelvis=-0.6, spine=0.1, torso=-0.12, neck=0.5), **arms(*hook, "left")}
    cover = {**trunk(spine=0.2, head=0.25), **arms(*block)}
    dodge = {**trunk(pelvis=-0.15, spine=-0.28, neck=0.1, head=0.2), **arms(0.75, 0.2, 0.45, 2.2)}
    moves = [
        (0.5, 0.75, left_jab), (0.85, 1.1, back),
        (1.2, 1.45, left_jab), (1.55, 1.8, back),
        (1.85, 2.15, right_hook), (2.25, 2.55, back),
        (2.75, 3.05, dodge), (3.45, 3.75, back),
        (3.85, 4.1, right_cross), (4.2, 4.45, back),
        (4.5, 4.8, left_hook), (4.9, 5.2, back),
        (5.35, 5.6, cover), (5.95, 6.2, back),
        (6.4, 6.7, dodge), (7.1, 7.4, back),
        (7.6, 7.85, left_jab), (7.95, 8.2, back),
        (8.2, 8.45, right_cross), (8.55, 8.8, back),
        (8.95, 9.2, cover), (9.3, 9.55, back),
    ]  # fmt: skip
    return Keyframes("boxer", 25.64, staged(back, moves, 9.75))


def drumming() -> Keyframes:
    """10 s for the drummer: strokes of both hands at 2, 3 and 4 Hz and together at 2.5 Hz, while the trunk sways near
    the figure's own frequency; the sway that this excites swells and fades."""
    end, up, down = 10.0, 1.45, 1.0
    curves = staged({**trunk(spine=0.05), **arms(0.25, 0.2, 0.25, up)}, [], end)
    bars = [(0.5, 3.0, 2.0), (3.0, 5.5, 3.0), (5.5, 7.5, 4.0), (7.5, 9.5, 2.5)]
    for side in ("left", "right"):
        elbow, swing = [], []
        for begin, done, frequency in bars:
            late = 0.5 / frequency if side == "right" and frequency != 2.5 else 0.0
            stroke = 0.25 if frequency == 4.0 else up - down
            elbow += repeated(begin + late, done, up, up - stroke, frequency)
            swing += repeated(begin + late, done, 0.25, 0.25 - 0.35 * stroke, frequency)
        curves[f"{side}_elbow"] = _joined(elbow, end)
        curves[f"{side}_swing"] = _joined(swing, end)
    curves["spine"] = _joined(repeated(0.5, 9.5, 0.0, 0.22, 10 / 9), end)
    curves["head"] = _joined(repeated(0.5, 9.5, 0.0, 0.2, 2.0), end)
    curves["pelvis"] = _joined(repeated(0.5, 9.5, -0.12, 0.12, 0.5), end)
    curves["torso"] = _joined(repeated(0.5, 9.5, -0.06, 0.06, 0.5), end)
    return Keyframes("drummer", 20.0, curves)


def _joined(corners: Sequence[tuple[float, float]], end: float) -> list[tuple[float, float]]:
    """Corners with rising times, preceded by rest from 0 and followed by rest until the end."""
    kept: list[tuple[float, float]] = [(0.0, corners[0][1])]
    for t, angle in [*corners, (end, corners[-1][1])]:
        if t > kept[-1][0] + 1e-9:
            kept.append((t, angle))
    return kept
