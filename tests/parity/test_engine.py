"""The compiled equations agree with the same equations written in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import engine_reference as reference
import mechanisms
import supple
from supple.engine.assembly import equations, loads
from supple.engine.linearisation import Linearisation, linearised
from supple.engine.newton import LARGEST_TURN, NEWTON_LIMIT, newton_limits
from supple.mechanism import Curve
from supple.mechanism.axes import of_tree

KINDS = [k for k in mechanisms.KINDS if k not in reference.ROTATION_VECTORS]
COUPLINGS = {"couplings": 3, "motors": 1}


def both(mech: supple.Mechanism, seed: int, closed: bool = False) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Residuals of coordinates, loops and rows in a random state under random loads: compiled, and written out."""
    rng = np.random.default_rng(seed)
    eqs = equations(mech)
    q, reactions, mu = eqs.zero_state()
    q = reference.closed_coordinates(mech, rng) if closed else q + rng.uniform(-0.4, 0.4, len(q))
    reactions, mu = rng.normal(size=reactions.shape), rng.normal(size=mu.shape)
    names = [body.name for body in mech.bodies] + [site.name for site in mech.sites if site.body != "world"]
    acting = loads(mech, {str(rng.choice(names)): rng.normal(size=6)})
    acting += loads(mech, {str(rng.choice(names)): rng.normal(size=6)}, "body")
    rhs = eqs.evaluated(eqs.acting(acting), (q, reactions, mu)).residual
    at = reference.residual_rows(eqs)
    axes, loops = len(q), 6 * len(mech.topology.loops)
    compiled = np.split(rhs[at], [axes, axes + loops])
    return compiled, [part.ravel() for part in reference.statics_residual(eqs, acting, q, reactions, mu)]


def agree(mech: supple.Mechanism, seed: int, closed: bool = False) -> None:
    for compiled, written in zip(*both(mech, seed, closed), strict=True):
        scale = max(1.0, np.abs(written).max(initial=0.0))
        np.testing.assert_allclose(compiled, written, atol=1e-10 * scale)


@pytest.mark.parametrize("kind", [k for k in mechanisms.KINDS if k != "fixed"])
@pytest.mark.parametrize("loops", [0, 2])
def test_residual_of_every_kind(kind, loops):
    for seed in range(8):
        mech = mechanisms.random_mechanism(np.random.default_rng(seed), 5, kinds=(kind,), loops=loops)
        agree(reference.unlimited(mech), seed)


@pytest.mark.parametrize("closed", [False, True])
def test_residual_of_mixed_mechanisms(closed):
    for seed in range(25):
        mech = mechanisms.random_mechanism(np.random.default_rng(seed), 7, loops=seed % 3, free_base=seed % 2 == 1)
        agree(reference.unlimited(mech), seed, closed)


def test_residual_of_couplings_and_motors():
    for seed in range(25):
        mech = mechanisms.random_mechanism(np.random.default_rng(seed), 6, kinds=KINDS, loops=seed % 2, **COUPLINGS)
        agree(reference.unlimited(mech), seed)


def test_poses_are_those_of_kinematics():
    for seed in range(10):
        rng = np.random.default_rng(seed)
        mech = mechanisms.random_mechanism(rng, 7, loops=1, free_base=seed % 2 == 1)
        q = reference.closed_coordinates(mech, rng)
        eqs = equations(mech)
        found = eqs.evaluated(eqs.acting(), (q, *eqs.zero_state()[1:])).poses
        expected = supple.kinematics(mech, of_tree(mech, q)).poses.array
        np.testing.assert_allclose(found, expected, atol=1e-13)


def test_curves_are_those_of_the_description():
    curve = Curve(np.array([-0.8, -0.3, 0.1, 0.4, 1.2]), np.array([-5.0, -1.0, 0.5, 0.6, 4.0]))
    b = supple.Builder("curved", gravity=(0, 0, 0))
    b.body("arm", mass=1.0, inertia=(1, 1, 1))
    b.hinge("h", "world", "arm", at=(0, 0, 0), axis="z", stiffness=0.7, rest=0.15, curves=[curve])
    eqs = equations(b.build())
    for q in [*np.linspace(-2, 2, 81), *(curve.deflection + 0.15)]:
        linear = Linearisation.at(eqs, eqs.acting(), (np.array([q]), np.zeros((1, 6)), np.zeros(0)))
        x = q - 0.15
        at = eqs.layout.coordinates[0]
        assert linear.core.residual[at] == pytest.approx(-0.7 * x - float(curve(x)), abs=1e-12)
        assert reference.dense_tangent(linear)[at, at] == pytest.approx(0.7 + float(curve.slope(x)), abs=1e-12)
        assert linear.core.energies[0] == pytest.approx(0.35 * x**2 + float(curve.energy(x)), abs=1e-12)


def search(
    mech: supple.Mechanism, wrenches: dict[str, list[float]], minimise: bool, iterations: int = NEWTON_LIMIT
) -> reference.Search:
    """The search for an equilibrium from the reference pose as written out, which the compiled one must follow."""
    eqs = equations(mech)
    acting, start = eqs.acting(loads(mech, wrenches)), eqs.zero_state()
    limits = newton_limits(largest_turn=LARGEST_TURN)
    written = reference.find_equilibrium(eqs, acting, start, limits, iterations, minimise)
    found, state, history = eqs.core.find_equilibrium(eqs.compiled(acting), *start, limits, iterations, True, minimise)
    assert found == written.found
    np.testing.assert_allclose(history, written.history, atol=1e-9)
    at = eqs.evaluated(acting, written.state)
    for compiled, other in zip(state, (at.q, at.reactions, at.mu), strict=True):
        np.testing.assert_allclose(compiled, other, atol=1e-9 * max(1.0, np.abs(other).max(initial=0.0)))
    return written


@pytest.mark.parametrize(("name", "tip"), [("helix", "tip"), ("loop", "tip"), ("robot_arm", "tip"), ("y", "right_tip")])
def test_search_for_equilibria_of_the_library(name, tip):
    mech = getattr(supple.library, name)()
    for force in ([0, 0, -5], [3, 20, -100], [0, 300, -1000]):
        for minimise in (False, True):
            search(mech, {tip: [*force, 0, 0, 0]}, minimise)


def test_search_for_equilibria_with_couplings_and_motors():
    searches = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        mech = reference.unlimited(mechanisms.random_mechanism(rng, 6, kinds=KINDS, **COUPLINGS))
        rows = linearised(mech).conditions
        if np.linalg.matrix_rank(rows) == len(rows):  # a motor may hold what a coupling holds
            search(mech, {mech.bodies[-1].name: [*rng.normal(size=3) * 10, 0, 0, 0]}, minimise=True)
            searches += 1
    assert searches > 5


def test_search_for_equilibria_with_limits():
    touched = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        mech = mechanisms.random_mechanism(rng, 6)
        found = search(mech, {mech.bodies[-1].name: [*rng.normal(size=3) * 10, 0, 0, 0]}, minimise=True)
        touched += np.count_nonzero(found.state[2])
    assert touched > 0


def test_search_leaves_unstable_states():
    found = search(supple.library.robot_arm(), {"tip": [0, 300, -1000, 0, 0, 0]}, minimise=True)
    assert found.found
    assert found.shifts > 0
    assert found.halved > 0


def test_search_that_fails():
    arm = supple.library.robot_arm()
    shortened = search(arm, {"tip": [0, 0, -20_000, 0, 0, 0]}, minimise=False)  # no share of the last step is accepted
    assert not shortened.found
    assert len(shortened.history) < NEWTON_LIMIT
    assert not search(arm, {"tip": [3, 20, -100, 0, 0, 0]}, minimise=True, iterations=3).found
