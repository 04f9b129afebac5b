"""The mechanism of a command with its options: keyframe, base, coordinates, springs, set-points."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace

import numpy as np
import typer

import supple
from supple.cli.source import open_mechanism
from supple.engine.dynamics import check_inertia
from supple.engine.linearisation import evenly_scaled
from supple.engine.starting import startable
from supple.mechanism import Mechanism
from supple.mechanism.poses import find

LEAST_ARMATURE = 1e-6
"""Armature of joints that move no mass, over the largest inertia of a coordinate of the same unit."""


@dataclass(frozen=True)
class Preparation:
    """Options that change a mechanism before a command uses it."""

    keyframe: str | None = None
    base: str | None = None
    """ "fixed" or "free"."""
    q: dict[str, float] = field(default_factory=dict)
    """Coordinates of the reference pose by name, rad or m."""
    springs: float | None = None
    damping: float | None = None

    @property
    def is_empty(self) -> bool:
        return self == Preparation()

    def open(self, source: str, scenes: Collection[str] = ()) -> Mechanism:
        """The mechanism that `source` names, changed as the options say."""
        if self.springs is None and self.damping is not None:
            raise typer.BadParameter("--damping belongs to --springs STIFFNESS; give that too")
        mech = open_mechanism(source, self.keyframe, scenes)
        if self.base is not None:
            mech = mech.with_base(self.base)
        if self.q:
            mech = _at_coordinates(mech, self.q)
        return mech if self.springs is None else mech.with_springs(self.springs, self.damping or 0.0)


def _at_coordinates(mech: Mechanism, q: dict[str, float]) -> Mechanism:
    """The mechanism with some coordinates given; the others close loops, within limits."""
    coordinates, names = mech.reference.copy(), []
    alone = {joint.name: joint.axes[0] for joint in mech.joints if len(joint.axes) == 1}
    for name, value in q.items():
        axis = alone.get(name, name)
        coordinates[find(list(mech.coordinates), axis, f"coordinate of '{mech.name}'")] = value
        names.append(axis)
    assembly = supple.assemble(mech, coordinates, keep=names)
    if assembly.moved:
        far = sorted(assembly.moved.items(), key=lambda item: -abs(item[1]))
        shown = ", ".join(f"'{name}' by {amount:.3g}" for name, amount in far[:3])
        more = f" and {len(far) - 3} more" if len(far) > 3 else ""
        typer.echo(f"supple: to close loops within limits, these move too, rad or m: {shown}{more}", err=True)
    return assembly.mechanism


def with_targets(mech: Mechanism, targets: dict[str, float]) -> Mechanism:
    """The mechanism with other set-points of springs, couplings and motors."""
    motors = {motor.name: motor for motor in mech.motors}
    couplings = {coupling.name: coupling for coupling in mech.couplings}
    joints = {joint.name: joint for joint in mech.joints}
    for name, value in targets.items():
        if name in motors:
            motors[name] = replace(motors[name], position=value)
        elif name in couplings:
            couplings[name] = replace(couplings[name], rest=value)
        else:
            joint = joints[mech.joint(name).name]
            at = joint.axes.index(name) if name in joint.axes else 0
            if len(joint.axes) > 1 and name not in joint.axes:
                raise supple.MechanismError(f"joint '{name}' has several axes; name one: {', '.join(joint.axes)}")
            if not joint.axes or (joint.stiffness[at] == 0 and joint.curves[at] is None):
                raise supple.MechanismError(
                    f"'{name}' has no spring to set a target for; add one with mech.with_springs(...)"
                )
            rest = joint.rest.copy()
            rest[at] = value
            joints[joint.name] = replace(joint, rest=rest)
    return replace(
        mech, joints=tuple(joints.values()), couplings=tuple(couplings.values()), motors=tuple(motors.values())
    )


def movable(mech: Mechanism) -> Mechanism:
    """The mechanism, assembled, with a small armature on joints that move no mass, so that it can be simulated."""
    mech = startable(mech)
    try:
        check_inertia(mech)
    except supple.MechanismError:
        light = _light_coordinates(mech)
        shown = ", ".join(f"'{name}' {amount:.2g}" for name, amount in list(light.items())[:3])
        more = f" and {len(light) - 3} more" if len(light) > 3 else ""
        typer.echo(f"supple: joints that move no mass get an armature, kg m^2 or kg: {shown}{more}", err=True)
        return replace(mech, joints=tuple(_with_armature(joint, light) for joint in mech.joints))
    return mech


def _light_coordinates(mech: Mechanism) -> dict[str, float]:
    """Coordinates that take part in motions without inertia, with the armature that makes them movable."""
    matrix = supple.mass_matrix(mech)
    turns = {n: bool(t[3:].any()) for joint in mech.joints for n, t in zip(joint.axes, joint.twists, strict=True)}
    scales, scaled = evenly_scaled(matrix)
    values, vectors = np.linalg.eigh(scaled)
    motions = scales[:, None] * vectors[:, values < 1e-9]
    motions = np.abs(motions / np.abs(motions).max(axis=0, initial=1e-300))
    light: dict[str, float] = {}
    for turning in (True, False):
        alike = [turns[name] == turning for name in mech.coordinates]
        least = LEAST_ARMATURE * (float(np.diag(matrix)[alike].max(initial=0.0)) or 1.0)
        for name, same, size in zip(mech.coordinates, alike, motions.max(axis=1, initial=0.0), strict=True):
            if same and size > 1e-3:
                light[name] = least
    return light


def _with_armature(joint: supple.mechanism.Joint, light: dict[str, float]) -> supple.mechanism.Joint:
    if not any(name in light for name in joint.axes):
        return joint
    return replace(joint, armature=np.maximum(joint.armature, [light.get(name, 0.0) for name in joint.axes]))
