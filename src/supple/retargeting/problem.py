"""The objective of retargeting on one mechanism and one time step: its value, gradient and Gauss-Newton model.

With c_b the centre of mass of a tracked body, c~_b that of the quasi-static state of the input, R and R~ their
rotations, p the motors' positions and p_in those of the input (equations 19 to 24 of the paper; the orientation term as
1/4 |R - R~|^2):

    J = integral of  sum_b w_b |c_b - c~_b|^2 + sum_b o_b r^2 / 4 |R_b - R~_b|^2
                     + sum_m closeness_m r^2 (p_m - p_in,m)^2 + acceleration_m (r / omega_1^2)^2 p_m''^2
                     + sum_m 10 r^2 (excess of speed, of acceleration and of torque over their limits)^2

by Simpson's rule, with the mechanism's radius r and its lowest natural frequency omega_1. All weights may change over
time. For a motor that slides, p is a length and the r beside it is 1. The excess of a value x over its limit L is
max(|x| / L - 1, 0): its square is smooth.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from supple.engine import Equilibrium, Simulation, adjoint, equilibrium
from supple.engine.assembly import equations
from supple.engine.modes import modes
from supple.engine.tape import Tape
from supple.errors import ConvergenceError
from supple.mechanism import Mechanism
from supple.mechanism.axes import of_tree
from supple.mechanism.record import Array
from supple.retargeting.motion import FIXED, Motion
from supple.retargeting.tracking import tracked_point, turns
from supple.retargeting.weights import ACCELERATION, CLOSENESS, Weights, by_motor, limit_of_motors, over_time

PENALTY = 10.0
"""Weight of a limit that is exceeded by its own size, relative to the square of the mechanism's radius."""
MODEL_ITERATIONS = 50
"""Newton steps for the minimum of a model with limits."""
NEAR_LIMIT = 0.5
"""Share of a limit above which a model knows how a speed, an acceleration or a torque changes."""
COLUMNS = 64
"""Directions of control points that are derived at once."""
ROUNDING = 1e-10
"""Added to the diagonal of a Hessian, relative."""
NEGLIGIBLE = 1e-6
"""Deviation over the mechanism's radius that is as good as none."""


@dataclass(frozen=True)
class Run:
    """A simulated motion."""

    control: Array
    """(n, motors)"""
    tape: Tape
    poses: Array
    """(t, bodies, 4, 4)"""
    coordinates: Array
    """(t, dof)"""
    deviation: dict[str, Array]
    """(t, 3) by tracked body, m."""
    turn: dict[str, Array]
    """(t, 3, 3) R - R~ by body whose orientation is tracked."""
    torques: Array
    """(t, motors) torques or forces of the motors, N m or N; at the start those of the equilibrium."""
    cost: float


class Problem:
    """Retargeting of an input motion on one mechanism with one time step."""

    def __init__(self, mech: Mechanism, motion: Motion, weights: Weights, dt: float) -> None:
        self.mechanism, self.input, self.dt = mech, motion, dt
        self.steps = max(2, round(motion.duration / dt))
        self.times: Array = dt * np.arange(self.steps + 1, dtype=np.float64)
        self.track = {name: over_time(w, self.times, f"the weight of '{name}'") for name, w in weights.track.items()}
        """(t,) by tracked body."""
        self.orientation = {
            name: over_time(w, self.times, f"the weight of '{name}'") for name, w in weights.orientation.items()
        }
        """(t,) by body."""
        self.points = {name: tracked_point(mech, name) for name in {**self.track, **self.orientation}}
        curve = motion(self.times)
        self.start: Equilibrium = equilibrium(mech, targets=dict(zip(motion.motors, curve[0].tolist(), strict=True)))
        self.targets, self.target_axes = self._quasi_static(curve)
        coordinates = of_tree(mech, self.target_axes)
        self.target_points = {name: self.points[name].positions(self.targets, coordinates) for name in self.track}
        """(t, 3) by tracked body, m."""
        self.quadrature = simpson(self.steps, dt)
        design = [motion.design(self.times, k) for k in range(3)]
        self.design, self.design_rate, self.design_acceleration = design
        self.radius = mech.radius or 1.0
        omega = 2 * np.pi * abs(float(modes(mech, at=self.start, count=1).frequencies[0]))
        lever = np.array([self.radius if turns(mech, name) else 1.0 for name in motion.motors])
        self.closeness: Array = by_motor(weights.closeness, motion, self.times, CLOSENESS, "closeness") * lever**2
        """(t, motors)"""
        self.acceleration: Array = (
            by_motor(weights.acceleration, motion, self.times, ACCELERATION, "acceleration") * (lever / omega**2) ** 2
        )
        """(t, motors)"""
        self.penalty = PENALTY * self.radius**2
        limits = (self.design_rate, weights.speed_limit), (self.design_acceleration, weights.acceleration_limit)
        self.limits = [(design, limit_of_motors(limit, motion, "limit")) for design, limit in limits]
        """The map from control points to what is limited (t, n), and the limit (motors,)."""
        self.torque_limit = limit_of_motors(weights.torque_limit, motion, "torque_limit")
        """(motors,) N m or N."""
        weight = np.sum([*self.track.values(), *self.orientation.values()], axis=0)
        self.negligible_cost = (NEGLIGIBLE * self.radius) ** 2 * float(self.quadrature @ weight)

    def _quasi_static(self, curve: Array) -> tuple[Array, Array]:
        """Poses (t, bodies, 4, 4) and coordinates (t, axes) of the static states of the input."""
        eqs = equations(self.mechanism)
        rows = [eqs.row[name] for name in self.input.motors]
        count, poses, axes = eqs.core.follow(
            eqs.compiled(self.start.acting), *self.start.state, rows, np.ascontiguousarray(curve), len(curve)
        )
        if count < len(curve):
            raise ConvergenceError(
                f"the static states of the input motion end at t = {self.times[count]:.3g} s: the mechanism snaps or "
                "buckles there; change the motion",
                time=float(self.times[count]),
            )
        return poses, axes

    # simulation

    def simulate(self, control: Array) -> Run:
        """Simulates a motion and evaluates the objective. Raises `ConvergenceError` if a step fails."""
        return self._evaluated(control, self.play(self.design @ control))

    def play(self, curve: Array) -> Tape:
        """Simulates any motor curves (t, motors), rad or m."""
        motors = {
            name: lambda t, values=curve[:, i]: float(np.interp(t, self.times, values))
            for i, name in enumerate(self.input.motors)
        }
        sim = Simulation(self.mechanism, self.dt, "bdf2", at=self.start, motors=motors)
        with sim.tape() as tape:
            sim.step(self.steps)
        return tape

    def deviation_of(self, tape: Tape) -> dict[str, Array]:
        """(t, 3) deviation of each tracked body, m."""
        poses, coordinates = tape.poses, tape.coordinates
        return {name: self.points[name].positions(poses, coordinates) - self.target_points[name] for name in self.track}

    def _evaluated(self, control: Array, tape: Tape) -> Run:
        turn = {}
        poses, coordinates = tape.poses, tape.coordinates
        deviation = self.deviation_of(tape)
        by_name = tape.torques
        torques = np.stack([by_name[name] for name in self.input.motors], axis=1)
        cost = self._cost_of_curves(control) + self._cost_of_torques(torques)
        for name, weight in self.track.items():
            cost += float(self.quadrature @ (weight * (deviation[name] ** 2).sum(axis=1)))
        for name, weight in self.orientation.items():
            body = self.points[name].body
            turn[name] = poses[:, body, :3, :3] - self.targets[:, body, :3, :3]
            squares = (turn[name] ** 2).sum(axis=(1, 2))
            cost += self.radius**2 / 4 * float(self.quadrature @ (weight * squares))
        return Run(control, tape, poses, coordinates, deviation, turn, torques, cost)

    def _cost_of_curves(self, control: Array) -> float:
        """Closeness, acceleration, and the penalties of speed and acceleration."""
        change = self.design @ (control - self.input.control)
        second = self.design_acceleration @ control
        squares = self.closeness * change**2 + self.acceleration * second**2
        for design, limit in self.limits:
            squares = squares + self.penalty * _excess(design @ control, limit) ** 2
        return float(self.quadrature @ squares.sum(axis=1))

    def _cost_of_torques(self, torques: Array) -> float:
        return self.penalty * float(self.quadrature @ (_excess(torques, self.torque_limit) ** 2).sum(axis=1))

    # derivatives

    def gradient(self, run: Run) -> Array:
        """(n, motors) gradient of the objective with respect to the control points; zero for the fixed ones."""
        to_poses = np.zeros((*run.poses.shape[:2], 6))
        to_q = np.zeros(run.coordinates.shape)
        for name, own in run.deviation.items():
            force = 2 * (self.track[name] * self.quadrature)[:, None] * own
            self.points[name].add_gradient(force, run.poses, run.coordinates, to_poses, to_q)
        for name, change in run.turn.items():
            body = self.points[name].body
            weight = self.radius**2 / 2 * self.orientation[name] * self.quadrature
            product = np.swapaxes(run.poses[:, body, :3, :3], 1, 2) @ change  # d|R - R~|^2 = 2 (R - R~) : R [w]
            axial = np.stack([product[:, j, i] - product[:, i, j] for i, j in ((1, 2), (2, 0), (0, 1))], axis=1)
            to_poses[:, body, 3:] += weight[:, None] * axial
        to_torques = None
        if np.isfinite(self.torque_limit).any():
            excess = _excess(run.torques, self.torque_limit) / self.torque_limit
            weighted = 2 * self.penalty * self.quadrature[:, None] * excess
            to_torques = {name: weighted[:, m] for m, name in enumerate(self.input.motors)}
        found = adjoint.gradient(run.tape, poses=to_poses, coordinates=to_q if to_q.any() else None, torques=to_torques)
        by_curve = np.stack([found.motors[name] for name in self.input.motors], axis=1)
        result: Array = self.design.T @ by_curve + self._gradient_of_curves(run.control)
        result[:FIXED] = 0
        return result

    def _gradient_of_curves(self, control: Array) -> Array:
        S = self.quadrature[:, None]
        change = self.design @ (control - self.input.control)
        second = self.design_acceleration @ control
        result = 2 * self.design.T @ (S * self.closeness * change)
        result = result + 2 * self.design_acceleration.T @ (S * self.acceleration * second)
        for design, limit in self.limits:
            result = result + 2 * self.penalty * design.T @ (S * _excess(design @ control, limit) / limit)
        return np.asarray(result)

    def model(self, run: Run) -> Model:
        """The Gauss-Newton model of the objective for the k free control points, motor by motor."""
        free = len(run.control) - FIXED
        size = len(self.input.motors) * free
        S = self.quadrature
        weights = [2 * weight * S for weight in self.track.values()]
        weights += [weight * self.radius**2 * S for weight in self.orientation.values()]  # |R [w]|^2 = 2 |w|^2
        roots = np.sqrt(weights)[:, :, None]  # (tracked, t, 1)
        residuals = np.empty((size, roots.size * 3))
        torques = run.torques / self.torque_limit
        rows, limited = np.nonzero(np.abs(torques) > NEAR_LIMIT)
        torque_slopes = np.empty((len(rows), size))
        order = [[motor.name for motor in self.mechanism.motors].index(name) for name in self.input.motors]
        for columns, moved in self._moved(run, len(rows) > 0):
            parts = [self.points[name].velocities(moved, run.coordinates) for name in self.track]
            parts += [moved.poses[:, :, self.points[name].body, 3:] for name in self.orientation]
            for k, part in enumerate(parts):
                scaled = (part * roots[k]).reshape(len(part), -1)
                residuals[columns, k * scaled.shape[1] : (k + 1) * scaled.shape[1]] = scaled
            if len(rows):
                changes = moved.torques[:, :, order][:, rows, limited] / self.torque_limit[limited]
                torque_slopes[:, columns] = changes.T
        matrix = residuals @ residuals.T
        shares, slopes, penalties = [torques[rows, limited]], [torque_slopes], [self.penalty * S[rows]]
        for m in range(len(self.input.motors)):
            block = slice(m * free, (m + 1) * free)
            for design, weight in ((self.design, self.closeness), (self.design_acceleration, self.acceleration)):
                own = design[:, FIXED:]
                matrix[block, block] += 2 * (own * (weight[:, m] * S)[:, None]).T @ own
            for design, limit in self.limits:
                share = design @ run.control[:, m] / limit[m]
                near = np.abs(share) > NEAR_LIMIT
                slope = np.zeros((int(near.sum()), size))
                slope[:, block] = design[near, FIXED:] / limit[m]
                shares.append(share[near])
                slopes.append(slope)
                penalties.append(self.penalty * S[near])
        all_shares, all_slopes, all_penalties = (np.concatenate(each) for each in (shares, slopes, penalties))
        pushed = 2 * all_slopes.T @ (all_penalties * _excess(all_shares, np.ones(1)))
        gradient = self.gradient(run)[FIXED:].T.ravel() - pushed
        return Model(matrix, gradient, all_shares, all_slopes, all_penalties)

    def _moved(self, run: Run, torques: bool) -> Iterator[tuple[slice, adjoint.Motion]]:
        """Derivatives of a run by the free control points, motor by motor: some columns after the other, since those of
        all together may need more memory than there is."""
        free = len(run.control) - FIXED
        want = ["poses"]
        if any(len(self.points[name].columns) for name in self.track):
            want.append("coordinates")
        if torques:
            want.append("torques")
        for m, name in enumerate(self.input.motors):
            for first in range(0, free, COLUMNS):
                some = slice(first, min(first + COLUMNS, free))
                directions = np.ascontiguousarray(self.design[:, FIXED:][:, some].T)
                moved = adjoint.tangent(run.tape, motors={name: directions}, want=want)
                yield slice(m * free + some.start, m * free + some.stop), moved


@dataclass(frozen=True)
class Model:
    """A convex model of the objective for steps x (k,) of the free control points:

        gradient . x + x . matrix x / 2 + sum_i penalties_i (excess of shares_i + slopes_i . x over 1)^2

    Limits are not part of the quadratic: which of them a step exceeds is found with the step."""

    matrix: Array
    """(k, k)"""
    gradient: Array
    """(k,) without the penalties of limits."""
    shares: Array
    """(r,) speeds, accelerations and torques over their limits, of those above `NEAR_LIMIT`."""
    slopes: Array
    """(r, k) derivatives of the shares."""
    penalties: Array
    """(r,)"""

    @staticmethod
    def mean(models: Sequence[Model]) -> Model:
        """The model of the mean of several objectives."""
        n = len(models)
        return Model(
            np.mean([each.matrix for each in models], axis=0),
            np.mean([each.gradient for each in models], axis=0),
            np.concatenate([each.shares for each in models]),
            np.concatenate([each.slopes for each in models]),
            np.concatenate([each.penalties for each in models]) / n,
        )

    @property
    def hessian(self) -> Array:
        """(k, k) at the start of a step, slightly increased on the diagonal: positive definite."""
        active = np.abs(self.shares) > 1
        slopes = self.slopes[active]
        matrix = self.matrix + slopes.T @ (2 * self.penalties[active, None] * slopes)
        return np.asarray(matrix + ROUNDING * np.diag(np.diag(matrix)))

    def change(self, x: Array) -> float:
        """Of the model's value, by a step (k,)."""
        return self._value(x, self.shares + self.slopes @ x) - self._value(np.zeros(len(x)), self.shares)

    def _value(self, x: Array, shares: Array) -> float:
        """After a step x (k,) to the shares (r,)."""
        limits = float(self.penalties @ _excess(shares, np.ones(1)) ** 2)
        return float(self.gradient @ x + x @ self.matrix @ x / 2) + limits

    def step(self, damping: float) -> Array:
        """(k,) the minimum of the model, with `damping` times the diagonal added to its matrix; by Newton's method."""
        one = np.ones(1)
        diagonal = damping * np.diag(self.matrix)
        matrix = self.matrix + np.diag(diagonal)

        def value(x: Array, shares: Array) -> float:
            return self._value(x, shares) + float(diagonal @ x**2) / 2

        x, shares = np.zeros(len(matrix)), self.shares
        for _ in range(MODEL_ITERATIONS):
            excess = _excess(shares, one)
            active = excess != 0
            slopes = self.slopes[active]
            weighted = 2 * self.penalties[active, None] * slopes
            slope = self.gradient + matrix @ x + weighted.T @ excess[active]
            change = -_solve(matrix + weighted.T @ slopes, slope)
            if not len(self.shares):
                return np.asarray(change)
            length, before, along = 1.0, value(x, shares), self.slopes @ change
            while length > 1e-4 and not value(x + length * change, shares + length * along) < before:
                length /= 2
            x, shares = x + length * change, shares + length * along
            if before - value(x, shares) < 1e-9 * abs(before) or length < 1e-4:
                break
        return x


def _solve(matrix: Array, right: Array) -> Array:
    """(k,) matrix^-1 right for a positive definite matrix; the least solution if rounding has made it singular."""
    from scipy.linalg import LinAlgError, cho_factor, cho_solve

    try:
        return np.asarray(cho_solve(cho_factor(matrix), right))
    except LinAlgError:
        return np.asarray(np.linalg.lstsq(matrix, right, rcond=1e-14)[0])


def _excess(values: Array, limit: Array) -> Array:
    """(t, motors) by how much values (t, motors) exceed their limits (motors,), over the limits; with their signs."""
    share = values / limit
    return np.asarray(np.sign(share) * np.maximum(np.abs(share) - 1, 0))


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
