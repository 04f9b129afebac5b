"""Threads of numerical libraries."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def single_blas_thread() -> Iterator[None]:
    """BLAS on one thread, if threadpoolctl is installed. For many small matrices: on several threads of a busy machine,
    decompositions of some hundred rows take ten times as long."""
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:  # slower, otherwise the same
        yield
        return
    with threadpool_limits(limits=1, user_api="blas"):
        yield
