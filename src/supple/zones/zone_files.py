"""Zones as `.npz` files: mesh, marks, material and Green's functions; arrays and JSON text, no pickle."""

from __future__ import annotations

from dataclasses import asdict, fields
from os import PathLike
from types import MappingProxyType
from typing import Any

from supple.elastic._checks import indices, numbers
from supple.elastic.material import Material
from supple.elastic.solid import Solid
from supple.errors import MechanismError
from supple.files import Format, reading, write_archive
from supple.zones.greens import GreensFunctions, greens_shapes, locked
from supple.zones.zone import Zone

FORMAT = Format("supple-zone", 1, "a zone", "zone.save(path)", largest=2**32)


def save(zone: Zone, path: str | PathLike[str]) -> None:
    """Writes a zone of a mesh with its Green's functions, which are computed now if they are not known yet."""
    if zone.solid is None or zone.material is None:
        raise MechanismError("only zones of a mesh can be saved; keep the compliance that this one was made from")
    header = {
        "material": asdict(zone.material),
        "bones": list(zone.bones),
        "groups": list(zone.solid.groups),
    }
    solid = zone.solid
    arrays: dict[str, Any] = {"nodes": solid.nodes, "cells": solid.cells, "seam": zone.seam, "touch": zone.touch}
    arrays |= {f"bone/{i}": own for i, own in enumerate(zone.bones.values())}
    arrays |= {f"group/{i}": own for i, own in enumerate(solid.groups.values())}
    arrays |= {f"greens/{field.name}": getattr(zone.greens, field.name) for field in fields(GreensFunctions)}
    write_archive(path, FORMAT, header, arrays)


def load(path: str | PathLike[str]) -> Zone:
    """Reads a zone that `zone.save` wrote.

    Raises:
        MechanismError: no such file, not a zone, damaged, or written by a newer supple.
    """
    with reading(path, FORMAT) as (header, arrays):
        return _zone(header, arrays)


def _zone(header: dict[str, Any], arrays: dict[str, Any]) -> Zone:
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
