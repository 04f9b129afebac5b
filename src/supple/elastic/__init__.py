"""Elastic parts: meshes of 10-node tetrahedra, materials, finite elements and reduced bases.

A `Part` is a mesh with a material and named interfaces. `part.with_basis()` reduces it to a few modal amplitudes, from
which the engine simulates it as a body among others.
"""

from supple.elastic.basis import Basis, InternalForce
from supple.elastic.frames import FrameMotion, InterfaceFrame
from supple.elastic.material import Material, aluminium, brass, spring_steel
from supple.elastic.mesh_files import from_mesh, from_surface
from supple.elastic.part import Part
from supple.elastic.part_files import load
from supple.elastic.shapes import bar, plate, rod, tube
from supple.elastic.solid import Solid
from supple.elastic.solid_files import fill_surface, read_solid

__all__ = [
    "Basis",
    "FrameMotion",
    "InterfaceFrame",
    "InternalForce",
    "Material",
    "Part",
    "Solid",
    "aluminium",
    "bar",
    "brass",
    "fill_surface",
    "from_mesh",
    "from_surface",
    "load",
    "plate",
    "read_solid",
    "rod",
    "spring_steel",
    "tube",
]
