"""Rigid objects of uniform density."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from supple import spatial
from supple.errors import MechanismError
from supple.mechanism import Body, Shape
from supple.mechanism.record import Array, array
from supple.mechanism.shapes import Kind


def rigid_object(
    name: str,
    kind: Kind,
    size: ArrayLike,
    mass: float,
    at: ArrayLike = (0.0, 0.0, 0.0),
    rotation: ArrayLike | None = None,
    friction: ArrayLike = 1.0,
    restitution: float = 0.0,
) -> Body:
    """A sphere, capsule, box, cylinder or ellipsoid (sizes as in `Shape`) of `mass` kg and uniform density. Its centre
    is `at` (3,), m; `rotation` is (3, 3); `restitution` as in `Shape`.

    `friction` is the sliding coefficient, or (sliding, torsional, rolling) with the last two in m: those that are not
    zero act."""
    mass = float(array(mass, (), f"mass of '{name}'"))
    given = np.asarray(friction, dtype=float)
    three = array([float(given), 0.0, 0.0] if given.ndim == 0 else given, (3,), f"friction of '{name}'")
    condim = 6 if three[2] else 4 if three[1] else 3
    shape = Shape(kind, size, np.eye(4), name=name, friction=three, condim=condim, restitution=restitution)  # type: ignore[arg-type]
    turn = array(np.eye(3) if rotation is None else rotation, (3, 3), f"rotation of '{name}'")
    pose = spatial.pose(turn, array(at, (3,), f"position of '{name}'"))
    return Body(name, pose, mass, inertia=mass * moments(kind, shape.size), shapes=(shape,))


def moments(kind: Kind, size: Array) -> Array:
    """(3, 3) inertia of a shape of uniform density and unit mass about its centre, m^2."""
    match kind:
        case "sphere":
            principal = [0.4 * size[0] ** 2] * 3
        case "box" | "ellipsoid":
            square = size**2 / (3 if kind == "box" else 5)
            principal = [square[1] + square[2], square[0] + square[2], square[0] + square[1]]
        case "cylinder":
            across = (3 * size[0] ** 2 + 4 * size[1] ** 2) / 12
            principal = [across, across, size[0] ** 2 / 2]
        case "capsule":
            r, half = size
            rod, ball = 2 * half * r**2, 4 / 3 * r**3  # volumes over pi
            along = rod * r**2 / 2 + ball * 0.4 * r**2
            across = rod * (3 * r**2 + 4 * half**2) / 12 + ball * (0.4 * r**2 + half**2 + 0.75 * half * r)
            principal = [across / (rod + ball), across / (rod + ball), along / (rod + ball)]
        case _:
            raise MechanismError(
                f"a rigid object is a sphere, capsule, box, cylinder or ellipsoid, got {kind!r}; use `Body` for others"
            )
    return np.diag(np.array(principal, dtype=float))
