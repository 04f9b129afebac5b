"""Files that are written, and `.npz` archives: arrays with a JSON header, no pickle. Errors name the file and the
remedy."""

from __future__ import annotations

import json
import os
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from os import PathLike, fspath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supple.errors import MechanismError

LARGEST = 2**31
"""Largest size of an archive's unpacked arrays unless stated otherwise, bytes."""
MALFORMED = (KeyError, ValueError, TypeError, IndexError, AttributeError, OverflowError, RecursionError)
"""What code raises that is given a wrong header or wrong arrays."""
GONE = {
    "supple-condensed-model": "a condensed model of an earlier version, which supple no longer has. Load its mechanism "
    "from the mechanism's own file; supple.equilibrium(mech, hold={'tip': pose}) and its linear(['tip']) give statics "
    "at prescribed poses, supple.Simulation the motion",
}
"""Formats of earlier versions that nothing reads, for error texts: what the file is, and what to do."""
UNREADABLE = (*MALFORMED, OSError, EOFError, RuntimeError, MemoryError, zipfile.BadZipFile, zlib.error)
"""What NumPy and zipfile raise for a file that is no archive. MemoryError: an array that states a huge size."""


@dataclass(frozen=True)
class Format:
    """A kind of archive with a header."""

    name: str
    """In the header, for example "supple-zone"."""
    version: int
    """Newest version that can be read."""
    what: str
    """With its article, for error texts: "a zone"."""
    maker: str
    """Call that makes such a file, for error texts."""
    largest: int = LARGEST
    """Largest size of the unpacked arrays, bytes."""


@contextmanager
def writing(path: str | PathLike[str], binary: bool = False, replace: bool = False) -> Iterator[Any]:
    """A file for bytes or UTF-8 text, with the same line ends on every system.

    Args:
        path: of the file.
        binary: bytes, not text.
        replace: write to a second file, which takes the place of the first at the end of the `with` block, so that the
            first is complete at any time.

    Raises:
        MechanismError: the file cannot be written.
    """
    target = f"{fspath(path)}.part" if replace else fspath(path)
    try:
        with open(target, "wb") if binary else open(target, "w", encoding="utf-8", newline="\n") as file:
            yield file
        if replace:
            os.replace(target, path)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise MechanismError(f"{path}: cannot write the file: {reason}; check its name and folder") from None


def packed_header(header: Mapping[str, Any]) -> NDArray[np.uint8]:
    """JSON text as an array of bytes."""
    return np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)


def unpacked_header(array: NDArray[Any]) -> dict[str, Any]:
    """The header of an array that `packed_header` returned; empty for any other array."""
    with suppress(ValueError, RecursionError):
        header = json.loads(array.tobytes().decode())
        if isinstance(header, dict):
            return header
    return {}


def write_archive(
    path: str | PathLike[str], form: Format, header: Mapping[str, Any], arrays: Mapping[str, Any]
) -> None:
    """Writes a header and arrays, compressed. Format and version are added to the header."""
    full = {"format": form.name, "version": form.version, **header}
    with writing(path, binary=True) as file:
        np.savez_compressed(file, header=packed_header(full), **arrays)


def read_arrays(path: str | PathLike[str], what: str, largest: int = LARGEST) -> dict[str, NDArray[Any]]:
    """All arrays of an archive.

    Args:
        path: of the file.
        what: the file ought to be, with its article, for error texts: "a zone".
        largest: size of the unpacked arrays, bytes. A larger archive is refused before it is unpacked.

    Raises:
        MechanismError: there is no such file, or it is no archive, damaged or too large.
    """
    where = fspath(path)
    try:
        with zipfile.ZipFile(where) as archive:
            size = sum(entry.file_size for entry in archive.infolist())
        if size <= largest:
            with np.load(where, allow_pickle=False) as contents:
                arrays = {name: contents[name] for name in contents.files}
            wrong = next((name for name, array in arrays.items() if not isinstance(array, np.ndarray)), None)
            if wrong is not None:
                raise ValueError(f"'{wrong}' is no array")
            return arrays
    except FileNotFoundError:
        raise MechanismError(f"there is no file {where}") from None
    except UNREADABLE as error:
        raise MechanismError(f"{where} is not {what}, or is damaged ({error})") from None
    raise MechanismError(f"{where} would unpack to more than {largest >> 20} MiB; it is refused")


@contextmanager
def reading(path: str | PathLike[str], form: Format) -> Iterator[tuple[dict[str, Any], dict[str, NDArray[Any]]]]:
    """Header and arrays of an archive that `write_archive` wrote. Errors inside the `with` block are reported as a
    damaged file.

    Raises:
        MechanismError: there is no such file, or it is of another kind, damaged, too large, or of a newer version.
    """
    where = fspath(path)
    arrays = read_arrays(where, form.what, form.largest)
    header = unpacked_header(arrays.pop("header", np.empty(0)))
    found, version = str(header.get("format", "")), header.get("version")
    if found in GONE:
        raise MechanismError(f"{where} is {GONE[found]}")
    if found != form.name or not isinstance(version, int):
        other = f" but a {found.removeprefix('supple-').replace('-', ' ')}" if found.startswith("supple-") else ""
        raise MechanismError(f"{where} is not {form.what}{other}; make one with {form.maker}")
    if version > form.version:
        raise MechanismError(f"{where} was written by a newer supple (version {version}); update supple to read it")
    try:
        yield header, arrays
    except MALFORMED as error:
        raise MechanismError(f"{where} is damaged ({error}); make it again with {form.maker}") from None
