"""Adaptive linkages against MuJoCo, Pinocchio and the engine; the stated error bound holds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import mujoco
import numpy as np
import pytest

import exact_linkage
import mechanisms
import mujoco_reference as reference
import supple
from linkages import joint_columns, loaded, random_linkage, squares_below, true_error
from random_cases import seeds
from supple.linkage.adaptive import MEASURES
from supple.linkage.stability import largest_frequency

WRITABLE = ("hinge", "slide", "cylindrical", "universal", "planar", "ball")
"""Joints that MJCF has."""


# the exact pass


def mujoco_accelerations(mech, loads, folder):
    """(dof,) accelerations at rest by MuJoCo; of balls and free bodies, angular ones in body axes."""
    path = Path(folder) / "mechanism.xml"
    mech.save(path)
    model = mujoco.MjModel.from_xml_path(str(path))
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT | mujoco.mjtDisableBit.mjDSBL_CONSTRAINT
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    for body, wrench in loads.items():
        index = model.body(mech.bodies[body].name).id
        at = data.xpos[index]
        mujoco.mj_applyFT(model, data, wrench[:3], wrench[3:], at, index, data.qfrc_applied)
    mujoco.mj_forward(model, data)
    order = [n for j in range(model.njnt) for n in _axes(model, mech, j)]
    result = np.empty(mech.dof)
    result[[mech.coordinates.index(n) for n in order]] = data.qacc
    return result


def in_body_axes(mech, accelerations):
    """Ours, with the angular accelerations of rotation vectors in the axes of the child instead of the joint's."""
    result = accelerations.copy()
    for j in mech.topology.tree:
        joint = mech.joints[j]
        if 3 in joint.blocks:
            turn = mech.topology.columns[j].stop - 3 + np.arange(3)
            result[turn] = joint.pose_child[:3, :3] @ joint.twists[-3:, 3:].T @ accelerations[turn]
    return result


def _axes(model, mech, j):
    """Names of the coordinates of a MuJoCo joint."""
    name = model.joint(j).name
    if name in mech.coordinates:
        return [name]
    return mech.joint(name).axes


@pytest.mark.parametrize("bodies", [1, 5, 40, 120, 300])
@pytest.mark.parametrize("seed", [0, 1])
def test_the_full_pass_agrees_with_mujoco(bodies, seed, tmp_path):
    rng = np.random.default_rng(seed + 10 * bodies)
    mech = mechanisms.random_mechanism(
        rng, bodies, WRITABLE, branching=0.4 * seed + 0.1, free_base=bool(seed), mjcf=True, shapes=False, reversing=0.0
    )
    loads = {int(b): rng.normal(size=6) for b in rng.integers(bodies, size=3)}
    expected = mujoco_accelerations(mech, loads, tmp_path)
    chain = loaded(mech, loads)
    info = chain.accelerate()
    assert info.computed == len(joint_columns(mech))
    assert info.error_bound <= 1e-7  # the rounding term alone
    assert np.abs(in_body_axes(mech, chain.accelerations) - expected).max() <= 1e-9 * np.abs(expected).max()


@pytest.mark.parametrize("bodies", [10, 60, 300])
def test_the_full_pass_agrees_with_pinocchio(bodies):
    pinocchio = pytest.importorskip("pinocchio")
    rng = np.random.default_rng(bodies)
    parts = [mechanisms.random_inertia(rng) for _ in range(bodies)]
    inertia = {key: np.array([part[key] for part in parts]) for key in ("mass", "centre", "inertia")}
    tree = replace(supple.library.molecule(bodies, branching=0.3), **inertia, gravity=(1.0, -2.0, 3.0))
    model = pinocchio.Model()
    model.gravity.linear = tree.gravity
    for i, frame in enumerate(tree.pose_parent):  # parents come first; the joint's frame is the body's
        place = pinocchio.SE3(frame[:3, :3], frame[:3, 3])
        index = model.addJoint(int(tree.parent[i]) + 1, pinocchio.JointModelRZ(), place, f"joint_{i}")
        body = pinocchio.Inertia(float(tree.mass[i]), tree.centre[i], tree.inertia[i])
        model.appendBodyToJoint(index, body, pinocchio.SE3.Identity())
    q, torques = rng.uniform(-2, 2, bodies), rng.normal(size=bodies)
    expected = pinocchio.aba(model, model.createData(), q, np.zeros(bodies), torques)
    chain = supple.AdaptiveLinkage(tree)
    chain.coordinates = q
    for i, torque in enumerate(torques):
        chain.set_joint_force(i, torque)
    chain.accelerate()
    assert np.abs(chain.accelerations - expected).max() <= 1e-9 * np.abs(expected).max()


@pytest.mark.parametrize("seed", range(12))
def test_the_full_pass_solves_the_equations_of_motion(seed):
    """M qdd = forces with the mass matrix of `supple.mass_matrix`: every kind of joint, reversed ones, curves."""
    rng = np.random.default_rng(seed)
    mech, loads = random_linkage(rng, int(rng.integers(2, 60)), sprung=seed % 2 == 0)
    state, forces = supple.kinematics(mech), reference.spring_forces(mech, mech.reference, np.zeros(mech.dof))
    for i, body in enumerate(mech.bodies):
        turn = state.poses[body.name][:3, :3].T
        weight = turn @ mech.gravity * body.mass
        wrench = np.concatenate([weight, np.cross(body.centre, weight)])
        if i in loads:
            wrench += np.concatenate([turn @ loads[i][:3], turn @ loads[i][3:]])
        forces += state.jacobian(body.name).T @ wrench
    expected = np.linalg.solve(supple.mass_matrix(mech), forces)
    for j in mech.topology.tree:  # rates of rotation vectors to angular accelerations
        columns = mech.topology.columns[j]
        expected[columns] = mech.joints[j].increments(mech.reference[columns]) @ expected[columns]
    chain = loaded(mech, loads)
    chain.accelerate()
    np.testing.assert_allclose(chain.accelerations, expected, rtol=0, atol=1e-9 * np.abs(expected).max())


@pytest.mark.parametrize("seed", seeds(5, 10))
def test_total_accelerations_are_sums_of_squares(seed):
    rng = np.random.default_rng(seed)
    mech, loads = random_linkage(rng, int(rng.integers(100, 300)))
    chain = loaded(mech, loads)
    assert chain._core.advance(0.0, 0.0, 0, False, np.inf, -1)[2] == -1  # by the queue, down to the last joint
    true, found = squares_below(chain), chain._core.node_totals()
    rounding = loaded(mech, loads, measure="relative_linkage").accelerate().error_bound  # all joints are computed
    assert 1e-9 < rounding < 1e-7
    assert np.abs(found - true).max() <= 3 * rounding * true[-1]  # totals include their rounding term
    assert (found >= true * (1 - 1e-13)).all()
    assert np.sqrt(found[-1] / true[-1]) - 1 <= rounding  # that of the whole tree: (1 + rounding term)^2


# rounding


@pytest.mark.parametrize("hub", [1.0, 0.1, 0.01, 1e-3, 1e-4])
def test_a_light_hub_between_heavy_arms_loses_no_digits(hub):
    """Inverse inertias, as in eq. 2, lose up to all digits here."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        tree, loads = exact_linkage.hub_tree(rng, hub), {b: rng.normal(size=6) for b in range(5)}
        mass, forces = exact_linkage.equations(tree, loads)
        exact = exact_linkage.solve(mass, forces)
        chain = loaded(tree, loads, measure="relative_linkage")
        info = chain.accelerate()
        error = exact_linkage.true_error("relative_linkage", tree, exact, chain.accelerations)
        assert error <= 1e-14 * exact_linkage.condition(mass)
        assert error <= info.error_bound <= 1e-6


def test_the_long_double_reference_agrees_with_forty_digits():
    for seed in range(3):
        rng = np.random.default_rng(seed)
        tree = exact_linkage.graded_tree(rng, 6)
        loads = {0: rng.normal(size=6)}
        exact = exact_linkage.exact_accelerations(tree, loads, digits=40)
        long = exact_linkage.exact_accelerations(tree, loads)
        assert np.abs(long - exact).max() <= 1e-12 * np.abs(exact).max()


def test_the_bound_holds_with_masses_over_eight_decades():
    checked = [exact_linkage.count_exceeded(seed) for seed in range(60)]
    assert sum(failed for failed, _ in checked) == 0
    assert max(error for _, error in checked) <= 1e-12


@pytest.mark.long
@pytest.mark.parametrize("first", range(0, 3500, 250))
def test_the_bound_holds_in_14000_checks(first):
    checked = [exact_linkage.count_exceeded(seed) for seed in range(first, first + 250)]
    assert sum(failed for failed, _ in checked) == 0
    assert max(error for _, error in checked) <= 1e-12


# the bound


def check_the_bound(seed, bodies):
    rng = np.random.default_rng(seed)
    mech, loads = random_linkage(rng, int(rng.integers(2, bodies)))
    columns, measure = joint_columns(mech), MEASURES[seed % 4]
    chain = loaded(mech, loads, measure=measure)
    if rng.random() < 0.7:
        chain.set_gravity((0, 0, 0))
    chain.accelerate()
    exact = chain.accelerations
    chain.error = float(10 ** rng.uniform(-7, 0) * (1 if measure.startswith("relative") else np.abs(exact).max()))
    info = chain.accelerate()
    error = true_error(measure, exact, chain.accelerations, columns)
    assert error <= info.error_bound * (1 + 1e-9), (seed, measure)
    # with every joint computed, what is left is the rounding term, which may exceed a very small error
    assert info.error_bound <= chain.error or info.computed == len(columns)
    names = {mech.joints[j].name for j in info.moved}
    assert len(names) == info.computed
    for c in columns:  # what was computed is right; the rest is zero
        joint = next(mech.joints[j].name for j in mech.topology.tree if mech.topology.columns[j] == c)
        expected = exact[c] if joint in names else 0 * exact[c]
        np.testing.assert_allclose(chain.accelerations[c], expected, rtol=0, atol=1e-9 * np.abs(exact).max())


@pytest.mark.parametrize("block", seeds(4, 8))
def test_the_true_error_never_exceeds_the_bound(block):
    for seed in range(25 * block, 25 * block + 25):
        check_the_bound(seed, 40)


@pytest.mark.long
@pytest.mark.parametrize("first", range(1000, 3000, 100))
def test_the_true_error_never_exceeds_the_bound_in_2000_linkages(first):
    for seed in range(first, first + 100):
        check_the_bound(seed, 200)


@pytest.mark.parametrize("measure", MEASURES)
def test_the_error_decreases_with_refinement(measure):
    rng = np.random.default_rng(7)
    mech, loads = random_linkage(rng, 60, sprung=False)
    chain = loaded(mech, loads, measure=measure)
    chain.accelerate()
    exact, columns = chain.accelerations, joint_columns(mech)
    bounds, errors = [], []
    for most in range(len(columns) + 1):
        _, bound, _ = chain._core.advance(0.0, 0.0, MEASURES.index(measure), False, np.inf, most)
        bounds.append(bound)
        errors.append(true_error(measure, exact, chain.accelerations, columns))
        assert errors[-1] <= bound * (1 + 1e-9)
    assert (np.diff(bounds) <= 0).all()
    assert (np.diff(errors) <= 1e-12 * errors[0]).all()
    assert errors[-1] <= 1e-12 * max(errors[0], 1)


# lazy updates


def check_lazy(chain, steps, dt):
    chain._core.set_switching(False)
    for _ in range(steps):
        chain.step(dt)
    chain.accelerate()
    lazy = chain._core.coefficients()
    assert chain._core.rebuild(True)
    fresh = chain._core.coefficients()
    again = supple.AdaptiveLinkage(chain.tree, error=chain.error)
    again.coordinates = chain._core.q()
    np.testing.assert_allclose(again.poses.array, chain.poses.array, atol=1e-9)
    np.testing.assert_array_equal(lazy, fresh)


@pytest.mark.parametrize("error", [2.0**-3, 2.0**-11])
def test_coefficients_after_lazy_steps_equal_those_of_a_full_pass(error):
    chain = supple.AdaptiveLinkage(supple.library.molecule(400, branching=0.05), error)
    rng = np.random.default_rng(0)
    for body in rng.integers(400, size=3):
        chain.apply(int(body), rng.normal(size=6) * [1, 1, 1, 0.01, 0.01, 0.01])
    check_lazy(chain, 4000, 1e-3)


def test_lazy_steps_with_springs_gravity_and_changing_loads():
    rng = np.random.default_rng(3)
    mech, loads = random_linkage(rng, 50, sprung=True, free_base=False)
    chain = loaded(mech, loads, error=0.05)
    dt = 0.2 / largest_frequency(chain.tree, chain._core)
    for _ in range(40):
        chain.apply(int(rng.integers(50)), rng.normal(size=6), frame=str(rng.choice(["world", "body"])))
        chain.set_gravity(rng.normal(size=3))
        for _ in range(5):
            chain.step(dt)
    check_lazy(chain, 5, dt)


def test_lazy_and_full_steps_agree_if_all_joints_are_computed():
    mech, loads = random_linkage(np.random.default_rng(5), 30, sprung=False)
    complete, lazy = loaded(mech, loads), loaded(mech, loads, error=1e-13, measure="relative_linkage")
    for _ in range(30):
        complete.step(1e-2)
        lazy.step(1e-2)
    np.testing.assert_allclose(lazy.poses.array, complete.poses.array, atol=1e-9)


# the cheaper of an adaptive and a full pass


def scattered(joints, forces, error):
    chain = supple.AdaptiveLinkage(supple.library.molecule(joints), error)
    rng = np.random.default_rng(5)
    for body in rng.choice(joints, size=forces, replace=False):
        chain.apply(int(body), [*rng.normal(size=3), 0, 0, 0])
    return chain


def test_no_load_costs_more_than_1_2_full_passes():
    for forces in (1, 10, 40, 100, 400):
        chain = scattered(4000, forces, 2.0**-19)
        chain.step(1e-3)  # prepares the total accelerations
        spent = []
        for _ in range(40):
            info = chain.step(1e-3)
            spent.append(chain._core.operations / chain._core.full_operations)
            assert info.error_bound <= 2.0**-19
        assert np.mean(spent) <= 1.2
        if forces == 1:
            assert max(spent) < 0.2
        if forces == 400:
            assert info.computed == 4000


def test_a_full_pass_in_place_of_an_adaptive_one_is_exact():
    adaptive, exact = scattered(2000, 200, 2.0**-19), scattered(2000, 200, 0.0)
    for _ in range(5):
        info, other = adaptive.step(1e-3), exact.step(1e-3)
    assert info.computed == other.computed == 2000
    adaptive.coordinates = exact.coordinates
    adaptive.error = 0.0
    adaptive.accelerate()
    exact.accelerate()
    np.testing.assert_array_equal(adaptive.accelerations, exact.accelerations)


def test_adaptive_passes_resume_when_few_loads_remain():
    chain = scattered(4000, 400, 2.0**-11)
    for _ in range(3):
        chain.step(1e-3)
    assert chain.step(1e-3).computed == 4000
    rng = np.random.default_rng(5)
    for body in rng.choice(4000, size=400, replace=False)[1:]:
        chain.apply(int(body), np.zeros(6))
    for _ in range(40):
        info = chain.step(1e-3)
    assert info.computed < 200
    assert info.error_bound <= 2.0**-11


# where it ends up


def test_steps_lead_to_the_engines_equilibrium():
    mech = supple.library.helix(10, gravity=(0, 0, -1.0))
    loads = {"tip": [5.0, 0, -8, 0, 0.5, 0]}
    goal = supple.equilibrium(mech, loads)
    chain = supple.AdaptiveLinkage(mech)
    chain.apply("tip", loads["tip"])
    dt = 1.9 / largest_frequency(chain.tree, chain._core)
    for _ in range(20_000):
        chain.step(dt)
    np.testing.assert_allclose(chain.poses.array, goal.poses.array, atol=1e-7)


def test_the_largest_time_step_follows_from_the_fastest_mode():
    mech = supple.library.helix(12)
    chain = supple.AdaptiveLinkage(mech)
    fastest = float(supple.modes(mech).frequencies.max()) * 2 * np.pi
    assert largest_frequency(chain.tree, chain._core) == pytest.approx(fastest, rel=1e-6)
    chain.apply("tip", [0, 1e-6, 0, 0, 0, 0])
    with pytest.warns(supple.RangeWarning, match="unstable"):
        chain.step(2.1 / fastest)
    for _ in range(300):
        chain.step(2.1 / fastest)
    grown = np.abs(chain.coordinates).max()
    calm = supple.AdaptiveLinkage(mech)
    calm.apply("tip", [0, 1e-6, 0, 0, 0, 0])
    for _ in range(300):
        calm.step(1.9 / fastest)
    assert grown > 1e3 * np.abs(calm.coordinates).max()


def test_penalty_forces_leave_smaller_gaps_with_shorter_steps():
    mech = mechanisms.four_bar(stiffness=50.0)
    goal = supple.equilibrium(mech, {"coupler": [20.0, 0, 0, 0, 0, 0]})
    gaps, misses = [], []
    for dt, steps in ((0.02, 250), (0.01, 1000)):
        chain = supple.AdaptiveLinkage(mech, loops="penalty")
        chain.apply("coupler", [20.0, 0, 0, 0, 0, 0])
        for _ in range(steps):
            info = chain.step(dt)
        gaps.append(info.gap)
        misses.append(np.abs(chain.poses.array - goal.poses.array).max())
    assert gaps[1] == pytest.approx(gaps[0] / 4, rel=0.05)
    assert misses[1] == pytest.approx(misses[0] / 4, rel=0.1)
    assert misses[1] < 0.01
