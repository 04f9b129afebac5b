"""Retargeting: one rod, two rods and an arm on a four-bar beside input shapers; derivatives, wrong models and times.

Deviations are root mean squares over time from the quasi-static motion of the input, mm: over the whole motion and
"after", in pauses and at the end from 0.1 s on. Errors of derivatives are relative to central differences of sixth
order along random directions of the control points. The frequency of every shaper (from 0.8 to 3.5 times the first one)
and the cutoff of the low-pass are tuned for least deviation of the tip over the whole motion. A wrong model has 10 %
more or less stiffness or tip mass; curves are made without knowing of it, except for `robust`, which knows of the
stiffness. Measurements for the fitting of materials are simulations with noise of 1 % of the largest displacement.

`--only` runs some parts alone; a part that needs optimised curves computes them. `--out` writes a picture of the wrong
models. `--quick` takes coarse bases, one time step of 4 ms and three directions instead of ten. It leaves out the full
finite elements, other ramps, bfgs on two rods and the four-bar, causal ZVD and EI shapers, and the printed plate.
Progress goes to stderr.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from time import perf_counter

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.optimize import minimize_scalar

import supple
from _report import Report, best, parse_args
from supple import elastic, spatial
from supple.elastic.cache import with_cached_basis
from supple.engine import FullSimulation, adjoint, full_equilibrium
from supple.mechanism import Mechanism
from supple.mechanism.flexible import FlexibleBody
from supple.mechanism.record import Array
from supple.retargeting import MeasuredMotion, Motion, Retargeted, baselines, fit_material
from supple.retargeting.altered import stiffened, with_stiffness
from supple.retargeting.problem import Problem
from supple.retargeting.weights import Weights

INCREMENT = 1e-3
"""Of control points in differences, rad. Smaller ones measure the tolerance of the time steps."""
STENCIL = {-3: -1, -2: 9, -1: -45, 1: 45, 2: -9, 3: 1}
"""Sixth order: over 60 increments."""
RISE = 0.1
"""Time after a ramp that does not count as pause, s."""
RAMPS = (0.25, 0.4, 0.5)
"""Durations of other ramps of one rod, s."""
EXAMPLES = ("one rod", "two rods", "four-bar")
PARTS = ("derivatives", *EXAMPLES, "full elements", "ramps", "fitting")
BEGIN = perf_counter()


@dataclass(frozen=True, eq=False)
class Example:
    """A mechanism, its input and the targets of the benchmark."""

    name: str
    mechanism: Mechanism
    corners: tuple[tuple[float, float], ...]
    """Time, s, and angle, rad; straight lines between them."""
    track: dict[str, float]
    least: dict[str, tuple[float, float]]
    """By body: unmodified over optimised, whole motion and after."""
    advanced: float | None
    """Advanced shapers over optimised, whole motion; None: no shapers."""
    seconds: dict[str, float]
    """Time by method, on two cores with steps of 0.5 ms."""

    @property
    def motion(self) -> Motion:
        times, angles = zip(*self.corners, strict=True)
        return Motion.from_samples(times, {self.mechanism.motors[0].name: angles})

    @property
    def body(self) -> str:
        """The first tracked body."""
        return next(iter(self.track))

    def after(self, times: Array) -> Array:
        """(t,) true in pauses and at the end."""
        pairs = list(zip(self.corners[1:-1], self.corners[2:], strict=True))
        held = [(a[0] + RISE, b[0]) for a, b in pairs if a[1] == b[1]]
        return np.any([(times >= start) & (times <= end) for start, end in held], axis=0)

    def problem(self, mech: Mechanism, dt: float) -> Problem:
        return Problem(mech, self.motion, Weights(self.track), dt)


@cache
def example(name: str, quick: bool) -> Example:
    size = {"modes": 8, "sections": 12} if quick else {}
    one, two, arm = np.radians([30.0, 90.0, 60.0]).tolist()
    if name == "one rod":
        return Example(
            name,
            supple.library.rod_on_motor(**size),
            ((0, 0), (0.5, 0), (1.1, one), (2.6, one), (3.2, 0), (4.0, 0)),
            {"tip": 1.0},
            {"tip": (30.0, 50.0)},
            1.8,
            {"gauss-newton": 20.0, "bfgs": 60.0},
        )
    if name == "two rods":
        return Example(
            name,
            supple.library.two_rods(**size),
            ((0, 0), (1.0, 0), (1.6, two), (3.5, two)),
            {"tip": 1.0, "motor": 1.0},
            {"tip": (10.0, 10.0), "motor": (4.0, 8.0)},
            2.5,
            {"gauss-newton": 30.0} if quick else {"gauss-newton": 30.0, "bfgs": 90.0},
        )
    methods = {"gauss-newton": np.inf} if quick else {"gauss-newton": np.inf, "bfgs": np.inf}
    corners = (0, 0), (0.4, 0), (0.65, arm), (1.2, arm)
    mech = supple.library.flexible_four_bar(**size, arm=True)
    return Example(name, mech, corners, {"weight": 1.0}, {}, None, methods)


def main() -> None:
    args = parse_args(__doc__, parts=PARTS, out="write a picture of the wrong models there")
    report = Report("retargeting", args)
    if "derivatives" in args.only:
        for name in EXAMPLES:
            derivatives(report, example(name, args.quick), args)
    for name in EXAMPLES:
        if name in args.only:
            measure(report, example(name, args.quick), args)
    if "full elements" in args.only and not args.quick:
        full_elements(report, example("one rod", False))
    if "ramps" in args.only and not args.quick:
        other_ramps(report, example("one rod", False), time_steps(False))
    if "fitting" in args.only:
        fitting(report, args.quick)
    report.finish()


def note(text: str) -> None:
    """Says on stderr what begins now."""
    print(f"{perf_counter() - BEGIN:7.1f} s  {text}", file=sys.stderr, flush=True)


def time_steps(quick: bool) -> tuple[float, ...]:
    """Coarse to fine, s."""
    return (4e-3,) if quick else (2e-3, 5e-4)


@cache
def optimised(name: str, quick: bool, method: str) -> tuple[Retargeted, float]:
    """The result of a method, and the seconds that it took."""
    own = example(name, quick)
    note(f"{name}: {method}")
    start = perf_counter()
    result = supple.retarget(
        own.mechanism, own.motion, own.track, dt=time_steps(quick), method=method, progress=lambda cost: None
    )
    return result, perf_counter() - start


def measure(report: Report, own: Example, args: argparse.Namespace) -> None:
    steps = time_steps(args.quick)
    mech, motion = own.mechanism, own.motion
    methods(report, own, args.quick)
    curves = {"unmodified": motion, "optimised": optimised(own.name, args.quick, "gauss-newton")[0].motion}
    if own.advanced is not None:
        note(f"{own.name}: robust")
        robust = supple.retarget(
            mech, motion, own.track, dt=steps, robust={"stiffness": 0.1}, progress=lambda cost: None
        )
        curves |= {"robust": robust.motion}
        curves |= tuned(own, own.problem(mech, steps[0]), args.quick)
    note(f"{own.name}: comparison")
    compare(report, own, own.problem(mech, steps[-1]), curves)
    demands(report, own, optimised(own.name, args.quick, "gauss-newton")[0])
    if own.advanced is not None:
        note(f"{own.name}: wrong models")
        wrong_models(report, own, curves, steps[0], args.out)


# deviations


def simulated(problem: Problem, motion: Motion) -> dict[str, Array]:
    """(t, 3) deviation of each tracked body, m."""
    return problem.deviation_of(problem.play(motion(problem.times)))


def driven(motion: Motion) -> dict[str, Callable[[float], float]]:
    """Functions of time for the motors, by linear interpolation of fine samples."""
    times = np.linspace(0, motion.duration, round(motion.duration / 5e-4) + 1)
    values = motion(times)
    return {name: lambda t, own=values[:, i]: float(np.interp(t, times, own)) for i, name in enumerate(motion.motors)}


def rms(deviation: Array, where: Array | slice = slice(None)) -> float:
    return float(np.sqrt((deviation[where] ** 2).sum(axis=1).mean()))


def tip_rms(problem: Problem, motion: Motion) -> float:
    try:
        return rms(simulated(problem, motion)["tip"])
    except supple.ConvergenceError:
        return np.inf


def tuned(own: Example, problem: Problem, quick: bool) -> dict[str, Motion]:
    """Shapers, causal and advanced, and the low-pass, each with the frequency of least deviation of the tip: the best
    of a grid, refined by further trials."""
    motion = own.motion
    natural = baselines.first_frequency(own.mechanism)
    makers: dict[str, Callable[[float], Motion]] = {}
    for kind in (baselines.zv, baselines.zvd, baselines.ei):
        if not quick or kind is baselines.zv:  # the best causal one
            makers[f"{kind.__name__.upper()} causal"] = lambda f, kind=kind: kind(f, 0.003)(motion)
        makers[f"{kind.__name__.upper()} advanced"] = lambda f, kind=kind: kind(f, 0.003)(motion, advanced=True)
    makers["low-pass"] = lambda f: baselines.low_pass(motion, f)
    result = {}
    for name, make in makers.items():
        note(f"{own.name}: tuning {name}")
        grid = natural * np.geomspace(0.4 if name == "low-pass" else 0.8, 3.5, 10)
        costs = [tip_rms(problem, make(f)) for f in grid]
        k = int(np.argmin(costs))
        bounds = grid[max(k - 1, 0)], grid[min(k + 1, len(grid) - 1)]
        found = minimize_scalar(
            lambda f, make=make: tip_rms(problem, make(f)),
            bounds=bounds,
            method="bounded",
            options={"maxiter": 6 if quick else 12},
        )
        frequency = float(found.x if found.fun < costs[k] else grid[k])
        result[f"{name}, {frequency:.2f} Hz"] = make(frequency)
    return result


def compare(report: Report, own: Example, problem: Problem, curves: dict[str, Motion]) -> None:
    after = own.after(problem.times)
    parts: dict[str, Array | slice] = {"whole": slice(None), "after": after}
    table = {}
    for curve, motion in curves.items():
        deviations = simulated(problem, motion)
        values = {(body, part): rms(deviations[body], where) for body in own.track for part, where in parts.items()}
        columns = {f"{body}_{part}_mm": 1e3 * value for (body, part), value in values.items()}
        report.row(example=own.name, curve=curve, **columns)
        table[curve] = values
    name, ours = own.name, table["optimised"]
    for body, bounds in own.least.items():
        for part, bound in zip(parts, bounds, strict=True):
            ratio = table["unmodified"][body, part] / ours[body, part]
            report.target(f"{name}: unmodified / optimised, {body}, {part}", ratio, at_least=bound)
    if own.advanced is None:
        return
    for kind, bound in (("causal", 10.0), ("advanced", own.advanced)):
        least = min(values["tip", "whole"] for curve, values in table.items() if kind in curve)
        report.target(f"{name}: best {kind} shaper / optimised, tip", least / ours["tip", "whole"], at_least=bound)


def methods(report: Report, own: Example, quick: bool) -> None:
    """Iterations, time and cost of each method."""
    costs = {}
    for method, bound in own.seconds.items():
        result, taken = optimised(own.name, quick, method)
        costs[method] = result.history[-1]
        report.row(
            example=own.name,
            method=method,
            iterations=len(result.history) - 1,
            seconds=round(taken, 1),
            cost=float(f"{costs[method]:.6g}"),
            status=result.status,
        )
        if not quick and np.isfinite(bound):
            report.target(f"{own.name}: seconds, {method}", taken, at_most=bound)
    if "bfgs" in costs:
        difference = abs(costs["bfgs"] / costs["gauss-newton"] - 1)
        report.target(f"{own.name}: cost of bfgs / gauss-newton - 1", difference, at_most=0.01)


def demands(report: Report, own: Example, result: Retargeted) -> None:
    """Anticipation, largest speed, acceleration and torque."""
    (begin, first), (_, second) = own.corners[1:3]
    moving = np.abs(result.motion(result.times)[:, 0] - first) > 0.01 * abs(second - first)
    ahead = begin - float(result.times[np.argmax(moving)])
    name, motor = own.name, result.motion.motors[0]
    for k, (curve, motion) in enumerate((("unmodified", own.motion), ("optimised", result.motion))):
        torque = float(np.abs(result.torques[motor][k]).max())
        speed, acceleration = (float(np.abs(motion.design(result.times, d) @ motion.control).max()) for d in (1, 2))
        report.row(example=name, curve=curve, rad_per_s=speed, rad_per_s2=acceleration, torque_Nm=torque)
    if own.advanced is None:
        return
    report.target(f"{name}: anticipation (1 % of the turn), s", ahead, at_least=0.1)
    report.target(f"{name}: anticipation (1 % of the turn), s", ahead, at_most=0.25)
    report.target(f"{name}: largest acceleration, rad/s^2", acceleration, at_most=40.0)
    report.target(f"{name}: largest torque, N m", torque, at_most=2.0)


# derivatives


def derivatives(report: Report, own: Example, args: argparse.Namespace) -> None:
    """Gradient and tangent-linear columns against differences along random directions, and the time of a gradient."""
    note(f"{own.name}: derivatives")
    problem = own.problem(own.mechanism, time_steps(args.quick)[-1])
    control, motor = problem.input.control, problem.input.motors[0]
    directions = np.random.default_rng(0).normal(size=(3 if args.quick else 10, *control.shape))
    directions[:, :3] = 0
    run = problem.simulate(control)
    slopes = (problem.gradient(run) * directions).sum(axis=(1, 2))
    # the derivatives of positions are in the body's axes
    point = problem.points[own.body]
    curves = np.ascontiguousarray((problem.design @ directions)[..., 0])
    local = point.velocities(adjoint.tangent(run.tape, motors={motor: curves}, want=("poses",)), run.coordinates)
    columns = np.einsum("tij,ktj->kti", run.poses[:, point.body, :3, :3], local)
    costs, moved = np.zeros(len(directions)), np.zeros(columns.shape)
    for i, direction in enumerate(directions):
        for k, weight in STENCIL.items():
            trial = problem.simulate(control + k * INCREMENT * direction)
            costs[i] += weight * trial.cost / (60 * INCREMENT)
            moved[i] += weight * trial.deviation[own.body] / (60 * INCREMENT)
    motors = driven(problem.input)

    def forward() -> None:
        sim = supple.Simulation(problem.mechanism, problem.dt, "bdf2", at=problem.start, motors=motors)
        sim.step(problem.steps)

    seconds = best(forward, 3), best(lambda: problem.gradient(problem.simulate(control)), 3)
    errors = {"gradient": _relative(costs, slopes), "tangent-linear columns": _relative(moved, columns)}
    report.row(
        example=own.name,
        steps=problem.steps,
        directions=len(directions),
        **{f"error of {what}": float(f"{error:.2g}") for what, error in errors.items()},
        forward_s=seconds[0],
        with_gradient_s=seconds[1],
    )
    for what, error in errors.items():
        report.target(f"{own.name}: error of the {what}", error, at_most=1e-6)
    report.target(f"{own.name}: forward and adjoint / forward", seconds[1] / seconds[0], at_most=3.0)


def _relative(found: Array, exact: Array) -> float:
    return float(np.linalg.norm(found - exact) / np.linalg.norm(exact))


# other models and motions


def with_tip_mass(mech: Mechanism, factor: float) -> Mechanism:
    """The mechanism with `factor` times the mass and inertia of its tip."""
    bodies = [replace(b, mass=factor * b.mass, inertia=factor * b.inertia) if b.name == "tip" else b
              for b in mech.bodies]  # fmt: skip
    return replace(mech, bodies=tuple(bodies))


def wrong_models(report: Report, own: Example, curves: dict[str, Motion], dt: float, out: Path | None) -> None:
    """Deviations of the tip where stiffness or tip mass are 10 % off."""
    nominal = own.mechanism
    models = {
        f"{what} {'-+'[factor > 1]}10 %": change(nominal, factor)
        for what, change in (("stiffness", with_stiffness), ("tip mass", with_tip_mass))
        for factor in (0.9, 1.1)
    }
    chosen = {name.split(",")[0]: name for name in curves if "causal" not in name and "low-pass" not in name}
    table = {}
    for model, mech in models.items():
        problem = own.problem(mech, dt)
        table[model] = {name: 1e3 * tip_rms(problem, curves[curve]) for name, curve in chosen.items()}
        report.row(example=own.name, model=model, **{f"{k}_mm": v for k, v in table[model].items()})
    worst = max(row["optimised"] / row["unmodified"] for row in table.values())
    report.target(f"{own.name}: wrong model, optimised / unmodified, worst", worst, at_most=0.2)
    lead = min(row["ZV advanced"] / row["robust"] for row in table.values())
    report.target(f"{own.name}: wrong model, ZV advanced / robust, worst", lead, at_least=1.0)
    lead = min(min(v for k, v in row.items() if "advanced" in k) / row["robust"] for row in table.values())
    report.target(f"{own.name}: wrong model, best advanced shaper / robust, worst", lead, at_least=1.0)
    if out is not None:
        draw(table, out / f"retarget_{own.name.replace(' ', '_')}_wrong_models.png")


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


def full_elements(report: Report, own: Example, dt: float = 2e-3) -> None:
    """The optimised curve on full finite elements, relative to their own static states."""
    curves = {"unmodified": own.motion, "optimised": optimised(own.name, False, "gauss-newton")[0].motion}
    mech, motion = own.mechanism, own.motion
    motor = motion.motors[0]
    at = mech.bodies[mech.frame("tip")[0]].centre
    note(f"{own.name}: static states of full elements")
    angles = np.linspace(-0.02, max(angle for _, angle in own.corners) + 0.02, 17)
    statics = [full_equilibrium(mech, targets={motor: float(a)}).poses["tip"] for a in angles]
    static = CubicSpline(angles, [pose[:3, :3] @ at + pose[:3, 3] for pose in statics])
    start = full_equilibrium(mech, targets={motor: 0.0})
    found = {}
    for name, curve in curves.items():
        sim = FullSimulation(mech, dt, "bdf2", start=start, motors=driven(curve))
        times, deviations = [], []
        steps = round(motion.duration / dt)
        for k in range(steps):
            if k % 200 == 0:
                note(f"{own.name}: full elements, {name}, step {k} of {steps}")
            sim.step()
            pose = sim.poses["tip"]
            times.append(sim.time)
            deviations.append(pose[:3, :3] @ at + pose[:3, 3] - static(motion(sim.time)[0]))
        whole, after = np.array(deviations), own.after(np.array(times))
        found[name] = rms(whole)
        report.row(
            example=own.name,
            full_finite_elements=name,
            tip_whole_mm=1e3 * found[name],
            tip_after_mm=1e3 * rms(whole, after),
        )
    ratio = found["unmodified"] / found["optimised"]
    report.target(f"{own.name}: full elements, unmodified / optimised", ratio, at_least=20.0)


def other_ramps(report: Report, own: Example, steps: tuple[float, ...]) -> None:
    """Ramps of other durations."""
    for ramp in RAMPS:
        note(f"{own.name}: ramp of {ramp} s")
        angle = own.corners[2][1]
        corners = ((0, 0), (0.5, 0), (0.5 + ramp, angle), (2.0 + ramp, angle), (2.0 + 2 * ramp, 0), (2.8 + 2 * ramp, 0))
        other = replace(own, corners=corners)
        result = supple.retarget(other.mechanism, other.motion, other.track, dt=steps, progress=lambda cost: None)
        after = other.after(result.times)
        before, optimised_too = result.deviations["tip"]
        whole, held = (rms(before, where) / rms(optimised_too, where) for where in (slice(None), after))
        report.row(example=own.name, ramp_s=ramp, whole_ratio=whole, after_ratio=held)


# fitting


def fitting(report: Report, quick: bool) -> None:
    """Young's modulus and damping behind synthetic measurements with noise."""
    turn = Motion.from_samples([0, 0.2, 0.5, 1.4, 1.7, 3.4], {"motor": np.radians([0, 0, 30, 30, 0, 0])})
    size = {"modes": 8, "sections": 12} if quick else {}
    cases: dict[str, Callable[[], Mechanism]] = {"rod": lambda: supple.library.rod_on_motor(**size)}
    if not quick:
        cases["printed plate"] = printed_plate
    for name, make in cases.items():
        note(f"fitting: {name}")
        mech = make()
        material = mech.flexible[0].part.material
        true = with_material(mech, 1.25, 2 * material.beta)
        start = perf_counter()
        fitted = fit_material(
            mech, turn, measured(true, turn), "tip", dt=2e-3 if quick else 1e-3, progress=lambda fraction: None
        )
        errors = abs(fitted.young / (1.25 * material.young) - 1), abs(fitted.beta / (2 * material.beta) - 1)
        report.row(
            fitted=name,
            young_GPa=fitted.young / 1e9,
            beta_s=fitted.beta,
            young_error=errors[0],
            beta_error=errors[1],
            seconds=round(perf_counter() - start, 1),
        )
        report.target(f"fitting, {name}: error of Young's modulus", errors[0], at_most=0.01)
        report.target(f"fitting, {name}: error of the damping", errors[1], at_most=0.1)


def printed_plate() -> Mechanism:
    """A printed plate of 30 x 3 cm that a motor turns about an edge, with 100 g at the other end."""
    plastic = elastic.Material(young=2.5e9, poisson=0.36, density=1240, law="neo-hookean", beta=1e-3)
    part = elastic.plate(0.3, 0.03, 3e-3, plastic, divisions=(16, 2, 1))
    build = supple.Builder("printed plate")
    build.flexible("plate", with_cached_basis(part, modes=6, plane="y"))
    build.body("tip", spatial.translation([0.3, 0, 0]), mass=0.1, inertia=(1e-5, 1e-5, 1e-5))
    build.hinge("edge", "world", "plate.start", at=(0, 0, 0), axis=(0, -1, 0))
    build.fixed("clamp", "plate.end", "tip")
    build.motor("motor", "edge")
    return build.build()


def with_material(mech: Mechanism, factor: float, beta: float) -> Mechanism:
    """The mechanism whose only flexible body has `factor` times the modulus, and other damping."""
    part = stiffened(mech.flexible[0].part, factor)
    assert part.basis is not None
    part = replace(part, material=replace(part.material, beta=beta), basis=replace(part.basis, beta=beta))
    return replace(mech, flexible=(FlexibleBody(mech.flexible[0].name, part),))


def measured(mech: Mechanism, turn: Motion, noise: float = 0.01, dt: float = 5e-4, rate: int = 100) -> MeasuredMotion:
    """Positions of the tip with noise, a fraction of its largest displacement."""
    sim = supple.Simulation(mech, dt, "bdf2", at=supple.equilibrium(mech), motors=driven(turn))
    with sim.tape() as tape:
        sim.step(round(turn.duration / dt))
    exact = tape.poses[:: round(1 / dt / rate), mech.frame("tip")[0], :3, 3]
    size = noise * np.linalg.norm(exact - exact[0], axis=1).max()
    noisy = exact + size * np.random.default_rng(0).normal(size=exact.shape)
    return MeasuredMotion(np.arange(len(exact)) / rate, noisy)


if __name__ == "__main__":
    main()
