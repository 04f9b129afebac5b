"""The MJCF file as a whole."""

from __future__ import annotations

import warnings
from os import PathLike

import numpy as np

from supple import spatial
from supple.errors import ExportWarning, MechanismError
from supple.mechanism.body import WORLD
from supple.mechanism.io.mjcf_writer.constraints import Constraints
from supple.mechanism.io.mjcf_writer.plan import Node, Plan
from supple.mechanism.io.mjcf_writer.shapes import Shapes, placed
from supple.mechanism.io.mjcf_writer.steps import Step
from supple.mechanism.io.mjcf_writer.xml import Element
from supple.mechanism.io.writing import writing
from supple.mechanism.mechanism import Mechanism

TIMESTEP = 0.001
"""s; half the time constant of the constraints."""
SOLREF, SOLIMP = "0.002 1", "0.99 0.9999 0.001 0.5 2"
"""Constraints stiffer than MuJoCo's own, so that loops hardly gape."""
DEEPEST = 490
"""How far bodies may nest before MuJoCo's XML reader gives up."""
LEAST_MOMENT = 2e-15
"""kg m^2; MuJoCo takes no body with less."""


def save(mech: Mechanism, path: str | PathLike[str]) -> None:
    """Writes an `.xml` file for MuJoCo."""
    text = write(mech)
    with writing(path) as file:
        file.write(text)


def write(mech: Mechanism) -> str:
    """The MJCF text. The spanning tree becomes nested bodies with our frames, MuJoCo's coordinates of hinges
    and slides are ours; what MJCF holds only approximately is listed in one `ExportWarning`."""
    plan = Plan(mech)
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
    shapes.ground(world, mech.height_fields)
    elements, bodies = {id(plan.root): world}, {WORLD: world}
    stack = [(child, plan.root, True, 1) for child in reversed(plan.root.children)]
    while stack:
        node, parent, static, depth = stack.pop()
        if depth > DEEPEST:
            raise MechanismError(
                f"'{node.name}' of '{mech.name}' lies over {DEEPEST} bodies deep; MuJoCo cannot read that"
            )
        static = static and not node.steps
        element = elements[id(parent)].add("body", name=node.name, **placed(node.pose))
        elements[id(node)] = element
        _inertial(element, node, plan.notes)
        for step in node.steps:
            _joint(element, step, plan)
        if node.whole and node.body is not None:
            bodies[node.body.name] = element
            shapes.add(element, node.body.shapes, node.body.name, static)
        stack.extend((child, node, static, depth + 1) for child in reversed(node.children))
    for site in mech.sites:
        bodies[site.body].add("site", name=names.new("site", site.name), **placed(site.pose))
    for body, marks in constraints.sites.items():
        for name, place in marks:
            bodies[body].add("site", name=name, pos=place)
    return world


def _inertial(element: Element, node: Node, notes: list[str]) -> None:
    """Mass, centre and principal moments; refuses what MuJoCo would."""
    body = node.body
    assert body is not None
    if not body.mass:
        if node.steps and not _carries(node):
            raise MechanismError(
                f"body '{body.name}' moves but has no mass, which MuJoCo refuses; give it one"
            )
        return
    moments, axes = np.linalg.eigh(node.share * (body.inertia + body.inertia.T) / 2)
    axes[:, 2] *= np.sign(np.linalg.det(axes))
    if node.whole and moments[2] > 0 and moments[0] < LEAST_MOMENT and node.steps:
        notes.append(
            f"body '{body.name}': moments of inertia raised to MuJoCo's least, {LEAST_MOMENT:g} kg m^2"
        )
    a, b, c = np.maximum(moments, LEAST_MOMENT)
    element.add(
        "inertial",
        pos=body.centre,
        quat=spatial.quat_wxyz_from_matrix(axes),
        mass=node.share * body.mass,
        diaginertia=(a, b, min(c, a + b)),
    )


def _carries(node: Node) -> bool:
    """Whether a body fixed to this one brings mass, which MuJoCo accepts instead."""
    fixed = [child for child in node.children if not child.steps]
    while fixed:
        child = fixed.pop()
        if child.body is not None and child.body.mass:
            return True
        fixed.extend(inner for inner in child.children if not inner.steps)
    return False


def _joint(element: Element, step: Step, plan: Plan) -> None:
    name = plan.step_names[step]
    if step.kind == "free":
        element.add("freejoint", name=name)
        return
    element.add(
        "joint",
        name=name,
        type=step.kind,
        pos=step.at if step.kind != "slide" and step.at.any() else None,
        axis=step.axes[:, 0] if step.kind != "ball" else None,
        **step.settings(plan.notes),
    )


def _contact(plan: Plan) -> Element:
    contact, names = Element("contact"), plan.body_names
    pairs = {frozenset(pair): pair for pair in (*plan.mech.contact_excludes, *plan.apart)}
    for first, second in (pair for key, pair in pairs.items() if len(key) == 2):
        contact.add("exclude", body1=names[first], body2=names[second])
    return contact


def _keyframes(plan: Plan) -> Element:
    element = Element("keyframe")
    for key in plan.mech.keyframes:
        element.add("key", name=plan.names.new("key", key.name), qpos=plan.qpos(key.coordinates))
    return element
