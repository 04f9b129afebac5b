"""Reference for branches: a load is applied in many small increments, each solved from the previous pose.

The driver uses the public interface only. It accepts a share only if no pose moved far and the new state is stable, so
that the states form a continuous branch of stable equilibria. Where the poses move far however small the share is, the
branch ends (a snap-through) and the driver returns None.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import supple
from mechanisms import random_mechanism
from supple.mechanism import Mechanism

LARGEST_MOTION = 0.05
"""Of any pose in one share, rad or radii."""
SMALLEST_SHARE = 1e-6


def slow_path(solve: Callable[[float, Any], Any], start: Any, radius: float) -> Any:
    """The state at the end of the branch that begins at `start`, or None where that branch ends before the full load.

    `solve(share, state)` returns the equilibrium under a share of the load, solved from a state.
    """
    state, reached, size = start, 0.0, 1 / 64
    while reached < 1:
        share = min(1.0, reached + size)
        moved = np.inf
        try:
            middle = solve((reached + share) / 2, state)
            following = solve(share, middle)
            moved = max(apart(middle.poses.array, state.poses.array, radius),
                        apart(following.poses.array, middle.poses.array, radius))  # fmt: skip
            # on a smooth branch both halves of a share move alike
            bend = apart(2 * middle.poses.array, state.poses.array + following.poses.array, radius)
        except supple.ConvergenceError:
            following = None
        if following is not None and moved < LARGEST_MOTION and bend < 0.25 * moved + 1e-6 and is_stable(following):
            state, reached = following, share
            size *= 1.5 if moved < LARGEST_MOTION / 2 else 1
            continue
        size /= 2
        if size < SMALLEST_SHARE:
            return None
    return state


def apart(a: np.ndarray, b: np.ndarray, radius: float) -> float:
    """Largest difference of poses (..., 4, 4), rotations in rad and positions over the radius."""
    return max(np.abs(a[..., :3, 3] - b[..., :3, 3]).max() / radius, np.abs(a[..., :3, :3] - b[..., :3, :3]).max())


def is_stable(state: Any) -> bool:
    return bool(state.stable)


def scaled(load: dict[str, np.ndarray], share: float) -> dict[str, np.ndarray]:
    return {name: share * np.asarray(wrench) for name, wrench in load.items()}


def random_case(seed: int, loops: int = 0) -> tuple[Mechanism, dict[str, np.ndarray]]:
    """A random arm (or one with loops) of hinges and other joints, and a load that moves it far."""
    rng = np.random.default_rng(seed)
    bodies = int(rng.integers(3, 9))
    kinds = ("hinge",) if rng.random() < 0.5 else ("hinge", "universal", "ball", "slide")
    mech = random_mechanism(rng, bodies, kinds, loops=loops, branching=0.1 if loops else 0.0)
    size = 10 ** rng.uniform(0.5, 2.5)
    force, torque = rng.normal(size=3), rng.normal(size=3)
    load = size * np.concatenate([force, 0.2 * torque * (rng.random() < 0.5)])
    return mech, {mech.bodies[-1].name: load}


def end_of_slow_load(mech: Mechanism, load: dict[str, np.ndarray], start: Any) -> Any:
    """Where `supple.equilibrium` ends if the load is applied slowly; None if the branch ends before."""

    def solve(share: float, state: Any) -> Any:
        return supple.equilibrium(mech, scaled(load, share), start=state)

    return slow_path(solve, start, mech.radius)
