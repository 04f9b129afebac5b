"""A user's controller: a function that is called between time steps."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from supple.errors import MechanismError
from supple.mechanism.moving import Moving

Controller = Callable[[Moving], Any]
"""Is called with what moves before a time step. It may call `set_targets`, `set_torque`, `set_control` or `apply`. What
it returns, if not None, is given to `set_targets`: {name: set-point}, rad or m."""
PACKAGE = Path(__file__).resolve().parents[1]
"""Folder of supple's own files."""


class ControllerError(MechanismError):
    """A controller raised an error, or returned what cannot be a set-point."""


class Control:
    """Calls a controller before every `every`-th time step."""

    def __init__(self, controller: Controller, every: int = 1) -> None:
        if not callable(controller):
            raise MechanismError(f"a controller is a function f(simulation), got {controller!r:.60}")
        self._controller, self._every = controller, every
        self._steps_left = 0
        """Steps until the next call."""

    def reset(self) -> None:
        """The next time step begins with a call."""
        self._steps_left = 0

    def step(self, sim: Moving, n: int) -> None:
        """Makes n time steps. Raises `ControllerError` if the controller fails; the state is then that before the time
        step, and the next call begins with the controller again."""
        while n > 0:
            if self._steps_left == 0:
                self._call(sim)
                self._steps_left = self._every
            now = min(n, self._steps_left)
            sim.step(now)
            self._steps_left -= now
            n -= now

    def _call(self, sim: Moving) -> None:
        try:
            returned = self._controller(sim)
            if returned is not None:
                sim.set_targets(returned)
        except Exception as error:  # whatever a user's function raises
            text = f"{type(error).__name__}: {error}" if not isinstance(error, MechanismError) else str(error)
            raise ControllerError(f"the controller failed at t = {sim.time:g} s{_place(error)}: {text}") from error


def _place(error: BaseException) -> str:
    """The last line of the user's own code in a traceback: " (file.py, line 3)"."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if PACKAGE not in Path(frame.filename).resolve().parents]
    return f" ({Path(own[-1].filename).name}, line {own[-1].lineno})" if own else ""
