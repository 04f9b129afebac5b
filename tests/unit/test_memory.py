"""Time steps do not gain memory: 100 bytes a step would be 10 MB."""

from __future__ import annotations

import resource
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import supple
from supple import spatial
from supple.mechanism import Shape
from supple.world import rigid_object

SIZES = Path("/proc/self/statm")
pytestmark = pytest.mark.skipif(not SIZES.exists(), reason="Linux alone tells the resident size of a process")
METHODS = pytest.mark.parametrize("method", ["euler", "bdf2"])


def megabytes_gained(run: Callable[[], None]) -> float:
    """By how much the process is larger after a second run than after the first."""
    pages = []
    for _ in range(2):
        run()
        pages.append(int(SIZES.read_text().split()[1]))
    return (pages[1] - pages[0]) * resource.getpagesize() / 1e6


@METHODS
def test_steps_of_the_engine(method):
    sim = supple.Simulation(supple.library.loop(), 2e-3, method)

    def run() -> None:
        for k in range(1000):
            sim.apply("tip", [60 * np.cos(k), 60 * np.sin(k), 20, 0, 0, 0])
            sim.step(100)

    assert megabytes_gained(run) < 1.0


@METHODS
def test_steps_of_a_world(method):
    """A hammer strikes a box on the floor and is lifted again."""
    b = supple.Builder("hammer")
    b.link("handle", (0, 0, 0.3), (0.5, 0, 0.3), mass=0.5)
    b.hinge("wrist", "world", "handle", at=(0, 0, 0.3), axis="y", stiffness=20.0, damping=0.1)
    b.body("head", spatial.translation([0.5, 0, 0.3]), 0.3, shapes=[Shape("sphere", (0.05,), np.eye(4))])
    b.fixed("wedge", "handle", "head")
    sim, world = supple.Simulation(b.build(), 1e-3, method), supple.World()
    world.add(sim)
    world.ground(Shape("plane", (0, 0, 1), np.eye(4)))
    world.add(rigid_object("box", "box", (0.2, 0.2, 0.1), 5.0, (0.5, 0, 0.1)))
    touched = []

    def run() -> None:
        for k in range(1000):
            sim.set_target("wrist", 0.5 if k % 2 else -0.2)
            world.step(100)
            touched.append(any("head" in c.first + c.second for c in world.contacts))

    assert megabytes_gained(run) < 1.0
    assert 0.1 < np.mean(touched) < 0.9
