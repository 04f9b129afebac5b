"""Options, table and targets of every benchmark.

    report = Report("import time", parse_args(__doc__))
    report.row(what="numpy", ms=81.0)
    report.target("import supple / import numpy", 1.2, at_most=2.0)
    report.finish()

With `--quick` (`args.quick`) a benchmark must finish within a minute. `--json FILE` writes
{"rows": [...], "targets": [{"name", "bound", "value", "target", "met"}]}; `bound` is "at most" or "at least".
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path
from time import perf_counter
from typing import Any


def parse_args(
    description: str | None = None,
    parts: Sequence[str] = (),
    steps: int | None = None,
    seconds: int | None = None,
    out: str | None = None,
    more: Callable[[argparse.ArgumentParser], None] | None = None,
) -> argparse.Namespace:
    """Parses the options of a benchmark.

    All take `--quick` and `--json`. `parts` adds `--only`, which selects some of them; `steps` or `seconds` adds
    `--long` with that default; `out` adds `--out FOLDER` with that help text; `more` adds a benchmark's own.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="finish within a minute")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write rows and targets there")
    if parts:
        parser.add_argument("--only", nargs="+", choices=parts, default=list(parts), help="run only these parts")
    for unit, count in (("steps", steps), ("seconds", seconds)):
        if count is not None:
            text = f"the long run, {count:,} {unit}"
            parser.add_argument("--long", type=int, nargs="?", const=count, metavar=unit.upper(), help=text)
    if out:
        parser.add_argument("--out", type=Path, metavar="FOLDER", help=out)
    if more is not None:
        more(parser)
    return parser.parse_args()


def best(
    run: Callable[[], object], repeat: int = 5, inner: int = 1, clock: Callable[[], float] = perf_counter
) -> float:
    """Seconds per call: the best average over `inner` calls, of `repeat` repetitions. With the clock `process_time` it
    is the time of all cores that this process used; other programs then do not count."""
    times = []
    for _ in range(repeat):
        start = clock()
        for _ in range(inner):
            run()
        times.append((clock() - start) / inner)
    return min(times)


class Report:
    """Collects rows and targets; `finish` prints them. A missed target stays listed as missed. The file is written
    after every row, so that an interrupted run leaves its results so far."""

    def __init__(self, title: str, args: argparse.Namespace) -> None:
        self.title, self._json = title, args.json
        self.rows: list[dict[str, Any]] = []
        self.targets: list[dict[str, Any]] = []

    def row(self, **columns: Any) -> None:
        """Adds a line to the table; columns may differ from row to row."""
        self.rows.append(columns)
        self._write()

    def target(self, name: str, value: float, *, at_most: float | None = None, at_least: float | None = None) -> None:
        """Adds a target with its measured value."""
        if at_most is not None and at_least is None:
            bound, target, met = "at most", at_most, value <= at_most
        elif at_least is not None and at_most is None:
            bound, target, met = "at least", at_least, value >= at_least
        else:
            raise TypeError("give either at_most or at_least")
        numbers = {"value": float(value), "target": float(target), "met": bool(met)}
        self.targets.append({"name": name, "bound": bound, **numbers})
        self._write()

    def finish(self) -> None:
        print(f"\n{self.title}\n")
        self._print_table()
        print()
        for t in self.targets:
            verdict = "met" if t["met"] else "MISSED"
            print(f"{t['name']}: measured {t['value']:.4g}, target {t['bound']} {t['target']:g}, {verdict}")

    def _write(self) -> None:
        if self._json is not None:
            self._json.write_text(json.dumps({"rows": self.rows, "targets": self.targets}, indent=2) + "\n")

    def _print_table(self) -> None:
        """Prints one table for each sequence of rows with the same columns."""
        for i, (heads, rows) in enumerate(groupby(self.rows, key=list)):
            if i:
                print()
            self._print_rows(heads, list(rows))

    def _print_rows(self, heads: list[str], rows: list[dict[str, Any]]) -> None:
        cells = [heads] + [[_cell(row[head]) for head in heads] for row in rows]
        widths = [max(len(line[i]) for line in cells) for i in range(len(heads))]
        for line in cells:
            first, *others = (cell.rjust(width) for cell, width in zip(line, widths, strict=True))
            print("  ".join([first.strip().ljust(widths[0]), *others]))


def _cell(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
