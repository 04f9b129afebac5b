"""Opens files for writing, with errors that name the remedy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from typing import Any

from supple.errors import MechanismError


@contextmanager
def writing(path: str | PathLike[str], binary: bool = False) -> Iterator[Any]:
    """A file for bytes or UTF-8 text, with the same line ends on every system."""
    try:
        with open(path, "wb") if binary else open(path, "w", encoding="utf-8", newline="\n") as file:
            yield file
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise MechanismError(f"{path}: cannot write the file: {reason}; check its name and folder") from None
