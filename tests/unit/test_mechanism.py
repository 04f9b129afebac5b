"""The description of a mechanism: its properties, and errors for bad input."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.interpolate import PchipInterpolator

import mechanisms
import supple
from supple import spatial
from supple.mechanism import Body, Coupling, Curve, Joint, Keyframe, Mechanism, Mesh, Motor, Shape, Site
from supple.mechanism.ball import Cloud, enclosing_ball

# mobility and what holds what


@pytest.mark.parametrize(
    ("mech", "motions"),
    [
        (mechanisms.four_bar(), 1),
        (mechanisms.stewart(), 6),
        (mechanisms.delta(), 3),
        (mechanisms.delta(rods=1), 3),
        (supple.library.robot_arm(links=7), 7),
    ],
    ids=lambda value: getattr(value, "name", value),
)
def test_mobility(mech, motions):
    assert mech.mobility == motions


def ring(axes: str) -> Mechanism:
    """A closed square of four links, the first fixed, hinged about the given world axes."""
    b = supple.Builder("ring")
    corners = [(0, 0, 0), (1, 0, 0), (1, 1, 0), (0, 1, 0)]
    for i in range(4):
        b.link(f"side{i}", corners[i], corners[(i + 1) % 4], mass=1.0)
    b.fixed("base", "world", "side0")
    for i, axis in enumerate(axes):
        b.hinge(f"hinge{i}", f"side{i}", f"side{(i + 1) % 4}", at=corners[(i + 1) % 4], axis=axis)
    return b.build()


def test_hinged_ring():
    """Parallel axes across the plane leave one motion (the 6 - 4 count says -2); in general there is none."""
    assert ring("zzzz").mobility == 1
    assert ring("xyzz").mobility == 0
    assert len(ring("zzzz").topology.loops) == 1


def test_rigid_couplings_reduce_mobility():
    mech = supple.library.robot_arm(links=4)
    a, b, c, _ = mech.coordinates
    coupling = Coupling("gear", (a, b, c), (1.0, -2.0, 1.0), rigid=True)
    assert replace(mech, couplings=(coupling,)).mobility == 3


def test_unheld():
    mech = mechanisms.four_bar()
    assert set(mech.unheld) == {"a", "b", "c", "d"}
    assert replace(mech, motors=(Motor("m", "a"),)).unheld == ()
    held = mech.with_springs(50.0, 2.0)
    assert held.unheld == ()
    assert held.joint("a").stiffness == [50.0]
    one = mech.with_springs(50.0, joints=["d"])
    assert [float(j.stiffness[0]) for j in one.joints] == [0, 0, 0, 50]
    assert mech.with_springs(50.0, joints="d") == one
    with pytest.raises(supple.MechanismError, match="-1"):
        mech.with_springs(-1.0)
    with pytest.raises(supple.MechanismError, match="stiffness must be numbers, got 'stiff'"):
        mech.with_springs("stiff")
    with pytest.raises(supple.MechanismError, match="'e'"):
        mech.with_springs(1.0, joints=["e"])


def test_free_base_stays_free():
    b = supple.Builder("floating")
    b.link("trunk", (0, 0, 0), (0, 0, 1), mass=1.0)
    b.link("arm", (0, 0, 1), (0, 0, 2), mass=1.0)
    b.free("base", "world", "trunk")
    b.hinge("elbow", "trunk", "arm", at=(0, 0, 1), axis="x")
    mech = b.build()
    assert mech.mobility == 7
    assert mech.with_springs(10.0).unheld == mech.joint("base").axes


def test_names_lead_to_parts():
    mech = mechanisms.four_bar()
    assert [j.name for j in mech.joints_of("coupler")] == ["b", "d"]
    assert mech.joint("b") == mech.joints[1]
    assert mech.body_index("world") == -1
    assert mech.poses["rocker"] is not mech.poses["crank"]
    np.testing.assert_array_equal(mech.poses["world"], np.eye(4))
    assert mech.mass == pytest.approx(3.0)
    for call in (mech.body, mech.joints_of, lambda n: mech.poses[n], lambda n: supple.jacobian(mech, n)):
        with pytest.raises(supple.MechanismError, match="did you mean 'rocker'"):
            call("roker")
    with pytest.raises(supple.MechanismError, match="fixed frame"):
        mech.body("world")


def test_total_mass_and_centre():
    mech = mechanisms.four_bar()
    middles = [b.pose[:3, :3] @ b.centre + b.pose[:3, 3] for b in mech.bodies]
    np.testing.assert_allclose(mech.centre, np.mean(middles, axis=0), atol=1e-15)


# kinds


KINDS = [*mechanisms.KINDS, "free"]


@pytest.mark.parametrize("kind", KINDS)
def test_kind(kind):
    b = supple.Builder("kinds")
    b.link("arm", (0, 0, 0), (0.3, 0.2, 0.5), mass=1.0)
    at, axis = (0.1, 0.2, 0.3), (1, 2, 2)
    match kind:
        case "fixed" | "free":
            getattr(b, kind)("j", "world", "arm")
        case "universal":
            b.universal("j", "world", "arm", at, axes=(axis, (2, 1, -2)))
        case "planar":
            b.planar("j", "world", "arm", at, normal=axis)
        case "screw":
            b.screw("j", "world", "arm", at, axis, pitch=0.1)
        case "ball":
            b.ball("j", "world", "arm", at)
        case "bushing":
            b.bushing("j", "world", "arm", at, stiffness=100.0)
        case "axes":
            twists = [[0, 0, 0, 1, 0, 0], [0, 0, 0, 0, 0.6, 0.8], [1, 0, 0, 0, 0, 0]]
            b.joint("j", "world", "arm", np.eye(4), twists)
        case _:
            getattr(b, kind)("j", "world", "arm", at, axis)
    joint = b.build().joints[0]
    assert joint.kind == kind
    sizes = {
        "fixed": 0,
        "cylindrical": 2,
        "universal": 2,
        "ball": 3,
        "planar": 3,
        "axes": 3,
        "bushing": 6,
        "free": 6,
    }
    assert len(joint.axes) == sizes.get(kind, 1)


def test_cylindrical_needs_one_line():
    twists = [[0, 0, 0, 0, 0, 1], [0.6, 0, 0.8, 0, 0, 0]]
    assert Joint("j", "a", "b", np.eye(4), np.eye(4), twists).kind == "axes"


# curves


def test_curve_against_scipy():
    x, y = np.array([-1.0, -0.4, 0.0, 0.5, 2.0]), np.array([-3.0, -2.5, 0.0, 0.3, 9.0])
    curve, cubic = Curve(x, y), PchipInterpolator(x, y)
    inside = np.linspace(-1, 2, 301)
    np.testing.assert_allclose(curve(inside), cubic(inside), atol=1e-13)
    np.testing.assert_allclose(curve.slope(inside), cubic(inside, 1), atol=1e-12)
    for edge, far in ((-1.0, -3.0), (2.0, 5.0)):  # straight beyond the points
        assert curve(far) == pytest.approx(cubic(edge) + cubic(edge, 1) * (far - edge))
        assert curve.slope(far) == pytest.approx(cubic(edge, 1))
    for end in (-3.0, -1.0, -0.7, 0.0, 0.2, 2.0, 4.0):
        parts = [t for t in (-1.0, -0.4, 0.5, 2.0) if min(0, end) < t < max(0, end)]
        work = quad(curve, 0, end, points=parts or None, epsabs=1e-13)[0]
        assert curve.energy(end) == pytest.approx(work, abs=1e-11)
    assert curve(np.zeros((2, 3))).shape == (2, 3)


def test_curve_is_monotone_and_raises_for_unordered_points():
    stiff = Curve((0, 1, 2, 3), (0, 0, 5, 5))
    assert (np.diff(stiff(np.linspace(-1, 4, 400))) >= -1e-14).all()
    for x, y in (([0, 0], [1, 2]), ([1, 0], [1, 2]), ([0], [1]), ([0, 1], [1, 2, 3]), ([0, np.nan], [0, 1])):
        with pytest.raises(supple.MechanismError, match="spring curve"):
            Curve(x, y)


# the smallest ball


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 40, 400])
def test_enclosing_ball(count):
    rng = np.random.default_rng(count)
    points = rng.normal(size=(count, 3)) * [1.0, 0.5, 2.0]
    centre, radius = enclosing_ball([Cloud(points, np.eye(4), 0.0)])
    away = np.linalg.norm(points - centre, axis=1)
    assert away.max() == pytest.approx(radius)
    for step in np.concatenate([np.eye(3), -np.eye(3), rng.normal(size=(20, 3))]) * 1e-3 * (radius + 1e-3):
        assert np.linalg.norm(points - centre - step, axis=1).max() >= radius * (1 - 1e-9)
    grown = enclosing_ball([Cloud(points, np.eye(4), 0.3)])[1]
    assert grown == pytest.approx(radius + 0.3)


def test_ball_of_special_points():
    cube = np.array([[x, y, z] for x in (0, 1) for y in (0, 1) for z in (0, 1)], dtype=float)
    ring = np.array([[np.cos(t), np.sin(t), 0] for t in np.arange(64) * np.pi / 32])
    same = np.ones((7, 3))
    for points, wanted in ((cube, np.sqrt(3) / 2), (ring, 1.0), (same, 0.0), (cube * [1, 0, 0], 0.5)):
        assert enclosing_ball([Cloud(points, np.eye(4), 0.0)])[1] == pytest.approx(wanted, abs=1e-9)


@pytest.mark.parametrize("jitter", [0.0, 1e-16, 1e-13, 1e-11, 1e-10, 1e-9])
def test_ball_of_mirrored_points(jitter):
    """Points in mirrored pairs have many supports of almost the same radius; the search must not alternate between
    them."""
    rng = np.random.default_rng(7)
    for _ in range(20):
        quarter = rng.normal(size=(4, 3)) * [1.0, 0.5, 0.3]
        points = np.concatenate([quarter * [x, y, 1] for x in (1, -1) for y in (1, -1)])
        points += jitter * rng.normal(size=points.shape)
        centre, radius = enclosing_ball([Cloud(points, np.eye(4), 0.0)])
        assert np.linalg.norm(points - centre, axis=1).max() <= radius * (1 + 1e-15)
        assert np.abs(centre[:2]).max() <= 2e-8 + 10 * jitter  # the smallest ball has its centre on both mirror planes


def test_radius_of_a_rod():
    """Of the rounded ends it is an upper bound: they grow the ball around the points within."""
    b = supple.Builder("rod")
    b.link("rod", (1, 1, 1), (1, 1, 3), mass=1.0, radius=0.1)
    b.hinge("h", "world", "rod", at=(1, 1, 1), axis="x")
    centre, radius = b.build().bounding_sphere
    assert 1.0 <= radius <= 1.05 + 1e-9
    np.testing.assert_allclose(centre, (1, 1, 1.95), atol=1e-9)


# changed copies


def test_at_keyframe():
    mech = mechanisms.four_bar(stiffness=10.0, rest=0.1)
    key = Keyframe("bent", (0.1, -0.2, 0.05))
    bent = replace(mech, keyframes=(key,)).at("bent")
    np.testing.assert_array_equal(bent.reference, key.coordinates)
    np.testing.assert_allclose(bent.poses.array, supple.kinematics(mech, key.coordinates).poses.array)
    np.testing.assert_array_equal(bent.joint("a").rest, [0.1])
    with pytest.raises(supple.MechanismError, match=r"keyframe named 'bend' in 'four_bar'; it has 'bent'"):
        replace(mech, keyframes=(key,)).at("bend")
    with pytest.raises(supple.MechanismError, match="3 coordinates"):
        mech.at([0.0])


def test_records_are_frozen_and_comparable():
    mech = mechanisms.four_bar()
    with pytest.raises(AttributeError):
        mech.name = "other"
    with pytest.raises(ValueError, match="read-only"):
        mech.bodies[0].pose[0, 0] = 2
    assert mech == mechanisms.four_bar()
    assert mech != mechanisms.four_bar(stiffness=1e-300)
    assert mech != "four_bar"


# what is refused

EYE = np.eye(4)
TALL = np.diag([1.0, 1.0, 2.5])
BODY = {"name": "arm", "pose": EYE, "mass": 1.0}
JOINT = {"name": "elbow", "parent": "world", "child": "arm", "pose_parent": EYE, "pose_child": EYE}
X = [[0, 0, 0, 1, 0, 0]]
MIRROR = np.diag([1.0, 1.0, -1.0, 1.0])
NAN = np.full((4, 4), np.nan)
PARTS = {
    "no name": (Body, BODY | {"name": "  "}, "a body needs a name"),
    "name of the world": (Body, BODY | {"name": "world"}, "'world' is the fixed frame"),
    "negative mass": (Body, BODY | {"mass": -2}, "body 'arm' has the negative mass -2"),
    "mass of text": (Body, BODY | {"mass": "heavy"}, "mass of body 'arm' must be numbers, got 'heavy'"),
    "infinite mass": (Body, BODY | {"mass": np.inf}, "mass of body 'arm' must be finite"),
    "NaN centre": (Body, BODY | {"centre": (0, np.nan, 0)}, "centre of body 'arm' must be finite"),
    "short centre": (Body, BODY | {"centre": (0, 0)}, "centre of body 'arm' must have shape 3, got 2"),
    "impossible inertia": (
        supple.Builder("b").body,
        BODY | {"inertia": TALL},
        "no body can have the inertia of body 'arm'",
    ),
    "negative inertia": (Body, BODY | {"inertia": -TALL}, "inertia of body 'arm' has the negative principal"),
    "lopsided inertia": (Body, BODY | {"inertia": np.triu(np.ones((3, 3)))}, "body 'arm' is not symmetric"),
    "inertia without mass": (
        supple.Builder("b").body,
        BODY | {"mass": 0, "inertia": np.eye(3)},
        "'arm' has inertia but no mass",
    ),
    "mirrored pose": (Body, BODY | {"pose": MIRROR}, "pose of body 'arm' is not a rigid pose"),
    "scaled pose": (Body, BODY | {"pose": 2 * EYE}, "pose of body 'arm' is not a rigid pose"),
    "overflowing pose": (
        Body,
        BODY | {"pose": np.array([[1, 1, 0, 0], [1, -1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1e-300]]) * 1e300},
        "pose of body 'arm' is not a rigid pose",
    ),
    "NaN pose": (Body, BODY | {"pose": NAN}, "pose of body 'arm' must be finite"),
    "site pose": (Site, {"name": "s", "body": "arm", "pose": MIRROR}, "pose of site 's'"),
    "joint to itself": (Joint, JOINT | {"parent": "arm"}, "joint 'elbow' connects 'arm' to itself"),
    "bad axis": (Joint, JOINT | {"twists": [[0, 0, 0, 2, 0, 0]]}, "joint 'elbow' has an axis of length 2"),
    "no axis": (Joint, JOINT | {"twists": [[0] * 6]}, "joint 'elbow' has an axis of length 0"),
    "axis of five": (Joint, JOINT | {"twists": [[0] * 5]}, "axes of joint 'elbow' must have shape nx6"),
    "skew ball": (Joint, JOINT | {"twists": X * 3, "blocks": (3,)}, "joint 'elbow': a block of three"),
    "mirrored ball": (
        Joint,
        JOINT | {"twists": np.eye(6)[[4, 3, 5]], "blocks": (3,)},
        "joint 'elbow': a block of three axes must be three perpendicular unit rotations, right-handed",
    ),
    "block of two": (Joint, JOINT | {"twists": X * 2, "blocks": (2,)}, "blocks of joint 'elbow' must be 1"),
    "many names": (Joint, JOINT | {"twists": X, "axes": ("a", "b")}, "joint 'elbow' has 1 axes"),
    "axis without name": (
        Joint,
        JOINT | {"twists": X, "axes": ("",)},
        "a coordinate of joint 'elbow' needs a name",
    ),
    "limit upside down": (
        Joint,
        JOINT | {"twists": X, "limits": (1, -1)},
        "limits of 'elbow' are upside down",
    ),
    "limit at infinity": (Joint, JOINT | {"twists": X, "limits": (np.inf, np.inf)}, "limits of 'elbow'"),
    "NaN limit": (
        Joint,
        JOINT | {"twists": X, "limits": (np.nan, 1)},
        "limits of joint 'elbow' (1 axes) must be",
    ),
    "negative stiffness": (
        Joint,
        JOINT | {"twists": X, "stiffness": -1},
        "stiffness of joint 'elbow' must not be",
    ),
    "stiffness count": (
        Joint,
        JOINT | {"twists": X, "stiffness": [1, 2]},
        "stiffness of joint 'elbow' (1 axes)",
    ),
    "joint frame": (
        Joint,
        JOINT | {"pose_parent": MIRROR},
        "frame of joint 'elbow' on 'world' is not a rigid pose",
    ),
    "coupling count": (
        Coupling,
        {"name": "c", "coordinates": ("a",), "coefficients": (1, 2)},
        "coefficients of coupling 'c'",
    ),
    "coupling twice": (
        Coupling,
        {"name": "c", "coordinates": ("a", "a"), "coefficients": (1, 2)},
        "coupling 'c' needs",
    ),
    "coupling of zero": (
        Coupling,
        {"name": "c", "coordinates": ("a",), "coefficients": (0,)},
        "coupling 'c' needs",
    ),
    "coupling limits": (
        Coupling,
        {"name": "c", "coordinates": ("a",), "coefficients": (1,), "limits": (2, 1)},
        "limits of coupling 'c' are upside down",
    ),
    "motor position": (
        Motor,
        {"name": "m", "coordinate": "a", "position": np.nan},
        "position of motor 'm' must be finite",
    ),
    "shape kind": (
        Shape,
        {"kind": "cone", "size": (1,), "pose": EYE},
        "unknown shape kind 'cone'; known: plane, sphere",
    ),
    "shape size": (Shape, {"kind": "box", "size": (1,), "pose": EYE}, "size of a box must have shape 3"),
    "flat box": (
        Shape,
        {"kind": "box", "size": (1, 0, 1), "pose": EYE, "name": "b"},
        "size of shape 'b' must be positive",
    ),
    "no mesh": (Shape, {"kind": "mesh", "size": (), "pose": EYE}, "a mesh: give `mesh`"),
    "contact mask": (
        Shape,
        {"kind": "sphere", "size": (1,), "pose": EYE, "contact_type": -1},
        "contact masks of a sphere",
    ),
    "face out of range": (
        Mesh,
        {"name": "m", "vertices": np.eye(3), "faces": [[0, 1, 3]]},
        "mesh 'm' has a face",
    ),
    "face of floats": (Mesh, {"name": "m", "vertices": np.eye(3), "faces": np.eye(3)}, "faces of mesh 'm'"),
}


@pytest.mark.parametrize("fault", PARTS)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_errors_of_parts(fault):
    cls, arguments, message = PARTS[fault]
    with pytest.raises(supple.MechanismError, match=re.escape(message)):
        cls(**arguments)


def whole(**changes) -> Mechanism:
    return replace(mechanisms.four_bar(), **changes)


FOUR = mechanisms.four_bar()
LOOSE = Body("loose", EYE, 1.0)
WHOLES = {
    "no bodies": ({"bodies": (), "joints": ()}, "'four_bar' has no bodies"),
    "same body": ({"bodies": FOUR.bodies + FOUR.bodies[:1]}, "two bodies are named 'crank'"),
    "same joint": ({"joints": FOUR.joints + FOUR.joints[:1]}, "two joints are named 'a'"),
    "same coordinate": (
        {"joints": (*FOUR.joints, replace(FOUR.joints[0], name="e"))},
        "two coordinates are named 'a'",
    ),
    "site like a body": (
        {"sites": (Site("crank", "rocker", EYE),)},
        "two bodies and sites are named 'crank'",
    ),
    "unknown body": (
        {"joints": (*FOUR.joints[:3], replace(FOUR.joints[3], child="couplr"))},
        "'d'",
        "did you mean 'coupler'",
    ),
    "unknown site": ({"sites": (Site("s", "roker", EYE),)}, "site 's'", "'rocker'"),
    "unknown coordinate": ({"couplings": (Coupling("c", ("a", "z"), (1, 1)),)}, "coupling 'c'", "named 'z'"),
    "unknown motor": ({"motors": (Motor("m", "z"),)}, "motor 'm'", "named 'z'"),
    "two motors": ({"motors": (Motor("m", "a"), Motor("n", "a"))}, "motors' coordinates are named 'a'"),
    "same motor": ({"motors": (Motor("m", "a"), Motor("m", "b"))}, "two couplings and motors are named 'm'"),
    "unknown mesh": ({"shapes": (Shape("mesh", (), EYE, mesh="m", name="s"),)}, "no mesh", "s", "'m'"),
    "unknown exclude": ({"contact_excludes": (("crank", "z"),)}, "contact exclude", "'z'"),
    "unreachable": ({"bodies": (*FOUR.bodies, LOOSE)}, "1 bodies cannot be reached", "'loose'", "free joint"),
    "short keyframe": ({"keyframes": (Keyframe("k", (1, 2)),)}, "keyframe 'k' has 2 coordinates", "has 3"),
    "NaN gravity": ({"gravity": (0, 0, np.nan)}, "gravity must be finite"),
    "no name": ({"name": ""}, "a mechanism needs a name"),
    "torn joint": (
        {"joints": (replace(FOUR.joints[0], pose_parent=spatial.translation(np.ones(3))), *FOUR.joints[1:])},
        "joint 'a' does not fit the poses of 'world' and 'crank'",
        "1 m",
    ),
}


@pytest.mark.parametrize("fault", WHOLES)
def test_errors_of_mechanisms(fault):
    changes, *messages = WHOLES[fault]
    with pytest.raises(supple.MechanismError) as caught:
        whole(**changes)
    for message in messages:
        assert message in str(caught.value)


def test_builder_names_the_caller():
    b = supple.Builder("arm")
    b.link("upper", (0, 0, 0), (0, 0, 1), mass=1.0)
    for call, message in (
        (lambda: b.hinge("h", "world", "uper", (0, 0, 0), "x"), r"used by 'h'.*did you mean 'upper'"),
        (lambda: b.hinge("h", "world", "upper", (0, 0, 0), "w"), "axis of 'h' must be 'x', 'y', 'z'"),
        (lambda: b.hinge("h", "world", "upper", (0, 0, 0), (0, 0, 0)), "axis of 'h' has no direction"),
        (lambda: b.hinge("h", "world", "upper", (0, 0), "x"), "position of 'h' must have shape 3"),
        (lambda: b.hinge("h", "world", "upper", (0, 0, 0), "x", stiffness="3"), "stiffness of .* numbers, got '3'"),
        (lambda: b.hinge("h", "world", "upper", (0, 0, 0), "x", reference=(1, 2)), "reference of .*shape 1, got 2"),
        (lambda: b.hinge("h", "world", "upper", (0, 0, 0), "x", stifness=3.0), "joint 'h' .*did you mean 'stiffness'"),
        (lambda: b.couple("c", {"h": 1.0}, stifness=3.0), "coupling 'c' .*did you mean 'stiffness'"),
        (lambda: b.actuator("a", "h", gian=(1, 0, 0)), "actuator 'a' .*did you mean 'gain'"),
        (lambda: b.link("l", (0, 0, 0), (0, 0, 0), mass=1.0), "link 'l' has no length"),
        (lambda: b.body("upper"), "two bodies are named 'upper'"),
        (lambda: b.site("s", "upper"), "site 's' needs either"),
    ):
        with pytest.raises(supple.MechanismError, match=message):
            call()


def test_a_rotation_vector_takes_no_limits():
    b = supple.Builder("ball")
    b.body("a", mass=1.0, inertia=(1, 1, 1))
    with pytest.raises(supple.MechanismError, match="joint 'turn': a rotation vector takes no limits"):
        b.ball("turn", "world", "a", at=(0, 0, 0), limits=(-1, 1))


def test_huge_coordinates_raise():
    mech, q = supple.library.robot_arm(), np.full(20, 1e200)
    for ask in (supple.kinematics, supple.mass_matrix, lambda mech, q: supple.jacobian(mech, "tip", q)):
        with pytest.raises(supple.MechanismError, match=r"of 'robot_arm' must be within 1e\+09 rad or m, got 1e\+200"):
            ask(mech, q)


# numbers, names and arrays


def _arm() -> supple.Mechanism:
    b = supple.Builder("arm")
    b.link("upper", (0, 0, 0), (0, 0, 1), mass=1.0)
    b.link("lower", (0, 0, 1), (0, 0, 2), mass=1.0)
    b.universal("hip", "world", "upper", at=(0, 0, 0), axes=("x", "y"), stiffness=100.0, damping=0.5)
    b.hinge("knee", "upper", "lower", at=(0, 0, 1), axis="y", stiffness=100.0)
    b.couple("tendon", {"hip.1": 1.0, "knee": 1.0}, stiffness=2.0)
    return b.build()


def test_at_takes_numbers_names_and_arrays():
    mech = _arm()
    np.testing.assert_array_equal(mech.at([0.1, 0.2, 0.3]).reference, [0.1, 0.2, 0.3])
    np.testing.assert_array_equal(mech.at(0.1).reference, [0.1, 0.1, 0.1])
    np.testing.assert_array_equal(mech.at({"knee": 0.3}).reference, [0, 0, 0.3])
    np.testing.assert_array_equal(mech.at({"hip": [0.1, 0.2]}).reference, [0.1, 0.2, 0])
    np.testing.assert_array_equal(mech.at({"hip.1": 0.2}).at({"hip": 0.4}).reference, [0.4, 0.4, 0])
    for wrong, text in (({"kne": 1}, "did you mean 'knee'"), ({"hip": [1, 2, 3]}, "shape 2"), (np.nan, "finite")):
        with pytest.raises(supple.MechanismError, match=text):
            mech.at(wrong)


def test_relaxed_springs_are_unloaded():
    mech = _arm()
    bent = mech.at({"knee": 0.3}, relax=True)
    assert bent.joint("knee").rest == 0.3
    assert bent.couplings[0].rest == 0.3
    assert supple.Simulation(bent, dt=1e-3).energy.strain == 0
    assert mech.at({"knee": 0.3}).joint("knee").rest == 0


def test_springs_take_numbers_names_and_arrays():
    mech = _arm()
    with pytest.warns(UserWarning, match=r"replaces the damping of 'hip.0' \(0.5 by 0.7\)") as seen:
        changed = mech.with_springs({"knee": 7.0, "hip.0": 8.0}, {"hip.0": 0.7})
    assert seen[0].filename == __file__
    np.testing.assert_array_equal(changed.joint("hip").stiffness, [8, 100])
    np.testing.assert_array_equal(changed.joint("hip").damping, [0.7, 0.5])
    assert (changed.joint("knee").stiffness, changed.joint("knee").damping) == (7, 0)
    every = mech.with_springs([1.0, 2.0, 3.0], 0.1)
    np.testing.assert_array_equal(every.joint("hip").stiffness, [1, 2])
    np.testing.assert_array_equal(every.joint("hip").damping, [0.5, 0.5])  # larger damping stays
    assert every.joint("knee").damping == 0.1
    for wrong, text in ((-1.0, "not negative"), ({"knee": -1.0}, "stiffness of 'knee'"), ([1.0], "shape 3")):
        with pytest.raises(supple.MechanismError, match=text):
            mech.with_springs(wrong)


def test_targets_take_numbers_names_and_arrays():
    mech = _arm()
    sim = supple.Simulation(mech, dt=1e-3)
    expected = supple.equilibrium(mech, targets={"hip.0": 0.1, "hip.1": 0.2, "knee": 0.3})
    for targets in ([0.1, 0.2, 0.3], {"hip": [0.1, 0.2], "knee": 0.3}):
        eq = supple.equilibrium(mech, targets=targets)
        np.testing.assert_allclose(eq.poses.array, expected.poses.array, atol=1e-12)
        sim.set_target(targets)
        np.testing.assert_allclose(sim.save().rest, [0.1, 0.2, 0.3])
    sim.set_target(0.4)
    np.testing.assert_allclose(sim.save().rest, [0.4, 0.4, 0.4])
    for call in ((("knee",)), ({"knee": 0.1}, 0.2), ([0.1, 0.2],), ({"kne": 1},)):
        with pytest.raises(supple.MechanismError):
            sim.set_target(*call)
    np.testing.assert_allclose(sim.save().rest, [0.4, 0.4, 0.4])
    fast = supple.ReducedSimulation(supple.reduce(mech, "lower"), dt=1e-3)
    fast.set_target([0.01, 0.0, 0.0])
    fast.step(5)


def test_positions_that_overflow_are_refused():
    b = supple.Builder("far")
    b.body("a", spatial.translation([1e180, 0, 0]), mass=1.0)
    b.body("b", spatial.translation([-1e180, 0, 3e170]), mass=1.0)
    b.hinge("h", "world", "a", at=(0, 0, 0), axis="y")
    b.hinge("g", "a", "b", at=(1e180, 1, 0), axis="y")
    b.hinge("closure", "b", "world", at=(0, 1e160, 0), axis="y")
    with pytest.raises(supple.MechanismError, match=r"'far' extends beyond 1e\+100 m"):
        _ = b.build().radius


def test_coefficients_that_overflow_are_refused():
    with pytest.raises(supple.MechanismError, match=r"coupling 'c' has a coefficient beyond 1e\+100"):
        Coupling("c", ("a", "b"), [1.0, -1e160])
