"""Table 1 and figures 1, 6, 8 and 9 of the adaptive quasi-statics paper (Redon and Lin 2006).

Table 1 and figures 8 and 9: 1, 10, 100 and 1,000 forces of 1 N in random directions act on the molecule of 50,000
hinges (`supple.library.molecule`, a chain on a diamond lattice with occasional branches), for 4,000 steps of 1 ms and
each threshold 2^0 ... 2^-19 of the relative joint error. The paper does not say where its forces act. Its counts of
joints (about 70 more than there are forces) fit neighbouring atoms, so ours act on consecutive ones in the middle of
the chain. In the rows "scattered" they act on random atoms of the whole molecule. `ms` is the best average over a
hundred steps, `mean_ms` that of all steps; both include the call from Python. Displacement errors are the largest over
all atoms after all steps, compared with a run at 2^-26. The paper's errors are averages per step, so the column
`per_step` has ours divided by the number of steps.

The other parts measure: building; growth with size; the millipede; the bicycle chain; MuJoCo's and Pinocchio's forward
dynamics at rest (one call without stepping, on a molecule that branches ten times as often, because MuJoCo refuses
trees some 1,400 deep); the bound over 2,000 random linkages; 14,000 bounds against accelerations in long double with
masses over eight decades; coefficients after many partial updates against those of a full update.
"""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from multiprocessing import Pipe, get_context
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import mujoco
import numpy as np

import supple
from _report import Report, best, parse_args
from supple import spatial
from supple.linkage.adaptive import MEASURES
from supple.mechanism.tree import Tree

sys.path.append(str(Path(__file__).parents[1] / "tests"))
import exact_linkage

try:
    import pinocchio
except ImportError:
    pinocchio = None

JOINTS, DT = 50_000, 1e-3
FORCES, POWERS = (1, 10, 100, 1000), (3, 7, 11, 15, 19)
PAPER_MS = {
    1: (0.6, 0.9, 1.4, 1.9, 2.4),
    10: (0.9, 1.3, 1.8, 2.6, 3.1),
    100: (2.7, 4.1, 6.4, 7.8, 8.4),
    1000: (17.8, 21.4, 42.6, 49.2, 49.9),
}
PAPER_JOINTS = {
    1: (25, 37, 47, 59, 73),
    10: (32, 45, 56, 75, 85),
    100: (39, 80, 145, 189, 206),
    1000: (41, 149, 830, 1060, 1086),
}
PAPER_ERROR = {
    1: (6e-5, 2e-6, 1e-7, 4e-9, 2e-9),
    10: (1e-4, 1e-4, 4e-7, 4e-8, 1e-8),
    100: (8e-4, 6e-4, 7e-5, 3e-6, 1e-7),
    1000: (6e-3, 2e-3, 7e-5, 2e-6, 6e-8),
}


def main() -> None:
    args = parse_args(__doc__)
    report = Report("Adaptive quasi-statics: fifty thousand joints", args)
    steps = 100 if args.quick else 4000
    building(report)
    table_1(report, steps, args.quick)
    growth(report, 8 if args.quick else 40)
    millipede(report, steps, args.quick)
    bicycle_chain(report, 1000 if args.quick else 10_000)
    peers(report)
    check_bounds(report, 200 if args.quick else 2000)
    compare_long_double(report, 50 if args.quick else 3500)
    scattered(report, args.quick)
    report.finish()


def timed(chain: supple.AdaptiveLinkage, steps: int, dt: float = DT) -> tuple[float, float, float]:
    """Seconds per step, the best average over a hundred steps and that of all steps; mean number of computed joints."""
    chunk = min(100, steps)
    times, computed = [], 0
    for _ in range(steps // chunk):
        start = perf_counter()
        for _ in range(chunk):
            computed += chain.step(dt).computed
        times.append((perf_counter() - start) / chunk)
    return min(times), float(np.mean(times)), computed / (chunk * len(times))


# building


def building(report: Report) -> None:
    """Seconds and memory in a process of its own."""
    code = (
        "import time, resource, supple\n"
        "tree = supple.library.molecule(50_000)\n"
        "start = time.perf_counter()\n"
        "chain = supple.AdaptiveLinkage(tree, error=2**-19)\n"
        "chain.accelerate()\n"
        "took = time.perf_counter() - start\n"
        "print(took, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, chain.memory, chain.depth)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    seconds, after, memory, depth = map(float, done.stdout.split())
    report.row(build=JOINTS, seconds=seconds, process_MB=after / 1e3, tree_MB=memory / 1e6, depth=int(depth))
    report.target("building 50,000 joints and their coefficients, s", seconds, at_most=5)
    report.target("memory of the whole process with 50,000 joints, GB", after / 1e6, at_most=1)


# the molecule


def push(chain: supple.AdaptiveLinkage, bodies: np.ndarray) -> None:
    rng = np.random.default_rng(len(bodies))
    for body in bodies:
        force = rng.normal(size=3)
        chain.apply(int(body), [*force / np.linalg.norm(force), 0, 0, 0])


def table_1(report: Report, steps: int, quick: bool) -> None:
    tree = supple.library.molecule(JOINTS)
    chain = supple.AdaptiveLinkage(tree)
    rest, start = chain.poses.array[:, :3, 3], chain.coordinates
    full: dict[int, float] = {}
    took: dict[tuple[int, int], float] = {}
    for forces in FORCES:
        bodies = JOINTS // 2 + np.arange(forces)
        chain.error, chain.coordinates = 0.0, start
        push(chain, bodies)
        full[forces] = best(lambda: chain.step(DT), repeat=5 if quick else 20)
        ends = {}
        for power in (26, *((3, 11, 19) if quick else range(20))):
            chain.error, chain.coordinates = 2.0**-power, start
            chain.step(DT)  # computes all total accelerations once
            chain.coordinates = start
            chain.accelerate()
            took[forces, power], mean, computed = timed(chain, steps)
            ends[power] = chain.poses.array[:, :3, 3]
            error = np.linalg.norm(ends[power] - ends[26], axis=1).max() / np.linalg.norm(ends[26] - rest, axis=1).max()
            if power in POWERS:
                at = POWERS.index(power)
                report.row(
                    forces=forces,
                    threshold=f"2^-{power}",
                    ms=1e3 * took[forces, power],
                    mean_ms=1e3 * mean,
                    full_ms=1e3 * full[forces],
                    faster=full[forces] / took[forces, power],
                    paper_ms=PAPER_MS[forces][at],
                    paper_faster=875 / PAPER_MS[forces][at],
                    joints=computed,
                    paper_joints=PAPER_JOINTS[forces][at],
                    displacement_error=float(error),
                    per_step=float(error) / steps,
                    paper_per_step=PAPER_ERROR[forces][at],
                )
            elif power != 26:
                print(
                    f"figures 8 and 9: {forces} forces, 2^-{power}: {1e3 * took[forces, power]:.4g} ms, "
                    f"{computed:.4g} joints, error {error:.3g}",
                    flush=True,
                )
        partial_updates(report, chain, forces)
    report.target("full pass of 50,000 joints, ms", 1e3 * min(full.values()), at_most=100)
    report.target("one force at 2^-19, ms", 1e3 * took[1, 19], at_most=0.3)
    report.target("one force at 2^-19, times faster than our full pass", full[1] / took[1, 19], at_least=200)
    report.target("1,000 forces at 2^-19 / full pass", took[1000, 19] / full[1000], at_most=0.5)


def partial_updates(report: Report, chain: supple.AdaptiveLinkage, forces: int) -> None:
    """Compares the coefficients after many steps that updated only some of them with those of a full update."""
    chain.accelerate()
    after = chain._core.coefficients()
    chain._core.rebuild(True)
    fresh = chain._core.coefficients()
    error = float(np.abs(after - fresh).max() / np.abs(fresh).max())
    report.target(f"{forces} forces: partial against full updates of coefficients, relative", error, at_most=1e-8)


def scattered(report: Report, quick: bool) -> None:
    """CPU time with forces on random atoms of the whole molecule, in turns with full passes of the same load.

    A full pass replaces an adaptive one where it is cheaper."""
    chains = [supple.AdaptiveLinkage(supple.library.molecule(JOINTS)) for _ in range(2)]
    rng = np.random.default_rng(5)
    worst, steps = 0.0, 17 if quick else 102
    for forces in FORCES:
        bodies = rng.choice(JOINTS, size=forces, replace=False)
        for chain in chains:
            push(chain, bodies)
        for power in (19,) if quick else (3, 11, 19):
            chains[0].error = 2.0**-power
            chains[0].step(DT)  # prepares the total accelerations
            spent, computed = np.zeros((2, steps)), 0
            for i in range(steps):
                for which, chain in enumerate(chains):
                    start = process_time()
                    info = chain.step(DT)
                    spent[which, i] = process_time() - start
                    computed += info.computed if which == 0 else 0
            ratio = float(spent[0].mean() / spent[1].mean())
            worst = max(worst, ratio)
            report.row(scattered=forces, threshold=f"2^-{power}", to_full_pass=ratio, joints=computed / steps)
    report.target("scattered forces, 1 to 1,000: largest CPU time / that of a full pass", worst, at_most=1.2)


# growth


def growth(report: Report, atoms: int) -> None:
    """One force at 2^-19, on one atom after the other; the sizes take turns. Best of several short runs, averaged over
    atoms."""
    sizes = (12_500, 25_000, 50_000)
    chains = {n: supple.AdaptiveLinkage(supple.library.molecule(n), error=2.0**-19) for n in sizes}
    places = {n: np.random.default_rng(0).integers(n // 10, n, size=atoms) for n in sizes}
    times: dict[int, list[float]] = {n: [] for n in sizes}
    computed: dict[int, list[int]] = {n: [] for n in sizes}
    for i in range(atoms):
        least = dict.fromkeys(sizes, np.inf)
        for n, chain in chains.items():
            push(chain, places[n][i : i + 1])
            computed[n].append(chain.step(DT).computed)
        for _ in range(10):
            for n, chain in chains.items():
                least[n] = min(least[n], best(lambda chain=chain: chain.step(DT), repeat=1, inner=20))
        for n, chain in chains.items():
            chain.apply(int(places[n][i]), np.zeros(6))
            times[n].append(least[n])
    for n, chain in chains.items():
        report.row(growth=n, ms=1e3 * np.mean(times[n]), joints=float(np.mean(computed[n])), depth=chain.depth)
    for n in sizes[1:]:
        ratio = float(np.mean(times[n]) / np.mean(times[n // 2]))
        report.target(f"one force, {n} joints / half as many", ratio, at_most=1.15)


# millipede and bicycle chain


def millipede(report: Report, steps: int, quick: bool) -> None:
    """Figure 6: 13,000 links, 0.1 N upwards on a foot in the middle."""
    tree = supple.library.millipede()
    chain = supple.AdaptiveLinkage(tree)
    start, foot = chain.coordinates, 3000 + 10 * 500 + 9
    chain.apply(foot, [0, 0, 0.1, 0, 0, 0])
    full = best(lambda: chain.step(1e-4), repeat=10)
    crossover = None
    for power in (3, 11, 19) if quick else range(20):
        chain.error, chain.coordinates = 2.0**-power, start
        chain.step(1e-4)
        seconds, _, computed = timed(chain, steps if power < 14 else 20, 1e-4)
        report.row(millipede=f"2^-{power}", ms=1e3 * seconds, joints=computed, full_ms=1e3 * full)
        if seconds > full and crossover is None:
            crossover = power
    print(f"millipede: a full pass is faster {f'from 2^-{crossover} on' if crossover else 'at no threshold'}")


def bicycle_chain(report: Report, steps: int) -> None:
    """Figure 1: 30 links, a constant force on the last one."""
    ends = {}
    for error in (0.0, 2.0**-8, 2.0**-4, 2.0**-2, 2.0**-1):
        chain = supple.AdaptiveLinkage(supple.library.bicycle_chain(), error)
        chain.apply("end", [-0.004, 0, 0.01, 0, 0, 0])
        computed = sum(chain.step(0.02).computed for _ in range(steps)) / steps
        ends[error] = chain.poses.array[:, :3, 3]
        distance = np.linalg.norm(ends[error] - ends[0.0], axis=1).max() / (30 * 0.0127)
        report.row(bicycle_chain=error, joints=computed, error_in_chain_lengths=float(distance))


# peers


def peers(report: Report) -> None:
    for joints in (250, 500, 1000, 2000):
        tree = replace(supple.library.molecule(joints, branching=0.02), gravity=(0.0, 0.0, -9.81))
        chain = supple.AdaptiveLinkage(tree)
        chain.accelerate()
        exact = chain.accelerations
        full = best(lambda chain=chain: chain.step(1e-6), repeat=20)
        chain = supple.AdaptiveLinkage(replace(tree, gravity=(0.0, 0.0, 0.0)), error=2.0**-19)
        push(chain, np.array([joints // 2]))
        chain.step(DT)
        one = best(lambda chain=chain: chain.step(DT), repeat=20, inner=10)
        row: dict[str, Any] = {"peers": joints, "ours_full_ms": 1e3 * full, "ours_one_force_ms": 1e3 * one}
        twins = {"mujoco": mujoco_twin} | ({"pinocchio": pinocchio_twin} if pinocchio is not None else {})
        for name, twin in twins.items():
            result = run_in_process(twin, tree)
            if result is None:
                row |= {f"{name}_ms": "out of memory", f"{name}_difference": ""}
                continue
            seconds, values = result
            difference = float(np.abs(values - exact).max() / np.abs(exact).max())
            row |= {f"{name}_ms": 1e3 * seconds, f"{name}_difference": difference}
            if joints <= 500:  # with more joints the error of MuJoCo's mass matrix is larger than that
                report.target(f"{joints} joints at rest, difference from {name}", difference, at_most=1e-9)
            faster = [which for which, own in (("the full pass", full), ("one force", one)) if own < seconds]
            print(f"{joints} joints: ours is faster than {name} with: {', '.join(faster) or 'neither'}")
        report.row(**row)


def run_in_process(twin: Callable[[Tree], Callable[[], np.ndarray]], tree: Tree) -> tuple[float, np.ndarray] | None:
    """Seconds of a call and the accelerations, in a new process with at most 10 GB; None if that does not suffice
    (Pinocchio 4.1 allocates 64 n^3 bytes)."""
    receiver, sender = Pipe()

    def work() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (10 << 30, 10 << 30))
        try:
            run = twin(tree)
            sender.send((best(run, repeat=5), np.array(run())))
        except MemoryError:
            sender.send(None)

    process = get_context("fork").Process(target=work)
    process.start()
    result: tuple[float, np.ndarray] | None = receiver.recv()
    process.join()
    return result


def mujoco_twin(tree: Tree) -> Callable[[], np.ndarray]:
    """Forward dynamics of the same hinges, at rest."""
    spec = mujoco.MjSpec()
    spec.option.gravity = tree.gravity
    bodies = []
    for i, frame in enumerate(tree.pose_parent):
        above = spec.worldbody if tree.parent[i] < 0 else bodies[tree.parent[i]]
        quat = spatial.quat_wxyz_from_matrix(frame[:3, :3])
        body = above.add_body(name=f"b{i}", pos=frame[:3, 3], quat=quat)
        body.mass, body.ipos, body.explicitinertial = float(tree.mass[i]), tree.centre[i], True
        body.fullinertia = [*np.diag(tree.inertia[i]), 0, 0, 0]
        body.add_joint(type=mujoco.mjtJoint.mjJNT_HINGE, axis=[0, 0, 1])
        bodies.append(body)
    model = spec.compile()
    data = mujoco.MjData(model)
    order = np.array([model.body(f"b{i}").dofadr[0] for i in range(len(bodies))])

    def run() -> np.ndarray:
        mujoco.mj_forward(model, data)
        return data.qacc[order]

    return run


def pinocchio_twin(tree: Tree) -> Callable[[], np.ndarray]:
    """The articulated-body algorithm on the same hinges, at rest."""
    model = pinocchio.Model()
    model.gravity.linear = tree.gravity
    for i, frame in enumerate(tree.pose_parent):
        place = pinocchio.SE3(frame[:3, :3], frame[:3, 3])
        index = model.addJoint(int(tree.parent[i]) + 1, pinocchio.JointModelRZ(), place, f"j{i}")
        body = pinocchio.Inertia(float(tree.mass[i]), tree.centre[i], tree.inertia[i])
        model.appendBodyToJoint(index, body, pinocchio.SE3.Identity())
    data, zero = model.createData(), np.zeros(model.nv)
    return lambda: pinocchio.aba(model, data, zero, zero, zero)


# the bound


def random_tree(rng: np.random.Generator) -> Tree:
    """A tree of 2 to 300 bodies with joints of one to three axes and random inertias."""
    n = int(rng.integers(2, 300))
    chance = rng.uniform()
    parent = np.array([-1, *(i - 1 if rng.random() < chance else int(rng.integers(-1, i)) for i in range(1, n))])
    axes = rng.integers(1, 4, size=n)
    turn = rng.random(axes.sum()) < 0.8
    directions = rng.normal(size=(axes.sum(), 3))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    points = rng.normal(size=(n, 5, 3)) * rng.uniform(0.02, 0.2, (n, 1, 1))
    offsets = points - points.mean(axis=1, keepdims=True)
    squares = np.einsum("npi,npj->nij", offsets, offsets)
    moments = np.einsum("npi,npi->n", offsets, offsets)[:, None, None] * np.eye(3) - squares
    mass = rng.uniform(0.1, 2.0, n)
    return Tree(
        parent=parent,
        pose_parent=spatial.pose(spatial.so3_exp(rng.normal(size=(n, 3))), rng.normal(size=(n, 3)) * 0.2),
        pose_child=spatial.pose(spatial.so3_exp(rng.normal(size=(n, 3))), rng.normal(size=(n, 3)) * 0.1),
        twists=np.concatenate([np.where(turn[:, None], 0, directions), np.where(turn[:, None], directions, 0)], axis=1),
        mass=mass,
        centre=points.mean(axis=1),
        inertia=mass[:, None, None] / 5 * moments,
        axes=axes,
        reference=rng.uniform(-1, 1, axes.sum()),
        gravity=rng.normal(size=3) * (rng.random() < 0.3),
    )


def check_bounds(report: Report, cases: int) -> None:
    """True error over the stated bound, for random linkages, loads and thresholds and all four measures."""
    worst, tightness = 0.0, []
    for seed in range(cases):
        rng = np.random.default_rng(seed)
        tree, measure = random_tree(rng), MEASURES[seed % 4]
        chain = supple.AdaptiveLinkage(tree, measure=measure)
        for body in rng.integers(len(tree.parent), size=3):
            chain.apply(int(body), rng.normal(size=6))
        chain.accelerate()
        exact = chain.accelerations
        sizes = np.sqrt(np.add.reduceat(exact**2, np.cumsum(tree.axes) - tree.axes))
        whole = sizes.max() if measure.endswith("joint") else np.linalg.norm(sizes)
        relative = measure.startswith("relative")
        chain.error = float(10.0 ** rng.uniform(-7, 0) * (1.0 if relative else whole))
        info = chain.accelerate()
        errors = np.sqrt(np.add.reduceat((exact - chain.accelerations) ** 2, np.cumsum(tree.axes) - tree.axes))
        omitted = np.delete(sizes, info.moved)
        rounding = float(errors[info.moved].max(initial=0.0) / whole)
        error = omitted.max(initial=0.0) if measure.endswith("joint") else np.linalg.norm(omitted)
        error /= whole if relative else 1.0
        worst = max(worst, error / info.error_bound if info.error_bound else float(error > 0))
        tightness.append(error / info.error_bound if info.error_bound else 1.0)
        assert rounding < 1e-9, "computed accelerations differ from those of the exact pass"
    report.row(bounds=cases, largest_true_over_stated=worst, median_true_over_stated=float(np.median(tightness)))
    report.target(f"{cases} random linkages: largest true error / stated bound", worst, at_most=1.0)


def compare_long_double(report: Report, cases: int) -> None:
    """Stated bounds against accelerations in long double: masses over eight decades, four checks per linkage."""
    checked = [exact_linkage.count_exceeded(seed) for seed in range(cases)]
    report.target(
        f"{4 * cases} checks against long double: bounds exceeded", sum(failed for failed, _ in checked), at_most=0
    )
    report.target(
        "largest error of the accelerations / condition of the mass matrix", max(e for _, e in checked), at_most=1e-12
    )


if __name__ == "__main__":
    main()
