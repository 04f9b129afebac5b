"""A molecule-like tree of tens of thousands of hinges."""

from __future__ import annotations

import numpy as np

from supple import spatial
from supple.errors import MechanismError
from supple.mechanism.library._parts import count
from supple.mechanism.record import Array
from supple.mechanism.tree import Integers, Tree

BOND, ATOM, MASS = 0.1, 0.03, 0.01
"""Length of a bond and radius of an atom, m; mass of an atom, kg."""


def molecule(joints: int = 50_000, branching: float = 0.002, seed: int = 0) -> Tree:
    """Atoms on a diamond lattice, each hinged about its bond to the atom it grew from; the first one to the world.

    A chain grows at its tip onto a random empty neighbouring site. Where the tip has no empty neighbour, and with
    probability `branching` at each atom, growth continues at another random atom that has an empty neighbouring site.
    So no two atoms coincide, and each atom has at most four bonds at the tetrahedral angle. Atoms are solid
    spheres of 10 g and 3 cm radius, bonds are 10 cm long and have no mass; there are no springs and no gravity. Body
    i is the i-th atom; its frame is at its centre, with z along the bond from its parent.
    """
    n = count(joints, 1, "joints of the molecule")
    rng = np.random.default_rng(seed)
    if not 0 <= branching <= 1:
        raise MechanismError(f"branching of the molecule is a probability from 0 to 1, got {branching!r}")
    parent, sites = _grow(n, float(branching), rng)
    position = sites * (BOND / np.sqrt(3))
    bond = position - np.where(parent[:, None] < 0, position - [0, 0, BOND], position[parent])
    poses = spatial.pose(_frames(bond / BOND), position)
    return Tree.placed(
        parent,
        poses,
        frames=poses,
        twists=np.tile([0.0, 0, 0, 0, 0, 1], (n, 1)),
        mass=np.full(n, MASS),
        centre=np.zeros((n, 3)),
        inertia=np.tile(0.4 * MASS * ATOM**2 * np.eye(3), (n, 1, 1)),
        name="molecule",
    )


def _grow(n: int, branching: float, rng: np.random.Generator) -> tuple[Integers, Array]:
    """Parents (n,) and lattice sites (n, 3). Atoms of even and odd sites have opposite bond directions."""
    ways = [(1, 1, 1), (1, -1, -1), (-1, 1, -1), (-1, -1, 1)]
    sites, odd, parent = [(0, 0, 0)], [False], [-1]
    occupied, tip = {sites[0]}, 0

    def empty_neighbours(atom: int) -> list[tuple[int, int, int]]:
        x, y, z = sites[atom]
        sign = -1 if odd[atom] else 1
        return [s for a, b, c in ways if (s := (x + sign * a, y + sign * b, z + sign * c)) not in occupied]

    while len(sites) < n:
        empty_sites = empty_neighbours(tip)
        while not empty_sites or rng.random() < branching:
            tip = int(rng.integers(len(sites)))
            empty_sites = empty_neighbours(tip)
        site = empty_sites[int(rng.integers(len(empty_sites)))]
        occupied.add(site)
        sites.append(site)
        odd.append(not odd[tip])
        parent.append(tip)
        tip = len(sites) - 1
    return np.array(parent), np.array(sites, dtype=float)


def _frames(z: Array) -> Array:
    """(n, 3, 3) rotations whose third column is z."""
    side = np.where(np.abs(z[:, :1]) < 0.9, [[1.0, 0, 0]], [[0.0, 1, 0]])
    x = np.cross(side, z)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    return np.stack([x, np.cross(z, x), z], axis=-1)
