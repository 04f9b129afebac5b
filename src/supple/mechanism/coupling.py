"""Couplings (on linear combinations of coordinates), motors (prescribed coordinates), keyframes, import notes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from supple.errors import MechanismError
from supple.mechanism.joint import Curve
from supple.mechanism.record import Array, Record, array, checked_name

LARGEST = 1e100
"""Coefficients beyond it overflow when they are squared."""


@dataclass(frozen=True, eq=False)
class Coupling(Record):
    """A spring, or a rigid constraint, on the length  l = sum_i coefficient_i q_i  (MuJoCo's fixed tendons
    and joint equalities)."""

    name: str
    coordinates: tuple[str, ...]
    """Names of the coordinates (`Joint.axes`)."""
    coefficients: Array
    """One for each coordinate."""
    rigid: bool = False
    """True: a constraint keeps the length at `rest`, and the spring fields are not used."""
    stiffness: float = 0.0
    damping: float = 0.0
    rest: float = 0.0
    limits: Array = (-np.inf, np.inf)  # type: ignore[assignment]
    """(2,) lower and upper length."""
    curve: Curve | None = None
    """Restoring force as a curve of (l - rest), added to that of the linear spring."""

    def __post_init__(self) -> None:
        what = f"coupling '{checked_name(self.name, 'a coupling')}'"
        names = tuple(self.coordinates)
        coefficients = array(self.coefficients, (len(names),), f"coefficients of {what}")
        if not names or len(set(names)) != len(names) or not coefficients.all():
            raise MechanismError(f"{what} needs one or more different coordinates, with coefficients other than zero")
        if not np.abs(coefficients).max() < LARGEST:
            raise MechanismError(f"{what} has a coefficient beyond {LARGEST:g}; check the exponents of its numbers")
        if not isinstance(self.rigid, bool):
            raise MechanismError(f"{what}: `rigid` must be true or false, got {self.rigid!r}")
        numbers = {f: float(array(getattr(self, f), (), f"{f} of {what}")) for f in ("stiffness", "damping", "rest")}
        if numbers["stiffness"] < 0 or numbers["damping"] < 0:
            raise MechanismError(f"stiffness and damping of {what} must not be negative")
        limits = array(self.limits, (2,), f"limits of {what}", infinite=True)
        if limits[0] > limits[1] or limits[0] == np.inf or limits[1] == -np.inf:
            raise MechanismError(f"limits of {what} are upside down: {limits[0]:g} above {limits[1]:g}")
        self._freeze(coordinates=names, coefficients=coefficients, limits=limits, **numbers)


@dataclass(frozen=True, eq=False)
class Motor(Record):
    """Prescribes a joint coordinate: in statics by its `position`, in a simulation by any function of time."""

    name: str
    coordinate: str
    """Name of the coordinate (`Joint.axes`)."""
    position: float = 0.0
    """rad or m."""

    def __post_init__(self) -> None:
        what = f"motor '{checked_name(self.name, 'a motor')}'"
        self._freeze(position=float(array(self.position, (), f"position of {what}")))


@dataclass(frozen=True, eq=False)
class Keyframe(Record):
    """A named configuration from a file."""

    name: str
    coordinates: Array
    """(n,) of the joints of the spanning tree, in the order of `mech.coordinates`; rad and m."""

    def __post_init__(self) -> None:
        checked_name(self.name, "a keyframe")
        self._freeze(coordinates=array(self.coordinates, (-1,), f"coordinates of keyframe '{self.name}'"))


@dataclass(frozen=True, eq=False)
class ImportNote(Record):
    """One element of a file that the Mechanism does not represent, or represents with other numbers."""

    item: str
    """The element, by its name in the file."""
    reason: str
    """Why it was not imported or what was changed, and the remedy."""

    def __str__(self) -> str:
        return f"{self.item}: {self.reason}"

    @property
    def brief(self) -> str:
        """At most 160 characters: of a long list the first names and the number of all."""
        names, text = self.item.split("', '"), str(self)
        for shown in (4, 3, 2, 1):
            if len(text) > 160 and len(names) > shown:
                text = "', '".join(names[:shown]) + f"' ... ({len(names)} in all): {self.reason}"
        return text if len(text) <= 160 else text[:157] + "..."
