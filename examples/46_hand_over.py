"""Two arms hand over a box in one world: the first holds it, the second grips it, the first lets go.

Each arm has a gripper at its flange (`supple.attach`); the second arm stands opposite (`mech.placed`). Run:
python 46_hand_over.py
"""

from dataclasses import replace

import numpy as np

import supple
from supple import spatial
from supple.mechanism import Mechanism, Shape
from supple.world import rigid_object

DT = 2e-3
FORCE = 40.0  # N, of a gripper
AXES = [f"axis{i}" for i in range(6)]
FINGERS = ["g/left", "g/right"]


def make_arm() -> Mechanism:
    """An arm with six axes, each held by a stiff servo."""
    b = supple.Builder("arm")
    points = [(0, 0, 0), (0, 0, 0.3), (0, 0, 0.75), (0.1, 0, 0.75), (0.45, 0, 0.75), (0.55, 0, 0.75), (0.6, 0, 0.75)]
    for i, (axis, mass) in enumerate(zip("zyyxyx", (4.0, 6.0, 2.0, 3.0, 1.0, 0.5), strict=True)):
        b.link(f"link{i}", points[i], points[i + 1], mass, radius=0.04)
        b.hinge(AXES[i], f"link{i - 1}" if i else "world", f"link{i}", points[i], axis)
    b.site("flange", "link5", pose=spatial.translation(points[-1]))
    return b.build().with_springs(2e4, 400.0)  # N m/rad, N m s/rad


def make_gripper() -> Mechanism:
    """Two fingers that slide along y, coupled like those of a real gripper, with one actuator."""
    b = supple.Builder("gripper")
    b.body("palm", mass=0.3, inertia=(1e-3, 1e-3, 1e-3))
    b.fixed("mount", "world", "palm")
    pad = Shape("box", (0.03, 0.01, 0.02), np.eye(4), friction=(1.0, 0.005, 0.0001))
    for name, y in (("left", 0.031), ("right", -0.031)):
        b.body(name, spatial.translation([0.08, y, 0]), 0.1, inertia=(1e-4, 1e-4, 1e-4), shapes=(pad,))
        b.slide(name, "palm", name, at=(0.08, y, 0), axis=(0, -np.sign(y), 0), damping=50.0, limits=(-0.03, 0.03))
    b.couple("symmetric", {"left": 1.0, "right": -1.0}, rigid=True)
    b.actuator("grip", "left", gain=(1, 0, 0), force_range=(-FORCE, FORCE))
    b.site("centre", "palm", pose=spatial.translation([0.08, 0, 0]))
    return b.build()


def move(sim: supple.Simulation, pose: np.ndarray, steps: int) -> None:
    """Moves the servos of an arm to where its gripper has a pose."""
    goal = supple.inverse_kinematics(sim.mechanism, {"g/centre": pose}, sim.q, keep=FINGERS)
    start = sim.q
    for k in range(1, steps + 1):
        sim.set_target({axis: start[axis] + (goal.q[axis] - start[axis]) * k / steps for axis in AXES})
        world.step()


def report(text: str) -> None:
    holders = sorted({c.first.split(":")[0] for c in world.contacts if np.any(c.force)})
    print(f"{text:30s} box at {np.round(world.pose('box')[:3, 3], 3)} m, held by {' and '.join(holders)}")


roll = spatial.pose(spatial.so3_exp(np.array([np.pi / 2, 0, 0])), np.zeros(3))  # the second gripper closes along z
opposite = spatial.pose(spatial.so3_exp(np.array([0, 0, np.pi])), np.array([1.52, 0, 0]))
giver = replace(supple.attach(make_arm(), "flange", make_gripper(), prefix="g/"), name="giver")
taker = supple.attach(make_arm(), "flange", make_gripper(), prefix="g/", pose=roll).placed(opposite)
taker = replace(taker, name="taker").at({"g/left": -0.02, "g/right": -0.02})  # open
meeting = taker.poses["g/centre"]
away = supple.inverse_kinematics(taker, {"g/centre": spatial.translation([0.1, 0, 0]) @ meeting}, keep=FINGERS)
first, second = supple.Simulation(giver, DT), supple.Simulation(taker.at(away.q, relax=True), DT)
world = supple.World(dt=DT)
world.add(first)
world.add(second)
world.add(rigid_object("box", "box", (0.1, 0.02, 0.02), 0.3, at=(0.76, 0, 0.75), friction=1.0))

first.set_control("g/grip", FORCE)
world.step(100)
report("the giver holds the box")
move(second, meeting, 100)
second.set_control("g/grip", FORCE)
world.step(100)
report("the taker grips it")
first.set_control("g/grip", -FORCE)
world.step(100)
report("the giver lets go")
before = world.pose("box")[:3, 3]
move(second, spatial.translation([0.15, 0, 0.1]) @ meeting, 200)
world.step(50)
report("the taker takes it away")
assert np.abs(world.pose("box")[:3, 3] - before - [0.15, 0, 0.1]).max() < 0.01
