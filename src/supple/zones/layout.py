"""Which nodes of which zones are bonded: seam nodes found by their places at the reference pose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from supple.elastic._checks import Array, Indices
from supple.errors import MechanismError
from supple.zones.zone import Zone

COINCIDENT = 1e-6
"""Distance of two nodes, over the size of the skin, below which they coincide."""


@dataclass(frozen=True, eq=False)
class Seam:
    """Nodes that the same zones share."""

    zones: tuple[int, ...]
    """The zones that meet there, two or more."""
    nodes: tuple[Indices, ...]
    """For each of these zones: (k,) places of the shared nodes in its array `seam`, in the same order."""

    @property
    def size(self) -> int:
        """Number of shared nodes."""
        return len(self.nodes[0])


def find_seams(zones: Mapping[str, Zone], poses: Sequence[Array]) -> tuple[Seam, ...]:
    """The seams of zones at given poses (4, 4), zone to world.

    Raises:
        MechanismError: a seam node that coincides with no seam node of another zone.
    """
    names = list(zones)
    positions = [placed(zone.nodes[zone.seam], H) for zone, H in zip(zones.values(), poses, strict=True)]
    everything = np.concatenate([np.zeros((0, 3)), *positions])
    if len(everything) == 0:
        return ()
    owner = np.concatenate([np.full(len(x), k) for k, x in enumerate(positions)]).astype(int)
    local = np.concatenate([np.arange(len(x)) for x in positions]).astype(int)
    size = float(np.ptp(np.concatenate([placed(z.nodes, H) for z, H in zip(zones.values(), poses, strict=True)])))
    labels = coincident(everything, COINCIDENT * size)
    members: dict[int, list[int]] = {}
    for i, label in enumerate(labels.tolist()):
        members.setdefault(label, []).append(i)
    groups: dict[tuple[int, ...], list[list[int]]] = {}
    for own in members.values():
        shared = tuple(int(owner[i]) for i in own)
        if len(own) < 2 or len(set(shared)) < len(shared):
            _refuse(zones, names, everything, owner, local, own)
        groups.setdefault(shared, []).append([int(local[i]) for i in own])
    return tuple(Seam(shared, tuple(np.array(nodes).T)) for shared, nodes in groups.items())


def placed(points: Array, pose: Array) -> Array:
    """Points (n, 3) moved by a pose (4, 4)."""
    return np.asarray(points @ pose[:3, :3].T + pose[:3, 3])


def coincident(points: Array, distance: float) -> Indices:
    """(n,) label of each point; points closer than the distance share one, and labels ascend with the first point."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components
    from scipy.spatial import cKDTree

    pairs = cKDTree(points).query_pairs(distance, output_type="ndarray")
    graph = coo_array((np.ones(len(pairs)), (pairs[:, 0], pairs[:, 1])), shape=(len(points),) * 2)
    return np.asarray(connected_components(graph, directed=False)[1])


def _refuse(
    zones: Mapping[str, Zone], names: list[str], x: Array, owner: Indices, local: Indices, own: list[int]
) -> None:
    i = own[0]
    name = names[owner[i]]
    node = int(zones[name].seam[local[i]])
    place = "(" + ", ".join(f"{value:.4g}" for value in x[i]) + ") m"
    if len(own) > 1:
        raise MechanismError(f"zone '{name}' has two seam nodes at {place}, {node} among them; merge them")
    others = np.flatnonzero(owner != owner[i])
    text = f"node {node} of zone '{name}' at {place} is marked as a seam, but no seam node of another zone is there"
    if len(others):
        near = others[int(np.linalg.norm(x[others] - x[i], axis=1).argmin())]
        text += (
            f"; the nearest is node {int(zones[names[owner[near]]].seam[local[near]])} of zone '{names[owner[near]]}', "
            f"{np.linalg.norm(x[near] - x[i]):.3g} m away"
        )
    raise MechanismError(text + "; give both zones matching meshes there, or unmark the node")
