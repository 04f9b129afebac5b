"""NumPy twin of the core's kinematics (`core/engine/kinematics.cpp`) and inverse kinematics."""

import numpy as np
from scipy.optimize import minimize

from supple import spatial
from supple.mechanism.projected import projected_mass


def poses(mech, q):
    """(bodies, 4, 4) world poses at q (dof,)."""
    topology, result = mech.topology, np.empty((len(mech.bodies), 4, 4))
    for b in topology.order:
        joint, p = mech.joints[topology.joint[b]], topology.parent[b]
        own = q[topology.columns[topology.joint[b]]]
        across = joint.pose_parent @ joint.displacement(own) @ spatial.inverse(joint.pose_child)
        across = spatial.inverse(across) if topology.reversed[b] else across
        result[b] = across if p < 0 else result[p] @ across
    return result


def screws(mech, q):
    """(dof, 6): twist of the bodies that a coordinate moves, per unit rate, at the world's origin in world axes."""
    topology, world, result = mech.topology, poses(mech, q), np.zeros((mech.dof, 6))
    for b in topology.order:
        j = int(topology.joint[b])
        joint, columns = mech.joints[j], topology.columns[j]
        child = mech.body_index(joint.child)
        frame = (np.eye(4) if child < 0 else world[child]) @ joint.pose_child
        sign = -1.0 if topology.reversed[b] else 1.0
        result[columns] = sign * (spatial.adjoint(frame) @ joint.twist_jacobian(q[columns])).T
    return result


def jacobian(mech, name, q):
    """(6, dof): twist of a body or site, in its own frame, per unit rate of q."""
    body, frame = mech.frame(name)
    if body < 0:
        return np.zeros((6, mech.dof))
    to_frame = spatial.adjoint(spatial.inverse(poses(mech, q)[body] @ frame))
    return to_frame @ (screws(mech, q) * mech.topology.moves[body][:, None]).T


def mass_matrix(mech, q):
    """(dof, dof): sum over bodies of J^T I J, with armature on the rates of increments."""
    increments, slices = np.zeros((sum(len(j.axes) for j in mech.joints), mech.dof)), mech.axis_slices
    coordinates = np.zeros(len(increments))
    for j in mech.topology.tree:
        columns = mech.topology.columns[j]
        coordinates[slices[j]] = q[columns]
        increments[slices[j], columns] = mech.joints[j].increments(q[columns])
    twists = np.array([jacobian(mech, body.name, q) for body in mech.bodies])
    return projected_mass(mech, twists, increments, coordinates)


def constraints(mech, x):
    """Gaps (m,) of loops (lengths over the radius) and rigid couplings at x (n,), and their Jacobian (m, n)."""
    dof, world, moves = mech.dof, poses(mech, x[: mech.dof]), mech.topology.moves
    all_screws, gaps, rows = screws(mech, x[:dof]), [np.zeros(0)], [np.zeros((0, len(x)))]
    scale = np.array([1 / (mech.radius or 1.0)] * 3 + [1.0] * 3)
    for j in mech.topology.loops:
        joint, own = mech.joints[j], mech.topology.columns[j]
        ends = [mech.body_index(name) for name in (joint.parent, joint.child)]
        parent, child = (np.eye(4) if b < 0 else world[b] for b in ends)
        on_child = child @ joint.pose_child
        at = slice(dof + own.start, dof + own.stop)
        inside = parent @ joint.pose_parent @ joint.displacement(x[at])
        gaps.append(scale * spatial.log(spatial.inverse(inside) @ on_child))
        moved = [np.zeros(dof) if b < 0 else moves[b].astype(float) for b in ends]
        row = np.zeros((6, len(x)))
        row[:, :dof] = (spatial.adjoint(spatial.inverse(on_child)) @ all_screws.T) * (moved[1] - moved[0])
        row[:, at] = -joint.twist_jacobian(x[at])
        rows.append(scale[:, None] * row)
    names = (*mech.coordinates, *mech.loop_coordinates)
    for c in mech.couplings:
        if c.rigid:
            row = np.zeros((1, len(x)))
            row[0, [names.index(n) for n in c.coordinates]] = c.coefficients
            gaps.append(row @ x - c.rest)
            rows.append(row)
    return np.concatenate(gaps), np.vstack(rows)


def nearest(mech, name, target, start, near, lower, upper):
    """Coordinates with the pose `target` of a body and the least motion from `start`, within bounds: SciPy's sequential
    quadratic programs from `near` on. For a single target, without loops and couplings."""
    def error(q):
        body, frame = mech.frame(name)
        return spatial.log(spatial.inverse(poses(mech, q)[body] @ frame) @ target)

    found = minimize(
        lambda q: 0.5 * (q - start) @ (q - start), near, jac=lambda q: q - start, method="SLSQP",
        bounds=list(zip(lower, upper, strict=True)), constraints=[{"type": "eq", "fun": error}],
        options={"ftol": 1e-14, "maxiter": 500},
    )  # fmt: skip
    return found.x
