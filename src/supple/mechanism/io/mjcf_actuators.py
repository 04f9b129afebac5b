"""MuJoCo's actuators. Those that act like springs and dampers are also added to the coordinate or tendon they drive."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from supple.mechanism.actuator import Actuator
from supple.mechanism.io.compiler import Model
from supple.mechanism.io.mjcf_joints import HINGE, SLIDE
from supple.mechanism.io.mjcf_report import Report
from supple.mechanism.io.mjcf_springs import Spring
from supple.mechanism.record import Array

JOINT, JOINT_IN_PARENT, TENDON = 0, 1, 3
FIXED, AFFINE = 0, 1
NO_BIAS, AFFINE_BIAS = 0, 1
NO_DYNAMICS, INTEGRATOR, FILTER, FILTER_EXACT = range(4)
DYNAMICS = {NO_DYNAMICS: "none", INTEGRATOR: "integrator", FILTER: "filter", FILTER_EXACT: "filter"}
TRANSMISSIONS = {2: "slider-crank", 4: "site", 5: "body (adhesion)", 6: "SO(3)"}
UNLIMITED = np.array([-np.inf, np.inf])


@dataclass(frozen=True)
class ControlInputs:
    """Inputs of the actuators: the controls and activations of a keyframe, or zero."""

    ctrl: np.ndarray[tuple[int], np.dtype[np.float64]]
    act: np.ndarray[tuple[int], np.dtype[np.float64]]

    @staticmethod
    def of(model: Model, key: int | None) -> ControlInputs:
        if key is None:
            return ControlInputs(np.zeros(len(model.actuator_ctrlrange)), np.zeros(model.key_act.shape[1]))
        return ControlInputs(model.key_ctrl[key], model.key_act[key])


@dataclass
class Driven:
    """What an actuator may drive: a hinge or slide, or a fixed tendon."""

    name: str
    """Of the coordinate or of the coupling."""
    spring: Spring
    force_range: Array
    """(2,) limit of the sum of all actuators' forces on it, N m or N."""


def read_actuators(
    model: Model,
    names: list[str],
    joints: dict[int, Driven],
    tendons: dict[int, Driven],
    controls: ControlInputs,
    report: Report,
) -> tuple[Actuator, ...]:
    """The actuators of joints and tendons, both by MuJoCo's index. Those that act like springs are added to these."""
    found = []
    for a, name in enumerate(names):
        driven = _driven(model, a, name, joints, tendons, report)
        if driven is None:
            continue
        _add_drive_damping_and_inertia(model, a, name, driven.spring, report)
        if int(model.options["disableactuator"]) >> int(model.actuator_group[a]) & 1:
            report.add("actuator", name, "belongs to a group that the file switches off; not imported")
        elif _is_affine(model, a, name, report):
            actuator = _read_affine(model, a, name, driven, controls, report)
            found += [actuator] if actuator is not None else []
    return tuple(found)


def _driven(
    model: Model, a: int, name: str, joints: dict[int, Driven], tendons: dict[int, Driven], report: Report
) -> Driven | None:
    kind, target = int(model.actuator_trntype[a]), int(model.actuator_trnid[a, 0])
    if kind in (JOINT, JOINT_IN_PARENT):
        if model.jnt_type[target] in (SLIDE, HINGE):
            return joints[target]
        report.add("actuator", name, "drives a ball or free joint; not imported: use sim.apply")
    elif kind == TENDON:
        if target in tendons:
            return tendons[target]
        report.add("actuator", name, "drives a spatial tendon; not imported: apply its force with sim.apply")
    else:
        what = TRANSMISSIONS.get(kind, "unknown")
        report.add("actuator", name, f"acts through a {what} transmission; not imported: use sim.apply")
    return None


def _add_drive_damping_and_inertia(model: Model, a: int, name: str, spring: Spring, report: Report) -> None:
    """Adds damping and inertia of the drive, multiplied by the square of its gear ratio."""
    gear = float(model.actuator_gear[model.actuator_outadr[a], 0])
    spring.damping += report.damping(float(model.actuator_damping[a]), "actuator", name) * gear**2
    spring.armature += float(model.actuator_armature[a]) * gear**2
    if model.actuator_dampingpoly[a].any():
        report.add("damping of actuator", name, "only the linear term is imported")


def _is_affine(model: Model, a: int, name: str, report: Report) -> bool:
    """Whether the actuator's force is an affine function of length and velocity; reports it if not."""
    gain, bias, dynamics = (int(getattr(model, f"actuator_{f}type")[a]) for f in ("gain", "bias", "dyn"))
    if gain not in (FIXED, AFFINE) or bias not in (NO_BIAS, AFFINE_BIAS) or model.actuator_ctrlnum[a] != 1:
        report.add("actuator", name, "is a muscle, DC motor or PID; not imported: use sim.set_torque")
        return False
    if dynamics not in (NO_DYNAMICS, INTEGRATOR, FILTER, FILTER_EXACT):
        report.add("actuator", name, "has activation dynamics that are not imported: use sim.set_torque")
        return False
    return True


def _read_affine(
    model: Model, a: int, name: str, driven: Driven, controls: ControlInputs, report: Report
) -> Actuator | None:
    """force = (g0 + g1 l + g2 l') u + b0 + b1 l + b2 l' with length l = gear x and control or activation u."""
    gear = float(model.actuator_gear[model.actuator_outadr[a], 0])
    gain = np.array(model.actuator_gainprm[a, :3])
    bias = np.array(model.actuator_biasprm[a, :3])
    if model.actuator_gaintype[a] == FIXED:
        gain[1:] = 0
    if model.actuator_biastype[a] == NO_BIAS:
        bias[:] = 0
    control, activation = _control_inputs(model, a, controls)
    constant, by_length, by_speed = gain * activation + bias
    stiffness, damping = -by_length * gear**2, -by_speed * gear**2
    if stiffness < 0 or damping < 0 or gear == 0:
        report.add("actuator", name, "has negative stiffness or damping, or no gear; not imported")
        return None
    like_spring = stiffness > 0 or (damping > 0 and constant == 0)
    if like_spring:
        if stiffness > 0:
            driven.spring.add_linear(stiffness, constant * gear / stiffness)
        driven.spring.damping += damping
    if model.actuator_delay[a]:
        report.add("delay of actuator", name, "is not imported")
    u, dynamics = int(model.actuator_ctrladr[a]), DYNAMICS[int(model.actuator_dyntype[a])]
    lag = float(model.actuator_dynprm[a, 0]) if dynamics == "filter" else 0.0
    if dynamics == "filter" and lag <= 0:
        dynamics = "none"
    own = np.array(model.actuator_forcerange[a]) if model.actuator_forcelimited[a] else UNLIMITED
    whole = np.sort(driven.force_range / gear)  # of the joint or tendon
    force_range = np.array([max(own[0], whole[0]), min(own[1], whole[1])])
    if force_range[0] > force_range[1] or not force_range.any():
        report.add("actuator", name, "may exert no force; not imported")
        return None
    return Actuator(
        name,
        drives=driven.name,
        gear=gear,
        gain=gain,
        bias=bias,
        control_range=model.actuator_ctrlrange[u] if model.actuator_ctrllimited[u] else UNLIMITED,
        force_range=force_range,
        dynamics=dynamics,
        lag=lag,
        activation_range=model.actuator_actrange[a] if model.actuator_actlimited[a] else UNLIMITED,
        control=control,
        activation=activation,
        in_spring=bool(like_spring),
    )


def _control_inputs(model: Model, a: int, controls: ControlInputs) -> tuple[float, float]:
    """The actuator's control and activation at the start. The activation of a filter has settled at the control."""
    u = int(model.actuator_ctrladr[a])
    value = float(controls.ctrl[u])
    control = float(np.clip(value, *model.actuator_ctrlrange[u])) if model.actuator_ctrllimited[u] else value
    if model.actuator_dyntype[a] == INTEGRATOR:
        return control, float(controls.act[model.actuator_actadr[a]])
    return control, control
