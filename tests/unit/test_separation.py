"""Separation of joints whose free motion is more than a line or a plane."""

from __future__ import annotations

import numpy as np
import pytest

import supple
from supple import spatial
from supple.reduced.joints import separation


def off_axis(kinds: list[str]) -> supple.Mechanism:
    """A body on a joint with rotations about points off its origin, followed by slides."""
    b = supple.Builder("off axis", gravity=(0, 0, 0))
    b.body("body", mass=1.0, inertia=np.eye(3))
    twists = []
    for i, kind in enumerate(kinds):
        axis = np.eye(3)[i % 3]
        turn = np.concatenate([np.cross([0.3, 0.2, -0.4], axis), axis])
        twists.append(turn if kind == "turn" else np.concatenate([np.roll(axis, 1), np.zeros(3)]))
    b.joint("joint", "world", "body", np.eye(4), twists, stiffness=1.0)
    return b.build()


@pytest.mark.parametrize("kinds", [["turn", "turn"], ["turn", "slide"], ["turn", "slide", "turn"]])
def test_separation_excludes_motion_that_the_joint_allows(kinds):
    mech, rng = off_axis(kinds), np.random.default_rng(0)
    joint = mech.joints[0]
    for size in (0.0, 1e-3, 0.1):
        pose = joint.displacement(rng.uniform(-0.5, 0.5, size=len(kinds))) @ spatial.exp(size * rng.normal(size=6))
        left = np.linalg.norm(joint.coordinates(pose)[1][:3])
        found = separation(mech, pose[None]).joints["joint"]
        assert found == pytest.approx(left, abs=1e-9)
        assert (found > 1e-5) == (size > 0)


def test_separation_starts_from_the_present_coordinates():
    """Two rotations about nearly the same axis, far from the reference: starting at the reference, the search found
    another local minimum."""
    b = supple.Builder("wrist", gravity=(0, 0, 0))
    b.body("hand", np.eye(4), 1.0, inertia=(0.01, 0.01, 0.01))
    twists = [[0, -0.1, 0, 0, 0, 1.0], [1.0, 0, 0, 0, 0, 0], [0, -0.2, 0, 0, 0.6, -0.8]]
    b.joint("wrist", "world", "hand", np.eye(4), twists, stiffness=(10.0, 100.0, 10.0), damping=(1.0, 10.0, 1.0))
    sim = supple.Simulation(b.build(), 1e-2)
    for part in np.linspace(0, 1, 11):
        sim.set_targets({"wrist.0": 0.8 * part, "wrist.1": -0.1 * part, "wrist.2": -2.8 * part})
        sim.step(50)
    assert sim.coordinates["wrist"][2] == pytest.approx(-2.8, abs=0.1)
    assert separation(sim.mechanism, sim.poses.array, np.asarray(sim.q)).total < 1e-9
