"""Contact, beside MuJoCo on the same scenes at the same step of 1 ms: a six-legged robot with 6 feet on a height field,
a hand with 5 fingertips on a block. One core; what is timed is stepping alone, set-points are given in between.

MuJoCo steps the full mechanism with its defaults (Newton's method; both cones, the faster one counts) and
`implicitfast`, which its file asks for; supple steps the reduced model, and for comparison the full engine.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import numpy as np

import supple
from _report import Report, parse_args
from supple.world.objects import moments
from supple.world.scenes import Scene
from supple.world.scenes.hand import BLOCK, robot

WARM, BATCH = 700, 100


def ours(scene: Scene, batches: int) -> tuple[float, float]:
    """Seconds a step while the scene goes on: the mean over the motion, and the best batch."""
    steps = 0.0
    scene.run(WARM * scene.world.dt)
    best = np.inf
    for _ in range(batches):
        took = 0.0
        for _ in range(BATCH // scene.every):
            scene.robot.set_targets(scene.steer(scene.world.time))
            start = perf_counter()
            scene.world.step(scene.every)
            took += perf_counter() - start
        steps += took / BATCH
        best = min(best, took / BATCH)
    return steps / batches, best


def theirs(model: object, data: object, steer: Callable[[float], None], batches: int) -> tuple[float, float]:
    """The same of MuJoCo."""
    import mujoco

    def go(count: int) -> float:
        took = 0.0
        for _ in range(count // 10):
            steer(data.time)  # type: ignore[attr-defined]
            start = perf_counter()
            mujoco.mj_step(model, data, 10)
            took += perf_counter() - start
        return took / count

    go(WARM)
    times = [go(BATCH) for _ in range(batches)]
    return float(np.mean(times)), min(times)


def compiled(mech: supple.Mechanism, add: Callable[[object], None], cone: int) -> object:
    """A mechanism in MuJoCo, with what `add` puts into its world."""
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

    model = compiled(scene.mechanism, add, cone)
    return model, mujoco.MjData(model), springs(model, scene.steer)


def hand_in_mujoco(scene: Scene, cone: int) -> tuple[object, object, Callable[[float], None]]:
    import mujoco

    def add(spec: mujoco.MjSpec) -> None:
        spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=[1, 1, 1], friction=[0.5, 0, 0])
        block = spec.worldbody.add_body(name="block", pos=[0, 0, BLOCK[2]])
        block.add_freejoint()
        block.add_geom(type=mujoco.mjtGeom.mjGEOM_BOX, size=BLOCK, friction=[0.8, 0, 0])
        block.mass, block.explicitinertial = 0.2, True
        block.fullinertia = [*np.diag(0.2 * moments("box", np.array(BLOCK))), 0, 0, 0]

    model = compiled(robot(carried=True), add, cone)
    data = mujoco.MjData(model)
    data.body("block").xfrc_applied[:3] = [0, 0, -9.81 * 0.2]  # only the block has weight
    return model, data, springs(model, supple.scenes.hand("full").steer)


def springs(model: object, steer: Callable[[float], dict[str, float]]) -> Callable[[float], None]:
    """Set-points as positions at which MuJoCo's springs rest."""
    names = [model.joint(i).name for i in range(model.njnt)]  # type: ignore[attr-defined]

    def set_rest(time: float) -> None:
        for name, value in steer(time).items():
            found = [
                n
                for n in (name, name.replace(".", "_"), f"{name.partition('.')[0]}.{name.partition('.')[2]}")
                if n in names
            ]
            if found:
                model.qpos_spring[model.joint(found[0]).qposadr[0]] = value  # type: ignore[attr-defined]

    return set_rest


PUSHES = {"hand": 0.4, "peg_in_hole": 20.0, "trampoline": 30.0, "suspension": 400.0, "hexapod": 10.0}
"""N, in random directions."""


def pushing(report: Report, steps: int) -> None:
    """Random pushes on every scene: overlap at rest, energy against the work done, and whether all stayed finite."""
    for name, force in PUSHES.items():
        scene = getattr(supple.scenes, name)()
        scene.run(1.5)
        start = perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", supple.RangeWarning)
            found = scene.push_around(steps, force, progress=progress_line(name))
        finite = bool(np.isfinite(scene.robot.poses.array).all() and np.isfinite(found.highest))
        report.row(scene=name, steps=steps, minutes=(perf_counter() - start) / 60, deepest_mm=1e3 * found.deepest,
                   at_rest_mm=1e3 * found.resting, residual=found.residual, energy=found.energy, highest=found.highest,
                   work=found.work, finite=finite)  # fmt: skip
        report.target(f"{name}: overlap at rest, mm", 1e3 * found.resting, at_most=1.0)
        gained = (found.highest - found.energy) / (found.work + 0.25 * abs(found.energy) + 5 * force)
        report.target(f"{name}: energy gained / (work + a quarter of the energy + 5 m of pushing)", gained, at_most=1.0)
        report.target(f"{name}: not finite", float(not finite), at_most=0.0)


def progress_line(name: str) -> Callable[[float], None]:
    """Prints each tenth done."""
    done = [0]

    def show(fraction: float) -> None:
        if fraction >= (done[0] + 1) / 10:
            done[0] += 1
            print(f"{name}: {10 * done[0]} %", file=sys.stderr, flush=True)

    return show


def main() -> None:
    args = parse_args(__doc__, long="instead: push every scene around for that many steps (1000000 were asked for)")
    report = Report("contact at 1 kHz", args)
    if args.long:
        pushing(report, args.long)
        report.finish()
        return
    batches = 10 if args.quick else 40
    scenes = {
        "hexapod, six feet down": (standing, hexapod_in_mujoco),
        "hexapod, walking": (supple.scenes.hexapod, hexapod_in_mujoco),
        "hand": (supple.scenes.hand, hand_in_mujoco),
    }
    for name, (make, in_mujoco) in scenes.items():
        scene = make()
        mean, best = ours(scene, batches)
        contacts = len(scene.world.contacts)
        full_mean, full_best = ours(make("full"), max(2, batches // 5))
        peers = [theirs(*in_mujoco(make(), cone), batches) for cone in (0, 1)]
        peer_mean, peer_best = (min(p[i] for p in peers) for i in range(2))
        for what, a, b in (
            ("reduced", mean, best),
            ("full engine", full_mean, full_best),
            ("MuJoCo", peer_mean, peer_best),
        ):
            report.row(scene=name, method=what, us_mean=1e6 * a, us_best=1e6 * b, share_of_real_time=a / scene.world.dt,
                       contacts=contacts if what != "MuJoCo" else "")  # fmt: skip
        report.target(f"{name}: MuJoCo / reduced", peer_best / best, at_least=3.0)
        report.target(f"{name}: share of real time at 1 kHz, mean", mean / scene.world.dt, at_most=0.5)
    report.finish()


if __name__ == "__main__":
    main()
