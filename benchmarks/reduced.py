"""Table 1 of the FORK-1S paper: time per step of 2 ms with the poses of all links; time to build a model.

supple reconstructs all links by twists with one and two threads, and by joints with five corrections. It takes turns
with our engine, MuJoCo (implicitfast, contacts off, the same mechanism as MJCF) and Pinocchio's articulated-body
algorithm alone. The latter has no springs, integration or poses, and of the ladder only its spanning tree. The paper
measured on an Intel Core i7 at 2.8 GHz.
"""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from time import perf_counter

import mujoco
import numpy as np

import supple
from _report import Report, best, parse_args
from engine import DT, aba, alternate, mujoco_twin, pinocchio, simulation
from supple.mechanism import Mechanism

HAND = Path(__file__).parents[2] / "shared/robots/shadow_hand/right_hand.xml"
FINGERTIPS = [f"rh_{finger}distal" for finger in ("ff", "mf", "rf", "lf", "th")]
PAPER = {  # Vortex, then FORK-1S with 1, 4 and 8 threads
    "helix 50": (240, 20, 12, 15),
    "helix 100": (470, 32, 16, 21),
    "helix 400": (2150, 112, 84, 76),
    "ladder 48": (334, 22, 14, 18),
    "arm 20": (121, 24, 18, 21),
}


def main() -> None:
    args = parse_args(__doc__)
    report = Report("FORK-1S: one linear reduced model", args)
    took = {name: step_times(report, name, mech, args.quick) for name, mech in sizes().items()}
    stepping_targets(report, took)
    lower_bound(report, took)
    building(report)
    report.finish()


def sizes() -> dict[str, Mechanism]:
    helices = {f"helix {n}": supple.library.helix(n) for n in (50, 100, 400)}
    return helices | {"ladder 48": supple.library.ladder(), "arm 20": supple.library.robot_arm()}


# time per step


def step_times(report: Report, name: str, mech: Mechanism, quick: bool) -> dict[str, float]:
    """Seconds per step of each method, best of alternating repetitions."""
    model = supple.reduce(mech, ["tip"])
    twist, joints = pulled_simulation(model), pulled_simulation(model, reconstruction="joints")
    engine = simulation(mech)
    mj_model, mj_data = mujoco_twin(mech)
    peer_steps = max(10, 20_000 // len(mech.bodies) ** 2)
    runs: dict[str, tuple[int, Callable[[int], object]]] = {
        "twist": (1000, lambda n: twist._motion.core.step(n, True)),
        "bare": (1000, lambda n: twist._motion.core.step(n, False)),
        "joints": (300, lambda n: joints._motion.core.step(n, True)),
        "engine": (peer_steps, engine.step),
        "mujoco": (peer_steps, lambda n: mujoco.mj_step(mj_model, mj_data, nstep=n)),
    }
    if pinocchio is not None:
        runs["aba"] = 100, aba(mech)
    calls = {key: (lambda run=run, n=n: run(n)) for key, (n, run) in runs.items()}
    times: dict[str, float] = dict.fromkeys([*runs, "two"], float("inf"))
    for _ in range(8 if quick else 40):
        for key, seconds in alternate(calls, 1).items():
            times[key] = min(times[key], seconds / runs[key][0])
        two = pulled_simulation(model, threads=2)  # made anew: its second thread spins while it waits
        times["two"] = min(times["two"], best(lambda two=two: two._motion.core.step(1000, True), repeat=3) / 1000)
        del two
    assert np.isfinite(mj_data.qpos).all()
    vortex, *paper = PAPER[name]
    report.row(
        us=name,
        ours=1e6 * times["twist"],
        two_threads=1e6 * times["two"],
        by_joints=1e6 * times["joints"],
        without_links=1e6 * times["bare"],
        engine=1e6 * times["engine"],
        mujoco=1e6 * times["mujoco"],
        aba=1e6 * times["aba"] if "aba" in times else "no pin",
        paper_1_4_8="/".join(map(str, paper)),
        vortex=vortex,
        to_mujoco=times["mujoco"] / times["twist"],
        to_aba=times["aba"] / times["twist"] if "aba" in times else "no pin",
        rank=model.rank,
    )
    return times


def pulled_simulation(model: supple.ReducedModel, **options: object) -> supple.ReducedSimulation:
    sim = supple.ReducedSimulation(model, DT, **options)
    sim.apply("tip", [0, 50, 0, 0, 0, 0])
    sim._motion.core.step(100, True)
    return sim


def stepping_targets(report: Report, took: dict[str, dict[str, float]]) -> None:
    long, arm = took["helix 400"], took["arm 20"]
    report.target("helix of 400 links, us per step", 1e6 * long["twist"], at_most=10)
    report.target("helix of 400 links, times faster than MuJoCo", long["mujoco"] / long["twist"], at_least=400)
    if pinocchio is not None:
        report.target("helix of 400 links, times faster than ABA alone", long["aba"] / long["twist"], at_least=12)
    else:
        print("Pinocchio is not installed (pip install '.[bench]'): its column and target are left out")
    report.target("arm of 20 links, us per step", 1e6 * arm["twist"], at_most=1)
    report.target("arm of 20 links, us per step without the poses of links", 1e6 * arm["bare"], at_most=0.25)
    report.target("arm of 20 links, times faster than MuJoCo", arm["mujoco"] / arm["twist"], at_least=6)
    growth = long["twist"] / 400 / (took["helix 50"]["twist"] / 50)
    report.target("time per link, helix of 400 / of 50", growth, at_most=1.0)
    for name, times in took.items():
        report.target(f"{name}: by joints / by twists", times["joints"] / times["twist"], at_most=6)


# lower bound of the time per link


def lower_bound(report: Report, took: dict[str, dict[str, float]]) -> None:
    """Time that the operations and bytes of one link take at the peak rates of this core.

    A dense product measures the peak of operations, a copy that of bytes."""
    flops_of = "import numpy as n, time as t\na = n.ones((512, 512)); b = []\nfor _ in range(40):\n"
    flops_of += " s = t.perf_counter(); a @ a; b.append(t.perf_counter() - s)\nprint(2 * 512**3 / min(b))"
    one = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    peak = float(subprocess.run([sys.executable, "-c", flops_of], env=one, capture_output=True, check=True).stdout)
    source, copy = np.ones(2**14), np.empty(2**14)  # 256 kB in all, as much as 400 links
    bandwidth = 2**18 / best(lambda: np.copyto(copy, source), repeat=200, inner=20)
    for name, mech in sizes().items():
        links, m = len(mech.bodies), supple.reduce(mech, ["tip"]).rank
        # the map's product; t^2; two series of 13 multiply-adds; exp; H exp
        flops = 12 * m + 5 + 2 * 26 + 65 + 63
        moved = 8 * (6 * m + 6 + 12 + 12)  # map, offset and reference pose read, pose written
        seconds = (took[name]["twist"] - took[name]["bare"]) / links
        need = max(flops / peak, moved / bandwidth)
        report.row(
            lower_bound_of=name,
            ns_per_link=1e9 * seconds,
            flops=flops,
            bytes=moved,
            GFLOP_s=flops / seconds / 1e9,
            peak_GFLOP_s=peak / 1e9,
            GB_s=moved / seconds / 1e9,
            copy_GB_s=bandwidth / 1e9,
            lower_bound_ns=1e9 * need,
            ratio=need / seconds,
        )


# building


def building(report: Report) -> None:
    """Milliseconds of `supple.reduce` for a new mechanism, and for one whose cached properties exist."""
    cases: dict[str, tuple[Mechanism, list[str], float | None]] = {
        "helix 400": (supple.library.helix(400), ["tip"], 50),
        "helix 50": (supple.library.helix(50), ["tip"], None),
        "ladder 48": (supple.library.ladder(), ["tip"], None),
    }
    if HAND.exists():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what an import leaves out
            hand = supple.load(HAND).with_springs(1.0, 0.05)
        cases["Shadow Hand, 5 fingertips"] = (hand, FINGERTIPS, 10)
    else:
        print(f"there is no {HAND.name} beside the project: the Shadow Hand is left out")
    for name, (mech, tips, limit) in cases.items():
        fresh, radius = [], []
        for _ in range(15):
            new = replace(mech)
            start = perf_counter()
            _ = new.radius
            radius.append(perf_counter() - start)
            new = replace(mech)
            start = perf_counter()
            supple.reduce(new, tips)
            fresh.append(perf_counter() - start)
        cached = best(lambda mech=mech, tips=tips: supple.reduce(mech, tips), repeat=15)
        report.row(build=name, ms=1e3 * min(fresh), radius_ms=1e3 * min(radius), cached_ms=1e3 * cached)
        if limit is not None:
            report.target(f"building {name}, ms", 1e3 * min(fresh), at_most=limit)


if __name__ == "__main__":
    main()
