"""`supple.sweep`: values, labels, executors, resuming and refusals."""

from __future__ import annotations

import csv
import functools
import pickle
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import numpy as np
import pytest
from tests.mechanisms import four_bar

import supple
from small_mechanisms import arm, with_motor

LOADS = [{"tip": [0, 0, -5, 0, 0, 0]}, {"tip": [3, 1, 0, 0, 0, 0.2]}]
VARY = {"elbow.stiffness": [20.0, 40.0, 80.0], "lower.mass": [0.5, 1.0]}


def tip_height(eq):
    return eq.poses["tip"][2, 3]


def as_long_as_stiff(eq):
    return np.zeros(int(eq.mechanism.joint("elbow").stiffness[0]))


@pytest.fixture(scope="module")
def swept():
    return supple.sweep(arm(), VARY, LOADS, "tip")


def test_values_are_those_of_equilibrium(swept):
    assert swept.names == ("elbow.stiffness", "lower.mass", "load", "component")
    assert swept.values.shape == (3, 2, 2, 3)
    assert swept.axes["load"] == (0, 1)
    assert swept.axes["component"] == ("x", "y", "z")
    for i, stiffness in enumerate(VARY["elbow.stiffness"]):
        for j, mass in enumerate(VARY["lower.mass"]):
            mech = arm().with_parameters({"elbow.stiffness": stiffness, "lower.mass": mass})
            for k, load in enumerate(LOADS):
                np.testing.assert_allclose(swept.values[i, j, k], supple.equilibrium(mech, load).poses["tip"][:3, 3])
    with pytest.raises(ValueError, match="read-only"):
        swept.values[0] = 0


def test_a_function_measures_any_equilibrium(swept):
    found = supple.sweep(arm(), VARY, {"down": LOADS[0], "side": LOADS[1]}, tip_height)
    assert found.names == ("elbow.stiffness", "lower.mass", "load")
    assert found.axes["load"] == ("down", "side")
    np.testing.assert_allclose(found.values, swept.values[..., 2], rtol=1e-12)


@pytest.mark.parametrize("mech", [four_bar(stiffness=20.0, damping=1.0), with_motor()], ids=["loop", "motor"])
def test_other_parameters(mech):
    body = mech.bodies[-1].name
    names = {"four_bar": ("a.rest", f"{body}.payload"), "motorised": ("motor.target", "tendon.stiffness")}[mech.name]
    vary = {names[0]: [0.05, 0.1], names[1]: [0.1, 0.3]}
    found = supple.sweep(mech, vary, None, lambda eq: eq.state[0])
    for i, j in np.ndindex(2, 2):
        changed = mech.with_parameters({names[0]: vary[names[0]][i], names[1]: vary[names[1]][j]})
        np.testing.assert_allclose(found.values[i, j, 0], supple.equilibrium(changed).state[0], atol=1e-10)


def test_several_parameters_with_one_value():
    mech = arm()
    found = supple.sweep(mech, {("shoulder.0.stiffness", "elbow.stiffness"): [30.0]}, LOADS[:1], "tip")
    both = mech.with_parameters({"shoulder.0.stiffness": 30.0, "elbow.stiffness": 30.0})
    np.testing.assert_allclose(found.values[0, 0], supple.equilibrium(both, LOADS[0]).poses["tip"][:3, 3])


def test_executors(swept):
    with ThreadPoolExecutor(2) as threads:
        np.testing.assert_array_equal(supple.sweep(arm(), VARY, LOADS, "tip", executor=threads).values, swept.values)
    with ProcessPoolExecutor(1) as process:
        np.testing.assert_array_equal(supple.sweep(arm(), VARY, LOADS, "tip", executor=process).values, swept.values)
    mech = arm()
    supple.inverse_dynamics(mech)  # keeps a compiled object, which a copy must leave out
    assert pickle.loads(pickle.dumps(mech)) == mech


def test_resuming_computes_only_the_rest(swept, tmp_path):
    calls = []

    def measure(eq):
        calls.append(eq)
        if len(calls) == 8:
            raise RuntimeError("stopped")
        return eq.poses["tip"][:3, 3]

    file = tmp_path / "sweep.npz"
    with ThreadPoolExecutor(1) as one:
        with pytest.raises(RuntimeError, match="stopped"):
            supple.sweep(arm(), VARY, LOADS, measure, executor=one, resume=file)
        assert file.exists()
        assert not list(tmp_path.glob("*.part"))
        shares = []
        found = supple.sweep(arm(), VARY, LOADS, measure, executor=one, resume=file, progress=shares.append)
    np.testing.assert_allclose(found.values, swept.values)
    assert 12 <= len(calls) < 24
    assert 0 < shares[0] < 1
    assert shares[-1] == 1
    assert shares == sorted(shares)
    before = len(calls)
    supple.sweep(arm(), VARY, LOADS, measure, resume=file)
    assert len(calls) == before
    with pytest.raises(supple.MechanismError, match="another sweep"):
        supple.sweep(arm(), VARY, LOADS[:1], measure, resume=file)
    (tmp_path / "cut.npz").write_bytes(file.read_bytes()[:200])
    with pytest.raises(supple.MechanismError, match="no file of a sweep"):
        supple.sweep(arm(), VARY, LOADS, measure, resume=tmp_path / "cut.npz")


def test_a_file_of_another_measure_is_refused(tmp_path):
    def row(k):
        return lambda eq: eq.poses["tip"][k, 3]

    def kept(eq, k):
        return eq.poses["tip"][k, 3]

    pairs = [
        (lambda eq: eq.poses["tip"][0, 3], lambda eq: eq.poses["tip"][2, 3]),
        (row(0), row(2)),
        (functools.partial(kept, k=0), functools.partial(kept, k=2)),
    ]
    for i, (first, second) in enumerate(pairs):
        file = tmp_path / f"{i}.npz"
        vary = {"elbow.stiffness": [20.0, 40.0]}
        found = supple.sweep(arm(), vary, LOADS[:1], first, resume=file)
        again = supple.sweep(arm(), vary, LOADS[:1], first, resume=file)
        np.testing.assert_array_equal(found.values, again.values)
        with pytest.raises(supple.MechanismError, match="another sweep"):
            supple.sweep(arm(), vary, LOADS[:1], second, resume=file)


def test_a_measure_that_cannot_be_sent_to_a_process_is_named():
    refused = pytest.raises(supple.MechanismError, match="cannot be sent to other processes")
    with ProcessPoolExecutor(1) as pool, refused:
        supple.sweep(arm(), VARY, LOADS, lambda eq: eq.poses["tip"][2, 3], executor=pool)


def test_csv_has_a_row_for_each_variant_and_load(swept, tmp_path):
    swept.to_csv(tmp_path / "out.csv")
    rows = list(csv.reader((tmp_path / "out.csv").read_text().splitlines()))
    assert rows[0] == ["elbow.stiffness", "lower.mass", "load", "x", "y", "z"]
    assert len(rows) == 1 + 3 * 2 * 2
    assert [float(cell) for cell in rows[-1]] == [80.0, 1.0, 1.0, *swept.values[-1, -1, -1]]


def test_xarray_has_the_same_labels(swept):
    xarray = pytest.importorskip("xarray")
    found = swept.to_xarray()
    assert isinstance(found, xarray.DataArray)
    assert found.dims == swept.names
    assert float(found.sel({"elbow.stiffness": 40.0, "lower.mass": 1.0, "load": 1, "component": "z"})) == pytest.approx(
        swept.values[1, 1, 1, 2]
    )


def test_failures_name_the_variant_or_are_listed():
    mech = arm()

    def measure(eq):
        if eq.mechanism.parameters["elbow.stiffness"] > 50:
            raise supple.ConvergenceError("no luck")
        return tip_height(eq)

    with pytest.raises(supple.ConvergenceError, match=r"elbow.stiffness = 80, lower.mass = 0.5, load 0: no luck"):
        supple.sweep(mech, VARY, LOADS, measure)
    found = supple.sweep(mech, VARY, LOADS, measure, skip_failures=True)
    assert set(found.failures) == {(2, j, k) for j in range(2) for k in range(2)}
    assert np.isnan(found.values[2]).all()
    assert np.isfinite(found.values[:2]).all()


@pytest.mark.parametrize(
    ("vary", "loads", "measure", "text"),
    [
        ({"elbow.stifness": [1.0]}, None, "tip", "did you mean 'elbow.stiffness'"),
        ({"elbo.stiffness": [1.0]}, None, "tip", "did you mean 'elbow.stiffness'"),
        ({"elbow": [1.0]}, None, "tip", "no parameter of 'arm' named 'elbow'"),
        ({"tipp.payload": [1.0]}, None, "tip", "tip.payload"),
        ({"floor.payload": [1.0]}, None, "tip", "fixed to the world"),
        ({}, None, "tip", "give the parameters to vary"),
        ({"elbow.stiffness": []}, None, "tip", "no values"),
        ({"elbow.stiffness": [1.0, np.nan]}, None, "tip", "finite"),
        ({"elbow.stiffness": [[1.0]]}, None, "tip", "shape"),
        ({"elbow.stiffness": [-1.0]}, None, "tip", "negative"),
        ({"elbow.rest": [0.1], "elbow.target": [0.1]}, None, "tip", "twice"),
        ({"elbow.stiffness": [1.0]}, [], "tip", "no loads"),
        ({"elbow.stiffness": [1.0]}, "tip", "tip", "loads are given as"),
        ({"elbow.stiffness": [1.0]}, {"tip": [1.0, 2.0]}, "tip", "wrench on 'tip'"),
        ({"elbow.stiffness": [1.0]}, {"top": [0.0] * 6}, "tip", "top"),
        ({"elbow.stiffness": [1.0]}, None, "tipp", "did you mean 'tip'"),
        ({"elbow.stiffness": [1.0]}, None, "", "give a measure"),
        ({"elbow.stiffness": [1.0]}, None, 3, "measure is"),
        ({"elbow.stiffness": [1.0]}, None, lambda eq: np.nan, "not finite"),
        ({"elbow.stiffness": [1.0, 2.0]}, None, as_long_as_stiff, "shape"),
    ],
)
def test_refusals(vary, loads, measure, text):
    with pytest.raises(supple.MechanismError, match=text):
        supple.sweep(arm(), vary, loads, measure)
