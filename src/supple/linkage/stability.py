"""Stability limit of the explicit step: q += 1/2 qdd dt^2 with springs qdd = -M^-1 K q is stable up to dt = 2 / omega,
where omega^2 is the largest eigenvalue of M^-1 K."""

from __future__ import annotations

import numpy as np

from supple import _core
from supple.mechanism.record import Array
from supple.mechanism.tree import Tree

ITERATIONS = 30


def largest_stiffness(tree: Tree) -> Array:
    """(axes,) largest stiffness of each axis' spring over its whole range, N m/rad or N/m."""
    result = tree.stiffness.copy()
    for axis, curve in tree.curves.items():
        inside = np.linspace(curve.deflection[0], curve.deflection[-1], 200)
        result[axis] += curve.slope(inside).max(initial=0.0)
    return result


def largest_frequency(tree: Tree, core: _core.LinkageCore) -> float:
    """Estimate of omega at the present coordinates, rad/s, not larger than the true value; 0 without springs.

    Lanczos iterations on M^-1 K, which is symmetric in the inner product x^T K y. Each multiplication by M^-1 is one
    pass over the assembly tree.
    """
    stiffness = largest_stiffness(tree)
    sprung = stiffness > 0
    if not sprung.any():
        return 0.0
    steps = min(ITERATIONS, int(sprung.sum()))
    start = np.random.default_rng(0).normal(size=len(stiffness)) * sprung
    basis = [start / np.sqrt(start @ (stiffness * start))]
    small = np.zeros((steps, steps))
    for j in range(steps):
        response = core.respond(stiffness * basis[j]) * sprung
        for _ in range(2):  # orthogonalise twice against rounding errors
            for i, vector in enumerate(basis):
                part = vector @ (stiffness * response)
                small[i, j] += part
                response = response - part * vector
        size = float(np.sqrt(response @ (stiffness * response)))
        if j + 1 == steps or size < 1e-12 * abs(small[0, 0]):
            small = small[: j + 1, : j + 1]
            break
        basis.append(response / size)
    return float(np.sqrt(np.linalg.eigvalsh(small, UPLO="U")[-1]))
