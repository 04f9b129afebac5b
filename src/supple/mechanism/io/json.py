"""supple's own files: versioned JSON that reads back identical to the last bit. `schema.json` describes it."""

from __future__ import annotations

import json
import re
from os import PathLike
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from supple.errors import MechanismError
from supple.files import writing
from supple.mechanism.flexible import refuse_flexible
from supple.mechanism.io.json_parts import insert_parts, replace_parts
from supple.mechanism.io.json_records import JsonObject, decode_mechanism, encode_mechanism
from supple.mechanism.mechanism import Mechanism

FORMAT = "supple-mechanism"
VERSION = 1
MAX_BYTES = 512 * 2**20
MAX_DEPTH = 32
MAX_CONTAINERS = 20_000_000
LINE = 110


def load(path: str | PathLike[str]) -> Mechanism:
    """Reads a `.json` file that `save` wrote."""
    where = str(path)
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise MechanismError(f"{where}: cannot read the file: {reason}; check its name and folder") from None
    if len(data) > MAX_BYTES:
        raise MechanismError(f"{where}: larger than {MAX_BYTES // 2**20} MiB, which no mechanism needs")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise MechanismError(f"{where}: not UTF-8 text (byte {error.start}); is this a JSON file?") from None
    return loads(text, where, Path(path).parent)


def save(mech: Mechanism, path: str | PathLike[str]) -> None:
    """Writes a mechanism, complete, to a `.json` file; the part of each flexible body to an `.npz` file beside it."""
    path = Path(path)
    content = {"format": FORMAT, "version": VERSION, **encode_mechanism(mech)}
    parts = replace_parts(content, mech, path.stem)
    with writing(path) as file:
        file.write(_layout(content, 0) + "\n")
    for name, part in parts.items():
        part.save(path.parent / name)


def dumps(mech: Mechanism) -> str:
    """The text of a file. Fields equal to their default are omitted; null means no limit on that side."""
    refuse_flexible(mech.flexible, "text", "write a file: mech.save('name.json')")
    content = {"format": FORMAT, "version": VERSION, **encode_mechanism(mech)}
    return _layout(content, 0) + "\n"


def loads(text: str, where: str = "text", folder: Path = Path()) -> Mechanism:
    """The mechanism in a text; error texts begin with `where`, then name the place in the data. `folder` has the files
    of elastic parts."""
    _check_nesting(text, where)
    try:
        data = json.loads(
            text,
            object_pairs_hook=JsonObject,
            parse_constant=lambda word: _reject_constant(where, word),
            parse_int=lambda digits: int(digits) if len(digits) < 20 else float(digits),
        )
    except json.JSONDecodeError as error:
        raise MechanismError(
            f"{where}: line {error.lineno}, column {error.colno}: {error.msg}; the file is damaged"
        ) from None
    except RecursionError:
        raise MechanismError(f"{where}: nested too deeply for a mechanism") from None
    _check_version(data, where)
    del data["format"], data["version"]
    insert_parts(data, where, folder)
    with np.errstate(over="ignore", invalid="ignore"):  # the checks reject numbers that overflow
        return decode_mechanism(data, where)


def _reject_constant(where: str, word: str) -> NoReturn:
    raise MechanismError(f"{where}: {word} is not a number that JSON or a mechanism can hold; limits use null")


_NO_BRACKETS = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[^\[\]{}"]+', re.DOTALL)


def _check_nesting(text: str, where: str) -> None:
    """Raises if there are too many brackets or they nest too deeply, before anything is built."""
    brackets = np.frombuffer(_NO_BRACKETS.sub("", text).encode("utf-8", "replace"), dtype=np.uint8)
    if len(brackets) > 2 * MAX_CONTAINERS:
        raise MechanismError(f"{where}: more than {MAX_CONTAINERS} lists and objects, which no mechanism needs")
    opens = np.isin(brackets, np.frombuffer(b"[{", dtype=np.uint8))
    closes = np.isin(brackets, np.frombuffer(b"]}", dtype=np.uint8))
    depth = np.cumsum(opens.astype(np.int32) - closes.astype(np.int32)).max(initial=0)
    if depth > MAX_DEPTH:
        raise MechanismError(f"{where}: nested {depth} deep; a mechanism has at most {MAX_DEPTH} levels")


def _check_version(data: Any, where: str) -> None:
    if not isinstance(data, JsonObject) or data.get("format") != FORMAT:
        raise MechanismError(f'{where}: not a mechanism file of supple (no "format": "{FORMAT}" at the top)')
    version = data.get("version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise MechanismError(f"{where}: version: must be a whole number from 1 to {VERSION}, got {str(version)[:40]}")
    if version > VERSION:
        raise MechanismError(
            f"{where}: version {version} was written by a newer supple (this one reads {VERSION}); update it"
        )


_WHOLE = re.compile(r"(?<!-0)\.0(?=[,\]])")


def _layout(value: Any, indent: int) -> str:
    """JSON text: short values and rows of scalars on one line, others with a line for each entry."""
    if isinstance(value, dict):
        parts = [f"{_scalar(key)}: {_layout(item, indent + 2)}" for key, item in value.items()]
        opening, closing = "{}"
    elif isinstance(value, list):
        if all(isinstance(item, float) for item in value):
            return _WHOLE.sub("", json.dumps(value, allow_nan=False))  # 1 rather than 1.0; -0.0 keeps its sign
        parts = [_layout(item, indent + 2) for item in value]
        opening, closing = "[]"
    else:
        return _scalar(value)
    short = indent + sum(map(len, parts)) + 2 * len(parts) <= LINE and not any("\n" in part for part in parts)
    if short and indent > 0:
        return f"{opening}{', '.join(parts)}{closing}"
    margin = "\n" + " " * (indent + 2)
    return f"{opening}{margin}{f',{margin}'.join(parts)}\n{' ' * indent}{closing}"


def _scalar(value: Any) -> str:
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=not value.isprintable())
    if isinstance(value, float):
        return _layout([value], 0)[1:-1]
    return json.dumps(value)
