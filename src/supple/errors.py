"""The errors and warnings a user can meet. Each text names what is at fault and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class MechanismError(ValueError):
    """A description, file or argument that supple cannot work with."""


class ConvergenceError(RuntimeError):
    """A solve that did not reach its tolerance, and how far it got."""

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
        """Statics: why the path of equilibria ends there: "snap", "limit" or "singular"."""
        self.time = time
        """Dynamics: the time reached, s."""
        self.state = state
        """Statics: the Equilibrium at that fraction."""


class ImportWarning(UserWarning):
    """Something in a file has no counterpart in a Mechanism; `mech.import_report` lists it."""


class ExportWarning(UserWarning):
    """Something in a Mechanism has no counterpart in the file that is written."""


class RangeWarning(UserWarning):
    """A reduced model is used further from where it was made than it is good for."""


def listed(names: Sequence[str]) -> str:
    """Names for the text of an error: the first six, quoted."""
    return ", ".join(f"'{name}'" for name in names[:6]) + (" ..." if len(names) > 6 else "")
