"""The compiled assembly tree against the paper's equations, written out in NumPy and in world coordinates."""

from __future__ import annotations

import heapq
from dataclasses import dataclass

import numpy as np
import pytest

import supple
from linkages import loaded, random_linkage
from mujoco_reference import spring_forces
from supple import spatial
from supple.linkage.adaptive import MEASURES
from supple.mechanism.kinematics import inertias


@dataclass
class Assembly:
    """Coefficients of eqs. 1 and 8 for forces f on the handles, wrenches at the world's origin."""

    handles: list[int]
    bodies: set[int]
    Phi: np.ndarray
    b: np.ndarray
    Psi: np.ndarray
    p: np.ndarray
    eta: float


@dataclass
class Joining:
    """Acceleration of a joint under forces on the whole, and the resulting forces on the two parts."""

    acceleration: tuple[np.ndarray, np.ndarray]
    parts: list[tuple[np.ndarray, np.ndarray]]


class Twin:
    """Assembles in the order that the core chose."""

    def __init__(self, mech, loads):
        self.mech = mech
        state = supple.kinematics(mech)
        poses = state.poses.array
        to_body = spatial.adjoint(spatial.inverse(poses))
        self.inverse = np.linalg.inv(np.swapaxes(to_body, 1, 2) @ inertias(mech) @ to_body)
        self.wrench = np.zeros((len(poses), 6))
        for body, wrench in loads.items():
            self.wrench[body] = [*wrench[:3], *(wrench[3:] + np.cross(poses[body, :3, 3], wrench[:3]))]
        forces = spring_forces(mech, mech.reference, np.zeros(mech.dof))
        self.S, self.Q, self.armature = {}, {}, {}
        for body, j in enumerate(mech.topology.joint):
            columns = mech.topology.columns[j]
            per_increment = np.linalg.inv(mech.joints[j].increments(mech.reference[columns]))
            self.S[body] = state.screws[columns].T @ per_increment
            self.Q[body] = per_increment.T @ forces[columns]
            self.armature[body] = np.diag(mech.joints[j].armature)
        self.parent = mech.topology.parent
        self.nodes: list[Assembly] = []
        self.joinings: list[Joining] = []
        self.children: list[list[int]] = []

    def assemble(self, tree, leaf_bodies):
        shares = np.bincount(leaf_bodies)
        seen: set[int] = set()

        def part(child):
            if child >= 0:
                return self.nodes[child]
            body = int(leaf_bodies[~child])
            Phi = shares[body] * self.inverse[body]
            b = np.zeros(6) if body in seen else Phi @ self.wrench[body]
            seen.add(body)
            return Assembly([body], {body}, Phi, b, np.zeros((6, 6)), np.zeros(6), 0.0)

        for left, right, joint, handles, _ in tree:
            self.children.append([c for c in (left, right) if c >= 0])
            if joint >= 0 and self.parent[joint] < 0:
                ground = Assembly([-1], {-1}, np.zeros((6, 6)), np.array([*-self.mech.gravity, 0, 0, 0]), *nothing())
                self.join(ground, part(right), int(joint), 0, left_is_node=False)
            elif joint < 0 and handles == 0:
                a, b = part(left), part(right)
                self.nodes.append(Assembly([], a.bodies | b.bodies, *nothing(0), a.eta + b.eta))
                self.joinings.append(Joining((np.zeros((0, 0)), np.zeros(0)), [(np.zeros((0, 0)), np.zeros(0))] * 2))
            else:
                self.join(part(left), part(right), int(joint), int(handles))

    def join(self, A, B, joint, handles, left_is_node=True):
        if joint >= 0:
            ends, S, Q, armature = (int(self.parent[joint]), joint), self.S[joint], self.Q[joint], self.armature[joint]
        else:
            ends, S, Q, armature = (A.handles[0], B.handles[0]), np.zeros((6, 0)), np.zeros(0), np.zeros((0, 0))
        bodies = A.bodies | B.bodies
        kept_a = [h for h in A.handles if handles and self.is_held(h, bodies)]
        kept_b = [h for h in B.handles if handles and self.is_held(h, bodies) and not (joint < 0)]
        P_a, P_b = select(A.handles, kept_a + kept_b, kept_a), select(B.handles, kept_a + kept_b, kept_b)
        E_a, E_b = unit(A.handles, ends[0]), unit(B.handles, ends[1])
        V = np.linalg.inv(E_a.T @ A.Phi @ E_a + E_b.T @ B.Phi @ E_b)
        M = np.linalg.inv(S.T @ V @ S + armature)
        W = V - V @ S @ M @ S.T @ V
        D = E_a.T @ A.Phi @ P_a - E_b.T @ B.Phi @ P_b
        beta = E_a.T @ A.b - E_b.T @ B.b
        gamma = W @ beta + V @ S @ M @ Q  # eq. 2
        on_a, on_b = (P_a - E_a @ W @ D, -E_a @ gamma), (P_b + E_b @ W @ D, E_b @ gamma)  # eq. 5
        qdd = -M @ S.T @ V @ D, M @ (Q - S.T @ V @ beta)  # eq. 4
        Phi = P_a.T @ A.Phi @ P_a + P_b.T @ B.Phi @ P_b - D.T @ W @ D
        b = P_a.T @ A.b + P_b.T @ B.b - D.T @ gamma
        Psi, p, eta = qdd[0].T @ qdd[0], 2 * qdd[0].T @ qdd[1], float(qdd[1] @ qdd[1])
        for whole, (matrix, vector) in ((A, on_a), (B, on_b)):  # eq. 9, by substituting eq. 5 into eq. 8
            Psi = Psi + matrix.T @ whole.Psi @ matrix
            p = p + matrix.T @ (2 * whole.Psi @ vector + whole.p)
            eta += float(vector @ whole.Psi @ vector + whole.p @ vector + whole.eta)
        self.nodes.append(Assembly(kept_a + kept_b, bodies, Phi, b, Psi, p, eta))
        self.joinings.append(Joining(qdd, [on_a, on_b] if left_is_node else [on_b]))

    def is_held(self, body, bodies):
        """Whether a joint leads from a body out of a set."""
        if body < 0:
            return False
        around = [self.parent[body], *np.flatnonzero(self.parent == body)]
        return any(int(other) not in bodies for other in around)

    def traverse(self, tree, error, measure):
        """The algorithm of 4.3: joints in order, and the bound."""
        top = len(self.nodes) - 1
        forces = {top: np.zeros(0)}
        queue = [(-self.nodes[top].eta, -top)]
        moved, largest, squares, totals = [], 0.0, 0.0, {top: self.nodes[top].eta}

        def bound():
            if not queue:
                return 0.0
            match measure:
                case "absolute_joint":
                    return np.sqrt(-queue[0][0])
                case "relative_joint":
                    return min(1.0, np.sqrt(-queue[0][0] / largest)) if largest else 1.0
            left = np.sqrt(sum(-total for total, _ in queue))
            return left if measure == "absolute_linkage" else left / np.sqrt(self.nodes[top].eta)

        while queue and bound() > error:
            node = -heapq.heappop(queue)[1]
            matrix, vector = self.joinings[node].acceleration
            qdd = matrix @ forces[node] + vector
            if tree[node, 2] >= 0:
                moved.append(int(tree[node, 2]))
                largest, squares = max(largest, float(qdd @ qdd)), squares + float(qdd @ qdd)
            sides = [c for c in tree[node, :2] if c > -(2**31)]
            for child, (matrix, vector) in zip(sides, self.joinings[node].parts, strict=True):
                if child >= 0:
                    child = int(child)
                    f = forces[child] = matrix @ forces[node] + vector
                    below = self.nodes[child]
                    totals[child] = float(f @ below.Psi @ f + below.p @ f + below.eta)
                    heapq.heappush(queue, (-totals[child], -child))
        return moved, bound(), totals


def nothing(size=6):
    empty = np.zeros((size, size)), np.zeros(size)
    return (*empty, 0.0) if size else (*empty, *empty)


def select(handles, kept, own):
    """(6 handles, 6 kept): which force on the whole acts on which handle of a part."""
    chosen = np.array([[float(h == k and k in own) for k in kept] for h in handles])
    return np.kron(chosen.reshape(len(handles), len(kept)), np.eye(6))


def unit(handles, at):
    return np.kron(np.array([[float(h == at)] for h in handles]), np.eye(6))


@pytest.mark.parametrize("seed", range(12))
def test_coefficients_totals_and_traversal_agree_with_the_paper(seed):
    rng = np.random.default_rng(seed)
    mech, loads = random_linkage(rng, int(rng.integers(2, 45)))
    measure = MEASURES[seed % 4]
    chain = loaded(mech, loads, measure=measure)
    tree = chain._core.tree().astype(int)
    twin = Twin(mech, loads)
    twin.assemble(tree, chain._core.leaf_bodies().astype(int))

    chain._core.advance(0.0, 0.0, 0, False, np.inf, -1)
    everything, _, totals = twin.traverse(tree, -1.0, measure)
    assert sorted(everything) == list(range(len(mech.bodies)))
    found = chain._core.node_totals()
    whole = twin.nodes[-1].eta
    # totals and bounds of the core include a rounding term, which is all that the bound of an exact pass consists of
    relative = loaded(mech, loads, measure="relative_linkage").accelerate().error_bound
    assert relative < 1e-7
    np.testing.assert_allclose(found, [totals[i] for i in range(len(tree))], rtol=0, atol=3 * relative * whole)

    rounding = chain.accelerate().error_bound
    for power in (1, 3, 6, 10):
        chain.error = 2.0**-power * (1.0 if measure.startswith("relative") else np.sqrt(whole))
        info = chain.accelerate()
        moved, bound, _ = twin.traverse(tree, chain.error, measure)
        assert info.error_bound == pytest.approx(bound, rel=1e-5, abs=3 * rounding)
        joints = [int(mech.topology.joint[b]) for b in moved if mech.joints[mech.topology.joint[b]].axes]
        assert info.moved.tolist() == joints
