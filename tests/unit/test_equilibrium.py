"""Equilibrium and modes: interface, guarantees, and errors for bad input."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import rounded_linkages
import supple
from mechanisms import four_bar
from small_mechanisms import STILL, chain, driven, flat, pendulum, square, strut, wheels
from supple import _core
from supple.engine import assembly, linearisation, newton
from supple.mechanism import Curve, Motor

# bad input to equilibrium


@pytest.mark.parametrize(
    ("wrenches", "text"),
    [
        ({"rodd": np.zeros(6)}, "no body or site of 'pendulum' named 'rodd'; did you mean 'rod'"),
        ({"world": np.ones(6)}, "named 'world'"),
        ({"rod": np.zeros(3)}, "wrench on 'rod' .* shape 6, got 3"),
        ({"rod": 1.0}, "wrench on 'rod' .* shape 6"),
        ({"rod": [0, 0, np.nan, 0, 0, 0]}, "wrench on 'rod' .* finite"),
        ({"rod": [0, 0, np.inf, 0, 0, 0]}, "wrench on 'rod' .* finite"),
        ({"rod": "down"}, "wrench on 'rod' .* numbers"),
        ({"rod": None}, "wrench on 'rod' .* numbers, got None"),
        ({"rod": [0, 0, None, 0, 0, 0]}, "wrench on 'rod' .* numbers"),
        ([0, 0, 1, 0, 0, 0], "wrenches are given as"),
    ],
)
def test_bad_wrenches(wrenches, text):
    mech = pendulum(stiffness=10.0)
    with pytest.raises(supple.MechanismError, match=text):
        supple.equilibrium(mech, wrenches)
    if isinstance(wrenches, dict):
        sim = supple.Simulation(mech, 1e-3)
        with pytest.raises(supple.MechanismError, match=text):
            sim.apply(*next(iter(wrenches.items())))


def test_wrench_on_a_site_of_the_world():
    b = supple.Builder("site")
    b.link("rod", (0, 0, 0), (1, 0, 0), mass=1.0)
    b.hinge("hinge", "world", "rod", at=(0, 0, 0), axis="y", stiffness=1.0)
    b.site("post", "world", at=(1, 1, 1))
    mech = b.build()
    with pytest.raises(supple.MechanismError, match="'post' is fixed to the world"):
        supple.equilibrium(mech, {"post": np.zeros(6)})
    with pytest.raises(supple.MechanismError, match="'post' is fixed to the world"):
        supple.Simulation(mech, 1e-3).pull("post", (0, 0, 0))


def test_bad_frame():
    with pytest.raises(supple.MechanismError, match="frame must be 'world' or 'body'"):
        supple.equilibrium(pendulum(stiffness=1.0), {"rod": np.zeros(6)}, frame="local")


@pytest.mark.parametrize(
    ("targets", "text"),
    [
        ({"hing": 0.1}, "no joint, coordinate, coupling or motor of 'pendulum' named 'hing'.*'hinge'"),
        ({"hinge": np.nan}, "target of 'hinge' must be finite"),
        ({"hinge": -1e10}, r"target of 'hinge' must be within 1e\+09 rad or m, got -1e\+10"),
    ],
)
def test_bad_targets(targets, text):
    mech = pendulum(stiffness=1.0)
    with pytest.raises(supple.MechanismError, match=text):
        supple.equilibrium(mech, targets=targets)
    with pytest.raises(supple.MechanismError, match=text):
        supple.Simulation(mech, 1e-3).set_target(*next(iter(targets.items())))


def test_targets_that_are_no_positions():
    with pytest.raises(supple.MechanismError, match=r"targets of 'pendulum' .* must have shape 1, got 2"):
        supple.equilibrium(pendulum(stiffness=1.0), targets=[0.1, 0.2])
    with pytest.raises(supple.MechanismError, match="targets are given as"):
        supple.equilibrium(pendulum(stiffness=1.0), targets="hinge")
    with pytest.raises(supple.MechanismError, match="targets are given as"):
        supple.Simulation(pendulum(stiffness=1.0), 1e-3).set_targets(None)


def test_targets_are_set_all_or_none():
    mech = supple.library.robot_arm(3)
    sims = [supple.Simulation(mech, 1e-3) for _ in range(2)]
    with pytest.raises(supple.MechanismError, match="'hinge_x'"):
        sims[0].set_targets({"hinge_1": 0.5, "hinge_x": 1.0})
    for sim in sims:
        sim.step(20)
    np.testing.assert_array_equal(sims[0].poses.array, sims[1].poses.array)


def test_target_of_a_joint_without_spring():
    with pytest.raises(supple.MechanismError, match="'hinge' has no spring"):
        supple.equilibrium(pendulum(), targets={"hinge": 0.3})


def test_target_of_a_joint_with_several_axes():
    b = supple.Builder("ball", gravity=STILL)
    b.body("bob", mass=1.0, inertia=(1, 1, 1))
    b.ball("socket", "world", "bob", at=(0, 0, 0), stiffness=1.0)
    mech = b.build()
    with pytest.raises(supple.MechanismError, match=r"several axes; name one: socket\.0"):
        supple.equilibrium(mech, targets={"socket": 0.3})
    eq = supple.equilibrium(mech, targets={"socket.1": 0.3})
    np.testing.assert_allclose(eq.coordinates["socket"], [0, 0.3, 0], atol=1e-10)


def test_results_are_read_only():
    mech = pendulum(stiffness=10.0)
    eq = supple.equilibrium(mech)
    model, found = supple.reduce(mech, ["end"]), supple.modes(mech)
    for held in (eq.coordinates["hinge"], eq.reactions["hinge"], eq.state[0], model.mass, found.frequencies):
        with pytest.raises(ValueError, match="read-only"):
            held += 1.0


def test_start_and_at_of_another_mechanism():
    eq = supple.equilibrium(pendulum(stiffness=1.0))
    other = pendulum(stiffness=2.0)
    for use in (
        lambda: supple.equilibrium(other, start=eq),
        lambda: supple.Simulation(other, 1e-3, at=eq),
        lambda: supple.modes(other, at=eq),
    ):
        with pytest.raises(supple.MechanismError, match="is an equilibrium of 'pendulum', not of"):
            use()
    assert supple.equilibrium(pendulum(stiffness=1.0), start=eq).q == pytest.approx(eq.q, abs=1e-12)


def test_bodies_that_are_not_connected_to_the_world():
    b = supple.Builder("pieces")
    for i in range(3):
        b.body(f"body{i}", mass=1.0, inertia=(1, 1, 1))
    b.hinge("held", "world", "body0", at=(0, 0, 0), axis="y", stiffness=1.0)
    b.hinge("adrift", "body1", "body2", at=(0, 0, 0), axis="y", stiffness=1.0)
    with pytest.raises(supple.MechanismError, match=r"2 bodies cannot be reached .* 'body1', 'body2'"):
        b.build()


# what nothing holds


def test_coordinates_that_nothing_holds_are_named():
    with pytest.raises(supple.MechanismError, match="nothing holds 'hinge' of 'pendulum'"):
        supple.equilibrium(pendulum(gravity=STILL))
    with pytest.raises(supple.MechanismError, match="nothing holds 'hinge' of 'pendulum'"):
        supple.equilibrium(pendulum(gravity=STILL), {"rod": [0, 0, 0, 0, 1, 0]})


@pytest.mark.parametrize("gravity", [STILL, (0, 0, -9.81)])
def test_a_floating_body_is_named(gravity):
    b = supple.Builder("floating", gravity=gravity)
    b.body("bob", mass=1.0, inertia=(1, 1, 1))
    b.free("float", "world", "bob")
    with pytest.raises(supple.MechanismError, match=r"nothing holds 'float\.0', .* of 'floating'.* floats: fix it"):
        supple.equilibrium(b.build())


def test_only_coordinates_that_nothing_holds_are_named():
    mech = chain([5.0, 0.0, 5.0])
    with pytest.raises(supple.MechanismError, match="nothing holds 'hinge1' of"):
        supple.equilibrium(mech)
    assert supple.equilibrium(mech, {"end": [3, 0, 0, 0, 0, 0]}).stable


def test_weight_and_pull_hold_a_passive_hinge():
    eq = supple.equilibrium(pendulum())
    assert eq.q == pytest.approx([np.pi / 2], abs=1e-9)
    assert eq.stable
    eq = supple.equilibrium(pendulum(gravity=STILL), {"end": [3, 0, 1, 0, 0, 0]})
    assert np.tan(-eq.q[0]) == pytest.approx(1 / 3, abs=1e-9)
    assert eq.stable


def test_an_upright_pendulum_balances_but_is_not_stable():
    mech = pendulum().at([-np.pi / 2])
    eq = supple.equilibrium(mech)
    assert eq.q == pytest.approx([-np.pi / 2], abs=1e-9)
    assert not eq.stable


# no equilibrium, and buckling


def test_a_softening_spring_has_no_equilibrium_beyond_its_largest_torque():
    b = supple.Builder("weak", gravity=STILL)
    b.body("wheel", mass=1.0, inertia=(1, 1, 1))
    weak = Curve(np.array([-1.0, 0, 1, 2]), np.array([-1.0, 0, 1, 0.5]))
    b.hinge("axle", "world", "wheel", at=(0, 0, 0), axis="z", curves=[weak])
    with pytest.raises(supple.ConvergenceError, match=r"no equilibrium of 'weak' .* beyond (49|50)\.\d%") as caught:
        supple.equilibrium(b.build(), {"wheel": [0, 0, 0, 0, 0, 2.0]})
    assert caught.value.load_fraction == pytest.approx(0.5, abs=1e-4)
    assert caught.value.reason == "snap"
    assert "snaps through there along 'axle'" in str(caught.value)
    state = caught.value.state
    assert state.load_fraction == caught.value.load_fraction
    torque = float(weak(state.coordinates["axle"][0]))
    assert torque == pytest.approx(2 * state.load_fraction, abs=1e-9)
    assert state.stable


def test_the_state_of_a_convergence_error_can_be_a_start():
    b = supple.Builder("weak", gravity=(0, 0, 9.81))
    b.body("bob", mass=1.0)
    weak = Curve(np.array([-1.0, 0, 1, 2]), np.array([-1.0, 0, 1, 0.5]))
    b.slide("rail", "world", "bob", at=(0, 0, 0), axis="z", curves=[weak])
    mech = b.build()
    with pytest.raises(supple.ConvergenceError) as caught:
        supple.equilibrium(mech)
    state = caught.value.state
    assert float(weak(state.q[0])) == pytest.approx(9.81 * state.load_fraction, abs=1e-8)
    back = supple.equilibrium(mech, {"bob": [0, 0, -9.31, 0, 0, 0]}, start=state)
    assert back.q == pytest.approx(supple.equilibrium(mech, {"bob": [0, 0, -9.31, 0, 0, 0]}).q, abs=1e-9)
    assert supple.modes(mech, state).frequencies[0] > 0
    assert linearisation.linearised(mech, state).core.error < 1e-9


@pytest.mark.parametrize("links", [1, 4])
def test_a_straight_chain_is_stable_up_to_its_buckling_load(links):
    mech = chain([20.0] * links)
    turns = np.tril(np.ones((links, links)))  # of the links, by the hinges' angles
    critical = 20.0 / np.linalg.eigvalsh(turns.T @ turns)[-1]
    below = supple.equilibrium(mech, {"end": [-0.999 * critical, 0, 0, 0, 0, 0]})
    above = supple.equilibrium(mech, {"end": [-1.001 * critical, 0, 0, 0, 0, 0]})
    assert np.abs(below.q).max() < 1e-9
    assert np.abs(above.q).max() < 1e-9
    assert below.stable
    assert not above.stable
    assert supple.equilibrium(mech, {"end": [1000, 0, 0, 0, 0, 0]}).stable


def wheel(curve: Curve, **hinge) -> supple.Mechanism:
    """A wheel about z on a spring with a curve."""
    b = supple.Builder("wheel", gravity=STILL)
    b.body("wheel", mass=1.0, inertia=(1, 1, 1))
    b.hinge("axle", "world", "wheel", at=(0, 0, 0), axis="z", curves=[curve], **hinge)
    return b.build()


def test_a_snap_through_is_reported_with_its_share_of_the_load():
    """The spring carries 1 N m at 1 rad, less beyond, and 3 N m at 4 rad."""
    mech = wheel(Curve([-1.0, 0, 1, 2, 4], [-1.0, 0, 1, 0.5, 3]))
    eq = supple.equilibrium(mech, {"wheel": [0, 0, 0, 0, 0, 2.0]}, path=True)
    assert eq.stable
    assert eq.q[0] > 2
    assert eq.snaps == (pytest.approx(0.5, abs=1e-4),)
    before = eq.path.q[eq.path.shares <= eq.snaps[0]]
    assert before.max() <= 1 + 1e-3
    assert supple.equilibrium(mech, {"wheel": [0, 0, 0, 0, 0, 0.9]}).snaps == ()


def test_the_error_gives_a_limit_that_is_left_as_the_reason():
    """A spring that pushes ever harder away from its stop, once it is off."""
    mech = wheel(Curve([-1.0, 2.0], [3.2, -5.8]), limits=(0.0, np.inf))
    text = r"beyond 20\.0% of the load: 'axle' meets or leaves its limit"
    with pytest.raises(supple.ConvergenceError, match=text) as caught:
        supple.equilibrium(mech, {"wheel": [0, 0, 0, 0, 0, 1.0]}, start=supple.equilibrium(mech))
    assert caught.value.reason == "limit"
    assert caught.value.state.stable


def test_the_error_gives_a_singular_pose_as_the_reason():
    """The rocker of a four-bar, driven further than the crank and the coupler reach."""
    mech = four_bar(stiffness=1.0)
    mech = replace(mech, gravity=np.zeros(3), motors=(Motor("drive", "c", 0.0),))
    supple.equilibrium(mech, targets={"drive": 0.2})
    text = r"beyond \d+\.\d% of the load: .* cannot move any further"
    with pytest.raises(supple.ConvergenceError, match=text) as caught:
        supple.equilibrium(mech, targets={"drive": 3.0})
    assert caught.value.reason == "singular"
    assert 0 < caught.value.load_fraction < 1


def test_the_error_gives_half_a_turn_of_a_ball_joint_as_the_reason():
    """The spring of a ball joint exerts the torque k r about an axis, with r up to pi."""
    b = supple.Builder("ball", gravity=STILL)
    b.link("rod", (0, 0, 0), (0, 0, 1), mass=1.0)
    b.ball("hip", "world", "rod", at=(0, 0, 0), stiffness=[5.0, 2.0, 5.0])
    with pytest.raises(supple.ConvergenceError, match="'hip' has made half a turn") as caught:
        supple.equilibrium(b.build(), {"rod": [0, 0, 0, 0, 10.0, 0]})
    assert caught.value.reason == "limit"
    assert caught.value.load_fraction == pytest.approx(2 * np.pi / 10, abs=1e-3)


@pytest.mark.parametrize("stiffness", [0.0, 5.0])
def test_a_straight_strut_is_named_as_a_singular_pose(stiffness):
    """Two straight links between two fixed points resist a force across them to second order only."""
    text = "singular pose.*the loop at joint 'pin' does not resist the motion of 'foot', 'knee'"
    mech = strut(stiffness=stiffness)
    with pytest.raises(supple.ConvergenceError, match=text) as caught:
        supple.equilibrium(mech, {"upper": [5.0, 0, 0, 0, 0, 0]})
    assert caught.value.reason == "singular"
    bent = supple.equilibrium(strut(0.01, stiffness=stiffness), {"upper": [5.0, 0, 0, 0, 0, 0]})
    assert bent.residual < 1e-6


def test_loads_on_a_bent_strut_balance():
    """Along each link, at an angle of 0.02 to the vertical, half of the force over the sine, and the weight."""
    eq = supple.equilibrium(strut(0.01, gravity=(0, 0, 0)), {"upper": [5.0, 0, 0, 0, 0, 0]})
    assert abs(eq.reactions["pin"][2]) == pytest.approx(2.5 / 0.02, rel=1e-6)


def test_the_residual_is_small_where_nothing_loads_and_large_off_balance():
    """Back from moved set-points only rounding is left, up to 1e-14 rad of the springs."""
    mech = supple.library.ladder()
    moved = supple.equilibrium(mech, targets={name: 0.3 * (-1) ** i for i, name in enumerate(mech.coordinates)})
    assert moved.residual < 1e-9
    back = supple.equilibrium(mech, start=moved)
    assert np.abs(back.q - mech.reference).max() < 1e-12
    assert back.residual < 1e-6
    supple.reduce(mech, ["tip"], at=back)  # takes no state off balance
    eqs = assembly.equations(mech)
    q, *multipliers = back.state
    assert eqs.evaluated(back.acting, (q + 1e-6 * np.eye(len(q))[0], *multipliers)).error > 1e-3


def test_a_set_point_of_many_turns_ends_the_path(monkeypatch):
    monkeypatch.setattr("supple.engine.path.MOST_STEPS", 50)
    mech = pendulum(stiffness=1.0)
    text = r"takes more than 50 steps.* The set-point of 'hinge' changes most, from 0 to 1000"
    with pytest.raises(supple.ConvergenceError, match=text) as caught:
        supple.equilibrium(mech, targets={"hinge": 1000.0})
    assert caught.value.reason == "long"
    assert 0 < caught.value.load_fraction < 1
    assert caught.value.state.residual < 1e-9


def test_the_path_of_a_loop_with_rounded_numbers_is_returned():
    mech = rounded_linkages.four_bar(7)
    eq = supple.equilibrium(mech, {"tip": [3.0, 2.0, -20.0, 0, 0, 0]}, path=True)
    assert eq.path.shares[-1] == 1
    np.testing.assert_allclose(eq.path.poses[-1], eq.poses.array)


def test_the_path_is_returned():
    mech = supple.library.helix(20)
    load = {"tip": [0, 0, -300, 0, 0, 0]}
    eq = supple.equilibrium(mech, load, path=True)
    n = len(eq.path.shares)
    assert n > 2
    assert (np.diff(eq.path.shares) > 0).all()
    assert (eq.path.shares[0], eq.path.shares[-1]) == (0, 1)
    assert eq.path.q.shape == (n, mech.dof)
    assert eq.path.poses.shape == (n, len(mech.bodies), 4, 4)
    np.testing.assert_allclose(eq.path.poses[0], mech.poses.array, atol=1e-12)
    np.testing.assert_allclose(eq.path.poses[-1], eq.poses.array, atol=1e-9)
    middle = n // 2
    part = supple.equilibrium(mech, {"tip": eq.path.shares[middle] * np.array(load["tip"])})
    np.testing.assert_allclose(part.q, eq.path.q[middle], atol=1e-9)
    with pytest.raises(ValueError, match="read-only"):
        eq.path.q[0] = 1.0
    assert supple.equilibrium(mech, load).path is None


def test_progress_is_reported():
    reached = []
    supple.equilibrium(supple.library.helix(20), {"tip": [0, 0, -300, 0, 0, 0]}, progress=reached.append)
    assert reached == sorted(reached)
    assert reached[-1] == 1


# limits


def test_a_touched_limit_carries_the_load():
    mech = pendulum(gravity=STILL, stiffness=10.0, limits=(-0.3, 0.5))
    eq = None
    for torque, q, held in ((20, 0.5, -15.0), (-1, -0.1, 0.0), (-20, -0.3, 17.0), (4, 0.4, 0.0), (5.1, 0.5, -0.1)):
        for start in (None, eq):
            eq = supple.equilibrium(mech, {"rod": [0, 0, 0, 0, torque, 0]}, start=start)
            assert eq.q == pytest.approx([q], abs=1e-10)
            assert eq.motor_torques.get("hinge", 0.0) == pytest.approx(held, abs=1e-8)
            assert eq.stable


@pytest.mark.parametrize(
    ("limits", "gravity"),
    [
        ((-1, 0.5), -9.81),
        ((-0.5, 1), 9.81),
    ],
)
def test_a_passive_hinge_comes_to_rest_on_its_limit(limits, gravity):
    eq = supple.equilibrium(pendulum(gravity=(0, 0, gravity), limits=limits))
    assert eq.q == pytest.approx([-0.5 * np.sign(gravity)], abs=1e-10)
    assert eq.motor_torques["hinge"] == pytest.approx(gravity / 2 * np.cos(0.5), abs=1e-8)
    assert eq.stable


def test_a_pendulum_comes_to_rest_hanging():
    eq = supple.equilibrium(pendulum().at([-0.01]))
    assert eq.stable


def test_a_limit_that_is_not_touched_holds_nothing():
    eq = supple.equilibrium(pendulum(stiffness=100.0, limits=(-1, 1)))
    assert eq.motor_torques == {}
    q = eq.q[0]
    assert 100 * q == pytest.approx(9.81 / 2 * np.cos(q), abs=1e-9)


@pytest.mark.parametrize("method", ["euler", "bdf2"])
def test_a_falling_pendulum_stays_on_its_limit(method):
    sim = supple.Simulation(pendulum(limits=(-1, 0.5)), 1e-3, method)
    highest, energy = [], [sim.energy.total]
    for _ in range(600):
        sim.step()
        highest.append(sim.coordinates["hinge"][0])
        energy.append(sim.energy.total)
    assert max(highest) < 0.5 + 1e-9
    assert highest[-1] == pytest.approx(0.5, abs=1e-9)
    assert max(np.diff(energy)) < 1e-3  # a stop gives no energy
    sim.apply("end", [0, 0, 20, 0, 0, 0])
    sim.step(100)
    assert sim.coordinates["hinge"][0] < 0.45


def test_limits_of_couplings():
    mech = wheels(spring=5.0, limits=(-0.2, 0.3))
    eq = supple.equilibrium(mech, {"second": [0, 0, 0, 0, 0, 7.0], "first": [0, 0, 0, 0, 0, 1.0]})
    q = flat(eq.coordinates)
    assert q @ [1, 2] == pytest.approx(0.3, abs=1e-10)
    held = -1.3 / 0.6  # 5 q1 = 1 + held, 10 q2 = 7 + 2 held
    assert eq.motor_torques["gear"] == pytest.approx(held, abs=1e-8)
    assert q == pytest.approx([(1 + held) / 5, (7 + 2 * held) / 10], abs=1e-9)


def test_a_passive_wheel_runs_onto_the_limit_of_a_coupling():
    eq = supple.equilibrium(wheels(limits=(-0.2, 0.3)), {"first": [0, 0, 0, 0, 0, 1.0]})
    assert eq.motor_torques["gear"] == pytest.approx(-1.0, abs=1e-8)


def test_starting_outside_limits():
    mech = pendulum(limits=(-0.5, 0.5))
    with pytest.warns(supple.StartWarning, match=r"'hinge' starts at 0\.8 rad, outside its limits -0\.5 \.\.\. 0\.5"):
        assert supple.Simulation(mech, 1e-3, q=[0.8]).q == pytest.approx(0.5)
    with pytest.warns(supple.StartWarning, match="'hinge' starts at -2"):
        assert supple.Simulation(mech.at([-2.0]), 1e-3).q == pytest.approx(-0.5)


def test_starting_outside_the_limits_of_a_coupling():
    mech = wheels(limits=(0.5, 1.0))
    with pytest.warns(supple.StartWarning, match="'gear' starts at 0"):
        sim = supple.Simulation(mech, 1e-3)
    gear = mech.couplings[0]
    assert gear.coefficients @ [sim.q[mech.coordinates.index(name)] for name in gear.coordinates] == pytest.approx(0.5)


# motors, couplings, curves, loads


def test_a_motor_carries_the_load():
    eq = supple.equilibrium(driven(), targets={"drive": 0.4})
    shoulder, elbow = eq.coordinates["shoulder"][0], eq.coordinates["elbow"][0]
    assert shoulder == pytest.approx(0.4, abs=1e-10)
    lower = 9.81 / 2 * np.cos(0.4 + elbow)
    assert 30 * elbow == pytest.approx(lower, abs=1e-9)
    assert eq.motor_torques["drive"] == pytest.approx(-(9.81 * 1.5 * np.cos(0.4) + lower), abs=1e-8)


def test_a_motor_named_like_the_joint_with_limits_that_it_drives():
    b = supple.Builder("elbow")
    b.link("rod", (0, 0, 0), (1, 0, 0), mass=1.0)
    b.hinge("elbow", "world", "rod", at=(0, 0, 0), axis="y", limits=(-0.5, 0.5))
    b.motor("elbow", "elbow")
    mech = b.build()
    assert supple.equilibrium(mech).motor_torques == pytest.approx({"elbow": -9.81 / 2})
    sim = supple.Simulation(mech, 1e-3)
    sim.step()
    assert sim.motor_torques == pytest.approx({"elbow": -9.81 / 2})
    with pytest.raises(supple.MechanismError, match=r"motor 'elbow' holds 'elbow' at 0.6, outside its limits -0.5"):
        supple.equilibrium(mech, targets={"elbow": 0.6})


def test_a_motor_named_like_another_joint_on_its_limit():
    b = supple.Builder("names")
    b.link("upper", (0, 0, 0), (1, 0, 0), mass=1.0)
    b.link("lower", (1, 0, 0), (2, 0, 0), mass=1.0)
    b.hinge("shoulder", "world", "upper", at=(0, 0, 0), axis="y")
    b.hinge("elbow", "upper", "lower", at=(1, 0, 0), axis="y", limits=(-0.5, 0.0))
    b.motor("elbow", "shoulder")
    held = supple.equilibrium(b.build()).motor_torques
    assert held == pytest.approx({"elbow": -9.81 * 2, "elbow.limit": -9.81 / 2})


@pytest.mark.parametrize("method", ["euler", "bdf2"])
def test_a_motor_follows_its_curve(method):
    sim = supple.Simulation(driven(), 2e-3, method, motors={"drive": lambda t: 0.5 * (1 - np.cos(3 * t))})
    for _ in range(20):
        sim.step(10)
        assert sim.coordinates["shoulder"][0] == pytest.approx(0.5 * (1 - np.cos(3 * sim.time)), abs=1e-9)


def test_a_motor_moves_a_loop():
    mech = square(driven=True)
    sim = supple.Simulation(mech, 2e-3, motors={"drive": lambda t: t})
    sim.step(200)
    assert flat(sim.coordinates) == pytest.approx([0.4, -0.4, 0.4, -0.4], abs=1e-9)
    assert sim.gap < 1e-9


def test_a_rigid_coupling_is_a_gear():
    eq = supple.equilibrium(wheels(rigid=True), {"first": [0, 0, 0, 0, 0, 3.0]})
    q = flat(eq.coordinates)
    # power: 3 dq1 = 10 q2 dq2 with dq1 = -2 dq2
    assert q == pytest.approx([1.2, -0.6], abs=1e-9)
    assert eq.motor_torques["gear"] == pytest.approx(-3.0, abs=1e-8)


def test_a_sprung_coupling():
    eq = supple.equilibrium(wheels(stiffness=4.0, rest=0.5), {"second": [0, 0, 0, 0, 0, 1.0]})
    # no torque on the first wheel: the coupling is relaxed
    assert flat(eq.coordinates) == pytest.approx([0.3, 0.1], abs=1e-9)
    curve = Curve(np.array([-1.0, 0, 1]), np.array([-2.0, 0, 6]))
    eq = supple.equilibrium(wheels(stiffness=4.0, curve=curve), {"first": [0, 0, 0, 0, 0, 2.0]})
    q = flat(eq.coordinates)
    stretch = q @ [1, 2]
    assert 4 * stretch + float(curve(stretch)) == pytest.approx(2.0, abs=1e-9)
    assert 10 * q[1] == pytest.approx(-4.0, abs=1e-9)


def test_targets_of_couplings():
    eq = supple.equilibrium(wheels(rigid=True), targets={"gear": 0.8})
    assert flat(eq.coordinates) == pytest.approx([0.8, 0.0], abs=1e-9)
    eq = supple.equilibrium(wheels(stiffness=3.0), targets={"gear": 0.6, "second axle": 0.2})
    assert flat(eq.coordinates) == pytest.approx([0.2, 0.2], abs=1e-9)


def test_a_motor_and_a_coupling_of_the_same_name():
    b = supple.Builder("names", gravity=STILL)
    b.link("a", (0, 0, 0), (1, 0, 0), mass=1)
    b.link("b", (1, 0, 0), (2, 0, 0), mass=1)
    b.hinge("h", "world", "a", at=(0, 0, 0), axis="y")
    b.hinge("g", "a", "b", at=(1, 0, 0), axis="y")
    b.motor("drive", "h", 0.1)
    b.couple("drive", {"h": 1.0, "g": 1.0}, rigid=True)
    with pytest.raises(supple.MechanismError, match="two couplings and motors are named 'drive'"):
        b.build()


def test_curves_give_their_torque():
    curve = Curve(np.array([-1.0, 0, 0.5, 2]), np.array([-3.0, 0, 1, 8]))
    mech = pendulum(gravity=STILL, curves=[curve], rest=0.2)
    for torque in (-5.0, 0.7, 6.0, 20.0):
        q = supple.equilibrium(mech, {"rod": [0, 0, 0, 0, torque, 0]}).q[0]
        assert float(curve(q - 0.2)) == pytest.approx(torque, abs=1e-9)


def test_loads_in_world_and_body_axes():
    mech = pendulum(gravity=STILL, stiffness=10.0)
    q = supple.equilibrium(mech, {"end": [0, 0, -12, 0, 0, 0]}).q[0]
    assert 10 * q == pytest.approx(12 * np.cos(q), abs=1e-9)
    # the rod's frame has z along it; x of the site lies along world x: body axes of the site turn with the rod
    q = supple.equilibrium(mech, {"end": [0, 0, -12, 0, 0, 0]}, frame="body").q[0]
    assert q == pytest.approx(1.2, abs=1e-9)
    rod = mech.poses["rod"][:3, :3].T @ [0, 0, -12]
    q = supple.equilibrium(mech, {"rod": [*rod, 0, 3.0, 0]}, frame="body").q[0]
    assert q == pytest.approx(0.3, abs=1e-9)


def test_loads_act_where_their_frame_is():
    mech = pendulum(gravity=STILL, stiffness=10.0)
    at_end = supple.equilibrium(mech, {"end": [0, 0, -12, 0, 0, 0]})
    q = at_end.q[0]
    same = supple.equilibrium(mech, {"rod": [0, 0, -12, 0, 12 * np.cos(q), 0]})
    np.testing.assert_allclose(same.q, at_end.q, atol=1e-9)
    np.testing.assert_allclose(same.poses["end"], at_end.poses["end"], atol=1e-9)


def test_warm_start_needs_fewer_steps():
    mech = supple.library.helix(30)
    cold = supple.equilibrium(mech, {"tip": [0, 0, -300, 0, 0, 0]})
    near = supple.equilibrium(mech, {"tip": [0, 0, -299, 0, 0, 0]})
    warm = supple.equilibrium(mech, {"tip": [0, 0, -300, 0, 0, 0]}, start=near)
    np.testing.assert_allclose(warm.q, cold.q, atol=1e-9)
    assert warm.iterations < cold.iterations / 2


def test_redundant_loops_are_exact():
    mech = square(a={"stiffness": 7.0})
    for torque in (0.01, 1.0, 5.0):
        eq = supple.equilibrium(mech, {"rocker": [0, 0, 0, 0, torque, 0]})
        angle = torque / 7
        assert flat(eq.coordinates) == pytest.approx([angle, -angle, angle, -angle], abs=1e-10)
    middle = supple.equilibrium(mech, {"coupler": [4, 0, 0, 0, 0, 0]})
    q = middle.coordinates["a"][0]
    assert 7 * q == pytest.approx(4 * np.cos(q), abs=1e-9)


@pytest.mark.parametrize("height", [0.3, 0.01, 1e-3])
def test_a_flat_arch_carries_its_load(height):
    b = supple.Builder("arch", gravity=STILL)
    points = [(0, 0, 0), (1, 0, height), (2, 0, 0)]
    b.link("left", points[0], points[1], mass=1)
    b.link("right", points[2], points[1], mass=1)
    b.hinge("a", "world", "left", at=points[0], axis="y", stiffness=1.0)
    b.hinge("b", "world", "right", at=points[2], axis="y", stiffness=1.0)
    b.hinge("top", "left", "right", at=points[1], axis="y", stiffness=1.0)
    b.site("apex", "left", at=points[1])
    eq = supple.equilibrium(b.build(), {"apex": [0, 0, -1, 0, 0, 0]})
    assert np.abs(flat(eq.coordinates)).max() < 1e-9  # two bars and the ground: nothing moves
    thrust = np.linalg.norm(eq.reactions["top"][:3])
    assert thrust == pytest.approx(np.hypot(1 / height, 1) / 2, rel=1e-6)


def test_two_redundant_constraint_rows():
    mech = square(driven=True, **{"driven twice": True})
    eq = supple.equilibrium(mech, targets={"drive": 0.3, "other drive": 0.3})
    assert flat(eq.coordinates) == pytest.approx([0.3, -0.3, 0.3, -0.3], abs=1e-9)
    with pytest.raises(supple.ConvergenceError):
        supple.equilibrium(mech, targets={"drive": 0.3, "other drive": 0.2})


# modes


def test_modes_are_of_unit_mass_and_count():
    mech = supple.library.y()
    every, some = supple.modes(mech), supple.modes(mech, count=5)
    assert len(every.frequencies) == mech.dof
    assert every.shapes.shape == (18, 18)
    assert every.twists.shape == (18, 18, 6)
    np.testing.assert_allclose(some.frequencies, every.frequencies[:5], rtol=1e-12)
    mass = supple.mass_matrix(mech)
    np.testing.assert_allclose(every.shapes @ mass @ every.shapes.T, np.eye(18), atol=1e-9)
    tip = mech.body_index("left_tip")
    np.testing.assert_allclose(every.twists[3, tip], supple.jacobian(mech, "left_tip") @ every.shapes[3], atol=1e-9)


def test_modes_of_a_rigid_mechanism():
    b = supple.Builder("post")
    b.link("rod", (0, 0, 0), (1, 0, 0), mass=1)
    b.fixed("weld", "world", "rod")
    mech = b.build()
    with pytest.raises(supple.MechanismError, match="'post' cannot move"):
        supple.modes(mech)
    eq = supple.equilibrium(mech)
    assert eq.stable
    sim = supple.Simulation(mech, 1e-3)
    sim.step(3)
    np.testing.assert_allclose(sim.poses.array, mech.poses.array, atol=1e-15)


def test_unstable_modes_are_negative():
    mech = pendulum().at([-np.pi / 2])
    moment = (3 / 400 + 1) / 12 + 0.25
    found = supple.modes(mech, supple.equilibrium(mech)).frequencies
    assert found == pytest.approx([-np.sqrt(9.81 / 2 / moment) / (2 * np.pi)], rel=1e-9)


# redundant loops


def test_reactions_of_redundant_loops_vanish_without_a_load():
    for reaction in supple.equilibrium(supple.library.ladder(6)).reactions.values():
        assert np.abs(reaction).max() < 1e-10


def test_symmetric_rails_carry_equal_loads():
    eq = supple.equilibrium(supple.library.ladder(6), {"tip": [0, 40, -20, 0, 0, 0]})
    left, right = eq.reactions["left_hinge_1"], eq.reactions["right_hinge_1"]
    assert left[[1, 2, 3]] == pytest.approx(right[[1, 2, 3]], abs=1e-9)
    assert np.linalg.norm(left[:3] + right[:3]) == pytest.approx(np.hypot(40, 20), abs=1e-8)


@pytest.mark.parametrize(
    "call",
    [
        supple.equilibrium,
        lambda m: supple.Simulation(m, 1e-3),
        supple.modes,
        supple.kinematics,
        supple.mass_matrix,
        lambda m: supple.jacobian(m, "tip"),
        lambda m: supple.reduce(m, ["tip"]),
    ],
)
def test_a_file_name_instead_of_a_mechanism_raises(call):
    with pytest.raises(supple.MechanismError, match=r"a Mechanism is needed, got 'arm.urdf'; .*supple.load"):
        call("arm.urdf")


def test_motors_need_functions_that_return_numbers():
    with pytest.raises(supple.MechanismError, match="motor 'drive' needs a function of time"):
        supple.Simulation(driven(), 1e-3, motors={"drive": 1.0})
    with pytest.raises(supple.MechanismError, match="motor 'drive' must return a number"):
        supple.Simulation(driven(), 1e-3, motors={"drive": lambda t: None})


def test_steps_in_any_split_give_the_same_bits():
    swing = {"drive": lambda t: 0.3 * np.sin(7 * t)}
    once, often = (supple.Simulation(driven(), 1e-3, motors=swing) for _ in range(2))
    once.step(50)
    for _ in range(50):
        often.step()
    np.testing.assert_array_equal(once.save().history, often.save().history)


# the compiled equations


def test_loads_and_set_points_of_an_equilibrium_are_its_own():
    mech = driven()
    eq = supple.equilibrium(mech, {mech.bodies[0].name: [0, 0, -1, 0, 0, 0]})
    sim = supple.Simulation(mech, 1e-3, at=eq)
    for part in (eq.acting.rest, eq.acting.gravity, eq.loads[0].wrench, eq.loads[0].point):
        with pytest.raises(ValueError, match="read-only"):
            part[0] = 1.0
    eq.acting.targets["drive"] = 0.5
    assert sim.targets["drive"] == 0.0
    assert supple.equilibrium(mech).acting.targets["drive"] == 0.0


def test_what_acts_must_be_of_the_same_mechanism():
    eqs, others = assembly.equations(chain([20.0])), assembly.equations(chain([20.0] * 3))
    with pytest.raises(ValueError, match="rest has 3 entries, but 1 are expected"):
        eqs.core.evaluate(others.compiled(others.acting()), *eqs.zero_state())
    with pytest.raises(ValueError, match="rest has 1 entries, but 3 are expected"):
        _core.Engine(others.core, eqs.compiled(eqs.acting()))


@pytest.mark.parametrize(
    ("ends", "definite", "text"),
    [
        ([1, 2], [True], "definite has 1 entries, but 2 are expected"),
        ([1, 3], [True, True], "ends must rise, from 0 to at most 2, the number of loads"),
        ([2, 1], [True, True], "ends must rise"),
        ([-1, 2], [True, True], "ends must rise"),
    ],
)
def test_sets_of_loads_must_fit(ends, definite, text):
    mech = pendulum()
    eqs = assembly.equations(mech)
    acting = eqs.acting(2 * assembly.loads(mech, {"rod": [0, 0, 1, 0, 0, 0]}))
    with pytest.raises(ValueError, match=text):
        eqs.core.positions_under(
            eqs.compiled(acting), *eqs.zero_state(), newton.newton_limits(), 12, ends, definite, 0, np.zeros(3)
        )


def test_a_moved_tangent_has_no_factors():
    linear = linearisation.linearised(pendulum())
    near = linear.core.moved(np.zeros(linear.layout.size), 1.0)
    np.testing.assert_array_equal(near.tangent(), linear.core.tangent())
    assert not {"solve", "solve_transposed", "negative", "negative_determinant"} & set(dir(near))
