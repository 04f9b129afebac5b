"""Reduced internal forces: the exact quartic energy, and cubature trained on shapes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from supple.elastic._checks import Array
from supple.elastic.reduced_force import CubatureForce, QuarticForce
from supple.errors import MechanismError

if TYPE_CHECKING:
    from supple.elastic.part import Part

CHUNK = 20000
"""Quadrature points handled at once."""
CANDIDATES = 30000
"""Quadrature points among which cubature chooses, at most."""


def quartic_force(part: Part, modes: Array) -> QuarticForce:
    """The exact reduced energy of St. Venant-Kirchhoff material for modes (n, 3, r).

    Green's strain is E = sum_k e_k L_k + 1/2 sum_kl e_k e_l Q_kl with L_k = sym(G_k), Q_kl = sym(G_k^T G_l), G_k the
    gradient of mode k. With D the elasticity matrix the energy is 1/2 integral of E D E.
    """
    mu, lam = part.material.law_numbers
    gradients, volumes = part.elements.modal_gradients(modes)
    r = modes.shape[2]
    first, second = np.tril_indices(r)
    p = len(first)
    LL, LQ, QQ = np.zeros((r, r)), np.zeros((r, p)), np.zeros((p, p))
    for start in range(0, len(volumes), CHUNK):
        G = gradients[start : start + CHUNK]
        weights = np.sqrt(volumes[start : start + CHUNK])[:, None, None]
        L = _weighted_strain(G, weights, mu, lam)
        products = np.einsum("qkir,qkjs->qijrs", G, G, optimize=True)[..., first, second]
        Q = _weighted_strain(products, weights, mu, lam)
        LL += L.T @ L
        LQ += L.T @ Q
        QQ += Q.T @ Q
    place = np.empty((r, r), dtype=int)
    place[first, second] = place[second, first] = np.arange(p)
    k, l, m = first[:, None], second[:, None], np.arange(r)[None]
    cubic = LQ[k, place[l, m]] + LQ[l, place[k, m]] + LQ[m, place[k, l]]
    m, n = first[None], second[None]
    quartic = QQ[place[k, l], place[m, n]] + QQ[place[k, m], place[l, n]] + QQ[place[k, n], place[l, m]]
    return QuarticForce(LL[first, second], np.ascontiguousarray(cubic), np.ascontiguousarray(quartic))


def _weighted_strain(G: Array, weights: Array, mu: float, lam: float) -> Array:
    """(7q, s) rows whose scalar products are the energies of symmetric parts of G (q, 3, 3, s): sqrt(2 mu) times the
    six components (shear ones times sqrt 2) and sqrt(lam) times the trace."""
    rows = [G[:, i, i] for i in range(3)]
    trace = rows[0] + rows[1] + rows[2]
    shear = [np.sqrt(0.5) * (G[:, i, j] + G[:, j, i]) for i, j in ((1, 2), (2, 0), (0, 1))]
    if lam >= 0:
        parts = [np.sqrt(2 * mu) * row for row in rows + shear] + [np.sqrt(lam) * trace]
    else:  # auxetic: split into the deviator and the trace, both with positive stiffness
        parts = [np.sqrt(2 * mu) * row for row in [row - trace / 3 for row in rows] + shear]
        parts.append(np.sqrt(lam + 2 * mu / 3) * trace)
    return np.concatenate([weights[:, :, 0] * part for part in parts])


def full_force(part: Part, modes: Array) -> CubatureForce:
    """The reduced force as a sum over all quadrature points."""
    gradients, volumes = part.elements.modal_gradients(modes)
    return CubatureForce(np.ascontiguousarray(gradients), volumes, part.material.law, *part.material.law_numbers)


def cubature_force(part: Part, modes: Array, training: Array, points: int, seed: int) -> CubatureForce:
    """At most `points` quadrature points whose weighted sum reproduces the internal force at training amplitudes (s,
    r).

    Greedy choice of the point that is most aligned with the residual, then non-negative least squares over all chosen
    ones (An, Kim and James 2008). Force components are scaled by K^-1/2, so that stiff modes do not drown the soft ones
    that carry the motion; each training shape has the same weight.
    """
    from scipy.optimize import nnls

    exact = full_force(part, modes)
    r = modes.shape[2]
    if points < 1:
        raise MechanismError(f"cubature needs a point at least, got {points}")
    rest = exact.evaluate(np.zeros(r)).tangent
    values, vectors = np.linalg.eigh(rest)
    scaling = vectors / np.sqrt(values)  # K^-1/2
    rng = np.random.default_rng(seed)
    count = len(exact.weights)
    candidates = np.sort(rng.permutation(count)[:CANDIDATES])
    gradients = exact.gradients[candidates]
    scaled = np.einsum("qijr,rk->qijk", gradients, scaling, optimize=True)
    targets, columns = [], []
    for eta in training:
        target = scaling.T @ exact.evaluate(eta).force
        size = np.linalg.norm(target)
        if size == 0:
            continue
        stress = _stress(np.eye(3) + gradients @ eta, exact)
        columns.append(np.einsum("qij,qijk->kq", stress, scaled, optimize=True) / size)
        targets.append(target / size)
    A, b = np.concatenate(columns), np.concatenate(targets)
    norms = np.linalg.norm(A, axis=0)
    norms[norms == 0] = np.inf
    batch = max(1, points // 20)
    chosen: list[int] = []
    weights, last = np.zeros(0), np.inf
    while len(chosen) < points:
        residual = b - A[:, chosen] @ weights
        score = (A.T @ residual) / norms
        score[chosen] = -np.inf
        best = np.argsort(score)[::-1][: min(batch, points - len(chosen))]
        best = best[score[best] > 0]
        if len(best) == 0:
            break
        chosen += best.tolist()
        weights, _ = nnls(A[:, chosen], b, maxiter=50 * len(chosen))
        kept = weights > 0
        if kept.all() or len(chosen) < points:
            continue
        chosen, weights = [c for c, keep in zip(chosen, kept, strict=True) if keep], weights[kept]
        left = float(np.linalg.norm(b - A[:, chosen] @ weights))
        if points - len(chosen) < batch or left > 0.999 * last or left < 1e-12 * np.linalg.norm(b):
            break  # more points would only be dropped again
        last = left
    kept = weights > 0
    rows = candidates[np.array(chosen)[kept]]
    error = float(np.linalg.norm(b - A[:, np.array(chosen)[kept]] @ weights[kept]) / np.linalg.norm(b))
    own = np.ascontiguousarray(exact.gradients[rows])
    return CubatureForce(own, weights[kept], exact.law, exact.mu, exact.lam, error)


def _stress(F: Array, force: CubatureForce) -> Array:
    """(q, 3, 3) first Piola-Kirchhoff stress at deformation gradients (q, 3, 3), Pa."""
    mu, lam = force.mu, force.lam
    if force.law == "stvk":
        E = 0.5 * (F.transpose(0, 2, 1) @ F - np.eye(3))
        trace = np.trace(E, axis1=1, axis2=2)[:, None, None]
        return np.asarray(F @ (2 * mu * E + lam * trace * np.eye(3)))
    cofactors = np.stack([np.cross(F[:, i - 2], F[:, i - 1]) for i in range(3)], axis=1)
    J = np.einsum("qi,qi->q", F[:, 0], cofactors[:, 0])[:, None, None]
    squares = (F**2).sum(axis=(1, 2))[:, None, None]
    return np.asarray(mu * (1 - 1 / (squares + 1)) * F + lam * (J - 1 - 0.75 * mu / lam) * cofactors)
