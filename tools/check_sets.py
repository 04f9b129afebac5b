"""Checks that the core compiles for other instruction sets than that of this machine; part of `.ci/run`.

An install compiles one instruction set, the machine's. What GCC accepts for two vectors of four numbers (AVX2) it may
refuse for one of eight (AVX-512). The compiler only reads the sources (`-fsyntax-only`, templates included), in the
groups of CMake, which takes 40 CPU seconds for each set.

    python tools/check_sets.py            AVX2 or AVX-512, whichever is not installed
    python tools/check_sets.py SET ...    some of baseline, avx2, avx512

Needs CMake, Ninja, nanobind and cmeel-eigen (pip install cmake ninja nanobind cmeel-eigen).
"""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[1]


def main() -> None:
    sets = sys.argv[1:] or other_sets()
    if not sets:
        return print("The core has no other instruction set here.")
    with TemporaryDirectory() as folder:
        commands = compile_commands(sets, Path(folder))
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            failed = [output for output in pool.map(check, commands) if output]
    if failed:
        sys.exit("\n".join(failed))
    print(f"The core compiles for {', '.join(sets)}.")


def other_sets() -> list[str]:
    """AVX2 or AVX-512, whichever supple was not built for; none on other processors."""
    from supple import _core

    built = _core.built_variants()
    return [name for name in ("avx2", "avx512") if name not in built] if built != ["baseline"] else []


def compile_commands(sets: list[str], folder: Path) -> list[dict[str, str]]:
    """The commands by which CMake would compile the core's files for these sets."""
    options = {
        "SUPPLE_VARIANTS": ";".join(sets),
        "Python_EXECUTABLE": sys.executable,
        "CMAKE_EXPORT_COMPILE_COMMANDS": "ON",
        "CMAKE_DISABLE_PRECOMPILE_HEADERS": "ON",
    }
    words = [f"-D{name}={value}" for name, value in options.items()]
    done = subprocess.run(["cmake", "-G", "Ninja", "-S", ROOT, "-B", folder, *words], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"CMake failed:\n{done.stdout}\n{done.stderr}")
    found: list[dict[str, str]] = json.loads((folder / "compile_commands.json").read_text())
    return [each for each in found if "_core_" in each["output"]]  # supple_core_SET and _core_SET


def check(each: dict[str, str]) -> str:
    """What the compiler says of a file that it refuses; empty if it accepts it."""
    words = shlex.split(each["command"])
    del words[words.index("-o") : words.index("-o") + 2]
    done = subprocess.run([*words, "-fsyntax-only"], cwd=each["directory"], capture_output=True, text=True)
    return done.stderr if done.returncode else ""


if __name__ == "__main__":
    main()
