"""Interfaces: facet sets whose centroid and mean rotation act as a frame."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from supple.elastic._checks import Array, Indices
from supple.elastic.frames import InterfaceFrame
from supple.errors import MechanismError
from supple.spatial import skew

WEIGHTS = np.array([0, 0, 0, 1, 1, 1]) / 3
"""Integrals of the six shape functions over a triangle of unit area: corners have none."""
MOMENTS = np.array([(2, -1, -1), (-1, 2, -1), (-1, -1, 2), (8, 8, 4), (4, 8, 8), (8, 4, 8)]) / 60
"""Integrals of each shape function times each barycentric coordinate over a triangle of unit area."""


@dataclass(frozen=True, eq=False)
class Interface:
    """Integrals over the facets of an interface at rest, in the part's coordinates.

    With nodal positions x_a the centroid is sum_a weights_a x_a, and A = sum_a x_a moments_a^T is the integral of d D^T
    (over the area) whose polar factor is the rotation.
    """

    nodes: Indices
    """(m,) nodes of the facets."""
    weights: Array
    """(m,) integral of each node's shape function over the area of the interface; they sum to 1."""
    moments: Array
    """(m, 3) integral of each node's shape function times D = X - centroid, over the area, m; they sum to 0."""
    positions: Array
    """(m, 3) positions of the nodes at rest, m."""
    centroid: Array
    """(3,) m."""
    area: float
    """m^2."""

    @classmethod
    def of_facets(cls, nodes: Array, facets: Indices) -> Interface:
        """The interface of facets (f, 6) of a mesh with the given nodes (n, 3)."""
        own, local = np.unique(facets, return_inverse=True)
        local = local.reshape(-1, 6)
        corners = nodes[facets[:, :3]]
        areas = 0.5 * np.linalg.norm(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1)
        area = float(areas.sum())
        weights = np.zeros(len(own))
        np.add.at(weights, local, areas[:, None] / area * WEIGHTS)
        centroid = weights @ nodes[own]
        moments = np.zeros((len(own), 3))
        np.add.at(moments, local, (areas / area)[:, None, None] * (MOMENTS @ (corners - centroid)))
        return cls(own, weights, moments, nodes[own], centroid, area)

    def matrix(self) -> Array:
        """(3, 3) A at rest, the integral of D D^T over the area, m^2."""
        return np.asarray((self.positions - self.centroid).T @ self.moments)

    def check(self, name: str) -> None:
        """Raises if the nodes are collinear: no rotation about their line could be told."""
        spread = np.linalg.eigvalsh(self.matrix())
        if not spread[1] > 1e-8 * spread[2]:
            raise MechanismError(
                f"the nodes of interface '{name}' are collinear; its facets must span a surface, so that it has a "
                "rotation"
            )

    def frame(self) -> InterfaceFrame:
        """The frame as a function of the ravelled displacements (m, 3) of the nodes, in the part's coordinates."""
        m = len(self.nodes)
        directions = np.eye(3)
        rate = np.einsum("a,ij->aij", self.weights, directions).reshape(3 * m, 3)
        turn = np.einsum("ai,kj->akji", self.moments, directions).reshape(3 * m, 3, 3)
        return InterfaceFrame(self.centroid, rate, self.matrix(), turn)

    def frame_of_modes(self, modes: Array, origin: Array) -> InterfaceFrame:
        """The frame as a function of modal amplitudes; `modes` (n, 3, r) are displacements of all nodes of the part,
        `origin` (3,) the place of the body frame in the part's coordinates."""
        own = modes[self.nodes]
        rate = np.einsum("a,air->ri", self.weights, own)
        turn = np.einsum("air,aj->rij", own, self.moments)
        return InterfaceFrame(self.centroid - origin, rate, self.matrix(), turn)

    def rigid_rows(self) -> Array:
        """(6, m, 3) rows C with C . u = 0 when displacements u (m, 3) leave the frame at rest: the centroid's
        displacement, and the integral of D x u. The second three are zero exactly when A is symmetric, i.e. its
        polar rotation is the identity."""
        linear = np.einsum("a,ij->iaj", self.weights, np.eye(3))
        angular = skew(self.moments).transpose(1, 0, 2)
        return np.concatenate([linear, angular])

    def nodal_forces(self, wrench: Array) -> Array:
        """(m, 3) nodal forces that do the work of a wrench (6,), force then torque about the centroid, at rest, N."""
        A = self.matrix()
        turn = np.linalg.solve(np.trace(A) * np.eye(3) - A, wrench[3:])
        return np.asarray(self.weights[:, None] * wrench[:3] + np.cross(turn, self.moments))
