"""A progress bar for what takes long."""

from __future__ import annotations

import sys
from threading import Lock, Timer
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

PATIENCE = 2.0
"""Seconds before a bar appears."""


class Bar:
    """Appears on the terminal's stderr once its block has run for `patience` seconds, and goes with it."""

    def __init__(self, text: str, patience: float = PATIENCE, console: Console | None = None) -> None:
        console = Console(file=sys.stderr) if console is None else console
        columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
        self._bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._task = self._bar.add_task(text, total=1.0)
        self._timer = Timer(patience, self._show)
        self._timer.daemon = True
        self._lock, self._over = Lock(), False

    def reach(self, fraction: float) -> None:
        """How much is done, 0 to 1."""
        self._bar.update(self._task, completed=fraction)

    def _show(self) -> None:
        with self._lock:
            if not self._over:
                self._bar.start()

    def __enter__(self) -> Bar:
        self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self._timer.cancel()
        with self._lock:
            self._over = True
            self._bar.stop()
