"""The boxer: the figure of 80 cm with gloves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from supple.mechanism.builder import Builder
from supple.mechanism.library.characters._figure import Look, add_figure_body, coloured_shape, figure
from supple.mechanism.library.characters._parts import WHITE
from supple.mechanism.mechanism import Mechanism
from supple.mechanism.record import Array

if TYPE_CHECKING:
    from supple.elastic import Part

GLOVE_MASS = 0.12
"""kg."""
RED = np.array([0.78, 0.12, 0.13, 1.0])


def boxer(
    leg: float = 0.45, leg_diameter: float = 5e-3, sections: int = 20, rods: tuple[Part, Part] | None = None
) -> Mechanism:
    """The boxer of the retargeting paper: 13 motors, 16 rigid bodies, 4 rods of spring steel; 80 cm tall.

    Two rods, 10 cm apart, are clamped to the world and carry the body `hips`. Above it five motors move the trunk:
    `pelvis` turns to the left about z, `spine` bends forward about y, `torso` leans to the left about x, `neck` turns
    the head to the left and `head` nods. Each arm has four motors: `left_swing` moves the arm forward, `left_raise`
    away from the body, `left_twist` turns the forearm inward, `left_elbow` bends it. The forearm is a rod of 10 cm and
    4 mm with a glove of 120 g: `left_hand`. The right arm has the same names with `right`. At the reference pose the
    figure stands upright with its arms down. Gravity acts. It sways fore and aft near 1.2 Hz, with a damping ratio of
    1 %.

    Args:
        leg, leg_diameter: of the legs, m.
        sections: lengths into which the mesh of each rod is divided.
        rods: leg and forearm with other bases, made of snapshots for example. Their lengths are those of the defaults.

    Raises:
        MechanismError: a size is not positive, or the legs would buckle.
    """
    look = Look(np.array([0.20, 0.22, 0.26, 1.0]), RED, RED)
    return figure("boxer", leg, leg_diameter, sections, rods, look, _add_glove)


def _add_glove(build: Builder, name: str, at: Array) -> None:
    glove = coloured_shape("ellipsoid", (0.030, 0.026, 0.034), RED, (0, 0, -0.004))
    thumb = coloured_shape("ellipsoid", (0.011, 0.010, 0.020), RED, (0.020, 0, 0.012))
    cuff = coloured_shape("cylinder", (0.021, 0.009), WHITE, (0, 0, 0.026))
    add_figure_body(build, name, at, GLOVE_MASS, (0.06, 0.05, 0.065), glove, thumb, cuff)
