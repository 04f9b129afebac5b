"""Equilibrium, Simulation and modes: what they promise, and what they say to bad input."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import engine_reference
import mechanisms
import supple
from supple import spatial
from supple.engine import linear as engine_linear
from supple.mechanism import Curve, Mechanism

STILL = (0.0, 0.0, 0.0)


def pendulum(gravity=(0, 0, -9.81), **hinge) -> Mechanism:
    """A rod of 1 m and 1 kg along x, hinged about y at the origin: positive angles lower it."""
    b = supple.Builder("pendulum", gravity=gravity)
    b.link("rod", (0, 0, 0), (1, 0, 0), mass=1.0)
    b.hinge("hinge", "world", "rod", at=(0, 0, 0), axis="y", **hinge)
    b.site("end", "rod", at=(1, 0, 0))
    return b.build()


def chain(stiffness, direction=(1.0, 0.0, 0.0), gravity=STILL, **hinge) -> Mechanism:
    """Links of 1 m and 1 kg in a straight line, one for each stiffness; the last one carries the site `end`."""
    b = supple.Builder("chain", gravity=gravity)
    points = np.arange(len(stiffness) + 1)[:, None] * np.array(direction)
    for i, k in enumerate(stiffness):
        b.link(f"link{i}", points[i], points[i + 1], mass=1.0)
        b.hinge(f"hinge{i}", f"link{i - 1}" if i else "world", f"link{i}", points[i], "y", stiffness=k, **hinge)
    b.site("end", f"link{len(stiffness) - 1}", at=points[-1])
    return b.build()


def wheels(spring: float = 0.0, **coupling) -> Mechanism:
    """Two wheels about z, on springs of `spring` and 10 N m/rad, coupled by  first + 2 second."""
    b = supple.Builder("wheels", gravity=STILL)
    for i, name in enumerate(("first", "second")):
        b.body(name, spatial.translation(np.array([float(i), 0, 0])), 1.0, inertia=(0.1, 0.1, 0.1))
        stiffness = (spring, 10.0)[i]
        b.hinge(f"{name} axle", "world", name, at=(i, 0, 0), axis="z", stiffness=stiffness, damping=1.0)
    b.couple("gear", {"first axle": 1.0, "second axle": 2.0}, **coupling)
    return b.build()


def driven(**hinge) -> Mechanism:
    """A rod on a motor, with a second one hanging on a spring from its end."""
    b = supple.Builder("driven")
    b.link("upper", (0, 0, 0), (1, 0, 0), mass=1.0)
    b.link("lower", (1, 0, 0), (2, 0, 0), mass=1.0)
    b.hinge("shoulder", "world", "upper", at=(0, 0, 0), axis="y", **hinge)
    b.hinge("elbow", "upper", "lower", at=(1, 0, 0), axis="y", stiffness=30.0, damping=1.0)
    b.motor("drive", "shoulder")
    return b.build()


def square(**hinges) -> Mechanism:
    """A parallelogram four-bar of side 1 m, standing in the x-z plane."""
    b = supple.Builder("square", gravity=STILL)
    corners = np.array([(0, 0, 0), (0, 0, 1), (1, 0, 1), (1, 0, 0)], dtype=float)
    for name, i, j in (("crank", 0, 1), ("coupler", 1, 2), ("rocker", 3, 2)):
        b.link(name, corners[i], corners[j], mass=1.0)
    ends = {"a": ("world", "crank", 0), "b": ("crank", "coupler", 1), "c": ("world", "rocker", 3)}
    for name, (parent, child, at) in (ends | {"d": ("rocker", "coupler", 2)}).items():
        b.hinge(name, parent, child, at=corners[at], axis="y", **(hinges.get(name, {})))
    b.motor("drive", "a") if hinges.get("driven") else None
    b.motor("other drive", "c") if hinges.get("driven twice") else None
    return b.build()


def flat(values: dict[str, np.ndarray]) -> np.ndarray:
    return np.concatenate(list(values.values()))


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
    ],
)
def test_bad_targets(targets, text):
    mech = pendulum(stiffness=1.0)
    with pytest.raises(supple.MechanismError, match=text):
        supple.equilibrium(mech, targets=targets)
    with pytest.raises(supple.MechanismError, match=text):
        supple.Simulation(mech, 1e-3).set_target(*next(iter(targets.items())))


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


def test_pieces_that_nothing_connects():
    b = supple.Builder("pieces")
    for i in range(3):
        b.body(f"body{i}", mass=1.0, inertia=(1, 1, 1))
    b.hinge("held", "world", "body0", at=(0, 0, 0), axis="y", stiffness=1.0)
    b.hinge("adrift", "body1", "body2", at=(0, 0, 0), axis="y", stiffness=1.0)
    with pytest.raises(supple.MechanismError, match=r"2 bodies cannot be reached .* 'body1', 'body2'"):
        b.build()


# what nothing holds


def test_what_nothing_holds_is_named():
    with pytest.raises(supple.MechanismError, match="nothing holds 'hinge' of 'pendulum'"):
        supple.equilibrium(pendulum(gravity=STILL))
    with pytest.raises(supple.MechanismError, match="nothing holds 'hinge' of 'pendulum'"):
        supple.equilibrium(pendulum(gravity=STILL), {"rod": [0, 0, 0, 0, 1, 0]})


@pytest.mark.parametrize("gravity", [STILL, (0, 0, -9.81)])
def test_a_floating_body_is_named(gravity):
    b = supple.Builder("floating", gravity=gravity)
    b.body("bob", mass=1.0, inertia=(1, 1, 1))
    b.free("float", "world", "bob")
    with pytest.raises(supple.MechanismError, match=r"nothing holds 'float\.0', .* of 'floating'"):
        supple.equilibrium(b.build())


def test_only_what_is_loose_is_named():
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


def test_a_spring_that_gives_way_has_no_equilibrium_beyond_its_strength():
    b = supple.Builder("weak", gravity=STILL)
    b.body("wheel", mass=1.0, inertia=(1, 1, 1))
    weak = Curve(np.array([-1.0, 0, 1, 2]), np.array([-1.0, 0, 1, 0.5]))
    b.hinge("axle", "world", "wheel", at=(0, 0, 0), axis="z", curves=[weak])
    with pytest.raises(supple.ConvergenceError, match=r"no equilibrium of 'weak' .* beyond (49|50)\.\d%") as caught:
        supple.equilibrium(b.build(), {"wheel": [0, 0, 0, 0, 0, 2.0]})
    assert caught.value.load_fraction == pytest.approx(0.5, abs=2e-3)
    state = caught.value.state
    assert state.load_fraction == caught.value.load_fraction
    torque = float(weak(state.coordinates["axle"][0]))
    assert torque == pytest.approx(2 * state.load_fraction, abs=1e-9)
    assert state.stable


def test_the_state_of_a_failed_load_is_a_place_to_go_on_from():
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
    tangent = engine_linear.linearised(mech, state).equations.core
    tangent.evaluate(False)
    assert max(tangent.imbalance, tangent.gap_size) < 1e-9


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


def test_progress_is_reported():
    reached = []
    supple.equilibrium(supple.library.helix(20), {"tip": [0, 0, -300, 0, 0, 0]}, progress=reached.append)
    assert reached == sorted(reached)
    assert reached[-1] == 1


# limits


def test_a_stop_carries_what_leans_on_it():
    mech = pendulum(gravity=STILL, stiffness=10.0, limits=(-0.3, 0.5))
    eq = None
    for torque, q, held in ((20, 0.5, -15.0), (-1, -0.1, 0.0), (-20, -0.3, 17.0), (4, 0.4, 0.0), (5.1, 0.5, -0.1)):
        for start in (None, eq):
            eq = supple.equilibrium(mech, {"rod": [0, 0, 0, 0, torque, 0]}, start=start)
            assert eq.q == pytest.approx([q], abs=1e-10)
            assert eq.held.get("hinge", 0.0) == pytest.approx(held, abs=1e-8)
            assert eq.stable


@pytest.mark.parametrize(
    ("limits", "gravity"),
    [
        ((-1, 0.5), -9.81),
        ((-0.5, 1), 9.81),
    ],
)
def test_a_passive_hinge_comes_to_rest_on_its_stop(limits, gravity):
    eq = supple.equilibrium(pendulum(gravity=(0, 0, gravity), limits=limits))
    assert eq.q == pytest.approx([-0.5 * np.sign(gravity)], abs=1e-10)
    assert eq.held["hinge"] == pytest.approx(gravity / 2 * np.cos(0.5), abs=1e-8)
    assert eq.stable


def test_a_pendulum_comes_to_rest_hanging():
    eq = supple.equilibrium(pendulum().at([-0.01]))
    assert eq.stable


def test_a_limit_that_is_not_touched_holds_nothing():
    eq = supple.equilibrium(pendulum(stiffness=100.0, limits=(-1, 1)))
    assert eq.held == {}
    q = eq.q[0]
    assert 100 * q == pytest.approx(9.81 / 2 * np.cos(q), abs=1e-9)


@pytest.mark.parametrize("method", ["euler", "bdf2"])
def test_a_falling_pendulum_stays_on_its_stop(method):
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
    assert eq.held["gear"] == pytest.approx(held, abs=1e-8)
    assert q == pytest.approx([(1 + held) / 5, (7 + 2 * held) / 10], abs=1e-9)


def test_a_passive_wheel_runs_onto_the_limit_of_a_coupling():
    eq = supple.equilibrium(wheels(limits=(-0.2, 0.3)), {"first": [0, 0, 0, 0, 0, 1.0]})
    assert eq.held["gear"] == pytest.approx(-1.0, abs=1e-8)


def test_starting_outside_limits():
    mech = pendulum(limits=(-0.5, 0.5))
    with pytest.raises(supple.MechanismError, match=r"'hinge' starts at 0\.8, outside its limits -0\.5 \.\.\. 0\.5"):
        supple.Simulation(mech, 1e-3, q=[0.8])
    with pytest.raises(supple.MechanismError, match="'hinge' starts at -2"):
        supple.Simulation(mech.at([-2.0]), 1e-3)


def test_starting_outside_the_limits_of_a_coupling():
    with pytest.raises(supple.MechanismError, match="gear"):
        supple.Simulation(wheels(limits=(0.5, 1.0)), 1e-3)


# motors, couplings, curves, loads


def test_a_motor_carries_the_load():
    eq = supple.equilibrium(driven(), targets={"drive": 0.4})
    shoulder, elbow = eq.coordinates["shoulder"][0], eq.coordinates["elbow"][0]
    assert shoulder == pytest.approx(0.4, abs=1e-10)
    lower = 9.81 / 2 * np.cos(0.4 + elbow)
    assert 30 * elbow == pytest.approx(lower, abs=1e-9)
    assert eq.held["drive"] == pytest.approx(-(9.81 * 1.5 * np.cos(0.4) + lower), abs=1e-8)


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
    assert eq.held["gear"] == pytest.approx(-3.0, abs=1e-8)


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


@pytest.mark.parametrize(
    "height", [0.3, 0.01, 1e-3]
)
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


def test_two_rows_that_ask_for_the_same_thing():
    mech = square(driven=True, **{"driven twice": True})
    eq = supple.equilibrium(mech, targets={"drive": 0.3, "other drive": 0.3})
    assert flat(eq.coordinates) == pytest.approx([0.3, -0.3, 0.3, -0.3], abs=1e-9)
    with pytest.raises(supple.ConvergenceError):
        supple.equilibrium(mech, targets={"drive": 0.3, "other drive": 0.2})


# bad input to Simulation


@pytest.mark.parametrize("dt", [-1e-3, 0.0, np.nan, np.inf])
def test_bad_steps(dt):
    with pytest.raises(supple.MechanismError, match="dt must be a positive number of seconds"):
        supple.Simulation(pendulum(), dt)


def test_bad_arguments_of_a_simulation():
    mech = pendulum()
    with pytest.raises(supple.MechanismError, match="method must be 'euler' or 'bdf2'"):
        supple.Simulation(mech, 1e-3, "rk4")
    with pytest.raises(supple.MechanismError, match="q of 'pendulum' must have shape 1"):
        supple.Simulation(mech, 1e-3, q=[0, 0])
    with pytest.raises(supple.MechanismError, match="rates of 'pendulum' must be finite"):
        supple.Simulation(mech, 1e-3, rates=[np.nan])
    sim = supple.Simulation(mech, 1e-3)
    with pytest.raises(supple.MechanismError, match="0 or more"):
        sim.step(-1)
    with pytest.raises(supple.MechanismError, match="the point to pull to must be finite"):
        sim.pull("rod", (0, np.nan, 0))
    with pytest.raises(supple.MechanismError, match="the stiffness of a handle"):
        sim.pull("rod", (0, 0, 0), stiffness=-1.0)
    with pytest.raises(supple.MechanismError, match="saved by a simulation of another mechanism"):
        sim.restore(supple.Simulation(square(), 1e-3).save())
    sim.step(0)
    assert sim.time == 0


@pytest.mark.parametrize(
    ("curve", "text"),
    [
        (lambda t: 2.0 * (t > 0.0105), r"the curve of motor 'drive' jumps by 2 at t = 0\.0105 s"),
        (lambda t: np.nan if t > 0.005 else 0.0, r"motor 'drive' is not finite at t = 0\.006 s"),
    ],
)
def test_bad_motor_curves(curve, text):
    sim = supple.Simulation(driven(), 1e-3, motors={"drive": curve})
    with pytest.raises(supple.MechanismError, match=text):
        sim.step(20)
    assert sim.time == 0  # before any stepping


def test_a_motor_curve_that_jumps_a_little():
    sim = supple.Simulation(driven(), 1e-3, motors={"drive": lambda t: 0.5 * (t > 0.0105)})
    with pytest.raises(supple.MechanismError, match="jumps"):
        sim.step(20)


def test_a_motor_curve_that_starts_elsewhere():
    with pytest.raises(supple.MechanismError, match="motor 'drive' starts at 3 but its coordinate stands at 0"):
        supple.Simulation(driven(), 1e-3, motors={"drive": lambda t: 3.0})
    with pytest.raises(supple.MechanismError, match="no motor named 'engine'"):
        supple.Simulation(driven(), 1e-3, motors={"engine": lambda t: 0.0})
    sim = supple.Simulation(driven(), 1e-3, motors={"drive": lambda t: 3.0 + t}, q=[3.0, 0.0])
    sim.step(10)
    assert sim.coordinates["shoulder"][0] == pytest.approx(3.01, abs=1e-9)
    with pytest.raises(supple.MechanismError, match="'drive' follows its function of time"):
        sim.set_target("drive", 0.0)


def test_bodies_that_dynamics_cannot_move():
    b = supple.Builder("ghost")
    b.link("rod", (0, 0, 0), (1, 0, 0), mass=1.0)
    b.body("ghost", spatial.translation(np.array([1.0, 0, 0])))
    b.hinge("root", "world", "rod", at=(0, 0, 0), axis="y", stiffness=1.0)
    b.hinge("tip", "rod", "ghost", at=(1, 0, 0), axis="y", stiffness=1.0)
    mech = b.build()
    with pytest.raises(supple.MechanismError, match="dynamics cannot move 'tip' of 'ghost'"):
        supple.Simulation(mech, 1e-3)
    with pytest.raises(supple.MechanismError, match="moves no mass"):
        supple.modes(mech)
    assert supple.equilibrium(mech).stable  # statics needs no mass


def test_a_point_mass_cannot_spin():
    b = supple.Builder("bead")
    b.body("bead", mass=1.0)
    b.hinge("spin", "world", "bead", at=(0, 0, 0), axis="y", stiffness=1.0)
    with pytest.raises(supple.MechanismError, match="dynamics cannot move 'spin'"):
        supple.Simulation(b.build(), 1e-3)


def test_armature_moves_a_body_without_mass():
    b = supple.Builder("rotor")
    b.body("rotor")
    b.hinge("axle", "world", "rotor", at=(0, 0, 0), axis="z", stiffness=4.0, armature=1.0)
    mech = b.build()
    assert supple.modes(mech).frequencies == pytest.approx([2 / (2 * np.pi)], rel=1e-12)
    sim = supple.Simulation(mech, 1e-3, "bdf2", q=[0.1])
    sim.step(1000)
    assert sim.coordinates["axle"][0] == pytest.approx(0.1 * np.cos(2.0), abs=2e-6)


def test_fixed_bodies_without_mass():
    def arm(flange: bool) -> Mechanism:
        b = supple.Builder("arm")
        b.link("upper", (0, 0, 0), (1, 0, 0), mass=1)
        b.link("lower", (1, 0, 0), (2, 0, 0), mass=1)
        b.hinge("a", "world", "upper", at=(0, 0, 0), axis="y", stiffness=50.0)
        if flange:
            b.body("flange", spatial.translation(np.array([1.0, 0, 0])))
            b.fixed("weld", "upper", "flange")
        b.hinge("b", "flange" if flange else "upper", "lower", at=(1, 0, 0), axis="y", stiffness=50.0)
        return b.build()

    for mech in (arm(True), arm(False)):
        sim = supple.Simulation(mech, 1e-3)
        sim.step(100)
        state = flat(sim.coordinates), supple.equilibrium(mech).q, supple.modes(mech).frequencies
        if mech.joints[1].name == "weld":
            with_flange = state
    for a, b in zip(with_flange, state, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-10)


def test_a_massless_coupler_moves_with_its_loop():
    mech = square(a={"stiffness": 7.0})
    bodies = tuple(replace(b, mass=0.0, inertia=np.zeros((3, 3))) if b.name == "coupler" else b for b in mech.bodies)
    sim = supple.Simulation(replace(mech, bodies=bodies), 1e-3)
    sim.apply("coupler", [1, 0, 0, 0, 0, 0])
    start = sim.poses["coupler"]
    sim.step(10)
    assert np.abs(sim.poses["coupler"] - start).max() > 1e-5
    assert sim.gap < 1e-9


def test_a_start_that_does_not_close_its_loops():
    with pytest.raises(supple.MechanismError):
        supple.Simulation(square(a={"stiffness": 1.0}), 1e-3, q=[0.1, 0.2, 0.3])


# stepping


def failing() -> supple.Simulation:
    """Two motors that agree until 0.05 s and then fight through the loop."""
    mech = square(driven=True, **{"driven twice": True})
    curves = {"drive": lambda t: min(t, 0.05), "other drive": lambda t: t}
    return supple.Simulation(mech, 1e-2, "bdf2", motors=curves)


def test_a_step_that_fails_leaves_the_last_good_state():
    sim, good = failing(), failing()
    with pytest.raises(supple.ConvergenceError, match=r"the step from t = 0\.05 s did not converge") as caught:
        sim.step(10)
    good.step(5)
    assert caught.value.time == sim.time == pytest.approx(0.05)
    assert np.array_equal(flat(sim.coordinates), flat(good.coordinates))
    assert np.array_equal(sim.poses.array, good.poses.array)
    assert np.array_equal(sim.velocities, good.velocities)
    assert np.array_equal(sim.save().history, good.save().history)
    with pytest.raises(supple.ConvergenceError):
        sim.step()
    assert np.array_equal(sim.save().history, good.save().history)


def test_the_gap_after_a_step_that_failed():
    sim = failing()
    with pytest.raises(supple.ConvergenceError):
        sim.step(10)
    assert sim.gap < 1e-9


def test_a_simulation_starts_at_rest_in_an_equilibrium():
    mech = supple.library.ladder(4, gravity=(0, 0, -9.81))
    eq = supple.equilibrium(mech, {"tip": [5, 30, 0, 0, 0, 0]}, targets={"left_hinge_1": 0.1})
    sim = supple.Simulation(mech, 5e-3, at=eq)
    sim.step(20)
    np.testing.assert_allclose(sim.poses.array, eq.poses.array, atol=1e-9)
    assert np.abs(sim.velocities).max() < 1e-8
    mech = supple.library.helix(8, gravity=(0, 0, -9.81))
    eq = supple.equilibrium(mech, {"tip": [5, 30, 0, 0, 0, 1]})
    sim = supple.Simulation(mech, 5e-3, at=eq)
    sim.step(20)
    for name, wrench in eq.reactions.items():
        np.testing.assert_allclose(sim.reactions[name], wrench, atol=1e-5)


def test_energy_of_a_known_state():
    sim = supple.Simulation(pendulum(stiffness=10.0), 1e-3, q=[0.3], rates=[2.0])
    radius = 1 / 20
    moment = (3 * radius**2 + 1) / 12 + 0.25
    assert sim.energy.kinetic == pytest.approx(0.5 * moment * 4, rel=1e-12)
    assert sim.energy.strain == pytest.approx(0.45, rel=1e-12)
    assert sim.energy.gravity == pytest.approx(-9.81 / 2 * np.sin(0.3), rel=1e-12)
    assert sim.energy.total == sim.energy.kinetic + sim.energy.strain + sim.energy.gravity


def test_a_handle_balances_what_it_holds():
    b = supple.Builder("bob")
    b.body("bob", mass=2.0, inertia=(0.1, 0.1, 0.1))
    b.free("float", "world", "bob", damping=[0, 0, 0, 1, 1, 1])
    sim = supple.Simulation(b.build(), 5e-3)
    sim.pull("bob", (0.1, 0.2, 1.0), stiffness=400.0, damping=60.0, at=(0, 0, 0.3))
    sim.step(2000)
    point = (sim.poses["bob"] @ [0, 0, 0.3, 1])[:3]
    np.testing.assert_allclose(400 * (np.array([0.1, 0.2, 1.0]) - point), [0, 0, 2 * 9.81], atol=1e-6)
    sim.pull("bob", (0.1, 0.2, 2.0), stiffness=400.0, damping=60.0, at=(0, 0, 0.3))
    sim.step(2000)
    assert sim.poses["bob"][2, 3] == pytest.approx(2 - 0.3 - 2 * 9.81 / 400, abs=1e-6)
    sim.pull("bob", None)
    sim.step(10)
    assert sim.velocities[0, 2] == pytest.approx(-9.81 * 0.05, rel=1e-3)


def test_handles_on_two_sites_of_a_body():
    mech = pendulum(stiffness=10.0, damping=10.0, gravity=STILL)
    sim = supple.Simulation(mech, 5e-3)
    sim.pull("rod", (0, 0, 1.0), stiffness=50.0)
    sim.pull("end", (1, 0, -0.5), stiffness=50.0)
    sim.step(4000)
    q = sim.coordinates["hinge"][0]
    lever = 50 * (np.array([1, 0, -0.5]) - [np.cos(q), 0, -np.sin(q)])
    assert 10 * q == pytest.approx(-lever[2] * np.cos(q) - lever[0] * np.sin(q), abs=1e-6)


def test_set_points_move():
    mech = pendulum(gravity=STILL, stiffness=10.0, damping=10.0)
    sim = supple.Simulation(mech, 5e-3)
    sim.set_target("hinge", 0.7)
    sim.step(3000)
    assert sim.coordinates["hinge"][0] == pytest.approx(0.7, abs=1e-6)
    sim = supple.Simulation(driven(), 1e-3)
    sim.set_target("drive", 0.01)
    sim.step()
    assert sim.coordinates["shoulder"][0] == pytest.approx(0.01, abs=1e-9)
    eq = supple.equilibrium(mech, targets={"hinge": 0.4})
    assert supple.Simulation(mech, 1e-3, at=eq).coordinates["hinge"][0] == pytest.approx(0.4, abs=1e-9)


@pytest.mark.parametrize("method", ["euler", "bdf2"])
def test_saved_states_continue_to_the_same_bits(method):
    mech = supple.library.ladder(3, gravity=(0, 0, -9.81))

    def begin() -> supple.Simulation:
        sim = supple.Simulation(mech, 2e-3, method)
        sim.apply("tip", [3, 40, -5, 0, 1, 0])
        sim.pull("left_1", (0, 1, 0), stiffness=20.0)
        sim.set_target("right_hinge_1", 0.2)
        sim.step(15)
        return sim

    sim = begin()
    saved = sim.save()
    sim.step(25)
    end = sim.save().history
    again = begin()
    again.step(25)
    assert np.array_equal(again.save().history, end)  # two runs
    sim.apply("tip", np.zeros(6))
    sim.pull("left_1", None)
    sim.set_target("right_hinge_1", -0.5)
    sim.step(5)
    sim.restore(saved)
    assert np.array_equal(sim.save().history, saved.history)
    sim.step(25)
    assert np.array_equal(sim.save().history, end)
    other = supple.Simulation(mech, 2e-3, method)
    other.restore(saved)
    other.step(25)
    assert np.array_equal(other.save().history, end)
    assert np.array_equal(other.poses.array, again.poses.array)
    assert np.array_equal(other.velocities, again.velocities)


@pytest.mark.parametrize("method", ["euler", "bdf2"])
def test_reset_goes_back_to_the_start(method):
    mech = driven()
    sim = supple.Simulation(mech, 2e-3, method, rates=[0.0, 1.0], motors={"drive": np.sin})
    before = sim.save().history
    sim.step(30)
    first = sim.save().history
    sim.apply("lower", [1, 2, 3, 0, 0, 0])
    sim.step(3)
    sim.reset()
    assert sim.time == 0
    assert np.array_equal(sim.save().history, before)
    sim.step(30)
    assert np.array_equal(sim.save().history, first)


def test_steps_one_by_one_are_steps_at_once():
    sims = [supple.Simulation(supple.library.y(gravity=(0, 0, -9.81)), 2e-3, "bdf2") for _ in range(2)]
    sims[0].step(12)
    for _ in range(12):
        sims[1].step()
    assert np.array_equal(sims[0].save().history, sims[1].save().history)


def test_what_is_returned_cannot_change_the_simulation():
    sim = supple.Simulation(pendulum(), 1e-3)
    for values in (sim.velocities, sim.coordinates["hinge"], sim.reactions["hinge"]):
        values[...] = 7.0
    with pytest.raises(ValueError, match="read-only"):
        sim.poses.array[...] = 7.0
    sim.step()
    other = supple.Simulation(pendulum(), 1e-3)
    other.step()
    assert np.array_equal(sim.save().history, other.save().history)


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


def test_modes_of_what_cannot_move():
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


# extremes


def test_soft_joints_beside_stiff_ones():
    eq = supple.equilibrium(chain([1e8, 1e-3]), {"link1": [0, 0, 0, 0, 1e-4, 0]})
    assert eq.coordinates["hinge1"][0] == pytest.approx(0.1, rel=1e-6)


def test_soft_joints_beside_stiff_ones_are_stable():
    assert supple.equilibrium(chain([1e8, 1e-3])).stable


def test_soft_joints_beside_stiff_ones_are_held():
    mech = chain([1e8, 1e-3, 0.0])
    driven = replace(mech, motors=(supple.mechanism.Motor("drive", "hinge2"),))
    assert supple.equilibrium(driven).residual < 1e-9


def test_light_bodies_on_heavy_ones():
    b = supple.Builder("fly", gravity=STILL)
    b.link("tower", (0, 0, 0), (1, 0, 0), mass=1e3)
    b.hinge("root", "world", "tower", at=(0, 0, 0), axis="y", stiffness=1e6)
    b.body("fly", spatial.translation(np.array([1.0, 0, 0])), 1e-5, (0.01, 0, 0), (1e-11,) * 3)
    b.hinge("wing", "tower", "fly", at=(1, 0, 0), axis="y", stiffness=4e-9)
    omega = np.sqrt(4e-9 / (1e-11 + 1e-5 * 1e-4))
    sim = supple.Simulation(b.build(), 0.01 / omega, "bdf2", q=[0, 0.1])
    sim.step(314)
    assert sim.coordinates["wing"][0] == pytest.approx(0.1 * np.cos(3.14), abs=1e-3)


def test_light_bodies_beside_heavy_ones():
    b = supple.Builder("fly")
    b.link("tower", (0, 0, 0), (10, 0, 0), mass=1e5)
    b.hinge("root", "world", "tower", at=(0, 0, 0), axis="y", stiffness=1e9)
    b.body("fly", spatial.translation(np.array([0, 5.0, 0])), 1e-6, (0.01, 0, 0), (1e-12,) * 3)
    b.hinge("wing", "world", "fly", at=(0, 5, 0), axis="y")
    sim = supple.Simulation(b.build(), 1e-5)
    sim.step()
    assert sim.velocities[1, 4] == pytest.approx(1e-5 * 1e-6 * 9.81 * 0.01 / (1e-12 + 1e-6 * 1e-4), rel=1e-3)


@pytest.mark.parametrize("kind", ["hinge", "ball", "slide", "screw", "universal"])
@pytest.mark.parametrize(
    "size",
    [1e-6, 1e-3, 1, 1e3],
)
def test_similar_mechanisms_of_any_size_behave_alike(kind, size):
    def scaled(size: float) -> tuple[np.ndarray, np.ndarray]:
        weight = 1e3 * size**3 * 9.81
        b = supple.Builder("similar")
        for i in range(4):
            start, end = (i * size / 4, 0, 0), ((i + 1) * size / 4, 0, 0)
            b.link(f"link{i}", start, end, mass=250 * size**3)
            options = {
                "hinge": {"axis": "y"},
                "slide": {"axis": "z"},
                "screw": {"axis": "y", "pitch": 0.1 * size},
                "universal": {"axes": ("y", "z")},
            }.get(kind, {})
            stiffness = 30 * weight / size if kind == "slide" else 3 * weight * size
            name = "world" if i == 0 else f"link{i - 1}"
            getattr(b, kind)(f"joint{i}", name, f"link{i}", at=start, stiffness=stiffness, **options)
        mech = b.build()
        eq = supple.equilibrium(mech, {"link3": [0, 0, -0.1 * weight, 0, 0, 0]})
        sim = supple.Simulation(mech, 1e-2 * np.sqrt(size), "bdf2")
        sim.step(30)
        assert eq.stable
        return eq.poses["link3"][:3, 3] / size, sim.poses["link3"][:3, 3] / size

    for found, expected in zip(scaled(size), scaled(1.0), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-8)


@pytest.mark.parametrize("method", ["euler", "bdf2"])
def test_a_mechanism_far_from_the_origin(method):
    found = []
    for offset in (0.0, 1e5):
        b = supple.Builder("far")
        for i in range(4):
            b.link(f"link{i}", (offset + i, 0, 0), (offset + i + 1, 0, 0), mass=1.0)
            b.hinge(
                f"hinge{i}",
                "world" if i == 0 else f"link{i - 1}",
                f"link{i}",
                at=(offset + i, 0, 0),
                axis="y",
                stiffness=100.0,
            )
        sim = supple.Simulation(b.build(), 1e-2, method)
        sim.step(50)
        found.append([flat(sim.coordinates), supple.equilibrium(sim.mechanism).q])
    np.testing.assert_allclose(found[1], found[0], atol=1e-8)


def test_a_stretched_chain_in_its_singular_pose():
    eq = supple.equilibrium(chain([1e-3] * 6), {"end": [100, 0, 0, 0, 0, 0]})
    assert np.abs(eq.q).max() < 1e-9
    assert eq.stable
    free = chain([0.0] * 6)
    eq = supple.equilibrium(free, {"end": [100, 0, 20, 0, 0, 0]})
    assert eq.q[0] == pytest.approx(-np.arctan2(20, 100), abs=1e-9)
    assert np.abs(eq.q[1:]).max() < 1e-9
    sim = supple.Simulation(free, 1e-3)
    sim.apply("end", [100, 0, 20, 0, 0, 0])
    sim.step(100)
    assert np.isfinite(sim.poses.array).all()


@pytest.mark.parametrize("kind", ["hinge", "ball"])
def test_four_hundred_bodies(kind):
    b = supple.Builder("long")
    for i in range(400):
        b.link(f"link{i}", (i * 0.01, 0, 0), (i * 0.01 + 0.01, 0, 0), mass=0.01)
        options = {"axis": "y"} if kind == "hinge" else {}
        name = "world" if i == 0 else f"link{i - 1}"
        getattr(b, kind)(f"joint{i}", name, f"link{i}", at=(i * 0.01, 0, 0), stiffness=2e3, damping=1.0, **options)
    mech = b.build()
    eq = supple.equilibrium(mech)
    assert eq.residual < 1e-10
    # bending of a beam: sum of the hinges' turns, each by the moment of the weight beyond it
    hang = np.array([eq.poses[i][2, 3] for i in range(400)])
    assert (np.diff(hang) < 0).all()
    sim = supple.Simulation(mech, 1e-3, at=eq)
    sim.step(3)
    np.testing.assert_allclose(sim.poses.array, eq.poses.array, atol=1e-7)


def test_balls_turn_any_number_of_times():
    b = supple.Builder("top", gravity=STILL)
    b.body("top", mass=1.0, inertia=(1, 1, 1))
    b.ball("socket", "world", "top", at=(0, 0, 0))
    sim = supple.Simulation(b.build(), 1e-2, "bdf2", rates=[0, 0, 10.0])
    sim.step(1000)
    turn = spatial.so3_exp(np.array([0, 0, 100.0]))
    np.testing.assert_allclose(sim.poses["top"][:3, :3], turn, atol=1e-9)
    np.testing.assert_allclose(sim.velocities[0], [0, 0, 0, 0, 0, 10], atol=1e-9)


def test_hinges_count_their_turns():
    b = supple.Builder("wheel", gravity=STILL)
    b.body("wheel", mass=1.0, inertia=(1, 1, 1))
    b.hinge("hinge", "world", "wheel", at=(0, 0, 0), axis="y")
    sim = supple.Simulation(b.build(), 1e-2, rates=[10.0])
    sim.step(1000)
    assert sim.coordinates["hinge"][0] == pytest.approx(100.0, abs=1e-8)
    eq = supple.equilibrium(pendulum(gravity=STILL, stiffness=1.0), {"rod": [0, 0, 0, 0, 20.0, 0]})
    assert eq.q == pytest.approx([20.0], abs=1e-9)


def test_random_closed_mechanisms_run():
    for seed in range(6):
        rng = np.random.default_rng(seed)
        mech = engine_reference.unlimited(
            mechanisms.random_mechanism(rng, 5, ("hinge", "universal", "ball", "cylindrical"), loops=1)
        )
        sim = supple.Simulation(mech, 2e-3, "bdf2")
        for _ in range(10):
            sim.step(5)
            assert sim.gap < 1e-9


# long steps


def test_a_step_of_several_turns_is_divided():
    """100 rad/s at 50 ms: five radians a step, which a rotation alone cannot tell from minus one."""
    b = supple.Builder("wheel", gravity=STILL)
    b.body("wheel", mass=1.0, inertia=(0.1, 0.1, 0.1))
    b.hinge("axle", "world", "wheel", at=(0, 0, 0), axis="z", stiffness=1.0)
    sim = supple.Simulation(b.build(), 0.05, rates=[100.0])
    energy = [sim.energy.total]
    for _ in range(10):
        sim.step()
        energy.append(sim.energy.total)
    assert (np.diff(energy) < 0).all()
    assert sim.coordinates["axle"][0] == pytest.approx(100 * np.sin(np.sqrt(10) * 0.5) / np.sqrt(10), rel=0.1)


@pytest.mark.parametrize("seed", range(30))
def test_violent_loads_make_no_energy(seed):
    rng = np.random.default_rng(seed)
    mech = chain([0.1] * (1 + seed % 2), gravity=STILL)
    force = rng.normal(size=3) * 10 ** rng.uniform(1, 4)
    sim = supple.Simulation(mech, 10 ** rng.uniform(-3, -1.3))
    sim.apply("end", [*force, 0, 0, 0])

    def total() -> float:
        return sim.energy.total - force @ sim.poses["end"][:3, 3]

    before = total()
    for _ in range(15):
        sim.step()
        assert total() <= before + 1e-6 * (1 + abs(before))
        before = total()


# redundant loops


def test_redundant_loops_carry_nothing_without_a_load():
    for reaction in supple.equilibrium(supple.library.ladder(6)).reactions.values():
        assert np.abs(reaction).max() < 1e-10


def test_symmetric_rails_carry_alike():
    eq = supple.equilibrium(supple.library.ladder(6), {"tip": [0, 40, -20, 0, 0, 0]})
    left, right = eq.reactions["left_hinge_1"], eq.reactions["right_hinge_1"]
    assert left[[1, 2, 3]] == pytest.approx(right[[1, 2, 3]], abs=1e-9)
    assert np.linalg.norm(left[:3] + right[:3]) == pytest.approx(np.hypot(40, 20), abs=1e-8)


@pytest.mark.parametrize("call", [supple.equilibrium, lambda m: supple.Simulation(m, 1e-3), supple.modes])
def test_a_file_name_is_no_mechanism(call):
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
