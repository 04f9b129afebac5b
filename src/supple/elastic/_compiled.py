"""Descriptions that the core evaluates."""

from __future__ import annotations

from typing import Any


class Compiled:
    """Has a compiled evaluator, `core`, that is made when it is first used. Pickle and copy leave it out."""

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "core"}
