"""What the characters share: servos, rods of spring steel, printed plastic, weights, and the check against buckling.

Axes of a character: x forward, y to its left, z up.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from supple import spatial
from supple.errors import MechanismError
from supple.mechanism.builder import Builder
from supple.mechanism.mechanism import STANDARD_GRAVITY
from supple.mechanism.record import Array
from supple.mechanism.shapes import Shape

if TYPE_CHECKING:
    from supple.elastic import Material, Part

SERVO_MASS = 0.082 + 0.020
"""kg, of a servo with its brackets."""
SERVO_SIZE = (0.0285, 0.034, 0.0465)
"""m, of the casing: across, along the axis of the motor, and along the casing."""
SPEED_LIMIT, TORQUE_LIMIT = 8.0, 3.0
"""Of a servo, rad/s and N m."""
DAMPING_RATIO = 0.01
"""Of the slowest vibration of a character. Brackets and screws damp more than a rod alone (0.3 %)."""
ROD_MODES = 21
"""Of a rod in space: responses to six wrenches on its end, and the derivatives of the slowest five of them along one
another. Servos and weights are much heavier than the rods: modes with both ends held do not matter."""
DARK, STEEL, BRASS, WHITE = (
    np.array([*colour, 1.0])
    for colour in ((0.24, 0.26, 0.30), (0.62, 0.66, 0.70), (0.79, 0.62, 0.25), (0.90, 0.90, 0.88))
)


def add_servo(build: Builder, name: str, at: ArrayLike, axis: str = "y", along: str = "z") -> None:
    """Adds the body of a servo with its brackets: a casing whose motor turns about `axis`, with its centre at a point.
    `along` is the direction of the casing's longest edge. The axes are those of the world: "x", "y" or "z"."""
    size = np.full(3, SERVO_SIZE[0])
    size["xyz".index(axis)], size["xyz".index(along)] = SERVO_SIZE[1:]
    add_box(build, name, at, SERVO_MASS, size, DARK)


def add_box(
    build: Builder, name: str, at: ArrayLike, mass: float, size: ArrayLike, colour: Array, fill: float = 1.0
) -> None:
    """Adds a homogeneous box of `size` (3,), m, with its centre at a point. The box that is drawn is `fill` times as
    large."""
    edges = np.asarray(size, dtype=float)
    inertia = mass / 12 * ((edges**2).sum() - edges**2)
    shape = Shape("box", size=fill * edges / 2, pose=np.eye(4), rgba=colour)
    build.body(name, spatial.translation(np.asarray(at, dtype=float)), mass, inertia=tuple(inertia), shapes=[shape])


def add_weight(build: Builder, name: str, at: ArrayLike, mass: float, density: float = 8500.0) -> None:
    """Adds a ball with its centre at a point; of brass unless another density (kg/m^3) is given."""
    radius = (3 * mass / (4 * np.pi * density)) ** (1 / 3)
    shape = Shape("sphere", size=np.array([radius]), pose=np.eye(4), rgba=BRASS)
    inertia = (0.4 * mass * radius**2,) * 3
    build.body(name, spatial.translation(np.asarray(at, dtype=float)), mass, inertia=inertia, shapes=[shape])


def steel_rod(length: float, diameter: float, frequency: float, modes: int, sections: int) -> Part:
    """A rod of spring steel along z that bends and twists in space. Its damping is proportional to its stiffness and
    gives `DAMPING_RATIO` at a frequency in Hz."""
    from supple.elastic import rod, spring_steel
    from supple.elastic.cache import with_cached_basis

    # undamped in the cache, where characters with different frequencies share it
    bare = rod(length, diameter, spring_steel(), sections=sections)
    part = with_cached_basis(bare, modes=modes)
    assert part.basis is not None
    material = part.material.with_damping(DAMPING_RATIO, frequency)
    return replace(part, material=material, basis=replace(part.basis, beta=material.beta))


def printed_plastic(frequency: float) -> Material:
    """Printed plastic: 2.5 GPa, 0.35, 1180 kg/m^3, with `DAMPING_RATIO` at a frequency in Hz."""
    from supple.elastic import Material

    return Material(young=2.5e9, poisson=0.35, density=1180.0).with_damping(DAMPING_RATIO, frequency)


def rod_pose(start: ArrayLike, end: ArrayLike) -> Array:
    """(4, 4) pose of a rod, which lies along its own z, from a point to another."""
    begin = np.asarray(start, dtype=float)
    along = np.asarray(end, dtype=float) - begin
    turn = spatial.rotation_between(np.array([0.0, 0.0, 1.0]), along / np.linalg.norm(along))
    return spatial.pose(turn, begin)


def check_sizes(what: str, **values: float) -> None:
    """Raises unless all sizes and masses are positive numbers."""
    for name, value in values.items():
        if not (np.isfinite(value) and value > 0):
            raise MechanismError(f"{what}: `{name}` must be positive, got {value}")


def check_buckling(what: str, length: float, diameter: float, mass: float, height: float, rods: int = 1) -> None:
    """Raises if upright rods of spring steel, clamped at the foot, buckle under the weight of a mass (kg).

    The centre of mass is `height` above the rods' end and does not tilt relative to it. A single rod then buckles under
    P = EI k^2 with k L tan(k L) = L / height; several rods side by side share the weight and are taken as single ones.
    """
    from scipy.optimize import brentq

    from supple.elastic import spring_steel

    bending = rods * spring_steel().young * np.pi * diameter**4 / 64
    most = np.pi / 2
    angle = brentq(lambda u: u * np.sin(u) - length / height * np.cos(u), 0, most) if height > 0 else most
    bears = bending * (angle / length) ** 2
    weight = mass * float(np.linalg.norm(STANDARD_GRAVITY))
    if not weight < bears:
        raise MechanismError(
            f"{what} buckles under its own weight: {length:g} m of steel, {1e3 * diameter:g} mm thick, bear "
            f"{bears:.3g} N there, and {weight:.3g} N rest on it; make it thicker or shorter"
        )
