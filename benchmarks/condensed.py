"""Condensed models, one run: microseconds a step of 2 ms with the poses of all links, and how exact they are.

Beside the condensed model, in turns: the linear model (links by twists), a blend of three linear models, our engine and
MuJoCo (implicitfast, contacts off, the same mechanism as MJCF). A steady pull of 50 N sideways keeps all of them in
motion. Then, on three of them, separation of the joints and error of the tip against `equilibrium`, at rest under a far
pull; work along closed paths of the tips; and random jerks, robots too where they are beside the project. `--long`
jerks for a million steps, or as many as it says; `--only` names the mechanisms that are jerked.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import mujoco
import numpy as np

import supple
from _report import Report, parse_args
from engine import DT, alternate, mujoco_twin, simulation
from reduced import sizes
from supple import spatial
from supple.mechanism import Mechanism
from supple.mechanism.record import Array

# damped, so that they come to rest soon
PULLED = {
    "helix 50": (supple.library.helix(50, damping=400.0), [0.0, 12.0, -10.0, 0, 0, 0]),
    "ladder 48": (supple.library.ladder(damping=400.0), [0.0, 40.0, 0, 0, 0, 0]),
    "arm 20": (supple.library.robot_arm(damping=400.0), [0.0, 150.0, 100.0, 0, 0, 0]),
}
LIBRARY = {
    "helix 50": (supple.library.helix(50), ["tip"]),
    "ladder 48": (supple.library.ladder(), ["tip"]),
    "y": (supple.library.y(), ["left_tip", "right_tip"]),
    "loop": (supple.library.loop(), ["tip"]),
    "arm 20": (supple.library.robot_arm(), ["tip"]),
}
SHARED = Path(__file__).parents[2] / "shared/robots"
ROBOTS = {
    "robotiq": ("robotiq_2f85/2f85.xml", ["right_pad", "left_pad"]),
    "shadow": ("shadow_hand/right_hand.xml", [f"rh_{finger}distal" for finger in ("ff", "mf", "rf", "lf", "th")]),
    "softfoot": ("iit_softfoot/softfoot.xml", ["heel", *(f"distal_phalanx_{i}" for i in range(1, 6))]),
}
REACH = 0.7
"""Relative displacement of a jerk, were it held for long."""


def main() -> None:
    args = parse_args(__doc__, parts=[*LIBRARY, *ROBOTS], steps=1_000_000)
    report = Report("condensed models", args)
    if args.long is None:
        took = {name: steps(report, name, mech, args.quick) for name, mech in sizes().items()}
        targets(report, took)
        for name, (mech, push) in PULLED.items():
            accuracy(report, name, mech, np.array(push))
        worst = max(closed_path(report, name, *case) for name, case in LIBRARY.items())
        report.target("work around closed paths over the energy involved, most", worst, at_most=1e-8)
    jerks(report, args.long or (2000 if args.quick else 20_000), args.only)
    report.finish()


def pulled(model: object, **options: object) -> supple.ReducedSimulation:
    sim = supple.ReducedSimulation(model, DT, **options)
    sim.apply("tip", [0, 50, 0, 0, 0, 0])
    sim._motion.core.step(100, True)
    return sim


def three(mech: Mechanism) -> object:
    """A blend of the linear models at the reference pose and under two pulls."""
    models = [supple.reduce(mech, ["tip"])]
    for force in (25.0, 50.0):
        try:
            models.append(supple.reduce(mech, ["tip"], at=supple.equilibrium(mech, {"tip": [0, force, 0, 0, 0, 0]})))
        except supple.ConvergenceError:
            break
    return supple.blend(models)


def steps(report: Report, name: str, mech: Mechanism, quick: bool) -> dict[str, float]:
    """Seconds a step of everything, best of alternating repetitions."""
    condensed, linear = pulled(supple.condense(mech, ["tip"])), pulled(supple.reduce(mech, ["tip"]))
    blended = pulled(three(mech))
    engine = simulation(mech)
    mj_model, mj_data = mujoco_twin(mech)
    peer_steps = max(2, 20_000 // len(mech.bodies) ** 2)  # few, so that other work seldom comes between
    runs: dict[str, tuple[int, Callable[[int], object]]] = {
        "condensed": (200, lambda n: condensed._motion.core.step(n, True)),
        "linear": (200, lambda n: linear._motion.core.step(n, True)),
        "blended": (50, lambda n: blended._motion.core.step(n, True)),
        "engine": (peer_steps, engine.step),
        "mujoco": (peer_steps, lambda n: mujoco.mj_step(mj_model, mj_data, nstep=n)),
    }
    calls = {key: (lambda run=run, n=n: run(n)) for key, (n, run) in runs.items()}
    times: dict[str, float] = dict.fromkeys(runs, float("inf"))
    for _ in range(10 if quick else 60):
        for key, seconds in alternate(calls, 1).items():
            times[key] = min(times[key], seconds / runs[key][0])
    core = condensed._motion.core
    report.row(
        us=name,
        **{key: 1e6 * seconds for key, seconds in times.items()},
        to_mujoco=times["mujoco"] / times["condensed"],
        to_engine=times["engine"] / times["condensed"],
        iterations=core.iterations / core.steps,
        by="tree" if core.tree else "sparse tangent",
    )
    return times


def targets(report: Report, took: dict[str, dict[str, float]]) -> None:
    long = took["helix 400"]
    report.target("helix of 400 links, us a step", 1e6 * long["condensed"], at_most=60)
    report.target("helix of 400 links, times faster than MuJoCo", long["mujoco"] / long["condensed"], at_least=100)
    report.target("arm of 20 links, us a step", 1e6 * took["arm 20"]["condensed"], at_most=6)
    report.target("ladder of 48 links, us a step", 1e6 * took["ladder 48"]["condensed"], at_most=200)
    growth = long["condensed"] / 400 / (took["helix 50"]["condensed"] / 50)
    report.target("time per link, helix of 400 / of 50", growth, at_most=1.1)


def accuracy(report: Report, name: str, mech: Mechanism, push: Array) -> None:
    """The tip and the links of each kind of model under one far pull, settled, against the engine's equilibrium."""
    linear = supple.reduce(mech, ["tip"])
    full = supple.equilibrium(mech, {"tip": push})
    away = supple.equilibrium(mech, {"tip": 0.5 * push})
    models = {
        "linear": linear,
        "blended": supple.blend([linear, supple.reduce(mech, ["tip"], at=away)]),
        "condensed": supple.condense(mech, ["tip"]),
    }
    for kind, model in models.items():
        sim = supple.ReducedSimulation(model, 2e-2)
        sim.apply("tip", push)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", supple.RangeWarning)
            sim.step(8000)
            off = np.linalg.norm(sim.poses["tip"][:3, 3] - full.poses["tip"][:3, 3]) / mech.radius
            apart, speed = float(sim.separation.total), float(np.abs(sim.velocities).max())
            report.row(settled=name, model=kind, tip_off=float(off), separation=apart, speed=speed)


def reaching(linear: supple.ReducedModel, rng: np.random.Generator, reach: float) -> Array:
    """(e, 6) random wrenches whose linear displacement is `reach`, lengths over the radius, but at most ten times as
    large as those that reach it along the softest way (others may be hard altogether)."""
    lengths = np.tile([linear.mechanism.radius] * 3 + [1.0] * 3, len(linear.end_effectors))
    soft = linear.compliance / np.outer(lengths, lengths)
    push: Array = rng.normal(size=len(lengths))
    push *= reach * min(1 / np.linalg.norm(soft @ push), 10 / (np.linalg.norm(soft, 2) * np.linalg.norm(push)))
    return (push / lengths).reshape(-1, 6)


def closed_path(report: Report, name: str, mech: Mechanism, tips: list[str], n: int = 128) -> float:
    """Work of the wrench along a smooth closed path of the tips, over the range of the energy: of the condensed model
    and, on the same path, of a blend of four linear models on it. The trapezoidal rule converges geometrically."""
    model = supple.condense(mech, tips)
    linear = model.linear()
    a, b = (reaching(linear, np.random.default_rng(seed), 0.3) for seed in (3, 4))
    path, last = [], None
    for angle in 2 * np.pi * np.arange(n) / n:
        loads = dict(zip(tips, np.cos(angle) * a + np.sin(angle) * b, strict=True))
        last = model.under(loads, "body", start=last)
        path.append(last)
    places = np.array([[pose.poses[tip] for tip in tips] for pose in path])
    many = supple.blend([path[k * n // 4].linear() for k in range(4)])
    wrenches = {
        "condensed": np.array([pose.wrenches for pose in path]).reshape(n, -1, 6),
        "blended": np.array([many.at(place).wrenches for place in places]).reshape(n, -1, 6),
    }
    twists = spatial.log(spatial.inverse(places[0]) @ places)  # (n, e, 6)
    waves = np.fft.fftfreq(n, 1 / n)[:, None, None]
    waves[n // 2] = 0
    rates = np.fft.ifft(1j * waves * np.fft.fft(twists, axis=0), axis=0).real
    velocities = (spatial.right_jacobian(twists) @ rates[..., None])[..., 0]
    involved = float(np.ptp([pose.energy for pose in path]))
    work = {kind: abs(float((w * velocities).sum()) * 2 * np.pi / n) / involved for kind, w in wrenches.items()}
    report.row(closed_path=name, energy_J=involved, **work)
    return work["condensed"]


def jerked(name: str) -> tuple[Mechanism, list[str]]:
    """A mechanism and its end effectors."""
    if name in LIBRARY:
        return LIBRARY[name]
    file, tips = ROBOTS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", supple.ImportWarning)
        mech = supple.load(SHARED / file)
    return mech.with_springs(1.0, 0.05) if name == "shadow" else mech, tips


def jerks(report: Report, count: int, names: list[str]) -> None:
    """Random wrenches, changed every 20 steps."""
    most = 0.0
    for name in names:
        if name in ROBOTS and not SHARED.exists():
            continue
        mech, tips = jerked(name)
        model = supple.condense(mech, tips)
        linear = model.linear()
        for dt in (1e-3, 1e-2):
            sim, rng = supple.ReducedSimulation(model, dt), np.random.default_rng(0)
            highest, start = 0.0, perf_counter()
            for _ in range(count // 20):
                for tip, wrench in zip(tips, reaching(linear, rng, rng.uniform(0, REACH)), strict=True):
                    sim.apply(tip, wrench)
                sim.step(20)
                highest = max(highest, abs(sum(sim._motion._solver.engine.energies)))
            core = sim._motion.core
            report.row(
                jerked=name,
                dt_ms=1e3 * dt,
                steps=core.steps,
                iterations=core.iterations / core.steps,
                falls=core.snaps,
                divided=core.divisions,
                highest_J=highest,
                separation=float(sim.separation.total),
                seconds=perf_counter() - start,
            )
            most = max(most, core.iterations / core.steps)
            print(f"{name}, {1e3 * dt:g} ms: {core.steps:,} steps", flush=True)
    report.target("interior iterations a step of jerked mechanisms, most", most, at_most=4)


if __name__ == "__main__":
    main()
