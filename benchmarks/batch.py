"""Batches: time per copy and step of the 20-link arm's linear model, against single simulations and MuJoCo's rollout.

The loop over single simulations calls the same compiled time step. MuJoCo steps the same arm (implicitfast, contacts
off) by `mujoco.rollout` on as many threads, with a force of its own on the tip of every copy. The floor is the time in
which this machine copies as many bytes as a step of one copy reads and writes. The last part times getters.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import mujoco
import numpy as np
from mujoco import rollout

import supple
from _report import Report, best, parse_args
from engine import DT, mujoco_twin

COPIES = 4096
THREADS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
PARTS = ("loop", "thousand", "mujoco", "kinds", "getters")


def main() -> None:
    args = parse_args(__doc__, parts=PARTS)
    report = Report(f"Batches on {THREADS} threads", args)
    repeat = 10 if args.quick else 40
    mech = supple.library.robot_arm()
    model = supple.reduce(mech, ["tip"])
    if "loop" in args.only:
        against_a_loop(report, model, repeat)
    if "thousand" in args.only:
        a_thousand_copies(report, model, repeat)
    if "mujoco" in args.only:
        against_mujoco(report, model, repeat)
    if "kinds" in args.only:
        blended(report, mech, repeat)
    if "getters" in args.only:
        getters(report, mech, model, repeat)
    report.finish()


def loaded_batch(model: supple.reduced.model.Model, n: int, threads: int | None = None) -> supple.Batch:
    batch = supple.Batch(model, n, DT, threads=threads)
    batch.apply(wrenches(n))
    batch.step(10)
    return batch


def wrenches(n: int) -> np.ndarray:
    loads = np.zeros((n, 1, 6))
    loads[:, 0, 1] = np.linspace(-50, 50, n)
    return loads


# a loop over single simulations


def against_a_loop(report: Report, model: supple.ReducedModel, repeat: int) -> None:
    compare_with_loop(report, model, 256, repeat)  # their memory fits into the cache
    least = compare_with_loop(report, model, COPIES, repeat)
    report.target(f"{COPIES} copies, times faster than a loop over single simulations", least, at_least=6)


def compare_with_loop(report: Report, model: supple.ReducedModel, copies: int, repeat: int) -> float:
    """Adds rows; returns how many times faster the batch is, at least."""
    sims = [supple.ReducedSimulation(model, DT) for _ in range(copies)]
    for sim, load in zip(sims, wrenches(copies), strict=True):
        sim.apply("tip", load[0])
    cores = [sim._motion.core for sim in sims]
    one, all_cores = loaded_batch(model, copies, 1), loaded_batch(model, copies, THREADS)
    bytes_moved = bytes_per_step(model)
    floor = bytes_moved * seconds_per_byte(copies * bytes_moved)
    ratios = []
    for steps in (1, 10):
        calls: dict[str, Callable[[], object]] = {
            "loop": lambda steps=steps: [core.step(steps, False) for core in cores],
            "one": lambda steps=steps: one.step(steps),
            "all": lambda steps=steps: all_cores.step(steps),
        }
        times = {name: float("inf") for name in calls}
        for _ in range(repeat):
            for name, call in calls.items():
                times[name] = min(times[name], best(call, repeat=1))
        per = {name: 1e9 * seconds / (copies * steps) for name, seconds in times.items()}
        ratios.append(per["loop"] / per["all"])
        report.row(
            ns_per_copy_and_step=f"{copies} copies, {steps} steps a call",
            loop=per["loop"],
            batch_1_thread=per["one"],
            batch=per["all"],
            times_faster=ratios[-1],
            bytes=bytes_moved,
            floor_ns=1e9 * floor,
        )
    return min(ratios)


def bytes_per_step(model: supple.ReducedModel) -> int:
    """Bytes that a step of one copy reads and writes if nothing stays in a cache."""
    m, e = model.basis.shape[1], len(model.end_effectors)
    read = 2 * m + 1 + m + 6 * e + 6 * e + e + 12 + m * m  # state, time, set-points, wrenches, base pose, inverse
    written = 2 * m + 1 + 12 * e + 6 * e  # state, time, poses, velocities
    return 8 * (read + written)


def seconds_per_byte(size: int) -> float:
    """Of a copy on one core: bytes read and bytes written both count."""
    source = np.ones(size // 16)
    target = np.empty_like(source)
    return best(lambda: np.copyto(target, source), repeat=50) / size


# a thousand copies, applied, stepped and read


def a_thousand_copies(report: Report, model: supple.ReducedModel, repeat: int) -> None:
    batch, loads = loaded_batch(model, 1000), wrenches(1000)
    read = np.empty((1000, 1, 4, 4))

    def once() -> None:
        loads[:, 0, 1] += 1e-3  # new wrenches: every copy's matrix is factorised again
        batch.apply(loads)
        batch.step()
        read[:] = batch.end_effector_poses

    seconds = best(once, repeat=repeat, inner=10)
    same = best(lambda: (batch.apply(loads), batch.step()), repeat=repeat, inner=10)
    report.row(copies=1000, apply_step_read_us=1e6 * seconds, same_wrenches_us=1e6 * same)
    report.target("1,000 copies applied, stepped and read, ms", 1e3 * seconds, at_most=3)


# MuJoCo


def against_mujoco(report: Report, model: supple.ReducedModel, repeat: int) -> None:
    copies, steps = 512, 10
    mj_model, mj_data = mujoco_twin(model.mechanism)
    size = mujoco.mj_stateSize(mj_model, mujoco.mjtState.mjSTATE_FULLPHYSICS)
    start = np.zeros(size)
    mujoco.mj_getState(mj_model, mj_data, start, mujoco.mjtState.mjSTATE_FULLPHYSICS)
    forces = np.zeros((copies, steps, mj_model.nbody, 6))
    forces[:, :, mj_model.body("tip").id] = wrenches(copies)
    controls = forces.reshape(copies, steps, -1)
    spec = int(mujoco.mjtState.mjSTATE_XFRC_APPLIED)
    data = [mujoco.MjData(mj_model) for _ in range(THREADS)]
    batch, loads = loaded_batch(model, copies, THREADS), wrenches(copies)
    large, many = loaded_batch(model, COPIES, THREADS), wrenches(COPIES)
    with rollout.Rollout(nthread=THREADS) as pool:
        mj = best(
            lambda: pool.rollout(mj_model, data, np.tile(start, (copies, 1)), controls, control_spec=spec),
            repeat=max(3, repeat // 4),
        )
    ours = best(lambda: (batch.apply(loads), batch.step(steps)), repeat=repeat)
    ours_large = best(lambda: (large.apply(many), large.step(steps)), repeat=repeat)
    per = {"mujoco": mj / copies / steps, "same": ours / copies / steps, "large": ours_large / COPIES / steps}
    report.row(
        ns_per_copy_and_step="arm 20",
        mujoco_rollout=1e9 * per["mujoco"],
        batch_of_512=1e9 * per["same"],
        batch_of_4096=1e9 * per["large"],
        times_faster=per["mujoco"] / per["same"],
    )
    report.target("times faster than MuJoCo's rollout, 512 copies", per["mujoco"] / per["same"], at_least=50)


# blended models, stepped one by one on threads


def blended(report: Report, mech: supple.Mechanism, repeat: int) -> None:
    straight = supple.reduce(mech, ["tip"])
    bent = supple.reduce(mech, ["tip"], at=supple.equilibrium(mech, {"tip": [0, 50, 0, 0, 0, 0]}))
    model = supple.blend([straight, bent])
    times = [best(loaded_batch(model, 64, threads).step, repeat=repeat) / 64 for threads in (1, THREADS)]
    report.row(
        us_per_copy_and_step="blended", one_thread=1e6 * times[0], all_threads=1e6 * times[1], ratio=times[0] / times[1]
    )


# getters


def getters(report: Report, mech: supple.Mechanism, model: supple.ReducedModel, repeat: int) -> None:
    sims = {"linear": supple.ReducedSimulation(model, DT), "engine": supple.Simulation(mech, DT)}
    worst = 0.0
    for kind, sim in sims.items():
        sim.apply("tip", [0, 5, 0, 0, 0, 0])
        sim.step(5)
        poses = sim.poses
        calls: dict[str, Callable[[], object]] = {
            "poses": lambda sim=sim: sim.poses,
            'poses["tip"]': lambda sim=sim: sim.poses["tip"],
            'lookup["tip"]': lambda poses=poses: poses["tip"],
            "velocities": lambda sim=sim: sim.velocities,
        }
        if kind == "linear":
            calls["end_effector_pose"] = lambda sim=sim: sim.end_effector_pose("tip")
        took = {name: 1e6 * best(call, repeat=repeat, inner=500) for name, call in calls.items()}
        for name, us in took.items():
            report.row(getter=f"{kind}: {name}", us=us)
        worst = max(worst, *took.values())
    report.target("slowest of these getters, us", worst, at_most=2)
    pair = supple.library.y()
    reduced = supple.ReducedSimulation(supple.reduce(pair, ["left_tip", "right_tip"]), DT)
    full = supple.Simulation(pair, DT)
    read = best(lambda: [reduced.end_effector_pose(n) for n in ("left_tip", "right_tip")], repeat=repeat, inner=200)
    step = best(full.step, repeat=repeat, inner=20)
    report.row(reading="both end effectors of the Y", us=1e6 * read, engine_step_us=1e6 * step)
    report.target("reading all end effectors / a step of the engine", read / step, at_most=1)


if __name__ == "__main__":
    main()
