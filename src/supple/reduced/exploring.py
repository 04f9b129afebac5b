"""Finds linearisation points by itself: pulls the mechanism about with the engine and adds models where the blend errs.

The range is that of wrenches: directions are drawn at random in the space of wrenches on the end effectors, where soft
directions move much and stiff ones little, and the load grows until the end effectors have moved by `reach`.
Every equilibrium on the way is a point to be met. Those that the blend misses become models, until all are within
`max_error`; then fresh points decide whether that was enough, and join the others if not.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from os import PathLike, cpu_count
from os.path import exists

import numpy as np

from supple import spatial
from supple.engine import Equilibrium, equilibrium
from supple.errors import ConvergenceError, MechanismError, RangeWarning
from supple.mechanism import Mechanism, Poses
from supple.mechanism.mechanism import check_mechanism
from supple.mechanism.record import Array
from supple.progress import progress_callback
from supple.reduced.blending import BlendedModel, BlendedMotion, blend
from supple.reduced.build import listed_names, reduce
from supple.reduced.joints import separation
from supple.reduced.model import ReducedModel

WITHIN = 0.97
"""Share of fresh points within the error that ends the search."""
FIRST, FRESH = 48, 96
"""Directions pulled at first, and for each look at fresh points."""
BATCH = 16
"""Models made before the errors are looked at again."""
AWAY = 1e6
"""rad or m, of limits that are out of the way."""
TRIES = 7
"""Equilibria looked for in each direction."""


@dataclass(frozen=True)
class Exploration:
    """How well a collection meets points that were not used to make it."""

    max_error: float
    """The bound asked for: tip's position error over the radius, and separation."""
    reach: float
    """Largest relative displacement of an end effector."""
    within: float
    """Share of the fresh points within the bound."""
    before: Array
    """(points,) error of a single model at rest, at the fresh points."""
    after: Array
    """(points,) error of the collection."""
    displacements: Array
    """(points,) relative displacements of the fresh points."""
    models: int
    pulled: int
    """Equilibria that the engine solved."""
    seconds: float

    @property
    def met(self) -> bool:
        """Whether at least 95 % of the fresh points are within the bound."""
        return self.within >= 0.95

    def __repr__(self) -> str:
        low, high = (float(np.percentile(errors, 95)) for errors in (self.after, self.before))
        return (
            f"Exploration({self.models} models; {self.within:.0%} of {len(self.after)} fresh points within "
            f"{self.max_error:g}; 95th percentile of the error {high:.3g} before, {low:.3g} after; "
            f"{self.pulled} equilibria in {self.seconds:.1f} s)"
        )


@dataclass(frozen=True)
class Point:
    """A mechanism pulled to an equilibrium, and where its end effectors are then."""

    wrenches: Array
    """(e, 6) in world axes."""
    tips: Array
    """(e, 4, 4)"""
    displacement: float
    """Largest relative displacement of an end effector."""
    equilibrium: Equilibrium


def explore(
    mech: Mechanism,
    end_effectors: Sequence[str] | str,
    max_error: float,
    reach: float = 1.0,
    *,
    budget: int = 1000,
    executor: Executor | None = None,
    seed: int = 0,
    checkpoint: str | PathLike[str] | None = None,
    progress: Callable[[float], None] | None = None,
) -> BlendedModel:
    """A blended model of a mechanism within `max_error` for (nearly) all loads up to a relative displacement `reach`.

    `max_error` bounds both the end effectors' position error over the radius and the separation of the joints. Limits
    of joints are left out: reduced models have none, a `World` keeps them.
    At most `budget` models are made; if the bound needs more, a `RangeWarning` says what was reached. What was found
    is in `exploration` of the result. The work is spread over `executor` (any of `concurrent.futures`; by default one
    process a core) and does not depend on it. `checkpoint` names a file that the collection is saved to
    as it grows; a search that was broken off goes on from there. `progress` is called with a fraction; without it
    a bar appears when the search takes longer than two seconds.
    """
    names = _checked(mech, end_effectors, max_error, reach, budget, seed)
    started = time.perf_counter()
    with _workers(executor) as pool, progress_callback(f"exploring '{mech.name}'", progress) as tell:
        search = _Search(mech, names, max_error, reach, pool, seed, checkpoint)
        search.pull(FIRST)
        while True:
            search.refine(budget, tell)
            fresh = search.draw(FRESH)
            errors = search.errors(fresh)
            within = float((errors <= max_error).mean())
            if within >= WITHIN or len(search.many.models) >= budget:
                break
            search.take(fresh, errors)
        tell(1.0)
    many = search.many
    many.exploration = Exploration(
        max_error=max_error,
        reach=reach,
        within=within,
        before=search.errors(fresh, blend([many.models[0]])),
        after=errors,
        displacements=np.array([point.displacement for point in fresh]),
        models=len(many.models),
        pulled=search.pulled,
        seconds=time.perf_counter() - started,
    )
    if checkpoint is not None:
        many.save(checkpoint)
    if not many.exploration.met:
        warnings.warn(
            f"{budget} models of '{mech.name}' bring {within:.0%} of the points within {max_error:g}, the 95th "
            f"percentile is {np.percentile(errors, 95):.3g}; raise the budget or max_error, or lower reach",
            RangeWarning,
            stacklevel=2,
        )
    return many


class _Search:
    """Points pulled to so far, and the collection that is to meet them."""

    def __init__(
        self, mech: Mechanism, names: list[str], max_error: float, reach: float, pool: Executor, seed: int,
        checkpoint: str | PathLike[str] | None,
    ) -> None:  # fmt: skip
        self.mech, self.names, self.max_error, self.reach = mech, names, max_error, reach
        self.pool, self.seed, self.checkpoint = pool, seed, checkpoint
        self.radius = mech.radius or 1.0
        self.open = _open(mech)
        self.rest = reduce(self.open, names, at=equilibrium(self.open))
        self.pulled, self.drawn = 1, 0
        self.points: list[Point] = []
        self.found = np.zeros(0)
        """Errors of the points."""
        self.made: set[int] = set()
        """Points that have become models."""
        if checkpoint is not None and exists(checkpoint):
            self.many = BlendedModel.load(checkpoint)
            if self.many.mechanism != mech or list(self.many.end_effectors) != names:
                raise MechanismError(f"{checkpoint} holds models of another mechanism or of other end effectors")
        else:
            self.many = blend([_rebound_model(self.rest, mech)])
        self.motion = BlendedMotion(self.many, 1.0, 1)

    def _directions(self, count: int) -> list[Array]:
        """(e, 6) each, in world axes: wrenches of all end effectors and of one of them, by turns. They are spread like
        the square root of the compliance at rest: what moves nothing is left out, what moves little counts little."""
        e = len(self.names)
        lengths = np.tile([self.radius] * 3 + [1.0] * 3, e)
        values, vectors = np.linalg.eigh(self.rest.compliance / np.outer(lengths, lengths))
        soft = vectors * np.sqrt(np.clip(values, 0.0, None) / values[-1])
        chosen = []
        for i in range(self.drawn, self.drawn + count):
            rng = np.random.default_rng([self.seed, i])
            wrench = (soft @ rng.normal(size=6 * e) / lengths).reshape(e, 2, 3)
            wrench = (self.rest.end_effector_poses[:, None, :3, :3] @ wrench[..., None]).reshape(e, 6)
            if i % 2:
                wrench[np.arange(e) != int(rng.integers(e))] = 0
            chosen.append(wrench)
        self.drawn += count
        return chosen

    def _rays(self, count: int) -> list[list[Point]]:
        first = np.random.default_rng([self.seed, 3, self.drawn]).uniform(0.05, 0.95, size=count)
        jobs = [_Ray(self.rest, direction, self.reach, share) for direction, share in
                zip(self._directions(count), first.tolist(), strict=True)]  # fmt: skip
        rays = [[self._ours(point) for point in ray] for ray in self.pool.map(_pull, jobs)]
        self.pulled += sum(len(ray) for ray in rays)
        return [ray for ray in rays if ray]

    def _ours(self, point: Point) -> Point:
        """A worker's point with our mechanism instead of the worker's copy."""
        return replace(point, equilibrium=_rebound(point.equilibrium, self.open))

    def pull(self, count: int) -> None:
        """Points in new directions."""
        new = [point for ray in self._rays(count) for point in ray]
        if not new:
            raise ConvergenceError(
                f"'{self.mech.name}' was pulled in {count} directions and never came to rest within reach; "
                "check its springs with supple.equilibrium"
            )
        self.points += new
        self.found = np.concatenate([self.found, self.errors(new)])

    def draw(self, count: int) -> list[Point]:
        """One point of each of so many new directions."""
        rng = np.random.default_rng([self.seed, 1, self.drawn])
        return [ray[int(rng.integers(len(ray)))] for ray in self._rays(count)]

    def take(self, points: list[Point], errors: Array) -> None:
        """Adds points that were looked at."""
        self.points += points
        self.found = np.concatenate([self.found, errors])

    def errors(self, points: list[Point], many: BlendedModel | None = None) -> Array:
        """(points,) the larger of position error and separation, with the wrenches of each point acting."""
        motion = self.motion if many is None else BlendedMotion(many, 1.0, 1)
        return np.array([self._error(motion, point) for point in points])

    def _error(self, motion: BlendedMotion, point: Point) -> float:
        for e, wrench in enumerate(point.wrenches):
            motion.core.set_wrench(e, np.ascontiguousarray(wrench), True)
        motion.place(self.rest.end_effector_poses)
        motion.settle()
        off = np.linalg.norm(motion.tips[0][:, :3, 3] - point.tips[:, :3, 3], axis=1).max() / self.radius
        motion.core.update()
        apart = separation(self.mech, motion.core.poses).total
        error = max(float(off), apart)
        return error if np.isfinite(error) else np.inf

    def refine(self, budget: int, tell: Callable[[float], None]) -> None:
        """Makes models of points beyond the error until all are within it."""
        while len(self.many.models) < budget:
            chosen = self._chosen(budget - len(self.many.models))
            if not chosen:
                return
            jobs = [(self.points[i].equilibrium, self.names) for i in chosen]
            for i, model in zip(chosen, self.pool.map(_linearise, jobs), strict=True):
                self.many.add(_rebound_model(replace(model, at=self.points[i].equilibrium), self.mech))
                self.made.add(i)
            if self.checkpoint is not None:
                self.many.save(self.checkpoint)
            beyond = np.flatnonzero(self.found > self.max_error)
            self.found[beyond] = self.errors([self.points[i] for i in beyond])
            within = float((self.found <= self.max_error).mean())
            tell(min(0.99, max(len(self.many.models) / budget, within**8)))

    def _chosen(self, most: int) -> list[int]:
        """Points beyond the error, at random, none close to another or to a model. (The worst ones first would be the
        mechanism about to buckle, whose models hold for the smallest range.)"""
        beyond = [i for i in np.flatnonzero(self.found > self.max_error) if i not in self.made]
        np.random.default_rng([self.seed, 2, len(self.many.models)]).shuffle(beyond)
        chosen: list[int] = []
        for i in beyond[: max(4, len(beyond) // 2)]:
            tips = self.points[i].tips
            nearest = self.many.distances(tips).min()
            apart = [_distance(tips, self.points[j].tips, self.radius) for j in chosen]
            if nearest > 1e-6 and min(apart, default=np.inf) > 0.5 * nearest:
                chosen.append(int(i))
            if len(chosen) == min(most, BATCH):
                break
        return chosen


def _distance(a: Array, b: Array, radius: float) -> float:
    away = np.linalg.norm(a[:, :3, 3] - b[:, :3, 3], axis=1) / radius
    turned = np.linalg.norm(a[:, :3, :3] - b[:, :3, :3], axis=(1, 2)) / np.sqrt(2) / np.pi
    return float(np.hypot(away, turned).sum())


@dataclass(frozen=True)
class _Ray:
    rest: ReducedModel
    direction: Array
    reach: float
    first: float
    """Share of the reach that the first load would move it by, were it linear."""


def _pull(ray: _Ray) -> list[Point]:
    """Equilibria along a direction of the load, up to the reach (run by a worker)."""
    model, mech = ray.rest, ray.rest.mechanism
    radius = mech.radius or 1.0
    lengths = np.array([radius] * 3 + [1.0] * 3)
    frames = model.end_effector_poses[:, :3, :3]
    body = np.concatenate([ray.direction[:, :3, None], ray.direction[:, 3:, None]], axis=2).transpose(0, 2, 1)
    turned = (body @ frames).reshape(-1)  # into the end effectors' axes
    moved = (model.compliance @ turned).reshape(-1, 6) / lengths
    size = float(np.linalg.norm(moved, axis=1).max())
    if not size > 0:
        return []
    points: list[Point] = []
    scale, low, high, start = ray.first * ray.reach / size, 0.0, np.inf, model.at
    for _ in range(TRIES):
        loads = {name: scale * wrench for name, wrench in zip(model.end_effectors, ray.direction, strict=True)}
        try:
            found = equilibrium(mech, loads, start=start)
        except ConvergenceError:
            high = scale
            scale = (low + high) / 2
            continue
        tips = np.array([found.poses[name] for name in model.end_effectors])
        twists = spatial.log(spatial.inverse(model.end_effector_poses) @ tips) / lengths
        displacement = float(np.linalg.norm(twists, axis=1).max())
        if displacement > ray.reach:
            high = scale
        else:
            low, start = scale, found
            points.append(Point(scale * ray.direction, tips, displacement, found))
            if displacement > 0.9 * ray.reach:
                break
        scale = min(2 * low, low * ray.reach / displacement) if high == np.inf else (low + high) / 2
    return points


def _rebound(found: Equilibrium, mech: Mechanism) -> Equilibrium:
    """An equilibrium of an equal mechanism as one of this very mechanism."""
    return replace(found, mechanism=mech, poses=Poses(mech, found.poses.array))


def _rebound_model(model: ReducedModel, mech: Mechanism) -> ReducedModel:
    """A model of an equal mechanism as one of this very mechanism."""
    at = None if model.at is None else _rebound(model.at, mech)
    return replace(model, mechanism=mech, rest_poses=Poses(mech, model.rest_poses.array), at=at)


def _open(mech: Mechanism) -> Mechanism:
    """The mechanism with its limits out of the way. (They are still there, so that states of one fit the other.)"""

    def moved(limits: Array) -> Array:
        return np.where(np.isfinite(limits), [-AWAY, AWAY], limits)

    joints = tuple(replace(joint, limits=moved(joint.limits)) for joint in mech.joints)
    couplings = tuple(replace(coupling, limits=moved(coupling.limits)) for coupling in mech.couplings)
    return replace(mech, joints=joints, couplings=couplings)


def _linearise(job: tuple[Equilibrium, list[str]]) -> ReducedModel:
    at, names = job
    return reduce(at.mechanism, names, at=at)


@contextmanager
def _workers(executor: Executor | None) -> Iterator[Executor]:
    if executor is not None:
        yield executor
        return
    with ProcessPoolExecutor(max_workers=cpu_count()) as own:
        yield own


def _checked(
    mech: Mechanism, end_effectors: Sequence[str] | str, max_error: float, reach: float, budget: int, seed: int
) -> list[str]:
    check_mechanism(mech)
    for name, value in (("max_error", max_error), ("reach", reach)):
        if not (isinstance(value, int | float) and np.isfinite(value) and value > 0):
            raise MechanismError(f"{name} must be a positive number, got {value!r}")
    for name, whole in (("budget", budget), ("seed", seed)):
        if isinstance(whole, bool) or not isinstance(whole, int | np.integer) or whole < (name == "budget"):
            raise MechanismError(f"{name} must be a whole number, {int(name == 'budget')} or more, got {whole!r}")
    return listed_names(end_effectors)
