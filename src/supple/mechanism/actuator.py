"""Actuators as MJCF files have them: a control by name, a force law, a range of the force, a lag."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from supple.errors import MechanismError
from supple.mechanism.record import Array, Record, array, checked_name

DYNAMICS = ("none", "integrator", "filter")


@dataclass(frozen=True, eq=False)
class Actuator(Record):
    """Drives a coordinate or a coupling by a force that depends on its control.

    With x the coordinate or the coupling's length, l = gear x and a the activation,
        force = (g0 + g1 l + g2 l') a + b0 + b1 l + b2 l',  limited to `force_range`;
    the torque on the coordinate is gear times the force. The activation is the control (dynamics "none"), its integral
    ("integrator"), or follows it with the time constant `lag` ("filter").
    """

    name: str
    drives: str
    """Name of a coordinate (`Joint.axes`) or of a coupling."""
    gear: float = 1.0
    gain: Array = (1.0, 0.0, 0.0)  # type: ignore[assignment]
    """(3,) g0, g1, g2."""
    bias: Array = (0.0, 0.0, 0.0)  # type: ignore[assignment]
    """(3,) b0, b1, b2."""
    control_range: Array = (-np.inf, np.inf)  # type: ignore[assignment]
    """(2,) in the file's control units; infinite where there is no limit."""
    force_range: Array = (-np.inf, np.inf)  # type: ignore[assignment]
    """(2,) N m or N, before the gear."""
    dynamics: str = "none"
    lag: float = 0.0
    """Time constant of a filter, s."""
    activation_range: Array = (-np.inf, np.inf)  # type: ignore[assignment]
    """(2,)."""
    control: float = 0.0
    """At the start."""
    activation: float = 0.0
    """At the start; without dynamics it is the control."""
    in_spring: bool = False
    """Whether the spring and damper of the coordinate or coupling contain its force at the start. Statics and reduced
    models then see the actuator as this spring."""

    def __post_init__(self) -> None:
        what = f"actuator '{checked_name(self.name, 'an actuator')}'"
        single = ("gear", "lag", "control", "activation")
        numbers = {field: float(array(getattr(self, field), (), f"{field} of {what}")) for field in single}
        if numbers["gear"] == 0:
            raise MechanismError(f"{what} has a gear of zero, so that it drives nothing; give it another one")
        if self.dynamics not in DYNAMICS:
            raise MechanismError(f"dynamics of {what} is one of {', '.join(DYNAMICS)}, got {self.dynamics!r}")
        if (self.dynamics == "filter") != (numbers["lag"] > 0):
            raise MechanismError(f"{what}: a filter, and nothing else, has a positive lag in s; got {numbers['lag']:g}")
        if not isinstance(self.in_spring, bool):
            raise MechanismError(f"{what}: `in_spring` must be true or false, got {self.in_spring!r}")
        ranges = {}
        for field in ("control_range", "force_range", "activation_range"):
            lower, upper = ranges[field] = array(getattr(self, field), (2,), f"{field} of {what}", infinite=True)
            if lower > upper or lower == np.inf or upper == -np.inf:
                raise MechanismError(f"{field} of {what} is upside down: {lower:g} above {upper:g}")
        lower, upper = ranges["force_range"]
        if lower == upper == 0:
            raise MechanismError(f"the force of {what} is limited to zero: it drives nothing; widen force_range")
        laws = {f: array(getattr(self, f), (3,), f"{f} of {what}") for f in ("gain", "bias")}
        self._freeze(**numbers, **ranges, **laws)

    @property
    def spring_force(self) -> Array:
        """(3,) the force at the start as a function of 1, l and l' if the springs contain it, otherwise zero."""
        law: Array = self.gain * self.activation + self.bias
        return law if self.in_spring else np.zeros(3)
