"""How long an explicit step may be: q += 1/2 qdd dt^2 with springs qdd = -M^-1 K q is stable up to dt = 2 / omega, with
omega^2 the largest eigenvalue of M^-1 K."""

from __future__ import annotations

from typing import Any

import numpy as np

from supple.mechanism.record import Array
from supple.mechanism.tree import Tree

ITERATIONS = 30


def steepest(tree: Tree) -> Array:
    """(axes,) the largest stiffness that each axis' spring has anywhere, N m/rad or N/m."""
    result = tree.stiffness.copy()
    for axis, curve in tree.curves.items():
        inside = np.linspace(curve.deflection[0], curve.deflection[-1], 200)
        result[axis] += curve.slope(inside).max(initial=0.0)
    return result


def largest_frequency(tree: Tree, core: Any) -> float:
    """omega in the present position, rad/s, from below; 0 without springs.

    Lanczos' method on M^-1 K, which is symmetric in the product x^T K y; each multiplication by M^-1 is one pass over
    the assembly tree.
    """
    stiffness = steepest(tree)
    held = stiffness > 0
    if not held.any():
        return 0.0
    steps = min(ITERATIONS, int(held.sum()))
    start = np.random.default_rng(0).normal(size=len(stiffness)) * held
    basis = [start / np.sqrt(start @ (stiffness * start))]
    small = np.zeros((steps, steps))
    for j in range(steps):
        pushed = core.respond(stiffness * basis[j]) * held
        for _ in range(2):  # against all earlier ones, twice, so that rounding brings nothing back
            for i, vector in enumerate(basis):
                part = vector @ (stiffness * pushed)
                small[i, j] += part
                pushed = pushed - part * vector
        size = float(np.sqrt(pushed @ (stiffness * pushed)))
        if j + 1 == steps or size < 1e-12 * abs(small[0, 0]):
            small = small[: j + 1, : j + 1]
            break
        basis.append(pushed / size)
    return float(np.sqrt(np.linalg.eigvalsh(small, UPLO="U")[-1]))
