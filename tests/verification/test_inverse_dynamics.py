"""Inverse dynamics against Pinocchio, the mass matrix, the engine's motors on loops, and a simulation."""

from itertools import pairwise

import numpy as np
import pytest
from tests.mechanisms import KINDS, random_mechanism, random_q

import supple
from supple import spatial

SERIAL = ("hinge", "slide", "universal", "ball", "planar", "fixed")


def pinocchio_twin(mech):
    """The spanning tree in Pinocchio: a joint for each block of axes, the body on the last of them."""
    pinocchio = pytest.importorskip("pinocchio")
    model = pinocchio.Model()
    model.gravity.linear = mech.gravity
    ends = {-1: (0, np.eye(4))}  # Pinocchio's joint of each body, and the body's pose in it
    for b in mech.topology.order:
        joint = mech.joints[mech.topology.joint[b]]
        at, lead = ends[mech.body_index(joint.parent)]
        lead, start = lead @ joint.pose_parent, 0
        for size in joint.blocks:
            twist = joint.twists[start]
            if size == 3:
                lead = lead @ spatial.pose(joint.twists[start : start + 3, 3:].T, np.zeros(3))
                kind = pinocchio.JointModelSpherical()
            else:
                kind = pinocchio.JointModelRevoluteUnaligned(twist[3:]) if twist[3:].any() else None
                kind = kind or pinocchio.JointModelPrismaticUnaligned(twist[:3])
            at = model.addJoint(at, kind, pinocchio.SE3(lead[:3, :3], lead[:3, 3]), f"{joint.name}.{start}")
            lead = np.eye(4)
            if size == 3:
                lead = spatial.pose(joint.twists[start : start + 3, 3:], np.zeros(3))
            start += size
        lead = lead @ spatial.inverse(joint.pose_child)
        ends[b] = (at, lead)
        body = mech.bodies[b]
        place = pinocchio.SE3(lead[:3, :3], lead[:3, 3])
        model.appendBodyToJoint(at, pinocchio.Inertia(body.mass, body.centre, body.inertia), place)
    return pinocchio, model


def in_pinocchio(mech, q, qd, qdd):
    """q with quaternions, velocities and accelerations with angular ones, in Pinocchio's order, and the map to qd."""
    parts, columns, accelerations, order = [], np.zeros((mech.dof, mech.dof)), [], []
    for b in mech.topology.order:
        j = mech.topology.joint[b]
        joint, start = mech.joints[j], mech.topology.columns[j].start
        for size in joint.blocks:
            part = slice(start, start + size)
            if size == 3:
                r, y, h = q[part], qd[part], 1e-5
                jacobian = spatial.so3_right_jacobian(r)
                w, x, y_, z = spatial.quat_wxyz_from_matrix(spatial.so3_exp(r))
                parts.append([x, y_, z, w])
                change = (spatial.so3_right_jacobian(r + h * y) - spatial.so3_right_jacobian(r - h * y)) / (2 * h)
                accelerations.append(jacobian @ qdd[part] + change @ y)
                columns[part, part] = jacobian
            else:
                parts.append(q[part])
                accelerations.append(qdd[part])
                columns[part, part] = 1
            order += range(part.start, part.stop)
            start += size
    return np.concatenate(parts), columns, np.concatenate(accelerations), order


@pytest.mark.parametrize("seed", range(4))
def test_trees_agree_with_pinocchio(seed):
    rng = np.random.default_rng(seed)
    kinds = ("hinge", "slide", "universal", "planar") if seed < 2 else SERIAL
    mech = random_mechanism(rng, 12, kinds, sprung=False, reversing=0.0, free_base=seed == 3)
    q, qd, qdd = random_q(rng, mech), rng.normal(size=mech.dof), rng.normal(size=mech.dof)
    pinocchio, model = pinocchio_twin(mech)
    there, columns, acceleration, order = in_pinocchio(mech, q, qd, qdd)
    expected = pinocchio.rnea(model, model.createData(), there, (columns @ qd)[order], acceleration)
    found = columns.T @ expected[np.argsort(order)]
    tolerance = 1e-9 if seed < 2 else 1e-7  # the derivative of a rotation vector's Jacobian is a difference here
    scale = np.abs(found).max()
    assert np.abs(supple.inverse_dynamics(mech, q, qd, qdd) - found).max() <= tolerance * scale
    gravity = pinocchio.computeGeneralizedGravity(model, model.createData(), there)
    held = columns.T @ gravity[np.argsort(order)]
    assert np.abs(supple.gravity_torques(mech, q) - held).max() <= 1e-9 * np.abs(held).max()


@pytest.mark.parametrize("seed", range(3))
def test_any_joint_agrees_with_the_mass_matrix_and_its_derivatives(seed):
    """tau = M q'' + M' q' - d(q'^T M q' / 2)/dq + dU/dq, for every kind of joint, in both directions."""
    rng = np.random.default_rng(seed)
    single = ("hinge", "slide", "screw", "cylindrical", "axes")  # an armature on a ball has no gyroscopic torque
    mech = random_mechanism(rng, 6, single if seed == 2 else KINDS, sprung=seed == 2, free_base=True)
    q, qd, qdd, h = random_q(rng, mech, 0.4), rng.normal(size=mech.dof), rng.normal(size=mech.dof), 1e-5
    rest = supple.inverse_dynamics(mech, q)

    def mass(x):
        return supple.mass_matrix(mech, x)

    moved = (mass(q + h * qd) - mass(q - h * qd)) @ qd / (2 * h)
    unit = h * np.eye(mech.dof)
    kinetic = np.array([qd @ (mass(q + e) - mass(q - e)) @ qd / (4 * h) for e in unit])
    expected = mass(q) @ qdd + moved - kinetic + rest
    damping = [joint.increments(q[c]).T @ np.diag(joint.damping) @ joint.increments(q[c]) @ qd[c] for joint, c in
               ((mech.joints[j], mech.topology.columns[j]) for j in mech.topology.tree)]  # fmt: skip
    expected += np.concatenate([np.zeros(0), *damping])
    found = supple.inverse_dynamics(mech, q, qd, qdd)
    assert np.abs(found - expected).max() <= 1e-7 * np.abs(expected).max()


def test_wrenches_and_springs_count():
    rng = np.random.default_rng(5)
    mech = random_mechanism(rng, 5, ("hinge", "slide"), couplings=2, reversing=0.5)
    q, wrench = random_q(rng, mech), rng.normal(size=6)
    free = supple.inverse_dynamics(mech, q)
    loaded = supple.inverse_dynamics(mech, q, wrenches={"body3": wrench})
    state = supple.kinematics(mech, q)
    turned = np.concatenate([state.poses["body3"][:3, :3].T @ part for part in (wrench[:3], wrench[3:])])
    assert np.allclose(free - loaded, state.jacobian("body3").T @ turned, atol=1e-12)
    follower = supple.inverse_dynamics(mech, q, wrenches={"body3": turned}, frame="body")
    assert np.allclose(follower, loaded, atol=1e-12)
    weight = supple.gravity_torques(mech, q)
    # at an equilibrium of springs and weight no drive is needed
    eq = supple.equilibrium(mech)
    if not eq.motor_torques:
        assert np.abs(supple.inverse_dynamics(mech, eq.q)).max() < 1e-7
    assert np.abs(free - weight).max() > 0.1


END = np.array([0.6324555320336759, 0, 0, 1]), np.array([0.5099019513592785, 0, 0, 1])
"""Where coupler and rocker meet, in their frames."""


def gap_of(state):
    return (state.poses["coupler"] @ END[0] - state.poses["rocker"] @ END[1])[[0, 2]]


def driven_four_bar(t):
    """Coordinates of the four-bar at the time t, its crank at 0.3 sin 2t, by Newton's method on the loop."""
    mech = four_bar()
    q = mech.reference.copy()
    for _ in range(30):
        state = supple.kinematics(mech, [0.3 * np.sin(2 * t), *q[1:]])
        gap, h = gap_of(state), 1e-6
        moved = [gap_of(supple.kinematics(mech, state.q + h * np.eye(3)[i])) for i in (1, 2)]
        step = np.linalg.solve((np.array(moved) - gap).T / h, gap)
        q = state.q - [0, *step]
        if np.abs(step).max() < 1e-14:
            break
    return q


def four_bar(motor=False):
    b = supple.Builder("four-bar")
    for name, start, end, mass in (
        ("crank", (0, 0, 0), (0.1, 0, 0.3), 0.4),
        ("coupler", (0.1, 0, 0.3), (0.7, 0, 0.5), 0.8),
        ("rocker", (0.6, 0, 0), (0.7, 0, 0.5), 0.6),
    ):
        along = np.subtract(end, start)
        turn = spatial.rotation_between(np.array([1.0, 0, 0]), along / np.linalg.norm(along))
        b.body(name, spatial.pose(turn, start), mass, (np.linalg.norm(along) / 2, 0, 0), (0.001, 0.01, 0.01))
    b.hinge("foot", "world", "crank", at=(0, 0, 0), axis="y", stiffness=5.0, damping=0.1, armature=0.02)
    b.hinge("knee", "crank", "coupler", at=(0.1, 0, 0.3), axis="y", damping=0.05)
    b.hinge("pivot", "world", "rocker", at=(0.6, 0, 0), axis="y")
    b.hinge("closure", "rocker", "coupler", at=(0.7, 0, 0.5), axis="y", stiffness=2.0, damping=0.03)
    if motor:
        b.motor("drive", "foot")
    return b.build()


def test_loops_agree_with_the_engine_s_motors():
    """The torque of a motor that moves a four-bar linkage, extrapolated to a zero time step."""
    mech, t, h = four_bar(), 0.4, 4e-3
    around = np.array([driven_four_bar(t + k * h) for k in range(-3, 4)])
    q = around[3]
    qd = np.array([-1, 9, -45, 0, 45, -9, 1]) @ around / (60 * h)
    qdd = np.array([2, -27, 270, -490, 270, -27, 2]) @ around / (180 * h**2)
    found = supple.inverse_dynamics(mech, q, qd, qdd, driven=["foot"])
    assert (found[1:] == 0).all()
    torques = []
    for dt in (1e-3, 5e-4, 2.5e-4):
        start = driven_four_bar(0.0)
        rates = (driven_four_bar(1e-4) - driven_four_bar(-1e-4)) / 2e-4
        sim = supple.Simulation(
            four_bar(True), dt, "bdf2", q=start, rates=rates, motors={"drive": lambda t: 0.3 * np.sin(2 * t)}
        )
        sim.step(round(t / dt))
        assert np.abs(sim.q - q).max() < 1e-9
        torques.append(sim.motor_torques["drive"])
    once = [(4 * b - a) / 3 for a, b in pairwise(torques)]
    expected = (8 * once[1] - once[0]) / 7
    assert abs(found["foot"] - expected) <= 1e-6 * abs(expected)
    # the least torques on all joints do the same work
    spread = supple.inverse_dynamics(mech, q, qd, qdd)
    assert np.allclose(spread @ qd, found @ qd, rtol=1e-9)
    assert np.linalg.norm(spread) < np.linalg.norm(found)


def test_a_simulation_under_these_torques_has_the_accelerations():
    """Torques of a sinusoidal motion, set at every step, reproduce it."""
    rng = np.random.default_rng(2)
    mech = random_mechanism(rng, 4, ("hinge", "ball"), free_base=True, reversing=0.5)
    start, size = mech.reference, rng.uniform(-0.3, 0.3, mech.dof)
    dt, errors = 2e-3, []
    for n in (1, 2):
        sim = supple.Simulation(mech, dt / n, "bdf2", q=start, rates=2 * size)
        for k in range(100 * n):
            t = (k + 1) * dt / n
            q, qd, qdd = start + size * np.sin(2 * t), 2 * size * np.cos(2 * t), -4 * size * np.sin(2 * t)
            sim.set_torque(supple.inverse_dynamics(mech, q, qd, qdd))
            sim.step()
        errors.append(np.abs(sim.q - q).max())
        rate_error = np.abs(sim.qd - qd).max()
    assert errors[1] < 2e-5
    assert errors[1] < 0.4 * errors[0]
    assert rate_error < 2e-4


def test_refusals():
    mech = four_bar()
    with pytest.raises(supple.MechanismError, match="gap"):
        supple.inverse_dynamics(mech, [0.1, 0, 0])
    with pytest.raises(supple.MechanismError, match="open the loop"):
        supple.inverse_dynamics(mech, None, [1.0, 0, 0])
    with pytest.raises(supple.MechanismError, match="cannot cause"):
        supple.gravity_torques(mech, driven=[])
    with pytest.raises(supple.MechanismError, match="no joint or coordinate"):
        supple.gravity_torques(mech, driven=["foott"])
    with pytest.raises(supple.MechanismError, match="finite"):
        supple.inverse_dynamics(mech, None, [np.nan, 0, 0])
    with pytest.raises(supple.MechanismError, match="qdd of 'four-bar'"):
        supple.inverse_dynamics(mech, None, None, [1.0])


def test_coordinates_by_name():
    mech = supple.library.robot_arm(4)
    first, last = mech.coordinates[0], mech.coordinates[-1]
    q, qd, qdd = mech.reference.copy(), np.zeros(4), np.zeros(4)
    q[0], qd[-1], qdd[0] = 0.3, 1.0, 2.0
    found = supple.inverse_dynamics(mech, {first: 0.3}, {last: 1.0}, {first: 2.0})
    np.testing.assert_array_equal(found, supple.inverse_dynamics(mech, q, qd, qdd))
    np.testing.assert_array_equal(supple.gravity_torques(mech, {first: 0.3}), supple.gravity_torques(mech, q))
    np.testing.assert_array_equal(supple.mass_matrix(mech, {first: 0.3}), supple.mass_matrix(mech, q))
    loop = supple.library.ladder(rungs=2)
    with pytest.raises(supple.MechanismError, match="closes a loop"):
        supple.gravity_torques(loop, {loop.loop_coordinates[0]: 0.1})
