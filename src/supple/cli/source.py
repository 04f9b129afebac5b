"""Opens the mechanism that a user names on the command line: one of the library or a file."""

from __future__ import annotations

import warnings
from collections.abc import Collection
from pathlib import Path

import supple
from supple.mechanism import Mechanism
from supple.mechanism.tree import Tree

SMALL = {"millipede": (100,), "molecule": (2000,)}
"""Sizes (legs, joints) of the large linkages; with the library's default sizes a `Mechanism` would take minutes."""


CHARACTERS = tuple(name for name in supple.library.characters.__all__ if name != "motions")
"""Characters of the library."""


def library_names() -> list[str]:
    """Names of all mechanisms of the library, the characters last."""
    return [*supple.library.__all__, *CHARACTERS]


def open_mechanism(source: str, keyframe: str | None = None, scenes: Collection[str] = ()) -> Mechanism:
    """The library's mechanism of that name, or else the file. The caller shows the import report. `scenes` are named in
    the error if there is neither."""
    if source in library_names():
        home = supple.library.characters if source in CHARACTERS else supple.library
        made = getattr(home, source)(*SMALL.get(source, ()))
        mech: Mechanism = made.mechanism() if isinstance(made, Tree) else made
        return mech if keyframe is None else mech.at(keyframe)
    if not Path(source).suffix and not Path(source).exists():
        names = ", ".join(library_names())
        others = f", nor a scene ({', '.join(scenes)})" if scenes else ""
        raise supple.MechanismError(f"'{source}' is neither a file nor a mechanism of the library ({names}){others}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", supple.ImportWarning)
        return supple.load(source, keyframe)
