"""Internal forces of reduced bases: exact quartic energies and cubature."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np

from supple.elastic._checks import Array
from supple.elastic._compiled import Compiled


@dataclass(frozen=True, eq=False)
class InternalForce:
    """Elastic energy and its derivatives at amplitudes eta."""

    energy: float
    """J."""
    force: Array
    """(r,) gradient of the energy, N. The elastic force on the amplitudes is its opposite."""
    tangent: Array
    """(r, r) second derivative of the energy, symmetric, N/m."""


@dataclass(frozen=True, eq=False)
class QuarticForce(Compiled):
    """The exact energy of St. Venant-Kirchhoff material, a polynomial of degree four:

    U = 1/2 K2_kl e_k e_l + 1/6 K3_klm e_k e_l e_m + 1/24 K4_klmn e_k e_l e_m e_n, all tensors symmetric. Pairs k >=
    l are packed in the order (0, 0), (1, 0), (1, 1), (2, 0) ...: p = r (r + 1) / 2 of them.
    """

    quadratic: Array
    """(p,) K2, N/m."""
    cubic: Array
    """(p, r) K3, N/m^2."""
    quartic: Array
    """(p, p) K4, N/m^3."""

    @property
    def size(self) -> int:
        """Number of modes."""
        return int(self.cubic.shape[1])

    @property
    def training_error(self) -> float:
        """Relative error of forces on training shapes; the polynomial is exact."""
        return 0.0

    @cached_property
    def core(self) -> Any:
        """The compiled evaluator (`supple::QuarticForce`)."""
        from supple import _core

        return _core.QuarticForce(self.size, self.quadratic, self.cubic, self.quartic)

    def evaluate(self, eta: Array) -> InternalForce:
        """Energy, force and tangent at eta (r,)."""
        return InternalForce(*self.core.evaluate(np.ascontiguousarray(eta, dtype=float)))


@dataclass(frozen=True, eq=False)
class CubatureForce(Compiled):
    """A weighted sum over quadrature points, for either material law."""

    gradients: Array
    """(q, 3, 3, r) derivative of the deformation gradient by each amplitude, 1/m: F = I + gradients . eta."""
    weights: Array
    """(q,) volume that each point stands for, m^3, not negative."""
    law: str
    mu: float
    """Pa, of the law's energy (`Material.law_numbers`)."""
    lam: float
    """Pa, of the law's energy."""
    training_error: float = 0.0
    """Relative error of the forces on the training shapes, root mean square, in the norm of K^-1; 0 if every quadrature
    point is taken."""

    @property
    def size(self) -> int:
        """Number of modes."""
        return int(self.gradients.shape[3])

    @cached_property
    def core(self) -> Any:
        """The compiled evaluator (`supple::CubatureForce`)."""
        from supple import _core

        return _core.CubatureForce(self.size, self.gradients, self.weights, self.law == "stvk", self.mu, self.lam)

    def evaluate(self, eta: Array) -> InternalForce:
        """Energy, force and tangent at eta (r,)."""
        return InternalForce(*self.core.evaluate(np.ascontiguousarray(eta, dtype=float)))


ReducedForce: TypeAlias = QuarticForce | CubatureForce
