"""Meshes of straight-sided 10-node tetrahedra: completion, checks, facets, volumes, mass matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from supple.elastic._checks import Array, Indices, indices
from supple.errors import MechanismError

EDGES = np.array([(0, 1), (1, 2), (0, 2), (0, 3), (1, 3), (2, 3)])
"""Corners of the edge whose middle is local node 4, 5, ... 9."""
FACETS = np.array([(0, 2, 1, 6, 5, 4), (0, 1, 3, 4, 8, 7), (1, 2, 3, 5, 9, 8), (0, 3, 2, 7, 9, 6)])
"""Local nodes of the four facets: corners, counter-clockwise seen from outside, then the middles of the edges 01, 12,
02."""
FLATTEST = 1e-6
"""Six times the volume of a tetrahedron over the cube of its root mean square edge, below which it counts as
degenerate. Elements that are long along a rod's axis reach 1e-3."""
CURVED = 1e-6
"""Distance of an edge's node from the middle of the edge over its length, beyond which the edge counts as curved."""


def with_edge_nodes(nodes: Array, corners: Indices) -> tuple[Array, Indices]:
    """Nodes and (t, 10) tetrahedra of a mesh given by corners (t, 4): the middles of edges are added."""
    pairs = np.sort(corners[:, EDGES], axis=2).reshape(-1, 2)
    edges, of_tet = np.unique(pairs, axis=0, return_inverse=True)
    middles = nodes[edges].mean(axis=1)
    tets = np.hstack([corners, len(nodes) + of_tet.reshape(-1, 6)])
    return _read_only(np.vstack([nodes, middles])), _read_only(tets)


def _read_only(array: Any) -> Any:
    array.flags.writeable = False
    return array


def volumes(nodes: Array, tets: Indices) -> Array:
    """(t,) m^3, negative for inverted tetrahedra."""
    a, b, c, d = (nodes[tets[:, i]] for i in range(4))
    return np.asarray(np.einsum("ti,ti->t", b - a, np.cross(c - a, d - a)) / 6)


def check(nodes: Array, tets: Indices) -> None:
    """Raises unless the tetrahedra are valid, straight-sided, conforming and connected."""
    if len(tets) == 0:
        raise MechanismError("a part needs tetrahedra; its mesh has none")
    ends = nodes[tets[:, EDGES]]  # (t, 6, 2, 3)
    lengths = np.linalg.norm(ends[:, :, 1] - ends[:, :, 0], axis=2)
    size = np.sqrt((lengths**2).mean(axis=1)) ** 3
    shape = 6 * volumes(nodes, tets) / np.where(size > 0, size, 1)
    for e in np.flatnonzero(shape < FLATTEST)[:1]:
        kind = "inverted" if shape[e] < -FLATTEST else "degenerate (it has no volume)"
        count = int((shape < FLATTEST).sum())
        raise MechanismError(
            f"tetrahedron {e} with corners {tets[e, :4].tolist()} is {kind}; "
            f"{count} of {len(tets)} are inverted or degenerate: mesh the part anew"
        )
    gap = np.linalg.norm(nodes[tets[:, 4:]] - ends.mean(axis=2), axis=2) / lengths
    for e in np.flatnonzero(gap.max(axis=1) > CURVED)[:1]:
        raise MechanismError(
            f"tetrahedron {e} has a curved edge: its node {tets[e, 4 + int(gap[e].argmax())]} is not in the middle of "
            "the "
            "edge; long curved elements lock, so only straight edges are taken (give the corners only, shape (t, 4))"
        )
    _check_connected(nodes, tets)


def _check_connected(nodes: Array, tets: Indices) -> None:
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    pairs = np.sort(tets[:, EDGES], axis=2).reshape(-1, 2)
    edges, first, of_tet = np.unique(pairs, axis=0, return_index=True, return_inverse=True)
    middles = tets[:, 4:].ravel()
    for wrong in np.flatnonzero(middles != middles[first][of_tet.ravel()])[:1]:
        raise MechanismError(
            f"tetrahedra {first[of_tet.ravel()[wrong]] // 6} and {wrong // 6} share the edge {pairs[wrong].tolist()} "
            "but not "
            "its middle node; the mesh is not connected there"
        )
    used = np.zeros(len(nodes), dtype=bool)
    used[tets] = True
    if not used.all():
        raise MechanismError(
            f"node {int(np.argmin(used))} belongs to no tetrahedron ({int((~used).sum())} such nodes); remove it"
        )
    graph = coo_array((np.ones(len(edges)), (edges[:, 0], edges[:, 1])), shape=(len(nodes), len(nodes)))
    labels = connected_components(graph, directed=False)[1][tets[:, 0]]
    for e in np.flatnonzero(labels != labels[0])[:1]:
        raise MechanismError(
            f"the mesh is in {len(np.unique(labels))} unconnected pieces: no path of edges joins tetrahedron {e} to "
            "tetrahedron 0; merge coincident nodes or make each piece a part of its own"
        )


def outer_facets(tets: Indices) -> Indices:
    """(f, 6) facets that belong to one tetrahedron only; (f, 3) for tetrahedra given by corners (t, 4)."""
    width = 3 if tets.shape[1] == 4 else 6
    facets = tets[:, FACETS[:, :width]].reshape(-1, width)
    _, first, count = np.unique(np.sort(facets[:, :3], axis=1), axis=0, return_index=True, return_counts=True)
    return _read_only(facets[np.sort(first[count == 1])])  # type: ignore[no-any-return]


def completed_facets(nodes: Array, tets: Indices, given: ArrayLike, name: str) -> Indices:
    """(f, 6) facets of an interface, from their corners; raises unless each lies on the surface of the mesh."""
    what = f"interface '{name}'"
    facets = np.asarray(given)
    width = facets.shape[-1] if facets.ndim == 2 and facets.shape[1] in (3, 6) else 3
    facets = indices(facets, (-1, width), len(nodes), f"facets of {what}")
    if len(facets) == 0:
        raise MechanismError(f"{what} has no facets; choose facets on the surface of the part")
    skin = outer_facets(tets)
    place = {tuple(corners): i for i, corners in enumerate(np.sort(skin[:, :3], axis=1).tolist())}
    corners = np.sort(facets[:, :3], axis=1).tolist()
    for i, key in enumerate(corners):
        if tuple(key) not in place:
            raise MechanismError(
                f"{what}: its facet {i} with corners {facets[i, :3].tolist()} is no facet of the mesh's surface; "
                "choose facets among part.skin"
            )
    chosen = [place[tuple(key)] for key in corners]
    if len(set(chosen)) < len(chosen):
        raise MechanismError(f"{what} names a facet twice")
    return _read_only(skin[chosen])  # type: ignore[no-any-return]


def corner_facets_where(tets: Indices, inside: ArrayLike, name: str) -> Indices:
    """(f, 3) corners of the outer facets all of whose corners are marked in `inside`, a mask of nodes."""
    skin = outer_facets(tets)[:, :3]
    result = skin[np.asarray(inside, dtype=bool)[skin].all(axis=1)]
    if len(result) == 0:
        raise MechanismError(f"interface '{name}' is off the mesh: no facet of the surface has all its corners there")
    return _read_only(result)  # type: ignore[no-any-return]


def mass_matrix(nodes: Array, tets: Indices, density: Array) -> Any:
    """(n, n) consistent mass matrix of one displacement component, kg (SciPy CSR)."""
    try:
        import skfem
    except ImportError:
        raise ImportError("the mass of an elastic part needs scikit-fem: pip install 'supple[all]'") from None
    from scipy.sparse import csr_array

    corners, local = np.unique(tets[:, :4], return_inverse=True)
    mesh = skfem.MeshTet(np.ascontiguousarray(nodes[corners].T), np.ascontiguousarray(local.reshape(-1, 4).T))
    basis = skfem.Basis(mesh, skfem.ElementTetP2(), intorder=4)
    form = skfem.BilinearForm(lambda u, v, w: w.density * u * v)
    own = form.assemble(basis, density=np.repeat(density[:, None], basis.X.shape[1], axis=1)).tocoo()
    node = np.empty(basis.N, dtype=np.int64)
    node[basis.element_dofs.T] = tets  # both number local nodes alike
    return csr_array((own.data, (node[own.row], node[own.col])), shape=(len(nodes), len(nodes)))
