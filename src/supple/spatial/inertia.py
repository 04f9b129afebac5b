"""Spatial inertia of a rigid body."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from supple.spatial._arrays import Array, as_floats, skew


def spatial_inertia(mass: ArrayLike, centre: ArrayLike, inertia: ArrayLike) -> Array:
    """6x6 inertia about the body's origin, linear part first, so that kinetic energy is xi^T M xi / 2.

    mass (...), kg; centre of mass (..., 3) in the body's frame, m; inertia (..., 3, 3) about the centre of
    mass in the body's axes, kg m^2 -> (..., 6, 6).

    [[m I, -m [c]], [m [c], I_c - m [c]^2]]
    """
    m = as_floats(mass)[..., None, None]
    c = skew(centre)
    about_centre = as_floats(inertia)
    batch = np.broadcast_shapes(m.shape[:-2], c.shape[:-2], about_centre.shape[:-2])
    result = np.empty((*batch, 6, 6))
    result[..., :3, :3], result[..., :3, 3:] = m * np.eye(3), -m * c
    result[..., 3:, :3], result[..., 3:, 3:] = m * c, about_centre - m * (c @ c)
    return result
