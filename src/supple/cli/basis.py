"""`supple basis`: another basis for a flexible body of a mechanism."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from supple.elastic import Part
from supple.engine import FullSimulation
from supple.errors import MechanismError, listed
from supple.mechanism import Mechanism
from supple.mechanism.poses import find
from supple.mechanism.record import Array
from supple.retargeting import Motion

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
    motion = Motion.load(run)
    for motor in motion.motors:
        find([each.name for each in mech.motors], motor, f"motor (column of {run})")
    motors = {motor: lambda t, i=i: float(motion(t)[i]) for i, motor in enumerate(motion.motors)}
    sim = FullSimulation(mech, FULL_STEP, motors=motors)
    steps = max(1, round(motion.duration / FULL_STEP))
    every = max(1, steps // SNAPSHOTS)
    shapes = []
    for k in range(0, steps, every):
        sim.step(min(every, steps - k))
        shapes.append(sim.displacements(name))
        progress((k + every) / steps)
    return np.array(shapes)
