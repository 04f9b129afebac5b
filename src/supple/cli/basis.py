"""`supple basis`: another basis for a flexible body of a mechanism."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

import numpy as np

from supple.elastic import Part
from supple.engine import FullSimulation
from supple.errors import MechanismError, listed
from supple.mechanism import Mechanism
from supple.mechanism.poses import find
from supple.mechanism.record import Array

FULL_STEP = 1e-3
"""s, of the full simulation that gives snapshots."""
SNAPSHOTS = 200
"""Largest number of snapshots of a run."""


def remade_part(
    mech: Mechanism, name: str | None, run: Path | None, progress: Callable[[float], None], **options: object
) -> Part:
    """The part of a flexible body (by default the only one) with another basis. `run` is a CSV file of motor positions;
    a full simulation of it gives the snapshots of the basis, instead of static shapes."""
    names = [each.name for each in mech.flexible]
    if not names:
        raise MechanismError(f"'{mech.name}' has no flexible bodies; add one with Builder.flexible")
    if name is None and len(names) > 1:
        raise MechanismError(f"'{mech.name}' has the flexible bodies {listed(names)}; choose one with --part NAME")
    index = 0 if name is None else find(names, name, f"flexible body of '{mech.name}'")
    part = mech.flexible[index].part.without_basis()
    if run is None:
        return part.with_basis(progress=progress, **options)  # type: ignore[arg-type]
    shapes = _snapshots(mech, names[index], run, progress)
    return part.with_basis(snapshots=shapes, **options)  # type: ignore[arg-type]


def _snapshots(mech: Mechanism, name: str, run: Path, progress: Callable[[float], None]) -> Array:
    """(s, n, 3) displacements of a flexible body's nodes in a full simulation."""
    times, curves = read_motors(run, [motor.name for motor in mech.motors])
    motors = {motor: lambda t, curve=curve: float(np.interp(t, times, curve)) for motor, curve in curves.items()}
    sim = FullSimulation(mech, FULL_STEP, motors=motors)
    steps = max(1, round((times[-1] - times[0]) / FULL_STEP))
    every = max(1, steps // SNAPSHOTS)
    shapes = []
    for k in range(0, steps, every):
        sim.step(min(every, steps - k))
        shapes.append(sim.displacements(name))
        progress((k + every) / steps)
    return np.array(shapes)


def read_motors(path: Path, names: list[str]) -> tuple[Array, dict[str, Array]]:
    """Times (n,), s, and positions (n,) of motors, rad or m, from a CSV file: time, then the motors."""
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise MechanismError(f"{path}: cannot read the motion: {error}") from None
    columns = list(rows[0]) if rows else []
    if len(rows) < 2 or not columns or columns[0] != "time":
        raise MechanismError(f"{path}: a motion has a first line time,MOTOR,... and two rows of numbers or more")
    for column in columns[1:]:
        find(names, column, f"motor (column of {path})")
    try:
        table = np.array([[float(row[column]) for column in columns] for row in rows])
    except (TypeError, ValueError):
        raise MechanismError(f"{path}: every row needs {len(columns)} numbers") from None
    if not np.isfinite(table).all() or (np.diff(table[:, 0]) <= 0).any():
        raise MechanismError(f"{path}: numbers must be finite and times must rise")
    return table[:, 0], dict(zip(columns[1:], table[:, 1:].T, strict=True))
