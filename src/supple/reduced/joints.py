"""Separation of joints, and the data that the core needs to reconstruct links from joint coordinates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from supple import spatial
from supple.engine.assembly import equations
from supple.errors import MechanismError
from supple.mechanism import Joint, Mechanism, Poses
from supple.mechanism.axes import axis_slices, per_axis
from supple.mechanism.notebook import brief
from supple.mechanism.record import Array
from supple.reduced.model import ReducedModel, held_base


@dataclass(frozen=True)
class Separation:
    """Distances between the attachment points of joints."""

    __repr__ = brief

    joints: dict[str, float]
    """Distance for each joint, m, without the part that the joint's own axes (slides) allow."""
    total: float
    """The sum of the distances, divided by the mechanism's radius."""


def separation(mech: Mechanism, poses: Array, near: Array | None = None) -> Separation:
    """Separation of every joint at poses (bodies, 4, 4) of the bodies.

    The part that a joint's own axes allow does not count. Its search starts from the coordinates `near` (axes,), by
    default the reference. The coordinates of a flexible body's interface are not searched: its frame is the one at the
    amplitudes in `near`.
    """
    index = [[mech.body_index(j.parent), mech.body_index(j.child)] for j in mech.joints]
    world = np.concatenate([poses, np.eye(4)[None]])  # index -1 is the world
    ends = np.array(index).reshape(-1, 2)
    on_parent = world[ends[:, 0]] @ np.array([j.pose_parent for j in mech.joints])
    on_child = world[ends[:, 1]] @ np.array([j.pose_child for j in mech.joints])
    apart = on_child[:, :3, 3] - on_parent[:, :3, 3]
    near = per_axis(mech, "reference") if near is None else near
    starts = [near[part] for part in axis_slices(mech)]
    curved: dict[int, list[int]] = {}  # indices of joints by their number of axes
    for i, joint in enumerate(mech.joints):
        slides = joint.twists[:, :3]
        if joint.interface is not None:
            across = spatial.inverse(on_parent[i]) @ on_child[i]
            apart[i] = across[:3, 3] - joint.displacement(starts[i])[:3, 3]
            continue
        if not slides.any():
            continue
        if _moves_on_curve(joint) and max(joint.blocks) == 1:
            curved.setdefault(len(slides), []).append(i)
        elif _moves_on_curve(joint):
            apart[i] = joint.coordinates(spatial.inverse(on_parent[i]) @ on_child[i], starts[i])[1][:3]
        else:
            allowed = np.linalg.qr(on_parent[i, :3, :3] @ slides[slides.any(axis=1)].T)[0]
            apart[i] -= allowed @ (allowed.T @ apart[i])
    for which in curved.values():
        displacements = spatial.inverse(on_parent[which]) @ on_child[which]
        twists = np.array([mech.joints[i].twists for i in which])
        apart[which] = _remaining_twists(twists, np.array([starts[i] for i in which]), displacements)[:, :3]
    sizes = np.linalg.norm(apart, axis=1)
    names = [j.name for j in mech.joints]
    return Separation(dict(zip(names, sizes.tolist(), strict=True)), float(sizes.sum() / (mech.radius or 1.0)))


def separation_at(poses: Poses) -> Separation:
    """Separation of every joint at poses that come with the amplitudes of flexible bodies."""
    mech = poses.mechanism
    near = np.array(per_axis(mech, "reference"))
    slices = dict(zip((joint.name for joint in mech.joints), axis_slices(mech), strict=True))
    for flexible in mech.flexible:
        for interface in flexible.moving:
            near[slices[flexible.frame(interface)]] = poses.amplitudes[flexible.name]
    return separation(mech, poses.array, near)


def _remaining_twists(twists: Array, q: Array, displacements: Array) -> Array:
    """Twists (n, 6) between displacements (n, 4, 4) and the nearest ones that n joints of k single axes can make.

    Gauss-Newton from coordinates q (n, k), as in `Joint.coordinates`, for all joints at once; `twists` (n, k, 6) are
    their axes.
    """
    columns = np.zeros((*q.shape, 6))
    for _ in range(50):
        reached = np.broadcast_to(np.eye(4), displacements.shape)
        for k in reversed(range(q.shape[1])):
            columns[:, k] = (spatial.adjoint(spatial.inverse(reached)) @ twists[:, k, :, None])[..., 0]
            reached = spatial.exp(q[:, k, None] * twists[:, k]) @ reached
        left = spatial.log(spatial.inverse(reached) @ displacements)
        step = (left[:, None] @ np.linalg.pinv(columns, 1e-12))[:, 0]
        if np.abs(step).max() < 1e-10:
            break
        q = q + step
    return left


def _moves_on_curve(joint: Joint) -> bool:
    """Whether the child's attachment point can leave the line or plane, fixed to the parent, of the joint's slides.

    It can where an axis of rotation does not pass through the joint's origin, and where a slide follows a rotation.
    """
    turned = np.zeros((0, 3))
    for twist in joint.twists:
        along, about = twist[:3], twist[3:]
        if along.any() and np.abs(np.cross([*turned, about], along)).max(initial=0.0) > 1e-12:
            return True
        turned = np.vstack([turned, about[None]]) if about.any() else turned
    return False


def add_joints(core: Any, model: ReducedModel, corrections: int) -> None:
    """Gives the core the joints, and the responses of their coordinates to errors of tips and gaps of loops."""
    mech = model.mechanism
    _check_flexible(mech)
    frames = [mech.frame(name) for name in model.end_effectors]
    by_loops, loop_tips = _loop_responses(model)
    cobasis = model.cobasis[: len(model.cobasis) - model.modes, : 6 * len(frames)]
    by_tips = model.coordinate_map[:, : 6 * len(frames)]
    parts = model.q, model.coordinate_map @ model.basis, by_tips, by_loops, loop_tips, cobasis
    bodies, on_body = [body for body, _ in frames], np.array([pose for _, pose in frames])
    core.set_joints(equations(mech).core, bodies, on_body, *(np.ascontiguousarray(part) for part in parts), corrections)


def _check_flexible(mech: Mechanism) -> None:
    """Raises `MechanismError` if the spanning tree does not reach a flexible body at the reference of its basis."""
    topology = mech.topology
    outward = {int(j) for j, backwards in zip(topology.joint, topology.reversed, strict=True) if not backwards}
    for j, joint in enumerate(mech.joints):
        if joint.interface is not None and j not in outward:
            raise MechanismError(
                f"links by joints do not cover the flexible body of joint '{joint.name}': the path of joints from the "
                f"world reaches it at '{joint.child}', not at '{joint.parent}', the reference of its basis; use "
                'reconstruction="twist"'
            )


def _loop_responses(model: ReducedModel) -> tuple[Array, Array]:
    """Static response to a unit gap in each loop, without other loads: increments of every coordinate (axes, 6 loops),
    and twists of the end effectors (6e, 6 loops)."""
    mech, linear = model.mechanism, model.linearisation
    at, loops = linear.layout, mech.topology.loops
    e = len(model.end_effectors)
    if not loops:
        return np.zeros((len(model.q), 0)), np.zeros((6 * e, 0))
    held = held_base(mech)[0]
    rhs = np.zeros((6 * len(loops), at.size))
    for i, j in enumerate(held.topology.loops):
        rhs[6 * i : 6 * i + 6, at.multipliers[j]] = np.eye(6)
    response = linear.solve(rhs)
    turns = np.zeros((len(model.q), len(rhs)))
    turns[model.held_axes] = response[:, at.coordinates].T
    twists = response[:, at.twists].T.reshape(len(mech.bodies), 6, -1)
    frames = [mech.frame(name) for name in model.end_effectors]
    return turns, np.concatenate([spatial.adjoint(spatial.inverse(pose)) @ twists[body] for body, pose in frames])
