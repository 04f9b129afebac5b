"""Symmetric positive definite matrices of few dense blocks: sparse Cholesky factors and conjugate gradients."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from supple.elastic._checks import Array
from supple.errors import ConvergenceError

Blocks: TypeAlias = "dict[tuple[int, int], Array]"
"""Blocks (i, j) with i >= j of a symmetric matrix; blocks that are missing are zero."""


@dataclass(frozen=True, eq=False)
class Pattern:
    """The pattern of the Cholesky factor, found once: chains and trees have no fill."""

    sizes: tuple[int, ...]
    """Rows of each block."""
    order: tuple[int, ...]
    """Blocks in order of elimination."""
    below: tuple[tuple[int, ...], ...]
    """For each block: the blocks eliminated later in whose rows its column of the factor is not zero, in order."""

    @classmethod
    def of(cls, sizes: Sequence[int], pairs: Iterable[tuple[int, int]]) -> Pattern:
        """The pattern for a matrix with non-zero blocks at the pairs, by minimum degree."""
        neighbours: list[set[int]] = [set() for _ in sizes]
        for i, j in pairs:
            if i != j:
                neighbours[i].add(j)
                neighbours[j].add(i)
        order: list[int] = []
        later: dict[int, set[int]] = {}
        left = set(range(len(sizes)))
        while left:
            chosen = min(left, key=lambda b: (sum(sizes[n] for n in neighbours[b]), b))
            left.remove(chosen)
            order.append(chosen)
            later[chosen] = set(neighbours[chosen])
            for n in neighbours[chosen]:
                neighbours[n] |= neighbours[chosen] - {n}
                neighbours[n].discard(chosen)
        rank = {b: i for i, b in enumerate(order)}
        below = tuple(tuple(sorted(later[b], key=rank.__getitem__)) for b in range(len(sizes)))
        return cls(tuple(sizes), tuple(order), below)

    @property
    def offsets(self) -> Array:
        """(blocks + 1,) first row of each block."""
        return np.concatenate([[0], np.cumsum(self.sizes)]).astype(int)


class BlockCholesky:
    """Factors A = L L^T of a matrix of blocks. The time grows with the number of blocks for chains and trees."""

    def __init__(self, pattern: Pattern, blocks: Mapping[tuple[int, int], Array]) -> None:
        from scipy.linalg import cholesky, solve_triangular

        self.pattern = pattern
        work = {key: np.array(block) for key, block in blocks.items()}
        self._diagonal: dict[int, Array] = {}
        self._below: dict[tuple[int, int], Array] = {}
        for j in pattern.order:
            self._diagonal[j] = L = cholesky(work.pop((j, j)), lower=True, check_finite=False)
            rows = pattern.below[j]
            for i in rows:
                block = _entry(work, i, j, pattern.sizes)
                self._below[i, j] = solve_triangular(L, block.T, lower=True, check_finite=False).T
            for a, i in enumerate(rows):
                for k in rows[: a + 1]:
                    change = self._below[i, j] @ self._below[k, j].T
                    key = (max(i, k), min(i, k))
                    change = change if i == key[0] else change.T
                    work[key] = work[key] - change if key in work else -change

    def solve_lower(self, rhs: Array) -> Array:
        """L^-1 rhs for rhs (n,) or (n, k)."""
        from scipy.linalg import solve_triangular

        x, at = np.array(rhs, dtype=float), self.pattern.offsets
        for j in self.pattern.order:
            own = slice(at[j], at[j + 1])
            if not x[own].any():
                continue
            x[own] = solve_triangular(self._diagonal[j], x[own], lower=True, check_finite=False)
            for i in self.pattern.below[j]:
                x[at[i] : at[i + 1]] -= self._below[i, j] @ x[own]
        return x

    def solve(self, rhs: Array) -> Array:
        """A^-1 rhs for rhs (n,) or (n, k)."""
        from scipy.linalg import solve_triangular

        x, at = self.solve_lower(rhs), self.pattern.offsets
        for j in reversed(self.pattern.order):
            own = slice(at[j], at[j + 1])
            for i in self.pattern.below[j]:
                x[own] -= self._below[i, j].T @ x[at[i] : at[i + 1]]
            if not x[own].any():
                continue
            x[own] = solve_triangular(self._diagonal[j], x[own], lower=True, trans="T", check_finite=False)
        return x


def multiply(pattern: Pattern, blocks: Mapping[tuple[int, int], Array], x: Array) -> Array:
    """A x for x (n,) or (n, k)."""
    at = pattern.offsets
    y = np.zeros_like(x)
    for (i, j), block in blocks.items():
        y[at[i] : at[i + 1]] += block @ x[at[j] : at[j + 1]]
        if i != j:
            y[at[j] : at[j + 1]] += block.T @ x[at[i] : at[i + 1]]
    return y


def diagonal_part(pattern: Pattern, blocks: Mapping[tuple[int, int], Array]) -> BlockCholesky:
    """Factors of the diagonal blocks alone."""
    bare = Pattern(pattern.sizes, tuple(range(len(pattern.sizes))), ((),) * len(pattern.sizes))
    return BlockCholesky(bare, {key: block for key, block in blocks.items() if key[0] == key[1]})


def conjugate_gradients(
    pattern: Pattern, blocks: Mapping[tuple[int, int], Array], rhs: Array, tolerance: float, most: int = 200
) -> tuple[Array, int]:
    """A^-1 rhs for rhs (n,) by conjugate gradients with the block-diagonal preconditioner, and the iterations it took.

    It ends when the residual's norm is below `tolerance` times that of rhs.
    """
    preconditioner = diagonal_part(pattern, blocks)
    x, r = np.zeros_like(rhs), np.array(rhs)
    z = preconditioner.solve(r)
    direction, product, goal = z, r @ z, tolerance * float(np.linalg.norm(rhs))
    for iteration in range(most):
        if np.linalg.norm(r) <= goal:
            return x, iteration
        image = multiply(pattern, blocks, direction)
        step = product / (direction @ image)
        x, r = x + step * direction, r - step * image
        z = preconditioner.solve(r)
        product, previous = r @ z, product
        direction = z + product / previous * direction
    raise ConvergenceError(f"conjugate gradients did not reach {tolerance:g} within {most} iterations; use 'cholesky'")


def _entry(blocks: Mapping[tuple[int, int], Array], i: int, j: int, sizes: Sequence[int]) -> Array:
    if (i, j) in blocks:
        return blocks[i, j]
    if (j, i) in blocks:
        return blocks[j, i].T
    return np.zeros((sizes[i], sizes[j]))
