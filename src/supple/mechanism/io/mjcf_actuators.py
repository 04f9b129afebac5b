"""MuJoCo's actuators: those that act like springs and dampers are added to the coordinate or tendon they drive."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from supple.mechanism.io.compiler import Model
from supple.mechanism.io.mjcf_joints import HINGE, SLIDE
from supple.mechanism.io.mjcf_report import Report
from supple.mechanism.io.mjcf_springs import Spring

JOINT, JOINT_IN_PARENT, TENDON = 0, 1, 3
FIXED, AFFINE = 0, 1
NO_BIAS, AFFINE_BIAS = 0, 1
NO_DYNAMICS, INTEGRATOR, FILTER, FILTER_EXACT = range(4)
TRANSMISSIONS = {2: "slider-crank", 4: "site", 5: "body (adhesion)", 6: "SO(3)"}


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


def add_actuators(
    model: Model,
    names: list[str],
    joints: list[list[Spring]],
    tendons: dict[int, Spring],
    controls: ControlInputs,
    report: Report,
) -> None:
    """Adds each actuator to the spring of the joint (by MuJoCo's index) or of the tendon that it drives."""
    for a, name in enumerate(names):
        spring = _driven_spring(model, a, name, joints, tendons, report)
        if spring is None:
            continue
        _add_drive_damping_and_inertia(model, a, name, spring, report)
        if int(model.options["disableactuator"]) >> int(model.actuator_group[a]) & 1:
            report.add("actuator", name, "belongs to a group that the file switches off; not imported")
        elif _is_affine(model, a, name, report):
            _add_affine_force(model, a, name, spring, controls, report)


def _driven_spring(
    model: Model, a: int, name: str, joints: list[list[Spring]], tendons: dict[int, Spring], report: Report
) -> Spring | None:
    kind, target = int(model.actuator_trntype[a]), int(model.actuator_trnid[a, 0])
    if kind in (JOINT, JOINT_IN_PARENT):
        if model.jnt_type[target] in (SLIDE, HINGE):
            return joints[target][0]
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
    spring.damping += float(model.actuator_damping[a]) * gear**2
    spring.armature += float(model.actuator_armature[a]) * gear**2
    if model.actuator_dampingpoly[a].any():
        report.add("damping of actuator", name, "only the linear term is imported")


def _is_affine(model: Model, a: int, name: str, report: Report) -> bool:
    """Whether the actuator's force is an affine function of length and velocity; reports it if not."""
    gain, bias, dynamics = (int(getattr(model, f"actuator_{f}type")[a]) for f in ("gain", "bias", "dyn"))
    if gain not in (FIXED, AFFINE) or bias not in (NO_BIAS, AFFINE_BIAS) or model.actuator_ctrlnum[a] != 1:
        report.add("actuator", name, "is a muscle, DC motor or PID; not imported: use sim.set_target")
        return False
    if dynamics not in (NO_DYNAMICS, INTEGRATOR, FILTER, FILTER_EXACT):
        report.add("actuator", name, "has activation dynamics that are not imported: use sim.set_target")
        return False
    return True


def _add_affine_force(model: Model, a: int, name: str, spring: Spring, controls: ControlInputs, report: Report) -> None:
    """Adds force = (g0 + g1 l + g2 l') u + b0 + b1 l + b2 l' with length l = gear x and constant control u."""
    gear = float(model.actuator_gear[model.actuator_outadr[a], 0])
    gain = np.array(model.actuator_gainprm[a, :3])
    bias = np.array(model.actuator_biasprm[a, :3])
    if model.actuator_gaintype[a] == FIXED:
        gain[1:] = 0
    if model.actuator_biastype[a] == NO_BIAS:
        bias[:] = 0
    constant, by_length, by_speed = gain * _control_input(model, a, controls) + bias
    stiffness, damping = -by_length * gear**2, -by_speed * gear**2
    if stiffness < 0 or damping < 0:
        report.add("actuator", name, "has negative stiffness or damping; not imported")
        return
    if stiffness == 0 and (damping == 0 or constant != 0):
        report.add("actuator", name, "is a force, not a spring; not imported: apply it with sim.apply")
        return
    if stiffness > 0:
        spring.add_linear(stiffness, constant * gear / stiffness)
    spring.damping += damping
    _report_ignored(model, a, name, report)


def _control_input(model: Model, a: int, controls: ControlInputs) -> float:
    """The actuator's control or, for an integrator, its activation."""
    if model.actuator_dyntype[a] == INTEGRATOR:
        return float(controls.act[model.actuator_actadr[a]])
    u = int(model.actuator_ctrladr[a])
    value = float(controls.ctrl[u])
    return float(np.clip(value, *model.actuator_ctrlrange[u])) if model.actuator_ctrllimited[u] else value


def _report_ignored(model: Model, a: int, name: str, report: Report) -> None:
    if model.actuator_dyntype[a] != NO_DYNAMICS or model.actuator_delay[a]:
        report.add("dynamics of actuator", name, "the spring is imported, its lag is not")
    if model.actuator_forcelimited[a]:
        report.add("force limit of actuator", name, "the spring is imported, but its force is not limited")
