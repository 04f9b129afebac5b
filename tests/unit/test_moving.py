"""What moves, whatever simulates it, has the members of `Moving`; a world is all its parts as one."""

from functools import cache

import numpy as np
import pytest

import supple
from small_mechanisms import square
from supple.engine import FullSimulation
from supple.mechanism.moving import Moving, can_join_world, check_moving
from supple.viewer.adaptive import AdaptiveMotion
from supple.world import rigid_object

MEMBERS = [name for name in vars(Moving) if not name.startswith("_")]
ARM = supple.library.robot_arm(5)


@cache
def linear_model():
    return supple.reduce(ARM, ["tip"])


def arm_world():
    world = supple.World(dt=2e-3)
    world.add(supple.Simulation(ARM, 2e-3), "left")
    world.add(supple.ReducedSimulation(linear_model(), 2e-3), "right")
    world.add(rigid_object("ball", "sphere", (0.1,), 1.0, (5, 0, 3)), velocity=(1, 0, 0, 0.3, 0.2, 0.5))
    world.exclude("left", "right")
    world.ground(supple.mechanism.Shape("plane", (0, 0, 1), np.eye(4)))
    return world


MAKERS = {
    "engine": lambda: supple.Simulation(ARM, 2e-3),
    "linear": lambda: supple.ReducedSimulation(linear_model(), 2e-3),
    "blended": lambda: supple.ReducedSimulation(supple.blend([linear_model()]), 2e-3),
    "adaptive": lambda: AdaptiveMotion(ARM),
    "nodes": lambda: FullSimulation(ARM, 2e-3),
    "world": arm_world,
}


@pytest.fixture(params=MAKERS, scope="module")
def sim(request):
    made = MAKERS[request.param]()
    assert made.kind == request.param
    return made


def tip_of(sim):
    return next(name for name in sim.end_effectors if name.endswith("tip"))


def test_all_members_are_there(sim):
    for name in MEMBERS:
        assert hasattr(sim, name), name
    check_moving(sim)
    mech = sim.mechanism
    assert sim.poses.array.shape == (len(mech.bodies), 4, 4)
    assert sim.velocities.shape == (len(mech.bodies), 6)
    assert sim.q.shape == sim.qd.shape == (mech.dof,)
    assert np.isfinite([sim.energy.total, sim.handle_stiffness(tip_of(sim))]).all()
    assert can_join_world(sim) == (sim.kind not in ("adaptive", "nodes", "world"))
    has_model = sim.kind in ("linear", "blended", "world")
    assert bool(sim.ellipsoids) == has_model


def test_a_restored_state_repeats(sim):
    tip = tip_of(sim)
    sim.pull(tip, sim.poses[tip][:3, 3] + [0, 0.05, 0])
    sim.step(5)
    saved = sim.save()
    sim.step(5)
    first = sim.poses.array.copy()
    sim.restore(saved)
    sim.step(5)
    assert (sim.poses.array == first).all()
    sim.reset()
    assert sim.time == 0


def test_set_points_are_read_and_set(sim):
    name = next(iter(sim.targets))
    sim.set_targets({name: 0.2})
    assert sim.targets[name] == 0.2
    with pytest.raises(supple.MechanismError, match="finite"):
        sim.set_targets({name: np.nan})
    assert sim.targets[name] == 0.2
    sim.reset()
    assert sim.targets[name] != 0.2


def test_joints_are_placed_where_that_is_possible(sim):
    name = sim.mechanism.coordinates[0]
    if name not in sim.placeable:
        with pytest.raises(supple.MechanismError, match="cannot be placed"):
            sim.set_q({name: 0.3})
        return
    sim.step(3)
    time = sim.time
    sim.set_q({name: 0.3})
    assert sim.q[name] == pytest.approx(0.3)
    assert not sim.velocities[0].any()
    assert sim.time == time
    sim.reset()


@pytest.mark.parametrize("kind", ["linear", "blended"])
def test_ellipsoids_are_those_of_the_model_at_the_present_pose(kind):
    sim = MAKERS[kind]()
    start = linear_model().ellipsoid_at("tip")
    np.testing.assert_allclose(sim.ellipsoids["tip"].semi_axes, start.semi_axes, rtol=1e-6)
    sim.pull("tip", sim.poses["tip"][:3, 3] + [0, 0.05, 0.1])
    sim.step(200)
    found = sim.ellipsoids["tip"]
    np.testing.assert_allclose(found.centre, sim.end_effector_pose("tip")[:3, 3])
    turn = sim.end_effector_pose("tip")[:3, :3] @ linear_model().end_effector_poses[0][:3, :3].T
    np.testing.assert_allclose(found.semi_axes, start.semi_axes, rtol=1e-5)
    assert abs(found.directions[:, 0] @ turn @ start.directions[:, 0]) == pytest.approx(1.0, abs=1e-6)


def test_a_loop_is_closed_around_a_placed_joint():
    mech = square()
    sim = supple.Simulation(mech, 1e-3)
    name = mech.coordinates[0]
    sim.set_q({name: sim.q[name] + 0.3})
    assert sim.q[name] == pytest.approx(mech.reference[0] + 0.3)
    assert sim.gap < 1e-9


def test_a_world_is_all_its_parts_as_one():
    world = arm_world()
    world.step(10)
    left, right = world.mechanisms.values()
    assert (world.poses["left:tip"] == left.poses["tip"]).all()
    assert (world.poses["right:tip"] == right.poses["tip"]).all()
    assert (world.poses["ball"] == world.pose("ball")).all()
    assert (world.velocities["ball"] == world.velocity("ball")).all()
    assert world.q["left:" + ARM.coordinates[0]] == left.q[0]
    before, rates = world.q, world.qd
    world.step(1)
    np.testing.assert_allclose((world.q - before)[-6:] / world.dt, rates[-6:], atol=0.05)  # of the ball
    assert supple.kinematics(world.mechanism, world.q).poses["ball"] == pytest.approx(world.pose("ball"), abs=1e-9)
    alone = supple.World()
    alone.add(rigid_object("ball", "sphere", (0.1,), 1.0, (5, 0, 3)), velocity=(1, 0, 0, 0.3, 0.2, 0.5))
    assert alone.energy.total == pytest.approx(alone._core.energy)


def test_names_of_a_world():
    world = arm_world()
    world.apply("left:tip", [1, 0, 0, 0, 0, 0])
    world.apply("right:tip", [1, 0, 0, 0, 0, 0])
    axis = ARM.coordinates[0]
    world.set_targets({f"left:{axis}": 0.1, f"right:{axis}": 0.2})
    assert world.targets[f"left:{axis}"] == 0.1
    assert world.mechanisms["right"].targets[axis] == 0.2
    world.set_torque(f"left:{axis}", 1.0)
    assert world.mechanisms["left"].torques[0] == 1.0
    with pytest.raises(supple.MechanismError, match="did you mean"):
        world.set_targets({axis: 0.1})
    with pytest.raises(supple.MechanismError, match="given as"):
        world.set_targets(np.zeros(3))
    with pytest.raises(supple.MechanismError, match="empty"):
        _ = supple.World().mechanism
    with pytest.raises(supple.MechanismError, match="a Simulation, a ReducedSimulation or a World, got 3"):
        check_moving(3)
