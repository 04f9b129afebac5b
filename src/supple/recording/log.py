"""Logs: chosen quantities over time, as columns of numbers."""

from __future__ import annotations

from array import array as growing
from collections.abc import Iterable, Sequence
from os import PathLike
from typing import Any

import numpy as np

from supple.errors import MechanismError
from supple.files import writing
from supple.mechanism.moving import Moving
from supple.mechanism.record import Array
from supple.recording.observing import Observer, Schedule
from supple.recording.quantities import Quantity, quantity

TIME = "time [s]"


class Log:
    """Columns of numbers over time. `sim.log(["q", "tip", "energy"])` starts one, `recording.log([...])` reads one from
    a recording.

    `log["time"]` is (n,), `log["tip x"]` (n,), `log["tip"]` (n, 3): the columns of that name, with or without unit, or
    of that quantity. Times increase: when a simulation has gone back (`restore`, `reset`), its next row replaces all
    rows of later times.
    """

    def __init__(self, quantities: Sequence[Quantity]) -> None:
        self._quantities = tuple(quantities)
        self.columns: tuple[str, ...] = (TIME, *(column for each in quantities for column in each.columns))
        """Names with units."""
        if len(set(self.columns)) < len(self.columns):
            twice = next(name for name in self.columns if self.columns.count(name) > 1)
            raise MechanismError(f"'{twice}' is in the log twice; name each quantity once")
        self._numbers = growing("d")
        self._observing: tuple[list[Observer], Observer] | None = None

    def add(self, moving: Any) -> None:
        """Adds a row of the present state, after rows of earlier times. The last row may have the same time; it stays
        then."""
        time, width = float(moving.time), len(self.columns)
        while self._numbers and self._numbers[-width] > time:
            del self._numbers[-width:]
        if self._numbers and self._numbers[-width] == time:
            return
        row = [np.array([time]), *(each.read(moving) for each in self._quantities)]
        self._numbers.frombytes(np.concatenate(row).astype(np.float64).tobytes())

    def stop(self) -> None:
        """Ends the log; the simulation can go on."""
        if self._observing is not None:
            observers, own = self._observing
            self._observing = None
            if own in observers:
                observers.remove(own)

    # contents

    def __len__(self) -> int:
        """Number of rows."""
        return len(self._numbers) // len(self.columns)

    @property
    def values(self) -> Array:
        """(rows, columns)."""
        return np.array(self._numbers).reshape(-1, len(self.columns))

    def __getitem__(self, name: str) -> Array:
        plain = [column.rpartition(" [")[0] for column in self.columns]
        for names in (self.columns, plain):
            if name in names:
                return self.values[:, list(names).index(name)]
        found = [i for i, column in enumerate(plain) if column.startswith(f"{name} ")]
        if not found:
            raise MechanismError(f"the log has no {name!r}; its columns are {', '.join(self.columns)}")
        return self.values[:, found]

    def __repr__(self) -> str:
        return f"Log of {len(self)} rows: {', '.join(self.columns[:6])}{' ...' if len(self.columns) > 6 else ''}"

    # output

    def to_csv(self, path: str | PathLike[str]) -> None:
        """Writes a table with a line of column names; numbers read back the same."""
        with writing(path) as file:
            file.write(",".join(_quoted(column) for column in self.columns) + "\n")
            for row in self.values:
                file.write(",".join(repr(value) for value in row.tolist()) + "\n")

    def to_pandas(self) -> Any:
        """A `pandas.DataFrame` with these columns."""
        try:
            import pandas
        except ImportError:
            raise ImportError("this needs pandas; install it with: pip install pandas, or use to_csv") from None
        return pandas.DataFrame(self.values, columns=list(self.columns))

    def plot(self, path: str | PathLike[str] | None = None) -> Any:
        """Draws each quantity over time; returns the matplotlib figure, and writes it to a PNG, PDF or SVG if a `path`
        is given."""
        from supple.recording.plotting import plot_log

        return plot_log(self, self._quantities, path)


class _Logging:
    """The observer that fills a log."""

    def __init__(self, log: Log, moving: Moving, rate: float | None) -> None:
        self._log, self._moving = log, moving
        self._schedule = Schedule(1 / moving.dt if rate is None else rate, moving.dt)

    def steps_ahead(self) -> int:
        return self._schedule.steps_ahead()

    def after_steps(self, n: int) -> None:
        if self._schedule.after_steps(n):
            self._log.add(self._moving)


def start_log(
    moving: Moving, names: Iterable[str], rate: float | None = None, observers: list[Observer] | None = None
) -> Log:
    """A log with a first row of the present state. It joins the `observers` of a simulation, which call it while it
    steps: `rate` rows per second of simulated time, or one for every time step."""
    log = Log(read_quantities(moving, names))
    log.add(moving)
    if observers is not None:
        own = _Logging(log, moving, rate)
        observers.append(own)
        log._observing = observers, own
    return log


def read_quantities(moving: Any, names: Iterable[str]) -> list[Quantity]:
    """The quantities of these names; raises if there is none."""
    if not isinstance(names, Iterable):
        raise MechanismError(f"name the quantities to log, as in ['q', 'energy'], got {names!r:.60}")
    chosen = [names] if isinstance(names, str) else list(names)
    if not chosen:
        raise MechanismError("name at least one quantity to log, such as 'q', 'energy' or a body")
    return [quantity(moving, name) for name in chosen]


def _quoted(text: str) -> str:
    return f'"{text.replace(chr(34), chr(34) * 2)}"' if "," in text or '"' in text else text
