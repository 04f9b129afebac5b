"""All nodes of one flexible body: residual and tangent of its finite elements, and the frames of its interfaces.

Positions x of the nodes are absolute. They are seen from the frame (R, c) of the reference interface, which is a
function of its nodes: y = R^T (x - c). Elements, factors and increments are in these axes, so that factors stay good
while the body turns.

    M R^T (x'' - g) + f(y) + d + sum_i J_i^T phi_i = 0,      d = alpha M y' + beta d/dt f(y)

phi_i is the wrench that interface frame i exerts on what is attached to it, J_i the derivative of the frame's twist by
the nodes. Damping acts on y, so it does the work d . dy, dy = R^T dx - Z xi: with the columns Z of rigid motions, the
frame of the reference interface gets the wrench Z^T d, and the body as a whole gets neither force nor torque from it.
This is the equation that a reduced flexible body (core/engine/flexible.hpp) projects onto its modes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from supple import spatial
from supple.elastic.frames import polar_rotation
from supple.engine.full_terms import Differences, Places, bracket_form
from supple.mechanism import Mechanism
from supple.mechanism.flexible import FlexibleBody
from supple.mechanism.record import Array
from supple.spatial import skew


@dataclass(frozen=True, eq=False)
class PartState:
    """The nodes of a flexible body at one time."""

    positions: Array
    """(n, 3) in the world, m."""
    velocities: Array
    """(n, 3) in the world, m/s."""
    wrenches: Array
    """(interfaces, 6) wrench of each interface frame on what is attached to it, in the frame's axes; N and N m."""
    offsets: Array
    """(n, 3) y, positions in the frame of the reference interface, m."""
    forces: Array
    """(n, 3) internal forces in the same axes, N."""
    poses: Array
    """(interfaces, 4, 4) world poses of the interface frames, the reference first."""
    inverted: int
    """The worst inverted tetrahedron, -1 if none."""


@dataclass(frozen=True, eq=False)
class Factors:
    """Factorised tangent of the nodes of one part, for the elimination of their increments.

    With twists xi of the frames, changes of wrenches dphi and the twist xi_r of the reference frame, increments of the
    nodes (in the reference axes) are  dz = a + to_frames (E xi - dphi) + to_damping xi_r,  a = tangent^-1 (-residual).
    E = diag(anchor) + N(phi)^T / 2, with `bracket_form` N.
    """

    lu: Any
    jacobian: Array
    """(6i, 3n) J: twists of the frames per increment of the nodes."""
    anchor: Array
    """(6i,) stiffness s of J^T diag(s) (J dz - xi) = 0, which is added to the rows of the nodes: elements alone are
    singular in statics."""
    damping: Array
    """(3n, 6) D Z, derivative of the damping forces by minus the twist of the reference frame; zero columns (3n, 0)
    without damping."""
    rigid_damping: Array
    """(6, 6) Z^T D Z; (0, 0) without damping."""
    to_frames: Array
    """(3n, 6i) tangent^-1 J^T."""
    to_damping: Array
    """(3n, 6) tangent^-1 `damping`; (3n, 0) without damping."""

    @cached_property
    def frame_compliance(self) -> Array:
        """(6i, 6i) J tangent^-1 J^T."""
        return np.asarray(self.jacobian @ self.to_frames)

    @cached_property
    def damping_response(self) -> Array:
        """(6i, 6) J tangent^-1 D Z."""
        return np.asarray(self.jacobian @ self.to_damping)

    @cached_property
    def damping_compliance(self) -> Array:
        """(6, 6) Z^T D tangent^-1 D Z."""
        return np.asarray(self.damping.T @ self.to_damping)


class NodalPart:
    """Finite elements of one flexible body."""

    def __init__(self, flexible: FlexibleBody, mech: Mechanism) -> None:
        self.name, self.part = flexible.name, flexible.part
        part = self.part
        names = [flexible.basis.reference, *flexible.moving]
        self.bodies = [mech.body_index(flexible.frame(name)) for name in names]
        """Bodies of the interface frames, the reference first."""
        self.frames = [part.frame_of_nodes(name) for name in names]
        self.interfaces = [part.interface(name) for name in names]
        self.columns = [(3 * each.nodes[:, None] + np.arange(3)).ravel() for each in self.interfaces]
        self.origin = self.interfaces[0].centroid
        self.alpha, self.beta = part.material.alpha, part.material.beta
        self.mass = part.mass_matrix()
        self.size = 3 * len(part.nodes)

    # --- states -----------------------------------------------------------------------------------------------------

    def state_at(self, pose: Array, displacements: Array, velocities: Array) -> PartState:
        """The state with given displacements (n, 3) in the axes of the part, seen from the reference interface at
        `pose` (4, 4), and velocities (n, 3) in the world."""
        positions = (self.part.nodes - self.origin + displacements) @ pose[:3, :3].T + pose[:3, 3]
        count = len(self.frames)
        empty = np.zeros_like(positions)
        first = PartState(positions, velocities, np.zeros((count, 6)), empty, empty, np.zeros((count, 4, 4)), -1)
        return self.observed(first)

    def observed(self, state: PartState) -> PartState:
        """The state with the quantities that follow from the positions."""
        reference = self.interfaces[0]
        own = state.positions[reference.nodes]
        centre = reference.weights @ own
        R = polar_rotation((own - centre).T @ reference.moments)
        offsets = (state.positions - centre) @ R
        _, forces, inverted = self.part.elements.core.forces(np.ascontiguousarray(self.displacements(offsets)))
        base = spatial.pose(R, centre - R @ self.origin)
        u = self.displacements(offsets)
        poses = [
            base @ frame.pose(u[each.nodes].ravel()) for frame, each in zip(self.frames, self.interfaces, strict=True)
        ]
        return replace(state, offsets=offsets, forces=np.asarray(forces), poses=np.array(poses), inverted=int(inverted))

    def displacements(self, offsets: Array) -> Array:
        """(n, 3) displacements in the axes of the part, with the reference interface at rest, m."""
        return np.asarray(offsets + self.origin - self.part.nodes)

    def moved(self, state: PartState, change: Array, twist: Array, wrenches: Array) -> PartState:
        """The state after increments `change` (3n,) of the nodes in the reference axes, of which the `twist` (6,) of
        the reference frame is applied as a finite rigid motion, and changes of the wrenches (interfaces, 6)."""
        pose = state.poses[0] @ spatial.exp(twist)
        offsets = state.offsets + self.deformation(state, change, twist)
        positions = offsets @ pose[:3, :3].T + pose[:3, 3]
        return self.observed(replace(state, positions=positions, wrenches=state.wrenches + wrenches))

    def deformation(self, state: PartState, change: Array, twist: Array) -> Array:
        """(n, 3) increments of the nodes relative to the reference frame."""
        return np.asarray(change.reshape(-1, 3) - twist[:3] - np.cross(twist[3:], state.offsets))

    # --- residual and tangent ---------------------------------------------------------------------------------------

    def residual(
        self, state: PartState, gravity: Array, step: Differences | None, past: PartState, before: PartState
    ) -> tuple[Array, Array, PartState]:
        """Residual (3n,) of the nodes in the reference axes, wrench (6,) of the damping on the reference frame, and the
        state with its velocities."""
        R = state.poses[0, :3, :3]
        acceleration = np.broadcast_to(-gravity, state.positions.shape)
        damping = np.zeros_like(state.positions)
        if step is not None:
            velocities = step.rate(state.positions, past.positions, before.positions)
            acceleration = acceleration + step.rate(velocities, past.velocities, before.velocities)
            state = replace(state, velocities=velocities)
            if self.beta:
                damping = damping + self.beta * step.rate(state.forces, past.forces, before.forces)
            if self.alpha:
                damping = damping + self.alpha * (self.mass @ step.rate(state.offsets, past.offsets, before.offsets))
        else:
            state = replace(state, velocities=np.zeros_like(state.positions))
        result = (self.mass @ acceleration) @ R + state.forces + damping
        wrench = np.concatenate([damping.sum(axis=0), np.cross(state.offsets, damping).sum(axis=0)])
        flat = result.ravel()
        for jacobian, columns, phi in zip(self.jacobians(state), self.columns, state.wrenches, strict=True):
            np.add.at(flat, columns, phi @ jacobian)
        return flat, wrench, state

    def jacobians(self, state: PartState) -> list[Array]:
        """For each frame, (6, 3m) its twist per increment of its nodes."""
        u = self.displacements(state.offsets)
        pairs = zip(self.frames, self.interfaces, strict=True)
        return [frame.motion(u[each.nodes].ravel()).jacobian for frame, each in pairs]

    def frame_twists(self, state: PartState) -> Array:
        """(interfaces, 6) twists of the frames, each in its own axes, m/s and rad/s."""
        local = (state.velocities @ state.poses[0, :3, :3]).ravel()
        pairs = zip(self.jacobians(state), self.columns, strict=True)
        return np.array([jacobian @ local[columns] for jacobian, columns in pairs])

    def factorise(self, state: PartState, step: Differences | None, last_change: Array | None) -> Factors:
        """Tangent of the residual, factorised. `last_change` (n, 3): the last Newton step of the nodes relative to the
        reference frame, see `Elements.tangent`."""
        from scipy.sparse.linalg import splu

        u = self.displacements(state.offsets)
        elements = self.part.elements
        _, K = elements.tangent(u, last_step=last_change, allow_inverted=True)
        slope = 0.0 if step is None else step.slope
        alpha, beta = self.alpha * slope, self.beta * slope
        scale = float(K.diagonal().mean())
        tangent = K.copy()
        tangent.data *= 1 + beta
        tangent.data += (slope**2 + alpha) * self._mass_blocks
        sparse = tangent.tocsc()
        jacobian = np.zeros((6 * len(self.frames), self.size))
        anchor = np.zeros(6 * len(self.frames))
        for i, (frame, each, columns) in enumerate(zip(self.frames, self.interfaces, self.columns, strict=True)):
            _, J, H = frame.core.motion(np.ascontiguousarray(u[each.nodes].ravel()))
            own = slice(6 * i, 6 * i + 6)
            jacobian[own, columns] = J
            anchor[own] = scale / (J * J).sum(axis=1)
            curvature = np.tensordot(state.wrenches[i], H, 1)
            sparse = sparse + self._block(columns, 0.5 * (curvature + curvature.T) + J.T @ (anchor[own, None] * J))
        lu = splu(sparse, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
        to_frames = lu.solve(np.ascontiguousarray(jacobian.T))
        if not (alpha or beta):
            none = np.zeros((self.size, 0))
            return Factors(lu, jacobian, anchor, none, np.zeros((0, 0)), to_frames, none)
        Z = np.concatenate([np.tile(np.eye(3), (len(u), 1)), -skew(state.offsets).reshape(-1, 3)], axis=1)
        damping = beta * (K @ Z) + alpha * (self.mass @ Z.reshape(len(u), -1)).reshape(Z.shape)
        return Factors(lu, jacobian, anchor, damping, Z.T @ damping, to_frames, lu.solve(np.ascontiguousarray(damping)))

    @cached_property
    def _mass_blocks(self) -> Array:
        """(blocks, 3, 3) mass matrix in the pattern of the stiffness."""
        rows, columns = self.part.elements._pattern
        of_row = np.repeat(np.arange(len(rows) - 1), np.diff(rows))
        values = np.asarray(self.mass.tocsr()[of_row, columns]).ravel()
        return np.asarray(values[:, None, None] * np.eye(3))

    def _block(self, columns: Any, values: Array) -> Any:
        """A sparse matrix with a dense block at the given rows and columns."""
        from scipy.sparse import coo_array

        m = len(columns)
        places = (np.repeat(columns, m), np.tile(columns, m))
        return coo_array((values.ravel(), places), shape=(self.size, self.size)).tocsc()

    def add_rows(
        self, factors: Factors, state: PartState, free: Array, wrench: Array, of_twists: Places, of_wrenches: Places,
        matrix: Array, right: Array,
    ) -> None:  # fmt: skip
        """Adds the rows of the frames to the dense system of bodies, joints and wrenches.

        `free` (3n,): a, the nodes' increments with frames at rest. `wrench` (6,): of the damping on the reference
        frame. `of_twists`, `of_wrenches` (frames, 6): places of the frames' twists and wrenches. With S = J to_frames:
            wrenches   J dz - xi = 0
            bodies     - dphi - N(phi) xi / 2 - damping^T (dz - Z xi_r)
        """
        twists, wrenches = of_twists.ravel(), of_wrenches.ravel()
        E = np.diag(factors.anchor)
        for i, twist in enumerate(of_twists):
            own, N = slice(6 * i, 6 * i + 6), bracket_form(state.wrenches[i])
            E[own, own] += 0.5 * N.T
            matrix[np.ix_(twist, twist)] -= 0.5 * N
        S = factors.frame_compliance
        matrix[np.ix_(wrenches, wrenches)] -= S
        matrix[np.ix_(wrenches, twists)] += S @ E - np.eye(len(twists))
        right[wrenches] -= factors.jacobian @ free
        matrix[twists, wrenches] -= 1
        right[twists] += state.wrenches.ravel()
        reference = of_twists[0]
        right[reference] += wrench
        if factors.damping.size:
            response = factors.damping_response
            matrix[np.ix_(wrenches, reference)] += response
            matrix[np.ix_(reference, wrenches)] += response.T
            matrix[np.ix_(reference, twists)] -= response.T @ E
            matrix[np.ix_(reference, reference)] += factors.rigid_damping - factors.damping_compliance
            right[reference] += factors.damping.T @ free

    def increments(self, factors: Factors, state: PartState, free: Array, twists: Array, wrenches: Array) -> Array:
        """(3n,) increments of the nodes, from those of the frames (interfaces, 6) and of their wrenches (interfaces,
        6)."""
        turned = np.array([0.5 * bracket_form(phi).T @ xi for phi, xi in zip(state.wrenches, twists, strict=True)])
        result = free + factors.to_frames @ (factors.anchor * twists.ravel() + turned.ravel() - wrenches.ravel())
        return np.asarray(result + factors.to_damping @ twists[0] if factors.damping.size else result)

    # --- energies ---------------------------------------------------------------------------------------------------

    def momentum(self, state: PartState) -> Array:
        """(6,) linear momentum and angular momentum about the world's origin, kg m/s and kg m^2/s."""
        moving = self.mass @ state.velocities
        return np.concatenate([moving.sum(axis=0), np.cross(state.positions, moving).sum(axis=0)])

    def kinetic_energy(self, state: PartState) -> float:
        return 0.5 * float(np.sum(state.velocities * (self.mass @ state.velocities)))

    def strain_energy(self, state: PartState) -> float:
        return self.part.elements.energy(self.displacements(state.offsets))

    def gravity_energy(self, state: PartState, gravity: Array) -> float:
        return -float((self.mass @ state.positions).sum(axis=0) @ gravity)
