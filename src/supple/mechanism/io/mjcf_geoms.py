"""MuJoCo's geoms and meshes as shapes."""

from __future__ import annotations

from typing import cast

import numpy as np

from supple.mechanism.io.compiler import Model
from supple.mechanism.io.mjcf_joints import pose
from supple.mechanism.io.mjcf_report import Report
from supple.mechanism.io.restitution import restitution_of_solref
from supple.mechanism.record import Array
from supple.mechanism.shapes import SIZES, HeightField, Kind, Mesh, Shape

HEIGHT_FIELD = 1
KINDS = {0: "plane", 2: "sphere", 3: "capsule", 4: "ellipsoid", 5: "cylinder", 6: "box", 7: "mesh"}
OTHERS = {HEIGHT_FIELD: "height field", 8: "signed distance field"}
DEFAULT_RGBA = (0.5, 0.5, 0.5, 1.0)
"""A geom with this colour is drawn in the colour of its material."""


def read_meshes(model: Model, names: list[str]) -> tuple[Mesh, ...]:
    """Meshes as compiled: MuJoCo moves them to their centre and principal axes, and the geoms' poses compensate."""
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
        if kind == HEIGHT_FIELD and _is_static(model, int(model.geom_bodyid[g])):
            continue
        if kind in OTHERS:
            what = f"{OTHERS[kind]} geom" + (" of a moving body" if kind == HEIGHT_FIELD else "")
            report.add(what, name or f"geom{g}", "not imported; use a mesh")
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
                condim=int(model.geom_condim[g]),
                restitution=restitution_of_solref(*map(float, model.geom_solref[g])),
                priority=int(model.geom_priority[g]),
            )
        )
    return shapes


def read_height_fields(model: Model, names: list[str], poses: Array) -> tuple[HeightField, ...]:
    """Height fields of the world and of bodies that no joint moves; `poses` (bodies, 4, 4) are the bodies' poses."""
    fields = []
    for g, name in enumerate(names):
        body, asset = int(model.geom_bodyid[g]), int(model.geom_dataid[g])
        if int(model.geom_type[g]) != HEIGHT_FIELD or not _is_static(model, body):
            continue
        start, rows, columns = (int(model.arrays[f"hfield_{what}"][asset]) for what in ("adr", "nrow", "ncol"))
        heights = model.hfield_data[start : start + rows * columns].astype(float)  # from 0 to 1
        half_x, half_y, height, _ = model.hfield_size[asset]
        fields.append(
            HeightField(
                height * heights.reshape(rows, columns),
                (half_x, half_y),  # type: ignore[arg-type]
                poses[body] @ pose(model.geom_pos[g], model.geom_quat[g]),
                name=name or None,
                friction=model.geom_friction[g],
                contact_type=int(model.geom_contype[g]) & 0xFFFFFFFF,
                contact_affinity=int(model.geom_conaffinity[g]) & 0xFFFFFFFF,
                condim=int(model.geom_condim[g]),
                restitution=restitution_of_solref(*map(float, model.geom_solref[g])),
                priority=int(model.geom_priority[g]),
            )
        )
    return tuple(fields)


def _is_static(model: Model, body: int) -> bool:
    """Whether no joint moves the body."""
    while body:
        if model.body_jntnum[body]:
            return False
        body = int(model.body_parentid[body])
    return True


def _colour(model: Model, g: int) -> Array:
    own, material = model.geom_rgba[g], int(model.geom_matid[g])
    rgba = model.mat_rgba[material] if material >= 0 and tuple(own) == DEFAULT_RGBA else own
    return np.round(np.asarray(rgba, dtype=float), 7)  # undoes the rounding to single precision
