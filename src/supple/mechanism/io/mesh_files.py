"""Reads triangle meshes for drawing and contact: STL and OBJ (and others) through trimesh, COLLADA by `collada`."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supple.mechanism.io import collada
from supple.mechanism.io.collada import Surface
from supple.mechanism.record import Array

FORMATS = (".stl", ".obj", ".ply", ".off", ".dae")
MAX_MESH_BYTES = 1 << 30


class UnreadableMesh(Exception):
    """Why a mesh file cannot be used; the caller names the file."""


def read(path: Path) -> list[Surface]:
    """Triangles of a mesh file, one surface for each colour. Raises `UnreadableMesh`.

    The caller has checked that the file is not larger than MAX_MESH_BYTES.
    """
    suffix = path.suffix.lower()
    if suffix not in FORMATS:
        raise UnreadableMesh(f"its format is not one of {', '.join(FORMATS)}: convert it")
    try:
        surfaces = collada.read(path) if suffix == ".dae" else [_read_by_trimesh(path.read_bytes(), suffix[1:])]
    except OSError as error:
        raise UnreadableMesh(f"it cannot be read ({error.strerror or error})") from None
    except ImportError:
        raise UnreadableMesh("reading it needs trimesh: pip install 'supple[all]'") from None
    except Exception as error:  # trimesh raises errors of many kinds for damaged files
        raise UnreadableMesh(f"it is damaged ({str(error)[:100] or type(error).__name__})") from None
    surfaces = [s for s in surfaces if len(s.faces) and np.isfinite(s.vertices).all()]
    if not surfaces:
        raise UnreadableMesh("it has no triangles")
    return surfaces


def merged(surfaces: list[Surface]) -> Surface:
    """All triangles as one surface without colour."""
    if len(surfaces) == 1:
        return Surface(surfaces[0].vertices, surfaces[0].faces, None)
    starts = np.cumsum([0, *(len(s.vertices) for s in surfaces)])
    faces = np.concatenate([s.faces + np.int32(start) for s, start in zip(surfaces, starts, strict=False)])
    return Surface(np.concatenate([s.vertices for s in surfaces]), faces, None)


def _read_by_trimesh(data: bytes, kind: str) -> Surface:
    import trimesh

    options: dict[str, Any] = {"skip_materials": True} if kind == "obj" else {}
    found: Any = trimesh.load(io.BytesIO(data), file_type=kind, process=False, force="mesh", **options)
    vertices, faces = np.asarray(found.vertices, dtype=np.float64), np.asarray(found.faces)
    return _without_repetition(vertices, faces)


def _without_repetition(vertices: Array, faces: NDArray[np.int64]) -> Surface:
    """Gives equal vertices one index: STL repeats a vertex for each of its triangles."""
    if not len(vertices):
        return Surface(vertices.reshape(-1, 3), np.zeros((0, 3), np.int32), None)
    order = np.lexsort(vertices.T)
    is_new = np.concatenate([[True], (np.diff(vertices[order], axis=0) != 0).any(axis=1)])
    index = np.empty(len(vertices), dtype=np.int32)
    index[order] = np.cumsum(is_new) - 1
    return Surface(vertices[order[is_new]], index[faces], None)
