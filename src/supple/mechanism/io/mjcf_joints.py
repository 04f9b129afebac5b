"""MuJoCo's joints: all joints of one body become one Joint, with MuJoCo's qpos as coordinates."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from supple import spatial
from supple.mechanism.io.compiler import Model
from supple.mechanism.io.mjcf_report import DRY_FRICTION, Report
from supple.mechanism.io.mjcf_springs import SAMPLED, Spring, polynomial_law, sampling_positions
from supple.mechanism.joint import Joint
from supple.mechanism.record import Array

FREE, BALL, SLIDE, HINGE = range(4)
REACH = {SLIDE: 1.0, HINGE: np.pi}
"""Half width, around rest, of the range in which a nonlinear spring without limits is sampled, m or rad."""


@dataclass
class Axes:
    """The coordinates of one MuJoCo joint: names, springs and limits."""

    id: int
    name: str
    kind: int
    names: tuple[str, ...]
    springs: list[Spring]
    limits: Array
    """(k, 2)."""
    reference: Array
    """(k,) at qpos0."""
    force_range: Array = field(default_factory=lambda: np.array([-np.inf, np.inf]))
    """(2,) of the actuators' torque on a hinge or slide, N m or N."""

    def coordinates(self, model: Model, qpos: Array) -> Array:
        """MuJoCo's qpos of this joint as our coordinates: quaternions become rotation vectors."""
        start = int(model.jnt_qposadr[self.id])
        if self.kind in (SLIDE, HINGE):
            return np.array([qpos[start]])
        position = qpos[start : start + 3] if self.kind == FREE else np.zeros(0)
        turn = start + len(position)
        return np.concatenate([position, spatial.so3_log(rotation(qpos[turn : turn + 4]))])


def rotation(quat_wxyz: Array) -> Array:
    """(3, 3) of a quaternion of any length."""
    length = float(np.linalg.norm(quat_wxyz))
    unit = quat_wxyz / length if length > 0 else np.array([1.0, 0, 0, 0])
    matrix: Array = spatial.matrix_from_quat_wxyz(unit)
    return matrix


def pose(position: Array, quat_wxyz: Array) -> Array:
    frame: Array = spatial.pose(rotation(quat_wxyz), np.asarray(position, dtype=float))
    return frame


def read_axes(model: Model, j: int, name: str, report: Report) -> Axes:
    """One MuJoCo joint with its own spring; actuators are added to its springs later."""
    kind = int(model.jnt_type[j])
    letters = {FREE: ("x", "y", "z", "rx", "ry", "rz"), BALL: ("rx", "ry", "rz")}.get(kind)
    names = (name,) if letters is None else tuple(f"{name}.{letter}" for letter in letters)
    axes = Axes(j, name, kind, names, [], np.tile([-np.inf, np.inf], (len(names), 1)), np.zeros(len(names)))
    axes.reference = axes.coordinates(model, model.qpos0)
    if model.jnt_limited[j]:
        if kind in (SLIDE, HINGE):
            axes.limits = np.array(model.jnt_range[j : j + 1])
        else:
            report.add("limit of joint", name, "a ball's limit on its total angle is not imported")
    if model.jnt_actfrclimited[j]:
        axes.force_range = np.array(model.jnt_actfrcrange[j])
    rest = axes.coordinates(model, model.qpos_spring)
    dof = int(model.jnt_dofadr[j])
    damping = report.damping(float(model.dof_damping[dof]), "joint", name)  # all axes have that of their joint
    for i in range(len(names)):
        axes.springs.append(Spring(float(rest[i]), damping=damping, armature=float(model.dof_armature[dof + i])))
    _add_stiffness(model, axes, rest, name, report)
    _report_losses(model, axes, dof, name, report)
    return axes


def _add_stiffness(model: Model, axes: Axes, rest: Array, name: str, report: Report) -> None:
    stiffness, high = float(model.jnt_stiffness[axes.id]), model.jnt_stiffnesspoly[axes.id]
    if stiffness < 0:
        report.add("stiffness of joint", name, "a negative stiffness is not imported; give a curve in Python")
        return
    for spring, x in zip(axes.springs, rest, strict=True):
        if stiffness:
            spring.add_linear(stiffness, float(x))
    if axes.kind == FREE and (stiffness or high.any()) and rest[3:].any():
        report.add("spring of joint", name, "its torque is exact only at its rest orientation")
    if high.any() and axes.kind in (SLIDE, HINGE):
        positions = sampling_positions(axes.limits[0], float(rest[0]), REACH[axes.kind])
        axes.springs[0].add_sampled(positions, polynomial_law(high, float(rest[0])))
        report.add("stiffness of joint", name, SAMPLED)
    elif high.any():
        report.add("stiffness of joint", name, "higher terms on ball and free joints are not imported")
    if model.jnt_springyield[axes.id]:
        report.add("springyield of joint", name, "yielding is not imported; the spring stays elastic")


def _report_losses(model: Model, axes: Axes, dof: int, name: str, report: Report) -> None:
    own = slice(dof, dof + len(axes.names))
    if model.dof_frictionloss[own].any():
        report.add("frictionloss of joint", name, DRY_FRICTION)
    if model.dof_dampingpoly[own].any():
        report.add("damping of joint", name, "only the linear term is imported")


def body_joint(model: Model, b: int, name: str, parent: str, child: str, axes: list[Axes]) -> Joint:
    """The Joint of body b.

    MuJoCo places a body at B exp(S_1 (q_1 - r_1)) exp(S_2 (q_2 - r_2)) ..., with B its frame in the parent, the screws
    S in the body's frame and r = qpos0. Moving the constant factors exp(-S_i r_i) to the right end, which transforms
    the screws between, makes our coordinates q equal to MuJoCo's qpos.
    """
    frame = pose(model.body_pos[b], model.body_quat[b])
    if axes and axes[0].kind == FREE:
        twists = np.eye(6)
        return _joint(name, parent, child, np.eye(4), np.eye(4), twists, (1, 1, 1, 3), axes)
    constant = np.eye(4)
    screws: list[tuple[int, Array, Array]] = []  # kind, directions (n, 3), anchor (3,)
    for a in axes:
        directions = np.eye(3) if a.kind == BALL else np.array(model.jnt_axis[a.id : a.id + 1])
        turned = directions @ constant[:3, :3].T
        anchor = constant[:3, :3] @ model.jnt_pos[a.id] + constant[:3, 3]
        screws.append((a.kind, turned, anchor))
        if a.kind != BALL and a.reference[0]:
            twist = _twists(a.kind, turned, anchor, np.zeros(3))[0]
            constant = spatial.exp(-twist * a.reference[0]) @ constant
    origin = _origin(screws)
    twists = np.concatenate([np.zeros((0, 6)), *(_twists(*screw, origin) for screw in screws)])
    shift = spatial.translation(origin)
    blocks = tuple(3 if a.kind == BALL else 1 for a in axes)
    return _joint(name, parent, child, frame @ shift, spatial.inverse(constant) @ shift, twists, blocks, axes)


def _origin(screws: list[tuple[int, Array, Array]]) -> Array:
    """Origin of the joint's frame: the centre of a ball, else a point on the first hinge, else on the first slide."""
    for kind in (BALL, HINGE, SLIDE):
        for screw_kind, _, anchor in screws:
            if screw_kind == kind:
                return anchor
    return np.zeros(3)


def _twists(kind: int, directions: Array, anchor: Array, origin: Array) -> Array:
    """(n, 6) twists about the origin: translations along the directions, or rotations about them at the anchor."""
    if kind == SLIDE:
        return np.concatenate([directions, np.zeros_like(directions)], axis=1)
    return np.concatenate([np.cross(anchor - origin, directions), directions], axis=1)


def _joint(
    name: str,
    parent: str,
    child: str,
    on_parent: Array,
    on_child: Array,
    twists: Any,
    blocks: Any,
    axes: list[Axes],
) -> Joint:
    springs = [spring for a in axes for spring in a.springs]
    return Joint(
        name,
        parent,
        child,
        on_parent,
        on_child,
        twists,
        blocks,
        axes=tuple(n for a in axes for n in a.names),
        stiffness=np.array([s.stiffness for s in springs]),
        damping=np.array([s.damping for s in springs]),
        rest=np.array([s.rest for s in springs]),
        limits=np.concatenate([np.zeros((0, 2)), *(a.limits for a in axes)]),
        armature=np.array([s.armature for s in springs]),
        reference=np.concatenate([np.zeros(0), *(a.reference for a in axes)]),
        curves=tuple(s.curve for s in springs),
        effort=np.concatenate([np.zeros(0), *(np.full(len(a.names), np.abs(a.force_range).max()) for a in axes)]),
    )
