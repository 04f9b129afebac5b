"""Whether a glass of water runs over, with the water as a rigid body's would-be surface.

The surface of water at rest in an accelerated glass is normal to g - a, with gravity g and the acceleration a of the
glass. The water runs over where the angle between the glass's axis and that normal exceeds the angle at which the
surface reaches the rim: tan(angle) = (height of the glass - height of the water) / radius. Sloshing is left out.
"""

from __future__ import annotations

import numpy as np

from supple.errors import MechanismError
from supple.mechanism.library.characters.bartender import GLASS_HEIGHT, GLASS_RADIUS, WATER_HEIGHT
from supple.mechanism.mechanism import STANDARD_GRAVITY
from supple.mechanism.record import Array, array

RIM_ANGLE = float(np.arctan((GLASS_HEIGHT - WATER_HEIGHT) / GLASS_RADIUS))
"""At which the bartender's glass runs over, rad."""


def surface_angles(times: Array, poses: Array) -> Array:
    """(t,) angle between the axis of a glass and the normal of its water, rad.

    Args:
        times: (t,) evenly spaced, s.
        poses: (t, 4, 4) of the glass, with its axis along z.
    """
    at = array(times, (-1,), "times of a glass")
    own = array(poses, (len(at), 4, 4), "poses of a glass")
    if len(at) < 3:
        raise MechanismError(f"the acceleration of a glass needs three poses or more, got {len(at)}")
    step = at[1] - at[0]
    acceleration = np.zeros((len(at), 3))
    acceleration[1:-1] = np.diff(own[:, :3, 3], 2, axis=0) / step**2
    normal = acceleration - np.asarray(STANDARD_GRAVITY)
    cosine = (own[:, :3, 2] * normal).sum(axis=1) / np.linalg.norm(normal, axis=1)
    return np.asarray(np.arccos(np.clip(cosine, -1, 1)))
