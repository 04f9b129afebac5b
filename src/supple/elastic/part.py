"""Elastic parts: a mesh of straight-sided 10-node tetrahedra with a material and named interfaces."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from supple.elastic import mesh
from supple.elastic._checks import Array, Indices, indices, numbers
from supple.elastic.basis import Basis
from supple.elastic.elements import Elements
from supple.elastic.frames import InterfaceFrame
from supple.elastic.interface import Interface
from supple.elastic.material import Material
from supple.errors import MechanismError, listed


@dataclass(frozen=True, eq=False, repr=False)
class Part:
    """An elastic part.

    Raises:
        MechanismError: inverted, degenerate, curved or unconnected tetrahedra; an interface off the mesh or with
            collinear nodes; a density that is not positive.
    """

    nodes: Array
    """(n, 3) positions at rest in the part's coordinates, m."""
    tets: Indices
    """(t, 10) nodes of each tetrahedron: its corners, then the middles of the edges 01, 12, 02, 03, 13, 23 (as in VTK
    and meshio). Tetrahedra with 4 corners (t, 4) are completed."""
    material: Material
    interfaces: Mapping[str, Indices]
    """By name: (f, 6) nodes of the interface's facets, corners then the middles of the edges 01, 12, 02. Facets may be
    given by their corners only (f, 3). The first interface is the default reference of a basis."""
    density: Array = None  # type: ignore[assignment]
    """(t,) kg/m^3 of each tetrahedron; one number or nothing (the material's) is spread over all."""
    basis: Basis | None = None

    def __post_init__(self) -> None:
        nodes = numbers(self.nodes, (-1, 3), "nodes of a part")
        tets = np.asarray(self.tets)
        width = tets.shape[-1] if tets.ndim == 2 and tets.shape[1] in (4, 10) else 10
        tets = indices(tets, (-1, width), len(nodes), "tetrahedra of a part")
        if width == 4:
            nodes, tets = mesh.with_edge_nodes(nodes, tets)
        mesh.check(nodes, tets)
        density = self.material.density if self.density is None else self.density
        per_tet = numbers(np.broadcast_to(density, len(tets)), (len(tets),), "density of a part")
        if not (per_tet > 0).all():
            e = int(np.argmin(per_tet))
            raise MechanismError(f"tetrahedron {e} has the density {per_tet[e]} kg/m^3; a density is positive")
        if not self.interfaces:
            raise MechanismError("a part needs an interface at least; name facets, e.g. interfaces={'start': facets}")
        facets = {str(name): mesh.completed_facets(nodes, tets, own, name) for name, own in self.interfaces.items()}
        values = {"nodes": nodes, "tets": tets, "density": per_tet, "interfaces": facets}
        for name, value in values.items():
            object.__setattr__(self, name, value)
        for name in facets:
            self.interface(name).check(name)
        if self.basis is not None and len(self.basis.modes) != len(nodes):
            raise MechanismError(
                f"the basis has {len(self.basis.modes)} nodes, the mesh has {len(nodes)}; make it again: "
                "part.with_basis()"
            )

    def __repr__(self) -> str:
        names = ", ".join(self.interfaces)
        modes = f", {self.basis.size} modes" if self.basis else ""
        return (
            f"Part({len(self.nodes)} nodes, {len(self.tets)} tetrahedra, {self.mass:.4g} kg, interfaces {names}{modes})"
        )

    # --- constants of the mesh --------------------------------------------------------------------------------------

    @cached_property
    def volumes(self) -> Array:
        """(t,) m^3."""
        return mesh.volumes(self.nodes, self.tets)

    @property
    def mass(self) -> float:
        """kg."""
        return float(self.volumes @ self.density)

    @cached_property
    def skin(self) -> Indices:
        """(f, 6) nodes of the outer facets, corners in counter-clockwise order seen from outside, then edge middles."""
        return mesh.outer_facets(self.tets)

    @cached_property
    def elements(self) -> Elements:
        """Element forces and tangents of all nodes, by the compiled core."""
        return Elements(self.nodes, self.tets, self.material)

    def mass_matrix(self) -> Any:
        """(n, n) consistent mass matrix of one displacement component, kg: a SciPy CSR matrix. All three components
        have the same one."""
        return self._mass_matrix

    @cached_property
    def _mass_matrix(self) -> Any:
        return mesh.mass_matrix(self.nodes, self.tets, self.density)

    def interface(self, name: str) -> Interface:
        """Integrals over the facets of an interface."""
        if name not in self.interfaces:
            raise MechanismError(f"the part has no interface '{name}'; it has {listed(list(self.interfaces))}")
        return self._interface(name)

    def _interface(self, name: str) -> Interface:
        cache: dict[str, Interface] = self.__dict__.setdefault("_interfaces", {})
        if name not in cache:
            cache[name] = Interface.of_facets(self.nodes, self.interfaces[name])
        return cache[name]

    def frame_of_nodes(self, name: str) -> InterfaceFrame:
        """Frame of an interface as a function of the displacements of its own nodes: z = the ravelled (m, 3)
        displacements of `part.interface(name).nodes`, m, in the part's coordinates."""
        return self.interface(name).frame()

    def frequencies(self, count: int = 6, reference: str | None = None) -> Array:
        """(count,) natural frequencies of the linearised full mesh, Hz, ascending. The centroid and mean rotation of
        the reference interface (default: that of the basis, else the first) are fixed, the other interfaces free."""
        from supple.elastic.modal import linear_modes

        return linear_modes(self, self._reference(reference), count)[0]

    def _reference(self, name: str | None) -> str:
        chosen = name or (self.basis.reference if self.basis else next(iter(self.interfaces)))
        self.interface(chosen)
        return chosen

    # --- reduction --------------------------------------------------------------------------------------------------

    def with_basis(
        self,
        modes: int | None = None,
        *,
        reference: str | None = None,
        method: str = "interface",
        snapshots: ArrayLike | None = None,
        cubature: int | None = None,
        deflection: float = 0.25,
        strain: float = 0.01,
        plane: str | None = None,
        seed: int = 0,
        progress: Callable[[float], None] | None = None,
    ) -> Part:
        """Returns a copy of the part with a basis of at most `modes` modes, in which the engine describes its shape.

        Args:
            modes: number of modes; fewer if fewer are independent. Default: 25 for two interfaces and six for each
                further one; with `plane` 8 and three.
            reference: interface that carries the body frame (default: the first).
            method: how the modes are made.
                "interface": static shapes under wrenches on the other interfaces (six each; with `plane` three), the
                derivatives of the slowest of them along one another, and natural modes with all interfaces held. The
                basis is compared with all nodes of the mesh under three combined loads.
                "linear": natural modes, for small vibrations. They resist large deflections by stretching.
            snapshots: (s, n, 3) nodal displacements in the part's coordinates, m, from a run of the full mesh; the
                modes are their principal components. Rigid motion is removed with the frame of the reference interface.
            cubature: number of quadrature points for the internal force, trained on static shapes. Default: the exact
                quartic energy for "stvk", all points for "neo-hookean".
            deflection: largest displacement of the shapes with which the basis is compared and on which cubature is
                trained, over the size of the part.
            strain: largest strain of these shapes, estimated linearly. The smaller limit of the two holds.
            plane: "x", "y" or "z", an axis of the part's coordinates: the part bends only in the plane normal to it
                and is rigid in all other directions.
            seed: of the loads of the static shapes for cubature.
            progress: called with the fraction done; default: a progress bar.

        Raises:
            MechanismError: no such interface or method; more modes than the snapshots span.
            ConvergenceError: a static shape was not found; allow smaller ones with `deflection` or `strain`.

        Warns:
            RangeWarning: the basis differs by more than 5 % from all nodes of the mesh (`basis.difference`).
        """
        from supple.elastic.comparison import warn_if_different
        from supple.elastic.reduction import build_basis

        basis = build_basis(
            self,
            modes,
            self._reference(reference),
            method=method,
            snapshots=snapshots,
            cubature=cubature,
            deflection=deflection,
            strain=strain,
            plane=plane,
            seed=seed,
            progress=progress,
        )
        warn_if_different(basis)
        return replace(self, basis=basis)

    def without_basis(self) -> Part:
        """The part without its basis."""
        return replace(self, basis=None)

    def rest_frame(self, name: str) -> Array:
        """(4, 4) from the frame of an interface to the part's coordinates at rest: its centroid, the part's axes."""
        pose = np.eye(4)
        pose[:3, 3] = self.interface(name).centroid
        return pose

    # --- files ------------------------------------------------------------------------------------------------------

    def save(self, path: str | PathLike[str]) -> None:
        """Writes the part, with its basis if it has one, to an `.npz` file; `supple.elastic.load` reads it."""
        from supple.elastic.part_files import save

        save(self, path)
