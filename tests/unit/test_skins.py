"""Skins of flexible bodies: in pictures, recordings, glTF files and the viewer."""

import numpy as np
import pytest

import supple
from clocks import Clock
from supple import elastic, spatial
from supple.recording import Recording
from supple.recording.archive import Archive, ArchiveWriter
from supple.viewer import draw, skins
from supple.viewer.gltf import glb
from supple.viewer.picture import as_poses
from supple.viewer.session import Session
from unit.test_recording import parts, values

LENGTH, RADIUS = 0.3, 2e-3


@pytest.fixture(scope="module")
def mech():
    """A rod on a motor with a weight at its end."""
    part = elastic.rod(LENGTH, 2 * RADIUS, elastic.spring_steel(), sections=6)
    b = supple.Builder("small rod")
    b.flexible("rod", part.with_basis(modes=4, method="linear", progress=lambda fraction: None))
    b.body("tip", spatial.translation([0, 0, LENGTH]), 0.5, inertia=(1e-4,) * 3)
    b.hinge("foot", "world", "rod.start", at=(0, 0, 0), axis="y")
    b.fixed("clamp", "rod.end", "tip")
    b.motor("motor", "foot")
    return b.build()


@pytest.fixture(scope="module")
def bent(mech):
    return supple.equilibrium(mech, targets={"motor": 1.0})


@pytest.fixture(scope="module")
def recording(mech, bent):
    sim = supple.Simulation(mech, 5e-3, at=bent)
    sim.apply("tip", [-3, 0, 0, 0, 0, 0])
    with sim.record(rate=25) as recorder:
        sim.step(72)
    return recorder.recording


def volume(vertices, faces):
    """By the divergence theorem; positive if the faces are counter-clockwise seen from outside."""
    a, b, c = np.moveaxis(vertices[faces], 1, 0)
    return (a * np.cross(b, c)).sum() / 6


def test_amplitudes_are_in_all_poses(mech, bent):
    eta = bent.coordinates["rod.end"]
    assert np.abs(eta).max() > 1e-3
    assert list(bent.poses.amplitudes) == ["rod"]
    model = supple.reduce(mech, ["tip"], at=bent)
    q = np.concatenate([bent.coordinates[mech.joints[j].name] for j in mech.topology.tree])
    for poses in (
        bent.poses,
        supple.Simulation(mech, 1e-3, at=bent).poses,
        supple.ReducedSimulation(model, 1e-3).poses,
        supple.kinematics(mech, q).poses,
        mech.at(q).poses,
        model.rest_poses,
        as_poses(mech, bent.poses),
    ):
        np.testing.assert_allclose(poses.amplitudes["rod"], eta, rtol=1e-9, atol=1e-12)
    assert not as_poses(mech, bent.poses.array).amplitudes["rod"].any()
    assert not mech.poses.amplitudes["rod"].any()
    with pytest.raises(supple.MechanismError, match="amplitudes of 'rod'"):
        supple.mechanism.Poses(mech, bent.poses.array, {"rod": np.zeros(3)})


def test_a_skin_is_closed_and_ends_at_the_interfaces(mech, bent, monkeypatch):
    part = mech.flexible[0].part
    (skin,) = skins.mechanism_skins(mech)
    for poses in (mech.poses, bent.poses):
        vertices = skin.vertices(poses)
        assert volume(vertices, skin.faces) == pytest.approx(part.volumes.sum(), rel=1e-2)
        world = vertices @ poses[skin.body][:3, :3].T + poses[skin.body][:3, 3]
        for name in ("start", "end"):
            centre = poses[f"rod.{name}"][:3, 3]
            near = np.linalg.norm(world - centre, axis=1) < 1.01 * RADIUS
            assert near.sum() >= 8
            assert np.linalg.norm(world[near].mean(axis=0) - centre) < 0.05 * RADIUS
    monkeypatch.setattr(skins, "MAX_FACETS", 10)
    (coarse,) = skins.mechanism_skins(mech)
    assert 4 * len(coarse.faces) == len(skin.faces)
    assert len(coarse.undeformed) < len(skin.undeformed)
    assert volume(coarse.undeformed, coarse.faces) == pytest.approx(part.volumes.sum())


def test_a_thin_bent_rod_is_seen(mech, bent, tmp_path):
    from matplotlib.image import imread

    seen = []
    for name, poses in (("bent", bent.poses), ("straight", bent.poses.array)):
        draw(mech, poses, path=tmp_path / f"{name}.png", view=(0.0, -90.0), labels=[])
        picture = imread(tmp_path / f"{name}.png")[..., :3]
        painted = (picture.max(axis=-1) < 0.75)[70:-60]  # without title and legend
        rows = np.nonzero(painted.any(axis=1))[0]
        assert np.ptp(rows) + 1 == len(rows)  # no gaps
        assert len(rows) > 0.5 * len(painted)
        seen.append(painted)
    assert seen[0].shape != seen[1].shape or (seen[0] != seen[1]).mean() > 1e-3


def test_a_recording_keeps_the_shape(mech, recording, tmp_path):
    assert recording.amplitudes.shape == (10, 4)
    assert np.ptp(recording.amplitudes, axis=0).max() > 1e-4
    recording.save(tmp_path / "run.npz")
    back = Recording.load(tmp_path / "run.npz")
    assert (back.amplitudes == recording.amplitudes).all()
    assert (back.mechanism.flexible[0].basis.modes == mech.flexible[0].basis.modes).all()
    poses = back.at(back.times[7])
    np.testing.assert_allclose(poses.amplitudes["rod"], recording.amplitudes[7])
    draw(back.mechanism, poses, path=tmp_path / "last.png")

    with open(tmp_path / "run.npz", "rb") as file:
        archive = Archive(file, "")
        arrays = {entry.name: archive.read(entry) for entry in archive.entries}
    del arrays["mechanism.rod.npz"]
    with open(tmp_path / "without_part.npz", "wb") as file:
        ArchiveWriter(file, "").append(arrays)
    with pytest.raises(supple.MechanismError, match="flexible"):
        Recording.load(tmp_path / "without_part.npz")
    with pytest.raises(supple.MechanismError, match="no flexible body named 'bar'"):
        recording.amplitudes_of("bar")


def test_a_reduced_model_with_a_flexible_body_is_saved(mech, bent, tmp_path):
    model = supple.reduce(mech, ["tip"], at=bent)
    model.save(tmp_path / "model.npz")
    back = supple.ReducedModel.load(tmp_path / "model.npz")
    assert (back.compliance == model.compliance).all()
    assert (back.rest_poses.amplitudes["rod"] == model.rest_poses.amplitudes["rod"]).all()


def test_gltf_morphs_the_skin(mech, recording, tmp_path):
    """The deformed skin, computed from the file as the specification says, is the recorded one."""
    content = glb(recording)
    document, binary = parts(content)
    (skin,) = skins.mechanism_skins(mech)
    index, node = next((i, n) for i, n in enumerate(document["nodes"]) if n.get("name") == "rod")
    assert index in document["nodes"][skin.body + 1]["children"]
    mesh = document["meshes"][node["mesh"]]
    (primitive,) = mesh["primitives"]
    assert len(primitive["targets"]) == len(mesh["weights"]) == len(mesh["extras"]["targetNames"]) == 4
    np.testing.assert_allclose(mesh["weights"], recording.amplitudes[0])
    accessors = [primitive["attributes"]["POSITION"], *(target["POSITION"] for target in primitive["targets"])]
    base, *targets = (values(document, binary, i) for i in accessors)
    for i in accessors:
        accessor = document["accessors"][i]
        assert accessor["count"] == len(base)
        assert accessor["type"] == "VEC3"
        np.testing.assert_allclose(accessor["max"], values(document, binary, i).max(axis=0))
    animation = document["animations"][0]
    (channel,) = [c for c in animation["channels"] if c["target"]["path"] == "weights"]
    assert channel["target"]["node"] == index
    sampler = animation["samplers"][channel["sampler"]]
    output = document["accessors"][sampler["output"]]
    assert (output["type"], output["count"]) == ("SCALAR", 4 * len(recording.times))
    weights = values(document, binary, sampler["output"]).reshape(-1, 4)
    for i in (0, 6, 9):
        shown = base + np.tensordot(weights[i], np.array(targets), axes=1)
        np.testing.assert_allclose(shown, skin.vertices(recording.at(recording.times[i])), atol=1e-6)
    trimesh = pytest.importorskip("trimesh")
    (tmp_path / "run.glb").write_bytes(content)
    assert len(trimesh.load(tmp_path / "run.glb").geometry) >= len(document["meshes"])


@pytest.fixture
def session(mech):
    return Session(mech, ["tip"], clock=Clock(1e-3))


def test_a_session_offers_the_methods_that_simulate_flexible_bodies(session):
    assert (session.method, list(session.methods)) == ("engine", ["engine", "linear"])
    session.method = "blended"
    assert session.method == "engine"
    assert "'blended' does not simulate flexible bodies such as 'rod'; choose engine or linear" in (
        session.messages[-1].text
    )
    session.method = "linear"
    assert session.method == "linear"
    assert not session.linearise_here()
    assert "flexible" in session.messages[-1].text
    with pytest.raises(supple.MechanismError, match="flexible bodies"):
        session.explore()
    with pytest.raises(supple.MechanismError, match="choose engine or linear"):
        Session(session.mechanism, method="adaptive")


def test_linear_and_engine_agree_in_shape_energy_and_separation(session):
    """For a small pull, while it moves. (Linear modes alone stiffen when the rod bends by half its thickness.)"""
    session.method = "linear"
    target = session.frame.pulls["tip"].point + [5e-4, 0.0, 0.0]
    engine = supple.Simulation(session.mechanism, session.dt, at=supple.equilibrium(session.mechanism))
    engine.pull("tip", target)
    engine.step(15)
    session.pull("tip", target)
    session.record()
    session.step(15)
    frame = session.frame
    eta, exact = frame.poses.amplitudes["rod"], engine.poses.amplitudes["rod"]
    assert np.abs(exact).max() > 1e-5
    np.testing.assert_allclose(eta, exact, atol=2e-3 * np.abs(exact).max())
    assert engine.energy.kinetic > 0
    assert frame.kinetic == pytest.approx(engine.energy.kinetic, rel=0.01)
    assert frame.separation < 1e-4
    assert session.recorded().amplitudes.any()


def test_the_page_moves_the_vertices_of_the_skin(mech, bent):
    pytest.importorskip("viser")
    from browser.browsing import free_port
    from supple.viewer.server import serving
    from supple.viewer.stage import Stage

    with serving(port=free_port()) as server:
        stage = Stage(server, mech, mech.poses)
        ((skin, node),) = stage._skins
        assert np.abs(node.vertices - skin.undeformed).max() < 1e-6
        stage.show(bent.poses, ghost=mech.poses)
        assert np.abs(node.vertices - skin.vertices(bent.poses)).max() < 1e-6
        np.testing.assert_allclose(node.position, bent.poses["rod.start"][:3, 3], atol=1e-6)
        ((_, ghost),) = stage._ghost_skins
        assert np.abs(ghost.vertices - skin.undeformed).max() < 1e-6
        stage.show(bent.poses)
        assert not ghost.visible
