"""The recursion of FORK-1S (algorithms 1 and 2): a pass outwards for compliances, a pass inwards for wrenches.

The springs' tangent is that of the unloaded reference pose. The recursion is exact on trees, and on loops if every
end effector is at or beyond the link that closes the loop (`docs/theory/recursion.md`); `ignored_merges` names the
loops for which it is not. Bodies are indices, and the world is -1: arrays over bodies have a last entry for the world.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from supple import spatial
from supple.errors import MechanismError, listed
from supple.mechanism import Mechanism
from supple.mechanism.record import Array
from supple.reduced.maps import Maps
from supple.reduced.paths import Paths, paths

RANK_TOLERANCE = 1e-12
"""Compliances between the branches of a merge below this, relative to the largest, count as rigid."""
PROJECTION = "use method='projection'"


def recursion(mech: Mechanism, end_effectors: Sequence[str]) -> Maps:
    """All maps at the reference pose by chaining, splitting and merging.

    Increments of a rotation vector are rotations in its own frame, as everywhere in the engine. Where redundant
    constraints leave a loop's wrenches indeterminate, the wrench maps are those of least norm that balance.
    """
    graph = _graph(mech, end_effectors)
    flexes = _per_joint(graph, _joint_compliance)
    compliances, shares = _compliances(graph, flexes)
    compliance = _coupled(graph, compliances)
    wrenches = _wrenches(graph, shares)
    twists = _twists(graph, flexes, shares, wrenches)
    for i, frame in enumerate(graph.frames):  # algorithm 1 gives the twists of the end effectors
        twists[frame.body] = spatial.adjoint(frame.pose) @ compliance[6 * i : 6 * i + 6]
    coordinates = [np.zeros((0, 6 * len(graph.frames)))]
    for j, joint_compliance in enumerate(flexes):
        carried = shares[j] @ wrenches[graph.child[j]]
        speed = mech.joints[j].increments(mech.joints[j].reference)
        coordinates.append(speed @ joint_compliance @ graph.jacobians[j].T @ carried)
    return Maps(compliance, twists[:-1], wrenches[:-1], np.concatenate(coordinates))


def chained(mech: Mechanism, end_effectors: Sequence[str], joint_matrix: Callable[[Graph, int], Array]) -> Array:
    """(6e, 6e) coupled matrix of the end effectors by algorithm 1, from a matrix (k, k) of each joint.

    With the joints' compliances it is the compliance of the end effectors; the published inverse mass and inverse
    damping take other matrices.
    """
    graph = _graph(mech, end_effectors)
    return _coupled(graph, _compliances(graph, _per_joint(graph, joint_matrix))[0])


def ignored_merges(mech: Mechanism, end_effectors: Sequence[str]) -> tuple[str, ...]:
    """Names of the links that close a loop which the recursion ignores for some end effector.

    It is empty where the recursion is exact. For an end effector that is carried by a link inside the loop, and not by
    the link that closes it, the loop counts as open (for the tip of a ladder, the loops of the rungs below it).
    """
    graph = _graph(mech, end_effectors)
    ends = [frame.body for frame in graph.frames]
    merges = [k for k in graph.order if len(graph.into[k]) > 1]
    return tuple(mech.bodies[k].name for k in merges if graph.ends_that_ignore_merge(k, ends))


# one joint


def _joint_compliance(graph: Graph, j: int) -> Array:
    """C_theta, (k, k): inverse stiffness of the springs at zero deflection."""
    joint, free = graph.mech.joints[j], graph.free[j]
    slopes = [0.0 if curve is None else float(curve.slope(0.0)) for curve in joint.curves]
    stiffness = joint.stiffness + slopes
    passive = [name for name, k, moves in zip(joint.axes, stiffness, free, strict=True) if moves and k <= 0]
    if passive:
        raise MechanismError(
            f"{listed(passive)} of '{graph.mech.name}' have no spring, so their compliance is infinite and the "
            f"recursion cannot chain them; {PROJECTION}, or add springs with mech.with_springs(...)"
        )
    return inverse_over_free_axes(np.diag(stiffness), free)


def inverse_over_free_axes(matrix: Array, free: NDArray[np.bool_]) -> Array:
    """Inverse over the free axes; zero for axes that motors hold."""
    result, moving = np.zeros_like(matrix), np.ix_(free, free)
    result[moving] = np.linalg.inv(matrix[moving])
    return result


def _per_joint(graph: Graph, what: Callable[[Graph, int], Array]) -> list[Array]:
    return [what(graph, j) for j in range(len(graph.mech.joints))]


# algorithm 1: outwards


def _compliances(graph: Graph, flexes: Sequence[Array]) -> tuple[Array, Array]:
    """Compliance (bodies + 1, 6, 6) of every body, and the local wrench maps (joints, 6, 6): the part of the wrench on
    its child that each joint carries, in the child's frame."""
    across = np.array([jac @ flex @ jac.T for jac, flex in zip(graph.jacobians, flexes, strict=True)]).reshape(-1, 6, 6)
    compliances = np.zeros((len(graph.poses), 6, 6))
    added = np.zeros_like(compliances)  # compliance between a body and its dominator
    shares = np.tile(np.eye(6), (len(across), 1, 1))
    for b in graph.order:
        joints = graph.into[b]
        if len(joints) == 1:
            added[b] = across[joints[0]]
        else:
            added[b], shares[joints] = merge(_branches(graph, b, added, across), graph.mech.radius or 1.0)
        a = graph.dominator[b]
        to_b = graph.carry(b, a)
        compliances[b] = added[b] + to_b @ compliances[a] @ to_b.T  # eq. 10
    return compliances, shares


def _branches(graph: Graph, k: int, added: Array, across: Array) -> Array:
    """(6m, 6m): coupled compliance (eq. 11) of the m virtual copies of link k, one on each joint, in frame k.

    It is relative to the dominator of k, whose motion all copies share; subtracting that motion later would cancel.
    """
    joints, top = graph.into[k], graph.dominator[k]
    coupled = np.zeros((len(joints), 6, len(joints), 6))
    for m, first in enumerate(joints):
        for n, second in enumerate(joints):
            common = graph.common_dominator(graph.parent[first], graph.parent[second])
            shared = list(graph.upwards(common, top))
            to_k = graph.carry(k, shared)
            coupled[m, :, n] = (to_k @ added[shared] @ np.swapaxes(to_k, -1, -2)).sum(axis=0)  # eq. 12
        coupled[m, :, m] += across[first]
    return coupled.reshape(6 * len(joints), 6 * len(joints))


def merge(coupled: Array, length: float = 1.0) -> tuple[Array, Array]:
    """Compliance (6, 6) of a link carried by m branches of coupled compliance C (6m, 6m), and the wrench (m, 6, 6)
    that each branch takes of a wrench on the link.

    This is the saddle point [[C, I^T], [I, 0]] [w; -xi] = [0; w_k] of eqs. 16 and 17: the branch wrenches w of least
    energy that add up to w_k. Write w = w_even + N z, where w_even is an even split and N spans the differences between
    branches. Then N^T C N z = -N^T C w_even, and the right-hand side is in the range of the matrix even for a singular
    C. `length` (m) scales torques to forces.
    """
    m = len(coupled) // 6
    units = np.array([1 / length] * 3 + [1.0] * 3)
    scaled = coupled * np.outer(np.tile(units, m), np.tile(units, m))
    even = np.kron(np.ones((m, 1)) / m, np.eye(6))
    differences = np.kron(np.linalg.svd(np.ones((1, m)))[2][1:].T, np.eye(6))
    between = differences.T @ scaled @ differences
    inverse = np.linalg.pinv((between + between.T) / 2, RANK_TOLERANCE, hermitian=True)
    shares = even - differences @ (inverse @ (differences.T @ scaled @ even))
    compliance = shares.T @ scaled @ shares
    compliance = (compliance + compliance.T) / 2 / np.outer(units, units)
    return compliance, shares.reshape(m, 6, 6) * units[:, None] / units


def _coupled(graph: Graph, compliances: Array) -> Array:
    """(6e, 6e) coupled compliance of the end effectors: C_ij = Ad C_kk Ad^T, where k is the nearest link that all paths
    to i and to j pass through (eq. 12)."""
    e = len(graph.frames)
    coupled = np.zeros((e, 6, e, 6))
    for i, first in enumerate(graph.frames):
        for j, second in enumerate(graph.frames):
            k = graph.common_dominator(first.body, second.body)
            to_first = spatial.adjoint(spatial.inverse(first.pose)) @ graph.carry(first.body, k)
            to_second = spatial.adjoint(spatial.inverse(second.pose)) @ graph.carry(second.body, k)
            coupled[i, :, j] = to_first @ compliances[k] @ to_second.T
    matrix = coupled.reshape(6 * e, 6 * e)
    return (matrix + matrix.T) / 2


# algorithm 2: inwards, and the twists that follow


def _wrenches(graph: Graph, shares: Array) -> Array:
    """Global wrench maps (bodies + 1, 6, 6e): wrench on every body from the bodies beyond it (eqs. 18 to 20).

    The sum over all paths is formed by visiting each body after all bodies beyond it.
    """
    wrenches = np.zeros((len(graph.poses), 6, 6 * len(graph.frames)))
    for i, frame in enumerate(graph.frames):
        wrenches[frame.body, :, 6 * i : 6 * i + 6] += spatial.adjoint(spatial.inverse(frame.pose)).T
    for b in reversed(graph.order):
        for j in graph.into[b]:
            wrenches[graph.parent[j]] += graph.carry(b, graph.parent[j]).T @ shares[j] @ wrenches[b]
    return wrenches


def _twists(graph: Graph, flexes: Sequence[Array], shares: Array, wrenches: Array) -> Array:
    """Twist maps (bodies + 1, 6, 6e).

    Eq. 22, corrected so that each branching ancestor subtracts the wrench through the next branching link below it,
    telescopes from link to link: T_b = Ad T_a + J C_theta J^T W_b. A merged link takes the mean of its virtual copies,
    weighted by the transposed local wrench maps, which add up to the identity. The copies agree where the recursion is
    exact.
    """
    twists = np.zeros_like(wrenches)
    for b in graph.order:
        for j in graph.into[b]:
            jacobian, share = graph.jacobians[j], shares[j]
            own = jacobian @ (flexes[j] @ (jacobian.T @ share @ wrenches[b]))
            twists[b] += share.T @ (graph.carry(b, graph.parent[j]) @ twists[graph.parent[j]] + own)
    return twists


# the mechanism as the recursion sees it


@dataclass(frozen=True)
class _Frame:
    """An end effector: its body and its (4, 4) pose on it."""

    body: int
    pose: Array


@dataclass(frozen=True)
class Graph(Paths):
    """Paths from the world to every body, and the geometry of their joints."""

    mech: Mechanism
    frames: tuple[_Frame, ...]
    """End effectors."""
    poses: Array
    """(bodies + 1, 4, 4) in the world."""
    free: list[NDArray[np.bool_]]
    """(k,) for each joint: whether an axis can move, that is, whether no motor holds it."""
    jacobians: list[Array]
    """(6, k) for each joint: twist of its outer body against the inner one, in the outer one's frame, per rate of q."""

    def carry(self, to: int, start: int | list[int]) -> Array:
        """(..., 6, 6) adjoint that takes twists from a body's frame to another's."""
        return spatial.adjoint(spatial.inverse(self.poses[to]) @ self.poses[start])


def _graph(mech: Mechanism, end_effectors: Sequence[str]) -> Graph:
    frames = tuple(_frame(mech, name, end_effectors) for name in end_effectors)
    for coupling in mech.couplings:
        if coupling.rigid or coupling.stiffness or coupling.damping or coupling.curve is not None:
            raise MechanismError(
                f"coupling '{coupling.name}' of '{mech.name}' acts across joints, which the recursion cannot "
                f"represent; {PROJECTION}"
            )
    found = paths(mech, [frame.body for frame in frames])
    _check_reach(mech, found, dict(zip(end_effectors, frames, strict=True)))
    held = {motor.coordinate for motor in mech.motors}
    free = [np.array([name not in held for name in joint.axes], dtype=bool) for joint in mech.joints]
    poses = np.concatenate([mech.poses.array, np.eye(4)[None]])
    jacobians = [_jacobian(mech, j, outer) for j, outer in enumerate(found.child)]
    return Graph(**vars(found), mech=mech, frames=frames, poses=poses, free=free, jacobians=jacobians)


def _frame(mech: Mechanism, name: str, all_names: Sequence[str]) -> _Frame:
    body, pose = mech.frame(name)
    if body < 0:
        raise MechanismError(f"end effector '{name}' is fixed to the world and cannot move; name another body or site")
    if list(all_names).count(name) > 1:
        raise MechanismError(f"end effector '{name}' is named twice")
    return _Frame(body, pose)


def _check_reach(mech: Mechanism, found: Paths, frames: dict[str, _Frame]) -> None:
    """Raises for an end effector inside a loop, which the recursion would treat as open."""
    for k in found.order:
        inside = found.inside(k) if len(found.into[k]) > 1 else set()
        for name, frame in frames.items():
            if frame.body in inside:
                closing = next(j for j in reversed(found.into[k]) if j in mech.topology.loops)
                raise MechanismError(
                    f"end effector '{name}' lies inside the loop that joint '{mech.joints[closing].name}' closes at "
                    f"'{mech.bodies[k].name}', and the recursion takes end effectors at or beyond that body only; "
                    f"{PROJECTION}"
                )


def _jacobian(mech: Mechanism, j: int, outer: int) -> Array:
    """J (6, k): twist of a joint's outer body against its inner one, in the outer one's frame, per rate of q."""
    joint = mech.joints[j]
    on_child = spatial.adjoint(joint.pose_child) @ joint.twist_jacobian(joint.reference)
    if mech.body_index(joint.child) == outer:
        return on_child
    to_outer = spatial.adjoint(spatial.inverse(mech.poses[joint.parent]) @ mech.poses[joint.child])
    return -to_outer @ on_child
