"""Example mechanisms, one function for each. All springs are unloaded at the reference pose.

Helix, ladder, loop, robot arm and Y: every link weighs 1 kg, has the inertia diag(0.01, 0.01, 0.002) kg m^2 about its
middle and its frame at its start, z along the link. The frame of a rung of the ladder is in its middle, so that a load
on the top rung acts there. Every hinge has a spring of `stiffness` N m/rad and a damper of `damping` N m s/rad. There
is no gravity unless `gravity` (3,), m/s^2 in world axes, gives one.

Bicycle chain, millipede and molecule are for `supple.AdaptiveLinkage`. The latter two are trees of plain arrays
(`supple.mechanism.tree.Tree`).

Rod on motor, two rods and flexible four-bar have flexible bodies (docs/flexible.md) and gravity. So have the characters
of the retargeting paper in `characters`, with motions for them (docs/characters.md).
"""

from supple.mechanism.library import characters as characters
from supple.mechanism.library.bicycle_chain import bicycle_chain
from supple.mechanism.library.flexible_four_bar import flexible_four_bar
from supple.mechanism.library.helix import helix
from supple.mechanism.library.ladder import ladder
from supple.mechanism.library.loop import loop
from supple.mechanism.library.millipede import millipede
from supple.mechanism.library.molecule import molecule
from supple.mechanism.library.robot_arm import robot_arm
from supple.mechanism.library.rod_on_motor import rod_on_motor
from supple.mechanism.library.two_rods import two_rods
from supple.mechanism.library.y import y

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
