"""The clock that the viewer reads: the wall clock, unless a test gives its own."""

from __future__ import annotations

from collections.abc import Callable
from time import perf_counter

Clock = Callable[[], float]
"""Returns the present time, s. Only differences count; it never runs backwards."""

WALL_CLOCK: Clock = perf_counter
