"""Torques and controls of a reduced model, as set-points of the springs that they act through."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from supple.engine.actuation import as_in_spring, spring_of
from supple.errors import MechanismError
from supple.mechanism import Actuator, Mechanism
from supple.mechanism.axes import axis_names
from supple.mechanism.named import coordinate_columns
from supple.mechanism.poses import find
from supple.mechanism.record import Array, array
from supple.reduced.motion import Motion


def acts_like_spring(actuator: Actuator) -> bool:
    """Whether a control of an actuator is a set-point of the springs that contain it."""
    return actuator.in_spring and actuator.dynamics != "integrator" and not actuator.gain[1:].any()


class Drives:
    """Torques on joints and controls of actuators.

    A reduced model has no joint coordinates, but a linear spring of stiffness k whose rest moves by tau / k exerts the
    additional torque tau. So every torque and control becomes a set-point. An actuator at the limit of its force keeps
    it: before each time step its set-point is placed so that spring and damper have this force at the end of the step,
    if the speed does not change.
    """

    def __init__(self, mech: Mechanism, dt: float) -> None:
        self.mechanism, self.dt = mech, dt
        self.torques: dict[str, float] = {}
        """By coordinate, N m or N."""
        self.controls: dict[str, float | None] = {}
        """By actuator; None if it is switched off. Others have their control at the start."""
        self._index = {name: i for i, name in enumerate(axis_names(mech))}
        self._actuators = {a.name: as_in_spring(mech, a) for a in mech.actuators}
        self.limited = False
        """Whether a control is set of an actuator whose force is limited, or is switched off (a limit of zero)."""

    def copy(self) -> Drives:
        """A copy that can be changed."""
        other = Drives(self.mechanism, self.dt)
        other.torques, other.controls = dict(self.torques), dict(self.controls)
        other.limited = self.limited
        return other

    @property
    def all_controls(self) -> dict[str, float | None]:
        """Control of every actuator, set or not."""
        return {name: actuator.control for name, actuator in self._actuators.items()} | self.controls

    def set_torque(self, name: Any, torque: Any) -> None:
        """Sets torques from a name and a number, {name: number} or an array (dof,); all of them, or none."""
        mech = self.mechanism
        if not isinstance(name, str) and torque is not None:
            raise MechanismError("set_torque takes a name and a torque, {name: torque}, or an array (dof,)")
        if isinstance(name, str | Mapping):
            given = dict(name) if isinstance(name, Mapping) else {name: torque}
        else:
            given = dict(zip(mech.coordinates, array(name, (mech.dof,), f"torques of '{mech.name}'"), strict=True))
        result = dict(self.torques)
        for each, value in given.items():
            part = coordinate_columns(mech, each)
            values = array(np.atleast_1d(value), (part.stop - part.start,), f"torque on '{each}'")
            for axis, number in zip(mech.coordinates[part], values.tolist(), strict=True):
                if number or axis in result:
                    result[axis] = self._checked_torque(axis, number)
        self.torques = result

    def _checked_torque(self, axis: str, torque: float) -> float:
        joint = self.mechanism.joint(axis)
        at = joint.axes.index(axis)
        if joint.stiffness[at] == 0 or joint.curves[at] is not None or 3 in joint.blocks:
            raise MechanismError(
                f"a reduced model takes a torque only on a coordinate with a linear spring, and '{axis}' has none; "
                "add one with mech.with_springs(...), or use supple.Simulation"
            )
        if torque and joint.effort[at] == 0:
            raise MechanismError(f"the effort of '{axis}' is zero, so that no torque can act on it")
        return float(np.clip(torque, -joint.effort[at], joint.effort[at]))

    def set_control(self, name: Any, control: Any) -> None:
        """Sets controls from a name and a number, {name: number or None} or an array (actuators,)."""
        mech, names = self.mechanism, [a.name for a in self.mechanism.actuators]
        if not isinstance(name, str) and control is not None:
            raise MechanismError("set_control takes a name and a control, {name: control}, or an array (actuators,)")
        if isinstance(name, str | Mapping):
            given = dict(name) if isinstance(name, Mapping) else {name: control}
        else:
            given = dict(zip(names, array(name, (len(names),), f"controls of '{mech.name}'").tolist(), strict=True))
        result = dict(self.controls)
        for each, value in given.items():
            actuator = mech.actuators[find(names, each, f"actuator of '{mech.name}'")]
            if not acts_like_spring(actuator):
                raise MechanismError(
                    f"actuator '{each}' of '{mech.name}' does not act like a spring with a set-point, so that a "
                    "reduced model has no place for it; use supple.Simulation"
                )
            number = None if value is None else float(array(value, (), f"control of actuator '{each}'"))
            result[each] = None if number is None else float(np.clip(number, *actuator.control_range))
        self.controls = result
        self.limited = any(
            value is None or np.isfinite(self._force_range(self._actuators[name])).any()
            for name, value in result.items()
        )

    def targets(self, given: dict[str, float], rest: Callable[[str], float], motion: Motion) -> dict[str, float]:
        """Set-points with all torques and controls. `given` are those of the user, `rest` returns those of the model,
        `motion` has the present coordinates and rates, for the limits of forces."""
        now = (motion.coordinates, motion.rates) if self.limited else None
        result, mech = dict(given), self.mechanism
        moved: dict[str, float] = {}
        for axis, torque in self.torques.items():
            joint = mech.joint(axis)
            moved[axis] = torque / float(joint.stiffness[joint.axes.index(axis)])
        for name in self.controls:
            actuator = self._actuators[name]
            if stiffness := spring_of(mech, actuator)[0]:
                result[actuator.drives] = spring_of(mech, actuator)[2]  # controls are absolute
                more = actuator.gear * self._excess(name, now, motion) / stiffness
                moved[actuator.drives] = moved.get(actuator.drives, 0.0) + more
        for name, by in moved.items():
            result[name] = (result[name] if name in result else rest(name)) + by
        return result

    def _added_force(self, name: str) -> float:
        """Force of an actuator by its control, beyond that at the start."""
        actuator, control = self._actuators[name], self.controls.get(name)
        return 0.0 if control is None else float(actuator.gain[0]) * (control - actuator.activation)

    def _range(self, name: str) -> tuple[float, float]:
        """Range of the force of an actuator with a control; zero if it is switched off."""
        if self.controls[name] is None:
            return 0.0, 0.0
        lower, upper = self._force_range(self._actuators[name]).tolist()
        return lower, upper

    def _excess(self, name: str, now: tuple[Array, Array] | None, motion: Motion) -> float:
        """Force of an actuator beyond that of its spring and damper at the start's control, at the end of the step.

        Where a joint follows its set-point by the share f with the end effectors at rest, the steps that follow enlarge
        each change of the set-point by 1 / (1 - f). That is right for the spring. The model's damper, which must be
        compensated, does not change, so its speed counts by the share 1 - f.
        """
        if now is None:
            return self._added_force(name)
        actuator, (lower, upper) = self._actuators[name], self._range(name)
        length, speed = (actuator.gear * self._length(actuator, each) for each in now)
        share = 1.0 - self._length(actuator, motion.joint_response(actuator.drives))
        own = float(actuator.spring_force @ [1.0, length + self.dt * speed, share * speed])
        return min(max(own + self._added_force(name), lower), upper) - own

    def forces(self, q: Array, rates: Array) -> dict[str, float]:
        """Force of each actuator by name, before its gear, N m or N, at coordinates q (axes,) and their rates. Without
        a control of its own it is a spring, whose force is not limited."""
        result = {}
        for name, actuator in self._actuators.items():
            lengths = [actuator.gear * self._length(actuator, each) for each in (q, rates)]
            force = float(actuator.spring_force @ [1.0, *lengths]) if actuator.in_spring else 0.0
            if name in self.controls:
                force = float(np.clip(force + self._added_force(name), *self._range(name)))
            result[name] = force
        return result

    def strain_change(self, q: Array) -> float:
        """Energy, J, of the actuators with controls of their own at coordinates q (axes,), beyond that which the
        springs that contain them have at the start. It is (f - c/2) c / k with the stiffness k of an actuator, its
        force f and the same within its range, c; zero if it is switched off."""
        whole: dict[str, tuple[float, float]] = {}  # by spring: stiffness and moment with its actuators
        rest = dict[str, tuple[float, float]]()  # without those that have a control of their own
        at, result = dict[str, float](), 0.0
        for name in self.controls:
            actuator = self._actuators[name]
            stiffness, _, zero = spring_of(self.mechanism, actuator)
            constant, slope, _ = actuator.spring_force.tolist()
            if slope == 0:
                continue
            length = actuator.gear * self._length(actuator, q)
            at[actuator.drives] = length / actuator.gear
            whole[actuator.drives] = stiffness, stiffness * zero
            k, moment = rest.get(actuator.drives, whole[actuator.drives])
            rest[actuator.drives] = k + slope * actuator.gear**2, moment - actuator.gear * constant
            force = constant + slope * length + self._added_force(name)
            limited = min(max(force, self._range(name)[0]), self._range(name)[1])
            result -= (force - limited / 2) * limited / slope
        for drives, (k, moment) in whole.items():
            own, left = rest[drives]
            result -= (k * at[drives] - moment) ** 2 / (2 * k)
            result += (own * at[drives] - left) ** 2 / (2 * own) if own > 1e-9 * k else 0.0
        return result

    def _length(self, actuator: Actuator, q: Array) -> float:
        if actuator.drives in self._index:
            return float(q[self._index[actuator.drives]])
        coupling = next(c for c in self.mechanism.couplings if c.name == actuator.drives)
        pairs = zip(coupling.coefficients, coupling.coordinates, strict=True)
        return float(sum(factor * q[self._index[name]] for factor, name in pairs))

    def _force_range(self, actuator: Actuator) -> Array:
        if actuator.drives not in self._index:
            return actuator.force_range
        joint = self.mechanism.joint(actuator.drives)
        effort = float(joint.effort[joint.axes.index(actuator.drives)]) / abs(actuator.gear)
        return np.clip(actuator.force_range, -effort, effort)
