"""Files of reduced models: round trips, and errors for damaged files."""

from __future__ import annotations

import json
import zipfile

import numpy as np
import pytest

import supple
from small_mechanisms import satellite, with_motor


@pytest.fixture
def saved(tmp_path):
    mech = with_motor()
    eq = supple.equilibrium(mech, {"link3": [0.1, 0.5, 1.0, 0, 0, 0]}, targets={"motor": 0.05})
    model = supple.reduce(mech, ["link3", "link1"], at=eq, modes=0)
    path = tmp_path / "model.npz"
    model.save(path)
    return model, path


def rewritten(path, **changes):
    """The same file with some entries replaced, or left out where None."""
    with np.load(path) as archive:
        arrays = {name: archive[name] for name in archive.files} | changes
    np.savez(path, **{name: value for name, value in arrays.items() if value is not None})


def test_a_model_round_trips(saved):
    model, path = saved
    again = supple.ReducedModel.load(path)
    sims = []
    for each in (model, again):
        sim = supple.ReducedSimulation(each, 1e-3)
        sim.set_target("motor", 0.1)
        sim.set_target("tendon", 0.1)
        sim.step(100)
        sims.append(sim)
    np.testing.assert_array_equal(sims[0].poses.array, sims[1].poses.array)
    np.testing.assert_array_equal(sims[0].displacement, sims[1].displacement)
    assert np.abs(sims[0].displacement).max() > 1e-4
    assert again.mechanism == model.mechanism
    assert (again.rank, again.modes, again.method, again.mass_kind) == (model.rank, 0, "projection", "consistent")
    with zipfile.ZipFile(path) as archive:
        assert not any(b"pickle" in archive.read(name) for name in archive.namelist())


def test_a_floating_model_with_modes_round_trips(tmp_path):
    model = supple.reduce(satellite(), ["boom3"], modes=0)
    model.save(tmp_path / "m.npz")
    again = supple.ReducedModel.load(str(tmp_path / "m.npz"))
    assert again.free_base == "hull"
    np.testing.assert_array_equal(again.stiffness, model.stiffness)


def refused(path, *words):
    with pytest.raises(supple.MechanismError) as error:
        supple.ReducedModel.load(path)
    for word in (str(path), *words):
        assert word in str(error.value), error.value


def test_saving_where_there_is_no_folder(tmp_path):
    with pytest.raises(supple.MechanismError, match="cannot write the file"):
        supple.reduce(supple.library.y(), ["left_tip"]).save(tmp_path / "missing" / "tip.npz")


def test_missing_and_foreign_files(tmp_path):
    refused(tmp_path / "none.npz", "no file")
    refused(tmp_path)
    text = tmp_path / "text.npz"
    text.write_text("not a zip")
    refused(text)
    text.write_bytes(b"")
    refused(text)
    np.savez(tmp_path / "foreign.npz", a=np.zeros(3))
    refused(tmp_path / "foreign.npz", "not a reduced model")
    np.savez(tmp_path / "foreign.npz", header=np.frombuffer(b'{"format": "else", "version": 1}', np.uint8))
    refused(tmp_path / "foreign.npz", "not a reduced model")
    np.savez(tmp_path / "foreign.npz", header=np.frombuffer(b"[[[[", np.uint8))
    refused(tmp_path / "foreign.npz", "not a reduced model")
    np.save(tmp_path / "array.npy", np.zeros(3))
    refused(tmp_path / "array.npy")


@pytest.mark.parametrize("kind", [supple.ReducedModel, supple.reduced.BlendedModel])
def test_condensed_models_of_earlier_versions(kind, tmp_path):
    path = tmp_path / "old.npz"
    np.savez(path, header=np.frombuffer(b'{"format": "supple-condensed-model", "version": 1}', np.uint8))
    with pytest.raises(supple.MechanismError, match=r"old.npz is a condensed model of an earlier version.*hold="):
        kind.load(path)


def test_pickled_arrays_raise(saved, tmp_path):
    _, path = saved
    rewritten(path, mass=np.array([{"a": 1}], dtype=object))
    refused(path)


def test_truncated_and_flipped_files(saved):
    """Every cut and every changed byte is found, or harmless; nothing else is ever raised."""
    model, path = saved
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    refusals = []
    for i in range(200):
        data = bytearray(whole)
        if i % 2:
            data = data[: rng.integers(len(data))]
        else:
            data[rng.integers(len(data))] ^= int(rng.integers(1, 256))
        path.write_bytes(data)
        try:
            again = supple.ReducedModel.load(path)
        except supple.MechanismError as error:
            refusals.append(str(error))
        else:
            np.testing.assert_array_equal(again.mass, model.mass)
    assert len(refusals) > 150
    assert all(str(path) in text for text in refusals)


def test_files_of_a_newer_version(saved):
    _, path = saved
    with np.load(path) as archive:
        header = json.loads(archive["header"].tobytes())
    header["version"] += 1
    rewritten(path, header=np.frombuffer(json.dumps(header).encode(), np.uint8))
    refused(path, "newer", "update")


@pytest.mark.parametrize(
    "change",
    [
        {"mass": np.full((12, 12), np.nan)},
        {"compliance": np.zeros((12, 11))},
        {"basis": np.zeros((12, 12))},
        {"q": np.zeros(3)},
        {"twist_map": np.zeros((5, 6, 12))},
        {"poses": np.zeros((3, 4, 4))},
        {"stiffness": np.zeros((12, 12), dtype=np.float32)},
        {"stiffness": np.zeros((12, 12), dtype="U3")},
        {"coordinate_map": None},
        {"mechanism": None},
        {"mechanism": np.frombuffer(b"{}", np.uint8)},
        {"at_q": np.full(4, np.inf)},
        {"at_q": np.zeros(2)},
        {"at_reactions": np.zeros((1, 6))},
        {"at_rows": None},
        {"header": {"end_effectors": ["link3", "nobody"]}},
        {"header": {"end_effectors": ["link3", "link3"]}},
        {"header": {"end_effectors": 4}},
        {"header": {"rank": "three"}},
        {"header": {"rank": -2}},
        {"header": {"modes": 1}},
        {"header": {"loads": [{"name": "link3", "body": 77, "world": True, "point": [0, 0, 0], "wrench": [0] * 6}]}},
        {"header": {"loads": [{"name": "link3"}]}},
        {"header": {"targets": 3}},
    ],
)
def test_damaged_contents(saved, change):
    _, path = saved
    if "header" in change:
        with np.load(path) as archive:
            header = json.loads(archive["header"].tobytes()) | change["header"]
        change = {"header": np.frombuffer(json.dumps(header).encode(), np.uint8)}
    rewritten(path, **change)
    refused(path)
