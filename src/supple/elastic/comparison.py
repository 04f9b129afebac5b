"""A basis beside all nodes of the mesh, in equilibrium under combined loads."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from supple.elastic._checks import Array
from supple.elastic.statics import static_path
from supple.errors import ConvergenceError, RangeWarning

if TYPE_CHECKING:
    from supple.elastic.basis import Basis
    from supple.elastic.part import Part

SIGNS = {6: ("++++++", "+++---", "+-++-+"), 3: ("+++", "++-", "+-+")}
"""Of the wrenches on an interface, in space and in a plane, in each of the combined loads; of weight the second."""
MOST = 0.05
"""Difference from all nodes beyond which a basis is warned about."""
ITERATIONS, LARGEST_STEP, TOLERANCE = 200, 0.05, 1e-9
"""Of Newton's method for the amplitudes; its largest and its last step over the size of the part."""


def compared(part: Part, basis: Basis, loads: Array, progress: Callable[[float], None]) -> tuple[float, float]:
    """Largest difference between the basis and all nodes of the mesh, as a fraction, and the largest mass-weighted root
    mean square displacement of all nodes, m, under three combinations of loads (3n, k), N (`limited_loads`).

    A combination is a sum of all loads f_i with different signs, divided by sqrt(k): forces bend the part in the same
    sense as torques (a free end), against them (a guided end), and while it is twisted. What is compared are the
    displacements f_i . u of the interfaces: |f . (u_reduced - u)| / |f . u|.
    """
    count = loads.shape[1]
    each = count // max(1, len(part.interfaces) - 1)
    worst, largest = 0.0, 0.0
    for k, signs in enumerate(SIGNS[6 if each == 6 else 3]):
        weights = np.resize([1.0 if sign == "+" else -1.0 for sign in signs], count) / np.sqrt(count)
        forces, u = _equilibrium(part, basis.reference, (loads @ weights).reshape(-1, 3))
        found = loads.T @ basis.displacements(amplitudes(part, basis, forces)).ravel()
        exact = loads.T @ u.ravel()
        difference = float(np.linalg.norm(found - exact) / np.linalg.norm(exact))
        worst = max(worst, np.inf if np.isnan(difference) else difference)
        largest = max(largest, float(np.sqrt((u * (part.mass_matrix() @ u)).sum() / part.mass)))
        progress((k + 1) / 3)
    return worst, largest


def _equilibrium(part: Part, reference: str, forces: Array) -> tuple[Array, Array]:
    """Nodal forces (n, 3), N, reduced until there is an equilibrium, and its displacements (n, 3)."""
    while True:
        try:
            return forces, static_path(part, reference, forces)[0]
        except ConvergenceError as error:
            reached = error.load_fraction or 0.0
            if reached < 0.05:
                raise
            forces = 0.8 * reached * forces


def amplitudes(part: Part, basis: Basis, forces: Array) -> Array:
    """(r,) amplitudes in equilibrium with dead nodal forces (n, 3), N; not numbers where Newton's method fails."""
    load = np.einsum("nir,ni->r", basis.modes, forces)
    size = float(np.ptp(part.nodes, axis=0).max())
    eta = np.zeros(basis.size)
    for _ in range(ITERATIONS):
        at = basis.force.evaluate(eta)
        step = np.linalg.solve(at.tangent, load - at.force)
        length = float(np.abs(basis.modes @ step).max()) / size
        eta = eta + step * min(1.0, LARGEST_STEP / max(length, 1e-300))
        if length < TOLERANCE:
            return eta
    return np.full(basis.size, np.nan)


def warn_if_different(basis: Basis) -> None:
    """Warns if the basis differs from all nodes of the mesh by more than a few percent."""
    if basis.difference is not None and basis.difference > MOST:
        warnings.warn(
            RangeWarning(
                f"the basis of {basis.size} modes differs by {100 * basis.difference:.0f} % from all nodes of the mesh "
                "under combined loads; take more modes (part.with_basis() without a number takes enough for most "
                "parts), or, if the part deforms less, state by how much of its size: part.with_basis(deflection=0.1)"
            ),
            stacklevel=3,
        )
