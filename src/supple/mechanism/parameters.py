"""Numbers of a mechanism by name: "elbow.stiffness", "upper.mass", "tip.payload", "drive.target"."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from supple.errors import MechanismError
from supple.mechanism.body import Body
from supple.mechanism.mechanism import Mechanism
from supple.mechanism.placing import merged_inertia
from supple.mechanism.poses import find
from supple.mechanism.record import array, lock

OF_SPRING = ("stiffness", "damping", "rest")
NOT_NEGATIVE = ("stiffness", "damping", "armature", "mass", "payload")
INDEPENDENT = ("topology", "coordinates", "loop_coordinates", "reference", "_body_index", "_site_index", "poses")
"""What a mechanism caches and its parameters do not change; so does the bounding sphere."""


@dataclass(frozen=True)
class Parameter:
    """One number of a mechanism."""

    name: str
    """As in "elbow.stiffness"."""
    part: str
    """"joint", "coupling", "motor", "body" or "payload"."""
    index: int
    """Index of the part in its tuple of the mechanism: `mech.joints`, ... A payload has that of its body."""
    field: str
    """Field of the part."""
    axis: int = 0
    """Of a joint's axes."""
    point: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Place of a payload in the body's frame, m."""

    def value(self, mech: Mechanism) -> float:
        """The present value; zero for a payload, which is added to what is there."""
        if self.part == "payload":
            return 0.0
        value = getattr(_parts(mech, self.part)[self.index], self.field)
        return float(value[self.axis] if self.part == "joint" else value)


class Parameters:
    """The parameters of a mechanism."""

    def __init__(self, mech: Mechanism) -> None:
        self.mechanism = mech

    @cached_property
    def all(self) -> dict[str, Parameter]:
        """Parameters by name, without payloads. The spring's `rest` has a second name, `target`.

        A coupling with the name of a coordinate has '.coupling' added to its name.
        """
        mech, found = self.mechanism, []
        for i, joint in enumerate(mech.joints):
            for k, axis in enumerate(joint.axes):
                found += [Parameter(f"{axis}.{field}", "joint", i, field, k) for field in (*OF_SPRING, "armature")]
                found.append(Parameter(f"{axis}.target", "joint", i, "rest", k))
        axes = {axis for joint in mech.joints for axis in joint.axes}
        for i, coupling in enumerate(mech.couplings):
            owner = f"{coupling.name}.coupling" if coupling.name in axes else coupling.name
            own = ("rest",) if coupling.rigid else OF_SPRING
            found += [Parameter(f"{owner}.{field}", "coupling", i, field) for field in own]
            found.append(Parameter(f"{owner}.target", "coupling", i, "rest"))
        for i, motor in enumerate(mech.motors):
            found.append(Parameter(f"{motor.name}.target", "motor", i, "position"))
        found += [Parameter(f"{body.name}.mass", "body", i, "mass") for i, body in enumerate(mech.bodies)]
        return {each.name: each for each in found}

    def find(self, name: object) -> Parameter:
        """The parameter of this name, or an error that suggests others."""
        if isinstance(name, str) and name in self.all:
            return self.all[name]
        mech = self.mechanism
        frames = [*(body.name for body in mech.bodies), *(site.name for site in mech.sites)]
        if isinstance(name, str) and name.endswith(".payload") and name.removesuffix(".payload") in frames:
            body, pose = mech.frame(name.removesuffix(".payload"))
            if body < 0:
                raise MechanismError(f"'{name}' is fixed to the world; a payload there does nothing")
            x, y, z = pose[:3, 3].tolist()
            return Parameter(name, "payload", body, "mass", point=(x, y, z))
        find([*self.all, *(f"{frame}.payload" for frame in frames)], name, f"parameter of '{mech.name}'")
        raise AssertionError

    def changed(self, values: Mapping[Parameter, float]) -> Mechanism:
        """The mechanism with other values; its topology and reference poses are not computed again."""
        mech = self.mechanism
        parts: dict[str, list[Any]] = {}
        for each, value in sorted(values.items(), key=lambda item: item[0].part == "payload"):  # added to given masses
            if each.field in NOT_NEGATIVE and value < 0:
                raise MechanismError(f"'{each.name}' must not be negative, got {value:g}")
            field = {"joint": "joints", "coupling": "couplings", "motor": "motors"}.get(each.part, "bodies")
            list_of = parts.setdefault(field, list(getattr(mech, field)))
            list_of[each.index] = _changed_part(list_of[each.index], each, value)
        result = object.__new__(Mechanism)
        kept = {field.name for field in fields(Mechanism)}.union(INDEPENDENT, ["bounding_sphere"])
        vars(result).update({name: value for name, value in vars(mech).items() if name in kept})
        vars(result).update({field: tuple(each) for field, each in parts.items()})
        return result


def with_parameters(mech: Mechanism, values: Mapping[str, ArrayLike]) -> Mechanism:
    """As `Mechanism.with_parameters`."""
    if not isinstance(values, Mapping):
        raise MechanismError(f"parameters are given as {{'elbow.stiffness': 30.0, ...}}, got {values!r:.60}")
    names = Parameters(mech)
    checked = {names.find(name): float(array(value, (), f"'{name}'")) for name, value in values.items()}
    twice = len({(p.part, p.index, p.field, p.axis, p.point) for p in checked}) < len(checked)
    if twice:
        raise MechanismError("one parameter is given twice: 'target' and 'rest' of a spring are the same number")
    return names.changed(checked)


def _parts(mech: Mechanism, part: str) -> Any:
    return {"joint": mech.joints, "coupling": mech.couplings, "motor": mech.motors}.get(part, mech.bodies)


def _changed_part(part: Any, parameter: Parameter, value: float) -> Any:
    """A part with another value, which has been checked."""
    if parameter.part == "payload":
        pose = np.eye(4)
        pose[:3, 3] = parameter.point
        return merged_inertia(part, Body("payload", pose, value))
    if parameter.part == "body":
        return replace(part, mass=value)
    changed: Any = value
    if parameter.part == "joint":
        changed = getattr(part, parameter.field).copy()
        changed[parameter.axis] = value
        lock(changed)
    result = object.__new__(type(part))
    vars(result).update(vars(part) | {parameter.field: changed})
    return result
