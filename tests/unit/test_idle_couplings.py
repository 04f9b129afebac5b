"""Limits on sums of coordinates take part in a step only while they act; that must not show."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import supple

UPPER = 0.4


def pendulums() -> supple.Mechanism:
    """Two pendulums whose angles differ by `UPPER` at most; a third one swings freely."""
    b = supple.Builder("pendulums")
    for i in range(3):
        b.link(f"rod{i}", (i, 0, 0), (i, 0, -1.0 - 0.5 * i), mass=1.0)
        b.hinge(f"j{i}", "world", f"rod{i}", at=(i, 0, 0), axis="y")
    b.couple("sum", {"j0": 1.0, "j1": -1.0}, limits=(-UPPER, UPPER))
    return b.build()


@pytest.mark.parametrize("method", ["euler", "bdf2"])
def test_a_limit_is_respected_whenever_it_is_met(method: str) -> None:
    sim = supple.Simulation(pendulums(), 1e-3, method, rates=[0.7, -0.7, 1.0])
    met, pauses, touching = 0, [0], False
    for k in range(6000):
        sim.set_torque("j0", 8.0 if k // 1000 % 2 else -8.0)
        sim.step()
        apart = abs(sim.q[0] - sim.q[1])
        assert apart < UPPER + 1e-9
        was, touching = touching, apart > UPPER - 1e-9
        met += touching and not was
        pauses[-1] += not touching
        if touching and not was:
            pauses.append(0)
    assert met >= 2
    assert max(pauses[1:]) > 200  # it lost its columns in between


def test_a_restored_simulation_repeats_to_the_last_bit() -> None:
    sim = supple.Simulation(pendulums(), 1e-3, rates=[0.7, -0.7, 1.0])
    states = []
    for _ in range(12):
        states.append(sim.save())
        sim.step(250)
    last = np.array(sim.q)
    for k in (0, 3, 7, 11):
        sim.restore(states[k])
        sim.step(250 * (12 - k))
        np.testing.assert_array_equal(sim.q, last)


def test_a_tendon_that_only_a_motor_pulls(tmp_path: Path) -> None:
    """Its constant force needs no column: J^T f as with torques on the joints."""
    rod = '<joint name="{0}" axis="0 1 0"/><geom size=".1" pos="0 0 -1" mass="1"/>'
    body = '<body name="{0}" pos="{1} 0 0">' + rod + "</body>"
    text = (
        f"<mujoco><worldbody>{body.format('p', 0)}{body.format('q', 1)}</worldbody>"
        '<tendon><fixed name="t">'
        '<joint joint="p" coef="2"/><joint joint="q" coef="-1"/></fixed></tendon>'
        '<actuator><motor name="m" tendon="t" gear="3"/></actuator></mujoco>'
    )
    path = tmp_path / "model.xml"
    path.write_text(text)
    mech = supple.load(path)
    pulled, turned = supple.Simulation(mech, 1e-3), supple.Simulation(mech, 1e-3)
    pulled.set_control("m", 0.5)
    turned.set_torque({"p": 3.0, "q": -1.5})
    pulled.step(300)
    turned.step(300)
    assert abs(pulled.q[0]) > 0.05
    np.testing.assert_allclose(pulled.q, turned.q, atol=1e-12)
