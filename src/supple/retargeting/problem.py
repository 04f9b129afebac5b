"""The objective of retargeting on one mechanism and one time step: its value, gradient and Gauss-Newton model.

With c_b the centre of mass of a tracked body, c~_b that of the quasi-static state of the input, R and R~ their
rotations, p the motors' positions and p_in those of the input (equations 19 to 24 of the paper; the orientation term as
1/4 |R - R~|^2):

    J = integral of  sum_b w_b |c_b - c~_b|^2 + sum_b o_b r^2 / 4 |R_b - R~_b|^2
                     + closeness r^2 |p - p_in|^2 + acceleration (r / omega_1^2)^2 |p''|^2 + penalties of limits

by Simpson's rule, with the mechanism's radius r and its lowest natural frequency omega_1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from supple.engine import Equilibrium, Simulation, adjoint, equilibrium
from supple.engine.assembly import equations
from supple.engine.modes import modes
from supple.engine.tape import Tape
from supple.errors import ConvergenceError, MechanismError
from supple.mechanism import Mechanism
from supple.mechanism.poses import find
from supple.mechanism.record import Array
from supple.retargeting.motion import FIXED, Motion

PENALTY = 10.0
"""Weight of a limit that is exceeded by its own size, relative to the square of the mechanism's radius."""


@dataclass(frozen=True)
class Weights:
    """Weights of the objective."""

    track: Mapping[str, float]
    """By body: of the squared deviation of its centre of mass."""
    orientation: Mapping[str, float]
    """By body: of the squared deviation of its rotation, times the squared radius."""
    closeness: float
    acceleration: float
    speed_limit: float
    """rad/s or m/s."""
    acceleration_limit: float
    """rad/s^2 or m/s^2."""


@dataclass(frozen=True)
class Run:
    """A simulated motion."""

    control: Array
    """(n, motors)"""
    tape: Tape
    deviation: dict[str, Array]
    """(t, 3) by tracked body, m."""
    turn: dict[str, Array]
    """(t, 3, 3) R - R~ by body whose orientation is tracked."""
    cost: float


class Problem:
    """Retargeting of an input motion on one mechanism with one time step."""

    def __init__(self, mech: Mechanism, motion: Motion, weights: Weights, dt: float) -> None:
        self.mechanism, self.input, self.weights, self.dt = mech, motion, weights, dt
        self.steps = max(2, round(motion.duration / dt))
        self.times: Array = dt * np.arange(self.steps + 1, dtype=np.float64)
        self.bodies = {name: mech.frame(name)[0] for name in {*weights.track, *weights.orientation}}
        curve = motion(self.times)
        self.start: Equilibrium = equilibrium(mech, targets=dict(zip(motion.motors, curve[0].tolist(), strict=True)))
        self.targets = self._quasi_static(curve)
        self.quadrature = simpson(self.steps, dt)
        design = [motion.design(self.times, k) for k in range(3)]
        self.design, self.design_rate, self.design_acceleration = design
        radius = mech.radius or 1.0
        frequency = abs(float(modes(mech, at=self.start, count=1).frequencies[0]))
        omega = 2 * np.pi * frequency
        self.closeness = weights.closeness * radius**2
        self.acceleration = weights.acceleration * (radius / omega**2) ** 2
        self.penalty = PENALTY * radius**2
        self.radius = radius

    def _quasi_static(self, curve: Array) -> Array:
        """(t, bodies, 4, 4) poses of the static states of the input."""
        eqs = equations(self.mechanism)
        self.start.acting.apply_to(eqs)
        eqs.core.set_state(*self.start.state)
        rows = [eqs.row[name] for name in self.input.motors]
        count, poses, _ = eqs.core.follow_statics(rows, np.ascontiguousarray(curve), len(curve))
        if count < len(curve):
            raise ConvergenceError(
                f"the static states of the input motion end at t = {self.times[count]:.3g} s: the mechanism snaps or "
                "buckles there; change the motion",
                time=float(self.times[count]),
            )
        result: Array = poses
        return result

    # simulation

    def simulate(self, control: Array) -> Run:
        """Simulates a motion and evaluates the objective. Raises `ConvergenceError` if a step fails."""
        sim = self._simulation(control)
        with sim.tape() as tape:
            sim.step(self.steps)
        return self._evaluated(control, tape)

    def torques(self, control: Array) -> dict[str, Array]:
        """(t,) torque or force of each motor while it moves, N m or N; at the start that of the equilibrium."""
        sim = self._simulation(control)
        found = {name: [self.start.motor_torques[name]] for name in self.input.motors}
        for _ in range(self.steps):
            sim.step()
            now = sim.motor_torques
            for name, values in found.items():
                values.append(now[name])
        return {name: np.array(values) for name, values in found.items()}

    def _simulation(self, control: Array) -> Simulation:
        curve = self.design @ control
        motors = {
            name: lambda t, values=curve[:, i]: float(np.interp(t, self.times, values))
            for i, name in enumerate(self.input.motors)
        }
        return Simulation(self.mechanism, self.dt, "bdf2", at=self.start, motors=motors)

    def _evaluated(self, control: Array, tape: Tape) -> Run:
        deviation, turn = {}, {}
        cost = self._regularisation(control)
        for name, body in self.bodies.items():
            poses = tape.poses[:, body]
            if name in self.weights.track:
                own = self._centres(poses, name) - self._centres(self.targets[:, body], name)
                deviation[name] = own
                cost += self.weights.track[name] * float(self.quadrature @ (own**2).sum(axis=1))
            if name in self.weights.orientation:
                turn[name] = poses[:, :3, :3] - self.targets[:, body, :3, :3]
                weight = self.weights.orientation[name] * self.radius**2 / 4
                cost += weight * float(self.quadrature @ (turn[name] ** 2).sum(axis=(1, 2)))
        return Run(control, tape, deviation, turn, cost)

    def _centre(self, name: str) -> Array:
        """(3,) tracked point in the body's frame: its centre of mass, or the origin of a site."""
        body, pose = self.mechanism.frame(name)
        is_body = self.mechanism.bodies[body].name == name
        return self.mechanism.bodies[body].centre if is_body else pose[:3, 3]

    def _centres(self, poses: Array, name: str) -> Array:
        centres: Array = poses[:, :3, :3] @ self._centre(name) + poses[:, :3, 3]
        return centres

    def _regularisation(self, control: Array) -> float:
        change = self.design @ (control - self.input.control)
        second = self.design_acceleration @ control
        per_time = self.closeness * (change**2).sum(axis=1) + self.acceleration * (second**2).sum(axis=1)
        for excess in self._excesses(control):
            per_time = per_time + self.penalty * (excess**2).sum(axis=1)
        return float(self.quadrature @ per_time)

    def _excesses(self, control: Array) -> list[Array]:
        """(t, motors) by how much speed and acceleration exceed their limits, over the limits; with their signs."""
        values = [(design @ control / limit) for design, limit in self._limits()]
        return [np.sign(each) * np.maximum(np.abs(each) - 1, 0) for each in values]

    # derivatives

    def gradient(self, run: Run) -> Array:
        """(n, motors) gradient of the objective with respect to the control points; zero for the fixed ones."""
        wrenches = np.zeros((self.steps + 1, len(self.mechanism.bodies), 6))
        for name, own in run.deviation.items():
            force = 2 * self.weights.track[name] * self.quadrature[:, None] * own
            self._add_wrench(wrenches, run, name, force)
        for name, change in run.turn.items():
            body = self.bodies[name]
            R = run.tape.poses[:, body, :3, :3]
            weight = self.weights.orientation[name] * self.radius**2 / 2
            product = np.swapaxes(R, 1, 2) @ change  # d|R - R~|^2 = 2 (R - R~) : R [w]
            axial = np.stack([product[:, j, i] - product[:, i, j] for i, j in ((1, 2), (2, 0), (0, 1))], axis=1)
            wrenches[:, body, 3:] += weight * self.quadrature[:, None] * axial
        found = adjoint.gradient(run.tape, poses=wrenches)
        by_curve = np.stack([found.motors[name] for name in self.input.motors], axis=1)
        result: Array = self.design.T @ by_curve + self._regularisation_gradient(run.control)
        result[:FIXED] = 0
        return result

    def _add_wrench(self, wrenches: Array, run: Run, name: str, force: Array) -> None:
        body = self.bodies[name]
        local = (np.swapaxes(run.tape.poses[:, body, :3, :3], 1, 2) @ force[..., None])[..., 0]
        wrenches[:, body, :3] += local
        wrenches[:, body, 3:] += np.cross(self._centre(name), local)

    def _regularisation_gradient(self, control: Array) -> Array:
        S = self.quadrature[:, None]
        change = self.design @ (control - self.input.control)
        second = self.design_acceleration @ control
        result = 2 * self.closeness * self.design.T @ (S * change)
        result = result + 2 * self.acceleration * self.design_acceleration.T @ (S * second)
        for (design, limit), excess in zip(self._limits(), self._excesses(control), strict=True):
            result = result + 2 * self.penalty / limit * design.T @ (S * excess)
        gradient: Array = result
        return gradient

    def _limits(self) -> list[tuple[Array, float]]:
        both = (self.design_rate, self.weights.speed_limit), (self.design_acceleration, self.weights.acceleration_limit)
        return [(design, limit) for design, limit in both if np.isfinite(limit)]

    def normal_equations(self, run: Run) -> tuple[Array, Array]:
        """Matrix (k, k) and gradient (k,) of the Gauss-Newton model for the k free control points, motor by motor."""
        n, motors = len(run.control), len(self.input.motors)
        free = n - FIXED
        directions = np.zeros((motors * free, motors, self.steps + 1))
        for m in range(motors):
            directions[m * free : (m + 1) * free, m] = self.design[:, FIXED:].T
        named = {name: np.ascontiguousarray(directions[:, m]) for m, name in enumerate(self.input.motors)}
        moved = adjoint.tangent(run.tape, motors=named, want=("poses",)).poses  # (k, t, bodies, 6)
        matrix = np.zeros((motors * free,) * 2)
        S = self.quadrature
        for name in run.deviation:
            body = self.bodies[name]
            velocity = moved[:, :, body, :3] + np.cross(moved[:, :, body, 3:], self._centre(name))
            columns = (velocity * np.sqrt(2 * self.weights.track[name] * S)[:, None]).reshape(len(matrix), -1)
            matrix += columns @ columns.T
        for name in run.turn:  # |R [w]|^2 = 2 |w|^2
            weight = self.weights.orientation[name] * self.radius**2
            columns = (moved[:, :, self.bodies[name], 3:] * np.sqrt(weight * S)[:, None]).reshape(len(matrix), -1)
            matrix += columns @ columns.T
        value, second = self.design[:, FIXED:], self.design_acceleration[:, FIXED:]
        shared = 2 * self.closeness * (value * S[:, None]).T @ value
        shared = shared + 2 * self.acceleration * (second * S[:, None]).T @ second
        for m in range(motors):
            block = slice(m * free, (m + 1) * free)
            matrix[block, block] += shared
            for (design, limit), excess in zip(self._limits(), self._excesses(run.control), strict=True):
                active = design[:, FIXED:] * ((excess[:, m] != 0) * S)[:, None]
                matrix[block, block] += 2 * self.penalty / limit**2 * active.T @ design[:, FIXED:]
        return matrix, self.gradient(run)[FIXED:].T.ravel()


def simpson(steps: int, dt: float) -> Array:
    """(steps + 1,) weights of Simpson's rule; with an odd number of steps the last one is a trapezium."""
    weights = np.zeros(steps + 1)
    even = steps - steps % 2
    weights[: even + 1 : 2] += 2 * dt / 3
    weights[1:even:2] += 4 * dt / 3
    weights[[0, even]] -= dt / 3
    if steps % 2:
        weights[-2:] += dt / 2
    return weights


def check_inputs(mech: Mechanism, motion: Motion, weights: Weights) -> None:
    """Raises if the motion names other motors than the mechanism has, or if a weight is wrong."""
    names = [motor.name for motor in mech.motors]
    if not names:
        raise MechanismError(f"'{mech.name}' has no motors; a motion needs one (Builder.motor)")
    for name in motion.motors:
        find(names, name, f"motor of '{mech.name}'")
    known = [*(body.name for body in mech.bodies), *(site.name for site in mech.sites)]
    for of, what in ((weights.track, "track"), (weights.orientation, "orientation")):
        for name, weight in of.items():
            find(known, name, f"body or site of '{mech.name}'")
            if not (np.isfinite(weight) and weight >= 0):
                raise MechanismError(f"the weight of '{name}' in `{what}` must not be negative, got {weight}")
            if mech.frame(name)[0] < 0:
                raise MechanismError(f"'{name}' is fixed to the world; no motor moves it")
    if not any(weight > 0 for weight in (*weights.track.values(), *weights.orientation.values())):
        raise MechanismError("all weights are zero; track a body: track={'tip': 1.0}")
    for value, what in ((weights.closeness, "closeness"), (weights.acceleration, "acceleration")):
        if not (np.isfinite(value) and value >= 0):
            raise MechanismError(f"`{what}` must not be negative, got {value}")
