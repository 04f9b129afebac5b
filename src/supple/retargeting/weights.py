"""Weights of the objective of retargeting, and limits of the motors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from supple.errors import MechanismError
from supple.mechanism import Mechanism
from supple.mechanism.poses import find
from supple.mechanism.record import Array, array
from supple.retargeting.motion import Motion
from supple.retargeting.tracking import moved_bodies, tracked_point

Weight = float | Callable[[float], float] | tuple[ArrayLike, ArrayLike]
"""A number; a function of time, s; or times (n,), s, and values (n,), with straight lines between them."""
CLOSENESS, ACCELERATION = 1e-4, 1e-3
"""Default weights of closeness to the input and of acceleration."""
LIMIT_TOLERANCE = 1e-6
"""By how much a motion may exceed the limits of a joint, rad or m."""


@dataclass(frozen=True)
class Weights:
    """Weights of the objective, and limits. Those of motors are the same for all, or a mapping by the motor's name."""

    track: Mapping[str, Weight]
    """By body: of the squared deviation of its centre of mass."""
    orientation: Mapping[str, Weight] = field(default_factory=dict)
    """By body: of the squared deviation of its rotation, times the squared radius."""
    closeness: Weight | Mapping[str, Weight] = CLOSENESS
    """Of the squared difference from the input curves, times the squared radius for a motor that turns."""
    acceleration: Weight | Mapping[str, Weight] = ACCELERATION
    """Of the squared acceleration, over omega_1^4, times the squared radius for a motor that turns."""
    speed_limit: float | Mapping[str, float] = np.inf
    """rad/s or m/s."""
    acceleration_limit: float | Mapping[str, float] = np.inf
    """rad/s^2 or m/s^2."""
    torque_limit: float | Mapping[str, float] = np.inf
    """N m or N."""


def over_time(weight: Weight, times: Array, what: str) -> Array:
    """(t,) the weight at times (t,), s."""
    if isinstance(weight, tuple):
        if len(weight) != 2:
            raise MechanismError(f"{what} is given as (times, values), got {len(weight)} arrays")
        at = array(weight[0], (-1,), f"times of {what}")
        values = array(weight[1], (len(at),), f"values of {what}")
        if len(at) == 0 or (np.diff(at) <= 0).any():
            raise MechanismError(f"the times of {what} must rise")
        found = np.interp(times, at, values)
    elif callable(weight):
        found = array([weight(float(t)) for t in times], (len(times),), what)
    else:
        found = np.full(len(times), float(array(weight, (), what)))
    if (found < 0).any():
        k = int(np.argmax(found < 0))
        raise MechanismError(f"{what} must not be negative, got {found[k]:g} at {times[k]:.3g} s")
    return found


def by_motor(weight: Weight | Mapping[str, Weight], motion: Motion, times: Array, default: float, what: str) -> Array:
    """(t, motors) the weight of each motor of a motion; `default` for motors that a mapping does not name."""
    if not isinstance(weight, Mapping):
        return np.tile(over_time(weight, times, f"`{what}`")[:, None], len(motion.motors))
    _check_names(weight, motion, what)
    columns = [over_time(weight.get(name, default), times, f"`{what}` of '{name}'") for name in motion.motors]
    return np.stack(columns, axis=1)


def limit_of_motors(limit: float | Mapping[str, float], motion: Motion, what: str) -> Array:
    """(motors,) the limit of each motor of a motion; infinite for motors that a mapping does not name."""
    if isinstance(limit, Mapping):
        _check_names(limit, motion, what)
    given = [limit.get(name, np.inf) if isinstance(limit, Mapping) else limit for name in motion.motors]
    values = np.array([float(array(each, (), f"`{what}`", infinite=True)) for each in given])
    if not (values > 0).all():
        raise MechanismError(f"`{what}` must be positive, got {values.min():g}")
    return values


def _check_names(given: Mapping[str, object], motion: Motion, what: str) -> None:
    for name in given:
        find(motion.motors, name, f"motor of the motion, in `{what}`")


def check_inputs(mech: Mechanism, motion: Motion, weights: Weights) -> None:
    """Raises if the motion does not fit the mechanism, or if a weight or limit is wrong."""
    if not isinstance(motion, Motion):
        raise MechanismError(f"a Motion is needed, got {type(motion).__name__}; Motion.load reads one from a file")
    _check_motion(mech, motion)
    times = np.linspace(0, motion.duration, 101)
    moved, largest = moved_bodies(mech, motion.motors), 0.0
    for of, what in ((weights.track, "track"), (weights.orientation, "orientation")):
        if not isinstance(of, Mapping):
            raise MechanismError(f"`{what}` is given as {{body: weight}}, got {of!r:.60}")
        for name, weight in of.items():
            body = tracked_point(mech, name).body
            if body < 0:
                raise MechanismError(f"'{name}' is fixed to the world; no motor moves it")
            if body not in moved:
                raise MechanismError(f"no motor of the motion moves '{name}'; track a body that one of them moves")
            largest = max(largest, float(over_time(weight, times, f"the weight of '{name}' in `{what}`").max()))
    if not largest > 0:
        raise MechanismError("all weights are zero; track a body: track={'tip': 1.0}")
    by_motor(weights.closeness, motion, times, CLOSENESS, "closeness")
    by_motor(weights.acceleration, motion, times, ACCELERATION, "acceleration")
    for limit, what in (
        (weights.speed_limit, "speed_limit"),
        (weights.acceleration_limit, "acceleration_limit"),
        (weights.torque_limit, "torque_limit"),
    ):
        limit_of_motors(limit, motion, what)


def _check_motion(mech: Mechanism, motion: Motion) -> None:
    """Raises unless all motors exist and stay within the limits of their joints."""
    coordinates = {motor.name: motor.coordinate for motor in mech.motors}
    if not coordinates:
        raise MechanismError(f"'{mech.name}' has no motors; a motion needs one (Builder.motor)")
    times = np.linspace(0, motion.duration, 8 * len(motion.control))
    for name, values in zip(motion.motors, motion(times).T, strict=True):
        find(list(coordinates), name, f"motor of '{mech.name}'")
        joint = mech.joint(coordinates[name])
        lower, upper = joint.limits[joint.axes.index(coordinates[name])]
        beyond = np.maximum(lower - values, values - upper)
        if beyond.max() > LIMIT_TOLERANCE:
            k = int(np.argmax(beyond))
            raise MechanismError(
                f"motor '{name}' moves to {values[k]:.4g} at {times[k]:.3g} s, beyond the limits {lower:g} ... "
                f"{upper:g} of joint '{joint.name}'; change the motion, or widen the limits"
            )
