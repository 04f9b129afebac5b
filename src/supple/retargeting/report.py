"""A picture of a retargeted motion: deviations before and after, motor curves, and the cost."""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from supple.retargeting.optimiser import Retargeted

BEFORE, AFTER = "#8fa3b5", "#d1495b"


def plot(result: Retargeted, path: str | PathLike[str]) -> None:
    """Draws the result of `supple.retarget` to a PNG, PDF or SVG file."""
    import matplotlib.pyplot as plt

    bodies, motors = list(result.deviations), list(result.input.motors)
    heights = [2.0] * len(bodies) + [1.6] * len(motors)
    size = (8, 1.1 * sum(heights) + 0.6)
    figure, axes = plt.subplots(len(heights), 1, figsize=size, sharex=True, height_ratios=heights)
    for name, place in zip(bodies, np.atleast_1d(axes), strict=False):
        for values, colour, label in zip(result.deviations[name], (BEFORE, AFTER), ("input", "optimised"), strict=True):
            place.semilogy(result.times, 1e3 * np.linalg.norm(values, axis=1) + 1e-4, color=colour, label=label)
        place.set_ylabel(f"{name}\nmm from target")
        place.legend(loc="upper right")
    for k, (name, place) in enumerate(zip(motors, np.atleast_1d(axes)[len(bodies) :], strict=True)):
        for curve, colour in ((result.input, BEFORE), (result.motion, AFTER)):
            place.plot(result.times, np.degrees(curve(result.times)[:, k]), color=colour)
        place.set_ylabel(f"{name}\ndegrees")
    np.atleast_1d(axes)[-1].set_xlabel("time, s")
    figure.tight_layout()
    figure.savefig(path, dpi=90)
    plt.close(figure)
