"""How many random cases a test has: the first ones in every run, all of them with `pytest -m long`."""

from __future__ import annotations

from typing import Any

import pytest


def seeds(usual: int, total: int) -> list[Any]:
    """Parameters 0, 1, ..., total - 1; those from `usual` on are marked as long."""
    return [*range(usual), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(usual, total))]
