"""A recording as binary glTF 2.0, for Blender and web pages: a node for each body, its motion as an animation,
the shapes of flexible bodies as morph targets."""

from __future__ import annotations

import json
import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supple import spatial
from supple.mechanism.record import Array
from supple.recording import Recording
from supple.viewer.scenery import coloured
from supple.viewer.skins import COLOUR, Skin, mechanism_skins, recorded_skin
from supple.viewer.visuals import Surface, mechanism_surfaces

FLOAT, UINT = 5126, 5125
VERTICES, INDICES = 34962, 34963
"""Values of a buffer view's `target`."""
UPRIGHT = [-np.sqrt(0.5), 0.0, 0.0, np.sqrt(0.5)]
"""x, y, z, w of the rotation from z up to y up, which glTF uses."""


def glb(recording: Recording) -> bytes:
    """The content of a `.glb` file. Each body is a node of its name, with its surfaces and joints as children. Nodes
    have the poses of the first frame. The skin of a flexible body is a node of the body's name, a child of the body of
    its reference interface; its modes are morph targets, its modal amplitudes their weights. A soft surface such as
    that of a pad is a node as well; its morph targets are the main shapes of its recorded motion. Lengths are in
    metres; time starts at zero."""
    return _Writer(recording).content()


class _Writer:
    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.binary = bytearray()
        self.views: list[dict[str, Any]] = []
        self.accessors: list[dict[str, Any]] = []
        self.meshes: list[dict[str, Any]] = []
        self.materials: dict[tuple[int, ...], int] = {}
        self.weights: dict[int, Array] = {}
        """(n, r) weights of the morph targets over time, by index of their node."""
        bodies = recording.mechanism.bodies
        self.nodes: list[dict[str, Any]] = [{"name": recording.mechanism.name, "rotation": UPRIGHT, "children": []}]
        for i, body in enumerate(bodies):
            self.nodes.append(
                {
                    "name": body.name,
                    "translation": recording.positions[0, i].tolist(),
                    "rotation": _xyzw(recording.quats_wxyz[0, i]).tolist(),
                    "children": [],
                }
            )
            self.nodes[0]["children"].append(i + 1)

    def content(self) -> bytes:
        for surface in mechanism_surfaces(coloured(self.recording.mechanism)):
            self._add_surface(surface)
        for skin in mechanism_skins(self.recording.mechanism):
            self._add_skin(skin, self.recording.amplitudes_of(skin.name))
        for i in range(len(self.recording.surfaces)):
            self._add_skin(*recorded_skin(self.recording, i))
        for node in self.nodes:
            if not node.get("children", True):
                del node["children"]
        document: dict[str, Any] = {
            "asset": {"version": "2.0", "generator": "supple"},
            "scene": 0,
            "scenes": [{"nodes": [0]}],
            "nodes": self.nodes,
        }
        if len(self.recording.times) > 1:
            document["animations"] = [self._animation()]
        if self.meshes:
            document["meshes"] = self.meshes
            document["materials"] = [_material(colour) for colour in self.materials]
        document |= {"accessors": self.accessors, "bufferViews": self.views}
        document["buffers"] = [{"byteLength": len(self.binary)}]
        if not self.binary:
            for name in ("accessors", "bufferViews", "buffers"):
                del document[name]
        text = json.dumps(document, separators=(",", ":"), allow_nan=False).encode()
        chunks = _chunk(b"JSON", text, b" ")
        if self.binary:
            chunks += _chunk(b"BIN\0", bytes(self.binary), b"\0")
        return struct.pack("<4sII", b"glTF", 2, 12 + len(chunks)) + chunks

    def _add_surface(self, surface: Surface) -> None:
        """Adds a mesh for each colour and a node for each copy."""
        attributes = {"POSITION": self._accessor(surface.vertices.astype(np.float32), "VEC3", VERTICES, bounds=True)}
        indices = self._accessor(surface.faces.reshape(-1).astype(np.uint32), "SCALAR", INDICES)
        mesh_of_colour: dict[tuple[int, ...], int] = {}
        for body, pose, colour in zip(surface.bodies, surface.poses, surface.colours, strict=True):
            key = tuple(int(c) for c in colour)
            if key not in mesh_of_colour:
                material = self.materials.setdefault(key, len(self.materials))
                mesh_of_colour[key] = len(self.meshes)
                self.meshes.append(
                    {"primitives": [{"attributes": attributes, "indices": indices, "material": material}]}
                )
            node: dict[str, Any] = {"mesh": mesh_of_colour[key]}
            if not np.array_equal(pose, np.eye(4)):
                node["translation"] = pose[:3, 3].tolist()
                node["rotation"] = _xyzw(spatial.quat_wxyz_from_matrix(pose[:3, :3])).tolist()
            self.nodes[int(body) + 1].setdefault("children", []).append(len(self.nodes))
            self.nodes.append(node)

    def _add_skin(self, skin: Skin, amplitudes: Array) -> None:
        """Adds a mesh with a morph target for each mode, and its node, which moves by the amplitudes (n, r)."""
        modes = np.moveaxis(skin.modes, 2, 0).astype(np.float32)
        positions, *targets = (
            {"POSITION": self._accessor(np.ascontiguousarray(values), "VEC3", VERTICES, bounds=True)}
            for values in (skin.undeformed.astype(np.float32), *modes)
        )
        primitive: dict[str, Any] = {
            "attributes": positions,
            "indices": self._accessor(skin.faces.reshape(-1), "SCALAR", INDICES),
            "material": self.materials.setdefault(COLOUR, len(self.materials)),
        }
        if targets:
            primitive["targets"] = targets
        names = {"targetNames": list(skin.coordinates)}  # not in the standard, but Blender and three.js read it
        self.nodes[skin.body + 1].setdefault("children", []).append(len(self.nodes))  # 0 is the world
        self.weights[len(self.nodes)] = amplitudes
        self.nodes.append({"name": skin.name, "mesh": len(self.meshes)})
        mesh: dict[str, Any] = {"primitives": [primitive]}
        self.meshes.append(mesh | ({"weights": amplitudes[0].tolist(), "extras": names} if targets else {}))

    def _animation(self) -> dict[str, Any]:
        recording = self.recording
        times = self._accessor((recording.times - recording.times[0]).astype(np.float32), "SCALAR", bounds=True)
        samplers: list[dict[str, Any]] = []
        channels: list[dict[str, Any]] = []

        def add_channel(node: int, path: str, values: NDArray[Any], kind: str) -> None:
            output = self._accessor(np.ascontiguousarray(values, dtype=np.float32), kind)
            channels.append({"sampler": len(samplers), "target": {"node": node, "path": path}})
            samplers.append({"input": times, "output": output, "interpolation": "LINEAR"})

        for i in range(len(recording.mechanism.bodies)):
            add_channel(i + 1, "translation", recording.positions[:, i], "VEC3")
            add_channel(i + 1, "rotation", _xyzw(recording.quats_wxyz[:, i]), "VEC4")
        for node, amplitudes in self.weights.items():
            if amplitudes.shape[1]:
                add_channel(node, "weights", amplitudes.reshape(-1), "SCALAR")
        return {"name": recording.method, "samplers": samplers, "channels": channels}

    def _accessor(self, values: NDArray[Any], kind: str, target: int | None = None, bounds: bool = False) -> int:
        view: dict[str, Any] = {"buffer": 0, "byteOffset": len(self.binary), "byteLength": values.nbytes}
        if target is not None:
            view["target"] = target
        self.binary += values.tobytes()
        self.views.append(view)
        component = UINT if values.dtype == np.uint32 else FLOAT
        accessor = {
            "bufferView": len(self.views) - 1, "componentType": component, "count": len(values), "type": kind
        }  # fmt: skip
        if bounds:
            flat = values.reshape(len(values), -1)
            accessor |= {"min": flat.min(axis=0).tolist(), "max": flat.max(axis=0).tolist()}
        self.accessors.append(accessor)
        return len(self.accessors) - 1


def _xyzw(quats_wxyz: NDArray[Any]) -> NDArray[Any]:
    """Quaternions with w last and unit length in single precision, as glTF requires."""
    quats = quats_wxyz[..., [1, 2, 3, 0]].astype(float)
    unit: NDArray[Any] = quats / np.linalg.norm(quats, axis=-1, keepdims=True)
    return unit


def _material(colour: tuple[int, ...]) -> dict[str, Any]:
    """A material of a colour in sRGB; glTF requires linear values."""
    seen = np.array(colour) / 255
    linear = np.where(seen <= 0.04045, seen / 12.92, ((seen + 0.055) / 1.055) ** 2.4)
    factors = {"baseColorFactor": [*linear.tolist(), 1.0], "metallicFactor": 0.1, "roughnessFactor": 0.7}
    return {"pbrMetallicRoughness": factors}


def _chunk(kind: bytes, content: bytes, padding: bytes) -> bytes:
    content += padding * (-len(content) % 4)
    return struct.pack("<I4s", len(content), kind) + content
