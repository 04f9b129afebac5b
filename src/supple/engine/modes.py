"""Natural vibrations."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from supple.engine.linearisation import check_loops_closed, evenly_scaled, linearised
from supple.engine.stability import ROUNDING, has_potential
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
    """(m, axes): coordinates of every joint, in the order of `mech.joints`, scaled to unit modal mass. Shapes are
    orthogonal with respect to the mass if the loads have a potential."""
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

    Frequencies f and shapes x solve  K x = (2 pi f)^2 M x  on the admissible motions. Torques fixed in the world and
    wrenches fixed in the body have no potential in general, and K is not symmetric then.

    Raises:
        MechanismError: the mechanism cannot move, some motion moves no mass, a loop is open at the reference pose, or
            two frequencies are complex because of loads without a potential (flutter).
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
    if at is None or has_potential(mech, at.loads):
        indices = None if count is None or count >= len(mass) else (0, count - 1)
        values, vectors = eigh((linear.stiffness + linear.stiffness.T) / 2, mass, subset_by_index=indices)
    else:
        values, vectors = (found[..., :count] for found in _unsymmetric_modes(mech, linear.stiffness, mass))
    largest = np.abs(np.diag(linear.stiffness) / np.diag(mass)).max()
    values[np.abs(values) < 1e-12 * largest] = 0.0  # rounding error of motions without stiffness
    twists, increments = np.split(linear.motions @ vectors, [linear.layout.twists.stop])
    return Modes(
        mech,
        np.sign(values) * np.sqrt(np.abs(values)) / (2 * np.pi),
        np.ascontiguousarray(increments.T),
        np.ascontiguousarray(twists.T).reshape(-1, len(mech.bodies), 6),
    )


def _unsymmetric_modes(mech: Mechanism, stiffness: Array, mass: Array) -> tuple[Array, Array]:
    """Eigenvalues w^2 (m,), ascending, and vectors (m, m), of unit modal mass, of  K x = w^2 M x  for an unsymmetric K.
    Raises if they are complex."""
    from scipy.linalg import eig

    values, vectors = eig(stiffness, mass)
    order = np.argsort(values.real)
    values, vectors = values[order], vectors[:, order]
    complex_pairs = np.abs(values.imag) > 2 * ROUNDING * np.abs(values)
    if complex_pairs.any():
        frequency = np.sqrt(values[complex_pairs][0]) / (2 * np.pi)
        raise MechanismError(
            f"'{mech.name}' flutters in this state unless dampers prevent it: the loads have no potential, and two "
            f"vibrations have the complex frequencies {frequency.real:.3g} +- {abs(frequency.imag):.3g}i Hz. Take an "
            "equilibrium under smaller torques or body-fixed forces"
        )
    real = np.where(values.imag < 0, vectors.imag, vectors.real)  # rounding errors of equal frequencies make pairs
    return values.real, real / np.sqrt(np.einsum("ik,ij,jk->k", real, mass, real))
