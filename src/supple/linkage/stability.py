"""How long an explicit step may be: q += 1/2 qdd dt^2 with springs qdd = -M^-1 K q is stable up to dt = 2 / omega, with
omega^2 the largest eigenvalue of M^-1 K."""

from __future__ import annotations

from typing import Any

import numpy as np

from supple import spatial
from supple.mechanism.record import Array
from supple.mechanism.tree import Tree

ITERATIONS = 40


def slopes(tree: Tree) -> Array:
    """(axes,) the steepest stiffness of each axis' spring, N m/rad or N/m."""
    result = tree.stiffness.copy()
    for axis, curve in tree.curves.items():
        _, c = curve.pieces
        ends = np.abs(c[:, 1]).max()
        result[axis] += max(ends, np.abs(curve.slope(np.linspace(*curve.deflection[[0, -1]], 200))).max())
    return result


def safe_frequency(tree: Tree) -> float:
    """A number, rad/s, that omega does not exceed in any position.

    Without the joints' constraints a spring of stiffness k between two bodies acts on each alone; with x^T K x <=
    2 sum k (s^T xi)^2 over the two bodies' twists, body by body omega^2 <= sum over its springs of 2 k s^T I^-1 s, where s
    reads the coordinate from the relative twist. Constraints only lower the highest frequency.
    """
    stiffness = slopes(tree)
    owner = np.repeat(np.arange(len(tree.parent)), tree.axes)
    inertia = spatial.spatial_inertia(tree.mass, tree.centre, tree.inertia)
    inverse = np.linalg.inv(inertia)
    # s = S / |S|^2 about the joint's frame: it reads q exactly where the joint is intact
    reader = tree.twists / (tree.twists**2).sum(axis=1, keepdims=True)
    several = np.flatnonzero(tree.axes[owner] > 1)
    for body in np.unique(owner[several]):
        part = np.flatnonzero(owner == body)
        reader[part] = np.linalg.pinv(tree.twists[part]).T
    sums = np.zeros(len(tree.parent))
    ends = ((owner, tree.pose_child, ~tree.reversed), (tree.parent[owner], tree.pose_parent, ~tree.reversed))
    for bodies, frames, _ in ends:
        there = bodies >= 0
        local = np.linalg.inv(spatial.adjoint(frames[owner[there]]))
        read = np.einsum("nij,ni->nj", local, reader[there])
        size = np.einsum("ni,nij,nj->n", read, inverse[bodies[there]], read)
        np.add.at(sums, bodies[there], 2 * stiffness[there] * size)
    return float(np.sqrt(sums.max()))


def largest_frequency(tree: Tree, core: Any) -> float:
    """omega here and now, rad/s, from below: power iteration on M^-1 K."""
    stiffness = slopes(tree)
    q: Array = np.random.default_rng(0).normal(size=len(stiffness)) * (stiffness > 0)
    value = 0.0
    for _ in range(ITERATIONS):
        q /= np.sqrt(q @ (stiffness * q))  # in the energy norm M^-1 K is symmetric
        bent = core.respond(stiffness * q)
        value = float(q @ (stiffness * bent))
        q = bent
    return float(np.sqrt(max(value, 1e-300)))
