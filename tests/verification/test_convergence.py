"""Newton's method converges from the reference pose in one call, quadratically at the end."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest

import engine_reference
import mechanisms
import slow_path
import supple
from slow_path import apart
from supple import spatial
from supple.engine.newton import Correction, Newton

LIBRARY = ("helix", "ladder", "loop", "robot_arm", "y")
DIRECTIONS = [np.array(d) / np.linalg.norm(d) for d in product((-1, 0, 1), repeat=3) if any(d)]


def tips(mech: supple.Mechanism) -> list[str]:
    return [b.name for b in mech.bodies if b.name.endswith("tip")]


def histories(mech: supple.Mechanism, wrenches, monkeypatch) -> tuple[supple.engine.Equilibrium, list[list[float]]]:
    """The equilibrium, and the steps of every Newton solve that converged."""
    found: list[list[float]] = []
    continue_branch = Newton.continue_branch

    def recorded(self, *arguments, **options) -> Correction:
        correction = continue_branch(self, *arguments, **options)
        if correction.converged:
            found.append(list(self.history))
        return correction

    monkeypatch.setattr(Newton, "continue_branch", recorded)
    eq = supple.equilibrium(mech, wrenches)
    return eq, found


@pytest.mark.parametrize("name", LIBRARY)
def test_every_library_mechanism_under_100_newtons_in_every_direction(name):
    mech = getattr(supple.library, name)()
    assert len(DIRECTIONS) == 26
    for tip, direction in product(tips(mech), DIRECTIONS):
        eq = supple.equilibrium(mech, {tip: [*(100 * direction), 0, 0, 0]})
        assert eq.load_fraction == 1
        assert eq.residual < 1e-10


@pytest.mark.parametrize("name", LIBRARY)
@pytest.mark.parametrize("gravity", [(0, 0, -9.81), (0, 0, 9.81)])
def test_every_library_mechanism_under_its_weight(name, gravity):
    eq = supple.equilibrium(getattr(supple.library, name)(gravity=gravity))
    assert eq.load_fraction == 1


@pytest.mark.parametrize("name", LIBRARY)
def test_convergence_is_quadratic_at_the_end(name, monkeypatch):
    mech = getattr(supple.library, name)()
    force = {tips(mech)[0]: [30, 80, -50, 0, 0, 0]}
    _, solves = histories(mech, force, monkeypatch)
    history = solves[-1]
    # r_{k+1} <= C r_k^2 once small: digits double until rounding
    checked = [(a, b) for a, b in pairwise(history) if 1e-7 < a < 1e-2]
    assert checked
    for before, after in checked:
        assert after < 300 * before**2 + 1e-13


def test_convergence_is_quadratic_at_large_displacements(monkeypatch):
    eq, solves = histories(supple.library.helix(50), {"tip": [0, 0, 300, 0, 0, 0]}, monkeypatch)
    assert relative_displacement(eq, "tip") > 0.8
    before, after = np.array([solves[-1][-3:-1], solves[-1][-2:]])
    assert after[-1] < 1e-9  # where Newton stops: what is left is its square
    assert (after < 1e3 * before**2 + 1e-13).all()


def relative_displacement(eq: supple.engine.Equilibrium, tip: str) -> float:
    rest = eq.mechanism.poses[tip]
    twist = spatial.log(spatial.inverse(rest) @ eq.poses[tip])
    return float(np.linalg.norm([*(twist[:3] / eq.mechanism.radius), *twist[3:]]))


def test_the_helix_is_pulled_to_a_relative_displacement_of_one_and_a_half():
    mech = supple.library.helix(50)
    for direction in DIRECTIONS:
        size, eq = 50.0, None
        while True:
            eq = supple.equilibrium(mech, {"tip": [*(size * direction), 0, 0, 0]}, start=eq)
            if relative_displacement(eq, "tip") >= 1.5:
                break
            size *= 1.5
            assert size < 1e5


def test_the_helix_is_pulled_to_a_large_displacement_in_one_call():
    mech = supple.library.helix(50)
    eq = supple.equilibrium(mech, {"tip": [0, 0, 1000, 0, 0, 0]})
    assert relative_displacement(eq, "tip") > 1.5
    assert eq.residual < 1e-10


# where it ends


@pytest.mark.parametrize("direction", DIRECTIONS[::3])
def test_a_load_at_once_ends_where_a_slow_one_does(direction):
    mech = supple.library.helix(50)
    load = {"tip": np.array([*(300 * direction), 0, 0, 0])}
    slow = slow_path.end_of_slow_load(mech, load, supple.equilibrium(mech))
    eq = supple.equilibrium(mech, load)
    if slow is None:  # it snaps through on the way
        assert eq.snaps or not eq.stable
    else:
        assert eq.snaps == ()
        assert apart(eq.poses.array, slow.poses.array, mech.radius) < 1e-6


def ends_on_the_slow_branch(seed: int, loops: int) -> None:
    """`equilibrium` of a random mechanism, where the slow path is continuous."""
    mech, load = slow_path.random_case(seed, loops)
    start = supple.equilibrium(mech)
    slow = slow_path.end_of_slow_load(mech, load, start)
    if slow is None:
        return
    eq = supple.equilibrium(mech, load, start=start)
    assert eq.snaps == ()
    assert apart(eq.poses.array, slow.poses.array, mech.radius) < 1e-6


@pytest.mark.parametrize("seed", [12, 32, 86, 99, 106, 118, 160, 194, 304, 312])
def test_random_arms_under_a_load_at_once(seed):
    """All of these ended on another branch while Newton's method was free to."""
    ends_on_the_slow_branch(seed, 0)


@pytest.mark.parametrize("seed", [105, 115, 146, 159, 216])
def test_random_loops_under_a_load_at_once(seed):
    ends_on_the_slow_branch(seed, 1)


@pytest.mark.long
def test_many_random_arms_under_a_load_at_once():
    for seed in range(526):
        ends_on_the_slow_branch(seed, 0)


@pytest.mark.long
def test_many_random_loops_under_a_load_at_once():
    for seed in range(345):
        ends_on_the_slow_branch(seed, 1)


def test_statics_and_dynamics_of_random_chains_agree_at_rest():
    for seed in (29, 34, 42, 49):
        rng = np.random.default_rng(seed)
        mech = engine_reference.unlimited(mechanisms.random_mechanism(rng, 4, ("hinge",)))
        load = {mech.bodies[-1].name: [*(40 * rng.normal(size=3)), 0, 0, 0]}
        sim = supple.Simulation(mech, 5e-3)
        sim.apply(*next(iter(load.items())))
        sim.step(8000)
        eq = supple.equilibrium(mech, load)
        assert eq.stable
        np.testing.assert_allclose(eq.q, np.concatenate(list(sim.coordinates.values())), atol=1e-4)
