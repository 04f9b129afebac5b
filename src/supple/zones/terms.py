"""A zone's share of the seam equations, in its own frame and in a basis of the seams."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from supple.elastic._checks import Array
from supple.zones.greens import AFFINE, affine_fields
from supple.zones.layout import Seam
from supple.zones.zone import Zone


@dataclass(frozen=True, eq=False)
class ZoneTerms:
    """Green's functions of a zone in the coordinates of its seams.

    The displacement of the nodes of a seam is phi c + M x + t: c (m, 3) are unknown amplitudes of the seam's scalar
    functions phi (k, m), and M, t (12 numbers) take the node from its rigid place in this zone to the mean of its rigid
    places in all zones of the seam. Scalar functions times three axes, so that amplitudes turn with the zone. With c of
    all seams of the zone, and a = (M, t) of all its seams, then of all its bones, the forces on the amplitudes are

        p = K c + A a - U_t^T f

    and the displacements of the free nodes u = U c + V a + G f (G of `GreensFunctions`).
    """

    seams: tuple[int, ...]
    """Seams of the zone."""
    slices: tuple[slice, ...]
    """Where the amplitudes of each seam are in c, as ravelled (m, 3)."""
    stiffness: Array
    """(n, n) K, N/m."""
    affine: Array
    """(n, 12 b) A for b seams and bones."""
    affine_stiffness: Array
    """(12 b, 12 b) energy of a: 1/2 a^T (this) a."""
    motion: Array
    """(3 m, n) U: displacements of the free nodes, touch nodes first, per amplitude."""
    affine_motion: Array
    """(3 m, 12 b) V."""

    @cached_property
    def inverse(self) -> Array:
        """(n, n) K^-1, m/N, for seams by forces."""
        return np.asarray(np.linalg.inv(self.stiffness))


def zone_terms(zone: Zone, index: int, seams: Sequence[Seam], bases: Sequence[Array]) -> ZoneTerms:
    """The terms of zone number `index`; `bases` are the scalar functions (k, m) of each seam."""
    greens = zone.greens
    own = [i for i, seam in enumerate(seams) if index in seam.zones]
    widths = [3 * bases[i].shape[1] for i in own]
    starts = np.concatenate([[0], np.cumsum(widths)]).astype(int)
    held = len(greens.stiffness)
    amplitudes = np.zeros((held, int(starts[-1])))
    bones = len(zone.bones)
    rigid = np.zeros((held, AFFINE * (len(own) + bones)))
    fields = affine_fields(zone.nodes[zone.seam])
    for a, i in enumerate(own):
        nodes = seams[i].nodes[seams[i].zones.index(index)]
        rows = (3 * nodes[:, None] + np.arange(3)).ravel()
        amplitudes[rows[:, None], np.arange(starts[a], starts[a + 1])] = np.kron(bases[i], np.eye(3))
        rigid[rows, AFFINE * a : AFFINE * (a + 1)] = fields[rows]
    if bones:
        rigid[held - AFFINE * bones :, AFFINE * len(own) :] = np.eye(AFFINE * bones)
    K = greens.stiffness
    return ZoneTerms(
        tuple(own),
        tuple(slice(int(a), int(b)) for a, b in pairwise(starts)),
        amplitudes.T @ K @ amplitudes,
        amplitudes.T @ K @ rigid,
        rigid.T @ K @ rigid,
        greens.motion @ amplitudes,
        greens.motion @ rigid,
    )


def turned(R: Array, matrix: Array) -> Array:
    """blockdiag(R) matrix blockdiag(R)^T for a matrix (3a, 3b)."""
    rows, columns = matrix.shape
    blocks = matrix.reshape(rows // 3, 3, columns // 3, 3)
    return np.asarray(np.einsum("ik,akbl,jl->aibj", R, blocks, R, optimize=True).reshape(rows, columns))


def turned_rows(R: Array, vectors: Array) -> Array:
    """blockdiag(R) times vectors (3a,) or (3a, k)."""
    columns = vectors.shape[1] if vectors.ndim == 2 else 1
    return np.asarray((R @ vectors.reshape(len(vectors) // 3, 3, columns)).reshape(vectors.shape))


def affine_between(pose: Array, others: Sequence[Array]) -> Array:
    """(12,) M, t in the frame of a pose (4, 4): they take a point from its place there to the mean of its places by the
    other poses."""
    change = np.linalg.inv(pose) @ np.mean(others, axis=0) - np.eye(4)
    return np.concatenate([change[:3, :3].ravel(), change[:3, 3]])
