"""Kinematics of the core agree with the NumPy twin, with MuJoCo on robots, and refuse what is wrong."""

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import mujoco
import numpy as np
import pytest
from tests import kinematics_twin as twin
from tests import mujoco_reference as reference
from tests.mechanisms import random_mechanism, random_q

import supple
from random_cases import seeds
from supple import elastic, spatial
from supple.elastic.cache import with_cached_basis
from supple.mechanism.mobility import all_coordinates, constraints


def assert_same(a, b, tolerance=1e-12):
    assert a.shape == b.shape
    assert np.abs(a - b).max(initial=0.0) <= tolerance * max(1.0, np.abs(b).max(initial=0.0))


def check(mech, q, tolerance=1e-12):
    """All functions at q agree with the twin."""
    state = supple.kinematics(mech, q)
    assert_same(state.poses.array, twin.poses(mech, q), tolerance)
    assert_same(state.screws, twin.screws(mech, q), tolerance)
    for name in ("world", *(b.name for b in mech.bodies), *(s.name for s in mech.sites)):
        expected = np.zeros((6, mech.dof)) if name == "world" else twin.jacobian(mech, name, q)
        if name != "world":
            assert_same(supple.jacobian(mech, name, q), expected, tolerance)
            assert_same(state.jacobian(name), expected, tolerance)
    assert_same(supple.mass_matrix(mech, q), twin.mass_matrix(mech, q), tolerance)
    x = all_coordinates(state)
    for own, expected in zip(constraints(mech, x), twin.constraints(mech, x), strict=True):
        assert_same(own, expected, tolerance)


@pytest.mark.parametrize("seed", seeds(24, 300))
def test_random_mechanisms(seed):
    """Trees with all joints, reversed ones and free bases; loops and rigid couplings."""
    rng = np.random.default_rng(seed)
    bodies, loops = (int(rng.integers(*span)) for span in ((1, 9), (0, 3)))
    mech = random_mechanism(rng, bodies, loops=loops, free_base=bool(seed % 2), couplings=seed % 3)
    for size in (0.0, 0.7, 3.0):
        check(mech, random_q(rng, mech, size))


@pytest.mark.parametrize("name", ["bicycle_chain", "helix", "ladder", "loop", "robot_arm", "y"])
def test_library(name):
    mech = getattr(supple.library, name)()
    check(mech, random_q(np.random.default_rng(0), mech, 0.2))


def test_flexible_bodies():
    part = with_cached_basis(elastic.rod(0.3, 4e-3, sections=4, sides=6), modes=4, method="linear")
    b = supple.Builder("swing")
    b.flexible("rod", part)
    b.hinge("pivot", "world", "rod.start", at=(0, 0, 0), axis="y", stiffness=1.0)
    b.site("mark", "rod.end", at=(0, 0, 0.31))
    b.body("tip", spatial.translation(np.array([0, 0, 0.4])), 0.1, inertia=(1e-4,) * 3)
    b.ball("wrist", "rod.end", "tip", at=(0, 0, 0.3))
    mech = b.build()
    check(mech, np.concatenate([[2e-3, -1e-3, 3e-4, 1e-4], random_q(np.random.default_rng(0), mech)[4:]]), 1e-11)


def test_a_mechanism_far_from_the_origin_loses_no_digits_of_its_mass_matrix():
    near = random_mechanism(np.random.default_rng(5), 8)
    q = random_q(np.random.default_rng(6), near)
    far = near.placed(spatial.translation(np.array([1e4, -2e4, 3e4])))
    assert_same(supple.mass_matrix(far, q), supple.mass_matrix(near, q), 1e-10)
    assert_same(supple.jacobian(far, "body7", q), supple.jacobian(near, "body7", q), 1e-10)


def test_robots_agree_with_mujoco(robots):
    for path in ("shadow_hand/right_hand.xml", "robotiq_2f85/2f85.xml"):
        mech, model = reference.load_quietly(robots / path), mujoco.MjModel.from_xml_path(str(robots / path))
        rng = np.random.default_rng(0)
        for _ in range(3):
            data = reference.random_state(model, rng)
            q = reference.coordinates(model, data.qpos)
            rates = reference.velocity_map(model, q)
            expected = rates.T @ reference.mass_matrix(model, data) @ rates
            assert_same(supple.mass_matrix(mech, q), expected)
            for body in mech.bodies:
                own = reference.body_jacobian(model, data, model.body(body.name).id) @ rates
                assert_same(supple.jacobian(mech, body.name, q), own)


WRONG = (
    (lambda n: np.full(n, np.nan), "must be finite"),
    (lambda n: np.zeros(n + 1), "must have shape"),
    (lambda n: np.zeros((n, 1)), "must have shape"),
    (lambda n: ["x"] * n, "must be numbers"),
    (lambda n: np.full(n, 2e9), "must be within 1e.09 rad or m"),
    (lambda n: {"nowhere": 1.0}, "nowhere"),
)


@pytest.mark.parametrize(("make", "text"), WRONG)
def test_wrong_coordinates(make, text):
    mech = supple.library.robot_arm(5)
    for call in (
        lambda q: supple.kinematics(mech, q),
        lambda q: supple.jacobian(mech, "tip", q),
        lambda q: supple.mass_matrix(mech, q),
    ):
        with pytest.raises(supple.MechanismError, match=text):
            call(make(mech.dof))


def test_wrong_frames_and_mechanisms():
    with pytest.raises(supple.MechanismError, match="did you mean 'tip'"):
        supple.jacobian(supple.library.robot_arm(5), "tipp")
    with pytest.raises(supple.MechanismError, match="a Mechanism is needed"):
        supple.mass_matrix("arm.xml")


def test_all_forms_of_coordinates_are_the_same():
    mech = supple.library.robot_arm(5)
    q = np.array([0.1, -0.2, 0.3, 0.0, 0.5])
    named = dict(zip(mech.coordinates, q, strict=True))
    forms = (q, q.tolist(), tuple(q), named, supple.kinematics(mech, q).q, np.repeat(q, 2)[::2], np.asfortranarray(q))
    for form in forms:
        assert np.array_equal(supple.mass_matrix(mech, form), supple.mass_matrix(mech, q))
        assert np.array_equal(supple.kinematics(mech, form).poses.array, supple.kinematics(mech, q).poses.array)
    assert np.array_equal(supple.mass_matrix(mech), supple.mass_matrix(mech, mech.reference))
    assert np.array_equal(supple.mass_matrix(mech, np.zeros(5, int)), supple.mass_matrix(mech, np.zeros(5)))


def test_results_are_copies():
    mech, q = supple.library.robot_arm(5), np.full(5, 0.1)
    state = supple.kinematics(mech, q)
    before = state.poses.array.copy()
    q[:] = 1.0
    supple.kinematics(mech, q)
    assert np.array_equal(state.q, np.full(5, 0.1))
    assert np.array_equal(state.poses.array, before)
    assert not state.poses.array.flags.writeable


def test_copies_and_pickles_of_a_mechanism_compute_the_same():
    mech = random_mechanism(np.random.default_rng(3), 6, loops=1)
    q = random_q(np.random.default_rng(4), mech)
    expected = supple.mass_matrix(mech, q)
    for other in (copy.copy(mech), copy.deepcopy(mech), pickle.loads(pickle.dumps(mech))):
        assert np.array_equal(supple.mass_matrix(other, q), expected)
    heavier = mech.with_payload("body3", 5.0)  # has a model of its own
    assert supple.mass_matrix(heavier, q).trace() > expected.trace()


def test_threads_share_a_mechanism():
    mech = supple.library.robot_arm(12)
    rng = np.random.default_rng(0)
    points = [rng.uniform(-1, 1, 12) for _ in range(40)]

    def values(q):
        pose = supple.kinematics(mech, q).poses["tip"]
        found = supple.inverse_kinematics(mech, {"tip": pose})
        return supple.mass_matrix(mech, q), supple.jacobian(mech, "tip", q), pose, np.asarray(found.q)

    one = [values(q) for q in points]
    with ThreadPoolExecutor(4) as pool:
        many = list(pool.map(values, points))
    for own, other in zip(one, many, strict=True):
        assert all(map(np.array_equal, own, other))


@pytest.mark.parametrize("seed", seeds(6, 40))
def test_inverse_kinematics_finds_the_least_motion_within_limits(seed):
    """As SLSQP on the same problem, with some joints on their limits."""
    rng = np.random.default_rng(seed)
    mech = supple.library.robot_arm(9)
    start = rng.uniform(-0.3, 0.3, 9)
    goal = start + rng.uniform(-0.4, 0.4, 9)
    pose = supple.kinematics(mech, goal).poses["tip"]
    free = supple.inverse_kinematics(mech, {"tip": pose}, start, limits=False)
    widest = int(np.abs(free.q - start).argmax())
    lower, upper = np.full(9, -3.0), np.full(9, 3.0)
    room = 0.6 * (free.q - start)[widest]
    lower[widest], upper[widest] = sorted((start[widest] - np.sign(room) * 0.1, start[widest] + room))
    limits = dict(zip(mech.coordinates, np.column_stack([lower, upper]), strict=True))
    joints = tuple(replace(j, limits=np.array([limits[a] for a in j.axes])) if j.axes else j for j in mech.joints)
    limited = replace(mech, joints=joints)
    found = supple.inverse_kinematics(limited, {"tip": pose}, start)
    assert found.reached
    assert (found.q >= lower - 1e-12).all()
    assert (found.q <= upper + 1e-12).all()
    expected = twin.nearest(limited, "tip", pose, np.asarray(start), np.asarray(found.q), lower, upper)
    assert np.linalg.norm(found.q - start) <= np.linalg.norm(expected - start) + 1e-6
