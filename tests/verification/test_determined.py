"""Condensed models without an interior, whose end effectors determine all coordinates: the engine's time steps."""

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import supple
from condensed_reference import LIBRARY, apart, robot, wrenches_reaching
from mechanisms import random_mechanism
from small_mechanisms import driven
from supple.mechanism import Shape

TIPS = ["tip_0", "tip_1", "thumb"]


def hand(shapes=False):
    """A wrist and three fingers of hinges; straight at the reference pose, which is singular."""
    b = supple.Builder("hand", gravity=(0, 0, -9.81))
    b.link("palm", (0, 0, 0.5), (0.1, 0, 0.5), mass=0.3)
    b.hinge("wrist", "world", "palm", (0, 0, 0.5), "y", stiffness=5.0, damping=0.1)
    ball = [Shape("sphere", (0.015,), np.eye(4))] if shapes else []
    for f, tip in enumerate(TIPS):
        before, y = "palm", 0.03 * (f - 1)
        for i, axis in enumerate("zyyy"):
            x = 0.1 + 0.04 * max(i - 1, 0)
            name = tip if i == 3 else f"finger_{f}_{i}"
            at = supple.spatial.pose(np.eye(3), (x, y, 0.5))
            b.body(name, at, mass=0.02, centre=(0.02, 0, 0), inertia=(1e-6, 3e-6, 3e-6), shapes=ball if i == 3 else ())
            limits = (-0.3, 0.3) if i == 0 else (-0.1, 1.5)
            b.hinge(f"{name}_joint", before, name, (x, y, 0.5), axis, stiffness=0.3, damping=0.005, limits=limits)
            before = name
    return b.build()


def test_which_mechanisms_have_an_interior():
    interior = {name: supple.condense(mech, tips).has_interior for name, (mech, tips) in LIBRARY.items()}
    assert all(interior.values())
    assert not supple.condense(hand(), TIPS).has_interior
    assert supple.condense(hand(), TIPS[:2]).has_interior  # nothing tells where the third finger is
    assert not supple.condense(driven(), "lower").has_interior
    mech = supple.library.robot_arm()
    assert not supple.condense(mech, [body.name for body in mech.bodies]).has_interior


def planar_chain(links, limits):
    """Hinges with parallel axes; a limit is touched at the reference pose."""
    b = supple.Builder("chain", gravity=(0, 0, -9.81))
    for i in range(links):
        b.link(f"link_{i}", (0.1 * i, 0, 0), (0.1 * i + 0.1, 0, 0), mass=0.1)
        parent = f"link_{i - 1}" if i else "world"
        b.hinge(f"hinge_{i}", parent, f"link_{i}", (0.1 * i, 0, 0), "y", stiffness=1.0, damping=0.05, limits=limits)
    return b.build()


@pytest.mark.parametrize("limits", [(-np.inf, np.inf), (-1.0, 0.0)])
@pytest.mark.parametrize("links", [1, 3, 4])
def test_three_parallel_hinges_are_determined_and_four_are_not(links, limits):
    """Also at a straight reference pose, where the Jacobian has rank two, and on limits, which leave no motion."""
    assert supple.condense(planar_chain(links, limits), f"link_{links - 1}").has_interior == (links > 3)


def compare(model, dt, method, steps, size, seed=0):
    """Random wrenches and set-points on the condensed model and on the engine; the largest difference of poses."""
    mech, rng, worst = model.mechanism, np.random.default_rng(seed), 0.0
    sims = supple.ReducedSimulation(model, dt), supple.Simulation(mech, dt, method, at=model.rest)
    for _ in range(steps // 5):
        for tip in model.end_effectors:
            wrench = size * rng.normal(size=6) * ([1.0] * 3 + [0.1] * 3)
            frame = str(rng.choice(["world", "body"]))
            for sim in sims:
                sim.apply(tip, wrench, frame)
        point = rng.normal(size=3)
        for sim in sims:
            sim.pull(model.end_effectors[0], point, stiffness=0.1 * size, damping=0.01, at=(0.01, 0, 0.01))
            sim.step(5)
        worst = max(worst, apart(*(sim.poses.array for sim in sims), mech.radius))
    return worst, sims


@pytest.mark.parametrize("method", ["euler", "bdf2"])
def test_a_hand_moves_as_in_the_engine(method):
    """Through its stretched pose and onto its limits."""
    model = supple.condense(hand(), TIPS, method=method)
    worst, (sim, full) = compare(model, 2e-3, method, 400, 0.3)
    assert worst < 1e-12
    q = np.array([full.q[name] for name in full.mechanism.coordinates])
    assert np.abs(q).max() > 0.1
    assert np.allclose(sim.velocities, full.velocities, rtol=0, atol=1e-9)
    for each in (sim, full):
        each.set_target("tip_0_joint", 0.5)
        each.step(50)
    assert apart(sim.poses.array, full.poses.array, 1.0) < 1e-12


@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 10_000), loops=st.integers(0, 1), bodies=st.integers(1, 4))
def test_random_mechanisms_move_as_in_the_engine(seed, loops, bodies):
    mech = random_mechanism(np.random.default_rng(seed), bodies, loops=loops)
    try:
        model = supple.condense(mech, [f"body{i}" for i in range(bodies)])
    except (supple.MechanismError, supple.ConvergenceError):
        assume(False)
    assume(not model.has_interior)
    try:
        worst, _ = compare(model, 1e-3, "euler", 20, 0.1, seed)
    except supple.ConvergenceError:
        assume(False)  # the engine has no solution either, for instance with a limit beyond its range
    assert worst < 1e-10


def test_the_linear_model_is_at_the_present_pose():
    model = supple.condense(hand(), TIPS)
    sim = supple.ReducedSimulation(model, 2e-3)
    sim.set_targets({f"{tip}_joint": 0.5 for tip in TIPS})
    for tip in TIPS:
        sim.apply(tip, [0.05, 0.02, -0.1, 0, 0, 0])
    sim.step(100)
    here = sim.linear()
    assert apart(here.rest_poses.array, sim.poses.array, 1.0) < 1e-9
    held = model.under(dict(zip(TIPS, here.wrenches.reshape(-1, 6), strict=True)), frame="body", start=None)
    assert held.equilibrium.residual < 1e-6


def test_restored_states_go_on_to_the_same_bits():
    sim = supple.ReducedSimulation(supple.condense(hand(), TIPS, method="bdf2"), 2e-3)
    sim.apply("thumb", [0.1, 0.2, -0.1, 0, 0, 0])
    sim.pull("tip_0", (0.2, 0, 0.6), stiffness=5.0, damping=0.1)
    sim.step(20)
    saved = sim.save()
    sim.step(30)
    once = sim.poses.array.copy()
    sim.pull("tip_0", None)
    sim.step(10)
    sim.restore(saved)
    assert sim.time == pytest.approx(0.04)
    sim.step(30)
    assert np.array_equal(sim.poses.array, once)


def test_a_hand_on_the_ground_moves_as_in_the_engine():
    """Only the finger tips have shapes, so that the engine has the same contacts."""
    model = supple.condense(hand(shapes=True), TIPS)
    sims = supple.ReducedSimulation(model, 2e-3), supple.Simulation(model.mechanism, 2e-3, at=model.rest)
    for sim in sims:
        world = supple.World()
        world.ground(Shape("plane", (0, 0, 1), supple.spatial.pose(np.eye(3), (0, 0, 0.4))))
        world.add(sim)
        sim.set_target("wrist", 1.0)
        world.step(300)
        assert world.contacts
        assert sim.time == pytest.approx(0.6)
    assert apart(sims[0].poses.array, sims[1].poses.array, 1.0) < 1e-9


def test_limits_that_contradict_each_other_give_way(robots):
    """The gripper has three degrees of freedom and limits of eight hinges; steps with exact limits have no solution."""
    mech, tips = robot(robots, "robotiq")
    model = supple.condense(mech, tips)
    assert not model.has_interior
    sims = supple.ReducedSimulation(model, 1e-2), supple.Simulation(mech, 1e-2, at=model.rest)
    linear = model.linear()

    def jerk(sim):
        rng = np.random.default_rng(1)
        for _ in range(5):
            for tip, wrench in wrenches_reaching(linear, rng, rng.uniform(0, 0.7), times=10).items():
                sim.apply(tip, wrench)
            sim.step(20)

    limits = np.concatenate([joint.limits for joint in mech.joints if joint.kind == "hinge"])
    jerk(sims[0])
    assert sims[0].separation.total < 1e-8
    with pytest.warns(UserWarning, match="contradict each other"):
        jerk(sims[1])
    assert sims[1].gap < 1e-9
    for sim in sims:
        q = np.concatenate([sim.coordinates[joint.name] for joint in mech.joints if joint.kind == "hinge"])
        assert (q > limits[:, 0] - 0.1).all()
        assert (q < limits[:, 1] + 0.1).all()
