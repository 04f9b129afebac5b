"""A flexible rod with a weight, on a motor."""

from __future__ import annotations

from supple.mechanism.builder import Builder
from supple.mechanism.library._flexible import add_cylinder, damped_rod
from supple.mechanism.mechanism import Mechanism

LENGTH, FREQUENCY = 0.7, 2.083


def rod_on_motor(modes: int = 15, sections: int = 40) -> Mechanism:
    """An upright rod of spring steel, 70 cm long and 4 mm thick, that a motor at its foot turns about y. A brass
    cylinder of 100 g, 25 mm wide, is centred on its end: the body `tip`. Gravity acts. The damping ratio is 0.3 %.

    The rod bends in the plane normal to y, in which the motor moves it. `modes` is the number of modes of its basis and
    `sections` the number of lengths of its mesh. Making the basis takes some ten seconds the first time; it is kept in
    the user's cache (docs/flexible.md).
    """
    build = Builder("rod on motor")
    build.flexible("rod", damped_rod(LENGTH, FREQUENCY, modes, sections))
    add_cylinder(build, "tip", (0.0, 0.0, LENGTH), mass=0.1, diameter=0.025)
    build.hinge("foot", "world", "rod.start", at=(0, 0, 0), axis="y")
    build.fixed("clamp", "rod.end", "tip")
    build.motor("motor", "foot")
    return build.build()
