"""The skins of flexible bodies: triangles whose vertices follow the modal amplitudes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from supple.mechanism import Mechanism, Poses
from supple.mechanism.flexible import FlexibleBody
from supple.mechanism.record import Array
from supple.recording import Recording

MAX_SHAPES = 16
"""Shapes, at most, that the motion of a recorded soft surface is composed of."""
SHAPE_TOLERANCE = 1e-4
"""Shapes whose part of the motion is smaller than this, over the largest, are left out."""
MAX_FACETS = 5000
"""A skin with more facets is drawn by their corners only, otherwise by corners and edge middles."""
COLOUR, PLASTIC = (143, 163, 181), (237, 158, 51)
"""Red, green and blue, 0 to 255; `PLASTIC` of light flexible bodies."""
LIGHT = 2000.0
"""Density below which a flexible body is drawn as plastic, kg/m^3."""


@dataclass(frozen=True)
class Skin:
    """The outer surface of a flexible body, in the frame of the body of its reference interface."""

    name: str
    """Of the flexible body."""
    body: int
    """Index of the body of the reference interface."""
    undeformed: Array
    """(v, 3) vertices at amplitudes of zero, m."""
    modes: Array
    """(v, 3, r) displacements of the vertices per unit of each amplitude, m/m."""
    faces: NDArray[np.uint32]
    """(f, 3), counter-clockwise seen from outside."""
    coordinates: tuple[str, ...]
    """(r,) names of the amplitudes."""
    colour: tuple[int, int, int] = COLOUR

    def vertices(self, poses: Poses) -> Array:
        """(v, 3) m, in the frame of the body, with the amplitudes of `poses`."""
        deformed: Array = self.undeformed + self.modes @ poses.amplitudes[self.name]
        return deformed


def mechanism_skins(mech: Mechanism) -> list[Skin]:
    """The skins of all flexible bodies of a mechanism."""
    return [_skin(mech, flexible) for flexible in mech.flexible]


def recorded_skin(recording: Recording, index: int) -> tuple[Skin, Array]:
    """A soft surface of a recording as a skin, and the amplitudes (n, r) of its shapes over time, m. The shapes are the
    main components of its motion, at most `MAX_SHAPES`."""
    surface = recording.surfaces[index]
    motion = recording[f"surface {index}"]
    first = motion[0]
    moved = (motion - first).reshape(len(motion), -1)
    left, sizes, right = np.linalg.svd(moved, full_matrices=False)
    kept = int((sizes > SHAPE_TOLERANCE * max(float(sizes[0]), 1e-12)).sum()) if len(sizes) else 0
    kept = min(kept, MAX_SHAPES)
    shapes = right[:kept].reshape(kept, -1, 3)
    names = tuple(f"shape {i + 1}" for i in range(kept))
    skin = Skin(
        surface.name, surface.body, first, np.moveaxis(shapes, 0, 2), surface.triangles.astype(np.uint32), names
    )
    return skin, left[:, :kept] * sizes[:kept]


def interface_bodies(mech: Mechanism) -> set[str]:
    """Names of the bodies of interfaces, which the skins show."""
    return {flexible.frame(name) for flexible in mech.flexible for name in flexible.part.interfaces}


def _skin(mech: Mechanism, flexible: FlexibleBody) -> Skin:
    part, basis = flexible.part, flexible.basis
    facets = part.skin
    triangles = facets[:, :3] if len(facets) > MAX_FACETS else _four_triangles(facets)
    nodes, index = np.unique(triangles, return_inverse=True)
    return Skin(
        flexible.name,
        mech.body_index(flexible.reference),
        part.nodes[nodes] - basis.origin,
        basis.modes[nodes],
        index.reshape(-1, 3).astype(np.uint32),
        tuple(flexible.coordinates),
        PLASTIC if part.material.density < LIGHT else COLOUR,
    )


def _four_triangles(facets: NDArray[np.intp]) -> NDArray[np.intp]:
    """(4f, 3) triangles between the corners and edge middles of facets (f, 6). The middles are those of the edges 01,
    12 and 02."""
    corners = ([0, 3, 5], [3, 1, 4], [5, 4, 2], [3, 4, 5])
    return np.concatenate([facets[:, triangle] for triangle in corners])
