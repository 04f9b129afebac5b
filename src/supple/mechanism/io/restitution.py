"""MuJoCo's `solref` of a geom as a coefficient of restitution, and back.

MuJoCo's contact is a spring and damper that cannot pull, with the damping ratio d of `solref`. An impact of a free body
ends when the force is zero, with the velocity (d < 1)

    e = exp(-d / s * atan2(2 d s, 2 d^2 - 1)),    s = sqrt(1 - d^2)

times that before it. e is 1 at d = 0 and exp(-2) = 0.135 at d = 1, MuJoCo's default. A contact with d >= 1 is meant
not to bounce: its restitution here is zero.
"""

from __future__ import annotations

import math

TIME_CONSTANT = 0.02
"""s: MuJoCo's default."""


def restitution_of_damping_ratio(ratio: float) -> float:
    """Coefficient of restitution of a contact with this damping ratio."""
    if ratio >= 1 or math.isnan(ratio):
        return 0.0
    if ratio <= 0:
        return 1.0
    s = math.sqrt(1 - ratio**2)
    return math.exp(-ratio / s * math.atan2(2 * ratio * s, 2 * ratio**2 - 1))


def restitution_of_solref(first: float, second: float) -> float:
    """`solref` is (time constant, damping ratio), or (-stiffness, -damping) if both are not positive."""
    if first > 0:
        return restitution_of_damping_ratio(second)
    if first == 0:
        return 0.0
    return restitution_of_damping_ratio(-second / (2 * math.sqrt(-first)))


def solref_of_restitution(restitution: float) -> tuple[float, float] | None:
    """`solref` of a geom; None: MuJoCo's default. Coefficients below exp(-2) cannot be represented and give None."""
    low, high = 0.0, 1.0
    if restitution <= math.exp(-2):
        return None
    if restitution == 1:
        return (-1 / TIME_CONSTANT**2, 0.0)
    for _ in range(60):  # the restitution falls with the damping ratio
        middle = 0.5 * (low + high)
        low, high = (middle, high) if restitution_of_damping_ratio(middle) > restitution else (low, middle)
    return TIME_CONSTANT, low
