"""The bartender: an arm of two rods that serves a glass of water."""

from __future__ import annotations

import numpy as np

from supple import spatial
from supple.mechanism.builder import Builder
from supple.mechanism.library.characters._parts import (
    ROD_MODES,
    SERVO_MASS,
    WHITE,
    add_box,
    add_servo,
    check_buckling,
    check_sizes,
    rod_pose,
    steel_rod,
)
from supple.mechanism.mechanism import Mechanism
from supple.mechanism.shapes import Shape

SHOULDER_HEIGHT = 0.05
"""m, above the base."""
HOLDER_MASS, GLASS_MASS = 0.04, 0.3
"""kg; the glass with its water."""
GLASS_RADIUS, GLASS_HEIGHT = 0.035, 0.10
"""m."""
WATER_HEIGHT = 0.08
"""m, of the water in the upright glass."""
REACH = 0.06
"""m, from the wrist to the axis of the glass."""
FREQUENCY = 2.6
"""Of the slowest vibration, Hz."""


def bartender(
    upper: float = 0.2,
    fore: float = 0.2,
    upper_diameter: float = 5e-3,
    fore_diameter: float = 4e-3,
    modes: int = ROD_MODES,
    sections: int = 12,
) -> Mechanism:
    """The bartender of the retargeting paper: 4 motors, 6 rigid bodies, 2 rods of spring steel; 45 cm high.

    The servo `base` stands on the world and turns the servo `shoulder` about z (motor `yaw`). The shoulder tilts the
    upper rod (motor `shoulder`), at whose end is the servo `elbow`; it tilts the fore rod (motor `elbow`), at whose end
    is the servo `wrist`. The wrist tilts the `holder` with the `glass` (motor `wrist`). All three tilt forward, about
    y, if positive. At the reference pose both rods stand upright. The glass is upright if shoulder, elbow and wrist add
    up to zero; its axis is the z axis of its body. Gravity acts. The damping ratio is 1 % at 2.6 Hz.

    Args:
        upper, fore: lengths of the rods, m.
        upper_diameter, fore_diameter: m.
        modes: of the basis of each rod, which bends and twists in space.
        sections: lengths into which the mesh of each rod is divided.

    Raises:
        MechanismError: a size is not positive, or a rod would buckle.
    """
    check_sizes("bartender", upper=upper, fore=fore, upper_diameter=upper_diameter, fore_diameter=fore_diameter)
    held = SERVO_MASS + HOLDER_MASS + GLASS_MASS
    check_buckling("the bartender's fore rod", fore, fore_diameter, held, 0.0)
    check_buckling(
        "the bartender's upper rod", upper, upper_diameter, held + SERVO_MASS, fore * held / (held + SERVO_MASS)
    )
    shoulder = np.array([0.0, 0.0, SHOULDER_HEIGHT])
    elbow = shoulder + [0, 0, upper]
    wrist = elbow + [0, 0, fore]
    glass = wrist + [REACH, 0, 0]
    build = Builder("bartender")
    add_servo(build, "base", (0, 0, 0), axis="z", along="x")
    for name, at in (("shoulder", shoulder), ("elbow", elbow), ("wrist", wrist)):
        add_servo(build, name, at, axis="y")
    build.flexible("upper", steel_rod(upper, upper_diameter, FREQUENCY, modes, sections), rod_pose(shoulder, elbow))
    build.flexible("fore", steel_rod(fore, fore_diameter, FREQUENCY, modes, sections), rod_pose(elbow, wrist))
    add_box(build, "holder", wrist + [REACH / 2 - 0.01, 0, 0], HOLDER_MASS, (0.04, 0.02, 0.008), WHITE)
    _add_glass(build, glass)
    build.fixed("stand", "world", "base")
    build.hinge("yaw", "base", "shoulder", at=(0, 0, 0), axis="z")
    build.hinge("shoulder", "shoulder", "upper.start", at=shoulder, axis="y")
    build.fixed("upper_clamp", "upper.end", "elbow")
    build.hinge("elbow", "elbow", "fore.start", at=elbow, axis="y")
    build.fixed("fore_clamp", "fore.end", "wrist")
    build.hinge("wrist", "wrist", "holder", at=wrist, axis="y")
    build.fixed("grip", "holder", "glass")
    for name in ("yaw", "shoulder", "elbow", "wrist"):
        build.motor(name, name)
    return build.build()


def _add_glass(build: Builder, at: np.ndarray) -> None:
    """The glass with its water, a homogeneous cylinder."""
    r, h = GLASS_RADIUS, GLASS_HEIGHT
    across = GLASS_MASS * (3 * r**2 + h**2) / 12
    shape = Shape("cylinder", size=np.array([r, h / 2]), pose=np.eye(4), rgba=np.array([0.35, 0.65, 0.85, 0.6]))
    moments = (across, across, GLASS_MASS * r**2 / 2)
    build.body("glass", spatial.translation(at), GLASS_MASS, inertia=moments, shapes=[shape])
