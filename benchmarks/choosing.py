"""Computing time of a time step of 2 ms by every method on the same mechanism and load: when does a method pay?

Methods: a linear model without its links, with the links by twists and by joints; a blend of four linear models without
and with its links; the engine; MuJoCo (implicitfast, contacts off, the same mechanism as MJCF).
The load is the default one of `supple compare`, which keeps actuators and coordinates within their ranges. Three models
of the blend are made at thirds of it. Half of it is applied suddenly, so that every method computes the motion between
these models; the first step, in which a blend computes what depends on its load alone, is not timed. All repetitions
start at rest and take turns. A ratio to the engine above 1 means that the method does not pay. Links by joints, whose
time depends on how far corrections are needed, are also timed in motion: all loads change every 20 ms. Robots are left
out if their files do not lie beside the project.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from time import process_time

import mujoco
import numpy as np

import supple
from _report import Report, parse_args
from _robots import files, like_ours, loaded, written
from engine import DT
from supple import _core
from supple.cli.comparison import default_load
from supple.engine.starting import startable
from supple.mechanism import Mechanism
from supple.mechanism.record import Array
from supple.viewer.methods import Models

Loads = dict[str, Array]

HAND = [f"rh_{finger}distal" for finger in ("ff", "mf", "rf", "lf", "th")]
SCENES = {
    "arm, 20 links": (supple.library.robot_arm, ["tip"]),
    "helix, 100 links": (lambda: supple.library.helix(100), ["tip"]),
    "ladder, 48 links": (supple.library.ladder, ["tip"]),
    "Y": (supple.library.y, ["left_tip", "right_tip"]),
    "Allegro hand": ("Allegro hand", ["ff_tip"]),
    "Allegro hand, all tips": ("Allegro hand", ["ff_tip", "mf_tip", "rf_tip", "th_tip"]),
    "Shadow Hand": ("Shadow Hand", HAND[:1]),
    "Shadow Hand, all tips": ("Shadow Hand", HAND),
    "Robotiq gripper": ("Robotiq gripper", ["right_pad", "left_pad"]),
    "soft foot": ("soft foot", ["heel", *(f"distal_phalanx_{i}" for i in range(1, 6))]),
}
STEPS = 100
PERIODS, STEPS_OF_LOAD = 40, 10
"""Of the motion with loads that change."""


def main() -> None:
    args = parse_args(__doc__)
    report = Report(f"time of a step by every method, core for {_core.VARIANT}", args)
    ratios: dict[str, dict[str, float]] = {}
    robots = files()
    for name, (source, tips) in SCENES.items():
        if isinstance(source, str) and source not in robots:
            continue
        mech = startable_robot(robots[source]) if isinstance(source, str) else source()
        ratios[name] = step_times(report, name, mech, tips, 8 if args.quick else 40)
    for name, each in ratios.items():
        report.row(times_of_the_engine=name, **each)
    least = min(each["joints_in_motion"] for each in ratios.values())
    report.target("links by joints in motion / engine, least", least, at_most=0.7)
    single = [each for name, each in ratios.items() if len(SCENES[name][1]) == 1]
    for method in ("linear_twists", "linear_joints"):
        report.target(f"{method} / engine, largest", max(each[method] for each in ratios.values()), at_most=1)
    report.target("blend of one end effector / engine, largest", max(each["blend"] for each in single), at_most=1)
    several = max((each["blend"] for name, each in ratios.items() if len(SCENES[name][1]) > 1), default=0.0)
    report.target("blend of several end effectors / engine, largest", several, at_most=1)
    report.finish()


def startable_robot(path: Path) -> Mechanism:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # coordinates that start outside limits
        mech = startable(loaded(path))
    return mech.with_springs(1.0, 0.05) if mech.unheld else mech


def step_times(report: Report, name: str, mech: Mechanism, tips: list[str], repeat: int) -> dict[str, float]:
    """Times over that of the engine, by method."""
    models = Models(mech, tips)
    rest, linear = models.start, models.linear_model
    loads = {name: 0.5 * wrench for name, wrench in default_load(models)[0].items()}
    blend = blend_of_four(models, loads)
    methods: dict[str, Method] = {
        "linear": Reduced(linear, loads, links=False),
        "linear_twists": Reduced(linear, loads),
        "linear_joints": Reduced(linear, loads, reconstruction="joints"),
        "blend": Reduced(blend, loads, links=False),
        "blend_links": Reduced(blend, loads),
        "engine": Engine(mech, rest, loads),
        "mujoco": MuJoCo(mech, loads),
    }
    best = dict.fromkeys(methods, float("inf"))
    for _ in range(repeat):
        for key, method in methods.items():
            method.reset()
            method.step(1)
            start = process_time()
            method.step(STEPS)
            best[key] = min(best[key], 1e6 * (process_time() - start) / STEPS)
    moving = in_motion({key: methods[key] for key in ("linear_joints", "engine")}, loads, repeat)
    report.row(us=name, end_effectors=len(tips), models=len(blend.models), **best)
    report.row(us_in_motion=name, **moving)
    ratios = {key: value / best["engine"] for key, value in best.items()}
    return ratios | {"joints_in_motion": moving["linear_joints"] / moving["engine"]}


def in_motion(methods: dict[str, Reduced | Engine], loads: Loads, repeat: int) -> dict[str, float]:
    """us per step while the loads change at random up to `loads`; the least of each period counts."""
    least = {key: np.full(PERIODS, np.inf) for key in methods}
    for _ in range(repeat):
        for key, method in methods.items():
            method.reset()
            rng = np.random.default_rng(0)
            for period in range(PERIODS):
                for name, wrench in loads.items():
                    method.sim.apply(name, rng.uniform(-1, 1) * wrench)
                start = process_time()
                method.step(STEPS_OF_LOAD)
                least[key][period] = min(least[key][period], process_time() - start)
    return {key: 1e6 * float(each.mean()) / STEPS_OF_LOAD for key, each in least.items()}


def blend_of_four(models: Models, half: Loads) -> object:
    """Linear models without load, and at thirds of twice a load."""
    linear, at = [models.linear_model], models.start
    for factor in (2 / 3, 4 / 3, 2):
        at = supple.equilibrium(models.mechanism, {name: factor * wrench for name, wrench in half.items()}, start=at)
        linear.append(supple.reduce(models.mechanism, models.end_effectors, at=at))
    return supple.blend(linear)


class Reduced:
    def __init__(self, model: object, loads: Loads, links: bool = True, **options: object) -> None:
        self.sim, self.loads, self.links = supple.ReducedSimulation(model, DT, **options), loads, links

    def reset(self) -> None:
        self.sim.reset()
        for name, wrench in self.loads.items():
            self.sim.apply(name, wrench)

    def step(self, n: int) -> None:
        assert self.sim._motion.core.step(n, self.links) == n


class Engine:
    def __init__(self, mech: Mechanism, rest: supple.engine.Equilibrium, loads: Loads) -> None:
        self.sim, self.loads = supple.Simulation(mech, DT, at=rest), loads

    def reset(self) -> None:
        self.sim.reset()
        for name, wrench in self.loads.items():
            self.sim.apply(name, wrench)

    def step(self, n: int) -> None:
        self.sim.step(n)


class MuJoCo:
    def __init__(self, mech: Mechanism, loads: Loads) -> None:
        self.model = like_ours(written(mech), DT)
        self.data = mujoco.MjData(self.model)
        self.loads = {self.model.body(mech.bodies[mech.frame(n)[0]].name).id: w for n, w in loads.items()}

    def reset(self) -> None:
        mujoco.mj_resetData(self.model, self.data)
        for body, wrench in self.loads.items():
            self.data.xfrc_applied[body] = wrench

    def step(self, n: int) -> None:
        mujoco.mj_step(self.model, self.data, nstep=n)


Method = Reduced | Engine | MuJoCo


if __name__ == "__main__":
    main()
