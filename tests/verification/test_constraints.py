"""Joints stay closed, and reactions balance the loads."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import engine_reference
import mechanisms
import supple
from small_mechanisms import arm, square
from supple import spatial
from supple.mechanism import Mechanism
from supple.mechanism.kinematics import displacement_across


def violation(mech: Mechanism, poses: supple.mechanism.Poses, coordinates: dict[str, np.ndarray]) -> float:
    """Largest gap of any joint, m or rad, from the reported poses and coordinates alone."""
    gaps = [
        spatial.log(spatial.inverse(j.displacement(coordinates[j.name])) @ displacement_across(poses, j.name))
        for j in mech.joints
    ]
    return float(np.abs(gaps).max())


def imbalance(eq: supple.engine.Equilibrium) -> float:
    """Largest wrench, at a body's origin in its axes, that reactions, loads and weight leave on a body; and the
    same for the torques of springs, rows and reactions on the coordinates."""
    mech = eq.mechanism
    left = np.zeros((len(mech.bodies), 6))
    for b, body in enumerate(mech.bodies):
        turn = eq.poses[b][:3, :3].T
        weight = turn @ (body.mass * mech.gravity)
        left[b] += [*weight, *np.cross(body.centre, weight)]
    for load in eq.loads:
        turn = eq.poses[load.body][:3, :3].T if load.world else np.eye(3)
        force, torque = turn @ load.wrench[:3], turn @ load.wrench[3:]
        left[load.body] += [*force, *(torque + np.cross(load.point, force))]
    torques = {axis: 0.0 for joint in mech.joints for axis in joint.axes}
    for joint in mech.joints:
        wrench = eq.reactions[joint.name]  # on the child, in the joint's frame there
        frame = eq.poses[joint.child] @ joint.pose_child
        for name, sign in ((joint.child, 1.0), (joint.parent, -1.0)):
            if name != "world":
                to_joint = spatial.inverse(frame) @ eq.poses[name]
                left[mech.body_index(name)] += sign * spatial.adjoint(to_joint).T @ wrench
        q = eq.coordinates[joint.name]
        along = np.linalg.solve(joint.increments(q).T, joint.twist_jacobian(q).T @ wrench)
        springs = joint.stiffness * (q - joint.rest)
        springs += [0.0 if c is None else float(c(x)) for c, x in zip(joint.curves, q - joint.rest, strict=True)]
        springs = np.linalg.solve(joint.increments(q).T, springs)
        # what the joint exerts on its child along its axes is what its springs, and rows, exert
        for axis, value in zip(joint.axes, along + springs, strict=True):
            torques[axis] += value
    for c in mech.couplings:
        where = [mech.joint(n) for n in c.coordinates]
        q = [eq.coordinates[j.name][j.axes.index(n)] for j, n in zip(where, c.coordinates, strict=True)]
        pull = -eq.motor_torques.get(c.name, 0.0)
        if not c.rigid:
            stretch = c.coefficients @ q - c.rest
            pull += c.stiffness * stretch + (0.0 if c.curve is None else float(c.curve(stretch)))
        for axis, coefficient in zip(c.coordinates, c.coefficients, strict=True):
            torques[axis] += coefficient * pull
    for name, value in eq.motor_torques.items():
        for motor in mech.motors:
            if motor.name == name:
                torques[motor.coordinate] -= value
        if name in torques and name not in {m.name for m in mech.motors}:
            torques[name] -= value
    return max(np.abs(left).max(), max((abs(t) for t in torques.values()), default=0.0))


# equilibria


@pytest.mark.parametrize("name", ["helix", "ladder", "loop", "robot_arm", "y"])
def test_reactions_balance_in_the_library(name):
    mech = getattr(supple.library, name)(gravity=(0, 0, -9.81))
    tips = [b.name for b in mech.bodies if b.name.endswith("tip")]
    eq = supple.equilibrium(mech, {tip: [10, 40, -50, 1, -2, 3] for tip in tips})
    assert imbalance(eq) < 1e-8
    assert violation(mech, eq.poses, eq.coordinates) < 1e-9


def test_reactions_balance_in_random_mechanisms():
    for seed in range(40):
        rng = np.random.default_rng(seed)
        mech = mechanisms.random_mechanism(rng, 6, loops=seed % 3, couplings=2 * (seed % 2), motors=seed % 2)
        mech = engine_reference.uncoupled(mech, engine_reference.ROTATION_VECTORS)
        mech = engine_reference.unlimited(mech)
        names = [b.name for b in mech.bodies]
        acting = {str(rng.choice(names)): rng.normal(size=6)}
        eq = supple.equilibrium(mech, acting, frame=("world", "body")[seed % 2])
        assert [load.name for load in eq.loads] == list(acting)
        assert imbalance(eq) < 1e-8
        assert violation(mech, eq.poses, eq.coordinates) < 1e-9


def test_a_touched_limit_is_part_of_the_balance():
    touched = 0
    for seed in range(15):
        rng = np.random.default_rng(seed)
        mech = mechanisms.random_mechanism(rng, 4, ("hinge", "slide", "universal"))
        tip = mech.bodies[-1].name
        eq = supple.equilibrium(mech, {tip: [*(40 * rng.normal(size=3)), 0, 0, 0]})
        assert imbalance(eq) < 1e-8
        touched += bool(eq.motor_torques)
    assert touched > 2


def test_a_hanging_weight():
    """By hand: the hinge carries the weight and the moment that no spring takes."""
    b = supple.Builder("bracket")
    b.body("arm", spatial.translation(np.array([0.5, 0, 1.0])), 2.0, centre=(0.3, 0.2, 0))
    b.hinge("pin", "world", "arm", at=(0, 0, 1), axis="y", stiffness=200.0)
    eq = supple.equilibrium(b.build())
    q = eq.q[0]
    weight = 2 * 9.81
    lever = 0.8 * np.cos(q)  # from the pin to the centre of mass, horizontally
    assert 200 * q == pytest.approx(weight * lever, abs=1e-8)
    turn = spatial.so3_exp(np.array([0, q, 0]))
    force = turn.T @ [0, 0, weight]  # upwards, on the arm, in the joint's frame on it
    torque = turn.T @ -np.cross(turn @ [0.8, 0.2, 0], [0, 0, -weight])
    np.testing.assert_allclose(eq.reactions["pin"], [*force, *torque], atol=1e-8)
    assert eq.reactions["pin"][4] == pytest.approx(-200 * q, abs=1e-8)


# dynamics


@pytest.mark.parametrize("method", ["euler", "bdf2"])
@pytest.mark.parametrize("name", ["ladder", "loop"])
def test_joints_stay_closed_at_every_step(name, method):
    mech = getattr(supple.library, name)(gravity=(0, 0, -9.81), damping=0.5)
    sim = supple.Simulation(mech, 2e-3, method)
    sim.apply("tip", [30, 60, 20, 0, 1, 0])
    for k in range(200):
        sim.step()
        assert sim.gap < 1e-9
        if k % 10 == 9:
            assert violation(mech, sim.poses, sim.coordinates) < 1e-9


@pytest.mark.parametrize("method", ["euler", "bdf2"])
def test_loops_and_rotations_do_not_drift_in_100000_steps(method):
    """A four-bar kept in motion by a force that turns with its crank."""
    steps = 100_000
    sim = supple.Simulation(mechanisms.four_bar(stiffness=3.0), 5e-3, method)
    sim.apply("coupler", [4, 0, 2, 0, 0, 0], frame="body")
    moved = []
    for _ in range(100):
        sim.step(steps // 100)
        moved.append(sim.coordinates["a"][0])
        assert violation(sim.mechanism, sim.poses, sim.coordinates) < 1e-9
        pose = sim.poses.array
        turn = np.swapaxes(pose[:, :3, :3], 1, 2) @ pose[:, :3, :3] - np.eye(3)
        assert np.abs(turn).max() < 1e-12
    assert sim.time == pytest.approx(steps * 5e-3, rel=1e-9)
    assert np.ptp(moved) > 1e-3


def test_rotations_stay_rotations_in_a_long_chain():
    mech = supple.library.helix(100, gravity=(0, 0, -9.81))
    sim = supple.Simulation(mech, 2e-3)
    sim.step(300)
    turn = np.swapaxes(sim.poses.array[:, :3, :3], 1, 2) @ sim.poses.array[:, :3, :3] - np.eye(3)
    assert np.abs(turn).max() < 1e-12
    assert violation(mech, sim.poses, sim.coordinates) < 1e-12


def test_limits_that_contradict_a_motor_give_way():
    """The motor turns the parallelogram beyond the limit of its other crank; motor and loop stay exact."""
    mech = square(driven=True, c={"limits": (-1.0, 0.2)})
    sim = supple.Simulation(mech, 1e-2, motors={"drive": lambda t: t})
    sim.step(19)
    tape = sim.tape()
    with pytest.warns(UserWarning, match="limits of 'square' contradict .* 'c' is at 0.3 rad, outside"):
        sim.step(11)
    assert sim.coordinates["a"] == pytest.approx(0.3, abs=1e-12)
    assert sim.coordinates["c"] == pytest.approx(0.3, abs=1e-9)
    assert sim.gap < 1e-9
    with pytest.raises(supple.MechanismError, match="gave way, which derivatives do not take into account"):
        tape.new_sweep()


def test_the_torque_of_limits_that_give_way_balances_the_motor():
    """A spring of 1000 N m/rad beyond the onset of a thousandth, in a mechanism that moves steadily."""
    sim = supple.Simulation(square(driven=True, c={"limits": (-1.0, 0.2)}), 1e-2, motors={"drive": lambda t: t})
    with pytest.warns(UserWarning, match="contradict"):
        sim.step(30)
    assert sim.motor_torques["c"] == pytest.approx(-1000 * (0.1 - 0.0005), rel=1e-9)
    assert sim.motor_torques["drive"] == pytest.approx(1000 * (0.1 - 0.0005), rel=1e-4)


def test_limits_that_contradict_a_motor_give_way_in_a_world():
    sims = []
    for _ in range(2):
        mech = square(driven=True, c={"limits": (-1.0, 0.2)})
        sims.append(supple.Simulation(mech, 1e-2, motors={"drive": lambda t: t}))
    world = supple.World()
    world.add(sims[0])
    with pytest.warns(UserWarning, match="limits of 'square' contradict .* 'c' is at 0.3 rad, outside"):
        world.step(30)
    with pytest.warns(UserWarning, match="contradict"):
        sims[1].step(30)
    assert sims[0].time == pytest.approx(0.3)
    np.testing.assert_allclose(sims[0].poses.array, sims[1].poses.array, atol=1e-6)


def square_beside_arm(method: str) -> tuple[supple.World, supple.Simulation, supple.Simulation]:
    far = np.eye(4)
    far[1, 3] = 30.0
    mech = square(driven=True, c={"limits": (-1.0, 0.2)})
    sims = (
        supple.Simulation(mech, 1e-2, method, motors={"drive": lambda t: t}),
        supple.Simulation(arm().placed(far), 1e-2, method),
    )
    world = supple.World()
    for sim in sims:
        world.add(sim)
    return world, *sims


@pytest.mark.parametrize("method", ["euler", "bdf2"])
def test_limits_that_gave_way_in_a_failed_step_of_a_world_are_restored(method):
    """The steps after it are those of a world in which no step fails, and those from a saved state, to the last bit."""
    scenes = [square_beside_arm(method) for _ in range(3)]
    (world, square_sim, arm_sim), (twin, *_), (copy, *_) = scenes

    def same(first: tuple, second: tuple) -> None:
        assert first[0].time == second[0].time
        for one, other in zip(first[1:], second[1:], strict=True):
            np.testing.assert_array_equal(one.save().history, other.save().history)
            np.testing.assert_array_equal(one.poses.array, other.poses.array)
            np.testing.assert_array_equal(one.velocities, other.velocities)
            assert one.motor_torques == other.motor_torques

    for each in (world, twin):
        each.step(20)
    for limits_give_way in (False, True):
        torques = square_sim.motor_torques
        assert ("c" in torques) == limits_give_way
        arm_sim.apply("upper", [0, 0, 0, 0, 1e13, 0])
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # the step did not count, and neither does its warning
            with pytest.raises(supple.ConvergenceError, match="'arm' has no solution"):
                world.step()
        assert square_sim.motor_torques == torques
        assert world.time == twin.time
        arm_sim.apply("upper", np.zeros(6))
        copy.restore(world.save())
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for each in (world, twin, copy):
                each.step(5)
        assert [w.filename for w in caught if "contradict" in str(w.message)] == [__file__] * 3 * (not limits_give_way)
        for other in scenes[1:]:
            same(scenes[0], other)


@pytest.mark.parametrize("seed", [10, 40, 56, 76, 84, 101, 110, 141])
def test_limits_at_gimbal_lock(seed):
    """A hip and an ankle of hinges with links without mass between them, as in the files of human models. One limit of
    the hip is the pose in which two of its axes are parallel, where limits are met and left in turns."""
    b = supple.Builder("leg", gravity=(0, -9.81, 0))
    for name in ("first", "second", "ankle"):
        b.body(name, np.eye(4))
    b.link("thigh", (0, 0, 0), (0, -0.4, 0), mass=9.0, radius=0.06)
    b.link("shin", (0, -0.4, 0), (0, -0.8, 0), mass=3.6, radius=0.05)
    b.link("foot", (0, -0.8, 0), (0.2, -0.8, 0), mass=0.9, radius=0.03)
    b.hinge("z", "world", "first", at=(0, 0, 0), axis="z", limits=(-0.35, 2.0))
    b.hinge("x", "first", "second", at=(0, 0, 0), axis="x", limits=(-1.047196667, 1.570795))
    b.hinge("y", "second", "thigh", at=(0, 0, 0), axis="y", limits=(-1.570795, 1.047196667))
    b.hinge("knee", "thigh", "shin", at=(0, -0.4, 0), axis="z", limits=(0.0, np.pi))
    b.hinge("ankle z", "shin", "ankle", at=(0, -0.8, 0), axis="z", limits=(-1.570795, 0.785))
    b.hinge("ankle x", "ankle", "foot", at=(0, -0.8, 0), axis=(-1, 0, 0), limits=(-0.52, 0.785))
    rng = np.random.default_rng(seed)
    bounds = np.array([(-0.3, 1.9), (1.2, 1.57), (-1.5, 1.0), (0, 1), (-1, 0.7), (-0.5, 0.7)])
    q = [rng.uniform(*each) for each in bounds]
    sim = supple.Simulation(b.build(), 2e-3, q=q, rates=rng.normal(size=6) * 3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that limits gave way
        for _ in range(6):
            sim.apply("thigh", np.append(rng.normal(size=3) * 200, np.zeros(3)))
            sim.step(40)
    assert np.isfinite(sim.q).all()
    limits = np.concatenate([joint.limits for joint in sim.mechanism.joints])
    assert (limits[:, 0] - 0.05 < sim.q).all()
    assert (sim.q < limits[:, 1] + 0.05).all()
