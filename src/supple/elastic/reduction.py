"""Builds a reduced basis: modes, constant integrals, internal force, interface frames."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from supple.elastic._checks import Array, numbers
from supple.elastic.basis import Basis
from supple.elastic.comparison import compared
from supple.elastic.cubature import cubature_force, full_force, quartic_force
from supple.elastic.modal import interface_shapes, modes_with_held
from supple.elastic.reduced_force import ReducedForce
from supple.elastic.statics import limited_loads, sample_shapes
from supple.errors import MechanismError
from supple.progress import progress_callback

if TYPE_CHECKING:
    from supple.elastic.part import Part

METHODS = ("interface", "linear")
ROUNDING = 1e-9
"""Singular values below this share of the largest are rounding: shapes are solved to about 1e-11."""
DERIVATIVES, HELD_MODES = {True: 3, False: 15}, {True: 2, False: 4}
"""Of an interface basis by default, in a plane and in space: derivatives of the slowest two or five static shapes, and
modes with all interfaces held, two in each plane."""
SNAPSHOT_MODES = 15
"""Of a basis from snapshots by default."""
TRAINING = 40
"""Static shapes on which cubature is trained."""


def build_basis(
    part: Part,
    modes: int | None,
    reference: str,
    *,
    method: str = "interface",
    snapshots: ArrayLike | None = None,
    cubature: int | None = None,
    deflection: float = 0.25,
    strain: float = 0.01,
    plane: str | None = None,
    seed: int = 0,
    progress: Callable[[float], None] | None = None,
) -> Basis:
    """A reduced basis; see `Part.with_basis`."""
    if modes is not None and modes < 1:
        raise MechanismError(f"a basis needs a mode at least, got {modes}")
    if method not in METHODS:
        raise MechanismError(f"there is no method '{method}' for a basis; choose one of {', '.join(METHODS)}")
    if plane not in (None, "x", "y", "z"):
        raise MechanismError(f"a plane is named by its normal 'x', 'y' or 'z', got '{plane}'")
    if modes is None:
        modes = default_count(part, plane) if snapshots is None else SNAPSHOT_MODES
    singular_values: Array = np.zeros(0)
    training: Array | None = None
    with progress_callback("basis", progress) as report:
        if snapshots is not None:
            method = "snapshots"
            training = in_reference_frame(part, reference, numbers(snapshots, (-1, len(part.nodes), 3), "snapshots"))
            columns, singular_values = principal_modes(part, training, modes)
        elif method == "linear":
            columns = modes_with_held(part, [reference], modes, plane)
        else:
            columns = independent(interface_shapes(part, reference, modes, plane))
        if cubature is not None and training is None:
            loads = limited_loads(part, reference, deflection, strain, plane)
            training = sample_shapes(part, reference, loads, TRAINING, seed, lambda x: report(0.8 * x))
        fields = _scaled(_natural_modes(part, columns).reshape(len(part.nodes), 3, -1))
        made = _assembled(part, reference, method, fields, training, singular_values, cubature, plane, seed)
        if method != "interface":
            return made
        loads = limited_loads(part, reference, deflection, strain, plane)
        difference, size = compared(part, made, loads, lambda x: report(0.8 + 0.2 * x))
    return replace(made, difference=difference, trained_range=size)


def in_reference_frame(part: Part, reference: str, displacements: Array) -> Array:
    """Displacements (s, n, 3) without the rigid motion of the reference interface's frame, in that frame."""
    own = part.interface(reference)
    frame = own.frame()
    offsets = part.nodes - own.centroid
    result = np.empty_like(displacements)
    for i, u in enumerate(displacements):
        pose = frame.pose(u[own.nodes].ravel())
        result[i] = (part.nodes + u - pose[:3, 3]) @ pose[:3, :3] - offsets
    return result


def principal_modes(part: Part, shapes: Array, count: int) -> tuple[Array, Array]:
    """The first principal components (3n, count) of shapes (s, n, 3) in the mass norm, and their singular values.

    A thin QR keeps small singular values accurate, which the eigenvalues of the shapes' Gram matrix would lose.

    Raises:
        MechanismError: the shapes span fewer directions.
    """
    from scipy.linalg import solve_triangular

    s, n = shapes.shape[:2]
    if not s:
        raise MechanismError("a basis needs shapes; there are no snapshots")
    Q, R = np.linalg.qr(shapes.reshape(s, 3 * n).T)
    fields = Q.reshape(n, -1)
    factor = np.linalg.cholesky(Q.T @ (part.mass_matrix() @ fields).reshape(3 * n, -1)).T  # upper
    left, values, _ = np.linalg.svd(factor @ R, full_matrices=False)
    span = int((values > ROUNDING * values[0]).sum()) if values[0] > 0 else 0
    if count > span:
        raise MechanismError(
            f"{count} modes were asked for, but the {s} shapes span {span} only (the rest is rounding); ask for at "
            f"most {span} "
            "modes or give more shapes"
        )
    return Q @ solve_triangular(factor, left[:, :count]), values[:count]


def default_count(part: Part, plane: str | None) -> int:
    """Number of modes of an interface basis unless another is given."""
    statics = (3 if plane else 6) * max(1, len(part.interfaces) - 1)
    return statics + DERIVATIVES[plane is not None] + HELD_MODES[plane is not None]


def independent(columns: Array) -> Array:
    """(3n, r) orthonormal columns that span what columns (3n, k) span up to rounding: derivatives may be zero or repeat
    one another."""
    left, values, _ = np.linalg.svd(columns / np.linalg.norm(columns, axis=0).clip(1e-300), full_matrices=False)
    return np.asarray(left[:, values > ROUNDING * values[0]])


def _natural_modes(part: Part, columns: Array) -> Array:
    """The natural modes (3n, r) of the part within a space (3n, r), slowest first: mass and stiffness at rest are
    diagonal. Mixed shapes would couple bending with stretching, 1e7 times as stiff, and spoil the signs of pivots."""
    from scipy.linalg import eigh

    n = len(part.nodes)
    _, K = part.elements.tangent(np.zeros((n, 3)))
    columns = columns / np.linalg.norm(columns, axis=0)
    mass = columns.T @ (part.mass_matrix() @ columns.reshape(n, -1)).reshape(3 * n, -1)
    stiffness = columns.T @ (K @ columns)
    vectors = eigh((stiffness + stiffness.T) / 2, (mass + mass.T) / 2)[1]
    return np.asarray(columns @ vectors)


def _scaled(fields: Array) -> Array:
    """Modes (n, 3, r) with a largest nodal displacement of 1, its largest component positive."""
    lengths = np.linalg.norm(fields, axis=1)
    columns = np.arange(fields.shape[2])
    largest = fields[lengths.argmax(axis=0), :, columns]  # (r, 3)
    signs = np.sign(largest[columns, np.abs(largest).argmax(axis=1)])
    return np.asarray(fields * (signs / lengths.max(axis=0)))


def _assembled(
    part: Part,
    reference: str,
    method: str,
    fields: Array,
    training: Array | None,
    singular_values: Array,
    cubature: int | None,
    plane: str | None,
    seed: int,
) -> Basis:
    n, _, r = fields.shape
    origin = part.interface(reference).centroid
    M = part.mass_matrix()
    positions = np.concatenate([(part.nodes - origin)[:, :, None], fields], axis=2)  # psi_0 = X, psi_k = Phi_k
    weighted = (M @ positions.reshape(n, -1)).reshape(positions.shape)
    gram = np.einsum("nik,njl->klij", positions, weighted, optimize=True)
    gram = 0.5 * (gram + gram.transpose(1, 0, 3, 2))
    trained, amplitudes = np.inf, np.zeros((0, r))
    if training is not None:
        mass_matrix = np.trace(gram[1:, 1:], axis1=2, axis2=3)
        moved = (M @ training.transpose(1, 2, 0).reshape(n, -1)).reshape(3 * n, -1)
        amplitudes = np.linalg.solve(mass_matrix, fields.reshape(3 * n, r).T @ moved).T
        squares = np.einsum("sr,rt,st->s", amplitudes, mass_matrix, amplitudes)
        trained = float(np.sqrt(squares.max() / part.mass))
    force: ReducedForce
    if cubature is not None:
        force = cubature_force(part, fields, amplitudes, cubature, seed)
    elif part.material.law == "stvk":
        force = quartic_force(part, fields)
    else:
        force = full_force(part, fields)
    frames = {
        name: part.interface(name).frame_of_modes(fields, origin) for name in part.interfaces if name != reference
    }
    if plane is not None:
        frames = {name: frame.in_plane("xyz".index(plane)) for name, frame in frames.items()}
    values = {
        "origin": origin,
        "modes": fields,
        "first_moment": weighted.sum(axis=0).T,
        "gram": gram,
        "singular_values": singular_values,
    }
    for value in values.values():
        value.flags.writeable = False
    return Basis(
        reference=reference,
        method=method,
        **values,
        mass=part.mass,
        force=force,
        frames=frames,
        alpha=part.material.alpha,
        beta=part.material.beta,
        trained_range=trained,
    )
