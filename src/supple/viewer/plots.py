"""The live plots of a page."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from supple.mechanism.record import Array

if TYPE_CHECKING:
    import viser

ROOM = (10, 24, 0, 0)
"""Pixels above, right of, below and left of a plot, for the outermost numbers."""
LEAST = 1e-3
"""Of an axis, at least."""
RED, BLUE, GREEN = "#d1495b", "#2e86ab", "#3a9e4f"


class Plots:
    """Separation against displacement, energy and force against time."""

    def __init__(self, gui: viser.GuiApi, energy: bool = True) -> None:
        from viser import uplot

        self._fitted: dict[int, tuple[Any, Any]] = {}
        """Axes that each plot has now."""

        def plot(title: str, x: str, lines: dict[str, str], dots: bool = False) -> Any:
            series = [uplot.Series(label=x)]
            for label, colour in lines.items():
                points = uplot.Series_Points(show=dots, size=4, fill=colour)
                series.append(uplot.Series(label=label, stroke=colour, width=0 if dots else 2, points=points))
            empty = tuple(np.zeros(1) for _ in series)
            scales = {"x": uplot.Scale(time=False), "y": uplot.Scale()}
            return gui.add_uplot(
                empty,
                tuple(series),
                title=title,
                scales=scales,
                legend=uplot.Legend(show=len(lines) > 1),
                aspect=2.2,
                padding=ROOM,
            )

        with gui.add_folder("Plots"):
            self._separation = plot("separation against displacement", "displacement", {"separation": RED}, dots=True)
            self._energy = plot("energy, J, against time, s", "time", {"kinetic": BLUE, "stored": GREEN})
            self._energy.visible = energy
            self._force = plot("force, N, against time, s", "time", {"force": RED})

    def show(self, series: dict[str, Array]) -> None:
        """The series of a session."""
        if not len(series["time"]):
            return
        order = np.argsort(series["displacement"], kind="stable")
        along, apart = series["displacement"][order], series["separation"][order]
        self._separation.data = along, apart
        self._energy.data = series["time"], series["kinetic"], series["stored"]
        self._force.data = series["time"], series["force"]
        self._fit(self._separation, (apart,), along)
        self._fit(self._energy, (series["kinetic"], series["stored"]))
        self._fit(self._force, (series["force"],))

    def _fit(self, plot: Any, lines: tuple[Array, ...], along: Array | None = None) -> None:
        """Axes from zero to a round number, so that what is nothing but rounding looks like nothing."""
        from viser import uplot

        y, x = _bounds(*lines), None if along is None else _bounds(along)
        if self._fitted.get(id(plot)) != (x, y):
            self._fitted[id(plot)] = (x, y)
            across = uplot.Scale(time=False) if x is None else uplot.Scale(time=False, range=x)
            plot.scales = {"x": across, "y": uplot.Scale(range=y)}


def _bounds(*lines: Array) -> tuple[float, float]:
    """From zero, or a round number below the least, to one above the largest."""
    low, high = min(float(line.min()) for line in lines), max(float(line.max()) for line in lines)
    return -_round_up(-low) if low < -LEAST else 0.0, _round_up(high)


def _round_up(value: float) -> float:
    """1, 2 or 5 times a power of ten, LEAST or more."""
    power = 10.0 ** np.floor(np.log10(max(value, LEAST)))
    return float(next(step * power for step in (1, 2, 5, 10) if step * power >= value * (1 - 1e-9)))
