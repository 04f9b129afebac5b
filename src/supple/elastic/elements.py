"""Forces and tangent stiffness of all nodes of a mesh, by the compiled core."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from supple.elastic._checks import Array, Indices
from supple.elastic._compiled import Compiled
from supple.elastic.material import Material
from supple.errors import MechanismError


@dataclass(frozen=True, eq=False)
class Elements(Compiled):
    """The elastic energy of a mesh and its derivatives by nodal displacements. Each tetrahedron has 4 quadrature
    points."""

    nodes: Array
    """(n, 3) positions at rest, m."""
    tets: Indices
    """(t, 10)."""
    material: Material

    @cached_property
    def core(self) -> Any:
        """The compiled evaluator (`supple::Elements`); it sums over elements on all threads, always in the same
        order."""
        from supple import _core

        tets = np.ascontiguousarray(self.tets, dtype=np.int32)
        return _core.Elements(
            np.ascontiguousarray(self.nodes), tets, self.material.law == "stvk", *self.material.law_numbers
        )

    def energy(self, u: Array) -> float:
        """Elastic energy at nodal displacements u (n, 3), J."""
        return float(self.core.forces(np.ascontiguousarray(u))[0])

    def forces(self, u: Array, *, allow_inverted: bool = False) -> Array:
        """(n, 3) gradient of the energy at nodal displacements u (n, 3), N. The elastic forces are its opposite.

        Raises:
            MechanismError: a tetrahedron is inverted (unless allowed).
        """
        _, forces, inverted = self.core.forces(np.ascontiguousarray(u))
        self._check(inverted, allow_inverted)
        return np.asarray(forces)

    def tangent(self, u: Array, *, last_step: Array | None = None, allow_inverted: bool = False) -> tuple[Array, Any]:
        """Gradient (n, 3), N, and second derivative (3n, 3n), N/m, of the energy at u (n, 3).

        The second is a SciPy BSR array with blocks of 3 x 3 and always the same pattern; no later call overwrites its
        data. `last_step` (n, 3) is the last step of Newton's method. The geometric stiffness then uses the stress that
        the step before predicted, with which Newton's method needs far fewer iterations when slender parts turn (St.
        Venant-Kirchhoff).

        Raises:
            MechanismError: a tetrahedron is inverted (unless allowed).
        """
        from scipy.sparse import bsr_array

        u = np.ascontiguousarray(u)
        if last_step is None:
            _, forces, blocks, inverted = self.core.tangent(u)
        else:
            _, forces, blocks, inverted = self.core.tangent_after(u, np.ascontiguousarray(last_step))
        self._check(inverted, allow_inverted)
        rows, columns = self._pattern
        n = 3 * len(self.nodes)
        return np.asarray(forces), bsr_array((blocks, columns, rows), shape=(n, n))

    @cached_property
    def _pattern(self) -> tuple[Any, Any]:
        rows, columns = self.core.pattern()
        return np.asarray(rows), np.asarray(columns)

    def inverted(self, u: Array) -> int:
        """A tetrahedron with non-positive volume at a quadrature point at displacements u (n, 3), the worst one; -1 if
        none."""
        return int(self.core.forces(np.ascontiguousarray(u))[2])

    def modal_gradients(self, modes: Array) -> tuple[Array, Array]:
        """(4t, 3, 3, r) derivative of the deformation gradient by each amplitude at all quadrature points, 1/m, and
        their volumes (4t,), m^3, for modes (n, 3, r)."""
        shape, volume = self.core.gradients()  # (t, 4, 10, 3), (t, 4)
        shape, volume = np.asarray(shape), np.asarray(volume)
        t, _, _, r = *shape.shape[:2], 0, modes.shape[2]
        own = modes[self.tets]  # (t, 10, 3, r)
        gradients = np.matmul(shape.transpose(0, 1, 3, 2).reshape(t, 12, 10), own.reshape(t, 10, 3 * r))
        return gradients.reshape(t, 4, 3, 3, r).transpose(0, 1, 3, 2, 4).reshape(4 * t, 3, 3, r), volume.ravel()

    def _check(self, inverted: int, allowed: bool) -> None:
        if inverted >= 0 and not allowed:
            raise MechanismError(
                f"tetrahedron {inverted} with corners {self.tets[inverted, :4].tolist()} is inverted by the "
                "deformation; take "
                "smaller steps or loads, a finer mesh, or the law 'neo-hookean'"
            )
