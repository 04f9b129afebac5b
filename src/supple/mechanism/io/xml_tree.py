"""Reads XML, with limits against malicious files, into elements that know their file and line; writes XML."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn
from xml.parsers import expat
from xml.sax.saxutils import quoteattr

from supple.errors import MechanismError

MAX_BYTES = 64 << 20
MAX_DEPTH = 480
"""MuJoCo's own parser stops at 500."""
MAX_ELEMENTS = 500_000
COMMENT = re.compile(rb"<!--.*?-->", re.DOTALL)


@dataclass
class Element:
    """One element. Text between elements has no meaning in MJCF and URDF; it is kept only if `parse` is asked to."""

    tag: str
    attributes: dict[str, str]
    file: str
    line: int
    children: list[Element] = field(default_factory=list)
    text: str = ""

    def __str__(self) -> str:
        name = self.attributes.get("name")
        return f"<{self.tag}>" if name is None else f"{self.tag} '{name}'"

    def walk(self) -> Iterator[Element]:
        """This element and all its descendants, in the order of the text."""
        stack = [self]
        while stack:
            element = stack.pop()
            yield element
            stack.extend(reversed(element.children))

    def find(self, tag: str) -> Element | None:
        """The first child with this tag."""
        return next((child for child in self.children if child.tag == tag), None)

    def find_all(self, *tags: str) -> list[Element]:
        """The children with one of these tags, in the order of the text."""
        return [child for child in self.children if child.tag in tags]

    def fail(self, text: str) -> NoReturn:
        """Raises an error that names the place."""
        raise MechanismError(f"{self.file}, line {self.line}: {text}")


class _Refused(Exception):
    """The parser's handlers reject the file."""


def read(path: Path, shown: str, keep_text: bool = False) -> Element:
    """Parses a file into its root element; `shown` names the file in errors."""
    try:
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise MechanismError(f"{shown}: {size >> 20} MiB of XML is more than the {MAX_BYTES >> 20} MiB allowed")
        data = path.read_bytes()
    except OSError as error:
        raise MechanismError(f"{shown}: cannot be read ({error.strerror or error}); check the path") from None
    return parse(data, shown, keep_text)


def parse(data: bytes, shown: str, keep_text: bool = False) -> Element:
    """Parses XML text; raises for document types and entities, ignores processing instructions.

    With `keep_text` every element has the text between its tags.
    """
    parser = expat.ParserCreate()
    stack: list[Element] = []
    roots: list[Element] = []
    texts: dict[int, list[str]] = {}
    count = 0

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal count
        count += 1
        if count > MAX_ELEMENTS:
            raise _Refused(f"more than {MAX_ELEMENTS} elements; split the model")
        if len(stack) >= MAX_DEPTH:
            raise _Refused(f"elements are nested more than {MAX_DEPTH} deep; build such a mechanism in Python")
        element = Element(tag, attributes, shown, parser.CurrentLineNumber)
        (stack[-1].children if stack else roots).append(element)
        stack.append(element)

    def end(tag: str) -> None:
        element = stack.pop()
        if keep_text:
            element.text = "".join(texts.pop(id(element), ()))

    def characters(data: str) -> None:
        if stack:
            texts.setdefault(id(stack[-1]), []).append(data)

    def refuse(*_: object) -> None:
        raise _Refused("document types and entities are not allowed; remove the <!DOCTYPE ...> part")

    parser.StartElementHandler = start
    parser.EndElementHandler = end
    if keep_text:
        parser.buffer_text = True
        parser.CharacterDataHandler = characters
    parser.StartDoctypeDeclHandler = refuse
    parser.EntityDeclHandler = refuse
    try:
        # MuJoCo's parser accepts "--" within comments, expat does not
        parser.Parse(COMMENT.sub(lambda found: b"\n" * found.group().count(b"\n"), data), True)
    except _Refused as refusal:
        raise MechanismError(f"{shown}, line {parser.CurrentLineNumber}: {refusal}") from None
    except expat.ExpatError as error:
        what = expat.ErrorString(error.code)
        raise MechanismError(
            f"{shown}, line {error.lineno}: not well-formed XML ({what}); is the file complete?"
        ) from None
    except (ValueError, LookupError) as error:
        raise MechanismError(f"{shown}: not readable as XML text ({error}); save it as UTF-8") from None
    return roots[0]


def write(root: Element) -> tuple[str, list[Element]]:
    """The text with one tag on each line, and for each line its element."""
    lines: list[str] = []
    origins: list[Element] = []
    stack: list[tuple[Element, bool]] = [(root, False)]
    while stack:
        element, closing = stack.pop()
        origins.append(element)
        if closing:
            lines.append(f"</{element.tag}>")
            continue
        attributes = "".join(f" {key}={quoteattr(value)}" for key, value in element.attributes.items())
        lines.append(f"<{element.tag}{attributes}{'' if element.children else '/'}>")
        if element.children:
            stack.append((element, True))
            stack.extend((child, False) for child in reversed(element.children))
    return "\n".join(lines), origins
