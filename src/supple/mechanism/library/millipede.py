"""A spine of thousands of links with legs."""

from __future__ import annotations

import numpy as np

from supple import spatial
from supple.mechanism.library._parts import count
from supple.mechanism.tree import Tree

LEG, SEGMENT = 10, 3
"""Links per leg, and links of the spine per leg."""
SPINE, TOE = 0.06, 0.04
"""Lengths of a link of the spine and of a leg, m."""


def millipede(legs: int = 1000) -> Tree:
    """A spine along x with 3 links per leg, and legs of 10 links alternately on the left and right: 13 links per leg.

    The first link of the spine floats (a free joint to the world, body 0). Links of the spine are 6 cm long and weigh
    50 g, hinged at their start alternately about y and z. A leg is attached to the middle one of every three links: 5
    links of 4 cm outwards and upwards, then 5 downwards, 5 g each, hinged at their start alternately about x and z.
    Links are slender rods, 1 cm and 4 mm thick, with the frame at their start and z along the link. Bodies 0 ... 3 legs
    - 1 are the spine; then come the legs, each from hip to foot. There are no springs and no gravity.
    """
    n = count(legs, 1, "legs of the millipede")
    spine = np.arange(SEGMENT * n)
    start = np.stack([SPINE * spine, 0 * spine, 0 * spine], axis=1).astype(float)
    axis = np.where((spine % 2 == 0)[:, None], [0.0, 1, 0], [0.0, 0, 1])
    parent = spine - 1

    side = np.where(np.arange(n) % 2 == 0, 1.0, -1.0)
    hips = np.stack([SPINE * (SEGMENT * np.arange(n) + 1.5), 0.005 * side, 0 * side], axis=1)
    out, down = np.array([0.0, 0.8, 0.6]), np.array([0.0, 0.3, -np.sqrt(0.91)])
    ways = (
        np.where((np.arange(LEG) < LEG // 2)[:, None], out, down)[None]
        * np.stack([np.ones(n), side, np.ones(n)], axis=1)[:, None]
    )
    joints = hips[:, None] + TOE * (np.cumsum(ways, axis=1) - ways)
    turning = np.where((np.arange(LEG) % 2 == 0)[:, None], [1.0, 0, 0], [0.0, 0, 1])
    links = len(spine) + np.arange(LEG * n).reshape(n, LEG)
    above = np.concatenate([SEGMENT * np.arange(n)[:, None] + 1, links[:, :-1]], axis=1)

    origin = np.concatenate([start, joints.reshape(-1, 3)])
    along = np.concatenate([np.tile([1.0, 0, 0], (len(spine), 1)), ways.reshape(-1, 3)])
    axis = np.concatenate([axis, np.tile(turning, (n, 1))])
    length = np.where(np.arange(len(origin)) < len(spine), SPINE, TOE)
    mass = np.where(np.arange(len(origin)) < len(spine), 0.05, 0.005)
    thick = np.where(np.arange(len(origin)) < len(spine), 0.005, 0.002)
    across, twirl = mass * (length**2 / 12 + thick**2 / 4), mass * thick**2 / 2
    free = np.concatenate([np.eye(6)[:3], np.eye(6)[3:]])
    turn = spatial.rotation_between(np.array([0.0, 0, 1]), along)
    return Tree.placed(
        np.concatenate([parent, above.reshape(-1)]),
        spatial.pose(turn, origin),
        frames=spatial.translation(origin),
        twists=np.concatenate([free, np.concatenate([np.zeros_like(axis), axis], axis=1)[1:]]),
        mass=mass,
        centre=np.stack([0 * length, 0 * length, length / 2], axis=1),
        inertia=np.stack([across, across, twirl], axis=1)[:, :, None] * np.eye(3),
        axes=np.where(np.arange(len(origin)) == 0, 6, 1),
        blocks=np.concatenate([[1, 1, 1, 3, 3, 3], np.ones(len(origin) - 1)]),
        name="millipede",
    )
