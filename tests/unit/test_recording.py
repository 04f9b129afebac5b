"""Recordings: frames of simulations and worlds in one file, also after a crash; glTF that other programs read."""

import io
import json
import os
import signal
import struct
import subprocess
import sys
import tracemalloc
import warnings
import zipfile

import numpy as np
import pytest

import supple
from supple import spatial
from supple.contact.pads import Pad
from supple.errors import RecordingWarning
from supple.mechanism import Shape
from supple.recording import FrameWriter, Recording, recorder
from supple.recording.archive import Archive, ArchiveWriter
from supple.recording.observing import Schedule
from supple.viewer.gltf import glb
from supple.viewer.side_by_side import side_by_side
from supple.world.objects import rigid_object


def recorded(mech, frames=20, tip="tip", path=None):
    """A recording of the mechanism swinging, 25 frames per second, and its poses."""
    sim, poses = supple.Simulation(mech, 5e-3), []
    sim.apply(tip, [20, 10, 5, 0, 0, 0])
    with sim.record(path, rate=25) as own:
        for k in range(frames):
            poses.append(sim.poses.array.copy())
            sim.step(8 if k < frames - 1 else 0)
    return own.recording, np.array(poses)


@pytest.fixture(scope="module")
def helix():
    return recorded(supple.library.helix())


def test_a_recording_reads_back_the_same(helix, tmp_path):
    recording, poses = helix
    recording.save(tmp_path / "run.npz")
    back = Recording.load(tmp_path / "run.npz")
    assert back.complete
    assert back.mechanism == recording.mechanism
    assert (back.method, back.rate, len(back)) == ("engine", 25.0, 20)
    for name in ("positions", "quats_wxyz", "velocities", "q", "qd", "energy"):
        assert (getattr(back, name) == getattr(recording, name)).all()
        assert back[name].dtype == np.float64
    for i in (0, 7, 19):
        np.testing.assert_allclose(back.at(back.times[i] + 1e-4), poses[i], atol=1e-14)
    assert back.duration == pytest.approx(19 * 0.04)
    assert "helix" in repr(back)
    with np.load(tmp_path / "run.npz") as plain:  # an ordinary file of NumPy, without pickle
        assert (plain["frames/000000"]["q"] == back.q).all()
    with pytest.raises(supple.MechanismError, match="it has positions, quats_wxyz"):
        back["tension"]


def test_a_recording_has_the_state_of_the_simulation():
    sim = supple.Simulation(supple.library.robot_arm(), 2e-3)
    sim.apply("tip", [0, 20, 0, 0, 0, 0])
    with sim.record(rate=100) as own:
        sim.step(100)
    last = own.recording
    assert (last.q[-1] == sim.q).all()
    assert (last.qd[-1] == sim.qd).all()
    assert (last.velocities[-1] == sim.velocities).all()
    assert last.energy[-1].sum() == pytest.approx(sim.energy.total)
    assert last.times[-1] == sim.time
    assert len(last) == 21


@pytest.mark.parametrize("kind", ["linear", "blended"])
def test_reduced_simulations_are_recorded(kind, tmp_path):
    mech = supple.library.robot_arm()
    model = supple.reduce(mech, ["tip"])
    sim = supple.ReducedSimulation(model if kind == "linear" else supple.blend([model]), 2e-3)
    with sim.record(tmp_path / "run.npz", rate=50):
        sim.apply("tip", [0, 5, 0, 0, 0, 0])
        sim.step(50)
    recording = Recording.load(tmp_path / "run.npz")
    assert (recording.method, len(recording)) == (kind, 6)
    np.testing.assert_allclose(recording.at(9.0), sim.poses, atol=1e-14)
    assert (recording.q[-1] == sim.q).all()


@pytest.mark.parametrize(("rate", "dt", "steps"), [(30, 2e-3, 500), (7.7, 1e-3, 3000), (5000, 1e-3, 40)])
def test_any_rate(rate, dt, steps):
    """A frame at the first step at or after each multiple of 1/rate, however the steps are grouped."""
    for group in (1, 7, steps):
        schedule, made, taken = Schedule(rate, dt), 0, []
        while made < steps:
            n = min(group, schedule.steps_ahead(), steps - made)
            made += n
            if schedule.after_steps(n):
                taken.append(made)
        each = min(rate * dt, 1.0)
        np.testing.assert_array_equal(taken, np.ceil(np.arange(1, each * steps + 1e-6) / each - 1e-6))


def test_the_state_at_the_end_is_a_frame_and_the_simulation_goes_on(tmp_path):
    sim = supple.Simulation(supple.library.y(), 2e-3)
    own = sim.record(tmp_path / "run.npz", rate=10)
    sim.step(70)
    own.close()
    own.close()
    sim.step(100)
    assert not sim.observers
    np.testing.assert_allclose(Recording.load(tmp_path / "run.npz").times, [0, 0.1, 0.14], atol=1e-12)


def test_after_a_reset_a_recording_goes_on():
    sim = supple.Simulation(supple.library.y(), 2e-3)
    with sim.record(rate=50) as own:
        sim.step(20)
        sim.reset()
        sim.step(20)
    times = own.recording.times
    assert (np.diff(times) > 0).all()
    assert np.diff(times).max() < 0.05


def test_neighbouring_quaternions_are_on_the_same_side():
    b = supple.Builder("wheel", gravity=(0, 0, 0))
    b.link("tip", (0, 0, 0), (1, 0, 0), mass=1.0)
    b.hinge("axle", "world", "tip", at=(0, 0, 0), axis="y")
    mech = b.build()
    writer = FrameWriter(mech, "turning")
    for i in range(100):
        writer.take(i / 30, supple.kinematics(mech, [0.2 * i]).poses)
    quats = writer.recording.quats_wxyz
    assert ((quats[1:] * quats[:-1]).sum(axis=-1) > 0.9).all()
    with pytest.raises(supple.MechanismError, match="nothing was recorded"):
        _ = FrameWriter(mech, "none").recording


# worlds


@pytest.fixture(scope="module")
def pushed():
    """A block with a soft pad that falls on the floor beside a robot arm, and its recording."""
    n = 4
    points = np.stack([*np.meshgrid([-0.05, 0.05], [-0.05, 0.05]), np.full((2, 2), -0.06)], axis=-1).reshape(-1, 3)
    pad = Pad(points, np.tile([0.0, 0, -1], (n, 1)), np.full(n, 1e-3), 1e-5 * np.eye(3 * n), [[0, 1, 2], [1, 3, 2]])
    world = supple.World(dt=2e-3)
    arm = supple.Simulation(supple.library.robot_arm(), 2e-3)
    world.add(arm, "arm")
    world.ground(Shape("plane", (0, 0, 1), np.eye(4), name="floor"))
    world.add(rigid_object("block", "box", (0.05, 0.05, 0.05), 1.0, (0, 2.0, 0.065)))
    world.cover("block", pad)
    with world.record(rate=100) as own:
        world.step(100)
    return world, own.recording


def test_a_world_is_recorded_with_contacts_and_pads(pushed, tmp_path):
    world, recording = pushed
    recording.save(tmp_path / "run.npz")
    back = Recording.load(tmp_path / "run.npz")
    assert [body.name for body in back.mechanism.bodies][-1] == "block"
    np.testing.assert_allclose(back.at(9.0), world.poses, atol=1e-13)
    contacts, now = back.contacts(9.0), world.contacts
    assert len(contacts) == len(now) > 0
    for own, live in zip(contacts, now, strict=True):
        assert (own.first, own.second, own.gap) == (live.first, live.second, live.gap)
        assert (own.force == live.force).all()
        assert (own.point == live.point).all()
    assert not back.contacts(0.0)
    touch = world.touch("block")
    shown = (touch.pad.points + touch.displacements) @ touch.pose[:3, :3].T + touch.pose[:3, 3]
    assert back.surfaces[0].name == "pad of block"
    np.testing.assert_allclose(back.vertices("pad of block", 9.0), shown, atol=1e-12)
    assert np.abs(touch.displacements).max() > 1e-6
    with pytest.raises(supple.MechanismError, match="did you mean 'pad of block'"):
        back.vertices("pad of black", 0.0)


def test_gltf_has_the_pads_as_morph_targets(pushed):
    _, recording = pushed
    document, binary = parts(glb(recording))
    node = next(i for i, node in enumerate(document["nodes"]) if node.get("name") == "pad of block")
    primitive = document["meshes"][document["nodes"][node]["mesh"]]["primitives"][0]
    vertices = values(document, binary, primitive["attributes"]["POSITION"]).astype(float)
    targets = [values(document, binary, target["POSITION"]) for target in primitive["targets"]]
    animation = document["animations"][0]
    channel = next(c for c in animation["channels"] if c["target"] == {"node": node, "path": "weights"})
    weights = values(document, binary, animation["samplers"][channel["sampler"]]["output"]).reshape(-1, len(targets))
    shown = vertices + np.einsum("k,kvi->vi", weights[-1], targets)
    np.testing.assert_allclose(shown, recording["surface 0"][-1], atol=1e-6)


def test_a_mechanism_in_a_world_is_recorded_and_logged_by_itself():
    world, sim = supple.World(), supple.Simulation(supple.library.y(), 1e-3)
    world.add(sim, "y")
    with sim.record(rate=100) as own:
        log = sim.log(["energy"], rate=100)
        world.step(50)
    assert len(own.recording) == len(log) == 6


def test_a_world_that_gains_a_body_needs_another_recording():
    world = supple.World()
    world.add(supple.Simulation(supple.library.y(), 1e-3), "y")
    world.record()
    world.add(rigid_object("ball", "sphere", (0.05,), 1.0, (3, 0, 3)))
    with pytest.raises(supple.MechanismError, match="other bodies than when its recording began"):
        world.step(100)
    world.step(100)


def test_the_skin_of_a_finger_is_recorded():
    finger = supple.zones.finger(cells=(4, 4, 1), halfway=False)
    sim = supple.Simulation(finger.mechanism, 2e-3)
    sim.apply("distal", [0, 0, 0.5, 0, 0, 0])
    with sim.record(rate=50, skin=finger.skin) as own:
        sim.step(20)
    recording = own.recording
    exact = finger.skin.at(sim.poses).solve().vertices
    np.testing.assert_allclose(recording.vertices("skin", 9.0), exact, atol=1e-7)
    assert np.ptp(recording["surface 0"], axis=0).max() > 1e-6


# files that lack something

KILLED = """
import sys, supple
sim = supple.Simulation(supple.library.y(), 1e-3)
sim.record(sys.argv[1], rate=200)
while True:
    sim.step(100)
    print(sim.time, flush=True)
"""


def written_times(path):
    """Times of each part of a file that is being written."""
    with open(path, "rb") as file:
        archive = Archive(file, "")
        return [archive.read(entry) for entry in archive.entries if entry.name.startswith("times/")]


def test_a_killed_program_leaves_a_recording_up_to_its_last_second(tmp_path):
    path = tmp_path / "run.npz"
    process = subprocess.Popen([sys.executable, "-c", KILLED, path], stdout=subprocess.PIPE, text=True)
    size = 0
    while process.poll() is None and size < 2:  # two chunks, each of a second of computing
        line = process.stdout.readline()
        size = len(written_times(path))
    reached = float(line)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    with pytest.warns(RecordingWarning, match="lacks its end.* it is read up to"):
        recording = Recording.load(path)
    assert not recording.complete
    assert recording.times[-1] >= reached - 0.1 - 1e-9  # the chunk had just been written
    np.testing.assert_allclose(np.diff(recording.times), 5e-3, atol=1e-9)
    recording.save(tmp_path / "whole.npz")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Recording.load(tmp_path / "whole.npz").complete


def test_frames_are_written_after_a_second_of_computing(tmp_path, monkeypatch):
    mech, now = supple.library.y(), [0.0]
    writer = FrameWriter(mech, "none", tmp_path / "run.npz", clock=lambda: now[0])
    for i in range(50):
        now[0] += 0.11
        writer.take(i / 30, mech.poses)
        assert i + 1 - sum(map(len, written_times(tmp_path / "run.npz"))) <= 10


def test_a_file_without_its_mechanism_says_so(tmp_path):
    sim = supple.Simulation(supple.library.robot_arm(3), 1e-2)
    with sim.record(tmp_path / "run.npz") as recorder:
        sim.step(5)
    content = (tmp_path / "run.npz").read_bytes()
    second = content.index(b"PK\3\4", 4)  # after the header
    (tmp_path / "cut.npz").write_bytes(content[: second + 100])
    with pytest.raises(supple.MechanismError, match="cut off before its mechanism was complete"):
        Recording.load(tmp_path / "cut.npz")
    assert len(recorder.recording) > 1


def test_a_file_that_is_cut_anywhere_is_read_or_refused(tmp_path):
    mech = supple.library.y()
    writer = FrameWriter(mech, "none", tmp_path / "run.npz", clock=iter(range(1000)).__next__)
    for i in range(6):
        writer.take(i / 30, mech.poses)
    writer.close()
    content = (tmp_path / "run.npz").read_bytes()
    seen = set()
    for end in np.linspace(0, len(content) - 1, 25).astype(int):
        (tmp_path / "cut.npz").write_bytes(content[:end])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RecordingWarning)
            try:
                seen.add(len(Recording.load(tmp_path / "cut.npz")))
            except supple.MechanismError as error:
                assert "cut.npz" in str(error)  # noqa: PT017
                seen.add(0)
    assert seen >= {0, 6}
    assert len(seen) >= 4


def test_damaged_and_foreign_files_raise(tmp_path, helix):
    path = tmp_path / "run.npz"
    helix[0].save(path)
    content = bytearray(path.read_bytes())

    def refused(text, data=None, name="bad.npz"):
        if data is not None:
            (tmp_path / name).write_bytes(data)
        with pytest.raises(supple.MechanismError, match=text):
            Recording.load(tmp_path / name, complete=False).at(0.3)

    refused("no file", name="none.npz")
    refused("not a recording, or is damaged", b"hello")
    refused("not a recording, or is damaged", b"")
    flipped = content.copy()
    flipped[content.index(b"frames/000000") + 5000] ^= 1
    refused("entry 'frames/000000': its checksum is wrong", flipped)
    supple.reduce(supple.library.y(), ["left_tip"]).save(tmp_path / "model.npz")
    refused("not a recording but a reduced model; make one with sim.record", name="model.npz")
    header = json.loads(Archive(io.BytesIO(content), "").read(Archive(io.BytesIO(content), "").entries[0]).tobytes())
    archive = Archive(io.BytesIO(content), "run.npz")
    arrays = {entry.name: archive.read(entry) for entry in archive.entries}

    def with_arrays(**changes):
        file = io.BytesIO()
        writer = ArchiveWriter(file, "")
        writer.append({name.replace("__", "/"): each for name, each in (arrays | changes).items()})
        return file.getvalue()

    def with_header(**changes):
        return with_arrays(header=np.frombuffer(json.dumps(header | changes).encode(), dtype=np.uint8))

    refused("by a newer supple .version 3; this one reads 2.; update supple", with_header(version=3))
    refused("by an earlier supple .version 1; this one reads 2.; record it again", with_header(version=1))
    refused("its q do not fit the mechanism", with_header(fields=header["fields"] | {"q": [2]}))
    refused("is damaged", with_header(fields={"q": ["many"]}))
    refused("is damaged", with_header(surfaces=[{"name": "a", "body": "no such body"}]))
    refused("times do not increase", with_arrays(**{"times__000000": np.zeros(20)}))
    arrays["times/000000"] = arrays["times/000000"].copy()
    frames = arrays["frames/000000"].copy()
    frames["q"][3, 0] = np.nan
    refused("numbers that are not finite", with_arrays(**{"frames__000000": frames}))
    refused("wrong type or size", with_arrays(**{"frames__000000": frames[:3]}))
    frames = arrays["frames/000000"].copy()
    frames["quats_wxyz"] *= 2
    refused("unit length", with_arrays(**{"frames__000000": frames}))
    with pytest.raises(ValueError, match="Object arrays"):
        with_arrays(mechanism=np.array([print], dtype=object))


def test_a_full_disk_ends_the_recording_and_not_the_simulation(tmp_path):
    """The file keeps what was written; the simulation goes on; `close` tries again."""
    sim, reference = (supple.Simulation(supple.library.y(), 1e-3) for _ in range(2))
    own = sim.record(tmp_path / "run.npz", rate=100)
    sim.step(50)
    own._writer.write()
    archive = own._writer._archive

    class Full:
        """The file on a disk that has space for 100 bytes."""

        def __init__(self, file):
            self.file, self.left = file, 100

        def write(self, data):
            if self.left == 0:
                raise OSError(28, "No space left on device")
            n = self.file.write(data[: self.left])
            self.left -= n
            return n

        def __getattr__(self, name):
            return getattr(self.file, name)

    real, archive.file = archive.file, Full(archive.file)
    sim.step(50)
    own._writer._written = -np.inf  # a second has passed
    with pytest.raises(supple.MechanismError, match=r"run.npz: cannot write: No space left on device; make space"):
        sim.step(50)
    assert sim.observers == []
    assert len(Recording.load(tmp_path / "run.npz", complete=False)) == 6
    sim.step(150 - round(sim.time / 1e-3))
    reference.step(150)
    assert (sim.q == reference.q).all()
    with pytest.raises(supple.MechanismError, match="No space left"):
        own.close()
    archive.file = real  # space was made
    own.close()
    np.testing.assert_allclose(Recording.load(tmp_path / "run.npz").times[:12], np.arange(12) / 100, atol=1e-9)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_device_without_space_is_refused_at_once():
    with pytest.raises(supple.MechanismError, match="/dev/full: cannot write: No space left on device"):
        supple.Simulation(supple.library.y(), 1e-3).record("/dev/full")


@pytest.mark.parametrize(("path", "rate", "text"), [("no/folder.npz", 30, "check its name"), (None, 0, "positive")])
def test_recordings_that_cannot_begin(path, rate, text):
    sim = supple.Simulation(supple.library.y(), 1e-3)
    with pytest.raises(supple.MechanismError, match=text):
        sim.record(path, rate)
    assert sim.observers == []


def test_memory_does_not_grow_with_the_recording(tmp_path, monkeypatch):
    """Many chunks: only the zip directory grows, by less than 200 bytes for each chunk."""
    monkeypatch.setattr(recorder, "CHUNK_BYTES", 4_000)
    mech = supple.library.y()
    writer = FrameWriter(mech, "none", tmp_path / "run.npz")
    poses, kept = mech.poses, []
    tracemalloc.start()
    for i in range(900):
        writer.take(i / 30, poses)
        if i % 300 == 299:
            kept.append((tracemalloc.get_traced_memory()[0], writer._chunks))
    tracemalloc.stop()
    (first, before), _, (last, after) = kept
    assert after - before > 100
    assert last - first < 200 * (after - before) + 5000
    writer.close()
    assert len(Recording.load(tmp_path / "run.npz")) == 900


def test_a_large_archive_has_the_fields_of_zip64(tmp_path):
    """Offsets beyond 4 GiB, in a sparse file."""
    path = tmp_path / "large.npz"
    with open(path, "w+b", buffering=0) as file:
        writer = ArchiveWriter(file, "large.npz")
        writer.append({"first": np.arange(3.0)})
        writer.size = 2**32 + 7
        writer.append({"second": np.arange(5.0)})
        writer.close()
    with zipfile.ZipFile(path) as archive:
        assert archive.namelist() == ["first.npy", "second.npy"]
        assert archive.testzip() is None


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
    writer = FrameWriter(mech, "none")
    writer.take(0.0, mech.poses)
    document, _ = parts(glb(writer.recording))
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


def test_the_page_of_a_recording_moves_its_soft_surfaces(pushed):
    pytest.importorskip("viser")
    from browser.browsing import free_port
    from supple.viewer.server import serving
    from supple.viewer.timeline import ReplayPage

    _, recording = pushed
    with serving(port=free_port()) as server:
        page = ReplayPage(server, recording)
        ((name, mesh),) = page._surfaces
        for time in recording.times[[0, -1]]:
            page._show(float(time))
            np.testing.assert_allclose(mesh.vertices, recording.vertices(name, float(time)), atol=1e-6)
