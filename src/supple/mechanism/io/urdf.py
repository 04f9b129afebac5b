"""Reads URDF. Files that Pinocchio, PyBullet and Drake read are read here; what is changed or left out is reported."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np

from supple import spatial
from supple.errors import MechanismError, listed
from supple.mechanism.body import WORLD, Body
from supple.mechanism.coupling import Coupling
from supple.mechanism.io.mended_inertia import has_negative_moment, moments_text, nearest_inertia
from supple.mechanism.io.mjcf_report import DRY_FRICTION, Names, Report
from supple.mechanism.io.urdf_shapes import ShapeReader
from supple.mechanism.io.urdf_values import name_of, number, numbers, origin
from supple.mechanism.io.xml_tree import Element
from supple.mechanism.joint import Joint
from supple.mechanism.mechanism import Mechanism
from supple.mechanism.record import Array

KINDS = ("revolute", "continuous", "prismatic", "fixed", "floating", "planar", "spherical")
ONE_AXIS = ("revolute", "continuous", "prismatic")
READ = ("link", "joint", "material", "mujoco")


@dataclass(frozen=True)
class _JointElement:
    """A <joint> with its references."""

    element: Element
    name: str
    kind: str
    parent: str
    child: str
    mimic: Element | None


def load(root: Element, path: Path) -> Mechanism:
    """The mechanism of a parsed URDF file; raises `MechanismError` that names the file and line."""
    if any(e.tag.startswith("xacro:") for e in root.walk()):
        root.fail("this is a xacro file; run it through xacro first (xacro model.xacro > model.urdf)")
    _refuse_expressions(root)
    try:
        return _Reader(root, path).mechanism()
    except MechanismError as error:
        text = str(error)
        raise MechanismError(text if text.startswith(f"{path.name}") else f"{path.name}: {text}") from None


def _refuse_expressions(root: Element) -> None:
    """Raises for xacro expressions that were not evaluated. A mesh file with one in its name is reported as missing."""
    for element in root.walk():
        for key, value in element.attributes.items():
            if re.search(r"\$[{(]", value) and key != "filename":
                element.fail(
                    f'{element}: {key}="{value:.60}" has a xacro expression that was not evaluated; run the file '
                    "through xacro (xacro model.xacro > model.urdf)"
                )


class _Reader:
    """Converts links and joints, from the root outwards."""

    def __init__(self, root: Element, path: Path) -> None:
        self.root, self.path, self.report = root, path, Report()
        self.links = _by_name(root.find_all("link"))
        if not self.links:
            root.fail("the robot has no links")
        self._add_missing_world()
        self.joints = self._joints()
        self.order = self._from_the_root()
        self.bodies = self._body_names()
        self.shapes = ShapeReader(root, path.parent, self.report)
        self.reference = self._references()

    def mechanism(self) -> Mechanism:
        self._report_ignored()
        first = self.order[0]
        poses: dict[str, Array] = {first: np.eye(4)}
        bodies, joints = [], []
        names, axes = Names(j.name for j in self.joints.values()), Names(j.name for j in self.joints.values())
        ground = []
        if self.bodies[first] == WORLD:
            ground = self._shapes_of_the_world(first)
        else:
            bodies.append(self._body(first, np.eye(4)))
            joints.append(Joint(names.make_unique(f"{first}_fixed"), WORLD, self.bodies[first], np.eye(4), np.eye(4)))
        for link in self.order[1:]:
            given = self.joints[link]
            joint = self._joint(given, axes)
            poses[link] = poses[given.parent] @ joint.pose_parent @ joint.displacement(joint.reference)
            bodies.append(self._body(link, poses[link]))
            joints.append(joint)
        return Mechanism(
            self.root.attributes.get("name", "").strip() or self.path.stem,
            tuple(bodies),
            tuple(joints),
            couplings=self._couplings(),
            shapes=tuple(ground),
            meshes=tuple(self.shapes.meshes),
            import_report=self.report.notes(),
        )

    # the tree

    def _add_missing_world(self) -> None:
        """Adds the link "world" if joints name it as their parent and the file has none."""
        parents = [part for joint in self.root.find_all("joint") if (part := joint.find("parent")) is not None]
        named = [part for part in parents if part.attributes.get("link") == WORLD]
        if named and WORLD not in self.links:
            self.links = {WORLD: Element("link", {"name": WORLD}, named[0].file, named[0].line), **self.links}
            self.report.add("link", WORLD, "is a parent but not in the file; it is the fixed frame")

    def _joints(self) -> dict[str, _JointElement]:
        """The joints by their child links."""
        elements = _by_name(self.root.find_all("joint"))
        joints: dict[str, _JointElement] = {}
        for name, element in elements.items():
            kind = element.attributes.get("type", "")
            if kind not in KINDS:
                element.fail(f"{element} has the type '{kind}'; known types are {', '.join(KINDS)}")
            parent, child = (_reference(element, tag, "link", self.links) for tag in ("parent", "child"))
            if parent == child:
                element.fail(f"{element} connects the link '{child}' to itself")
            if child in joints:
                first = joints[child].element
                element.fail(
                    f"the link '{child}' is the child of both '{first.attributes['name']}' (line {first.line}) and "
                    f"'{name}'; URDF describes a tree, so close loops in MJCF or in Python"
                )
            mimic = element.find("mimic")
            if mimic is not None:
                self._check_mimic(element, mimic, elements)
            joints[child] = _JointElement(element, name, kind, parent, child, mimic)
        return joints

    def _check_mimic(self, element: Element, mimic: Element, elements: dict[str, Element]) -> None:
        leader = _reference(element, "mimic", "joint", elements)
        kind = elements[leader].attributes.get("type", "")
        if kind not in (*ONE_AXIS, "fixed"):
            mimic.fail(f"<mimic> of {element} follows '{leader}', which is {kind}; it can only follow a hinge or slide")
        followed = [element.attributes["name"], leader]
        while (further := elements[followed[-1]].find("mimic")) is not None:
            followed.append(further.attributes.get("joint", ""))
            if followed[-1] not in elements:
                return  # that joint's own check raises
            if followed[-1] in followed[:-1]:
                mimic.fail(f"<mimic> of {element} goes in a circle: {' -> '.join(followed)}")

    def _from_the_root(self) -> list[str]:
        """Links, each after its parent: depth first, in the order of the file."""
        roots = [link for link in self.links if link not in self.joints]
        if not roots:
            circle = self._circle(next(iter(self.links)))
            self.root.fail(f"the joints form a circle: {' -> '.join(circle)}; URDF describes a tree")
        if len(roots) > 1:
            self.links[roots[1]].fail(
                f"{len(roots)} links have no parent: {listed(roots)}; a robot has one root, so add a joint for "
                f"'{roots[1]}' or remove it"
            )
        children: dict[str, list[str]] = {}
        for link, joint in self.joints.items():
            children.setdefault(joint.parent, []).append(link)
        order, stack = [], [roots[0]]
        while stack:
            link = stack.pop()
            order.append(link)
            stack.extend(reversed(children.get(link, [])))
        if len(order) < len(self.links):
            reached = set(order)
            circle = self._circle(next(link for link in self.links if link not in reached))
            self.joints[circle[0]].element.fail(
                f"the joints form a circle: {' -> '.join(circle)}; URDF describes a tree"
            )
        return order

    def _circle(self, link: str) -> list[str]:
        """Links from a link of a circle towards the root, until one comes again."""
        passed: list[str] = []
        while link not in passed:
            passed.append(link)
            link = self.joints[link].parent
        return [*reversed(passed[passed.index(link) :]), *passed[-1:]]

    def _body_names(self) -> dict[str, str]:
        """Names of the bodies by link. A root called "world" is the fixed frame."""
        taken = Names([WORLD])
        names = {}
        for i, link in enumerate(self.order):
            names[link] = WORLD if i == 0 and link == WORLD else taken.make_unique(link)
            if names[link] != link:
                self.report.add("link", link, f"has the name of the fixed frame; it is now called '{names[link]}'")
        return names

    # links

    def _shapes_of_the_world(self, link: str) -> list[Any]:
        if self.links[link].find("inertial") is not None:
            self.report.add("inertial of link", link, "the link is the fixed frame, whose mass has no effect")
        return self.shapes.shapes(self.links[link], link)

    def _body(self, link: str, pose: Array) -> Body:
        element = self.links[link]
        shapes = tuple(self.shapes.shapes(element, link))
        inertial = element.find("inertial")
        if inertial is None:
            if element.find("collision") is not None:
                self.report.add("link", link, "has no <inertial>, so it has no mass")
            return Body(self.bodies[link], pose, shapes=shapes)
        frame = origin(inertial)
        mass_element = inertial.find("mass")
        mass = 0.0 if mass_element is None else number(mass_element, "value", 0.0)
        if mass < 0:
            inertial.fail(f"{element} has the negative mass {mass:g} kg; a mass is zero or positive")
        inertia = self._inertia(inertial, link)
        turned = frame[:3, :3] @ inertia @ frame[:3, :3].T
        centre = frame[:3, 3] if mass > 0 else np.zeros(3)  # of a body without mass it has no meaning
        return Body(self.bodies[link], pose, mass, centre, (turned + turned.T) / 2, shapes)

    def _inertia(self, inertial: Element, link: str) -> Array:
        """(3, 3) about the centre of mass in the frame of <inertial>; mended if a principal moment is negative."""
        given = inertial.find("inertia")
        if given is None:
            return np.zeros((3, 3))
        xx, xy, xz, yy, yz, zz = (number(given, f"i{key}", 0.0) for key in ("xx", "xy", "xz", "yy", "yz", "zz"))
        inertia = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
        if not has_negative_moment(inertia):
            return inertia
        mended = nearest_inertia(inertia)
        self.report.add(
            "inertia of link",
            link,
            f"has a negative principal moment ({moments_text(inertia)} kg m^2); "
            f"the nearest physical inertia is used ({moments_text(mended)})",
        )
        return mended

    # joints

    def _references(self) -> dict[str, float]:
        """Coordinates of mimicking joints at the reference pose, by joint; those of all others are zero."""
        by_name = {joint.name: joint for joint in self.joints.values()}
        result: dict[str, float] = {}
        for name in by_name:
            chain = [name]
            while (mimic := by_name[chain[-1]].mimic) is not None:
                chain.append(mimic.attributes["joint"])
            value = 0.0
            for follower in reversed(chain[:-1]):
                mimic = by_name[follower].mimic
                assert mimic is not None
                value = number(mimic, "multiplier", 1.0) * value + number(mimic, "offset", 0.0)
            result[name] = value
        return result

    def _joint(self, given: _JointElement, axes: Names) -> Joint:
        element, name = given.element, given.name
        twists, blocks, letters = self._motion(given)
        k = len(twists)
        names = (name,) if k == 1 else tuple(axes.make_unique(f"{name}.{letter}") for letter in letters)
        dynamics = element.find("dynamics")
        damping = 0.0 if dynamics is None else number(dynamics, "damping", 0.0)
        if damping < 0:
            self.report.add("damping of joint", name, "is negative; left out")
        if dynamics is not None and number(dynamics, "friction", 0.0):
            self.report.add("friction of joint", name, DRY_FRICTION)
        return Joint(
            name,
            self.bodies[given.parent],
            self.bodies[given.child],
            origin(element),
            np.eye(4),
            twists,
            blocks,
            axes=names,
            damping=np.full(k, max(damping, 0.0)),
            limits=np.tile(self._limits(given), (k, 1)),
            reference=np.full(k, self.reference[name] if k == 1 else 0.0),
            effort=np.full(k, self._largest(given, "effort")),
            speed=np.full(k, self._largest(given, "velocity") or np.inf),
        )

    def _motion(self, given: _JointElement) -> tuple[Array, tuple[int, ...], tuple[str, ...]]:
        """Twists (k, 6) in the joint's frame, blocks and the letters of the coordinates' names."""
        match given.kind:
            case "fixed":
                return np.zeros((0, 6)), (), ()
            case "floating":
                return np.eye(6), (1, 1, 1, 3), ("x", "y", "z", "rx", "ry", "rz")
            case "spherical":  # PyBullet's extension of URDF
                return np.eye(6)[3:], (3,), ("rx", "ry", "rz")
        axis = _axis(given.element)
        along, about = np.concatenate([axis, np.zeros(3)]), np.concatenate([np.zeros(3), axis])
        if given.kind == "planar":  # the axis is the normal of the plane
            turn = spatial.rotation_between(np.array([0.0, 0, 1]), axis)
            in_plane = np.concatenate([turn[:, :2].T, np.zeros((2, 3))], axis=1)
            return np.concatenate([in_plane, about[None]]), (1, 1, 1), ("x", "y", "rz")
        return (along if given.kind == "prismatic" else about)[None], (1,), ()

    def _largest(self, given: _JointElement, key: str) -> float:
        """Largest torque (key "effort") or speed ("velocity") of the joint's drive."""
        limit = given.element.find("limit")
        value = np.inf if limit is None else number(limit, key, np.inf, infinite=True)
        if value < 0 or (value == 0 and key == "velocity"):
            self.report.add(f"{key} of joint", given.name, f"is {value:g}; left out")
            return np.inf
        return float(value)

    def _limits(self, given: _JointElement) -> Array:
        unlimited = np.array([-np.inf, np.inf])
        limit = given.element.find("limit")
        if given.kind in ("fixed", "continuous"):  # files often keep limits of such joints that mean nothing
            return unlimited
        if given.kind not in ("revolute", "prismatic"):
            ends = [] if limit is None else [number(limit, key, 0.0, infinite=True) for key in ("lower", "upper")]
            if any(ends):
                self.report.add("limits of joint", given.name, f"a {given.kind} joint takes none; left out")
            return unlimited
        attributes = {} if limit is None else limit.attributes
        lower, upper = (
            0.0 if limit is None or key not in attributes else number(limit, key, 0.0, infinite=True)
            for key in ("lower", "upper")
        )
        if not lower < upper or lower == np.inf or upper == -np.inf:
            self.report.add(
                "limits of joint",
                given.name,
                f"lower ({lower:g}) is not below upper ({upper:g}); it moves without limits",
            )
            return unlimited
        return np.array([lower, upper])

    # couplings

    def _couplings(self) -> tuple[Coupling, ...]:
        couplings, names = [], Names()
        fixed = {joint.name for joint in self.joints.values() if joint.kind == "fixed"}
        for link in self.order[1:]:
            joint = self.joints[link]
            if joint.mimic is None:
                continue
            if joint.kind not in ONE_AXIS:
                self.report.add("mimic of joint", joint.name, f"a {joint.kind} joint follows nothing; left out")
                continue
            factor, leader = number(joint.mimic, "multiplier", 1.0), joint.mimic.attributes["joint"]
            if leader in fixed:
                self.report.add("mimic of joint", joint.name, f"follows the fixed joint '{leader}': it does not move")
                factor = 0.0
            coefficients = {joint.name: 1.0, leader: -factor}
            kept = {name: value for name, value in coefficients.items() if value}
            couplings.append(
                Coupling(
                    names.make_unique(f"{joint.name}_mimic"),
                    tuple(kept),
                    np.array(list(kept.values())),
                    rigid=True,
                    rest=number(joint.mimic, "offset", 0.0),
                )
            )
        return tuple(couplings)

    # the report

    def _report_ignored(self) -> None:
        counts = Counter(e.tag for e in self.root.children if e.tag not in READ)
        joint_parts = [part for e in self.root.find_all("joint") for part in e.children]
        counts.update(e.tag for e in joint_parts if e.tag in ("calibration", "safety_controller"))
        for tag, count in counts.items():
            self.report.count(f"<{tag}>", count, "not imported; it is for other programs")


def _by_name(elements: list[Element]) -> dict[str, Element]:
    named: dict[str, Element] = {}
    for element in elements:
        if named.setdefault(name_of(element), element) is not element:
            element.fail(f"a second {element.tag} is named '{name_of(element)}'; give each its own name")
    return named


def _reference(joint: Element, tag: str, what: str, known: dict[str, Element]) -> str:
    """The link or joint that a part of a joint names; raises, with a suggestion, if there is none."""
    part = joint.find(tag)
    name = "" if part is None else part.attributes.get(what, "")
    if part is None or not name:
        joint.fail(f"{joint} needs a <{tag} {what}=...>")
    if name not in known:
        close = get_close_matches(name, known, 1)
        hint = f"did you mean '{close[0]}'?" if close else f"add it, or name another {what}"
        part.fail(f"<{tag}> of {joint} names the {what} '{name}', which is not in the file; {hint}")
    return name


def _axis(joint: Element) -> Array:
    given = joint.find("axis")
    axis = np.array([1.0, 0.0, 0.0]) if given is None else numbers(given, "xyz", (1.0, 0.0, 0.0))
    largest = float(np.abs(axis).max())
    if largest == 0:
        joint.fail(f"the axis of {joint} has no direction (it is zero)")
    axis = axis / largest  # so that squares neither overflow nor vanish
    unit: Array = axis / np.linalg.norm(axis)
    return unit
