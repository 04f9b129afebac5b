"""How objects are shown: one line of text, or a small table in a notebook."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from html import escape
from typing import Any

import numpy as np

MOST_NUMBERS = 6
"""Longer arrays are shown by their shape."""


def html_table(title: str, rows: Mapping[str, object]) -> str:
    """A table with a title and a line for each name and value."""
    lines = "".join(
        f"<tr><th style='text-align:left'>{escape(name)}</th><td style='text-align:left'>{escape(str(value))}</td></tr>"
        for name, value in rows.items()
    )
    return f"<table><caption style='text-align:left'><b>{escape(title)}</b></caption>{lines}</table>"


def brief(record: Any) -> str:
    """One line for a dataclass: long arrays, tuples and dictionaries are shown by their sizes."""
    shown = [f"{field.name}={_brief_value(getattr(record, field.name))}" for field in fields(record) if field.repr]
    return f"{type(record).__name__}({', '.join(shown)})"


def _brief_value(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return str(value.tolist()) if value.size <= MOST_NUMBERS else f"array {value.shape}"
    if isinstance(value, Mapping | tuple | list) and len(value) > 2:
        return f"{type(value).__name__} of {len(value)}"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key!r}: {_brief_value(each)}" for key, each in value.items()) + "}"
    if isinstance(value, tuple | list):
        return "(" + ", ".join(map(_brief_value, value)) + ")"
    text = repr(value)
    return text if len(text) <= 60 else f"{type(value).__name__}"
