"""Approximations of the seam equations: fewer functions on seams, and inverses interpolated over joint angles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from supple.elastic._checks import Array
from supple.errors import MechanismError
from supple.mechanism import kinematics
from supple.zones.layout import placed
from supple.zones.residual import ONE_AXIS, ResidualCompliance, interpolated, relative_turn, residual_compliance
from supple.zones.terms import turned

if TYPE_CHECKING:
    from supple.zones.posed import PosedSkin
    from supple.zones.skin import Skin, Where

BENDING_WEIGHT = 0.6
"""Weight of the seams' shapes in bent poses, against those under forces, in the choice of a seam basis."""
PATCH = 1.3
"""Radius of the presses that choose a seam basis, over the distance between touch nodes."""
ANGLES = 7
"""Angles over the range of a joint at which the seams' shapes are sampled."""


def seam_basis(skin: Skin, functions: int) -> list[Array]:
    """Scalar functions (k, m) of each seam that span its own answers: to presses on every touch node of its zones at
    the reference pose, and to bending over the ranges of the joints.

    The three components of an answer count as three samples of a scalar function, so that the functions serve all
    directions. Singular vectors in the energy norm of the seam's stiffness give the best ones.
    """
    from scipy.linalg import cholesky, solve_triangular, svd

    if functions < 1:
        raise MechanismError(f"a seam basis needs a function at least, got {functions}")
    at, reference = skin.pattern.offsets, skin.at()
    bent = [skin.at(where).amplitudes() for where in _bent_configurations(skin)]
    result = []
    for i in range(len(skin.seams)):
        pressed = _pressed(skin, reference, i)
        samples = [_scaled(pressed)]
        own = np.array([amplitudes[at[i] : at[i + 1]] for amplitudes in bent]).T.reshape(int(at[i + 1] - at[i]), -1)
        if own.any():
            samples.append(BENDING_WEIGHT * np.sqrt(max(1, pressed.shape[1])) * _scaled(own))
        scalars = np.hstack([np.hstack(samples)[axis::3] for axis in range(3)])
        stiffness = reference.blocks[i, i]
        metric = cholesky(sum(stiffness[axis::3, axis::3] for axis in range(3)) / 3, lower=True)
        vectors = svd(metric.T @ scalars, full_matrices=False)[0][:, :functions]
        result.append(np.linalg.qr(solve_triangular(metric.T, vectors))[0])
    return result


def residual_compliances(skin: Skin, bases: Sequence[Array]) -> tuple[ResidualCompliance | None, ...]:
    """By seam of a skin with full seams: the compliance of touch vertices near it that a basis leaves out."""
    samples = [skin.frames(where)[0] for where in _bent_configurations(skin)]
    return tuple(residual_compliance(skin, i, basis, samples) for i, basis in enumerate(bases))


def near_surface(skin: Skin, depth: float) -> list[Array]:
    """Functions of each seam that move only its nodes within `depth` (m) of a touch node of its zones."""
    from scipy.spatial import cKDTree

    if not depth >= 0:
        raise MechanismError(f"the depth of bonded seam nodes must not be negative, got {depth:g} m")
    result, zones = [], list(skin.zones.values())
    for seam in skin.seams:
        near = np.zeros(seam.size, dtype=bool)
        for k, nodes in zip(seam.zones, seam.nodes, strict=True):
            if len(zones[k].touch):
                tree = cKDTree(zones[k].nodes[zones[k].touch])
                near |= tree.query(zones[k].nodes[zones[k].seam[nodes]])[0] <= depth * (1 + 1e-9)
        result.append(np.eye(seam.size)[:, near])
    return result


@dataclass(frozen=True, eq=False)
class InterpolatedInverses:
    """Inverses of the diagonal blocks of the seam equations at some angles, in the axes of each seam's first zone."""

    axes: tuple[Array, ...]
    """(3,) axis about which the second zone of each seam turns against the first."""
    angles: tuple[Array, ...]
    """(n,) rising, rad."""
    inverses: tuple[Array, ...]
    """(n, 3m, 3m) m/N."""

    @classmethod
    def of(cls, skin: Skin, samples: Sequence[Where]) -> InterpolatedInverses:
        """Inverses at sampled configurations.

        Raises:
            MechanismError: a seam of more than two zones, or zones that turn about different axes.
        """
        posed = [skin.at(where) for where in samples]
        if not posed:
            raise MechanismError("interpolated seams need samples: configurations over the ranges of the joints")
        axes, angles, inverses = [], [], []
        for i in range(len(skin.seams)):
            _check_pair(skin, i)
            turns = np.array([relative_turn(skin, own.frames, i) for own in posed])
            lengths = np.linalg.norm(turns, axis=1)
            on_one_body = len({skin.bodies[name] for name in (list(skin.zones)[k] for k in skin.seams[i].zones)}) == 1
            if not (lengths.max() > 0 or on_one_body):
                raise MechanismError(f"seam {i} does not turn in any sample; give samples over the range of its joint")
            axis = turns[lengths.argmax()] / max(float(lengths.max()), 1e-300)
            own = turns @ axis
            if np.abs(turns - np.outer(own, axis)).max() > ONE_AXIS:
                raise MechanismError(f"the zones of seam {i} turn about several axes; inverses cannot be interpolated")
            order = np.unique(own.round(9), return_index=True)[1]
            first = [own.frames[skin.seams[i].zones[0]][:3, :3] for own in posed]
            values = [np.linalg.inv(turned(first[n].T, posed[n].blocks[i, i])) for n in order]
            axes.append(axis)
            angles.append(own[order])
            inverses.append(np.array(values))
        return cls(tuple(axes), tuple(angles), tuple(inverses))

    def solve(self, posed: PosedSkin, rhs: Array) -> Array:
        """Amplitudes of all seams in world axes; each seam by itself."""
        at, result = posed.skin.pattern.offsets, np.zeros_like(rhs)
        for i, seam in enumerate(posed.skin.seams):
            angle = float(relative_turn(posed.skin, posed.frames, i) @ self.axes[i])
            inverse = interpolated(self.angles[i], self.inverses[i], angle)
            first = posed.frames[seam.zones[0]][:3, :3]
            result[at[i] : at[i + 1]] = turned(first, inverse) @ rhs[at[i] : at[i + 1]]
        return result


def _check_pair(skin: Skin, i: int) -> None:
    if (count := len(skin.seams[i].zones)) != 2:
        raise MechanismError(f"seam {i} joins {count} zones; inverses can be interpolated for two only")


def _pressed(skin: Skin, posed: PosedSkin, i: int) -> Array:
    """(3n, 3p) amplitudes of seam i per press on its zones: a smooth patch of forces about each of their touch nodes,
    in three directions."""
    from scipy.sparse import csr_array, eye_array, kron
    from scipy.spatial import cKDTree

    at, zones = skin.pattern.offsets, list(skin.zones.values())
    loads, places = [], []
    for k in skin.seams[i].zones:
        terms, own = skin.terms[k], zones[k].free_touch
        load = np.zeros((int(at[-1]), 3 * len(own)))
        for j, rows in zip(terms.seams, terms.slices, strict=True):
            load[at[j] : at[j + 1]] = turned(posed.frames[k][:3, :3], terms.motion[: 3 * len(own), rows].T)
        loads.append(load)
        places.append(placed(zones[k].nodes[own], posed.frames[k]))
    first = skin.seams[i].zones[0]
    touched = np.isin(skin.seam_vertices(i), skin.touch)
    load = np.zeros((int(at[-1]), 3 * int(touched.sum())))
    load[at[i] : at[i + 1]] = np.kron(skin.bases[i].T[:, touched], np.eye(3))
    loads.append(load)
    nodes = zones[first].seam[skin.seams[i].nodes[0][touched]]
    places.append(placed(zones[first].nodes[nodes], posed.frames[first]))
    x = np.concatenate(places)
    if len(x) < 2:
        return posed.factors.solve(np.hstack(loads))[at[i] : at[i + 1]]
    distances = cKDTree(x).query(x, k=2)[0][:, 1]
    apart = np.linalg.norm(x[:, None] - x[None], axis=2) / (PATCH * float(np.median(distances)))
    patches = np.where(apart < 2.5, np.exp(-(apart**2)), 0.0)
    patches /= patches.sum(axis=0)
    spread = kron(csr_array(patches.T), eye_array(3)) @ np.hstack(loads).T
    return posed.factors.solve(spread.T)[at[i] : at[i + 1]]


def _bent_configurations(skin: Skin) -> list[Where]:
    """Configurations over the ranges of the joints: each coordinate alone, then all together."""
    lower, upper = skin.limits
    moving = np.flatnonzero(np.isfinite(lower) & np.isfinite(upper))
    result: list[Where] = []
    for share in np.linspace(0, 1, ANGLES):
        for chosen in [*[[i] for i in moving], moving] if len(moving) else []:
            own = np.asarray(chosen)
            q = skin.mechanism.reference.copy()
            q[own] = lower[own] + share * (upper[own] - lower[own])
            result.append(kinematics(skin.mechanism, q))
    return result


def _scaled(samples: Array) -> Array:
    """Samples over the norm of the largest."""
    return samples / max(float(np.linalg.norm(samples, axis=0).max(initial=0.0)), 1e-300)
