"""Linear elasticity of meshes of hexahedra and tetrahedra: shape gradients, stiffness matrix, volume ratios."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np

from supple.elastic._checks import Array, Indices
from supple.elastic.material import Material
from supple.elastic.mesh import EDGES

HEX_CORNERS = np.array(
    [(-1, -1, -1), (1, -1, -1), (1, 1, -1), (-1, 1, -1), (-1, -1, 1), (1, -1, 1), (1, 1, 1), (-1, 1, 1)], dtype=float
)
"""Local coordinates of a hexahedron's corners, in the order of VTK and meshio."""
TET_POINT = 0.1381966011250105
"""Barycentric coordinate of the 4-point rule of a tetrahedron: three of them at each point, 1 - 3 of it is the
fourth."""


def local_gradients(corners: int) -> tuple[Array, Array]:
    """Derivatives (q, a, 3) of the shape functions by local coordinates at the quadrature points, and weights (q,).

    Hexahedra (8 nodes) have 2 x 2 x 2 points, 10-node tetrahedra 4, linear tetrahedra (4 nodes) one.
    """
    if corners == 8:
        points = np.array(list(product((-1.0, 1.0), repeat=3))) / np.sqrt(3.0)
        factors = 1 + HEX_CORNERS * points[:, None]  # (q, a, 3)
        others = np.stack([factors[..., [1, 2, 0][i]] * factors[..., [2, 0, 1][i]] for i in range(3)], axis=-1)
        return HEX_CORNERS * others / 8, np.ones(8)
    barycentric = np.vstack([-np.ones((1, 3)), np.eye(3)])  # derivatives of the four barycentric coordinates
    if corners == 4:
        return barycentric[None], np.array([1 / 6])
    points = np.full((4, 4), TET_POINT) + (1 - 4 * TET_POINT) * np.eye(4)
    of_corners = (4 * points - 1)[..., None] * barycentric
    first, second = EDGES.T
    of_edges = 4 * (points[:, first, None] * barycentric[second] + points[:, second, None] * barycentric[first])
    return np.concatenate([of_corners, of_edges], axis=1), np.full(4, 1 / 24)


def shape_gradients(nodes: Array, cells: Indices) -> tuple[Array, Array]:
    """Derivatives (q, e, a, 3) of the shape functions by position, 1/m, and volumes (q, e), m^3, of all quadrature
    points. A volume that is not positive marks an inverted element."""
    local, weights = local_gradients(cells.shape[1])
    jacobians = np.einsum("eai,qaj->qeij", nodes[cells], local)
    determinants = np.linalg.det(jacobians)
    with np.errstate(divide="ignore", invalid="ignore"):
        safe = np.where((determinants > 0)[..., None, None], jacobians, np.eye(3))
    return np.einsum("qaj,qeji->qeai", local, np.linalg.inv(safe)), weights[:, None] * determinants


def stiffness(nodes: Array, cells: Indices, material: Material, *, mean_dilatation: bool | None = None) -> Any:
    """(3n, 3n) stiffness matrix of linear elasticity, N/m (SciPy CSC, exactly symmetric).

    With mean dilatation (B-bar) the volume change of an element is the mean over its quadrature points, so that nearly
    incompressible hexahedra do not lock:

        K_e = sum_q V_q (mu (g_a.g_b I + g_b g_a^T) - 2/3 mu g_a g_b^T) + V kappa m_a m_b^T

    with g_a the gradient of shape function a at point q, m_a its mean over the element and kappa the bulk modulus.

    Args:
        nodes: (n, 3) positions, m.
        cells: (e, 8) hexahedra, (e, 10) or (e, 4) tetrahedra.
        material: its Young's modulus and Poisson's ratio.
        mean_dilatation: default: for hexahedra only.
    """
    from scipy.sparse import coo_array

    gradients, volumes = shape_gradients(nodes, cells)
    mu, lam = material.lame
    mean = cells.shape[1] == 8 if mean_dilatation is None else mean_dilatation
    e, a = cells.shape
    weighted = volumes[..., None, None] * gradients
    outer = np.einsum("qeai,qebj->eaibj", weighted, gradients, optimize=True)  # sum of V g_a g_b^T
    element = mu * (outer.transpose(0, 1, 4, 3, 2) + np.einsum("eakbk,ij->eaibj", outer, np.eye(3)))
    if mean:
        volume = volumes.sum(axis=0)
        middle = weighted.sum(axis=0) / volume[:, None, None]
        element -= 2 / 3 * mu * outer
        element += (lam + 2 / 3 * mu) * np.einsum("e,eai,ebj->eaibj", volume, middle, middle)
    else:
        element += lam * outer
    freedoms = coordinates_of(cells).reshape(e, 3 * a)
    rows, columns = np.repeat(freedoms, 3 * a, axis=1).ravel(), np.tile(freedoms, (1, 3 * a)).ravel()
    matrix = coo_array((element.ravel(), (rows, columns)), shape=(3 * len(nodes),) * 2).tocsc()
    return (0.5 * (matrix + matrix.T)).tocsc()


def coordinates_of(nodes: Indices) -> Indices:
    """Indices (..., 3k) of the coordinates of nodes (..., k) in ravelled arrays (n, 3)."""
    nodes = np.asarray(nodes)
    return np.asarray((3 * nodes[..., None] + np.arange(3)).reshape(*nodes.shape[:-1], -1))


def volume_ratios(gradients: Array, cells: Indices, displacements: Array) -> Array:
    """(q, e) det F at all quadrature points: volume under nodal displacements (n, 3) over that at rest."""
    change = np.einsum("eai,qeaj->qeij", displacements[cells], gradients, optimize=True)
    return np.asarray(np.linalg.det(change + np.eye(3)))
