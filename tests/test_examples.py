"""Every example runs as a user would run it."""

import signal
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("[0-9]*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example(example, tmp_path, warm_python):
    done = warm_python.run(example, folder=tmp_path, timeout=1800)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    assert "Warning" not in done.stderr, done.stderr


def test_there_are_examples():
    assert EXAMPLES


@pytest.mark.parametrize(
    ("code", "status", "told"),
    [
        ("import sys; print('supple' in sys.modules, *sys.argv[1:]); sys.exit(3)", 3, "False 1 two"),
        ("import warnings; warnings.warn('beware')", 0, "UserWarning: beware"),
        ("print('begun', flush=True); import nothing_of_that_name", 1, "ModuleNotFoundError"),
        ("import time; time.sleep(60)", -signal.SIGALRM, ""),
    ],
    ids=["exit", "warning", "error", "timeout"],
)
def test_a_failing_script_fails_the_test(code, status, told, tmp_path, warm_python):
    script = tmp_path / "script.py"
    script.write_text(code)
    done = warm_python.run(script, 1, "two", folder=tmp_path, timeout=1 if status < 0 else 600)
    assert done.returncode == status
    assert told in done.stdout + done.stderr
