"""Example mechanisms, one function for each: `from supple.library import ladder`. See `supple.mechanism.library`."""

from supple.mechanism.library import (
    bicycle_chain,
    flexible_four_bar,
    helix,
    ladder,
    loop,
    millipede,
    molecule,
    robot_arm,
    rod_on_motor,
    two_rods,
    y,
)

__all__ = [
    "bicycle_chain",
    "flexible_four_bar",
    "helix",
    "ladder",
    "loop",
    "millipede",
    "molecule",
    "robot_arm",
    "rod_on_motor",
    "two_rods",
    "y",
]
