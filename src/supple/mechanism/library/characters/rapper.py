"""The rapper's arm: two compliant printed links in a four-bar that drives the elbow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from supple import spatial
from supple.errors import MechanismError
from supple.mechanism.builder import Builder
from supple.mechanism.library.characters._figure import SKIN, add_figure_body, coloured_shape, limb
from supple.mechanism.library.characters._parts import (
    BRASS,
    DARK,
    ROD_MODES,
    SERVO_MASS,
    SERVO_SIZE,
    STEEL,
    WHITE,
    add_servo,
    check_sizes,
    printed_plastic,
    rod_pose,
)
from supple.mechanism.mechanism import STANDARD_GRAVITY, Mechanism
from supple.mechanism.record import Array

if TYPE_CHECKING:
    from supple.elastic import Part

SHOULDER = np.array([0.0, 0.0, 0.50])
"""m."""
BLOCK, UPPER_ARM, BRACKET = 0.035, 0.24, 0.015
"""From the shoulder to the upper arm, of the upper arm, and from its end to the elbow's hinge, m."""
PAD = (0.010, 0.040)
"""Begin and end of the pad for the elbow's servo, along the upper arm, m."""
THICK_ARM, THICK_ROD = 0.028, 0.014
"""m, of the printed links at their ends."""
SERVO_OFFSET = 0.03
"""m, from the middle of the upper arm back to the axis of the crank."""
LEVER, PLANE = 0.035, 0.032
"""Length of the crank and of the forearm's lever; distance of the push rod from the plane of the arm, m."""
FOREARM, HAND = 0.19, 0.03
"""From the elbow to the wrist, and from there to the middle of the hand, m."""
FOREARM_MASS, HAND_MASS = 0.05, 0.1
"""kg; the hand holds a microphone."""
BENT = 1.2
"""Angle of the elbow at the reference pose, rad: the crank is about perpendicular to the push rod."""
FREQUENCY = 3.5
"""Of the slowest vibration, Hz."""
ARM_MODES = 27
"""Of the upper arm: responses to six wrenches on each of two interfaces, and the derivatives of the slowest five."""


def rapper(arm_thickness: float = 9.5e-3, rod_thickness: float = 9e-3, element: float = 0.012) -> Mechanism:
    """The rapper's arm of the retargeting paper: 4 motors, 9 rigid bodies, 2 compliant printed links in a loop.

    Three motors move the shoulder, 50 cm above the ground: `swing` (forward), `raise` (to the left, away from a body)
    and `twist` (the forearm turns to the right). The upper arm is printed: a bar of 24 cm whose section is thinned
    between its ends, with three interfaces: `start` at the shoulder's `block`, `pad` for the body `servo`, and `end`
    for the body `elbow`. The motor `elbow` turns the `crank` on that servo. A printed push rod transmits this to a
    lever of the `forearm`; a universal joint connects it to the crank, a ball joint to the lever. So four links, two of
    them compliant, form a loop with two hinges that can leave its plane. The motor's angle is about that of the elbow:
    0 if the arm is straight, 1.2 rad at the reference pose. The hand with its microphone is the body `hand`. Gravity
    acts. The damping ratio is 1 % at 3.5 Hz.

    Args:
        arm_thickness, rod_thickness: of the thinned sections, m.
        element: longest element of the meshes along the links, m.

    Raises:
        MechanismError: a thickness is not positive or exceeds that at the ends of a link, or the push rod would buckle.
    """
    check_sizes("rapper", arm_thickness=arm_thickness, rod_thickness=rod_thickness, element=element)
    for name, value, most in (("arm", arm_thickness, THICK_ARM), ("rod", rod_thickness, THICK_ROD)):
        if value > most:
            raise MechanismError(f"rapper: `{name}_thickness` is {value:g} m, more than the {most:g} m at its ends")
    start = SHOULDER - [0, 0, BLOCK]
    end = start - [0, 0, UPPER_ARM]
    elbow = end - [0, 0, BRACKET]
    crank = start + [-SERVO_OFFSET, 0, -np.mean(PAD)]
    lever = np.array([-LEVER, PLANE, 0.0])
    pin, ball = crank + lever, elbow + lever
    build = Builder("rapper")
    _add_rigid_bodies(build, crank, elbow)
    build.flexible("upper_arm", _upper_arm(arm_thickness, element), rod_pose_down(start))
    length = float(np.linalg.norm(ball - pin))
    _check_push_rod(length, rod_thickness)
    rod = _push_rod(length, rod_thickness, element)
    build.flexible("push_rod", rod, rod_pose(pin, ball))
    build.hinge("swing", "world", "shoulder", at=SHOULDER, axis=(0, -1, 0))
    build.hinge("raise", "shoulder", "yoke", at=SHOULDER, axis=(1, 0, 0))
    build.hinge("twist", "yoke", "block", at=SHOULDER, axis=(0, 0, -1))
    build.fixed("clamp", "block", "upper_arm.start")
    build.fixed("mount", "upper_arm.pad", "servo")
    build.fixed("socket", "upper_arm.end", "elbow")
    build.hinge("crank", "servo", "crank", at=crank, axis=(0, -1, 0), reference=BENT)
    along = (ball - pin) / np.linalg.norm(ball - pin)
    build.universal("cross", "crank", "fork", at=pin, axes=("y", np.cross([0.0, 1.0, 0.0], along)))
    build.fixed("grip", "fork", "push_rod.start")
    build.ball("ball", "push_rod.end", "forearm", at=ball)
    build.hinge("hinge", "elbow", "forearm", at=elbow, axis=(0, -1, 0), reference=BENT)
    build.fixed("wrist", "forearm", "hand")
    for name in ("swing", "raise", "twist"):
        build.motor(name, name)
    build.motor("elbow", "crank", BENT)
    _draw_stand(build)
    return build.build()


def rod_pose_down(start: Array) -> Array:
    """(4, 4) pose of a part along its own z that hangs down from a point; its x axis is the world's."""
    return spatial.pose(np.diag([1.0, -1.0, -1.0]), start)


def _upper_arm(thickness: float, element: float) -> Part:
    from supple.elastic import bar
    from supple.elastic.cache import with_cached_basis

    thick = THICK_ARM
    heights = (0.0, 0.05, 0.075, UPPER_ARM - 0.035, UPPER_ARM - 0.015, UPPER_ARM)
    widths = (thick, thick, thickness, thickness, 0.8 * thick, 0.8 * thick)
    profile = np.column_stack([heights, widths, widths])
    part = bar(profile, printed_plastic(FREQUENCY), pads={"pad": ("-x", *PAD)}, length=element)
    return with_cached_basis(part, modes=ARM_MODES)


def _push_rod(length: float, thickness: float, element: float) -> Part:
    from supple.elastic import bar
    from supple.elastic.cache import with_cached_basis

    heights = (0.0, 0.015, 0.035, length - 0.035, length - 0.015, length)
    widths = (THICK_ROD, THICK_ROD, thickness, thickness, THICK_ROD, THICK_ROD)
    profile = np.column_stack([heights, widths, widths])
    part = bar(profile, printed_plastic(FREQUENCY), length=element)
    return with_cached_basis(part, modes=ROD_MODES)


def _check_push_rod(length: float, thickness: float) -> None:
    """Raises if the push rod buckles where forearm and hand press on it most: with the forearm level and the lever
    perpendicular to the rod, by M / LEVER with the moment M of their weight about the elbow. A rod of square section
    that turns freely at both ends bears P = pi^2 EI / L^2, with I = thickness^4 / 12."""
    bears = np.pi**2 * printed_plastic(FREQUENCY).young * thickness**4 / 12 / length**2
    moment = FOREARM_MASS * FOREARM / 2 + HAND_MASS * (FOREARM + HAND)
    pressed = moment * float(np.linalg.norm(STANDARD_GRAVITY)) / LEVER
    if not pressed < bears:
        raise MechanismError(
            f"the rapper's push rod buckles under the weight of forearm and hand: {length:.3g} m of printed plastic, "
            f"{1e3 * thickness:g} mm thick, bear {bears:.3g} N, and {pressed:.3g} N press on it; make `rod_thickness` "
            "larger"
        )


def _add_rigid_bodies(build: Builder, crank: Array, elbow: Array) -> None:
    """The nine rigid bodies."""
    add_servo(build, "shoulder", SHOULDER, axis="x", along="y")
    add_servo(build, "yoke", SHOULDER, axis="z", along="x")
    block = [coloured_shape("cylinder", (0.022, 0.010), WHITE, (0, 0, -BLOCK + 0.008))]
    add_figure_body(build, "block", SHOULDER, 0.03, (0.03, 0.03, 0.03), *block)
    # the casing reaches from the pad on the upper arm's back to the crank's side
    casing = 0.5 * np.array([SERVO_SIZE[0], SERVO_SIZE[1], SERVO_SIZE[2]])
    add_figure_body(build, "servo", crank, SERVO_MASS, SERVO_SIZE, coloured_shape("box", casing.tolist(), DARK))
    arm = [
        limb((0, PLANE, 0), (-LEVER, PLANE, 0), 0.005, WHITE),
        coloured_shape("cylinder", (0.008, 0.008), STEEL, (0, 0.5 * SERVO_SIZE[1] + 0.008, 0), "y"),
    ]
    add_figure_body(build, "crank", crank, 0.01, (LEVER, 0.01, 0.01), *arm)
    fork = [coloured_shape("sphere", (0.0075,), STEEL)]
    add_figure_body(build, "fork", crank + [-LEVER, PLANE, 0], 0.005, (0.012, 0.012, 0.012), *fork)
    bracket = [
        coloured_shape("cylinder", (0.012, 0.017), DARK, axis="y"),
        coloured_shape("cylinder", (0.010, 0.006), WHITE, (0, 0, BRACKET - 0.006)),
    ]
    add_figure_body(build, "elbow", elbow, 0.02, (0.02, 0.03, 0.02), *bracket)
    along = np.array([np.sin(BENT), 0.0, -np.cos(BENT)])
    transverse = FOREARM_MASS * FOREARM**2 / 12
    turn = spatial.rotation_between(np.array([0.0, 0.0, 1.0]), along)
    inertia = turn @ np.diag([transverse, transverse, FOREARM_MASS * 0.012**2 / 2]) @ turn.T
    shapes = [
        limb((0, 0, 0), FOREARM * along, 0.011, SKIN),
        limb((0, 0, 0), (0, PLANE, 0), 0.006, WHITE),
        limb((0, PLANE, 0), (-LEVER, PLANE, 0), 0.005, WHITE),
        coloured_shape("sphere", (0.0075,), BRASS, (-LEVER, PLANE, 0)),
    ]
    build.body("forearm", spatial.translation(elbow), FOREARM_MASS, FOREARM / 2 * along, inertia, shapes)
    up = np.array([np.cos(BENT), 0.0, np.sin(BENT)])
    hand = [
        coloured_shape("ellipsoid", (0.022, 0.018, 0.024), SKIN),
        limb(-0.035 * up, 0.05 * up, 0.008, DARK),
        coloured_shape("sphere", (0.016,), STEEL, 0.062 * up),
    ]
    add_figure_body(build, "hand", elbow + (FOREARM + HAND) * along, HAND_MASS, (0.04, 0.035, 0.045), *hand)


def _draw_stand(build: Builder) -> None:
    """The servo of the first motor on a post; it is fixed to the world."""
    x, y, z = SHOULDER
    build.ground(
        coloured_shape("box", (SERVO_SIZE[0] / 2, 0.017, SERVO_SIZE[2] / 2), DARK, (x, y - 0.05, z)),
        coloured_shape("cylinder", (0.012, z / 2), STEEL, (x, y - 0.08, z / 2)),
        coloured_shape("cylinder", (0.012, 0.02), STEEL, (x, y - 0.07, z), "y"),
        coloured_shape("cylinder", (0.09, 0.008), DARK, (x, y - 0.08, -0.008)),
    )
