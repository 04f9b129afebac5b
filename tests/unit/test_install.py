"""What an install says when something is missing, and which build of the core is loaded."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from supple import _core

TOOLS = Path(__file__).parents[2] / "tools"
pytestmark = pytest.mark.skipif(os.name == "nt", reason="stub compilers are shell scripts")


@pytest.fixture
def compiler_check():
    spec = importlib.util.spec_from_file_location("compiler_check", TOOLS / "compiler_check.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def only(tmp_path, monkeypatch):
    """Leaves no command on the PATH but a compiler with the given script."""

    def install(name=None, script="", variable=None):
        if name:
            file = tmp_path / name
            file.write_text("#!/bin/sh\n" + script)
            file.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path))
        monkeypatch.delenv("CXX", raising=False)
        if variable:
            monkeypatch.setenv("CXX", variable)

    return install


def names_commands(text, package):
    assert "sudo apt install" in text
    assert "sudo dnf install" in text
    assert "macOS: " in text
    assert package in text
    assert "\n" not in text


def test_no_compiler(compiler_check, only):
    only()
    problem = compiler_check.find_problem()
    assert problem.startswith("no C++ compiler was found")
    names_commands(problem, "g++")


def test_compiler_that_is_no_command(compiler_check, only):
    only(variable="no-such-compiler -O1")
    problem = compiler_check.find_problem()
    assert problem.startswith("CXX=no-such-compiler -O1 is no command")
    names_commands(problem, "g++")


def test_old_compiler(compiler_check, only):
    only("g++", "echo; echo GCC 10\n")
    problem = compiler_check.find_problem()
    assert "is GCC 10; supple needs GCC 11 or Clang 14 at least" in problem
    names_commands(problem, "g++")


def test_compiler_without_cpp20(compiler_check, only):
    only("c++", "exit 1\n")
    problem = compiler_check.find_problem()
    assert "does not compile C++20" in problem
    names_commands(problem, "g++")


def test_no_python_headers(compiler_check, only):
    script = 'for file; do :; done\nwhile read line; do case "$line" in *Python.h*) exit 1;; esac; done < "$file"\n'
    only("c++", script + "echo GCC 13\n")
    problem = compiler_check.find_problem()
    assert "(Python.h) are missing" in problem
    names_commands(problem, "python3-dev")


def test_nothing_missing(compiler_check, only):
    only("c++", "echo Clang 14\n")
    assert compiler_check.find_problem() is None


# --- which build is loaded ---


@pytest.mark.parametrize(
    ("built", "best", "loaded"),
    [
        (["baseline", "avx2", "avx512"], "avx2", "avx2"),
        (["baseline", "avx2", "avx512"], "avx512", "avx512"),
        (["baseline"], "avx512", "baseline"),
        (["avx2"], "avx512", "avx2"),
    ],
)
def test_best_build_that_the_machine_runs(built, best, loaded):
    assert _core.choose_variant(None, built, best) == loaded


def test_wanted_build():
    assert _core.choose_variant("baseline", ["baseline", "avx2"], "avx2") == "baseline"
    with pytest.raises(ImportError, match=r"not built for avx512; installed: avx2\. .*SUPPLE_VARIANTS=all pip install"):
        _core.choose_variant("avx512", ["avx2"], "avx512")
    with pytest.raises(ImportError, match="this machine has avx2 at best; leave SUPPLE_CORE unset"):
        _core.choose_variant("avx512", ["avx2", "avx512"], "avx2")
    with pytest.raises(ImportError, match="choose one of baseline, avx2, avx512"):
        _core.choose_variant("sse9", ["avx2"], "avx2")


def test_build_for_a_better_machine():
    with pytest.raises(ImportError, match="installed: avx512; this machine has avx2 at best"):
        _core.choose_variant(None, ["avx512"], "avx2")


def test_unknown_build_is_refused_on_import():
    run = subprocess.run(
        [sys.executable, "-c", "import supple._core"],
        env={**os.environ, "SUPPLE_CORE": "sse9"},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 1
    assert run.stderr.splitlines()[-1].startswith("ImportError: SUPPLE_CORE=sse9: choose one of")


@pytest.mark.long
def test_wheel_in_a_clean_environment(tmp_path):
    """`pip wheel .` gives a wheel that installs without a compiler and steps a mechanism."""
    root = TOOLS.parent
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    subprocess.run([*pip, "wheel", "--no-deps", "-w", tmp_path, root], check=True)
    (wheel,) = tmp_path.glob("supple-*.whl")
    subprocess.run([sys.executable, "-m", "venv", tmp_path / "clean"], check=True)
    programs = tmp_path / "clean" / "bin"
    env = {"PATH": str(programs), "HOME": str(tmp_path)}
    keep = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_", "HTTP", "http"))}
    subprocess.run([programs / "pip", "install", "-q", wheel], check=True, env={**keep, **env})
    run = subprocess.run(
        [programs / "python", TOOLS / "try_wheel.py"], capture_output=True, text=True, check=True, env=env, cwd=tmp_path
    )
    assert "t = 0.1 s" in run.stdout
