"""Checks MJCF files before MuJoCo's native code reads them.

The files are parsed here, includes are inserted, counts and numbers are checked, asset files are located. The text for
MuJoCo is then written from the checked elements, so MuJoCo reads nothing that was not checked.
"""

from __future__ import annotations

import math
import re
import struct
from dataclasses import dataclass
from pathlib import Path

from supple.errors import MechanismError
from supple.mechanism.coupling import ImportNote
from supple.mechanism.io import xml_tree
from supple.mechanism.io.mjcf_inertia import mend_inertia
from supple.mechanism.io.xml_tree import MAX_DEPTH, MAX_ELEMENTS, Element

MAX_COUNT = 1_000_000
"""Largest value of an attribute that determines how much memory MuJoCo allocates."""
MAX_ASSET_BYTES = 1 << 30
COUNTS = {"nsample", "maxhullvert", "dim", "actdim"}
TEXT = {"name", "class", "childclass", "model", "file", "filename", "data", "prefix"}
"""Attributes with text, in which nan or inf is not a number."""
MESHES = {".stl", ".obj", ".msh"}
TEXTURE_FILES = ("file", "fileright", "fileleft", "fileup", "filedown", "filefront", "fileback")


@dataclass
class CheckedModel:
    """A checked model: the text for MuJoCo and what belongs to it."""

    text: str
    origins: list[Element]
    """The element behind each line of the text."""
    models: dict[str, str]
    """Texts of sub-models by the name the text gives them."""
    notes: list[ImportNote]
    """Elements that were removed or mended."""

    def explain(self, message: str, file: str) -> str:
        """MuJoCo's message with file and line of the user's files instead of a line of the checked text."""
        text = " ".join(message.replace("XML Error: ", "").replace("Error: ", "").split())
        found = list(re.finditer(r",? line (\d+)", text))
        if found and 1 <= int(found[-1][1]) <= len(self.origins):
            element = self.origins[int(found[-1][1]) - 1]
            text = text[: found[-1].start()] + text[found[-1].end() :]
            file = f"{element.file}, line {element.line}"
        return f"{file}: {text}; correct it there (message of MuJoCo's compiler)"


def check(root: Element, path: Path) -> CheckedModel:
    """Checks a parsed model file and everything it includes; raises `MechanismError` naming file, line and remedy."""
    if root.tag != "mujoco":
        root.fail(f"the root element is <{root.tag}>; a model is <mujoco> (MJCF) or <robot> (URDF)")
    return _check_mjcf(root, path, {}, [path.resolve()])


def _check_mjcf(root: Element, path: Path, models: dict[str, str], opened: list[Path]) -> CheckedModel:
    folder = path.parent
    _insert_includes(root, folder, folder, {path.resolve()}, 1)
    notes: list[ImportNote] = []
    compiler = {k: v for e in root.children if e.tag == "compiler" for k, v in e.attributes.items()}
    for element in list(root.walk()):
        element.children = [child for child in element.children if not _is_dropped(element, child, notes)]
        if element.tag == "compiler":
            _keep_names_and_bodies(element)
        elif element.tag == "model" and "file" in element.attributes:
            _add_submodel(element, folder, models, opened, notes)
        else:
            _check_asset(element, folder, compiler)
    for element in root.walk():
        _check_numbers(element)
        if element.tag == "inertial" and compiler.get("balanceinertia") != "true":
            mend_inertia(element, notes)
    _check_expansion(root)
    text, origins = xml_tree.write(root)
    return CheckedModel(text, origins, models, notes)


# includes and sub-models


def _insert_includes(element: Element, main: Path, here: Path, seen: set[Path], depth: int) -> None:
    """Replaces each <include> by the children of the included file."""
    if depth > MAX_DEPTH:
        element.fail(f"elements are nested more than {MAX_DEPTH} deep; build such a mechanism in Python")
    children: list[Element] = []
    for child in element.children:
        if child.tag != "include":
            _insert_includes(child, main, here, seen, depth + 1)
            children.append(child)
            continue
        name = child.attributes.get("file")
        if not name:
            child.fail("<include> needs a file")
        path = _existing_file(child, name, [main / name, here / name])
        if path.resolve() in seen:
            child.fail(f"'{name}' is included twice, or includes itself; include each file once")
        seen.add(path.resolve())
        part = xml_tree.read(path, name)
        for inner in part.walk():
            inner.folder = path.parent
        _insert_includes(part, main, path.parent, seen, depth)
        children += part.children
    element.children = children


def _add_submodel(
    element: Element, folder: Path, models: dict[str, str], opened: list[Path], notes: list[ImportNote]
) -> None:
    name = element.attributes["file"]
    path = _existing_file(element, name, [folder / name])
    if path.resolve() in opened:
        element.fail(f"model '{name}' contains itself")
    root = xml_tree.read(path, name)
    if root.tag != "mujoco":
        element.fail(f"'{name}' is not MJCF; only <mujoco> models can be attached")
    inner = _check_mjcf(root, path, models, [*opened, path.resolve()])
    notes += inner.notes
    element.attributes.setdefault("name", root.attributes.get("model", path.stem))
    element.attributes["file"] = f"model{len(models)}.xml"
    models[element.attributes["file"]] = inner.text


# files


def _existing_file(element: Element, name: str, places: list[Path]) -> Path:
    """The first of the places that is a file; raises if there is none."""
    for place in places:
        try:
            if place.is_file():
                if place.stat().st_size > MAX_ASSET_BYTES:
                    element.fail(f"'{name}' is larger than {MAX_ASSET_BYTES >> 20} MiB; simplify it")
                return place
        except (OSError, ValueError):
            continue
    element.fail(f"{element} needs the file '{name}', which does not exist; put it at {places[0]}")


def _check_asset(element: Element, folder: Path, compiler: dict[str, str]) -> None:
    """Checks that an asset's file exists. Meshes get their full path; textures become a plain colour."""
    name = element.attributes.get("file")
    base = compiler.get("assetdir", "")
    if element.tag in ("mesh", "flexcomp") and name:
        path = _asset_path(element, name, folder, compiler.get("meshdir", base), compiler)
        if element.tag == "mesh" and path.suffix.lower() not in MESHES:
            element.fail(f"mesh file '{name}' has a format that cannot be read; convert it to STL or OBJ")
        element.attributes["file"] = str(path.absolute())
    elif element.tag == "texture":
        files = [element.attributes.pop(key) for key in TEXTURE_FILES if key in element.attributes]
        for file in files:
            _asset_path(element, file, folder, compiler.get("texturedir", base), compiler)
        kept = {key: value for key, value in element.attributes.items() if key in ("name", "type", "class")}
        if files and "name" not in kept:
            kept["name"] = Path(files[0]).stem
        element.attributes = kept | {"builtin": "flat", "width": "2", "height": "2"}
    elif element.tag == "hfield":
        _check_height_field(element, folder, compiler.get("meshdir", base), compiler)


def _check_height_field(element: Element, folder: Path, directory: str, compiler: dict[str, str]) -> None:
    """Checks the number of heights, given in the text, in a PNG picture or in MuJoCo's binary format, before MuJoCo
    reads them."""
    name = element.attributes.get("file")
    if name:
        path = _asset_path(element, name, folder, directory, compiler)
        rows, columns = _png_size(path) if path.suffix.lower() == ".png" else _binary_grid_size(path)
        element.attributes.setdefault("name", path.stem)
        element.attributes = {k: v for k, v in element.attributes.items() if k in ("name", "size")}
        element.attributes["file"] = str(path.absolute())
    else:
        try:
            rows, columns = (int(element.attributes.get(key, "0")) for key in ("nrow", "ncol"))
        except ValueError:
            rows = columns = 0
    if min(rows, columns) < 2:
        place = f"the file '{name}'" if name else "nrow and ncol"
        form = " (a PNG, or MuJoCo's format)" if name else ""
        element.fail(f"{element}: {place} must give at least 2 rows and 2 columns of heights{form}")
    if rows * columns > MAX_COUNT:
        element.fail(f"{element}: {rows} x {columns} heights are more than {MAX_COUNT}; use a coarser grid")


def _png_size(path: Path) -> tuple[int, int]:
    """Rows and columns of a PNG file; zeros if it is not one."""
    with path.open("rb") as file:
        head = file.read(24)
    if len(head) < 24 or not head.startswith(b"\x89PNG\r\n\x1a\n"):
        return 0, 0
    columns, rows = struct.unpack(">II", head[16:24])
    return rows, columns


def _binary_grid_size(path: Path) -> tuple[int, int]:
    """Rows and columns of a file of two integers and single-precision heights; zeros if it is not one."""
    with path.open("rb") as file:
        head = file.read(8)
    rows, columns = struct.unpack("<ii", head) if len(head) == 8 else (0, 0)
    return (rows, columns) if path.stat().st_size == 8 + 4 * rows * columns else (0, 0)


def _asset_path(element: Element, name: str, folder: Path, directory: str, compiler: dict[str, str]) -> Path:
    """Where MuJoCo finds an asset: beside the main file, or beside the included file that names it."""
    file = Path(name).name if compiler.get("strippath") == "true" else name
    beside = [folder] if element.folder is None else [folder, element.folder]
    return _existing_file(element, name, [place for at in beside for place in (at / directory / file, at / file)])


def _keep_names_and_bodies(compiler: Element) -> None:
    """Switches off the options with which MuJoCo changes file names, merges bodies or drops shapes."""
    compiler.attributes |= dict.fromkeys(("strippath", "fusestatic", "discardvisual"), "false")


def _is_dropped(parent: Element, child: Element, notes: list[ImportNote]) -> bool:
    """Whether MuJoCo need not read an element: buffer sizes, skins. Raises for plugins, which are native code."""
    if child.tag in ("plugin", "extension"):
        child.fail(f"{child}: plugins are native code and are not loaded; remove them from the model")
    if child.tag == "skin" and parent.tag in ("asset", "deformable"):
        notes.append(ImportNote(str(child), "skins are drawing only; not imported"))
        return True
    return child.tag == "size" and parent.tag == "mujoco"


# numbers


def _check_numbers(element: Element) -> None:
    for key, value in element.attributes.items():
        if key in TEXT:
            continue
        for token in value.split():
            try:
                number = float(token)
            except ValueError:
                continue
            if not math.isfinite(number):
                element.fail(f'{element}: {key}="{value}" is not finite; give ordinary numbers')
            if (key in COUNTS or (element.tag, key) == ("numeric", "size")) and abs(number) > MAX_COUNT:
                element.fail(f'{element}: {key}="{value}" is too large')


def _check_expansion(root: Element) -> None:
    """Raises if replicates and composites expand to too many elements."""
    totals: dict[int, float] = {}
    for element in reversed(list(root.walk())):  # children before parents
        total = 1 + sum(totals.pop(id(child)) for child in element.children)
        if element.tag in ("replicate", "composite", "flexcomp"):
            total *= math.prod(_copy_counts(element))
        if total > MAX_ELEMENTS:
            element.fail(f"{element} expands to more than {MAX_ELEMENTS} elements; use fewer copies")
        totals[id(element)] = total


def _copy_counts(element: Element) -> list[float]:
    try:
        return [max(1.0, float(token)) for token in element.attributes.get("count", "1").split()]
    except ValueError:
        raise MechanismError(f"{element.file}, line {element.line}: count of {element} is not a number") from None
