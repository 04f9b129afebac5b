"""`supple.retarget`: optimises motor curves so that tracked bodies follow the quasi-static motion of the input."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from os import PathLike
from typing import Any, TypeVar

import numpy as np

from supple.errors import ConvergenceError, MechanismError, RangeWarning
from supple.mechanism import Mechanism
from supple.mechanism.record import Array, array
from supple.progress import progress_callback
from supple.retargeting.altered import with_stiffness
from supple.retargeting.checkpoints import resumed, save_checkpoint, start_of
from supple.retargeting.motion import FIXED, Motion
from supple.retargeting.problem import Model, Problem, Run
from supple.retargeting.weights import ACCELERATION, CLOSENESS, Weight, Weights, check_inputs

T = TypeVar("T")
METHODS = ("gauss-newton", "mixed", "l-bfgs", "bfgs")
TOLERANCE = 1e-4
"""Smallest relative decrease of the cost in an iteration."""
COARSE_TOLERANCE = 0.01
"""The same with all time steps of "mixed" but the last."""
L_BFGS_TOLERANCE = 2e-3
"""The same of L-BFGS, whose iterations continue for long with decreases that nobody sees."""
PAIRS = 30
"""Steps and changes of the gradient that L-BFGS remembers."""
DAMPINGS = (0.0, *(10.0**k for k in range(-4, 5)))
"""Of Gauss-Newton steps, in multiples of the diagonal of the model's matrix."""
GOOD_SHARE = 0.75
"""Of the decrease of a model: a step that lowers the cost by that much is good."""
LINE_SEARCH_FAILED = 2
"""Status of scipy's BFGS."""
SMALL_DECREASES = 3
"""Steps in succession with less than the smallest decrease, each (damped Gauss-Newton steps) or on average
(L-BFGS), that end an optimisation."""


@dataclass(frozen=True)
class Retargeted:
    """The result of `supple.retarget`."""

    motion: Motion
    """The optimised motor curves."""
    history: tuple[float, ...]
    """Cost with the last time step: of the input, of the curves that the last time step began with if these are others,
    and after each iteration."""
    status: str
    """"converged", "iteration limit", or "no improvement": the input is as good already, and `motion` is the input."""
    deviation_before: dict[str, float]
    """Root mean square deviation of each tracked body from the quasi-static motion with the input curves, m."""
    deviation_after: dict[str, float]
    """The same with the optimised curves."""
    times: Array
    """(t,) s, of `deviations`."""
    deviations: dict[str, tuple[Array, Array]]
    """(t, 3) by tracked body, m: with the input curves, and with the optimised ones."""
    torques: dict[str, tuple[Array, Array]]
    """(t,) by motor, N m or N: with the input curves, and with the optimised ones."""
    input: Motion
    """The motion that was retargeted."""
    mechanism: Mechanism
    poses: dict[str, Array]
    """(t, bodies, 4, 4) world poses: the "target", with the "input" curves, and with the "optimised" ones."""
    axes: dict[str, Array]
    """(t, axes) coordinates of all joints, in the order of `mech.joints`, under the same names; rad and m."""

    def report(self, path: str | PathLike[str]) -> None:
        """Writes a report to an HTML file, or draws it to a PNG, PDF or SVG file: deviations and motor curves before
        and after, torques, and the cost after each iteration. An HTML file has its pictures inside."""
        from supple.retargeting.report import write_report

        write_report(self, path)


def retarget(
    mech: Mechanism,
    motion: Motion,
    track: Mapping[str, Weight],
    *,
    orientation: Mapping[str, Weight] | None = None,
    closeness: Weight | Mapping[str, Weight] = CLOSENESS,
    acceleration: Weight | Mapping[str, Weight] = ACCELERATION,
    speed_limit: float | Mapping[str, float] = np.inf,
    acceleration_limit: float | Mapping[str, float] = np.inf,
    torque_limit: float | Mapping[str, float] = np.inf,
    method: str = "gauss-newton",
    dt: float | Sequence[float] = (2e-3, 5e-4),
    max_iterations: int = 100,
    start: Motion | None = None,
    robust: Mapping[str, float] | None = None,
    checkpoint: str | PathLike[str] | None = None,
    progress: Callable[[float], None] | None = None,
) -> Retargeted:
    """Optimises motor curves so that a robot with flexible parts keeps the intent of a motion and does not shake.

    The target is the quasi-static motion of the input: the poses that the mechanism would have under gravity if the
    motors moved slowly.

    A weight is a number, a function of time (s), or a pair (times, values) with straight lines between the values.

    Args:
        mech: the mechanism, with motors.
        motion: the input.
        track: weight of each tracked body, by name. The tracked point is the centre of mass of a body or of a flexible
            body ("rod"), or the origin of a site or of an interface of a flexible body ("rod.end").
        orientation: weights of the orientations of bodies, sites and interfaces.
        closeness: weight of the difference from the input curves; a multiple of the squared radius per squared radian.
            One for all motors, or a mapping by motor; motors that it does not name have the default.
        acceleration: weight of the motors' accelerations; a multiple of (radius / omega_1^2)^2, with the lowest natural
            frequency omega_1. One for all motors, or a mapping by motor.
        speed_limit, acceleration_limit, torque_limit: of every motor, or a mapping by motor: rad/s, rad/s^2 and N m, or
            m/s, m/s^2 and N. A smooth penalty acts beyond a limit.
        method: "gauss-newton", "mixed", "l-bfgs" or "bfgs". "mixed", for hundreds of control points, does a few
            Gauss-Newton steps with each `dt` but the last, then L-BFGS with the last `dt`, which starts from the last
            Gauss-Newton Hessian. "l-bfgs", for thousands of control points, starts from the Hessian of one Gauss-Newton
            step with the first `dt`.
        dt: time step of the simulation, s, or several. The optimisation is done with each in turn, coarse to fine, and
            starts from the result of the one before.
        max_iterations: with each `dt`.
        start: curves to begin with, for example the result for other weights; default: the input.
        robust: {"stiffness": 0.1} minimises the mean over the mechanism and two others whose stiffnesses are 10 % lower
            and higher.
        checkpoint: an `.npz` file for the best curves so far, written after each iteration. If it exists, the run
            starts from it instead of from `start`: the same call continues an interrupted run.
        progress: called with the cost after each iteration; default: a progress bar.

    Raises:
        MechanismError: a motor or body is missing, no motor moves a tracked body, a weight or limit is wrong, the
            motion exceeds the limits of a joint, the mechanism has no motors, or `start` is for another motion.
        ConvergenceError: the input itself cannot be simulated, or its static states end.
    """
    weights = Weights(track, orientation or {}, closeness, acceleration, speed_limit, acceleration_limit, torque_limit)
    check_inputs(mech, motion, weights)
    if method not in METHODS:
        raise MechanismError(f"there is no method '{method}'; choose one of {', '.join(METHODS)}")
    steps = np.atleast_1d(array(dt, (), "dt") if np.ndim(dt) == 0 else array(dt, (-1,), "dt")).tolist()
    if not steps or min(steps) <= 0:
        raise MechanismError(f"time steps must be positive, got {dt}")
    if max(steps) > motion.interval:
        raise MechanismError(
            f"the time step {max(steps):g} s exceeds the {motion.interval:.3g} s between two control points of the "
            "motion; give smaller steps"
        )
    if not max_iterations >= 1:
        raise MechanismError(f"max_iterations must be 1 or more, got {max_iterations}")
    control, history, status = resumed(checkpoint, motion, start_of(motion, start)), [np.inf], ""
    model: Model | None = None
    with progress_callback("retargeting", None if progress is None else (lambda fraction: None)) as report:
        for i, h in enumerate(steps):
            last = i == len(steps) - 1
            problems = [Problem(each, motion, weights, h) for each in _models(mech, robust)]

            def on_iteration(cost: float, control: Array, i: int = i) -> None:
                report((i + 0.5) / len(steps))
                if checkpoint is not None:
                    save_checkpoint(checkpoint, motion, control)
                if progress is not None:
                    progress(cost)

            with warnings.catch_warnings():  # trials may deform a body more than the result does
                warnings.simplefilter("ignore", RangeWarning)
                if method == "bfgs":
                    control, history, status = _bfgs(problems, control, max_iterations, on_iteration)
                elif method == "l-bfgs" or (method == "mixed" and model is not None and last):
                    if model is None:
                        model = Model.mean(_in_parallel(Problem.model, problems, _start(problems, control)))
                    control, history, status = _l_bfgs(problems, control, model, max_iterations, on_iteration)
                else:
                    tolerance = COARSE_TOLERANCE if method == "mixed" and not last else TOLERANCE
                    control, history, status, model = _gauss_newton(
                        problems, control, max_iterations, tolerance, on_iteration
                    )
            report((i + 1) / len(steps))
    nominal = problems[0]
    runs = _start(problems, motion.control)
    cost = _mean_cost(runs)
    if cost <= nominal.negligible_cost or not history[-1] < (1 - TOLERANCE) * cost:
        control, history, status = motion.control, [cost], "no improvement"
    elif history[0] != cost:
        history = [cost, *history]
    return compared(nominal, runs[0], nominal.simulate(control), history, status)


def compared(problem: Problem, before: Run, after: Run, history: Sequence[float], status: str) -> Retargeted:
    """The result for two runs of a problem: with the input curves, and with others."""
    motion = problem.input
    return Retargeted(
        motion=motion.with_control(after.control),
        history=tuple(history),
        status=status,
        deviation_before={name: rms(values) for name, values in before.deviation.items()},
        deviation_after={name: rms(values) for name, values in after.deviation.items()},
        times=problem.times,
        deviations={name: (before.deviation[name], after.deviation[name]) for name in before.deviation},
        torques={name: (before.torques[:, m], after.torques[:, m]) for m, name in enumerate(motion.motors)},
        input=motion,
        mechanism=problem.mechanism,
        poses={"target": problem.targets, "input": before.poses, "optimised": after.poses},
        axes={"target": problem.target_axes, "input": before.tape.core.q, "optimised": after.tape.core.q},
    )


def rms(deviation: Array) -> float:
    """Root mean square over time of the length of deviations (t, 3)."""
    return float(np.sqrt((deviation**2).sum(axis=1).mean()))


def _models(mech: Mechanism, robust: Mapping[str, float] | None) -> list[Mechanism]:
    models = [mech]
    if not isinstance(robust, Mapping | None):
        raise MechanismError(f"`robust` is {{'stiffness': share}}, got {robust!r:.60}")
    for name, share in (robust or {}).items():
        if name != "stiffness" or not 0 < share < 1:
            raise MechanismError(f"`robust` is {{'stiffness': share}} with 0 < share < 1, got {{{name!r}: {share}}}")
        models += [with_stiffness(mech, 1 - share), with_stiffness(mech, 1 + share)]
    return models


def _simulate(problems: list[Problem], control: Array) -> list[Run] | None:
    """The run of each model, or None if one cannot be simulated."""
    try:
        return _in_parallel(lambda problem: problem.simulate(control), problems)
    except ConvergenceError:
        return None


def _in_parallel(function: Callable[..., T], *arguments: Sequence[Any]) -> list[T]:
    """The function of each model's arguments; a thread for each model. The compiled sweeps run at the same time."""
    if len(arguments[0]) == 1:
        return [function(*(each[0] for each in arguments))]
    with ThreadPoolExecutor() as pool:
        return list(pool.map(function, *arguments))


def _mean_cost(runs: list[Run]) -> float:
    return float(np.mean([run.cost for run in runs]))


def _start(problems: list[Problem], control: Array) -> list[Run]:
    runs = _simulate(problems, control)
    if runs is None:
        return [problem.simulate(control) for problem in problems]  # raises and says where
    return runs


def _gauss_newton(
    problems: list[Problem], control: Array, limit: int, tolerance: float, progress: Callable[[float, Array], None]
) -> tuple[Array, list[float], str, Model]:
    """Gauss-Newton steps, damped as by Levenberg and Marquardt where the model is poor. The last result is the model of
    the last step."""
    runs = _start(problems, control)
    history = [_mean_cost(runs)]
    progress(history[0], control)
    level, small = 0, 0
    for _ in range(limit):
        model = Model.mean(_in_parallel(Problem.model, problems, runs))
        found = _best_step(problems, control, history[-1], model, level)
        if found is None:
            return control, history, "converged", model
        control, runs, level = found.control, found.runs, found.level
        history.append(found.cost)
        progress(history[-1], control)
        small = small + 1 if history[-2] - history[-1] < tolerance * history[-2] else 0
        if small >= (SMALL_DECREASES if level > 0 and tolerance == TOLERANCE else 1):
            return control, history, "converged", model
    return control, history, "iteration limit", model


@dataclass(frozen=True)
class _Trial:
    """A step that was simulated."""

    level: int
    """Of its damping, in `DAMPINGS`."""
    control: Array
    """(n, motors) after the step."""
    runs: list[Run]
    """Empty if it cannot be simulated."""
    cost: float
    """Infinite if it cannot be simulated."""
    good: bool
    """It lowers the cost nearly as much as the model says."""


def _best_step(problems: list[Problem], control: Array, cost: float, model: Model, level: int) -> _Trial | None:
    """The best of several dampings of a model's step, or None if none lowers the cost. A simulation takes little time
    beside a model: from the level of the step before, greater dampings are tried, then lesser ones, as long as the cost
    falls. A good undamped step is taken at once."""

    def tried(k: int) -> _Trial:
        step = model.step(DAMPINGS[k])
        trial = control.copy()
        trial[FIXED:] += step.reshape(control[FIXED:].T.shape).T
        runs = _simulate(problems, trial)
        if runs is None:
            return _Trial(k, trial, [], np.inf, False)
        found = _mean_cost(runs)
        return _Trial(k, trial, runs, found, cost - found > -GOOD_SHARE * model.change(step))

    best = tried(level)
    while best.level + 1 < len(DAMPINGS) and not (best.level == 0 and best.good):
        other = tried(best.level + 1)
        if best.cost < min(other.cost, cost):
            break
        best = other
    while best.level == level > 0 or 0 < best.level < level:
        other = tried(best.level - 1)
        if not other.cost < best.cost:
            break
        best = other
    return best if best.cost < cost else None


def _l_bfgs(
    problems: list[Problem], control: Array, model: Model, limit: int, progress: Callable[[float, Array], None]
) -> tuple[Array, list[float], str]:
    """L-BFGS in variables in which a model nearby has a unit Hessian."""
    from scipy.linalg import solve_triangular
    from scipy.optimize import minimize

    history = [_mean_cost(_start(problems, control))]
    progress(history[0], control)
    shape = control[FIXED:].T.shape
    factor = np.linalg.cholesky(model.hessian).T
    # from the variables to steps of the free control points; the Hessian of the cost over its first value is about one
    unit = np.sqrt(history[0]) * solve_triangular(factor, np.eye(len(factor)))

    def place(x: Array) -> Array:
        moved = control.copy()
        moved[FIXED:] += (unit @ x).reshape(shape).T
        return moved

    def evaluate(x: Array) -> tuple[float, Array]:
        tried = _simulate(problems, place(x))
        if tried is None:
            return 1e3, np.zeros(x.size)
        mean = np.mean(_in_parallel(Problem.gradient, problems, tried), axis=0)[FIXED:]
        return _mean_cost(tried) / history[0], unit.T @ mean.T.ravel() / history[0]

    def callback(intermediate_result: Any) -> None:
        history.append(float(intermediate_result.fun) * history[0])
        progress(history[-1], place(intermediate_result.x))
        recent = history[-1 - SMALL_DECREASES :]
        if len(recent) > SMALL_DECREASES and recent[-1] > (1 - L_BFGS_TOLERANCE) ** SMALL_DECREASES * recent[0]:
            raise StopIteration

    options = {"maxiter": limit, "maxcor": PAIRS, "ftol": 0.0, "gtol": 0.0}
    found = minimize(evaluate, np.zeros(len(unit)), jac=True, method="L-BFGS-B", callback=callback, options=options)
    lower = found.fun < 1
    status = "iteration limit" if found.nit >= limit else "converged"
    return (place(found.x) if lower else control), history, status


def _bfgs(
    problems: list[Problem], control: Array, limit: int, progress: Callable[[float, Array], None]
) -> tuple[Array, list[float], str]:
    """BFGS in coordinates that make the terms of closeness and acceleration unit."""
    from scipy.optimize import minimize

    runs = _start(problems, control)
    history = [_mean_cost(runs)]
    progress(history[0], control)
    scales = [_unit_scale(problems[0], m) for m in range(control.shape[1])]

    def place(x: Array) -> Array:
        moved = control.copy()
        for m, part in enumerate(x.reshape(len(scales), -1)):
            moved[FIXED:, m] += scales[m] @ part
        return moved

    def evaluate(x: Array) -> tuple[float, Array]:
        tried = _simulate(problems, place(x))
        if tried is None:
            return 1e3 * history[0], np.zeros(x.size)
        mean = np.mean(_in_parallel(Problem.gradient, problems, tried), axis=0)[FIXED:]
        return _mean_cost(tried), np.concatenate([scale.T @ mean[:, m] for m, scale in enumerate(scales)])

    def callback(intermediate_result: object) -> None:
        cost = float(intermediate_result.fun)  # type: ignore[attr-defined]
        history.append(cost)
        progress(cost, place(intermediate_result.x))  # type: ignore[attr-defined]
        if history[-2] - cost < TOLERANCE * history[-2]:
            raise StopIteration

    x, cost, left = np.zeros(control[FIXED:].size), history[0], limit
    while left > 0:  # again with a unit Hessian where a line search has failed
        found = minimize(evaluate, x, jac=True, method="BFGS", callback=callback, options={"maxiter": left})
        left -= max(int(found.nit), 1)
        lower = found.fun < (1 - TOLERANCE) * cost
        if found.fun < cost:
            x, cost = found.x, float(found.fun)
        if not lower or found.status != LINE_SEARCH_FAILED:
            break
    return place(x), history, "converged" if left > 0 else "iteration limit"


def _unit_scale(problem: Problem, motor: int) -> Array:
    """(k, k) from unit variables to the free control points of a motor: closeness, acceleration and tracked deviations
    as large as the radius times the motor's angle make the Hessian in these variables about one."""
    S, tracked = problem.quadrature, np.sum(list(problem.track.values()), axis=0) * problem.radius**2
    value, second = problem.design[:, FIXED:], problem.design_acceleration[:, FIXED:]
    metric = 2 * (value * (S * (problem.closeness[:, motor] + tracked))[:, None]).T @ value
    metric = metric + 2 * (second * (S * problem.acceleration[:, motor])[:, None]).T @ second
    metric = metric + 1e-12 * np.trace(metric) / len(metric) * np.eye(len(metric))
    return np.asarray(np.linalg.inv(np.linalg.cholesky(metric)).T)
