"""Rates of coordinates from the twists of bodies."""

import numpy as np
import pytest

import supple
from supple import spatial
from supple.mechanism.joint import twist_jacobian
from supple.mechanism.kinematics import kinematics
from supple.mechanism.rates import JointRates


def tree():
    """A free base with a chain of joints of every kind on it."""
    build = supple.Builder("tree", gravity=(0, 0, 0))
    for i, name in enumerate(["base", "a", "b", "c", "d", "e"]):
        build.body(name, spatial.translation(0.1 * i * np.array([2, 1, 0.5])), 1.0 + i, inertia=(0.01, 0.02, 0.025))
    build.free("root", "world", "base")
    held = {"stiffness": 5.0, "damping": 0.1}
    build.universal("hip", "base", "a", (0.1, 0, 0), ("x", "z"), **held)
    build.ball("knee", "a", "b", (0.3, 0.1, 0), **held)
    build.slide("shin", "b", "c", (0.5, 0.2, 0.1), (1, 2, 3), **held)
    build.hinge("ankle", "c", "d", (0.7, 0.3, 0.1), "y", **held)
    build.universal("toe", "d", "e", (0.9, 0.4, 0.2), ("y", "z"), **held)
    return build.build()


def test_rates_are_those_of_the_joints():
    mech, h = tree(), 1e-6
    q, qd = np.linspace(-0.8, 0.9, mech.dof), np.cos(np.arange(mech.dof))
    before, now, after = (kinematics(mech, q + t * qd).poses.array for t in (-h, 0, h))
    twists = spatial.log(spatial.inverse(before) @ after) / (2 * h)
    np.testing.assert_allclose(JointRates(mech)(q, now, twists), qd, atol=1e-8)


def test_the_closed_forms_of_a_free_joint():
    joint = tree().joint("root")
    q = np.array([0.3, -1.2, 0.7, 0.9, -0.4, 1.1])
    np.testing.assert_allclose(joint.twist_jacobian(q), twist_jacobian(joint.twists, joint.blocks, q), atol=1e-13)
    found, left = joint.coordinates(joint.displacement(q))
    np.testing.assert_allclose(joint.displacement(found), joint.displacement(q), atol=1e-13)
    np.testing.assert_allclose(left, 0, atol=1e-13)


def test_rates_of_a_floating_reduced_model_are_the_derivative_of_its_coordinates():
    sim = supple.ReducedSimulation(supple.reduce(tree(), ["e"]), 1e-4)
    sim.apply("e", [3, -2, 1, 0.2, 0.3, -0.1])
    sim.step(200)
    before = np.asarray(sim.q)
    sim.step()
    change = (np.asarray(sim.q) - before) / sim.dt
    np.testing.assert_allclose(change, sim.qd, atol=1e-3 * np.abs(change).max())
    sim.coordinates["ankle"][:] = 7.0  # a copy
    assert sim.q == pytest.approx(before + sim.dt * change, abs=1e-12)
