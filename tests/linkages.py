"""Shared by tests of adaptive linkages: random linkages, the true error, and sums over the assembly tree."""

from __future__ import annotations

import numpy as np

import mechanisms
import supple
from supple.mechanism import Mechanism

MOVING = ("hinge", "slide", "screw", "cylindrical", "universal", "ball", "planar", "bushing", "axes")


def random_linkage(rng: np.random.Generator, bodies: int, **options) -> tuple[Mechanism, dict[int, np.ndarray]]:
    """A random tree of any joints, and loads on some of its bodies (world axes)."""
    settings = {"branching": rng.uniform(), "free_base": bool(rng.random() < 0.5), "sprung": bool(rng.random() < 0.4)}
    mech = mechanisms.random_mechanism(rng, bodies, MOVING, **(settings | options))
    pushed = rng.choice(bodies, size=min(bodies, int(rng.integers(1, 4))), replace=False)
    return mech, {int(b): rng.normal(size=6) * 10 ** rng.uniform(-2, 2) for b in pushed}


def loaded(mech, loads, **options) -> supple.AdaptiveLinkage:
    chain = supple.AdaptiveLinkage(mech, **options)
    for body, wrench in loads.items():
        chain.apply(body, wrench)
    return chain


def joint_columns(mech: Mechanism) -> list[slice]:
    return [mech.topology.columns[j] for j in mech.topology.tree if mech.joints[j].axes]


def true_error(measure: str, exact: np.ndarray, found: np.ndarray, columns: list[slice]) -> float:
    """By the definitions of the paper (4.1), from accelerations (dof,) of all joints."""
    missing = np.array([np.linalg.norm(exact[c] - found[c]) for c in columns])
    sizes = np.array([np.linalg.norm(exact[c]) for c in columns])
    match measure:
        case "absolute_linkage":
            return float(np.linalg.norm(missing))
        case "relative_linkage":
            return float(np.linalg.norm(missing) / np.linalg.norm(sizes))
        case "absolute_joint":
            return float(missing.max())
    return float(missing.max() / sizes.max())


def squares_below(chain: supple.AdaptiveLinkage) -> np.ndarray:
    """(nodes,) sum of squared joint accelerations in each node of the assembly tree."""
    starts = np.concatenate([[0], np.cumsum(chain.tree.axes)])
    found = chain._core.accelerations()
    sums: list[float] = []
    for left, right, joint, *_ in chain._core.tree().astype(int):
        own = 0.0 if joint < 0 else float((found[starts[joint] : starts[joint + 1]] ** 2).sum())
        sums.append(own + sum(sums[child] for child in (left, right) if child >= 0))
    return np.array(sums)
