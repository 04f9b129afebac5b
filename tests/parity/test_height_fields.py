"""Height fields from MJCF against MuJoCo's own rays, and back into files."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import mujoco
import numpy as np
import pytest

import mujoco_reference as reference
import supple
from supple.mechanism.shapes import HeightField

HEIGHTS = np.random.default_rng(8).integers(0, 255, (6, 9))
BALL = '<body name="ball" pos="0 0 3"><freejoint/><geom size=".1"/></body>'


def picture(path: Path, values: np.ndarray) -> None:
    """A grey PNG of 8 bits."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows, columns = values.shape
    raw = b"".join(b"\0" + bytes(row.astype(np.uint8)) for row in values)
    head = struct.pack(">IIBBBBB", columns, rows, 8, 0, 0, 0, 0)
    path.write_bytes(
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b"")
    )


def written(folder: Path, form: str) -> Path:
    """A model with heights in its text, in a picture, or in a file of MuJoCo's format."""
    if form == "text":
        given = f'nrow="6" ncol="9" elevation="{" ".join(map(str, HEIGHTS.ravel()))}"'
    elif form == "picture":
        picture(folder / "hills.png", HEIGHTS)
        given = 'file="hills.png"'
    else:
        heights = HEIGHTS.astype(np.float32)
        (folder / "hills.hf").write_bytes(struct.pack("<ii", *heights.shape) + heights.tobytes())
        given = 'file="hills.hf"'
    path = folder / "model.xml"
    path.write_text(
        f'<mujoco><asset><hfield name="hills" size="2 1.5 0.4 0.1" {given}/></asset><worldbody>{BALL}'
        '<body name="table" pos=".1 .2 .3" euler="0 0 30"><geom name="ground" type="hfield" hfield="hills" pos="0 .1 0"'
        ' friction=".7 0 0"/></body></worldbody></mujoco>'
    )
    return path


def rays(model: mujoco.MjModel, places: np.ndarray) -> np.ndarray:
    """Heights of the world below points (n, 2), by MuJoCo."""
    data, nobody = mujoco.MjData(model), model.body("ball").id
    mujoco.mj_forward(model, data)
    down, geom = np.array([0.0, 0, -1]), np.zeros(1, dtype=np.int32)
    found = [
        mujoco.mj_ray(model, data, np.array([*place, 5.0]), down, None, 1, nobody, geom, None) for place in places
    ]
    return 5.0 - np.array(found)


def heights(field: HeightField, places: np.ndarray) -> np.ndarray:
    local = (np.c_[places, np.zeros(len(places))] - field.pose[:3, 3]) @ field.pose[:3, :3]
    return field.pose[2, 3] + np.array([field.height(x, y) for x, y, _ in local])


@pytest.mark.parametrize("form", ["text", "picture", "file"])
def test_height_fields_agree_with_mujoco(form, tmp_path):
    path = written(tmp_path, form)
    mech = reference.load_quietly(path)
    assert [f.name for f in mech.height_fields] == ["ground"]
    places = np.random.default_rng(1).uniform(-0.8, 0.8, (60, 2))
    truth = rays(mujoco.MjModel.from_xml_path(str(path)), places)
    assert np.ptp(truth) > 0.1
    np.testing.assert_allclose(heights(mech.height_fields[0], places), truth, atol=1e-6)


def test_height_fields_round_trip(tmp_path):
    mech = reference.load_quietly(written(tmp_path, "text"))
    places = np.random.default_rng(2).uniform(-0.8, 0.8, (40, 2))
    truth = heights(mech.height_fields[0], places)
    for name, exactly in (("again.xml", 1e-6), ("again.json", 0.0)):
        mech.save(tmp_path / name)
        (field,) = reference.load_quietly(tmp_path / name).height_fields
        np.testing.assert_allclose(heights(field, places), truth, atol=exactly)
        assert (field.name, field.friction[0]) == ("ground", 0.7)
    written_again = mujoco.MjModel.from_xml_path(str(tmp_path / "again.xml"))
    np.testing.assert_allclose(rays(written_again, places), truth, atol=1e-6)


def test_a_ball_comes_to_rest_on_an_imported_height_field(tmp_path):
    mech = reference.load_quietly(written(tmp_path, "text"))
    world = supple.World()
    sim = supple.Simulation(mech, 1e-3)
    world.add(sim)
    world.step(2000)
    place = sim.poses["ball"][:3, 3]
    assert place[2] < 1.0
    touching = [c for c in world.contacts if "ground" in (c.first, c.second)]
    assert touching
    assert min(c.gap for c in touching) > -1e-6
    surface = heights(mech.height_fields[0], place[None, :2])[0]
    assert 0.05 < place[2] - surface < 0.2


BAD = {
    "of 2000 x 2000": ('nrow="2000" ncol="2000"', "2000 x 2000 heights are more than 1000000"),
    "of one row": ('nrow="1" ncol="5"', "at least 2 rows and 2 columns"),
    "of words": ('nrow="many" ncol="5"', "at least 2 rows and 2 columns"),
    "of another format": ('file="notes.txt"', "the file 'notes.txt' must give at least 2 rows"),
    "of no picture": ('file="fake.png"', "the file 'fake.png' must give at least 2 rows"),
    "that is missing": ('file="none.png"', "needs the file 'none.png'"),
}


@pytest.mark.parametrize(("given", "message"), BAD.values(), ids=BAD)
def test_bad_height_fields_raise(given, message, tmp_path):
    (tmp_path / "notes.txt").write_text("no heights here")
    (tmp_path / "fake.png").write_bytes(b"GIF89a, not a picture of this kind")
    path = tmp_path / "model.xml"
    path.write_text(
        f'<mujoco><asset><hfield name="f" size="1 1 1 1" {given}/></asset><worldbody>{BALL}</worldbody></mujoco>'
    )
    with pytest.raises(supple.MechanismError, match=message):
        supple.load(path)
