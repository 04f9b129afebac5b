"""Condensed models, one run: microseconds a step of 2 ms with the poses of all links, and how exact they are.

Beside the condensed model, in turns: the linear model (links by twists), a blend of three linear models, our engine and
MuJoCo (implicitfast, contacts off, the same mechanism as MJCF). A steady pull of 50 N sideways keeps all of them in
motion. Then, on three of them, separation of the joints and error of the tip against `equilibrium`, at rest under a far
pull.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import mujoco
import numpy as np

import supple
from _report import Report, parse_args
from engine import DT, alternate, mujoco_twin, simulation
from reduced import sizes
from supple.mechanism import Mechanism

PULLS = {"helix 50": [0, 12, -10, 0, 0, 0], "ladder 48": [0, 40, 0, 0, 0, 0], "arm 20": [0, 150, 100, 0, 0, 0]}


def main() -> None:
    args = parse_args(__doc__)
    report = Report("condensed models", args)
    took = {name: steps(report, name, mech, args.quick) for name, mech in sizes().items()}
    targets(report, took)
    for name, mech in sizes().items():
        if name in PULLS:
            accuracy(report, name, mech)
    report.finish()


def pulled(model: object, **options: object) -> supple.ReducedSimulation:
    sim = supple.ReducedSimulation(model, DT, **options)
    sim.apply("tip", [0, 50, 0, 0, 0, 0])
    sim._motion.core.step(100, True)
    return sim


def three(mech: Mechanism) -> object:
    """A blend of the linear models at rest and at two pulls."""
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
    peer_steps = max(10, 20_000 // len(mech.bodies) ** 2)
    runs: dict[str, tuple[int, Callable[[int], object]]] = {
        "condensed": (50, lambda n: condensed._motion.core.step(n, True)),
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


def accuracy(report: Report, name: str, mech: Mechanism) -> None:
    """The tip and the links of each kind of model under one far pull, settled, against the engine's equilibrium."""
    linear = supple.reduce(mech, ["tip"])
    push = np.array(PULLS[name], dtype=float)
    full = supple.equilibrium(mech, {"tip": push})
    away = supple.equilibrium(mech, {"tip": 0.5 * push})
    models = {
        "linear": linear,
        "blended": supple.blend([linear, supple.reduce(mech, ["tip"], at=away)]),
        "condensed": supple.condense(mech, ["tip"]),
    }
    for kind, model in models.items():
        sim = supple.ReducedSimulation(model, 1e-2)
        sim.apply("tip", push)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", supple.RangeWarning)
            sim.step(4000)
            off = np.linalg.norm(sim.poses["tip"][:3, 3] - full.poses["tip"][:3, 3]) / mech.radius
            report.row(settled=name, model=kind, tip_off=float(off), separation=float(sim.separation.total))


if __name__ == "__main__":
    main()
