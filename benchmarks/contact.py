"""Contact compared with MuJoCo: the same scenes with the same time step of 1 ms. A six-legged robot has 6 feet on a
height field; a hand holds a block with 5 fingertips. One core. Only stepping is timed, not the controller; all methods
run the same seconds of motion several times.

MuJoCo steps the full mechanism with its defaults (Newton's method; the faster of its two cones counts) and the
integrator `implicitfast`. supple steps the reduced model, and the full engine for comparison.

Robots of MuJoCo Menagerie, in `shared/robots` beside the project, stand (with the controls of their keyframe) and lie
limp (without actuators) on the floor of their scene: the full engine with self-contact and steps of 2 ms beside MuJoCo
without dry friction of joints, which supple does not have. Without that folder this part is left out.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, process_time

import numpy as np

import supple
from _report import Report, parse_args
from supple.world.objects import moments
from supple.world.scenes import Scene
from supple.world.scenes.hand import BLOCK, robot

ROBOTS = {
    "go2": "unitree_go2/scene.xml",
    "h1": "unitree_h1/scene.xml",
    "t1": "booster_t1/scene.xml",
    "barkour": "google_barkour_vb/scene.xml",
}
SHARED = Path(__file__).parents[2] / "shared/robots"
ROBOT_DT = 2e-3
WARM_UP, BATCH, EVERY = 700, 100, 10
"""Steps before timing starts, steps that are timed together, steps between two calls of the controller."""


@dataclass(frozen=True)
class Timed:
    """Microseconds of processor time per step, of calls of ten steps. A motion repeats from the same state; the least
    time of each call counts."""

    mean: float
    median: float
    p99: float
    contacts: float
    """Mean number of contact points, those that are close without touching included."""


def time_run(batches: int, repeat: int, reset: Callable[[], None], steer: Callable[[], None], step: Callable[[], None],
             contacts: Callable[[], int]) -> Timed:  # fmt: skip
    took, touching = np.zeros((repeat, batches * BATCH // EVERY)), []
    for r in range(repeat):
        reset()
        for k in range(took.shape[1]):
            steer()
            start = process_time()
            step()
            took[r, k] = 1e6 * (process_time() - start) / EVERY
            touching.append(contacts())
    us = took.min(axis=0)
    return Timed(float(us.mean()), float(np.median(us)), float(np.percentile(us, 99)), float(np.mean(touching)))


def time_supple(scene: Scene, batches: int, repeat: int) -> Timed:
    """Times a scene of ours."""
    scene.run(WARM_UP * scene.world.dt)
    start = scene.world.save()
    return time_run(
        batches,
        repeat,
        lambda: scene.world.restore(start),
        lambda: scene.robot.set_targets(scene.steer(scene.world.time)),
        lambda: scene.world.step(EVERY),
        lambda: len(scene.world.contacts),
    )


def time_mujoco(model: object, data: object, steer: Callable[[float], None], batches: int, repeat: int) -> Timed:
    """Times the same scene in MuJoCo."""
    import mujoco

    for _ in range(WARM_UP // EVERY):
        steer(data.time)  # type: ignore[attr-defined]
        mujoco.mj_step(model, data, EVERY)
    start = copy(data)
    return time_run(
        batches,
        repeat,
        lambda: mujoco.mj_copyData(data, model, start),
        lambda: steer(data.time),  # type: ignore[attr-defined]
        lambda: mujoco.mj_step(model, data, EVERY),
        lambda: data.ncon,  # type: ignore[attr-defined]
    )


def mujoco_model(mech: supple.Mechanism, add: Callable[[object], None], cone: int) -> object:
    """A mechanism as a MuJoCo model; `add` adds objects and ground to its spec."""
    import mujoco

    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore", supple.ExportWarning)
        mech.save(Path(folder) / "mech.xml")
        spec = mujoco.MjSpec.from_file(str(Path(folder) / "mech.xml"))
    add(spec)
    model = spec.compile()
    model.opt.timestep, model.opt.cone = 1e-3, cone
    return model


def standing(level: str = "reduced") -> Scene:
    """The six-legged robot with all its feet on the ground."""
    scene = supple.scenes.hexapod(level)
    scene.steer = lambda time: {}
    return scene


def hexapod_in_mujoco(scene: Scene, cone: int) -> tuple[object, object, Callable[[float], None]]:
    import mujoco

    field = scene.ground[0]
    low, high = float(field.heights.min()), float(field.heights.max())

    def add(spec: mujoco.MjSpec) -> None:
        rows, columns = field.heights.shape
        spec.add_hfield(name="ground", nrow=rows, ncol=columns, size=[*field.size, high - low, 0.1],
                        userdata=((field.heights - low) / (high - low)).ravel().tolist())  # fmt: skip
        spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_HFIELD, hfieldname="ground", pos=[0, 0, low],
                                friction=[0.8, 0, 0])  # fmt: skip

    model = mujoco_model(scene.mechanism, add, cone)
    return model, mujoco.MjData(model), spring_controller(model, scene.steer)


def hand_in_mujoco(scene: Scene, cone: int) -> tuple[object, object, Callable[[float], None]]:
    import mujoco

    def add(spec: mujoco.MjSpec) -> None:
        spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=[1, 1, 1], friction=[0.5, 0, 0])
        block = spec.worldbody.add_body(name="block", pos=[0, 0, BLOCK[2]])
        block.add_freejoint()
        block.add_geom(type=mujoco.mjtGeom.mjGEOM_BOX, size=BLOCK, friction=[0.8, 0, 0])
        block.mass, block.explicitinertial = 0.2, True
        block.fullinertia = [*np.diag(0.2 * moments("box", np.array(BLOCK))), 0, 0, 0]

    model = mujoco_model(robot(carried=True), add, cone)
    data = mujoco.MjData(model)
    data.body("block").xfrc_applied[:3] = [0, 0, -9.81 * 0.2]  # only the block has weight
    return model, data, spring_controller(model, supple.scenes.hand("full").steer)


def spring_controller(model: object, steer: Callable[[float], dict[str, float]]) -> Callable[[float], None]:
    """A controller for MuJoCo: it sets the rest positions of springs to our set-points."""
    names = [model.joint(i).name for i in range(model.njnt)]  # type: ignore[attr-defined]

    def set_rest(time: float) -> None:
        for name, value in steer(time).items():
            matches = [
                n
                for n in (name, name.replace(".", "_"), f"{name.partition('.')[0]}.{name.partition('.')[2]}")
                if n in names
            ]
            if matches:
                model.qpos_spring[model.joint(matches[0]).qposadr[0]] = value  # type: ignore[attr-defined]

    return set_rest


PUSHES = {"hand": 0.4, "peg_in_hole": 20.0, "trampoline": 30.0, "suspension": 400.0, "hexapod": 10.0}
"""Random forces on each scene, N."""


def random_forces(report: Report, steps: int) -> None:
    """Random forces on every scene: overlap at rest, energy compared with work, and whether all states stayed
    finite."""
    for name, force in PUSHES.items():
        scene = getattr(supple.scenes, name)()
        scene.run(1.5)
        start = perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", supple.RangeWarning)
            stats = scene.push_around(steps, force, progress=progress_line(name))
        finite = bool(np.isfinite(scene.robot.poses.array).all() and np.isfinite(stats.highest))
        report.row(scene=name, steps=steps, minutes=(perf_counter() - start) / 60, deepest_mm=1e3 * stats.deepest,
                   at_rest_mm=1e3 * stats.resting, residual=stats.residual, energy=stats.energy, highest=stats.highest,
                   work=stats.work, finite=finite)  # fmt: skip
        report.target(f"{name}: overlap at rest, mm", 1e3 * stats.resting, at_most=1.0)
        gained = (stats.highest - stats.energy) / (stats.work + 0.25 * abs(stats.energy) + 5 * force)
        report.target(f"{name}: energy gained / (work + a quarter of the energy + 5 m * force)", gained, at_most=1.0)
        report.target(f"{name}: 1 if a state is not finite", float(not finite), at_most=0.0)


def progress_line(name: str) -> Callable[[float], None]:
    """A progress function that prints every tenth."""
    done = [0]

    def show(fraction: float) -> None:
        if fraction >= (done[0] + 1) / 10:
            done[0] += 1
            print(f"{name}: {10 * done[0]} %", file=sys.stderr, flush=True)

    return show


class StockRobot:
    """A robot on the floor of its scene, in supple and in MuJoCo."""

    def __init__(self, path: Path, limp: bool) -> None:
        import mujoco

        self.model = mujoco.MjModel.from_xml_path(str(path))
        self.model.opt.timestep = ROBOT_DT
        self.model.dof_frictionloss[:] = 0
        if limp:
            self.model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_ACTUATION
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", supple.ImportWarning)
            mech = supple.load(path, keyframe="home")
        sim = supple.Simulation(mech, ROBOT_DT)
        self.world = supple.World(dt=ROBOT_DT)
        self.world.add(sim, "robot", self_contact=True)
        control = self.model.key("home").ctrl
        for actuator in mech.actuators:
            sim.set_control(actuator.name, None if limp else float(control[self.model.actuator(actuator.name).id]))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # that feet begin below the floor
            self.world.step()  # which checks for overlaps
        self.start = self.world.save()

    def peer(self, cone: int) -> Callable[[], None]:
        """A step of MuJoCo from the same start."""
        import mujoco

        model, data = copy(self.model), mujoco.MjData(self.model)
        model.opt.cone = cone
        mujoco.mj_resetDataKeyframe(model, data, model.key("home").id)
        mujoco.mj_step(model, data)
        return lambda: mujoco.mj_step(model, data)


def time_robots(report: Report, steps: int, repeat: int) -> None:
    """Time of every single step; the best of several runs of the same motion."""
    for name, file in ROBOTS.items():
        for limp in (False, True):
            robot = StockRobot(SHARED / file, limp)
            took = np.full((3, steps), np.inf)
            residual = 0.0
            for _ in range(repeat):
                robot.world.restore(robot.start)
                runs = [robot.world.step, robot.peer(0), robot.peer(1)]
                for k in range(steps):
                    for i, run in enumerate(runs):
                        start = process_time()
                        run()
                        took[i, k] = min(took[i, k], process_time() - start)
                    residual = max(residual, robot.world.residual)
            peer = took[1:][took[1:].mean(axis=1).argmin()]
            what = f"{name}, {'limp' if limp else 'standing'}"
            for method, each in (("full engine", took[0]), ("MuJoCo", peer)):
                us = 1e6 * each
                report.row(robot=what, method=method, us_mean=us.mean(), us_median=np.median(us),
                           us_p99=np.percentile(us, 99), us_max=us.max(),
                           residual=residual if method == "full engine" else None)  # fmt: skip
            report.target(f"{what}: longest step, ms", 1e3 * took[0].max(), at_most=2.0)
            report.target(f"{what}: full engine / MuJoCo, mean", took[0].mean() / peer.mean(), at_most=3.0)


def main() -> None:
    args = parse_args(__doc__, parts=("scenes", "robots"), steps=1_000_000)
    report = Report("contact at 1 kHz", args)
    if args.long:
        random_forces(report, args.long)
        report.finish()
        return
    if "scenes" in args.only:
        time_scenes(report, *((10, 3) if args.quick else (20, 7)))
    if "robots" in args.only and SHARED.is_dir():
        time_robots(report, *((500, 2) if args.quick else (1000, 3)))
    report.finish()


def time_scenes(report: Report, batches: int, repeat: int) -> None:
    """The six-legged robot and the hand."""
    scenes = {
        "hexapod, six feet down": (standing, hexapod_in_mujoco),
        "hexapod, walking": (supple.scenes.hexapod, hexapod_in_mujoco),
        "hand": (supple.scenes.hand, hand_in_mujoco),
    }
    for name, (make, in_mujoco) in scenes.items():
        fast, full = (time_supple(make(level), batches, repeat) for level in ("reduced", "full"))
        cones = [time_mujoco(*in_mujoco(make(), cone), batches, repeat) for cone in (0, 1)]
        peer = min(cones, key=lambda result: result.mean)
        for method, result in (("reduced", fast), ("full engine", full), ("MuJoCo", peer)):
            report.row(scene=name, method=method, us_mean=result.mean, us_median=result.median, us_p99=result.p99,
                       contacts=result.contacts)  # fmt: skip
        report.target(f"{name}: MuJoCo / reduced, mean", peer.mean / fast.mean, at_least=3.0)
        report.target(f"{name}: full engine / MuJoCo, mean", full.mean / peer.mean, at_most=1.0)
        report.target(f"{name}: share of real time at 1 kHz, mean", 1e-3 * fast.mean, at_most=0.5)


if __name__ == "__main__":
    main()
