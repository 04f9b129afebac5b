"""Poses in which a simulation can start: loops closed, coordinates within their limits.

Reference poses outside joint limits and keyframes whose loops gape by millimetres are ordinary in robot files.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from supple.engine.assembly import Acting, Equations, equations
from supple.errors import ConvergenceError, MechanismError, StartWarning
from supple.mechanism import Mechanism
from supple.mechanism.assembling import assemble
from supple.mechanism.axes import of_tree
from supple.mechanism.record import Array

LARGEST_START_GAP = 1e-6
"""Largest gap of a loop, or distance of a motor from its coordinate, at the start of a simulation, m or rad."""
MENDED_LENGTH, MENDED_ANGLE = 0.01, 0.5
"""Gaps of loops and rigid couplings below these are closed with a warning, m and rad."""


@dataclass(frozen=True)
class Fault:
    """A loop that is open, or a coordinate or coupling outside its limits."""

    text: str
    mended: bool
    """Whether it is mended at the start: any distance from a limit, gaps below a centimetre and half a radian."""


def start_faults(eqs: Equations, acting: Acting, here: Any) -> list[Fault]:
    """What keeps a simulation from starting here, a state in the core."""
    q = here.q
    return [*_open_loops(eqs.mechanism, here.gaps), *broken_limits(eqs, q), *_open_couplings(eqs, acting, q)]


def closed_start(eqs: Equations, acting: Acting, here: Any) -> Array | None:
    """Coordinates (dof,) without faults that are nearest to a state in the core; None if it has none.

    Distances from limits and small gaps are removed by `assemble`, with a `StartWarning`. Raises `MechanismError` for
    larger gaps.
    """
    faults = start_faults(eqs, acting, here)
    if not faults:
        return None
    name = eqs.mechanism.name
    for fault in faults:
        if not fault.mended:
            raise MechanismError(f"{fault.text}; {_remedy(name)}")
    try:
        assembly = assemble(eqs.mechanism, of_tree(eqs.mechanism, here.q))
    except ConvergenceError as error:
        raise MechanismError(f"{faults[0].text}; {error}") from None
    warnings.warn(StartWarning(_moved_text(eqs.mechanism, faults, assembly.moved)), stacklevel=4)
    return assembly.q


def startable(mech: Mechanism) -> Mechanism:
    """The mechanism, assembled with a `StartWarning` where its reference pose has faults of any size.

    It is returned as it is if it cannot be assembled.
    """
    eqs = equations(mech)
    acting = eqs.acting()
    faults = start_faults(eqs, acting, eqs.evaluated(acting, eqs.zero_state()))
    if not faults:
        return mech
    try:
        assembly = assemble(mech)
    except ConvergenceError:
        return mech
    warnings.warn(StartWarning(_moved_text(mech, faults, assembly.moved)), stacklevel=3)
    return assembly.mechanism


def _remedy(name: str) -> str:
    return f"start '{name}' where loops are closed within limits, for instance supple.assemble(mech).mechanism"


def _moved_text(mech: Mechanism, faults: list[Fault], moved: dict[str, float]) -> str:
    far = sorted(moved.items(), key=lambda item: -abs(item[1]))
    amounts = ", ".join(f"'{name}' by {amount:.3g} {_unit(mech, name)}" for name, amount in far[:3])
    more = f" and {len(far) - 3} more" if len(far) > 3 else ""
    others = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    return (
        f"{faults[0].text}{others}; the simulation of '{mech.name}' starts in the nearest pose without that, which "
        f"moves {amounts}{more}. To start there without this warning: supple.assemble(mech).mechanism"
        f"{_other_start(mech)}"
    )


def _other_start(mech: Mechanism) -> str:
    if not mech.keyframes:
        return ""
    return f"; or start in a pose that the file names, as mech.at('{mech.keyframes[0].name}')"


def _unit(mech: Mechanism, coordinate: str) -> str:
    joint = mech.joint(coordinate)
    return "rad" if joint.twists[joint.axes.index(coordinate), 3:].any() else "m"


def _open_loops(mech: Mechanism, gaps: Array) -> list[Fault]:
    gaps, faults = np.abs(gaps), []
    for j in np.flatnonzero(gaps.max(axis=1, initial=0.0) > LARGEST_START_GAP):
        length, angle = float(gaps[j, :3].max()), float(gaps[j, 3:].max())
        size = f"{length:.2g} m" if length >= angle * (mech.radius or 1.0) else f"{angle:.2g} rad"
        small = length < MENDED_LENGTH and angle < MENDED_ANGLE
        faults.append(Fault(f"the loop at joint '{mech.joints[j].name}' has a gap of {size} at the start", small))
    return faults


def broken_limits(eqs: Equations, q: Array, verb: str = "starts") -> list[Fault]:
    """Coordinates and couplings outside their limits at q (axes,); the text says that one `verb` there."""
    mech = eqs.mechanism
    limits = np.concatenate([np.zeros((0, 2)), *(joint.limits for joint in mech.joints)])
    names = list(eqs.axis)
    outside = np.flatnonzero((q < limits[:, 0] - 1e-9) | (q > limits[:, 1] + 1e-9))
    broken = [(names[i], float(q[i]), *limits[i], _unit(mech, names[i])) for i in outside]
    for c in mech.couplings:
        length = float(c.coefficients @ q[[eqs.axis[n] for n in c.coordinates]])
        if not c.limits[0] - 1e-9 <= length <= c.limits[1] + 1e-9:
            broken.append((c.name, length, *c.limits, _coupling_unit(mech, c.coordinates)))
    return [
        Fault(f"'{name}' {verb} at {value:g} {unit}, outside its limits {lower:g} ... {upper:g}", True)
        for name, value, lower, upper, unit in broken
    ]


def _open_couplings(eqs: Equations, acting: Acting, q: Array) -> list[Fault]:
    """Rigid couplings that are off by little. Larger ones are left to the first time step."""
    mech = eqs.mechanism
    faults = []
    for c in mech.couplings:
        if not c.rigid:
            continue
        off = abs(float(c.coefficients @ q[[eqs.axis[n] for n in c.coordinates]]) - acting.targets[c.name])
        unit = _coupling_unit(mech, c.coordinates)
        if LARGEST_START_GAP < off < (MENDED_ANGLE if unit == "rad" else MENDED_LENGTH):
            faults.append(Fault(f"the rigid coupling '{c.name}' is off by {off:.2g} {unit} at the start", True))
    return faults


def _coupling_unit(mech: Mechanism, coordinates: tuple[str, ...]) -> str:
    return "rad" if all(_unit(mech, name) == "rad" for name in coordinates) else "m"
