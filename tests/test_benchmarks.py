"""Benchmarks are run by hand; here, that each still starts, and with `-m long` that each runs."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = sorted((Path(__file__).parent.parent / "benchmarks").glob("[a-z]*.py"))
each = pytest.mark.parametrize("benchmark", BENCHMARKS, ids=lambda path: path.stem)


def run(benchmark, *options, timeout):
    command = [sys.executable, benchmark, *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
    assert done.returncode == 0, done.stderr
    return done.stdout


@each
def test_starts(benchmark):
    assert "--quick" in run(benchmark, "--help", timeout=600)


@each
@pytest.mark.long
def test_runs(benchmark, tmp_path):
    run(benchmark, "--quick", "--json", tmp_path / "report.json", timeout=3600)
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["rows"]


def test_there_are_benchmarks():
    assert BENCHMARKS
