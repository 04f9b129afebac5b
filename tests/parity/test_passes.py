"""Steps by recursive passes agree with steps by the sparse solver, which solves the same equations in another way."""

from __future__ import annotations

import numpy as np
import pytest

import mechanisms
import small_mechanisms
import supple

DT = 2e-3


def pair(mech: supple.Mechanism, method: str = "euler", **options) -> tuple[supple.Simulation, supple.Simulation]:
    """The same simulation with passes and with the sparse solver."""
    sims = tuple(supple.Simulation(mech, DT, method, **options) for _ in range(2))
    assert sims[0]._core.solver == "passes"
    sims[1]._core.use_passes(False)
    assert sims[1]._core.solver == "sparse"
    return sims


def agree(sims: tuple[supple.Simulation, supple.Simulation], steps: int = 100, within: float = 1e-9) -> None:
    radius = sims[0].mechanism.radius
    for _ in range(4):
        for sim in sims:
            sim.step(steps // 4)
        apart = [np.abs(getattr(sims[0].poses, "array") - sims[1].poses.array).max() / max(1.0, radius)]
        apart += [DT * np.abs(sims[0].velocities - sims[1].velocities).max()]
        apart += [np.abs(np.concatenate([*a.coordinates.values()]) - np.concatenate([*b.coordinates.values()])).max()
                  for a, b in [sims] if a.coordinates]
        assert max(apart) < within, apart


@pytest.mark.parametrize("method", ["euler", "bdf2"])
@pytest.mark.parametrize("name", ["helix", "y", "ladder", "loop", "robot_arm"])
def test_library(name, method):
    mech = getattr(supple.library, name)()
    sims = pair(mech, method)
    tip = next(b.name for b in mech.bodies if b.name.endswith("tip"))
    for sim in sims:
        sim.apply(tip, [3, 20, 5, 0.2, 0, 1])
    agree(sims)
    for sim in sims:
        sim.apply(tip, [0, 0, 30, 0.5, 0.2, 1], frame="body")
        sim.pull(tip, sim.poses[tip][:3, 3] + [0.1, 0.05, 0.2])
    agree(sims)
    for a, b in zip(*(sim.reactions.values() for sim in sims), strict=True):
        if name != "ladder":  # its loops are redundant: reactions are not unique
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("method", ["euler", "bdf2"])
@pytest.mark.parametrize("loops", [0, 1, 3])
def test_random_mechanisms(loops, method):
    for seed in range(12):
        rng = np.random.default_rng(seed)
        mech = mechanisms.random_mechanism(
            rng, 3 + seed % 6, loops=loops, free_base=seed % 3 == 1, couplings=seed % 3, motors=seed % 2
        )
        try:
            sims = pair(mech, method)
        except supple.MechanismError:
            continue
        for sim in sims:
            sim.apply(mech.bodies[-1].name, [1, -2, 1.5, 0.1, 0.2, -0.1])
        agree(sims, 60)
