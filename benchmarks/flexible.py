"""Flexible bodies: reference figures, speed, accuracy against the full finite elements, conservation laws.

Parts, selected with `--only`:

- `reference`: natural frequencies, sag and tip position of `rod_on_motor` and `two_rods`, reduced and full, and of
  chains of 80 rigid links for each rod. The reference figures come from such chains.
- `speed`: time steps per second on one core, compared with the full simulation and with other models of the same rod:
  Exudyn's ANCF cable, MuJoCo on links, and our engine on links.
- `accuracy`: tip path of reduced rods and of the full simulation, for several bases and amplitudes.
- `stiffness`: number of modes, statics against closed forms and full finite elements (a basis that locks is too stiff),
  and time steps of the dancer.
- `conservation`: amplitude lost by an undamped rod, stiffening of a spinning rod, momentum of a free assembly.

The bases are made once and kept in the cache, so the first run takes some minutes longer. `--quick` finishes within a
minute once they are made; its full simulations in `accuracy` have coarse rods (20 lengths).
"""

from __future__ import annotations

import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from time import process_time
from typing import Any

import mujoco
import numpy as np

import supple
from _report import Report, parse_args
from supple import elastic, spatial
from supple.elastic.cache import with_cached_basis
from supple.engine import FullSimulation, full_equilibrium
from supple.mechanism import Mechanism
from supple.mechanism.library._flexible import DAMPING_RATIO, DIAMETER, add_cylinder
from supple.mechanism.library.rod_on_motor import FREQUENCY, LENGTH

try:
    import exudyn
except ImportError:
    exudyn = None

DT = 5e-4
STEEL = elastic.spring_steel()
AREA, SECOND_MOMENT = np.pi * DIAMETER**2 / 4, np.pi * DIAMETER**4 / 64
BENDING = STEEL.young * SECOND_MOMENT
BETA = DAMPING_RATIO / (np.pi * FREQUENCY)
"""Stiffness-proportional damping of the rod on a motor, s."""
SAMPLED = 0.25
"""Largest displacement under each of the loads with which a basis is compared, over the length (`with_basis`)."""
AMPLITUDES = (20, 30, 50)
"""Degrees by which the motor turns in 0.4 s, so that the rod bends about 1, 1.5 and 2.4 times as far as under each of
the loads with which its basis is compared."""
STEPS_PER_SECOND = {"rod on motor": (20_000, 275), "two rods": (10_000, 260)}
"""For each mechanism our target and the figure of the retargeting paper."""


def main() -> None:
    if os.environ.get("OPENBLAS_NUM_THREADS") != "1":  # read when NumPy is imported: start again
        os.execve(sys.executable, [sys.executable, *sys.argv], os.environ | {"OPENBLAS_NUM_THREADS": "1"})
    parts = {
        "reference": reference,
        "speed": speed,
        "accuracy": accuracy,
        "stiffness": stiffness,
        "conservation": conservation,
    }
    args = parse_args(__doc__, list(parts))
    report = Report("flexible bodies", args)
    for name in args.only:
        parts[name](report, args.quick)
    report.finish()


def quiet(fraction: float) -> None:
    """In place of a progress bar."""


# models


def steel_rod(sections: int = 40) -> elastic.Part:
    """The rod of `rod_on_motor` without a basis."""
    return elastic.rod(LENGTH, DIAMETER, replace(STEEL, beta=BETA), sections=sections)


def planar(part: elastic.Part, modes: int, **options: Any) -> elastic.Part:
    """The rod with a basis for motion normal to y, from the cache."""
    return with_cached_basis(part, modes=modes, plane="y", progress=quiet, **options)


def undamped(part: elastic.Part) -> elastic.Part:
    """The same part and basis without damping."""
    assert part.basis is not None
    return replace(part, material=replace(part.material, beta=0.0), basis=replace(part.basis, beta=0.0))


def rod_on_motor(part: elastic.Part) -> Mechanism:
    """The library's mechanism with another basis or mesh of its rod."""
    build = supple.Builder("rod on motor")
    build.flexible("rod", part)
    add_cylinder(build, "tip", (0.0, 0.0, LENGTH), mass=0.1, diameter=0.025)
    build.hinge("foot", "world", "rod.start", at=(0, 0, 0), axis="y")
    build.fixed("clamp", "rod.end", "tip")
    build.motor("motor", "foot")
    return build.build()


def linked_rod_on_motor(count: int, ball: bool = False, clamped: bool = False) -> Mechanism:
    """The rod on a motor as a chain of rigid links. If `clamped`, the world holds its first link, without a motor."""
    build = supple.Builder(f"rod on motor, {count} links")
    first, last = add_links(build, "link", 0.0, LENGTH, count, BETA, ball)
    add_cylinder(build, "tip", (0.0, 0.0, LENGTH), mass=0.1, diameter=0.025)
    build.fixed("clamp", last, "tip")
    if clamped:
        build.fixed("foot", "world", first)
    else:
        build.hinge("foot", "world", first, at=(0, 0, 0), axis="y")
        build.motor("motor", "foot")
    return build.build()


def linked_two_rods(count: int) -> Mechanism:
    """Two rods with a motor between them as chains of rigid links."""
    length = 0.3
    at = (0.0, 0.0, length)
    build = supple.Builder(f"two rods, {count} links each")
    foot, top = add_links(build, "lower", 0.0, length, count)
    build.body("motor", spatial.translation(np.array(at)), 0.12, inertia=(6e-5,) * 3)
    first, last = add_links(build, "upper", length, length, count)
    add_cylinder(build, "tip", (0.0, 0.0, 2 * length), mass=0.2, diameter=0.03)
    build.fixed("foot", "world", foot)
    build.fixed("mount", top, "motor")
    build.hinge("elbow", "motor", first, at=at, axis="y")
    build.fixed("clamp", last, "tip")
    build.motor("drive", "elbow")
    return build.build()


def add_links(
    build: supple.Builder, name: str, start: float, length: float, count: int, beta: float = 0.0, ball: bool = False
) -> tuple[str, str]:
    """Adds an upright rod from the height `start` as rigid links with `count` joints between them; returns the names of
    its first and last link.

    A joint stands in the middle of each of `count` equal lengths l and carries the spring EI / l, so the first and the
    last link are half as long. Hinges turn about y; ball joints bend in both directions and twist with GJ / l.
    """
    l = length / count
    ends = start + np.concatenate([[0.0], (np.arange(count) + 0.5) * l, [length]])
    names = [f"{name}{i}" for i in range(count + 1)]
    bend = BENDING / l
    for i, (low, high) in enumerate(pairwise(ends)):
        size = high - low
        line, turning = STEEL.density * AREA, STEEL.density * SECOND_MOMENT
        across = line * size**3 / 12 + turning * size
        inertia = (across, across, 2 * turning * size)
        build.link(names[i], (0, 0, low), (0, 0, high), mass=line * size, inertia=inertia, radius=DIAMETER / 2)
        joint, at = (f"{name}.joint{i}", names[i - 1], names[i]), (0, 0, low)
        if i and ball:
            springs = np.array([bend, bend, bend / (1 + STEEL.poisson)])
            build.ball(*joint, at, stiffness=springs, damping=beta * springs)
        elif i:
            build.hinge(*joint, at, axis="y", stiffness=bend, damping=beta * bend)
    return names[0], names[-1]


# reference figures


@dataclass(frozen=True)
class Figure:
    """A figure of a mechanism: natural frequencies in Hz, or a length in m."""

    what: str
    value: float
    """That of planar chains of 80 links for each rod."""
    of: Callable[[Mechanism], float]


def frequency(mech: Mechanism, number: int = 0, angle: float = 0.0) -> float:
    """A natural frequency about the equilibrium with the motor at an angle, Hz."""
    eq = supple.equilibrium(mech, targets={mech.motors[0].name: angle})
    return float(supple.modes(mech, eq, number + 1).frequencies[number])


def sag(tip: np.ndarray, angle: float) -> float:
    """Distance of the tip of the rod on a motor from where it is if the rod stays straight, m."""
    return float(np.linalg.norm(tip - LENGTH * np.array([np.sin(angle), 0, np.cos(angle)])))


def tip_at(mech: Mechanism, angle: float) -> np.ndarray:
    return supple.equilibrium(mech, targets={mech.motors[0].name: angle}).poses["tip"][:3, 3]


TILT, QUARTER = np.radians(30), np.pi / 2
FIGURES = {
    "rod on motor": (
        Figure("frequency 1, Hz", 2.083, frequency),
        Figure("frequency 2, Hz", 25.96, lambda mech: frequency(mech, 1)),
        Figure("without weight, Hz", 2.187, lambda mech: float(supple.modes(mech, None, 1).frequencies[0])),
        Figure("sag at 30 degrees, m", 0.0305, lambda mech: sag(tip_at(mech, TILT), TILT)),
    ),
    "two rods": (
        Figure("frequency 1, Hz", 1.837, frequency),
        Figure("frequency 1 at 90 degrees, Hz", 2.573, lambda mech: frequency(mech, 0, QUARTER)),
        Figure("tip x at 90 degrees, m", 0.310, lambda mech: float(tip_at(mech, QUARTER)[0])),
        Figure("tip z at 90 degrees, m", 0.269, lambda mech: float(tip_at(mech, QUARTER)[2])),
    ),
}


def reference(report: Report, quick: bool) -> None:
    reduced = {"rod on motor": supple.library.rod_on_motor(), "two rods": supple.library.two_rods()}
    linked = {"rod on motor": linked_rod_on_motor(80), "two rods": linked_two_rods(80)}
    worst = dict.fromkeys(("reduced", "full", "80 links"), 0.0)
    for name, figures in FIGURES.items():
        full = full_figures(name, reduced[name], quick)
        for figure in figures:
            values = {"reduced": figure.of(reduced[name]), "full": full.get(figure.what)}
            values["80 links"] = figure.of(linked[name])
            errors = {model: percent(v, figure.value) for model, v in values.items() if v is not None}
            worst |= {model: max(worst[model], error) for model, error in errors.items()}
            report.row(
                mechanism=name,
                figure=figure.what,
                reference=figure.value,
                **{model: "" if v is None else float(v) for model, v in values.items()},
                **{f"{model}, %": round(errors[model], 2) if model in errors else "" for model in ("reduced", "full")},
            )
    for model, error in worst.items():
        report.target(f"largest difference from the reference figures, {model}, %", error, at_most=1.0)


def percent(value: float, expected: float) -> float:
    return 100 * abs(value / expected - 1)


def full_figures(name: str, mech: Mechanism, quick: bool) -> dict[str, float]:
    """The figures of all nodes. Frequencies come from a released vibration, which takes long."""
    motor = mech.motors[0].name
    angle = TILT if name == "rod on motor" else QUARTER
    tip = full_equilibrium(mech, targets={motor: angle}, progress=quiet).poses["tip"][:3, 3]
    values = {"frequency 1, Hz": full_frequency(mech)} if not quick else {}
    if name == "rod on motor":
        return values | {"sag at 30 degrees, m": sag(tip, angle)}
    return values | {"tip x at 90 degrees, m": tip[0], "tip z at 90 degrees, m": tip[2]}


def full_frequency(mech: Mechanism, dt: float = 4e-3) -> float:
    """First frequency upright of all nodes, Hz, from a vibration of about a millimetre."""
    start = full_equilibrium(mech, {"tip": [0.02, 0, 0, 0, 0, 0]}, progress=quiet)
    sim = FullSimulation(mech, dt, start=start)
    sim.apply("tip", np.zeros(6))
    return signal_frequency(tip_path(sim, round(0.8 / dt))[:, 0], dt)


def tip_path(sim: supple.Simulation | FullSimulation, steps: int) -> np.ndarray:
    """(steps + 1, 3) positions of the tip, m."""
    path = [sim.poses["tip"][:3, 3]]
    for _ in range(steps):
        sim.step(1, progress=quiet) if isinstance(sim, FullSimulation) else sim.step()
        path.append(sim.poses["tip"][:3, 3])
    return np.array(path)


def signal_frequency(signal: np.ndarray, dt: float) -> float:
    """Frequency of a vibration about zero, Hz, from the times at which it crosses zero."""
    before = np.flatnonzero(np.sign(signal[:-1]) * np.sign(signal[1:]) < 0)
    times = dt * (before + signal[before] / (signal[before] - signal[before + 1]))
    return float((len(times) - 1) / 2 / (times[-1] - times[0]))


# speed


def sway(t: float) -> float:
    """Motion of the motor while steps are timed, rad; it starts at rest."""
    return 0.15 * (1 - np.cos(5 * t))


@dataclass(frozen=True)
class Runner:
    """A simulation to be timed."""

    run: Callable[[], object]
    """Simulates `steps` time steps of `dt` s, each time from the same state."""
    steps: int
    frequency: float | None
    dt: float = DT


def speed(report: Report, quick: bool) -> None:
    """Time steps per second of processor time, best of alternating repetitions, all on one core."""
    cores = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
    if cores:
        os.sched_setaffinity(0, {min(cores)})
    rod, two = supple.library.rod_on_motor(), supple.library.two_rods()
    steps, repeat = (1000, 3) if quick else (4000, 10)
    links = {f"{n} links, ball joints": reduced_runner(linked_rod_on_motor(n, ball=True), steps) for n in (10, 20)}
    links["20 links, hinges"] = reduced_runner(linked_rod_on_motor(20), steps)
    groups = {
        "rod on motor": {"reduced": reduced_runner(rod, steps), "full": full_runner(rod, quick)}
        | links
        | other_programs(steps),
        "two rods": {"reduced": reduced_runner(two, steps), "full": full_runner(two, quick)},
    }
    for name, runners in groups.items():
        times = alternate(runners, repeat)
        rates = {model: runner.steps / times[model] for model, runner in runners.items()}
        expected = FIGURES[name][0].value
        for model, runner in runners.items():
            found = runner.frequency
            report.row(
                mechanism=name,
                model=model,
                dt_ms=round(1e3 * runner.dt, 3),
                steps_per_s=float(f"{rates[model]:.3g}"),
                simulated_s_per_s=float(f"{rates[model] * runner.dt:.3g}"),
                frequency_error_percent="" if found is None else round(percent(found, expected), 2),
            )
        target, paper = STEPS_PER_SECOND[name]
        report.target(f"steps per second, {name} (paper: {paper})", rates["reduced"], at_least=target)
        report.target(f"steps per second / full simulation's, {name}", rates["reduced"] / rates["full"], at_least=500)
    if cores:
        os.sched_setaffinity(0, cores)


def alternate(runners: dict[str, Runner], repeat: int) -> dict[str, float]:
    """Best seconds of processor time of each run. They take turns; the full simulation has three turns at most."""
    times = dict.fromkeys(runners, np.inf)
    for turn in range(repeat):
        for model, runner in runners.items():
            if model != "full" or turn < 3:
                start = process_time()
                runner.run()
                times[model] = min(times[model], process_time() - start)
    return times


def reduced_runner(mech: Mechanism, steps: int) -> Runner:
    sim = supple.Simulation(mech, DT, "bdf2", at=supple.equilibrium(mech), motors={mech.motors[0].name: sway})
    begin = sim.save()

    def run() -> None:
        sim.restore(begin)
        sim.step(steps)

    return Runner(run, steps, frequency(mech))


def full_runner(mech: Mechanism, quick: bool) -> Runner:
    """Successive steps of one run."""
    steps = 5 if quick else 15
    sim = FullSimulation(mech, DT, motors={mech.motors[0].name: sway})
    sim.step(5, progress=quiet)
    return Runner(lambda: sim.step(steps, progress=quiet), steps, None)


def other_programs(steps: int) -> dict[str, Runner]:
    feet = {"motor": False, "clamped": True}
    runners = {f"MuJoCo, 20 links, {foot}": mujoco_runner(20, steps, clamped) for foot, clamped in feet.items()}
    if exudyn is None:
        print("Exudyn is not installed, its ANCF cable is left out (pip install supple[bench])")
        return runners
    return runners | {"Exudyn, 8 ANCF cables": exudyn_runner(8, steps)}


def mujoco_runner(count: int, steps: int, clamped: bool) -> Runner:
    """The chain of links with hinges, at the largest stable step in a series of ratio 1.1.

    The foot is clamped, or held by a motor, which is a soft constraint in MuJoCo. A force on the tip makes the rod
    vibrate; MuJoCo's time per step does not depend on the motion.
    """
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that MuJoCo's motor is soft
        path = Path(folder) / "links.xml"
        linked_rod_on_motor(count, clamped=clamped).save(path)
        model = mujoco.MjModel.from_xml_path(str(path))
    mujoco.set_mju_user_warning(lambda text: None)  # of instability
    model.opt.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT | mujoco.mjtDisableBit.mjDSBL_AUTORESET
    dt = next(dt for dt in 2 * DT / 1.1 ** np.arange(50) if mujoco_path(model, dt, 0.5) is not None)
    found = signal_frequency(mujoco_path(model, dt, 0.02), dt)
    data = mujoco.MjData(model)

    def run() -> None:
        mujoco.mj_resetData(model, data)
        data.xfrc_applied[model.body("tip").id, 0] = 0.5
        mujoco.mj_step(model, data, nstep=steps)

    return Runner(run, steps, found, dt)


def mujoco_path(model: mujoco.MjModel, dt: float, force: float) -> np.ndarray | None:
    """Path of the tip along x, m, at each step, after a sideways force (N) of 0.24 s; None if the energy grows."""
    model.opt.timestep = dt
    model.opt.enableflags |= mujoco.mjtEnableBit.mjENBL_ENERGY
    data, tip = mujoco.MjData(model), model.body("tip").id
    mujoco.mj_step(model, data)
    upright = data.energy.sum()
    data.xfrc_applied[tip, 0] = force
    mujoco.mj_step(model, data, nstep=round(0.24 / dt))
    data.xfrc_applied[:] = 0
    released = data.energy.sum() - upright
    path = []
    for _ in range(round(4 / dt)):
        mujoco.mj_step(model, data)
        path.append(data.xpos[tip, 0])
        if not data.energy.sum() - upright < 1.1 * released:  # also if it is not a number
            return None
    model.opt.enableflags &= ~int(mujoco.mjtEnableBit.mjENBL_ENERGY)
    return np.array(path)


def exudyn_runner(count: int, steps: int) -> Runner:
    """Exudyn's planar ANCF cable with its default integrator (generalised alpha) and modified Newton iterations."""
    settings = exudyn.SimulationSettings()
    settings.solution.file.write = settings.solution.sensors.active = False
    settings.timeIntegration.numberOfSteps, settings.timeIntegration.endTime = steps, steps * DT
    settings.timeIntegration.newton.useModifiedNewton = True
    held, _ = exudyn_rod(count, moving=False)
    held.SolveStatic(exudyn_quiet(), updateInitialValues=True)
    found = held.ComputeODE2Eigenvalues(numberOfEigenvalues=1, convert2Frequencies=True)[0][0]
    system, functions = exudyn_rod(count, moving=True)
    # a run does not change the initial values, so each starts from the same state; `functions` must stay alive
    return Runner(lambda: (system.SolveDynamic(settings), functions), steps, float(found))


def exudyn_quiet() -> Any:
    settings = exudyn.SimulationSettings()
    settings.solution.file.write = False
    settings.staticSolver.verboseMode = 0
    return settings


def exudyn_rod(count: int, moving: bool) -> tuple[Any, list[Any]]:
    """The rod on a motor in Exudyn, upright along y, and the compiled functions of its motor.

    The motor prescribes position and slope of the first node. Mass and turning inertia of the tip act on position and
    slope of the last node; the slope is a unit vector there, so this is exact.
    """
    import exudyn.itemInterface as items
    from exudyn.utilities import CreateSymbolicUserFunction

    sin, cos = exudyn.symbolic.sin, exudyn.symbolic.cos
    system = exudyn.SystemContainer().AddSystem()
    nodes = [
        system.AddNode(items.NodePoint2DSlope1(referenceCoordinates=[0, LENGTH * k / count, 0, 1]))
        for k in range(count + 1)
    ]
    for pair in pairwise(nodes):
        cable = items.ObjectANCFCable2D(
            length=LENGTH / count,
            massPerLength=STEEL.density * AREA,
            bendingStiffness=BENDING,
            axialStiffness=STEEL.young * AREA,
            bendingDamping=BETA * BENDING,
            axialDamping=BETA * STEEL.young * AREA,
            nodeNumbers=list(pair),
        )
        marker = system.AddMarker(items.MarkerBodyMass(bodyNumber=system.AddObject(cable)))
        system.AddLoad(items.LoadMassProportional(markerNumber=marker, loadVector=[0, -9.81, 0]))
    tip = next(body for body in linked_rod_on_motor(1).bodies if body.name == "tip")
    masses = np.diag([tip.mass, tip.mass, tip.inertia[0, 0], tip.inertia[0, 0]])
    weight, none = [0, -9.81 * tip.mass, 0, 0], np.zeros((4, 4))
    matrices = {"massMatrix": masses, "stiffnessMatrix": none, "dampingMatrix": none, "forceVector": weight}
    system.AddObject(items.ObjectGenericODE2(nodeNumbers=[nodes[-1]], **matrices))
    fixed_node = system.AddNode(items.NodePointGround())
    ground = system.AddMarker(items.MarkerNodeCoordinate(nodeNumber=fixed_node, coordinate=0))

    def slope_x(mbs: Any, t: Any, item: Any, offset: Any) -> Any:
        return sin(0.15 * (1 - cos(5 * t)))

    def slope_y(mbs: Any, t: Any, item: Any, offset: Any) -> Any:
        return cos(0.15 * (1 - cos(5 * t))) - 1

    options = {"userFunctionName": "offsetUserFunction", "itemTypeName": "ObjectConnectorCoordinate"}
    slopes = (slope_x, slope_y)
    functions = [CreateSymbolicUserFunction(system, slope, **options) if moving else 0 for slope in slopes]
    for coordinate, function in enumerate([0, 0, *functions]):
        marker = system.AddMarker(items.MarkerNodeCoordinate(nodeNumber=nodes[0], coordinate=coordinate))
        system.AddObject(items.ObjectConnectorCoordinate(markerNumbers=[ground, marker], offsetUserFunction=function))
    system.Assemble()
    return system, functions


# accuracy


def turn(t: float, begin: float, duration: float, angle: float) -> float:
    """A motor angle that moves from 0 to `angle`, with zero velocity and acceleration at both ends."""
    s = np.clip((t - begin) / duration, 0, 1)
    return float(angle * s**3 * (10 - 15 * s + 6 * s**2))


def tested_motion(t: float) -> float:
    return turn(t, 0.05, 0.6, np.radians(30))


def other_motion(t: float) -> float:
    """The motion from which snapshots are taken, rad."""
    return 0.35 * np.sin(7 * t) * turn(t, 0, 0.3, 1.0)


@dataclass(frozen=True)
class FullRun:
    """A run of the full simulation."""

    path: np.ndarray
    """(steps + 1, 3) positions of the tip, m."""
    deflection: float
    """Largest distance of the tip from the straight rod, m."""
    shapes: np.ndarray
    """(s, n, 3) displacements of the nodes at some times, m."""
    dt: float


def full_run(part: elastic.Part, motion: Callable[[float], float], dt: float, seconds: float) -> FullRun:
    mech = rod_on_motor(part)
    start = full_equilibrium(mech, progress=quiet)
    sim = FullSimulation(mech, dt, start=start, motors={"motor": motion})
    path, bent, shapes = [sim.poses["tip"][:3, 3]], [0.0], []
    for k in range(round(seconds / dt)):
        sim.step(1, progress=quiet)
        path.append(sim.poses["tip"][:3, 3])
        bent.append(sag(path[-1], motion(sim.time)))
        if k % 5 == 0:
            shapes.append(sim.displacements("rod"))
    return FullRun(np.array(path), max(bent), np.array(shapes), dt)


def path_error(part: elastic.Part, motion: Callable[[float], float], run: FullRun) -> float:
    """Largest distance between the tips of the reduced and of the full rod, over the largest deflection, %. It is not a
    number if the reduced simulation stops."""
    mech = rod_on_motor(part)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", supple.RangeWarning)
        try:
            sim = supple.Simulation(mech, run.dt, "bdf2", at=supple.equilibrium(mech), motors={"motor": motion})
            path = tip_path(sim, len(run.path) - 1)
        except supple.ConvergenceError:
            return np.nan
    return float(100 * np.linalg.norm(path - run.path, axis=1).max() / run.deflection)


def accuracy(report: Report, quick: bool) -> None:
    part = steel_rod(20 if quick else 40)
    dt, seconds = (4e-3, 0.72) if quick else (1e-3, 1.0)
    static = {n: planar(part, n) for n in ((8, 15) if quick else (3, 6, 8, 11, 15))}
    run = full_run(static[15], tested_motion, dt, seconds)

    def add(basis: str, reduced: elastic.Part, **target: float) -> None:
        error = path_error(reduced, tested_motion, run)
        size = reduced.basis.size if reduced.basis else 0
        report.row(basis=basis, modes=size, tip_error_percent=float(f"{error:.3g}"))
        if target:
            report.target(f"tip error, {basis}, {size} modes, %", error, **target)

    for n, reduced in static.items():
        add("in the plane", reduced, **{"at_most": 1.0} if n in (8, 15) else {})
    add("in the plane, 80 cubature points", planar(part, 15, cubature=80), at_most=2.0)
    add("in space", with_cached_basis(part, progress=quiet), at_most=1.0)
    other = full_run(static[15], other_motion, dt, 0.4 if quick else 0.5)
    add("snapshots of another motion", part.with_basis(10, snapshots=other.shapes, progress=quiet), at_most=1.0)
    add("linear", planar(part, 15, method="linear"))
    if not quick:
        amplitudes(report)


def amplitudes(report: Report) -> None:
    """Error over the largest deflection in faster and larger motions, for a coarse rod."""
    reduced = planar(steel_rod(20), 15)
    for degrees in AMPLITUDES:

        def motion(t: float, degrees: float = degrees) -> float:
            return turn(t, 0.02, 0.4, np.radians(degrees))

        run = full_run(reduced, motion, 2e-3, 0.6)
        report.row(
            motion=f"{degrees} degrees in 0.4 s",
            deflection_over_sampled=round(run.deflection / (SAMPLED * LENGTH), 2),
            tip_error_percent=float(f"{path_error(reduced, motion, run):.3g}"),
        )


# stiffness


LEAF = 0.05, 1e-3, 5e-4
"""Length, width and thickness of the leaf springs of a guide, m."""
BEAM_LENGTH, EA, EI, BEAM_DENSITY, SPIN = 10.0, 2.8e7, 1.4e4, 1.2, 6.0
"""m, N, N m^2, kg/m, rad/s: the beam of Simo and Vu-Quoc (1986)."""


def stiffness(report: Report, quick: bool) -> None:
    """Statics with bases of several numbers of modes, in space and in a plane."""
    raised = {"left_raise": np.pi / 2, "right_raise": np.pi / 2}
    exact = hand_moved(supple.library.characters.dancer(sections=8), raised, full_equilibrium)
    report.row(model="full finite elements, 8 sections", dancers_hand_mm=round(1e3 * exact, 3))
    for plane, numbers in ((None, (9, 16, 21, None)), ("y", (3, 6, None))):
        for modes in numbers:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", supple.RangeWarning)
                start = process_time()
                part = steel_rod(20).with_basis(modes, plane=plane, progress=quiet)
                made = process_time() - start
                errors = {"guide": guide_error(modes, plane), "stretch": stretch_error(modes, plane)}
                row: dict[str, Any] = {}
                if plane is None:
                    dancer = supple.library.characters.dancer(modes=part.basis.size if part.basis else 0)
                    moved = hand_moved(dancer, raised, supple.equilibrium)
                    errors["hand"] = 100 * (moved / exact - 1)
                    row = {"dancers_hand_mm": round(1e3 * moved, 3), "dancer_us_a_step": round(step_time(dancer))}
            assert part.basis is not None
            report.row(
                modes=part.basis.size,
                plane=plane or "",
                guide_percent=round(errors["guide"], 2),
                stretch_percent=round(errors["stretch"], 2),
                difference_of_the_rod_percent=round(100 * (part.basis.difference or 0.0), 2),
                rod_made_s=round(made, 2),
                **row,
            )
            if modes is None:
                for what, error in errors.items():
                    name = f"{what}, default basis{' in a plane' if plane else ''}: difference, %"
                    report.target(name, abs(error), at_most=2.0)
    for width in (1e-3, 10e-3):
        for plane in (None, "y"):
            for deflection in (0.25, 0.1):
                difference = leaf(None, plane, width, deflection).basis.difference
                report.row(
                    leaf_width_over_thickness=round(width / LEAF[2]),
                    plane=plane or "",
                    deflection=deflection,
                    difference_percent=round(100 * difference, 2),
                )


def leaf(modes: int | None, plane: str | None, width: float, deflection: float) -> Any:
    """A leaf spring along z, thin along x, with a basis."""
    length, _, thickness = LEAF
    profile = np.array([[0, thickness, width], [length, thickness, width]])
    bare = elastic.bar(profile, STEEL, length=length / 20)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", supple.RangeWarning)
        return bare.with_basis(modes, plane=plane, deflection=deflection, progress=quiet)


def hand_moved(mech: Mechanism, targets: dict[str, float], solve: Callable[..., Any]) -> float:
    """How far a force of 1 N moves the left hand of the dancer forward with both arms raised sideways, m."""
    ends = [
        solve(mech, wrenches, targets=targets, progress=quiet).poses["left_hand"][:3, 3]
        for wrenches in ({}, {"left_hand": [1.0, 0, 0, 0, 0, 0]})
    ]
    return float(np.linalg.norm(ends[1] - ends[0]))


def step_time(mech: Mechanism) -> float:
    """Processor time of a time step while the arms swing, best of five, us."""
    motors = {name: lambda t: 0.15 * (1 - np.cos(5 * t)) for name in ("left_swing", "right_raise")}
    sim = supple.Simulation(mech, DT, "bdf2", at=supple.equilibrium(mech), motors=motors)
    times = []
    for _ in range(5):
        start = process_time()
        sim.step(200)
        times.append((process_time() - start) / 200)
    return 1e6 * min(times)


def guide_error(modes: int | None, plane: str | None) -> float:
    """Of a parallel guide of two leaf springs, moved by 1 % of their length, from 12 EI / L^3 each, %."""
    length, width, thickness = LEAF
    spring = leaf(modes, plane, width, 0.25)
    build = supple.Builder("guide", gravity=(0, 0, 0))
    build.body("stage", spatial.translation(np.array([0, 0, length])), 0.1, inertia=(1e-4,) * 3)
    for side, x in (("left", -0.015), ("right", 0.015)):
        build.flexible(side, spring, spatial.translation(np.array([x, 0, 0])))
        build.fixed(f"{side}_foot", "world", f"{side}.start")
        build.fixed(f"{side}_top", f"{side}.end", "stage")
    force = 24 * STEEL.young * width * thickness**3 / 12 / length**3 * 0.01 * length
    moved = supple.equilibrium(build.build(), {"stage": [force, 0, 0, 0, 0, 0]}).poses["stage"][0, 3]
    return float(100 * (moved / (0.01 * length) - 1))


def stretch_error(modes: int | None, plane: str | None) -> float:
    """Of the stretch of a beam that rotates about its end, from rho A omega^2 L^3 / (3 EA), %."""
    height = np.sqrt(12 * EI / EA)
    material = elastic.Material(EA / height**2, 0.0, BEAM_DENSITY / height**2, beta=0.05)
    beam = elastic.plate(BEAM_LENGTH, height, height, material, divisions=(10, 1, 1))
    build = supple.Builder("spin", gravity=(0, 0, 0))
    build.flexible("beam", beam.with_basis(modes, plane=plane, progress=quiet))
    build.hinge("shaft", "world", "beam.start", at=(0, 0, 0), axis="y")
    build.motor("drive", "shaft")
    mech = build.build()
    rates = np.array([SPIN if name == "shaft" else 0.0 for name in mech.coordinates])
    sim = supple.Simulation(mech, 5e-3, "bdf2", rates=rates, motors={"drive": lambda t: SPIN * t})
    sim.step(800)
    expected = BEAM_DENSITY * SPIN**2 * BEAM_LENGTH**3 / (3 * EA)
    return float(100 * ((np.linalg.norm(sim.poses["beam.end"][:3, 3]) - BEAM_LENGTH) / expected - 1))


# conservation laws


def conservation(report: Report, quick: bool) -> None:
    part = undamped(planar(steel_rod(), 15))
    vibration(report, part)
    spinning(report, part, (1.0,) if quick else (0.5, 1.0, 2.0))
    free_assembly(report, part)


def vibration(report: Report, part: elastic.Part) -> None:
    """Share of the amplitude that an undamped vibration about the upright rod loses in 4 s."""
    mech = rod_on_motor(part)
    rest = supple.equilibrium(mech)
    bent = supple.equilibrium(mech, {"tip": [0.5, 0, 0, 0, 0, 0]})
    ground = supple.Simulation(mech, DT, "bdf2", at=rest).energy.total
    sim = supple.Simulation(mech, DT, "bdf2", q=bent.q)
    energies = [sim.energy.total - ground]
    for _ in range(4):
        sim.step(round(1 / DT))
        energies.append(sim.energy.total - ground)
    lost = 1 - np.sqrt(np.array(energies) / energies[0])  # the energy is proportional to the amplitude squared
    for second, share in enumerate(lost[1:], 1):
        report.row(time_s=second, share_of_amplitude_lost=float(f"{share:.2e}"))
    report.target("share of the amplitude that an undamped rod loses in 4 s", lost[-1], at_most=1e-4)


def spinning(report: Report, part: elastic.Part, ratios: Sequence[float]) -> None:
    """First frequency out of the plane of rotation, compared with Southwell: omega^2 = omega_0^2 + 1.193 Omega^2."""
    build = supple.Builder("rotor", gravity=(0, 0, 0))
    build.flexible("rod", part)
    build.hinge("shaft", "world", "rod.start", at=(0, 0, 0), axis="x")
    build.motor("drive", "shaft")
    mech = build.build()
    still = float(supple.modes(mech, count=1).frequencies[0])
    dt = 1 / (still * 400)
    for ratio in ratios:
        speed = 2 * np.pi * still * ratio
        rates = np.array([speed if name == "shaft" else 0.0 for name in mech.coordinates])
        sim = supple.Simulation(mech, dt, "bdf2", rates=rates, motors={"drive": lambda t, speed=speed: speed * t})
        across = []
        for k in range(1600):
            sim.apply("rod.end", [1e-3 * (k < 100), 0, 0, 0, 0, 0])
            sim.step()
            across.append(sim.poses["rod.end"][0, 3])
        found, expected = signal_frequency(np.array(across[200:]), dt), still * np.sqrt(1 + 1.193 * ratio**2)
        report.row(
            turns_per_s=round(still * ratio, 3),
            frequency_Hz=round(found, 4),
            Southwell_Hz=round(expected, 4),
            difference_percent=round(percent(found, expected), 2),
        )
        report.target(
            f"spinning rod, difference from Southwell at {ratio:g} times its frequency, %",
            percent(found, expected),
            at_most=2.0,
        )


def free_assembly(report: Report, part: elastic.Part) -> None:
    """Momentum of the rod with a body at its end, free of the world, without gravity."""
    build = supple.Builder("free assembly", gravity=(0, 0, 0))
    build.flexible("rod", part)
    build.free("base", "world", "rod.start")
    add_cylinder(build, "tip", (0.0, 0.0, LENGTH), mass=0.1, diameter=0.025)
    build.fixed("clamp", "rod.end", "tip")
    mech = build.build()
    names = list(mech.coordinates)
    rates = np.zeros(mech.dof)
    rates[[names.index(f"base.{i}") for i in range(6)]] = [0.3, 0.0, -0.2, 0.0, 2.0, 0.0]
    rates[names.index("rod.eta0")] = 0.2
    linear, angular = [], []
    for dt in (4e-3, 2e-3, 1e-3):
        sim = supple.Simulation(mech, dt, "bdf2", rates=rates)
        sim.step(4)  # the first step is backward Euler
        before, change = sim.momentum, np.zeros(6)
        for _ in range(round(0.4 / dt)):
            sim.step()
            change = np.maximum(change, np.abs(sim.momentum - before))
        linear.append(change[:3].max() / np.abs(before[:3]).max())
        angular.append(change[3:].max() / np.abs(before[3:]).max())
        order = np.log2(angular[-2] / angular[-1]) if len(angular) > 1 else None
        report.row(
            dt_ms=1e3 * dt,
            linear_momentum_change=float(f"{linear[-1]:.1e}"),
            angular_momentum_change=float(f"{angular[-1]:.1e}"),
            order="" if order is None else round(order, 2),
        )
    report.target("change of the linear momentum of a free assembly", max(linear), at_most=1e-10)
    report.target("order of the change of its angular momentum", np.log2(angular[-2] / angular[-1]), at_least=1.8)


if __name__ == "__main__":
    main()
