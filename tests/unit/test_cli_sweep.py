"""`supple sweep`."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

import supple


def test_a_table_of_positions(run, tmp_path):
    out = tmp_path / "out.csv"
    words = ["--vary", "hinge_1.stiffness", "10:100:4", "--vary", "hinge_2.stiffness", "20,50", "--force", "tip"]
    done = run("sweep", "robot_arm", *words, "0", "0", "-5", "-o", str(out), "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout) == {"variants": 8, "failures": 0, "measure": "tip", "file": str(out)}
    rows = list(csv.reader(out.read_text().splitlines()))
    assert rows[0] == ["hinge_1.stiffness", "hinge_2.stiffness", "load", "x", "y", "z"]
    assert len(rows) == 9
    mech = supple.library.robot_arm().with_parameters({"hinge_1.stiffness": 100.0, "hinge_2.stiffness": 50.0})
    at = supple.equilibrium(mech, {"tip": [0, 0, -5, 0, 0, 0]}).poses["tip"][:3, 3]
    np.testing.assert_allclose([float(cell) for cell in rows[-1]], [100, 50, 0, *at])
    assert "8 variants" in run("sweep", "robot_arm", *words, "0", "0", "-5", "-o", str(out)).output


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ([], "--vary elbow.stiffness"),
        (["--vary", "hinge_1.stifness", "1:2:3"], "hinge_1.stiffness"),
        (["--vary", "hinge_1.stiffness", "1:2"], "FIRST:LAST:COUNT"),
        (["--vary", "hinge_1.stiffness", "1:2:0"], "FIRST:LAST:COUNT"),
        (["--vary", "hinge_1.stiffness", "1,x"], "not a number"),
        (["--vary", "hinge_1.stiffness", "1,nan"], "not finite"),
        (["--vary", "hinge_1.stiffness"], "--vary takes NAME VALUES"),
        (["--vary", "hinge_1.stiffness", "1,2", "--vary", "hinge_1.stiffness", "3"], "twice"),
        (["--vary", "hinge_1.stiffness", "1,2", "-o", "out.txt"], ".csv"),
        (["--vary", "hinge_1.stiffness", "1,2", "--measure", "tipp"], "did you mean 'tip'"),
    ],
)
def test_refusals_in_one_line(run, words, text):
    done = run("sweep", "robot_arm", *words)
    assert done.exit_code == 1
    assert text in done.output
