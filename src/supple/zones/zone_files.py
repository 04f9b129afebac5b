"""Zones as `.npz` files: mesh, marks, material and Green's functions; arrays and JSON text, no pickle."""

from __future__ import annotations

import json
import zipfile
import zlib
from dataclasses import asdict, fields
from os import PathLike, fspath
from types import MappingProxyType
from typing import Any

import numpy as np

from supple.elastic._checks import indices, numbers
from supple.elastic.material import Material
from supple.elastic.solid import Solid
from supple.errors import MechanismError
from supple.zones.greens import GreensFunctions, greens_shapes, locked
from supple.zones.zone import Zone

FORMAT, VERSION = "supple-zone", 1
LARGEST = 2**32
"""Largest size of a file's unpacked arrays, bytes."""
UNREADABLE = (OSError, EOFError, ValueError, KeyError, TypeError, AttributeError, zipfile.BadZipFile, zlib.error)
"""What reading a damaged file may raise."""


def save(zone: Zone, path: str | PathLike[str]) -> None:
    """Writes a zone of a mesh with its Green's functions, which are computed now if they are not known yet."""
    if zone.solid is None or zone.material is None:
        raise MechanismError("only zones of a mesh can be saved; keep the compliance that this one was made from")
    header = {
        "format": FORMAT,
        "version": VERSION,
        "material": asdict(zone.material),
        "bones": list(zone.bones),
        "groups": list(zone.solid.groups),
    }
    arrays: dict[str, Any] = {"header": np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)}
    arrays |= {"nodes": zone.solid.nodes, "cells": zone.solid.cells, "seam": zone.seam, "touch": zone.touch}
    arrays |= {f"bone/{i}": own for i, own in enumerate(zone.bones.values())}
    arrays |= {f"group/{i}": own for i, own in enumerate(zone.solid.groups.values())}
    arrays |= {f"greens/{field.name}": getattr(zone.greens, field.name) for field in fields(GreensFunctions)}
    where = fspath(path)
    try:
        with open(where, "wb") as file:
            np.savez_compressed(file, **arrays)
    except OSError as error:
        raise MechanismError(f"cannot write {where}: {error.strerror or error}") from None


def load(path: str | PathLike[str]) -> Zone:
    """Reads a zone that `zone.save` wrote.

    Raises:
        MechanismError: no such file, not a zone, damaged, or written by a newer supple.
    """
    where = fspath(path)
    try:
        with zipfile.ZipFile(where) as archive:
            if sum(item.file_size for item in archive.infolist()) > LARGEST:
                raise MechanismError(f"{where} is too large for a zone")
        with np.load(where, allow_pickle=False) as arrays:
            return _zone(json.loads(arrays["header"].tobytes().decode()), arrays)
    except FileNotFoundError:
        raise MechanismError(f"there is no file {where}") from None
    except MechanismError as error:
        raise MechanismError(f"{where} is not a zone that can be used: {error}") from None
    except UNREADABLE as error:
        raise MechanismError(f"{where} is not a zone, or is damaged ({error}); make it again") from None


def _zone(header: dict[str, Any], arrays: Any) -> Zone:
    if header["format"] != FORMAT:
        raise MechanismError("it is a file of another kind")
    if header["version"] != VERSION:
        raise MechanismError(f"version {header['version']} needs a newer supple")
    groups = {str(name): arrays[f"group/{i}"] for i, name in enumerate(header["groups"])}
    solid = Solid(arrays["nodes"], arrays["cells"], groups)
    count = len(solid.nodes)
    seam, touch = (indices(arrays[name], (-1,), count, f"{name} nodes") for name in ("seam", "touch"))
    bones = {
        str(name): indices(arrays[f"bone/{i}"], (-1,), count, f"nodes of bone '{name}'")
        for i, name in enumerate(header["bones"])
    }
    zone = Zone(solid.nodes, MappingProxyType(bones), seam, touch, solid, Material(**header["material"]))
    shapes = greens_shapes(zone)
    values = {name: numbers(arrays[f"greens/{name}"], shape, f"'{name}'") for name, shape in shapes.items()}
    zone.__dict__["greens"] = locked(**values)
    return zone
