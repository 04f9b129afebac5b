"""Derivatives of compliances, equilibrium poses and natural frequencies with respect to a mechanism's parameters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from supple import spatial
from supple.engine.curvature import ByParameter, Direction, Tangent
from supple.engine.linearisation import Linearisation, check_held, check_loops_closed, linearised
from supple.engine.modes import modes
from supple.engine.stability import has_potential
from supple.errors import MechanismError
from supple.mechanism import Mechanism
from supple.mechanism.axes import per_axis
from supple.mechanism.flexible import refuse_flexible
from supple.mechanism.kinematics import inertias
from supple.mechanism.mechanism import check_mechanism
from supple.mechanism.parameters import Parameter, Parameters
from supple.mechanism.record import Array, array

if TYPE_CHECKING:
    from supple.engine.statics import Equilibrium

AXES = ("world", "body")


def gradient(
    mech: Mechanism,
    *,
    at: Equilibrium | None = None,
    poses: Mapping[str, ArrayLike] | None = None,
    compliance: Mapping[str, ArrayLike] | None = None,
    frequencies: ArrayLike | None = None,
    axes: str = "world",
    parameters: Iterable[str] | str | None = None,
) -> dict[str, float]:
    """Derivatives of a scalar with respect to parameters of a mechanism, by the adjoint: one transposed solve.

    The scalar is any function of poses, compliances and natural frequencies at an equilibrium. You give its gradient
    with respect to those.

    Args:
        mech: the mechanism.
        at: the equilibrium; its own dependence on the parameters is included. Without it the derivatives are those at
            the reference pose, which is treated as an equilibrium that does not move.
        poses: {body or site: (6,)} gradient with respect to its pose: the product with a small displacement, linear
            (m) then angular (rad), at the origin of the body or site is the change of the scalar.
        compliance: {body or site: (6, 6)} gradient with respect to its compliance, `ReducedModel.compliance_at`.
        frequencies: (k,) gradient with respect to the k lowest natural frequencies, Hz, as in `supple.modes`. A
            frequency that occurs twice has no gradient. The loads of `at` must have a potential.
        axes: "world" or "body", the axes of `poses` and `compliance`.
        parameters: names as in `mech.parameters` or "tip.payload"; by default all of `mech.parameters`.

    Returns:
        The derivative by the name of each parameter.

    Raises:
        MechanismError: a name is not known, an array has the wrong shape or is not finite, a loop is open at the
            reference pose, or frequencies are asked for under loads without a potential (torques, follower loads).
    """
    check_mechanism(mech)
    refuse_flexible(mech.flexible, "the gradient of statics", "take differences of supple.equilibrium")
    if axes not in AXES:
        raise MechanismError(f"axes must be 'world' or 'body', got {axes!r}")
    if poses is None and compliance is None and frequencies is None:
        raise MechanismError("give the gradient of your scalar: poses=, compliance= or frequencies=")
    wanted = chosen_parameters(mech, parameters)
    if at is None:
        check_loops_closed(mech)
    linear = linearised(mech, at)
    check_held(linear, "" if at is not None else "supple.gradient")
    terms = Terms(linear, at)
    for name, given in (poses or {}).items():
        terms.add_pose(name, array(given, (6,), f"poses['{name}']"), axes)
    for name, given in (compliance or {}).items():
        terms.add_compliance(name, array(given, (6, 6), f"compliance['{name}']"), axes)
    if frequencies is not None:
        terms.add_frequencies(array(frequencies, (-1,), "frequencies"))
    return terms.gradient(wanted)


def chosen_parameters(mech: Mechanism, names: Iterable[str] | str | None) -> list[Parameter]:
    """The parameters of these names, or all."""
    parameters = Parameters(mech)
    if names is None:
        return list(parameters.all.values())
    return [parameters.find(name) for name in ([names] if isinstance(names, str) else names)]


@dataclass(frozen=True)
class _Pair:
    """A term  weight y^T K z  of the scalar, for fixed y and z."""

    weight: float
    y: Array
    z: Array
    direction: Direction | None


@dataclass(frozen=True)
class _Inertia:
    """A term  weight z^T M z  of the scalar, for a fixed z."""

    weight: float
    z: Array


class Terms:
    """A scalar's change as a sum: forms y^T dK z of the tangent, forms z^T dM z of the mass, and displacements."""

    def __init__(self, linear: Linearisation, equilibrium: Equilibrium | None) -> None:
        gravity = np.zeros(3) if equilibrium is None else equilibrium.acting.gravity
        self.linear, self.at = linear, Tangent(linear, gravity)
        self.equilibrium, self.moves = equilibrium, equilibrium is not None
        """Whether the state depends on the parameters: false at the reference pose."""
        self.by_state = np.zeros(linear.layout.size)
        """(unknowns,) gradient with respect to the state."""
        self.pairs: list[_Pair] = []
        self.inertia: list[_Inertia] = []

    def add_pose(self, name: str, wrench: Array, axes: str = "body") -> None:
        """Adds wrench (6,) times the displacement of a body or site."""
        body, pose = frame_of(self.linear.mechanism, name)
        if axes == "world":
            wrench = self._to_world_axes(name).T @ wrench
        self.by_state[self.linear.layout.twist(body)] += spatial.adjoint(spatial.inverse(pose)).T @ wrench

    def add_compliance(self, name: str, weights: Array, axes: str) -> None:
        """Adds the sum of weights (6, 6) times the change of a compliance S^T T K^-1 T^T S.

        With K z_j = T^T S_j and K^T y_i = T^T S_i it changes by  S_i^T dT z_j + S_j^T dT y_i - y_i^T dK z_j.
        """
        forces = unit_wrenches(self.linear, [name])
        z, y = self.linear.solve(forces), self.linear.solve_transposed(forces)
        if axes == "world":  # C_world = Q C Q^T, dQ = Q [w]
            turn = self._to_world_axes(name)
            weights = turn.T @ weights @ turn
            found = forces @ z.T
            turned = weights @ found.T + weights.T @ found
            skew = turned[:3, :3] + turned[3:, 3:]
            self.add_pose(name, np.array([0, 0, 0, *spatial.unskew(skew - skew.T)]))
        for responses, others, given in ((z, y, weights.T), (y, None, weights)):
            for response, row in zip(responses, given, strict=True):
                if row.any():
                    self._add_response(response, row @ forces, None if others is None else row @ others)

    def _add_response(self, z: Array, force: Array, y: Array | None) -> None:
        """Adds  force^T dT z, and  -y^T dK z  if there is a y."""
        direction = self.at.along(self.at.independent(z)) if self.moves else None
        if direction is not None:
            self.by_state += direction.twists_by_state(force[self.linear.layout.twists].reshape(-1, 6))
        if y is not None:
            self.add_pair(-1.0, y, z, direction)

    def add_frequencies(self, weights: Array) -> None:
        """Adds weights (k,) times the changes of the lowest frequencies f: d(w^2) = u^T (dK - w^2 dM) u, w = 2 pi f."""
        mech = self.linear.mechanism
        if self.equilibrium is not None and not has_potential(mech, self.equilibrium.loads):
            raise MechanismError(
                f"the loads on '{mech.name}' have no potential, so its stiffness is not symmetric; derivatives of "
                "frequencies need loads with a potential (forces fixed in the world)"
            )
        found = modes(mech, self.equilibrium)
        if len(weights) > len(found.frequencies):
            raise MechanismError(f"'{mech.name}' has {len(found.frequencies)} frequencies, not {len(weights)}")
        for i, weight in enumerate(weights.tolist()):
            frequency = float(found.frequencies[i])
            if weight == 0:
                continue
            if frequency == 0:
                raise MechanismError(f"frequency {i} of '{mech.name}' is zero, where it has no derivative")
            square = np.sign(frequency) * (2 * np.pi * frequency) ** 2
            u = self._with_multipliers(found.shapes[i], square)
            scale = weight / (8 * np.pi**2 * abs(frequency))
            direction = self.at.along(u) if self.moves else None
            self.add_pair(scale, u, u, direction)
            self.inertia.append(_Inertia(-scale * square, u))
            if direction is not None:
                self.by_state -= scale * square * direction.mass_by_state()

    def add_pair(self, weight: float, y: Array, z: Array, direction: Direction | None) -> None:
        """Adds  weight y^T dK z; `direction` is that of z."""
        self.pairs.append(_Pair(weight, self.at.independent(y), self.at.independent(z), direction))
        if direction is not None:
            self.by_state += weight * direction.by_state(self.pairs[-1].y)

    def gradient(self, parameters: list[Parameter]) -> dict[str, float]:
        """Derivatives by the names of parameters:  dF/dp = -K dx/dp, so  s^T dx/dp = -(K^-T s)^T dF/dp."""
        adjoint = None
        if self.moves and self.by_state.any():
            adjoint = self.at.independent(self.linear.solve_transposed(self.by_state[None])[0])
        result = {}
        for parameter in parameters:
            by = ByParameter(self.at, parameter)
            value = sum(pair.weight * by.stiffness(pair.y, pair.direction, pair.z) for pair in self.pairs)
            value += sum(each.weight * by.mass(each.z) for each in self.inertia)
            if adjoint is not None:
                value -= float(adjoint @ by.force)
            result[parameter.name] = float(value)
        return result

    def _to_world_axes(self, name: str) -> Array:
        """(6, 6) from the axes of a body or site to world axes."""
        rotation, turn = self.linear.poses[name][:3, :3], np.zeros((6, 6))
        turn[:3, :3] = turn[3:, 3:] = rotation
        return turn

    def _with_multipliers(self, shape: Array, square: float) -> Array:
        """(unknowns,) a mode shape with its multipliers: K u + G^T l = w^2 M u."""
        linear, layout = self.linear, self.linear.layout
        u = np.zeros(layout.size)
        u[layout.coordinates] = shape
        u = linear.core.carry(u)
        mech = linear.mechanism
        rhs = np.zeros(layout.size)
        forces = (linear.core.multiply(u, False) + linear.core.multiply(u, True)) / 2
        momenta = np.einsum("bij,bj->bi", inertias(mech), u[layout.twists].reshape(-1, 6))
        rhs[layout.twists] = square * momenta.ravel() - forces[layout.twists]
        armature = per_axis(mech, "armature") * shape
        rhs[layout.coordinates] = square * armature - forces[layout.coordinates]
        multipliers = linear.solve(rhs[None])[0]
        multipliers[layout.coordinates] = 0.0
        combined: Array = self.at.independent(u + multipliers)
        return combined


class ByOneParameter:
    """How an equilibrium, its compliances and frequencies change with one parameter."""

    def __init__(self, linear: Linearisation, equilibrium: Equilibrium | None, name: str) -> None:
        parameter = Parameters(linear.mechanism).find(name)
        self.terms = Terms(linear, equilibrium)
        self.linear, self.at = linear, self.terms.at
        self.by = ByParameter(self.at, parameter)
        self.change = np.zeros(linear.layout.size)
        """(unknowns,) derivative dx/dp of the state: K dx = -dF."""
        if self.terms.moves:
            self.change = linear.solve(-self.by.force[None])[0]
        self.direction = self.at.along(self.at.independent(self.change)) if self.change.any() else None

    def displacement(self, name: str) -> Array:
        """(6,) derivative of the pose of a body or site: a twist in its own frame."""
        body, pose = frame_of(self.linear.mechanism, name)
        twist: Array = spatial.adjoint(spatial.inverse(pose)) @ self.change[self.linear.layout.twist(body)]
        return twist

    def compliance(self, names: list[str]) -> Array:
        """(6 names, 6 names) derivative of the compliance, in the axes of each body or site."""
        forces = unit_wrenches(self.linear, names)
        solved, transposed = self.linear.solve(forces), self.linear.solve_transposed(forces)
        z, y = ([self.at.independent(row) for row in rows] for rows in (solved, transposed))
        result = np.zeros((len(forces), len(forces)))
        for j, column in enumerate(z):
            direction = self.at.along(column) if self.terms.moves else None
            for i, row in enumerate(y):
                result[i, j] = -self.by.stiffness(row, direction, column)
        if self.direction is not None:
            tangent = np.array([self.direction.tangent_slope(column) for column in z])
            on_bodies = forces[:, self.linear.layout.twists]
            by_z, by_y = (np.array([self.direction.twist_slope(each).ravel() for each in rows]) for rows in (z, y))
            result += on_bodies @ by_z.T + by_y @ on_bodies.T - np.array(y) @ tangent.T
        return result

    def frequencies(self, count: int) -> Array:
        """(count,) derivatives of the lowest natural frequencies, Hz per unit of the parameter."""
        weights, result = np.eye(count), []
        for row in weights:
            terms = Terms(self.linear, self.terms.equilibrium)
            terms.add_frequencies(row)
            result.append(terms.gradient([self.by.parameter])[self.by.parameter.name])
        return np.array(result)


def frame_of(mech: Mechanism, name: str) -> tuple[int, Array]:
    """Body of a body or site that can move, and the frame's (4, 4) pose in it."""
    body, pose = mech.frame(name)
    if body < 0:
        raise MechanismError(f"'{name}' is fixed to the world; it does not move")
    return body, pose


def unit_wrenches(linear: Linearisation, names: Iterable[str], point: Array | None = None) -> Array:
    """(6 names, unknowns) right-hand sides: a unit force or torque at each body or site, in its own axes.

    `point` (3,) in the frame of the body or site is where they act instead of its origin.
    """
    rows = []
    for name in names:
        body, pose = frame_of(linear.mechanism, name)
        if point is not None:
            pose = pose @ spatial.translation(point)
        for row in spatial.adjoint(spatial.inverse(pose)):
            rows.append(np.zeros(linear.layout.size))
            rows[-1][linear.layout.twist(body)] = row
    return np.array(rows)
