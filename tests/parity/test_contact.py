"""The compiled friction solver and contact points against readable twins, and coal."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import supple
from supple import _core, spatial
from supple.contact.colliders import NO_POINTS, Collider, contact_points, convex_hull
from supple.mechanism import Mesh, Shape
from supple.world import rigid_object

SEEDS = st.integers(0, 2**32 - 1)
FRICTION = np.array([0.5, 0.0, 0.0])
solve_friction, friction_problem = _core.contact_testing.solve_friction, _core.contact_testing.friction_problem


# the friction solver


def residuals(W: np.ndarray, b: np.ndarray, friction: np.ndarray, p: np.ndarray) -> dict[str, float]:
    """How far impulses are from Signorini's and Coulomb's laws, in words of their own: no projection, no scaling."""
    v = (W @ p + b).reshape(-1, 3)
    q, limit = p.reshape(-1, 3), friction * p.reshape(-1, 3)[:, 0]
    tangent, slip = np.linalg.norm(q[:, 1:], axis=1), np.linalg.norm(v[:, 1:], axis=1)
    sliding = np.where((slip > 1e-7) & (q[:, 0] > 1e-9))[0]
    against = [
        np.linalg.norm(q[i, 1:] / limit[i] + v[i, 1:] / slip[i]) * slip[i] if limit[i] > 0 else 0.0 for i in sliding
    ]
    return {
        "pull": float(max(0, -q[:, 0].min())),
        "approach": float(max(0, -v[:, 0].min())),
        "complementarity": float(np.abs(q[:, 0] * v[:, 0]).max()),
        "cone": float((tangent - limit).max()),
        "direction": float(max(against, default=0.0)),
    }


def random_problem(seed: int, contacts: int, coordinates: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    G = rng.normal(size=(3 * contacts, coordinates))
    W = G @ np.diag(10.0 ** rng.uniform(-1, 1, coordinates)) @ G.T
    b = G @ rng.normal(size=coordinates)  # velocities that some motion has
    return W, b, rng.uniform(0.0, 1.0, contacts)


@settings(max_examples=30, deadline=None)
@given(SEEDS, st.integers(1, 6), st.integers(3, 24))
def test_random_problems_are_solved(seed, contacts, coordinates):
    """Redundant contacts included; where no impulse can separate all (b outside the range) the residual says so."""
    W, b, friction = random_problem(seed, contacts, coordinates)
    p, residual = solve_friction(W, b, friction, np.zeros(len(b)))
    if residual < 1e-8:
        found = residuals(W, b, friction, p)
        size = max(1.0, float(np.abs(b).max()))
        assert found["pull"] <= 1e-12
        assert found["cone"] < 1e-7 * size
        assert found["approach"] < 1e-7 * size
        assert found["complementarity"] < 1e-7 * size**2
        assert found["direction"] < 1e-6 * size
    else:
        assert coordinates < 3 * contacts  # only over-determined ones may fail, and say so


@pytest.mark.parametrize("contacts", [1, 3, 6])
@pytest.mark.parametrize("seed", range(8))
def test_well_posed_problems_converge_whatever_the_guess(contacts, seed):
    W, b, friction = random_problem(seed, contacts, 3 * contacts + 4)
    rng = np.random.default_rng(seed)
    velocities = []
    for guess in (np.zeros(len(b)), np.abs(rng.normal(size=len(b)))):
        p, residual = solve_friction(W, b, friction, guess)
        assert residual < 1e-8
        velocities.append(W @ p + b)
    if friction.max() < 0.4:  # little friction: one solution
        np.testing.assert_allclose(velocities[0], velocities[1], atol=1e-6)


@pytest.mark.parametrize("name", ["hand", "hexapod", "trampoline", "suspension", "peg_in_hole"])
def test_the_laws_hold_to_1e_8_in_every_scene(name):
    """Complementarity, cone and direction of sliding, step after step, from the problem itself: W, b and impulses."""
    scene = getattr(supple.scenes, name)()
    touched = slid = 0
    for _ in range(140):
        scene.run(0.01)
        W, b, friction, p = friction_problem(scene.world._core)
        if not len(friction):
            continue
        touched += bool(np.any(p[: 3 * len(friction) : 3] > 0))
        slid += bool(np.any(np.linalg.norm((W @ p + b).reshape(-1, 3)[:, 1:], axis=1)[p[::3] > 0] > 1e-4))
        for what, value in residuals(W, b, friction, p).items():
            assert value < 1e-8 * max(1.0, float(np.abs(b).max())), what
    assert touched > 20
    assert slid or name == "trampoline"  # where the ball only rolls


@pytest.mark.parametrize("seed", range(3))
def test_velocities_do_not_depend_on_the_order_of_contacts(seed):
    """Boxes pushed into a heap, more contacts than they have motions: the same problems in another order."""
    rng = np.random.default_rng(seed)
    world = supple.World()
    world.ground(Shape("plane", (0, 0, 1), np.eye(4)))
    places = [(0.11 * i, 0.02 * (i % 2), 0.05) for i in range(5)] + [(0.05, 0, 0.16), (0.27, 0.01, 0.17)]
    for i, place in enumerate(places):
        push = [*rng.uniform(-1, 1, 2), 0, *rng.uniform(-2, 2, 3)]
        box = rigid_object(f"box_{i}", "box", (0.05, 0.05, 0.05), 1.0 + i, place, friction=0.1 + 0.1 * i)
        world.add(box, velocity=push)
    compared = redundant = 0
    for _ in range(40):
        world.step(2)
        W, b, friction, _ = friction_problem(world._core)
        order = rng.permutation(len(friction))
        rows = (3 * order[:, None] + np.arange(3)).ravel()
        one, first = solve_friction(W, b, friction, np.zeros(len(b)))
        swapped = np.ascontiguousarray(W[np.ix_(rows, rows)])
        other, second = solve_friction(swapped, b[rows], friction[order], np.zeros(len(b)))
        if max(first, second) < 1e-9:  # where the solver met its tolerance
            compared += 1
            redundant += len(b) > 6 * len(places)
            np.testing.assert_allclose((W @ one + b)[rows], swapped @ other + b[rows], atol=1e-6)
    assert compared > 30
    assert redundant > 20


def bisection(W: np.ndarray, b: np.ndarray, friction: float) -> np.ndarray:
    """The readable twin of a single contact with moments: |p_t| falls with a where v_t = -a p_t; bisection of log a."""
    t = len(b) - 1
    if b[0] >= 0:
        return np.zeros(t + 1)
    c = b[1:] - W[1:, 0] * b[0] / W[0, 0]
    S = W[1:, 1:] - np.outer(W[1:, 0], W[0, 1:]) / W[0, 0]

    def impulse(a: float) -> np.ndarray:
        tangent = -np.linalg.solve(S + a * np.eye(t), c)
        return np.array([-(b[0] + W[0, 1:] @ tangent) / W[0, 0], *tangent])

    def excess(a: float) -> float:
        p = impulse(a)
        return float(np.linalg.norm(p[1:]) - friction * p[0])

    low, high = 1e-13 * np.diag(S).max(), np.diag(S).max()
    if excess(low) <= 0:
        return impulse(low)
    while excess(high) > 0:
        low, high = high, 4 * high
    while high > low * (1 + 1e-14):
        middle = np.sqrt(low * high)
        if not low < middle < high:
            break
        low, high = (middle, high) if excess(middle) > 0 else (low, middle)
    p = impulse(high)
    return p if p[0] > 0 else np.zeros(t + 1)


def test_contacts_with_moments_agree_with_bisection():
    """Blocks of four to six rows, with lengths of rows from 1e-3 to 1."""
    rng = np.random.default_rng(5)
    sticking = sliding = 0
    for _ in range(2000):
        n = int(rng.integers(4, 7))
        G = rng.normal(size=(n, n + int(rng.integers(0, 4))))
        G[0] *= rng.uniform(2, 4)  # the normal is not the smallest direction, as in contacts that friction does not jam
        G[3:] *= 10 ** rng.uniform(-3, 0)
        W, b, friction = G @ G.T, rng.normal(size=n) * np.abs(G).max(axis=1), 10 ** rng.uniform(-1.5, 1)
        b[1:] *= 10 ** rng.uniform(-4, 0)
        if rng.uniform() < 0.5:  # the normal direction is hardly coupled
            W[0, 1:] *= 0.01
            W[1:, 0] *= 0.01
        twin = bisection(W, b, friction)
        p = _core.contact_testing.solve_moments(W, b, friction)
        slides = np.linalg.norm(twin[1:]) > 0.999 * friction * twin[0]
        sticking, sliding = sticking + (twin[0] > 0 and not slides), sliding + (twin[0] > 0 and slides)
        assert np.linalg.norm(p[1:]) <= friction * p[0] * (1 + 1e-12)
        if slides:  # the law itself: there may be several solutions
            v = W @ p + b
            if p[0] > 0:
                assert abs(v[0]) < 1e-8 * np.abs(b).max()
                along = p[1:] / np.linalg.norm(p[1:])
                np.testing.assert_allclose(v[1:], -np.linalg.norm(v[1:]) * along, atol=1e-7 * np.abs(b).max())
        else:
            np.testing.assert_allclose(W @ p, W @ twin, atol=1e-8 * np.abs(b).max())
    assert min(sticking, sliding) > 100


def test_problems_of_600_rows_are_solved():
    """200 contacts, 600 rows."""
    W, b, _ = random_problem(3, 200, 640)
    friction = np.full(200, 0.1)
    p, residual = solve_friction(W, b, friction, np.zeros(600))
    assert residual < 1e-9
    assert max(residuals(W, b, friction, p).values()) < 1e-5


def gauss_seidel(W: np.ndarray, b: np.ndarray, friction: np.ndarray, sweeps: int) -> np.ndarray:
    """The readable twin: projected Gauss-Seidel with a fixed step on each contact, until nothing changes."""
    p, blocks = np.zeros(len(b)), [slice(3 * i, 3 * i + 3) for i in range(len(friction))]
    steps = [0.9 / np.linalg.eigvalsh(W[k, k])[-1] for k in blocks]
    for _ in range(sweeps):
        before = p.copy()
        for i, (k, step, mu) in enumerate(zip(blocks, steps, friction, strict=True)):
            v = W[k] @ p + b[k]
            normal = max(0.0, p[3 * i] - step * v[0])
            tangent = p[3 * i + 1 : 3 * i + 3] - step * v[1:]
            length = np.linalg.norm(tangent)
            p[k] = [normal, *(tangent * min(1.0, mu * normal / length) if length > 0 else tangent)]
        if (p == before).all():
            break
    return p


@pytest.mark.parametrize("seed", range(6))
def test_the_solver_agrees_with_its_twin(seed):
    W, b, friction = random_problem(seed, 3, 14)
    p, residual = solve_friction(W, b, 0.3 * friction, np.zeros(9))
    assert residual < 1e-8
    twin = gauss_seidel(W, b, 0.3 * friction, 20000)
    np.testing.assert_allclose(W @ p + b, W @ twin + b, atol=1e-6)


@pytest.mark.parametrize("without", [[0], [1, 2], [0, 1, 2, 3]])
def test_contacts_without_friction_have_normal_impulses_only(without):
    """Beside contacts with friction, and whatever the guess has along the surface."""
    W, b, friction = random_problem(4, 4, 18)
    friction *= 0.3
    friction[without] = 0
    guess = np.abs(np.random.default_rng(1).normal(size=12))
    p, residual = solve_friction(W, b, friction, guess)
    assert residual < 1e-8
    assert (p.reshape(-1, 3)[without, 1:] == 0).all()
    assert (p.reshape(-1, 3)[without, 0] > 0).any()
    twin = gauss_seidel(W, b, friction, 20000)
    np.testing.assert_allclose(W @ p + b, W @ twin + b, atol=1e-6)


def test_a_limit_row_is_one_sided():
    p, residual = solve_friction(np.array([[2.0]]), np.array([-1.0]), np.zeros(0), np.zeros(1))
    assert p[0] == pytest.approx(0.5)
    p, _ = solve_friction(np.array([[2.0]]), np.array([1.0]), np.zeros(0), np.ones(1))
    assert p[0] == 0.0
    assert residual < 1e-12


def test_a_zero_contact_matrix_gives_finite_impulses():
    p, residual = solve_friction(np.zeros((3, 3)), np.array([-1.0, 0, 0]), np.array([0.5]), np.zeros(3))
    assert np.isfinite(p).all()
    assert np.isfinite(residual)


# contact points


def shape(kind: str, size: tuple[float, ...], pose: np.ndarray) -> Collider:
    return Collider(kind, np.array(size), np.ascontiguousarray(pose), FRICTION, NO_POINTS)


def random_pose(rng: np.random.Generator, spread: float) -> np.ndarray:
    return spatial.exp(np.concatenate([rng.uniform(-spread, spread, 3), rng.uniform(-2, 2, 3)]))


SIZES = {"sphere": (0.2,), "capsule": (0.1, 0.3), "box": (0.3, 0.2, 0.15), "cylinder": (0.2, 0.25)}
PAIRS = [("sphere", k) for k in SIZES] + [
    ("capsule", "capsule"),
    ("capsule", "box"),
    ("capsule", "cylinder"),
    ("box", "box"),
]


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_distances_agree_with_coal(first, second):
    """The smallest gap of a pair, apart and (where it is shallow) overlapping."""
    coal = pytest.importorskip("coal")
    from tests.coal_reference import coal_geometry

    rng, apart = np.random.default_rng(11), 0
    for _ in range(300):
        a, b = shape(first, SIZES[first], random_pose(rng, 0.5)), shape(second, SIZES[second], random_pose(rng, 0.5))
        places = [coal.Transform3s(s.pose[:3, :3], s.pose[:3, 3]) for s in (a, b)]
        result = coal.DistanceResult()
        geometries = coal_geometry(a), coal_geometry(b)
        truth = coal.distance(geometries[0], places[0], geometries[1], places[1], coal.DistanceRequest(True), result)
        found = contact_points(a, b, 10.0)
        if truth > 0.01 and (first, second) != ("box", "box"):
            apart += 1
            assert len(found)
            assert found["gap"].min() == pytest.approx(truth, abs=1e-5)
        elif truth > 0.01:  # boxes by separating planes: separate boxes do not overlap
            apart += 1
            assert (found["gap"] > 0).all()
        elif -0.02 < truth < -1e-4:
            assert found["gap"].min() < 0
    assert apart > 20


@pytest.mark.parametrize("kind", [*SIZES, "ellipsoid"])
def test_depths_on_a_plane_are_those_of_the_lowest_point(kind):
    """Against points sampled on the surface."""
    rng = np.random.default_rng(4)
    size = SIZES.get(kind, (0.3, 0.2, 0.15))
    directions = rng.normal(size=(200_000, 3))
    for _ in range(5):
        body, plane = shape(kind, size, random_pose(rng, 0.2)), shape("plane", (0, 0, 1), random_pose(rng, 0.1))
        found = contact_points(body, plane, 10.0)
        normal, at = plane.pose[:3, 2], plane.pose[:3, 3]
        surface = _surface(kind, np.array(size), directions) @ body.pose[:3, :3].T + body.pose[:3, 3]
        lowest = ((surface - at) @ normal).min()
        assert found["gap"].min() == pytest.approx(lowest, abs=2e-4)
        np.testing.assert_allclose(found["normal"], np.broadcast_to(normal, (len(found), 3)), atol=1e-12)


def _surface(kind: str, size: np.ndarray, directions: np.ndarray) -> np.ndarray:
    """Points on the surface: the farthest ones in many directions."""
    unit = directions / np.linalg.norm(directions, axis=1)[:, None]
    match kind:
        case "sphere":
            return size[0] * unit
        case "capsule":
            return size[0] * unit + np.outer(np.sign(unit[:, 2]), [0, 0, size[1]])
        case "box":
            return np.sign(unit) * size
        case "ellipsoid":
            return size**2 * unit / np.linalg.norm(size * unit, axis=1)[:, None]
    flat = unit[:, :2] / np.linalg.norm(unit[:, :2], axis=1)[:, None]
    return np.concatenate([size[0] * flat, size[1] * np.sign(unit[:, 2:])], axis=1)


@pytest.mark.parametrize("first", SIZES)
@pytest.mark.parametrize("second", [*SIZES, "plane"])
def test_swapping_the_shapes_reverses_the_normals(first, second):
    rng = np.random.default_rng(2)
    for _ in range(10):
        a = shape(first, SIZES[first], random_pose(rng, 0.2))
        b = shape(second, SIZES.get(second, (0, 0, 1)), random_pose(rng, 0.2))
        one, other = contact_points(a, b, 0.5), contact_points(b, a, 0.5)
        if first == second:
            continue
        np.testing.assert_array_equal(one["position"], other["position"])
        np.testing.assert_array_equal(one["normal"], -other["normal"])


def test_a_resting_face_has_several_points():
    floor = shape("plane", (0, 0, 1), np.eye(4))
    for kind, count in (("box", 4), ("cylinder", 4), ("capsule", 1)):
        up = spatial.translation([0.3, 0.1, {"box": 0.15, "cylinder": 0.25, "capsule": 0.4}[kind]])
        found = contact_points(shape(kind, SIZES[kind], up), floor, 1e-3)
        assert len(found) == count
        np.testing.assert_allclose(found["gap"], 0, atol=1e-12)
    stacked = contact_points(
        shape("box", (0.1, 0.1, 0.1), spatial.translation([0.02, 0.01, 0.2])),
        shape("box", (0.1, 0.1, 0.1), np.eye(4)),
        1e-3,
    )
    assert len(stacked) == 4
    np.testing.assert_allclose(np.ptp(stacked["position"][:, 0]), 0.18, atol=1e-9)
    np.testing.assert_allclose(stacked["normal"], [[0, 0, 1]] * 4)


def test_a_mesh_on_a_box():
    cube = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], dtype=float) * 0.1
    points, faces = convex_hull(Mesh("cube", cube, [[0, 1, 2]]))
    mesh = Collider("mesh", np.zeros(0), spatial.translation([0, 0, 0.2]), FRICTION, points, faces=faces)
    box = shape("box", (0.1, 0.1, 0.1), np.eye(4))
    found = contact_points(mesh, box, 1e-3)
    assert len(found) == 4
    np.testing.assert_allclose(found["normal"], [[0, 0, 1]] * 4, atol=1e-6)
    np.testing.assert_allclose(found["gap"], 0, atol=1e-6)


@pytest.mark.parametrize("kind", ["round", "flat", "prism", "grid"])
def test_hill_climbing_finds_the_farthest_corner(kind):
    rng = np.random.default_rng(2)
    corners = rng.normal(size=(400, 3))
    if kind == "round":
        corners /= np.linalg.norm(corners, axis=1, keepdims=True)
    elif kind == "flat":
        corners *= [1, 1, 1e-3]
    elif kind == "prism":
        angle = 2 * np.pi * np.arange(200) / 200
        ring = np.stack([np.cos(angle), np.sin(angle), 0 * angle], axis=1)
        corners = np.concatenate([ring, ring + [0, 0, 2.0]])
    else:
        corners = np.array(np.meshgrid(*[np.linspace(-1, 1, 5)] * 3)).reshape(3, -1).T  # many points on each face
    check_farthest(*convex_hull(Mesh("hull", corners, [[0, 1, 2]])), rng)


def check_farthest(points: np.ndarray, faces: np.ndarray, rng: np.random.Generator) -> None:
    """Corners of a hull by hill climbing beside all of them."""
    mesh = Collider("mesh", np.zeros(0), np.eye(4), FRICTION, points, faces=faces)
    size = np.abs(points).max()
    for d in [*rng.normal(size=(300, 3)), *np.eye(3), *-np.eye(3)]:
        found = _core.contact_testing.farthest(mesh.core, d)
        assert points[found] @ d > (points @ d).max() - 1e-7 * size * np.linalg.norm(d)


@pytest.mark.parametrize("robot", ["unitree_go2", "unitree_h1", "booster_t1", "google_barkour_vb"])
def test_hill_climbing_on_the_hulls_of_robots(robot, robots):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mech = supple.load(robots / robot / "scene.xml")
    touching = {s.mesh for body in mech.bodies for s in body.shapes if s.touches and s.mesh}
    for mesh in [m for m in mech.meshes if m.name in touching] or mech.meshes[:2]:
        check_farthest(*convex_hull(mesh), np.random.default_rng(1))


CONVEX = ("sphere", "capsule", "cylinder", "box", "ellipsoid", "mesh")
PAIRS = [(a, b) for a in CONVEX for b in ("cylinder", "ellipsoid", "mesh") if {a, b} & {"ellipsoid", "mesh"} or a == b]


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_convex_shapes_agree_with_coal(first, second):
    """Distances, and depths of overlaps."""
    coal = pytest.importorskip("coal")
    from tests.coal_reference import coal_geometry

    rng = np.random.default_rng(0)

    def random_collider(kind, place):
        if kind != "mesh":
            return shape(kind, rng.uniform(0.05, 0.2, len(SIZES.get(kind, (0, 0, 0)))), place)
        corners = rng.normal(size=(30, 3))
        corners *= rng.uniform(0.05, 0.2, 3) / np.linalg.norm(corners, axis=1)[:, None]
        points, faces = convex_hull(Mesh("hull", corners, [[0, 1, 2]]))
        return Collider("mesh", np.zeros(0), place, FRICTION, points, faces=faces)

    for _ in range(15):
        a = random_collider(first, random_pose(rng, 0.0))
        b = random_collider(second, random_pose(rng, 0.25))
        found = contact_points(a, b, 1.0)
        places = [coal.Transform3s(np.ascontiguousarray(s.pose[:3, :3]), s.pose[:3, 3]) for s in (a, b)]
        request = coal.DistanceRequest(True)
        request.enable_signed_distance = True
        geometries = coal_geometry(a), coal_geometry(b)
        truth = coal.distance(geometries[0], places[0], geometries[1], places[1], request, coal.DistanceResult())
        smooth = "mesh" not in (first, second) or "ellipsoid" in (first, second) or "cylinder" in (first, second)
        assert found["gap"].min() == pytest.approx(truth, abs=5e-4 if smooth else 1e-9)
        deepest = found[found["gap"].argmin()]
        moved = Collider(b.kind, b.size, b.pose.copy(), FRICTION, b.points, faces=b.faces)
        moved.pose[:3, 3] += (deepest["gap"] - 1e-3) * deepest["normal"]  # a millimetre apart, along the normal
        assert contact_points(a, moved, 1.0)["gap"].min() == pytest.approx(1e-3, abs=5e-4)


# height fields


@settings(max_examples=25, deadline=None)
@given(SEEDS)
def test_balls_on_a_height_field_agree_with_a_search_over_all_triangles(seed):
    rng = np.random.default_rng(seed)
    heights = rng.uniform(0, 0.05, (7, 9))
    field = Collider("height_field", np.array([0.4, 0.3]), spatial.exp(rng.normal(size=6) * 0.3), FRICTION, heights)
    x, y = np.linspace(-0.4, 0.4, 9), np.linspace(-0.3, 0.3, 7)
    at = np.array([rng.uniform(-0.3, 0.3), rng.uniform(-0.2, 0.2), rng.uniform(0.06, 0.12)])
    ball = shape("sphere", (0.06,), field.pose @ spatial.translation(at))
    found = contact_points(ball, field, 0.2)
    nearest = min(
        _to_triangle(at, *(np.array([x[c], y[r], heights[r, c]]) for r, c in corners))
        for j in range(6)
        for i in range(8)
        for corners in (((j, i), (j, i + 1), (j + 1, i + 1)), ((j, i), (j + 1, i + 1), (j + 1, i)))
    )
    assert found["gap"].min() == pytest.approx(nearest - 0.06, abs=1e-6)


def _to_triangle(p: np.ndarray, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> float:
    """Distance from a point to a triangle: its plane where it lies above it, its edges otherwise."""
    normal = np.cross(b - a, c - a)
    inside = all(np.dot(np.cross(q - o, p - o), normal) >= 0 for o, q in ((a, b), (b, c), (c, a)))
    if inside:
        return abs(float(np.dot(p - a, normal))) / float(np.linalg.norm(normal))
    ends = []
    for o, q in ((a, b), (b, c), (c, a)):
        t = np.clip(np.dot(p - o, q - o) / np.dot(q - o, q - o), 0, 1)
        ends.append(float(np.linalg.norm(p - o - t * (q - o))))
    return min(ends)
