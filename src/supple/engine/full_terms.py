"""Terms of the equations of rigid bodies and coordinates in a full simulation, and the states that they need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from supple import spatial
from supple.engine.assembly import Acting
from supple.mechanism.joint import Curve, Joint
from supple.mechanism.record import Array
from supple.spatial import skew

Places: TypeAlias = NDArray[np.intp]
"""Indices into a vector of unknowns."""


@dataclass(frozen=True, eq=False)
class FullLayout:
    """Places of the unknowns of a full simulation in a vector of them."""

    twists: Places
    """(bodies, 6)."""
    multipliers: Places
    """(joints, 6) of the joints that are not interfaces. In residuals their gaps."""
    coordinates: Places
    """(axes,) -1 for those of interface joints, which are not unknowns."""
    rows: Places
    """(rows,) multipliers of rows. In residuals their errors."""
    wrenches: tuple[Places, ...]
    """(frames, 6) of each flexible body: wrenches of its interface frames."""
    bodies: slice
    """All but these wrenches."""
    size: int
    """Number of unknowns."""

    @classmethod
    def of(cls, bodies: int, joints: int, moving: NDArray[np.bool_], rows: int, frames: Sequence[int]) -> FullLayout:
        """From the numbers of parts. `moving`: (axes,) whether a coordinate is an unknown."""
        counts = [6 * bodies, 6 * joints, int(moving.sum()), rows, *(6 * count for count in frames)]
        places = np.arange(sum(counts))
        twists, multipliers, coordinates, of_rows, *wrenches = np.split(places, np.cumsum(counts)[:-1])
        of_axes = np.full(len(moving), -1)
        of_axes[moving] = coordinates
        return cls(
            twists.reshape(-1, 6),
            multipliers.reshape(-1, 6),
            of_axes,
            of_rows,
            tuple(part.reshape(-1, 6) for part in wrenches),
            slice(0, sum(counts[:4])),
            len(places),
        )


@dataclass(frozen=True)
class Differences:
    """Backward differences of one time step: d/dt x = (c0 x + c1 x_n + c2 x_{n-1}) / h."""

    h: float
    c0: float
    c1: float
    c2: float

    @classmethod
    def of_order(cls, h: float, order: int) -> Differences:
        """Backward Euler (order 1) or BDF2."""
        return cls(h, 1.5, -2.0, 0.5) if order == 2 else cls(h, 1.0, -1.0, 0.0)

    @property
    def slope(self) -> float:
        """Derivative of the rate by the value at the end of the step, 1/s."""
        return self.c0 / self.h

    def rate(self, now: Any, past: Any, before: Any) -> Any:
        """The rate at the end of the step."""
        return (self.c0 * now + self.c1 * past + self.c2 * before) / self.h


@dataclass(frozen=True, eq=False)
class BodyState:
    """Bodies and coordinates at one time, with their rates."""

    poses: Array
    """(bodies, 4, 4)."""
    q: Array
    """(axes,) coordinates of every joint in the order of `mech.joints`; those of interface joints are not used."""
    reactions: Array
    """(joints, 6) multipliers of each joint, in its frame on the child; N and N m."""
    mu: Array
    """(rows,) N m or N."""
    active: tuple[int, ...]
    """For each row: 1 if it is an equality or at its upper limit, -1 at the lower limit, 0 if it is not touched."""
    velocities: Array
    """(bodies, 6) twists in body axes."""
    rates: Array
    """(axes,)."""
    momentum: Array
    """(bodies, 6) linear, and angular about the centre of mass, world axes."""
    lengths: Array
    """(springs,) lengths of the couplings with springs."""


@dataclass(frozen=True, eq=False)
class Instant:
    """A trial state at the end of a time step, with all that its forces depend on."""

    state: BodyState
    acting: Acting
    step: Differences | None
    """None in statics."""
    past: BodyState
    """The state at the start of the step."""
    before: BodyState
    """The state one step earlier."""


@dataclass(frozen=True)
class Row:
    """A rigid row: lower <= sum of coefficients times coordinates <= upper. A motor or rigid coupling (`equality`) has
    a target instead of these bounds."""

    name: str
    axes: tuple[int, ...]
    coefficients: Array
    lower: float
    upper: float
    equality: bool


@dataclass(frozen=True)
class CouplingSpring:
    """A spring on the sum of coefficients times coordinates."""

    name: str
    axes: tuple[int, ...]
    coefficients: Array
    stiffness: float
    damping: float
    curve: Curve | None


def inertia_wrench(
    b: int, mass: float, centre: Array, inertia: Array, instant: Instant, step: Differences
) -> tuple[Array, Array, Array, Array]:
    """Minus the rate of momentum as a wrench at the body's origin, its derivative by the body's twist, the body's twist
    and its momentum. Differences are those of the compiled engine: of the centre of mass and the momenta in world
    axes; the angular velocity is Jr(x) (c0 x - c2 x_0) / h with x = log(R_n^T R), x_0 = log(R_{n-1}^T R_n)."""
    state, past, before = instant.state, instant.past, instant.before
    R, R_past = state.poses[b, :3, :3], past.poses[b, :3, :3]
    Rt, c = R.T, step.slope
    at = [each.poses[b, :3, :3] @ centre + each.poses[b, :3, 3] for each in (state, past, before)]
    velocity = step.rate(*at)
    x = spatial.so3_log(R_past.T @ R)
    spin, turn = step.c0 * x, step.c0 * np.eye(3)
    if step.c2:
        last = spatial.so3_log(before.poses[b, :3, :3].T @ R_past)
        spin = spin - step.c2 * spatial.so3_right_jacobian(x) @ last
        turn = turn + step.c2 * spatial.so3_right_jacobian_directional(-x, last)  # d/dx Jr(x), Jr(x) = Jr(-x)^T
    spin = spin / step.h
    spin_derivative = turn @ spatial.so3_right_jacobian_inverse(x) / step.h
    momentum = np.concatenate([mass * velocity, R @ inertia @ spin])
    earlier = (step.c1 * past.momentum[b] + step.c2 * before.momentum[b]) / step.h
    force = -Rt @ (c * momentum[:3] + earlier[:3])
    earlier_torque = -Rt @ earlier[3:]
    wrench = at_origin(force, earlier_torque - c * inertia @ spin, centre)
    r = skew(centre)
    derivative = fixed_in_world(force, earlier_torque, centre)
    derivative -= mass * c * c * np.block([[np.eye(3), -r], [r, -r @ r]])
    derivative[3:, 3:] -= c * inertia @ spin_derivative
    return wrench, derivative, np.concatenate([Rt @ velocity - np.cross(spin, centre), spin]), momentum


def bracket_form(wrench: Array) -> Array:
    """(6, 6) N with x^T N y = wrench^T [x, y] for twists x, y and their Lie bracket."""
    result = np.zeros((6, 6))
    result[:3, 3:] = result[3:, :3] = -skew(wrench[:3])
    result[3:, 3:] = -skew(wrench[3:])
    return result


def at_origin(force: Array, torque: Array, point: Array) -> Array:
    """(6,) a wrench at `point` as a wrench at the body's origin."""
    return np.concatenate([force, torque + np.cross(point, force)])


def fixed_in_world(force: Array, torque: Array, point: Array) -> Array:
    """(6, 6) derivative by the body's twist of a wrench at `point` with fixed directions in the world, body axes."""
    result = np.zeros((6, 6))
    result[:3, 3:] = skew(force)
    result[3:, 3:] = skew(point) @ skew(force) + skew(torque)
    return result


def axis_torque(
    joint: Joint,
    block: slice,
    at: slice,
    instant: Instant,
) -> tuple[Array, Array, Array]:
    """Torque of spring, damper and armature of one block of a joint's axes, its derivative by the block's increments,
    and the rates. `block`: the axes in the joint, `at`: in arrays of all axes."""
    state, acting, step, past, before = instant.state, instant.acting, instant.step, instant.past, instant.before
    q = state.q[at]
    deflection = q - acting.rest[at]
    torque, slope = joint.stiffness[block] * deflection, np.diag(joint.stiffness[block])
    for i, curve in enumerate(joint.curves[block]):
        if curve is not None:
            torque[i] += curve(deflection[i])
            slope[i, i] += curve.slope(deflection[i])
    rates, turn = np.zeros(len(q)), np.eye(len(q))
    is_rotation = len(q) == 3
    if is_rotation:  # the torque Jr^-T y acts on the increment of R exp(increment)
        Ji = spatial.so3_right_jacobian_inverse(q)
        slope = (Ji.T @ slope + spatial.so3_right_jacobian_inverse_directional(q, torque)) @ Ji
        torque = Ji.T @ torque
    if step is not None:
        if is_rotation:
            Rt = spatial.so3_exp(past.q[at]).T
            x = spatial.so3_log(Rt @ spatial.so3_exp(q))
            rates = (step.c0 * x + step.c2 * spatial.so3_log(Rt @ spatial.so3_exp(before.q[at]))) / step.h
            turn = spatial.so3_right_jacobian_inverse(x)
        else:
            rates = step.rate(q, past.q[at], before.q[at])
        damping, armature = joint.damping[block], joint.armature[block]
        torque = torque + damping * rates + armature * step.rate(rates, past.rates[at], before.rates[at])
        slope = slope + (damping * step.slope + armature * step.slope**2)[:, None] * turn
    if is_rotation:
        slope = slope - 0.5 * skew(torque)
    return torque, slope, rates
