"""Elastic materials."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from supple.errors import MechanismError

LAWS = ("stvk", "neo-hookean")


@dataclass(frozen=True)
class Material:
    """An isotropic elastic material with Rayleigh damping.

    Both laws have Young's modulus `young` and Poisson's ratio `poisson` at small strain. "stvk" (St. Venant-Kirchhoff)
    is linear in Green's strain; its reduced energy is a polynomial of degree four, which the reduction evaluates
    exactly. It softens under strong compression. "neo-hookean" is the stable Neo-Hookean law of Smith, De Goes and Kim
    (2018), for large strains.
    """

    young: float
    """Young's modulus, Pa."""
    poisson: float
    """Poisson's ratio, between -1 and 0.5 (both excluded)."""
    density: float
    """kg/m^3."""
    law: str = "stvk"
    """"stvk" or "neo-hookean"."""
    alpha: float = 0.0
    """Mass-proportional damping, 1/s: the force -alpha M v, with v the velocity relative to the body's own frame."""
    beta: float = 0.0
    """Stiffness-proportional damping, s: the force -beta K(u) v, i.e. beta times the rate of the internal force."""

    def __post_init__(self) -> None:
        for name in ("young", "density"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value > 0):
                raise MechanismError(f"a material's {name} must be positive, got {value}")
        if not -1 < self.poisson < 0.5:
            raise MechanismError(
                f"Poisson's ratio must lie between -1 and 0.5, got {self.poisson}; an incompressible material (0.5) "
                "needs other elements: use 0.49 at most"
            )
        if self.law not in LAWS:
            raise MechanismError(f"there is no material law '{self.law}'; choose one of {', '.join(LAWS)}")
        for name in ("alpha", "beta"):
            value = getattr(self, name)
            if not (math.isfinite(value) and value >= 0):
                raise MechanismError(f"a material's damping {name} must not be negative, got {value}")

    @property
    def lame(self) -> tuple[float, float]:
        """Lamé's numbers (mu, lambda) of linear elasticity, Pa."""
        mu = self.young / (2 * (1 + self.poisson))
        return mu, self.young * self.poisson / ((1 + self.poisson) * (1 - 2 * self.poisson))

    @property
    def law_numbers(self) -> tuple[float, float]:
        """(mu, lambda) in the energy of the law, Pa. The stable Neo-Hookean law needs 4/3 mu and lambda + 5/6 mu of the
        linear numbers to have Young's modulus and Poisson's ratio at small strain."""
        mu, lam = self.lame
        return (mu, lam) if self.law == "stvk" else (4 / 3 * mu, lam + 5 / 6 * mu)

    def with_damping(self, ratio: float, frequency: float) -> Material:
        """Stiffness-proportional damping with the given ratio of critical damping at one frequency (Hz). The ratio
        grows in proportion to the frequency."""
        if not (frequency > 0 and ratio >= 0):
            raise MechanismError(f"a damping ratio of {ratio} at {frequency} Hz: the frequency must be positive")
        return replace(self, beta=ratio / (math.pi * frequency))


def spring_steel(law: str = "stvk") -> Material:
    """Spring steel: 200 GPa, 0.3, 7850 kg/m^3, undamped."""
    return Material(young=200e9, poisson=0.3, density=7850.0, law=law)


def brass(law: str = "stvk") -> Material:
    """Brass: 100 GPa, 0.34, 8500 kg/m^3, undamped."""
    return Material(young=100e9, poisson=0.34, density=8500.0, law=law)


def aluminium(law: str = "stvk") -> Material:
    """Aluminium: 70 GPa, 0.33, 2700 kg/m^3, undamped."""
    return Material(young=70e9, poisson=0.33, density=2700.0, law=law)
