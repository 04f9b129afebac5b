"""Chooses linearisation points: the engine pulls the mechanism, and models are added where the blend is inaccurate.

The range is given in wrenches. Random directions in the space of wrenches on the end effectors are drawn with the
compliance as covariance, and the load grows until the end effectors have moved by `reach`. Every equilibrium along a
direction is a point that the blend must reproduce. Points where the blend's error exceeds `max_error` become models,
until all are within the bound. Then new points test the result; if too many exceed the bound, they join the others and
the search continues.
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
from supple.engine.statics import equilibrium_at_any_range
from supple.errors import ConvergenceError, MechanismError, RangeWarning
from supple.mechanism import Mechanism, Poses
from supple.mechanism.flexible import range_ratios
from supple.mechanism.mechanism import check_mechanism
from supple.mechanism.record import Array
from supple.progress import progress_callback
from supple.reduced.blending import BlendedModel, BlendedMotion, blend
from supple.reduced.build import listed_names, reduce
from supple.reduced.joints import separation
from supple.reduced.model import ReducedModel

WITHIN = 0.97
"""The search ends when this fraction of new points is within the error."""
FIRST, FRESH = 48, 96
"""Number of directions at the start, and of new directions in each test."""
BATCH = 16
"""Models made before the errors are computed again."""
FAR_LIMIT = 1e6
"""rad or m, of limits that are never reached."""
TRIES = 7
"""Equilibria tried in each direction."""


@dataclass(frozen=True)
class Exploration:
    """Errors of a collection at points that were not used to make it."""

    max_error: float
    """The requested bound on the position error of end effectors over the radius, and on the separation."""
    reach: float
    """Largest relative displacement of an end effector."""
    within: float
    """Fraction of the new points within the bound."""
    before: Array
    """(points,) error of one model at the reference pose, at the new points."""
    after: Array
    """(points,) error of the collection."""
    displacements: Array
    """(points,) relative displacements of the new points."""
    models: int
    pulled: int
    """Number of equilibria that the engine computed."""
    seconds: float

    @property
    def met(self) -> bool:
        """Whether at least 95 % of the new points are within the bound."""
        return self.within >= 0.95

    def __repr__(self) -> str:
        low, high = (float(np.percentile(errors, 95)) for errors in (self.after, self.before))
        return (
            f"Exploration({self.models} models; {self.within:.0%} of {len(self.after)} test points within "
            f"{self.max_error:g}; 95th percentile of the error {high:.3g} before, {low:.3g} after; "
            f"{self.pulled} equilibria in {self.seconds:.1f} s)"
        )


@dataclass(frozen=True)
class Point:
    """An equilibrium of the mechanism under wrenches on its end effectors."""

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
    """Makes a blended model within `max_error` for at least 95 % of loads up to a relative displacement `reach`.

    Args:
        mech: the mechanism. Joint limits are ignored: linear and blended models have none, a `World` enforces them.
        end_effectors: names of bodies or sites.
        max_error: bound on the position error of the end effectors over the radius, and on the separation.
        reach: largest relative displacement of an end effector. Flexible bodies are deformed at most as far as the
            shapes that their bases were made of.
        budget: largest number of models. If the bound needs more, a `RangeWarning` states the error reached.
        executor: any executor of `concurrent.futures`; by default one process per core. It does not change the result.
        seed: of the random directions.
        checkpoint: file to which the collection is saved as it grows. The same call continues from it.
        progress: called with the fraction done. Without it, a progress bar appears after two seconds.

    Returns:
        The blended model. Its `exploration` contains the errors at points that were not used to make it.
    """
    names = _check_arguments(mech, end_effectors, max_error, reach, budget, seed)
    started = time.perf_counter()
    with _executor_or_processes(executor) as pool, progress_callback(f"exploring '{mech.name}'", progress) as tell:
        search = _Search(mech, names, max_error, reach, pool, seed, checkpoint)
        search.add_directions(FIRST)
        while True:
            search.refine(budget, tell)
            fresh = search.draw_test_points(FRESH)
            errors = search.errors(fresh)
            within = float((errors <= max_error).mean())
            if within >= WITHIN or len(search.many.models) >= budget:
                break
            search.add_points(fresh, errors)
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
    """The points found so far and the collection that must meet them."""

    def __init__(
        self, mech: Mechanism, names: list[str], max_error: float, reach: float, pool: Executor, seed: int,
        checkpoint: str | PathLike[str] | None,
    ) -> None:  # fmt: skip
        self.mech, self.names, self.max_error, self.reach = mech, names, max_error, reach
        self.pool, self.seed, self.checkpoint = pool, seed, checkpoint
        self.radius = mech.radius or 1.0
        self.unlimited = _without_limits(mech)
        self.rest = reduce(self.unlimited, names, at=equilibrium(self.unlimited))
        self.pulled, self.drawn = 1, 0
        self.points: list[Point] = []
        self.point_errors = np.zeros(0)
        """Errors of the points."""
        self.used_points: set[int] = set()
        """Points that have become models."""
        if checkpoint is not None and exists(checkpoint):
            self.many = BlendedModel.load(checkpoint)
            if self.many.mechanism != mech or list(self.many.end_effectors) != names:
                raise MechanismError(f"{checkpoint} holds models of another mechanism or of other end effectors")
        else:
            self.many = blend([_model_with_mechanism(self.rest, mech)])
        self.motion = BlendedMotion(self.many, 1.0, 1)

    def _directions(self, count: int) -> list[Array]:
        """Random wrenches (e, 6) in world axes, alternately on all end effectors and on one of them.

        Their covariance is the compliance at the reference pose: directions that move nothing are never drawn.
        """
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
        rays = [[self._with_own_mechanism(point) for point in ray] for ray in self.pool.map(_equilibria_along, jobs)]
        self.pulled += sum(len(ray) for ray in rays)
        return [ray for ray in rays if ray]

    def _with_own_mechanism(self, point: Point) -> Point:
        """The point with this process's mechanism instead of the worker's copy."""
        return replace(point, equilibrium=_equilibrium_with_mechanism(point.equilibrium, self.unlimited))

    def add_directions(self, count: int) -> None:
        """Adds the equilibria along new random directions."""
        new = [point for ray in self._rays(count) for point in ray]
        if not new:
            raise ConvergenceError(
                f"'{self.mech.name}' was pulled in {count} directions and never came to rest within reach; "
                "check its springs with supple.equilibrium"
            )
        self.points += new
        self.point_errors = np.concatenate([self.point_errors, self.errors(new)])

    def draw_test_points(self, count: int) -> list[Point]:
        """Returns one point of each of `count` new directions."""
        rng = np.random.default_rng([self.seed, 1, self.drawn])
        return [ray[int(rng.integers(len(ray)))] for ray in self._rays(count)]

    def add_points(self, points: list[Point], errors: Array) -> None:
        """Adds points with known errors."""
        self.points += points
        self.point_errors = np.concatenate([self.point_errors, errors])

    def errors(self, points: list[Point], many: BlendedModel | None = None) -> Array:
        """(points,) the larger of position error and separation of the blend under the wrenches of each point."""
        motion = self.motion if many is None else BlendedMotion(many, 1.0, 1)
        return np.array([self._error(motion, point) for point in points])

    def _error(self, motion: BlendedMotion, point: Point) -> float:
        for e, wrench in enumerate(point.wrenches):
            motion.core.set_wrench(e, np.ascontiguousarray(wrench), True)
        motion.place(self.rest.end_effector_poses)
        motion.relax()
        off = np.linalg.norm(motion.tips[0][:, :3, 3] - point.tips[:, :3, 3], axis=1).max() / self.radius
        motion.core.update()
        near = motion.coordinates if self.mech.flexible else None
        apart = separation(self.mech, motion.core.poses, near).total
        error = max(float(off), apart)
        return error if np.isfinite(error) else np.inf

    def refine(self, budget: int, tell: Callable[[float], None]) -> None:
        """Makes models of points that exceed the error until none does or the budget is spent."""
        while len(self.many.models) < budget:
            chosen = self._points_for_models(budget - len(self.many.models))
            if not chosen:
                return
            jobs = [(self.points[i].equilibrium, self.names) for i in chosen]
            for i, model in zip(chosen, self.pool.map(_reduce_job, jobs), strict=True):
                self.many.add(_model_with_mechanism(replace(model, at=self.points[i].equilibrium), self.mech))
                self.used_points.add(i)
            if self.checkpoint is not None:
                self.many.save(self.checkpoint)
            beyond = np.flatnonzero(self.point_errors > self.max_error)
            self.point_errors[beyond] = self.errors([self.points[i] for i in beyond])
            within = float((self.point_errors <= self.max_error).mean())
            tell(min(0.99, max(len(self.many.models) / budget, within**8)))

    def _points_for_models(self, most: int) -> list[int]:
        """Random points that exceed the error, none close to another or to a model.

        Choosing the worst ones first would favour states near buckling, whose models have the smallest range.
        """
        beyond = [i for i in np.flatnonzero(self.point_errors > self.max_error) if i not in self.used_points]
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
    """Fraction of the reach by which the first load would move a linear mechanism."""


def _equilibria_along(ray: _Ray) -> list[Point]:
    """Equilibria along a direction of the load, up to the reach or to the shapes that the bases of flexible bodies were
    made of. Runs in a worker."""
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
            found = equilibrium_at_any_range(mech, loads, start=start)
        except ConvergenceError:
            high = scale
            scale = (low + high) / 2
            continue
        tips = np.array([found.poses[name] for name in model.end_effectors])
        twists = spatial.log(spatial.inverse(model.end_effector_poses) @ tips) / lengths
        displacement = float(np.linalg.norm(twists, axis=1).max())
        trained = all(ratio <= 1 for _, ratio in range_ratios(mech.flexible, found.coordinates))
        if displacement > ray.reach or not trained:
            high = scale
        else:
            low, start = scale, found
            points.append(Point(scale * ray.direction, tips, displacement, found))
            if displacement > 0.9 * ray.reach:
                break
        scale = min(2 * low, low * ray.reach / displacement) if high == np.inf else (low + high) / 2
    return points


def _equilibrium_with_mechanism(found: Equilibrium, mech: Mechanism) -> Equilibrium:
    """The same equilibrium with another, equal mechanism object."""
    return replace(found, mechanism=mech, poses=Poses(mech, found.poses.array, found.poses.amplitudes))


def _model_with_mechanism(model: ReducedModel, mech: Mechanism) -> ReducedModel:
    """The same model with another, equal mechanism object."""
    at = None if model.at is None else _equilibrium_with_mechanism(model.at, mech)
    rest = model.rest_poses
    return replace(model, mechanism=mech, rest_poses=Poses(mech, rest.array, rest.amplitudes), at=at)


def _without_limits(mech: Mechanism) -> Mechanism:
    """The mechanism with limits that are never reached. They still exist, so that states fit both mechanisms."""

    def moved(limits: Array) -> Array:
        return np.where(np.isfinite(limits), [-FAR_LIMIT, FAR_LIMIT], limits)

    joints = tuple(replace(joint, limits=moved(joint.limits)) for joint in mech.joints)
    couplings = tuple(replace(coupling, limits=moved(coupling.limits)) for coupling in mech.couplings)
    return replace(mech, joints=joints, couplings=couplings)


def _reduce_job(job: tuple[Equilibrium, list[str]]) -> ReducedModel:
    at, names = job
    return reduce(at.mechanism, names, at=at)


@contextmanager
def _executor_or_processes(executor: Executor | None) -> Iterator[Executor]:
    if executor is not None:
        yield executor
        return
    with ProcessPoolExecutor(max_workers=cpu_count()) as own:
        yield own


def _check_arguments(
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
