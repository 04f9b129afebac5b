"""Assembling: loops closed within limits by the least motion, and what starts from poses of real files."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest

import supple
from supple.errors import StartWarning
from supple.mechanism import Assembly
from supple.mechanism.coupling import Keyframe


def four_bar(gap: float = 0.0, **last: object) -> supple.Mechanism:
    """A unit square of four bars, on the ground at (0, 0, 0) and (1, 0, 0); the fourth bar ends `gap` beside its
    hinge."""
    b = supple.Builder("square")
    ends = [(0, 0, 0), (0, 0, 1), (1, 0, 1), (1, 0, gap)]
    names = ("left", "top", "right")
    for name, start, end in zip(names, ends, ends[1:], strict=False):
        b.link(name, start, end, mass=1.0)
    b.hinge("a", "world", "left", at=ends[0], axis="y")
    b.hinge("b", "left", "top", at=ends[1], axis="y")
    b.hinge("c", "top", "right", at=ends[2], axis="y", **last)
    b.hinge("d", "right", "world", at=ends[3], axis="y")
    mech = b.build()
    joints = list(mech.joints)
    if gap:
        at_ground = joints[3].pose_child.copy()
        at_ground[2, 3] = 0.0
        joints[3] = replace(joints[3], pose_child=at_ground)
        mech = replace(mech, joints=tuple(joints))
    return mech


def gap_of(mech: supple.Mechanism, q: np.ndarray | None = None) -> float:
    return max(float(np.abs(gap).max()) for gap in supple.kinematics(mech, q).gaps.values())


def test_a_closed_mechanism_does_not_move() -> None:
    mech = four_bar()
    result = supple.assemble(mech)
    assert isinstance(result, Assembly)
    assert result.moved == {}
    np.testing.assert_array_equal(result.q, mech.reference)
    assert result.mechanism == mech.at(mech.reference)


def test_loops_are_closed_by_the_least_motion() -> None:
    mech = four_bar(gap=0.05)
    assert gap_of(mech) == pytest.approx(0.05, rel=1e-3)
    result = supple.assemble(mech)
    assert gap_of(mech, result.q) < 1e-10
    assert gap_of(result.mechanism) < 1e-10
    # nearby closed configurations, along the linkage's one motion, are farther from the start
    distance = np.linalg.norm(result.q - mech.reference)
    for step in (-0.01, 0.01):
        kept = result.q + [step, 0, 0]
        other = supple.assemble(mech, kept, keep="a")
        assert other.q[0] == kept[0]
        assert gap_of(mech, other.q) < 1e-10
        assert np.linalg.norm(other.q - mech.reference) > distance


def test_limits_are_respected() -> None:
    free = supple.assemble(four_bar(gap=0.05)).moved["c"]
    mech = four_bar(gap=0.05, limits=(-0.1, free / 2) if free > 0 else (free / 2, 0.1))
    result = supple.assemble(mech)
    assert result.moved["c"] == pytest.approx(free / 2)
    assert gap_of(mech, result.q) < 1e-10
    outside = four_bar(limits=(0.2, 1.0))
    moved = supple.assemble(outside)
    assert moved.moved["c"] == pytest.approx(0.2)
    assert gap_of(outside, moved.q) < 1e-10


def test_couplings_are_closed_within_their_limits() -> None:
    b = supple.Builder("fingers")
    for i in range(3):
        b.link(f"f{i}", (i, 0, 0), (i, 0, 1), mass=1.0)
        b.hinge(f"j{i}", "world", f"f{i}", at=(i, 0, 0), axis="y")
    b.couple("tie", {"j0": 1.0, "j1": -1.0}, rigid=True, rest=0.2)
    b.couple("tendon", {"j1": 1.0, "j2": 1.0}, limits=(0.4, 2.0))
    mech = b.build()
    q = supple.assemble(mech).q
    assert q[0] - q[1] == pytest.approx(0.2, abs=1e-9)
    assert q[1] + q[2] == pytest.approx(0.4, abs=1e-9)
    # the least motion: minimise |q|^2 under both
    rows, right = np.array([[1, -1, 0], [0, 1, 1.0]]), np.array([0.2, 0.4])
    np.testing.assert_allclose(q, np.linalg.pinv(rows) @ right, atol=1e-8)


def test_what_cannot_be_assembled_is_named() -> None:
    mech = four_bar(gap=0.05)
    with pytest.raises(supple.ConvergenceError, match=r"'square' cannot be assembled.*joint 'd' stays open by"):
        supple.assemble(mech, keep=("a", "b", "c"))
    with pytest.raises(supple.MechanismError, match=r"'c' must not move, but it is at 0, outside its limits 0.2"):
        supple.assemble(four_bar(limits=(0.2, 1.0)), keep="c")
    with pytest.raises(supple.MechanismError, match="no joint of 'square' named 'e'"):
        supple.assemble(mech, keep="e")
    with pytest.raises(supple.MechanismError, match="a Mechanism is needed"):
        supple.assemble("robot.urdf")


# simulations and models that start from such poses


def test_a_simulation_closes_a_small_gap_and_says_so() -> None:
    mech = four_bar(gap=0.005)
    with pytest.warns(StartWarning, match=r"joint 'd' has a gap of 0.005 m.*moves '\w' by \S+ rad") as seen:
        sim = supple.Simulation(mech, dt=1e-3)
    assert seen[0].filename == __file__
    assert sim.gap < 1e-9
    sim.step(10)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        supple.Simulation(supple.assemble(mech).mechanism, dt=1e-3)
    with pytest.raises(supple.MechanismError, match=r"joint 'd' has a gap of 0.05 m at the start; .*supple.assemble"):
        supple.Simulation(four_bar(gap=0.05), dt=1e-3)


@pytest.mark.parametrize("lower", [0.2, 0.9])
def test_a_simulation_moves_coordinates_inside_their_limits(lower: float) -> None:
    """Also far ones: the knees of many quadrupeds are bent by a radian at least, but straight in the file."""
    with pytest.warns(StartWarning, match=rf"'c' starts at 0 rad, outside its limits {lower} ... 1; .*moves '\w' by"):
        sim = supple.Simulation(four_bar(limits=(lower, 1.0)), dt=1e-3)
    assert sim.coordinates["c"][0] == pytest.approx(lower)
    assert sim.gap < 1e-9


def test_the_warning_names_a_keyframe() -> None:
    mech = replace(four_bar(limits=(0.9, 1.0)), keyframes=(Keyframe("home", np.zeros(3)),))
    with pytest.warns(StartWarning, match=r"supple.assemble\(mech\).mechanism; or start in .* mech.at\('home'\)"):
        supple.Simulation(mech, dt=1e-3)


def test_a_simulation_closes_rigid_couplings() -> None:
    b = supple.Builder("fingers")
    for i in range(2):
        b.link(f"f{i}", (i, 0, 0), (i, 0, 1), mass=1.0)
        b.hinge(f"j{i}", "world", f"f{i}", at=(i, 0, 0), axis="y")
    b.couple("tie", {"j0": 1.0, "j1": -1.0}, rigid=True, rest=0.2)
    with pytest.warns(StartWarning, match="rigid coupling 'tie' is off by 0.2 rad"):
        sim = supple.Simulation(b.build(), dt=1e-3)
    assert sim.coordinates["j0"][0] - sim.coordinates["j1"][0] == pytest.approx(0.2)
    assert sim.energy.kinetic == 0


@pytest.mark.parametrize(
    "linearise",
    [
        lambda mech: supple.reduce(mech, "top"),
        supple.modes,
        lambda mech: supple.gradient(mech, frequencies=[1.0]),
    ],
)
def test_what_is_linearised_at_the_reference_pose_refuses_an_open_loop(linearise) -> None:
    with pytest.raises(supple.MechanismError, match=r"joint 'd' of 'square' is open by 0.005 m.*supple.assemble"):
        linearise(four_bar(gap=0.005).with_springs(10.0))
    linearise(supple.assemble(four_bar(gap=0.005).with_springs(10.0)).mechanism)


def test_reduce_leaves_out_a_limit_that_the_pose_violates() -> None:
    free = supple.reduce(four_bar().with_springs(10.0), "top")
    outside = four_bar(limits=(0.2, 1.0)).with_springs(10.0)
    with pytest.warns(supple.RangeWarning, match=r"'c' of 'square' is at 0 .*outside its limits 0.2 ... 1 by 0.2") as w:
        model = supple.reduce(outside, "top")
    assert w[0].filename == __file__
    np.testing.assert_allclose(model.compliance, free.compliance, rtol=1e-9, atol=1e-15)
    np.testing.assert_array_equal(model.mechanism.joint("c").limits, [[-np.inf, 1.0]])
