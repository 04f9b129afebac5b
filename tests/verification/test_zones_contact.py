"""Contact on skins: against Hertz on a bonded layer, no overlap, sensors, and pads of a skin in a World."""

from __future__ import annotations

import numpy as np
import pytest

import supple
from supple import MechanismError, elastic, spatial, zones
from supple.mechanism import Shape
from supple.world.objects import rigid_object
from supple.zones.layout import placed

UP = np.eye(4)
YOUNG, POISSON, FRICTION = 1e5, 0.3, 0.5
RADIUS = 0.02
BENT = (0.2, 0.7, 0.5)


@pytest.fixture(autouse=True, scope="module")
def cache_folder(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SUPPLE_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def finger():
    return zones.finger(cells=(6, 8, 2))


def on_body(solid, poisson, touch):
    """A skin of one block that is bonded to a fixed body."""
    builder = supple.Builder("bench")
    builder.body("bench", mass=1.0, inertia=(1e-3,) * 3)
    builder.fixed("bolt", "world", "bench")
    material = elastic.Material(young=YOUNG, poisson=poisson, density=1e3)
    zone = zones.Zone.from_solid(solid, material, bone="bottom", touch=touch)
    return zones.Skin(builder.build(), {"block": zones.Attached(zone, "bench")})


def bonded_layer_factor(a, thickness, poisson):
    """Force on a thin bonded layer over that on a half-space (Dimitriadis et al. 2002, eq. 6), contact radius a."""
    x, nu = a / thickness, poisson
    alpha = -(1.2876 - 1.4678 * nu + 1.3442 * nu**2) / (1 - nu)
    beta = (0.6387 - 1.0277 * nu + 1.5164 * nu**2) / (1 - nu)
    third = alpha**3 + 4 * np.pi**2 / 15 * beta
    fourth = alpha**3 + 3 * np.pi**2 / 5 * beta
    terms = [-2 * alpha / np.pi, 4 * alpha**2 / np.pi**2, -8 / np.pi**3 * third, 16 * alpha / np.pi**4 * fourth]
    return 1 + sum(term * x ** (k + 1) for k, term in enumerate(terms))


def ball_at(x):
    return spatial.translation(np.asarray(x, dtype=float))


A = 1e-3
"""Contact radius, m."""


@pytest.fixture(scope="module")
def layer():
    """A graded block, bonded below, five contact radii thick."""
    solid = zones.block((12 * A, 12 * A, 5 * A), (14, 14, 6), growth=1.4)
    return on_body(solid, POISSON, lambda x: (x[:, 2] > -1e-9) & (np.hypot(x[:, 0], x[:, 1]) < 1.5 * A))


def test_a_ball_on_a_bonded_layer_against_hertz(layer):
    ball, R = Shape("sphere", [10 * A], UP, friction=(0, 0, 0)), 10 * A
    depth = A**2 / R
    touch = layer.press(ball, ball_at([0, 0, R - depth]), friction=0.0)
    modulus = YOUNG / (1 - POISSON**2)
    half_space = 4 / 3 * modulus * np.sqrt(R) * depth**1.5
    force = -touch.force[2]
    assert force == pytest.approx(half_space * bonded_layer_factor(A, 5 * A, POISSON), rel=0.03)
    radius = (3 * force * R / (4 * modulus)) ** (1 / 3)
    assert touch.pressures.max() == pytest.approx(1.5 * force / (np.pi * radius**2), rel=0.06)
    # the skin slides all around when the ball is twisted far
    rough = Shape("sphere", [R], UP, friction=(FRICTION, 0, 0))
    touch = layer.press(rough, ball_at([0, 0, R - depth]), friction=0.0)
    for angle in np.linspace(0.1, 0.5, 5):
        pose = ball_at([0, 0, R - depth]) @ spatial.exp(np.array([0, 0, 0, 0, 0, angle]))
        touch = layer.press(rough, pose, start=touch, friction=0.0)
    assert touch.wrench[5] == pytest.approx(3 * np.pi / 16 * FRICTION * radius * -touch.force[2], rel=0.05)


@pytest.mark.parametrize("where", [None, BENT])
def test_pressing_a_finger(finger, where):
    """No force pulls, no point overlaps, forces and displacements fit the whole skin."""
    posed = finger.skin.at(where)
    x, vectors = posed.contact_places
    lowest = int(np.argmin(vectors[:, 2] - 1e3 * (finger.skin.contact_points.zones != 0) * vectors.min()))
    normal = vectors[lowest] / np.linalg.norm(vectors[lowest])
    centre = x[lowest] + (RADIUS - 8e-4) * normal
    touch = posed.press(Shape("sphere", [RADIUS], UP), ball_at(centre))
    assert touch.normal_forces.min() >= 0
    assert np.linalg.norm(touch.force) > 0.01
    assert touch.friction_used.max() <= 1 + 1e-6
    forces = touch.vertex_forces(finger.skin.vertex_count)
    shape, rest = posed.solve(forces), posed.solve()
    moved = shape.vertices - rest.vertices
    np.testing.assert_allclose(posed.motion(forces), moved, atol=1e-12)
    np.testing.assert_allclose(moved[touch.pad.vertices[:, 0]], touch.displacements, atol=1e-10)
    away = shape.vertices[finger.skin.touch] - centre
    facing = np.isin(finger.skin.touch, touch.pad.vertices) | (np.linalg.norm(away, axis=1) > RADIUS)
    assert facing.all()
    assert np.linalg.norm(away, axis=1).min() > RADIUS - 1e-6  # gaps are those along the undeformed normal
    total = sum(wrench[:3] for wrench in shape.bone_wrenches.values())
    np.testing.assert_allclose(total, touch.force, atol=1e-10)


def test_pressing_goes_on_while_the_finger_bends(finger):
    ball = Shape("sphere", [RADIUS], UP)
    pose = ball_at([0.055, 0, -9.5e-3 - RADIUS + 5e-4])
    first = finger.skin.press(ball, pose)
    same = finger.skin.press(ball, pose, start=first)
    np.testing.assert_allclose(same.force, first.force, atol=1e-9)
    bent = finger.skin.press(ball, pose, (0.01, 0, 0), start=first)
    assert bent.normal_forces.sum() > 1.5 * first.normal_forces.sum()
    assert finger.skin.press(ball, ball_at([1, 0, 0])).force.tolist() == [0, 0, 0]


def test_tactile_elements_follow_the_skin(finger):
    skin, ball = finger.skin, Shape("sphere", [RADIUS], UP)
    taxels = skin.taxels([[0.011, 0, -9.5e-3], [0.055, 0, -9.5e-3]], radius=3e-3)
    pose = ball_at([0.011, 0, -9.5e-3 - RADIUS + 6e-4])
    readings = taxels.read(skin.press(ball, pose))
    assert readings[0] > 100
    assert readings[1] == 0
    turned = (0.9, 0, 0)
    H = supple.kinematics(finger.mechanism, turned).poses.of("proximal")
    assert taxels.read(skin.press(ball, H @ pose, turned))[0] == pytest.approx(readings[0], rel=1e-6)
    with pytest.raises(MechanismError, match=r"tactile element 0 .*no skin within"):
        skin.taxels([[1, 0, 0]], radius=1e-3)
    with pytest.raises(MechanismError, match="radius of a tactile element"):
        skin.taxels([[0, 0, 0]], radius=0)


def test_ten_node_tetrahedra_carry_contact_between_their_nodes():
    """A flat punch on a block: three points a face, and the same force as hexahedra within a few percent."""
    hexahedra = zones.block((0.01, 0.01, 0.004), (4, 4, 2))
    forces = []
    for solid in (hexahedra, tetrahedra(hexahedra)):
        skin = on_body(solid, POISSON, "top")
        touch = skin.press(Shape("box", [0.02, 0.02, 0.01], UP), ball_at([0, 0, 0.01 - 1e-4]))
        forces.append(-touch.force[2])
        shape = skin.at().solve(touch.vertex_forces(skin.vertex_count))
        assert shape.bone_wrenches["bench"][2] == pytest.approx(touch.force[2], rel=1e-9)
    assert forces[1] == pytest.approx(forces[0], rel=0.05)


@pytest.mark.parametrize("kind", ["hexahedra", "tetrahedra"])
def test_a_dragged_ball_keeps_the_friction_of_every_point(kind):
    """As a pad of all points does, which keeps their order from press to press."""
    solid = zones.block((0.01, 0.01, 0.004), (4, 4, 2))
    skin = on_body(solid if kind == "hexahedra" else tetrahedra(solid), POISSON, "top")
    ball, pad = Shape("sphere", [RADIUS], UP), skin.pad(friction=FRICTION)
    touch = whole = None
    for x in (0.0, 5e-5, 1e-4, 2e-4, 4e-4):
        pose = ball_at([x, 0, RADIUS - 3e-4])
        touch = skin.press(ball, pose, start=touch, friction=FRICTION)
        whole = pad.press(ball, pose, start=whole)
        np.testing.assert_allclose(touch.force, whole.force, rtol=1e-6, atol=1e-9)
    assert touch.force[0] > 0.3 * -touch.force[2]


def test_a_dragged_box_presses_on_points_that_come_under_its_edge():
    """They are nearer to its side than to its bottom."""
    skin = on_body(tetrahedra(zones.block((0.01, 0.01, 0.004), (4, 4, 2))), POISSON, "top")
    box, pad = Shape("box", [0.002, 0.002, 0.002], UP), skin.pad(friction=FRICTION)
    touch = whole = None
    for x, y, depth in ((0, 0, 2e-4), (1e-4, 0, 2e-4), (2e-4, 1e-4, 3e-4)):
        pose = ball_at([x, y, 0.002 - depth])
        touch = skin.press(box, pose, start=touch, friction=FRICTION)
        whole = pad.press(box, pose, start=whole)
        np.testing.assert_allclose(touch.force, whole.force, rtol=1e-6)


def tetrahedra(solid):
    """The same solid of 10-node tetrahedra, six a hexahedron."""
    corners = np.array([[0, 1, 2, 6], [0, 2, 3, 6], [0, 3, 7, 6], [0, 7, 4, 6], [0, 4, 5, 6], [0, 5, 1, 6]])
    cells = solid.cells[:, corners].reshape(-1, 4)
    edges = np.sort(cells[:, [[0, 1], [1, 2], [0, 2], [0, 3], [1, 3], [2, 3]]], axis=2)
    pairs, number = np.unique(edges.reshape(-1, 2), axis=0, return_inverse=True)
    nodes = np.concatenate([solid.nodes, solid.nodes[pairs].mean(axis=1)])
    top, bottom = (np.flatnonzero(np.abs(nodes[:, 2] - z) < 1e-9) for z in (0, solid.nodes[:, 2].min()))
    middles = number.reshape(-1, 6) + len(solid.nodes)
    return elastic.Solid(nodes, np.hstack([cells, middles]), {"top": top, "bottom": bottom})


def test_a_pad_of_a_skin_covers_a_body(finger):
    """A fingertip presses on the ground in a World; pads are in the frame of their body."""
    skin = finger.skin
    pad = skin.pad("distal", frame="distal", friction=FRICTION)
    H = finger.mechanism.poses.of("distal")
    world_pad = skin.pad("distal", friction=FRICTION)
    np.testing.assert_allclose(placed(pad.points, H), world_pad.points, atol=1e-12)
    assert len(pad.triangles)
    corners = pad.points[pad.triangles]
    outward = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    assert np.einsum("ti,ti->t", outward, pad.normals[pad.triangles[:, 0]]).min() > 0
    world = supple.World(dt=1e-3)
    world.add(supple.Simulation(finger.mechanism, 1e-3), "finger")
    world.cover("finger:distal", pad)
    plane = Shape("plane", [0, 0, 1], ball_at([0, 0, pad.points[:, 2].min() + 3e-4]))
    world.ground(plane)
    world.step(300)
    touch = world.touch("finger:distal")
    bent = skin.pad("distal", world.mechanisms["finger"].poses, friction=FRICTION)
    assert touch.force[2] > 1e-3
    assert bent.press(plane).normal_forces.sum() == pytest.approx(touch.normal_forces.sum(), rel=0.1)


def test_soft_fingertips_lift_and_twist_a_block():
    scene = zones.soft_hand(lift=0.02)
    world = scene.world
    scene.run(1.35)
    height = world.pose("block")[2, 3]
    scene.run(1.25)
    pose = world.pose("block")
    assert height > 0.045 + 0.018
    assert pose[2, 3] == pytest.approx(height, abs=1e-4)
    assert np.arctan2(pose[1, 0], pose[0, 0]) == pytest.approx(0.6, abs=0.02)
    forces = []
    for finger in ("thumb", "index", "middle", "ring", "little"):
        touch = world.touch(f"hand:{finger}_distal")
        assert touch.depth > 1e-4
        assert touch.friction_used.max() <= 1 + 1e-6
        forces.append(touch.pose[:3, :3] @ touch.force)
    np.testing.assert_allclose(np.sum(forces, axis=0), [0, 0, -0.2 * 9.81], atol=0.02)


def test_two_pads_of_ten_node_tetrahedra_touch_each_other():
    """One block lies on another; the same of hexahedra beside it."""
    depths = []
    for solid in (zones.block((0.01, 0.01, 0.004), (3, 3, 2)), tetrahedra(zones.block((0.01, 0.01, 0.004), (3, 3, 2)))):
        pad = on_body(solid, 0.4, "top").pad(friction=0.5, relaxation=0.01)
        corners = pad.points[pad.triangles]
        outward = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
        assert outward[:, 2].min() > 0
        world = supple.World(dt=1e-3)
        for name, height, turn in (("below", 0.0, np.eye(3)), ("above", 1e-4, np.diag([1.0, -1, -1]))):
            builder = supple.Builder(name)
            builder.body(name, spatial.pose(turn, [0, 0, height]), mass=0.05, inertia=(1e-5,) * 3)
            if name == "below":
                builder.fixed("bolt", "world", name)
            else:
                builder.slide("down", "world", name, at=(0, 0, 0), axis="z")
            world.add(supple.Simulation(builder.build(), 1e-3), name)
            world.cover(f"{name}:{name}", pad)
        world.step(400)
        forces = [world.touch(f"{name}:{name}").force for name in ("below", "above")]
        assert forces[0][2] == pytest.approx(-0.05 * 9.81, rel=1e-3)
        np.testing.assert_allclose(forces[0], np.diag([1.0, -1, -1]) @ -forces[1], atol=1e-6)
        depths.append(-world.mechanisms["above"].poses["above"][2, 3])
    # a surface that ends at the outermost points is smaller than the block
    assert 0 < depths[1] == pytest.approx(depths[0], rel=0.5)


def test_a_thin_sheet_sinks_as_deep_as_a_thick_one():
    """It sinks deeper than it is thick, so that the unpressed points are beyond its middle."""
    skin, depths = on_body(zones.block((0.02, 0.02, 0.008), (6, 6, 2)), 0.4, "top"), []
    for thickness in (5e-3, 1e-4):
        world = supple.World(dt=1e-3)
        world.add(supple.Simulation(skin.mechanism, 1e-3), "bench")
        world.cover("bench:bench", skin.pad(friction=0.5, relaxation=5e-3))
        size = (0.006, 0.006, thickness / 2)
        world.add(rigid_object("sheet", "box", size, 0.4, (0, 0, thickness / 2 + 1e-4)))
        world.step(400)
        assert world.touch("bench:bench").force[2] == pytest.approx(-0.4 * 9.81, rel=0.01)
        depths.append(thickness / 2 - world.pose("sheet")[2, 3])
    assert depths[1] == pytest.approx(depths[0], rel=0.01)
    assert depths[1] > 1e-4
