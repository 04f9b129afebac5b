"""A progress bar for long computations."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock, Timer
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

DELAY = 2.0
"""Seconds before a bar appears."""


class Bar:
    """A progress bar on stderr, if that is a terminal. It appears when its `with` block has run for `delay` seconds
    and disappears at the end of the block."""

    def __init__(self, text: str, delay: float = DELAY, console: Console | None = None) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

        console = Console(file=sys.stderr) if console is None else console
        columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
        self._bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._task = self._bar.add_task(text, total=1.0)
        self._timer = Timer(delay, self._show)
        self._timer.daemon = True
        self._lock, self._over = Lock(), False

    def set_fraction(self, fraction: float) -> None:
        """Shows the fraction that is done, 0 to 1."""
        self._bar.update(self._task, completed=fraction)

    def _show(self) -> None:
        with self._lock:
            if not self._over:
                self._bar.start()

    def __enter__(self) -> Bar:
        self._timer.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._timer.cancel()
        with self._lock:
            self._over = True
            self._bar.stop()


@contextmanager
def progress_callback(text: str, progress: Callable[[float], None] | None) -> Iterator[Callable[[float], None]]:
    """The function to call with the fraction done: the caller's own, or else that of a bar (if rich is installed)."""
    if progress is not None:
        yield progress
        return
    try:
        bar = Bar(text)
    except ImportError:
        yield lambda fraction: None
        return
    with bar:
        yield bar.set_fraction
