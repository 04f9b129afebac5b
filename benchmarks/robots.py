"""Inverse dynamics of chains of 6 to 40 joints: time of a call inside the core, beside Pinocchio's rnea."""

from __future__ import annotations

import numpy as np

import supple
from _report import Report, best, parse_args
from supple import _core, spatial
from supple.engine.assembly import equations
from supple.mechanism import Mechanism

try:
    import pinocchio
except ImportError:
    pinocchio = None

JOINTS = (6, 20, 40)
MOST_MICROSECONDS = 3.0
CALLS = 20_000


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


def main() -> None:
    args = parse_args(__doc__)
    report = Report("inverse dynamics", args)
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
    report.finish()


if __name__ == "__main__":
    main()
