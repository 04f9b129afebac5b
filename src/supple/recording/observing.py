"""Observers of a simulation: they are called at their own rate while it steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from supple.errors import MechanismError
from supple.mechanism.record import array


class Observer(Protocol):
    """Something that looks at a simulation at certain steps."""

    def steps_ahead(self) -> int:
        """Number of time steps, 1 or more, until it wants to look."""

    def after_steps(self, n: int) -> None:
        """Is called after n more time steps, at most `steps_ahead()` of them."""


def advance_observed(observers: list[Observer], advance: Callable[[int], None], n: int) -> None:
    """Makes n time steps by calls of `advance(k)`, with a call of each observer when it wants to look. An observer may
    remove itself from the list."""
    while n > 0:
        k = min([n, *(observer.steps_ahead() for observer in observers)])
        advance(k)
        n -= k
        for observer in tuple(observers):
            observer.after_steps(k)


class Schedule:
    """The time steps at which something is taken at a `rate`, 1/s: the first step at or after each multiple of
    1/rate. A rate above that of the time steps means every step."""

    def __init__(self, rate: float, dt: float) -> None:
        self.rate = checked_rate(rate)
        self._steps_each = max(1.0, 1 / (self.rate * dt))
        self._made, self._taken = 0, 0

    def steps_ahead(self) -> int:
        """Time steps until the next one."""
        return max(1, self._next_frame_step - self._made)

    def after_steps(self, n: int) -> bool:
        """Counts n more time steps; returns whether it is time to take something."""
        self._made += n
        if self._made < self._next_frame_step:
            return False
        self._taken += 1
        return True

    @property
    def _next_frame_step(self) -> int:
        exact = (self._taken + 1) * self._steps_each
        return -int(-(exact - 1e-6) // 1)


def checked_rate(rate: object) -> float:
    """A positive rate, 1/s, or a `MechanismError`."""
    value = float(array(rate, (), "rate"))  # type: ignore[arg-type]
    if value <= 0:
        raise MechanismError(f"rate must be a positive number of frames per second, got {rate!r}")
    return value
