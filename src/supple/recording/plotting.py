"""Plots of logs."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from supple.errors import MechanismError
from supple.recording.quantities import Quantity

if TYPE_CHECKING:
    from supple.recording.log import Log

FORMATS = (".png", ".pdf", ".svg")
MOST_LINES = 12
"""Lines of a plot that a legend names."""


def plot_log(log: Log, quantities: Sequence[Quantity], path: str | PathLike[str] | None) -> Any:
    """A figure with a plot for each unit of each quantity."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError("plots need matplotlib; install it with: pip install 'supple[all]'") from None
    if path is not None and Path(path).suffix.lower() not in FORMATS:
        raise MechanismError(f"'{path}': a picture's name ends in {', '.join(FORMATS)}")
    values, groups = log.values, _groups(log, quantities)
    figure = Figure(figsize=(7.5, 0.6 + 2.0 * len(groups)), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    plots = figure.subplots(len(groups), 1, sharex=True, squeeze=False)[:, 0]
    for axes, ((name, unit), columns) in zip(plots, groups.items(), strict=True):
        for i in columns:
            label = log.columns[i].rpartition(" [")[0].removeprefix(f"{name} ")
            axes.plot(values[:, 0], values[:, i], linewidth=1.2, label=label)
        axes.set_ylabel(f"{name}, {unit}", parse_math=False)
        axes.grid(alpha=0.3)
        if 1 < len(columns) <= MOST_LINES:
            axes.legend(fontsize=8, loc="upper right")
    plots[-1].set_xlabel("time, s")
    if path is not None:
        figure.savefig(path)
    return figure


def _groups(log: Log, quantities: Sequence[Quantity]) -> dict[tuple[str, str], list[int]]:
    """Indices of the columns, by name of the quantity and unit."""
    groups: dict[tuple[str, str], list[int]] = {}
    i = 1
    for each in quantities:
        for column in each.columns:
            groups.setdefault((each.name, column.rpartition(" [")[2].rstrip("]")), []).append(i)
            i += 1
    return groups
