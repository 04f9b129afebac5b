"""Errors and warnings that users see. Each text names the part at fault and the remedy."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any


class MechanismError(ValueError):
    """A description, file or argument that supple cannot use."""


class ConvergenceError(RuntimeError):
    """A solver did not reach its tolerance. The fields say how far it got."""

    def __init__(
        self,
        text: str,
        *,
        load_fraction: float | None = None,
        reason: str | None = None,
        time: float | None = None,
        state: Any = None,
    ) -> None:
        super().__init__(text)
        self.load_fraction = load_fraction
        """Statics: the last fraction of the load that was reached."""
        self.reason = reason
        """Statics: why the path of equilibria ends there: "snap", "limit", "singular" or "long" (too many steps)."""
        self.time = time
        """Dynamics: the time that was reached, s."""
        self.state = state
        """Statics: the Equilibrium at `load_fraction`."""


class ImportWarning(UserWarning):
    """A description has elements that a Mechanism cannot represent as written; `mech.import_report` lists them."""


class ExportWarning(UserWarning):
    """A Mechanism has parts that the written file cannot represent exactly."""


class StartWarning(UserWarning):
    """A simulation starts in a pose that was changed a little, so that loops are closed and limits respected, or with
    shapes below the floor."""


class RangeWarning(UserWarning):
    """A reduced model is used outside the range in which it is accurate."""


class RecordingWarning(UserWarning):
    """A recording lacks its end, because the program that wrote it was killed."""


def listed(names: Sequence[str]) -> str:
    """Names for an error text: the first six, quoted."""
    return ", ".join(f"'{name}'" for name in names[:6]) + (" ..." if len(names) > 6 else "")


def user_level() -> int:
    """The `stacklevel` of a warning that names the line outside supple from which the caller was reached."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] == "supple":
        level, frame = level + 1, frame.f_back
    return level
