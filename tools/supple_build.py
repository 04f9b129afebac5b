"""The build backend of supple: scikit-build-core, with a check of the compiler before and plain advice after.

A missing compiler otherwise shows as pages of CMake output. Here the last line of the build's output says what is
missing and which command installs it.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import scikit_build_core.build as _backend
from scikit_build_core.build import *  # noqa: F403  (the hooks that need no compiler)

from compiler_check import WINDOWS, find_problem


def _compile(hook: Any, *args: Any) -> str:
    chosen = ("CMAKE_CXX_COMPILER", "CMAKE_TOOLCHAIN_FILE")  # then CMake, not the PATH, says which compiler it is
    settings = f"{os.environ.get('CMAKE_ARGS', '')} {args[1] or ''}"
    if WINDOWS and not os.environ.get("CXX"):  # Visual Studio's own compiler lacks the vector types
        os.environ.setdefault("CMAKE_GENERATOR_TOOLSET", "ClangCL")
    elif not any(name in settings or name in os.environ for name in chosen) and (problem := find_problem()):
        sys.exit(f"supple cannot be built: {problem}")
    try:
        name: str = hook(*args)
    except BaseException as error:
        if not isinstance(error, (Exception, SystemExit)):
            raise
        if not isinstance(error, SystemExit):
            print(error, file=sys.stderr)
        sys.stdout.flush()
        sys.exit(
            "supple cannot be built: CMake or the compiler reports an error above. If the compiler was killed, memory "
            "ran out; compile one file at a time: CMAKE_BUILD_PARALLEL_LEVEL=1 pip install ."
        )
    return name


def build_wheel(
    wheel_directory: str, config_settings: dict[str, Any] | None = None, metadata_directory: str | None = None
) -> str:
    return _compile(_backend.build_wheel, wheel_directory, config_settings, metadata_directory)


def build_editable(
    wheel_directory: str, config_settings: dict[str, Any] | None = None, metadata_directory: str | None = None
) -> str:
    return _compile(_backend.build_editable, wheel_directory, config_settings, metadata_directory)
