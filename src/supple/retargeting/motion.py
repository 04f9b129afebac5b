"""Motions: positions of motors over time as uniform cubic B-splines, and their files."""

from __future__ import annotations

import csv
import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from supple.errors import MechanismError
from supple.mechanism.record import Array, array

FIXED = 3
"""Control points at the start that never change: position, velocity and acceleration there depend on them alone."""
RATE = 25.0
"""Default number of control points a second."""
MAX_SAMPLES = 10_000_000
MAX_CONTROL = 200_000
"""Control points of a motor: two hours at the default rate."""
JUMP_SHARE, SMALLEST_JUMP = 0.2, 0.02
"""Largest error of the spline: over the range of a motor's samples, and in rad or m. Samples that jump exceed both."""


@dataclass(frozen=True, eq=False)
class Motion:
    """Positions of motors over time: uniform cubic B-splines, twice continuously differentiable. Make one with
    `Motion.from_samples` or `Motion.load`."""

    motors: tuple[str, ...]
    control: Array
    """(n, motors) control points, rad or m."""
    interval: float
    """Time between knots, s."""
    fit_error: float = 0.0
    """Largest distance of the spline from the samples it was made from, rad or m."""

    def __post_init__(self) -> None:
        control = array(self.control, (-1, len(self.motors)), "control points of a motion")
        if len(control) < FIXED + 1:
            raise MechanismError(f"a motion needs {FIXED + 1} control points or more, got {len(control)}")
        if not (np.isfinite(self.interval) and self.interval > 0):
            raise MechanismError(f"the interval of a motion must be positive, got {self.interval}")
        object.__setattr__(self, "motors", tuple(self.motors))
        object.__setattr__(self, "control", control)

    @property
    def duration(self) -> float:
        """s."""
        return self.interval * (len(self.control) - 3)

    def __call__(self, times: ArrayLike) -> Array:
        """(..., motors) positions at times, s; constant before the start and after the end."""
        at = np.asarray(times, dtype=float)
        if np.isnan(at).any():
            raise MechanismError("times of a motion must be numbers, got NaN")
        piece, parts = self._pieces(at.ravel(), 0)
        values = sum(part[:, None] * self.control[piece + k] for k, part in enumerate(parts))
        return np.asarray(values).reshape(*at.shape, len(self.motors))

    def design(self, times: Array, derivative: int = 0) -> Array:
        """(t, n) values at times (t,) of the control points' basis functions, or of their derivatives. Outside the
        motion they are those at its ends; derivatives are zero there."""
        piece, parts = self._pieces(times, derivative)
        result = np.zeros((len(times), len(self.control)))
        rows = np.arange(len(times))
        for k, part in enumerate(parts):
            result[rows, piece + k] = part
        return result

    def _pieces(self, times: Array, derivative: int) -> tuple[Any, list[Array]]:
        """The first of the four control points that determine the motion at times (t,), and the values (t,) of their
        basis functions."""
        clipped = np.clip(times / self.interval, 0, len(self.control) - 3)
        piece = np.minimum(clipped.astype(int), len(self.control) - 4)
        u = clipped - piece
        if derivative == 0:
            parts = [(1 - u) ** 3, 3 * u**3 - 6 * u**2 + 4, -3 * u**3 + 3 * u**2 + 3 * u + 1, u**3]
        elif derivative == 1:
            parts = [-3 * (1 - u) ** 2, 9 * u**2 - 12 * u, -9 * u**2 + 6 * u + 3, 3 * u**2]
        elif derivative == 2:
            parts = [6 * (1 - u), 18 * u - 12, -18 * u + 6, 6 * u]
        else:
            raise MechanismError(f"a cubic spline has derivatives 0, 1 and 2 here, got {derivative}")
        inside = 1.0 if derivative == 0 else ((times >= 0) & (times <= self.duration)).astype(float)
        return piece, [inside * part / 6 / self.interval**derivative for part in parts]

    def _least_squares(self, times: Array, values: Array) -> Array:
        """(n - FIXED, motors) control points after the fixed ones, which are zero, that fit values (t, motors) at times
        (t,) best. The normal equations have a narrow band, so that a motion of minutes takes milliseconds."""
        from scipy.linalg import solveh_banded
        from scipy.sparse import csr_array

        piece, parts = self._pieces(times, 0)
        columns = np.stack([piece + k for k in range(4)], axis=1)
        starts = np.arange(0, 4 * len(times) + 1, 4)
        shape = (len(times), len(self.control))
        design = csr_array((np.stack(parts, axis=1).ravel(), columns.ravel(), starts), shape=shape)[:, FIXED:]
        normal = design.T @ design
        band = np.zeros((4, normal.shape[0]))
        for k in range(min(4, normal.shape[0])):
            band[k, : normal.shape[0] - k] = normal.diagonal(-k)
        return np.asarray(solveh_banded(band, design.T @ values, lower=True))

    def with_control(self, control: Array) -> Motion:
        """The motion with other control points (n, motors)."""
        return Motion(self.motors, control, self.interval)

    @classmethod
    def from_samples(cls, times: ArrayLike, positions: Mapping[str, ArrayLike], rate: float = RATE) -> Motion:
        """Fits a motion to samples of any rate, by least squares.

        Args:
            times: (n,) rising, s. The motion starts at the first.
            positions: (n,) by motor, rad or m. Samples are connected by straight lines.
            rate: control points a second and motor.

        The motion starts at rest at the first sample. `fit_error` says how far the spline is from the samples.
        """
        at = array(times, (-1,), "times of a motion")
        if len(at) < 2 or (np.diff(at) <= 0).any():
            raise MechanismError("a motion needs two samples or more, with rising times")
        if not positions:
            raise MechanismError("a motion needs a motor at least")
        if not (np.isfinite(rate) and rate > 0):
            raise MechanismError(f"the number of control points a second must be positive, got {rate}")
        at = at - at[0]
        if at[-1] * rate < 1 - 1e-9:
            raise MechanismError(
                f"the motion lasts {at[-1]:.3g} s, less than the {1 / rate:.3g} s between two control points; give a "
                "longer motion or a larger `rate`"
            )
        if not at[-1] * rate <= MAX_CONTROL:
            raise MechanismError(
                f"the motion lasts {at[-1]:.3g} s and would have {at[-1] * rate:.3g} control points a motor, more than "
                f"{MAX_CONTROL}; give times in seconds, a shorter motion or a smaller `rate`"
            )
        columns = {str(n): array(values, (len(at),), f"positions of motor '{n}'") for n, values in positions.items()}
        spans = max(1, int(np.ceil(rate * at[-1] - 1e-9)))
        blank = cls(tuple(columns), np.zeros((spans + 3, len(columns))), at[-1] / spans)
        dense = np.linspace(0, at[-1], 8 * spans + 1)
        samples = np.stack([np.interp(dense, at, values) for values in columns.values()], axis=1)
        control = np.tile(samples[0], (spans + 3, 1))
        control[FIXED:] += blank._least_squares(dense, samples - samples[0])
        motion = cls(tuple(columns), control, at[-1] / spans)
        error = float(np.abs(motion(dense) - samples).max())
        for name, values, found in zip(columns, columns.values(), motion(at).T, strict=True):
            own = np.abs(found - values)
            if own.max() > max(JUMP_SHARE * np.ptp(values), SMALLEST_JUMP):
                raise MechanismError(
                    f"motor '{name}' jumps near {at[int(own.argmax())]:.3g} s: the spline misses the samples by "
                    f"{own.max():.3g} there; give it time to move, or raise `rate`"
                )
            error = max(error, float(own.max()))
        return replace(motion, fit_error=error)

    # files

    @classmethod
    def load(cls, path: str | PathLike[str], rate: float = RATE) -> Motion:
        """Reads a motion from samples of any rate. CSV: a first line `time,MOTOR,...`; JSON: {"time": [...], "motors":
        {name: [...]}}; NPZ: arrays `time` and one for each motor."""
        file = Path(path)
        readers = {".csv": _read_csv, ".json": _read_json, ".npz": _read_npz}
        if file.suffix.lower() not in readers:
            raise MechanismError(f"{file}: a motion's name ends in {', '.join(readers)}")
        try:
            times, positions = readers[file.suffix.lower()](file)
            return cls.from_samples(times, positions, rate)
        except MechanismError as error:
            raise MechanismError(f"{file}: {error}") from None
        except (OSError, UnicodeDecodeError, ValueError, KeyError, TypeError, IndexError) as error:
            raise MechanismError(f"{file}: cannot read the motion: {error}") from None

    def sampled(self, rate: float) -> tuple[Array, dict[str, Array]]:
        """Times (n,), s, and positions (n,) of each motor at a servo's rate, Hz."""
        if not (np.isfinite(rate) and rate > 0):
            raise MechanismError(f"a rate must be positive, got {rate}")
        if self.duration * rate > MAX_SAMPLES:
            raise MechanismError(f"{self.duration:.3g} s at {rate:.3g} Hz are more than {MAX_SAMPLES} samples")
        times = np.arange(int(np.floor(self.duration * rate + 1e-9)) + 1) / rate
        values = self(times)
        return times, {name: values[:, i] for i, name in enumerate(self.motors)}

    def save(self, path: str | PathLike[str], rate: float = 100.0) -> None:
        """Writes samples at a servo's rate, Hz, to a CSV, JSON or NPZ file."""
        file = Path(path)
        times, positions = self.sampled(rate)
        try:
            if file.suffix.lower() == ".csv":
                rows = np.column_stack([times, *positions.values()])
                lines = [",".join(["time", *positions]), *(",".join(f"{value:.9g}" for value in row) for row in rows)]
                file.write_text("\n".join(lines) + "\n", encoding="utf-8")
            elif file.suffix.lower() == ".json":
                content = {"time": times.tolist(), "motors": {name: x.tolist() for name, x in positions.items()}}
                file.write_text(json.dumps(content), encoding="utf-8")
            elif file.suffix.lower() == ".npz":
                np.savez(file, time=times, **positions)  # type: ignore[arg-type]
            else:
                raise MechanismError(f"{file}: a motion's name ends in .csv, .json or .npz")
        except OSError as error:
            raise MechanismError(f"{file}: cannot write the motion: {error.strerror or error}") from None


def _read_csv(file: Path) -> tuple[Any, dict[str, Any]]:
    with open(file, newline="", encoding="utf-8-sig") as source:
        rows = list(csv.reader(source))
    header = [name.strip() for name in rows[0]] if rows else []
    if len(header) < 2 or header[0] != "time":
        raise MechanismError("the first line must be time,MOTOR,...")
    if len(set(header)) < len(header):
        twice = next(name for i, name in enumerate(header) if name in header[:i])
        raise MechanismError(f"two columns have the name '{twice}'")
    body = [row for row in rows[1:] if row]
    wrong = next((i for i, row in enumerate(body) if len(row) != len(header)), None)
    if wrong is not None:
        raise MechanismError(f"line {wrong + 2} has {len(body[wrong])} numbers, the first line has {len(header)} names")
    return _columns(header, np.array(body, dtype=float).reshape(-1, len(header)).T)


def _read_json(file: Path) -> tuple[Any, dict[str, Any]]:
    data = json.loads(file.read_text(encoding="utf-8-sig"))
    return data["time"], dict(data["motors"])


def _read_npz(file: Path) -> tuple[Any, dict[str, Any]]:
    if file.exists() and not zipfile.is_zipfile(file):
        raise MechanismError("cannot read the motion: no NPZ file")
    with np.load(file, allow_pickle=False) as data:
        if sum(data[name].size for name in data.files) > MAX_SAMPLES:
            raise MechanismError(f"more than {MAX_SAMPLES} samples, which no motion needs")
        return data["time"], {name: data[name] for name in data.files if name != "time"}


def _columns(names: Sequence[str], values: Array) -> tuple[Array, dict[str, Array]]:
    return values[0], dict(zip(names[1:], values[1:], strict=True))
