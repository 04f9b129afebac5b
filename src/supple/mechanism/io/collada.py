"""Reads the triangles and colours of a COLLADA file (.dae).

Nodes are placed by their transforms and lengths are converted to metres. As in ROS, `up_axis` is ignored: the
coordinates of the file are those of the link.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from supple import spatial
from supple.mechanism.io import xml_tree
from supple.mechanism.io.xml_tree import Element
from supple.mechanism.record import Array

MAX_TRIANGLES = 20_000_000
MAX_NODE_DEPTH = 64
Faces = NDArray[np.int32]
Colour = tuple[float, float, float, float]


@dataclass(frozen=True)
class Surface:
    """Triangles of one colour."""

    vertices: Array
    """(n, 3), m."""
    faces: Faces
    """(m, 3)."""
    rgba: Colour | None
    """None where the file gives no colour."""


def read(path: Path) -> list[Surface]:
    """All triangles of the file's scene; raises `MechanismError` for a file that is not COLLADA."""
    root = xml_tree.read(path, path.name, keep_text=True)
    if root.tag.rpartition(":")[2] != "COLLADA":
        root.fail(f"the root element is <{root.tag}>, not <COLLADA>")
    return _Document(root).surfaces()


class _Document:
    """A parsed file; elements are found by their id."""

    def __init__(self, root: Element) -> None:
        self.root = root
        self.by_id: dict[str, Element] = {}
        for element in root.walk():
            if "id" in element.attributes:
                self.by_id.setdefault(element.attributes["id"], element)
        self._surfaces: list[Surface] = []
        self._triangles = 0

    def surfaces(self) -> list[Surface]:
        scenes = [scene for library in self.root.find_all("library_visual_scenes") for scene in library.children]
        for scene in scenes[:1]:
            for node in scene.find_all("node"):
                self._add_node(node, np.diag([self._metres_per_unit()] * 3 + [1.0]), {}, 0)
        return self._surfaces

    def _metres_per_unit(self) -> float:
        asset = self.root.find("asset")
        unit = None if asset is None else asset.find("unit")
        metres = 1.0 if unit is None else float(_numbers(unit, unit.attributes.get("meter", "1"))[0])
        if not 0 < metres < math.inf:
            self.root.fail(f"a unit of {metres:g} m is not a length")
        return metres

    def _target(self, element: Element) -> Element:
        """The element that `url`, `source` or `target` names."""
        name = next((element.attributes[k] for k in ("url", "source", "target") if k in element.attributes), "")
        found = self.by_id.get(name.removeprefix("#"))
        if found is None:
            element.fail(f"<{element.tag}> names '{name}', which is not in the file")
        return found

    # the scene

    def _add_node(self, node: Element, pose: Array, colours: dict[str, Colour | None], depth: int) -> None:
        if depth > MAX_NODE_DEPTH:
            node.fail(f"nodes are nested more than {MAX_NODE_DEPTH} deep")
        for child in node.children:
            pose = pose @ _transform(child)
        for child in node.children:
            if child.tag == "node":
                self._add_node(child, pose, colours, depth + 1)
            elif child.tag == "instance_node":
                self._add_node(self._target(child), pose, colours, depth + 1)
            elif child.tag == "instance_geometry":
                bound = {
                    e.attributes.get("symbol", ""): self._colour(self._target(e))
                    for e in child.walk()
                    if e.tag == "instance_material"
                }
                self._add_geometry(self._target(child), pose, bound)

    def _colour(self, material: Element) -> Colour | None:
        """The diffuse colour of a material; None for a texture."""
        effect = material.find("instance_effect")
        if effect is None:
            return None
        diffuse = next((e for e in self._target(effect).walk() if e.tag == "diffuse"), None)
        colour = None if diffuse is None else diffuse.find("color")
        if colour is None:
            return None
        values = np.clip(_numbers(colour, colour.text), 0.0, 1.0)
        return (*map(float, values[:3]), 1.0) if len(values) >= 3 else None  # type: ignore[return-value]

    # geometry

    def _add_geometry(self, geometry: Element, pose: Array, colours: dict[str, Colour | None]) -> None:
        mesh = geometry.find("mesh")
        if mesh is None:
            return
        for part in mesh.find_all("triangles", "polylist", "polygons", "tristrips", "trifans"):
            vertices, faces = self._positions(part), self._faces(part)
            if not len(faces):
                continue
            self._triangles += len(faces)
            if self._triangles > MAX_TRIANGLES:
                part.fail(f"more than {MAX_TRIANGLES} triangles; simplify the mesh")
            if faces.min() < 0 or faces.max() >= len(vertices):
                part.fail(f"<{part.tag}> names a vertex outside 0 ... {len(vertices) - 1}")
            used, inverse = np.unique(faces, return_inverse=True)
            placed = vertices[used] @ pose[:3, :3].T + pose[:3, 3]
            corners = inverse.reshape(-1, 3).astype(np.int32)
            if np.linalg.det(pose[:3, :3]) < 0:  # a mirrored node: keep the outside outside
                corners = corners[:, ::-1]
            colour = colours.get(part.attributes.get("material", ""))
            self._surfaces.append(Surface(placed, corners, colour))

    def _positions(self, part: Element) -> Array:
        """(n, 3) positions that the part's indices refer to."""
        source = self._target(_input_element(part, "VERTEX"))
        if source.tag == "vertices":
            source = self._target(_input_element(source, "POSITION"))
        values = source.find("float_array")
        accessor = next((e for e in source.walk() if e.tag == "accessor"), None)
        if values is None or accessor is None:
            source.fail("a source of positions needs <float_array> and <accessor>")
        stride, offset = (_whole_number(accessor, key, default) for key, default in (("stride", 1), ("offset", 0)))
        numbers = _numbers(values, values.text)[offset:]
        if stride < 3:
            accessor.fail(f"positions have three numbers each, the stride is {stride}")
        return numbers[: len(numbers) // stride * stride].reshape(-1, stride)[:, :3]

    def _faces(self, part: Element) -> Faces:
        """(m, 3) vertex indices of the part, polygons split into triangles."""
        inputs = part.find_all("input")
        width = 1 + max(_whole_number(e, "offset", 0) for e in inputs)
        offset = _whole_number(_input_element(part, "VERTEX"), "offset", 0)
        lists = [_indices(p)[offset::width] for p in part.find_all("p")]
        if part.tag == "triangles":
            corners = np.concatenate([np.zeros(0, np.int32), *lists])
            return corners[: len(corners) // 3 * 3].reshape(-1, 3)
        if part.tag == "polylist" and (counts := part.find("vcount")) is not None:
            corners = np.concatenate([np.zeros(0, np.int32), *lists])
            ends = np.cumsum(_indices(counts))
            lists = np.split(corners, ends[:-1]) if len(ends) and ends[-1] <= len(corners) else []
        return np.concatenate([np.zeros((0, 3), np.int32), *(_fan(corners, part.tag) for corners in lists)])


def _fan(corners: Faces, kind: str) -> Faces:
    """(m, 3) triangles of one polygon, fan or strip."""
    if len(corners) < 3:
        return np.zeros((0, 3), np.int32)
    second, third = corners[1:-1], corners[2:]
    if kind != "tristrips":
        return np.stack([np.full(len(second), corners[0]), second, third], axis=1)
    strip = np.stack([corners[:-2], second, third], axis=1)
    strip[1::2] = strip[1::2, [0, 2, 1]]
    return strip


def _input_element(part: Element, semantic: str) -> Element:
    found = next((e for e in part.find_all("input") if e.attributes.get("semantic") == semantic), None)
    if found is None:
        part.fail(f"<{part.tag}> has no input of {semantic}")
    return found


def _whole_number(element: Element, key: str, default: int) -> int:
    text = element.attributes.get(key, str(default))
    if not text.strip().isdigit() or len(text) > 9:
        element.fail(f'{key}="{text:.40}" of <{element.tag}> is not a whole number')
    return int(text)


def _numbers(element: Element, text: str) -> Array:
    try:
        values = np.array(text.split(), dtype=float)
    except ValueError:
        element.fail(f"<{element.tag}> must hold numbers")
    if not np.isfinite(values).all():
        element.fail(f"<{element.tag}> must hold finite numbers")
    return values


def _indices(element: Element) -> Faces:
    try:
        return np.array(element.text.split(), dtype=np.int32)
    except (ValueError, OverflowError):
        element.fail(f"<{element.tag}> must hold whole numbers")


def _transform(element: Element) -> Array:
    """(4, 4) of a node's transform element; the identity for any other."""
    sizes = {"matrix": 16, "translate": 3, "rotate": 4, "scale": 3}
    if element.tag not in sizes:
        return np.eye(4)
    values = _numbers(element, element.text)
    if len(values) != sizes[element.tag]:
        element.fail(f"<{element.tag}> needs {sizes[element.tag]} numbers, got {len(values)}")
    if element.tag == "matrix":
        return values.reshape(4, 4)
    if element.tag == "translate":
        return np.asarray(spatial.translation(values))
    if element.tag == "scale":
        return np.diag([*values, 1.0])
    length = float(np.linalg.norm(values[:3])) or 1.0
    return np.asarray(spatial.pose(spatial.so3_exp(values[:3] / length * math.radians(values[3])), np.zeros(3)))
