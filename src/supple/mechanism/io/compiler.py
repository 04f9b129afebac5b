"""Runs MuJoCo's compiler in a child process: a crash, a hang or a lack of memory ends only that process."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import struct
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

CHILD_PROGRAM = Path(__file__).with_name("compiler_child.py")
TIMEOUT = 60.0
"""Seconds for a file, plus as many for each 16 MiB of text."""


@dataclass(frozen=True)
class Model:
    """MuJoCo's compiled model: every array under MuJoCo's own name (`model.body_pos`), names by kind."""

    name: str
    arrays: dict[str, np.ndarray[Any, Any]]
    names: dict[str, list[str]]
    counts: dict[str, int]
    options: dict[str, Any]

    def __getattr__(self, field: str) -> Any:
        try:
            return self.arrays[field]
        except KeyError:
            raise AttributeError(field) from None


class CompilerError(Exception):
    """The compiler's error message; the caller adds the file's name."""


class CompilerCrash(Exception):
    """How the compiler's process failed; the caller adds the file's name."""


class _Worker:
    """One child process, started at the first request and again after it has ended."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def compile(self, request: dict[str, Any], timeout: float) -> Model:
        with self._lock:
            try:
                if self._process is None or self._process.poll() is not None:
                    self._start()
                header = self._exchange(request, timeout)
            except BaseException:  # the pipe may hold a part of an answer: the next request needs a new process
                self.stop()
                raise
            if header.get("last"):
                self.stop()
        if "error" in header:
            raise CompilerError(header["error"])
        return Model(header["name"], header["arrays"], header["names"], header["counts"], header["options"])

    def stop(self) -> None:
        """Ends the process."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    with contextlib.suppress(OSError):  # data that the ended process did not read
                        pipe.close()
        self._process = None

    def forget_process(self) -> None:
        """After a fork: process and lock belong to the parent."""
        self._lock, self._process = threading.Lock(), None

    def _start(self) -> None:
        self.stop()
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-B", str(CHILD_PROGRAM)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        greeting = self._exchange(None, TIMEOUT)
        if greeting.get("missing"):
            raise ImportError("reading MJCF needs the mujoco package: pip install 'supple[all]'")

    def _exchange(self, request: dict[str, Any] | None, timeout: float) -> dict[str, Any]:
        """Sends a request and waits for the answer; kills the process if it does not answer in time."""
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        timed_out = threading.Event()

        def kill_late_process() -> None:
            timed_out.set()
            process.kill()

        timer = threading.Timer(timeout, kill_late_process)
        timer.daemon = True
        timer.start()
        try:
            if request is not None:
                text = json.dumps(request).encode()
                process.stdin.write(struct.pack("<Q", len(text)) + text)
                process.stdin.flush()
            return _receive(process.stdout)
        except (EOFError, OSError):
            code = process.wait()
            how = f"took longer than {timeout:.0f} s" if timed_out.is_set() else f"crashed (exit status {code})"
            raise CompilerCrash(f"MuJoCo's compiler {how} on this file; simplify it") from None
        finally:
            timer.cancel()


def _receive(stream: IO[bytes]) -> dict[str, Any]:
    (length,) = struct.unpack("<Q", _read_exactly(stream, 8))
    header: dict[str, Any] = json.loads(_read_exactly(stream, length))
    arrays = {}
    for name, dtype, shape in header.get("arrays", ()):
        kind = np.dtype(dtype)
        raw = _read_exactly(stream, kind.itemsize * int(np.prod(shape, dtype=np.int64)))
        arrays[name] = np.frombuffer(raw, kind).reshape(shape)
    header["arrays"] = arrays
    return header


def _read_exactly(stream: IO[bytes], count: int) -> bytes:
    data = stream.read(count)
    if len(data) < count:
        raise EOFError
    return data


_worker = _Worker()
atexit.register(_worker.stop)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_worker.forget_process)


def compile_text(text: str, models: dict[str, str]) -> Model:
    """Compiles checked XML; `models` are the texts of sub-models. Raises `CompilerError` and `CompilerCrash`."""
    timeout = TIMEOUT * (1 + (len(text) + sum(map(len, models.values()))) / (16 << 20))
    return _worker.compile({"xml": text, "models": models}, timeout)
