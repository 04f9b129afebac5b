"""Statics of contact on a skin in a pose."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from supple import _core, spatial
from supple.contact.colliders import Collider, collider
from supple.contact.deep_press import points_inside, press_in_steps
from supple.contact.pads import NOTHING, Pad, Touch, check_shape, warn_if_behind
from supple.elastic._checks import Array, Indices
from supple.errors import MechanismError
from supple.mechanism.record import checked_pose
from supple.mechanism.shapes import HeightField, Mesh, Shape

if TYPE_CHECKING:
    from supple.zones.posed import PosedSkin

MOST_ROUNDS = 20
NEAR = 0.5
"""Points nearer to a shape than this share of its depth in the skin are included from the beginning."""
LEAST_NEAR = 2e-3
"""The same, over the size of the skin."""


def press(
    posed: PosedSkin,
    shape: Shape | HeightField,
    pose: ArrayLike | None,
    start: Touch | None,
    friction: float,
    meshes: Sequence[Mesh],
) -> Touch:
    """Forces of a shape on a skin: see `PosedSkin.press`."""
    check_shape(shape)
    pose = checked_pose(np.eye(4) if pose is None else pose, "pose of the shape")
    other = collider(shape, {mesh.name: mesh for mesh in meshes}, pose)
    x, normals = _points_and_normals(posed)
    if start is not None:
        if not isinstance(start, Touch):
            raise MechanismError(f"start must be the Touch of the last press, got {type(start).__name__}")
        touch = _press_once(posed, other, pose, start, friction)
    else:

        def solve(away: Array, start: Touch | None) -> Touch:
            move = spatial.translation(away)
            return _press_once(posed, replace(other, pose=move @ other.pose), move @ pose, start, friction)

        touch = press_in_steps(solve, x, normals, other, np.eye(4))
    if not touch.forces.any():
        warn_if_behind(x, normals, other, np.eye(4), stacklevel=4)
    return touch


def _points_and_normals(posed: PosedSkin) -> tuple[Array, Array]:
    """(p, 3) contact points of the unpressed skin, m, and (p, 3) their outward normals, in the world."""
    x, vectors = posed.contact_places
    return x, vectors / np.maximum(np.linalg.norm(vectors, axis=1), 1e-300)[:, None]


def _press_once(posed: PosedSkin, other: Collider, pose: Array, start: Touch | None, friction: float) -> Touch:
    """The touch of a shape, placed in the world, whose body is at `pose` (4, 4). Only the compliance of points near
    the shape is computed; points that others push into the shape are added."""
    x, normals = _points_and_normals(posed)
    everything = _core.pad_collider(x, normals, NOTHING, np.eye(4), friction)
    least = LEAST_NEAR * float(np.linalg.norm(np.ptp(x, axis=0)))
    indices, gaps = _core.near_points(everything, other.core, least)
    if len(gaps) and (deepest := -float(gaps.min())) * NEAR > least:
        indices, gaps = _core.near_points(everything, other.core, NEAR * deepest)
    chosen = np.union1d(indices.astype(int), points_inside(x, other, np.eye(4)))
    if start is not None:
        chosen = np.union1d(chosen, _points_of(posed, start))
    if not len(chosen):
        chosen = np.array([int(np.linalg.norm(x - pose[:3, 3], axis=1).argmin())])
    for _ in range(MOST_ROUNDS):
        pad = posed._pad_of(chosen, "world", friction, 0.0)
        if start is None:
            touch = pad.press_from(other, np.eye(4))
        else:
            touch = _press_from(pad, other, pose, start, _displacements(posed, start)[chosen])
        if not touch.forces.any():
            break
        pressed = _core.pad_collider(x + _displacements(posed, touch), normals, NOTHING, np.eye(4), friction)
        fresh = np.setdiff1d(_core.near_points(pressed, other.core, 0.0)[0].astype(int), chosen)
        if not len(fresh):
            break
        chosen = np.union1d(chosen, fresh)
    return replace(touch, pose=pose)


def _displacements(posed: PosedSkin, touch: Touch) -> Array:
    """(p, 3) m, of all contact points of the skin under the forces of a touch."""
    own = posed.skin.contact_points
    motion = posed.motion(touch.vertex_forces(posed.skin.vertex_count))
    return np.asarray(np.einsum("pk,pki->pi", own.weights, motion[own.vertices]))


def _points_of(posed: PosedSkin, touch: Touch) -> Indices:
    """Contact points of the skin that a pad of it has."""
    own = posed.skin.contact_points
    known = {key: i for i, key in enumerate(_keys(own.vertices, own.weights))}
    found = [known.get(key, -1) for key in _keys(touch.pad.vertices, touch.pad.weights)]
    if not found or min(found) < 0:
        raise MechanismError("start is the touch of another skin; give the last result of this one")
    return np.array(found)


def _keys(vertices: Indices, weights: Array) -> list[tuple[object, ...]]:
    """What tells points apart: their vertices and weights; the points of a face have the same vertices."""
    return [(*v, *w) for v, w in zip(vertices.tolist(), weights.tolist(), strict=True)]


def _press_from(pad: Pad, shape: Collider, pose: Array, start: Touch, displacements: Array) -> Touch:
    """Presses from a start on fewer points. Points that are new have no force there, and the displacements (n, 3), m,
    that the forces on the others cause."""
    places = {key: i for i, key in enumerate(_keys(pad.vertices, pad.weights))}
    at = np.array([places[key] for key in _keys(start.pad.vertices, start.pad.weights)])
    before, forces = displacements, np.zeros_like(pad.points)
    before[at] = start.displacements - (pad.points[at] - start.pad.points)
    forces[at] = start.forces
    return pad.press_from(shape, np.eye(4), before, forces, start.pose @ spatial.inverse(pose))
