"""Clocks for tests of what runs in real time: they show what the test says, whatever the speed of the machine."""

from __future__ import annotations


class Clock:
    """Stands still until a test advances it; with `tick`, every reading advances it by so many seconds."""

    def __init__(self, tick: float = 0.0) -> None:
        self.now, self.tick = 0.0, tick

    def __call__(self) -> float:
        self.now += self.tick
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds
