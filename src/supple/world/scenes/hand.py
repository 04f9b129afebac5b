"""A humanoid hand that grasps an object from above and lifts it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from supple import spatial
from supple.mechanism import Builder, Mechanism, Shape
from supple.mechanism.record import Array
from supple.reduced import ReducedSimulation
from supple.world.objects import moments, rigid_object
from supple.world.scenes._scene import Scene, motion, smooth
from supple.world.world import World

FINGERS = ("thumb", "index", "middle", "ring", "little")
BONES = ("proximal", "middle", "distal")
LENGTHS = (0.040, 0.030, 0.025)
"""m, lengths of a finger's bones."""
LEAN = (-0.17, 0.26, 0.61)
"""rad, inward angle of a finger's bones from the vertical in the reference pose."""
TIP = 0.008
"""m, radius of a fingertip."""
BLOCK = (0.025, 0.042, 0.045)
"""m, half lengths of the object."""
GAP = 0.0005
"""m, between fingertips and object at the start."""


WRIST = np.array([8000.0] * 3 + [80.0] * 3), np.array([160.0] * 3 + [0.8] * 3)
"""Stiffness (6,) and damping (6,) of the springs that hold the palm, along and about its axes."""


def robot(
    friction: float | None = 0.8, stiffness: float = 4.0, damping: float = 0.03, carried: bool = False
) -> Mechanism:
    """A palm, four fingers and an opposing thumb: each finger spreads and bends at four sprung hinges (N m/rad,
    N m s/rad); the thumb's are four times as stiff. The palm is free, or `carried`: held by springs to the
    world. The hand has no weight: its controller is assumed to compensate gravity. Without `friction` the fingertips
    touch nothing."""
    b = Builder("hand", gravity=(0.0, 0, 0))
    drop = sum(length * np.cos(lean) for length, lean in zip(LENGTHS, LEAN, strict=True))
    inwards = sum(length * np.sin(lean) for length, lean in zip(LENGTHS, LEAN, strict=True))
    high, out = BLOCK[2] + drop, BLOCK[0] + TIP + GAP + inwards
    seen = {"contact_type": 0, "contact_affinity": 0}
    palm = Shape("box", (out + 0.008, 0.045, 0.012), np.eye(4), **seen)  # type: ignore[arg-type]
    b.body(
        "palm", spatial.translation([0.0, 0, high + 0.012]), 0.4, inertia=0.4 * moments("box", palm.size), shapes=[palm]
    )
    if carried:
        b.bushing("wrist", "world", "palm", (0.0, 0, high + 0.012), stiffness=WRIST[0], damping=WRIST[1])
    else:
        b.free("wrist", "world", "palm")
    for i, finger in enumerate(FINGERS):
        side, y = (-1.0, 0.0) if finger == "thumb" else (1.0, 0.022 * (i - 2.5))
        scale = 4.0 if finger == "thumb" else 1.0
        spring = {"stiffness": scale * stiffness, "damping": scale * damping}
        at, parent = np.array([side * out, y, high]), "palm"
        for bone, length, lean in zip(BONES, LENGTHS, LEAN, strict=True):
            end = at + length * np.array([-side * np.sin(lean), 0, -np.cos(lean)])
            name = f"{finger}_{bone}"
            last = bone == "distal"
            _bone(b, name, at, end, 0.02, last, friction)
            axis = np.array([0.0, side, 0])
            if bone == "proximal":
                twists = [[0, 0, 0, side, 0, 0], [0, 0, 0, *axis]]
                b.joint(f"{finger}_base", parent, name, spatial.translation(at), twists, (1, 1), **spring)
            else:
                b.hinge(f"{finger}_{bone}_bend", parent, name, at, axis, **spring)
            parent, at = name, end
        b.site(f"{finger}_tip", parent, at)
    return b.build()


def _bone(b: Builder, name: str, start: Array, end: Array, mass: float, last: bool, friction: float | None) -> None:
    length, radius = float(np.linalg.norm(end - start)), 0.007
    middle = spatial.translation([0.0, 0, length / 2])
    seen = {"contact_type": 0, "contact_affinity": 0}
    shapes = [Shape("capsule", (radius, length / 2 - radius / 2), middle, **seen)]  # type: ignore[arg-type]
    if last:
        touch = seen if friction is None else {"friction": (friction, 0, 0)}
        shapes.append(Shape("sphere", (TIP,), spatial.translation([0.0, 0, length]), **touch))  # type: ignore[arg-type]
    turn = spatial.rotation_between([0.0, 0, 1], (end - start) / length)
    across = mass * (3 * radius**2 + length**2) / 12
    b.body(name, spatial.pose(turn, start), mass, (0, 0, length / 2), (across, across, mass * radius**2 / 2), shapes)


def grasp(squeeze: float = 0.05) -> Callable[[float], dict[str, float]]:
    """A controller that closes the fingers within 0.3 s."""

    def steer(time: float) -> dict[str, float]:
        close, targets = squeeze * smooth(time / 0.3), {}
        for finger in FINGERS:
            targets[f"{finger}_base.1"] = close
            targets |= {f"{finger}_{bone}_bend": close for bone in BONES[1:]}
        return targets

    return steer


def hand(
    level: str = "reduced", dt: float = 1e-3, friction: float = 0.8, mass: float = 0.2, lift: float = 0.08
) -> Scene:
    """A hand grasps a block of `mass` kg on the floor and lifts it by `lift` m, from 0.5 s to 1.3 s, by friction alone.
    It is reduced to its five fingertips and its moving palm, or simulated in full (`level="full"`)."""
    sim = motion(robot(friction, carried=level == "full"), [f"{finger}_tip" for finger in FINGERS], dt, level)
    world = World()
    world.add(sim)
    floor = Shape("plane", (0, 0, 1), np.eye(4), name="floor", friction=(0.5, 0, 0))  # type: ignore[arg-type]
    world.ground(floor)
    # the friction of a pair is the larger coefficient: the block's is zero
    world.add(rigid_object("block", "box", BLOCK, mass, (0, 0, BLOCK[2]), friction=0.0))
    fingers, home = grasp(), sim.mechanism.poses["palm"]

    def steer(time: float) -> dict[str, float]:
        up = lift * smooth((time - 0.5) / 0.8)
        if isinstance(sim, ReducedSimulation):
            sim.mount(spatial.translation([0.0, 0, up]) @ home, *WRIST)
            return fingers(time)
        return fingers(time) | {"wrist.2": up}

    return Scene("a hand that grasps and lifts", world, sim, (floor,), steer)
