"""The best curves so far of an optimisation, in a file."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

import numpy as np

from supple.errors import MechanismError
from supple.files import read_arrays, writing
from supple.mechanism.record import Array
from supple.retargeting.motion import Motion


def save_checkpoint(path: str | PathLike[str], motion: Motion, control: Array) -> None:
    """Writes control points (n, motors) and those of the input. The file is replaced at once, so that an interruption
    leaves a whole one."""
    with writing(path, binary=True, replace=True) as file:
        np.savez(file, control=control, input=motion.control)


def resumed(path: str | PathLike[str] | None, motion: Motion) -> Array:
    """Control points (n, motors) to start from: those of the checkpoint if there is one, else those of the input."""
    if path is None or not Path(path).exists():
        return motion.control
    try:
        data = read_arrays(path, "an NPZ file")
        control, given = data["control"], data["input"]
    except (MechanismError, KeyError) as error:
        raise MechanismError(f"{path}: not a checkpoint of supple.retarget ({error}); delete it") from None
    if given.shape != motion.control.shape or not np.array_equal(given, motion.control):
        raise MechanismError(f"{path}: the checkpoint is that of another motion; delete it, or give another name")
    if control.shape != given.shape or not np.isfinite(control).all():
        raise MechanismError(f"{path}: the checkpoint is damaged; delete it")
    return np.asarray(control, dtype=np.float64)
