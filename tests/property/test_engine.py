"""Properties of the equations of every mechanism: exact tangent, forces from energies, balance, momentum."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import engine_reference as reference
import mechanisms
import supple
from supple.engine.assembly import equations, loads
from supple.engine.linearisation import Linearisation, linearised

SEEDS = st.integers(0, 2**32 - 1)
few = settings(max_examples=15)
MIXED = [k for k in mechanisms.KINDS if k not in reference.ROTATION_VECTORS]


def wrench_on_some_body(mech: supple.Mechanism, rng: np.random.Generator, size: float = 2.0):
    return {mech.bodies[rng.integers(len(mech.bodies))].name: size * rng.normal(size=6)}


def linearised_at(eq: supple.engine.Equilibrium) -> Linearisation:
    return Linearisation.at(equations(eq.mechanism), eq.acting, eq.state)


def tangent_error(linear: Linearisation, rng: np.random.Generator, step: float = 1e-5) -> float:
    """Difference of the tangent from central differences of the residual, along a motion that keeps loops
    and rows closed: x solves  tangent x = e  with e in the coordinates' rows."""
    places = linear.layout
    tangent = reference.dense_tangent(linear)
    e = np.zeros(places.size)
    e[places.coordinates] = rng.normal(size=len(places.coordinates))
    x = np.linalg.lstsq(tangent, e, rcond=1e-11)[0]
    x /= np.abs(x).max()

    def residual(alpha: float) -> np.ndarray:
        return linear.core.moved(x, alpha).residual

    difference = (residual(step) - residual(-step)) / (2 * step)
    expected = tangent @ x
    rows = reference.residual_rows(linear.equations)
    return float(np.abs((difference + expected)[rows]).max() / max(1.0, np.abs(expected).max()))


@few
@given(SEEDS)
def test_tangent_is_exact_at_an_equilibrium(seed):
    rng = np.random.default_rng(seed)
    mech = reference.unlimited(mechanisms.random_mechanism(rng, 5, loops=seed % 3))
    eq = supple.equilibrium(mech, wrench_on_some_body(mech, rng))
    assert tangent_error(linearised_at(eq), rng) < 1e-7


@few
@given(SEEDS)
def test_tangent_is_exact_with_couplings_motors_and_limits(seed):
    rng = np.random.default_rng(seed)
    mech = mechanisms.random_mechanism(rng, 5, MIXED, couplings=3, motors=1)
    eq = supple.equilibrium(mech, wrench_on_some_body(mech, rng))
    assert tangent_error(linearised_at(eq), rng) < 1e-7


@few
@given(SEEDS)
def test_tangent_is_exact_far_from_equilibrium(seed):
    rng = np.random.default_rng(seed)
    mech = reference.unlimited(mechanisms.random_mechanism(rng, 5, MIXED, loops=seed % 3))
    eqs = equations(mech)
    both = loads(mech, wrench_on_some_body(mech, rng)) + loads(mech, wrench_on_some_body(mech, rng), "body")
    _, reactions, mu = eqs.zero_state()
    q = reference.closed_coordinates(mech, rng)
    linear = Linearisation.at(eqs, eqs.acting(both), (q, rng.normal(size=reactions.shape), mu))
    assert tangent_error(linear, rng) < 1e-7


@few
@given(SEEDS, st.booleans())
def test_forces_are_the_gradient_of_the_energy(seed, coupled):
    rng = np.random.default_rng(seed)
    kinds, options = (MIXED, {"couplings": 2}) if coupled else (mechanisms.KINDS, {})
    mech = reference.unlimited(mechanisms.random_mechanism(rng, 5, kinds, loops=seed % 2, **options))
    eqs = equations(mech)
    body = int(rng.integers(len(mech.bodies)))
    force = rng.normal(size=3)  # a dead force is conservative; a torque fixed in the world is not
    acting = eqs.acting(loads(mech, {mech.bodies[body].name: [*force, 0, 0, 0]}))
    q, reactions, mu = eqs.zero_state()
    linear = Linearisation.at(eqs, acting, (q + rng.uniform(-0.4, 0.4, len(q)), reactions, mu))
    rhs = linear.core.residual
    x = np.zeros(eqs.layout.size)
    x[eqs.layout.coordinates] = rng.normal(size=len(q))

    def energy(alpha: float) -> float:
        moved = linear.core.moved(x, alpha)
        return sum(moved.energies) - force @ moved.poses[body][:3, 3]

    step = 1e-5
    slope = (energy(step) - energy(-step)) / (2 * step)
    assert -(rhs @ x) == pytest.approx(slope, abs=1e-7 * max(1.0, np.abs(rhs).max()))


@few
@given(SEEDS, st.integers(0, 2), st.booleans())
def test_equilibria_balance_and_close(seed, loops, limited):
    rng = np.random.default_rng(seed)
    mech = mechanisms.random_mechanism(rng, 6, loops=loops)
    if not limited:
        mech = reference.unlimited(mech)
    eq = supple.equilibrium(mech, wrench_on_some_body(mech, rng))
    linear = linearised_at(eq)
    assert np.abs(linear.core.gaps).max() < 1e-10 * max(1.0, mech.radius)
    assert eq.residual < 1e-9
    assert eq.load_fraction == 1
    if not limited:
        force, gaps, rows = reference.statics_residual(linear.equations, list(eq.loads), *eq.state)
        assert np.abs(force).max(initial=0.0) < 1e-8
        assert np.abs(gaps).max(initial=0.0) < 1e-10
        assert np.abs(rows).max(initial=0.0) < 1e-10
    for joint in mech.joints:
        q = eq.coordinates[joint.name]
        assert (q > joint.limits[:, 0] - 1e-9).all()
        assert (q < joint.limits[:, 1] + 1e-9).all()


@few
@given(SEEDS, st.integers(0, 2))
def test_transposed_solve_is_the_adjoint_of_the_solve(seed, loops):
    rng = np.random.default_rng(seed)
    mech = reference.unlimited(mechanisms.random_mechanism(rng, 5, loops=loops))
    eq = supple.equilibrium(mech, wrench_on_some_body(mech, rng))
    linear = linearised(mech, eq)
    b, y = np.zeros((2, linear.layout.size))
    for part in (linear.layout.twists, linear.layout.coordinates):  # multipliers of redundant loops are not unique
        b[part], y[part] = rng.normal(size=(2, len(b[part])))
    forward, backward = linear.solve(b[None])[0], linear.solve_transposed(y[None])[0]
    scale = np.abs(y) @ np.abs(forward)
    assert y @ forward == pytest.approx(backward @ b, abs=1e-9 * scale + 1e-12)


@few
@given(SEEDS, st.integers(0, 2))
def test_solve_inverts_the_tangent(seed, loops):
    rng = np.random.default_rng(seed)
    mech = reference.unlimited(mechanisms.random_mechanism(rng, 5, loops=loops))
    eq = supple.equilibrium(mech, wrench_on_some_body(mech, rng))
    linear = linearised(mech, eq)
    b = np.zeros(linear.layout.size)
    for part in (linear.layout.twists, linear.layout.coordinates):
        b[part] = rng.normal(size=len(b[part]))
    tangent = reference.dense_tangent(linear)
    np.testing.assert_allclose(tangent @ linear.solve(b[None])[0], b, atol=1e-8)
    np.testing.assert_allclose(tangent.T @ linear.solve_transposed(b[None])[0], b, atol=1e-8)


@few
@given(SEEDS)
def test_a_linearisation_stays_what_it_is_when_its_equations_go_on(seed):
    rng = np.random.default_rng(seed)
    mech = reference.unlimited(mechanisms.random_mechanism(rng, 4, loops=seed % 2))
    eq = supple.equilibrium(mech, wrench_on_some_body(mech, rng))
    eqs = equations(mech)
    first = Linearisation.at(eqs, eq.acting, eq.state)
    rhs = rng.normal(size=(3, first.layout.size))
    before = first.solve(rhs)
    q, reactions, mu = eq.state
    elsewhere = q + 0.1, reactions + 1.0, mu
    Linearisation.at(eqs, eqs.acting(), elsewhere)  # its storage is used again by the next ones
    Linearisation.at(eqs, eqs.unloaded(), elsewhere).core.moved(rhs[0], 1e-3)
    second = Linearisation.at(eqs, eq.acting, eq.state)
    np.testing.assert_array_equal(first.solve(rhs), before)
    np.testing.assert_array_equal(second.solve(rhs), before)
    np.testing.assert_array_equal(first.stiffness, linearised(mech, eq).stiffness)
    np.testing.assert_array_equal(first.poses.array, eq.poses.array)


@few
@given(SEEDS, st.sampled_from(["euler", "bdf2"]))
def test_free_mechanisms_keep_their_linear_momentum(seed, method):
    rng = np.random.default_rng(seed)
    mech = weightless(rng, loops=0)
    sim = supple.Simulation(mech, 2e-3, method, rates=rng.normal(size=mech.dof))
    before = momentum(sim)
    sim.step(50)
    np.testing.assert_allclose(momentum(sim)[:3], before[:3], atol=1e-8 * np.abs(before).max())


@settings(max_examples=5)
@given(SEEDS)
def test_free_mechanisms_keep_their_angular_momentum_to_the_second_order(seed):
    rng = np.random.default_rng(seed)
    mech = weightless(rng, loops=0)
    rates = rng.normal(size=mech.dof)
    drifts = []
    for steps in (50, 100, 200):
        sim = supple.Simulation(mech, 0.1 / steps, "bdf2", rates=rates)
        before = momentum(sim)
        sim.step(steps)
        drifts.append(np.abs(momentum(sim) - before)[3:].max())
    assert drifts[2] < 1e-2 * np.abs(before).max()
    assert drifts[2] < drifts[1] / 3 or drifts[2] < 1e-9


def weightless(rng: np.random.Generator, loops: int) -> supple.Mechanism:
    from dataclasses import replace

    mech = mechanisms.random_mechanism(rng, 4, MIXED, loops=loops, free_base=True, branching=0.0)
    return reference.unlimited(replace(mech, gravity=np.zeros(3)))


def momentum(sim: supple.Simulation) -> np.ndarray:
    """(6,) linear, and angular about the world's origin."""
    total = np.zeros(6)
    for body, pose, twist in zip(sim.mechanism.bodies, sim.poses, sim.velocities, strict=True):
        turn = pose[:3, :3]
        linear = turn @ (body.mass * (twist[:3] + np.cross(twist[3:], body.centre)))
        spin = turn @ body.inertia @ twist[3:]
        total += [*linear, *(spin + np.cross(turn @ body.centre + pose[:3, 3], linear))]
    return total
