"""Natural vibrations, and the stability of an equilibrium."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from supple.engine.linearisation import check_loops_closed, evenly_scaled, linearised
from supple.errors import MechanismError
from supple.mechanism import Mechanism
from supple.mechanism.mechanism import check_mechanism
from supple.mechanism.notebook import brief
from supple.mechanism.record import Array, lock

if TYPE_CHECKING:
    from supple.engine.statics import Equilibrium


@dataclass(frozen=True)
class Modes:
    """Natural vibrations of the undamped linear system, slowest first."""

    __repr__ = brief

    mechanism: Mechanism
    frequencies: Array
    """(m,) Hz; a negative value f stands for the imaginary frequency i|f| of an unstable direction."""
    shapes: Array
    """(m, axes): coordinates of every joint, in the order of `mech.joints`, scaled to unit modal mass."""
    twists: Array
    """(m, bodies, 6): twists of the bodies, each in its own frame."""

    def __post_init__(self) -> None:
        lock((self.frequencies, self.shapes, self.twists))


def modes(mech: Mechanism, at: Equilibrium | None = None, count: int | None = None) -> Modes:
    """Computes natural frequencies (Hz) and mode shapes of the undamped mechanism.

    Args:
        mech: the mechanism.
        at: the equilibrium around which it vibrates, with its loads. Without it the mechanism vibrates around the
            reference pose, where preload and gravity are treated as balanced.
        count: number of modes, slowest first; by default all.

    Raises:
        MechanismError: the mechanism cannot move, some motion moves no mass, or a loop is open at the reference pose.
    """
    from scipy.linalg import eigh

    if count is not None and (not isinstance(count, int) or count < 1):
        raise MechanismError(f"count must be a number of modes, 1 or more, got {count!r}")
    check_mechanism(mech)
    if at is None:
        check_loops_closed(mech)
    linear = linearised(mech, at)
    mass = (linear.mass + linear.mass.T) / 2
    if not len(mass):
        raise MechanismError(f"'{mech.name}' cannot move, so it has no natural frequencies")
    if np.linalg.eigvalsh(evenly_scaled(mass)[1])[0] <= 1e-13:
        raise MechanismError(
            f"some motion of '{mech.name}' moves no mass, so it has no natural frequency; give every moving body a "
            "mass or its joint an armature"
        )
    indices = None if count is None or count >= len(mass) else (0, count - 1)
    values, vectors = eigh((linear.stiffness + linear.stiffness.T) / 2, mass, subset_by_index=indices)
    largest = np.abs(np.diag(linear.stiffness) / np.diag(mass)).max()
    values[np.abs(values) < 1e-12 * largest] = 0.0  # rounding error of motions without stiffness
    twists, increments = np.split(linear.motions @ vectors, [linear.layout.twists.stop])
    return Modes(
        mech,
        np.sign(values) * np.sqrt(np.abs(values)) / (2 * np.pi),
        np.ascontiguousarray(increments.T),
        np.ascontiguousarray(twists.T).reshape(-1, len(mech.bodies), 6),
    )


def smallest_stiffness(eq: Equilibrium) -> float:
    """Smallest eigenvalue of the symmetric stiffness in the admissible motions, scaled to a unit diagonal."""
    stiffness = linearised(eq.mechanism, eq).stiffness
    if not len(stiffness):
        return 1.0
    value = float(np.linalg.eigvalsh(evenly_scaled((stiffness + stiffness.T) / 2)[1])[0])
    return value if abs(value) > 1e-10 else 0.0
