"""What simulations of one mechanism have in common: they can be recorded and logged."""

from __future__ import annotations

from collections.abc import Iterable
from os import PathLike
from typing import Any

from supple.recording.log import Log, start_log
from supple.recording.observing import Observer
from supple.recording.recorder import Recorder


class Recordable:
    """Recordings and logs of a simulation while it steps."""

    observers: list[Observer]
    in_world: str | None = None
    """Its name in a world, which steps it; None outside of worlds."""

    def record(
        self: Any, path: str | PathLike[str] | None = None, rate: float = 30.0, *, skin: Any = None
    ) -> Recorder:
        """Starts to record the motion into an `.npz` file (a temporary one without `path`), `rate` frames per second of
        simulated time, while `step` is called. Call `close` of the recorder at the end, or use it in a `with` block.
        `skin` is a `supple.zones.Skin` on the mechanism, whose surface is recorded too.

        If the file cannot be written, the `step` in progress raises `MechanismError` at a frame, the recording ends and
        the simulation can go on.
        """
        return Recorder(self, path, rate, skin).start(self.observers)

    def log(self: Any, quantities: Iterable[str], rate: float | None = None) -> Log:
        """Starts a log of quantities, `rate` rows per second of simulated time (or one for each time step), while
        `step` is called: "q", "qd", "energy", "motor torque", "actuator force", "target", or the name of a body or site
        (its position), a joint or a coordinate."""
        return start_log(self, quantities, rate, self.observers)
