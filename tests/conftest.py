"""Fixtures shared by all tests."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# No limits on the time of an example: it depends on the machine. The same examples in every run, so that a check says
# something about the change and not about its luck; `pytest --hypothesis-profile=explore` draws new ones.
settings.register_profile("explore", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.register_profile("same examples", settings.get_profile("explore"), derandomize=True, database=None)
settings.load_profile("same examples")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy is loaded: the tests already run on every core
sys.path.insert(0, str(Path(__file__).parent))  # helper modules that several tests share
ROBOTS = Path(__file__).parents[2] / "shared" / "robots"
"""Robots of the MuJoCo Menagerie, beside the project; not part of it."""


@pytest.fixture(scope="session")
def robots() -> Path:
    """Folder of the robots; tests that need it are skipped where it is missing."""
    if not ROBOTS.is_dir():
        pytest.skip(f"the robots are not here: put the MuJoCo Menagerie folders into {ROBOTS}")
    return ROBOTS


@pytest.fixture(scope="session", autouse=True)
def basis_cache(tmp_path_factory):
    """Bases of elastic parts are made once for all tests, in a folder that the processes of a run share."""
    base = tmp_path_factory.getbasetemp()
    os.environ["SUPPLE_CACHE"] = str((base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "supple-cache")


@pytest.fixture(scope="session")
def warm_python():
    """Runs scripts in processes of their own: warm_python.run(script, "--help", folder=tmp_path, timeout=60)."""
    from warm_python import WarmPython

    python = WarmPython()
    yield python
    python.close()


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Calls the command line in an empty folder, through typer's runner: run("info", "ladder")."""
    from typer.testing import CliRunner

    from supple.cli.app import app

    monkeypatch.chdir(tmp_path)
    return lambda *args: CliRunner().invoke(app, args)
