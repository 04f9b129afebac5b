"""Derivatives of the tangent K at a state: by the state, along one direction, and by parameters.

Vectors are those of the unknowns (`Layout`). Only coordinates, multipliers of loops and multipliers of rows are
independent: the bodies' twists follow from the coordinates, T y, and the reactions of the tree from the balance. With
the twists eliminated the tangent is T^T K T.

The equations have exact first derivatives. Second derivatives are central differences of these of fourth order, along a
single direction; their relative error is about 1e-11.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from supple import _core, spatial
from supple.engine.linearisation import Linearisation
from supple.mechanism import Curve
from supple.mechanism.kinematics import inertias
from supple.mechanism.parameters import Parameter
from supple.mechanism.record import Array

STEP = 2e-4
"""Largest motion of a coordinate between the states of a difference, rad or radii."""
STENCIL = ((1.0, 8.0), (-1.0, -8.0), (2.0, -1.0), (-2.0, 1.0))
"""Places and weights, over 12, of a difference of fourth order."""


class Tangent:
    """The tangent in its independent unknowns: that of a linearisation, or `core`, that of a state near it."""

    def __init__(self, linear: Linearisation, gravity: Array, core: _core.TangentEvaluation | None = None) -> None:
        self.linear, self.layout, self.gravity = linear, linear.layout, gravity
        self.core = linear.core if core is None else core

    @cached_property
    def jacobian(self) -> Array:
        """(axes, bodies, 6) twists of the bodies per increment of a coordinate."""
        jacobian: Array = self.core.jacobian()
        return jacobian

    def twists(self, y: Array) -> Array:
        """T y (bodies, 6)."""
        twists: Array = np.tensordot(y[self.layout.coordinates], self.jacobian, axes=1)
        return twists

    def wrenches_on_coordinates(self, wrenches: Array) -> Array:
        """T^T w (unknowns,) of wrenches (bodies, 6) in body frames."""
        result = np.zeros(self.layout.size)
        result[self.layout.coordinates] = np.tensordot(self.jacobian, wrenches, axes=2)
        return result

    def independent(self, y: Array) -> Array:
        """y without what follows from its independent part."""
        result = y.copy()
        result[self.layout.twists] = 0.0
        for j in self.linear.mechanism.topology.tree:
            result[self.layout.multipliers[j]] = 0.0
        return result

    def product(self, y: Array, transposed: bool) -> Array:
        """T^T K T y, or T^T K^T T y."""
        full: Array = self.core.multiply(self.core.carry(self.independent(y)), transposed)
        return self.independent(full) + self.wrenches_on_coordinates(full[self.layout.twists].reshape(-1, 6))

    @cached_property
    def balls(self) -> list[Array]:
        """(3,) places of each rotation vector's increments."""
        places, start = [], 0
        for joint in self.linear.mechanism.joints:
            for size in joint.blocks:
                if size == 3:
                    places.append(self.layout.coordinates[start : start + 3])
                start += size
        return places

    def bracket(self, a: Array, b: Array) -> Array:
        """(unknowns,) Lie bracket of two directions: the cross product in rotation vectors, zero elsewhere."""
        result = np.zeros(self.layout.size)
        for place in self.balls:
            result[place] = np.cross(a[place], b[place])
        return result

    def along(self, z: Array) -> Direction:
        """The states near this one in the direction z."""
        coordinates = self.layout.coordinates
        radius = self.linear.mechanism.radius or 1.0
        turning = [np.abs(j.twists[:, 3:]).max(axis=1, initial=0.0) > 0 for j in self.linear.mechanism.joints]
        lengths = np.where(np.concatenate([np.zeros(0, dtype=bool), *turning]), 1.0, radius)
        size = float((np.abs(z[coordinates]) / lengths).max(initial=0.0)) or float(np.abs(z).max(initial=0.0)) or 1.0
        step = STEP / size
        moved = np.ascontiguousarray(z)
        near = [Tangent(self.linear, self.gravity, self.core.moved(moved, place * step)) for place, _ in STENCIL]
        return Direction(self, z, near, [weight / (12 * step) for _, weight in STENCIL])


@dataclass
class Direction:
    """A direction z in which the state moves, for derivatives D_z."""

    at: Tangent
    z: Array
    near: list[Tangent]
    weights: list[float]

    def twist_slope(self, y: Array) -> Array:
        """D_z (T y), (bodies, 6), for a fixed y."""
        return sum((w * t.twists(y) for w, t in zip(self.weights, self.near, strict=True)), np.zeros((1, 1)))

    def tangent_slope(self, y: Array) -> Array:
        """D_z (K y), (unknowns,), for a fixed y."""
        return sum((w * t.product(y, False) for w, t in zip(self.weights, self.near, strict=True)), np.zeros(1))

    def by_state(self, y: Array) -> Array:
        """(unknowns,) gradient of y^T K z with respect to the state x, for fixed y and z: D_eta (y^T K z) for all eta.

        Derivatives in two directions commute up to the Lie bracket of rotation vectors:
            D_eta y^T K z = D_z y^T K eta + y^T K [eta, z] + ([eta, y]^T K z + [y, z]^T K eta) / 2
        """
        at, z = self.at, self.z
        result = np.zeros(at.layout.size)
        for weight, tangent in zip(self.weights, self.near, strict=True):
            result += weight * tangent.product(y, True)
        if not at.balls:
            return result
        left, right = at.product(y, True), at.product(z, False)
        result += at.bracket(z, left) + 0.5 * at.bracket(y, right)
        return result + 0.5 * at.product(at.bracket(y, z), True)

    def twists_by_state(self, wrenches: Array) -> Array:
        """(unknowns,) gradient of w^T T z with respect to the state, for fixed z and wrenches w (bodies, 6).

        With t = T z:  D_eta (T z) = D_z (T eta) + T [eta, z] - [T eta, t].
        """
        at, z = self.at, self.z
        result = np.zeros(at.layout.size)
        for weight, tangent in zip(self.weights, self.near, strict=True):
            result += weight * tangent.wrenches_on_coordinates(wrenches)
        result += at.bracket(z, at.wrenches_on_coordinates(wrenches))
        turned = np.einsum("bji,bj->bi", spatial.ad(at.twists(z)), wrenches)
        return result + at.wrenches_on_coordinates(turned)

    def mass_by_state(self) -> Array:
        """(unknowns,) gradient of z^T T^T M T z with respect to the state, for a fixed z."""
        momenta = np.einsum("bij,bj->bi", inertias(self.at.linear.mechanism), self.at.twists(self.z))
        return 2 * self.twists_by_state(momenta)


class ByParameter:
    """Derivatives of the equations F = 0, of the tangent and of the mass by one parameter, at a fixed state."""

    def __init__(self, at: Tangent, parameter: Parameter) -> None:
        self.at, self.parameter = at, parameter
        linear, mech = at.linear, at.linear.mechanism
        self.eqs, self.gravity = linear.equations, at.gravity
        self.own: Array | None = None
        """Coefficients (unknowns,) of the coordinate or length on which a spring acts."""
        self.torque, self.slope, self.row = 0.0, 0.0, None
        p = parameter
        if p.part == "joint":
            joint = mech.joints[p.index]
            axis = self.eqs.axis[joint.axes[p.axis]]
            self.axis, self.own = axis, _unit(at, [axis], np.ones(1))
            deflection = linear.q[axis] - linear.acting.rest[axis]
            self._spring(deflection, float(joint.stiffness[p.axis]), joint.curves[p.axis])
        elif p.part == "coupling":
            coupling = mech.couplings[p.index]
            self.axis = -1
            if coupling.rigid:
                self.row = self.eqs.row[coupling.name]
            else:
                axes = [self.eqs.axis[name] for name in coupling.coordinates]
                self.own = _unit(at, axes, coupling.coefficients)
                stretch = float(coupling.coefficients @ linear.q[axes]) - linear.acting.targets[coupling.name]
                self._spring(stretch, coupling.stiffness, coupling.curve)
        elif p.part == "motor":
            self.row = self.eqs.row[mech.motors[p.index].name]
        else:
            self.body = p.index
            self.point = np.array(p.point) if p.part == "payload" else mech.bodies[p.index].centre

    def _spring(self, deflection: float, stiffness: float, curve: Curve | None) -> None:
        """Changes of the spring's torque and slope."""
        if self.parameter.field == "stiffness":
            self.torque, self.slope = deflection, 1.0
        elif self.parameter.field == "rest":
            self.torque = -stiffness - (0.0 if curve is None else float(curve.slope(deflection)))
            self.slope = 0.0 if curve is None else -_second_slope(curve, deflection)

    @property
    def _is_mass(self) -> bool:
        return self.parameter.part in ("body", "payload")

    @cached_property
    def _ball(self) -> tuple[Array, int] | None:
        """Places (3,) of the rotation vector that a joint's axis belongs to, and the axis in it."""
        if self.parameter.part == "joint":
            place = self.at.layout.coordinates[self.axis]
            for ball in self.at.balls:
                if place in ball:
                    return ball, list(ball).index(place)
        return None

    @cached_property
    def _weight(self) -> Array:
        """(6,) weight of a unit mass at the point, as a wrench in the body's frame."""
        down = self.at.linear.poses.array[self.body][:3, :3].T @ self.gravity
        return np.concatenate([down, np.cross(self.point, down)])

    @cached_property
    def force(self) -> Array:
        """(unknowns,) derivative of F, independent part."""
        at, result = self.at, np.zeros(self.at.layout.size)
        if self._is_mass:
            wrenches = np.zeros((len(at.linear.mechanism.bodies), 6))
            wrenches[self.body] = -self._weight
            return at.wrenches_on_coordinates(wrenches)
        if self.row is not None:
            result[at.layout.rows][self.row] = -1.0
        elif self._ball is not None:
            ball, i = self._ball
            r = at.linear.q[self.axis - i : self.axis - i + 3]
            result[ball] = spatial.so3_right_jacobian_inverse(r)[i] * self.torque  # Jr^-T e_i
        elif self.own is not None:
            result = self.torque * self.own
        return result

    def stiffness(self, y: Array, direction: Direction | None, z: Array) -> float:
        """y^T (dK/dp) z. `direction` is that of z; without it there are no loads and no gravity."""
        if self._is_mass:
            return self._weight_stiffness(y, direction) if direction is not None and self.gravity.any() else 0.0
        if self.own is None:
            return 0.0
        if self._ball is None:
            return self.slope * float(self.own @ y) * float(self.own @ z)
        ball, i = self._ball
        r, unit = self.at.linear.q[self.axis - i : self.axis - i + 3], np.eye(3)[i]
        inverse = spatial.so3_right_jacobian_inverse(r)
        block = inverse.T @ np.outer(self.slope * unit, unit) @ inverse
        block += spatial.so3_right_jacobian_inverse_directional(r, self.torque * unit) @ inverse
        block -= 0.5 * spatial.skew(inverse.T @ (self.torque * unit))
        return float(y[ball] @ block @ z[ball])

    def _weight_stiffness(self, y: Array, direction: Direction) -> float:
        """With the weight w of a unit mass:  -D_z (w^T T y) - w^T T [y, z] / 2."""
        at, z, b = self.at, direction.z, self.body
        spin = at.twists(z)[b][3:]
        change = np.cross(self._weight[:3], spin)
        change = np.concatenate([change, np.cross(self.point, change)])
        result = -change @ at.twists(y)[b] - self._weight @ direction.twist_slope(y)[b]
        return float(result - 0.5 * (self._weight @ at.twists(at.bracket(y, z))[b]))

    def mass(self, z: Array) -> float:
        """z^T T^T (dM/dp) T z."""
        if self.parameter.field == "armature":
            return float(z[self.at.layout.coordinates[self.axis]] ** 2)
        if not self._is_mass:
            return 0.0
        twist = self.at.twists(z)[self.body]
        moved = twist[:3] + np.cross(twist[3:], self.point)
        return float(moved @ moved)


def _unit(at: Tangent, axes: list[int], coefficients: Array) -> Array:
    result = np.zeros(at.layout.size)
    result[at.layout.coordinates[axes]] = coefficients
    return result


def _second_slope(curve: Curve, deflection: float) -> float:
    breaks, coefficients = curve.pieces
    piece = int(np.searchsorted(breaks[1:], deflection, side="right"))
    _, _, quadratic, cubic = coefficients[piece]
    return float(2 * quadratic + 6 * cubic * (deflection - breaks[piece]))
