"""Time steps of the engine agree with one step written in NumPy (`tests/step_twin.py`)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import engine_reference as reference
import mechanisms
import supple
from step_twin import BDF2, EULER, Handle, StepTwin

DT = 2e-3
WRENCH = np.array([1, -2, 1.5, 0.1, 0.2, -0.1])


def difference(
    mech: supple.Mechanism,
    method: str,
    steps: int = 5,
    act: Callable[[supple.Simulation, StepTwin], None] = lambda sim, twin: None,
) -> float:
    """Largest difference of a pose's entries after some steps under a load, and what else acts on both."""
    body = mech.bodies[-1].name
    sim, twin = supple.Simulation(mech, DT, method), StepTwin(mech, DT, method, {body: WRENCH})
    sim.apply(body, WRENCH)
    act(sim, twin)
    sim.step(steps)
    twin.step(steps)
    assert not np.allclose(sim.poses.array, supple.kinematics(mech).poses.array, rtol=0, atol=1e-7), "it has not moved"
    return float(np.abs(twin.now.poses - sim.poses.array).max())


def act_in_all_ways(sim: supple.Simulation, twin: StepTwin) -> None:
    """A load in body axes, a handle, and torques on all coordinates that take one."""
    mech, rng = sim.mechanism, np.random.default_rng(7)
    body = mech.bodies[0].name
    sim.apply(body, 2 * WRENCH, "body")
    twin.body_wrenches = {body: 2 * WRENCH}
    point, target = rng.normal(size=(2, 3))
    name = mech.bodies[len(mech.bodies) // 2].name
    sim.pull(name, target, 30.0, 2.0, at=point)
    twin.handles = {name: Handle(point, target, 30.0, 2.0)}
    driven = {motor.coordinate for motor in mech.motors}
    for j, joint in enumerate(mech.joints):
        if 3 in joint.blocks and j in mech.topology.loops:
            continue
        for axis in joint.axes:
            if axis not in driven:
                twin.torques[axis] = float(rng.normal())
    sim.set_torque(twin.torques)


@pytest.mark.parametrize("method", ["euler", "bdf2"])
@pytest.mark.parametrize("kind", [k for k in mechanisms.KINDS if k != "fixed"])
def test_every_kind_of_joint(kind, method):
    mech = reference.unlimited(mechanisms.random_mechanism(np.random.default_rng(1), 4, kinds=(kind,)))
    assert difference(mech, method) < 1e-9
    assert difference(mech, method, act=act_in_all_ways) < 1e-9


@pytest.mark.parametrize("method", ["euler", "bdf2"])
@pytest.mark.parametrize("seed", range(6))
def test_loops_couplings_and_motors(seed, method):
    mech = mechanisms.random_mechanism(
        np.random.default_rng(seed),
        3 + seed % 5,
        loops=seed % 3,
        free_base=seed % 4 == 1,
        couplings=seed % 3,
        motors=seed % 2,
    )
    mech = reference.unlimited(mech)
    assert difference(mech, method) < 1e-9
    assert difference(mech, method, act=act_in_all_ways) < 1e-9


def test_a_handle_on_a_body_that_a_fixed_joint_holds():
    b = supple.Builder("tool")
    b.link("rod", (0, 0, 0), (1, 0, 0), mass=1.0)
    b.body("tool", supple.spatial.translation(np.array([1.0, 0.1, 0.2])), 2.0, inertia=(0.1, 0.2, 0.2))
    b.hinge("hinge", "world", "rod", at=(0, 0, 0), axis="y")
    b.fixed("flange", "rod", "tool")
    mech = b.build()

    def act(sim: supple.Simulation, twin: StepTwin) -> None:
        sim.pull("tool", (0.5, 0, 1), 50.0, 4.0, at=(0.1, 0, 0.1))
        twin.handles = {"tool": Handle(np.array([0.1, 0, 0.1]), np.array([0.5, 0, 1]), 50.0, 4.0)}

    for method in ("euler", "bdf2"):
        assert difference(mech, method, act=act) < 1e-9


@pytest.mark.parametrize("method", ["euler", "bdf2"])
@pytest.mark.parametrize("of", ["coordinate", "coupling"])
def test_limits(method, of):
    """An arm falls onto a limit and is pulled off again. The twin is told which limits are touched, not with what
    torque, nor where."""
    b = supple.Builder("arm", gravity=(0, 0, -9.81))
    for i, name in enumerate(("upper", "lower")):
        b.link(name, (0.3 * i, 0, 0), (0.3 * i + 0.3, 0, 0), mass=1.0)
    limits = {"limits": (-0.05, 3.0)} if of == "coordinate" else {}
    b.hinge("shoulder", "world", "upper", at=(0, 0, 0), axis=(0, -1, 0), **limits)
    b.hinge("elbow", "upper", "lower", at=(0.3, 0, 0), axis=(0, -1, 0), stiffness=5.0, damping=0.02)
    if of == "coupling":
        b.couple("stop", {"shoulder": 1.0, "elbow": 0.5}, limits=(-0.05, 3.0))
    mech = b.build()
    name = "shoulder" if of == "coordinate" else "stop"
    sim, twin = supple.Simulation(mech, DT, method), StepTwin(mech, DT, method, {})
    touched = []
    for k in range(80):
        torque = 20.0 if k > 50 else 0.0
        sim.set_torque("shoulder", torque)
        twin.torques = {"shoulder": torque}
        sim.step()
        reaction = sim.motor_torques.get(name, 0.0)
        twin.active = {name: -1} if reaction else {}
        twin.step()
        assert twin.keeps_limits()
        assert np.abs(twin.now.poses - sim.poses.array).max() < 1e-9
        if reaction:
            assert twin.multipliers[-1] == pytest.approx(-reaction, rel=1e-6)
        touched.append(bool(reaction))
    assert np.count_nonzero(np.diff(touched)) == 2  # met once and left once


@pytest.mark.parametrize("weights", [EULER, BDF2])
@pytest.mark.parametrize("kind", [k for k in mechanisms.KINDS if k != "fixed"])
def test_the_tangent_is_the_derivative_of_the_residual(kind, weights):
    """Of a tree, with everything that may act; the wrenches of loop joints are constant within an iteration."""
    rng = np.random.default_rng(2)
    mech = reference.unlimited(mechanisms.random_mechanism(rng, 5, kinds=(kind, "hinge"), couplings=2))
    twin = StepTwin(mech, DT, "bdf2", {mech.bodies[-1].name: WRENCH})
    act_in_all_ways(supple.Simulation(mech, DT), twin)
    twin.step(5)
    q, m = twin.now.q, rng.normal(size=len(twin.multipliers))
    q = twin._moved(q, rng.uniform(-1e-2, 1e-2, len(q)))
    _, tangent, _ = twin._equations(weights, q, m)
    differences = []
    for unit in 1e-6 * np.eye(len(q)):
        ends = [twin._equations(weights, twin._moved(q, sign * unit), m)[0] for sign in (1, -1)]
        differences.append((ends[0] - ends[1]) / 2e-6)
    largest = np.abs(tangent).max()
    np.testing.assert_allclose(tangent[:, : len(q)], np.array(differences).T, rtol=0, atol=1e-7 * largest)
