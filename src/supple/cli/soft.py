"""`supple zone` and `supple probe`."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from supple import spatial
from supple.cli.options import REGION
from supple.elastic import Material
from supple.elastic.solid_files import read_solid
from supple.errors import MechanismError
from supple.mechanism import Shape
from supple.zones import Zone
from supple.zones.marks import Mark

SHAPES = {"box": 6, "sphere": 4, "below": 1}
"""Numbers of each kind of region."""


def region(text: str) -> Mark:
    """The nodes that a text of the command line marks: see `REGION`."""
    kind, colon, rest = text.partition(":")
    if not colon:
        return text
    if kind not in SHAPES:
        raise MechanismError(f"'{text}' is no region; write {REGION}")
    try:
        numbers = [float(value) for value in rest.split(",")]
    except ValueError:
        numbers = []
    if len(numbers) != SHAPES[kind] or not np.isfinite(numbers).all():
        raise MechanismError(f"'{text}': {kind} needs {SHAPES[kind]} numbers; write {REGION}")
    if kind == "below":
        return lambda x: x[:, 2] <= numbers[0]
    middle = spatial.translation(np.array(numbers[:3]))
    return Shape("box" if kind == "box" else "sphere", np.array(numbers[3:]), middle)


def zone_from_file(
    path: Path,
    bone: str,
    touch: str | None,
    young: float,
    poisson: float,
    scale: float,
    edge_length: float | None,
) -> Zone:
    """A zone of a mesh file; by default its whole surface may be touched."""
    solid = read_solid(path, scale=scale, edge_length=edge_length)
    material = Material(young=young, poisson=poisson, density=1000.0)
    skin: Mark = solid.surface if touch is None else region(touch)
    return Zone.from_solid(solid, material, bone=region(bone), touch=skin)
