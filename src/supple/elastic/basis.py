"""Reduced bases: a part's motion in its body frame as a sum of a few modes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from supple.elastic._checks import Array
from supple.elastic.frames import FrameMotion, InterfaceFrame
from supple.elastic.reduced_force import InternalForce, ReducedForce

__all__ = ["Basis", "InternalForce"]


@dataclass(frozen=True, eq=False)
class Basis:
    """All constants of a reduced elastic body with r modal amplitudes eta.

    A material point lies at x = c + R (X + sum_k eta_k Phi_k(X)) in the world. (R, c) is the body frame. It lies at the
    centroid of the reference interface and turns with it: every mode keeps that interface's centroid and mean rotation
    at rest, so the basis has no rigid modes. X is measured from that centroid (`origin`), in the axes of the part.

    An amplitude is a length: the largest nodal displacement of mode k alone is |eta_k|.

    Inertia follows from constant integrals. With e = (1, eta_1 ... eta_r): first moment of mass, integral of y dm =
    sum_k e_k first_moment[k]; second moments, integral of y y^T dm = sum_kl e_k e_l gram[k, l], y = X + Phi eta.
    """

    reference: str
    """Name of the interface that carries the body frame."""
    method: str
    """How the modes were made: "interface", "linear" or "snapshots"."""
    origin: Array
    """(3,) centroid of the reference interface in the part's coordinates, m. The body frame has the part's axes."""
    modes: Array
    """(n, 3, r) nodal displacements in the body frame per unit of each amplitude, m/m."""
    mass: float
    """kg."""
    first_moment: Array
    """(r + 1, 3) integrals of X dm (row 0) and of Phi_k dm (row k), kg m and kg. Gravity g (body axes) acts on eta_k
    with the generalised force first_moment[k] . g."""
    gram: Array
    """(r + 1, r + 1, 3, 3) integrals of psi_k psi_l^T dm with psi_0 = X, psi_k = Phi_k; kg m^2, kg m, kg."""
    force: ReducedForce
    """Internal force and tangent stiffness as functions of eta; its `core` is the compiled evaluator."""
    frames: Mapping[str, InterfaceFrame]
    """Frame of every interface except the reference as a function of eta, in the body frame."""
    alpha: float
    """Rayleigh damping, 1/s: the generalised force -alpha `mass_matrix` eta'."""
    beta: float
    """Rayleigh damping, s: the generalised force -beta d/dt f(eta), with f the internal force."""
    trained_range: float
    """Largest mass-weighted root mean square displacement among the shapes of the full mesh that the basis was made of
    or compared with, m; infinite for linear modes."""
    singular_values: Array
    """(r,) singular values of the snapshots, mass-weighted, sqrt(kg) m; empty for other methods."""
    difference: float | None = None
    """Largest relative difference from the full mesh under three combined loads (`supple.elastic.comparison`); None for
    linear modes and snapshots, which are not compared."""

    @property
    def size(self) -> int:
        """Number of modes, r."""
        return int(self.modes.shape[2])

    @property
    def mass_matrix(self) -> Array:
        """(r, r) mass of the amplitudes with the body frame fixed: integral of Phi_k . Phi_l dm, kg."""
        return np.asarray(np.trace(self.gram[1:, 1:], axis1=2, axis2=3))

    @property
    def stiffness(self) -> Array:
        """(r, r) tangent stiffness at rest, N/m."""
        return self.force.evaluate(np.zeros(self.size)).tangent

    def displacements(self, eta: Array) -> Array:
        """(n, 3) nodal displacements in the body frame, m."""
        return np.asarray(self.modes @ eta)

    def amplitudes(self, displacements: Array, mass_matrix: object) -> Array:
        """(r,) amplitudes of the shape nearest to nodal displacements (n, 3) in the mass norm. `mass_matrix` is the
        part's (`part.mass_matrix()`)."""
        n = len(self.modes)
        weighted = (mass_matrix @ self.modes.reshape(n, -1)).reshape(3 * n, -1)  # type: ignore[operator]
        return np.asarray(np.linalg.solve(self.mass_matrix, weighted.T @ np.ravel(displacements)))

    def inertia(self, eta: Array) -> tuple[Array, Array]:
        """First moment of mass (3,), kg m, and inertia matrix (3, 3), kg m^2, about the body frame's origin in its
        axes."""
        e = np.concatenate([[1.0], eta])
        second = np.einsum("k,l,klij->ij", e, e, self.gram)
        return e @ self.first_moment, np.trace(second) * np.eye(3) - second

    def spin_coupling(self, eta: Array) -> Array:
        """(r, 3) integrals of y x Phi_k dm, kg m: angular momentum per unit rate of each amplitude, body axes."""
        e = np.concatenate([[1.0], eta])
        mixed = np.einsum("l,lkij->kij", e, self.gram[:, 1:])
        return np.stack([mixed[:, i, j] - mixed[:, j, i] for i, j in ((1, 2), (2, 0), (0, 1))], axis=1)

    def frame(self, name: str, eta: Array, *, second: bool = False) -> FrameMotion:
        """Pose of an interface in the body frame and its derivatives by eta; the reference interface does not move."""
        if name == self.reference:
            r = self.size
            return FrameMotion(np.eye(4), np.zeros((6, r)), np.zeros((6, r, r)) if second else None)
        return self.frames[name].motion(eta, second=second)

    def frequencies(self) -> Array:
        """(r,) natural frequencies with the reference interface fixed and the others free, Hz, ascending."""
        from scipy.linalg import eigh

        squares = eigh(self.stiffness, self.mass_matrix, eigvals_only=True)
        return np.asarray(np.sqrt(np.maximum(squares, 0)) / (2 * np.pi))

    def range_ratio(self, eta: Array) -> float:
        """Root mean square displacement at eta over `trained_range`."""
        return float(np.sqrt(eta @ self.mass_matrix @ eta / self.mass) / self.trained_range)
