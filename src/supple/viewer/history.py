"""States of the last seconds, to go back to."""

from __future__ import annotations

from collections import deque
from typing import Any

from supple.mechanism.moving import Moving

INTERVAL = 0.05
"""s of simulated time between two saved states."""
LENGTH = 20.0
"""s of simulated time that are kept."""


class History:
    """The saved states of the last `LENGTH` seconds of a simulation."""

    def __init__(self) -> None:
        self._states: deque[tuple[float, Any]] = deque(maxlen=round(LENGTH / INTERVAL) + 1)
        self._newest = -float("inf")
        """s: the latest time that was reached."""

    def clear(self) -> None:
        """Forgets all states."""
        self._states.clear()
        self._newest = -float("inf")

    def take(self, sim: Moving, at_once: bool = False) -> None:
        """Saves the present state if `INTERVAL` has passed since the last one (or `at_once`). States of later times,
        left behind by going back, are forgotten."""
        while self._states and self._states[-1][0] > sim.time:
            self._states.pop()
        self._newest = sim.time
        if not self._states or sim.time >= self._states[-1][0] + (1e-9 if at_once else (1 - 1e-6) * INTERVAL):
            self._states.append((sim.time, sim.save()))

    @property
    def length(self) -> float:
        """s that one can go back."""
        return self._newest - self._states[0][0] if self._states else 0.0

    def state_before(self, seconds: float) -> Any:
        """The last state saved at least so many seconds before the latest time; the first one if there is none. None
        without any state."""
        wanted = self._newest - seconds + 1e-9
        earlier = [state for time, state in self._states if time <= wanted]
        return earlier[-1] if earlier else self._states[0][1] if self._states else None
