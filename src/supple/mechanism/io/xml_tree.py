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
DECLARATION = re.compile(rb"<\?xml[^>]*?encoding\s*=\s*[\"']([A-Za-z0-9._-]+)[\"'][^>]*\?>")


@dataclass
class Element:
    """One element. Text between elements has no meaning in MJCF and URDF; it is kept only if `parse` is asked to."""

    tag: str
    attributes: dict[str, str]
    file: str
    line: int
    children: list[Element] = field(default_factory=list)
    text: str = ""
    folder: Path | None = None
    """Of the included file that the element comes from."""

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
    """Parses XML text; raises for entities, ignores processing instructions and document types without them.

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
        raise _Refused("entities are not allowed; remove the [...] of the <!DOCTYPE ...>")

    def document_type(_name: str, system: str | None, public: str | None, has_subset: bool) -> None:
        if has_subset or system or public:
            refuse()

    parser.StartElementHandler = start
    parser.EndElementHandler = end
    if keep_text:
        parser.buffer_text = True
        parser.CharacterDataHandler = characters
    parser.StartDoctypeDeclHandler = document_type
    parser.EntityDeclHandler = refuse
    try:
        # MuJoCo's parser accepts "--" within comments, expat does not
        data = _as_expat_reads(data)
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


def _as_expat_reads(data: bytes) -> bytes:
    """The text without NULs at its end and blanks before its declaration, and in UTF-8 if expat does not know its
    encoding. Raises LookupError or UnicodeDecodeError (a ValueError)."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data
    data = data.rstrip(b"\0")
    blanks = data[: len(data) - len(data.lstrip())]
    body = data[len(blanks) :]
    found = DECLARATION.match(body)
    if found is not None and (blanks or not found[1].lower().startswith((b"utf", b"iso-8859-1"))):
        encoding = found[1].decode("ascii")
        text = body[found.end() :].decode("utf-8" if encoding.lower() in ("ascii", "us-ascii") else encoding)
        body = b"\n" * found.group().count(b"\n") + text.encode("utf-8")
    elif blanks and body.startswith(b"<?xml"):
        body = re.sub(rb"^<\?xml.*?\?>", b"", body, count=1, flags=re.DOTALL)
    return blanks + body


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
