"""Linear modes of a part with held interfaces, its static shapes and modal derivatives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from supple.elastic._checks import Array
from supple.elastic.held import HeldStiffness, held_rows

if TYPE_CHECKING:
    from supple.elastic.part import Part


GYRATION = 0.03
"""Radius of gyration of the masses on loaded interfaces, over the size of the part."""


def linear_modes(part: Part, held: str | Sequence[str], count: int) -> tuple[Array, Array]:
    """Natural frequencies (count,), Hz, ascending, and mass-normalised modes (3n, count) of the unstressed part with
    the frames of the held interfaces fixed and the others free."""
    from scipy.sparse import eye_array, kron
    from scipy.sparse.linalg import LinearOperator, eigsh

    names = [held] if isinstance(held, str) else list(held)
    _, K = part.elements.tangent(np.zeros_like(part.nodes))
    system = HeldStiffness(K, held_rows(part, names))
    M = kron(part.mass_matrix(), eye_array(3)).tocsr()
    n = M.shape[0]
    start = system.solve(np.random.default_rng(0).standard_normal(n))
    operator = LinearOperator((n, n), matvec=system.solve, dtype=float)
    squares, modes = eigsh(K.tocsc(), count, M, sigma=0.0, OPinv=operator, v0=start)
    order = np.argsort(squares)
    return np.sqrt(np.maximum(squares[order], 0)) / (2 * np.pi), modes[:, order]


def _loaded_rows(part: Part, name: str) -> Array:
    """(6, 3n) rows r of an interface that carries a body of the part's own mass: r^T r is what that adds to the mass
    matrix."""
    gyration = GYRATION * float(np.ptp(part.nodes, axis=0).max())
    scales = np.sqrt(part.mass) * np.repeat([1.0, gyration], 3)
    return np.asarray(scales[:, None] * _twist_rows(part, name))


def _twist_rows(part: Part, name: str) -> Array:
    """(6, 3n) twist of an interface's frame per unit displacement of every node, at rest."""
    own = part.interface(name)
    rows = np.zeros((6, len(part.nodes), 3))
    still = np.zeros(3 * len(own.nodes))
    rows[:, own.nodes] = own.frame().motion(still).jacobian.reshape(6, -1, 3)
    return rows.reshape(6, -1)


def modal_derivatives(part: Part, held: str, modes: Array) -> Array:
    """(3n, m (m + 1) / 2) static derivatives of modes (3n, m) along one another: K d_ij = -(dK/du . phi_i) phi_j,
    Barbic and James (2005). They hold the stretching that goes with bending."""
    system = HeldStiffness(part.elements.tangent(np.zeros_like(part.nodes))[1], held_rows(part, [held]))
    step = 1e-4 * np.ptp(part.nodes, axis=0).max()
    columns = []
    for i in range(modes.shape[1]):
        shape = modes[:, i].reshape(-1, 3)
        shape = shape * (step / np.abs(shape).max())
        _, ahead = part.elements.tangent(shape, allow_inverted=True)
        _, behind = part.elements.tangent(-shape, allow_inverted=True)
        change = (ahead - behind) @ modes[:, : i + 1]
        columns.append(-system.solve(change / np.abs(shape).max()))
    return np.hstack(columns)


def natural_combinations(part: Part, reference: str, plane: str | None = None) -> Array:
    """(3n, 6k) static shapes under wrenches on the k other interfaces, combined to natural modes of the part with
    loaded interfaces, slowest first. With `plane`: (3n, 3k), of the wrenches in the plane normal to an axis.

    They make the linear compliance at the interfaces exact. That is what matters in a mechanism whose rigid bodies are
    much heavier than the part. A part with one interface has natural modes in their place.
    """
    from scipy.linalg import eigh

    others = [name for name in part.interfaces if name != reference]
    if not others:
        return modes_with_held(part, [reference], 3 if plane else 6, plane)
    n = len(part.nodes)
    shapes = static_shapes(part, reference)
    shapes = shapes[:, wrenches_in_plane(shapes.shape[1], plane)]
    shapes /= np.abs(shapes).max(axis=0)
    mass = shapes.T @ (part.mass_matrix() @ shapes.reshape(n, -1)).reshape(3 * n, -1)
    rows = np.vstack([_loaded_rows(part, name) for name in others]) @ shapes
    _, K = part.elements.tangent(np.zeros_like(part.nodes))
    return np.asarray(shapes @ eigh(shapes.T @ (K @ shapes), mass + rows.T @ rows)[1])


def interface_shapes(part: Part, reference: str, count: int, plane: str | None = None) -> Array:
    """(3n, count) static shapes under wrenches on the other interfaces, modal derivatives of the slowest m of them
    along one another, and natural modes with all interfaces held.

    m is the largest number for which static shapes and derivatives are at most `count`. Derivatives hold what goes with
    bending and twisting to second order; a space without them resists large deflections by stretching (it locks). The
    modes with all interfaces held (Craig and Bampton, 1968) move the part between bodies that stand still.
    """
    shapes = natural_combinations(part, reference, plane)
    left = count - shapes.shape[1]
    m = min(int((np.sqrt(1 + 8 * max(left, 0)) - 1) / 2), shapes.shape[1])
    columns = [shapes[:, :count]]
    if m:
        columns.append(modal_derivatives(part, reference, shapes[:, :m]))
    more = left - m * (m + 1) // 2
    if more > 0:
        skipped = 0 if len(part.interfaces) > 1 else shapes.shape[1]  # which are natural modes already
        columns.append(modes_with_held(part, list(part.interfaces), skipped + more, plane)[:, skipped:])
    return np.hstack(columns)


def modes_with_held(part: Part, held: Sequence[str], count: int, plane: str | None) -> Array:
    """(3n, count) linear modes; with `plane` those that move in the plane normal to an axis: the combinations of modes
    with less than 1 % of their mass moving normal to it, diagonalised again, since modes of equal frequency come in any
    directions."""
    from scipy.linalg import eigh

    if plane is None:
        return linear_modes(part, held, count)[1]
    frequencies, modes = linear_modes(part, held, 3 * count + 3)
    fields = modes.reshape(len(part.nodes), 3, -1)
    grams = [fields[:, i].T @ (part.mass_matrix() @ fields[:, i]) for i in range(3)]
    shares, directions = eigh(grams["xyz".index(plane)], sum(grams))
    inside = np.linalg.qr(directions[:, shares < 0.01])[0]
    turns = np.linalg.eigh(inside.T @ (frequencies[:, None] ** 2 * inside))[1]
    return np.asarray(modes @ (inside @ turns[:, :count]))


def static_shapes(part: Part, reference: str) -> Array:
    """(3n, 6k) linear displacements under unit wrenches on each of the k other interfaces, m/N and 1/N."""
    _, K = part.elements.tangent(np.zeros_like(part.nodes))
    system = HeldStiffness(K, held_rows(part, [reference]))
    return system.solve(wrench_loads(part, reference))


def wrench_loads(part: Part, reference: str) -> Array:
    """(3n, 6k) nodal forces of unit wrenches on each of the k other interfaces."""
    others = [name for name in part.interfaces if name != reference]
    loads = np.zeros((len(part.nodes), 3, 6 * len(others)))
    for i, name in enumerate(others):
        own = part.interface(name)
        for axis in range(6):
            loads[own.nodes, :, 6 * i + axis] = own.nodal_forces(np.eye(6)[axis])
    return loads.reshape(-1, loads.shape[2])


def wrenches_in_plane(count: int, plane: str | None) -> list[int]:
    """Which of `count` wrenches, six on each interface, are forces in the plane normal to an axis and torques about it;
    without a plane all."""
    if plane is None:
        return list(range(count))
    normal = "xyz".index(plane)
    return [i for i in range(count) if (i % 6 < 3) == (i % 3 != normal)]
