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
from supple.spatial import rotation_between, so3_exp, translation
from supple.zones.generate import arc_end, curled_strip, pad
from supple.zones.marks import Mark
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
WRIST, FLAT, WIDTH, CURL = -0.04, 0.026, 0.022, 0.012
"""The palm's pad: x where it starts and where it ceases to be flat, its width for each finger, and the length over
which it curls into the section of a finger's pad, m."""
THUMB_WIDTH, THUMB_CURL, THUMB_TURN = 0.042, 0.022, 1.1 - np.pi / 2
"""Width (m) of the thumb's part of the palm's pad where it leaves the index finger's side, its length (m), and the
angle by which it turns towards the fingers (rad)."""


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
    """A palm with five fingers, and a skin from the lower side of the palm (-z) to the fingertips. Fingers point along
    x, the thumb to the side.

    The bodies of a finger are called `index/proximal` and so on; fingers are `thumb`, `index`, `middle`, `ring` and
    `little`. The palm is fixed to the world. Its pad has a part for each finger, `index/palm` and so on: a strip below
    the palm, bonded to those beside it, that ends in the section of the finger's pads. The zone across a knuckle is
    called `index/knuckle`.

    Args:
        halfway: as in `finger`.
        material: of the skin.
        cells: as in `finger`.
    """
    builder = Builder("hand", gravity=(0, 0, 0))
    strips = _palm_strips()
    ends = {name: pose @ _curl_end(name) for name, pose in strips.items()}
    length, across = 0.5 * (FLAT - WRIST), 0.5 * WIDTH * (len(FINGERS) - 1)
    plate = Shape("box", size=(length, across, BONE), pose=translation(np.array([WRIST + length, 0, 0])))  # type: ignore[arg-type]
    roots = [_capsule(BONE, strips[name], ends[name]) for name in FINGERS]
    builder.body("palm", mass=0.3, inertia=(2.5e-4, 2e-4, 4e-4), shapes=[plate, *roots])
    builder.fixed("wrist", "world", "palm")
    fingers = _finger_zones(LENGTHS, BONE, THICKNESS, GAP, halfway, material, cells, "palm")
    attached = {}
    for name in FINGERS:
        knuckle = ends[name] @ translation(np.array([GAP, 0, 0]))
        _add_bones(builder, knuckle, f"{name}/", "palm", LENGTHS, BONE)
        part = _palm_zone(name, 0.0 if halfway else GAP, material, cells)
        attached[f"{name}/palm"] = Attached(part, "palm", strips[name])
        for own, (zone, bodies, pose) in fingers.items():
            place = knuckle if bodies[0] == "palm" else pose
            carriers = [body if body == "palm" else f"{name}/{body}" for body in bodies]
            attached[f"{name}/{own}"] = Attached(zone, carriers, place)
    mechanism = builder.build()
    return SoftMechanism(mechanism, Skin(mechanism, attached))


def _palm_strips() -> dict[str, Array]:
    """By finger: pose (4, 4) in the palm's frame of its part of the palm's pad, where that ceases to be flat."""
    names, middle = FINGERS[1:], 0.5 * (len(FINGERS) - 2)
    result = {name: translation(np.array([FLAT, WIDTH * (middle - i), 0])) for i, name in enumerate(names)}
    edge = [WRIST + THUMB_WIDTH / 2, 0.5 * WIDTH * len(names), 0]
    return {FINGERS[0]: pose_of(so3_exp(np.array([0, 0, np.pi / 2])), edge)} | result


def _curl_end(name: str) -> Array:
    """Pose (4, 4) of the end of a finger's part of the palm's pad in its own frame."""
    if name != FINGERS[0]:
        return translation(np.array([CURL, 0, 0]))
    return pose_of(so3_exp(np.array([0, 0, THUMB_TURN])), np.append(arc_end(THUMB_CURL, THUMB_TURN), 0))


def _palm_zone(name: str, beyond: float, material: Material, cells: Sequence[int]) -> Zone:
    """A finger's part of the palm's pad: a strip, bonded to its neighbours, that goes on as a pad by a length `beyond`
    (m). The thumb's part leaves the side of the index finger's."""
    thumb, around = name == FINGERS[0], cells[1]
    curl, width, turn = (THUMB_CURL, THUMB_WIDTH, THUMB_TURN) if thumb else (CURL, WIDTH, 0.0)
    along = [np.linspace(0, curl, _cells_along(cells, curl, LENGTHS[0]) + 1)]
    if beyond:
        along.append(curl + np.linspace(0, beyond, _cells_along(cells, beyond, LENGTHS[0]) + 1)[1:])
    if not thumb:
        start, side = WRIST - FLAT, WRIST - FLAT + THUMB_WIDTH
        front = np.linspace(side, 0, _cells_along(cells, -side, 2 * LENGTHS[0]) + 1)
        along = [np.linspace(start, side, around + 1), front[1:-1], *along]
    solid = curled_strip(
        np.concatenate(along), curl, width, bone=BONE, skin=BONE + THICKNESS, turn=turn, cells=tuple(cells[1:])
    )
    left = solid.groups["left"]
    if name == FINGERS[1]:
        left = left[: (around + 1) * (cells[2] + 1)]  # beside the thumb's part
    seams: list[Mark] = ["end", "start"] if thumb else ["end", left]
    if not thumb and name != FINGERS[-1]:
        seams.append("right")
    return Zone.from_solid(solid, material, bone="bone", seam=seams, touch="outer")


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
        capsule = _capsule(radius, np.eye(4), translation(np.array([length, 0, 0])))
        frame = place @ translation(start)
        inertia = (mass * radius**2 / 2, across, across)
        builder.body(prefix + name, frame, mass, (length / 2, 0, 0), inertia, [capsule])
        springs = {"limits": limits, "stiffness": STIFFNESS, "damping": DAMPING}
        builder.hinge(prefix + hinge, parent, prefix + name, at=frame[:3, 3], axis=frame[:3, 1], **springs)
        parent = prefix + name
        start = start + [length, 0, 0]


def _capsule(radius: float, start: Array, end: Array) -> Shape:
    """A capsule whose axis goes from the origin of a pose (4, 4) to that of another."""
    middle, axis = 0.5 * (start[:3, 3] + end[:3, 3]), end[:3, 3] - start[:3, 3]
    length = float(np.linalg.norm(axis))
    turn = rotation_between([0.0, 0, 1], axis / length)
    half = max(length / 2 - radius, radius / 10)
    return Shape("capsule", size=(radius, half), pose=pose_of(turn, middle))  # type: ignore[arg-type]


def _finger_zones(
    lengths: Sequence[float],
    bone: float,
    thickness: float,
    gap: float,
    halfway: bool,
    material: Material,
    cells: Sequence[int],
    root: str | None = None,
) -> dict[str, tuple[Zone, tuple[str, ...], Array]]:
    """By name: the zones of a finger, their bodies, and their poses (4, 4) in the frame of the first body.

    With the name of a body `root` the skin goes on there: the first pad has a seam at its start, and half-way zones
    include one across the knuckle. That one has no pose yet, it is the identity.
    """
    if halfway and not 0 < 2 * gap < min(lengths):
        raise MechanismError(f"the gap of {gap} m at each end of a bone must be positive and leave some of its length")
    inset = gap if halfway else 0.0
    skin = bone + thickness
    zones: dict[str, tuple[Zone, tuple[str, ...], Array]] = {}
    last = len(BONES) - 1
    before, place = root, np.eye(4)  # the body before a bone, and the joint in its frame
    for i, (name, length) in enumerate(zip(BONES, lengths, strict=True)):
        if halfway and before is not None:
            count = _cells_along(cells, 2 * gap, lengths[max(i - 1, 0)])
            solid = pad(2 * gap, bone=bone, skin=skin, start=-gap, cells=(count, *cells[1:]))
            ends = {side: np.intersect1d(solid.groups["bone"], solid.groups[side]) for side in ("start", "end")}
            zone = Zone.from_solid(solid, material, bone=ends, seam=["start", "end"], touch="outer")
            zones[HINGES[i]] = (zone, (before, name), place)
        first, end = inset if before is not None else 0.0, length - (inset if i < last else 0.0)
        count = _cells_along(cells, end - first, length)
        solid = pad(end - first, bone=bone, skin=skin, start=first, tip=i == last, cells=(count, *cells[1:]))
        seams = (["start"] if before is not None else []) + (["end"] if i < last else [])
        zones[name] = (Zone.from_solid(solid, material, bone="bone", seam=seams, touch="outer"), (name,), np.eye(4))
        before, place = name, translation(np.array([length, 0, 0]))
    return zones


def _cells_along(cells: Sequence[int], length: float, whole: float) -> int:
    """Number of hexahedra along a length, if there are `cells[0]` along the whole one."""
    return max(2, round(cells[0] * length / whole))
