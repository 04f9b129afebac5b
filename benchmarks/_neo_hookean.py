"""Static shapes of a Neo-Hookean solid of hexahedra with mean dilatation: the nonlinear reference of `zones.py`.

The energy is mu/2 (J^(-2/3) tr F^T F - 3) at each quadrature point plus V kappa/2 (ln theta)^2 of each element, with
theta the ratio of the element's volume to that at rest. At small strain it is the linear element of
`supple.elastic.linear`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.linalg import splu

from supple.elastic import Material, Solid
from supple.elastic.linear import coordinates_of, shape_gradients


class NeoHookean:
    """Forces, tangent and statics of a solid."""

    def __init__(self, solid: Solid, material: Material) -> None:
        mu, lam = material.lame
        self.solid, self.mu, self.kappa = solid, mu, lam + 2 / 3 * mu
        self.gradients, self.volumes = shape_gradients(solid.nodes, solid.cells)
        self.volume = self.volumes.sum(axis=0)
        self.freedoms = coordinates_of(solid.cells)

    def least_volume_ratio(self, u: np.ndarray) -> float:
        """Least det F at displacements u (n, 3)."""
        return float(np.linalg.det(self._gradient(u)).min())

    def _gradient(self, u: np.ndarray) -> np.ndarray:
        return np.einsum("eai,qeaj->qeij", u[self.solid.cells], self.gradients, optimize=True) + np.eye(3)

    def tangent(self, u: np.ndarray) -> tuple[np.ndarray, Any] | None:
        """Gradient (3n,) and second derivative of the energy at u (n, 3); None if an element is inverted."""
        F = self._gradient(u)
        J = np.linalg.det(F)
        if not J.min() > 0:
            return None
        g = np.einsum("qeaj,qeji->qeai", self.gradients, np.linalg.inv(F))
        h = np.einsum("qeij,qeaj->qeai", F, self.gradients)
        first = np.einsum("qeij,qeij->qe", F, F)
        w = self.mu * self.volumes * J ** (-2 / 3)
        theta = (self.volumes * J).sum(axis=0) / self.volume
        pressure = self.kappa * np.log(theta) / theta  # U'
        slope = self.kappa * (1 - np.log(theta)) / theta**2  # U''
        Jv = self.volumes * J
        change = np.einsum("qe,qeai->eai", Jv, g) / self.volume[:, None, None]  # of theta
        force = np.einsum("qe,qeai->eai", w, h - first[..., None, None] / 3 * g)
        force += (self.volume * pressure)[:, None, None] * change
        gg = np.einsum("qe,qeai,qebj->eaibj", w * first, g, g, optimize=True)
        hg = np.einsum("qe,qeai,qebj->eaibj", w, h, g, optimize=True)
        GG = np.einsum("qe,qeak,qebk->eab", w, self.gradients, self.gradients, optimize=True)
        JJ = np.einsum("qe,qeai,qebj->eaibj", Jv * pressure, g, g, optimize=True)
        K = np.einsum("eab,ij->eaibj", GG, np.eye(3)) - 2 / 3 * (hg + hg.transpose(0, 3, 4, 1, 2))
        K += 2 / 9 * gg + gg.transpose(0, 1, 4, 3, 2) / 3 + JJ - JJ.transpose(0, 1, 4, 3, 2)
        K += np.einsum("e,eai,ebj->eaibj", self.volume * slope, change, change)
        n, size = self.freedoms.shape[1], 3 * len(self.solid.nodes)
        rows, columns = np.repeat(self.freedoms, n, axis=1).ravel(), np.tile(self.freedoms, (1, n)).ravel()
        total = np.zeros(size)
        np.add.at(total, self.freedoms.ravel(), force.reshape(-1))
        return total, coo_array((K.ravel(), (rows, columns)), shape=(size, size)).tocsc()

    def solve(self, u: np.ndarray, held: np.ndarray, goal: np.ndarray, most: int = 25) -> np.ndarray | None:
        """Equilibrium with coordinates `held` at `goal`, from the equilibrium u (n, 3); None if it fails."""
        u, loose = u.ravel().copy(), np.setdiff1d(np.arange(u.size), held)
        for iteration in range(most):
            state = self.tangent(u.reshape(-1, 3))
            if state is None:
                return None
            force, K = state
            step = np.zeros_like(u)
            step[held] = goal - u[held]
            residual = -force[loose] - K[loose][:, held] @ step[held]
            if iteration and np.abs(residual).max() < 1e-9 * np.abs(force).max():
                return u.reshape(-1, 3)
            options = {"SymmetricMode": True}
            factors = splu(K[loose][:, loose], permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=options)
            step[loose] = factors.solve(residual)
            share = 1.0
            while iteration and share > 1e-2 and self.tangent((u + share * step).reshape(-1, 3)) is None:
                share /= 2
            u = u + share * step
        return None
