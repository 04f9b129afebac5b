"""Springs and dampers for the coordinates of a mechanism."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from supple.errors import MechanismError
from supple.mechanism.axes import axis_names
from supple.mechanism.joint import Joint
from supple.mechanism.mechanism import Mechanism
from supple.mechanism.record import array
from supple.mechanism.values import by_coordinate, named_values

Given = ArrayLike | Mapping[str, ArrayLike]


def with_springs(mech: Mechanism, stiffness: Given, damping: Given, joints: Iterable[str] | str | None) -> Mechanism:
    """As `Mechanism.with_springs`."""
    if joints is not None:
        axes, names = set(axis_names(mech)), [joints] if isinstance(joints, str) else joints
        where = {axis for name in names for axis in ([name] if name in axes else mech.joint(name).axes)}
    elif isinstance(stiffness, Mapping) or np.ndim(stiffness) > 0:  # these name their coordinates
        where = set(_values(mech, stiffness, set(), "stiffness"))
    else:
        where = {name for name in mech.unheld if mech.joint(name).kind != "free"}
    stiff, damp = _values(mech, stiffness, where, "stiffness"), _values(mech, damping, where, "damping")
    _warn_of_replaced_damping(mech, damp)
    # the new spring takes the place of an actuator's
    actuators = tuple(a for a in mech.actuators if not (a.in_spring and a.drives in stiff))
    return replace(
        mech, joints=tuple(_joint_with_springs(joint, stiff, damp) for joint in mech.joints), actuators=actuators
    )


def _values(mech: Mechanism, given: Given, where: set[str], what: str) -> dict[str, float]:
    """A number for each coordinate that gets one; a single number is for those in `where`."""
    if isinstance(given, Mapping):
        result = named_values(mech, given, what)
    elif np.ndim(given) > 0:
        numbers = by_coordinate(mech, given, mech.reference, what)
        result = dict(zip(mech.coordinates, numbers.tolist(), strict=True))
    else:
        result = dict.fromkeys(where, float(array(given, (), what)))
        if array(given, (), what) < 0:
            raise MechanismError(f"{what} must be finite and not negative, got {given!r:.60}")
    for name, value in result.items():
        if value < 0:
            raise MechanismError(f"{what} of '{name}' must be finite and not negative, got {value:g}")
    return result


def _warn_of_replaced_damping(mech: Mechanism, damping: dict[str, float]) -> None:
    replaced = [
        f"'{name}' ({old:g} by {damping[name]:g})"
        for joint in mech.joints
        for name, old in zip(joint.axes, joint.damping, strict=True)
        if 0 < old < damping.get(name, 0.0)
    ]
    if replaced:
        more = f" and {len(replaced) - 3} more" if len(replaced) > 3 else ""
        warnings.warn(f"with_springs replaces the damping of {', '.join(replaced[:3])}{more}", stacklevel=4)


def _joint_with_springs(joint: Joint, stiffness: dict[str, float], damping: dict[str, float]) -> Joint:
    """The joint with the springs of its coordinates, unloaded at the reference pose; larger damping stays."""
    if not any(name in stiffness or name in damping for name in joint.axes):
        return joint
    old = zip(joint.axes, joint.stiffness, joint.damping, joint.reference, joint.rest, strict=True)
    rows = [
        (stiffness.get(n, k), max(damping.get(n, 0.0), d), reference if n in stiffness else rest)
        for n, k, d, reference, rest in old
    ]
    new_stiffness, new_damping, new_rest = np.array(rows).T
    return replace(joint, stiffness=new_stiffness, damping=new_damping, rest=new_rest)
