"""The <visual> and <collision> elements of URDF links: shapes, meshes and colours."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import numpy as np

from supple.mechanism.io import mesh_files
from supple.mechanism.io.collada import Surface
from supple.mechanism.io.mjcf_report import Names, Report
from supple.mechanism.io.urdf_values import number, numbers, origin
from supple.mechanism.io.xml_tree import Element
from supple.mechanism.record import Array
from supple.mechanism.shapes import Mesh, Shape

ONLY_DRAWN = {"contact_type": 0, "contact_affinity": 0}


class ShapeReader:
    """Reads the shapes of links; each mesh file is read once for each scale."""

    def __init__(self, root: Element, folder: Path, report: Report) -> None:
        self.folder, self.report = folder, report
        self.meshes: list[Mesh] = []
        self._names = Names()
        self._files: dict[Path, list[Surface] | str] = {}
        self._scaled: dict[tuple[Path, tuple[float, ...], bool], list[tuple[str, Any]]] = {}
        self._colours = {e.attributes.get("name", ""): self._colour(e) for e in root.find_all("material")}
        compilers = [e for extension in root.find_all("mujoco") for e in extension.find_all("compiler")]
        self._mesh_folder = next((e.attributes["meshdir"] for e in compilers if "meshdir" in e.attributes), "")

    def shapes(self, link: Element, name: str) -> list[Shape]:
        """The shapes of a link; what cannot be used is reported."""
        found: list[Shape] = []
        for part in link.find_all("visual", "collision"):
            geometry = part.find("geometry")
            forms = [] if geometry is None else geometry.children
            if len(forms) != 1:
                self.report.add(f"{part.tag} of link", name, "has no geometry; left out")
                continue
            common: dict[str, Any] = {"name": part.attributes.get("name") or None, "pose": origin(part)}
            if part.tag == "visual":
                common |= ONLY_DRAWN
            rgba = self._own_colour(part)
            found += self._of_form(forms[0], part.tag, name, common, rgba)
        return found

    def _own_colour(self, part: Element) -> Array | None:
        """Colour of a visual: its own, or that of the robot's material of the same name."""
        material = part.find("material")
        if material is None:
            return None
        own = self._colour(material)
        return self._colours.get(material.attributes.get("name", "")) if own is None else own

    def _colour(self, material: Element) -> Array | None:
        """Colour of a <material>; three numbers are opaque, and what is not a colour is reported."""
        colour = material.find("color")
        if colour is None:
            return None
        given = colour.attributes.get("rgba", "")
        try:
            values = [float(token) for token in given.split()]
        except ValueError:
            values = []
        if len(values) not in (3, 4) or not np.isfinite(values).all():
            name = material.attributes.get("name", "")
            self.report.add("material", name, f'rgba="{given:.60}" is not a colour; left out')
            return None
        return np.clip([*values, 1.0][:4], 0.0, 1.0)

    def _of_form(self, form: Element, tag: str, link: str, common: dict[str, Any], rgba: Array | None) -> list[Shape]:
        if form.tag == "mesh":
            return self._of_mesh(form, tag, link, common, rgba)
        match form.tag:
            case "box":
                size = numbers(form, "size", (0.0, 0.0, 0.0)) / 2
            case "sphere":
                size = np.array([number(form, "radius", 0.0)])
            case "cylinder" | "capsule":
                size = np.array([number(form, "radius", 0.0), number(form, "length", 0.0) / 2])
            case _:
                self.report.add(f"{tag} of link", link, f"<{form.tag}> is not a known shape; left out")
                return []
        if (size <= 0).any():
            self.report.add(f"{tag} of link", link, f"its {form.tag} has a size of zero or less; left out")
            return []
        colour: dict[str, Any] = {} if rgba is None else {"rgba": rgba}
        return [Shape(form.tag, size, **common, **colour)]

    # meshes

    def _of_mesh(self, form: Element, tag: str, link: str, common: dict[str, Any], rgba: Array | None) -> list[Shape]:
        file = form.attributes.get("filename", "")
        if not file.strip():
            self.report.add(f"{tag} of link", link, "its mesh has no filename; left out")
            return []
        path = self._located(form, file)
        if path is None:
            self.report.add("mesh file", file, "is not there; the shapes that use it are left out")
            return []
        surfaces = self._read(path)
        if isinstance(surfaces, str):
            self.report.add("mesh file", file, f"{surfaces}; the shapes that use it are left out")
            return []
        scale = numbers(form, "scale", (1.0, 1.0, 1.0))
        if not scale.all():
            self.report.add(f"{tag} of link", link, "its mesh has the scale zero; left out")
            return []
        shapes = []
        touching = tag == "collision"
        for mesh, own in self._scaled_meshes(path, surfaces, scale, touching):
            colour = {"rgba": rgba if rgba is not None else own} if rgba is not None or own is not None else {}
            shapes.append(Shape("mesh", (), mesh=mesh, **common, **colour))  # type: ignore[arg-type]
        if touching and shapes and not _has_volume(self._mesh(shapes[0].mesh)):
            self.report.add("collision of link", link, "its mesh has no volume; it is drawn but touches nothing")
            shapes = [Shape("mesh", (), mesh=s.mesh, **common, **ONLY_DRAWN) for s in shapes]  # type: ignore[arg-type]
        return shapes

    def _mesh(self, name: str | None) -> Mesh:
        return next(mesh for mesh in self.meshes if mesh.name == name)

    def _read(self, path: Path) -> list[Surface] | str:
        """The surfaces of a file, or why it cannot be used."""
        if path not in self._files:
            try:
                self._files[path] = mesh_files.read(path)
            except mesh_files.UnreadableMesh as error:
                self._files[path] = str(error)
        return self._files[path]

    def _scaled_meshes(
        self, path: Path, surfaces: list[Surface], scale: Array, touching: bool
    ) -> list[tuple[str, Any]]:
        """Names and colours of the meshes for a file: one for each colour to draw, one altogether to touch."""
        one_colour = len(surfaces) == 1
        key = (path, tuple(map(float, scale)), touching and not one_colour)
        if key not in self._scaled:
            entries = []
            for surface in [mesh_files.merged(surfaces)] if key[2] else surfaces:
                faces = surface.faces if np.prod(scale) > 0 else surface.faces[:, ::-1]
                name = self._names.make_unique(path.stem.strip() or "mesh")
                self.meshes.append(Mesh(name, surface.vertices * scale, faces))
                entries.append((name, surface.rgba))
            self._scaled[key] = entries
        return [(name, None if touching else rgba) for name, rgba in self._scaled[key]]

    def _located(self, form: Element, name: str) -> Path | None:
        """The mesh file; raises if it is too large."""
        for place in self._places(name):
            try:
                if not place.is_file():
                    continue
                size = place.stat().st_size
            except (OSError, ValueError):
                continue
            if size > mesh_files.MAX_MESH_BYTES:
                limit = mesh_files.MAX_MESH_BYTES >> 20
                form.fail(f"the mesh '{name}' has {size >> 20} MiB, more than the {limit} allowed; simplify it")
            return place
        return None

    def _places(self, name: str) -> list[Path]:
        """Where a mesh may be: a path from the file's folder, or `package://name/path` in the folders above it and in
        those of ROS_PACKAGE_PATH and AMENT_PREFIX_PATH."""
        plain = re.sub(r"^(package|file|model)://", "", name)
        if name.startswith("file://"):
            return [self.folder / plain]
        above = [self.folder, *self.folder.resolve().parents]
        places = [self.folder / self._mesh_folder / plain, *(place / plain for place in above)]
        if name != plain:
            within = plain.split("/", 1)[-1]
            ros = [Path(p) for p in os.environ.get("ROS_PACKAGE_PATH", "").split(os.pathsep) if p]
            ament = [Path(p) / "share" for p in os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep) if p]
            places += [place / plain for place in (*ros, *ament)]
            places += [place / within for place in above]
        return [*places, self.folder / self._mesh_folder / Path(plain).name]


def _has_volume(mesh: Mesh) -> bool:
    """Whether the vertices are not all in one plane."""
    if len(mesh.vertices) < 4:
        return False
    extents = np.linalg.svd(mesh.vertices - mesh.vertices.mean(axis=0), compute_uv=False)
    return bool(extents[2] > 1e-9 * extents[0])
