"""The library's mechanisms have the sizes, springs and mobilities that the documents give."""

import inspect
import sys

import numpy as np
import pytest

import supple
from supple import library

ALL = [getattr(library, name) for name in ("helix", "ladder", "loop", "robot_arm", "y")]
"""Those made of the same links and sprung hinges."""


def axis(joint, mech):
    """World axis of a hinge at the reference pose."""
    return (mech.poses[joint.parent] @ joint.pose_parent)[:3, :3] @ joint.twists[0, 3:]


def place(joint, mech):
    """World position of a joint at the reference pose."""
    return (mech.poses[joint.parent] @ joint.pose_parent)[:3, 3]


def ends(body, length):
    """World positions of a link's two ends, from its centre of mass."""
    centre = body.pose[:3, :3] @ body.centre + body.pose[:3, 3]
    half = body.pose[:3, 2] * length / 2
    return centre - half, centre + half


@pytest.mark.parametrize("make", ALL)
def test_every_link_and_hinge_is_alike(make):
    mech = make()
    for body in mech.bodies:
        assert body.mass == 1.0
        np.testing.assert_array_equal(body.inertia, np.diag([0.01, 0.01, 0.002]))
    for joint in mech.joints:
        assert joint.kind == "hinge"
        assert (joint.stiffness, joint.damping, joint.rest, joint.reference) == (1000.0, 10.0, 0.0, 0.0)
    assert not mech.gravity.any()
    assert mech.unheld == ()
    assert all(np.abs(gap).max() < 1e-12 for gap in supple.kinematics(mech).gaps.values())
    np.testing.assert_allclose(supple.kinematics(mech).poses.array, mech.poses.array, atol=1e-12)


@pytest.mark.parametrize("make", ALL)
def test_springs_and_gravity_can_be_chosen(make):
    mech = make(stiffness=50.0, damping=2.0, gravity=(0, 0, -9.81))
    assert {(float(j.stiffness[0]), float(j.damping[0])) for j in mech.joints} == {(50.0, 2.0)}
    np.testing.assert_array_equal(mech.gravity, [0, 0, -9.81])
    for bad in ({"stiffness": -1.0}, {"damping": np.nan}, {"gravity": (0, 0)}, {"stiffness": "soft"}):
        with pytest.raises(supple.MechanismError):
            make(**bad)


@pytest.mark.parametrize("make", [f for f in ALL if len(inspect.signature(f).parameters) == 4])
@pytest.mark.parametrize("bad", [0, -3, 2.5, "many", None, True, float("nan")])
def test_a_count_must_be_a_whole_number(make, bad):
    with pytest.raises(supple.MechanismError, match="whole number"):
        make(bad)


def test_helix():
    mech = library.helix()
    assert [b.name for b in mech.bodies] == [*(f"link_{i}" for i in range(1, 50)), "tip"]
    assert len(mech.joints) == mech.mobility == 50
    t = 2 * np.pi * np.arange(51) / 16
    corners = np.stack([0.5 * np.cos(t), 0.5 * np.sin(t), 0.3 * t / (2 * np.pi)], axis=1)
    length = np.linalg.norm(corners[1] - corners[0])
    for i, (body, joint) in enumerate(zip(mech.bodies, mech.joints, strict=True)):
        np.testing.assert_allclose(ends(body, length), corners[i : i + 2], atol=1e-12)
        np.testing.assert_allclose(body.pose[:3, 3], corners[i], atol=1e-12)
        np.testing.assert_allclose(place(joint, mech), corners[i], atol=1e-12)
        along = (corners[i + 1] - corners[i]) / length
        horizontal = np.cross([0, 0, 1], along) / np.linalg.norm(np.cross([0, 0, 1], along))
        expected = np.cross(along, horizontal) if i % 2 else horizontal
        np.testing.assert_allclose(axis(joint, mech), expected, atol=1e-12)
        assert joint.parent == ("world" if i == 0 else mech.bodies[i - 1].name)


def test_ladder():
    mech = library.ladder()
    assert len(mech.bodies) == 48
    assert mech.bodies[-1].name == "tip"
    assert len(mech.joints) == 64
    assert [mech.joints[j].name for j in mech.topology.loops] == [f"right_pin_{k}" for k in range(1, 17)]
    assert mech.mobility == 32
    for joint in mech.joints:
        np.testing.assert_allclose(axis(joint, mech), [1, 0, 0], atol=1e-12)
    for k in range(1, 17):
        rung = mech.body("tip" if k == 16 else f"rung_{k}")
        np.testing.assert_allclose(ends(rung, 0.4), [[-0.2, 0, 0.2 * k], [0.2, 0, 0.2 * k]], atol=1e-12)
        np.testing.assert_allclose(rung.pose[:3, 3], [0, 0, 0.2 * k], atol=1e-12)
        for side, x in (("left", -0.2), ("right", 0.2)):
            piece = mech.body(f"{side}_{k}")
            np.testing.assert_allclose(ends(piece, 0.2), [[x, 0, 0.2 * (k - 1)], [x, 0, 0.2 * k]], atol=1e-12)
            foot, top = mech.joint(f"{side}_hinge_{k}"), mech.joint(f"{side}_pin_{k}")
            np.testing.assert_allclose(place(foot, mech), [x, 0, 0.2 * (k - 1)], atol=1e-12)
            np.testing.assert_allclose(place(top, mech), [x, 0, 0.2 * k], atol=1e-12)


def test_ladder_cannot_follow_a_pull_along_itself():
    mech = library.ladder(rungs=3)
    moved = mech.poses["tip"][:3, :3] @ supple.jacobian(mech, "tip")[:3]
    np.testing.assert_allclose(moved[[0, 2]], 0, atol=1e-12)
    assert np.abs(moved[1]).max() > 0.1


def test_y():
    mech = library.y()
    assert len(mech.bodies) == mech.mobility == 18
    arms = {"left": np.array([-0.14, 0, 0.14]), "right": np.array([0.14, 0, 0.14])}
    for word, start, step in [
        ("trunk", np.zeros(3), np.array([0, 0, 0.2])),
        *((word, np.array([0, 0, 1.2]), step) for word, step in arms.items()),
    ]:
        for k in range(1, 7):
            name = f"{word}_tip" if k == 6 and word != "trunk" else f"{word}_{k}"
            joint = mech.joint(f"{word}_hinge_{k}")
            assert joint.child == name
            np.testing.assert_allclose(place(joint, mech), start + (k - 1) * step, atol=1e-12)
            np.testing.assert_allclose(axis(joint, mech), [1, 0, 0] if k % 2 else [0, 1, 0], atol=1e-12)
            expected = start + np.array([(k - 1) * step, k * step])
            np.testing.assert_allclose(ends(mech.body(name), np.linalg.norm(step)), expected, atol=1e-12)
    assert mech.joint("left_hinge_1").parent == mech.joint("right_hinge_1").parent == "trunk_6"


def test_loop():
    mech = library.loop()
    assert len(mech.bodies) == 15
    assert mech.bodies[-1].name == "tip"
    assert [mech.joints[j].name for j in mech.topology.loops] == ["closure"]
    assert mech.mobility == 16 - 6
    centre = np.array([0, 0, 0.5 * np.cos(np.pi / 16)])
    hinges = np.array([place(joint, mech) for joint in mech.joints])
    np.testing.assert_allclose(np.linalg.norm(hinges - centre, axis=1), 0.5, atol=1e-12)
    side = 2 * 0.5 * np.sin(np.pi / 16)
    for body in mech.bodies:  # each link spans two corners of the polygon
        for end in ends(body, side):
            assert np.abs(hinges - end).max(axis=1).min() < 1e-12
    for joint in mech.joints:
        assert (joint.parent == "world") == (abs(place(joint, mech)[2]) < 1e-12)
        assert abs(axis(joint, mech) @ mech.poses[joint.child][:3, 2]) < 1e-12
    even = [joint for joint in mech.joints if abs(axis(joint, mech)[1]) > 0.5]
    assert len(even) == 8
    middle = np.mean(ends(mech.body("tip"), side), axis=0)
    np.testing.assert_allclose(middle, 2 * centre, atol=1e-12)


@pytest.mark.parametrize("bad", [5, 8])
def test_loop_needs_an_odd_number_of_links_that_can_move(bad):
    with pytest.raises(supple.MechanismError, match="links of the loop"):
        library.loop(links=bad)


def test_robot_arm():
    mech = library.robot_arm()
    assert len(mech.bodies) == mech.mobility == 20
    assert mech.bodies[-1].name == "tip"
    point = np.zeros(3)
    for i, (body, joint) in enumerate(zip(mech.bodies, mech.joints, strict=True)):
        lean = i / 19 * np.pi / 2
        step = 0.1 * np.array([np.sin(lean), 0, np.cos(lean)])
        np.testing.assert_allclose(ends(body, 0.1), [point, point + step], atol=1e-12)
        np.testing.assert_allclose(place(joint, mech), point, atol=1e-12)
        expected = [np.cos(lean), 0, -np.sin(lean)] if i % 2 else [0, 1, 0]
        np.testing.assert_allclose(axis(joint, mech), expected, atol=1e-12)
        point = point + step


@pytest.mark.parametrize(("make", "size"), [(library.helix, 60), (library.ladder, 20), (library.loop, 61)])
def test_the_work_of_building_grows_with_the_size(make, size):
    """Twice as many links, at most 2.2 times as many calls: a count, not a time, so that any machine agrees."""
    make(2 * size + 1)  # what is imported and cached
    assert _calls(lambda: make(2 * size + 1)) < 2.2 * _calls(lambda: make(size))


def _calls(run):
    """Functions called, those of compiled modules included."""
    count = 0

    def hear(frame, event, argument):
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(hear)
    try:
        run()
    finally:
        sys.setprofile(before)
    return count
