"""Simulation: interface, guarantees, and errors for bad input."""

from __future__ import annotations

import dataclasses
import pickle
import signal
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

import engine_reference
import mechanisms
import supple
from small_mechanisms import STILL, chain, driven, flat, pendulum, square, strut
from supple import spatial
from supple.mechanism import Mechanism, Motor

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
    with pytest.raises(supple.MechanismError, match="`at` and `q` both give the initial pose"):
        supple.Simulation(mech, 1e-3, at=supple.equilibrium(mech), q=[0.1])
    with pytest.raises(supple.MechanismError, match="motors are given as"):
        supple.Simulation(mech, 1e-3, motors=[np.sin])
    sim = supple.Simulation(mech, 1e-3)
    with pytest.raises(supple.MechanismError, match="named 'rodd'; did you mean 'rod'"):
        sim.pull("rodd", None)
    with pytest.raises(supple.MechanismError, match="saved by a simulation of another"):
        sim.restore(None)
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


NAMES = "there is no body or site of 'driven' named 'lowr'; did you mean 'lower'?"
WRENCH = "wrench on 'lower' (force, then torque) must "
COUNT = "the number of steps must be a whole number, 0 or more, got "
REFUSALS = {
    "body": (lambda sim: sim.apply("lowr", [0] * 6), NAMES),
    "body of a handle": (lambda sim: sim.pull("lowr", (0, 0, 0)), NAMES),
    "body of a pose": (lambda sim: sim.poses["lowr"], NAMES),
    "the world": (lambda sim: sim.apply("world", [0] * 6), "there is no body or site of 'driven' named 'world'"),
    "NaN wrench": (
        lambda sim: sim.apply("lower", [0, 0, np.nan, 0, 0, 0]),
        WRENCH + "be finite, got [0, 0, nan, 0, 0, 0]",
    ),
    "short wrench": (lambda sim: sim.apply("lower", [0] * 3), WRENCH + "have shape 6, got 3"),
    "frame": (lambda sim: sim.apply("lower", [0] * 6, "local"), "frame must be 'world' or 'body', got 'local'"),
    "short point": (lambda sim: sim.pull("lower", (0, 0)), "the point to pull to must have shape 3, got 2"),
    "damper of a handle": (
        lambda sim: sim.pull("lower", (0, 0, 0), 5.0, -1.0),
        "the damping of a handle must not be negative, got -1.0",
    ),
    "joint of a target": (
        lambda sim: sim.set_target("elbw", 0.1),
        "there is no joint, coordinate, coupling or motor of 'driven' named 'elbw'; did you mean 'elbow'?",
    ),
    "NaN target": (lambda sim: sim.set_target("elbow", np.nan), "target of 'elbow' must be finite, got nan"),
    "long target": (lambda sim: sim.set_target("elbow", [0, 0]), "targets of 'elbow' must have shape 1, got 2"),
    "joint of a torque": (
        lambda sim: sim.set_torque("elbw", 0.1),
        "there is no joint of 'driven' named 'elbw'; did you mean 'elbow'?",
    ),
    "infinite torque": (
        lambda sim: sim.set_torque("elbow", np.inf),
        "torque on 'elbow' (1 axes) must be finite, got [inf]",
    ),
    "torque on a motor": (
        lambda sim: sim.set_torque("shoulder", 1.0),
        "motor 'drive' prescribes 'shoulder', so that a torque on it does nothing; remove the motor, or move it with "
        "sim.set_target",
    ),
    "fewer steps than none": (lambda sim: sim.step(-1), COUNT + "-1"),
    "half a step": (lambda sim: sim.step(1.5), COUNT + "1.5"),
    "short q": (lambda sim: sim.set_q([0.0]), "q of 'driven' (2 coordinates) must have shape 2, got 1"),
    "motor away": (
        lambda sim: supple.Simulation(sim.mechanism, 1e-3, q=[0.3, 0]),
        "motor 'drive' starts at 0 but its coordinate is at 0.3; start the simulation there (q=..., or "
        "at=supple.equilibrium(mech)), or let the motor start at its coordinate",
    ),
    "open loop": (
        lambda _: supple.Simulation(square(), 1e-3, q=[0.5, 0.1, 0.1]),
        "the loop at joint 'd' has a gap of 0.55 m at the start; start 'square' where loops are closed within limits, "
        "for instance supple.assemble(mech).mechanism",
    ),
    "no spring": (
        lambda _: supple.Simulation(pendulum(), 1e-3).set_target("hinge", 0.1),
        "'hinge' has no spring to set a target for; add one with mech.with_springs(...)",
    ),
    "negative stiffness": (
        lambda _: pendulum(stiffness=-1.0),
        "stiffness of joint 'hinge' must not be negative, got [-1.0]",
    ),
    "negative damping": (lambda _: pendulum(damping=-1.0), "damping of joint 'hinge' must not be negative, got [-1.0]"),
    "negative armature": (
        lambda _: pendulum(armature=-1),
        "armature of joint 'hinge' must not be negative, got [-1.0]",
    ),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_texts_of_refusals(case):
    call, text = REFUSALS[case]
    with pytest.raises(supple.MechanismError) as caught:
        call(supple.Simulation(driven(), 1e-3))
    assert str(caught.value).startswith(text)


def test_the_text_of_a_step_that_does_not_converge():
    sim = supple.Simulation(square(**{"driven": True, "driven twice": True}), 1e-2)
    sim.set_target("drive", 0.4)
    with pytest.raises(supple.ConvergenceError) as caught:
        sim.step(3)
    text = str(caught.value)
    assert text.startswith("the step from t = 0 s did not converge, even with a thousandth of dt: coordinate '")
    assert text.endswith(
        "Limits or motors contradict each other, or a force is too large; apply less, or take a smaller dt. The state "
        "is that before this step"
    )


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


def test_a_motor_that_does_not_start_at_its_coordinate():
    with pytest.raises(supple.MechanismError, match="motor 'drive' starts at 3 but its coordinate is at 0"):
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
    text = (
        "dynamics cannot move 'tip' of 'ghost': the bodies that they move have no inertia; give them mass and inertia"
    )
    with pytest.raises(supple.MechanismError, match=text):
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
    """Two motors that are compatible with the loop until 0.05 s and contradict each other afterwards."""
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


@pytest.mark.parametrize("method", ["euler", "bdf2"])
def test_a_step_that_fails_in_its_middle_leaves_the_state_before_it(method):
    """The motor's curve leaves the reach of the linkage within one step: some parts of the divided step converge."""

    def four_bar_with_motor() -> supple.Simulation:
        mech = replace(mechanisms.four_bar(stiffness=1.0), motors=(Motor("drive", "c", 0.0),))
        curve = lambda t: float(np.interp(t, [0, 6e-3, 8e-3], [0, 0, 3.0]))  # noqa: E731
        return supple.Simulation(mech, 2e-3, method, motors={"drive": curve})

    sim, good = four_bar_with_motor(), four_bar_with_motor()
    good.step(3)
    with pytest.raises(supple.ConvergenceError, match="'b' still moves by") as caught:
        sim.step(10)
    assert caught.value.time == sim.time == good.time
    assert np.array_equal(sim.save().history, good.save().history)
    assert np.array_equal(sim.poses.array, good.poses.array)
    assert sim.reactions.keys() == good.reactions.keys()


@pytest.mark.parametrize("in_world", [False, True])
@pytest.mark.parametrize("passes", [True, False])
def test_reactions_after_a_step_that_fails_are_those_before_it(passes, in_world):
    sims = []
    for _ in range(2):
        sim = supple.Simulation(chain([30.0] * 3, gravity=(0, 0, -9.81)), 1e-2)
        sim._core.use_passes(passes)
        moving = supple.World(1e-2) if in_world else sim
        if in_world:
            moving.add(sim)
        moving.step(5)
        sims.append(sim)
    sim.apply("end", [0, 0, 0, 0, 1e13, 0])
    with pytest.raises(supple.ConvergenceError):
        moving.step()
    for name, wrench in sims[0].reactions.items():
        np.testing.assert_allclose(sim.reactions[name], wrench, atol=1e-9, err_msg=name)


@pytest.mark.parametrize("in_world", [False, True])
@pytest.mark.parametrize("passes", [True, False])
@pytest.mark.parametrize("make", [
    lambda: supple.library.robot_arm(),
    lambda: supple.library.loop(),
    lambda: supple.library.ladder(4),
    lambda: mechanisms.random_mechanism(np.random.default_rng(3), 5, ("ball", "universal", "hinge"), couplings=2),
    lambda: supple.library.rod_on_motor(modes=4, sections=4),
], ids=["tree", "loop", "ladder", "balls", "flexible"])  # fmt: skip
@pytest.mark.filterwarnings("ignore")
def test_a_step_that_fails_leaves_the_whole_state(make, passes, in_world):
    """To the last bit: a step writes the state only when it has succeeded."""
    sim = supple.Simulation(make(), 1e-2, "bdf2")
    sim._core.use_passes(passes)
    moving = supple.World(1e-2) if in_world else sim
    if in_world:
        moving.add(sim)
    sim.apply(sim.mechanism.bodies[-1].name, [0.1, 0.2, 0.3, 0, 0, 0])
    moving.step(5)
    before = sim._core.history()
    sim.apply(sim.mechanism.bodies[-1].name, [0, 0, 0, 1e13, 1e13, 1e13])
    with pytest.raises(supple.ConvergenceError):
        moving.step()
    np.testing.assert_array_equal(sim._core.history(), before)


@pytest.mark.parametrize("fails_first", [True, False])
def test_reactions_in_a_world_are_those_before_a_step_in_which_another_mechanism_fails(fails_first):
    worlds = []
    for _ in range(2):
        mech = chain([30.0] * 3, gravity=(0, 0, -9.81))
        apart = spatial.translation([0.0, 10.0, 0.0])
        sims = [supple.Simulation(each, 1e-2) for each in (mech, mech.placed(apart))]
        world = supple.World(1e-2)
        for name, sim in zip("ab", sims, strict=True):
            world.add(sim, name=name)
        world.step(5)
        worlds.append((world, sims))
    world, sims = worlds[0]
    failing, other = sims if fails_first else sims[::-1]
    other.apply("end", [0, 0, 3.0, 0, 0.5, 0])
    failing.apply("end", [0, 0, 0, 0, 1e13, 0])
    with pytest.raises(supple.ConvergenceError):
        world.step()
    for sim, good in zip(sims, worlds[1][1], strict=True):
        for name, wrench in good.reactions.items():
            np.testing.assert_allclose(sim.reactions[name], wrench, atol=1e-9, err_msg=name)


def test_a_joint_that_turns_too_far_is_not_called_an_open_loop():
    sim = supple.Simulation(replace(mechanisms.four_bar(stiffness=1.0), motors=(Motor("drive", "c", 0.0),)), 2e-3)
    sim.set_target("drive", 3.0)
    with pytest.raises(supple.ConvergenceError, match="a body or joint turns too far in one step"):
        sim.step()


@pytest.mark.parametrize("passes", [True, False])
def test_equal_limits_hold_a_coordinate_as_a_motor_does(passes):
    def swing(**hinge: object) -> supple.Simulation:
        b = supple.Builder("swing", gravity=(0, 0, -9.81))
        b.link("first", (0, 0, 0), (1, 0, 0), mass=1.0)
        b.hinge("held", "world", "first", at=(0, 0, 0), axis="y", **hinge)
        b.link("second", (1, 0, 0), (2, 0, 0), mass=1.0)
        b.hinge("free", "first", "second", at=(1, 0, 0), axis="y")
        if not hinge:
            b.motor("drive", "held")
        sim = supple.Simulation(b.build(), 2e-3, "bdf2", rates=[0, 20.0])
        sim._core.use_passes(passes)
        return sim

    driven, limited = swing(), swing(limits=(0.0, 0.0))
    tape = limited.tape()
    for sim in (driven, limited):
        sim.step(300)
    assert not tape.impacts
    np.testing.assert_allclose(limited.q, driven.q, atol=1e-11)
    assert limited.motor_torques["held"] == pytest.approx(driven.motor_torques["drive"], rel=1e-9)


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


def test_multipliers_of_redundant_loops_do_not_grow():
    """Opposite forces in the two rails of a ladder balance each other. Their undetermined size once grew with every
    step."""
    sim = supple.Simulation(supple.library.ladder(), 1e-3)
    sim.apply("tip", [0, 50.0, 0, 0, 0, 0])
    sim.step(300)
    assert max(np.abs(wrench).max() for wrench in sim.reactions.values()) < 200


def test_energy_of_a_known_state():
    sim = supple.Simulation(pendulum(stiffness=10.0), 1e-3, q=[0.3], rates=[2.0])
    radius = 1 / 20
    moment = (3 * radius**2 + 1) / 12 + 0.25
    assert sim.energy.kinetic == pytest.approx(0.5 * moment * 4, rel=1e-12)
    assert sim.energy.strain == pytest.approx(0.45, rel=1e-12)
    assert sim.energy.gravity == pytest.approx(-9.81 / 2 * np.sin(0.3), rel=1e-12)
    assert sim.energy.total == sim.energy.kinetic + sim.energy.strain + sim.energy.gravity


def test_a_handle_balances_the_load():
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


def two_rods(name="two rods", second=1.0, axis="y"):
    b = supple.Builder(name, gravity=(0, 0, -9.81))
    b.link("upper", (0, 0, 0), (1, 0, 0), mass=1.0)
    b.link("lower", (1, 0, 0), (2, 0, 0), mass=second)
    b.hinge("shoulder", "world", "upper", at=(0, 0, 0), axis=axis)
    b.hinge("elbow", "upper", "lower", at=(1, 0, 0), axis="y")
    return b.build()


@pytest.mark.parametrize("kind", ["engine", "linear"])
def test_states_of_equal_mechanisms_only(kind):
    def begin(mech: supple.Mechanism):
        if kind == "engine":
            return supple.Simulation(mech, 2e-3)
        return supple.ReducedSimulation(supple.reduce(mech.with_springs(stiffness=20.0), "lower"), 2e-3)

    sim = begin(two_rods())
    sim.step(5)
    saved = pickle.loads(pickle.dumps(sim.save()))
    same = begin(two_rods())
    same.restore(saved)
    np.testing.assert_array_equal(same.poses.array, sim.poses.array)
    for other in (two_rods(second=1.1), two_rods(axis="x")):
        refusing = begin(other)
        with pytest.raises(supple.MechanismError, match="another m"):
            refusing.restore(saved)
        refusing.step()
        world = supple.World(2e-3, gravity=other.gravity)
        world.add(refusing, "rods")
        ball = world.add(supple.mechanism.Body("ball", np.eye(4), 1.0, inertia=np.eye(3)))
        kept = dataclasses.replace(world.save(), mechanisms={"rods": saved}, time=1.0)
        world.step()
        before = world.pose(ball)
        with pytest.raises(supple.MechanismError, match="another m"):
            world.restore(kept)
        np.testing.assert_array_equal(world.pose(ball), before)  # nothing was restored


@pytest.mark.parametrize("dt", [5e-4, 1e-3])
def test_a_state_of_another_time_step(dt):
    """The next step is backward Euler, as at the start: a second-order difference needs steps of one length."""
    mech = chain([20.0] * 4, gravity=(0, 0, -9.81), damping=0.1)
    sim, other, exact = (supple.Simulation(mech, step, "bdf2") for step in (2e-3, dt, 1e-4))
    sim.step(200)
    other.restore(sim.save())
    other.step(round(0.04 / dt))
    sim.step(20)
    exact.step(4400)
    assert np.abs(other.q - exact.q).max() < 2 * np.abs(sim.q - exact.q).max()


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


def test_single_steps_equal_many_steps_in_one_call():
    sims = [supple.Simulation(supple.library.y(gravity=(0, 0, -9.81)), 2e-3, "bdf2") for _ in range(2)]
    sims[0].step(12)
    for _ in range(12):
        sims[1].step()
    assert np.array_equal(sims[0].save().history, sims[1].save().history)


def test_returned_arrays_cannot_change_the_simulation():
    sim = supple.Simulation(pendulum(), 1e-3)
    for values in (sim.coordinates["hinge"], sim.reactions["hinge"]):
        values[...] = 7.0
    for values in (sim.poses.array, sim.velocities):
        with pytest.raises(ValueError, match="read-only"):
            values[...] = 7.0
    sim.step()
    other = supple.Simulation(pendulum(), 1e-3)
    other.step()
    assert np.array_equal(sim.save().history, other.save().history)


# extremes


def test_soft_joints_beside_stiff_ones():
    eq = supple.equilibrium(chain([1e8, 1e-3]), {"link1": [0, 0, 0, 0, 1e-4, 0]})
    assert eq.coordinates["hinge1"][0] == pytest.approx(0.1, rel=1e-6)


def test_soft_joints_beside_stiff_ones_are_stable():
    assert supple.equilibrium(chain([1e8, 1e-3])).stable


def test_soft_joints_beside_stiff_ones_with_a_motor():
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


@pytest.mark.filterwarnings("ignore::supple.ImportWarning")
@pytest.mark.parametrize("method", ["euler", "bdf2"])
@pytest.mark.parametrize("name", ["ladder", "gripper"])
def test_loops_a_kilometre_from_the_origin(name, method, request):
    """Positions there are rounded to 1e-13 m."""
    away = spatial.translation([800.0, -500.0, 350.0])
    if name == "gripper":
        mech = supple.load(request.getfixturevalue("robots") / "robotiq_2f85/2f85.xml")
    else:
        mech = supple.library.ladder(gravity=(0, 0, -9.81))
    near, far = (supple.Simulation(each, 2e-3, method) for each in (mech, mech.placed(away)))
    for sim in (near, far):
        if name == "gripper":
            sim.set_control("fingers_actuator", 255)
        else:
            sim.apply("tip", [5, 50, 3, 0.1, 0.2, 0.3])
        sim.step(300)
    assert np.abs(near.poses.array - mech.poses.array).max() > 0.03
    np.testing.assert_allclose(far.poses.array, away @ near.poses.array, rtol=0, atol=5e-9)
    np.testing.assert_allclose(flat(far.coordinates), flat(near.coordinates), rtol=0, atol=5e-9)
    np.testing.assert_allclose(2e-3 * far.velocities, 2e-3 * near.velocities, rtol=0, atol=5e-9)
    assert far.gap < 1e-11


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


@pytest.mark.parametrize("level", ["engine", "reduced", "world"])
def test_a_long_run_is_interrupted(level):
    """Ctrl-C (here a timer) takes effect between steps; the state is that after a complete step."""

    def press(*_):
        if sim.time > 0:
            raise KeyboardInterrupt

    mech = pendulum(stiffness=10.0)
    full = supple.Simulation(mech, 1e-3)
    sim, n = full, 10**8  # more than any machine makes before the timer is heard
    if level == "reduced":
        sim = supple.ReducedSimulation(supple.reduce(mech, ["end"]), 1e-3)
    if level == "world":
        sim = supple.World()
        sim.add(full)
    before = signal.signal(signal.SIGALRM, press)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)
        with pytest.raises(KeyboardInterrupt):
            sim.step(n)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    reached = sim.time
    assert 0 < reached < n * 1e-3
    sim.step(2)
    assert sim.time == pytest.approx(reached + 2e-3)


def test_a_straight_strut_is_named_as_a_singular_pose():
    sim = supple.Simulation(strut(gravity=(2.0, 0, -9.81)), 2e-3)
    text = "singular pose.*the loop at joint 'pin' does not resist the motion of 'foot', 'knee'.*a little off this pose"
    with pytest.raises(supple.ConvergenceError, match=text):
        sim.step(100)
    bent = supple.Simulation(strut(1e-3, gravity=(2.0, 0, -9.81)), 2e-3)
    bent.step(100)
    assert np.abs(bent.q).max() < 1e-9


def parallelogram(angle: float) -> Mechanism:
    """Two cranks of equal length, at an angle (rad) to the ground link; all links are in line at 0 and pi."""
    b = supple.Builder("parallelogram", gravity=STILL)
    start, along = 0.3 * np.array([np.cos(angle), 0, np.sin(angle)]), np.array([1.0, 0, 0])
    b.link("crank", (0, 0, 0), start, mass=1.0, radius=0.02)
    b.link("coupler", start, start + along, mass=1.0, radius=0.02)
    b.link("rocker", along, start + along, mass=1.0, radius=0.02)
    b.hinge("a", "world", "crank", at=(0, 0, 0), axis="y")
    b.hinge("b", "crank", "coupler", at=start, axis="y")
    b.hinge("d", "world", "rocker", at=along, axis="y")
    b.hinge("c", "coupler", "rocker", at=start + along, axis="y")
    return b.build()


@pytest.mark.parametrize("angle", [np.pi / 2, 0.0])
def test_inertia_carries_a_parallelogram_through_its_change_points(angle):
    """Where all links are in line, the cranks could also turn against each other. They do not: inertia keeps them
    parallel, at constant speed, also if the motion starts there."""
    sim = supple.Simulation(parallelogram(angle), 1e-3, "bdf2", rates=[8.0, -8.0, 8.0])
    before = sim.energy.total
    sim.step(2000)
    assert sim.q["a"] == pytest.approx(16.0, rel=1e-3)
    assert sim.q["d"] == pytest.approx(sim.q["a"], abs=1e-9)
    assert sim.energy.total == pytest.approx(before, rel=1e-3)


def test_any_number_of_steps_can_be_interrupted():
    """The positions of motors are not computed for all steps in advance."""
    calls = 0

    def turn(time: float) -> float:
        nonlocal calls
        calls += 1
        if calls > 2000:
            raise KeyboardInterrupt
        return 0.1 * time

    sim = supple.Simulation(driven(), 1e-3, motors={"drive": turn})
    with pytest.raises(KeyboardInterrupt):
        sim.step(10**12)
    assert sim.time > 0.5


def test_a_simulation_alive_in_a_thread_at_exit_prints_nothing():
    """The threads of a page are in this situation after Ctrl-C; nanobind would list every function as leaked."""
    program = """
import threading, time, supple
sim = supple.Simulation(supple.library.ladder(rungs=1), 1e-3)
threading.Thread(target=lambda held: time.sleep(600), args=(sim,), daemon=True).start()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr == ""


@pytest.mark.parametrize("seed", range(30))
def test_large_loads_do_not_create_energy(seed):
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


def test_the_predictor_learns_how_its_error_decays():
    """An arm springs into a new pose. Two Newton iterations a step suffice; extrapolated rates alone need 2.7."""
    sim = supple.Simulation(supple.library.robot_arm(4, stiffness=20.0, damping=2.0), 0.01)
    sim.apply("tip", [0, 60, 30, 0, 0, 0])
    sim.step(5)
    before = sim._core.iterations
    sim.step(50)
    assert sim._core.iterations - before <= 115
