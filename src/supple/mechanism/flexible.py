"""Flexible bodies: elastic parts as bodies of a mechanism.

A flexible body has a body for each interface of its part, named `rod.start`, `rod.end`. The body of the reference
interface carries the mass, and r modal amplitudes eta describe the shape. Each further interface is a massless body
that a joint X(eta) connects to the reference; X(eta) is the frame of the interface, seen from the reference.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from supple import spatial
from supple.errors import MechanismError, RangeWarning, listed
from supple.mechanism.body import Body
from supple.mechanism.coupling import Coupling
from supple.mechanism.joint import Joint
from supple.mechanism.record import Array, Record, checked_name

if TYPE_CHECKING:
    from supple.elastic import Basis, InterfaceFrame, Part


@dataclass(frozen=True, eq=False)
class FlexibleBody(Record):
    """An elastic part as a body. `Builder.flexible` adds it with the bodies and joints of its interfaces."""

    name: str
    part: Part
    """With a basis: `part.with_basis()`."""

    def __post_init__(self) -> None:
        from supple.elastic import Part

        checked_name(self.name, "a flexible body")
        if not isinstance(self.part, Part):
            raise MechanismError(
                f"flexible body '{self.name}' needs an elastic part (supple.elastic.rod, ...), got {self.part!r:.60}"
            )
        if self.part.basis is None:
            raise MechanismError(
                f"the part of flexible body '{self.name}' has no basis; reduce it first: part.with_basis()"
            )
        if len(self.part.interfaces) < 2:
            raise MechanismError(
                f"the part of flexible body '{self.name}' has one interface, {listed(list(self.part.interfaces))}; a "
                "flexible body needs two or more"
            )

    @property
    def basis(self) -> Basis:
        assert self.part.basis is not None
        return self.part.basis

    @property
    def reference(self) -> str:
        """Name of the body of the reference interface, which carries the mass."""
        return self.frame(self.basis.reference)

    def frame(self, interface: str) -> str:
        """Name of the body of an interface: rod.end."""
        return f"{self.name}.{interface}"

    @property
    def moving(self) -> list[str]:
        """Interfaces except the reference, in the order of the part."""
        return [name for name in self.part.interfaces if name != self.basis.reference]

    @property
    def coordinates(self) -> list[str]:
        """(r,) names of the amplitudes."""
        return [f"{self.name}.eta{k}" for k in range(self.basis.size)]


def bodies_of(flexible: FlexibleBody, pose: Array) -> list[Body]:
    """The bodies of all interfaces, the reference first. `pose` (4, 4): from the part's coordinates to the world."""
    part, basis = flexible.part, flexible.basis
    first_moment, inertia = basis.inertia(np.zeros(basis.size))
    centre = first_moment / basis.mass
    about_centre = inertia - basis.mass * (centre @ centre * np.eye(3) - np.outer(centre, centre))
    at = pose @ part.rest_frame(basis.reference)
    bodies = [Body(flexible.reference, at, basis.mass, centre, (about_centre + about_centre.T) / 2)]
    return bodies + [Body(flexible.frame(name), pose @ part.rest_frame(name)) for name in flexible.moving]


def joints_of(flexible: FlexibleBody) -> tuple[list[Joint], list[Coupling]]:
    """The joints X(eta) of all interfaces but the reference. The first has the amplitudes as coordinates; further ones
    have copies that rigid couplings keep equal to them."""
    joints: list[Joint] = []
    couplings: list[Coupling] = []
    for name in flexible.moving:
        frame = flexible.basis.frames[name]
        axes = flexible.coordinates if not joints else [f"{flexible.frame(name)}.eta{k}" for k in range(frame.size)]
        joints.append(interface_joint(flexible.frame(name), flexible.reference, frame, tuple(axes)))
        if len(joints) > 1:
            for own, copy in zip(flexible.coordinates, axes, strict=True):
                couplings.append(Coupling(f"{own}={copy}", (own, copy), np.array([1.0, -1.0]), rigid=True))
    return joints, couplings


def interface_joint(name: str, reference: str, frame: InterfaceFrame, axes: tuple[str, ...]) -> Joint:
    """The joint from the reference body to the body of an interface; both have the same name."""
    at_rest = frame.motion(np.zeros(frame.size)).jacobian.T
    return Joint(name, reference, name, np.eye(4), np.eye(4), at_rest, axes=axes, interface=frame)


def mass_matrix(flexible: FlexibleBody, eta: Array) -> Array:
    """(6 + r, 6 + r) mass of the reference frame's twist (own axes) and of the amplitudes' rates; kg, kg m, kg m^2.

    Kinetic energy of x = c + R (X + Phi eta): half of the integral of |v + w x y + Phi eta'|^2 dm.
    """
    basis = flexible.basis
    first_moment, inertia = basis.inertia(eta)
    s = spatial.skew(first_moment)
    coupling = np.hstack([basis.first_moment[1:], basis.spin_coupling(eta)])  # (r, 6)
    rigid = np.block([[basis.mass * np.eye(3), -s], [s, inertia]])
    result: Array = np.block([[rigid, coupling.T], [coupling, basis.mass_matrix]])
    return result


def damping_matrix(flexible: FlexibleBody, eta: Array) -> Array:
    """(r, r) Rayleigh damping alpha M + beta K(eta) of the amplitudes, N s/m."""
    basis = flexible.basis
    damping: Array = basis.alpha * basis.mass_matrix + basis.beta * basis.force.evaluate(eta).tangent
    return damping


def range_ratios(
    flexible: Iterable[FlexibleBody], coordinates: Mapping[str, Array]
) -> Iterator[tuple[FlexibleBody, float]]:
    """Each body with its deformation over that of the shapes that its basis was compared with. `coordinates` has the
    amplitudes (r,) under the name of each body's first joint."""
    for each in flexible:
        yield each, each.basis.range_ratio(coordinates[each.frame(each.moving[0])])


def warn_beyond_range(flexible: Iterable[FlexibleBody], coordinates: Mapping[str, Array], warned: set[str]) -> None:
    """Warns once of each body that is deformed more than the shapes that its basis was compared with. `coordinates` has
    the amplitudes (r,) under the name of each body's first joint; names of bodies are added to `warned`."""
    for each, ratio in range_ratios(flexible, coordinates):
        if each.name in warned or ratio <= 1:
            continue
        warned.add(each.name)
        trained = each.basis.trained_range
        warnings.warn(
            RangeWarning(
                f"flexible body '{each.name}' is deformed by {ratio * trained:.3g} m (root mean square); its basis was "
                f"compared with all nodes up to {trained:.3g} m: make one for more with part.with_basis(deflection=...)"
            ),
            stacklevel=3,
        )


def refuse_flexible(flexible: Iterable[FlexibleBody], what: str, remedy: str) -> None:
    """Raises if a mechanism has flexible bodies, for methods that do not take them yet."""
    names = [each.name for each in flexible]
    if names:
        which = "is one" if len(names) == 1 else "are such"
        raise MechanismError(f"{what} does not take flexible bodies yet, and {listed(names)} {which}; {remedy}")
