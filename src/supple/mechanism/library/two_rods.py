"""Two flexible rods with a motor between them."""

from __future__ import annotations

import numpy as np

from supple import spatial
from supple.mechanism.builder import Builder
from supple.mechanism.library._flexible import add_cylinder, damped_rod
from supple.mechanism.mechanism import Mechanism
from supple.mechanism.shapes import Shape

LENGTH, FREQUENCY = 0.3, 1.837


def two_rods(modes: int = 15, sections: int = 40) -> Mechanism:
    """A rod of spring steel, 30 cm long and 4 mm thick, clamped upright to the world; on its end a motor (the body
    `motor`, 120 g with brackets, 6e-5 kg m^2); and a second such rod that the motor turns about y. A brass cylinder of
    200 g, 30 mm wide, is centred on the end of the second rod; it is the body `tip`. Gravity acts; the damping ratio of
    the slowest vibration is 0.3 %.

    `modes` and `sections` are those of `rod_on_motor`.
    """
    part = damped_rod(LENGTH, FREQUENCY, modes, sections)
    build = Builder("two rods")
    build.flexible("lower", part)
    build.flexible("upper", part, spatial.translation(np.array([0, 0, LENGTH])))
    box = Shape("box", np.array([0.012, 0.02, 0.012]), np.eye(4), rgba=np.array([0.24, 0.26, 0.3, 1.0]))
    at = spatial.translation(np.array([0, 0, LENGTH]))
    build.body("motor", at, 0.12, inertia=(6e-5,) * 3, shapes=[box])
    add_cylinder(build, "tip", (0.0, 0.0, 2 * LENGTH), mass=0.2, diameter=0.03)
    build.fixed("foot", "world", "lower.start")
    build.fixed("mount", "lower.end", "motor")
    build.hinge("elbow", "motor", "upper.start", at=(0, 0, LENGTH), axis="y")
    build.fixed("clamp", "upper.end", "tip")
    build.motor("drive", "elbow")
    return build.build()
