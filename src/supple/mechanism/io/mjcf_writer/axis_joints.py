"""Joints in MuJoCo's form: a sequence of hinges, slides and balls in the moving body's own frame."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from supple import spatial
from supple.mechanism.joint import Curve, Joint
from supple.mechanism.record import Array


@dataclass(frozen=True, eq=False)
class AxisJoint:
    """One MuJoCo joint, for one axis or one rotation vector of a Joint. MuJoCo applies the joints of a body in order,
    each in the body's frame:
    pose = reference pose @ exp(s_1 (q_1 - ref_1)) @ exp(s_2 (q_2 - ref_2)) ..."""

    kind: Literal["hinge", "slide", "ball", "free"]
    name: str
    joint: Joint
    part: slice
    """Slice of the joint's coordinates."""
    at: Array
    """(3,) a point on the axis, in the body's frame."""
    axes: Array
    """(3, 3) or (3, 1): maps coordinates to a rotation vector or translation in the body's frame."""
    pitch: float | None = None
    """Metres per radian for the slide of a screw, which has no coordinate of its own here."""
    is_reversed: bool = False

    @property
    def is_own_coordinate(self) -> bool:
        """Whether MuJoCo's coordinate equals one of ours."""
        return self.kind in ("hinge", "slide") and self.pitch is None

    @property
    def freedoms(self) -> int:
        return {"hinge": 1, "slide": 1, "ball": 3, "free": 6}[self.kind]

    def qpos(self, q: Array) -> list[float]:
        """MuJoCo's coordinates at the joint's coordinates q (k,)."""
        own, start = q[self.part], self.joint.reference[self.part]
        if self.kind == "ball":
            turn = spatial.so3_exp(self.axes @ start).T @ spatial.so3_exp(self.axes @ own)
            return [float(x) for x in spatial.quat_wxyz_from_matrix(turn)]
        if self.kind == "free":
            joint = self.joint
            pose = joint.pose_parent @ joint.displacement(q) @ spatial.inverse(joint.pose_child)
            pose = spatial.inverse(pose) if self.is_reversed else pose
            return [float(x) for x in (*pose[:3, 3], *spatial.quat_wxyz_from_matrix(pose[:3, :3]))]
        if self.pitch is not None:
            return [float(self.pitch * (own[0] - start[0]))]
        return [float(own[0])]

    def settings(self, notes: list[str]) -> dict[str, Any]:
        """Spring, damper, armature and limits as attributes; `notes` gets what they represent only approximately."""
        if self.kind == "free" or self.pitch is not None:
            return {}
        if self.kind == "ball":
            return _ball_settings(self, notes)
        joint, i = self.joint, self.part.start
        rest, reference = float(joint.rest[i]), float(joint.reference[i])
        stiffness, rest = tangent_spring(float(joint.stiffness[i]), joint.curves[i], rest, reference, self.name, notes)
        return {
            "ref": reference or None,
            "stiffness": stiffness or None,
            "springref": rest if stiffness else None,
            "damping": joint.damping[i] or None,
            "armature": joint.armature[i] or None,
            **range_attributes(joint.limits[i]),
            **_effort_attributes(float(joint.effort[i])),
        }


def _effort_attributes(effort: float) -> dict[str, Any]:
    """Range of the drive's torque; none for an infinite effort, and for zero, which MuJoCo cannot express."""
    if effort == 0 or not np.isfinite(effort):
        return {}
    return {"actuatorfrclimited": True, "actuatorfrcrange": np.array([-effort, effort])}


def tangent_spring(
    stiffness: float, curve: Curve | None, rest: float, reference: float, name: str, notes: list[str]
) -> tuple[float, float]:
    """Stiffness and rest of the linear spring that is tangent to a spring with a curve at the reference."""
    if curve is None:
        return stiffness, rest
    slope = stiffness + float(curve.slope(reference - rest))
    force = stiffness * (reference - rest) + float(curve(reference - rest))
    if slope <= 0:
        notes.append(f"'{name}': the curve of its spring is omitted (its slope at the reference is not positive)")
        return stiffness, rest
    notes.append(f"'{name}': the curve of its spring is written as its tangent at the reference")
    return slope, reference - force / slope


def range_attributes(bounds: Array) -> dict[str, Any]:
    """The range attributes; MuJoCo needs a range of some width."""
    if np.isinf(bounds).all():
        return {}
    lower, upper = bounds
    return {
        "limited": True,
        "range": (lower, upper if lower < upper else upper + 1e-9 * max(1.0, abs(upper))),
    }


def _ball_settings(axis_joint: AxisJoint, notes: list[str]) -> dict[str, Any]:
    joint, part = axis_joint.joint, axis_joint.part
    stiffness, damping, armature = (getattr(joint, f)[part] for f in ("stiffness", "damping", "armature"))
    if any(len(set(values.tolist())) > 1 for values in (stiffness, damping, armature)):
        notes.append(f"'{axis_joint.name}': a ball has one stiffness, damping and armature; written as the means")
    if stiffness.any() and (joint.rest[part].any() or joint.reference[part].any()):
        notes.append(f"'{axis_joint.name}': MuJoCo's ball has its spring unloaded at the reference pose")
    if any(joint.curves[part]):
        notes.append(f"'{axis_joint.name}': curves of a ball's springs are omitted")
    means = {"stiffness": stiffness.mean(), "damping": damping.mean(), "armature": armature.mean()}
    return {key: value or None for key, value in means.items()}


def axis_joints(joint: Joint, is_reversed: bool, free: bool) -> list[AxisJoint]:
    """The joint's axes in the frame of the body it moves: its child, or with `is_reversed` its parent.

    With X = E_1 exp(t_1 d_1) E_2 exp(t_2 d_2) ... C^-1, where E_i = exp(t_i ref_i) and d_i = q_i - ref_i, the
    axis t_i in the body's frame is Ad(C (E_i+1 E_i+2 ...)^-1) t_i.
    """
    if free:
        return [AxisJoint("free", joint.name, joint, slice(0, 6), np.zeros(3), np.zeros((3, 0)), None, is_reversed)]
    ends = np.cumsum(joint.blocks).tolist()
    parts = [slice(stop - size, stop) for size, stop in zip(joint.blocks, ends, strict=True)]
    sign = -1.0 if is_reversed else 1.0
    frame = joint.pose_parent if is_reversed else joint.pose_child
    result: list[AxisJoint] = []
    for part in parts if is_reversed else reversed(parts):  # from the moving body inwards
        twists = sign * joint.twists[part]
        result[:0] = _block(joint, part, twists, frame)
        frame = frame @ spatial.exp(-joint.reference[part] @ twists)
    return result


def _block(joint: Joint, part: slice, twists: Array, frame: Array) -> list[AxisJoint]:
    rotation, origin = frame[:3, :3], frame[:3, 3]
    if len(twists) == 3:
        name = joint.name if len(joint.blocks) == 1 else f"{joint.name}.rotation"
        return [AxisJoint("ball", name, joint, part, origin, rotation @ twists[:, 3:].T)]
    (linear, angular), name = np.split(twists[0], 2), joint.axes[part.start]
    if not angular.any():
        return [AxisJoint("slide", name, joint, part, origin, (rotation @ linear)[:, None])]
    axis = (rotation @ angular)[:, None]
    hinge = AxisJoint("hinge", name, joint, part, origin + rotation @ np.cross(angular, linear), axis)
    pitch = float(linear @ angular)
    if abs(pitch) <= 1e-12:
        return [hinge]
    return [hinge, AxisJoint("slide", f"{name}__advance", joint, part, hinge.at, axis, pitch)]
