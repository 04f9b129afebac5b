"""Words that the command line takes and gives: options of several words that may be given several times, such as
`--force BODY FX FY FZ`, and what went wrong in one line.

Typer knows lists and tuples, not lists of tuples. So the words of each such option are tied into one before
typer sees them, and untied in the command.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any

from typer.core import TyperCommand

from supple.errors import MechanismError

GROUPS = {
    "--force": ("BODY", "FX", "FY", "FZ"),
    "--torque": ("BODY", "TX", "TY", "TZ"),
    "--target": ("NAME", "VALUE"),
}
KNOT = "\0"  # no argument of a program can hold it


class GroupedCommand(TyperCommand):
    """A command whose options in `GROUPS` take as many words as are named there."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, tied(args))


def tied(args: list[str]) -> list[str]:
    """The arguments with the words after each option of `GROUPS` tied into one."""
    result: list[str] = []
    rest = list(args)
    while rest:
        word = rest.pop(0)
        if word == "--":
            return [*result, word, *rest]
        result.append(word)
        if word in GROUPS and rest:
            n = len(GROUPS[word])
            result.append(KNOT.join(rest[:n]))
            del rest[:n]
    return result


def untied(option: str, values: Iterable[str] | None) -> list[tuple[str, list[float]]]:
    """What was given to an option: names and their numbers."""
    result = []
    for value in values or ():
        name, *words = value.split(KNOT)
        wanted = GROUPS[option]
        if len(words) != len(wanted) - 1:
            raise MechanismError(f"{option} takes {' '.join(wanted)}, got '{' '.join([name, *words])}'")
        result.append((name, [_number(f"{option} {name}", word) for word in words]))
    return result


def one_line(error: Exception) -> str:
    """What went wrong, and the remedy as an option rather than a call."""
    text = re.sub(r"mech\.with_springs\([^)]*\)", "--springs 50", str(error))
    return " ".join(text.replace("with supple.Simulation", "with --time 2").split())


def _number(where: str, word: str) -> float:
    try:
        value = float(word)
    except ValueError:
        raise MechanismError(f"{where}: '{word}' is not a number") from None
    if not math.isfinite(value):
        raise MechanismError(f"{where}: {word} is not finite")
    return value
