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

    A chain grows at its tip, onto an empty neighbouring site drawn evenly. Where the tip is walled in, and besides
    with the chance `branching` at each atom, it goes on from another atom, drawn evenly among those that have an
    empty site left. So no two atoms meet and each has at most four bonds, at the tetrahedral angle. Atoms are solid
    spheres of 10 g and 3 cm radius, bonds are 10 cm long and have no mass; there are no springs and no gravity. Body
    i is the i-th atom, its frame in its middle with z along the bond from its parent.
    """
    n = count(joints, 1, "joints of the molecule")
    rng = np.random.default_rng(seed)
    if not 0 <= branching <= 1:
        raise MechanismError(f"branching of the molecule is a chance, 0 to 1, got {branching!r}")
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
    taken, tip = {sites[0]}, 0

    def empty(atom: int) -> list[tuple[int, int, int]]:
        x, y, z = sites[atom]
        sign = -1 if odd[atom] else 1
        return [s for a, b, c in ways if (s := (x + sign * a, y + sign * b, z + sign * c)) not in taken]

    while len(sites) < n:
        found = empty(tip)
        while not found or rng.random() < branching:
            tip = int(rng.integers(len(sites)))
            found = empty(tip)
        site = found[int(rng.integers(len(found)))]
        taken.add(site)
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
