"""Zones as files, and the commands `supple zone` and `supple probe`."""

import json
import zipfile

import numpy as np
import pytest

from supple import MechanismError, zones


@pytest.fixture(autouse=True)
def cache_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("SUPPLE_CACHE", str(tmp_path / "cache"))


def small_zone():
    solid = zones.block((0.01, 0.01, 0.005), (2, 2, 2))
    return zones.Zone.from_solid(solid, bone="bottom", seam="left", touch="top")


def test_a_zone_is_read_as_it_was_saved(tmp_path):
    zone = small_zone()
    zone.save(tmp_path / "zone.npz")
    same = zones.load(tmp_path / "zone.npz")
    assert same.material == zone.material
    assert list(same.bones) == ["bone"]
    for name in ("stiffness", "motion", "compliance"):
        np.testing.assert_array_equal(getattr(same.greens, name), getattr(zone.greens, name))
    for name in ("nodes", "seam", "touch"):
        np.testing.assert_array_equal(getattr(same, name), getattr(zone, name))
    np.testing.assert_array_equal(same.solid.groups["right"], zone.solid.groups["right"])


def test_damaged_files_are_refused(tmp_path):
    file = tmp_path / "zone.npz"
    with pytest.raises(MechanismError, match="no file"):
        zones.load(file)
    small_zone().save(file)
    whole = file.read_bytes()
    for damage in (b"", whole[: len(whole) // 2], whole[:200] + bytes(50) + whole[250:]):
        file.write_bytes(damage)
        with pytest.raises(MechanismError, match=r"zone\.npz"):
            zones.load(file)
    arrays = dict(np.load(_written(file, whole)))
    for name, value in {
        "touch": np.array([10**6]),
        "greens/motion": np.full_like(arrays["greens/motion"], np.nan),
        "greens/stiffness": np.zeros((2, 2)),
        "header": np.frombuffer(json.dumps({"format": "other"}).encode(), dtype=np.uint8),
    }.items():
        np.savez(file, **(arrays | {name: value}))
        with pytest.raises(MechanismError, match=r"zone\.npz"):
            zones.load(file)
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("header.npy", b"nonsense")
    with pytest.raises(MechanismError, match="damaged"):
        zones.load(file)
    given = zones.Zone.from_compliance(np.zeros((1, 3)), [[0, 0, 1]], [1e-6], np.eye(3))
    with pytest.raises(MechanismError, match="zones of a mesh"):
        given.save(file)


def _written(file, content):
    file.write_bytes(content)
    return file


def test_the_command_zone(run, tmp_path):
    meshio = pytest.importorskip("meshio")
    solid = zones.block((0.01, 0.01, 0.005), (2, 2, 2))
    meshio.Mesh(1e3 * solid.nodes, [("hexahedron", solid.cells)]).write(tmp_path / "block.vtu")
    args = ("--scale", "1e-3", "--young", "2e5", "--poisson", "0.4", "-o", "block.npz")
    result = run("zone", str(tmp_path / "block.vtu"), "--bone", "below:-0.0049", *args, "--json")
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    zone = zones.load(tmp_path / "block.npz")
    assert (found["bone"], found["touch"]) == (9, len(zone.touch)) == (9, 17)
    assert zone.material.young == 2e5
    boxed = run("zone", str(tmp_path / "block.vtu"), "--bone", "box:0,0,-0.005,0.006,0.006,0.0001", *args)
    assert "the bone holds 9" in boxed.stdout
    for bone, message in (("cone:1", "is no region"), ("box:1,2", "needs 6 numbers"), ("bone", "no group 'bone'")):
        wrong = run("zone", str(tmp_path / "block.vtu"), "--bone", bone, *args)
        assert wrong.exit_code == 1
        assert message in wrong.stderr


def test_the_command_probe(run, monkeypatch):
    from supple.zones import finger, probe_run

    monkeypatch.setattr(probe_run, "finger", lambda: finger(cells=(6, 8, 2)))
    monkeypatch.setattr(probe_run, "POINTS", 30)
    result = run("probe", "finger", "--time", "0.2", "--json")
    assert result.exit_code == 0, result.stderr
    found = json.loads(result.stdout)
    assert found["ticks"] > 0
    assert found["poses"] > 0
    assert "nothing named 'thumb'" in run("probe", "thumb").stderr
    assert "must be positive" in run("probe", "finger", "--time", "0").stderr
