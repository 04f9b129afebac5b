"""What becomes of every body and joint: the tree of MuJoCo's bodies, and how each loop is closed."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

import numpy as np

from supple import spatial
from supple.mechanism.body import WORLD, Body
from supple.mechanism.io.mjcf_writer.steps import Step, steps
from supple.mechanism.io.mjcf_writer.xml import Names
from supple.mechanism.joint import Joint
from supple.mechanism.kinematics import Kinematics, displacement_across, kinematics
from supple.mechanism.mechanism import Mechanism
from supple.mechanism.record import Array

BETWEEN = 1e-9
"""Share of a body's mass in the helper that carries the first of its joints where MuJoCo allows not all of
them on one body."""

Closing = Literal["connect", "weld", "hinge", "copy"]


@dataclass(eq=False)
class Node:
    """A body of MuJoCo's tree."""

    name: str
    pose: Array
    """(4, 4) in the parent node's frame, at the reference."""
    steps: list[Step]
    body: Body | None
    share: float = 1.0
    """Share of the body's mass and inertia."""
    whole: bool = True
    """Whether it stands for the body itself, with its shapes and sites."""
    children: list[Node] = field(default_factory=list)


@dataclass
class Plan:
    """The mechanism in MuJoCo's terms. `notes` collects what is written otherwise than it was described."""

    mech: Mechanism
    names: Names = field(default_factory=Names)
    notes: list[str] = field(default_factory=list)
    apart: list[tuple[str, str]] = field(default_factory=list)
    """Pairs of bodies that a joint ties but MuJoCo does not see as neighbours: they must not touch."""

    def __post_init__(self) -> None:
        mech = self.mech
        self.body_names = self.names.reserve("body", [WORLD, *(b.name for b in mech.bodies)])
        self.owners = {axis: joint for joint in mech.joints for axis in joint.axes}
        self.axis_names = self.names.reserve("joint", self.owners)
        self.used = {c for coupling in mech.couplings for c in coupling.coordinates}
        self.used |= {motor.coordinate for motor in mech.motors}
        self.closings = {j: self._closing(mech.joints[j]) for j in mech.topology.loops}
        self.copies: dict[int, Node] = {}
        self.root = Node(WORLD, np.eye(4), [], None)
        self._hang()
        self.step_names: dict[Step, str] = {}
        self.scalars: dict[str, tuple[str, float]] = {}
        self._name_steps()

    @cached_property
    def state(self) -> Kinematics:
        return kinematics(self.mech)

    # loops

    def _closing(self, joint: Joint) -> Closing:
        held = joint.stiffness.any() or joint.damping.any() or joint.armature.any() or any(joint.curves)
        plain = not held and np.isinf(joint.limits).all() and not self.used & set(joint.axes)
        if joint.kind == "fixed":
            return "weld"
        if joint.kind == "ball" and plain:
            return "connect"
        if joint.kind == "hinge" and (plain or self.turns(joint) is not None):
            return "hinge"
        return "copy"

    def turns(self, joint: Joint) -> tuple[float, dict[str, float]] | None:
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

    def _hang(self) -> None:
        mech, topology = self.mech, self.mech.topology
        copied = [self._copied(mech.joints[j]) for j, closing in self.closings.items() if closing == "copy"]
        nodes = {-1: self.root}
        for b in topology.order:
            body, joint, p = mech.bodies[b], mech.joints[topology.joint[b]], int(topology.parent[b])
            backwards = bool(topology.reversed[b])
            free = (
                p < 0
                and joint.kind == "free"
                and not joint.armature.any()
                and not self.used & set(joint.axes)
            )
            way = steps(joint, backwards, free)
            share = 1.0 / (1 + copied.count(body.name))
            pose = body.pose if p < 0 else spatial.inverse(mech.bodies[p].pose) @ body.pose
            node = Node(self.body_names[body.name], pose, way, body, share)
            self._attach(nodes[p], node)
            nodes[b] = node
        for j, closing in self.closings.items():
            joint = mech.joints[j]
            self.apart.append((joint.parent, joint.child))
            if closing == "copy":
                name = self._copied(joint)
                backwards = name == joint.parent
                across = (
                    joint.pose_parent
                    @ joint.displacement(joint.reference)
                    @ spatial.inverse(joint.pose_child)
                )
                node = Node(
                    self.names.new("body", f"{self.body_names[name]}__copy"),
                    spatial.inverse(across) if backwards else across,
                    steps(joint, backwards, False),
                    mech.body(name),
                    1.0 / (1 + copied.count(name)),
                    whole=False,
                )
                holder = mech.body_index(joint.child if backwards else joint.parent)
                self.copies[j] = node
                self._attach(nodes[holder], node)
                self.notes.append(
                    f"'{joint.name}' closes a loop: '{node.name}' hangs on it with an equal share of "
                    f"the mass of '{name}' and is welded to that"
                )

    @staticmethod
    def _copied(joint: Joint) -> str:
        return joint.parent if joint.child == WORLD else joint.child

    def _attach(self, parent: Node, node: Node) -> None:
        """Hangs a node, with helpers between where MuJoCo does not take all its joints on one body."""
        sections = _sections(node.steps)
        for section in sections[:-1]:
            helper = Node(
                self.names.new("body", f"{node.name}__between"),
                node.pose,
                section,
                node.body,
                BETWEEN,
                whole=False,
            )
            parent.children.append(helper)
            node.pose, parent = np.eye(4), helper
        if len(sections) > 1:
            node.steps = sections[-1]
            joint = node.steps[0].joint
            self.apart.append((joint.parent, joint.child))
            self.notes.append(
                f"'{joint.name}': MuJoCo takes no such sequence on one body; '{parent.name}', of "
                f"{BETWEEN:g} times the mass of '{node.name}', stands between"
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

    def _name_steps(self) -> None:
        for step in (step for node in self.nodes() for step in node.steps):
            if step.scalar:
                axis = step.joint.axes[step.part.start]
                self.step_names[step] = self.axis_names[axis]
                self.scalars[axis] = self.step_names[step], float(step.joint.reference[step.part.start])
            else:
                self.step_names[step] = self.names.new("joint", step.name)

    def qpos(self, q: Array) -> list[float]:
        """MuJoCo's coordinates at coordinates q (dof,) of the spanning tree."""
        mech, topology = self.mech, self.mech.topology
        state = kinematics(mech, q)
        own = {mech.joints[j].name: q[topology.columns[j]] for j in topology.tree}
        for j in self.copies:
            joint = mech.joints[j]
            own[joint.name] = joint.coordinates(displacement_across(state.poses, joint.name))[0]
        return [x for node in self.nodes() for step in node.steps for x in step.qpos(own[step.joint.name])]


def _sections(sequence: list[Step]) -> list[list[Step]]:
    """Parts that MuJoCo takes on one body: at most six motions, and no rotation after a ball."""
    sections: list[list[Step]] = [[]]
    for step in sequence:
        here = sections[-1]
        full = sum(s.moves for s in here) + step.moves > 6
        turned = step.kind != "slide" and any(s.kind == "ball" for s in here)
        if full or turned:
            sections.append([])
        sections[-1].append(step)
    return sections
