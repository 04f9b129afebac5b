"""Pictures: they contain what was asked for, and their files have a reasonable size."""

import numpy as np
import pytest

import supple
from mechanisms import RIGID_LIBRARY
from supple import library, spatial
from supple.cli.source import SMALL
from supple.mechanism import Mesh, Shape
from supple.viewer import draw, facets
from supple.viewer.picture import ellipsoid_polygons


@pytest.mark.parametrize("name", [name for name in RIGID_LIBRARY if name not in SMALL])
def test_every_library_mechanism_fills_its_picture(name, tmp_path):
    from matplotlib.image import imread

    draw(getattr(library, name)(), path=tmp_path / "m.png")
    picture = imread(tmp_path / "m.png")[..., :3]
    painted = np.abs(picture - 1).max(axis=-1) > 0.1
    rows, columns = np.nonzero(painted.any(axis=1))[0], np.nonzero(painted.any(axis=0))[0]
    assert np.ptp(rows) > 0.85 * len(picture)
    assert np.ptp(columns) > 0.65 * picture.shape[1]
    assert (tmp_path / "m.png").stat().st_size < 120_000


def test_a_ghost_adds_the_second_shape(tmp_path):
    mech = library.robot_arm()
    bent = supple.kinematics(mech, np.full(mech.dof, 0.05)).poses
    draw(mech, bent, path=tmp_path / "one.svg")
    draw(mech, bent, ghost=mech.poses, path=tmp_path / "two.svg", labels=["tip", "link_1"], title="bent arm")
    one, two = (tmp_path / "one.svg").stat().st_size, (tmp_path / "two.svg").stat().st_size
    assert two > 1.2 * one


def test_ellipsoids_are_drawn_at_one_scale(tmp_path):
    mech = library.robot_arm()
    model = supple.reduce(mech, "tip")
    ellipsoids = [model.ellipsoid_at("tip"), model.ellipsoid_at(mech.bodies[5].name)]
    first, second = (np.ptp(part.reshape(-1, 3), axis=0) for part in ellipsoid_polygons(mech, ellipsoids))
    assert np.isclose(np.linalg.norm(first), 0.5 * mech.radius, rtol=0.5)
    assert np.linalg.norm(second) < np.linalg.norm(first)
    assert ellipsoid_polygons(mech, []) == []
    draw(mech, path=tmp_path / "none.svg")
    draw(mech, path=tmp_path / "some.svg", ellipsoids=ellipsoids)
    assert (tmp_path / "some.svg").stat().st_size > (tmp_path / "none.svg").stat().st_size


@pytest.mark.filterwarnings("error")
def test_names_are_written_as_they_are(tmp_path):
    r"""No formulas between dollars, no warning of letters that the font does not have."""
    b = supple.Builder(r"for 5 $ or \frac{ $")
    b.link("机械臂 $x", (0, 0, 0), (0, 0, 1), mass=1.0)
    b.hinge("pivot", "world", "机械臂 $x", at=(0, 0, 0), axis="y")
    draw(b.build(), path=tmp_path / "m.png", labels=["机械臂 $x"])


def test_every_joint_kind_and_shape_is_drawn(tmp_path):
    b = supple.Builder("zoo")
    tetra = np.array([[0, 0, 0], [0.1, 0, 0], [0, 0.1, 0], [0, 0, 0.1]])
    b.mesh("tetra", tetra, [[0, 2, 1], [0, 1, 3], [0, 3, 2], [1, 2, 3]])
    sizes = {"sphere": [0.1], "box": [0.1, 0.1, 0.2], "cylinder": [0.1, 0.2], "ellipsoid": [0.1, 0.2, 0.1]}
    shapes = [Shape(kind, size, np.eye(4)) for kind, size in sizes.items()]
    shapes.append(Shape("mesh", [], np.eye(4), "tetra"))
    for i in range(10):
        b.body(f"b{i}", spatial.translation([0.5 * i, 0, 0.5]), mass=1.0, shapes=shapes[i : i + 1])
    at = {"at": (0, 0, 0.5)}
    b.hinge("j0", "world", "b0", axis="x", **at)
    b.slide("j1", "b0", "b1", axis="x", **at)
    b.screw("j2", "b1", "b2", axis="x", pitch=0.1, **at)
    b.cylindrical("j3", "b2", "b3", axis="x", **at)
    b.universal("j4", "b3", "b4", axes=("x", "y"), **at)
    b.ball("j5", "b4", "b5", **at)
    b.planar("j6", "b5", "b6", normal="z", **at)
    b.bushing("j7", "b6", "b7", stiffness=1.0, **at)
    b.fixed("j8", "b7", "b8")
    b.free("j9", "world", "b9")
    b.ground(Shape("plane", [0, 0, 1], np.eye(4)))
    draw(b.build(), path=tmp_path / "zoo.png", labels=["b9"])
    assert (tmp_path / "zoo.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("polygons", "volume"),
    [
        (facets.box([1, 2, 3]), 48),
        (facets.ball(), 4 / 3 * np.pi),
        (facets.tube(1, 2), 4 * np.pi),
        (facets.tube(1, 2, rounded=True), 4 * np.pi + 4 / 3 * np.pi),
        (facets.rod(np.array([1.0, 0, 0]), np.array([1.0, 3, 4]), 0.5), 5 * np.pi / 4),
    ],
)
def test_surfaces_are_closed_and_face_outwards(polygons, volume):
    """Divergence theorem over the two triangles of each polygon; inscribed polygons enclose a little less."""
    a, b, c, d = np.moveaxis(polygons, 1, 0)
    enclosed = sum((u * np.cross(v, w)).sum() / 6 for u, v, w in ((a, b, c), (a, c, d)))
    assert 0.75 * volume < enclosed <= volume * (1 + 1e-12)


def test_a_large_mesh_is_drawn_as_its_hull():
    rng = np.random.default_rng(0)
    vertices = rng.standard_normal((500, 3))
    mesh = Mesh("cloud", vertices, rng.integers(0, 500, (facets.MOST_FACES + 1, 3)))
    polygons = facets.shape_polygons(Shape("mesh", [], np.eye(4), "cloud"), {"cloud": mesh})
    assert len(polygons) < facets.MOST_FACES


@pytest.mark.parametrize(
    "bad",
    [{"path": "a.doc"}, {"path": "a.png", "poses": np.zeros((3, 4))}, {"path": "a.png", "labels": ["tap"]}],
)
def test_bad_requests_are_explained(bad, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(supple.MechanismError):
        draw(library.y(), **bad)
    assert not list(tmp_path.iterdir())
