"""A control loop in Python beside MuJoCo's: control, one time step, q, qd and the pose of a body.

Ours: `sim.set_control(u)`, `sim.step(1)`, `sim.q`, `sim.qd`, `sim.poses[name]`. MuJoCo's: `d.ctrl[:] = u`,
`mj_step(m, d)`, `d.qpos.copy()`, `d.qvel.copy()`, `d.body(name).xpos`. Where a robot has no actuators that both read,
torques take their place: `sim.set_torque(u)` and `d.qfrc_applied[:] = u`.

Neither has contact, dry friction or sensors (`_robots.py`). Every 20 ms both get the same new random controls within
range; both return to the start once a second. They take turns every 20 ms; times are processor times of an iteration,
the mean over 20 ms: medians and 99th percentiles of these. `SUPPLE_CORE` selects the instruction set of ours.

The second table has single calls of a mechanism with 50 coordinates (the reduced models: 50 hinges). Reading follows a
time step, which is not counted.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from itertools import cycle
from time import perf_counter, process_time
from typing import Any

import mujoco
import numpy as np

import supple
from _report import Report, best, parse_args
from _robots import PERIOD, Inputs, files, in_mujoco, like_ours, written
from supple.mechanism import Mechanism

RETURN = 1.0
"""Seconds until a simulation returns to its start."""
TORQUE = 1e-3
"""Largest torque or force where there are no actuators, over weight times radius (without gravity, 9.81 m/s^2)."""
MOST_RATIO = 3.0
MOST_MICROSECONDS = 3.0
DT = 2e-3


def measured_loop(name: str, mech: Mechanism, model: mujoco.MjModel, seconds: float) -> dict[str, Any]:
    """Medians and 99th percentiles of the times of both loops."""
    data = mujoco.MjData(like_ours(model, DT))
    sim = supple.Simulation(mech, DT)
    steps, body = round(PERIOD / DT), mech.bodies[-1].name
    actuators = [actuator.name for actuator in mech.actuators]
    driven = bool(actuators) and actuators == [model.actuator(i).name for i in range(model.nu)]
    set_ours, theirs = (sim.set_control, data.ctrl) if driven else (sim.set_torque, data.qfrc_applied)
    inputs = Inputs(mech, model).draw(0)
    torque, rng = TORQUE * 9.81 * mech.mass * mech.radius, np.random.default_rng(0)

    def drawn() -> np.ndarray:
        if driven:
            controls = next(inputs).controls
            return np.array([controls.get(name, 0.0) for name in actuators])
        return torque * rng.uniform(-1, 1, mech.dof)

    def our_period(u: np.ndarray) -> None:
        for _ in range(steps):
            set_ours(u)
            sim.step(1)
            sim.q, sim.qd, sim.poses[body]

    def mujoco_period(u: np.ndarray) -> None:
        for _ in range(steps):
            theirs[:] = u
            mujoco.mj_step(model, data)
            data.qpos.copy(), data.qvel.copy(), data.body(body).xpos

    times: list[tuple[float, float]] = []
    failures = 0
    for period in range(round(seconds / PERIOD)):
        if period % round(RETURN / PERIOD) == 0:
            sim.reset()
            mujoco.mj_resetData(model, data)
        u = drawn()
        try:
            ours = _seconds(our_period, u)
        except supple.ConvergenceError:
            failures += 1
            sim.reset()
            continue
        times.append((ours / steps, _seconds(mujoco_period, u) / steps))
    ours, peer = np.array(times[5:]).T  # the first ones fill caches
    return {
        "robot": name,
        "dof": mech.dof,
        "bodies": len(mech.bodies),
        "inputs": f"{len(actuators)} controls" if driven else "torques",
        "ours_us": 1e6 * float(np.median(ours)),
        "mujoco_us": 1e6 * float(np.median(peer)),
        "ratio": float(np.median(ours) / np.median(peer)),
        "ours_p99_us": 1e6 * float(np.quantile(ours, 0.99)),
        "mujoco_p99_us": 1e6 * float(np.quantile(peer, 0.99)),
        "failed_periods": failures,
    }


def _seconds(run: Callable[[np.ndarray], object], u: np.ndarray) -> float:
    start = process_time()
    run(u)
    return process_time() - start


def arm(joints: int, floating: bool) -> Mechanism:
    """Rods with sprung hinges about alternating axes and an actuator on each; the first rod floats or is hinged to the
    world. The actuators are part of the springs."""
    b = supple.Builder("arm")
    for i in range(joints + floating):
        b.link(f"link{i}", (0.05 * i, 0, 0), (0.05 * (i + 1), 0, 0), mass=0.1, radius=0.01)
        if i == 0 and floating:
            b.free("base", "world", "link0")
            continue
        before = f"link{i - 1}" if i else "world"
        b.hinge(f"hinge{i}", before, f"link{i}", (0.05 * i, 0, 0), "xyz"[i % 3], stiffness=20, damping=0.2)
        law = {"gain": (20, 0, 0), "bias": (0, -20, 0), "control_range": (-1, 1), "in_spring": True}
        b.actuator(f"drive{i}", f"hinge{i}", **law)
    return b.build()


def after_steps(sim: supple.Simulation, read: Callable[[], object], count: int) -> float:
    """Median of the seconds of a call right after a time step."""
    times = []
    for _ in range(count):
        sim.step(1)
        start = perf_counter()
        read()
        times.append(perf_counter() - start)
    return float(np.median(times))


def calls(report: Report, quick: bool) -> None:
    """Microseconds of single calls."""
    repeat, inner = (5, 200) if quick else (15, 1000)
    mech = arm(44, floating=True)
    sim, tip = supple.Simulation(mech, DT), mech.bodies[-1].name
    rng = np.random.default_rng(0)
    controls, torques = (cycle(list(rng.uniform(-0.01, 0.01, (8, n)))) for n in (44, mech.dof))
    targets, wrenches = (cycle(list(rng.uniform(-0.01, 0.01, (8, n)))) for n in (mech.dof, 6))
    setting = {
        "set_control": lambda: sim.set_control(next(controls)),
        "set_torque": lambda: sim.set_torque(next(torques)),
        "set_target": lambda: sim.set_target(next(targets)),
        "apply": lambda: sim.apply(tip, next(wrenches)),
    }
    reading = {
        "q": lambda: sim.q,
        "qd": lambda: sim.qd,
        "poses[name]": lambda: sim.poses[tip],
        "velocities[name]": lambda: sim.velocities[tip],
    }
    took = {name: best(run, repeat, inner, process_time) for name, run in setting.items()}

    for name, read in reading.items():
        took[name] = after_steps(sim, read, inner) - after_steps(sim, lambda: None, inner)

    fixed = arm(50, floating=False)
    tips = [fixed.bodies[-1].name]
    model = supple.reduce(fixed, tips)
    bent = supple.equilibrium(fixed, {tips[0]: [0, 0, 0.5, 0, 0, 0]})
    both = {"linear": model, "blended": supple.blend([model, supple.reduce(fixed, tips, at=bent)])}
    own = cycle(list(rng.uniform(-0.01, 0.01, (8, 50))))
    for kind, each in both.items():
        reduced = supple.ReducedSimulation(each, DT)
        took[f"set_target, {kind} model"] = best(
            lambda s=reduced: s.set_target(next(own)), repeat, inner // 10, process_time
        )
    for name, seconds in took.items():
        report.row(call=name, us=1e6 * seconds)
    for name, seconds in took.items():
        report.target(f"{name}, us for 50 coordinates", 1e6 * seconds, at_most=MOST_MICROSECONDS)


def main() -> None:
    args = parse_args(__doc__, parts=("loops", "calls"))
    report = Report(f"loops in Python, instruction set {os.environ.get('SUPPLE_CORE', 'of this machine')}", args)
    mujoco.set_mju_user_warning(lambda text: print(f"MuJoCo: {text}"))  # it starts again where it is unstable
    warnings.simplefilter("ignore")  # what files have that an import leaves out, and where robots start
    if "loops" in args.only:
        seconds = 1.0 if args.quick else 10.0
        for name, path in files().items():
            try:
                mech = supple.load(path)
            except supple.MechanismError as error:
                print(f"{name} is left out, because its file is refused: {error}")
                continue
            report.row(**measured_loop(name, mech, in_mujoco(path), seconds))
        for name in ("robot_arm", "y", "ladder"):
            mech = getattr(supple.library, name)()
            report.row(**measured_loop(f"{name} of the library", mech, written(mech), seconds))
        for row in report.rows:
            report.target(f"loop / MuJoCo's, {row['robot']}", row["ratio"], at_most=MOST_RATIO)
    if "calls" in args.only:
        calls(report, args.quick)
    report.finish()


if __name__ == "__main__":
    main()
