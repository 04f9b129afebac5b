"""Recordings as files, and as glTF that other programs read."""

import json
import struct

import numpy as np
import pytest

import supple
from supple import spatial
from supple.mechanism import Shape
from supple.viewer.gltf import glb
from supple.viewer.recording import MAX_FRAMES, Recorder, Recording
from supple.viewer.side_by_side import side_by_side


def recorded(mech, frames=20, end_effectors=("tip",)):
    """The mechanism swinging, and its poses in double precision."""
    sim = supple.Simulation(mech, 5e-3)
    sim.apply(end_effectors[0], [20, 10, 5, 0, 0, 0])
    recorder, poses = Recorder(mech, "engine", end_effectors), []
    for _ in range(frames):
        recorder.take(sim.time, sim.poses.array)
        poses.append(sim.poses.array.copy())
        sim.step(8)
    return recorder.recording, np.array(poses)


def test_a_recording_reads_back_the_same(tmp_path):
    recording, poses = recorded(supple.library.helix())
    recording.save(tmp_path / "run.npz")
    back = Recording.load(tmp_path / "run.npz")
    assert back.mechanism == recording.mechanism
    assert (back.method, back.end_effectors) == ("engine", ("tip",))
    for name in ("times", "positions", "quats_wxyz"):
        assert (getattr(back, name) == getattr(recording, name)).all()
    for i in (0, 7, 19):
        np.testing.assert_allclose(back.at(back.times[i] + 1e-4), poses[i], atol=2e-6)
    assert back.duration == pytest.approx(19 * 0.04)


def test_neighbouring_quaternions_are_on_the_same_side():
    b = supple.Builder("wheel", gravity=(0, 0, 0))
    b.link("tip", (0, 0, 0), (1, 0, 0), mass=1.0)
    b.hinge("axle", "world", "tip", at=(0, 0, 0), axis="y")
    mech = b.build()
    recorder = Recorder(mech, "turning")
    for i in range(100):
        recorder.take(i / 30, supple.kinematics(mech, [0.2 * i]).poses.array)
    quats = recorder.recording.quats_wxyz
    assert ((quats[1:] * quats[:-1]).sum(axis=-1) > 0.9).all()


def test_frames_come_at_thirty_a_second_at_most():
    mech = supple.library.y()
    recorder = Recorder(mech, "none")
    for i in range(1000):
        recorder.take(i / 1000, mech.poses.array)
    assert 28 <= len(recorder) <= 30
    with pytest.raises(supple.MechanismError, match="nothing was recorded"):
        _ = Recorder(mech, "none").recording


def changed(recording, **fields):
    names = ("mechanism", "times", "positions", "quats_wxyz", "method", "end_effectors")
    return Recording(**({name: getattr(recording, name) for name in names} | fields))


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"times": np.zeros(20)}, "must increase"),
        ({"positions": np.zeros((20, 2, 3))}, "positions"),
        ({"quats_wxyz": np.zeros((20, 51, 4))}, "quats_wxyz|unit length"),
        ({"times": np.full(20, np.nan)}, "finite"),
        ({"times": np.zeros(0), "positions": np.zeros((0, 50, 3)), "quats_wxyz": np.zeros((0, 50, 4))}, "frames"),
    ],
)
def test_files_that_are_no_recordings_raise(fields, text):
    recording, _ = recorded(supple.library.helix())
    with pytest.raises(supple.MechanismError, match=text):
        changed(recording, **fields)
    assert MAX_FRAMES > 1000


def test_broken_files_raise(tmp_path):
    recording, _ = recorded(supple.library.y(), end_effectors=("left_tip",))
    path = tmp_path / "run.npz"
    recording.save(path)
    with pytest.raises(supple.MechanismError, match="no file"):
        Recording.load(tmp_path / "none.npz")
    (tmp_path / "text.npz").write_text("hello")
    with pytest.raises(supple.MechanismError, match="not a recording"):
        Recording.load(tmp_path / "text.npz")
    supple.reduce(supple.library.y(), ["left_tip"]).save(tmp_path / "model.npz")
    with pytest.raises(supple.MechanismError, match="not a recording"):
        Recording.load(tmp_path / "model.npz")
    with np.load(path) as archive:
        arrays = dict(archive)
    np.savez(tmp_path / "short.npz", **(arrays | {"positions": arrays["positions"][:3]}))
    with pytest.raises(supple.MechanismError, match="positions"):
        Recording.load(tmp_path / "short.npz")
    np.savez(tmp_path / "evil.npz", **(arrays | {"times": np.array([print], dtype=object)}))
    with pytest.raises(supple.MechanismError):
        Recording.load(tmp_path / "evil.npz")


# glTF


def parts(content):
    """JSON and binary of a .glb, by the letter of the specification."""
    magic, version, length = struct.unpack_from("<4sII", content)
    assert (magic, version, length) == (b"glTF", 2, len(content))
    size, kind = struct.unpack_from("<I4s", content, 12)
    assert kind == b"JSON"
    document = json.loads(content[20 : 20 + size])
    rest = 20 + size
    if rest == length:
        return document, b""
    more, kind = struct.unpack_from("<I4s", content, rest)
    assert kind == b"BIN\0"
    assert size % 4 == more % 4 == 0
    return document, content[rest + 8 : rest + 8 + more]


def values(document, binary, index):
    accessor = document["accessors"][index]
    view = document["bufferViews"][accessor["bufferView"]]
    width = {"SCALAR": 1, "VEC3": 3, "VEC4": 4}[accessor["type"]]
    kind = {5126: np.float32, 5125: np.uint32}[accessor["componentType"]]
    start = view["byteOffset"]
    return np.frombuffer(binary[start : start + view["byteLength"]], kind).reshape(accessor["count"], width)


def zoo():
    b = supple.Builder("zoo")
    b.mesh("tetra", [[0, 0, 0], [0.1, 0, 0], [0, 0.1, 0], [0, 0, 0.1]], [[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]])
    shapes = [Shape("box", [0.1, 0.05, 0.2], spatial.translation([0.1, 0, 0])), Shape("mesh", [], np.eye(4), "tetra")]
    b.body("tip", np.eye(4), mass=1.0, inertia=np.eye(3) * 0.01, shapes=shapes)
    b.bushing("mount", "world", "tip", at=(0, 0, 0), stiffness=100.0, damping=1.0)
    return b.build()


@pytest.mark.parametrize("make", [supple.library.helix, supple.library.ladder, zoo], ids=["helix", "ladder", "zoo"])
def test_gltf_read_by_trimesh_has_the_recorded_poses(make, tmp_path):
    """trimesh reads geometry and nodes; the animation, put onto its nodes, must give the recorded poses."""
    trimesh = pytest.importorskip("trimesh")
    mech = make()
    recording, poses = recorded(mech)
    content = glb(recording)
    (tmp_path / "run.glb").write_bytes(content)
    scene = trimesh.load(tmp_path / "run.glb")
    assert len(scene.geometry) > 0
    upright = np.array([[1.0, 0, 0, 0], [0, 0, 1, 0], [0, -1, 0, 0], [0, 0, 0, 1]])
    document, binary = parts(content)
    nodes = [node.get("name") for node in document["nodes"]]
    animation = document["animations"][0]
    times = values(document, binary, animation["samplers"][0]["input"])[:, 0]
    np.testing.assert_allclose(times, recording.times, atol=1e-6)
    for i in (0, 9, 19):
        for channel in animation["channels"]:
            target, sampler = channel["target"], animation["samplers"][channel["sampler"]]
            assert (sampler["interpolation"], sampler["input"]) == ("LINEAR", animation["samplers"][0]["input"])
            now = values(document, binary, sampler["output"])[i].astype(float)
            matrix = scene.graph.get(nodes[target["node"]], mech.name)[0].copy()
            if target["path"] == "translation":
                matrix[:3, 3] = now
            else:
                matrix[:3, :3] = trimesh.transformations.quaternion_matrix(np.roll(now, 1))[:3, :3]
            scene.graph.update(nodes[target["node"]], mech.name, matrix=matrix)
        for body, pose in zip(mech.bodies, poses[i], strict=True):
            np.testing.assert_allclose(scene.graph.get(body.name)[0], upright @ pose, atol=3e-6)


def test_gltf_has_the_size_of_the_mechanism(tmp_path):
    trimesh = pytest.importorskip("trimesh")
    recording, _ = recorded(zoo())
    (tmp_path / "run.glb").write_bytes(glb(recording))
    low, high = trimesh.load(tmp_path / "run.glb").bounds  # y up: z of ours
    assert high[1] == pytest.approx(0.2)
    assert high[0] == pytest.approx(0.2)
    assert low[1] == pytest.approx(-0.2)


def test_a_still_picture_has_no_animation():
    mech = supple.library.y()
    recorder = Recorder(mech, "none")
    recorder.take(0.0, mech.poses.array)
    document, _ = parts(glb(recorder.recording))
    assert "animations" not in document
    for accessor in document["accessors"]:
        assert accessor["count"] > 0
    unit = [np.linalg.norm(node["rotation"]) for node in document["nodes"] if "rotation" in node]
    np.testing.assert_allclose(unit, 1.0, atol=1e-9)


def test_recordings_side_by_side(tmp_path):
    """Loops stay closed, and nothing but the offset and the names changes."""
    build = supple.Builder("geared")
    for i, name in enumerate(("left", "right")):
        build.link(name, (0.5 * i, 0, 0), (0.5 * i, 0, 0.4), mass=1.0)
        build.hinge(f"{name} pivot", "world", name, at=(0.5 * i, 0, 0), axis="y", stiffness=5.0)
    build.link("bar", (0, 0, 0.4), (0.5, 0, 0.4), mass=0.5)
    build.hinge("a", "left", "bar", at=(0, 0, 0.4), axis="y")
    build.hinge("b", "right", "bar", at=(0.5, 0, 0.4), axis="y")
    build.couple("spring", {"left pivot": 1.0, "right pivot": 1.0}, stiffness=2.0)
    build.site("tip", "bar", at=(0.25, 0, 0.4))
    build.site("nail", "world", at=(0, 0, 1))
    mech = build.build()
    recording, poses = recorded(mech)
    both = side_by_side({"one": recording, "other": recording})
    both.save(tmp_path / "both.npz")
    both = Recording.load(tmp_path / "both.npz")
    assert [body.name for body in both.mechanism.bodies][::3] == ["one left", "other left"]
    assert [len(both.mechanism.topology.loops), len(both.mechanism.couplings)] == [2, 2]
    last, n = both.at(both.times[-1]), len(mech.bodies)
    np.testing.assert_allclose(last.array[:n], poses[-1], atol=2e-6)
    shift = last.array[n:, :3, 3] - last.array[:n, :3, 3]
    np.testing.assert_allclose(shift, np.tile(shift[0], (n, 1)), atol=1e-6)
    assert shift[0, 1] > 0.05  # it moves in the plane of x and z, so that y needs less space
    assert [site.name for site in both.mechanism.sites] == ["one tip", "one nail", "other tip", "other nail"]
    np.testing.assert_allclose(last["other nail"][:3, 3] - last["one nail"][:3, 3], shift[0], atol=1e-6)
    short, _ = recorded(mech, frames=3)
    with pytest.raises(supple.MechanismError, match="same times"):
        side_by_side({"one": recording, "other": short})
