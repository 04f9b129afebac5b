"""A control loop in Python beside MuJoCo's: control, one time step, q, qd and the pose of a body.

Ours: `sim.set_control(u)`, `sim.step(1)`, `sim.q`, `sim.qd`, `sim.poses[name]`. MuJoCo's: `d.ctrl[:] = u`,
`mj_step(m, d)`, `d.qpos.copy()`, `d.qvel.copy()`, `d.body(name).xpos`. Where a robot has no actuators that both read,
torques take their place: `sim.set_torque(u)` and `d.qfrc_applied[:] = u`.

Neither has contact, dry friction or sensors (`_robots.py`). Every 20 ms both get the same new random controls within
range; both return to the start once a second. They take turns every 20 ms; times are processor times of an iteration,
the mean over 20 ms: medians and 99th percentiles of these. `SUPPLE_CORE` selects the instruction set of ours.

The second table has single calls of a mechanism with 50 coordinates (the reduced models: 50 hinges). Reading follows a
time step, which is not counted.

`world`: the same loop with a Barkour that stands on a floor in a `World`, with the contacts read as well, beside MuJoCo
with contact (`d.contact.pos.copy()` and the force of each contact). The robot's own shapes do not touch each other.

`kinematics`: poses, a Jacobian, the mass matrix and inverse kinematics of an arm as functions of the coordinates,
beside MuJoCo, and Pinocchio where that is installed. The largest difference of their results is printed.
"""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import replace
from itertools import cycle
from pathlib import Path
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
MOST_RATIO = 0.9
"""Of our loop's time to MuJoCo's, from `LARGE` coordinates on; below, ours may take `MORE` us more."""
LARGE, MORE = 12, 2.0
MOST_MICROSECONDS, MOST_OF_REDUCED = 1.5, 2.0
MOST_OF_KINEMATICS, MOST_OF_INVERSE = 10.0, 100.0
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


def after_steps(sim: supple.Simulation | supple.World, read: Callable[[], object], count: int) -> float:
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
    last = mech.coordinates[-1]
    setting |= {
        "set_control by name": lambda: sim.set_control("drive7", 0.01),
        "set_torque by name": lambda: sim.set_torque(last, 0.01),
        "set_target by name": lambda: sim.set_target(last, 0.01),
        "set_target of two by name": lambda: sim.set_target({last: 0.01, "hinge7": 0.02}),
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
        took[f"set_target by name, {kind} model"] = best(
            lambda s=reduced: s.set_target("hinge7", 0.01), repeat, inner // 10, process_time
        )
    for name, seconds in took.items():
        report.row(call=name, us=1e6 * seconds)
    for name, seconds in took.items():
        most = MOST_OF_REDUCED if name.endswith("model") else MOST_MICROSECONDS
        report.target(f"{name}, us for 50 coordinates", 1e6 * seconds, at_most=most)


def world(report: Report, quick: bool) -> None:
    """A robot that stands on a floor: the loop beside MuJoCo's, and single calls."""
    path = files().get("Barkour")
    if path is None:
        return
    mech, stand = supple.load(path), np.tile([0.0, 0.5, 1.0], 4)  # of the legs: abduction, hip, knee
    sim, world = supple.Simulation(mech, DT, q=[0, 0, 0.28, 0, 0, 0, *stand]), supple.World()
    name = world.add(sim, "robot")
    world.ground(supple.mechanism.Shape("plane", (0, 0, 0.1), np.eye(4)))
    spec = mujoco.MjSpec.from_file(str(path))
    for geom in spec.geoms:
        geom.conaffinity = 0
    spec.worldbody.add_geom(
        name="floor", type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0, 0, 0.1], contype=0, conaffinity=1
    )
    model = like_ours(spec.compile(), DT)
    model.dof_frictionloss[:] = 0
    model.opt.disableflags ^= mujoco.mjtDisableBit.mjDSBL_CONTACT
    data = mujoco.MjData(model)
    data.qpos[:] = [0, 0, 0.28, 1, 0, 0, 0, *stand]
    rng, tip = np.random.default_rng(0), mech.bodies[-1].name
    steps, own = round(PERIOD / DT), f"{name}:{tip}"
    names = [f"{name}:{actuator.name}" for actuator in mech.actuators]
    force = np.zeros(6)

    def our_period(u: np.ndarray) -> None:
        values = dict(zip(names, u.tolist(), strict=True))
        for _ in range(steps):
            world.set_control(values)
            world.step(1)
            world.q, world.qd, world.poses[own], world.contacts.forces

    def mujoco_period(u: np.ndarray) -> None:
        for _ in range(steps):
            data.ctrl[:] = u
            mujoco.mj_step(model, data)
            data.qpos.copy(), data.qvel.copy(), data.body(tip).xpos, data.contact.pos.copy()
            for k in range(data.ncon):
                mujoco.mj_contactForce(model, data, k, force)

    times = []
    for _ in range(50 if quick else 500):
        u = stand + rng.uniform(-0.05, 0.05, model.nu)
        times.append((_seconds(our_period, u) / steps, _seconds(mujoco_period, u) / steps))
    ours, peer = np.median(np.array(times[5:]), axis=0)
    print(f"at the end, contacts: {len(world.contacts)} of ours, {data.ncon} of MuJoCo; height of the trunk: "
          f"{world.poses.array[0][2, 3]:.3f} m and {data.xpos[1][2]:.3f} m")  # fmt: skip
    report.row(robot="Barkour in a World", dof=mech.dof, ours_us=1e6 * ours, mujoco_us=1e6 * peer, ratio=ours / peer)
    report.target("loop / MuJoCo's, Barkour standing in a World", ours / peer, at_most=MOST_RATIO)

    inner = 200 if quick else 1000
    reading = {
        "contacts": lambda: world.contacts,
        "force_on": lambda: world.force_on(own),
        "q": lambda: world.q,
        "qd": lambda: world.qd,
        "poses[name]": lambda: world.poses[own],
        "velocities[name]": lambda: world.velocities[own],
    }
    setting = {
        "set_control by name": lambda: world.set_control(names[0], 0.01),
        "set_torque by name": lambda: world.set_torque(f"{name}:{mech.coordinates[-1]}", 0.01),
    }
    empty = after_steps(world, lambda: None, inner)
    took = {call: after_steps(world, read, inner) - empty for call, read in reading.items()}
    took |= {call: best(run, 5, inner, process_time) for call, run in setting.items()}
    for call, seconds in took.items():
        report.row(call=f"{call}, World", us=1e6 * seconds)
        report.target(f"{call}, World, us for {mech.dof} coordinates", 1e6 * seconds, at_most=MOST_MICROSECONDS)


def kinematics(report: Report, quick: bool) -> None:
    """Functions of the coordinates of an arm with 30 hinges, and inverse kinematics of one with 7."""
    mech, rng = arm(30, floating=False), np.random.default_rng(0)
    repeat, inner = (5, 100) if quick else (15, 1000)
    points, tip = cycle(list(rng.uniform(-0.5, 0.5, (8, mech.dof)))), mech.bodies[-1].name
    model = written(mech)
    data = mujoco.MjData(model)
    body = model.body(tip).id
    linear, angular, full = (np.zeros(shape) for shape in ((3, model.nv), (3, model.nv), (model.nv, model.nv)))

    def positions(q: np.ndarray) -> None:
        data.qpos[:] = q
        mujoco.mj_kinematics(model, data)

    def mujoco_jacobian(q: np.ndarray) -> np.ndarray:
        positions(q)
        mujoco.mj_comPos(model, data)
        mujoco.mj_jacBody(model, data, linear, angular, body)
        return np.concatenate([linear, angular])

    def mujoco_mass(q: np.ndarray) -> np.ndarray:
        positions(q)
        mujoco.mj_comPos(model, data)
        mujoco.mj_crb(model, data)
        mujoco.mj_fullM(model, data, full)
        return full

    ours: dict[str, Callable[[np.ndarray], Any]] = {
        "kinematics": lambda q: supple.kinematics(mech, q),
        "jacobian": lambda q: supple.jacobian(mech, tip, q),
        "mass_matrix": lambda q: supple.mass_matrix(mech, q),
    }
    peers: dict[str, dict[str, Callable[[np.ndarray], Any]]] = {
        "MuJoCo": {"kinematics": positions, "jacobian": mujoco_jacobian, "mass_matrix": mujoco_mass}
    }
    if (pin := pinocchio_of(mech)) is not None:
        peers["Pinocchio"] = pin
    q = next(points)
    turn = supple.kinematics(mech, q).poses[tip][:3, :3]
    jacobian = np.concatenate([turn @ part for part in np.split(ours["jacobian"](q), 2)])
    mass = ours["mass_matrix"](q)
    for peer, functions in peers.items():
        apart = np.abs(functions["mass_matrix"](q) - mass).max() / np.abs(mass).max()
        different = np.abs(functions["jacobian"](q) - jacobian).max() / np.abs(jacobian).max()
        print(f"{peer}: mass matrix differs by {apart:.1e}, Jacobian by {different:.1e}")
        report.target(f"difference from {peer}, of the largest entry", max(apart, different), at_most=1e-12)
    for call, run in ours.items():
        took = 1e6 * best(lambda run=run: run(next(points)), repeat, inner, process_time)
        others = {
            f"{peer}_us": 1e6 * best(lambda run=functions[call]: run(next(points)), repeat, inner, process_time)
            for peer, functions in peers.items()
        }
        report.row(call=call, dof=mech.dof, us=took, **others)
        report.target(f"{call}, us for {mech.dof} coordinates", took, at_most=MOST_OF_KINEMATICS)
    for joints in (6, 7):
        robot = supple.library.robot_arm(joints)
        targets = [supple.kinematics(robot, each).poses["tip"] for each in rng.uniform(-0.6, 0.6, (8, joints))]
        goals = cycle([{"tip": pose} for pose in targets])
        took = 1e6 * best(
            lambda r=robot, g=goals: supple.inverse_kinematics(r, next(g)), repeat, 40, process_time
        )
        report.row(call="inverse_kinematics", dof=joints, us=took)
        report.target(f"inverse_kinematics, us for an arm of {joints} hinges", took, at_most=MOST_OF_INVERSE)
    copies: dict[str, Callable[[], Any]] = {
        "dataclasses.replace(mech)": lambda: replace(mech),
        "with_springs of one joint": lambda: mech.with_springs({mech.coordinates[3]: 5.0}),
        "with_payload": lambda: mech.with_payload(tip, 1.0),
        "placed": lambda: mech.placed(np.eye(4)),
    }
    for call, copy in copies.items():
        report.row(call=call, dof=mech.dof, us=1e6 * best(copy, repeat, 5, process_time))


def pinocchio_of(mech: Mechanism) -> dict[str, Callable[[np.ndarray], Any]] | None:
    """Pinocchio's functions of a mechanism; None where it is not installed."""
    try:
        import pinocchio as pin
    except ImportError:
        print("Pinocchio is not installed (pip install pin): it is left out")
        return None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "arm.xml"
        mech.save(path)
        robot = pin.buildModelFromMJCF(str(path))
    data, frame = robot.createData(), robot.getFrameId(mech.bodies[-1].name)

    def mass(q: np.ndarray) -> np.ndarray:
        upper = np.triu(pin.crba(robot, data, q))
        return upper + np.triu(upper, 1).T

    return {
        "kinematics": lambda q: pin.framesForwardKinematics(robot, data, q),
        "jacobian": lambda q: pin.computeFrameJacobian(robot, data, q, frame, pin.LOCAL_WORLD_ALIGNED),
        "mass_matrix": mass,
    }


def main() -> None:
    args = parse_args(__doc__, parts=("loops", "calls", "world", "kinematics"))
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
            if row["dof"] >= LARGE:
                report.target(f"loop / MuJoCo's, {row['robot']}", row["ratio"], at_most=MOST_RATIO)
            else:
                more = row["ours_us"] - row["mujoco_us"]
                report.target(f"loop less MuJoCo's, us, {row['robot']}", more, at_most=MORE)
    if "calls" in args.only:
        calls(report, args.quick)
    if "world" in args.only:
        world(report, args.quick)
    if "kinematics" in args.only:
        kinematics(report, args.quick)
    report.finish()


if __name__ == "__main__":
    main()
