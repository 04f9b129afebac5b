"""Benchmarks are run by hand. These tests check that each one starts and, with `-m long`, that each one runs."""

import json
from pathlib import Path

import pytest

BENCHMARKS = sorted((Path(__file__).parent.parent / "benchmarks").glob("[a-z]*.py"))
each = pytest.mark.parametrize("benchmark", BENCHMARKS, ids=lambda path: path.stem)


@pytest.fixture
def run(warm_python, tmp_path):
    """Runs a benchmark and returns what it prints."""

    def call(benchmark, *options, timeout):
        done = warm_python.run(benchmark, *options, folder=tmp_path, timeout=timeout)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return call


@each
def test_help_of_every_benchmark(benchmark, run):
    assert "--quick" in run(benchmark, "--help", timeout=600)


@each
@pytest.mark.long
def test_quick_run_of_a_benchmark(benchmark, run, tmp_path):
    run(benchmark, "--quick", "--json", tmp_path / "report.json", timeout=3600)
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["rows"]


def test_there_are_benchmarks():
    assert BENCHMARKS
