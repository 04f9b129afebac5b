"""Flexible bodies in descriptions and files: names, errors, round trips, and methods that do not take them."""

from __future__ import annotations

import copy
import json
import pickle
import warnings
from dataclasses import replace

import numpy as np
import pytest

import supple
from supple import elastic, spatial
from supple.elastic.cache import cache_folder, with_cached_basis
from supple.mechanism.rigidified import rigidified


@pytest.fixture(scope="module")
def part() -> elastic.Part:
    return with_cached_basis(elastic.rod(0.3, 4e-3, sections=4, sides=6), modes=4, method="linear")


def swing(part: elastic.Part) -> supple.Mechanism:
    build = supple.Builder("swing")
    build.flexible("rod", part)
    build.hinge("pivot", "world", "rod.start", at=(0, 0, 0), axis="y", stiffness=1.0)
    build.site("mark", "rod.end", at=(0, 0, 0.31))
    return build.build()


@pytest.fixture(scope="module")
def mech(part) -> supple.Mechanism:
    return swing(part)


def test_names_and_mass(mech, part):
    assert [body.name for body in mech.bodies] == ["rod.start", "rod.end"]
    assert mech.joint("rod.end").kind == "interface"
    assert mech.coordinates == ("rod.eta0", "rod.eta1", "rod.eta2", "rod.eta3", "pivot")
    assert mech.mass == pytest.approx(part.mass)
    assert mech.unheld == ()
    np.testing.assert_allclose(mech.centre, [0, 0, 0.15], atol=1e-9)
    assert supple.kinematics(mech, [1e-3, 0, 0, 0, 0]).poses["mark"][2, 3] == pytest.approx(0.31, abs=1e-3)


def test_jacobian_and_mass_matrix_by_differences(mech):
    q = np.array([2e-3, -1e-3, 3e-4, 1e-4, 0.2])
    jacobian = supple.jacobian(mech, "mark", q)
    at = spatial.inverse(supple.kinematics(mech, q).poses["mark"])
    h = 1e-6
    for i, unit in enumerate(np.eye(5)):
        ends = [spatial.log(at @ supple.kinematics(mech, q + s * h * unit).poses["mark"]) for s in (1, -1)]
        np.testing.assert_allclose(jacobian[:, i], (ends[0] - ends[1]) / (2 * h), atol=1e-7)
    mass = supple.mass_matrix(mech, q)
    assert np.linalg.eigvalsh(mass)[0] > 0
    # the rigid swing: inertia of a slender rod about its end
    assert supple.mass_matrix(mech)[4, 4] == pytest.approx(mech.mass * 0.3**2 / 3, rel=1e-3)


def test_files(mech, tmp_path):
    path = tmp_path / "swing.json"
    mech.save(path)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["swing.json", "swing.rod.npz"]
    again = supple.load(path)
    assert again == mech
    assert again != replace(mech, name="other")
    eq, same = (supple.equilibrium(each, {"rod.end": [0.1, 0, 0, 0, 0, 0]}) for each in (mech, again))
    np.testing.assert_array_equal(eq.q, same.q)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda data: data["flexible"][0].update(part="../swing.rod.npz"), "in the same folder"),
        (lambda data: data["flexible"][0].update(part="none.npz"), "none.npz"),
        (lambda data: data["flexible"][0].pop("part"), "part"),
        (lambda data: data["joints"][0].update(interface=["rod", "middle"]), "no moving interface 'middle'"),
        (lambda data: data["joints"][0].update(interface=["bar", "end"]), "no flexible body 'bar'"),
        (lambda data: data["joints"][0].update(interface=3), "names of a flexible body"),
        (lambda data: data["joints"][0].update(axes=["a"]), "axes"),
    ],
)
def test_damaged_files(mech, tmp_path, change, told):
    path = tmp_path / "swing.json"
    mech.save(path)
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))
    with pytest.raises(supple.MechanismError, match=told):
        supple.load(path)


def test_pickled_and_copied(mech):
    supple.equilibrium(mech)  # makes the compiled evaluators
    for again in (pickle.loads(pickle.dumps(mech)), copy.deepcopy(mech)):
        load = {"rod.end": [1.0, 0, 0, 0, 0, 0]}
        np.testing.assert_array_equal(supple.equilibrium(again, load).q, supple.equilibrium(mech, load).q)


def test_mjcf_is_rigid_and_says_so(mech, tmp_path):
    with pytest.warns(supple.ExportWarning, match="flexible body 'rod' is rigid"):
        mech.save(tmp_path / "swing.xml")
    again = supple.load(tmp_path / "swing.xml")
    assert again.mass == pytest.approx(mech.mass)
    assert rigidified(mech).coordinates == ("pivot",)
    assert rigidified(rigidified(mech)).coordinates == ("pivot",)


def test_bad_descriptions(part):
    build = supple.Builder("bad")
    with pytest.raises(supple.MechanismError, match="has no basis; reduce it first"):
        build.flexible("rod", part.without_basis())
    with pytest.raises(supple.MechanismError, match="needs an elastic part"):
        build.flexible("rod", 3)
    build.flexible("rod", part)
    with pytest.raises(supple.MechanismError, match=r"two bodies are named 'rod\.start'"):
        build.flexible("rod", part)
    with pytest.raises(supple.MechanismError, match="cannot be reached from the world"):
        build.build()


@pytest.mark.parametrize(
    "call",
    [
        lambda mech: supple.AdaptiveLinkage(mech),
        lambda mech: supple.inverse_dynamics(mech),
        lambda mech: supple.reduce(mech, ["rod.end"], method="recursion"),
        lambda mech: supple.reduce(mech, ["rod.end"], mass="accelerability"),
    ],
    ids=["adaptive", "inverse dynamics", "recursion", "accelerability"],
)
def test_methods_that_do_not_take_flexible_bodies(mech, call):
    with pytest.raises(supple.MechanismError, match="does not take flexible bodies yet, and 'rod' is one"):
        call(mech)


def test_inverse_kinematics_keeps_the_shape(mech):
    q = np.array([2e-3, -1e-3, 0, 0, 0.4])
    pose = supple.kinematics(mech, q).poses["mark"]
    found = supple.inverse_kinematics(mech, {"mark": pose}, {"rod.eta0": 2e-3, "rod.eta1": -1e-3})
    assert found.reached
    np.testing.assert_allclose(found.q, q, atol=1e-8)


def test_links_by_joints_bend(mech):
    model = supple.reduce(mech, ["rod.end"])
    sim = supple.ReducedSimulation(model, 1e-3, reconstruction="joints")
    sim.apply("rod.end", [0.5, 0.1, 0, 0, 0, 0])
    sim.step(200)
    q = np.concatenate([sim.coordinates["rod.end"], sim.coordinates["pivot"]])
    assert np.abs(q[:4]).max() > 1e-3
    np.testing.assert_allclose(sim.poses.array, supple.kinematics(mech, q).poses.array, atol=1e-12)
    between = spatial.inverse(sim.poses["rod.end"]) @ sim.end_effector_pose("rod.end")
    np.testing.assert_allclose(spatial.log(between), sim.gaps[0], atol=1e-9)
    assert np.abs(sim.gaps[0]).max() < 1e-3


def test_links_by_joints_need_the_reference_of_the_basis(part):
    build = supple.Builder("swing")
    build.flexible("rod", part)
    build.hinge("pivot", "world", "rod.end", at=(0, 0, 0.3), axis="y", stiffness=1.0)
    model = supple.reduce(build.build(), ["rod.start"])
    named = r"joint 'rod.end': .* at 'rod.end', not at 'rod.start', the reference"
    with pytest.raises(supple.MechanismError, match=named):
        supple.ReducedSimulation(model, 1e-3, reconstruction="joints")


def test_three_interfaces():
    """The third interface follows the same amplitudes: a plate that a force bends has one shape."""
    plate = elastic.plate(0.2, 0.05, 2e-3, divisions=(6, 2, 1), interfaces=("start", "end", "left"))
    build = supple.Builder("plate", gravity=(0, 0, 0))
    build.flexible("plate", plate.with_basis(modes=6, method="linear"))
    build.fixed("clamp", "world", "plate.start")
    mech = build.build()
    assert len(mech.couplings) == 6
    eq = supple.equilibrium(mech, {"plate.end": [0, 0, 0.5, 0, 0, 0]})
    np.testing.assert_allclose(eq.coordinates["plate.end"], eq.coordinates["plate.left"], atol=1e-12)
    heights = [eq.poses[f"plate.{name}"][2, 3] for name in ("start", "left", "end")]
    assert abs(heights[0]) < 1e-12  # the clamped end, to rounding
    assert heights[0] < heights[1] < heights[2]
    sim = supple.Simulation(mech, 1e-3)
    sim.apply("plate.left", [0, 0, 0.5, 0, 0, 0])
    sim.step(20)
    np.testing.assert_allclose(sim.coordinates["plate.end"], sim.coordinates["plate.left"], atol=1e-11)


def test_a_warning_beyond_the_trained_range(part):
    trained = replace(part, basis=replace(part.basis, trained_range=1e-4))
    mech = swing(trained)
    with pytest.warns(supple.RangeWarning, match=r"'rod' is deformed by .* up to 0\.0001 m"):
        supple.equilibrium(mech, {"rod.end": [5.0, 0, 0, 0, 0, 0]})
    sim = supple.Simulation(mech, 1e-3)
    sim.apply("rod.end", [5.0, 0, 0, 0, 0, 0])
    with pytest.warns(supple.RangeWarning):
        sim.step(40)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sim.step(10)  # once only


def test_bases_are_kept(part, monkeypatch, tmp_path):
    monkeypatch.setenv("SUPPLE_CACHE", str(tmp_path / "cache"))
    bare = elastic.rod(0.3, 4e-3, sections=4, sides=6)
    made = with_cached_basis(bare, modes=3, method="linear")
    files = list(cache_folder().iterdir())
    assert len(files) == 1
    again = with_cached_basis(bare, modes=3, method="linear")
    np.testing.assert_array_equal(made.basis.modes, again.basis.modes)
    assert list(cache_folder().iterdir()) == files
    files[0].write_bytes(b"damaged")
    np.testing.assert_allclose(with_cached_basis(bare, modes=3, method="linear").basis.modes, made.basis.modes)
    with_cached_basis(bare, modes=2, method="linear")
    assert len(list(cache_folder().iterdir())) == 2


def test_command_line(mech, run, tmp_path):
    mech.save(tmp_path / "swing.json")
    shown = run("info", "swing.json")
    assert shown.exit_code == 0
    assert "rod.start, rod.end" in shown.stdout
    facts = json.loads(run("info", "swing.json", "--json").stdout)["flexible"]
    assert facts[0]["modes"] == 4
    assert facts[0]["frequencies"][0] == pytest.approx(mech.flexible[0].part.frequencies(1)[0], rel=1e-3)
    made = run("basis", "swing.json", "--modes", "3", "--plane", "y", "-o", "rod.npz")
    assert made.exit_code == 0, made.output
    assert elastic.load(tmp_path / "rod.npz").basis.size == 3
    wrong = run("basis", "swing.json", "--part", "bar")
    assert wrong.exit_code == 1
    assert "rod" in wrong.output
    none = run("basis", "loop")
    assert none.exit_code == 1
    assert "no flexible bodies" in none.output


def test_a_basis_from_a_run(part, run, tmp_path):
    build = supple.Builder("driven")
    build.flexible("rod", part)
    build.hinge("pivot", "world", "rod.start", at=(0, 0, 0), axis="y")
    build.motor("motor", "pivot")
    build.build().save(tmp_path / "driven.json")
    (tmp_path / "turn.csv").write_text("time,motor\n0,0\n0.02,0.02\n0.05,0.02\n")
    made = run("basis", "driven.json", "--modes", "3", "--run", "turn.csv", "-o", "rod.npz")
    assert made.exit_code == 0, made.output
    assert elastic.load(tmp_path / "rod.npz").basis.method == "snapshots"
    (tmp_path / "turn.csv").write_text("time,other\n0,0\n1,1\n")
    wrong = run("basis", "driven.json", "--run", "turn.csv")
    assert wrong.exit_code == 1
    assert "motor" in wrong.output
