"""Files to mechanisms and back: MJCF, URDF and our own JSON."""

from __future__ import annotations

import warnings
from os import PathLike, fspath
from pathlib import Path

import numpy as np

from supple.errors import ImportWarning, MechanismError
from supple.mechanism.mechanism import Mechanism

__all__ = ["load", "save"]


def load(path: str | PathLike[str], keyframe: str | None = None) -> Mechanism:
    """Reads a mechanism from MJCF or URDF (through the mujoco package) or from our own .json.

    `keyframe` names the configuration of the file that becomes the reference, and whose controls set the
    targets of the actuators; without it that is the file's own initial configuration. What the file holds
    and a Mechanism does not is listed in `mech.import_report` and warned about once.
    """
    file = _file(path)
    with np.errstate(all="ignore"):  # numbers near the largest float overflow; what results is refused
        if _is_json(file):
            from supple.mechanism.io import json

            mech = json.load(file)
            return mech if keyframe is None else mech.at(keyframe)
        from supple.mechanism.io import mjcf

        mech = mjcf.load(file, keyframe)
    if mech.import_report:
        _warn(mech, file)
    return mech


def save(mech: Mechanism, path: str | PathLike[str]) -> None:
    """Writes a mechanism: `.json` holds everything and reads back identical, `.xml` is MJCF for MuJoCo."""
    suffix = Path(fspath(path)).suffix.lower()
    if suffix == ".json":
        from supple.mechanism.io import json

        json.save(mech, path)
    elif suffix in (".xml", ".mjcf"):
        from supple.mechanism.io import mjcf_writer

        mjcf_writer.save(mech, path)
    else:
        raise MechanismError(f"'{path}': the name must end in .json (holds everything) or .xml (MJCF)")


def _file(path: str | PathLike[str]) -> Path:
    try:
        file = Path(fspath(path))
        if file.is_file():
            return file
        what = "is not there" if not file.exists() else "is not a file"
    except (TypeError, ValueError, OSError) as error:
        raise MechanismError(f"{path!r} is not the path of a file ({error})") from None
    raise MechanismError(f"'{path}' {what}; give the path of an MJCF (.xml), URDF or .json file")


def _is_json(file: Path) -> bool:
    if file.suffix.lower() in (".json", ".xml", ".urdf", ".mjcf"):
        return file.suffix.lower() == ".json"
    try:
        with file.open("rb") as stream:
            return stream.read(256).lstrip(b"\xef\xbb\xbf \t\r\n").startswith((b"{", b"["))
    except OSError as error:
        raise MechanismError(f"'{file}' cannot be read ({error.strerror or error})") from None


def _warn(mech: Mechanism, file: Path) -> None:
    notes = [str(note) for note in mech.import_report]
    first = "".join(f"\n  {note if len(note) <= 160 else note[:157] + '...'}" for note in notes[:3])
    more = f"\n  and {len(notes) - 3} more" if len(notes) > 3 else ""
    count = "one thing is" if len(notes) == 1 else f"{len(notes)} things are"
    text = f"{file.name}: {count} not carried over (mech.import_report lists all):{first}{more}"
    warnings.warn(ImportWarning(text), stacklevel=3)
