"""Inverse dynamics of chains beside Pinocchio's rnea, and a gripper that holds a can (a mesh) beside MuJoCo.

The gripper is the Robotiq 2F-85 of MuJoCo Menagerie, in `shared/robots` beside the project. Without it this part is
left out.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path

import mujoco
import numpy as np

import supple
from _report import Report, best, parse_args
from supple import _core, spatial
from supple.engine.assembly import equations
from supple.mechanism import Body, Mechanism, Mesh, Shape

try:
    import pinocchio
except ImportError:
    pinocchio = None

JOINTS = (6, 20, 40)
MOST_MICROSECONDS = 3.0
CALLS = 20_000
GRIPPER = Path(__file__).parents[2] / "shared/robots/robotiq_2f85/2f85.xml"


def chain(joints: int) -> Mechanism:
    """Rods with hinges about alternating axes."""
    b = supple.Builder("chain")
    for i in range(joints):
        b.link(f"link{i}", (0.1 * i, 0, 0), (0.1 * (i + 1), 0, 0), mass=0.5, radius=0.02)
        b.hinge(f"hinge{i}", f"link{i - 1}" if i else "world", f"link{i}", (0.1 * i, 0, 0), "xyz"[i % 3])
    return b.build()


def pinocchio_twin(mech: Mechanism) -> pinocchio.Model:
    """The same chain in Pinocchio, in the order of the bodies."""
    kinds = {"x": pinocchio.JointModelRX, "y": pinocchio.JointModelRY, "z": pinocchio.JointModelRZ}
    model = pinocchio.Model()
    model.gravity.linear = mech.gravity
    before = np.eye(4)
    for i, (joint, body) in enumerate(zip(mech.joints, mech.bodies, strict=True)):
        frame = body.pose @ joint.pose_child  # in world axes
        place = spatial.inverse(before) @ frame
        at = model.addJoint(i, kinds["xyz"[i % 3]](), pinocchio.SE3(place[:3, :3], place[:3, 3]), joint.name)
        in_joint = spatial.inverse(joint.pose_child)
        inertia = pinocchio.Inertia(body.mass, body.centre, body.inertia)
        model.appendBodyToJoint(at, inertia, pinocchio.SE3(in_joint[:3, :3], in_joint[:3, 3]))
        before = frame
    return model


def pinocchio_seconds(model: pinocchio.Model, q: np.ndarray, qd: np.ndarray, qdd: np.ndarray, calls: int) -> float:
    """Seconds of a call from Python, which adds about a microsecond to Pinocchio's own time."""
    data = model.createData()
    return best(lambda: pinocchio.rnea(model, data, q, qd, qdd), 5, calls // 10)


def can() -> tuple[Body, Mesh]:
    """A prism of 24 sides."""
    angle = 2 * np.pi * np.arange(24) / 24
    ring = np.stack([0.02 * np.cos(angle), 0.02 * np.sin(angle), np.zeros(24)], axis=1)
    mesh = Mesh("can", np.concatenate([ring - [0, 0, 0.03], ring + [0, 0, 0.03]]), np.array([[0, 1, 2]]))
    shape = Shape("mesh", (), np.eye(4), mesh="can", friction=(0.5, 0, 0))
    return Body("can", spatial.translation([0, 0, 0.15]), 0.2, (0, 0, 0), np.diag([1e-4] * 3), (shape,)), mesh


def squeeze(report: Report, quick: bool) -> None:
    """Seconds of a time step of the closed gripper, and the force on the can."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mech = replace(supple.load(GRIPPER), gravity=(0, 0, 0))
    body, mesh = can()
    steps = 200 if quick else 1000
    times = {}
    for name in ("engine", "condensed"):
        sim = supple.Simulation(mech, 1e-3)
        if name == "condensed":
            sim = supple.ReducedSimulation(supple.condense(mech, ["right_pad", "left_pad"]), 1e-3)
        world = supple.World(gravity=(0, 0, 0))
        world.add(sim)
        world.add(body, meshes=[mesh])
        sim.set_control("fingers_actuator", 255)
        world.step(1000)
        times[name] = best(lambda w=world: w.step(steps), 5) / steps
        held = sum(abs(c.force[0]) for c in world.contacts if "right_pad" in c.first + c.second)
        report.row(gripping=name, ms=1e3 * times[name], newtons=held)
    times["mujoco"], held = mujoco_squeeze(mesh, steps)
    report.row(gripping="MuJoCo", ms=1e3 * times["mujoco"], newtons=held)
    report.target("gripping a mesh, engine, ms a step", 1e3 * times["engine"], at_most=0.1)
    report.target("gripping a mesh, condensed, ms a step", 1e3 * times["condensed"], at_most=0.05)


def mujoco_squeeze(mesh: Mesh, steps: int) -> tuple[float, float]:
    """The same in MuJoCo: seconds of a step, and the force on the right pad."""
    spec = mujoco.MjSpec.from_file(str(GRIPPER))
    spec.option.gravity, spec.option.timestep = [0, 0, 0], 1e-3
    spec.add_mesh(name="can", uservert=mesh.vertices.ravel())
    held = spec.worldbody.add_body(name="can", pos=[0, 0, 0.15])
    held.add_freejoint()
    held.add_geom(type=mujoco.mjtGeom.mjGEOM_MESH, meshname="can", mass=0.2, friction=[0.5, 0.005, 1e-4], priority=1)
    model = spec.compile()
    data = mujoco.MjData(model)
    data.ctrl[0] = 255
    mujoco.mj_step(model, data, 1000)
    seconds = best(lambda: mujoco.mj_step(model, data, steps), 5) / steps
    total, force = 0.0, np.zeros(6)
    for i in range(data.ncon):
        names = {model.body(model.geom_bodyid[g]).name for g in (data.contact[i].geom1, data.contact[i].geom2)}
        if names == {"can", "right_pad"}:
            mujoco.mj_contactForce(model, data, i, force)
            total += force[0]
    return seconds, total


def main() -> None:
    args = parse_args(__doc__)
    report = Report("robots", args)
    calls = CALLS // 10 if args.quick else CALLS
    rng = np.random.default_rng(0)
    for joints in JOINTS:
        mech = chain(joints)
        q, qd, qdd = rng.normal(size=(3, joints))
        core = _core.InverseDynamics(equations(mech).core)
        inside = min(core.seconds_per_call(q, qd, qdd, calls) for _ in range(7))
        from_python = best(lambda m=mech, x=q, v=qd, a=qdd: supple.inverse_dynamics(m, x, v, a), 5, 100)
        row = {"joints": joints, "core_us": 1e6 * inside, "python_us": 1e6 * from_python}
        if pinocchio is not None:
            model = pinocchio_twin(mech)
            expected = pinocchio.rnea(model, model.createData(), q, qd, qdd)
            row["pinocchio_us"] = 1e6 * pinocchio_seconds(model, q, qd, qdd, calls)
            found = supple.inverse_dynamics(mech, q, qd, qdd)
            row["relative_difference"] = float(np.abs(found - expected).max() / np.abs(expected).max())
        report.row(**row)
        if joints == max(JOINTS):
            report.target("40 joints, inside the core, us", 1e6 * inside, at_most=MOST_MICROSECONDS)
            if pinocchio is not None:
                report.target("relative difference from Pinocchio", row["relative_difference"], at_most=1e-9)
    if GRIPPER.exists():
        squeeze(report, args.quick)
    report.finish()


if __name__ == "__main__":
    main()
