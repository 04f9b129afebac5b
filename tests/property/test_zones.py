"""Block-sparse factors on random patterns, and boundary changes in random order."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from supple.zones.blocks import BlockCholesky, Pattern, conjugate_gradients, multiply


@settings(max_examples=30, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 4), min_size=1, max_size=6),
    chosen=st.sets(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=10),
    seed=st.integers(0, 2**16),
)
def test_block_factors_solve_any_pattern(sizes, chosen, seed):
    rng, n = np.random.default_rng(seed), len(sizes)
    pairs = {(max(p), min(p)) for p in chosen if max(p) < n and p[0] != p[1]}
    blocks = {(i, j): rng.standard_normal((sizes[i], sizes[j])) for i, j in pairs}
    for i in range(n):
        square = rng.standard_normal((sizes[i], sizes[i]))
        blocks[i, i] = square @ square.T + 20 * n * np.eye(sizes[i])  # dominant
    pattern = Pattern.of(sizes, pairs)
    assert sorted(pattern.order) == list(range(n))
    matrix = multiply(pattern, blocks, np.eye(sum(sizes)))
    assert np.allclose(matrix, matrix.T)
    rhs = rng.standard_normal((sum(sizes), 2))
    factors = BlockCholesky(pattern, blocks)
    assert np.allclose(matrix @ factors.solve(rhs), rhs)
    half = factors.solve_lower(rhs)
    assert np.allclose(half.T @ half, rhs.T @ factors.solve(rhs))
    x, _ = conjugate_gradients(pattern, blocks, rhs[:, 0], 1e-12)
    assert np.allclose(x, factors.solve(rhs[:, 0]))
