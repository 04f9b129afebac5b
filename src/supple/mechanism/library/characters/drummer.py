"""The drummer: the figure of 80 cm with drumsticks, behind its drums."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from supple import spatial
from supple.mechanism.builder import Builder
from supple.mechanism.library.characters._figure import SKIN, Look, coloured_shape, figure
from supple.mechanism.library.characters._parts import BRASS, STEEL, WHITE
from supple.mechanism.mechanism import Mechanism
from supple.mechanism.record import Array
from supple.mechanism.shapes import Shape

if TYPE_CHECKING:
    from supple.elastic import Part

FIST_MASS, STICK_MASS = 0.03, 0.03
"""kg."""
STICK_LENGTH, STICK_RADIUS = 0.16, 0.0035
"""m."""
STICK_START = 0.03
"""m, of a stick, above the middle of the hand."""
WOOD = np.array([0.80, 0.62, 0.40, 1.0])
BLUE = np.array([0.16, 0.34, 0.60, 1.0])


def drummer(
    leg: float = 0.45, leg_diameter: float = 5e-3, sections: int = 20, rods: tuple[Part, Part] | None = None
) -> Mechanism:
    """The drummer of the retargeting paper: 13 motors, 16 rigid bodies, 4 rods of spring steel; 80 cm tall.

    It is the figure of `boxer`, with a fist and a drumstick of 30 g in place of each glove. The drums are only drawn:
    the sticks do not touch them.

    Args:
        leg, leg_diameter: of the legs, m.
        sections: lengths into which the mesh of each rod is divided.
        rods: leg and forearm with other bases, made of snapshots for example. Their lengths are those of the defaults.

    Raises:
        MechanismError: a size is not positive, or the legs would buckle.
    """
    look = Look(BLUE, np.array([0.22, 0.24, 0.30, 1.0]), np.array([0.22, 0.15, 0.10, 1.0]))
    mech = figure("drummer", leg, leg_diameter, sections, rods, look, _add_hand)
    return replace(mech, shapes=(*mech.shapes, *_drums(leg)))


def _add_hand(build: Builder, name: str, at: Array) -> None:
    """A fist with a stick that continues the forearm; the body's frame is in the middle of the fist."""
    middle = STICK_START - STICK_LENGTH / 2
    mass = FIST_MASS + STICK_MASS
    centre = np.array([0.0, 0.0, STICK_MASS / mass * middle])
    across = STICK_MASS * (STICK_LENGTH**2 / 12 + (middle - centre[2]) ** 2) + FIST_MASS * centre[2] ** 2
    fist = 0.4 * FIST_MASS * 0.017**2
    shapes = [
        coloured_shape("sphere", (0.017,), SKIN),
        coloured_shape("capsule", (STICK_RADIUS, STICK_LENGTH / 2), WOOD, (0, 0, middle)),
        coloured_shape("sphere", (0.0055,), WOOD, (0, 0, STICK_START - STICK_LENGTH)),
    ]
    build.body(name, spatial.translation(at), mass, centre, (across + fist, across + fist, fist), shapes)


def _drums(leg: float) -> list[Shape]:
    """A pair of drums and a cymbal, on stands."""
    shapes = []
    for y in (-0.11, 0.11):
        x, top = 0.34, leg + 0.0
        shapes += [
            coloured_shape("cylinder", (0.085, 0.040), BLUE, (x, y, top - 0.050)),
            coloured_shape("cylinder", (0.087, 0.004), WHITE, (x, y, top)),
            coloured_shape("cylinder", (0.006, 0.5 * top - 0.05), STEEL, (x, y, 0.5 * top - 0.05)),
        ]
    shapes.append(coloured_shape("cylinder", (0.09, 0.002), BRASS, (0.30, 0.32, leg + 0.18)))
    shapes.append(coloured_shape("cylinder", (0.005, 0.5 * leg + 0.09), STEEL, (0.30, 0.32, 0.5 * leg + 0.09)))
    return shapes
