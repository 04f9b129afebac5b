"""Curves that an optimisation begins with, and the best ones so far in a file."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

import numpy as np

from supple.errors import MechanismError
from supple.files import read_arrays, writing
from supple.mechanism.record import Array
from supple.retargeting.motion import FIXED, Motion

SAME = 1e-9
"""Largest distance of the first control points of an input and of curves optimised for it, rad or m."""


def save_checkpoint(path: str | PathLike[str], motion: Motion, control: Array) -> None:
    """Writes control points (n, motors) and those of the input. The file is replaced at once, so that an interruption
    leaves a whole one."""
    with writing(path, binary=True, replace=True) as file:
        np.savez(file, control=control, input=motion.control)


def start_of(motion: Motion, start: Motion | None) -> Array:
    """Control points (n, motors) of the curves to begin with; those of the input if there are none."""
    if start is None:
        return motion.control
    if start.motors != motion.motors or start.control.shape != motion.control.shape:
        raise MechanismError(
            f"`start` has {len(start.control)} control points of {', '.join(start.motors)}; the motion has "
            f"{len(motion.control)} of {', '.join(motion.motors)}: give curves that were optimised for this motion"
        )
    apart = float(np.abs(start.control - motion.control)[:FIXED].max())
    if apart > SAME or start.interval != motion.interval:
        raise MechanismError(
            f"`start` begins {apart:.3g} rad (or m) from the motion, with {start.interval:.4g} s between two control "
            f"points (the motion: {motion.interval:.4g} s); give curves that were optimised for this motion"
        )
    return start.control


def resumed(path: str | PathLike[str] | None, motion: Motion, start: Array) -> Array:
    """Control points (n, motors) to begin with: those of the checkpoint if there is one, else those of `start`."""
    if path is None or not Path(path).exists():
        return start
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
