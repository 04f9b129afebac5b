"""Inverse dynamics of chains beside Pinocchio's rnea, and a gripper that squeezes a can (a mesh) beside MuJoCo, with a
random control every 20 ms; both in processor time.

The gripper is the Robotiq 2F-85 of MuJoCo Menagerie, in `shared/robots` beside the project. Without it this part is
left out.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from time import process_time_ns

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
DT = 1e-3
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
    """Time steps of the gripper that holds the can with a force that changes every 20 ms, and the mean force."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mech = replace(supple.load(GRIPPER), gravity=(0, 0, 0))
    grips: dict[str, OurGrip | MuJoCoGrip] = {
        "engine": OurGrip(supple.Simulation(mech, DT)),
        "MuJoCo": MuJoCoGrip(),
    }
    rng = np.random.default_rng(0)
    periods, steps = 100 if quick else 1000, 20
    times, forces = {name: np.empty(periods * steps) for name in grips}, dict.fromkeys(grips, 0.0)
    for grip in grips.values():
        grip.drive(255.0)
        grip.step(1000)
    for period in range(periods):
        control = rng.uniform(128, 255)
        for name, grip in grips.items():
            grip.drive(control)
            for k in range(steps):
                start = process_time_ns()
                grip.step(1)
                times[name][period * steps + k] = 1e-3 * (process_time_ns() - start)
            forces[name] += grip.force() / periods
    for name in grips:
        middle, most = np.median(times[name]), np.percentile(times[name], 99)
        report.row(gripping=name, median_us=float(middle), p99_us=float(most), newtons=forces[name])
    ratio = np.median(times["engine"]) / np.median(times["MuJoCo"])
    report.target("gripping a mesh, median step, engine / MuJoCo", float(ratio), at_most=1.0)


class OurGrip:
    """A simulated gripper that holds the can in a world."""

    def __init__(self, sim: supple.Simulation) -> None:
        body, mesh = can()
        self.sim, self.world = sim, supple.World(gravity=(0, 0, 0))
        self.world.add(sim)
        self.world.add(body, meshes=[mesh])

    def drive(self, control: float) -> None:
        self.sim.set_control("fingers_actuator", control)

    def step(self, n: int) -> None:
        self.world.step(n)

    def force(self) -> float:
        """Normal force on the right pad, N."""
        return sum(abs(c.force @ c.normal) for c in self.world.contacts if "right_pad" in c.first + c.second)


class MuJoCoGrip:
    """The same in MuJoCo."""

    def __init__(self) -> None:
        spec = mujoco.MjSpec.from_file(str(GRIPPER))
        spec.option.gravity, spec.option.timestep = [0, 0, 0], DT
        spec.add_mesh(name="can", uservert=can()[1].vertices.ravel())
        held = spec.worldbody.add_body(name="can", pos=[0, 0, 0.15])
        held.add_freejoint()
        mesh = mujoco.mjtGeom.mjGEOM_MESH
        held.add_geom(type=mesh, meshname="can", mass=0.2, friction=[0.5, 0.005, 1e-4], priority=1)
        self.model = spec.compile()
        self.data = mujoco.MjData(self.model)

    def drive(self, control: float) -> None:
        self.data.ctrl[0] = control

    def step(self, n: int) -> None:
        mujoco.mj_step(self.model, self.data, n)

    def force(self) -> float:
        """Normal force on the right pad, N."""
        model, data, total, force = self.model, self.data, 0.0, np.zeros(6)
        for i in range(data.ncon):
            names = {model.body(model.geom_bodyid[g]).name for g in (data.contact[i].geom1, data.contact[i].geom2)}
            if names == {"can", "right_pad"}:
                mujoco.mj_contactForce(model, data, i, force)
                total += force[0]
        return total


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
