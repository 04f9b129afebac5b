"""A gripper inserts a peg into a hole."""

from __future__ import annotations

import numpy as np

from supple import spatial
from supple.mechanism import Builder, Mechanism, Shape
from supple.world.scenes._scene import Scene, motion, smooth
from supple.world.world import World

RADIUS, HALF = 0.010, 0.035
"""m, radius and half length of the peg."""
CLEARANCE = 0.0005
"""m, gap between peg and hole on each side."""
DEPTH = 0.05
"""m, depth of the hole."""
START = 0.012
"""m, initial height of the peg's end above the hole."""


def robot(stiffness: float = 400.0, damping: float = 4.0) -> Mechanism:
    """An arm of six links on a lift, with a two-finger gripper that holds a peg: a loop through palm, fingers and peg.
    Every hinge is sprung (N m/rad, N m s/rad)."""
    b = Builder("inserter", gravity=(0.0, 0, 0))
    spring = {"stiffness": stiffness, "damping": damping}
    top = DEPTH + START + 2 * (RADIUS + HALF)  # of the peg
    palm = np.array([0.0, 0, top + 0.05])
    b.body("carriage", spatial.translation([-0.45, 0, palm[2]]), 2.0, inertia=(0.01, 0.01, 0.01),
           shapes=[Shape("box", np.array([0.03, 0.03, 0.04]), np.eye(4))])  # fmt: skip
    b.slide("lift", "world", "carriage", (-0.45, 0, palm[2]), "z", stiffness=2e4, damping=600.0)
    x = np.linspace(-0.42, 0.0, 7)
    bow = palm[2] + 0.10 * np.sin(np.pi * (x + 0.42) / 0.42)
    parent = "carriage"
    for i in range(6):
        start, end = np.array([x[i], 0, bow[i]]), np.array([x[i + 1], 0, bow[i + 1]])
        name = f"link_{i + 1}" if i < 5 else "palm"
        b.link(name, start, end, 0.3, 0.012)
        b.hinge(f"hinge_{i + 1}", parent, name, start, "yz"[i % 2], **spring)
        parent = name
    for side, name in ((-1.0, "left"), (1.0, "right")):
        root, knuckle = palm + [0, 0.03 * side, 0], palm + [0, 0.03 * side, -0.025]
        pad = np.array([0.0, RADIUS * side, top - 0.015])
        b.link(f"{name}_finger", root, knuckle, 0.05, 0.006)
        b.link(f"{name}_pad", knuckle, pad, 0.05, 0.006)
        b.hinge(f"{name}_root", "palm", f"{name}_finger", root, "x", stiffness=60.0, damping=0.6)
        b.hinge(f"{name}_knuckle", f"{name}_finger", f"{name}_pad", knuckle, "x", stiffness=60.0, damping=0.6)
    middle = np.array([0.0, 0, top - RADIUS - HALF])
    rod = Shape("capsule", (RADIUS, HALF), np.eye(4), friction=(0.2, 0, 0))  # type: ignore[arg-type]
    b.body("peg", spatial.translation(middle), 0.15, inertia=(1e-4, 1e-4, 1e-5), shapes=[rod])
    for side, name in ((-1.0, "left"), (1.0, "right")):
        pad = np.array([0.0, RADIUS * side, top - 0.015])
        b.hinge(f"{name}_grip", f"{name}_pad", "peg", pad, "x", stiffness=5.0, damping=0.05)
    return b.build()


def walls(offset: tuple[float, float]) -> tuple[Shape, ...]:
    """A square hole in a block, made of four boxes; `offset`, m, is from the peg's axis to its centre."""
    inner, thick = RADIUS + CLEARANCE, 0.04
    shapes: list[Shape] = []
    for axis in range(2):
        for sign in (-1.0, 1.0):
            at, half = np.array([*offset, DEPTH / 2]), np.array([thick, thick, DEPTH / 2])
            at[axis] += sign * (inner + thick)
            half[1 - axis] = inner if axis else inner + 2 * thick
            shapes.append(Shape("box", half, spatial.translation(at), name=f"wall_{len(shapes)}", friction=(0.2, 0, 0)))  # type: ignore[arg-type]
    return tuple(shapes)


def peg_in_hole(level: str = "reduced", dt: float = 1e-3, offset: tuple[float, float] = (0.003, 0.002)) -> Scene:
    """A peg is lowered at a distance `offset`, m, from the centre of its hole. Its rounded end and the compliance of
    the arm guide it in. The peg is the only end effector; it does not slide in the gripper."""
    sim = motion(robot(), ["peg"], dt, level)
    world = World()
    world.add(sim)
    hole = walls(offset)
    world.ground(*hole)

    def lower(time: float) -> dict[str, float]:
        return {"lift": -(START + 0.8 * DEPTH) * smooth(time / 2.0)}

    return Scene("peg in hole", world, sim, hole, lower)
