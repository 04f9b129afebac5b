"""What a user names on the command line: a mechanism of the library or a file."""

from __future__ import annotations

import warnings
from pathlib import Path

import supple
from supple.mechanism import Mechanism


def open_mechanism(source: str, keyframe: str | None = None) -> Mechanism:
    """The library's mechanism of that name, or else the file; its import report is left to the caller to
    show."""
    if source in supple.library.__all__:
        mech: Mechanism = getattr(supple.library, source)()
        return mech if keyframe is None else mech.at(keyframe)
    if not Path(source).suffix and not Path(source).exists():
        names = ", ".join(supple.library.__all__)
        raise supple.MechanismError(f"'{source}' is neither a file nor a mechanism of the library ({names})")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", supple.ImportWarning)
        return supple.load(source, keyframe)
