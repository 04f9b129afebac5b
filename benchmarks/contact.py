"""Contact compared with MuJoCo: the same scenes with the same time step of 1 ms. A six-legged robot has 6 feet on a
height field; a hand holds a block with 5 fingertips. One core. Only stepping is timed, not the controller; all methods
run the same seconds of motion several times.

MuJoCo steps the full mechanism with its defaults (Newton's method; the faster of its two cones counts) and the
integrator `implicitfast`. supple steps the reduced model, and the full engine for comparison.
"""

from __future__ import annotations

import sys
import tempfile
import warnings
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import numpy as np

import supple
from _report import Report, parse_args
from supple.world.objects import moments
from supple.world.scenes import Scene
from supple.world.scenes.hand import BLOCK, robot

WARM, BATCH, EVERY = 700, 100, 10
"""Steps before timing starts, steps that are timed together, steps between two calls of the controller."""


@dataclass(frozen=True)
class Timed:
    """Seconds per step over one motion that was repeated several times from the same state."""

    mean: float
    best: float
    """The best time of each part of the motion, averaged over the motion."""
    contacts: float
    """Mean number of contact points, those that are close without touching included."""


def timed(batches: int, repeat: int, back: Callable[[], None], steer: Callable[[], None], step: Callable[[], None],
          contacts: Callable[[], int]) -> Timed:  # fmt: skip
    took, touching = np.zeros((repeat, batches)), []
    for r in range(repeat):
        back()
        for k in range(batches):
            for _ in range(BATCH // EVERY):
                steer()
                start = perf_counter()
                step()
                took[r, k] += (perf_counter() - start) / BATCH
            touching.append(contacts())
    return Timed(float(took.mean()), float(took.min(axis=0).mean()), float(np.mean(touching)))


def ours(scene: Scene, batches: int, repeat: int) -> Timed:
    """Times a scene of ours."""
    scene.run(WARM * scene.world.dt)
    kept = scene.world.save()
    return timed(
        batches,
        repeat,
        lambda: scene.world.restore(kept),
        lambda: scene.robot.set_targets(scene.steer(scene.world.time)),
        lambda: scene.world.step(EVERY),
        lambda: len(scene.world.contacts),
    )


def theirs(model: object, data: object, steer: Callable[[float], None], batches: int, repeat: int) -> Timed:
    """Times the same scene in MuJoCo."""
    import mujoco

    for _ in range(WARM // EVERY):
        steer(data.time)  # type: ignore[attr-defined]
        mujoco.mj_step(model, data, EVERY)
    kept = copy(data)
    return timed(
        batches,
        repeat,
        lambda: mujoco.mj_copyData(data, model, kept),
        lambda: steer(data.time),  # type: ignore[attr-defined]
        lambda: mujoco.mj_step(model, data, EVERY),
        lambda: data.ncon,  # type: ignore[attr-defined]
    )


def compiled(mech: supple.Mechanism, add: Callable[[object], None], cone: int) -> object:
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
    """A controller for MuJoCo: it sets the rest positions of springs to our set-points."""
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
"""Random forces on each scene, N."""


def pushing(report: Report, steps: int) -> None:
    """Random forces on every scene: overlap at rest, energy compared with work, and whether all states stayed
    finite."""
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
    """A progress function that prints every tenth."""
    done = [0]

    def show(fraction: float) -> None:
        if fraction >= (done[0] + 1) / 10:
            done[0] += 1
            print(f"{name}: {10 * done[0]} %", file=sys.stderr, flush=True)

    return show


def main() -> None:
    args = parse_args(__doc__, steps=1_000_000)
    report = Report("contact at 1 kHz", args)
    if args.long:
        pushing(report, args.long)
        report.finish()
        return
    batches, repeat = (10, 3) if args.quick else (20, 7)
    scenes = {
        "hexapod, six feet down": (standing, hexapod_in_mujoco),
        "hexapod, walking": (supple.scenes.hexapod, hexapod_in_mujoco),
        "hand": (supple.scenes.hand, hand_in_mujoco),
    }
    for name, (make, in_mujoco) in scenes.items():
        fast, full = ours(make(), batches, repeat), ours(make("full"), batches, 1)
        peer = min((theirs(*in_mujoco(make(), cone), batches, repeat) for cone in (0, 1)), key=lambda found: found.best)
        for what, found in (("reduced", fast), ("full engine", full), ("MuJoCo", peer)):
            report.row(scene=name, method=what, us_mean=1e6 * found.mean, us_best=1e6 * found.best,
                       share_of_real_time=1e3 * found.mean, contacts=found.contacts)  # fmt: skip
        report.target(f"{name}: MuJoCo / reduced", peer.best / fast.best, at_least=3.0)
        report.target(f"{name}: share of real time at 1 kHz, mean", 1e3 * fast.mean, at_most=0.5)
    report.finish()


if __name__ == "__main__":
    main()
