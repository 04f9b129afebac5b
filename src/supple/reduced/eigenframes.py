"""Eigenstructure of many matrices, matched once: what algorithm 3 of the FORK-1S paper blends at run time.

Each symmetric matrix is kept as Q S Q^T with orthonormal columns Q and S diagonal but for groups of nearly repeated
eigenvalues, where directions mean nothing and the frame is turned to that of its neighbour instead. Columns of the
same place in two frames belong together; the inadmissible directions are one more group, with S zero.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from supple.mechanism.record import Array

REPEATED = 1.1
"""Neighbouring eigenvalues within this ratio form one group."""
NOTHING = 1e-11
"""Eigenvalues below this share of the largest are zero."""


@dataclass(frozen=True)
class Eigenframe:
    """A symmetric positive semi-definite matrix as frame @ core @ frame.T."""

    frame: Array
    """(n, n): orthonormal columns."""
    core: Array
    """(n, n): diagonal but for groups; zero in inadmissible directions."""


def eigenframe(matrix: Array, like: Eigenframe | None = None) -> Eigenframe:
    """The eigenframe of a matrix (n, n), its columns in the order, signs and (in groups) directions of another's."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    values, vectors = values[::-1], vectors[:, ::-1]
    values = np.where(values > NOTHING * values[0], values, 0.0)
    groups = _groups(values)
    order = np.arange(len(values)) if like is None else _assigned(vectors, groups, like.frame)
    frame, core = np.zeros_like(vectors), np.zeros_like(vectors)
    for group in groups:
        at = order[group]  # the columns that these directions take
        own = vectors[:, group]
        if like is not None:
            left, _, right = np.linalg.svd(own.T @ like.frame[:, at])
            turn = left @ right
        else:
            turn = np.eye(len(group))
        frame[:, at] = own @ turn
        core[np.ix_(at, at)] = turn.T @ np.diag(values[group]) @ turn
    return Eigenframe(frame, core)


def _groups(values: Array) -> list[list[int]]:
    """Places of descending eigenvalues, nearly repeated ones together, zeros together."""
    groups = [[0]]
    for i in range(1, len(values)):
        together = values[i - 1] <= REPEATED * values[i] if values[i] > 0 else values[i - 1] == 0
        if together:
            groups[-1].append(i)
        else:
            groups.append([i])
    return groups


def _assigned(vectors: Array, groups: list[list[int]], frame: Array) -> Array:
    """(n,) column of `frame` for each vector, one to one, so that the squared cosines add up to the most; a vector in
    a group counts by its group's share of the column."""
    from scipy.optimize import linear_sum_assignment

    shares = (vectors.T @ frame) ** 2
    for group in groups:
        shares[group] = shares[group].sum(axis=0) / len(group)
    return np.asarray(linear_sum_assignment(-shares)[1])
