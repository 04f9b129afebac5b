"""Live plots of a session."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from supple.mechanism.record import Array

if TYPE_CHECKING:
    import viser

PADDING = (10, 24, 0, 0)
"""Padding of a plot in pixels (top, right, bottom, left): space for the outermost numbers."""
DIGITS = 6
"""Decimals: rounding errors are shown as zero."""
RED, BLUE, GREEN = "#d1495b", "#2e86ab", "#3a9e4f"


class Plots:
    """Separation against displacement, energy and force against time."""

    def __init__(self, gui: viser.GuiApi, separation: bool = True) -> None:
        from viser import uplot

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
                padding=PADDING,
            )

        with gui.add_folder("Plots"):
            self._separation = plot("separation against displacement", "displacement", {"separation": RED}, dots=True)
            self._energy = plot("energy, J, against time, s", "time", {"kinetic": BLUE, "stored": GREEN})
            self._separation.visible = separation
            self._force = plot("force, N, against time, s", "time", {"force": RED})

    def show(self, series: dict[str, Array]) -> None:
        """Shows the time series of a session."""
        if not len(series["time"]):
            return
        shown = {name: np.round(values, DIGITS) for name, values in series.items()}
        order = np.argsort(shown["displacement"], kind="stable")
        self._separation.data = shown["displacement"][order], shown["separation"][order]
        self._energy.data = shown["time"], shown["kinetic"], shown["stored"]
        self._force.data = shown["time"], shown["force"]
