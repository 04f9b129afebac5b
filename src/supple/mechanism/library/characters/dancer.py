"""The dancer: an upright rod, a clavicle, and two arms that swing weights."""

from __future__ import annotations

import numpy as np

from supple.mechanism.builder import Builder
from supple.mechanism.library.characters._parts import (
    ROD_MODES,
    SERVO_MASS,
    WHITE,
    add_box,
    add_servo,
    add_weight,
    check_buckling,
    check_sizes,
    rod_pose,
    steel_rod,
)
from supple.mechanism.mechanism import Mechanism

SHOULDERS, CLAVICLE_MASS, HAND_MASS = 0.16, 0.06, 0.2
"""Distance of the shoulders, m; kg."""
FREQUENCY = 3.4
"""Of the slowest vibration, Hz."""


def dancer(
    body: float = 0.25,
    arm: float = 0.2,
    body_diameter: float = 5e-3,
    arm_diameter: float = 4e-3,
    modes: int = ROD_MODES,
    sections: int = 12,
) -> Mechanism:
    """The dancer of the retargeting paper: 4 motors, 7 rigid bodies, 3 rods of spring steel.

    An upright rod is clamped to the world and carries the `clavicle`. At each shoulder sit two servos: the first turns
    the second about y (motor `left_swing`, positive forward), the second raises the arm (motor `left_raise`, positive
    away from the body). The arm is a rod that hangs down at the reference pose, with a brass weight of 200 g at its
    end: `left_hand`. The right arm has the same names with `right`. Gravity acts. The damping ratio is 1 % at 3.4 Hz.

    Args:
        body, arm: lengths of the rods, m.
        body_diameter, arm_diameter: m.
        modes: of the basis of each rod, which bends and twists in space.
        sections: lengths into which the mesh of each rod is divided.

    Raises:
        MechanismError: a size is not positive, or the body would buckle.
    """
    check_sizes("dancer", body=body, arm=arm, body_diameter=body_diameter, arm_diameter=arm_diameter)
    above = CLAVICLE_MASS + 4 * SERVO_MASS + 2 * HAND_MASS
    raised = 2 * HAND_MASS * arm / above  # centre of mass with both arms up
    check_buckling("the dancer's body", body, body_diameter, above, raised)
    build = Builder("dancer")
    build.flexible("body", steel_rod(body, body_diameter, FREQUENCY, modes, sections))
    add_box(build, "clavicle", (0, 0, body), CLAVICLE_MASS, (0.02, SHOULDERS - 0.07, 0.012), WHITE)
    build.fixed("foot", "world", "body.start")
    build.fixed("neck", "body.end", "clavicle")
    limb = steel_rod(arm, arm_diameter, FREQUENCY, modes, sections)
    for side, sign in (("left", 1.0), ("right", -1.0)):
        shoulder = np.array([0.0, sign * SHOULDERS / 2, body])
        hand = shoulder - [0, 0, arm]
        add_servo(build, f"{side}_shoulder", shoulder - [0, sign * 0.032, 0], axis="y")
        add_servo(build, f"{side}_upper", shoulder, axis="x")
        build.flexible(f"{side}_arm", limb, rod_pose(shoulder, hand))
        add_weight(build, f"{side}_hand", hand, HAND_MASS)
        build.fixed(f"{side}_mount", "clavicle", f"{side}_shoulder")
        build.hinge(f"{side}_swing", f"{side}_shoulder", f"{side}_upper", at=shoulder, axis=(0, -1, 0))
        build.hinge(f"{side}_raise", f"{side}_upper", f"{side}_arm.start", at=shoulder, axis=(sign, 0, 0))
        build.fixed(f"{side}_grip", f"{side}_arm.end", f"{side}_hand")
        build.motor(f"{side}_swing", f"{side}_swing")
        build.motor(f"{side}_raise", f"{side}_raise")
    return build.build()
