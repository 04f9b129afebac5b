"""Condensed models: time per step of 2 ms with the poses of all links, and accuracy.

The condensed model takes turns with the linear model (links by twists), a blend of three linear models, our engine and
MuJoCo (implicitfast, contacts off, the same mechanism as MJCF). A constant sideways force of 50 N keeps all of them in
motion. A step of the condensed model should cost no more than one of the engine, also on robots with several end
effectors, under a constant load and under a load that swings. Models without an interior make the engine's steps. Three
more measurements follow. Three mechanisms come to rest under a large force; the separation of the joints and the error
of the tip against `equilibrium` are measured. The work along closed paths of the tips is computed. Random wrenches act
on mechanisms, and on robots whose files lie beside the project. `--long` applies them for a million steps, or the given
number; `--only` selects the mechanisms.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, process_time

import mujoco
import numpy as np

import supple
from _report import Report, parse_args
from engine import DT, alternate, mujoco_twin, simulation
from reduced import sizes
from supple import spatial
from supple.mechanism import Mechanism
from supple.mechanism.record import Array

# mechanism and wrench on its tip; strong damping, so that they come to rest soon
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
LARGEST_DISPLACEMENT = 0.7
"""Largest static relative displacement under a random wrench."""


def main() -> None:
    args = parse_args(__doc__, parts=[*LIBRARY, *ROBOTS], steps=1_000_000)
    report = Report("condensed models", args)
    if args.long is None:
        seconds_by_mechanism = {name: step_times(report, name, mech, args.quick) for name, mech in sizes().items()}
        targets(report, seconds_by_mechanism)
        for name in (*LIBRARY, *ROBOTS):
            if name not in ROBOTS or SHARED.exists():
                against_engine(report, name, args.quick)
        for name, (mech, push) in PULLED.items():
            accuracy(report, name, mech, np.array(push))
        worst = max(closed_path(report, name, *case) for name, case in LIBRARY.items())
        report.target("largest work around a closed path / range of the energy on it", worst, at_most=1e-8)
    move_randomly(report, args.long or (2000 if args.quick else 20_000), args.only)
    report.finish()


def pulled_simulation(model: object, **options: object) -> supple.ReducedSimulation:
    sim = supple.ReducedSimulation(model, DT, **options)
    sim.apply("tip", [0, 50, 0, 0, 0, 0])
    sim._motion.core.step(100, True)
    return sim


def blend_of_three(mech: Mechanism) -> object:
    """A blend of the linear models at the reference pose and under two pulls."""
    models = [supple.reduce(mech, ["tip"])]
    for force in (25.0, 50.0):
        try:
            models.append(supple.reduce(mech, ["tip"], at=supple.equilibrium(mech, {"tip": [0, force, 0, 0, 0, 0]})))
        except supple.ConvergenceError:
            break
    return supple.blend(models)


def step_times(report: Report, name: str, mech: Mechanism, quick: bool) -> dict[str, float]:
    """Seconds per step of each method, best of alternating repetitions."""
    condensed = pulled_simulation(supple.condense(mech, ["tip"]))
    linear = pulled_simulation(supple.reduce(mech, ["tip"]))
    blended = pulled_simulation(blend_of_three(mech))
    engine = simulation(mech)
    mj_model, mj_data = mujoco_twin(mech)
    mujoco_steps = max(2, 20_000 // len(mech.bodies) ** 2)  # few, so that other processes seldom interrupt a repetition
    runs: dict[str, tuple[int, Callable[[int], object]]] = {
        "condensed": (200, lambda n: condensed._motion.core.step(n, True)),
        "linear": (200, lambda n: linear._motion.core.step(n, True)),
        "blended": (50, lambda n: blended._motion.core.step(n, True)),
        "engine": (100, engine.step),
        "mujoco": (mujoco_steps, lambda n: mujoco.mj_step(mj_model, mj_data, nstep=n)),
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
        condensed_over_engine=times["condensed"] / times["engine"],
        iterations=core.iterations / core.steps,
        solver="passes" if core.passes else "sparse tangent",
    )
    return times


def against_engine(report: Report, name: str, quick: bool) -> None:
    """Times per step of the condensed model and of the engine, under a small constant load, at which most mechanisms
    come to rest, and under a load that swings with a period of 0.5 s and changes every 10 ms."""
    mech, tips = load_mechanism(name)
    model = supple.condense(mech, tips)
    constant = np.tile([0, 0.2, 0.1, 0, 0, 0], (len(tips), 1))
    swinging = random_wrenches(model.linear(), np.random.default_rng(1), 0.05)
    for load, wrenches in (("constant", constant), ("swinging", swinging)):
        condensed, engine = supple.ReducedSimulation(model, DT), supple.Simulation(mech, DT)
        core = condensed._motion.core
        stages = 40
        # calls of the core, since five steps are too few to neglect the time of a Python call; neither writes poses
        steps = {
            "condensed": lambda core=core: core.step(5, False),
            "engine": lambda core=engine._core: core.step([], np.zeros((5, 0)), 5),
        }
        best = {key: np.full(stages, np.inf) for key in steps}
        for repetition in range(5 if quick else 20):
            for stage in range(stages):
                angle = 2 * np.pi * 5 * DT * (stage + stages * repetition) / 0.5
                for tip, wrench in zip(tips, wrenches, strict=True):
                    for sim in (condensed, engine):
                        sim.apply(tip, wrench * (1.0 if load == "constant" else np.sin(angle)))
                for key, step in steps.items():
                    start = process_time()
                    step()
                    if repetition > 0:  # the first one is the warm-up
                        best[key][stage] = min(best[key][stage], process_time() - start)
        times = {key: float(seconds.sum()) / (5 * stages) for key, seconds in best.items()}
        ratio = times["condensed"] / times["engine"]
        report.row(
            us_per_step=name,
            load=load,
            end_effectors=len(tips),
            interior=model.has_interior,
            **{key: 1e6 * seconds for key, seconds in times.items()},
            condensed_over_engine=ratio,
            iterations=core.iterations / core.steps,
            columns=core.tangents / core.steps,
        )
        report.target(f"{name}, {load} load: condensed over engine", ratio, at_most=1)


def targets(report: Report, seconds_by_mechanism: dict[str, dict[str, float]]) -> None:
    long = seconds_by_mechanism["helix 400"]
    report.target("helix of 400 links, us per step", 1e6 * long["condensed"], at_most=60)
    report.target("helix of 400 links, times faster than MuJoCo", long["mujoco"] / long["condensed"], at_least=100)
    report.target("arm of 20 links, us per step", 1e6 * seconds_by_mechanism["arm 20"]["condensed"], at_most=6)
    report.target("ladder of 48 links, us per step", 1e6 * seconds_by_mechanism["ladder 48"]["condensed"], at_most=200)
    growth = long["condensed"] / 400 / (seconds_by_mechanism["helix 50"]["condensed"] / 50)
    report.target("time per link, helix of 400 / of 50", growth, at_most=1.1)
    for name, times in seconds_by_mechanism.items():
        report.target(f"{name}: condensed over engine", times["condensed"] / times["engine"], at_most=1)


def accuracy(report: Report, name: str, mech: Mechanism, push: Array) -> None:
    """Error of the tip and separation of the joints of each kind of model, at rest under a large force, against the
    engine's equilibrium."""
    linear = supple.reduce(mech, ["tip"])
    full = supple.equilibrium(mech, {"tip": push})
    half_load = supple.equilibrium(mech, {"tip": 0.5 * push})
    models = {
        "linear": linear,
        "blended": supple.blend([linear, supple.reduce(mech, ["tip"], at=half_load)]),
        "condensed": supple.condense(mech, ["tip"]),
    }
    for kind, model in models.items():
        sim = supple.ReducedSimulation(model, 2e-2)
        sim.apply("tip", push)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", supple.RangeWarning)
            sim.step(8000)
            error = np.linalg.norm(sim.poses["tip"][:3, 3] - full.poses["tip"][:3, 3]) / mech.radius
            apart, speed = float(sim.separation.total), float(np.abs(sim.velocities).max())
            report.row(at_rest=name, model=kind, tip_error=float(error), separation=apart, speed=speed)


def random_wrenches(linear: supple.ReducedModel, rng: np.random.Generator, displacement: float) -> Array:
    """(e, 6) random wrenches that give the linear model this relative displacement (lengths over the radius).

    They are at most ten times as large as those that reach it in the softest direction, because some directions are
    nearly rigid."""
    lengths = np.tile([linear.mechanism.radius] * 3 + [1.0] * 3, len(linear.end_effectors))
    soft = linear.compliance / np.outer(lengths, lengths)
    push: Array = rng.normal(size=len(lengths))
    push *= displacement * min(1 / np.linalg.norm(soft @ push), 10 / (np.linalg.norm(soft, 2) * np.linalg.norm(push)))
    return (push / lengths).reshape(-1, 6)


def closed_path(report: Report, name: str, mech: Mechanism, tips: list[str], n: int = 128) -> float:
    """Work of the wrench along a smooth closed path of the tips over the range of the energy, by the condensed model.

    The row also has that of a blend of four linear models made on the same path. The trapezoidal rule converges
    geometrically."""
    model = supple.condense(mech, tips)
    linear = model.linear()
    a, b = (random_wrenches(linear, np.random.default_rng(seed), 0.3) for seed in (3, 4))
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


def load_mechanism(name: str) -> tuple[Mechanism, list[str]]:
    """A mechanism and its end effectors, by name."""
    if name in LIBRARY:
        return LIBRARY[name]
    file, tips = ROBOTS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", supple.ImportWarning)
        mech = supple.load(SHARED / file)
    return mech.with_springs(1.0, 0.05) if name == "shadow" else mech, tips


def move_randomly(report: Report, count: int, names: list[str]) -> None:
    """Motion under random wrenches that change every 20 steps."""
    most = 0.0
    for name in names:
        if name in ROBOTS and not SHARED.exists():
            continue
        mech, tips = load_mechanism(name)
        model = supple.condense(mech, tips)
        linear = model.linear()
        for dt in (1e-3, 1e-2):
            sim, rng = supple.ReducedSimulation(model, dt), np.random.default_rng(0)
            highest, start = 0.0, perf_counter()
            for _ in range(count // 20):
                wrenches = random_wrenches(linear, rng, rng.uniform(0, LARGEST_DISPLACEMENT))
                for tip, wrench in zip(tips, wrenches, strict=True):
                    sim.apply(tip, wrench)
                sim.step(20)
                highest = max(highest, abs(sum(sim._motion._solver.engine.energies)))
            core = sim._motion.core
            report.row(
                random_wrenches=name,
                dt_ms=1e3 * dt,
                steps=core.steps,
                iterations=core.iterations / core.steps,
                interior=model.has_interior,
                snap_throughs=core.snaps if model.has_interior else 0,
                subdivisions=core.divisions if model.has_interior else None,
                highest_J=highest,
                separation=float(sim.separation.total),
                seconds=perf_counter() - start,
            )
            if model.has_interior:
                most = max(most, core.iterations / core.steps)
            print(f"{name}, {1e3 * dt:g} ms: {core.steps:,} steps", flush=True)
    report.target("random wrenches: most interior iterations per step", most, at_most=4)


if __name__ == "__main__":
    main()
