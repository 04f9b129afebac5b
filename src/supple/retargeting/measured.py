"""Measured motions of one body, and their files."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from supple.errors import MechanismError
from supple.mechanism.record import Array

COLUMNS = "time,x,y,z"
FEWEST_SAMPLES = 20
LARGEST_GAP = 5.0
"""Largest time between two samples, over the median."""


@dataclass(frozen=True, eq=False)
class MeasuredMotion:
    """Positions of a body's centre of mass, or of a site, over time."""

    times: Array
    """(n,) s, from the start of the motors' motion; rising, the first not negative."""
    positions: Array
    """(n, 3) in world axes, m."""

    def __post_init__(self) -> None:
        times, positions = np.asarray(self.times, dtype=float), np.asarray(self.positions, dtype=float)
        if times.ndim != 1 or positions.shape != (len(times), 3):
            raise MechanismError(
                f"a measured motion has times (n,) and positions (n, 3), got {times.shape} and {positions.shape}"
            )
        if len(times) < FEWEST_SAMPLES:
            raise MechanismError(f"a measured motion needs {FEWEST_SAMPLES} samples or more, got {len(times)}")
        finite = np.isfinite(times) & np.isfinite(positions).all(axis=1)
        if not finite.all():
            raise MechanismError(
                f"sample {int(np.argmin(finite)) + 1} of the measured motion is not finite; remove such samples"
            )
        if times[0] < 0:
            raise MechanismError(
                f"the measured motion starts at {times[0]:g} s; time zero is the start of the motors' motion, so "
                "remove samples before it"
            )
        intervals = np.diff(times)
        if (intervals <= 0).any():
            k = int(np.argmax(intervals <= 0))
            raise MechanismError(
                f"the time of the measured motion must rise, and does not after sample {k + 1} ({times[k]:g} s)"
            )
        if intervals.max() > LARGEST_GAP * np.median(intervals):
            k = int(np.argmax(intervals))
            raise MechanismError(
                f"the time of the measured motion jumps from {times[k]:g} to {times[k + 1]:g} s; samples are missing "
                "there: fill the gap, or give the longer one of the two pieces if it begins at the start of the motion"
            )
        object.__setattr__(self, "times", times)
        object.__setattr__(self, "positions", positions)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> MeasuredMotion:
        """Reads a CSV file: a first line `time,x,y,z`, then a line for each sample, s and m."""
        file = Path(path)
        try:
            with open(file, encoding="utf-8-sig") as source:
                header = [name.strip() for name in source.readline().split(",")]
                if header != COLUMNS.split(","):
                    raise MechanismError(f"the first line of a measured motion must be {COLUMNS}")
                values = np.array([[float(v) for v in line.split(",")] for line in source if line.strip()])
            return cls.from_samples(values)
        except MechanismError as error:
            raise MechanismError(f"{file}: {error}") from None
        except (OSError, UnicodeDecodeError, ValueError) as error:
            raise MechanismError(f"{file}: cannot read the measured motion: {error}") from None

    @classmethod
    def from_samples(cls, samples: ArrayLike) -> MeasuredMotion:
        """From rows (n, 4) of time (s) and position (m)."""
        values = np.asarray(samples, dtype=float)
        if values.ndim != 2 or values.shape[1] != 4:
            raise MechanismError(f"samples of a measured motion are rows of {COLUMNS}, got the shape {values.shape}")
        return cls(values[:, 0], values[:, 1:])

    def save(self, path: str | PathLike[str]) -> None:
        """Writes a CSV file that `load` reads."""
        rows = np.column_stack([self.times, self.positions])
        lines = [COLUMNS, *(",".join(f"{value:.9g}" for value in row) for row in rows)]
        try:
            Path(path).write_text("\n".join(lines) + "\n", encoding="utf-8")
        except OSError as error:
            raise MechanismError(f"{path}: cannot write the measured motion: {error.strerror or error}") from None
