"""Eigenstructure of many matrices, matched once: what algorithm 3 of the FORK-1S paper blends at run time.

Each symmetric matrix is kept as Q S Q^T, with orthonormal columns in Q and S diagonal but for groups of nearly repeated
eigenvalues, where directions mean nothing and the frame is turned to that of its neighbours instead. Columns of the
same place in two frames belong together. Inadmissible directions leave their columns and S zero.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    """(n, n): orthonormal columns, zero where `core` is."""
    core: Array
    """(n, n): diagonal but for groups; zero in inadmissible directions."""


def eigenframe(matrix: Array, neighbours: Sequence[Eigenframe] = ()) -> Eigenframe:
    """The eigenframe of a matrix (n, n), with its columns in the order, signs and (in groups) directions of those of
    its neighbours, the nearest first: each column is matched with that of the nearest that has it."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    values, vectors = values[::-1], vectors[:, ::-1]
    rank = int((values > NOTHING * values[0]).sum())
    like = np.zeros_like(vectors)
    for other in reversed(neighbours):
        there = np.diag(other.core) > 0
        like[:, there] = other.frame[:, there]
    groups = _groups(values[:rank])
    order = _assigned(vectors[:, :rank], groups, like)
    frame, core = np.zeros_like(vectors), np.zeros_like(vectors)
    for group in groups:
        at = [order[i] for i in group]  # the columns that these directions take
        own = vectors[:, group]
        left, _, right = np.linalg.svd(own.T @ like[:, at])
        turn = left @ right
        frame[:, at] = own @ turn
        core[np.ix_(at, at)] = turn.T @ np.diag(values[group]) @ turn
    return Eigenframe(frame, core)


def _groups(values: Array) -> list[list[int]]:
    """Places of descending eigenvalues, nearly repeated ones together."""
    groups: list[list[int]] = []
    for i, value in enumerate(values):
        if i and values[i - 1] <= REPEATED * value:
            groups[-1].append(i)
        else:
            groups.append([i])
    return groups


def _assigned(vectors: Array, groups: list[list[int]], frame: Array) -> list[int]:
    """Column of `frame` for each vector, one to one, so that the squared cosines add up to the most; a vector in a
    group counts by its group's share of the column."""
    from scipy.optimize import linear_sum_assignment

    shares = (vectors.T @ frame) ** 2
    for group in groups:
        shares[group] = shares[group].sum(axis=0) / len(group)
    return [int(i) for i in linear_sum_assignment(-shares)[1]]
