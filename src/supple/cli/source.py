"""What a user names on the command line: a mechanism of the library or a file."""

from __future__ import annotations

import warnings
from collections.abc import Collection
from pathlib import Path

import supple
from supple.mechanism import Mechanism
from supple.mechanism.tree import Tree

SMALL = {"millipede": (100,), "molecule": (2000,)}
"""Legs and joints of the huge linkages, of which the library makes more than can be described part by part."""


def open_mechanism(source: str, keyframe: str | None = None, scenes: Collection[str] = ()) -> Mechanism:
    """The library's mechanism of that name, or else the file; its import report is left to the caller to
    show. `scenes` are what else the user could have meant."""
    if source in supple.library.__all__:
        made = getattr(supple.library, source)(*SMALL.get(source, ()))
        mech: Mechanism = made.mechanism() if isinstance(made, Tree) else made
        return mech if keyframe is None else mech.at(keyframe)
    if not Path(source).suffix and not Path(source).exists():
        names = ", ".join(supple.library.__all__)
        others = f", nor a scene ({', '.join(scenes)})" if scenes else ""
        raise supple.MechanismError(f"'{source}' is neither a file nor a mechanism of the library ({names}){others}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", supple.ImportWarning)
        return supple.load(source, keyframe)
