"""Values for coordinates, given as a number, as {name: value} or as an array."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from supple.errors import MechanismError
from supple.mechanism.axes import axis_names
from supple.mechanism.record import Array, array

if TYPE_CHECKING:
    from supple.mechanism.actuator import Actuator
    from supple.mechanism.mechanism import Mechanism


def named_values(mech: Mechanism, given: Mapping[str, ArrayLike], what: str) -> dict[str, float]:
    """A number for each named coordinate; the name of a joint stands for all its axes, with one number or one each."""
    axes = set(axis_names(mech))
    result: dict[str, float] = {}
    for name, value in given.items():
        own = (name,) if name in axes else mech.joint(name).axes
        numbers = array(np.full(len(own), value) if np.ndim(value) == 0 else value, (len(own),), f"{what} of '{name}'")
        result |= dict(zip(own, numbers.tolist(), strict=True))
    return result


def by_coordinate(mech: Mechanism, given: ArrayLike | Mapping[str, ArrayLike], start: Array, what: str) -> Array:
    """(dof,) values: one number for all, an array for all, or `start` with the named ones replaced."""
    if isinstance(given, Mapping):
        named = named_values(mech, given, what)
        if within := [name for name in named if name not in mech.coordinates]:
            raise MechanismError(
                f"{what} of '{mech.name}' names '{within[0]}', which closes a loop and has no place among its "
                "coordinates: it follows from the others"
            )
        values = dict(zip(mech.coordinates, start, strict=True)) | named
        return np.array([values[name] for name in mech.coordinates])
    if np.ndim(given) == 0 and not isinstance(given, str):
        given = np.full(mech.dof, array(given, (), f"{what} of '{mech.name}'"))
    return array(given, (mech.dof,), f"{what} of '{mech.name}' ({mech.dof} coordinates)")


def coordinates_given(mech: Mechanism, q: ArrayLike | Mapping[str, ArrayLike] | None, what: str) -> Array:
    """(dof,) coordinates: an array, or {joint or coordinate: value} with the reference pose for the others."""
    if q is None:
        return np.asarray(mech.reference)
    if isinstance(q, Mapping):
        return by_coordinate(mech, q, mech.reference, what)
    return array(q, (mech.dof,), f"{what} of '{mech.name}' ({mech.dof} coordinates)")


def relaxed(mech: Mechanism) -> Mechanism:
    """The mechanism with all springs unloaded at the reference pose. The controls of actuators that are part of a
    spring move with its rest."""
    joints = tuple(replace(joint, rest=joint.reference) for joint in mech.joints)
    reference = {name: x for joint in joints for name, x in zip(joint.axes, joint.reference, strict=True)}
    springs: dict[str, tuple[float, float]] = {}  # stiffness and change of rest, by coordinate and coupling
    for old, new in zip(mech.joints, joints, strict=True):
        springs |= dict(zip(old.axes, zip(old.stiffness, new.rest - old.rest, strict=True), strict=True))
    couplings = []
    for c in mech.couplings:
        length = float(c.coefficients @ [reference[name] for name in c.coordinates])
        couplings.append(c if c.rigid else replace(c, rest=length))
        springs[c.name] = (c.stiffness, couplings[-1].rest - c.rest)
    taken: set[str] = set()
    actuators = tuple(_moved_with_spring(actuator, springs, taken) for actuator in mech.actuators)
    return replace(mech, joints=joints, couplings=tuple(couplings), actuators=actuators)


def _moved_with_spring(actuator: Actuator, springs: dict[str, tuple[float, float]], taken: set[str]) -> Actuator:
    """The actuator with the control that moves its spring's rest; the first one on a spring takes all of it."""
    stiffness, moved = springs[actuator.drives]
    if not (actuator.in_spring and stiffness and moved and actuator.gain[0]) or actuator.drives in taken:
        return actuator
    taken.add(actuator.drives)
    change = stiffness * moved / (actuator.gear * actuator.gain[0])
    fields: dict[str, Any] = {"activation": actuator.activation + change}
    if actuator.dynamics != "integrator":
        fields["control"] = actuator.control + change
    return replace(actuator, **fields)
