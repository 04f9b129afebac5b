"""Which shapes of a world may touch: excluded pairs, bodies welded to the world, contact of a mechanism with itself."""

from dataclasses import replace

import numpy as np
import pytest

import supple
from supple.mechanism import Shape
from supple.spatial import translation
from supple.world import rigid_object

BALL = Shape("sphere", (0.05,), np.eye(4))


def fingers(**changes):
    """Two fingers on a palm that springs press together, with balls as tips 0.1 m from each other at the start."""
    b = supple.Builder("fingers", gravity=(0, 0, 0))
    box = Shape("box", (0.2, 0.2, 0.05), np.eye(4))
    b.body("base", translation([0, 0, -0.02]), 1.0, inertia=(0.01,) * 3, shapes=(box,))
    b.fixed("bolts", "world", "base")
    b.body("palm", translation([0, 0, 0.1]), 1.0, inertia=(0.01,) * 3, shapes=(BALL,))
    b.hinge("wrist", "base", "palm", at=(0, 0, 0.1), axis="z", stiffness=50.0, damping=1.0)
    for name, side in (("left", -1), ("right", 1)):
        b.body(name, translation([0.1 * side, 0, 0.4]), 0.1, inertia=(1e-3,) * 3, shapes=(BALL,))
        at = (0.1 * side, 0, 0.1)
        b.hinge(f"{name} knuckle", "palm", name, at=at, axis="y", stiffness=2.0, damping=0.05, rest=-0.6 * side)
    return replace(b.build(), **changes)


def gap(world):
    poses = world.mechanisms["fingers"].poses
    return poses["right"][0, 3] - poses["left"][0, 3]


def test_fingers_stop_each_other():
    for self_contact, expected in ((True, 0.1), (False, None)):
        world = supple.World(dt=2e-3)
        world.add(supple.Simulation(fingers(), 2e-3), self_contact=self_contact)
        world.step(500)
        if expected is None:
            assert gap(world) < -0.05  # they have passed through each other
            assert not world.contacts
        else:
            assert gap(world) == pytest.approx(expected, abs=1e-3)
            (contact,) = world.contacts
            assert {contact.first, contact.second} == {"fingers:left", "fingers:right"}
            turn = world.mechanisms["fingers"].q["left knuckle"]
            lever = 0.3 * np.cos(turn)  # the torque of the spring over it
            assert abs(contact.force[0]) == pytest.approx(2.0 * (0.6 - turn) / lever, rel=1e-3)


def test_excluded_and_connected_bodies_do_not_touch():
    world = supple.World(dt=2e-3)
    world.add(supple.Simulation(fingers(contact_excludes=[("left", "right")]), 2e-3), self_contact=True)
    world.step(500)
    assert gap(world) < -0.05
    world = supple.World(dt=2e-3)
    world.add(supple.Simulation(fingers(), 2e-3), self_contact=True)
    world.exclude("fingers:left", "fingers:right")
    world.step(500)
    assert gap(world) < -0.05


def test_shapes_of_a_mechanism_that_overlap_at_the_start_are_left_out():
    mech = fingers()
    large = replace(mech.body("left"), shapes=(Shape("sphere", (0.2,), np.eye(4)),))
    mech = replace(mech, bodies=[large if b.name == "left" else b for b in mech.bodies])
    world = supple.World(dt=2e-3)
    world.add(supple.Simulation(mech, 2e-3), self_contact=True)
    with pytest.warns(supple.RangeWarning, match="fingers:left and fingers:right"):
        world.step()
    world.step(100)
    assert not world.contacts


def test_welded_bodies_do_not_touch_the_ground():
    world = supple.World(dt=2e-3)
    world.ground(Shape("plane", (0, 0, 1), np.eye(4), name="floor"))  # the base reaches 7 cm below it
    world.add(supple.Simulation(fingers(), 2e-3))
    world.add(supple.Simulation(fingers(name="other"), 2e-3))  # at the same place: both bases are fixed
    world.exclude("fingers", "other")
    world.step(5)
    assert not world.contacts
    world.add(rigid_object("ball", "sphere", (0.02,), mass=0.1, at=(0.15, 0.15, 0.06)))
    world.step(200)
    assert world.pose("ball")[2, 3] == pytest.approx(0.05, abs=1e-3)  # it lies on the base


def test_exclude_by_name():
    world = supple.World(dt=2e-3)
    world.ground(Shape("plane", (0, 0, 1), np.eye(4), name="floor"))
    world.add(rigid_object("crate", "box", (0.1, 0.1, 0.1), mass=1.0, at=(0, 0, 0.1)))
    with pytest.raises(supple.MechanismError, match="did you mean 'floor'"):
        world.exclude("crate", "flor")
    world.exclude("crate", "floor")
    world.step(100)
    assert world.pose("crate")[2, 3] < 0
    world.exclude("crate", "crate")  # harmless
    with pytest.raises(supple.MechanismError, match="self_contact is for mechanisms"):
        world.add(rigid_object("ball", "sphere", (0.02,), mass=0.1), self_contact=True)
