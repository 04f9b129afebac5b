"""One implicit time step of the engine in plain NumPy: residual, tangent and Newton's method.

The unknowns are the increments of every joint's coordinates (rotation vectors: R <- R exp(increment)), the wrenches of
the joints that close loops, and the multipliers of rigid couplings and motors. With

    t    torques of springs, dampers and armatures on the coordinates,
    s_i  the screw of coordinate i,
    w_b  the wrench on body b: loads, weight and loop joints, minus the rate of momentum,
    c    the gaps of loops and the errors of rows, G their Jacobian,

a step solves, at its end and with rates by backward differences,

    t_i - sum over the bodies b that i moves of  s_i . w_b = 0,        c = 0.

Newton's method solves  [[K, G'], [G, 0]] [dx, dm] = -[residual, c]  with

    K = dt/dx - sum over b of J_b' (dw_b/dtwist) J_b - geometric stiffness,

where the columns of J_b are the screws that move b. Bodies that fixed joints connect have one momentum, that of a body
with their mass, centre and inertia. The geometric stiffness is the change of the screws: coordinate k turns the screw
of every coordinate i beyond it by ad(s_k) s_i. All wrenches and screws are in world axes at the world's origin. Limits
are left out. The wrench of a loop joint is constant within an iteration; that changes the iterates, not the solution.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from supple import spatial
from supple.mechanism import Mechanism, kinematics
from supple.mechanism.axes import axis_slices, of_tree
from supple.mechanism.kinematics import displacement_across

Array = np.ndarray
EULER, BDF2 = (1.0, -1.0, 0.0), (1.5, -2.0, 0.5)
"""Weights of the present, the last and the last but one value in the rate."""


@dataclass(frozen=True)
class Past:
    """What a step needs of one earlier step."""

    q: Array
    """(axes,) coordinates of every joint."""
    poses: Array
    """(bodies, 4, 4)"""
    turn: Array
    """(bodies, 3) rotation vector of the step that led here."""
    momentum: Array
    """(bodies, 6) linear, and angular about the centre of mass, in world axes."""
    drive: Array
    """(axes,) armature times rate."""


class StepTwin:
    """Steps of a mechanism from its reference pose, at rest, under wrenches (6,) at bodies' origins in world axes."""

    def __init__(self, mech: Mechanism, h: float, method: str, wrenches: dict[str, Array]) -> None:
        self.mech, self.h, self.method = mech, h, method
        self.slices = axis_slices(mech)
        self.wrenches = wrenches
        self.rows = [(c.coordinates, c.coefficients, c.rest) for c in mech.couplings if c.rigid]
        self.rows += [((m.coordinate,), np.ones(1), m.position) for m in mech.motors]
        names = [name for joint in mech.joints for name in joint.axes]
        self.axis = {name: i for i, name in enumerate(names)}
        q = np.concatenate([np.zeros(0), *(joint.reference for joint in mech.joints)])
        n = len(mech.bodies)
        poses = kinematics(mech, of_tree(mech, q)).poses.array
        self.now = self.before = Past(q, poses, np.zeros((n, 3)), np.zeros((n, 6)), np.zeros(len(q)))
        self.multipliers = np.zeros(6 * len(mech.topology.loops) + len(self.rows))
        self.turned_by = self._turned_by()
        self.inertia = self._inertia()

    def step(self, n: int = 1) -> None:
        for _ in range(n):
            first = self.now is self.before
            self._step(EULER if first or self.method == "euler" else BDF2)

    def _step(self, weights: tuple[float, float, float]) -> None:
        q, m = self.now.q, self.multipliers
        for _ in range(40):
            residual, tangent, _ = self._equations(weights, q, m)
            scale = np.ones(len(residual))  # of multipliers, so that constraints weigh as much as inertia
            scale[len(q) :] = np.abs(np.diag(tangent)).max()
            change = scale * np.linalg.lstsq(scale[:, None] * tangent * scale, -scale * residual, rcond=1e-12)[0]
            q, m = self._moved(q, change[: len(q)]), m + change[len(q) :]
            if np.abs(change[: len(q)]).max() < 1e-12:
                break
        self.multipliers = m
        self.before, self.now = self.now, self._equations(weights, q, m)[2]

    def _moved(self, q: Array, by: Array) -> Array:
        result = q + by
        for part in self._rotation_vectors():
            result[part] = spatial.so3_log(spatial.so3_exp(q[part]) @ spatial.so3_exp(by[part]))
        return result

    def _rotation_vectors(self) -> list[slice]:
        parts = []
        for joint, own in zip(self.mech.joints, self.slices, strict=True):
            starts = own.start + np.cumsum([0, *joint.blocks])
            parts += [slice(a, a + 3) for a, size in zip(starts, joint.blocks, strict=False) if size == 3]
        return parts

    def _equations(self, weights: tuple[float, float, float], q: Array, m: Array) -> tuple[Array, Array, Past]:
        """Residual and tangent of the whole step, and what the next steps need of it."""
        mech, topology = self.mech, self.mech.topology
        axes, bodies = len(q), len(mech.bodies)
        state = kinematics(mech, of_tree(mech, q))
        poses = state.poses.array
        increments = np.eye(axes)  # of coordinates' increments with respect to q
        for joint, part in zip(mech.joints, self.slices, strict=True):
            increments[part, part] = joint.increments(q[part])

        # screws (axes, 6) of increments, and which bodies they move; zero for the joints that close loops
        screws, moves = np.zeros((axes, 6)), np.zeros((bodies, axes), dtype=bool)
        for j in topology.tree:
            part, columns = self.slices[j], topology.columns[j]
            screws[part] = np.linalg.solve(increments[part, part].T, state.screws[columns])
            moves[:, part] = topology.moves[:, columns]

        torque, slope, rate = self._torques(weights, q, increments)
        after = Past(q, poses, np.zeros((bodies, 3)), np.zeros((bodies, 6)), self._armature() * rate)
        drive = np.tensordot(weights, [after.drive, self.now.drive, self.before.drive], axes=1) / self.h
        residual = torque + drive
        tangent = slope + np.diag(self._armature()) * (weights[0] / self.h) ** 2

        conditions, jacobian, wrenches = self._constraints(q, m, state.poses, screws, moves, increments)
        residual[:] += jacobian.T @ m
        for b in range(bodies):
            wrench, derivative = self._body(weights, b, poses[b], after)
            J = (screws * moves[b][:, None]).T
            residual -= J.T @ wrench
            tangent -= J.T @ derivative @ J
            wrenches[b] += wrench
        tangent -= self._geometric(screws, moves, wrenches)
        zero = np.zeros((len(m), len(m)))
        return np.concatenate([residual, conditions]), np.block([[tangent, jacobian.T], [jacobian, zero]]), after

    def _armature(self) -> Array:
        return np.concatenate([np.zeros(0), *(joint.armature for joint in self.mech.joints)])

    def _torques(self, weights: tuple[float, float, float], q: Array, increments: Array) -> tuple[Array, Array, Array]:
        """Torques (axes,) of springs and dampers on the increments, their derivative, and the rates."""
        past, before = self.now.q, self.before.q
        rate = (weights[0] * q + weights[1] * past + weights[2] * before) / self.h
        for part in self._rotation_vectors():
            since = lambda r, part=part: spatial.so3_log(spatial.so3_exp(past[part]).T @ spatial.so3_exp(r[part]))  # noqa: E731
            rate[part] = (weights[0] * since(q) + weights[2] * since(before)) / self.h
        joints = self.mech.joints
        gather = lambda field: np.concatenate([np.zeros(0), *(getattr(joint, field) for joint in joints)])  # noqa: E731
        stretch, damping = q - gather("rest"), gather("damping")
        force, stiffness = gather("stiffness") * stretch, gather("stiffness")
        for i, curve in enumerate(curve for joint in joints for curve in joint.curves):
            if curve is not None:
                force[i] += float(curve(stretch[i]))
                stiffness[i] += float(curve.slope(stretch[i]))
        slope = np.diag(stiffness)
        for c in self.mech.couplings:
            if c.rigid:
                continue
            at = [self.axis[name] for name in c.coordinates]
            length = [float(c.coefficients @ values[at]) for values in (q, past, before)]
            x = length[0] - c.rest
            tension = c.stiffness * x + c.damping * np.dot(weights, length) / self.h
            stiff = c.stiffness + c.damping * weights[0] / self.h
            if c.curve is not None:
                tension += float(c.curve(x))
                stiff += float(c.curve.slope(x))
            force[at] += c.coefficients * tension
            slope[np.ix_(at, at)] += stiff * np.outer(c.coefficients, c.coefficients)
        per_increment = np.linalg.inv(increments)
        torque = per_increment.T @ force + damping * rate
        return torque, per_increment.T @ slope @ per_increment + np.diag(damping) * weights[0] / self.h, rate

    def _body(self, weights: tuple[float, float, float], b: int, pose: Array, after: Past) -> tuple[Array, Array]:
        """Wrench (6,) of weight, load and minus the rate of momentum, and its derivative in the body's twist."""
        h, rotation = self.h, pose[:3, :3]
        mass, centre, inertia = self.inertia[b]
        at = [p[:3, :3] @ centre + p[:3, 3] for p in (pose, self.now.poses[b], self.before.poses[b])]
        centre_velocity = np.tensordot(weights, at, axes=1) / h
        # the body's angular velocity: Jr(x) (c0 x - c2 x_before) / h, where the steps turned it by x and by x_before
        x = spatial.so3_log(self.now.poses[b, :3, :3].T @ rotation)
        right = spatial.so3_right_jacobian(x)
        spin = (weights[0] * x - weights[2] * right @ self.now.turn[b]) / h
        after.turn[b] = x
        after.momentum[b] = [*(mass * centre_velocity), *(rotation @ inertia @ spin)]
        past = (weights[1] * self.now.momentum[b] + weights[2] * self.before.momentum[b]) / h
        rate = weights[0] / h * after.momentum[b] + past
        load = self.wrenches.get(self.mech.bodies[b].name, np.zeros(6))
        force = mass * self.mech.gravity - rate[:3]
        torque = -rate[3:]
        about_origin = torque + np.cross(at[0], force) + load[3:] + np.cross(pose[:3, 3], load[:3])
        wrench = np.concatenate([force + load[:3], about_origin])

        # twist (v, w) at the world's origin: a point p moves by v + w x p, and R^T w turns the body in its own axes
        c = weights[0] / h
        moved = np.hstack([np.eye(3), -spatial.skew(at[0])])
        d_force = -mass * c * c * moved
        d_spin = weights[0] / h * np.linalg.inv(right) @ rotation.T
        angular = rotation @ inertia @ spin
        d_torque = np.zeros((3, 6))
        d_torque[:, 3:] = -c * (rotation @ inertia @ d_spin - spatial.skew(angular))
        d_torque += spatial.skew(at[0]) @ d_force - spatial.skew(force) @ moved
        d_torque -= spatial.skew(load[:3]) @ np.hstack([np.eye(3), -spatial.skew(pose[:3, 3])])
        return wrench, np.vstack([d_force, d_torque])

    def _inertia(self) -> list[tuple[float, Array, Array]]:
        """Mass, centre and inertia of each body: of all bodies that fixed joints connect it to, or zero if another of
        them has these."""
        topology, bodies, poses = self.mech.topology, self.mech.bodies, self.now.poses
        first = list(range(len(bodies)))  # of the bodies that are connected
        for b in topology.order:
            if topology.parent[b] >= 0 and not self.mech.joints[topology.joint[b]].axes:
                first[b] = first[topology.parent[b]]
        result = [(0.0, np.zeros(3), np.zeros((3, 3)))] * len(bodies)
        for b in set(first):
            group = [k for k in range(len(bodies)) if first[k] == b]
            here = [spatial.inverse(poses[b]) @ poses[k] for k in group]
            mass = sum(bodies[k].mass for k in group)
            centres = [T[:3, :3] @ bodies[k].centre + T[:3, 3] for T, k in zip(here, group, strict=True)]
            centre = sum(bodies[k].mass * c for c, k in zip(centres, group, strict=True)) / (mass or 1.0)
            inertia = np.zeros((3, 3))
            for T, c, k in zip(here, centres, group, strict=True):
                d = spatial.skew(c - centre)
                inertia += T[:3, :3] @ bodies[k].inertia @ T[:3, :3].T - bodies[k].mass * d @ d
            result[b] = (mass, centre, inertia)
        return result

    def _constraints(
        self, q: Array, m: Array, poses, screws: Array, moves: Array, increments: Array
    ) -> tuple[Array, Array, Array]:
        """Gaps of loops and errors of rows, their Jacobian in the increments, and the loops' wrenches (bodies, 6)."""
        mech, axes = self.mech, len(q)
        gaps, rows, wrenches = [], [], np.zeros((len(mech.bodies), 6))
        for k, j in enumerate(mech.topology.loops):
            joint, part = mech.joints[j], self.slices[j]
            displacement = joint.displacement(q[part])
            gap = spatial.log(spatial.inverse(displacement) @ displacement_across(poses, joint.name))
            on_child = spatial.right_jacobian_inverse(gap)
            on_parent = -on_child @ spatial.adjoint(spatial.exp(-gap))
            row = np.zeros((6, axes))
            row[:, part] = on_parent @ joint.twist_jacobian(q[part]) @ np.linalg.inv(increments[part, part])
            frames = (poses[joint.child] @ joint.pose_child, poses[joint.parent] @ joint.pose_parent @ displacement)
            for name, frame, side in zip((joint.child, joint.parent), frames, (on_child, on_parent), strict=True):
                if name != "world":
                    b = mech.body_index(name)
                    world = side @ spatial.adjoint(spatial.inverse(frame))  # of the gap per twist of the body
                    row += world @ (screws * moves[b][:, None]).T
                    wrenches[b] -= world.T @ m[6 * k : 6 * k + 6]
            gaps.append(gap)
            rows.append(row)
        for names, coefficients, target in self.rows:
            row = np.zeros((1, axes))
            row[0, [self.axis[name] for name in names]] = coefficients
            gaps.append(row[0] @ q[None].T - target)
            rows.append(row @ np.linalg.inv(increments))
        return np.concatenate([np.zeros(0), *gaps]), np.concatenate([np.zeros((0, axes)), *rows]), wrenches

    def _geometric(self, screws: Array, moves: Array, wrenches: Array) -> Array:
        """(axes, axes): derivative of (screw . wrenches of the bodies it moves) by the change of the screws."""
        carried = moves.T @ wrenches  # (axes, 6) wrench of everything beyond a coordinate
        return np.einsum("ia,kab,ib->ik", carried, spatial.ad(screws), screws) * self.turned_by

    def _turned_by(self) -> Array:
        """(axes, axes): whether coordinate k turns the screw of coordinate i, both of the tree."""
        topology = self.mech.topology
        result = np.zeros((len(self.axis), len(self.axis)), dtype=bool)
        for b, j in enumerate(topology.joint):
            own, blocks = self.slices[j], self.mech.joints[j].blocks
            inner = topology.parent[b]
            while inner >= 0:
                result[own, self.slices[topology.joint[inner]]] = True
                inner = topology.parent[inner]
            # within a joint the block nearer the world turns the others; a rotation vector turns its own axes too
            block = np.repeat(np.arange(len(blocks)), blocks)
            outward = block[:, None] >= block
            result[own, own] = ~outward if topology.reversed[b] else outward
        return result
