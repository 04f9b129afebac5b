"""Values of `supple sweep --vary NAME VALUES`."""

from __future__ import annotations

import numpy as np

from supple.cli.grouped_options import number, split_words
from supple.errors import MechanismError
from supple.mechanism.record import Array

MOST_VALUES = 1_000_000


def varied(given: list[str] | None) -> dict[str, Array]:
    """Values (n,) by parameter, from words such as 10:100:20 (twenty values from 10 to 100) or 1,2,5."""
    result: dict[str, Array] = {}
    for name, (word,) in split_words("--vary", given):
        if name in result:
            raise MechanismError(f"--vary {name} is given twice")
        result[name] = _values(f"--vary {name}", word)
    if not result:
        raise MechanismError("give a parameter to vary, for example: --vary elbow.stiffness 10:100:20")
    return result


def _values(where: str, word: str) -> Array:
    if ":" not in word:
        return np.array([number(where, part) for part in word.split(",")])
    parts = word.split(":")
    if len(parts) != 3 or not parts[2].isdecimal() or not 1 <= int(parts[2]) <= MOST_VALUES:
        raise MechanismError(f"{where}: values are FIRST:LAST:COUNT (10:100:20) or a list (1,2,5), got '{word}'")
    return np.linspace(number(where, parts[0]), number(where, parts[1]), int(parts[2]))
