"""XML elements and names for MJCF."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from typing import Any
from xml.sax.saxutils import quoteattr

import numpy as np

_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


class Element:
    """A tag with attributes and children; attributes that are None are omitted."""

    def __init__(self, tag: str, **attributes: Any) -> None:
        self.tag = tag
        self.attributes = {key: value for key, value in attributes.items() if value is not None}
        self.children: list[Element] = []

    def add(self, tag: str, **attributes: Any) -> Element:
        self.children.append(Element(tag, **attributes))
        return self.children[-1]

    def text(self) -> str:
        """Indented XML. Iterative, since a chain of bodies nests once for each body."""
        lines: list[str] = []
        stack: list[tuple[Element | str, int]] = [(self, 0)]
        while stack:
            item, depth = stack.pop()
            if isinstance(item, str):
                lines.append("  " * depth + item)
                continue
            attributes = "".join(f" {key}={quoteattr(_value(v))}" for key, v in item.attributes.items())
            lines.append(f"{'  ' * depth}<{item.tag}{attributes}{'' if item.children else '/'}>")
            if item.children:
                stack.append((f"</{item.tag}>", depth))
                stack.extend((child, depth + 1) for child in reversed(item.children))
        return "\n".join(lines) + "\n"


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return str(value)
    return " ".join(repr(float(x)).removesuffix(".0") for x in np.ravel(value))


class Names:
    """Gives every element of a kind a unique name that XML can represent."""

    def __init__(self) -> None:
        self._taken: defaultdict[str, set[str]] = defaultdict(set)

    def reserve(self, kind: str, names: Iterable[str]) -> dict[str, str]:
        """Reserves names that are already unique; only characters that XML cannot represent are replaced."""
        return {name: self.new(kind, name) for name in names}

    def new(self, kind: str, wanted: str) -> str:
        """The name itself or, if it is in use, with a number appended."""
        plain = _NOT_XML.sub("_", wanted)
        name, count = plain, 1
        while name in self._taken[kind]:
            count += 1
            name = f"{plain}__{count}"
        self._taken[kind].add(name)
        return name
