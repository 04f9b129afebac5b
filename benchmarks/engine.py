"""The full engine: time per step compared with MuJoCo, statics, convergence orders, constraint violation, agreement.

One run measures all figures. MuJoCo (implicitfast) steps the same robot, or the same mechanism written by `mech.save`,
with the same dt, pushes and controls. Neither has contact, dry friction or sensors. Both take turns, so that they see
the same machine. Pinocchio's ABA, where it is installed, only evaluates the accelerations of a chain.

`--long` runs something else: random wrenches, changed every 20 steps, on random bodies of every mechanism and robot, a
million steps each, half of them with either method.
"""

from __future__ import annotations

import contextlib
import itertools
import resource
import sys
import tempfile
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import process_time

import mujoco
import numpy as np

import supple
from _report import Report, best, parse_args
from _robots import Inputs, MuJoCo, Ours, Times, files, in_motion, in_mujoco, like_ours, loaded, written
from supple import _core, spatial
from supple.engine.assembly import equations
from supple.mechanism import Mechanism

try:
    import pinocchio
except ImportError:
    pinocchio = None

DT = 2e-3
DIRECTIONS = [d / np.linalg.norm(d) for d in np.array([*itertools.product((-1, 0, 1), repeat=3)]) if d.any()]
WITH_SPRINGS = ("helix", "ladder", "y", "loop", "robot_arm")


def main() -> None:
    args = parse_args(__doc__, steps=1_000_000)
    report = Report("the full engine", args)
    if args.long:
        random_wrenches(report, args.long)
        report.finish()
        return
    step_times(report, args.quick)
    tangled(report, args.quick)
    factorisation(report)
    statics(report)
    large_displacements(report)
    orders(report)
    violation(report, 10_000 if args.quick else 100_000)
    agreement(report)
    report.finish()


# time per step


def step_times(report: Report, quick: bool) -> None:
    """Microseconds per step of supple and of MuJoCo in motion. Random bodies are pushed, those of the library by up to
    50 N, those of robots by up to 0.3 of the weight, and actuators have random controls. Both change every 20 ms."""
    times = {}
    for name, mech in sizes().items():
        times[name] = step_time(report, name, mech, written(mech), 50.0, quick)
    chains = [name for name in times if not name.startswith(("ladder", "loop"))]
    if pinocchio is not None:
        ratios = []
        for name in chains:
            run = aba(sizes()[name])
            us = 1e6 * best(lambda run=run: run(200), 20, clock=process_time) / 200
            ratios.append(times[name]["euler"].median / us)
            report.row(aba_of=name, us=us, supple_to_aba=ratios[-1])
        report.target("time per step / Pinocchio's ABA, slowest of the chains", max(ratios), at_most=0.6)
    per_link = {n: times[f"helix, {n} hinges"]["euler"].median / n for n in (50, 400)}
    report.target("time per link, helix of 400 links / of 50", per_link[400] / per_link[50], at_most=1.1)
    for name, path in files().items():
        try:
            mech = loaded(path)
        except supple.MechanismError as error:
            print(f"{name} is left out, because its file is refused: {error}")
            continue
        times[name] = step_time(report, name, mech, in_mujoco(path), None, quick)
    for name, each in times.items():
        ratio = each["euler"].median / each["mujoco"].median
        report.target(f"median step / MuJoCo's, {name}", ratio, at_most=0.7 if _core.VARIANT == "avx512" else 0.85)
    for name, each in times.items():
        report.target(f"99th percentile / median, {name}", each["euler"].p99 / each["euler"].median, at_most=3.0)


def step_time(
    report: Report, name: str, mech: Mechanism, model: mujoco.MjModel, newtons: float | None, quick: bool
) -> dict[str, Times]:
    """Times of supple (backward Euler and BDF2) and of MuJoCo."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a robot starts beside a pose outside its limits
        sims = {method: supple.Simulation(mech, DT, method) for method in ("euler", "bdf2")}
    peer = MuJoCo(like_ours(model, DT))
    runs: dict[str, Ours | MuJoCo] = {**{method: Ours(sim) for method, sim in sims.items()}, "mujoco": peer}
    seconds = 1 if len(mech.bodies) >= 100 else 3 if quick else 20
    times = in_motion(runs, Inputs(mech, model, newtons), DT, seconds)
    core, made = sims["euler"]._core, runs["euler"].steps
    report.row(
        what=name,
        solver=core.solver,
        **{f"{key}_us": getattr(times["euler"], key) for key in ("median", "mean", "p99")},
        **{f"bdf2_{key}": getattr(times["bdf2"], key) for key in ("median", "p99")},
        **{f"mujoco_{key}": getattr(times["mujoco"], key) for key in ("median", "mean", "p99")},
        ratio=times["euler"].median / times["mujoco"].median,
        speed=times["euler"].speed,
        mujoco_speed=times["mujoco"].speed,
        mujoco_resets=peer.resets,
        newton_per_step=core.iterations / made,
        factorisations_per_step=core.factorisations / made,
    )
    return times


def tangled(report: Report, quick: bool) -> None:
    """Mechanisms with many loops: the solver that the engine chooses beside the sparse one. Net: loops share rods.
    Tethered chain: a rod ties each link to the world."""
    sys.path.append(str(Path(__file__).parents[1] / "tests"))
    from small_mechanisms import net, tethered_chain

    worst = 0.0
    for mech in (net(6, 6), net(8, 8), net(12, 12), tethered_chain(10), tethered_chain(20), tethered_chain(40)):
        chosen, sparse = (supple.Simulation(mech, DT) for _ in range(2))
        sparse._core.use_passes(False)
        for sim in (chosen, sparse):
            sim.step(10)
        calls = {"chosen": lambda sim=chosen: sim.step(5), "sparse": lambda sim=sparse: sim.step(5)}
        times = {name: 1e6 * seconds / 5 for name, seconds in alternate(calls, 5 if quick else 20).items()}
        worst = max(worst, times["chosen"] / times["sparse"])
        report.row(mechanism=mech.name, loops=len(mech.topology.loops), solver=chosen._core.solver, **times)
    report.target(
        "time of the chosen solver / of the sparse one, largest of the mechanisms with many loops", worst, at_most=1.2
    )


def aba(mech: Mechanism) -> Callable[[int], None]:
    """Pinocchio's articulated-body algorithm, n calls from Python."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder) / "mechanism.xml"
        mech.save(path)
        found = pinocchio.buildModelFromMJCF(str(path))
    model = found[0] if isinstance(found, tuple) else found
    data, q = model.createData(), pinocchio.neutral(model)
    v, tau = np.zeros(model.nv), np.zeros(model.nv)

    def run(n: int) -> None:
        for _ in range(n):
            pinocchio.aba(model, data, q, v, tau)

    return run


def sizes() -> dict[str, Mechanism]:
    helices = {f"helix, {n} hinges": supple.library.helix(n) for n in (50, 100, 400)}
    return {
        "arm, 20 hinges": supple.library.robot_arm(20),
        **helices,
        "ladder, 48 bodies": supple.library.ladder(),
        "loop, 15 links": supple.library.loop(),
    }


def simulation(mech: Mechanism) -> supple.Simulation:
    """A simulation whose tip is pulled."""
    sim = supple.Simulation(mech, DT)
    sim.apply("tip", [0, 50, 0, 0, 0, 0])
    sim.step(10)
    return sim


def mujoco_twin(mech: Mechanism) -> tuple[mujoco.MjModel, mujoco.MjData]:
    """The same in MuJoCo."""
    model = like_ours(written(mech), DT)
    data = mujoco.MjData(model)
    data.xfrc_applied[model.body("tip").id, :3] = [0, 50, 0]
    mujoco.mj_step(model, data, nstep=10)
    return model, data


def alternate(runs: dict[str, Callable[[], object]], repeat: int) -> dict[str, float]:
    """Best seconds of processor time of each run. They take turns, so that all see the same machine."""
    times = dict.fromkeys(runs, float("inf"))
    for _ in range(repeat):
        for name, run in runs.items():
            start = process_time()
            run()
            times[name] = min(times[name], process_time() - start)
    return times


def factorisation(report: Report) -> None:
    """Operations, memory and time of one factorisation of the tangent, a lower bound of a step by the sparse solver."""
    for name, mech in sizes().items():
        eqs = equations(mech)
        given, state = eqs.compiled(eqs.acting()), eqs.zero_state()
        linear = eqs.core.linearise(given, *state)
        factorise = min(linear.seconds_per_factorisation(1) for _ in range(50))
        report.row(
            what=f"factorisation of {name}",
            us=1e6 * factorise,
            unknowns=eqs.layout.size,
            multiply_adds=linear.operations,
            factor_kB=8 * linear.storage / 1e3,
            GFLOP_s=2 * linear.operations / factorise / 1e9,
            solve_us=1e6 * best(partial(linear.solve, linear.residual), repeat=50),
            linearise_us=1e6 * best(partial(eqs.core.linearise, given, *state), repeat=50),
        )


# statics


def statics(report: Report) -> None:
    """Equilibria of the library's sprung mechanisms under 100 N in 26 directions at every tip."""
    worst_iterations, worst_balance = 0, 0.0
    for name in WITH_SPRINGS:
        mech = getattr(supple.library, name)()
        tips = [b.name for b in mech.bodies if b.name.endswith("tip")]
        took, iterations, stable, residual = [], [], 0, 0.0
        for tip, direction in itertools.product(tips, DIRECTIONS):
            load = {tip: [*(100 * direction), 0, 0, 0]}
            start = process_time()
            eq = supple.equilibrium(mech, load)
            took.append(process_time() - start)
            iterations.append(eq.iterations)
            stable += eq.stable
            residual = max(residual, eq.residual)
            worst_balance = max(worst_balance, imbalance(eq, 100 * direction))
        sideways = {tips[0]: [0, 100, 0, 0, 0, 0]}
        alone = best(lambda mech=mech, load=sideways: supple.equilibrium(mech, load), repeat=20)
        report.row(
            what=f"equilibria of {name}",
            ms=1e3 * alone,
            slowest_ms=1e3 * max(took),
            newton=float(np.mean(iterations)),
            most_newton=max(iterations),
            stable=f"{stable} of {len(took)}",
            residual=residual,
        )
        worst_iterations = max(worst_iterations, max(iterations))
        if name == "ladder":
            report.target("equilibrium of the 48-body ladder under 100 N, ms", 1e3 * alone, at_most=50.0)
    report.target("most Newton iterations, 100 N in 26 directions at every tip", worst_iterations, at_most=60)
    report.target("largest imbalance of load and reactions at the base, N", worst_balance, at_most=1e-8)


def imbalance(eq: supple.engine.Equilibrium, force: np.ndarray) -> float:
    """Largest component of the sum of the load and the reactions at the world, N."""
    total = force.copy()
    for joint in eq.mechanism.joints:
        if joint.parent == "world":
            total += (eq.poses[joint.child] @ joint.pose_child)[:3, :3] @ eq.reactions[joint.name][:3]
    return float(np.abs(total).max())


def large_displacements(report: Report) -> None:
    """The helix of 50 links under a growing force along each axis, until its relative displacement is 1.5."""
    mech = supple.library.helix()
    reached = []
    for axis, sign in itertools.product(range(3), (1, -1)):
        eq, force, moved, steps = None, 0.0, 0.0, []
        while moved < 1.5 and force < 1000:
            force += 50.0
            load = np.zeros(6)
            load[axis] = sign * force
            eq = supple.equilibrium(mech, {"tip": load}, start=eq)
            moved = relative_displacement(eq)
            steps.append(eq.iterations)
        reached.append(moved)
        what = f"helix pulled along {'+' if sign > 0 else '-'}{'xyz'[axis]}"
        report.row(what=what, force_N=force, moved=moved, most_newton=max(steps), residual=eq.residual)
    report.target("helix of 50 links: relative displacement reached in every direction", min(reached), at_least=1.5)


def relative_displacement(eq: supple.engine.Equilibrium) -> float:
    """Norm of the tip's twist from the reference pose, its linear part over the mechanism's radius."""
    mech = eq.mechanism
    twist = spatial.log(spatial.inverse(mech.poses["tip"]) @ eq.poses["tip"])
    return float(np.linalg.norm(np.concatenate([twist[:3] / mech.radius, twist[3:]])))


# dynamics


def orders(report: Report) -> None:
    """Convergence order of poses and velocities with dt: a chain and a closed loop swing for 0.2 s."""
    mechanisms = {
        "chain of 6": supple.library.robot_arm(6, stiffness=20.0, damping=0.2, gravity=(0, 3, -9.81)),
        "loop of 7": supple.library.loop(7, stiffness=20.0, damping=0.2, gravity=(2, 3, -9.81)),
    }
    for name, mech in mechanisms.items():
        truth = swing(mech, "bdf2", 12_800)
        for method, order in (("euler", 1), ("bdf2", 2)):
            errors = [distance(swing(mech, method, n), truth) for n in (200, 400, 800)]
            row = dict(zip(("pose_error", "velocity_error"), errors[-1], strict=True))
            measured = float(np.log2(np.divide(errors[:-1], errors[1:])).min())
            report.row(what=f"{method}, {name}", dt=0.2 / 800, **row, order=measured)
            report.target(f"order of {method}, {name}", measured, at_least=order - 0.1)


def swing(mech: Mechanism, method: str, steps: int) -> tuple[np.ndarray, np.ndarray]:
    sim = supple.Simulation(mech, 0.2 / steps, method)
    sim.step(steps)
    return sim.poses.array, sim.velocities


def distance(a: tuple[np.ndarray, np.ndarray], b: tuple[np.ndarray, np.ndarray]) -> list[float]:
    return [float(np.abs(x - y).max()) for x, y in zip(a, b, strict=True)]


def violation(report: Report, steps: int) -> None:
    """Largest gap of any joint of a closed loop that a rotating force keeps in motion."""
    mech = supple.library.loop()
    sim = supple.Simulation(mech, DT)
    largest, path, start = 0.0, [], process_time()
    for k in range(steps // 100):
        angle = 0.7 * k
        sim.apply("tip", [60 * np.cos(angle), 60 * np.sin(angle), 20, 0, 0, 0])
        sim.step(100)
        largest = max(largest, gap(mech, sim))
        path.append(sim.poses["tip"][:3, 3])
    took = process_time() - start
    swept = float(np.ptp(path, axis=0).max())
    report.row(what=f"loop, {steps} steps", us=1e6 * took / steps, tip_within_m=swept, violation=largest)
    report.target(f"constraint violation within {steps} steps, m or rad", largest, at_most=1e-9)


def gap(mech: Mechanism, sim: supple.Simulation) -> float:
    """Largest component of log(X(q)^-1 X_bodies) over all joints."""
    poses, coordinates, largest = sim.poses, sim.coordinates, 0.0
    for joint in mech.joints:
        expected = poses[joint.parent] @ joint.pose_parent @ joint.displacement(coordinates[joint.name])
        error = spatial.log(spatial.inverse(expected) @ poses[joint.child] @ joint.pose_child)
        largest = max(largest, float(np.abs(error).max()))
    return largest


def random_wrenches(report: Report, steps: int) -> None:
    """Forces of some tenths of the weight, at most some 50 N, and torques of a tenth of that times the radius, on a
    random body for 20 steps at a time; half of the steps backward Euler, half BDF2. Floating robots are fixed. The
    memory is the largest resident size of the process."""
    robots = {}
    for name, path in files().items():
        with contextlib.suppress(supple.MechanismError):
            robots[name] = loaded(path)
    for name, mech in (sizes() | robots).items():
        grounded = [joint for joint in mech.joints if joint.parent == "world"]
        if len(grounded) == 1 and len(grounded[0].axes) == 6:
            mech = mech.with_base("fixed")
        for method in ("euler", "bdf2"):
            push_around(report, f"{name}, {method}", supple.Simulation(mech, DT, method), steps // 2)


def push_around(report: Report, name: str, sim: supple.Simulation, steps: int) -> None:
    mech, rng = sim.mechanism, np.random.default_rng(0)
    force = min(50.0, 0.3 * 9.81 * sum(body.mass for body in mech.bodies))
    largest, start, memory = 0.0, process_time(), 0.0
    for k in range(steps // 20):
        body = mech.bodies[rng.integers(len(mech.bodies))].name
        sim.apply(body, force * rng.uniform() * rng.normal(size=6) * np.repeat([1, 0.1 * mech.radius], 3))
        sim.step(20)
        sim.apply(body, np.zeros(6))
        if k % 500 == 0:
            largest = max(largest, gap(mech, sim))
        if k == steps // 120:
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    gained = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3 - memory
    finite = float(np.isfinite(sim.poses.array).all() and np.isfinite(sim.velocities).all())
    report.row(random_wrenches=name, steps=steps, us=1e6 * (process_time() - start) / steps, violation=largest,
               memory_MB=gained, finite=finite)  # fmt: skip
    report.target(f"{name}: 1 if all states are finite", finite, at_least=1.0)
    report.target(f"{name}: constraint violation, m or rad", largest, at_most=1e-9)
    report.target(f"{name}: memory gained after the first sixth, MB", gained, at_most=3.0)


def agreement(report: Report) -> None:
    """The robot arm swings for one second under an oblique gravity, compared with MuJoCo at dt = 20 us."""
    mech = supple.library.robot_arm(gravity=(0, 3, -9.81))
    model = like_ours(written(mech), dt=2e-5)
    model.opt.integrator = mujoco.mjtIntegrator.mjINT_RK4
    data = mujoco.MjData(model)
    mujoco.mj_step(model, data, nstep=50_000)
    mujoco.mj_kinematics(model, data)
    ids = [model.body(body.name).id for body in mech.bodies]
    for method, dt in (("euler", 1e-4), ("bdf2", 1e-3), ("bdf2", 2e-4)):
        sim = supple.Simulation(mech, dt, method)
        start = process_time()
        sim.step(round(1 / dt))
        took = process_time() - start
        position = np.abs(sim.poses.array[:, :3, 3] - data.xpos[ids]).max()
        rotation = np.abs(sim.poses.array[:, :3, :3].reshape(-1, 9) - data.xmat[ids]).max()
        error = float(max(position, rotation))
        tip_moved = float(np.linalg.norm(sim.poses["tip"][:3, 3] - mech.poses["tip"][:3, 3]))
        what = f"robot_arm after 1 s, {method}"
        report.row(what=what, dt=dt, ms=1e3 * took, tip_moved_m=tip_moved, difference=error)
    report.target("robot_arm after 1 s: difference from MuJoCo, m or rad", error, at_most=1e-4)


if __name__ == "__main__":
    main()
