"""Time steps of the engine agree with one step written in NumPy (`tests/step_twin.py`)."""

from __future__ import annotations

import numpy as np
import pytest

import engine_reference as reference
import mechanisms
import supple
from step_twin import EULER, StepTwin

DT = 2e-3
WRENCH = np.array([1, -2, 1.5, 0.1, 0.2, -0.1])


def difference(mech: supple.Mechanism, method: str, steps: int = 5) -> float:
    """Largest difference of a pose's entries after some steps under a load."""
    body = mech.bodies[-1].name
    sim, twin = supple.Simulation(mech, DT, method), StepTwin(mech, DT, method, {body: WRENCH})
    sim.apply(body, WRENCH)
    sim.step(steps)
    twin.step(steps)
    assert not np.allclose(sim.poses.array, supple.kinematics(mech).poses.array, rtol=0, atol=1e-7), "it has not moved"
    return float(np.abs(twin.now.poses - sim.poses.array).max())


@pytest.mark.parametrize("method", ["euler", "bdf2"])
@pytest.mark.parametrize("kind", [k for k in mechanisms.KINDS if k != "fixed"])
def test_every_kind_of_joint(kind, method):
    mech = mechanisms.random_mechanism(np.random.default_rng(1), 4, kinds=(kind,))
    assert difference(reference.unlimited(mech), method) < 1e-9


@pytest.mark.parametrize("method", ["euler", "bdf2"])
@pytest.mark.parametrize("seed", range(6))
def test_loops_couplings_and_motors(seed, method):
    mech = mechanisms.random_mechanism(
        np.random.default_rng(seed),
        3 + seed % 5,
        loops=seed % 3,
        free_base=seed % 4 == 1,
        couplings=seed % 3,
        motors=seed % 2,
    )
    assert difference(reference.unlimited(mech), method) < 1e-9


def test_tangent_is_the_derivative_of_the_residual():
    """On trees of hinges, slides, screws and universal joints, with backward Euler, the twin's tangent is exact."""
    for seed in range(5):
        rng = np.random.default_rng(seed)
        mech = mechanisms.random_mechanism(rng, 5, kinds=("hinge", "slide", "screw", "universal"), couplings=2)
        twin = StepTwin(reference.unlimited(mech), DT, "euler", {mech.bodies[-1].name: WRENCH})
        twin.step(5)
        q, m = twin.now.q + rng.uniform(-1e-2, 1e-2, len(twin.now.q)), rng.normal(size=len(twin.multipliers))
        _, tangent, _ = twin._equations(EULER, q, m)
        differences = []
        for unit in 1e-6 * np.eye(len(q)):
            ends = [twin._equations(EULER, q + sign * unit, m)[0] for sign in (1, -1)]
            differences.append((ends[0] - ends[1]) / 2e-6)
        largest = np.abs(tangent).max()
        np.testing.assert_allclose(tangent[:, : len(q)], np.array(differences).T, rtol=0, atol=1e-6 * largest)
