"""Finds out whether this machine can compile supple, and what to install if not.

`python tools/compiler_check.py` prints it.
"""

from __future__ import annotations

import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from tempfile import TemporaryDirectory

WINDOWS = platform.system() == "Windows"
COMPILERS = ("clang-cl",) if WINDOWS else ("c++", "g++", "clang++")
OLDEST = {"GCC": 11, "Clang": 14}

COMPILER_COMMANDS = (
    "Debian and Ubuntu: sudo apt install g++; Fedora: sudo dnf install gcc-c++; macOS: xcode-select --install; "
    "Windows: winget install LLVM.LLVM Microsoft.VisualStudio.2022.BuildTools"
)
HEADER_COMMANDS = (
    "Debian and Ubuntu: sudo apt install python3-dev; Fedora: sudo dnf install python3-devel; "
    "macOS: brew install python"
)

# prints what the compiler is, and fails without C++20
PROBE = """
#include <atomic>
#include <concepts>
#if defined(__clang__)
Clang __clang_major__
#elif defined(__GNUC__)
GCC __GNUC__
#endif
"""
PROBE_HEADERS = "#include <Python.h>\n"


def find_compiler() -> list[str]:
    """The command of the compiler that CMake will take; empty without one."""
    if os.environ.get("CXX"):
        command = shlex.split(os.environ["CXX"], posix=not WINDOWS)
        return command if shutil.which(command[0]) else []
    for name in COMPILERS:
        if found := shutil.which(name):
            return [found]
    return []


def preprocess(command: list[str], text: str, includes: list[str]) -> str | None:
    """The text as the preprocessor leaves it, or None if that fails."""
    flags = ["/std:c++20", "/EP"] if WINDOWS else ["-std=c++20", "-E", "-P"]
    with TemporaryDirectory() as folder:
        file = Path(folder) / "probe.cpp"
        file.write_text(text)
        try:
            run = subprocess.run(
                [*command, *flags, *(f"-I{path}" for path in includes), str(file)], capture_output=True, text=True
            )
        except OSError:
            return None
    return run.stdout if run.returncode == 0 else None


def find_problem() -> str | None:
    """What is missing to compile supple, and the commands that install it; None if nothing is."""
    command = find_compiler()
    if not command:
        named = f"CXX={os.environ['CXX']} is no command" if os.environ.get("CXX") else "no C++ compiler was found"
        return f"{named}. Install one: {COMPILER_COMMANDS}"
    seen = preprocess(command, PROBE, [])
    version = re.search(r"\b(GCC|Clang)\s+(\d+)\s*$", seen or "")
    name = shlex.join(command)
    if version and int(version[2]) < OLDEST[version[1]]:
        needed = f"supple needs GCC {OLDEST['GCC']} or Clang {OLDEST['Clang']} at least"
        return f"the compiler {name} is {version[1]} {version[2]}; {needed}. Install a newer one: {COMPILER_COMMANDS}"
    if not version:
        return f"the compiler {name} does not compile C++20. Install a newer one: {COMPILER_COMMANDS}"
    includes = sorted({sysconfig.get_path("include"), sysconfig.get_path("platinclude")})
    if preprocess(command, PROBE_HEADERS, includes) is None:
        python = f"Python {platform.python_version()}"
        return f"the headers of {python} (Python.h) are missing. Install them: {HEADER_COMMANDS}"
    return None


if __name__ == "__main__":
    sys.exit(find_problem())
