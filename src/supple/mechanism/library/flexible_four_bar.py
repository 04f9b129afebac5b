"""A four-bar linkage with a flexible coupler."""

from __future__ import annotations

import numpy as np

from supple import spatial
from supple.mechanism.builder import Builder
from supple.mechanism.library._flexible import damped_rod
from supple.mechanism.mechanism import Mechanism

GROUND, CRANK, COUPLER, ROCKER = 0.4, 0.1, 0.4, 0.25
"""Lengths, m."""


def flexible_four_bar(modes: int = 15, sections: int = 40, arm: bool = False) -> Mechanism:
    """A crank of 10 cm that a motor turns about y, a rocker at a distance of 40 cm, and between them a coupler: a rod
    of spring steel, 40 cm long and 4 mm thick, hinged to the rocker 25 cm above its foot. The rocker's upper end is the
    site `tip`, with a weight of 200 g. Gravity acts. The crank stands upright at the reference pose.

    With `arm`, a second rod like the coupler extends the rocker, and weight and tip are at the end of it. It vibrates
    at 4 Hz, where the coupler alone makes the rocker vibrate at 61 Hz.

    `modes` and `sections` are those of `rod_on_motor`.
    """
    top = np.array([0.0, 0.0, CRANK])
    foot = np.array([GROUND, 0.0, 0.0])
    # the coupler's far end: COUPLER from the crank's end, ROCKER from the rocker's foot
    apart = foot - top
    distance = float(np.linalg.norm(apart))
    along = (distance**2 + COUPLER**2 - ROCKER**2) / (2 * distance)
    across = np.array([-apart[2], 0.0, apart[0]]) / distance
    joint = top + along / distance * apart + np.sqrt(COUPLER**2 - along**2) * across

    build = Builder("flexible four-bar")
    build.link("crank", (0, 0, 0), top, mass=0.05, radius=5e-3)
    direction = (joint - top) / COUPLER
    rotation = spatial.rotation_between(np.array([0.0, 0.0, 1.0]), direction)
    rod = damped_rod(COUPLER, 20.0, modes, sections)
    build.flexible("coupler", rod, spatial.pose(rotation, top))
    end = foot + 1.4 * (joint - foot)
    build.link("rocker", foot, end, mass=0.12, radius=5e-3)
    if arm:
        along_rocker = (joint - foot) / ROCKER
        upright = spatial.rotation_between(np.array([0.0, 0.0, 1.0]), along_rocker)
        build.flexible("arm", rod, spatial.pose(upright, end))
        build.fixed("clamp", "rocker", "arm.start")
        end = end + COUPLER * along_rocker
    build.body("weight", spatial.translation(end), 0.2, inertia=(4e-5,) * 3)
    build.hinge("pivot", "world", "crank", at=(0, 0, 0), axis="y")
    build.hinge("first", "crank", "coupler.start", at=top, axis="y")
    build.hinge("second", "coupler.end", "rocker", at=joint, axis="y")
    build.hinge("support", "world", "rocker", at=foot, axis="y")
    build.fixed("hold", "arm.end" if arm else "rocker", "weight")
    build.motor("motor", "pivot")
    build.site("tip", "weight", at=end)
    return build.build()
