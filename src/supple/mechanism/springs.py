"""Springs and dampers for the coordinates of a mechanism."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from supple.errors import MechanismError
from supple.mechanism.axes import axis_names
from supple.mechanism.coupling import Coupling
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


def stiffness_scale(mech: Mechanism) -> float:
    """A typical torque per radian of the mechanism: its stiffest spring, or its weight times the radius."""
    scales = [0.0, *(joint_stiffness(joint, mech.radius) for joint in mech.joints)]
    scales += [coupling_stiffness(c) for c in mech.couplings]
    for each in mech.flexible:  # torque per radian of each interface with the reference held
        for name in each.moving:
            jacobian = each.basis.frame(name, np.zeros(each.basis.size)).jacobian[3:]
            scales.append(1 / float(np.trace(jacobian @ np.linalg.solve(each.basis.stiffness, jacobian.T))))
    weight = mech.mass * float(np.linalg.norm(mech.gravity)) * mech.radius
    return max(*scales, weight) or 1.0


def joint_stiffness(joint: Joint, radius: float) -> float:
    """Largest torque per radian of a joint's springs; slides count with a lever of one radius."""
    turning = np.abs(joint.twists[:, 3:]).max(axis=1, initial=0.0) > 0
    slopes = [c.slope(c.deflection).max() if c is not None else 0.0 for c in joint.curves]
    torques = (joint.stiffness + slopes) * np.where(turning, 1.0, radius**2)
    return float(torques.max(initial=0.0))


def coupling_stiffness(coupling: Coupling) -> float:
    """Torque per radian of a coupling's spring."""
    return 0.0 if coupling.rigid else coupling.stiffness * float(np.abs(coupling.coefficients).max()) ** 2
