"""Two firefighters with a trampoline that catches a falling body."""

from __future__ import annotations

import numpy as np

from supple import spatial
from supple.mechanism import Builder, Mechanism, Shape
from supple.world.objects import moments, rigid_object
from supple.world.scenes._scene import Scene, motion
from supple.world.world import World

SHEET = (0.7, 0.6, 0.02)
"""m, half lengths of the trampoline."""
HIGH = 1.05
"""m, height of the hands."""


def robot(stiffness: float = 900.0, damping: float = 60.0) -> Mechanism:
    """Two people of nine links each, feet on the ground, hands on the sheet: ankles, knees, hips, shoulders and elbows
    are hinges with springs (N m/rad, N m s/rad), wrists are ball joints without; legs and arms form loops."""
    b = Builder("firefighters", gravity=(0.0, 0, 0))
    sheet = Shape("box", SHEET, np.eye(4), friction=(0.6, 0, 0))  # type: ignore[arg-type]
    b.body(
        "sheet", spatial.translation([0.0, 0, HIGH]), 8.0, inertia=8.0 * moments("box", np.array(SHEET)), shapes=[sheet]
    )
    spring = {"stiffness": stiffness, "damping": damping}
    for side, who in ((-1.0, "left"), (1.0, "right")):
        stand = side * (SHEET[0] + 0.42)
        hips = np.array([stand + 0.05 * side, 0, 0.92])
        neck = np.array([stand - 0.08 * side, 0, 1.42])
        torso = f"{who}_torso"
        b.link(torso, hips, neck, 35.0, 0.12)
        for sign, limb in ((-1.0, "a"), (1.0, "b")):
            foot, knee = np.array([stand, 0.12 * sign, 0.04]), np.array([stand - 0.12 * side, 0.12 * sign, 0.48])
            hip = hips + [0, 0.10 * sign, 0]
            shin, thigh = f"{who}_shin_{limb}", f"{who}_thigh_{limb}"
            b.link(shin, foot, knee, 4.0, 0.05)
            b.link(thigh, knee, hip, 7.0, 0.06)
            b.hinge(f"{who}_ankle_{limb}", "world", shin, foot, "y", **spring)
            b.hinge(f"{who}_knee_{limb}", shin, thigh, knee, "y", **spring)
            b.hinge(f"{who}_hip_{limb}", thigh, torso, hip, "y", **spring)
        for sign, limb in ((-1.0, "a"), (1.0, "b")):
            shoulder = neck + [0, 0.20 * sign, -0.08]
            elbow = np.array([stand - 0.10 * side, 0.28 * sign, 1.08])
            wrist = np.array([side * SHEET[0], 0.30 * sign, HIGH])
            upper, lower = f"{who}_upper_{limb}", f"{who}_lower_{limb}"
            b.link(upper, shoulder, elbow, 2.2, 0.04)
            b.link(lower, elbow, wrist, 1.6, 0.035)
            b.universal(f"{who}_shoulder_{limb}", torso, upper, shoulder, ("y", "x"), **spring)
            b.hinge(f"{who}_elbow_{limb}", upper, lower, elbow, "y", **spring)
            b.ball(f"{who}_wrist_{limb}", lower, "sheet", wrist)
    return b.build()


def trampoline(level: str = "reduced", dt: float = 1e-3, drop: float = 0.8, mass: float = 12.0) -> Scene:
    """A ball of `mass` kg falls by `drop` m onto the sheet, the only end effector of the reduced model of both
    people."""
    sim = motion(robot(), ["sheet"], dt, level)
    world = World()
    world.add(sim)
    world.ground(Shape("plane", (0, 0, 1), np.eye(4), name="floor"))  # type: ignore[arg-type]
    radius = 0.15
    start = (0.08, 0.05, HIGH + SHEET[2] + radius + drop)
    world.add(rigid_object("body", "sphere", (radius,), mass, start, friction=0.6))
    return Scene("firefighters with a trampoline", world, sim)
