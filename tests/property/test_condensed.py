"""Condensed statics of random mechanisms."""

import numpy as np
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import supple
from mechanisms import random_mechanism


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 10_000), loops=st.integers(0, 1), bodies=st.integers(2, 6))
def test_statics_are_those_of_the_engine(seed, loops, bodies):
    """Springs of any law, several axes, balls, reversed joints, gravity, loops and limits."""
    rng = np.random.default_rng(seed)
    mech = random_mechanism(rng, bodies, loops=loops)
    try:
        model = supple.condense(mech, f"body{bodies - 1}")
        load = {f"body{bodies - 1}": rng.normal(size=6)}
        full = supple.equilibrium(mech, load)
    except (supple.MechanismError, supple.ConvergenceError):
        assume(False)
    try:
        found = model.under(load)
    except supple.ConvergenceError:
        assume(False)
    assert found.equilibrium.residual < 1e-6
    if found.equilibrium.stable and full.stable and np.abs(found.poses.array - full.poses.array).max() > 1e-6:
        assume(False)  # two stable states under one load
    held = model.at({model.end_effectors[0]: found.poses[model.end_effectors[0]]}, start=found)
    assert np.abs(held.poses.array - found.poses.array).max() < 1e-7
