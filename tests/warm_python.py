"""Runs scripts as `python script.py` does, without the seconds that NumPy, SciPy, matplotlib and MuJoCo take to import.

One interpreter imports those packages, and nothing of supple, and then forks a child process for every script. A script
therefore still starts without supple, has its own exit status, output and working directory, and leaves nothing behind
for the next one. Only the imports of the packages named below are shared.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import runpy
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

SHARED = (
    "numpy", "scipy.linalg", "scipy.optimize", "scipy.sparse.linalg", "matplotlib.pyplot", "mpl_toolkits.mplot3d",
    "matplotlib.backends.backend_agg", "PIL.PngImagePlugin", "mujoco",
)  # fmt: skip


class WarmPython:
    """The interpreter, from the first script until `close`."""

    def __init__(self) -> None:
        self._server: subprocess.Popen[str] | None = None

    def run(self, script: Path, *args: object, folder: Path, timeout: int) -> subprocess.CompletedProcess[str]:
        """Runs a script in `folder`. One that takes longer than `timeout` s is killed; its return code is negative."""
        if self._server is None:
            command = [sys.executable, "-u", __file__]
            self._server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        outputs = [folder / f".{script.stem}.{name}" for name in ("stdout", "stderr")]
        argv = [str(script), *map(str, args)]
        job = {"argv": argv, "folder": str(folder), "timeout": timeout, "outputs": [str(path) for path in outputs]}
        print(json.dumps(job), file=self._server.stdin, flush=True)
        code = int(self._server.stdout.readline())
        return subprocess.CompletedProcess(argv, code, *(path.read_text() for path in outputs))

    def close(self) -> None:
        if self._server is not None:
            self._server.communicate()


def serve() -> None:
    """Forks a child for each line of standard input and prints its return code."""
    for name in SHARED:
        with suppress(ImportError):
            importlib.import_module(name)
    gc.freeze()
    for line in sys.stdin:
        job = json.loads(line)
        child = os.fork()
        if child == 0:
            become(**job)
            return
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


def become(argv: list[str], folder: str, timeout: int, outputs: list[str]) -> None:
    """The script itself, in the child; errors and exits go the way of any Python program."""
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for stream, path in zip((1, 2), outputs, strict=True):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), stream)
    signal.alarm(timeout)
    os.chdir(folder)
    sys.argv, sys.path[0] = argv, str(Path(argv[0]).parent)
    runpy.run_path(argv[0], run_name="__main__")


if __name__ == "__main__":
    serve()
