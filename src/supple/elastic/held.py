"""Stiffness of a part whose interfaces are held: their centroids and mean rotations stay at rest, no node is locked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from supple.elastic._checks import Array

if TYPE_CHECKING:
    from supple.elastic.part import Part


def held_rows(part: Part, interfaces: Sequence[str]) -> Array:
    """(6i, 3n) rows C of unit length: C u = 0 for ravelled nodal displacements u that leave the interfaces' frames
    at rest (to first order; exactly for one interface)."""
    rows = np.zeros((6 * len(interfaces), len(part.nodes), 3))
    for i, name in enumerate(interfaces):
        own = part.interface(name)
        rows[6 * i : 6 * i + 6, own.nodes] = own.rigid_rows()
    flat = rows.reshape(len(rows), -1)
    return np.asarray(flat / np.linalg.norm(flat, axis=1, keepdims=True))


class HeldStiffness:
    """Factors of the saddle point [[K, C^T], [C, 0]].

    K alone is singular (rigid motions). K + g C^T C is not, and has the same solutions on C u = 0. The rows C touch
    the nodes of the interfaces only, so the sparse factors hardly grow; multipliers of the few rows then make C u =
    0 exact.
    """

    def __init__(self, stiffness: Any, rows: Array) -> None:
        from scipy.sparse import csr_array
        from scipy.sparse.linalg import splu

        sparse = csr_array(rows)
        scale = float(stiffness.diagonal().mean())
        augmented = (stiffness.tocsc() + scale * (sparse.T @ sparse).tocsc()).tocsc()
        self._factors = splu(
            augmented, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True}
        )
        self._rows = rows
        self._responses = self._factors.solve(np.ascontiguousarray(rows.T))
        self._schur = np.linalg.inv(rows @ self._responses)

    def solve(self, forces: Array) -> Array:
        """Displacements (3n,) or (3n, k) under forces, with C u = 0."""
        free = self._factors.solve(np.ascontiguousarray(forces, dtype=float))
        return np.asarray(free - self._responses @ (self._schur @ (self._rows @ free)))
