"""The admissible space: the twists that springs, joints and loops let the end effectors make."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from supple.engine.linearisation import RANK_TOLERANCE, Linearisation
from supple.errors import MechanismError
from supple.mechanism.record import Array


class AdmissibleSpace:
    """Range of the end effectors' rows of the motions that the constraints allow.

    Lengths are divided by the mechanism's radius, so that metres and radians compare. Directions smaller than
    `tolerance`, relative to the largest, count as inadmissible.
    """

    def __init__(self, at: Linearisation, names: Sequence[str], tolerance: float, base_is_free: bool = False) -> None:
        self.names = tuple(names)
        by_axes = at.jacobian_of(names)
        self.tips: Array = by_axes @ at.free
        """(6e, m): twists of the end effectors per allowed motion, that is, per column of `at.free`."""
        radius = at.mechanism.radius or 1.0
        lengths = np.tile([radius] * 3 + [1.0] * 3, len(names))
        scaled = self.tips / lengths[:, None]
        # motions that loops, couplings and motors prevent leave rounding errors of this size, which are no motion
        rounding = RANK_TOLERANCE * np.abs(by_axes / lengths[:, None]).max(axis=1, initial=0.0)
        for i, name in enumerate(() if base_is_free else names):
            rows = slice(6 * i, 6 * i + 6)
            if not np.abs(scaled[rows]).max(initial=0.0) > rounding[rows].max():
                raise MechanismError(
                    f"end effector '{name}' cannot move: every joint on its way to the world is fixed, held by a motor "
                    "or a limit, or locked by a loop; name a body that springs let move"
                )
        left, sizes, _ = np.linalg.svd(scaled, full_matrices=False)
        self.rank = int((sizes > max(tolerance * sizes.max(initial=0.0), rounding.max(initial=0.0))).sum())
        """r, dimension of the space."""
        self.basis: Array = lengths[:, None] * left[:, : self.rank]
        """P (6e, r): admissible twists are P z."""
        self.cobasis: Array = left[:, : self.rank].T / lengths
        """(r, 6e): z of an admissible twist; cobasis @ basis is the identity."""

    @property
    def motions(self) -> Array:
        """(r, m): z per allowed motion."""
        motions: Array = self.cobasis @ self.tips
        return motions

    def inverted(self, inverse: Array) -> Array:
        """(r, r) symmetric matrix in z whose inverse, in twists of the end effectors, is `inverse` (6e, 6e)."""
        matrix = np.linalg.inv(self.cobasis @ inverse @ self.cobasis.T)
        symmetric: Array = (matrix + matrix.T) / 2
        return symmetric
