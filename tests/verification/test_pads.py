"""Soft pads: against Hertz on a half-space, complementarity, balance, and pads in a World."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import supple
from supple import MechanismError, spatial
from supple.contact.pads import Pad
from supple.mechanism import Mesh, Shape
from supple.mechanism.shapes import HeightField
from supple.world import rigid_object

YOUNG, POISSON, SPACING = 1e6, 0.3, 1e-3
RADIUS, FRICTION = 0.03, 0.5
UP = np.eye(4)


def half_space(points: np.ndarray) -> np.ndarray:
    """(3n, 3n) compliance of the surface of a half-space (Boussinesq and Cerruti); each point stands for a square."""
    shear = YOUNG / (2 * (1 + POISSON))
    gap = points[:, None, :2] - points[None, :, :2]
    r = np.linalg.norm(gap, axis=2)
    own = np.eye(len(points), dtype=bool)
    r[own] = 1.0
    x, y, k = gap[..., 0] / r, gap[..., 1] / r, 1 / (4 * np.pi * shear * r)
    C = np.zeros((len(points), 3, len(points), 3))
    C[:, 0, :, 0], C[:, 1, :, 1] = (k * (2 * (1 - POISSON) + 2 * POISSON * along**2) for along in (x, y))
    C[:, 0, :, 1] = C[:, 1, :, 0] = 2 * POISSON * k * x * y
    C[:, 2, :, 2] = 2 * (1 - POISSON) * k
    for axis, along in ((0, x), (1, y)):
        C[:, axis, :, 2], C[:, 2, :, axis] = -k * (1 - 2 * POISSON) * along, k * (1 - 2 * POISSON) * along
    # centre of a square under uniform pressure: 8 ln(1 + sqrt 2) / 2 side lengths
    mean = (1 - POISSON) / (2 * np.pi * shear) * 4 * np.log(1 + np.sqrt(2)) / SPACING
    for i in range(len(points)):
        C[i, :, i, :] = mean * np.eye(3)
    flat = C.reshape(3 * len(points), 3 * len(points))
    return 0.5 * (flat + flat.T)


def flat_pad(count: int = 13, height: float = 0.0, **options) -> Pad:
    x = SPACING * (np.arange(count) - (count - 1) / 2)
    points = np.array([[a, b, height] for b in x for a in x])
    corners = np.arange(count * count).reshape(count, count)
    a, b, c, d = (corners[i : count - 1 + i, j : count - 1 + j].ravel() for i, j in ((0, 0), (0, 1), (1, 1), (1, 0)))
    triangles = np.concatenate([np.stack([a, b, c], 1), np.stack([a, c, d], 1)])
    normals = np.tile([0.0, 0.0, 1.0], (len(points), 1))
    areas = np.full(len(points), SPACING**2)
    return Pad(points, normals, areas, half_space(points), triangles, **({"friction": FRICTION} | options))


@pytest.fixture(scope="module")
def pad() -> Pad:
    return flat_pad()


SPHERE = Shape("sphere", [RADIUS], UP, friction=(FRICTION, 0, 0))


def at_depth(depth: float, turn: float = 0.0) -> np.ndarray:
    c, s = np.cos(turn), np.sin(turn)
    return np.array([[c, -s, 0, 0], [s, c, 0, 0], [0, 0, 1, RADIUS - depth], [0, 0, 0, 1.0]])


def test_a_sphere_against_hertz(pad):
    depth = 4e-4
    smooth = dataclasses.replace(SPHERE, friction=(0, 0, 0))
    touch = dataclasses.replace(pad, friction=0.0).press(smooth, at_depth(depth))
    force = 4 / 3 * YOUNG / (1 - POISSON**2) * np.sqrt(RADIUS) * depth**1.5
    contact = np.sqrt(RADIUS * depth)  # 3.5 points
    assert -touch.force[2] == pytest.approx(force, rel=0.03)
    assert touch.pressures.max() == pytest.approx(1.5 * force / (np.pi * contact**2), rel=0.08)
    np.testing.assert_allclose(touch.centre, 0, atol=1e-9)
    assert touch.depth == pytest.approx(depth, rel=1e-9)
    assert touch.friction_used.max() == 0


def test_forces_push_and_nothing_overlaps(pad):
    touch = pad.press(SPHERE, at_depth(3e-4))
    normals = pad.points - [0, 0, RADIUS - 3e-4]
    distance = np.linalg.norm(normals, axis=1)
    gaps = distance - RADIUS + np.einsum("ni,ni->n", normals / distance[:, None], touch.displacements)
    assert touch.normal_forces.min() >= 0
    assert gaps.min() > -1e-9
    assert np.abs(gaps[touch.normal_forces > 0]).max() < 1e-9
    assert touch.friction_used.max() <= 1 + 1e-6


def test_a_twisting_sphere_slides(pad):
    depth = 4e-4
    touch = pad.press(SPHERE, at_depth(depth))
    for k in range(1, 13):
        touch = pad.press(SPHERE, at_depth(depth, 0.04 * k), start=touch)
    force = -touch.force[2]
    contact = np.sqrt(RADIUS * depth)
    assert touch.wrench[5] == pytest.approx(3 * np.pi / 16 * FRICTION * contact * force, rel=0.05)
    inner = (touch.normal_forces > 0) & (np.linalg.norm(pad.points[:, :2], axis=1) > 0)
    assert touch.friction_used[inner].min() > 0.999


def test_a_small_twist_sticks(pad):
    touch = pad.press(SPHERE, at_depth(4e-4))
    twisted = pad.press(SPHERE, at_depth(4e-4, 1e-4), start=touch)
    back = pad.press(SPHERE, at_depth(4e-4), start=twisted)
    assert 0 < twisted.wrench[5] < 0.1 * 3 * np.pi / 16 * FRICTION * np.sqrt(RADIUS * 4e-4) * -touch.force[2]
    assert abs(back.wrench[5]) < 0.1 * twisted.wrench[5]


def shape_at(height: float) -> np.ndarray:
    pose = np.eye(4)
    pose[2, 3] = height
    return pose


BOX = np.array([[x, y, z] for x in (-0.02, 0.02) for y in (-0.02, 0.02) for z in (-0.02, 0.02)])
FLAT = {
    "box": (Shape("box", [0.02, 0.02, 0.02], UP), shape_at(0.02 - 2e-4)),
    "cylinder": (Shape("cylinder", [0.02, 0.02], UP), shape_at(0.02 - 2e-4)),
    "mesh": (Shape("mesh", [], UP, mesh="box"), shape_at(0.02 - 2e-4)),
    "plane": (Shape("plane", [0, 0, 1], np.diag([1.0, -1, -1, 1])), shape_at(-2e-4)),
    "height field": (HeightField(np.zeros((3, 3)), [0.05, 0.05], np.diag([1.0, -1, -1, 1])), shape_at(-2e-4)),
}


def test_flat_shapes_press_alike(pad):
    mesh = Mesh("box", BOX, np.array([[0, 1, 2], [1, 3, 2], [4, 6, 5], [5, 6, 7], [0, 4, 1], [1, 4, 5],
                                      [2, 3, 6], [3, 7, 6], [0, 2, 4], [2, 6, 4], [1, 5, 3], [3, 5, 7]]))  # fmt: skip
    forces = {name: pad.press(shape, pose, meshes=[mesh]).forces for name, (shape, pose) in FLAT.items()}
    assert forces["box"][:, 2].max() < 0
    for force in forces.values():
        np.testing.assert_allclose(force, forces["box"], atol=1e-9)


@pytest.mark.parametrize(("kind", "size"), [("capsule", [RADIUS, 0.1]), ("ellipsoid", [RADIUS] * 3)])
def test_round_shapes(pad, kind, size):
    pose = at_depth(3e-4)
    if kind == "capsule":  # its round end
        pose = pose @ shape_at(size[1])
    same = pad.press(SPHERE, at_depth(3e-4))
    touch = pad.press(Shape(kind, size, UP, friction=(FRICTION, 0, 0)), pose)
    np.testing.assert_allclose(touch.forces, same.forces, atol=1e-7)


def test_taxels(pad):
    touch = pad.press(SPHERE, at_depth(4e-4))
    readings = touch.taxels([[0, 0, 0], [5e-3, 5e-3, 0]], radius=1.5e-3)
    assert readings[0] > 0.8 * touch.pressures.max()
    assert readings[1] == 0
    with pytest.raises(MechanismError, match=r"tactile element 1 .*no skin within"):
        touch.taxels([[0, 0, 0], [1, 0, 0]], radius=1e-3)
    with pytest.raises(MechanismError, match="no centre of pressure"):
        _ = pad.press(SPHERE, at_depth(-0.01)).centre


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"normals": np.tile([0, 0, 2.0], (169, 1))}, "length 1"),
        ({"areas": -np.ones(169)}, "area of a pad's point 0 is negative"),
        ({"compliance": np.triu(np.ones((507, 507)))}, "must be symmetric"),
        ({"compliance": -np.eye(507)}, "must be positive"),
        ({"compliance": np.zeros((507, 507))}, "is zero"),
        ({"compliance": np.full((507, 507), np.nan)}, "compliance of a pad"),
        ({"triangles": [[0, 1, 169]]}, "points from 0 to 168"),
        ({"friction": -1}, "friction of a pad must not be negative"),
    ],
)
def test_bad_pads(pad, change, message):
    with pytest.raises(MechanismError, match=message):
        dataclasses.replace(pad, **change)


# in a World

TABLE = Shape("plane", [0, 0, 1], shape_at(-0.011))


def scene(relaxation: float = 0.0, soft_ball: bool = False) -> supple.World:
    world = supple.World(dt=1e-3)
    world.ground(TABLE)
    world.add(rigid_object("base", "box", [0.02, 0.02, 0.005], 1.0, at=[0, 0, -0.006]))
    world.cover("base", flat_pad(height=0.006, relaxation=relaxation))
    if soft_ball:
        world.add(rigid_object("plate", "box", [0.02, 0.02, 0.001], 0.2, at=[0, 0, 0.008]))
        below = flat_pad(7)
        flip = np.diag([1.0, -1, -1])
        turned = np.kron(np.eye(len(below.points)), flip)
        world.cover("plate", Pad(below.points @ flip - [0, 0, 0.0079], below.normals @ flip, below.areas,
                                 turned @ below.compliance @ turned.T, below.triangles, FRICTION))  # fmt: skip
    else:
        world.add(rigid_object("ball", "sphere", [RADIUS], 0.2, at=[0, 0, RADIUS + 5e-4], friction=FRICTION))
    return world


@pytest.mark.parametrize("relaxation", [0.0, 0.01])
def test_a_ball_comes_to_rest_on_a_pad(relaxation):
    world = scene(relaxation)
    world.step(1000)
    touch = world.touch("base")
    static = flat_pad(height=0.006).press(SPHERE, world.pose("ball") @ shape_at(0.006))
    assert touch.force[2] == pytest.approx(-0.2 * 9.81, rel=1e-6)
    assert np.abs(world.velocity("ball")).max() < 1e-6
    np.testing.assert_allclose(world.force_on("ball"), -touch.force, atol=1e-9)
    # the same forces as in statics, but for friction on the way
    assert touch.depth == pytest.approx(static.depth, rel=0.02)
    assert world.residual < 5e-10


def test_two_pads_balance():
    world = scene(0.005, soft_ball=True)
    world.step(400)
    below, above = world.touch("base"), world.touch("plate")
    assert below.force[2] == pytest.approx(-0.2 * 9.81, rel=1e-3)
    np.testing.assert_allclose(below.pose[:3, :3] @ below.force, -above.pose[:3, :3] @ above.force, atol=1e-12)
    assert below.depth > 1e-6
    assert above.depth > 1e-6


def test_pads_do_not_touch_beyond_their_borders():
    """Two jaws whose pads overlap in height: side by side they pass each other."""
    width = 12 * SPACING
    for aside, touches in ((0.0, True), (0.5 * width, True), (width + 1e-3, False)):
        build = supple.Builder("jaws", gravity=(0, 0, 0))
        build.body("lower", mass=0.1, inertia=(1e-4,) * 3)
        build.fixed("foot", "world", "lower")
        build.body("upper", np.array([[1, 0, 0, aside], [0, -1, 0, 0], [0, 0, -1, -1e-4], [0, 0, 0, 1.0]]), mass=0.1,
                   inertia=(1e-4,) * 3)  # fmt: skip
        build.slide("slide", "lower", "upper", at=(aside, 0, 0), axis="z", stiffness=500.0)
        world = supple.World(dt=1e-3)
        world.add(supple.Simulation(build.build(), 1e-3), "jaws", self_contact=True)
        world.cover("jaws:lower", flat_pad())
        world.cover("jaws:upper", dataclasses.replace(flat_pad(), triangles=np.zeros((0, 3), dtype=int)))
        world.step()
        assert (world.touch("jaws:lower").force[2] < -1e-3) == touches
    bare = dataclasses.replace(flat_pad(), triangles=np.zeros((0, 3), dtype=int))
    world = supple.World(dt=1e-3)
    for name in "ab":
        world.add(rigid_object(name, "sphere", (0.01,), 0.1))
    world.cover("a", bare)
    with pytest.warns(supple.RangeWarning, match="'b' and 'a' do not touch each other"):
        world.cover("b", bare)


def test_shapes_behind_the_skin_are_said(pad):
    for shape in (SPHERE, Shape("box", [0.1, 0.1, 0.01], UP)):
        with pytest.warns(supple.RangeWarning, match="nearer to its far side"):
            assert not pad.press(shape, spatial.translation([0, 0, -5e-3])).forces.any()
    with pytest.raises(MechanismError, match="rigid pose"):
        pad.press(SPHERE, 2 * UP)


def test_worlds_with_pads_repeat_to_the_last_bit():
    world = scene()
    world.step(60)
    saved = world.save()
    world.step(40)
    first = world.pose("ball"), world.touch("base").forces
    world.restore(saved)
    world.step(40)
    np.testing.assert_array_equal(world.pose("ball"), first[0])
    np.testing.assert_array_equal(world.touch("base").forces, first[1])


SIDEWAYS = np.array([[0, 0, 1, 0], [0, 1, 0, 0], [-1, 0, 0, 0], [0, 0, 0, 1.0]])


def pressing_arm(kind: str):
    mech = supple.library.robot_arm(6)
    tip = mech.bodies[-1].name
    if kind == "full":
        return mech, tip, supple.Simulation(mech, 1e-3)
    return mech, tip, supple.ReducedSimulation(supple.reduce(mech, ["tip"]), 1e-3)


def test_full_and_reduced_mechanisms_take_pads():
    forces = []
    for kind in ("full", "reduced"):
        mech, tip, sim = pressing_arm(kind)
        world = supple.World(dt=1e-3)
        world.add(sim, "arm")
        pose, body = mech.frame("tip"), mech.bodies[-1]
        pad = flat_pad(5)
        frame = pose[1] @ SIDEWAYS @ shape_at(0.05)
        turned = np.kron(np.eye(len(pad.points)), frame[:3, :3])
        points = pad.points @ frame[:3, :3].T + frame[:3, 3]
        normals, compliance = pad.normals @ frame[:3, :3].T, turned @ pad.compliance @ turned.T
        world.cover(f"arm:{tip}", Pad(points, normals, pad.areas, compliance))
        at = np.asarray(body.pose) @ frame
        world.ground(Shape("sphere", [RADIUS], at @ shape_at(RADIUS - 2e-4)))  # 0.2 mm inside the pad
        world.step(400)
        forces.append(world.touch(f"arm:{tip}").force)
    assert np.linalg.norm(forces[0]) > 1e-3
    np.testing.assert_allclose(forces[1], forces[0], rtol=0.05, atol=0.02 * np.linalg.norm(forces[0]))


def test_covering_errors(pad):
    world = scene()
    with pytest.raises(MechanismError, match="covered by a pad already"):
        world.cover("base", pad)
    with pytest.raises(MechanismError, match="did you mean 'ball'"):
        world.cover("bal", pad)
    with pytest.raises(MechanismError, match="cover takes a Pad"):
        world.cover("ball", "soft")
    with pytest.raises(MechanismError, match="no covered body"):
        world.touch("ball")
    arm = supple.library.robot_arm(4)
    world.add(supple.ReducedSimulation(supple.reduce(arm, ["tip"]), 1e-3), "arm")
    with pytest.raises(MechanismError, match="not the body of an end effector"):
        world.cover(f"arm:{arm.bodies[0].name}", pad)
