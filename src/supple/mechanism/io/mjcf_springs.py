"""The sum of the springs, dampers and actuators that act on one coordinate or one tendon."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from supple.mechanism.joint import Curve
from supple.mechanism.record import Array

SAMPLES = 65
SAMPLED = "its higher terms are sampled as a curve, linear beyond the samples"


@dataclass
class Spring:
    """Spring, damper and inertia on one coordinate x:  force = -stiffness (x - rest) - damping x' - curve(x)."""

    default_rest: float
    """Rest while there is no stiffness."""
    stiffness: float = 0.0
    damping: float = 0.0
    armature: float = 0.0
    _moment: float = 0.0
    """Sum of stiffness times rest."""
    _samples: list[tuple[Array, Array]] = field(default_factory=list)

    def add_linear(self, stiffness: float, rest: float) -> None:
        """Adds a linear spring."""
        self.stiffness += stiffness
        self._moment += stiffness * rest

    def add_sampled(self, positions: Array, law: Callable[[Array], Array]) -> None:
        """Adds a nonlinear restoring force, law(x), sampled at the positions."""
        self._samples.append((positions, law(positions)))

    @property
    def rest(self) -> float:
        return self._moment / self.stiffness if self.stiffness > 0 else self.default_rest

    @property
    def curve(self) -> Curve | None:
        if not self._samples:
            return None
        ((positions, force),) = self._samples
        return Curve(positions - self.rest, force)


def polynomial_law(high: Array, rest: float) -> Callable[[Array], Array]:
    """MuJoCo's higher stiffness terms: the restoring force a x^2 + b x^3 with x measured from rest."""
    a, b = float(high[0]), float(high[1])
    return lambda position: a * (position - rest) ** 2 + b * (position - rest) ** 3


def slack_law(stiffness: float, high: Array, lower: float, upper: float) -> Callable[[Array], Array]:
    """Restoring force of a spring that is slack between two lengths, with MuJoCo's higher terms."""

    def law(position: Array) -> Array:
        x = np.where(position > upper, position - upper, np.minimum(position - lower, 0.0))
        return np.asarray(stiffness * x + high[0] * x**2 + high[1] * x**3)

    return law


def slack_positions(lower: float, upper: float, beyond: Array) -> Array:
    """Sampling positions of a slack spring: closely around its two corners, and those of `beyond` outside them."""
    near = 1e-4 * max(upper - lower, 1e-6) * np.array([1.0, 2.0])
    inner = np.concatenate([lower - near, [lower, upper], upper + near])
    outer = beyond[(beyond < lower - 2 * near[1]) | (beyond > upper + 2 * near[1])]
    return np.unique(np.concatenate([inner, outer]))


def sampling_positions(limits: Array, rest: float, reach: float) -> Array:
    """Equidistant sampling positions within the limits (2,); where a limit is infinite, up to `reach` from rest."""
    lower, upper = limits
    low = lower if np.isfinite(lower) else min(rest, upper) - reach
    high = upper if np.isfinite(upper) else max(rest, low) + reach
    return np.linspace(low, max(high, low + 1e-9), SAMPLES)
