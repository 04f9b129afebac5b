"""Poses at which the end effectors are at rest between the loads of two linear models, computed by the engine."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np

from supple import spatial
from supple.engine import Equilibrium
from supple.engine.assembly import equations
from supple.engine.statics import equilibrium_at_any_range
from supple.errors import ConvergenceError
from supple.mechanism.record import Array
from supple.reduced.model import ReducedModel

BEYOND = 0.25
"""The path goes on beyond the larger one of the two loads by this share of their difference."""
ACCURACY = 0.004
"""Relative displacement: where the curve is farther than this from a new equilibrium, more equilibria are computed."""
SHORTEST = 1 / 64
"""Least difference of shares between neighbouring equilibria."""
SAME_BRANCH = 0.01
"""Relative displacement from the pose of the second model at which the path must arrive."""


@dataclass(frozen=True)
class RestPath:
    """End effectors at rest as the load changes from that of one model (share 0) to that of another (share 1)."""

    shares: Array
    """(k,) increasing; as far as the equilibria are stable and continuous."""
    displacements: Array
    """(k, 6e) from the poses of the first model; lengths over the radius."""

    @property
    def slopes(self) -> Array:
        """(k, 6e) derivatives of the displacements by the share: of parabolas through three neighbours."""
        order: Literal[1, 2] = 1 if len(self.shares) == 2 else 2
        slopes: Array = np.gradient(self.displacements, self.shares, axis=0, edge_order=order)
        return slopes

    def at(self, share: float) -> Array:
        """(6e,) the displacement at a share of the load, by cubics."""
        x, y, m = self.shares, self.displacements, self.slopes
        k = int(np.clip(np.searchsorted(x, share) - 1, 0, len(x) - 2))
        h = x[k + 1] - x[k]
        u = (share - x[k]) / h
        ends = (1 + 2 * u) * (1 - u) ** 2 * y[k] + u**2 * (3 - 2 * u) * y[k + 1]
        result: Array = ends + h * u * (1 - u) * ((1 - u) * m[k] - u * m[k + 1])
        return result


def rest_path(first: ReducedModel, second: ReducedModel) -> RestPath | None:
    """The path from one model to another. None if the engine finds no continuous path of stable equilibria, if the
    models differ in more than the loads on their end effectors, or if nothing moves."""
    if not all(_loaded_at_end_effectors_only(model) for model in (first, second)):
        return None
    return _Path(first, second).computed()


def _loaded_at_end_effectors_only(model: ReducedModel) -> bool:
    """Whether set-points are those of the mechanism and no other loads act."""
    if model.at is None:
        return True
    acting, eqs = model.at.acting, equations(model.mechanism)
    names = {load.name for load in acting.loads}
    return (
        names <= set(model.end_effectors)
        and np.array_equal(acting.gravity, model.mechanism.gravity)
        and np.array_equal(acting.rest, eqs.rest)
        and acting.targets == eqs.targets
    )


def world_wrenches(model: ReducedModel) -> Array:
    """(e, 6) the loads of a model in world axes."""
    wrenches = model.wrenches.reshape(-1, 2, 3, 1)
    result: Array = (model.end_effector_poses[:, None, :3, :3] @ wrenches).reshape(-1, 6)
    return result


class _Path:
    """Equilibria between two models while they are computed."""

    def __init__(self, first: ReducedModel, second: ReducedModel) -> None:
        self.first, self.second, self.mech = first, second, first.mechanism
        turning = [not load.world for model in (first, second) if model.at is not None for load in model.at.loads]
        self.frame = "body" if turning and all(turning) else "world"
        self.loads = [
            model.wrenches.reshape(-1, 6) if self.frame == "body" else world_wrenches(model)
            for model in (first, second)
        ]
        self.lengths = np.tile([self.mech.radius or 1.0] * 3 + [1.0] * 3, len(first.end_effectors))
        self.found: dict[float, Equilibrium] = {}

    def computed(self) -> RestPath | None:
        start = min((0.0, 1.0), key=lambda share: float(np.linalg.norm(self.loads[round(share)])))
        end, model = 1.0 - start, (self.first, self.second)[round(start)]
        if model.at is not None:
            self.found[start] = model.at
        elif not self.solve(start, None):
            return None
        self.extend(start, end)
        if end in self.found:
            other = (self.first, self.second)[round(end)]
            if other.at is not None and self.distance(self.tips(end), other.end_effector_poses) > SAME_BRANCH:
                return None  # the models are on different branches
            self.extend(end, 1 + BEYOND if end == 1 else -BEYOND)
        if len(self.found) < 2:
            return None
        self.refine()
        return self.curve()

    def solve(self, share: float, start: float | None) -> bool:
        """Computes the equilibrium at a share of the load from that at another. False if no stable one continues it."""
        loads = (1 - share) * self.loads[0] + share * self.loads[1]
        wrenches = dict(zip(self.first.end_effectors, loads, strict=True))
        begin = None if start is None else self.found[start]
        try:
            at = equilibrium_at_any_range(self.mech, wrenches, frame=self.frame, start=begin)
        except ConvergenceError:
            return False
        if at.snaps or not at.stable:
            return False
        self.found[share] = at
        return True

    def extend(self, start: float, end: float) -> None:
        """Goes from the share `start` to `end`, or near to where the branch ends."""
        step = end - start
        while start != end and abs(step) > SHORTEST:
            share = end if abs(end - start) <= abs(step) else start + step
            if self.solve(share, start):
                start = share
            else:
                step /= 2

    def refine(self) -> None:
        """Adds equilibria half-way between others until the curve through the others predicts them."""
        shares = sorted(self.found)
        intervals = list(pairwise(shares))
        while intervals:
            curve, missed = self.curve(), []
            for low, high in intervals:
                half = (low + high) / 2
                if not self.solve(half, low):
                    continue
                predicted = self.first.end_effector_poses @ spatial.exp((curve.at(half) * self.lengths).reshape(-1, 6))
                if self.distance(self.tips(half), predicted) > ACCURACY and half - low > SHORTEST:
                    missed += [(low, half), (half, high)]
            intervals = missed

    def curve(self) -> RestPath:
        shares = sorted(self.found)
        home = spatial.inverse(self.first.end_effector_poses)
        twists = [spatial.log(home @ self.tips(share)).ravel() / self.lengths for share in shares]
        return RestPath(np.array(shares), np.array(twists))

    def tips(self, share: float) -> Array:
        return np.array([self.found[share].poses[name] for name in self.first.end_effectors])

    def distance(self, one: Array, other: Array) -> float:
        """Largest relative displacement between poses (e, 4, 4)."""
        twists = spatial.log(spatial.inverse(one) @ other).ravel() / self.lengths
        return float(np.linalg.norm(twists.reshape(-1, 6), axis=1).max())
