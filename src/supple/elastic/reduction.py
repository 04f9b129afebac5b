"""Builds a reduced basis: modes, constant integrals, internal force, interface frames."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from supple.elastic._checks import Array, numbers
from supple.elastic.basis import Basis
from supple.elastic.cubature import cubature_force, full_force, quartic_force
from supple.elastic.held import HeldStiffness, held_rows
from supple.elastic.modal import craig_bampton_shapes, interface_shapes, linear_modes, modal_derivatives
from supple.elastic.reduced_force import ReducedForce
from supple.elastic.statics import limited_modes, limited_wrenches, sample_shapes
from supple.errors import MechanismError
from supple.progress import progress_callback

if TYPE_CHECKING:
    from supple.elastic.part import Part

LINEAR_METHODS = ("linear", "modal derivatives", "craig-bampton", "interface")
METHODS = ("static", "principal components", *LINEAR_METHODS)
ROUNDING = 1e-9
"""Singular values below this share of the largest are rounding: shapes are solved to about 1e-11."""
MISSING = 0.5
"""Share of a wrench response (square root of its energy) outside the space, beyond which the space lacks it."""


def build_basis(
    part: Part,
    modes: int,
    reference: str,
    *,
    method: str = "static",
    snapshots: ArrayLike | None = None,
    cubature: int | None = None,
    shapes: int = 40,
    deflection: float = 0.25,
    strain: float = 0.01,
    plane: str | None = None,
    seed: int = 0,
    progress: Callable[[float], None] | None = None,
) -> Basis:
    """A reduced basis; see `Part.with_basis`."""
    if modes < 1:
        raise MechanismError(f"a basis needs a mode at least, got {modes}")
    if method not in METHODS:
        raise MechanismError(f"there is no method '{method}' for a basis; choose one of {', '.join(METHODS)}")
    if plane not in (None, "x", "y", "z"):
        raise MechanismError(f"a plane is named by its normal 'x', 'y' or 'z', got '{plane}'")
    singular_values: Array = np.zeros(0)
    training: Array | None = None
    if snapshots is not None:
        method = "snapshots"
        training = in_reference_frame(part, reference, numbers(snapshots, (-1, len(part.nodes), 3), "snapshots"))
        columns, singular_values = principal_modes(part, training, modes)
    elif method in LINEAR_METHODS and cubature is None:
        columns = _linear_columns(part, reference, method, modes)
    else:
        lead = leading_count(part, reference, modes, plane)
        linear, inertial = limited_modes(part, reference, lead, deflection, strain, plane)
        wrenches = limited_wrenches(part, reference, deflection, strain, plane)
        count = shapes // 5 if wrenches.shape[1] else 0
        with progress_callback("static shapes", progress) as report:
            training = sample_shapes(part, reference, inertial, shapes - count, seed, lambda x: report(0.8 * x))
            if count:
                more = sample_shapes(part, reference, wrenches, count, seed + 1, lambda x: report(0.8 + 0.2 * x))
                training = np.concatenate([training, more])
        if method == "principal components" or (method == "static" and plane is not None):
            columns, singular_values = principal_modes(part, training, modes)
        elif method == "static":
            columns = companion_modes(part, reference, linear, training, wrenches, modes)
        else:
            columns = _linear_columns(part, reference, method, modes)
    fields = _scaled(_natural_modes(part, columns).reshape(len(part.nodes), 3, -1))
    return _assembled(part, reference, method, fields, training, singular_values, cubature, seed)


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


def companion_modes(part: Part, reference: str, linear: Array, shapes: Array, wrenches: Array, count: int) -> Array:
    """(3n, count) linear modes, the modal derivatives of each pair of them, and remaining shapes.

    A slender part that bends by amplitudes a_k moves by about sum_k a_k A_k + sum_kl a_k a_l B_kl. The companions B_kl
    shorten the part and turn its sections; a space without them resists bending by stretching (it locks). Bending in
    space needs many of them. Principal components of static shapes mix linear modes with companions and lock until they
    have nearly all (measured: a rod in space, 15 modes, errors of 23 to 95 %; with companions below 0.7 %). Bending
    in a plane needs few, so there principal components do better. Linear responses to wrenches that the space lacks
    come next (a rod's torsion and stretch), then principal components of the parts of static shapes (s, n, 3)
    outside the space, both in the norm of the stiffness at rest.
    """
    basis = np.hstack([linear, modal_derivatives(part, reference, linear)])[:, :count]
    more = count - basis.shape[1]
    if more > 0:
        _, K = part.elements.tangent(np.zeros_like(part.nodes))
        responses = HeldStiffness(K, held_rows(part, [reference])).solve(wrenches)
        responses /= np.sqrt(np.einsum("nk,nk->k", responses, K @ responses))
        missing, values = _components_outside(basis, responses, K)
        basis = np.hstack([basis, missing[:, values > MISSING][:, :more]])
        more = count - basis.shape[1]
    if more > 0:
        others, values = _components_outside(basis, shapes.reshape(len(shapes), -1).T, K)
        span = basis.shape[1] + int((values > ROUNDING * values[0]).sum())
        if count > span:
            raise MechanismError(
                f"the static shapes span {span} modes only; ask for at most {span} or sample more shapes"
            )
        basis = np.hstack([basis, others[:, :more]])
    return basis


def _components_outside(basis: Array, columns: Array, K: Any) -> tuple[Array, Array]:
    """Principal components (3n, k) in the norm of K of the parts of columns (3n, k) outside the span of a basis (3n,
    r), and their singular values (k,)."""
    Q, _ = np.linalg.qr(basis)
    KQ = K @ Q
    Q, R = np.linalg.qr(columns - Q @ np.linalg.solve(Q.T @ KQ, KQ.T @ columns))
    factor = np.linalg.cholesky(Q.T @ (K @ Q)).T
    left, values, _ = np.linalg.svd(factor @ R)
    return Q @ np.linalg.solve(factor, left), values


def leading_count(part: Part, reference: str, modes: int, plane: str | None) -> int:
    """The largest m for which m linear modes and their m (m + 1) / 2 companions are at most `modes`. In space it is
    reduced by one where that would split a pair of equal frequencies: a symmetric part bends alike in all
    directions."""
    m = max(1, int((np.sqrt(9 + 8 * modes) - 3) / 2))
    if plane is None and m > 1:
        frequencies = linear_modes(part, reference, m + 1, loaded=True)[0]
        m -= int(frequencies[m] < 1.01 * frequencies[m - 1])
    return m


def _linear_columns(part: Part, reference: str, method: str, count: int) -> Array:
    if method == "craig-bampton":
        return craig_bampton_shapes(part, reference, count)
    if method == "interface":
        return interface_shapes(part, reference, count)
    if method == "linear":
        return linear_modes(part, reference, count)[1]
    modes = linear_modes(part, reference, leading_count(part, reference, count, None), loaded=True)[1]
    return np.hstack([modes, modal_derivatives(part, reference, modes)])[:, :count]


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
    others = [name for name in part.interfaces if name != reference]
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
        frames={name: part.interface(name).frame_of_modes(fields, origin) for name in others},
        alpha=part.material.alpha,
        beta=part.material.beta,
        trained_range=trained,
    )
