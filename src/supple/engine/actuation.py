"""Torques and controls of drives: checks, and what the core needs of each actuator."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from supple import _core
from supple.errors import MechanismError
from supple.mechanism import Actuator, Mechanism
from supple.mechanism.actuator import DYNAMICS
from supple.mechanism.poses import find
from supple.mechanism.record import Array, array, number

if TYPE_CHECKING:
    from supple.engine.assembly import Acting, Equations

ON, CONTROL, ACTIVATION, SHARE = range(4)
"""Columns of the core's `actuation`."""


def spring_of(mech: Mechanism, actuator: Actuator) -> tuple[float, float, float]:
    """Stiffness, damping and rest of the spring of the coordinate or coupling that an actuator drives."""
    for coupling in mech.couplings:
        if coupling.name == actuator.drives:
            return coupling.stiffness, coupling.damping, coupling.rest
    joint = mech.joint(actuator.drives)
    at = joint.axes.index(actuator.drives)
    return float(joint.stiffness[at]), float(joint.damping[at]), float(joint.rest[at])


def as_in_spring(mech: Mechanism, actuator: Actuator) -> Actuator:
    """An actuator as the spring that contains it is now.

    A spring that was made softer makes the actuator softer. If the actuator is the whole spring, the rest of the spring
    determines the control at the start.
    """
    if not actuator.in_spring:
        return actuator
    stiffness, damping, rest = spring_of(mech, actuator)
    gear, gain, bias, activation = actuator.gear, actuator.gain.copy(), actuator.bias.copy(), actuator.activation
    own = -actuator.spring_force[1:]
    contained = np.minimum(own, np.array([stiffness, damping]) / gear**2)
    if own[0] > 0 and contained[0] < own[0]:
        gain[0] *= contained[0] / own[0]
        bias[0] *= contained[0] / own[0]
    if gain[0] != 0 and stiffness > 0 and contained[0] * gear**2 >= (1 - 1e-9) * stiffness:
        activation = (stiffness * rest / gear - bias[0]) / gain[0]
    bias[1:] = -contained - gain[1:] * activation
    moved = 0.0 if actuator.dynamics == "integrator" else activation - actuator.activation
    return replace(actuator, gain=gain, bias=bias, activation=activation, control=actuator.control + moved)


def add_actuator(model: Any, mech: Mechanism, actuator: Actuator, axis: dict[str, int], spring: dict[str, int]) -> None:
    """Adds an actuator to the compiled model."""
    driven = axis.get(actuator.drives, -1)
    model.add_actuator(
        driven,
        spring[actuator.drives] if driven < 0 else -1,
        actuator.gear,
        np.concatenate([actuator.gain, actuator.bias, actuator.spring_force]),
        np.array([*force_range(mech, actuator), *actuator.activation_range]),
        DYNAMICS.index(actuator.dynamics),
        actuator.lag,
        actuator.control,
        actuator.activation if actuator.dynamics != "none" else actuator.control,
    )


def force_range(mech: Mechanism, actuator: Actuator) -> tuple[float, float]:
    """Range of a force before the gear, N m or N: the actuator's, and that of the effort of the joint it drives."""
    lower, upper = map(float, actuator.force_range)
    if not any(actuator.drives in joint.axes for joint in mech.joints):
        return lower, upper  # it drives a coupling
    joint = mech.joint(actuator.drives)
    effort = float(joint.effort[joint.axes.index(actuator.drives)]) / abs(actuator.gear)
    if effort == 0:
        raise MechanismError(
            f"the effort of '{actuator.drives}' is zero, so that actuator '{actuator.name}' cannot drive it; "
            "give the joint another effort, or remove the actuator"
        )
    return max(lower, -effort), min(upper, effort)


def engine_core(eqs: Equations, acting: Acting) -> _core.Engine:
    """The core of a mechanism in motion, which knows what the numbers of a user's arrays mean."""
    mech, core = eqs.mechanism, _core.Engine(eqs.core, eqs.compiled(acting))
    motors = {motor.coordinate: eqs.row[motor.name] for motor in mech.motors}
    efforts = _torque_limits(eqs)
    torques = {name: at for name, at in eqs.axis.items() if efforts[at]}
    torques |= {j.name: eqs.axis[j.axes[0]] for j in mech.joints if len(j.axes) == 1 and j.axes[0] in torques}
    first_row = len(eqs.axis) + len(eqs.spring)
    targets = eqs.sprung | {name: len(eqs.axis) + at for name, at in eqs.spring.items()}
    core.take_arrays(
        mech.tree_axes.tolist(),
        efforts,
        [int(name in eqs.sprung) for name in mech.coordinates],
        [motors.get(name, -1) for name in mech.coordinates],
        [float(actuator.control_range[0]) for actuator in eqs.actuators],
        [float(actuator.control_range[1]) for actuator in eqs.actuators],
        _shares(eqs),
        dict(eqs.actuator),
        torques,
        targets | {name: first_row + at for name, at in eqs.row.items()},
    )
    return core


def _torque_limits(eqs: Equations) -> list[float]:
    """(axes,) largest torque on each coordinate, N m or N; zero where none acts, as `_check_torque` says."""
    mech, limits = eqs.mechanism, []
    for i, joint in enumerate(mech.joints):
        takes_none = joint.interface is not None or (3 in joint.blocks and i in mech.topology.loops)
        limits += [0.0 if takes_none or name in eqs.held else float(effort)
                   for name, effort in zip(joint.axes, joint.effort, strict=True)]  # fmt: skip
    return limits


def _shares(eqs: Equations) -> list[float]:
    """Change of each actuator's force with the set-point of the spring that contains it, N/m or N m/rad.

    A set-point moves the spring's force by stiffness times its change. The first actuator on it takes all of that.
    """
    shares: list[float] = []
    taken: set[str] = set()
    for actuator in eqs.actuators:
        takes = actuator.in_spring and actuator.gain[0] != 0 and actuator.drives not in taken
        stiffness = spring_of(eqs.mechanism, actuator)[0] if takes else 0.0
        shares.append(stiffness / actuator.gear)
        if stiffness:
            taken.add(actuator.drives)
    return shares


def set_controls(eqs: Equations, core: _core.Engine, name: Any, control: Any) -> None:
    """Sets controls from a name and a number, {name: number or None} or an array (actuators,)."""
    names = eqs.actuator
    if not names:
        raise MechanismError(
            f"'{eqs.mechanism.name}' has no actuators; set_torque drives a joint, set_target moves a spring or motor"
        )
    if not isinstance(name, str) and control is not None:
        raise MechanismError("set_control takes a name and a control, {name: control}, or an array (actuators,)")
    if isinstance(name, str):
        given: Mapping[str, Any] = {name: control}
    elif isinstance(name, Mapping):
        given = name
    else:
        what = f"controls of '{eqs.mechanism.name}' ({len(names)} actuators)"
        core.set_controls(array(name, (len(names),), what), None)
        return
    values = core.actuation
    for each, value in given.items():
        at = names[each] if each in names else find(list(names), each, f"actuator of '{eqs.mechanism.name}'")
        if value is None:
            values[at, ON] = 0
            continue
        lower, upper = eqs.actuators[at].control_range.tolist()
        values[at, ON] = 1
        values[at, CONTROL] = min(max(number(value, f"control of actuator '{each}'"), lower), upper)
    core.set_actuation(values)


def set_torques(eqs: Equations, core: _core.Engine, name: Any, torque: Any) -> None:
    """Sets torques from a name and numbers, {name: numbers} or an array (dof,)."""
    mech, slices, result = eqs.mechanism, eqs.mechanism.axis_slices, core.applied
    given: list[tuple[slice, str, Any]] = []
    if not isinstance(name, str) and torque is not None:
        raise MechanismError("set_torque takes a name and a torque, {name: torque}, or an array (dof,)")
    if isinstance(name, str | Mapping):
        for each, value in ({name: torque} if isinstance(name, str) else name).items():
            part = slices[mech.joint_index(each)]
            if each in eqs.axis:
                part = slice(eqs.axis[each], eqs.axis[each] + 1)
            given.append((part, each, value))
    else:
        whole = array(name, (mech.dof,), f"torques of '{mech.name}' ({mech.dof} coordinates)")
        if core.set_torques(whole, None):
            return
        for j in mech.topology.tree:
            given.append((slices[j], mech.joints[j].name, whole[mech.topology.columns[j]]))
    for part, each, value in given:
        count = part.stop - part.start
        if np.ndim(value) == 0 and count == 1:
            value = [value]
        result[part] = array(value, (count,), f"torque on '{each}' ({count} axes)")
        _check_torque(eqs, each, part, result[part])
    core.set_applied(np.clip(result, -eqs.efforts, eqs.efforts))


def _check_torque(eqs: Equations, name: str, part: slice, torque: Array) -> None:
    """Raises for a torque that could not act."""
    mech = eqs.mechanism
    if not torque.any():
        return
    joint = mech.joint(name)
    if joint.interface is not None:
        raise MechanismError(f"'{name}' belongs to a flexible body; its amplitudes take no torque: use sim.apply")
    if 3 in joint.blocks and mech.joint_index(name) in mech.topology.loops:
        raise MechanismError(f"'{name}' closes a loop with a rotation vector; it takes no torque: use sim.apply")
    for axis, value in zip(eqs.names[part], torque.tolist(), strict=True):
        if value and axis in eqs.held:
            raise MechanismError(
                f"motor '{eqs.held[axis]}' prescribes '{axis}', so that a torque on it does nothing; "
                "remove the motor, or move it with sim.set_target"
            )
        if value and joint.effort[joint.axes.index(axis)] == 0:
            raise MechanismError(
                f"the effort of '{axis}' is zero, so that no torque can act on it; give the joint another effort, "
                "dataclasses.replace(joint, effort=np.inf) for instance"
            )
