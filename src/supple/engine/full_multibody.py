"""Rigid bodies, joints, springs, motors and limits of a full simulation: residual and tangent in NumPy.

The equations are those of the compiled engine (core/engine/system.hpp), written with one twist for every body instead
of coordinates of a spanning tree. Unknowns are increments: a twist xi for each body (in its own axes), the six
multipliers lambda of each joint, the coordinates q of each joint, and a multiplier mu for each rigid row (motor, rigid
coupling, touched limit):

    bodies        sum_j A_j^T lambda_j - w = 0     w: applied wrenches minus the rate of momentum
    joints        c = log(X(q)^-1 X_bodies) = 0
    coordinates   spring + damper + armature - S^T lambda + C^T mu = 0
    rows          C q - target = 0

Frames of the interfaces of flexible bodies are bodies without mass here; `supple.engine.full_part` adds the nodes.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from supple import spatial
from supple.engine.assembly import ROUNDED, Acting, Equations
from supple.engine.full_terms import (
    BodyState,
    CouplingSpring,
    FullLayout,
    Instant,
    Row,
    at_origin,
    axis_torque,
    bracket_form,
    fixed_in_world,
    inertia_wrench,
)
from supple.errors import MechanismError
from supple.mechanism import Mechanism
from supple.mechanism.axes import axis_slices, per_axis
from supple.mechanism.joint import Joint
from supple.mechanism.record import Array

CONTACT_STIFFNESS = 1e6
"""A limit is active if its multiplier plus this stiffness times its violation pushes back, N m/rad or N/m."""


class Multibody:
    """Residual and tangent of the bodies and joints of a mechanism, without the nodes of its flexible parts."""

    def __init__(self, mech: Mechanism, eqs: Equations) -> None:
        self.mechanism, self.eqs = mech, eqs
        frames = {each.frame(name) for each in mech.flexible for name in each.part.interfaces}
        rigid = np.array([body.name not in frames for body in mech.bodies])
        self.mass = np.array([body.mass for body in mech.bodies]) * rigid
        self.centre = np.array([body.centre for body in mech.bodies]).reshape(-1, 3)
        self.inertia = np.array([body.inertia for body in mech.bodies]).reshape(-1, 3, 3) * rigid[:, None, None]
        self.joints: list[tuple[Joint, slice, int, int]] = []
        """Joints, except those of interfaces, with their axes, parent and child."""
        for joint, axes in zip(mech.joints, axis_slices(mech), strict=True):
            if joint.interface is None:
                ends = mech.body_index(joint.parent), mech.body_index(joint.child)
                self.joints.append((self._without_rounding_gap(joint, axes), axes, *ends))
        eta = {name for j in mech.joints if j.interface is not None for name in j.axes}
        self.springs, self.rows = self._couplings(eta)
        moving = np.zeros(len(eqs.reference), dtype=bool)
        for _, axes, _, _ in self.joints:
            moving[axes] = True
        frames_of_parts = [1 + len(each.moving) for each in mech.flexible]
        self.layout = FullLayout.of(len(mech.bodies), len(self.joints), moving, len(self.rows), frames_of_parts)

    def _without_rounding_gap(self, joint: Joint, axes: slice) -> Joint:
        """The joint, without the gap that rounded numbers of a file leave at the reference pose (of a loop)."""
        poses = {"world": np.eye(4), **{body.name: body.pose for body in self.mechanism.bodies}}
        on_child = poses[joint.child] @ joint.pose_child
        closed = spatial.inverse(poses[joint.parent]) @ on_child @ spatial.inverse(joint.displacement(joint.reference))
        gap = np.abs(spatial.log(spatial.inverse(joint.pose_parent) @ closed)).max()
        return replace(joint, pose_parent=closed) if 1e-12 < gap < ROUNDED else joint

    def _couplings(self, eta: set[str]) -> tuple[list[CouplingSpring], list[Row]]:
        mech, axis = self.mechanism, self.eqs.axis
        springs, rows = [], []
        for c in mech.couplings:
            if c.rigid and eta.issuperset(c.coordinates):
                continue  # keeps copies of the amplitudes equal, see `mechanism.flexible`
            if eta.intersection(c.coordinates):
                raise MechanismError(
                    f"coupling '{c.name}' acts on a modal amplitude; a full simulation has none. Couple joints instead"
                )
            axes = tuple(axis[name] for name in c.coordinates)
            if c.rigid:
                rows.append(Row(c.name, axes, c.coefficients, 0.0, 0.0, True))
            else:
                springs.append(CouplingSpring(c.name, axes, c.coefficients, c.stiffness, c.damping, c.curve))
        for motor in mech.motors:
            if motor.coordinate in eta:
                raise MechanismError(
                    f"motor '{motor.name}' moves a modal amplitude; a full simulation has none. Move a joint instead"
                )
            rows.append(Row(motor.name, (axis[motor.coordinate],), np.ones(1), 0.0, 0.0, True))
        for joint, *_ in self.joints:
            for name, (lower, upper) in zip(joint.axes, joint.limits, strict=True):
                if np.isfinite([lower, upper]).any():
                    rows.append(Row(name, (axis[name],), np.ones(1), float(lower), float(upper), False))
        for c in mech.couplings:
            if not c.rigid and np.isfinite(c.limits).any():
                axes, (lower, upper) = tuple(axis[name] for name in c.coordinates), c.limits
                rows.append(Row(c.name, axes, c.coefficients, float(lower), float(upper), False))
        return springs, rows

    def start(self, q: Array, poses: Array, velocities: Array, rates: Array) -> BodyState:
        """The state at the start of a simulation."""
        linear = np.zeros((len(poses), 3))
        angular = np.zeros((len(poses), 3))
        for b, (pose, v) in enumerate(zip(poses, velocities, strict=True)):
            linear[b] = self.mass[b] * pose[:3, :3] @ (v[:3] + np.cross(v[3:], self.centre[b]))
            angular[b] = pose[:3, :3] @ self.inertia[b] @ v[3:]
        return BodyState(
            poses,
            q,
            np.zeros((len(self.joints), 6)),
            np.zeros(len(self.rows)),
            tuple(int(row.equality) for row in self.rows),
            velocities,
            rates,
            np.hstack([linear, angular]),
            np.array([spring.coefficients @ q[list(spring.axes)] for spring in self.springs]),
        )

    def centres(self, poses: Array) -> Array:
        """(bodies, 3) centres of mass in the world, m."""
        return np.asarray(np.einsum("bij,bj->bi", poses[:, :3, :3], self.centre) + poses[:, :3, 3])

    # --- residual and tangent ---------------------------------------------------------------------------------------

    def evaluate(self, instant: Instant) -> tuple[Array, Array, BodyState]:
        """Residual (n,) and tangent (n, n) of the unknowns without the wrenches of interface frames, and the state with
        its rates and active rows."""
        state, n = instant.state, self.layout.bodies.stop
        residual, tangent = np.zeros(n), np.zeros((n, n))
        velocities, momentum = self._add_wrenches(instant, residual, tangent)
        rates = np.zeros(len(state.q))
        for j, _ in enumerate(self.joints):
            self._add_joint(j, instant, residual, tangent, rates)
        lengths = self._add_springs(instant, residual, tangent)
        active = self._add_rows(instant, residual, tangent)
        now = replace(state, rates=rates, velocities=velocities, momentum=momentum, lengths=lengths, active=active)
        return residual, tangent, now

    def _add_wrenches(self, instant: Instant, residual: Array, tangent: Array) -> tuple[Array, Array]:
        """Weight, loads and inertia on bodies. Returns velocities and momenta at the end of the step."""
        state, acting, step = instant.state, instant.acting, instant.step
        nb = len(self.mass)
        velocities, momentum = np.zeros((nb, 6)), np.zeros((nb, 6))
        wrenches, derivatives = np.zeros((nb, 6)), np.zeros((nb, 6, 6))
        for b in np.flatnonzero((self.mass > 0) | self.inertia.any(axis=(1, 2))).tolist():
            Rt = state.poses[b, :3, :3].T
            weight = Rt @ (self.mass[b] * acting.gravity)
            wrenches[b] = at_origin(weight, np.zeros(3), self.centre[b])
            derivatives[b] = fixed_in_world(weight, np.zeros(3), self.centre[b])
            if step is not None:
                wrench, derivative, velocities[b], momentum[b] = inertia_wrench(
                    b, self.mass[b], self.centre[b], self.inertia[b], instant, step
                )
                wrenches[b] += wrench
                derivatives[b] += derivative
        for load in acting.loads:
            force, torque = load.wrench[:3], load.wrench[3:]
            if load.world:
                Rt = state.poses[load.body, :3, :3].T
                force, torque = Rt @ force, Rt @ torque
                derivatives[load.body] += fixed_in_world(force, torque, load.point)
            wrenches[load.body] += at_origin(force, torque, load.point)
        for b, own in enumerate(self.layout.twists):
            residual[own] -= wrenches[b]
            tangent[np.ix_(own, own)] -= derivatives[b] + 0.5 * bracket_form(wrenches[b])
        return velocities, momentum

    def _add_joint(self, j: int, instant: Instant, residual: Array, tangent: Array, rates: Array) -> None:
        """Constraint c = log(X^-1 X_a^-1 X_b) of a joint with its multipliers, springs, dampers and armatures.

        c' = J A xi_b - P (B xi_a + S dq), J = Jr(c)^-1, P = J Ad(exp(-c)). The second derivatives of lambda^T c are
        those of a closed joint."""
        state = instant.state
        joint, axes, parent, child = self.joints[j]
        q, multipliers = state.q[axes], state.reactions[j]
        X = joint.displacement(q)
        S = joint.twist_jacobian(q) @ np.linalg.inv(joint.increments(q)) if len(q) else np.zeros((6, 0))
        on_parent = joint.pose_parent if parent < 0 else state.poses[parent] @ joint.pose_parent
        on_child = joint.pose_child if child < 0 else state.poses[child] @ joint.pose_child
        gap_pose = spatial.inverse(on_parent @ X) @ on_child
        gap = spatial.log(gap_pose)
        J = spatial.right_jacobian_inverse(gap)
        P = J @ spatial.adjoint(spatial.inverse(gap_pose))
        A = spatial.adjoint(spatial.inverse(joint.pose_child))
        B = spatial.adjoint(spatial.inverse(joint.pose_parent @ X))
        twists, rows, places = self.layout.twists, self.layout.multipliers[j], self.layout.coordinates[axes]
        residual[rows] += gap
        N = bracket_form(multipliers)
        sides = [(twists[child], J @ A)] if child >= 0 else []
        sides += [(twists[parent], -P @ B)] if parent >= 0 else []
        for own, derivative in sides:
            residual[own] += derivative.T @ multipliers
            tangent[np.ix_(rows, own)] += derivative
            tangent[np.ix_(own, rows)] += derivative.T
        if parent >= 0 and child >= 0:
            (b, _), (a, _) = sides
            mixed = -0.5 * B.T @ N @ A
            tangent[np.ix_(a, b)] += mixed
            tangent[np.ix_(b, a)] += mixed.T
        if not len(q):
            return
        residual[places] -= (P @ S).T @ multipliers
        tangent[np.ix_(rows, places)] -= P @ S
        tangent[np.ix_(places, rows)] -= (P @ S).T
        turned = 0.5 * N.T @ S
        for body, derivative in ((parent, B), (child, -A)):
            if body >= 0:
                tangent[np.ix_(twists[body], places)] += derivative.T @ turned
                tangent[np.ix_(places, twists[body])] += (derivative.T @ turned).T
        start = 0
        for size in joint.blocks:
            block = slice(start, start + size)
            later = slice(start + size, len(q))
            curvature = -0.5 * S[:, block].T @ N @ S[:, later]
            tangent[np.ix_(places[block], places[later])] += curvature
            tangent[np.ix_(places[later], places[block])] += curvature.T
            at = slice(axes.start + start, axes.start + start + size)
            torque, slope, rates[at] = axis_torque(joint, block, at, instant)
            residual[places[block]] += torque
            tangent[np.ix_(places[block], places[block])] += slope
            start += size

    def _add_springs(self, instant: Instant, residual: Array, tangent: Array) -> Array:
        state, step = instant.state, instant.step
        lengths = np.zeros(len(self.springs))
        for i, spring in enumerate(self.springs):
            lengths[i] = spring.coefficients @ state.q[list(spring.axes)]
            deflection = lengths[i] - instant.acting.targets[spring.name]
            force, slope = spring.stiffness * deflection, spring.stiffness
            if spring.curve is not None:
                force += float(spring.curve(deflection))
                slope += float(spring.curve.slope(deflection))
            if step is not None:
                force = force + spring.damping * step.rate(
                    lengths[i], instant.past.lengths[i], instant.before.lengths[i]
                )
                slope = slope + spring.damping * step.slope
            places = self.layout.coordinates[list(spring.axes)]
            residual[places] += spring.coefficients * force
            tangent[np.ix_(places, places)] += slope * np.outer(spring.coefficients, spring.coefficients)
        return lengths

    def _add_rows(self, instant: Instant, residual: Array, tangent: Array) -> tuple[int, ...]:
        """Motors, rigid couplings and limits. Returns which are active."""
        state, acting = instant.state, instant.acting
        active = []
        for i, row in enumerate(self.rows):
            at, places, mu = self.layout.rows[i], self.layout.coordinates[list(row.axes)], float(state.mu[i])
            value = float(row.coefficients @ state.q[list(row.axes)])
            side, bound = 0, 0.0
            if row.equality:
                side, bound = 1, acting.targets[row.name]
            elif mu + CONTACT_STIFFNESS * (value - row.upper) > 0:
                side, bound = 1, row.upper
            elif mu + CONTACT_STIFFNESS * (value - row.lower) < 0:
                side, bound = -1, row.lower
            active.append(side)
            residual[places] += row.coefficients * mu
            tangent[places, at] += row.coefficients
            if side:
                residual[at] = value - bound
                tangent[at, places] += row.coefficients
            else:
                residual[at], tangent[at, at] = mu, 1.0
        return tuple(active)

    def moved(self, state: BodyState, x: Array, frames: dict[int, Array]) -> BodyState:
        """The state after increments x of the unknowns. `frames`: new poses of the bodies that are interface frames."""
        layout, poses, q = self.layout, state.poses.copy(), state.q.copy()
        for b, own in enumerate(layout.twists):
            poses[b] = frames[b] if b in frames else poses[b] @ spatial.exp(x[own])
        for joint, axes, _, _ in self.joints:
            start = axes.start
            for size in joint.blocks:
                at = slice(start, start + size)
                change = x[layout.coordinates[at]]
                q[at] = (
                    spatial.so3_log(spatial.so3_exp(q[at]) @ spatial.so3_exp(change)) if size == 3 else q[at] + change
                )
                start += size
        reactions, mu = state.reactions + x[layout.multipliers], state.mu + x[layout.rows]
        return replace(state, poses=poses, q=q, reactions=reactions, mu=mu)

    def predicted(self, state: BodyState, before: BodyState, h: float, trend: float) -> Array:
        """Increments of the unknowns in a time step with extrapolated rates."""
        layout, x = self.layout, np.zeros(self.layout.size)
        velocities = state.velocities + trend * (state.velocities - before.velocities)
        rates = state.rates + trend * (state.rates - before.rates)
        x[layout.twists] = h * velocities
        moving = layout.coordinates >= 0
        x[layout.coordinates[moving]] = h * rates[moving]
        return x

    # --- energies ---------------------------------------------------------------------------------------------------

    def kinetic_energy(self, state: BodyState) -> float:
        armature = per_axis(self.mechanism, "armature")
        energy = 0.5 * float(armature @ state.rates**2)
        for mass, centre, inertia, v in zip(self.mass, self.centre, self.inertia, state.velocities, strict=True):
            energy += 0.5 * float(v @ spatial.spatial_inertia(mass, centre, inertia) @ v)
        return energy

    def strain_energy(self, state: BodyState, acting: Acting) -> float:
        energy = 0.0
        for joint, axes, _, _ in self.joints:
            deflection = state.q[axes] - acting.rest[axes]
            energy += 0.5 * float(joint.stiffness @ deflection**2)
            energy += sum(float(c.energy(d)) for c, d in zip(joint.curves, deflection, strict=True) if c is not None)
        for spring, length in zip(self.springs, state.lengths, strict=True):
            deflection = length - acting.targets[spring.name]
            energy += 0.5 * spring.stiffness * deflection**2
            energy += float(spring.curve.energy(deflection)) if spring.curve is not None else 0.0
        return energy

    def gravity_energy(self, state: BodyState, gravity: Array) -> float:
        return -float(self.mass @ (self.centres(state.poses) @ gravity))
