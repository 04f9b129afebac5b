"""The recursion of FORK-1S (algorithms 1 and 2): compliances from the base outwards, wrenches from the end
effectors inwards.

The springs' tangent is that of the unloaded reference pose. Exact on trees, and on loops with every end effector
at or beyond the link that closes them (`docs/recursion.md`); `ignored_merges` names the loops where it is not.
Bodies are indices, the world is -1: arrays over bodies have a last entry for the world.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from supple import spatial
from supple.errors import MechanismError, listed
from supple.mechanism import Joint, Mechanism
from supple.mechanism.record import Array
from supple.reduced.maps import Maps
from supple.reduced.paths import Paths, paths

RANK_TOLERANCE = 1e-12
"""Compliances between the branches of a merge below this, relative to the largest, count as rigid."""
PROJECTION = "use method='projection'"


def recursion(mech: Mechanism, end_effectors: Sequence[str]) -> Maps:
    """All maps at the reference pose by chaining, splitting and merging.

    A rotation vector's increments turn it in its own frame, as everywhere in the engine. Where a loop's wrenches are
    statically indeterminate (redundant constraints) the wrench maps are the smallest that balance.
    """
    graph = _graph(mech, end_effectors)
    flexes = _per_joint(graph, _joint_compliance)
    compliances, shares = _compliances(graph, flexes)
    compliance = _coupled(graph, compliances)
    wrenches = _wrenches(graph, shares)
    twists = _twists(graph, flexes, shares, wrenches)
    for i, frame in enumerate(graph.frames):  # the end effectors' own twists are those of algorithm 1
        twists[frame.body] = spatial.adjoint(frame.pose) @ compliance[6 * i : 6 * i + 6]
    coordinates = [np.zeros((0, 6 * len(graph.frames)))]
    for j, joint_compliance in enumerate(flexes):
        carried = shares[j] @ wrenches[graph.child[j]]
        speed = mech.joints[j].increments(mech.joints[j].reference)
        coordinates.append(speed @ joint_compliance @ graph.jacobians[j].T @ carried)
    return Maps(compliance, twists[:-1], wrenches[:-1], np.concatenate(coordinates))


def accelerability(mech: Mechanism, end_effectors: Sequence[str]) -> Array:
    """(6e, 6e) the published projection of the inverse mass (eq. 7): the recursion for compliance with the inverse
    of the child link's inertia about each joint, (J^T M_child J + armature)^-1, in place of the joint's compliance.
    """
    graph = _graph(mech, end_effectors)
    return _coupled(graph, _compliances(graph, _per_joint(graph, _joint_accelerability))[0])


def inverse_damping(mech: Mechanism, end_effectors: Sequence[str]) -> Array | None:
    """(6e, 6e) the published projection of the inverse damping: D_theta^-1 in place of each joint's compliance.

    None where no joint has a damper: nothing then damps the end effectors. Dampers on some of the moving axes only
    make the inverse infinite while some damping remains, which this form cannot express: that is an error.
    """
    graph = _graph(mech, end_effectors)
    free = {name for joint in mech.joints for name in joint.axes} - {motor.coordinate for motor in mech.motors}
    damped = {name for j in mech.joints for name, d in zip(j.axes, j.damping, strict=True) if d > 0} & free
    if not damped:
        return None
    if damped < free:
        raise MechanismError(
            f"{listed(sorted(free - damped))} of '{mech.name}' have no damper while others have one: their inverse "
            f"damping is infinite. Give every axis damping (mech.with_springs(..., joints=[...])) or {PROJECTION}"
        )
    return _coupled(graph, _compliances(graph, _per_joint(graph, _joint_inverse_damping))[0])


def ignored_merges(mech: Mechanism, end_effectors: Sequence[str]) -> tuple[str, ...]:
    """Names of the links that close a loop whose effect on some end effector the recursion leaves out.

    Empty where the recursion is exact. An end effector that hangs on a link inside the loop, and not on the link
    that closes it, moves as if the loop were open (the rungs of a ladder below its tip).
    """
    graph = _graph(mech, end_effectors)
    ends = [frame.body for frame in graph.frames]
    merges = [k for k in graph.order if len(graph.into[k]) > 1]
    return tuple(mech.bodies[k].name for k in merges if graph.ends_that_ignore_merge(k, ends))


# one joint


def _joint_compliance(graph: _Graph, j: int) -> Array:
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
    return _inverse(np.diag(stiffness), free)


def _joint_accelerability(graph: _Graph, j: int) -> Array:
    """A_theta = (J^T M_child J + armature)^-1, (k, k)."""
    mech, joint, jacobian = graph.mech, graph.mech.joints[j], graph.jacobians[j]
    body = mech.bodies[graph.child[j]]
    own = jacobian.T @ spatial.spatial_inertia(body.mass, body.centre, body.inertia) @ jacobian
    inertia = own + _on_rates(joint, joint.armature)
    free = graph.free[j]
    moving = inertia[np.ix_(free, free)]
    size = np.sqrt(moving.diagonal())
    if (size == 0).any() or (len(size) and np.linalg.eigvalsh(moving / np.outer(size, size))[0] < 1e-12):
        raise MechanismError(
            f"joint '{joint.name}' of '{mech.name}' can move without moving any mass of '{body.name}', so its "
            "accelerability is infinite; give the body mass and inertia, the joint armature, or use mass='consistent'"
        )
    return _inverse(inertia, free)


def _joint_inverse_damping(graph: _Graph, j: int) -> Array:
    """D_theta^-1, (k, k)."""
    joint = graph.mech.joints[j]
    return _inverse(_on_rates(joint, joint.damping), graph.free[j])


def _on_rates(joint: Joint, values: Array) -> Array:
    """(k, k) of dampers or armatures (k,), which act on the angular velocity of a rotation vector, for rates of q."""
    speed = joint.increments(joint.reference)
    result: Array = speed.T @ np.diag(values) @ speed
    return result


def _inverse(matrix: Array, free: NDArray[np.bool_]) -> Array:
    """Inverse over the free axes, zero for those that motors hold."""
    result, moving = np.zeros_like(matrix), np.ix_(free, free)
    result[moving] = np.linalg.inv(matrix[moving])
    return result


def _per_joint(graph: _Graph, what: Callable[[_Graph, int], Array]) -> list[Array]:
    return [what(graph, j) for j in range(len(graph.mech.joints))]


# algorithm 1: outwards


def _compliances(graph: _Graph, flexes: Sequence[Array]) -> tuple[Array, Array]:
    """Compliance (bodies + 1, 6, 6) of every body, and the local wrench maps (joints, 6, 6): what part of the wrench
    on its child each joint takes, in the child's frame."""
    across = np.array([jac @ flex @ jac.T for jac, flex in zip(graph.jacobians, flexes, strict=True)]).reshape(-1, 6, 6)
    compliances = np.zeros((len(graph.poses), 6, 6))
    added = np.zeros_like(compliances)  # what lies between a body and its dominator
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


def _branches(graph: _Graph, k: int, added: Array, across: Array) -> Array:
    """(6m, 6m): coupled compliance (eq. 11) of the m virtual copies of link k, one on each joint, in frame k.

    Relative to the dominator of k, whose motion all copies share: subtracting it later would cost digits.
    """
    joints, top = graph.into[k], graph.dominator[k]
    coupled = np.zeros((len(joints), 6, len(joints), 6))
    for m, first in enumerate(joints):
        for n, second in enumerate(joints):
            common = graph.meet(graph.parent[first], graph.parent[second])
            shared = list(graph.upwards(common, top))
            to_k = graph.carry(k, shared)
            coupled[m, :, n] = (to_k @ added[shared] @ np.swapaxes(to_k, -1, -2)).sum(axis=0)  # eq. 12
        coupled[m, :, m] += across[first]
    return coupled.reshape(6 * len(joints), 6 * len(joints))


def merge(coupled: Array, length: float = 1.0) -> tuple[Array, Array]:
    """Compliance (6, 6) of a link carried by m branches of coupled compliance C (6m, 6m), and the wrench (m, 6, 6)
    that each branch takes of a wrench on the link.

    The saddle point [[C, I^T], [I, 0]] [w; -xi] = [0; w_k] of eqs. 16 and 17: of all wrenches that add up to w_k,
    those of the least energy. Any even split plus N z adds up to it, N the differences between branches; z solves
    N^T C N z = -N^T C w_even, whose right side lies in the range however singular C is. `length` (m) makes
    forces and torques comparable.
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


def _coupled(graph: _Graph, compliances: Array) -> Array:
    """(6e, 6e) coupled compliance of the end effectors: C_ij = Ad C_kk Ad^T with the nearest link k that all paths
    to both pass (eq. 12)."""
    e = len(graph.frames)
    coupled = np.zeros((e, 6, e, 6))
    for i, first in enumerate(graph.frames):
        for j, second in enumerate(graph.frames):
            k = graph.meet(first.body, second.body)
            to_first = spatial.adjoint(spatial.inverse(first.pose)) @ graph.carry(first.body, k)
            to_second = spatial.adjoint(spatial.inverse(second.pose)) @ graph.carry(second.body, k)
            coupled[i, :, j] = to_first @ compliances[k] @ to_second.T
    matrix = coupled.reshape(6 * e, 6 * e)
    return (matrix + matrix.T) / 2


# algorithm 2: inwards, and the twists that follow


def _wrenches(graph: _Graph, shares: Array) -> Array:
    """Global wrench maps (bodies + 1, 6, 6e): what arrives at every body from beyond it (eqs. 18 to 20), summed over
    all paths by visiting each body after all that lies beyond it."""
    wrenches = np.zeros((len(graph.poses), 6, 6 * len(graph.frames)))
    for i, frame in enumerate(graph.frames):
        wrenches[frame.body, :, 6 * i : 6 * i + 6] += spatial.adjoint(spatial.inverse(frame.pose)).T
    for b in reversed(graph.order):
        for j in graph.into[b]:
            wrenches[graph.parent[j]] += graph.carry(b, graph.parent[j]).T @ shares[j] @ wrenches[b]
    return wrenches


def _twists(graph: _Graph, flexes: Sequence[Array], shares: Array, wrenches: Array) -> Array:
    """Twist maps (bodies + 1, 6, 6e).

    Eq. 22, with the wrench through the next branching link below subtracted at each branching ancestor, telescopes
    from link to link: T_b = Ad T_a + J C_theta J^T W_b. A merged link takes the mean of its virtual copies weighted
    by the transposed local wrench maps, which add up to one; the copies agree where the recursion is exact.
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
class _Graph(Paths):
    """Paths from the world to every body, and the geometry of their joints."""

    mech: Mechanism
    frames: tuple[_Frame, ...]
    """End effectors."""
    poses: Array
    """(bodies + 1, 4, 4) in the world."""
    free: list[NDArray[np.bool_]]
    """(k,) for each joint: whether an axis can move, that is, no motor holds it."""
    jacobians: list[Array]
    """(6, k) for each joint: twist of its outer body against the inner one, in the outer one's frame, per rate of q."""

    def carry(self, to: int, start: int | list[int]) -> Array:
        """(..., 6, 6) adjoint that takes twists from a body's frame to another's."""
        return spatial.adjoint(spatial.inverse(self.poses[to]) @ self.poses[start])


def _graph(mech: Mechanism, end_effectors: Sequence[str]) -> _Graph:
    frames = tuple(_frame(mech, name, end_effectors) for name in end_effectors)
    for coupling in mech.couplings:
        if coupling.rigid or coupling.stiffness or coupling.damping or coupling.curve is not None:
            raise MechanismError(
                f"coupling '{coupling.name}' of '{mech.name}' acts across joints, which the recursion cannot take in; "
                f"{PROJECTION}"
            )
    found = paths(mech, [frame.body for frame in frames])
    _check_reach(mech, found, dict(zip(end_effectors, frames, strict=True)))
    held = {motor.coordinate for motor in mech.motors}
    free = [np.array([name not in held for name in joint.axes], dtype=bool) for joint in mech.joints]
    poses = np.concatenate([mech.poses.array, np.eye(4)[None]])
    jacobians = [_jacobian(mech, j, outer) for j, outer in enumerate(found.child)]
    return _Graph(**vars(found), mech=mech, frames=frames, poses=poses, free=free, jacobians=jacobians)


def _frame(mech: Mechanism, name: str, all_names: Sequence[str]) -> _Frame:
    body, pose = mech.frame(name)
    if body < 0:
        raise MechanismError(f"end effector '{name}' is fixed to the world and cannot move; name another body or site")
    if list(all_names).count(name) > 1:
        raise MechanismError(f"end effector '{name}' is named twice")
    return _Frame(body, pose)


def _check_reach(mech: Mechanism, found: Paths, frames: dict[str, _Frame]) -> None:
    """Raises for an end effector inside a loop: the recursion would take that loop as open."""
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
