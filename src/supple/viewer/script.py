"""A user's own Python file in the viewer: `supple view scene.py`."""

from __future__ import annotations

import runpy
import sys
import traceback
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

from supple.errors import MechanismError
from supple.mechanism import Mechanism
from supple.mechanism.moving import Moving
from supple.viewer.control import Controller

NAMES = ("world", "simulation", "mechanism")
"""Variables that a script may leave, in the order in which they are looked for."""
RUN_NAME = "supple_view"
"""`__name__` in the script, so that a block `if __name__ == "__main__":` is left out."""


class Found(NamedTuple):
    """What a script leaves."""

    subject: Mechanism | Moving
    controller: Controller | None


class Script:
    """A Python file that leaves a variable `world`, `simulation` or `mechanism`, and optionally `controller`."""

    def __init__(self, path: str | PathLike[str]) -> None:
        self.path = Path(path)
        self._seen: tuple[int, int] | None = None

    def run(self) -> Found:
        """Runs the file. Raises `MechanismError`, with the line, if the file fails or leaves nothing to show."""
        self._seen = self._version()
        if self._seen is None:
            raise MechanismError(f"'{self.path}' does not exist")
        folder = str(self.path.resolve().parent)
        sys.path.insert(0, folder)
        try:
            left = runpy.run_path(str(self.path), run_name=RUN_NAME)
        except (Exception, SystemExit) as error:  # whatever a user's file raises
            raise MechanismError(f"{self._place(error)}: {type(error).__name__}: {error}") from error
        finally:
            sys.path.remove(folder)
        subject: Any = next((left[name] for name in NAMES if left.get(name) is not None), None)
        if subject is None:
            raise MechanismError(
                f"'{self.path}' leaves none of the variables {', '.join(NAMES)}, so that there is nothing to show"
            )
        return Found(subject, left.get("controller"))

    @property
    def changed(self) -> bool:
        """Whether the file was written since it was last run."""
        now = self._version()
        return now is not None and now != self._seen

    def _version(self) -> tuple[int, int] | None:
        """Time of the last change and size; None while there is no file (editors replace it)."""
        try:
            status = self.path.stat()
        except OSError:
            return None
        return status.st_mtime_ns, status.st_size

    def _place(self, error: BaseException) -> str:
        """ "scene.py, line 3", the last line of this file in the traceback."""
        if isinstance(error, SyntaxError):
            return f"{Path(error.filename or self.path).name}, line {error.lineno}"
        lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if Path(f.filename) == self.path]
        return f"{self.path.name}, line {lines[-1]}" if lines else self.path.name
