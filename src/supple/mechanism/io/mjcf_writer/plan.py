"""Translation of bodies and joints to MuJoCo: the tree of MuJoCo's bodies, and how each loop is closed."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np

from supple import spatial
from supple.mechanism.body import WORLD, Body
from supple.mechanism.io.mjcf_writer.axis_joints import AxisJoint, axis_joints
from supple.mechanism.io.mjcf_writer.xml import Names
from supple.mechanism.joint import Joint
from supple.mechanism.kinematics import Kinematics, displacement_across, kinematics
from supple.mechanism.mechanism import Mechanism
from supple.mechanism.record import Array

HELPER_MASS = 1e-9
"""Fraction of a body's mass that a helper body gets. Helpers carry the first joints of a body where MuJoCo does not
allow all of them on one body."""

Closure = Literal["connect", "weld", "hinge", "copy"]


@dataclass(eq=False)
class Node:
    """A body of MuJoCo's tree."""

    name: str
    pose: Array
    """(4, 4) in the parent node's frame, at the reference."""
    axis_joints: list[AxisJoint]
    body: Body | None
    mass_fraction: float = 1.0
    """Fraction of the body's mass and inertia."""
    is_original: bool = True
    """True for the body itself, with its shapes and sites; false for copies and helpers."""
    children: list[Node] = field(default_factory=list)


@dataclass
class Plan:
    """The mechanism in MuJoCo's terms. `notes` collects what the file represents only approximately."""

    mech: Mechanism
    names: Names = field(default_factory=Names)
    notes: list[str] = field(default_factory=list)
    never_touching: list[tuple[str, str]] = field(default_factory=list)
    """Pairs of bodies that a joint connects but that are not neighbours in MuJoCo's tree: contact is switched off."""

    def __post_init__(self) -> None:
        mech = self.mech
        self.body_names = self.names.reserve("body", [WORLD, *(b.name for b in mech.bodies)])
        self.owners = {axis: joint for joint in mech.joints for axis in joint.axes}
        self.axis_names = self.names.reserve("joint", self.owners)
        self.used_coordinates = {c for coupling in mech.couplings for c in coupling.coordinates}
        self.used_coordinates |= {motor.coordinate for motor in mech.motors}
        self.closures = {j: self._closure(mech.joints[j]) for j in mech.topology.loops}
        self.copies: dict[int, Node] = {}
        self.root = Node(WORLD, np.eye(4), [], None)
        self._build_tree()
        self.axis_joint_names: dict[AxisJoint, str] = {}
        self.scalars: dict[str, tuple[str, float]] = {}
        self._name_axis_joints()

    @cached_property
    def state(self) -> Kinematics:
        return kinematics(self.mech)

    # loops

    def _closure(self, joint: Joint) -> Closure:
        sprung = joint.stiffness.any() or joint.damping.any() or joint.armature.any() or any(joint.curves)
        plain = not sprung and np.isinf(joint.limits).all() and not self.used_coordinates & set(joint.axes)
        if joint.kind == "fixed":
            return "weld"
        if joint.kind == "ball" and plain:
            return "connect"
        if joint.kind == "hinge" and (plain or self.hinge_angle(joint) is not None):
            return "hinge"
        return "copy"

    def hinge_angle(self, joint: Joint) -> tuple[float, dict[str, float]] | None:
        """The angle of a hinge in a loop as constant + sum of coefficient * coordinate, where all rotations
        around the loop are parallel; otherwise None."""
        mech, topology = self.mech, self.mech.topology
        axis = (self.state.poses[joint.child] @ joint.pose_child)[:3, :3] @ joint.twists[0, 3:]
        weights = np.zeros(mech.dof)
        for end, sign in ((joint.child, 1.0), (joint.parent, -1.0)):
            if end != WORLD:
                weights += sign * topology.moves[mech.body_index(end)]
        constant, terms = float(joint.reference[0]), {}
        for column in np.flatnonzero(weights):
            name, turn = mech.coordinates[column], self.state.screws[column, 3:]
            if np.linalg.norm(np.cross(turn, axis)) > 1e-9:
                return None
            if turn.any():
                terms[name] = float(weights[column] * np.sign(turn @ axis))
                constant -= terms[name] * float(mech.reference[column])
        return constant, terms

    # the tree of bodies

    def _build_tree(self) -> None:
        mech, topology = self.mech, self.mech.topology
        joints_with_copy = [j for j, closure in self.closures.items() if closure == "copy"]
        copied_bodies = [self._body_to_copy(mech.joints[j]) for j in joints_with_copy]
        nodes = {-1: self.root}
        for b in topology.order:
            body, joint, p = mech.bodies[b], mech.joints[topology.joint[b]], int(topology.parent[b])
            is_reversed = bool(topology.reversed[b])
            free = (
                p < 0
                and joint.kind == "free"
                and not joint.armature.any()
                and not self.used_coordinates & set(joint.axes)
            )
            own_joints = axis_joints(joint, is_reversed, free)
            mass_fraction = 1.0 / (1 + copied_bodies.count(body.name))
            pose = body.pose if p < 0 else spatial.inverse(mech.bodies[p].pose) @ body.pose
            node = Node(self.body_names[body.name], pose, own_joints, body, mass_fraction)
            self._attach(nodes[p], node)
            nodes[b] = node
        for j, closure in self.closures.items():
            joint = mech.joints[j]
            self.never_touching.append((joint.parent, joint.child))
            if closure == "copy":
                name = self._body_to_copy(joint)
                is_reversed = name == joint.parent
                across = joint.pose_parent @ joint.displacement(joint.reference) @ spatial.inverse(joint.pose_child)
                node = Node(
                    self.names.new("body", f"{self.body_names[name]}__copy"),
                    spatial.inverse(across) if is_reversed else across,
                    axis_joints(joint, is_reversed, False),
                    mech.body(name),
                    1.0 / (1 + copied_bodies.count(name)),
                    is_original=False,
                )
                holder = mech.body_index(joint.child if is_reversed else joint.parent)
                self.copies[j] = node
                self._attach(nodes[holder], node)
                self.notes.append(
                    f"'{joint.name}' closes a loop: it carries '{node.name}', a copy of '{name}' with an equal "
                    "part of its mass, which is welded to it"
                )

    @staticmethod
    def _body_to_copy(joint: Joint) -> str:
        return joint.parent if joint.child == WORLD else joint.child

    def _attach(self, parent: Node, node: Node) -> None:
        """Attaches a node to its parent, with helper bodies between them where MuJoCo does not allow all its joints
        on one body."""
        sections = _split_for_mujoco(node.axis_joints)
        for section in sections[:-1]:
            helper = Node(
                self.names.new("body", f"{node.name}__between"),
                node.pose,
                section,
                node.body,
                HELPER_MASS,
                is_original=False,
            )
            parent.children.append(helper)
            node.pose, parent = np.eye(4), helper
        if len(sections) > 1:
            node.axis_joints = sections[-1]
            joint = node.axis_joints[0].joint
            self.never_touching.append((joint.parent, joint.child))
            self.notes.append(
                f"'{joint.name}': MuJoCo does not allow this sequence of axes on one body; the helper body "
                f"'{parent.name}' with {HELPER_MASS:g} times the mass of '{node.name}' carries the first of them"
            )
        parent.children.append(node)

    # names and coordinates

    def nodes(self) -> list[Node]:
        """All bodies in the order of the file, which is MuJoCo's."""
        result, stack = [], list(reversed(self.root.children))
        while stack:
            node = stack.pop()
            result.append(node)
            stack.extend(reversed(node.children))
        return result

    def _name_axis_joints(self) -> None:
        for axis_joint in (axis_joint for node in self.nodes() for axis_joint in node.axis_joints):
            if axis_joint.is_own_coordinate:
                joint, i = axis_joint.joint, axis_joint.part.start
                name = self.axis_joint_names[axis_joint] = self.axis_names[joint.axes[i]]
                self.scalars[joint.axes[i]] = name, float(joint.reference[i])
            else:
                self.axis_joint_names[axis_joint] = self.names.new("joint", axis_joint.name)

    def qpos(self, q: Array) -> list[float]:
        """MuJoCo's coordinates at coordinates q (dof,) of the spanning tree."""
        mech, topology = self.mech, self.mech.topology
        state = kinematics(mech, q)
        own = {mech.joints[j].name: q[topology.columns[j]] for j in topology.tree}
        for j in self.copies:
            joint = mech.joints[j]
            own[joint.name] = joint.coordinates(displacement_across(state.poses, joint.name))[0]
        in_order = (axis_joint for node in self.nodes() for axis_joint in node.axis_joints)
        return [x for axis_joint in in_order for x in axis_joint.qpos(own[axis_joint.joint.name])]


def _split_for_mujoco(sequence: list[AxisJoint]) -> list[list[AxisJoint]]:
    """Splits a sequence into parts that MuJoCo allows on one body: at most six freedoms, no rotation after a ball."""
    sections: list[list[AxisJoint]] = [[]]
    for axis_joint in sequence:
        here = sections[-1]
        full = sum(s.freedoms for s in here) + axis_joint.freedoms > 6
        turned = axis_joint.kind != "slide" and any(s.kind == "ball" for s in here)
        if full or turned:
            sections.append([])
        sections[-1].append(axis_joint)
    return sections
