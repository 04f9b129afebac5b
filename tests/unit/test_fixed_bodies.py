"""Bodies that are fixed to the world take no part in a time step; motion and reactions are as if they did."""

from __future__ import annotations

import numpy as np
import pytest

import supple
from supple import spatial
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
    np.testing.assert_array_equal(sims[1].velocities[1], np.zeros(6))


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
