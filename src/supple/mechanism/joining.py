"""Mechanisms joined to one another, and parts taken away."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from supple.errors import MechanismError, listed
from supple.mechanism.body import WORLD, Body
from supple.mechanism.joint import Joint
from supple.mechanism.mechanism import Mechanism, check_mechanism
from supple.mechanism.placing import base_body, base_joint, with_base
from supple.mechanism.record import Array, checked_pose
from supple.mechanism.shapes import Shape

APPENDED = ("couplings", "motors", "actuators", "meshes", "import_report", "flexible")
"""Fields of a mechanism that are appended as they are, once the names have their prefix."""

# joining


def attach(mech: Mechanism, at: str, other: Mechanism, prefix: str = "", pose: ArrayLike | None = None) -> Mechanism:
    """Mounts a mechanism on a body or site of another one: a gripper on the tool frame of an arm.

    The world of `other` becomes the frame `at`, so its base is where its file places it relative to the origin. A free
    base is fixed, with its own frame at `at`.

    Args:
        mech: the mechanism that carries; it keeps its name, gravity and ground.
        at: body or site of `mech`, or "world".
        other: the mechanism to mount.
        prefix: put before all names of `other`.
        pose: (4, 4) of the mount in the frame `at`; the identity if not given.
    """
    check_mechanism(mech)
    check_mechanism(other)
    if not isinstance(prefix, str):
        raise MechanismError(f"the prefix of names is a text, got {prefix!r:.60}")
    offset = np.eye(4) if pose is None else checked_pose(pose, f"the pose to attach '{other.name}' at")
    index, frame = (-1, np.eye(4)) if at == WORLD else mech.frame(at)
    mount = WORLD if index < 0 else mech.bodies[index].name
    part = with_prefix(_with_held_base(other), prefix)
    _check_names(mech, part, prefix)
    on_mount = frame @ offset
    in_world = (np.eye(4) if index < 0 else mech.bodies[index].pose) @ on_mount
    carried = _carried_shapes(part, mount, on_mount)
    bodies = [replace(b, shapes=(*b.shapes, *carried)) if b.name == mount else b for b in mech.bodies]
    appended: dict[str, Any] = {field: (*getattr(mech, field), *getattr(part, field)) for field in APPENDED}
    joined = replace(
        mech,
        bodies=(*bodies, *(replace(body, pose=in_world @ body.pose) for body in part.bodies)),
        joints=(*mech.joints, *(_mounted(joint, mount, on_mount) for joint in part.joints)),
        shapes=mech.shapes if mount != WORLD else (*mech.shapes, *carried),
        sites=(*mech.sites, *(_mounted_site(site, mount, on_mount) for site in part.sites)),
        keyframes=(),
        contact_excludes=(
            *mech.contact_excludes,
            *((mount if a == WORLD else a, mount if b == WORLD else b) for a, b in part.contact_excludes),
        ),
        **appended,
    )
    return replace(joined, keyframes=_joined_keyframes(joined, mech, part))


def _with_held_base(other: Mechanism) -> Mechanism:
    """A mechanism with a free base is fixed with the frame of its base body at the origin."""
    based = [joint for joint in other.joints if WORLD in (joint.parent, joint.child)]
    if len(based) > 1 or base_joint(other).kind != "free":
        return other
    name = base_body(other).name
    return with_base(other, Joint(f"{name}_fixed", WORLD, name, np.eye(4), np.eye(4)))


def _mounted(joint: Joint, mount: str, on_mount: Array) -> Joint:
    if joint.parent == WORLD:
        return replace(joint, parent=mount, pose_parent=on_mount @ joint.pose_parent)
    return replace(joint, child=mount, pose_child=on_mount @ joint.pose_child) if joint.child == WORLD else joint


def _mounted_site(site: Any, mount: str, on_mount: Array) -> Any:
    return replace(site, body=mount, pose=on_mount @ site.pose) if site.body == WORLD else site


def _carried_shapes(part: Mechanism, mount: str, on_mount: Array) -> tuple[Shape, ...]:
    """Shapes fixed to the world of a part, which its mount carries."""
    if mount != WORLD and (part.height_fields or any(shape.kind == "plane" for shape in part.shapes)):
        raise MechanismError(
            f"'{part.name}' has ground (a plane or a height field), which '{mount}' cannot carry; load the file "
            "without the scene around it, or remove the ground: dataclasses.replace(mech, shapes=(), height_fields=())"
        )
    return tuple(replace(shape, pose=on_mount @ shape.pose) for shape in part.shapes)


def _joined_keyframes(joined: Mechanism, mech: Mechanism, part: Mechanism) -> tuple[Any, ...]:
    """Keyframes of both, each with the other at its reference pose."""
    reference = dict(zip(joined.coordinates, joined.reference, strict=True))
    frames = []
    for source in (mech, part):
        for key in source.keyframes:
            values = reference | dict(zip(source.coordinates, key.coordinates, strict=True))
            frames.append(replace(key, coordinates=np.array([values[name] for name in joined.coordinates])))
    return tuple(frames)


# names


def with_prefix(mech: Mechanism, prefix: str) -> Mechanism:
    """The mechanism with a prefix before all names but that of the world."""
    if not prefix:
        return mech

    def name(old: str) -> str:
        return old if old == WORLD else prefix + old

    def shapes(old: tuple[Shape, ...]) -> tuple[Shape, ...]:
        return tuple(
            replace(s, name=None if s.name is None else name(s.name), mesh=None if s.mesh is None else name(s.mesh))
            for s in old
        )

    def axes(old: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(map(name, old))

    return replace(
        mech,
        bodies=tuple(replace(b, name=name(b.name), shapes=shapes(b.shapes)) for b in mech.bodies),
        joints=tuple(
            replace(j, name=name(j.name), parent=name(j.parent), child=name(j.child), axes=axes(j.axes))
            for j in mech.joints
        ),
        sites=tuple(replace(s, name=name(s.name), body=name(s.body)) for s in mech.sites),
        couplings=tuple(replace(c, name=name(c.name), coordinates=axes(c.coordinates)) for c in mech.couplings),
        motors=tuple(replace(m, name=name(m.name), coordinate=name(m.coordinate)) for m in mech.motors),
        actuators=tuple(replace(a, name=name(a.name), drives=name(a.drives)) for a in mech.actuators),
        shapes=shapes(mech.shapes),
        meshes=tuple(replace(mesh, name=name(mesh.name)) for mesh in mech.meshes),
        keyframes=tuple(replace(key, name=name(key.name)) for key in mech.keyframes),
        flexible=tuple(replace(each, name=name(each.name)) for each in mech.flexible),
        contact_excludes=tuple((name(a), name(b)) for a, b in mech.contact_excludes),
        import_report=tuple(replace(note, item=f"{prefix}: {note.item}") for note in mech.import_report),
    )


def _check_names(mech: Mechanism, part: Mechanism, prefix: str) -> None:
    """Raises if both mechanisms have a part of the same name."""
    for what, ours, theirs in zip(
        ("body or site", "joint", "coordinate", "coupling, motor or actuator", "mesh", "keyframe"),
        _names_by_kind(mech), _names_by_kind(part), strict=True,
    ):  # fmt: skip
        if both := sorted(ours & theirs):
            raise MechanismError(
                f"'{mech.name}' and '{part.name}' both have a {what} named {listed(both)}; give another prefix than "
                f"{prefix!r}, for example prefix='{part.name}/'"
            )


def _names_by_kind(mech: Mechanism) -> list[set[str]]:
    return [
        {body.name for body in mech.bodies} | {site.name for site in mech.sites},
        {joint.name for joint in mech.joints},
        {axis for joint in mech.joints for axis in joint.axes},
        {drive.name for drives in (mech.couplings, mech.motors, mech.actuators) for drive in drives},
        {mesh.name for mesh in mech.meshes},
        {key.name for key in mech.keyframes},
    ]


# taking away


def without(mech: Mechanism, bodies: Iterable[str] | str) -> Mechanism:
    """The mechanism without bodies and all that they carry: with their joints, sites, couplings, motors, actuators,
    meshes."""
    names = [bodies] if isinstance(bodies, str) else list(bodies)
    topology = mech.topology
    gone = np.zeros(len(mech.bodies), dtype=bool)
    for name in names:
        index = mech.body_index(name)
        if index < 0:
            raise MechanismError(f"'{WORLD}' is the fixed frame; it cannot be removed")
        gone[index] = True
    for b in topology.order:
        gone[b] |= bool(topology.parent[b] >= 0 and gone[topology.parent[b]])
    kept = {WORLD, *(body.name for body, out in zip(mech.bodies, gone, strict=True) if not out)}
    if len(kept) == 1:
        raise MechanismError(f"without {listed(names)} and what they carry, nothing is left of '{mech.name}'")
    return restricted(mech, kept)


def restricted(mech: Mechanism, kept: set[str]) -> Mechanism:
    """The mechanism with some bodies only; `kept` are their names and "world"."""
    for each in mech.flexible:
        inside = [each.frame(interface) in kept for interface in each.part.interfaces]
        if any(inside) and not all(inside):
            raise MechanismError(f"the flexible body '{each.name}' would lose an interface; remove all or none of them")
    joints = tuple(j for j in mech.joints if j.parent in kept and j.child in kept)
    axes = {axis for joint in joints for axis in joint.axes}
    columns = [i for i, axis in enumerate(mech.coordinates) if axis in axes]
    bodies = tuple(body for body in mech.bodies if body.name in kept)
    couplings = tuple(c for c in mech.couplings if axes.issuperset(c.coordinates))
    driven = axes | {coupling.name for coupling in couplings}
    drawn = {shape.mesh for shape in (*mech.shapes, *(shape for body in bodies for shape in body.shapes))}
    return replace(
        mech,
        bodies=bodies,
        joints=joints,
        sites=tuple(site for site in mech.sites if site.body in kept),
        couplings=couplings,
        actuators=tuple(actuator for actuator in mech.actuators if actuator.drives in driven),
        motors=tuple(motor for motor in mech.motors if motor.coordinate in axes),
        meshes=tuple(mesh for mesh in mech.meshes if mesh.name in drawn),
        keyframes=tuple(replace(key, coordinates=key.coordinates[columns]) for key in mech.keyframes),
        contact_excludes=tuple(pair for pair in mech.contact_excludes if kept.issuperset(pair)),
        flexible=tuple(each for each in mech.flexible if each.reference in kept),
    )


class Split(NamedTuple):
    """A scene, separated."""

    robot: Mechanism
    """Everything but the loose objects, with the ground."""
    objects: tuple[Body, ...]
    """The loose objects, in their reference poses: `world.add(body, meshes=scene.meshes)`."""


def loose_objects(mech: Mechanism) -> list[str]:
    """Names of the bodies that only a free joint connects to the world and that carry nothing."""
    joints_of: dict[str, list[Joint]] = {}
    for joint in mech.joints:
        for name in (joint.parent, joint.child):
            joints_of.setdefault(name, []).append(joint)
    return [
        body.name
        for body in mech.bodies
        if len(own := joints_of[body.name]) == 1 and own[0].kind == "free" and WORLD in (own[0].parent, own[0].child)
    ]


def split(mech: Mechanism) -> Split:
    """Separates the robot from loose objects: bodies that only a free joint connects to the world and that carry
    nothing."""
    loose = loose_objects(mech)
    if len(loose) == len(mech.bodies):
        raise MechanismError(f"'{mech.name}' has only loose objects ({listed(loose)}) and no robot to separate")
    objects = tuple(body for body in mech.bodies if body.name in set(loose))
    return Split(without(mech, loose) if loose else mech, objects)
