"""A mechanism with other stiffnesses, for curves that must serve a robot that is not exactly as modelled."""

from __future__ import annotations

from dataclasses import replace

from supple.elastic import Part
from supple.elastic.reduced_force import CubatureForce, QuarticForce
from supple.mechanism import Curve, Mechanism
from supple.mechanism.flexible import FlexibleBody


def with_stiffness(mech: Mechanism, factor: float) -> Mechanism:
    """The mechanism with all springs and elastic materials `factor` times as stiff."""

    def scaled(curve: Curve | None) -> Curve | None:
        return None if curve is None else Curve(curve.deflection, factor * curve.torque)

    joints = [replace(j, stiffness=factor * j.stiffness, curves=tuple(map(scaled, j.curves))) for j in mech.joints]
    couplings = [replace(c, stiffness=factor * c.stiffness, curve=scaled(c.curve)) for c in mech.couplings]
    flexible = [FlexibleBody(each.name, stiffened(each.part, factor)) for each in mech.flexible]
    return replace(mech, joints=tuple(joints), couplings=tuple(couplings), flexible=tuple(flexible))


def stiffened(part: Part, factor: float) -> Part:
    """The part with `factor` times Young's modulus; its modes stay."""
    material = replace(part.material, young=factor * part.material.young)
    if part.basis is None:
        return replace(part, material=material)
    force = part.basis.force
    if isinstance(force, QuarticForce):
        force = QuarticForce(factor * force.quadratic, factor * force.cubic, factor * force.quartic)
    else:
        assert isinstance(force, CubatureForce)
        force = replace(force, mu=factor * force.mu, lam=factor * force.lam)
    return replace(part, material=material, basis=replace(part.basis, force=force))
