"""Blended models in files, and states kept and restored."""

from __future__ import annotations

import copy
import json
import pickle
import zipfile

import numpy as np
import pytest

import pulls
import supple
from pulls import helix_models, simulation_in_motion
from supple.reduced import BlendedModel


@pytest.mark.parametrize("scheme", ["corrected", "published"])
def test_save_and_load_continue_to_the_same_bits(tmp_path, scheme):
    models = pulls.random_models(*pulls.library_case("ladder"), 6, 0.4)
    many = supple.blend(models, power=3, support="global", scheme=scheme)
    many.save(tmp_path / "many.npz")
    again = BlendedModel.load(tmp_path / "many.npz")
    assert (again.power, again.support, again.scheme) == (3.0, "global", scheme)
    assert copy.deepcopy(many).scheme == scheme
    assert again.mechanism == many.mechanism
    assert len(again.models) == 6
    sims = [supple.ReducedSimulation(each, 2e-3) for each in (many, again)]
    for sim in sims:
        sim.apply("tip", models[3].wrenches, frame="body")
        sim.step(200)
    np.testing.assert_array_equal(sims[0].poses.array, sims[1].poses.array)
    found = [each.at(sims[0]._motion.tips[0]) for each in (many, again)]
    for part in ("weights", "compliance", "mass", "damping", "wrenches", "energy"):
        np.testing.assert_array_equal(getattr(found[0], part), getattr(found[1], part))
    sims[1].restore(sims[0].save())
    for sim in sims:
        sim.step(100)
    np.testing.assert_array_equal(sims[0].poses.array, sims[1].poses.array)


@pytest.mark.parametrize("again", [copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))])
def test_used_models_can_be_copied_and_pickled(again):
    """Needed for other processes; objects of the core are built again there."""
    models = helix_models(3)
    many = supple.blend(models)
    simulation_in_motion(many)
    supple.ReducedSimulation(models[0], 1e-3, reconstruction="joints").step()
    assert models[0].linearisation is not None
    np.testing.assert_array_equal(again(models[0]).stiffness, models[0].stiffness)
    np.testing.assert_array_equal(simulation_in_motion(again(many)).poses.array, simulation_in_motion(many).poses.array)


def test_restore_continues_to_the_same_bits():
    sim = simulation_in_motion(supple.blend(helix_models()))
    saved = sim.save()
    sim.step(70)
    shown, time = sim.poses.array.copy(), sim.time
    sim.apply("tip", np.zeros(6))
    sim.pull("tip", None)
    sim.step(33)
    sim.restore(saved)
    sim.step(70)
    assert sim.time == time
    np.testing.assert_array_equal(sim.poses.array, shown)
    sim.reset()
    assert sim.time == 0
    np.testing.assert_allclose(sim.poses.array, sim.mechanism.poses.array, atol=1e-12)


def test_restore_while_a_model_fades_in():
    """The state contains the progress of the fade."""
    models = helix_models(4)
    many = supple.blend(models[:3])
    sim = simulation_in_motion(many)
    many.add(models[3], fade=0.2)
    sim.step(30)
    saved = sim.save()
    sim.step(100)
    shown = sim.poses.array.copy()
    sim.restore(saved)
    sim.step(100)
    np.testing.assert_array_equal(sim.poses.array, shown)


def test_a_state_of_another_model_raises():
    each = helix_models(2), [supple.reduce(*pulls.library_case("y"))]
    sim, other = (supple.ReducedSimulation(supple.blend(models), 1e-3) for models in each)
    with pytest.raises(supple.MechanismError, match="another model"):
        sim.restore(other.save())


def test_files_of_other_content(tmp_path):
    models = helix_models(2)
    models[0].save(tmp_path / "one.npz")
    supple.blend(models).save(tmp_path / "many.npz")
    with pytest.raises(supple.MechanismError, match=r"one.npz is not a blended model"):
        BlendedModel.load(tmp_path / "one.npz")
    with pytest.raises(supple.MechanismError, match=r"many.npz is not a reduced model"):
        supple.ReducedModel.load(tmp_path / "many.npz")
    with pytest.raises(supple.MechanismError, match=r"there is no file .*none.npz"):
        BlendedModel.load(tmp_path / "none.npz")


@pytest.mark.parametrize("damage", ["array", "nan", "power", "models", "cut", "newer"])
def test_damaged_files(tmp_path, damage):
    path = tmp_path / "many.npz"
    supple.blend(helix_models(2)).save(path)
    with np.load(path) as file:
        arrays = dict(file)
    header = json.loads(arrays["header"].tobytes())
    if damage == "array":
        del arrays["1/compliance"]
    if damage == "nan":
        arrays["0/mass"] = arrays["0/mass"] * np.nan
    if damage == "power":
        header["power"] = "four"
    if damage == "models":
        header["models"] = []
    if damage == "newer":
        header["version"] = 99
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    np.savez(path, **arrays)
    if damage == "cut":
        path.write_bytes(path.read_bytes()[:-200])
    with pytest.raises(supple.MechanismError, match=r"many.npz"):
        BlendedModel.load(path)


def test_nothing_is_pickled(tmp_path):
    supple.blend(helix_models(2)).save(tmp_path / "many.npz")
    with zipfile.ZipFile(tmp_path / "many.npz") as archive:
        for name in archive.namelist():
            assert b"'descr': '|O'" not in archive.read(name)[:200]
