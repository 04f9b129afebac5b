"""The part of a seam's compliance that its basis leaves out, for presses near the seam."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from supple.elastic._checks import Array, Indices
from supple.spatial import so3_exp, so3_log
from supple.zones.terms import turned, turned_rows

if TYPE_CHECKING:
    from supple.zones.posed import PosedSkin
    from supple.zones.skin import Skin

ANGLES = 5
"""Angles over the range of a seam's two zones against each other for which the compliance is kept."""
ONE_AXIS = 1e-6
"""Largest part of a relative rotation off its axis, rad."""
NEAR = 0.01
"""Compliance of a touch vertex, over the largest of the seam, below which a vertex has no residual compliance."""


@dataclass(frozen=True, eq=False)
class ResidualCompliance:
    """Displacements of touch vertices near a seam per force on them that the seam's basis leaves out.

    With S the seam's own block of the seam equations for all its nodes, P the basis and B the displacements of touch
    vertices per displacement of the seam's nodes, it is B (S^-1 - P (P^T S P)^-1 P^T) B^T. It depends on the angle
    between the two zones of the seam. It is kept at some angles and interpolated between them, which keeps it positive
    semidefinite. Other seams do not contribute.
    """

    vertices: Indices
    """(n,) touch vertices of the skin."""
    zones: Indices
    """(n,) the zone in whose axes each vertex moves; for nodes of the seam its first zone."""
    axis: Array
    """(3,) axis about which the second zone turns against the first, in the axes of the first."""
    angles: Array
    """(m,) rising, rad, since the reference pose."""
    compliances: Array
    """(m, 3n, 3n) m/N, each vertex in the axes of its zone."""

    def at(self, posed: PosedSkin, i: int) -> Array:
        """(3n, 3n) in a pose, in world axes, m/N; i is the number of the seam."""
        angle = float(relative_turn(posed.skin, posed.frames, i) @ self.axis)
        C = interpolated(self.angles, self.compliances, angle)
        R = np.array([posed.frames[k][:3, :3] for k in self.zones])
        blocks = C.reshape(len(R), 3, len(R), 3)
        return np.asarray(np.einsum("aik,akbl,bjl->aibj", R, blocks, R, optimize=True).reshape(C.shape))


def interpolated(angles: Array, values: Array, angle: float) -> Array:
    """Values (m, ...) at rising angles (m,), interpolated linearly; the first and the last one count beyond them."""
    last = len(angles) - 1
    low = min(max(int(np.searchsorted(angles, angle)) - 1, 0), max(last - 1, 0))
    high = min(low + 1, last)
    span = angles[high] - angles[low]
    share = float(np.clip((angle - angles[low]) / span, 0, 1)) if span > 0 else 0.0
    return np.asarray((1 - share) * values[low] + share * values[high])


def relative_turn(skin: Skin, frames: tuple[Array, ...] | list[Array], i: int) -> Array:
    """(3,) rotation vector of the second zone of seam i against the first, since the reference, in the first's axes;
    `frames` (4, 4) are those of all zones."""
    first, second = (frames[k][:3, :3] for k in skin.seams[i].zones)
    rest_first, rest_second = (skin.reference_frames[k][:3, :3] for k in skin.seams[i].zones)
    return np.asarray(so3_log(first.T @ second @ (rest_first.T @ rest_second).T))


def residual_compliance(skin: Skin, i: int, basis: Array, samples: list[list[Array]]) -> ResidualCompliance | None:
    """The residual compliance of seam i of a skin with full seams for a basis (k, m).

    Args:
        samples: frames (4, 4) of all zones in poses over the ranges of the joints.

    Returns:
        None for a seam of three zones, for zones that turn about several axes, where nothing may touch, and if the
        basis leaves nothing out.
    """
    if len(skin.seams[i].zones) != 2 or basis.shape[1] >= skin.seams[i].size:
        return None
    turns = np.array([relative_turn(skin, frames, i) for frames in [list(skin.reference_frames), *samples]])
    lengths = np.linalg.norm(turns, axis=1)
    axis = turns[lengths.argmax()] / lengths.max() if lengths.max() > ONE_AXIS else np.array([1.0, 0, 0])
    own = turns @ axis
    if np.abs(turns - np.outer(own, axis)).max() > ONE_AXIS:
        return None
    spread = float(np.ptp(own)) > ONE_AXIS
    angles = np.linspace(own.min(), own.max(), ANGLES) if spread else np.zeros(1)
    vertices, zones, motions = _motions(skin, i)
    if not len(vertices):
        return None
    first, second = (skin.reference_frames[k][:3, :3] for k in skin.seams[i].zones)
    answers = []  # (3t, r), whose products with their transposes are the compliances
    for angle in angles:
        Q = so3_exp(angle * axis) @ first.T @ second  # from the second zone's axes to the first's
        answers.append(np.vstack([motions[0], turned_rows(Q, motions[1].T).T, motions[2]]) @ _factor(skin, i, basis, Q))
    sizes = np.max([np.square(own).sum(axis=1).reshape(-1, 3).max(axis=1) for own in answers], axis=0)
    near = np.flatnonzero(sizes >= NEAR * sizes.max())
    rows = (3 * near[:, None] + np.arange(3)).ravel()
    compliances = np.array([own[rows] @ own[rows].T for own in answers])
    return ResidualCompliance(vertices[near], zones[near], axis, angles, compliances)


def _motions(skin: Skin, i: int) -> tuple[Indices, Indices, list[Array]]:
    """Touch vertices of the two zones of seam i and of the seam, the zone of each, and their displacements per
    displacement of the seam's nodes, in the axes of the zones: free nodes of the first and second zone, seam nodes."""
    seam, vertices, zones, motions = skin.seams[i], [], [], []
    for k in seam.zones:
        own, terms = skin.zone_list[k].free_touch, skin.terms[k]
        vertices.append(skin.vertex_of[k][own])
        zones.append(np.full(len(own), k))
        motions.append(terms.motion[: 3 * len(own), terms.slices[terms.seams.index(i)]])
    touched = np.flatnonzero(np.isin(skin.seam_vertices(i), skin.touch))
    vertices.append(skin.seam_vertices(i)[touched])
    zones.append(np.full(len(touched), seam.zones[0]))
    motions.append(np.kron(np.eye(seam.size)[touched], np.eye(3)).astype(float))
    return np.concatenate(vertices), np.concatenate(zones), motions


def _factor(skin: Skin, i: int, basis: Array, Q: Array) -> Array:
    """(3k, r) F with F F^T = S^-1 - P (P^T S P)^-1 P^T, in the axes of the first zone of seam i; Q (3, 3) leads from
    the axes of the second zone to them."""
    from scipy.linalg import cholesky, qr, solve_triangular

    parts = []
    for k in skin.seams[i].zones:
        terms = skin.terms[k]
        own = terms.slices[terms.seams.index(i)]
        parts.append(terms.stiffness[own, own])
    L = cholesky(parts[0] + turned(Q, parts[1]), lower=True)
    P = np.kron(basis, np.eye(3))
    others = qr(L.T @ P)[0][:, P.shape[1] :]  # orthonormal, across what the basis spans
    return np.asarray(solve_triangular(L.T, others))
