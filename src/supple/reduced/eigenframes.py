"""Eigenstructure of many symmetric matrices, matched once; algorithm 3 of the FORK-1S paper averages it at run time.

Each matrix is stored as Q S Q^T with orthonormal columns in Q. S is diagonal except for groups of nearly repeated
eigenvalues: single directions are arbitrary there, and the group is rotated to match its neighbours. Columns of the
same index belong together in all frames. Inadmissible directions have zero columns in Q and zeros in S.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from supple.mechanism.record import Array

REPEATED = 1.1
"""Neighbouring eigenvalues within this ratio form one group."""
ZERO = 1e-11
"""Eigenvalues below this fraction of the largest are zero."""


@dataclass(frozen=True)
class Eigenframe:
    """A symmetric positive semi-definite matrix as frame @ core @ frame.T."""

    frame: Array
    """(n, n): orthonormal columns, zero where `core` is."""
    core: Array
    """(n, n): diagonal but for groups; zero in inadmissible directions."""


def eigenframe(matrix: Array, neighbours: Sequence[Eigenframe] = ()) -> Eigenframe:
    """Decomposes a matrix (n, n). Order, signs and (in groups) directions of the columns follow the neighbours, given
    nearest first: each column is matched with that of the nearest neighbour that has it."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    values, vectors = values[::-1], vectors[:, ::-1]
    rank = int((values > ZERO * values[0]).sum())
    like = np.zeros_like(vectors)
    for other in reversed(neighbours):
        there = np.diag(other.core) > 0
        like[:, there] = other.frame[:, there]
    groups = _groups(values[:rank])
    order = _matched_columns(vectors[:, :rank], groups, like)
    frame, core = np.zeros_like(vectors), np.zeros_like(vectors)
    for group in groups:
        at = [order[i] for i in group]  # columns of these directions
        own = vectors[:, group]
        left, _, right = np.linalg.svd(own.T @ like[:, at])
        turn = left @ right
        frame[:, at] = own @ turn
        core[np.ix_(at, at)] = turn.T @ np.diag(values[group]) @ turn
    return Eigenframe(frame, core)


def _groups(values: Array) -> list[list[int]]:
    """Indices of descending eigenvalues; nearly repeated ones form one group."""
    groups: list[list[int]] = []
    for i, value in enumerate(values):
        if i and values[i - 1] <= REPEATED * value:
            groups[-1].append(i)
        else:
            groups.append([i])
    return groups


def _matched_columns(vectors: Array, groups: list[list[int]], frame: Array) -> list[int]:
    """Index of a column of `frame` for each vector, one to one, with the largest sum of squared cosines. All vectors of
    a group have the mean squared cosine of the group."""
    from scipy.optimize import linear_sum_assignment

    cosines = (vectors.T @ frame) ** 2
    for group in groups:
        cosines[group] = cosines[group].sum(axis=0) / len(group)
    return [int(i) for i in linear_sum_assignment(-cosines)[1]]
