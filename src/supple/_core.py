"""The compiled core, in the build that suits this machine's instruction set.

`SUPPLE_CORE=baseline` (or `avx2`, `avx512`) forces one build, for comparing them.
"""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING, Any

from supple import _cpu

if TYPE_CHECKING:
    from types import ModuleType

VARIANT: str = os.environ.get("SUPPLE_CORE") or _cpu.best_variant()
_module: ModuleType = importlib.import_module(f"supple._core_{VARIANT}")


def __getattr__(name: str) -> Any:
    return getattr(_module, name)
