"""MuJoCo's geoms and meshes as shapes."""

from __future__ import annotations

from typing import cast

import numpy as np

from supple.mechanism.io.compiler import Model
from supple.mechanism.io.mjcf_joints import pose
from supple.mechanism.io.mjcf_report import Report
from supple.mechanism.record import Array
from supple.mechanism.shapes import SIZES, Kind, Mesh, Shape

KINDS = {0: "plane", 2: "sphere", 3: "capsule", 4: "ellipsoid", 5: "cylinder", 6: "box", 7: "mesh"}
OTHERS = {1: "height field", 8: "signed distance field"}
DEFAULT_RGBA = (0.5, 0.5, 0.5, 1.0)
"""A geom with this colour shows that of its material."""


def read_meshes(model: Model, names: list[str]) -> tuple[Mesh, ...]:
    """Meshes as compiled: centred and turned to their principal axes, which the geoms' poses undo."""
    meshes = []
    for m, name in enumerate(names):
        vertices, faces = (
            getattr(model, f"mesh_{what}")[start : start + count]
            for what, start, count in (
                ("vert", model.mesh_vertadr[m], model.mesh_vertnum[m]),
                ("face", model.mesh_faceadr[m], model.mesh_facenum[m]),
            )
        )
        meshes.append(Mesh(name, vertices.astype(float), faces))
    return tuple(meshes)


def read_shapes(model: Model, names: list[str], mesh_names: list[str], report: Report) -> dict[int, list[Shape]]:
    """Shapes by MuJoCo's body index."""
    shapes: dict[int, list[Shape]] = {}
    for g, name in enumerate(names):
        kind = int(model.geom_type[g])
        if kind in OTHERS:
            report.add(f"{OTHERS[kind]} geom", name or f"geom{g}", "not imported; use a mesh")
            continue
        shapes.setdefault(int(model.geom_bodyid[g]), []).append(
            Shape(
                cast(Kind, KINDS[kind]),
                model.geom_size[g, : SIZES[KINDS[kind]]],
                pose(model.geom_pos[g], model.geom_quat[g]),
                mesh=mesh_names[model.geom_dataid[g]] if KINDS[kind] == "mesh" else None,
                name=name or None,
                rgba=_colour(model, g),
                friction=model.geom_friction[g],
                contact_type=int(model.geom_contype[g]) & 0xFFFFFFFF,
                contact_affinity=int(model.geom_conaffinity[g]) & 0xFFFFFFFF,
            )
        )
    return shapes


def _colour(model: Model, g: int) -> Array:
    own, material = model.geom_rgba[g], int(model.geom_matid[g])
    rgba = model.mat_rgba[material] if material >= 0 and tuple(own) == DEFAULT_RGBA else own
    return np.round(np.asarray(rgba, dtype=float), 7)  # written as decimals, stored in single precision
