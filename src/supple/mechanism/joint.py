"""Joints: a sequence of axes between two bodies, each axis with spring, damper, limits and armature."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from supple import spatial
from supple.errors import MechanismError
from supple.mechanism.record import Array, Record, array, checked_name, checked_pose

if TYPE_CHECKING:
    from supple.elastic import InterfaceFrame


@dataclass(frozen=True, eq=False)
class Curve(Record):
    """A spring's restoring torque (N m, or N) against its deflection from rest (rad, or m).

    Between the points the curve is a monotone cubic (PCHIP), so its slope is continuous; beyond them it is a straight
    line.
    """

    deflection: Array
    """(n,), rising."""
    torque: Array
    """(n,); a restoring spring has a rising curve through (0, 0)."""

    def __post_init__(self) -> None:
        deflection = array(self.deflection, (-1,), "deflections of a spring curve")
        torque = array(self.torque, (-1,), "torques of a spring curve")
        if len(deflection) < 2 or len(deflection) != len(torque):
            raise MechanismError("a spring curve needs two or more points, and as many torques as deflections")
        if (np.diff(deflection) <= 0).any():
            raise MechanismError("deflections of a spring curve must rise from each point to the next")
        self._freeze(deflection=deflection, torque=torque)

    @cached_property
    def pieces(self) -> tuple[Array, Array]:
        """Breaks (m,) and coefficients (m, 4): on piece i, sum_k c[i, k] (x - breaks[i])^k.

        The first piece also covers everything to its left; the first and the last piece are straight lines.
        """
        from scipy.interpolate import PchipInterpolator

        cubic = PchipInterpolator(self.deflection, self.torque)
        ends = self.deflection[[0, -1]]
        end_pieces = [[value, slope, 0.0, 0.0] for value, slope in zip(cubic(ends), cubic(ends, 1), strict=True)]
        breaks = np.concatenate([ends[:1], self.deflection])
        return breaks, np.array([end_pieces[0], *cubic.c.T[:, ::-1], end_pieces[1]])

    def __call__(self, deflection: ArrayLike) -> Array:
        """Restoring torque at any deflections."""
        return self._evaluate(deflection, 0)

    def slope(self, deflection: ArrayLike) -> Array:
        """Stiffness, the derivative of the torque."""
        return self._evaluate(deflection, 1)

    def energy(self, deflection: ArrayLike) -> Array:
        """Stored energy, the integral of the torque from zero deflection, J."""
        return self._evaluate(deflection, -1) - self._evaluate(0.0, -1)

    def _evaluate(self, deflection: ArrayLike, derivative: int) -> Array:
        breaks, coefficients = self.pieces
        x = np.asarray(deflection, dtype=float)
        # pieces 0 and 1 start at the same break: everything to the left of it belongs to piece 0
        piece = np.searchsorted(breaks[1:], x, side="right")
        t = x - breaks[piece]
        c0, c1, c2, c3 = np.moveaxis(coefficients[piece], -1, 0)
        if derivative == 1:
            return np.asarray(c1 + t * (2 * c2 + t * 3 * c3))
        if derivative == 0:
            return np.asarray(c0 + t * (c1 + t * (c2 + t * c3)))
        energy_at_breaks = [0.0]
        for a, b, c in zip(breaks[1:-1], breaks[2:], coefficients[1:-1], strict=True):
            h = b - a
            energy_at_breaks.append(energy_at_breaks[-1] + h * (c[0] + h * (c[1] / 2 + h * (c[2] / 3 + h * c[3] / 4))))
        start = np.array([0.0, *energy_at_breaks])  # energy at the start of each piece
        return np.asarray(start[piece] + t * (c0 + t * (c1 / 2 + t * (c2 / 3 + t * c3 / 4))))


@dataclass(frozen=True, eq=False)
class Joint(Record):
    """Connects `child` to `parent`:  pose_child_body = pose_parent_body @ pose_parent @ X(q) @ inv(pose_child).

    X(q) is the product over the blocks, in order, of exp(sum of twist_i q_i over the block's axes). A block
    of one axis is a hinge, a slide or a screw; a block of three is a rotation vector (ball, free, bushing).
    k is the number of axes.
    """

    name: str
    parent: str
    """Name of a body, or "world"."""
    child: str
    """Name of a body, or "world"."""
    pose_parent: Array
    """(4, 4) from the joint's frame to the parent body's."""
    pose_child: Array
    """(4, 4) from the joint's frame to the child body's."""
    twists: Array = ()  # type: ignore[assignment]
    """(k, 6) linear then angular, in the joint's frame; a unit axis (or metres per radian for a screw)."""
    blocks: tuple[int, ...] = ()
    """Numbers of axes that share an exponential: 1, or 3 for a rotation vector about the joint's origin."""
    axes: tuple[str, ...] = ()
    """(k,) names of the coordinates, unique in the mechanism; by default the joint's own name for one axis,
    and name.0, name.1 ... for several."""
    stiffness: Array = None  # type: ignore[assignment]
    """(k,) N m/rad or N/m, of a linear spring about `rest`."""
    damping: Array = None  # type: ignore[assignment]
    """(k,) N m s/rad or N s/m; for a rotation vector it acts on the angular velocity."""
    rest: Array = None  # type: ignore[assignment]
    """(k,) rad or m: coordinates at which the springs are unloaded; by default the reference."""
    limits: Array = None  # type: ignore[assignment]
    """(k, 2) lower and upper limit, rad or m; infinite where there is none."""
    armature: Array = None  # type: ignore[assignment]
    """(k,) kg m^2 or kg: rotor inertia of the drive, acting on the coordinate's rate (for a rotation vector, on the
    angular velocity)."""
    reference: Array = None  # type: ignore[assignment]
    """(k,) rad or m: the coordinates at the bodies' reference poses."""
    curves: tuple[Curve | None, ...] = ()
    """(k,) restoring torques as curves of (q - rest), added to those of the linear springs; None for no curve."""
    effort: Array = None  # type: ignore[assignment]
    """(k,) N m or N: largest torque of the drive in either direction (URDF's effort, MJCF's actuatorfrcrange); infinite
    where there is no limit. Torques of actuators and of `Simulation.set_torque` saturate there."""
    speed: Array = None  # type: ignore[assignment]
    """(k,) rad/s or m/s: largest speed of the drive (URDF's velocity); infinite where there is no limit. Nothing in a
    simulation enforces it; `mech.speed_limits` gives it to `supple.retarget`."""
    interface: InterfaceFrame | None = None
    """If given, the joint belongs to a flexible body: X(q) is the frame of an interface and q are the modal amplitudes,
    m. `twists` is then its Jacobian at q = 0."""

    def __post_init__(self) -> None:
        what = f"joint '{checked_name(self.name, 'a joint')}'"
        if self.parent == self.child:
            raise MechanismError(f"{what} connects '{self.child}' to itself; a joint needs two different bodies")
        twists = array(self.twists if len(self.twists) else np.zeros((0, 6)), (-1, 6), f"axes of {what}")
        k = len(twists)
        reference = self._per_axis("reference", 0.0, k)
        self._freeze(
            pose_parent=checked_pose(self.pose_parent, f"frame of {what} on '{self.parent}'"),
            pose_child=checked_pose(self.pose_child, f"frame of {what} on '{self.child}'"),
            twists=twists,
            blocks=tuple(self.blocks) or (1,) * k,
            axes=tuple(self.axes) or ((self.name,) if k == 1 else tuple(f"{self.name}.{i}" for i in range(k))),
            stiffness=self._per_axis("stiffness", 0.0, k),
            damping=self._per_axis("damping", 0.0, k),
            rest=self._per_axis("rest", reference, k),
            limits=self._limits(k),
            armature=self._per_axis("armature", 0.0, k),
            reference=reference,
            curves=tuple(self.curves) or (None,) * k,
            effort=self._per_axis("effort", np.inf, k, infinite=True),
            speed=self._per_axis("speed", np.inf, k, infinite=True),
        )
        self._check(what, k)

    def _per_axis(self, field: str, default: ArrayLike, k: int, infinite: bool = False) -> Array:
        value = getattr(self, field)
        value = default if value is None else value
        if np.ndim(value) == 0 and not isinstance(value, str):
            value = np.full(k, value)
        return array(value, (k,), f"{field} of joint '{self.name}' ({k} axes)", infinite=infinite)

    def _limits(self, k: int) -> Array:
        value = (-np.inf, np.inf) if self.limits is None else self.limits
        if np.ndim(value) == 1 and len(value) == 2:
            value = np.tile(np.asarray(value), (k, 1))
        return array(value, (k, 2), f"limits of joint '{self.name}' ({k} axes)", infinite=True)

    def _check(self, what: str, k: int) -> None:
        if len(self.axes) != k or len(self.curves) != k or sum(self.blocks) != k:
            raise MechanismError(f"{what} has {k} axes; its names, curves and blocks must add up to as many")
        if any(not isinstance(n, int) or n not in (1, 3) for n in self.blocks):
            raise MechanismError(f"blocks of {what} must be 1 (one axis) or 3 (a rotation vector), got {self.blocks}")
        for field in ("stiffness", "damping", "armature", "effort", "speed"):
            if (getattr(self, field) < 0).any():
                raise MechanismError(f"{field} of {what} must not be negative, got {getattr(self, field).tolist()}")
        for name in self.axes:
            checked_name(name, f"a coordinate of {what}")
        for name, (lower, upper) in zip(self.axes, self.limits, strict=True):
            if lower > upper or lower == np.inf or upper == -np.inf:
                raise MechanismError(f"limits of '{name}' are upside down: lower {lower:g} above upper {upper:g}")
        if self.interface is not None:
            if self.interface.size != k or set(self.blocks) - {1}:
                raise MechanismError(f"{what} has {k} axes, its interface has {self.interface.size} coordinates")
            return
        start = 0
        for size in self.blocks:
            block = self.twists[start : start + size]
            if size == 1:
                self._check_axis(block[0], what)
            elif block[:, :3].any() or not _is_right_handed(block[:, 3:]):
                raise MechanismError(
                    f"{what}: a block of three axes must be three perpendicular unit rotations, right-handed"
                )
            elif np.isfinite(self.limits[start : start + size]).any():
                raise MechanismError(f"{what}: a rotation vector takes no limits; use a sequence of single axes")
            start += size

    def _check_axis(self, twist: Array, what: str) -> None:
        size = np.linalg.norm(twist[3:]) or np.linalg.norm(twist[:3])
        if not abs(size - 1) <= 1e-9:
            raise MechanismError(f"{what} has an axis of length {size:g}; axes are unit vectors")

    @property
    def kind(self) -> str:
        """Common name: fixed, hinge, slide, screw, cylindrical, universal, ball, planar, free, bushing, interface (of a
        flexible body), or `axes` for any other sequence of axes."""
        if self.interface is not None:
            return "interface"
        letters = "".join(_axis_letter(t) for t in self.twists)
        turns, slides = self.twists[:, 3:], self.twists[:, :3]
        match letters, self.blocks:
            case "", _:
                return "fixed"
            case ("r", _) | ("p", _) | ("s", _):
                return {"r": "hinge", "p": "slide", "s": "screw"}[letters]
            case "rrr", (3,):
                return "ball"
            case "ppprrr", (1, 1, 1, 3):
                sprung = self.stiffness.any() or self.damping.any() or any(self.curves)
                return "bushing" if sprung or np.isfinite(self.limits).any() else "free"
            case (("rp" | "pr"), _) if np.allclose(np.abs((turns.sum(0) * slides.sum(0)).sum()), 1):
                return "cylindrical"
            case "rr", _ if abs(turns[0] @ turns[1]) < 1e-9 and np.abs(slides).max() == 0:
                return "universal"
            case "ppr", _ if np.abs(slides[:2] @ turns[2]).max() < 1e-9:
                return "planar"
        return "axes"

    @cached_property
    def _is_plainly_free(self) -> bool:
        """Whether the coordinates are a position, then a rotation vector, along the axes of the joint's frame."""
        return self.interface is None and self.blocks == (1, 1, 1, 3) and np.array_equal(self.twists, np.eye(6))

    def displacement(self, q: ArrayLike) -> Array:
        """X(q): (..., 4, 4) from the joint's frame on the child to the joint's frame on the parent."""
        q = np.asarray(q, dtype=float)
        if self.interface is not None:
            poses = [self.interface.pose(each) for each in q.reshape(-1, q.shape[-1])]
            return np.array(poses).reshape(*q.shape[:-1], 4, 4)
        result = np.broadcast_to(np.eye(4), (*q.shape[:-1], 4, 4))
        start = 0
        for size in self.blocks:
            part = slice(start, start + size)
            result = result @ spatial.exp(q[..., part] @ self.twists[part])
            start += size
        return result

    def twist_jacobian(self, q: ArrayLike) -> Array:
        """(..., 6, k): body twist of X(q), in the joint's frame on the child, per unit rate of q."""
        q = np.asarray(q, dtype=float)
        if self.interface is not None:
            motions = [self.interface.motion(each).jacobian for each in q.reshape(-1, q.shape[-1])]
            return np.array(motions).reshape(*q.shape[:-1], 6, q.shape[-1])
        if self._is_plainly_free:
            jacobian = np.zeros((*q.shape[:-1], 6, 6))
            jacobian[..., :3, :3] = np.swapaxes(spatial.so3_exp(q[..., 3:]), -1, -2)
            jacobian[..., 3:, 3:] = spatial.so3_right_jacobian(q[..., 3:])
            return jacobian
        return twist_jacobian(self.twists, self.blocks, q)

    def increments(self, q: ArrayLike) -> Array:
        """(k, k): Jacobian of the engine's increments with respect to q.

        The engine updates a rotation vector as R <- R exp(increment), so its block is the right Jacobian of SO(3);
        other axes have increment = change of q.
        """
        q = np.asarray(q, dtype=float)
        result = np.eye(len(q))
        start = 0
        for size in self.blocks:
            if size == 3:
                part = slice(start, start + 3)
                result[part, part] = spatial.so3_right_jacobian(q[part])
            start += size
        return result

    def coordinates(self, displacement: Array, start: ArrayLike | None = None) -> tuple[Array, Array]:
        """Coordinates q (k,) whose X(q) is nearest to a (4, 4) displacement, and the remaining twist (6,).

        Gauss-Newton from `start` (by default the reference), so a hinge keeps its number of turns.
        """
        q = np.array(self.reference if start is None else start, dtype=float)
        if self._is_plainly_free and np.abs(q[3:]).max() == 0:
            return np.concatenate([displacement[:3, 3], spatial.so3_log(displacement[:3, :3])]), np.zeros(6)
        for _ in range(50):
            remainder = spatial.log(spatial.inverse(self.displacement(q)) @ displacement)
            step = np.linalg.lstsq(self.twist_jacobian(q), remainder, rcond=None)[0] if len(q) else q
            q = q + step
            if np.abs(step).max(initial=0.0) < 1e-14:
                break
        return q, spatial.log(spatial.inverse(self.displacement(q)) @ displacement)


def twist_jacobian(twists: Array, blocks: tuple[int, ...], q: Array) -> Array:
    """(..., 6, k): body twists of X(q), in the joints' frames on their children, per unit rate of q (..., k), of joints
    with the same blocks and twists (..., k, 6)."""
    columns = np.zeros((*q.shape[:-1], 6, q.shape[-1]))
    after = np.broadcast_to(np.eye(4), (*q.shape[:-1], 4, 4))  # from the child's joint frame to the block's end
    start = q.shape[-1]
    for size in reversed(blocks):
        part = slice(start - size, start)
        own = np.swapaxes(twists[..., part, :], -1, -2)
        xi = (own @ q[..., part, None])[..., 0]
        if size > 1:  # the twist of a single axis is constant
            own = spatial.right_jacobian(xi) @ own
        columns[..., part] = spatial.adjoint(spatial.inverse(after)) @ own
        start -= size
        if start:
            after = spatial.exp(xi) @ after
    return columns


def _is_right_handed(axes: Array) -> bool:
    return bool(np.abs(axes @ axes.T - np.eye(3)).max() <= 1e-9) and bool(np.linalg.det(axes) > 0)


def _axis_letter(twist: Array) -> str:
    """r for a pure rotation (about any point), p for a translation, s for a screw."""
    if not twist[3:].any():
        return "p"
    return "s" if abs(twist[:3] @ twist[3:]) > 1e-12 else "r"
