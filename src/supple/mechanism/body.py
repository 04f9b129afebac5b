"""Bodies and the named frames on them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from supple.errors import MechanismError
from supple.mechanism.record import Array, Record, array, checked_name, checked_pose
from supple.mechanism.shapes import Shape

WORLD = "world"
"""Name of the fixed frame; joints and sites may refer to it as to a body."""


@dataclass(frozen=True, eq=False)
class Body(Record):
    """A rigid body."""

    name: str
    pose: Array
    """(4, 4) from the body's frame to the world, in the reference configuration."""
    mass: float = 0.0
    """kg."""
    centre: Array = (0.0, 0.0, 0.0)  # type: ignore[assignment]
    """(3,) centre of mass in the body's frame, m."""
    inertia: Array = ((0.0,) * 3,) * 3  # type: ignore[assignment]
    """(3, 3) about the centre of mass in the body's axes, kg m^2."""
    shapes: tuple[Shape, ...] = ()

    def __post_init__(self) -> None:
        what = f"body '{checked_name(self.name, 'a body')}'"
        if self.name == WORLD:
            raise MechanismError(f"'{WORLD}' is the fixed frame; give the body another name")
        mass = float(array(self.mass, (), f"mass of {what}"))
        if mass < 0:
            raise MechanismError(f"{what} has the negative mass {mass} kg; a mass is zero or positive")
        inertia = array(self.inertia, (3, 3), f"inertia of {what}")
        _check_inertia(inertia, what)
        self._freeze(
            pose=checked_pose(self.pose, f"pose of {what}"),
            mass=mass,
            centre=array(self.centre, (3,), f"centre of {what}"),
            inertia=inertia,
            shapes=tuple(self.shapes),
        )


@dataclass(frozen=True, eq=False)
class Site(Record):
    """A named frame on a body or on the world: an end effector, an attachment, a sensor."""

    name: str
    body: str
    """Name of the body, or "world"."""
    pose: Array
    """(4, 4) from the site's frame to the body's."""

    def __post_init__(self) -> None:
        checked_name(self.name, "a site")
        self._freeze(pose=checked_pose(self.pose, f"pose of site '{self.name}'"))


def _check_inertia(inertia: Array, what: str) -> None:
    """Raises unless the equations of motion can use the inertia: symmetric, principal moments not negative.

    Files of real robots have inertias that no body can have; `check_physical` finds them.
    """
    scale = float(np.abs(inertia).max())
    if np.abs(inertia - inertia.T).max() > 1e-9 * scale:
        raise MechanismError(f"inertia of {what} is not symmetric")
    least = float(np.linalg.eigvalsh(inertia)[0])
    if least < -1e-6 * scale:
        raise MechanismError(f"inertia of {what} has the negative principal moment {least:.6g} kg m^2")


def check_physical(body: Body) -> None:
    """Raises unless a body can have its inertia: principal moments a <= b <= c with a + b >= c, and mass with them."""
    what, moments = f"body '{body.name}'", np.linalg.eigvalsh(body.inertia)
    scale = float(np.abs(body.inertia).max())
    if moments[0] + moments[1] < moments[2] - 1e-6 * scale:
        raise MechanismError(
            f"no body can have the inertia of {what}: its principal moments {moments[0]:.6g}, {moments[1]:.6g}, "
            f"{moments[2]:.6g} kg m^2 break the triangle inequality (each is at most the sum of the others)"
        )
    if scale > 0 and body.mass == 0:
        raise MechanismError(f"{what} has inertia but no mass; give it a mass or leave the inertia zero")
