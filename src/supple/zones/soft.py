"""Mechanisms with a skin: a finger and a hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from supple.elastic._checks import Array
from supple.elastic.material import Material
from supple.errors import MechanismError
from supple.mechanism import Builder, Curve, Mechanism, Shape, kinematics
from supple.spatial import pose as pose_of
from supple.spatial import so3_exp, translation
from supple.zones.generate import block, pad
from supple.zones.skin import Attached, Skin
from supple.zones.zone import SOFT_SKIN, Zone

BONES = ("proximal", "middle", "distal")
HINGES = ("knuckle", "pip", "dip")
FINGERS = ("thumb", "index", "middle", "ring", "little")
RANGES = ((-0.35, 1.5), (0.0, 1.6), (0.0, 1.2))
"""Lower and upper limit of the three hinges of a finger, rad; positive angles flex it."""
STIFFNESS, DAMPING = 0.02, 4e-4
"""Spring and damper of each hinge, N m/rad and N m s/rad."""
DENSITY = 1500.0
"""Of bones, kg/m^3."""
DIFFERENCE = 1e-4
"""Step of the central differences of the energy, rad or m."""
ROUNDING = 1e-9
"""Torque over that of the stiffest joint below which a joint does not strain the skin."""
LENGTHS, BONE, THICKNESS, GAP = (0.03, 0.03, 0.026), 4.5e-3, 5e-3, 7e-3
"""Lengths and radius of a finger's bones, thickness of its skin, distance from a joint to the ends of its bones, m."""


@dataclass(frozen=True, eq=False)
class SoftMechanism:
    """A mechanism and the skin on its bodies."""

    mechanism: Mechanism
    skin: Skin

    def curves(self, count: int = 15) -> dict[str, Curve]:
        """The skin's resistance to bending, by coordinate: torque against the deflection from the reference.

        The torque is the derivative of the skin's elastic energy by that coordinate, the others being at the
        reference. Only coordinates with a finite range whose motion strains the skin have a curve.

        Args:
            count: two or more points of each curve, spread over the range of the joint.
        """
        if not count >= 2:
            raise MechanismError(f"a curve needs two points or more, got {count}")
        mech, result = self.mechanism, {}
        lower, upper = self.skin.limits
        for i, name in enumerate(mech.coordinates):
            if not (np.isfinite(lower[i]) and np.isfinite(upper[i])):
                continue
            deflections = np.unique(np.append(np.linspace(lower[i], upper[i], count) - mech.reference[i], 0.0))
            torques = np.array([self._torque(i, deflection) for deflection in deflections])
            result[name] = Curve(deflections, torques)
        largest = {name: float(np.abs(curve.torque).max()) for name, curve in result.items()}
        strained = ROUNDING * max(largest.values(), default=0.0)
        return {name: curve for name, curve in result.items() if largest[name] > strained}

    def with_curves(self, count: int = 15) -> Mechanism:
        """The mechanism with the skin's resistance to bending added to the springs of its joints, for the engine and
        for reduced models."""
        curves = self.curves(count)
        joints = []
        for joint in self.mechanism.joints:
            added = [curves.get(axis) for axis in joint.axes]
            if any(curve is not None and known is not None for curve, known in zip(added, joint.curves, strict=True)):
                raise MechanismError(f"joint '{joint.name}' already has a spring curve; remove it first")
            kept = tuple(new if new is not None else old for new, old in zip(added, joint.curves, strict=True))
            joints.append(replace(joint, curves=kept))
        return replace(self.mechanism, joints=tuple(joints))

    def _torque(self, i: int, deflection: float) -> float:
        q = self.mechanism.reference.copy()

        def energy(change: float) -> float:
            q[i] = self.mechanism.reference[i] + deflection + change
            return self.skin.at(kinematics(self.mechanism, q)).energy()

        return 0.0 if deflection == 0 else (energy(DIFFERENCE) - energy(-DIFFERENCE)) / (2 * DIFFERENCE)


def finger(
    *,
    lengths: Sequence[float] = LENGTHS,
    bone: float = BONE,
    thickness: float = THICKNESS,
    gap: float = GAP,
    halfway: bool = True,
    material: Material = SOFT_SKIN,
    cells: Sequence[int] = (20, 14, 4),
) -> SoftMechanism:
    """A finger of three bones along x with a pad on each. Flexion turns the next bone towards -z, the palm's side.

    Its bodies are `proximal`, `middle` and `distal`, its hinges `knuckle` (to the world), `pip` and `dip`. The pads are
    called after their bodies; the zones across the joints `pip` and `dip` after these.

    Args:
        lengths: of the bones, from joint to joint, m.
        bone: radius of the bones, m.
        thickness: of the skin, m.
        gap: distance between a joint and the ends of its bones, m, if there are zones across the joints. Accuracy in
            bending needs about one and a half times the thickness.
        halfway: zones across the joints, half-way between the bones. Without them the pads meet at the joints, as in
            the paper, which is accurate only for small angles.
        material: of the skin.
        cells: number of hexahedra along each bone, around and through the skin.
    """
    builder = Builder("finger", gravity=(0, 0, 0))
    _add_bones(builder, np.eye(4), "", "world", lengths, bone)
    zones = _finger_zones(lengths, bone, thickness, gap, halfway, material, cells)
    mechanism = builder.build()
    return SoftMechanism(mechanism, Skin(mechanism, {name: Attached(*own) for name, own in zones.items()}))


def hand(*, halfway: bool = True, material: Material = SOFT_SKIN, cells: Sequence[int] = (20, 14, 4)) -> SoftMechanism:
    """A palm with five fingers and a pad on the palm's lower side (-z). Fingers point along x, the thumb to the side.

    The bodies of a finger are called `index/proximal` and so on; fingers are `thumb`, `index`, `middle`, `ring` and
    `little`. The palm is fixed to the world.

    Args:
        halfway: as in `finger`.
        material: of the skin.
        cells: as in `finger`.
    """
    builder = Builder("hand", gravity=(0, 0, 0))
    plate = Shape("box", size=(0.04, 0.045, BONE), pose=np.eye(4))  # type: ignore[arg-type]
    builder.body("palm", mass=0.3, inertia=(2.5e-4, 2e-4, 4e-4), shapes=[plate])
    builder.fixed("wrist", "world", "palm")
    places = {name: pose_of(np.eye(3), [0.045, 0.033 - 0.022 * i, 0]) for i, name in enumerate(FINGERS[1:])}
    places[FINGERS[0]] = pose_of(so3_exp(np.array([0, 0, 1.1])), [-0.015, 0.05, 0])
    zones = _finger_zones(LENGTHS, BONE, THICKNESS, GAP, halfway, material, cells)
    attached = {}
    for name in FINGERS:
        _add_bones(builder, places[name], f"{name}/", "palm", LENGTHS, BONE)
        for own, (zone, bodies) in zones.items():
            attached[f"{name}/{own}"] = Attached(zone, [f"{name}/{body}" for body in bodies])
    solid = block(
        (0.08, 0.09, THICKNESS), (*(_cells_along(cells, side, 2 * LENGTHS[0]) for side in (0.08, 0.09)), cells[2])
    )
    palm = Zone.from_solid(solid, material, bone="top", touch="bottom")
    attached["palm"] = Attached(palm, "palm", translation(np.array([0, 0, -BONE])))
    mechanism = builder.build()
    return SoftMechanism(mechanism, Skin(mechanism, attached))


def _add_bones(
    builder: Builder, place: Array, prefix: str, parent: str, lengths: Sequence[float], radius: float
) -> None:
    """Adds three bones along x of a pose (4, 4), hinged about y."""
    if len(lengths) != len(BONES) or not min(lengths) > 0:
        raise MechanismError(f"a finger needs {len(BONES)} positive lengths, got {list(lengths)}")
    start = np.zeros(3)
    for name, hinge, length, limits in zip(BONES, HINGES, lengths, RANGES, strict=True):
        mass = DENSITY * np.pi * radius**2 * length
        across = mass * (3 * radius**2 + length**2) / 12
        turn = np.array([[0, 0, 1], [0, 1, 0], [-1, 0, 0.0]])  # the capsule's axis z along x
        half = max(length / 2 - radius, radius / 10)
        capsule = Shape("capsule", size=(radius, half), pose=pose_of(turn, [length / 2, 0, 0]))  # type: ignore[arg-type]
        frame = place @ translation(start)
        inertia = (mass * radius**2 / 2, across, across)
        builder.body(prefix + name, frame, mass, (length / 2, 0, 0), inertia, [capsule])
        springs = {"limits": limits, "stiffness": STIFFNESS, "damping": DAMPING}
        builder.hinge(prefix + hinge, parent, prefix + name, at=frame[:3, 3], axis=frame[:3, 1], **springs)
        parent = prefix + name
        start = start + [length, 0, 0]


def _finger_zones(
    lengths: Sequence[float],
    bone: float,
    thickness: float,
    gap: float,
    halfway: bool,
    material: Material,
    cells: Sequence[int],
) -> dict[str, tuple[Zone, tuple[str, ...]]]:
    """By name: the zones of a finger and their bodies; each in the frame of its first body."""
    if halfway and not 0 < 2 * gap < min(lengths):
        raise MechanismError(f"the gap of {gap} m at each end of a bone must be positive and leave some of its length")
    inset = gap if halfway else 0.0
    zones: dict[str, tuple[Zone, tuple[str, ...]]] = {}
    last = len(BONES) - 1
    for i, (name, length) in enumerate(zip(BONES, lengths, strict=True)):
        first, end = inset if i else 0.0, length - (inset if i < last else 0.0)
        solid = pad(
            end - first,
            bone=bone,
            skin=bone + thickness,
            start=first,
            tip=i == last,
            cells=(_cells_along(cells, end - first, length), *cells[1:]),
        )
        seams = (["start"] if i else []) + (["end"] if i < last else [])
        zones[name] = (Zone.from_solid(solid, material, bone="bone", seam=seams, touch="outer"), (name,))
        if halfway and i < last:
            solid = pad(
                2 * gap,
                bone=bone,
                skin=bone + thickness,
                start=length - gap,
                cells=(_cells_along(cells, 2 * gap, length), *cells[1:]),
            )
            ends = {side: np.intersect1d(solid.groups["bone"], solid.groups[side]) for side in ("start", "end")}
            zone = Zone.from_solid(solid, material, bone=ends, seam=["start", "end"], touch="outer")
            zones[HINGES[i + 1]] = (zone, (name, BONES[i + 1]))
    return zones


def _cells_along(cells: Sequence[int], length: float, whole: float) -> int:
    """Number of hexahedra along a length, if there are `cells[0]` along the whole one."""
    return max(2, round(cells[0] * length / whole))
