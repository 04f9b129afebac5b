"""The figure of 80 cm that drums and boxes: two rods as legs, thirteen servos above them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from supple import spatial
from supple.mechanism.builder import Builder
from supple.mechanism.library.characters._parts import (
    DARK,
    ROD_MODES,
    SERVO_MASS,
    SERVO_SIZE,
    WHITE,
    check_buckling,
    check_sizes,
    rod_pose,
    steel_rod,
)
from supple.mechanism.mechanism import Mechanism
from supple.mechanism.record import Array
from supple.mechanism.shapes import Kind, Shape

if TYPE_CHECKING:
    from supple.elastic import Part

STANCE, SHOULDERS = 0.10, 0.20
"""Distances of the legs and of the shoulders, m."""
UPPER_ARM, FOREARM = 0.13, 0.10
"""From the shoulder to the elbow, and of the rod below the elbow, m."""
STUB, GRIP = 0.015, 0.03
"""From the elbow to the rod, and from the rod to the middle of the hand, m."""
FREQUENCY = 1.2
"""Of the slowest vibration, fore and aft, Hz."""
SHELLS = {"hips": 0.04, "pelvis": 0.03, "spine": 0.02, "torso": 0.18, "neck": 0.01, "head": 0.14}
"""kg, of what is not a servo."""
SKIN = np.array([0.86, 0.70, 0.56, 1.0])


@dataclass(frozen=True, eq=False)
class Look:
    """Colours (4,)."""

    shirt: Array
    trousers: Array
    band: Array


def coloured_shape(
    kind: Kind, size: Sequence[float], colour: Array, at: ArrayLike = (0.0, 0.0, 0.0), axis: str = "z"
) -> Shape:
    """A shape that is only drawn, with its middle at a point of the body's frame and its own z along an axis of it."""
    direction = np.eye(3)["xyz".index(axis)]
    pose = spatial.pose(spatial.rotation_between(np.array([0.0, 0.0, 1.0]), direction), np.asarray(at, dtype=float))
    return Shape(kind, size=np.array(size), pose=pose, rgba=colour, contact_type=0, contact_affinity=0)


def limb(start: ArrayLike, end: ArrayLike, radius: float, colour: Array) -> Shape:
    """A capsule between two points of the body's frame that is only drawn."""
    a, b = np.asarray(start, dtype=float), np.asarray(end, dtype=float)
    length = float(np.linalg.norm(b - a))
    size = np.array([radius, length / 2])
    pose = spatial.pose(spatial.rotation_between(np.array([0.0, 0.0, 1.0]), (b - a) / length), (a + b) / 2)
    return Shape("capsule", size=size, pose=pose, rgba=colour, contact_type=0, contact_affinity=0)


def add_figure_body(build: Builder, name: str, at: ArrayLike, mass: float, size: ArrayLike, *shapes: Shape) -> None:
    """Adds a body with the inertia of a homogeneous box of `size` (3,), m, about a point, drawn as shapes."""
    edges = np.asarray(size, dtype=float)
    inertia = mass / 12 * ((edges**2).sum() - edges**2)
    build.body(name, spatial.translation(np.asarray(at, dtype=float)), mass, inertia=tuple(inertia), shapes=shapes)


def figure(
    name: str,
    leg: float,
    leg_diameter: float,
    sections: int,
    rods: tuple[Part, Part] | None,
    look: Look,
    add_hand: Callable[[Builder, str, Array], None],
) -> Mechanism:
    """The figure; `add_hand(build, body, at)` adds the body of a hand with its middle at a point."""
    check_sizes(name, leg=leg, leg_diameter=leg_diameter)
    above = 13 * SERVO_MASS + sum(SHELLS.values()) + 0.3
    check_buckling(f"the {name}'s pair of legs", leg, leg_diameter, above, 0.17, rods=2)
    build = Builder(name)
    part, forearm = rods or (
        steel_rod(leg, leg_diameter, FREQUENCY, ROD_MODES, sections),
        steel_rod(FOREARM, 4e-3, FREQUENCY, ROD_MODES, sections),
    )
    for side, sign in SIDES:
        build.flexible(f"{side}_leg", part, spatial.translation(np.array([0.0, sign * STANCE / 2, 0.0])))
    _add_trunk(build, leg, look)
    for side, _ in SIDES:
        build.fixed(f"{side}_foot", "world", f"{side}_leg.start")
        build.fixed(f"{side}_hip", f"{side}_leg.end", "hips")
    for side, sign in SIDES:
        shoulder = np.array([0.0, sign * SHOULDERS / 2, leg + 0.195])
        elbow = shoulder - [0, 0, UPPER_ARM]
        _add_arm(build, side, sign, shoulder, look)
        start = elbow - [0, 0, STUB]
        build.flexible(f"{side}_forearm", forearm, rod_pose(start, start - [0, 0, FOREARM]))
        add_hand(build, f"{side}_hand", start - [0, 0, FOREARM + GRIP])
        build.fixed(f"{side}_sleeve", f"{side}_elbow", f"{side}_forearm.start")
        build.fixed(f"{side}_wrist", f"{side}_forearm.end", f"{side}_hand")
    board = np.array([0.42, 0.33, 0.25, 1.0])
    build.ground(coloured_shape("box", (0.13, 0.13, 0.01), board, (0, 0, -0.01)))
    return build.build()


SIDES = (("left", 1.0), ("right", -1.0))


def _add_trunk(build: Builder, leg: float, look: Look) -> None:
    """Hips, pelvis, spine, torso, neck and head, with the five motors between them."""
    servo = tuple(0.5 * np.array(SERVO_SIZE))
    levels = {"hips": 0.012, "pelvis": 0.045, "spine": 0.085, "torso": 0.165, "neck": 0.24, "head": 0.295}
    at = {name: np.array([0.0, 0.0, leg + z]) for name, z in levels.items()}
    servos = {"hips": 1, "pelvis": 1, "spine": 1, "torso": 3, "neck": 1, "head": 0}
    mass = {name: SHELLS[name] + count * SERVO_MASS for name, count in servos.items()}
    eyes = [coloured_shape("sphere", (0.0065,), DARK, (0.036, y, 0.008)) for y in (-0.017, 0.017)]
    trunk: dict[str, tuple[ArrayLike, list[Shape]]] = {
        "hips": (
            (0.04, STANCE + 0.02, 0.03),
            [
                coloured_shape("box", (0.018, 0.06, 0.009), WHITE, (0, 0, -0.005)),
                coloured_shape("box", (servo[0], servo[2], 0.012), DARK, (0, 0, 0.006)),
            ],
        ),
        "pelvis": (
            (0.07, 0.11, 0.05),
            [coloured_shape("ellipsoid", (0.038, 0.060, 0.028), look.trousers)],
        ),
        "spine": (
            (0.04, 0.05, 0.04),
            [
                coloured_shape("capsule", (0.019, 0.014), DARK),
                coloured_shape("cylinder", (0.022, 0.006), WHITE),
            ],
        ),
        "torso": (
            (0.08, 0.15, 0.11),
            [
                coloured_shape("ellipsoid", (0.042, 0.078, 0.062), look.shirt, (0, 0, 0.004)),
                coloured_shape("capsule", (0.018, 0.068), look.shirt, (0, 0, 0.03), "y"),
            ],
        ),
        "neck": ((0.03, 0.03, 0.03), [coloured_shape("cylinder", (0.016, 0.020), DARK, (0, 0, -0.002))]),
        "head": (
            (0.08, 0.08, 0.10),
            [
                coloured_shape("ellipsoid", (0.041, 0.037, 0.053), SKIN),
                coloured_shape("ellipsoid", (0.0425, 0.0385, 0.012), look.band, (0, 0, 0.027)),
                coloured_shape("sphere", (0.007,), SKIN, (0.042, 0, -0.007)),
                *eyes,
            ],
        ),
    }
    for name, (size, shapes) in trunk.items():
        add_figure_body(build, name, at[name], mass[name], size, *shapes)
    joints: list[tuple[str, str, float, ArrayLike]] = [
        ("pelvis", "hips", 0.025, (0, 0, 1)),
        ("spine", "pelvis", 0.065, (0, 1, 0)),
        ("torso", "spine", 0.10, (-1, 0, 0)),
        ("neck", "torso", 0.225, (0, 0, 1)),
        ("head", "neck", 0.25, (0, 1, 0)),
    ]
    for name, parent, z, axis in joints:
        build.hinge(name, parent, name, at=(0, 0, leg + z), axis=axis)
        build.motor(name, name)


def _add_arm(build: Builder, side: str, sign: float, shoulder: Array, look: Look) -> None:
    """Shoulder, upper arm and elbow, with the arm's four motors."""
    elbow = shoulder - [0, 0, UPPER_ARM]
    middle = -0.5 * UPPER_ARM + 0.008
    bodies: dict[str, tuple[Array, float, ArrayLike, list[Shape]]] = {
        "shoulder": (shoulder, SERVO_MASS, (0.04, 0.03, 0.03), [coloured_shape("sphere", (0.023,), DARK)]),
        "yoke": (
            shoulder - [0, 0, 0.03],
            SERVO_MASS,
            (0.03, 0.03, 0.04),
            [coloured_shape("capsule", (0.019, 0.010), look.shirt, (0, 0, 0.005))],
        ),
        "arm": (
            shoulder - [0, 0, 0.095],
            SERVO_MASS + 0.015,
            (0.03, 0.03, 0.06),
            [
                coloured_shape("capsule", (0.0145, 0.036), SKIN, (0, 0, 0.095 + middle)),
                coloured_shape("cylinder", (0.017, 0.017), DARK, (0, 0, 0.095 - UPPER_ARM), "y"),
            ],
        ),
        "elbow": (elbow, 0.015, (0.02, 0.03, 0.03), [coloured_shape("capsule", (0.009, 0.010), WHITE, (0, 0, -0.010))]),
    }
    for part, (at, mass, size, shapes) in bodies.items():
        add_figure_body(build, f"{side}_{part}", at, mass, size, *shapes)
    joints: list[tuple[str, str, str, Array, ArrayLike]] = [
        ("swing", "torso", f"{side}_shoulder", shoulder, (0, -1, 0)),
        ("raise", f"{side}_shoulder", f"{side}_yoke", shoulder, (sign, 0, 0)),
        ("twist", f"{side}_yoke", f"{side}_arm", shoulder, (0, 0, -sign)),
        ("elbow", f"{side}_arm", f"{side}_elbow", elbow, (0, -1, 0)),
    ]
    for joint, parent, child, at, axis in joints:
        build.hinge(f"{side}_{joint}", parent, child, at=at, axis=axis)
        build.motor(f"{side}_{joint}", f"{side}_{joint}")
