"""A report of a retargeted motion as a picture or as an HTML page: deviations, motor curves, torques, and the cost."""

from __future__ import annotations

import base64
import html
from collections.abc import Callable
from io import BytesIO
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from supple.errors import MechanismError
from supple.mechanism.record import Array
from supple.retargeting.tracking import turns

if TYPE_CHECKING:
    from supple.retargeting.optimiser import Retargeted

BEFORE, AFTER = "#8fa3b5", "#d1495b"
PICTURES = (".png", ".pdf", ".svg")
SMALLEST = 1e-4
"""Smallest deviation that is drawn, mm."""
STYLE = """body{font:15px/1.5 sans-serif;color:#223;max-width:60em;margin:2em auto;padding:0 1em}
table{border-collapse:collapse;margin:1em 0}td,th{padding:.25em .9em;border-bottom:1px solid #ccd;text-align:right}
td:first-child,th:first-child{text-align:left}img{max-width:100%}"""

Panel = tuple[str, Callable[[Any], None]]
"""A title, and a function that draws into axes of matplotlib."""


def write_report(result: Retargeted, path: str | PathLike[str]) -> None:
    """Writes the report of a result to an HTML, PNG, PDF or SVG file."""
    file = Path(path)
    suffix = file.suffix.lower()
    if suffix not in (".html", *PICTURES):
        raise MechanismError(f"{file}: the name of a report ends in .html, {', '.join(PICTURES)}")
    try:
        if suffix == ".html":
            file.write_text(_page(result), encoding="utf-8")
        else:
            _figure([panel for part in _panels(result).values() for panel in part]).savefig(file, dpi=90)
    except OSError as error:
        raise MechanismError(f"{file}: cannot write the report: {error.strerror or error}") from None


def write_distances(result: Retargeted, path: str | PathLike[str]) -> None:
    """Writes a picture of the distances of the tracked bodies from the target, mm over time: a panel for each body."""
    from matplotlib.figure import Figure

    rows = len(result.deviations)
    figure = Figure(figsize=(8, 1.7 * rows + 0.6))
    for k, (name, pair) in enumerate(result.deviations.items(), 1):
        axes = figure.add_subplot(rows, 1, k, ylabel=f"{name}, mm")
        for values, colour, label in zip(pair, (BEFORE, AFTER), ("input", "optimised"), strict=True):
            axes.plot(result.times, 1e3 * np.linalg.norm(values, axis=1), color=colour, label=label)
        if k == 1:
            axes.legend(loc="upper left")
    axes.set_xlabel("time, s")
    figure.suptitle("distance from the target")
    figure.tight_layout()
    figure.savefig(path, dpi=80)


def _panels(result: Retargeted) -> dict[str, list[Panel]]:
    """The panels of each part of the report."""
    times, motors = result.times, list(result.input.motors)

    def both(before: Array, after: Array, label: str, log: bool = False) -> Callable[[Any], None]:
        def draw(axes: Any) -> None:
            for values, colour, name in ((before, BEFORE, "input"), (after, AFTER, "optimised")):
                axes.plot(times, values, color=colour, lw=1.2, label=name)
            axes.set(ylabel=label, xlabel="time, s", yscale="log" if log else "linear")
            axes.legend(loc="best", fontsize="small")

        return draw

    def cost(axes: Any) -> None:
        axes.semilogy(result.history, "o-", color=AFTER)
        axes.set(xlabel="iteration", ylabel="cost, m² s")
        axes.xaxis.get_major_locator().set_params(integer=True)

    deviations: list[Panel] = []
    for name, pair in result.deviations.items():
        lengths = [1e3 * np.linalg.norm(values, axis=1) + SMALLEST for values in pair]
        deviations.append((f"{name}: distance from the target", both(lengths[0], lengths[1], "mm", log=True)))
    before, after = result.input(times), result.motion(times)
    curves, torques = [], []
    for m, name in enumerate(motors):
        length, force = _units(result, name)
        curves.append((name, both(before[:, m], after[:, m], length)))
        torques.append((f"{name}: {'torque' if force == 'N m' else 'force'}", both(*result.torques[name], force)))
    return {"Deviations": deviations, "Motor curves": curves, "Torques": torques, "Cost": [("cost", cost)]}


def _units(result: Retargeted, motor: str) -> tuple[str, str]:
    """Units of a motor's position and of its torque or force."""
    return ("rad", "N m") if turns(result.mechanism, motor) else ("m", "N")


def _figure(panels: list[Panel]) -> Any:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError("pictures need matplotlib; install it with: pip install 'supple[all]'") from None
    figure = Figure(figsize=(8, 2.3 * len(panels)), layout="constrained")
    FigureCanvasAgg(figure)
    for (title, draw), axes in zip(panels, figure.subplots(len(panels), 1, squeeze=False)[:, 0], strict=True):
        draw(axes)
        axes.set_title(title, fontsize=10)
    return figure


def _page(result: Retargeted) -> str:
    name = html.escape(result.mechanism.name)
    parts = [
        f"<h1>Retargeted motion of {name}</h1>",
        f"<p>{html.escape(result.status)} after {len(result.history) - 1} iterations; cost {result.history[0]:.4g} "
        f"before, {result.history[-1]:.4g} after. The target is the quasi-static motion of the input. The "
        f"spline follows the samples of the input within {result.input.fit_error:.2g} rad or m.</p>",
        _table(("rms distance from the target, mm", "input", "optimised"), _deviation_rows(result)),
        _table(("largest absolute value", "input", "optimised"), _motor_rows(result)),
    ]
    for title, panels in _panels(result).items():
        content = BytesIO()
        _figure(panels).savefig(content, format="png", dpi=90)
        data = base64.b64encode(content.getvalue()).decode()
        parts.append(f'<h2>{title}</h2>\n<img alt="{title}" src="data:image/png;base64,{data}">')
    body = "\n".join(parts)
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{name}</title>'
        f"<style>{STYLE}</style></head>\n<body>\n{body}\n</body></html>\n"
    )


def _deviation_rows(result: Retargeted) -> list[tuple[str, float, float]]:
    before, after = result.deviation_before, result.deviation_after
    return [(name, 1e3 * before[name], 1e3 * after[name]) for name in before]


def _motor_rows(result: Retargeted) -> list[tuple[str, float, float]]:
    rows = []
    curves = result.input, result.motion
    for m, name in enumerate(result.input.motors):
        length, force = _units(result, name)
        for derivative, what in ((1, f"speed, {length}/s"), (2, f"acceleration, {length}/s²")):
            most = [float(np.abs(c.design(result.times, derivative) @ c.control[:, m]).max()) for c in curves]
            rows.append((f"{name}: {what}", most[0], most[1]))
        largest = [float(np.abs(values).max()) for values in result.torques[name]]
        rows.append((f"{name}: {'torque' if force == 'N m' else 'force'}, {force}", largest[0], largest[1]))
    return rows


def _table(head: tuple[str, str, str], rows: list[tuple[str, float, float]]) -> str:
    lines = ["".join(f"<th>{title}</th>" for title in head)]
    lines += [f"<td>{html.escape(name)}</td><td>{before:.3g}</td><td>{after:.3g}</td>" for name, before, after in rows]
    return "<table>" + "".join(f"<tr>{line}</tr>" for line in lines) + "</table>"
