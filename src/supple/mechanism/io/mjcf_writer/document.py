"""The MJCF file as a whole."""

from __future__ import annotations

import warnings
from os import PathLike

import numpy as np

from supple import spatial
from supple.errors import ExportWarning, MechanismError
from supple.files import writing
from supple.mechanism.body import WORLD
from supple.mechanism.io.mjcf_writer.axis_joints import AxisJoint
from supple.mechanism.io.mjcf_writer.constraints import Constraints
from supple.mechanism.io.mjcf_writer.plan import Node, Plan
from supple.mechanism.io.mjcf_writer.shapes import Shapes, pose_attributes
from supple.mechanism.io.mjcf_writer.xml import Element
from supple.mechanism.mechanism import Mechanism
from supple.mechanism.rigidified import rigidified

TIMESTEP = 0.001
"""s; half the time constant of the constraints."""
SOLREF, SOLIMP = "0.002 1", "0.99 0.9999 0.001 0.5 2"
"""Constraints stiffer than MuJoCo's default, so that loops have small gaps."""
DEEPEST = 490
"""Nesting depth of bodies that MuJoCo's XML reader accepts."""
LEAST_MOMENT = 2e-15
"""kg m^2; MuJoCo rejects bodies with smaller moments of inertia."""


def save(mech: Mechanism, path: str | PathLike[str]) -> None:
    """Writes an `.xml` file for MuJoCo."""
    text = write(mech)
    with writing(path) as file:
        file.write(text)


def write(mech: Mechanism) -> str:
    """The MJCF text. The spanning tree becomes nested bodies with our frames; MuJoCo's coordinates of hinges and slides
    are ours. One `ExportWarning` lists what MJCF represents only approximately."""
    flexible, mech = mech.flexible, rigidified(mech)
    plan = Plan(mech)
    plan.notes += [f"flexible body '{part.name}' is rigid" for part in flexible]
    for each in mech.actuators:
        left = "is written as the spring that it is at the start, without control" if each.in_spring else "is left out"
        plan.notes.append(f"actuator '{each.name}' {left}; JSON files keep it")
    constraints, shapes = Constraints(plan), Shapes(plan)
    root = Element("mujoco", model=plan.names.new("model", mech.name))
    root.add("compiler", angle="radian", inertiafromgeom=False, autolimits=False)
    root.add("option", timestep=TIMESTEP, integrator="implicitfast", gravity=mech.gravity)
    root.add("default").add("equality", solref=SOLREF, solimp=SOLIMP)
    bodies = _bodies(plan, shapes, constraints)
    for part in (
        shapes.assets,
        bodies,
        _contact(plan),
        constraints.tendons,
        constraints.equalities,
        _keyframes(plan),
    ):
        if part.children:
            root.children.append(part)
    if plan.notes:
        text = "".join(f"\n  {note}" for note in dict.fromkeys(plan.notes))
        warnings.warn(ExportWarning(f"'{mech.name}' differs in MJCF:{text}"), stacklevel=2)
    return root.text()


def _bodies(plan: Plan, shapes: Shapes, constraints: Constraints) -> Element:
    mech, names = plan.mech, plan.names
    world = Element("worldbody")
    shapes.add(world, mech.shapes, WORLD, static=True)
    shapes.add_height_fields(world, mech.height_fields)
    elements, bodies = {id(plan.root): world}, {WORLD: world}
    stack = [(child, plan.root, True, 1) for child in reversed(plan.root.children)]
    while stack:
        node, parent, static, depth = stack.pop()
        if depth > DEEPEST:
            raise MechanismError(
                f"'{node.name}' of '{mech.name}' is nested more than {DEEPEST} bodies deep, which MuJoCo cannot read; "
                "save as .json"
            )
        static = static and not node.axis_joints
        element = elements[id(parent)].add("body", name=node.name, **pose_attributes(node.pose))
        elements[id(node)] = element
        _inertial(element, node, plan.notes)
        for axis_joint in node.axis_joints:
            _joint(element, axis_joint, plan)
        if node.is_original and node.body is not None:
            bodies[node.body.name] = element
            shapes.add(element, node.body.shapes, node.body.name, static)
        stack.extend((child, node, static, depth + 1) for child in reversed(node.children))
    for site in mech.sites:
        bodies[site.body].add("site", name=names.new("site", site.name), **pose_attributes(site.pose))
    for body, site_names in constraints.sites.items():
        for name, place in site_names:
            bodies[body].add("site", name=name, pos=place)
    return world


def _inertial(element: Element, node: Node, notes: list[str]) -> None:
    """Adds mass, centre and principal moments; raises where MuJoCo would reject the body."""
    body = node.body
    assert body is not None
    if not body.mass:
        if node.axis_joints and not _carries_mass(node):
            raise MechanismError(f"body '{body.name}' moves but has no mass, which MuJoCo rejects; give it one")
        return
    moments, axes = np.linalg.eigh(node.mass_fraction * (body.inertia + body.inertia.T) / 2)
    axes[:, 2] *= np.sign(np.linalg.det(axes))
    if node.is_original and moments[2] > 0 and moments[0] < LEAST_MOMENT and node.axis_joints:
        notes.append(f"body '{body.name}': moments of inertia raised to MuJoCo's minimum, {LEAST_MOMENT:g} kg m^2")
    a, b, c = np.maximum(moments, LEAST_MOMENT)
    element.add(
        "inertial",
        pos=body.centre,
        quat=spatial.quat_wxyz_from_matrix(axes),
        mass=node.mass_fraction * body.mass,
        diaginertia=(a, b, min(c, a + b)),
    )


def _carries_mass(node: Node) -> bool:
    """Whether a body fixed to this one has mass, which MuJoCo accepts instead."""
    fixed = [child for child in node.children if not child.axis_joints]
    while fixed:
        child = fixed.pop()
        if child.body is not None and child.body.mass:
            return True
        fixed.extend(inner for inner in child.children if not inner.axis_joints)
    return False


def _joint(element: Element, axis_joint: AxisJoint, plan: Plan) -> None:
    name = plan.axis_joint_names[axis_joint]
    if axis_joint.kind == "free":
        element.add("freejoint", name=name)
        return
    element.add(
        "joint",
        name=name,
        type=axis_joint.kind,
        pos=axis_joint.at if axis_joint.kind != "slide" and axis_joint.at.any() else None,
        axis=axis_joint.axes[:, 0] if axis_joint.kind != "ball" else None,
        **axis_joint.settings(plan.notes),
    )


def _contact(plan: Plan) -> Element:
    contact, names = Element("contact"), plan.body_names
    pairs = {frozenset(pair): pair for pair in (*plan.mech.contact_excludes, *plan.never_touching)}
    for first, second in (pair for key, pair in pairs.items() if len(key) == 2):
        contact.add("exclude", body1=names[first], body2=names[second])
    return contact


def _keyframes(plan: Plan) -> Element:
    element = Element("keyframe")
    for key in plan.mech.keyframes:
        element.add("key", name=plan.names.new("key", key.name), qpos=plan.qpos(key.coordinates))
    return element
