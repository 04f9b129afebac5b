"""Reading and writing mechanisms: MJCF, URDF and supple's JSON."""

from __future__ import annotations

import warnings
from os import PathLike, fspath
from pathlib import Path

import numpy as np

from supple.errors import ImportWarning, MechanismError
from supple.mechanism.io.mjcf_report import DRY_FRICTION
from supple.mechanism.mechanism import Mechanism
from supple.mechanism.redundancy import with_released_constraints

__all__ = ["load", "save"]


def load(path: str | PathLike[str], keyframe: str | None = None) -> Mechanism:
    """Reads a mechanism from MJCF (through the mujoco package), URDF or supple's .json.

    `keyframe` names a keyframe of the file: its configuration becomes the reference pose, and its controls become the
    targets of the actuators. By default the reference pose is qpos0 and controls are zero. `mech.import_report` lists
    the elements of the file that a Mechanism cannot represent or that had to be changed; one ImportWarning points to
    the list.
    """
    file = _checked_path(path)
    with np.errstate(all="ignore"):  # numbers near the largest float overflow; the checks reject the result
        if _is_json(file):
            from supple.mechanism.io import json

            saved = json.load(file)
            mech = with_released_constraints(saved)
            if mech is not saved:
                _warn_not_imported(mech, file)
            return mech if keyframe is None else mech.at(keyframe)
        from supple.mechanism.io import xml_tree

        root = xml_tree.read(file, file.name)
        if root.tag == "robot":
            from supple.mechanism.io import urdf

            mech = with_released_constraints(urdf.load(root, file))
            mech = mech if keyframe is None else mech.at(keyframe)
        else:
            from supple.mechanism.io import mjcf

            mech = mjcf.load(root, file, keyframe)
    if mech.import_report:
        _warn_not_imported(mech, file)
    return mech


def save(mech: Mechanism, path: str | PathLike[str]) -> None:
    """Writes a mechanism: `.json` holds everything and reads back identical; `.xml` is MJCF for MuJoCo."""
    suffix = Path(fspath(path)).suffix.lower()
    if suffix == ".json":
        from supple.mechanism.io import json

        json.save(mech, path)
    elif suffix in (".xml", ".mjcf"):
        from supple.mechanism.io import mjcf_writer

        mjcf_writer.save(mech, path)
    else:
        raise MechanismError(f"'{path}': the name must end in .json (holds everything) or .xml (MJCF)")


def _checked_path(path: str | PathLike[str]) -> Path:
    try:
        file = Path(fspath(path))
        if file.is_file():
            return file
        what = "does not exist" if not file.exists() else "is not a file"
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


def _warn_not_imported(mech: Mechanism, file: Path) -> None:
    notes = sorted(mech.import_report, key=lambda note: note.reason != DRY_FRICTION)  # it changes every motion: first
    first = "".join(f"\n  {note.brief}" for note in notes[:3])
    more = f"\n  and {len(notes) - 3} more" if len(notes) > 3 else ""
    count = "one element is" if len(notes) == 1 else f"{len(notes)} kinds of elements are"
    text = f"{file.name}: {count} not imported as written (mech.import_report lists all):{first}{more}"
    warnings.warn(ImportWarning(text), stacklevel=3)
