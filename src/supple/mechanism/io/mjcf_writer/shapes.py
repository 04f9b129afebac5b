"""Shapes and meshes as geoms and assets."""

from __future__ import annotations

from typing import Any

import numpy as np

from supple import spatial
from supple.mechanism.io.mjcf_writer.plan import Plan
from supple.mechanism.io.mjcf_writer.xml import Element
from supple.mechanism.io.restitution import solref_of_restitution
from supple.mechanism.record import Array
from supple.mechanism.shapes import HeightField, Mesh, Shape


class Shapes:
    """Fills <asset>, and knows which meshes MuJoCo accepts."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.assets = Element("asset")
        self.flat: set[str] = set()
        self.names = plan.names.reserve("mesh", [mesh.name for mesh in plan.mech.meshes])
        self.unusable = {mesh.name for mesh in plan.mech.meshes if not self._asset(mesh)}

    def _asset(self, mesh: Mesh) -> bool:
        if not len(mesh.faces):
            return False
        vertices = mesh.vertices
        span = np.linalg.svd(vertices - vertices.mean(axis=0), compute_uv=False)
        if len(vertices) < 4 or span[2] <= 1e-6 * span[0]:
            self.flat.add(mesh.name)
        if len(vertices) < 4:  # MuJoCo needs at least four
            vertices = np.concatenate([vertices, vertices[:1].repeat(4 - len(vertices), axis=0)])
        corners = mesh.vertices[mesh.faces]
        area = np.linalg.norm(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1).sum() / 2
        if area <= 1e-12:
            return False
        # "shell": the inertia is given by the body, and a volume may be zero
        face = " ".join(map(str, mesh.faces.ravel()))
        self.assets.add("mesh", name=self.names[mesh.name], inertia="shell", vertex=vertices, face=face)
        return True

    def add(self, parent: Element, shapes: tuple[Shape, ...], where: str, static: bool) -> None:
        """Geoms for the shapes of a body."""
        for shape in shapes:
            what = f"shape '{shape.name}'" if shape.name else f"a {shape.kind}"
            if shape.kind == "plane" and not static:
                self.plan.notes.append(f"{what} of '{where}' is omitted: MuJoCo has no moving planes")
            elif shape.mesh in self.unusable:
                self.plan.notes.append(f"{what} of '{where}' is omitted: the faces of its mesh have no area")
            else:
                self._geom(parent, shape, where, what)

    def add_height_fields(self, world: Element, fields: tuple[HeightField, ...]) -> None:
        """Adds height fields; MuJoCo takes heights from 0 to 1, the row of the largest y first."""
        for field in fields:
            low, span = float(field.heights.min()), float(np.ptp(field.heights))
            name = self.plan.names.new("hfield", field.name or "field")
            rows, columns = field.heights.shape
            self.assets.add("hfield", name=name, nrow=rows, ncol=columns, size=(*field.size, span or 1.0, 1.0),
                            elevation=((field.heights - low) / (span or 1.0))[::-1].ravel())  # fmt: skip
            world.add(
                "geom",
                name=self.plan.names.new("geom", field.name) if field.name else None,
                type="hfield",
                hfield=name,
                **pose_attributes(field.pose @ spatial.translation([0.0, 0.0, low])),
                friction=field.friction,
                contype=_signed(field.contact_type),
                conaffinity=_signed(field.contact_affinity),
                **_law(field),
            )

    def _geom(self, parent: Element, shape: Shape, where: str, what: str) -> None:
        masks: tuple[int, int] = shape.contact_type, shape.contact_affinity
        if shape.mesh in self.flat and shape.touches:
            masks = 0, 0
            self.plan.notes.append(f"{what} of '{where}' touches nothing: its mesh is flat")
        size = shape.size
        if shape.kind == "plane" and size[2] == 0:
            size = np.array([size[0], size[1], 1.0])
        parent.add(
            "geom",
            name=self.plan.names.new("geom", shape.name) if shape.name else None,
            type=shape.kind,
            mesh=self.names[shape.mesh] if shape.mesh else None,
            size=size if len(size) else None,
            **pose_attributes(shape.pose),
            rgba=shape.rgba,
            friction=shape.friction,
            contype=_signed(masks[0]),
            conaffinity=_signed(masks[1]),
            **_law(shape),
        )


def pose_attributes(pose: Array) -> dict[str, Any]:
    """Attributes pos and quat; None where they are the default."""
    turned = not np.array_equal(pose[:3, :3], np.eye(3))
    return {
        "pos": pose[:3, 3] if pose[:3, 3].any() else None,
        "quat": spatial.quat_wxyz_from_matrix(pose[:3, :3]) if turned else None,
    }


def _law(shape: Shape | HeightField) -> dict[str, Any]:
    """Attributes condim, priority and solref; None where they are the default."""
    return {
        "condim": shape.condim if shape.condim != 3 else None,
        "priority": shape.priority or None,
        "solref": solref_of_restitution(shape.restitution),
    }


def _signed(mask: int) -> int:
    """MuJoCo reads 32-bit integers with a sign."""
    return mask - 2**32 if mask >= 2**31 else mask
