"""Clocks whose time a test sets, for code that runs in real time."""

from __future__ import annotations


class Clock:
    """A clock that only a test advances. With `tick`, every reading advances it by so many seconds."""

    def __init__(self, tick: float = 0.0) -> None:
        self.now, self.tick = 0.0, tick

    def __call__(self) -> float:
        self.now += self.tick
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds
