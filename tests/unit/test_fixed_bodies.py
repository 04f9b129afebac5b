"""Bodies that fixed joints connect: to the world they take no part in a time step, to each other they move as one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import supple
from supple import spatial
from supple.engine import Tape, adjoint
from supple.mechanism import Shape
from supple.world import rigid_object

SENSORS = 11


def arm(pedestal: bool, loop: bool = False) -> supple.Mechanism:
    """Two arms of two rods on the world or on a pedestal with sensors; `loop` ties the tip of one to the world."""
    b = supple.Builder("arms", gravity=(0, 1.0, -9.81))
    base = "world"
    if pedestal:
        base = "head"
        b.body("pedestal", mass=3.0, inertia=(0.1, 0.1, 0.1))
        b.fixed("bolts", "world", "pedestal")
        top = Shape("box", (0.2, 0.05, 0.1), np.eye(4))
        b.body("head", spatial.translation((0, 0, 1.0)), mass=1.0, inertia=(0.1, 0.1, 0.1), shapes=[top])
        b.fixed("neck", "pedestal", "head")
        for i in range(SENSORS):
            b.body(f"sensor{i}", spatial.translation((0.1 * i, 0, 1.1)), mass=0.1, inertia=(0.01, 0.01, 0.01))
            b.fixed(f"screw{i}", "head" if i % 2 else "pedestal", f"sensor{i}")
    for side in (-1, 1):
        b.link(f"upper{side}", (0, 0.2 * side, 1), (0.5, 0.2 * side, 1), mass=1.0)
        b.hinge(f"shoulder{side}", base, f"upper{side}", at=(0, 0.2 * side, 1), axis=(0, 1, 0.2), damping=0.1)
        b.link(f"lower{side}", (0.5, 0.2 * side, 1), (1, 0.2 * side, 1), mass=0.7)
        b.hinge(f"elbow{side}", f"upper{side}", f"lower{side}", at=(0.5, 0.2 * side, 1), axis="x", damping=0.1)
    if loop:
        b.link("rod", (1, 0.2, 1), (1, 0.2, 2), mass=0.3)
        b.ball("tip", "lower1", "rod", at=(1, 0.2, 1))
        b.ball("anchor", base, "rod", at=(1, 0.2, 2))
    return b.build()


@pytest.mark.parametrize("loop", [False, True])
@pytest.mark.parametrize("method", ["euler", "bdf2"])
def test_the_motion_is_that_of_the_moving_bodies_alone(method: str, loop: bool) -> None:
    sims = [supple.Simulation(arm(pedestal, loop), 2e-3, method) for pedestal in (False, True)]
    for sim in sims:
        sim.apply("lower-1", [0, 3.0, 1.0, 0, 0.1, 0])
        sim.step(200)
    alone, mounted = ({name: sim.coordinates[name] for name in ("shoulder1", "elbow1", "elbow-1")} for sim in sims)
    assert abs(alone["elbow-1"][0]) > 0.02
    for name, value in alone.items():
        np.testing.assert_allclose(mounted[name], value, atol=1e-9)
    assert sims[1].gap < 1e-9
    np.testing.assert_array_equal(sims[1].poses["sensor3"], sims[1].mechanism.poses["sensor3"])
    np.testing.assert_allclose(sims[1].velocities[1], np.zeros(6), atol=1e-13)


def test_the_bolts_carry_everything() -> None:
    """Force of the bolts = rate of the momentum - weight - load, for the whole mechanism."""
    mech = arm(pedestal=True)
    sim = supple.Simulation(mech, 1e-3)
    load = np.array([0.0, 2.0, 0.0])
    sim.apply("sensor4", [*load, 0, 0, 0])
    sim.step(99)
    before = sim.momentum[:3]
    sim.step()
    rate = (sim.momentum[:3] - before) / 1e-3
    weight = sum(body.mass for body in mech.bodies) * np.array([0, 1.0, -9.81])
    np.testing.assert_allclose(sim.reactions["bolts"][:3], rate - weight - load, atol=1e-6)
    own = 0.1 * np.array([0, 1.0, -9.81])
    np.testing.assert_allclose(sim.reactions["screw5"][:3], -own, atol=1e-9)


def test_a_ball_rests_on_a_fixed_body_while_the_arms_swing() -> None:
    world = supple.World(dt=1e-3)
    world.add(supple.Simulation(arm(pedestal=True), 1e-3))
    world.add(rigid_object("ball", "sphere", (0.05,), 0.2, (0, 0, 1.16)))
    world.step(300)
    free = supple.Simulation(arm(pedestal=True), 1e-3)
    free.step(300)
    assert world.poses["ball"][2, 3] == pytest.approx(1.15, abs=2e-3)
    np.testing.assert_allclose(world.mechanisms["arms"].q, free.q, atol=1e-3)


def hand(merged: bool) -> supple.Mechanism:
    """A swinging arm whose last link carries a bracket, a camera on it and a finger; `merged`: as one body."""
    b = supple.Builder("hand", gravity=(0, 0, -9.81))
    b.link("upper", (0, 0, 1), (0.5, 0, 1), mass=1.0)
    b.hinge("shoulder", "world", "upper", at=(0, 0, 1), axis=(0, 1, 0.2), damping=0.1, stiffness=2.0)
    turned = spatial.pose(spatial.so3_exp(np.array([0.3, -0.2, 0.5])), (0.6, 0.05, 1.1))
    parts = {
        "lower": (spatial.translation((0.5, 0, 1)), 0.7, (0.2, 0.0, 0.0), (0.002, 0.02, 0.02)),
        "bracket": (turned, 0.3, (0.0, 0.1, 0.02), (0.004, 0.003, 0.005)),
        "camera": (turned @ spatial.translation((0.1, 0.1, 0.2)), 0.2, (0.01, 0.0, 0.0), (0.001, 0.002, 0.002)),
    }
    if merged:
        mass = sum(m for _, m, _, _ in parts.values())
        centres = {name: (pose @ [*centre, 1])[:3] for name, (pose, _, centre, _) in parts.items()}
        centre = sum(parts[name][1] * at for name, at in centres.items()) / mass
        inertia = np.zeros((3, 3))
        for name, (pose, m, _, own) in parts.items():
            d = spatial.skew(centres[name] - centre)
            inertia += pose[:3, :3] @ np.diag(own) @ pose[:3, :3].T - m * d @ d
        pose = parts["lower"][0]
        b.body("lower", pose, mass=mass, centre=centre - pose[:3, 3], inertia=inertia)
    else:
        for name, (pose, m, centre, own) in parts.items():
            b.body(name, pose, mass=m, centre=centre, inertia=own)
        b.fixed("screws", "lower", "bracket")
        b.fixed("clip", "camera", "bracket")  # described from the outer body to the inner one
    b.ball("elbow", "upper", "lower", at=(0.5, 0, 1), damping=0.05)
    b.link("finger", (0.7, 0.1, 1.2), (0.9, 0.1, 1.2), mass=0.1)
    b.hinge("knuckle", "lower" if merged else "bracket", "finger", at=(0.7, 0.1, 1.2), axis="y", damping=0.01)
    return b.build()


def moving(merged: bool, method: str, dt: float = 2e-3) -> supple.Simulation:
    sim = supple.Simulation(hand(merged), dt, method)
    sim.apply("finger", [0.2, 0.5, 0.1, 0, 0.02, 0])
    return sim


@pytest.mark.parametrize("method", ["euler", "bdf2"])
def test_bodies_that_fixed_joints_connect_move_like_one_body(method: str) -> None:
    one, several = (moving(merged, method) for merged in (True, False))
    for sim in (one, several):
        sim.step(300)
    for name, value in one.coordinates.items():
        np.testing.assert_allclose(several.coordinates[name], value, atol=1e-11)
    np.testing.assert_allclose(several.momentum, one.momentum, atol=1e-11)
    assert several.energy.kinetic == pytest.approx(one.energy.kinetic, rel=1e-11)
    mech = several.mechanism
    rest = spatial.inverse(mech.poses["lower"]) @ mech.poses["camera"]
    np.testing.assert_allclose(spatial.inverse(several.poses["lower"]) @ several.poses["camera"], rest, atol=1e-14)
    seen = spatial.adjoint(spatial.inverse(rest)) @ several.velocities[mech.body_index("lower")]
    np.testing.assert_allclose(several.velocities[mech.body_index("camera")], seen, atol=1e-12)


@pytest.mark.parametrize("method", ["euler", "bdf2"])
@pytest.mark.parametrize("solver", ["passes", "sparse"])
def test_reactions_of_fixed_joints_move_the_bodies_beyond_them(solver: str, method: str) -> None:
    """Force = mass times acceleration of the centre, torque = rate of the angular momentum, less weight and load."""
    sim, h = moving(False, method, dt=1e-4), 1e-4
    sim._core.use_passes(solver == "passes")
    load = np.array([0.3, -0.2, 0.1])
    sim.apply("camera", [*load, 0, 0, 0])
    camera, index = sim.mechanism.bodies[3], 3
    assert camera.name == "camera"
    momenta = []
    for _ in range(3):
        sim.step(2000 if not momenta else 1)
        rotation, twist = sim.poses["camera"][:3, :3], sim.velocities[index]
        linear = camera.mass * rotation @ (twist[:3] + np.cross(twist[3:], camera.centre))
        momenta.append(np.concatenate([linear, rotation @ camera.inertia @ twist[3:]]))
        if len(momenta) == 2:
            reaction, pose = sim.reactions["clip"], sim.poses["camera"]
            frame = sim.poses["bracket"] @ sim.mechanism.joint("clip").pose_child  # on the joint's child, the bracket
    rate = (momenta[2] - momenta[0]) / (2 * h)
    wrench = -frame[:3, :3] @ reaction[:3], -frame[:3, :3] @ reaction[3:]  # on the camera, its parent
    force = rate[:3] - camera.mass * sim.mechanism.gravity - load
    np.testing.assert_allclose(wrench[0], force, atol=2e-3 * np.abs(force).max())
    centre = (pose @ [*camera.centre, 1])[:3]
    about_centre = wrench[1] + np.cross(frame[:3, 3] - centre, wrench[0]) + np.cross(pose[:3, 3] - centre, load)
    np.testing.assert_allclose(about_centre, rate[3:], atol=2e-3 * np.abs(wrench[1]).max())


def test_reactions_of_both_solvers_agree() -> None:
    sims = [moving(False, "bdf2") for _ in range(2)]
    sims[1]._core.use_passes(False)
    for sim in sims:
        sim.pull("camera", sim.poses["camera"][:3, 3] + [0.1, 0.0, 0.1])
        sim.step(100)
    for name, reaction in sims[0].reactions.items():
        np.testing.assert_allclose(sims[1].reactions[name], reaction, atol=1e-7, err_msg=name)


def test_at_rest_fixed_joints_carry_the_weight_beyond_them() -> None:
    mech = hand(False)
    springs = [(30.0 * np.ones(len(j.axes)), 2.0 * np.ones(len(j.axes))) for j in mech.joints]
    joints = (replace(j, stiffness=k, damping=d) for j, (k, d) in zip(mech.joints, springs, strict=True))
    mech = replace(mech, joints=tuple(joints))
    eq = supple.equilibrium(mech)
    weight = mech.body("camera").mass * mech.gravity
    frame = eq.poses["bracket"] @ mech.joint("clip").pose_child
    np.testing.assert_allclose(frame[:3, :3] @ eq.reactions["clip"][:3], weight, atol=1e-9)
    sim = supple.Simulation(mech, 0.1)
    sim.step(3000)
    for name, reaction in eq.reactions.items():
        np.testing.assert_allclose(sim.reactions[name], reaction, atol=1e-5, err_msg=name)


def test_a_ball_lands_on_a_body_of_a_group() -> None:
    """A contact on the plate that a fixed joint holds to a lift acts on the lift, and the joint transmits it."""
    b = supple.Builder("lift", gravity=(0, 0, -9.81))
    b.body("carriage", mass=2.0, inertia=(0.1, 0.1, 0.1))
    b.slide("rail", "world", "carriage", at=(0, 0, 0), axis="z", stiffness=500.0, damping=60.0)
    plate = Shape("box", (0.2, 0.2, 0.02), np.eye(4))
    b.body("plate", spatial.translation((0.3, 0, 0.1)), mass=0.5, inertia=(0.01, 0.01, 0.01), shapes=[plate])
    b.fixed("bolts", "carriage", "plate")
    world = supple.World(dt=1e-3)
    world.add(supple.Simulation(b.build(), 1e-3))
    world.add(rigid_object("ball", "sphere", (0.05,), 0.4, (0.3, 0, 0.2)))
    world.step(3000)
    sim = world.mechanisms["lift"]
    assert float(sim.q[0]) == pytest.approx(-2.9 * 9.81 / 500, abs=1e-4)
    np.testing.assert_allclose(sim.reactions["bolts"][:3], [0, 0, 0.9 * 9.81], atol=1e-2)


def test_inverse_dynamics_of_bodies_that_fixed_joints_connect() -> None:
    one, several = hand(True), hand(False)
    rng = np.random.default_rng(0)
    state = [rng.normal(size=one.dof) for _ in range(3)]
    order = [several.coordinates.index(name) for name in one.coordinates]
    shuffled = [np.array([value[one.coordinates.index(name)] for name in several.coordinates]) for value in state]
    torques = supple.inverse_dynamics(several, *shuffled)
    np.testing.assert_allclose(np.asarray(torques)[order], supple.inverse_dynamics(one, *state), rtol=1e-12)


@pytest.mark.parametrize("passes", [True, False])
def test_gradients_of_bodies_in_groups(passes: bool) -> None:
    """Of a pose of a carried body, with respect to masses, payloads and loads of the bodies of the group."""

    def run(mass: float = 0.0, payload: float = 0.0, force: float = 0.0) -> Tape:
        mech = hand(False)
        bodies = [replace(body, mass=body.mass + mass) if body.name == "camera" else body for body in mech.bodies]
        mech = replace(mech, bodies=tuple(bodies)).with_payload("bracket", 0.1 + payload)
        sim = supple.Simulation(mech, 2e-3, "bdf2")
        sim._core.use_passes(passes)
        sim.apply("camera", [0.2 + force, 0.5, 0.1, 0, 0.02, 0])
        with sim.tape() as tape:
            sim.step(60)
        return tape

    tape, b = run(), 3
    weights = np.zeros((61, 5, 6))
    weights[-1, b] = [0.3, -0.2, 0.5, 0.1, 0.4, -0.3]
    gradient = adjoint.gradient(tape, poses=weights)
    pose = spatial.inverse(tape.poses[-1, b])

    def value(other: Tape) -> float:
        return float(weights[-1, b] @ spatial.log(pose @ other.poses[-1, b]))

    size = 2e-4
    found = {
        "mass": gradient.mass["camera"],
        "payload": gradient.payload("bracket"),
        "force": float(gradient.load("camera", "world")[:, 0].sum()),
    }
    for name, by in found.items():
        difference = (value(run(**{name: size})) - value(run(**{name: -size}))) / (2 * size)
        assert by == pytest.approx(difference, rel=1e-6), name


def test_forward_derivatives_with_a_handle_on_a_body_of_a_group() -> None:
    """The damper of the handle depends on the centre of mass of the whole group."""
    sim = supple.Simulation(hand(False), 2e-3)
    sim.pull("camera", (0.5, 0, 1.5), 50.0, 20.0, at=(0.1, 0, 0.1))
    tape = sim.tape()
    sim.step(50)
    weights = np.zeros((51, sim.mechanism.dof))
    weights[-1] = 1.0
    for name in ("camera", "lower"):
        backward = adjoint.gradient(tape, coordinates=weights).mass[name]
        forward = adjoint.tangent(tape, mass={name: [1.0]}).coordinates[0, -1].sum()
        assert forward == pytest.approx(backward, rel=1e-9)


def test_masses_and_payloads_of_one_body_in_any_order() -> None:
    mech = hand(False)
    for values in ({"camera.mass": 0.5, "camera.payload": 0.2}, {"camera.payload": 0.2, "camera.mass": 0.5}):
        assert mech.with_parameters(values).body("camera").mass == pytest.approx(0.7)
