"""The errors and warnings a user can meet. Each text names what is at fault and what to do."""

from __future__ import annotations


class MechanismError(ValueError):
    """A description, file or argument that supple cannot work with."""


class ConvergenceError(RuntimeError):
    """A solve that did not reach its tolerance; `state` holds where it stopped."""


class ImportWarning(UserWarning):
    """Something in a file has no counterpart in a Mechanism; `mech.import_report` lists it."""


class ExportWarning(UserWarning):
    """Something in a Mechanism has no counterpart in the file that was written; the text lists it."""
