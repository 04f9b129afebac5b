"""Retargeting: one rod and two rods beside input shapers, with errors of derivatives, wrong models and times.

Deviations are root mean squares over time from the quasi-static motion of the input, mm: over the whole motion and
"after", in pauses and at the end from 0.1 s on. Errors of derivatives are relative to central differences of fourth
order along random directions, with three increments of the control points, rad. The simulation's tolerance makes single
differences noisy, so the smallest of the three errors counts; all are printed. The frequency of every shaper (from 0.8
to 3.5 times the first one) and the cutoff of the low-pass are tuned for least deviation of the tip over the whole
motion. A wrong model has 10 % more or less stiffness or tip mass; curves are made without knowing of it, except for
`robust`, which knows of the stiffness. `--out` writes a picture of the wrong models. `--quick` takes a coarse basis,
one time step of 4 ms and three directions instead of ten. It leaves out full finite elements, other ramps and bfgs on
two rods.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.optimize import minimize_scalar

import supple
from _report import Report, best, parse_args
from supple.engine import FullSimulation, adjoint, full_equilibrium
from supple.mechanism import Mechanism
from supple.mechanism.record import Array
from supple.retargeting import Motion, Retargeted, baselines
from supple.retargeting.altered import with_stiffness
from supple.retargeting.problem import Problem
from supple.retargeting.weights import Weights

INCREMENTS = (1e-6, 1e-5, 1e-4)
"""Of control points in differences, rad."""
RISE = 0.1
"""Time after a ramp that does not count as pause, s."""
PARTS = ("one rod", "two rods", "loop")


@dataclass(frozen=True)
class Example:
    """A mechanism, its input and the targets of the benchmark."""

    name: str
    mechanism: Mechanism
    corners: tuple[tuple[float, float], ...]
    """Time, s, and angle, rad; straight lines between them."""
    track: dict[str, float]
    least: dict[str, tuple[float, float]]
    """By body: unmodified over optimised, whole motion and after."""
    advanced: float
    """Advanced shapers over optimised, whole motion."""
    seconds: dict[str, float]
    """Time by method, on two cores with steps of 0.5 ms."""

    @property
    def motion(self) -> Motion:
        times, angles = zip(*self.corners, strict=True)
        return Motion.from_samples(times, {self.mechanism.motors[0].name: angles})

    def after(self, times: Array) -> Array:
        """(t,) true in pauses and at the end."""
        pairs = list(zip(self.corners[1:-1], self.corners[2:], strict=True))
        held = [(a[0] + RISE, b[0]) for a, b in pairs if a[1] == b[1]]
        return np.any([(times >= start) & (times <= end) for start, end in held], axis=0)

    def problem(self, mech: Mechanism, dt: float) -> Problem:
        return Problem(mech, self.motion, Weights(self.track, {}, 1e-4, 1e-3, np.inf, np.inf), dt)


def examples(quick: bool) -> list[Example]:
    size = {"modes": 8, "sections": 12} if quick else {}
    one, two = np.radians(30), np.radians(90)
    return [
        Example(
            "one rod",
            supple.library.rod_on_motor(**size),
            ((0, 0), (0.5, 0), (1.1, one), (2.6, one), (3.2, 0), (4.0, 0)),
            {"tip": 1.0},
            {"tip": (30.0, 50.0)},
            1.8,
            {"gauss-newton": 20.0, "bfgs": 60.0},
        ),
        Example(
            "two rods",
            supple.library.two_rods(**size),
            ((0, 0), (1.0, 0), (1.6, two), (3.5, two)),
            {"tip": 1.0, "motor": 1.0},
            {"tip": (10.0, 10.0), "motor": (4.0, 8.0)},
            2.5,
            {"gauss-newton": 30.0} if quick else {"gauss-newton": 30.0, "bfgs": 90.0},
        ),
    ]


def main() -> None:
    args = parse_args(__doc__, parts=PARTS, out="write a picture of the wrong models there")
    report = Report("retargeting", args)
    for example in examples(args.quick):
        if example.name in args.only:
            measure(report, example, args)
    if "loop" in args.only:
        size = {"modes": 8, "sections": 12} if args.quick else {}
        corners = ((0, 0), (0.1, 0), (0.4, 1.0), (0.6, 1.0))
        loop = Example("loop", supple.library.flexible_four_bar(**size), corners, {"weight": 1.0}, {}, 0.0, {})
        derivatives(report, loop, loop.problem(loop.mechanism, 4e-3), 3 if args.quick else 10)
    report.finish()


def measure(report: Report, example: Example, args: argparse.Namespace) -> None:
    steps: tuple[float, ...] = (4e-3,) if args.quick else (2e-3, 5e-4)
    mech, motion = example.mechanism, example.motion
    derivatives(report, example, example.problem(mech, steps[0]), 3 if args.quick else 10)
    optimised = optimise(report, example, steps, args.quick)
    shaped = tuned(mech, example.problem(mech, steps[0]), motion, 5 if args.quick else 12)
    robust = supple.retarget(mech, motion, example.track, dt=steps, robust={"stiffness": 0.1}).motion
    curves = {"unmodified": motion, "optimised": optimised.motion, "robust": robust, **shaped}
    compare(report, example, example.problem(mech, steps[-1]), curves)
    demands(report, example, example.problem(mech, steps[-1]), optimised.motion)
    wrong_models(report, example, curves, steps[0], args.out)
    if not args.quick and example.name == "one rod":
        full_elements(report, example, optimised.motion)
        other_ramps(report, example, steps)


# deviations


def simulated(problem: Problem, motion: Motion) -> dict[str, Array]:
    """(t, 3) deviation of each tracked body, m."""
    sim = supple.Simulation(problem.mechanism, problem.dt, "bdf2", at=problem.start, motors=driven(motion))
    with sim.tape() as tape:
        sim.step(problem.steps)
    return {name: centres(problem, tape.poses, name) - centres(problem, problem.targets, name)
            for name in problem.weights.track}  # fmt: skip


def driven(motion: Motion) -> dict[str, Callable[[float], float]]:
    """Functions of time for the motors, by linear interpolation of fine samples."""
    times = np.linspace(0, motion.duration, round(motion.duration / 5e-4) + 1)
    values = motion(times)
    return {name: lambda t, own=values[:, i]: float(np.interp(t, times, own)) for i, name in enumerate(motion.motors)}


def centres(problem: Problem, poses: Array, name: str) -> Array:
    """(t, 3) centres of mass of a body."""
    body = problem.bodies[name]
    own: Array = poses[:, body, :3, :3] @ problem.mechanism.bodies[body].centre + poses[:, body, :3, 3]
    return own


def rms(deviation: Array, where: Array | slice = slice(None)) -> float:
    return float(np.sqrt((deviation[where] ** 2).sum(axis=1).mean()))


def tip_rms(problem: Problem, motion: Motion) -> float:
    try:
        return rms(simulated(problem, motion)["tip"])
    except supple.ConvergenceError:
        return np.inf


def tuned(mech: Mechanism, problem: Problem, motion: Motion, refinements: int) -> dict[str, Motion]:
    """Shapers, causal and advanced, and the low-pass, each with the frequency of least deviation of the tip."""
    natural = baselines.first_frequency(mech)
    makers: dict[str, Callable[[float], Motion]] = {}
    for kind in (baselines.zv, baselines.zvd, baselines.ei):
        makers[f"{kind.__name__.upper()} causal"] = lambda f, kind=kind: kind(f, 0.003)(motion)
        makers[f"{kind.__name__.upper()} advanced"] = lambda f, kind=kind: kind(f, 0.003)(motion, advanced=True)
    makers["low-pass"] = lambda f: baselines.low_pass(motion, f)
    result = {}
    for name, make in makers.items():
        grid = natural * np.geomspace(0.4 if name == "low-pass" else 0.8, 3.5, 10)
        costs = [tip_rms(problem, make(f)) for f in grid]
        k = int(np.argmin(costs))
        bounds = grid[max(k - 1, 0)], grid[min(k + 1, len(grid) - 1)]
        found = minimize_scalar(
            lambda f, make=make: tip_rms(problem, make(f)),
            bounds=bounds,
            method="bounded",
            options={"maxiter": refinements},
        )
        frequency = float(found.x if found.fun < costs[k] else grid[k])
        result[f"{name}, {frequency:.2f} Hz"] = make(frequency)
    return result


def compare(report: Report, example: Example, problem: Problem, curves: dict[str, Motion]) -> None:
    after = example.after(problem.times)
    deviations = {name: simulated(problem, motion) for name, motion in curves.items()}
    parts: dict[str, Array | slice] = {"whole": slice(None), "after": after}
    table = {
        curve: {(body, part): rms(own[body], where) for body in example.track for part, where in parts.items()}
        for curve, own in deviations.items()
    }
    for curve, values in table.items():
        columns = {f"{body}_{part}_mm": 1e3 * value for (body, part), value in values.items()}
        report.row(example=example.name, curve=curve, **columns)
    name, ours = example.name, table["optimised"]
    for body, bounds in example.least.items():
        for part, bound in zip(parts, bounds, strict=True):
            ratio = table["unmodified"][body, part] / ours[body, part]
            report.target(f"{name}: unmodified / optimised, {body}, {part}", ratio, at_least=bound)
    for kind, bound in (("causal", 10.0), ("advanced", example.advanced)):
        least = min(values["tip", "whole"] for curve, values in table.items() if kind in curve)
        report.target(f"{name}: best {kind} shaper / optimised, tip", least / ours["tip", "whole"], at_least=bound)


def optimise(report: Report, example: Example, steps: tuple[float, ...], quick: bool) -> Retargeted:
    """The result of Gauss-Newton; a row for each method."""
    results = {}
    for method, bound in example.seconds.items():
        start = perf_counter()
        results[method] = supple.retarget(example.mechanism, example.motion, example.track, dt=steps, method=method)
        taken = perf_counter() - start
        result = results[method]
        report.row(
            example=example.name, method=method, iterations=len(result.history) - 1, seconds=round(taken, 1),
            cost=float(f"{result.history[-1]:.6g}"), status=result.status,
        )  # fmt: skip
        if not quick:
            report.target(f"{example.name}: seconds, {method}", taken, at_most=bound)
    if "bfgs" in results:
        costs = [results[method].history[-1] for method in ("gauss-newton", "bfgs")]
        report.target(f"{example.name}: cost of bfgs / gauss-newton - 1", abs(costs[1] / costs[0] - 1), at_most=0.01)
    return results["gauss-newton"]


def demands(report: Report, example: Example, problem: Problem, motion: Motion) -> None:
    """Anticipation, largest acceleration and largest torque of the optimised curves."""
    (begin, first), (_, second) = example.corners[1:3]
    moving = np.abs(motion(problem.times)[:, 0] - first) > 0.01 * abs(second - first)
    ahead = begin - float(problem.times[np.argmax(moving)])
    name, motor = example.name, motion.motors[0]
    for curve, each in (("unmodified", example.motion), ("optimised", motion)):
        sim = supple.Simulation(problem.mechanism, problem.dt, "bdf2", at=problem.start, motors=driven(each))
        torque = 0.0
        for _ in range(problem.steps):
            sim.step()
            torque = max(torque, abs(sim.motor_torques[motor]))
        speed, acceleration = (float(np.abs(each.design(problem.times, k) @ each.control).max()) for k in (1, 2))
        report.row(example=name, curve=curve, rad_per_s=speed, rad_per_s2=acceleration, torque_Nm=torque)
    report.target(f"{name}: anticipation (1 % of the turn), s", ahead, at_least=0.1)
    report.target(f"{name}: anticipation (1 % of the turn), s", ahead, at_most=0.25)
    report.target(f"{name}: largest acceleration, rad/s^2", acceleration, at_most=40.0)
    report.target(f"{name}: largest torque, N m", torque, at_most=2.0)


# derivatives


def derivatives(report: Report, example: Example, problem: Problem, count: int) -> None:
    """Gradient and tangent-linear columns against differences along `count` directions, and the time of a gradient."""
    control, motor = problem.input.control, problem.input.motors[0]
    directions = np.random.default_rng(0).normal(size=(count, *control.shape))
    directions[:, :3] = 0
    run = problem.simulate(control)
    body = next(iter(example.track))
    slopes = (problem.gradient(run) * directions).sum(axis=(1, 2))
    # the tangent of a pose is the body's velocity in its own axes
    index = problem.bodies[body]
    curves = np.ascontiguousarray((problem.design @ directions)[..., 0])
    twists = adjoint.tangent(run.tape, motors={motor: curves}, want=("poses",)).poses[:, :, index]
    local = twists[..., :3] + np.cross(twists[..., 3:], problem.mechanism.bodies[index].centre)
    columns = np.einsum("tij,ktj->kti", run.tape.poses[:, index, :3, :3], local)
    errors = np.zeros((2, len(INCREMENTS)))
    for i, h in enumerate(INCREMENTS):
        trials = [[problem.simulate(control + k * h * d) for k in (-2, -1, 1, 2)] for d in directions]
        weights = np.array([1, -8, 8, -1]) / (12 * h)
        costs = np.array([[trial.cost for trial in line] for line in trials]) @ weights
        moved = [np.tensordot(weights, np.stack([trial.deviation[body] for trial in line]), 1) for line in trials]
        errors[:, i] = _relative(costs, slopes), _relative(np.array(moved), columns)
    motors = driven(problem.input)

    def forward() -> None:
        sim = supple.Simulation(problem.mechanism, problem.dt, "bdf2", at=problem.start, motors=motors)
        sim.step(problem.steps)

    times = [best(forward, 3), best(lambda: problem.gradient(problem.simulate(control)), 3)]
    ratio = times[1] / times[0]
    for what, own in zip(("gradient", "tangent-linear columns"), errors, strict=True):
        by_increment = {f"error, {h:.0e}": float(f"{e:.1e}") for h, e in zip(INCREMENTS, own, strict=True)}
        report.row(example=example.name, derivative=what, **by_increment)
        report.target(f"{example.name}: error of the {what}", own.min(), at_most=1e-6)
    report.target(f"{example.name}: forward and adjoint / forward", ratio, at_most=3.0)


def _relative(found: Array, exact: Array) -> float:
    return float(np.linalg.norm(found - exact) / np.linalg.norm(exact))


# other models and motions


def with_tip_mass(mech: Mechanism, factor: float) -> Mechanism:
    """The mechanism with `factor` times the mass and inertia of its tip."""
    bodies = [replace(b, mass=factor * b.mass, inertia=factor * b.inertia) if b.name == "tip" else b
              for b in mech.bodies]  # fmt: skip
    return replace(mech, bodies=tuple(bodies))


def wrong_models(report: Report, example: Example, curves: dict[str, Motion], dt: float, out: Path | None) -> None:
    """Deviations of the tip where stiffness or tip mass are 10 % off."""
    nominal = example.mechanism
    models = {
        f"{what} {'-+'[factor > 1]}10 %": change(nominal, factor)
        for what, change in (("stiffness", with_stiffness), ("tip mass", with_tip_mass))
        for factor in (0.9, 1.1)
    }
    chosen = {name.split(",")[0]: name for name in curves if "causal" not in name and "low-pass" not in name}
    table = {}
    for model, mech in models.items():
        problem = example.problem(mech, dt)
        table[model] = {name: 1e3 * tip_rms(problem, curves[curve]) for name, curve in chosen.items()}
        report.row(example=example.name, model=model, **{f"{k}_mm": v for k, v in table[model].items()})
    worst = max(row["optimised"] / row["unmodified"] for row in table.values())
    report.target(f"{example.name}: wrong model, optimised / unmodified, worst", worst, at_most=0.2)
    lead = min(row["ZV advanced"] / row["robust"] for row in table.values())
    report.target(f"{example.name}: wrong model, ZV advanced / robust, worst", lead, at_least=1.0)
    lead = min(min(v for k, v in row.items() if "advanced" in k) / row["robust"] for row in table.values())
    report.target(f"{example.name}: wrong model, best advanced shaper / robust, worst", lead, at_least=1.0)
    if out is not None:
        draw(table, out / f"retarget_{example.name.replace(' ', '_')}_wrong_models.png")


def draw(table: dict[str, dict[str, float]], file: Path) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 3.5))
    colours = "#d1495b", "#2e86ab", "#3a7d44", "#66788a", "#8fa3b5", "#c0ccd6"
    for i, (name, colour) in enumerate(zip(next(iter(table.values())), colours, strict=True)):
        places = np.arange(len(table)) + 0.14 * (i - 2.5)
        axes.bar(places, [row[name] for row in table.values()], 0.13, color=colour, label=name)
    axes.set(xticks=range(len(table)), xticklabels=list(table), ylabel="rms deviation of the tip, mm", yscale="log")
    axes.set(ylim=(1, 400), yticks=[1, 10, 100], yticklabels=["1", "10", "100"])
    axes.legend(fontsize="small", ncols=3, loc="upper center")
    figure.tight_layout()
    figure.savefig(file, dpi=90)


def full_elements(report: Report, example: Example, optimised: Motion, dt: float = 4e-3) -> None:
    """The optimised curve on full finite elements, relative to their own static states."""
    mech, motion = example.mechanism, example.motion
    motor = motion.motors[0]
    at = mech.bodies[mech.frame("tip")[0]].centre
    angles = np.linspace(-0.02, max(angle for _, angle in example.corners) + 0.02, 17)
    statics = [full_equilibrium(mech, targets={motor: float(a)}).poses["tip"] for a in angles]
    static = CubicSpline(angles, [pose[:3, :3] @ at + pose[:3, 3] for pose in statics])
    start = full_equilibrium(mech, targets={motor: 0.0})
    found = {}
    for name, curve in (("unmodified", motion), ("optimised", optimised)):
        sim = FullSimulation(mech, dt, "bdf2", start=start, motors=driven(curve))
        deviations = []
        for _ in range(round(motion.duration / dt)):
            sim.step()
            pose = sim.poses["tip"]
            deviations.append(pose[:3, :3] @ at + pose[:3, 3] - static(motion(sim.time)[0]))
        found[name] = rms(np.array(deviations))
        report.row(example=example.name, full_finite_elements=name, tip_whole_mm=1e3 * found[name])
    ratio = found["unmodified"] / found["optimised"]
    report.target(f"{example.name}: full elements, unmodified / optimised", ratio, at_least=20.0)


def other_ramps(report: Report, example: Example, steps: tuple[float, ...]) -> None:
    """Ramps of other durations."""
    for ramp in (0.25, 0.4, 0.5):
        angle = example.corners[2][1]
        corners = ((0, 0), (0.5, 0), (0.5 + ramp, angle), (2.0 + ramp, angle), (2.0 + 2 * ramp, 0), (2.8 + 2 * ramp, 0))
        other = replace(example, corners=corners)
        result = supple.retarget(other.mechanism, other.motion, other.track, dt=steps)
        after = other.after(result.times)
        before, optimised = result.deviations["tip"]
        whole, held = (rms(before, where) / rms(optimised, where) for where in (slice(None), after))
        report.row(example=example.name, ramp_s=ramp, whole_ratio=whole, after_ratio=held)


if __name__ == "__main__":
    main()
