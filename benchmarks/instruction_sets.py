"""Time per step of every method with each instruction set that supple was built for and that this machine has.

Each set runs in processes of its own (`SUPPLE_CORE=NAME`). The sets take turns; the best processor time counts. Build
all first: `SUPPLE_VARIANTS=all pip install .`
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import process_time

import numpy as np

import supple
from _report import Report, best, parse_args
from supple import _core, _cpu
from supple.engine import adjoint

DT = 2e-3
PULL = [0.0, 20.0, 0.0, 0.0, 0.0, 0.0]


def main() -> None:
    args = parse_args(__doc__)
    report = Report("instruction sets", args)
    runnable = _core.VARIANTS[: _core.VARIANTS.index(_cpu.best_variant()) + 1]
    sets = [name for name in _core.built_variants() if name in runnable]
    times: dict[str, dict[str, float]] = {name: {} for name in sets}
    for _ in range(1 if args.quick else 4):
        for name in sets:
            for method, seconds in times_with(name).items():
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
        report.row(not_measured="avx2 / avx512", missing=", ".join(missing), machine_has=_cpu.best_variant())
    report.finish()


def times_with(name: str) -> dict[str, float]:
    """Seconds per step of each method, with one instruction set, in a new process."""
    run = subprocess.run(
        [sys.executable, "-c", "import instruction_sets; instruction_sets.print_times()"],
        cwd=Path(__file__).parent,
        env={**os.environ, "SUPPLE_CORE": name, "OPENBLAS_NUM_THREADS": "1"},
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
        took[method] = best(lambda run=run, steps=steps: run(steps), repeat=40, clock=process_time) / steps
    print(json.dumps(took))


def methods() -> dict[str, tuple[int, Callable[[int], object]]]:
    """By name: the number of steps that are timed together, and a function that makes n steps."""
    arm, helix, y = supple.library.robot_arm(), supple.library.helix(400), supple.library.y()
    linear = supple.reduce(arm, ["tip"])
    loaded = supple.reduce(arm, ["tip"], at=supple.equilibrium(arm, {"tip": PULL}))
    tips = ["left_tip", "right_tip"]
    of_y = [supple.reduce(y, tips, at=at) for at in (None, supple.equilibrium(y, {"left_tip": PULL}))]
    hexapod, full_hand, soft_hand = supple.scenes.hexapod(), supple.scenes.hand("full"), supple.zones.soft_hand()
    for scene, seconds in ((hexapod, 0.3), (full_hand, 0.3), (soft_hand, 1.5)):
        scene.run(seconds)
    chain = supple.AdaptiveLinkage(supple.library.molecule(2000))
    chain.apply(1000, PULL)
    return {
        "engine, helix 50": (20, engine(supple.library.helix(50)).step),
        "engine, ladder 48": (20, engine(supple.library.ladder()).step),
        "engine, flexible rod": (50, engine(supple.library.rod_on_motor(8, 12), 0.01).step),
        "engine and gradient, helix 50": (50, gradient_function(supple.library.helix(50))),
        "linear, helix 400": (200, step_function(supple.reduce(helix, ["tip"]))),
        "links by joints, helix 400": (50, step_function(supple.reduce(helix, ["tip"]), reconstruction="joints")),
        "batch of 256, arm 20": (20, batch(linear, 256).step),
        "blended, arm 20": (200, step_function(supple.blend([linear, loaded]))),
        "blended, Y, two tips": (200, step_function(supple.blend(of_y), "left_tip")),
        "floating with contact, hexapod": (100, hexapod.world.step),
        "engine with contact, hand": (20, full_hand.world.step),
        "zones with contact, soft hand": (20, soft_hand.world.step),
        "linkage, molecule 2000": (5, lambda n: [chain.step(1e-3) for _ in range(n)]),
    }


def engine(mech: supple.Mechanism, share: float = 1.0) -> supple.Simulation:
    """The engine, with a share of the force on the tip."""
    sim = supple.Simulation(mech, DT)
    sim.apply("tip", share * np.array(PULL))
    return sim


def gradient_function(mech: supple.Mechanism) -> Callable[[int], object]:
    """Steps forward, recorded, and the sweep backward through them."""
    sim = engine(mech)
    begin = sim.save()

    def run(n: int) -> object:
        sim.restore(begin)
        with sim.tape() as tape:
            sim.step(n)
        return adjoint.gradient(tape, coordinates=np.ones((n + 1, mech.dof)))

    return run


def batch(model: supple.ReducedModel, copies: int) -> supple.Batch:
    copies_of_it = supple.Batch(model, copies, DT, threads=1)
    copies_of_it.apply(np.tile(PULL, (copies, 1, 1)))
    return copies_of_it


def step_function(model: object, tip: str = "tip", **options: object) -> Callable[[int], object]:
    sim = supple.ReducedSimulation(model, DT, **options)
    sim.apply(tip, PULL)
    core = sim._motion.core
    return lambda n: core.step(n, True)  # with the poses of all links


if __name__ == "__main__":
    main()
