"""Rods, and the brass cylinders at their ends, that mechanisms with flexible parts share."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from supple import spatial
from supple.mechanism.builder import Builder
from supple.mechanism.shapes import Shape

if TYPE_CHECKING:
    from supple.elastic import Part

DIAMETER = 4e-3
"""m, of the rods."""
DAMPING_RATIO = 0.003
"""Of the slowest vibration."""


def damped_rod(length: float, frequency: float, modes: int, sections: int) -> Part:
    """A rod of spring steel along z that bends in the plane normal to y. Its damping is proportional to its stiffness
    and gives `DAMPING_RATIO` at a frequency in Hz: beta = 2 zeta / omega."""
    from supple.elastic import rod, spring_steel
    from supple.elastic.cache import with_cached_basis

    material = replace(spring_steel(), beta=2 * DAMPING_RATIO / (2 * np.pi * frequency))
    part = rod(length, DIAMETER, material, sections=sections)
    return with_cached_basis(part, modes=modes, plane="y")


def add_cylinder(builder: Builder, name: str, at: tuple[float, float, float], mass: float, diameter: float) -> None:
    """Adds a cylinder of brass along z with its centre at a point."""
    from supple.elastic import brass

    radius = diameter / 2
    height = mass / (np.pi * radius**2 * brass().density)
    across = mass * (3 * radius**2 + height**2) / 12
    size, colour = np.array([radius, height / 2]), np.array([0.79, 0.62, 0.25, 1.0])
    shape = Shape("cylinder", size=size, pose=np.eye(4), rgba=colour)
    moments = (across, across, mass * radius**2 / 2)
    builder.body(name, spatial.translation(np.array(at)), mass, inertia=moments, shapes=[shape])
