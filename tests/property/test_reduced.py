"""Properties of the reduced model of every mechanism: it is the derivative of the engine's statics."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pytest

import mechanisms
import pulls
import supple
from engine_reference import ROTATION_VECTORS, uncoupled, unlimited
from random_cases import seeds
from supple import spatial
from supple.engine.linearisation import linearised
from supple.mechanism import Curve, Mechanism
from supple.mechanism.mobility import constraints
from supple.reduced.projection import projection
from supple.reduced.recursion import ignored_merges, recursion

KEEPING = {"world": "dead", "body": "follower"}
"""What loads in these axes do when the body turns."""
EXACT = 1e-6
"""Of central differences of fourth order, relative to the largest entry."""
SIZE = 2e-4
"""Largest twist or coordinate that a difference moves, m or rad: seldom over a kink of a spring curve."""


# mechanisms


def smooth(mech: Mechanism) -> Mechanism:
    """Without limits, and with spring curves that pass (0, 0) away from their knots, where slopes have kinks."""

    def moved(curve: Curve | None) -> Curve | None:
        if curve is None:
            return None
        curve = Curve(curve.deflection + 0.17, curve.torque)
        return Curve(curve.deflection, curve.torque - curve(0.0))

    joints = tuple(replace(j, curves=tuple(moved(c) for c in j.curves)) for j in mech.joints)
    return unlimited(replace(mech, joints=joints))


def relaxed(mech: Mechanism) -> Mechanism:
    """The same springs, relaxed at the reference pose, without gravity: that pose held."""
    at = {name: r for j in mech.joints for name, r in zip(j.axes, j.reference, strict=True)}
    return replace(
        mech,
        joints=tuple(replace(j, rest=j.reference) for j in mech.joints),
        couplings=tuple(
            replace(c, rest=float(c.coefficients @ [at[n] for n in c.coordinates])) for c in mech.couplings
        ),
        motors=tuple(replace(m, position=at[m.coordinate]) for m in mech.motors),
        gravity=np.zeros(3),
    )


def rigid_rows(mech: Mechanism, eq: supple.engine.Equilibrium | None = None) -> tuple[np.ndarray, np.ndarray]:
    """(m, n) derivatives of loops, rigid couplings and motors by the coordinates of tree and loops, and those (n,)."""
    loops = [mech.joints[j] for j in mech.topology.loops]
    if eq is None:
        q = np.concatenate([mech.reference, *(j.reference for j in loops)])
    else:
        q = np.concatenate([eq.q, *(eq.coordinates[j.name] for j in loops)])
    names = [*mech.coordinates, *mech.loop_coordinates]
    motors = [[float(n == m.coordinate) for n in names] for m in mech.motors]
    return np.vstack([constraints(mech, q)[1], *(np.array([row]) for row in motors)]), q


def redundant(mech: Mechanism, smallest: float = 1e-2) -> bool:
    """Whether rigid conditions depend on each other, or nearly so."""
    rows = rigid_rows(mech)[0]
    return bool(rows.size) and np.linalg.matrix_rank(rows, smallest) < len(rows)


def mobility_seen(mech: Mechanism, tips: list[str], eq: supple.engine.Equilibrium | None = None) -> int:
    """Rank of the end effectors' Jacobian over the motions that loops, rigid couplings and motors allow."""
    rows, q = rigid_rows(mech, eq)
    free = np.eye(rows.shape[1])
    if rows.size:
        _, sizes, right = np.linalg.svd(rows)
        free = right[int((sizes > 1e-8 * max(sizes[0], 1e-300)).sum()) :].T
    radius = mech.radius or 1.0
    twists = [supple.jacobian(mech, tip, q[: mech.dof]) / np.array([[radius]] * 3 + [[1.0]] * 3) for tip in tips]
    motions = np.vstack(twists) @ free[: mech.dof]
    return int((np.linalg.svd(motions, compute_uv=False) > 1e-7).sum()) if motions.size else 0


def random_case(seed: int, **options) -> tuple[np.random.Generator, Mechanism, list[str]]:
    """A small mechanism (a tree, or with one or two loops) and one or two end effectors that can move; every
    fourth time the two ends of a loop."""
    rng = np.random.default_rng([seed, 4])
    while True:
        mech = mechanisms.random_mechanism(rng, int(rng.integers(1, 6)), loops=seed % 3, **options)
        mech = smooth(uncoupled(mech, ROTATION_VECTORS))
        names = [b.name for b in mech.bodies] + [s.name for s in mech.sites if s.body != "world"]
        tips = [str(t) for t in rng.choice(names, size=min(len(names), int(rng.integers(1, 3))), replace=False)]
        if seed % 4 == 1 and mech.topology.loops:
            loop = mech.joints[mech.topology.loops[0]]
            tips = [name for name in (loop.parent, loop.child) if name != "world"]
        if redundant(mech) and not redundant(mech, 1e-9):
            continue  # nearly singular: statics may buckle there
        if all(mobility_seen(mech, [tip]) for tip in tips):
            return rng, mech, tips


# differences


@dataclass(frozen=True)
class Response:
    """Derivatives by the end effectors' wrenches, in their own axes."""

    tips: np.ndarray
    """(6e, 6e)"""
    bodies: np.ndarray
    """(bodies, 6, 6e)"""
    coordinates: np.ndarray
    """(axes, 6e), increments"""
    reactions: np.ndarray
    """(joints, 6, 6e)"""


def moved(mech: Mechanism, base: supple.engine.Equilibrium, ends: list[supple.engine.Equilibrium], tips: list[str]):
    """(n, numbers): twists of end effectors and bodies, increments of coordinates and changes of reactions, from one
    equilibrium to each of n others. One call of the logarithm for all of them takes a tenth of the time."""
    columns = []
    for name in tips:
        columns.append(spatial.log(spatial.inverse(base.poses[name]) @ np.array([eq.poses[name] for eq in ends])))
    twists = spatial.log(spatial.inverse(base.poses.array) @ np.array([eq.poses.array for eq in ends]))
    columns.append(twists.reshape(len(ends), -1))
    for joint in mech.joints:
        before, after = base.coordinates[joint.name], np.array([eq.coordinates[joint.name] for eq in ends])
        start = 0
        for size in joint.blocks:
            part = slice(start, start + size)
            if size == 3:
                turns = spatial.so3_exp(before[part]).T @ spatial.so3_exp(after[:, part])
                columns.append(spatial.so3_log(turns))
            else:
                columns.append(after[:, part] - before[part])
            start += size
    columns += [np.array([eq.reactions[j.name] for eq in ends]) - base.reactions[j.name] for j in mech.joints]
    return np.concatenate(columns, axis=1)


STEPS = (1.0, -1.0, 2.0, -2.0)


def central(values: np.ndarray, step: float) -> np.ndarray:
    """Derivative at zero, fourth order, of a function with these values (4, ...) at `STEPS` times `step`."""
    return (8 * (values[0] - values[1]) - (values[2] - values[3])) / (12 * step)


def response(mech, tips, base, frame, loads, step) -> Response:
    ends = []
    for tip in tips:
        turn = np.eye(3) if frame == "body" else base.poses[tip][:3, :3]
        for unit in np.kron(np.eye(2), turn).T:
            for size in STEPS:
                acting = loads | {tip: loads.get(tip, np.zeros(6)) + size * step * unit}
                ends.append(supple.equilibrium(mech, acting, frame=frame, start=base))
    values = moved(mech, base, ends, tips).reshape(6 * len(tips), len(STEPS), -1)
    flat = central(np.swapaxes(values, 0, 1), step).T
    e, nb, nj = 6 * len(tips), len(mech.bodies), len(mech.joints)
    a, b, c = e, e + 6 * nb, len(flat) - 6 * nj
    return Response(flat[:a], flat[a:b].reshape(nb, 6, e), flat[b:c], flat[c:].reshape(nj, 6, e))


def step_for(model: supple.ReducedModel) -> float:
    sizes = np.abs(model.twist_map).max(), np.abs(model.coordinate_map @ model.compliance).max()
    return SIZE / max(sizes)


def difference(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.abs(a - b).max(initial=0.0) / max(np.abs(b).max(initial=0.0), 1e-300))


def in_basis(model: supple.ReducedModel, stiffness: np.ndarray) -> np.ndarray:
    """The compliance of a stiffness that acts in the admissible space only."""
    return model.basis @ np.linalg.inv(model.basis.T @ stiffness @ model.basis) @ model.basis.T


def tip_rows(model: supple.ReducedModel, per_body: np.ndarray) -> np.ndarray:
    """(6e, m): twists of the end effectors, each in its own frame, from those (bodies, 6, m) of the bodies."""
    frames = [model.mechanism.frame(name) for name in model.end_effectors]
    return np.concatenate([spatial.adjoint(spatial.inverse(pose)) @ per_body[body] for body, pose in frames])


def check_maps_agree(model: supple.ReducedModel) -> None:
    """The end effectors' rows of the twist map are the compliance, and its links move as `motion_map` says."""
    n = 6 * len(model.end_effectors)
    compliance = model.compliance[:n, :n]
    assert difference(tip_rows(model, model.twist_map), compliance) < 1e-9
    assert difference(model.motion_map[..., :n] @ compliance, model.twist_map) < 1e-9


# at rest and away from it


@pytest.mark.parametrize("name", pulls.LIBRARY)
@pytest.mark.parametrize("modes", [0, 2])
def test_twist_map_and_compliance_agree_under_load(name, modes):
    mech, tips = pulls.library_case(name)
    rest = supple.reduce(mech, tips)
    wrenches = pulls.random_wrenches(rest, np.random.default_rng(3), 0.6)
    eq = supple.equilibrium(mech, dict(zip(tips, wrenches, strict=True)))
    model = supple.reduce(mech, tips, at=eq, modes=modes)
    check_maps_agree(rest)
    check_maps_agree(model)
    turning = model.motion_map[..., : 6 * len(tips)] @ model.tangent_compliance("follower")
    assert difference(turning, model.twist_map) > 1e-3  # loads that turn with the tip are another thing


def test_twist_map_and_compliance_of_the_helix_at_150_newtons():
    mech = supple.library.helix()
    eq = supple.equilibrium(mech, {"tip": [0, 0, 150, 0, 0, 0]})
    check_maps_agree(supple.reduce(mech, ["tip"], at=eq))


@pytest.mark.parametrize("seed", seeds(40, 200))
def test_reduced_model_is_the_derivative_of_statics(seed):
    rng, mech, tips = random_case(seed)

    model = supple.reduce(mech, tips)
    held = relaxed(mech)
    truth = response(held, tips, supple.equilibrium(held), "body", {}, step_for(model))
    assert difference(model.compliance, truth.tips) < EXACT
    assert difference(model.twist_map, truth.bodies) < EXACT
    assert difference(model.coordinate_map @ truth.tips, truth.coordinates) < EXACT
    assert model.rank == mobility_seen(mech, tips)
    raw = projection(linearised(mech), tips).compliance
    np.testing.assert_allclose(raw, raw.T, atol=1e-11 * np.abs(raw).max())
    for matrix in (model.compliance, model.stiffness, model.mass, model.damping):
        np.testing.assert_allclose(matrix, matrix.T, atol=1e-12 * np.abs(matrix).max())
        assert np.linalg.eigvalsh((matrix + matrix.T) / 2)[0] > -1e-12 * np.abs(matrix).max()

    frame = ("body", "world")[seed // 2 % 2]
    loads = {tip: rng.normal(size=6) for tip in tips}
    if frame == "world":  # a dead weight somewhere else
        loads[str(rng.choice([b.name for b in mech.bodies]))] = np.array([*rng.normal(size=3), 0, 0, 0])
    eq = supple.equilibrium(mech, loads, frame=frame)
    model = supple.reduce(mech, tips, at=eq)
    truth = response(mech, tips, eq, frame, loads, step_for(model))
    assert difference(in_basis(model, model.tangent_stiffness(KEEPING[frame])), truth.tips) < EXACT
    assert difference(model.motion_map @ truth.tips, truth.bodies) < EXACT
    assert difference(model.coordinate_map @ truth.tips, truth.coordinates) < EXACT
    assert difference(model.tangent_compliance(KEEPING[frame]), truth.tips) < EXACT
    check_maps_agree(model)
    assert model.rank == mobility_seen(mech, tips, eq)


@pytest.mark.parametrize("seed", range(20))
def test_stiffness_for_loads_in_body_and_world_axes(seed):
    """One equilibrium, its loads going on as fixed in the world or in the body: two compliances."""
    rng, mech, tips = random_case(3 * seed)
    loads = {tip: 3 * rng.normal(size=6) for tip in tips}
    eq = supple.equilibrium(mech, loads)
    model = supple.reduce(mech, tips, at=eq)
    body = {tip: np.kron(np.eye(2), eq.poses[tip][:3, :3].T) @ loads[tip] for tip in tips}
    again = supple.equilibrium(mech, body, frame="body", start=eq)
    for frame, acting, start in (("world", loads, eq), ("body", body, again)):
        truth = response(mech, tips, start, frame, acting, step_for(model))
        assert difference(in_basis(model, model.tangent_stiffness(KEEPING[frame])), truth.tips) < EXACT
    assert difference(model.wrenches, np.concatenate([body[tip] for tip in tips])) < 1e-9


@pytest.mark.parametrize("seed", range(20))
def test_stiffness_at_stable_equilibria_under_forces_of_fixed_direction_is_positive(seed):
    rng, mech, tips = random_case(seed)
    eq = supple.equilibrium(mech, {tip: np.array([*(5 * rng.normal(size=3)), 0, 0, 0]) for tip in tips})
    model = supple.reduce(mech, tips, at=eq)
    world = model.basis.T @ model.tangent_stiffness("dead") @ model.basis
    np.testing.assert_allclose(world, world.T, atol=1e-9 * np.abs(world).max())
    if eq.stable:
        assert np.linalg.eigvalsh(world)[0] > 0
    raw = projection(linearised(mech, eq), tips).compliance  # the loads as they are: fixed in the world
    np.testing.assert_allclose(raw, raw.T, atol=1e-9 * np.abs(raw).max())


def everything_moved(mech: Mechanism, by: np.ndarray) -> Mechanism:
    joints = []
    for j in mech.joints:
        ends = {side: by @ getattr(j, side) for side, name in (("pose_parent", j.parent), ("pose_child", j.child))
                if name == "world"}  # fmt: skip
        joints.append(replace(j, **ends))
    return replace(
        mech,
        bodies=tuple(replace(b, pose=by @ b.pose) for b in mech.bodies),
        joints=tuple(joints),
        sites=tuple(replace(s, pose=by @ s.pose) if s.body == "world" else s for s in mech.sites),
        gravity=by[:3, :3] @ mech.gravity,
    )


@pytest.mark.parametrize("seed", range(12))
def test_moving_everything_rigidly_changes_nothing(seed):
    rng, mech, tips = random_case(seed)
    by = spatial.exp(rng.normal(size=6))
    other = everything_moved(mech, by)
    loads = {tip: rng.normal(size=6) for tip in tips}
    turned = {tip: np.kron(np.eye(2), by[:3, :3]) @ load for tip, load in loads.items()}
    pairs = [
        (supple.reduce(mech, tips), supple.reduce(other, tips)),
        (
            supple.reduce(mech, tips, at=supple.equilibrium(mech, loads)),
            supple.reduce(other, tips, at=supple.equilibrium(other, turned)),
        ),
    ]
    for a, b in pairs:
        for name in ("compliance", "stiffness", "mass", "damping", "twist_map", "motion_map", "coordinate_map"):
            assert difference(getattr(b, name), getattr(a, name)) < 1e-7, name
        np.testing.assert_allclose(b.rest_poses.array, by @ a.rest_poses.array, atol=1e-9)
        assert difference(b.wrenches, a.wrenches) < 1e-8 or not a.wrenches.any()


@pytest.mark.parametrize("seed", seeds(15, 30))
def test_wrench_map_balances_every_body(seed):
    """The wrench on a body, its own load included, equals the sum over the joints that support it."""
    _, mech, tips = random_case(seed)
    if redundant(mech):
        pytest.skip("statically indeterminate")
    model = supple.reduce(mech, tips)
    held = relaxed(mech)
    truth = response(held, tips, supple.equilibrium(held), "body", {}, step_for(model))

    topology = mech.topology
    taken = np.zeros_like(model.wrench_map)  # by the joints that hold each body, in its frame
    net = np.zeros_like(model.wrench_map)  # by all joints and loads
    for i, tip in enumerate(tips):
        body, pose = mech.frame(tip)
        net[body, :, 6 * i : 6 * i + 6] += spatial.adjoint(spatial.inverse(pose)).T
    for j, joint in enumerate(mech.joints):
        for name, sign in ((joint.child, 1.0), (joint.parent, -1.0)):
            b = mech.body_index(name)
            if b < 0:
                continue
            frame = spatial.inverse(mech.poses.of(name)) @ mech.poses.of(joint.child) @ joint.pose_child
            wrench = sign * spatial.adjoint(spatial.inverse(frame)).T @ truth.reactions[j]
            net[b] += wrench
            if topology.joint[b] == j or (j in topology.loops and name == joint.child):
                taken[b] -= wrench
    assert np.abs(net).max() < EXACT * np.abs(model.wrench_map).max()
    assert difference(model.wrench_map, taken) < EXACT


@pytest.mark.parametrize("seed", seeds(15, 30))
def test_set_points_act_as_in_statics(seed):
    """Springs of joints, of couplings, rigid couplings and motors, at rest and at an equilibrium."""
    kinds = [k for k in mechanisms.KINDS if seed % 2 or k not in ROTATION_VECTORS]
    loops = seed if seed % 4 == 0 else 3 * seed  # seldom: motors and rigid couplings easily lock a loop
    rng, mech, tips = random_case(loops, kinds=kinds, couplings=3 * (1 - seed % 2), motors=1 - seed % 2)
    names = [a for j in mech.joints for a, k in zip(j.axes, j.stiffness, strict=True) if k > 0]
    if not names or redundant(mech):
        pytest.skip("no springs, or motors that the rest locks")
    chosen = [str(rng.choice(names)), *(c.name for c in mech.couplings), *(m.name for m in mech.motors)]
    loads = {tip: rng.normal(size=6) for tip in tips}
    held = relaxed(mech)
    eq = supple.equilibrium(mech, loads, frame="body")
    cases = [(supple.reduce(mech, tips), held, supple.equilibrium(held), {})]
    cases.append((supple.reduce(mech, tips, at=eq), mech, eq, loads))
    for model, full, base, acting in cases:
        for name in chosen:
            rest = model.rest_target(name)
            targets = [{name: rest + size * SIZE / 2} for size in STEPS]
            ends = [supple.equilibrium(full, acting, frame="body", targets=t, start=base) for t in targets]
            truth = central(moved(full, base, ends, tips), SIZE / 2)
            displacement, twists, increments = model.target_effect(name)
            flat = np.concatenate([displacement, twists.ravel(), increments])
            assert np.abs(flat - truth[: len(flat)]).max() < EXACT * max(1.0, np.abs(flat).max()), name


# the published recursion


@pytest.mark.parametrize("seed", range(40))
def test_recursion_equals_projection_on_trees(seed):
    _, mech, tips = random_case(3 * seed)
    a, b = (supple.reduce(mech, tips, method=method) for method in ("projection", "recursion"))
    for name in ("compliance", "stiffness", "damping", "mass", "twist_map", "wrench_map", "motion_map",
                 "coordinate_map", "basis"):  # fmt: skip
        assert difference(getattr(b, name), getattr(a, name)) < 1e-10, name


def ring(rng: np.random.Generator, left: int, right: int, beyond: int) -> Mechanism:
    """Two chains from the world that meet in `top`, and a chain on it, with random hinges; joints in an order that
    makes the last one before `top` close the loop."""
    b = supple.Builder("ring")
    sides = {"left": left, "right": right, "beyond": beyond}
    place = {}
    for side, count in sides.items():
        for i in range(count):
            place[f"{side}{i}"] = rng.normal(size=3)
    place["top"] = rng.normal(size=3)
    for name, at in place.items():
        b.body(name, spatial.pose(spatial.so3_exp(rng.normal(size=3)), at), **mechanisms.random_inertia(rng))

    def tie(inner, outer):
        axis = rng.normal(size=3)
        b.hinge(f"{inner}_{outer}", inner, outer, rng.normal(size=3), axis, stiffness=rng.uniform(5, 50), damping=0.3)

    for side in ("left", "right"):
        chain = ["world", *(f"{side}{i}" for i in range(sides[side])), "top"]
        for inner, outer in pairwise(chain):
            tie(inner, outer)
    chain = ["top", *(f"beyond{i}" for i in range(beyond))]
    for inner, outer in pairwise(chain):
        tie(inner, outer)
    return b.build()


@pytest.mark.parametrize("seed", range(15))
def test_recursion_equals_projection_at_and_beyond_a_merge(seed):
    rng = np.random.default_rng(seed)
    mech = ring(rng, 5, 5, 2)
    tips = (["top"], ["beyond1"], ["top", "beyond1"])[seed % 3]
    a, b = (supple.reduce(mech, tips, method=method) for method in ("projection", "recursion"))
    assert a.rank == mobility_seen(mech, tips)
    for name in ("compliance", "stiffness", "damping", "mass", "twist_map", "wrench_map", "coordinate_map"):
        assert difference(getattr(b, name), getattr(a, name)) < 1e-10, name


@pytest.mark.parametrize("seed", range(15))
def test_accelerability_is_the_projected_inverse_mass(seed):
    _, mech, tips = random_case(seed)
    model = supple.reduce(mech, tips, mass="accelerability")
    if mech.topology.loops:
        linear = linearised(mech)
        tip_rows = [spatial.adjoint(spatial.inverse(mech.frame(t)[1])) @ linear.jacobian[:, mech.frame(t)[0]].T
                    for t in tips]  # fmt: skip
        jacobian, mass = np.vstack(tip_rows) @ linear.free, linear.mass
    else:
        jacobian = np.vstack([supple.jacobian(mech, tip) for tip in tips])
        mass = supple.mass_matrix(mech)
    truth = jacobian @ np.linalg.solve(mass, jacobian.T)
    assert difference(in_basis(model, model.mass), truth) < 1e-8


def refused(mech: Mechanism, tips: list[str]) -> bool:
    """Whether the recursion refuses a mechanism: couplings, or an end effector inside a loop."""
    try:
        recursion(mech, tips)
    except supple.MechanismError:
        return True
    return False


def dense_tips_and_dampers(mech: Mechanism, tips: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Twists of the end effectors (6e, m) and dampers (m, m) in the motions that loops, rigid couplings and motors
    leave, in rates of all coordinates."""
    rows, q = rigid_rows(mech)
    joints = [mech.joints[j] for j in (*mech.topology.tree, *mech.topology.loops)]
    names = [name for joint in joints for name in joint.axes]
    dampers, start = np.zeros((len(q), len(q))), 0
    for joint in joints:
        part = slice(start, start + len(joint.axes))
        speed = joint.increments(joint.reference)
        dampers[part, part] = speed.T @ np.diag(joint.damping) @ speed
        start = part.stop
    for coupling in mech.couplings:
        if not coupling.rigid:
            row = np.zeros(len(q))
            row[[names.index(name) for name in coupling.coordinates]] = coupling.coefficients
            dampers += coupling.damping * np.outer(row, row)
    free = np.eye(len(q))
    if rows.size:
        _, sizes, right = np.linalg.svd(rows)
        free = right[int((sizes > 1e-9 * sizes[0]).sum()) :].T
    jacobian = np.vstack([supple.jacobian(mech, tip) for tip in tips])
    return jacobian @ free[: mech.dof], free.T @ dampers @ free


def least_power(jacobian: np.ndarray, dampers: np.ndarray, basis: np.ndarray) -> np.ndarray:
    """(r, r): least power of the dampers over all motions that give the end effectors twists basis @ z, from the
    optimality conditions [[D, J^T], [J, 0]] [qd; -wrench] = [0; basis z]."""
    n, k = len(dampers), len(jacobian)
    conditions = np.block([[dampers, jacobian.T], [jacobian, np.zeros((k, k))]])
    twists = np.vstack([np.zeros((n, basis.shape[1])), basis])
    rates = np.linalg.lstsq(conditions, twists, rcond=1e-11)[0][:n]
    np.testing.assert_allclose(jacobian @ rates, basis, atol=1e-7 * np.abs(basis).max())
    return rates.T @ dampers @ rates


@pytest.mark.parametrize("seed", seeds(20, 40))
def test_published_damping_is_the_projected_inverse_damping(seed):
    """J D^-1 J^T with the dampers of joints and couplings, by projection and, where it is exact, by recursion."""
    kinds = [kind for kind in mechanisms.KINDS if seed % 2 or kind not in ROTATION_VECTORS]
    _, mech, tips = random_case(seed, kinds=kinds, couplings=3 * (seed % 2 == 0), motors=int(seed % 5 == 0))
    jacobian, dampers = dense_tips_and_dampers(mech, tips)
    truth = jacobian @ np.linalg.solve(dampers, jacobian.T)
    model = supple.reduce(mech, tips, mass="accelerability")
    assert difference(in_basis(model, model.damping), truth) < 1e-8
    if not refused(mech, tips) and not ignored_merges(mech, tips):
        model = supple.reduce(mech, tips, mass="accelerability", method="recursion")
        assert difference(in_basis(model, model.damping), truth) < 1e-8


@pytest.mark.parametrize("seed", seeds(15, 30))
def test_published_damping_of_axes_without_dampers_takes_the_least_power(seed):
    """The limit of J D^-1 J^T: zero damping for twists that undamped axes produce by themselves."""
    rng, mech, tips = random_case(seed, couplings=2 * (seed % 2))
    joints = tuple(replace(j, damping=j.damping * (rng.random(len(j.axes)) < 0.5)) for j in mech.joints)
    mech = replace(mech, joints=joints)
    for method in ("projection", "recursion"):
        if method == "recursion" and refused(mech, tips):
            continue
        model = supple.reduce(mech, tips, mass="accelerability", method=method)
        truth = least_power(*dense_tips_and_dampers(mech, tips), model.basis)
        small = model.basis.T @ model.damping @ model.basis
        np.testing.assert_allclose(small, truth, atol=1e-6 * max(np.abs(truth).max(), 1e-3))
        assert np.linalg.eigvalsh(small)[0] > -1e-9 * max(np.abs(truth).max(), 1e-3)


def test_published_damping_has_the_dampers_of_couplings():
    """Two hinges of 0.5 N m s/rad and a coupling (1, -1) of 20: the audit's example."""
    b = supple.Builder("coupled", gravity=(0, 0, 0))
    for i in range(2):
        b.link(f"link{i}", (0.5 * i, 0, 0), (0.5 * i + 0.5, 0, 0), mass=1.0)
        b.hinge(f"hinge{i}", f"link{i - 1}" if i else "world", f"link{i}", (0.5 * i, 0, 0), "z",
                stiffness=10.0, damping=0.5)  # fmt: skip
    b.couple("spring", {"hinge0": 1.0, "hinge1": -1.0}, stiffness=1.0, damping=20.0)
    mech = b.build()
    model = supple.reduce(mech, ["link1"], mass="accelerability")
    jacobian = supple.jacobian(mech, "link1")
    dampers = np.diag([0.5, 0.5]) + 20.0 * np.outer([1, -1], [1, -1])
    truth = jacobian @ np.linalg.solve(dampers, jacobian.T)
    assert difference(in_basis(model, model.damping), truth) < 1e-12
    without = np.linalg.inv(model.cobasis @ (jacobian @ jacobian.T / 0.5) @ model.cobasis.T)
    largest = [np.linalg.eigvalsh(each)[-1] for each in (model.basis.T @ model.damping @ model.basis, without)]
    assert largest[0] > 20 * largest[1]


@pytest.mark.parametrize("seed", range(15))
def test_consistent_mass_and_damping_are_those_of_the_joints(seed):
    """On trees: the joint-space mass matrix, armatures included, and the dampers, in the motion that the maps say."""
    _, mech, tips = random_case(3 * seed)
    model = supple.reduce(mech, tips)
    rates = model.coordinate_map @ model.basis @ model.cobasis
    dampers = np.concatenate([j.damping for j in mech.joints])
    assert difference(model.damping, rates.T @ (dampers[:, None] * rates)) < 1e-9
    by_q, start = [], 0
    for joint in mech.joints:
        part = rates[start : start + len(joint.axes)]
        by_q.append(np.linalg.solve(joint.increments(joint.reference), part))
        start += len(joint.axes)
    by_q = np.concatenate([by_q[j] for j in mech.topology.tree])
    assert difference(model.mass, by_q.T @ supple.mass_matrix(mech) @ by_q) < 1e-9


# loads that make the stiffness indefinite


def random_arm(seed: int) -> tuple[np.random.Generator, Mechanism, str]:
    """Seven hinges with random axes."""
    rng = np.random.default_rng(seed)
    b = supple.Builder("arm", gravity=(0, 0, 0))
    start = np.zeros(3)
    for i in range(7):
        end = start + 0.2 * rng.normal(size=3)
        b.link(f"link{i}", start, end, mass=rng.uniform(0.2, 1))
        parent, axis = f"link{i - 1}" if i else "world", rng.normal(size=3)
        springs = {"stiffness": rng.uniform(5, 50), "damping": rng.uniform(0.05, 0.5)}
        b.hinge(f"hinge{i}", parent, f"link{i}", start, axis, **springs)
        start = end
    return rng, b.build(), "link6"


def loaded_arm(seed: int, size: float) -> tuple[supple.ReducedModel, np.ndarray]:
    """A model at the equilibrium under a force (and a torque, for even seeds) that a linear model says moves the tip
    by `size` radii, and that load."""
    rng, mech, tip = random_arm(seed)
    wrench = rng.normal(size=6)
    wrench[3:] *= 0.0 if seed % 2 else mech.radius
    moved = supple.reduce(mech, [tip]).compliance @ wrench / ([mech.radius] * 3 + [1.0] * 3)
    wrench *= size / np.linalg.norm(moved)
    return supple.reduce(mech, [tip], at=supple.equilibrium(mech, {tip: wrench})), wrench


def matrices_under_load(model: supple.ReducedModel, wrench: np.ndarray) -> list[np.ndarray]:
    """Mass, damping and stiffness in the admissible space with a world-fixed load on the one end effector; the load's
    generalised force E^T Jr^T w differentiated by differences."""
    pose, basis = model.end_effector_poses[0], model.basis

    def force(y: np.ndarray) -> np.ndarray:
        xi = basis @ y
        turn = (pose[:3, :3] @ spatial.so3_exp(xi[3:])).T
        return basis.T @ spatial.right_jacobian(xi).T @ np.kron(np.eye(2), turn) @ wrench

    units = 1e-5 * np.eye(basis.shape[1])
    slope = np.array([(force(unit) - force(-unit)) / 2e-5 for unit in units]).T
    mass, damping, stiffness = (basis.T @ each @ basis for each in (model.mass, model.damping, model.stiffness))
    return [mass, damping, stiffness - slope]


def growth(mass: np.ndarray, damping: np.ndarray, stiffness: np.ndarray) -> float:
    """Largest real part of the eigenvalues of M y'' + D y' + K y = 0."""
    n = len(mass)
    rows = [np.zeros((n, n)), np.eye(n)], [-np.linalg.solve(mass, stiffness), -np.linalg.solve(mass, damping)]
    return float(np.linalg.eigvals(np.block([*rows])).real.max())


def amplification(sim: supple.ReducedSimulation) -> float:
    """Spectral radius of one time step about the present state, by differences."""
    start = sim.save()
    flat = np.concatenate(start.state)

    def stepped(state: np.ndarray) -> np.ndarray:
        sim.restore(replace(start, state=tuple(np.split(state, 2))))
        sim.step()
        return np.concatenate(sim.save().state)

    units = 1e-6 * np.eye(len(flat))
    columns = [(stepped(flat + unit) - stepped(flat - unit)) / 2e-6 for unit in units]
    sim.restore(start)
    return float(np.abs(np.linalg.eigvals(np.array(columns).T)).max())


@pytest.mark.parametrize("seed", range(24))
def test_steps_of_a_model_made_under_load_are_stable(seed):
    """Wherever the linear model is stable in continuous time, so is its time stepping, however long the step."""
    model, wrench = loaded_arm(seed, 6.0)
    rate = growth(*matrices_under_load(model, wrench))
    for dt in (1e-3, 1e-2, 0.05, 0.2):
        sim = supple.ReducedSimulation(model, dt)
        assert sim._motion.growth_rate == pytest.approx(max(rate, 0.0), rel=1e-4, abs=1e-5)
        if rate < -1e-3:
            assert amplification(sim) < 1.0


def test_a_loaded_arm_that_was_unstable_with_explicit_geometric_stiffness():
    model, _ = loaded_arm(29, 6.0)
    assert np.linalg.eigvalsh(model.basis.T @ model.stiffness @ model.basis)[0] < -10
    sim = supple.ReducedSimulation(model, 0.05)
    assert amplification(sim) == pytest.approx(0.905, abs=0.005)
    sim.apply("link6", 1.01 * np.array(model.at.loads[0].wrench))
    sim.step(2000)
    eq = supple.equilibrium(model.mechanism, {"link6": 1.01 * model.at.loads[0].wrench}, start=model.at)
    assert np.abs(sim.poses["link6"] - eq.poses["link6"]).max() < 1e-3


def test_steps_with_a_handle_in_place_of_the_load_are_stable():
    model, wrench = loaded_arm(29, 6.0)
    sim = supple.ReducedSimulation(model, 0.05)
    sim.apply("link6", np.zeros(6))
    stiffness = 200.0
    sim.pull("link6", model.end_effector_poses[0, :3, 3] + wrench[:3] / stiffness, stiffness, 1.0)
    assert amplification(sim) < 1.0
    sim.step(2000)
    assert np.abs(sim.displacement).max() < 1e-6


def test_an_unstable_linear_model_raises():
    model, _ = loaded_arm(29, 6.0)
    sim = supple.ReducedSimulation(model, 0.01)
    sim.apply("link6", np.zeros(6))  # its stiffness alone is not positive
    assert sim._motion.growth_rate > 0
    with pytest.raises(supple.ConvergenceError, match=r"linear model is unstable under.*supple\.reduce"):
        sim.step(200_000)
    sim.reset()
    sim.apply("link6", np.zeros(6))
    raised = None
    while raised is None:
        try:
            sim.step(20)
        except supple.ConvergenceError as error:
            raised = error
    assert "linear model is unstable under" in str(raised)
    far = np.abs(sim.displacement).max() / model.mechanism.radius
    assert 1e3 < far < 1e5  # it does not wait for an overflow


def test_a_stable_linear_model_under_a_large_load():
    model = supple.reduce(supple.library.ladder(3), ["tip"])
    sim = supple.ReducedSimulation(model, 0.05)
    sim.apply("tip", [0, 1e7, 0, 0, 0, 0], frame="body")  # in world axes the motion would be chaotic
    sim.step(200)
    assert np.abs(sim.displacement).max() > 1e3 * model.mechanism.radius


# links of the model


@pytest.mark.parametrize("seed", range(15))
def test_links_follow_the_maps_and_reconstructed_joints_are_closed(seed):
    rng, mech, tips = random_case(seed)
    model = supple.reduce(mech, tips)
    loads = {tip: 0.02 / step_for(model) * rng.normal(size=6) for tip in tips}
    sims = {r: supple.ReducedSimulation(model, 1e-2, reconstruction=r) for r in ("twist", "joints")}
    for sim in sims.values():
        for tip, load in loads.items():
            sim.apply(tip, load, frame="body")
        sim.step(30)
    twist, joints = sims["twist"], sims["joints"]
    xi = twist.displacement
    np.testing.assert_allclose(joints.displacement, xi, atol=1e-14)
    expected = model.rest_poses.array @ spatial.exp(model.motion_map @ xi)
    np.testing.assert_allclose(twist.poses.array, expected, atol=1e-13)
    for i, tip in enumerate(tips):
        pose = model.rest_poses[tip] @ spatial.exp(xi[6 * i : 6 * i + 6])
        np.testing.assert_allclose(twist.end_effector_pose(tip), pose, atol=1e-13)
        np.testing.assert_allclose(twist.poses[tip], pose, atol=1e-12)
    apart = joints.separation.joints
    tree = [mech.joints[j].name for j in mech.topology.tree]
    assert max(apart[name] for name in tree) < 1e-9 * max(mech.radius, 1.0)
    size = np.abs(xi).max()
    near = np.abs(joints.poses.array - twist.poses.array).max()
    assert near < 30 * size**2 + 1e-12  # they agree to first order


@pytest.mark.parametrize("seed", range(6))
def test_files_keep_every_bit(seed, tmp_path):
    rng, mech, tips = random_case(seed, couplings=2, motors=1)
    eq = supple.equilibrium(mech, {tips[0]: rng.normal(size=6)}, frame=("body", "world")[seed % 2])
    for at in (None, eq):
        model = supple.reduce(mech, tips, at=at)
        model.save(tmp_path / "model.npz")
        again = supple.ReducedModel.load(tmp_path / "model.npz")
        for name in ("compliance", "stiffness", "damping", "mass", "twist_map", "wrench_map", "motion_map",
                     "coordinate_map", "basis", "cobasis", "wrenches", "q"):  # fmt: skip
            np.testing.assert_array_equal(getattr(again, name), getattr(model, name))
        assert again.mechanism == mech
        assert (again.rank, again.end_effectors, again.method) == (model.rank, model.end_effectors, model.method)
        states = []
        for each in (model, again):
            sim = supple.ReducedSimulation(each, 1e-3, reconstruction="joints")
            sim.apply(tips[0], 0.1 * np.ones(6))
            for motor in mech.motors:
                sim.set_target(motor.name, model.rest_target(motor.name) + 0.01)
            sim.step(20)
            states.append([sim.displacement, sim.poses.array, *sim.coordinates.values()])
        for a, b in zip(*states, strict=True):
            np.testing.assert_array_equal(a, b)
