"""Loops, couplings and motors as MuJoCo's equalities and fixed tendons."""

from __future__ import annotations

from typing import Any

import numpy as np

from supple import spatial
from supple.mechanism.body import WORLD
from supple.mechanism.coupling import Coupling
from supple.mechanism.io.mjcf_writer.axis_joints import range_attributes, tangent_spring
from supple.mechanism.io.mjcf_writer.plan import Plan
from supple.mechanism.io.mjcf_writer.xml import Element
from supple.mechanism.joint import Joint
from supple.mechanism.record import Array

Sites = dict[str, list[tuple[str, Array]]]
Terms = tuple[float, dict[str, float]]
CLOSED = 1e-9
"""Largest gap (m) with which a loop counts as closed at the reference pose."""


class Constraints:
    """Fills the elements <tendon> and <equality>, and collects the sites that open loops need."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.tendons, self.equalities = Element("tendon"), Element("equality")
        self.sites: Sites = {}
        for node in plan.nodes():
            for hinge, slide in zip(node.axis_joints, node.axis_joints[1:], strict=False):
                if slide.pitch is not None:
                    self._equate_joints(plan.axis_joint_names[slide], plan.axis_joint_names[hinge], 0.0, slide.pitch)
        for j, closure in plan.closures.items():
            self._close(j, plan.mech.joints[j], closure)
        for coupling in plan.mech.couplings:
            self._couple(coupling)
        for motor in plan.mech.motors:
            terms = self._terms({motor.coordinate: 1.0}, f"motor '{motor.name}'")
            if terms is not None:
                self._constrain(motor.name, terms, motor.position)

    # loops

    def _close(self, j: int, joint: Joint, closure: str) -> None:
        match closure:
            case "weld":
                ends = self.plan.body_names[joint.parent], self.plan.body_names[joint.child]
                self._weld(joint.name, *ends, joint.pose_parent @ spatial.inverse(joint.pose_child))
            case "copy":
                copy = self.plan.copies[j]
                assert copy.body is not None
                self._weld(joint.name, copy.name, self.plan.body_names[copy.body.name], np.eye(4))
            case "connect":
                self._connect(joint.name, joint, np.zeros(3))
            case "hinge":
                axis = joint.twists[0, 3:]
                middle = np.cross(axis, joint.twists[0, :3])
                for end in (-1, 1):
                    self._connect(joint.name, joint, middle + end * self.plan.mech.radius / 5 * axis)
                self._loop_spring(joint)

    def _weld(self, name: str, first: str, second: str, pose: Array) -> None:
        self.equalities.add(
            "weld",
            name=self.plan.names.new("equality", name),
            body1=first,
            body2=second,
            relpose=(*pose[:3, 3], *spatial.quat_wxyz_from_matrix(pose[:3, :3])),
        )

    def _connect(self, name: str, joint: Joint, point: Array) -> None:
        """Connects a point of the joint's frame on one body to the same point of its frame on the other."""
        places = {
            body: (pose @ [*point, 1.0])[:3]
            for body, pose in ((joint.parent, joint.pose_parent), (joint.child, joint.pose_child))
        }
        poses, names = self.plan.mech.poses, self.plan.names
        ends = [(poses[body] @ [*place, 1.0])[:3] for body, place in places.items()]
        own = names.new("equality", name)
        if np.abs(ends[0] - ends[1]).max() <= CLOSED:
            first, second = (joint.child, joint.parent) if joint.parent == WORLD else (joint.parent, joint.child)
            body_names = self.plan.body_names
            self.equalities.add(
                "connect", name=own, body1=body_names[first], body2=body_names[second], anchor=places[first]
            )
            return
        site_names = []
        for body, place in places.items():
            site_names.append(names.new("site", f"{own}__{body}"))
            self.sites.setdefault(body, []).append((site_names[-1], place))
        self.equalities.add("connect", name=own, site1=site_names[0], site2=site_names[1])

    def _loop_spring(self, joint: Joint) -> None:
        stiffness, rest, reference, damping, armature = (
            float(getattr(joint, f)[0]) for f in ("stiffness", "rest", "reference", "damping", "armature")
        )
        bounds, curve = joint.limits[0], joint.curves[0]
        if not (stiffness or damping or armature or curve) and np.isinf(bounds).all():
            return
        terms = self.plan.hinge_angle(joint)
        assert terms is not None
        stiffness, rest = tangent_spring(stiffness, curve, rest, reference, joint.name, self.plan.notes)
        self._spring(
            joint.name, self._with_mujoco_names(terms), stiffness, rest, bounds, damping=damping, armature=armature
        )

    # couplings

    def _couple(self, c: Coupling) -> None:
        terms = self._terms(dict(zip(c.coordinates, c.coefficients.tolist(), strict=True)), f"coupling '{c.name}'")
        if terms is None:
            return
        if c.rigid:
            self._constrain(c.name, terms, c.rest)
            return
        reference = self._length(terms)
        stiffness, rest = tangent_spring(c.stiffness, c.curve, c.rest, reference, c.name, self.plan.notes)
        self._spring(c.name, terms, stiffness, rest, c.limits, damping=c.damping)

    def _terms(self, wanted: dict[str, float], what: str) -> Terms | None:
        """A combination of our coordinates as constant + sum of coefficient * MuJoCo's joint; None, with a note, if it
        has none."""
        constant, total = 0.0, dict[str, float]()
        for axis, coefficient in wanted.items():
            if axis in self.plan.scalars:
                inner: Terms = 0.0, {axis: 1.0}
            else:
                joint = self.plan.owners[axis]
                turned = self.plan.hinge_angle(joint) if joint.kind == "hinge" else None
                if turned is None:
                    self.plan.notes.append(
                        f"{what} is omitted: '{axis}' belongs to a ball joint, which has no single angle"
                    )
                    return None
                inner = turned
            constant += coefficient * inner[0]
            for name, weight in inner[1].items():
                total[name] = total.get(name, 0.0) + coefficient * weight
        return self._with_mujoco_names((constant, {name: weight for name, weight in total.items() if weight}))

    def _with_mujoco_names(self, terms: Terms) -> Terms:
        return terms[0], {self.plan.scalars[axis][0]: weight for axis, weight in terms[1].items()}

    def _length(self, terms: Terms) -> float:
        at = dict(self.plan.scalars.values())
        return terms[0] + sum(weight * at[joint] for joint, weight in terms[1].items())

    def _spring(self, name: str, terms: Terms, stiffness: float, rest: float, bounds: Array, **more: Any) -> None:
        length = rest - terms[0]
        if length == -1.0:  # MuJoCo reads -1 as "the length at the reference"
            length = float(np.nextafter(-1.0, 0.0))
        values = {key: value or None for key, value in more.items()} | range_attributes(bounds - terms[0])
        self._tendon(name, terms[1], stiffness=stiffness or None, springlength=length, **values)

    def _tendon(self, name: str, terms: dict[str, float], **attributes: Any) -> str:
        own = self.plan.names.new("tendon", name)
        tendon = self.tendons.add("fixed", name=own, **attributes)
        for joint, coefficient in terms.items():
            tendon.add("joint", joint=joint, coef=coefficient)
        return own

    # constraints on coordinates; MuJoCo measures both sides from the reference

    def _constrain(self, name: str, terms: Terms, value: float) -> None:
        """Adds the constraint constant + sum of coefficient * joint = value."""
        difference = value - self._length(terms)
        joints = list(terms[1].items())
        match joints:
            case [(first, c)]:
                self._equate_joints(first, None, difference / c, 0.0, name)
            case [(first, c), (second, d)]:
                self._equate_joints(first, second, difference / c, -d / c, name)
            case _:
                tendon = self._tendon(name, terms[1])
                self.equalities.add(
                    "tendon",
                    name=self.plan.names.new("equality", name),
                    tendon1=tendon,
                    polycoef=(difference, 0, 0, 0, 0),
                )

    def _equate_joints(
        self, first: str, second: str | None, offset: float, slope: float, name: str | None = None
    ) -> None:
        """Adds the constraint first - its reference = offset + slope * (second - its reference)."""
        self.equalities.add(
            "joint",
            name=self.plan.names.new("equality", name or first),
            joint1=first,
            joint2=second,
            polycoef=(offset, slope, 0, 0, 0),
        )
