"""The compiled core, in the best build that was installed and that this machine can run.

A module `_core_NAME` holds the whole core for one instruction set: `baseline`, `avx2` or `avx512`. A source install
builds one of them, a wheel all. `SUPPLE_CORE=NAME` chooses one, for comparing them.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from typing import TYPE_CHECKING

from supple import _cpu

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

    from supple._compiled import *  # noqa: F403  written by the build: the names and types of the modules

VARIANTS = ("baseline", "avx2", "avx512")
"""Instruction sets, each contained in the next."""

_REBUILD = "SUPPLE_VARIANTS=all pip install --force-reinstall --no-deps"


def built_variants() -> list[str]:
    """Instruction sets that the core was built for."""
    return [name for name in VARIANTS if importlib.util.find_spec(f"supple._core_{name}") is not None]


def choose_variant(wanted: str | None, built: Sequence[str], best: str) -> str:
    """The build to load: `wanted`, else the best one that was built and is not above `best`, the machine's.

    Raises:
        ImportError: no such build is installed, or this machine cannot run it.
    """
    runnable = VARIANTS[: VARIANTS.index(best) + 1]
    have = ", ".join(built) or "none"
    again = f"Build it from the source folder: {_REBUILD} ."
    if wanted:
        if wanted not in VARIANTS:
            raise ImportError(f"SUPPLE_CORE={wanted}: choose one of {', '.join(VARIANTS)}; installed: {have}")
        if wanted not in built:
            raise ImportError(f"SUPPLE_CORE={wanted}: supple was not built for {wanted}; installed: {have}. {again}")
        if wanted not in runnable:
            raise ImportError(f"SUPPLE_CORE={wanted}: this machine has {best} at best; leave SUPPLE_CORE unset")
        return wanted
    for name in reversed(runnable):
        if name in built:
            return name
    raise ImportError(
        f"supple was built for instruction sets that this machine lacks: installed: {have}; this machine has {best} "
        f"at best. Install it here from source, or build for every machine: {_REBUILD} ."
    )


VARIANT: str = choose_variant(os.environ.get("SUPPLE_CORE"), built_variants(), _cpu.best_variant())
"""The instruction set in use."""
_module: ModuleType = importlib.import_module(f"supple._core_{VARIANT}")

if not TYPE_CHECKING:

    def __getattr__(name):
        return getattr(_module, name)
