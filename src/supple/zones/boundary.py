"""Boundary changes by the capacitance matrix: nodes or single directions change between given force and given
displacement without a new finite-element solve."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from supple.elastic._checks import Array, Indices, numbers
from supple.errors import MechanismError

if TYPE_CHECKING:
    from supple.zones.zone import Zone

ORTHOGONAL = 1e-9
"""Largest scalar product of two directions of one node."""


class BoundaryChange:
    """A zone's boundary-value problem with some nodes or directions switched.

    The reference problem prescribes displacements at seam nodes and forces at free touch nodes; the bones stay at rest.
    Its solution is v = Xi w: w (n, 3) the given values, v (n, 3) the unknown ones (forces that hold seam nodes, N;
    displacements of touch nodes, m). With unit vectors E of the switched directions, C = -E^T Xi E (the capacitance
    matrix) gives the solution after the switch:

        v0 = (Xi (I - E E^T) - E E^T) w,    v = v0 + (E + Xi E) C^-1 E^T v0

    C becomes symmetric and quasi-definite after a change of sign of the seam's rows, so C = L D L^T without pivoting.
    One more direction adds a row to L; one less is a rank-one update.
    """

    def __init__(self, zone: Zone) -> None:
        greens = zone.greens
        s, t = 3 * len(zone.seam), 3 * len(zone.free_touch)
        U = greens.motion[:t, :s]
        self.nodes: Indices = np.concatenate([zone.seam, zone.free_touch])
        """(n,) the zone's seam nodes, then its free touch nodes: the order of given and unknown values."""
        self._response = np.block([[greens.stiffness[:s, :s], -U.T], [U, greens.compliance[:t]]])
        self._signs = np.concatenate([-np.ones(s), np.ones(t)])
        self._place = {int(node): i for i, node in enumerate(self.nodes)}
        self._switched: list[tuple[int, Array]] = []  # (place of the node, direction)
        self._columns = np.zeros((s + t, 0))  # Xi E, a column for each direction
        self._L = np.zeros((0, 0))
        self._D = np.zeros(0)

    @property
    def switched(self) -> tuple[tuple[int, Array], ...]:
        """Node and direction (3,) of every switched direction."""
        return tuple((int(self.nodes[i]), direction) for i, direction in self._switched)

    def switch(self, node: int, directions: ArrayLike | None = None) -> None:
        """Switches a node: a touch node's displacement is then given, or a seam node's force.

        Args:
            node: index in the mesh.
            directions: (3,) or (k, 3) directions in the zone's axes, perpendicular to each other; default: all three.

        Raises:
            MechanismError: neither a seam nor a touch node, a direction that is zero or not perpendicular to those
                already switched there.
        """
        place = self._place_of(node)
        chosen = np.eye(3) if directions is None else np.atleast_2d(directions)
        given = numbers(chosen, (-1, 3), f"directions of node {node}")
        lengths = np.linalg.norm(given, axis=1)
        if not (lengths > 0).all():
            raise MechanismError(f"a direction of node {node} is zero")
        for direction in given / lengths[:, None]:
            for other, known in self._switched:
                if other == place and abs(known @ direction) > ORTHOGONAL:
                    raise MechanismError(
                        f"node {node}: direction {direction.tolist()} is not perpendicular to {known.tolist()}, which "
                        "is already switched; restore the node first"
                    )
            self._append(place, direction)

    def restore(self, node: int) -> None:
        """Takes all switches of a node back."""
        place = self._place_of(node)
        for i in reversed([i for i, (other, _) in enumerate(self._switched) if other == place]):
            self._remove(i)

    def solve(self, values: ArrayLike) -> Array:
        """(n, 3) unknown values for given values (n, 3), in the order of `nodes`.

        In a switched direction the given value of a touch node is a displacement (m) and the unknown one the force that
        acts on it (N); for a seam node it is the other way round.
        """
        w = numbers(values, (len(self.nodes), 3), "values of a boundary").ravel()
        along = self._in_switched_directions(w)
        rest = w.copy()
        self._add(rest, -along)
        v = self._response @ rest
        self._add(v, -along)
        weights = self._solve(self._in_switched_directions(v))
        v = v + self._columns @ weights
        self._add(v, weights)
        return v.reshape(-1, 3)

    # --- the capacitance matrix -----------------------------------------------------------------------------------

    def _place_of(self, node: int) -> int:
        if node not in self._place:
            raise MechanismError(f"node {node} is neither a seam node nor a touch node of the zone")
        return self._place[node]

    def _in_switched_directions(self, w: Array) -> Array:
        """E^T w."""
        return np.array([direction @ w[3 * i : 3 * i + 3] for i, direction in self._switched])

    def _add(self, w: Array, weights: Array) -> None:
        """w += E weights."""
        for (i, direction), weight in zip(self._switched, weights, strict=True):
            w[3 * i : 3 * i + 3] += weight * direction

    def _solve(self, rhs: Array) -> Array:
        """C^-1 rhs with C = -E^T Xi E = -S (L D L^T), S the signs of the rows."""
        from scipy.linalg import solve_triangular

        if not len(rhs):
            return rhs
        signs = np.array([self._signs[3 * i] for i, _ in self._switched])
        y = solve_triangular(self._L, -signs * rhs, lower=True, unit_diagonal=True) / self._D
        return np.asarray(solve_triangular(self._L, y, lower=True, unit_diagonal=True, trans="T"))

    def _append(self, place: int, direction: Array) -> None:
        from scipy.linalg import solve_triangular

        column = self._response[:, 3 * place : 3 * place + 3] @ direction
        m = len(self._switched)
        self._switched.append((place, direction))
        signed = self._in_switched_directions(self._signs * column)
        row = np.zeros(0)
        if m:
            row = solve_triangular(self._L, signed[:m], lower=True, unit_diagonal=True) / self._D
        pivot = signed[m] - (row * row) @ self._D
        grown = np.eye(m + 1)
        grown[:m, :m], grown[m, :m] = self._L, row
        self._L, self._D = grown, np.append(self._D, pivot)
        self._columns = np.column_stack([self._columns, column])

    def _remove(self, k: int) -> None:
        """Removes the direction k: the factor of the rest changes by d_k l l^T, l the column k below its row."""
        z, alpha = self._L[k + 1 :, k].copy(), float(self._D[k])
        L, D = np.delete(np.delete(self._L, k, axis=0), k, axis=1), np.delete(self._D, k)
        for i in range(len(z)):
            j = k + i
            p = z[i]
            pivot = D[j] + alpha * p * p
            beta = alpha * p / pivot
            alpha *= D[j] / pivot
            D[j] = pivot
            z[i + 1 :] -= p * L[j + 1 :, j]
            L[j + 1 :, j] += beta * z[i + 1 :]
        self._L, self._D = L, D
        self._columns = np.delete(self._columns, k, axis=1)
        del self._switched[k]
