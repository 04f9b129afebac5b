"""Options that take several words and may be repeated, such as `--force BODY FX FY FZ`; error texts in one line.

Typer supports lists and tuples, but not lists of tuples. So the words of each such option are joined to one word before
typer parses them, and split again in the command.
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
    "--q": ("NAME", "VALUE"),
    "--vary": ("NAME", "VALUES"),
}
SEPARATOR = "\0"  # cannot occur in an argument of a program


class GroupedCommand(TyperCommand):
    """A command whose options in `GROUPS` take as many words as are named there."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, join_groups(args))


def join_groups(args: list[str]) -> list[str]:
    """The arguments with the words after each option of `GROUPS` joined to one."""
    result: list[str] = []
    rest = list(args)
    while rest:
        word = rest.pop(0)
        if word == "--":
            return [*result, word, *rest]
        result.append(word)
        if word in GROUPS and rest:
            n = len(GROUPS[word])
            result.append(SEPARATOR.join(rest[:n]))
            del rest[:n]
    return result


def split_groups(option: str, values: Iterable[str] | None) -> list[tuple[str, list[float]]]:
    """The values of an option: names and their numbers."""
    return [(name, [number(f"{option} {name}", word) for word in words]) for name, words in split_words(option, values)]


def split_words(option: str, values: Iterable[str] | None) -> list[tuple[str, list[str]]]:
    """The values of an option: names and the words after them."""
    result = []
    for value in values or ():
        name, *words = value.split(SEPARATOR)
        wanted = GROUPS[option]
        if len(words) != len(wanted) - 1:
            raise MechanismError(f"{option} takes {' '.join(wanted)}, got '{' '.join([name, *words])}'")
        result.append((name, words))
    return result


def in_one_line(told: Exception | str) -> str:
    """The text of an error or warning in one line, with the remedy as an option instead of a Python call."""
    text = re.sub(r"mech\.with_springs\([^)]*\)", "--springs 50", str(told))
    text = text.replace("with_springs replaces", "--damping replaces").partition(" To start there")[0]
    closed = "give --q NAME VALUE, which closes loops within limits, or another --keyframe NAME"
    text = re.sub(r"try supple\.assemble\(mech\)\.mechanism.*at=\.\.\.", closed, text)
    text = text.replace("supple.assemble(mech).mechanism", "with --q NAME VALUE, or --keyframe NAME")
    return " ".join(text.replace("with supple.Simulation", "with --time 2").split())


def number(where: str, word: str) -> float:
    """The finite number that a word of the command line stands for."""
    try:
        value = float(word)
    except ValueError:
        raise MechanismError(f"{where}: '{word}' is not a number") from None
    if not math.isfinite(value):
        raise MechanismError(f"{where}: {word} is not finite")
    return value
