"""Quantities of something that moves, by name: what a log can have in its columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from supple.errors import MechanismError
from supple.mechanism import Mechanism
from supple.mechanism.named import coordinate_columns
from supple.mechanism.poses import find
from supple.mechanism.record import Array

NAMES = ("q", "qd", "energy", "motor torque", "actuator force", "target", "contact force")
"""Quantities that are no names of bodies, sites or joints."""
XYZ = ("x", "y", "z")


@dataclass(frozen=True)
class Quantity:
    """One or more columns of numbers."""

    name: str
    columns: tuple[str, ...]
    """Names with units, as "tip x [m]"."""
    read: Callable[[Any], Array]
    """The numbers (columns,), given what moves."""


def quantity(moving: Any, name: object) -> Quantity:
    """The quantity of a name, as `sim.log` takes it."""
    mech: Mechanism = moving.mechanism
    if not isinstance(name, str):
        raise MechanismError(f"a quantity of a log is a name such as 'q' or 'energy', got {name!r:.60}")
    makers: dict[str, Callable[[Any], Quantity]] = {
        "q": lambda moving: _coordinates(mech, "q", "", slice(None)),
        "qd": lambda moving: _coordinates(mech, "qd", "/s", slice(None)),
        "energy": lambda moving: _energy(),
        "motor torque": _motor_torque,
        "actuator force": _actuator_force,
        "target": _target,
        "contact force": _contact_force,
    }
    if name in makers:
        return makers[name](moving)
    frames = [*(body.name for body in mech.bodies), *(site.name for site in mech.sites)]
    if name in frames:
        return _position(name)
    kind, _, own = name.partition(" ")
    if kind in ("q", "qd") and own:
        return _coordinates(mech, kind, "/s" if kind == "qd" else "", coordinate_columns(mech, own))
    joints = [joint.name for joint in mech.joints]
    if name in joints or name in mech.coordinates:
        return _coordinates(mech, "q", "", coordinate_columns(mech, name))
    what = f"quantity, body, site or joint of '{mech.name}'"
    find([*NAMES, *frames, *mech.coordinates], name, what)
    raise AssertionError  # find raises


def coordinate_units(mech: Mechanism) -> list[str]:
    """"rad" or "m" for each of `mech.coordinates`."""
    units = {
        axis: "rad" if joint.twists[i, 3:].any() else "m"
        for joint in mech.joints
        if joint.name not in _amplitude_joints(mech)
        for i, axis in enumerate(joint.axes)
    }
    return [units.get(name, "m") for name in mech.coordinates]


def _amplitude_joints(mech: Mechanism) -> set[str]:
    """Joints whose coordinates are modal amplitudes of flexible bodies, m."""
    return {flexible.frame(name) for flexible in mech.flexible for name in flexible.moving}


def _coordinates(mech: Mechanism, kind: str, per: str, columns: slice) -> Quantity:
    names, units = mech.coordinates[columns], coordinate_units(mech)[columns]
    labels = tuple(f"{kind} {name} [{unit}{per}]" for name, unit in zip(names, units, strict=True))
    return Quantity(kind, labels, lambda moving: np.asarray(getattr(moving, kind))[columns])


def _position(name: str) -> Quantity:
    columns = tuple(f"{name} {axis} [m]" for axis in XYZ)
    return Quantity(name, columns, lambda moving: moving.poses[name][:3, 3])


def _energy() -> Quantity:
    parts = ("kinetic", "strain", "gravity", "total")
    columns = tuple(f"energy {part} [J]" for part in parts)
    return Quantity("energy", columns, lambda moving: np.array([getattr(moving.energy, part) for part in parts]))


def _motor_torque(moving: Any) -> Quantity:
    mech = moving.mechanism
    units = dict(zip(mech.coordinates, coordinate_units(mech), strict=True))
    names = [motor.name for motor in mech.motors]
    columns = [f"motor torque {m.name} [{'N' if units.get(m.coordinate) == 'm' else 'N m'}]" for m in mech.motors]
    return _by_name(moving, "motor torque", "motor_torques", names, columns)


def _actuator_force(moving: Any) -> Quantity:
    names = [actuator.name for actuator in moving.mechanism.actuators]
    columns = [f"actuator force {name} [N or N m]" for name in names]
    return _by_name(moving, "actuator force", "actuator_forces", names, columns)


def _target(moving: Any) -> Quantity:
    mech = moving.mechanism
    units = dict(zip(mech.coordinates, coordinate_units(mech), strict=True))
    units |= {motor.name: units.get(motor.coordinate, "rad") for motor in mech.motors}
    names = list(getattr(moving, "targets", {}))
    columns = [f"target {name} [{units.get(name, 'rad or m')}]" for name in names]
    return _by_name(moving, "target", "targets", names, columns)


def _by_name(moving: Any, name: str, attribute: str, names: Sequence[str], columns: Sequence[str]) -> Quantity:
    """The values of a dict that is an attribute of what moves."""
    mech = moving.mechanism
    if not names:
        raise MechanismError(f"'{mech.name}' has nothing whose {name} could be logged")
    if not hasattr(moving, attribute):
        raise MechanismError(f"the {name} of '{mech.name}' is known to supple.Simulation only, not to what is logged")

    def read(moving: Any) -> Array:
        values = getattr(moving, attribute)
        return np.array([values.get(each, 0.0) for each in names])

    return Quantity(name, tuple(columns), read)


def _contact_force(moving: Any) -> Quantity:
    """Sums of the contact forces on each object and mechanism of a world, N, world axes."""
    if not moving.has_contacts:
        raise MechanismError(f"'{moving.mechanism.name}' has no contacts; log a World")
    names = list(dict.fromkeys(body.name.partition(":")[0] for body in moving.mechanism.bodies))

    def read(moving: Any) -> Array:
        total = {name: np.zeros(3) for name in names}
        for contact in moving.contacts:
            for side, sign in ((contact.first, 1.0), (contact.second, -1.0)):
                if (name := side.partition(":")[0]) in total:
                    total[name] += sign * contact.force
        return np.concatenate([np.zeros(0), *total.values()])

    return Quantity("contact force", tuple(f"contact force {n} {axis} [N]" for n in names for axis in XYZ), read)
