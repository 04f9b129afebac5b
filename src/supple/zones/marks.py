"""Sets of nodes, chosen by a group's name, a shape, a function of positions, a mask or indices."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from supple.elastic._checks import Array, Indices, indices
from supple.elastic.solid import Solid
from supple.errors import MechanismError, listed
from supple.mechanism.shapes import Shape

Mark: TypeAlias = "str | Shape | Callable[[Array], ArrayLike] | ArrayLike"
"""What selects nodes: the name of a group of the solid, a `Shape` (its pose takes it to the zone's coordinates; nodes
inside it or on it are taken), a function of positions (n, 3) that returns a mask (n,), a mask (n,), or indices."""
ON_SURFACE = 1e-6
"""Distance outside a shape, over the size of the mesh, at which a node still counts as on it."""


def marked_nodes(solid: Solid, mark: Mark, what: str) -> Indices:
    """(k,) nodes that a mark selects, ascending.

    Raises:
        MechanismError: no such group, no node selected, a wrong mask; `what` names the set in the text.
    """
    if isinstance(mark, str):
        if mark not in solid.groups:
            names = listed(list(solid.groups)) or "none"
            raise MechanismError(f"{what}: the mesh has no group '{mark}'; it has {names}")
        chosen = solid.groups[mark]
    else:
        if isinstance(mark, Shape):
            inside: ArrayLike = _inside(solid.nodes, mark, what)
        else:
            inside = mark(solid.nodes) if callable(mark) else mark
        given = np.asarray(inside)
        if given.dtype == bool:
            if given.shape != (len(solid.nodes),):
                raise MechanismError(f"{what}: a mask needs {len(solid.nodes)} entries, one a node; got {given.shape}")
            chosen = np.flatnonzero(given)
        else:
            chosen = np.unique(indices(given, (-1,), len(solid.nodes), f"{what}: nodes"))
    if len(chosen) == 0:
        raise MechanismError(f"{what}: no node of the mesh is selected; check the shape's pose and size (m)")
    return np.asarray(chosen, dtype=np.int64)


def _inside(points: Array, shape: Shape, what: str) -> Array:
    """(n,) mask of the points in a shape or on it."""
    near = ON_SURFACE * float(np.ptp(points, axis=0).max())
    x = (points - shape.pose[:3, 3]) @ shape.pose[:3, :3]
    size = shape.size
    if shape.kind == "plane":
        return np.asarray(x[:, 2] <= near)
    if shape.kind == "sphere":
        return np.asarray(np.linalg.norm(x, axis=1) <= size[0] + near)
    if shape.kind == "capsule":
        x[:, 2] -= np.clip(x[:, 2], -size[1], size[1])
        return np.asarray(np.linalg.norm(x, axis=1) <= size[0] + near)
    if shape.kind == "cylinder":
        return np.asarray((np.hypot(x[:, 0], x[:, 1]) <= size[0] + near) & (np.abs(x[:, 2]) <= size[1] + near))
    if shape.kind == "box":
        return np.asarray((np.abs(x) <= size + near).all(axis=1))
    if shape.kind == "ellipsoid":
        return np.asarray(np.linalg.norm(x / (size + near), axis=1) <= 1)
    raise MechanismError(f"{what}: a {shape.kind} cannot select nodes; use a box, a sphere or a function of positions")
