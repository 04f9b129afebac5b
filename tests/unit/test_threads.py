"""Threads of numerical libraries."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import supple
from supple.threads import single_blas_thread


def blas_threads() -> set[int]:
    threadpoolctl = pytest.importorskip("threadpoolctl")
    return {each["num_threads"] for each in threadpoolctl.threadpool_info() if each["user_api"] == "blas"}


def test_blas_uses_one_thread_inside_only():
    threadpoolctl = pytest.importorskip("threadpoolctl")
    with threadpoolctl.threadpool_limits(limits=2, user_api="blas"):
        before = blas_threads()
        with single_blas_thread():
            assert blas_threads() == {1}
        assert blas_threads() == before


def test_without_threadpoolctl_nothing_changes(monkeypatch):
    monkeypatch.setitem(sys.modules, "threadpoolctl", None)  # its import fails
    with single_blas_thread():
        assert np.linalg.norm(np.eye(4)) == 2


def test_equilibria_between_loads_use_one_thread(monkeypatch):
    pytest.importorskip("threadpoolctl")
    arm = supple.library.robot_arm(4)
    loaded = supple.equilibrium(arm, {"tip": [0, 0, 5, 0, 0, 0]})
    models = [supple.reduce(arm, ["tip"]), supple.reduce(arm, ["tip"], at=loaded)]
    seen = []
    monkeypatch.setattr("supple.reduced.blending.rest_path", lambda *_: seen.append(blas_threads()))
    supple.blend(models)
    assert seen == [{1}]
