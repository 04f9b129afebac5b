"""Time of a step of every method with each instruction set that supple was built for and that this machine runs.

Each set runs in processes of its own (`SUPPLE_CORE=NAME`), in turns, and the best time counts. Build all of them first:
`SUPPLE_VARIANTS=all pip install .`
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import supple
from _report import Report, best, parse_args
from supple import _core, _cpu

DT = 2e-3
PULL = [0.0, 20.0, 0.0, 0.0, 0.0, 0.0]


def main() -> None:
    args = parse_args(__doc__)
    report = Report("instruction sets", args)
    runnable = _core.VARIANTS[: _core.VARIANTS.index(_cpu.best_variant()) + 1]
    sets = [name for name in _core.built_variants() if name in runnable]
    times: dict[str, dict[str, float]] = {name: {} for name in sets}
    for _ in range(1 if args.quick else 3):
        for name in sets:
            for method, seconds in in_process(name).items():
                times[name][method] = min(seconds, times[name].get(method, float("inf")))
    fastest = {method: min(times[name][method] for name in sets) for method in times[sets[0]]}
    for method, least in fastest.items():
        us = {name: 1e6 * times[name][method] for name in sets}
        ratios = {f"{name}_ratio": times[name][method] / least for name in sets}
        report.row(step_us=method, **us, **ratios)
    if {"avx2", "avx512"} <= set(sets):
        for method in fastest:
            ratio = times["avx2"][method] / times["avx512"][method]
            report.target(f"{method}, time with avx2 / with avx512", ratio, at_most=2.2)
    else:
        missing = [name for name in ("avx2", "avx512") if name not in sets]
        report.row(not_measured="avx2 / avx512", lacks=", ".join(missing), machine_has=_cpu.best_variant())
    report.finish()


def in_process(name: str) -> dict[str, float]:
    """Seconds a step by method, with one instruction set."""
    run = subprocess.run(
        [sys.executable, "-c", "import instruction_sets; instruction_sets.print_times()"],
        cwd=Path(__file__).parent,
        env={**os.environ, "SUPPLE_CORE": name},
        capture_output=True,
        text=True,
        check=True,
    )
    times: dict[str, float] = json.loads(run.stdout)
    return times


def print_times() -> None:
    took = {}
    for method, (steps, run) in methods().items():
        run(steps)
        took[method] = best(lambda run=run, steps=steps: run(steps), repeat=12) / steps
    print(json.dumps(took))


def methods() -> dict[str, tuple[int, Callable[[int], object]]]:
    """By name: how many steps are timed together, and a call that makes so many."""
    arm, helix = supple.library.robot_arm(), supple.library.helix(400)
    engine = supple.Simulation(supple.library.helix(50), DT)
    engine.apply("tip", PULL)
    linear = supple.reduce(arm, ["tip"])
    away = supple.reduce(arm, ["tip"], at=supple.equilibrium(arm, {"tip": PULL}))
    hexapod, full_hand = supple.scenes.hexapod(), supple.scenes.hand("full")
    for scene in (hexapod, full_hand):
        scene.run(0.3)
    chain = supple.AdaptiveLinkage(supple.library.molecule(2000))
    chain.apply(1000, PULL)
    return {
        "engine, helix 50": (20, engine.step),
        "linear, helix 400": (200, reduced(supple.reduce(helix, ["tip"]))),
        "blended, arm 20": (200, reduced(supple.blend([linear, away]))),
        "condensed, arm 20": (200, reduced(supple.condense(arm, ["tip"]))),
        "condensed, helix 400": (50, reduced(supple.condense(helix, ["tip"]))),
        "floating with contact, hexapod": (100, hexapod.world.step),
        "engine with contact, hand": (20, full_hand.world.step),
        "linkage, molecule 2000": (5, lambda n: [chain.step(1e-3) for _ in range(n)]),
    }


def reduced(model: object) -> Callable[[int], object]:
    sim = supple.ReducedSimulation(model, DT)
    sim.apply("tip", PULL)
    core = sim._motion.core
    return lambda n: core.step(n, True)  # with the poses of all links


if __name__ == "__main__":
    main()
