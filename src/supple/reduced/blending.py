"""Blends linear models of one mechanism over a wide range of motion (FORK-1S, section 7; docs/theory/blended.md)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from os import PathLike
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakSet

import numpy as np
from numpy.typing import ArrayLike

from supple import _core, spatial
from supple.engine.assembly import equations, target_places
from supple.errors import MechanismError
from supple.mechanism import Poses
from supple.mechanism.idle import idle_spins
from supple.mechanism.kinematics import FURTHEST as FURTHEST_TARGET
from supple.mechanism.notebook import brief
from supple.mechanism.poses import amplitudes_in
from supple.mechanism.record import Array, array, checked_pose
from supple.progress import progress_callback
from supple.reduced.eigenframes import Eigenframe, eigenframe
from supple.reduced.joints import Separation, separation_at
from supple.reduced.model import Model, ReducedModel
from supple.reduced.motion import NOT_FINITE, ArrayOfTargets, Bounds, stacked
from supple.reduced.rest_paths import RestPath, rest_path, world_wrenches
from supple.threads import single_blas_thread

if TYPE_CHECKING:
    from supple.reduced.exploring import Exploration
    from supple.reduced.motion import Motion

SCHEMES = ("corrected", "published")
SUPPORTS = ("local", "global")
DEFAULTS = {"corrected": (4.0, "local"), "published": (2.0, "global")}
"""Power and support of the weights, by scheme."""
NEIGHBOURS = 4
"""With local support, weights vanish at 1.2 times the distance of this neighbour."""
FURTHEST = 1e6
"""Largest distance of an end effector from the world's origin, over the radius, that `at` accepts."""
SAME = 1e-9
"""Models closer than this (lengths over the radius, angles over pi) count as made at the same pose."""
MOST_WITH_PATHS = 8
"""Poses at rest between the loads of two models are computed for the first models, up to this number."""
UNDAMPED = 1e-9
"""s: damping over stiffness that replaces zero damping, so that inverse damping exists."""


def blend(
    models: Iterable[ReducedModel],
    *,
    scheme: str = "corrected",
    power: float | None = None,
    support: str | None = None,
) -> BlendedModel:
    """Blends linear models of one mechanism and the same end effectors, made at different equilibria.

    Args:
        models: linear models from `supple.reduce`. Of models with added modes the end-effector part is blended.
        scheme: `"corrected"` is supple's own blend. `"published"` is section 7 of the FORK-1S paper as printed, for
            comparisons: M phi' + D phi + K xi = w - b (eq. 24) with the weights of eq. 25 (displacements from the first
            model's pose, power 2, global support), matrices by algorithm 3, links by algorithm 4, steps by algorithm 5,
            means with the nearest model as base (eqs. 26 to 28). It has no half-way rule, no equilibria between
            loads, no common spring, no damping of changing weights (J'KJ), no energy budget and no division of large
            steps.
        power: exponent p of the weights d^-p (eq. 25); 4, or 2 if published.
        support: `"local"`: the weight of a model vanishes just beyond the fourth nearest model, so that the cost of a
            step does not grow with the number of models. `"global"`: all models count everywhere, as published.

    Raises:
        MechanismError: if the models do not belong together or an option is unknown.
    """
    chosen = list(models) if isinstance(models, Iterable) else models
    if not isinstance(chosen, list) or not all(isinstance(model, ReducedModel) for model in chosen):
        raise MechanismError("blend takes a list of reduced models (from supple.reduce)")
    if not chosen:
        raise MechanismError("there is nothing to blend: give at least one model")
    if scheme not in SCHEMES:
        raise MechanismError(f"scheme is one of {SCHEMES}, got {scheme!r}")
    default_power, default_support = DEFAULTS[scheme]
    power = default_power if power is None else power
    support = default_support if support is None else support
    if not (isinstance(power, int | float) and np.isfinite(power) and power >= 1):
        raise MechanismError(f"power must be a number of at least 1, got {power!r}")
    if support not in SUPPORTS:
        raise MechanismError(f"support is one of {SUPPORTS}, got {support!r}")
    many = BlendedModel(chosen[0], float(power), support, scheme)
    for model in chosen[1:]:
        many.add(model)
    return many


def _blended(
    models: Iterable[ReducedModel], power: float, support: str, scheme: str, exploration: Exploration | None
) -> BlendedModel:
    many = blend(models, power=power, support=support, scheme=scheme)
    many.exploration = exploration
    return many


@dataclass(frozen=True)
class Blend:
    """A blended model evaluated at poses of its end effectors. Twists and wrenches are in body axes."""

    __repr__ = brief

    weights: Array
    """(k,) weights of the models; their sum is 1."""
    compliance: Array
    """(6e, 6e): displacement per unit load that turns with the end effectors."""
    mass: Array
    """(6e, 6e): zero in inadmissible directions."""
    damping: Array
    """(6e, 6e)"""
    wrenches: Array
    """(6e,) wrenches that hold the end effectors at these poses; N and N m."""
    reference_poses: Array
    """(e, 4, 4) the weighted mean of the poses at which the models in use were made."""
    poses: Poses
    """World poses of every body."""
    energy: float
    """J: energy of springs and gravity relative to the equilibrium of the first model."""

    @property
    def separation(self) -> Separation:
        """Separation of the joints."""
        return separation_at(self.poses)


class BlendedModel(Model):
    """A collection of linear models of one mechanism. `add` extends it, also while simulations of it run."""

    def __init__(self, first: ReducedModel, power: float, support: str, scheme: str) -> None:
        if first.free_base is not None:
            raise MechanismError(f"'{first.mechanism.name}' floats: its models are made at one pose and do not blend")
        self.mechanism, self.end_effectors = first.mechanism, first.end_effectors
        self.power, self.support, self.scheme = power, support, scheme
        self.models: tuple[ReducedModel, ...] = ()
        """The linear models, in the order they were added."""
        self._lengths = np.tile([self.mechanism.radius or 1.0] * 3 + [1.0] * 3, len(self.end_effectors))
        self._samples: list[Sample] = []
        self._paths: list[tuple[int, int, RestPath]] = []
        """Poses at rest between the loads of two models, by their indices."""
        self._ground = 0.0
        """J (twists over the radius): a spring added to all models for blending; core/reduced/blended.hpp."""
        self.exploration: Exploration | None = None
        """Errors measured by `supple.explore`, if it made the collection."""
        self._evaluator: BlendedMotion | None = None
        self._motions: WeakSet[BlendedMotion] = WeakSet()
        self._equations = equations(self.mechanism, held=idle_spins(self.mechanism, self.end_effectors))
        self.add(first)

    def __reduce__(self) -> tuple[Any, ...]:
        """For pickle and copy: the models are blended again."""
        return _blended, (self.models, self.power, self.support, self.scheme, self.exploration)

    @property
    def acting(self) -> dict[str, tuple[Array, bool]]:
        """The loads of the first model's equilibrium."""
        return self.models[0].acting

    @property
    def neighbours(self) -> int:
        """Number of nearest models that determine where weights vanish; 0 if they never do."""
        return NEIGHBOURS if self.support == "local" else 0

    def add(self, model: ReducedModel, fade: float = 0.0) -> None:
        """Adds a model. In running simulations its weight grows from zero over `fade` seconds."""
        self._check(model)
        if not (isinstance(fade, int | float) and np.isfinite(fade) and fade >= 0):
            raise MechanismError(f"fade must be a time in seconds, 0 or more, got {fade!r}")
        distances = self.distances(model.end_effector_poses)
        nearest = int(np.argmin(distances)) if len(distances) else -1
        if nearest >= 0 and distances[nearest] < SAME:
            raise MechanismError(
                f"the new model of '{self.mechanism.name}' was made where model {nearest} already is; leave one out"
            )
        ground = self._common_spring_for(model)
        new_paths = self._paths_to(model)
        self.models = (*self.models, model)
        self._paths += new_paths
        if ground > self._ground:
            self._ground, self._samples = ground, []
            for other in self.models:
                self._samples.append(self._make_sample(other))
            for motion in self._motions:
                motion.reload_models(fade)
            return
        sample = self._make_sample(model)
        self._samples.append(sample)
        for motion in self._motions:
            motion.add_sample(sample, fade)
            motion.add_paths(new_paths)

    def _paths_to(self, model: ReducedModel) -> list[tuple[int, int, RestPath]]:
        """Poses at rest between the loads of a new model and those of the first model and of the model with the nearest
        load."""
        if self.scheme == "published" or not 0 < len(self.models) < MOST_WITH_PATHS:
            return []
        lengths = self._lengths.reshape(-1, 6)
        loads = np.array([world_wrenches(other) for other in self.models])
        away = np.linalg.norm(((world_wrenches(model) - loads) * lengths).reshape(len(loads), -1), axis=1)
        others, paths = sorted({0, int(np.argmin(away))}), []
        title = f"equilibria of '{self.mechanism.name}' between loads"
        with progress_callback(title, None) as tell, single_blas_thread():
            for k, i in enumerate(others):
                path = rest_path(self.models[i], model)
                paths += [] if path is None else [(i, len(self.models), path)]
                tell((k + 1) / len(others))
        return paths

    def _make_sample(self, model: ReducedModel) -> Sample:
        """The data that a blend needs of a model; eigenframes matched with those of earlier samples, nearest first."""
        distances = self.distances(model.end_effector_poses)[: len(self._samples)]
        neighbours = [self._samples[i] for i in np.argsort(distances, kind="stable")]
        fixed = self.scheme != "published"
        return _sample(model, self._lengths, self._stored_energy(model), neighbours, self._ground, fixed)

    def _common_spring_for(self, model: ReducedModel) -> float:
        """The common spring (J) that a model needs: with it, the smallest stiffness of the model is half of that of the
        first model, which has the spring, too. Zero if the model is that stiff without it."""
        if self.scheme == "published":
            return 0.0
        smallest = np.linalg.eigvalsh(_stiffness(model, self._lengths)[1])[:1]
        first = np.linalg.eigvalsh(_stiffness(self.models[0] if self.models else model, self._lengths)[1])
        return float(max(0.0, np.abs(first).min() - 2 * smallest[0])) if len(smallest) else 0.0

    def _check(self, model: ReducedModel) -> None:
        if not isinstance(model, ReducedModel):
            raise MechanismError(f"a reduced model is needed (from supple.reduce), got {type(model).__name__}")
        mine, other = self.mechanism, model.mechanism
        if other is not mine and other != mine:
            ratio = other.radius / mine.radius if mine.radius and other.radius else 1.0
            units = f" (it is {ratio:.4g} times as large: are its units different?)" if not 0.5 < ratio < 2 else ""
            raise MechanismError(
                f"only models of one mechanism blend: this one is of '{other.name}'{units}, the others of '{mine.name}'"
            )
        if model.end_effectors != self.end_effectors:
            raise MechanismError(
                f"only models of the same end effectors blend: this one has {', '.join(model.end_effectors)}, "
                f"the others {', '.join(self.end_effectors)} (in this order)"
            )
        if self.models and model.mass_kind != self.models[0].mass_kind:
            raise MechanismError(f"models with mass={self.models[0].mass_kind!r} and {model.mass_kind!r} do not blend")

    def _stored_energy(self, model: ReducedModel) -> float:
        """J: energy of springs and gravity at the equilibrium of a model."""
        eqs = self._equations
        if model.at is None:
            acting, state = eqs.unloaded(), (model.q, *eqs.zero_state()[1:])
        else:
            acting, state = model.at.acting, model.at.state
        return float(sum(eqs.evaluated(replace(acting, gravity=self.mechanism.gravity), state).energies))

    def distances(self, poses: ArrayLike) -> Array:
        """(k,) distances of every model from poses (e, 4, 4) of the end effectors (eq. 25): lengths over the radius,
        chords of angles over pi, summed over the end effectors."""
        here = self._tips(poses)
        there = np.array([model.end_effector_poses for model in self.models]).reshape(-1, *here.shape)
        away = ((there[..., :3, 3] - here[:, :3, 3]) ** 2).sum(axis=-1) / self._lengths[0] ** 2
        turned = ((there[..., :3, :3] - here[:, :3, :3]) ** 2).sum(axis=(-1, -2)) / 2
        distances: Array = np.sqrt(away + turned / np.pi**2).sum(axis=-1)
        return distances

    def _tips(self, poses: ArrayLike) -> Array:
        tips = array(poses, (len(self.end_effectors), 4, 4), "poses of the end effectors")
        if (away := np.abs(tips[:, :3, 3]).max()) > FURTHEST * self._lengths[0]:
            raise MechanismError(f"poses of the end effectors must be within {FURTHEST:g} radii, got one at {away:g} m")
        return np.array([checked_pose(pose, "one of the poses of the end effectors") for pose in tips])

    def at(self, poses: ArrayLike) -> Blend:
        """Evaluates the blended model with its end effectors at poses (e, 4, 4)."""
        tips = self._tips(poses)
        if self._evaluator is None:
            self._evaluator = BlendedMotion(self, 1.0, 1)
            self._evaluator.core.ignore_loads()
        self._evaluator.place(tips)
        return self._evaluator.evaluate()

    def motion(self, dt: float, reconstruction: str, corrections: int, threads: int) -> Motion:
        if reconstruction != "twist":
            raise MechanismError(
                'blended models reconstruct links with reconstruction="twist" only; for closed joints use '
                "supple.Simulation"
            )
        return BlendedMotion(self, dt, threads)

    def save(self, path: str | PathLike[str]) -> None:
        """Writes the collection, with its mechanism, as `.npz` (no pickle)."""
        from supple.reduced.files import save_blended

        save_blended(self, path)

    @staticmethod
    def load(path: str | PathLike[str]) -> BlendedModel:
        """Reads a collection that `save` wrote."""
        from supple.reduced.files import load_blended

        return load_blended(path)

    def __repr__(self) -> str:
        return f"BlendedModel('{self.mechanism.name}': {', '.join(self.end_effectors)}; {len(self.models)} models)"


@dataclass(frozen=True)
class Sample:
    """The data that a blend needs of one model. Lengths of twists are divided by the radius."""

    model: ReducedModel
    compliance: Eigenframe
    inverse_mass: Eigenframe
    inverse_damping: Eigenframe
    """Inverse damping."""
    wrench: Array
    damped: bool
    energy: float

    @property
    def parts(self) -> tuple[Eigenframe, Eigenframe, Eigenframe]:
        return self.compliance, self.inverse_mass, self.inverse_damping


def _stiffness(model: ReducedModel, lengths: Array) -> tuple[Array, Array]:
    """Orthonormal basis (n, r) of admissible twists over the radius, and in it the stiffness (r, r), J, for loads whose
    forces keep their direction in the world."""
    n = len(lengths)
    basis = np.linalg.qr(model.basis[:n, : model.rank] / lengths[:, None])[0]
    held = model.stiffness[:n, :n] - _geometric_stiffness(model.wrenches)
    return basis, basis.T @ (held * np.outer(lengths, lengths)) @ basis


def _geometric_stiffness(wrenches: Array) -> Array:
    """(6e, 6e): d/dxi of the generalised force of forces that keep their direction in the world, at xi = 0.

    The potential of a force f in body axes is f . p with p = v + w x v / 2 + ... at xi = (v, w).
    """
    n = len(wrenches)
    result = np.zeros((n, n))
    for at in range(0, n, 6):
        half = 0.5 * spatial.skew(wrenches[at : at + 3])
        result[at : at + 3, at + 3 : at + 6] = half
        result[at + 3 : at + 6, at : at + 3] = half.T
    return result


def _sample(
    model: ReducedModel, lengths: Array, energy: float, neighbours: list[Sample], ground: float, fixed: bool
) -> Sample:
    """`fixed`: the compliance is that for forces of fixed direction in the world, else that for wrenches that turn with
    the end effectors."""
    n = len(lengths)
    units = np.outer(lengths, lengths)
    basis = model.basis[:n, : model.rank]
    mass, damping = (basis.T @ m[:n, :n] @ basis for m in (model.mass, model.damping))
    soft = model.compliance[:n, :n] / units
    if ground or (fixed and model.wrenches.any()):
        scaled, springs = _stiffness(model, lengths)
        soft = scaled @ np.linalg.inv(springs + ground * np.eye(len(springs))) @ scaled.T
    stiffness = basis.T @ np.linalg.pinv(soft * units, 1e-13, hermitian=True) @ basis
    light = _inverse(model, basis, mass) / units
    slack = _inverse(model, basis, damping + UNDAMPED * stiffness) / units
    compliance, inverse_mass, inverse_damping = (
        eigenframe(inverse, [other.parts[i] for other in neighbours]) for i, inverse in enumerate((soft, light, slack))
    )
    return Sample(
        model,
        compliance,
        inverse_mass,
        inverse_damping,
        wrench=model.wrenches * lengths,
        damped=bool(damping.any()),
        energy=energy,
    )


def _inverse(model: ReducedModel, basis: Array, matrix: Array) -> Array:
    try:
        inverse: Array = basis @ np.linalg.inv((matrix + matrix.T) / 2) @ basis.T
    except np.linalg.LinAlgError:
        inverse = np.full((len(basis),) * 2, np.nan)
    if not np.isfinite(inverse).all():
        raise MechanismError(f"an end effector of '{model.mechanism.name}' has no mass, so its models do not blend")
    return inverse


class MovedModel(NamedTuple):
    """One of the blended models, moved by set-points."""

    bounds: Bounds
    increments: Array
    """(axes,) of the joints, with the end effectors fixed."""
    end_effector_poses: Array
    """(e, 4, 4)"""

    def by(self, model: ReducedModel, increments: Array, tips: Array) -> MovedModel:
        """The model with other increments and displacements (6e,) of the end effectors."""
        return MovedModel(self.bounds, increments, model.end_effector_poses @ spatial.exp(tips.reshape(-1, 6)))


class BlendedMotion:
    """Simulates a blended model (algorithm 5). Its state consists of the end effectors' poses and velocities.

    The weight of the last model grows from zero over `fade` seconds.
    """

    failure = NOT_FINITE

    def __init__(self, model: BlendedModel, dt: float, threads: int, fade: float = 0.0) -> None:
        self.model, self.bodies = model, len(model.mechanism.bodies)
        self._lengths = model._lengths
        sizes = len(model.end_effectors), self.bodies, float(self._lengths[0])
        published = model.scheme == "published"
        self.core = _core.BlendedCore(*sizes, model.power, model.neighbours, published, dt, threads)
        self.link_poses, self.fade = self.core.poses, 0.0
        self.core.set_home(np.ascontiguousarray(model.models[0].end_effector_poses))
        self._targets: dict[str, float] = {}
        self._effects: dict[tuple[int, str], tuple[Array, Array, Array]] = {}
        self._moved: list[MovedModel] = []
        self._arrays: list[ArrayOfTargets] = []  # of each model, once an array was given
        self._places = target_places(model.mechanism)
        self._given: Array | None = None  # an array of set-points that only the core has taken yet
        limits = np.array(Bounds(model.models[0]).limits).reshape(-1, 2).T
        self.core.set_limits(*(np.ascontiguousarray(each) for each in limits))
        self.reload_models(fade)
        model._motions.add(self)
        self.place(model.models[0].end_effector_poses)

    def reload_models(self, fade: float) -> None:
        """Passes all models to the core again, with the common spring; the last one fades in over `fade` seconds."""
        there = self.core.presence
        self.core.set_ground(self.model._ground)
        self._settle()
        self._moved.clear()
        self._arrays.clear()
        for sample in self.model._samples:
            self.add_sample(sample, fade if sample is self.model._samples[-1] else 0.0)
        self.add_paths(self.model._paths)
        if len(there):
            self.core.set_presence(np.append(there, self.core.presence[len(there) :]))

    def add_sample(self, sample: Sample, fade: float) -> None:
        """Passes one more model to the core; it fades in over `fade` seconds."""
        self._settle()
        self.fade = fade or self.fade
        model, n = sample.model, len(self._lengths)
        basis, cobasis = model.basis[:n, : model.rank], model.cobasis[: model.rank, :n]
        links = model.motion_map[..., :n] @ basis
        arrays = sample.wrench, cobasis, model.rest_poses.array, links
        self.core.add(
            np.ascontiguousarray(model.end_effector_poses),
            [np.ascontiguousarray(part.frame) for part in sample.parts],
            [np.ascontiguousarray(part.core) for part in sample.parts],
            *(np.ascontiguousarray(each) for each in arrays),
            sample.energy,
            sample.damped,
            fade,
        )
        bounds = Bounds(model)
        self._moved.append(MovedModel(bounds, np.zeros(len(model.q)), model.end_effector_poses))
        self.core.set_bounded(len(self._moved) - 1, np.ascontiguousarray(bounds.rows[:, :n]), bounds.at)
        if self._targets:
            self._push_targets([len(self._moved) - 1])

    def add_paths(self, paths: Iterable[tuple[int, int, RestPath]]) -> None:
        """Passes poses at rest between the loads of two models to the core."""
        for first, second, path in paths:
            arrays = path.shares, path.displacements, path.slopes
            self.core.add_path(first, second, *(np.ascontiguousarray(each) for each in arrays))

    def place(self, tips: Array, twists: Array | None = None, time: float = 0.0) -> None:
        """Places the end effectors at poses (e, 4, 4), with body twists (e, 6) or at rest."""
        rows = np.zeros((len(tips), 22))
        rows[:, :16] = tips.reshape(-1, 16)
        rows[:, 16:] = 0.0 if twists is None else twists
        self.core.set_state(rows, time)

    def relax(self, iterations: int = 400, tolerance: float = 1e-9) -> float:
        """Moves the end effectors to the equilibrium under the present wrenches. Returns the last increment's size."""
        return float(self.core.relax(iterations, tolerance))

    def evaluate(self) -> Blend:
        """Evaluates the blend at the present poses."""
        core, lengths = self.core, self._lengths
        core.update()
        units = np.outer(lengths, lengths)
        basis = core.basis
        soft, ground, weights = core.compliance, self.model._ground, core.weights
        stiff = np.linalg.inv(soft)
        mass, stiffness = (basis @ small @ basis.T / units for small in (np.linalg.inv(core.inverse_mass), stiff))
        damped = core.inverse_damping.size > 0
        drag = basis @ np.linalg.inv(core.inverse_damping) @ basis.T / units if damped else UNDAMPED * stiffness
        turning = basis.T @ (_geometric_stiffness(self._mean_forces(weights)) * units) @ basis
        if self.model.scheme != "published" and (ground or turning.any()):
            soft = np.linalg.inv(stiff - ground * np.eye(len(soft)) + turning)
        return Blend(
            weights=weights,
            compliance=basis @ soft @ basis.T * units,
            mass=mass,
            damping=drag - UNDAMPED * stiffness,
            wrenches=core.holding_wrench,
            reference_poses=core.means,
            poses=Poses(self.model.mechanism, core.poses, self._amplitudes()),
            energy=sum(weights[i] * self._energy(i) for i in map(int, np.flatnonzero(weights)))
            - self.model._samples[0].energy,
        )

    def _amplitudes(self) -> dict[str, Array]:
        mech = self.model.mechanism
        return amplitudes_in(mech, self.coordinates) if mech.flexible else {}

    def _mean_forces(self, weights: Array) -> Array:
        """(6e,) the mean of the models' equilibrium forces (torques zero), in the axes of the mean poses."""
        forces = np.zeros((len(self.model.end_effectors), 6))
        for i in map(int, np.flatnonzero(weights)):
            local = self.model.models[i].wrenches.reshape(-1, 6, 1)[:, :3]
            forces[:, :3] += weights[i] * (self._settle()[i].end_effector_poses[:, :3, :3] @ local)[..., 0]
        forces[:, :3] = (np.swapaxes(self.core.means[:, :3, :3], -1, -2) @ forces[:, :3, None])[..., 0]
        return forces.ravel()

    def _energy(self, i: int) -> float:
        """J: energy of one model by its own quadratic law."""
        sample = self.model._samples[i]
        xi = self._displacement_from(i)
        stiffness = sample.model.stiffness[: len(xi), : len(xi)]
        return float(sample.energy + sample.model.wrenches @ xi + 0.5 * xi @ stiffness @ xi)

    def _displacement_from(self, i: int) -> Array:
        """(6e,) displacement of the end effectors from the pose of a model."""
        away = spatial.inverse(self.model.models[i].end_effector_poses) @ self.tips[0]
        xi: Array = spatial.log(away).ravel()
        return xi

    @property
    def tips(self) -> tuple[Array, Array]:
        rows = self.core.state
        return rows[:, :16].reshape(-1, 4, 4), rows[:, 16:]

    def tip_pose(self, tip: int) -> Array:
        pose: Array = self.core.state[tip, :16].reshape(4, 4)
        return pose

    def set_targets(self, targets: dict[str, float]) -> None:
        self._targets, self._given = dict(targets), None
        self._push_targets(range(len(self._moved)))

    def set_target_array(self, targets: Array) -> bool:
        if not self._places:
            return False
        for i in range(len(self._arrays), len(self._moved)):
            self._arrays.append(self._prepared_array(i, self._places))
        if not self.core.set_targets(targets, self.model.mechanism.dof, FURTHEST_TARGET):
            return False
        self._given = targets.copy()
        return True

    def _prepared_array(self, i: int, places: dict[str, int]) -> ArrayOfTargets:
        """Passes the responses of a model to all set-points of an array to the core."""
        n, bounds = len(self._lengths), self._moved[i].bounds
        values = np.array([self.model.models[i].rest_target(name) for name in places])
        at = list(places.values())
        for name in places:
            self._effect(i, name)
        tips, links, turns = stacked(self._effects, [(i, name) for name in places])
        now = np.vstack([tips[:n], bounds.combined @ turns])
        self.core.prepare_targets(at, values, now, np.ascontiguousarray(links), bounds.at)
        return ArrayOfTargets(np.array(at), values, (turns, tips[:n]))

    def _settle(self) -> list[MovedModel]:
        """The models, moved by the present set-points."""
        if self._given is not None:
            for i, array in enumerate(self._arrays):
                turns, tips = array.responses(self._given)
                self._moved[i] = self._moved[i].by(self.model.models[i], turns, tips)
            self._targets = {name: float(self._given[at]) for name, at in self._places.items()}
            self._given = None
        return self._moved

    def _push_targets(self, which: Iterable[int]) -> None:
        for i in which:
            model = self.model.models[i]
            n = len(self._lengths)
            tips, links, turns = np.zeros(n), np.zeros((self.bodies, 6)), np.zeros(len(model.q))
            for name, value in self._targets.items():
                change = value - model.rest_target(name)
                moved, twists, increments = self._effect(i, name)
                tips += change * moved[:n]
                links += change * twists
                turns += change * increments
            self.core.set_offsets(i, tips, links)
            self._moved[i] = self._moved[i].by(model, turns, tips)
            bounds = self._moved[i].bounds
            self.core.set_bound_values(i, bounds.at + bounds.combined @ turns)

    @property
    def displacement(self) -> Array:
        return self._displacement_from(0)

    @property
    def velocities(self) -> Array:
        """(bodies, 6) by central differences of the link poses along the end effectors' velocities."""
        velocities: Array = self.core.velocities()
        return velocities

    @property
    def coordinates(self) -> Array:
        """The weighted mean of the coordinates of the models in use; rotations of ball joints by quaternions."""
        self.core.blend()
        common = spatial.log(spatial.inverse(self.core.means) @ self.tips[0]).ravel()
        weights, models, moved = self.core.weights, self.model.models, self._settle()
        used = [int(i) for i in np.flatnonzero(weights)]
        asked = {}
        for i in used:
            model = models[i]
            away = spatial.log(spatial.inverse(moved[i].end_effector_poses) @ self.tips[0]).ravel()
            half = away if self.model.scheme == "published" else 0.5 * (away + common)
            asked[i] = model.moved(model.coordinate_map[:, : len(half)] @ half + moved[i].increments)
        q: Array = sum(weights[i] * asked[i] for i in used)
        start = 0
        for joint in self.model.mechanism.joints:
            for size in joint.blocks:
                if size == 3:
                    part = slice(start, start + 3)
                    turns = spatial.quat_wxyz_from_matrix(spatial.so3_exp(np.array([asked[i][part] for i in used])))
                    turns *= np.where(turns @ turns[0] < 0, -1.0, 1.0)[:, None]
                    q[part] = spatial.so3_log(spatial.matrix_from_quat_wxyz(weights[used] @ turns))
                start += size
        return q

    @property
    def rates(self) -> Array:
        """The weighted mean of the rates of the models in use, at the present weights."""
        self.core.blend()
        poses, twists = self.tips
        common = _displacement_rates(self.core.means, poses, twists)
        weights, result, moved = self.core.weights, np.zeros(len(self.model.models[0].q)), self._settle()
        for i in map(int, np.flatnonzero(weights)):
            away = _displacement_rates(moved[i].end_effector_poses, poses, twists)
            half = away if self.model.scheme == "published" else 0.5 * (away + common)
            result += weights[i] * (self.model.models[i].coordinate_map[:, : len(half)] @ half)
        return result

    def joint_response(self, name: str) -> Array:
        """The weighted mean of the responses of the models in use."""
        weights, n = self.core.weights, len(self._lengths)
        result = np.zeros(len(self.model.models[0].q))
        for i in map(int, np.flatnonzero(weights)):
            moved, _, turns = self._effect(i, name)
            result += weights[i] * (turns - self.model.models[i].coordinate_map[:, :n] @ moved[:n])
        return result

    def _effect(self, i: int, name: str) -> tuple[Array, Array, Array]:
        if (i, name) not in self._effects:
            self._effects[i, name] = self.model.models[i].target_effect(name)
        return self._effects[i, name]

    @property
    def gaps(self) -> Array:
        return np.zeros((0, 6))

    @property
    def state(self) -> tuple[Array, ...]:
        return self.core.state, self.core.presence, self.core.energy_budget

    def set_state(self, state: tuple[Array, ...], time: float) -> None:
        if len(state) != 3:
            raise MechanismError("this state was saved by a simulation of another model")
        rows, presence, allowed = state
        if rows.shape != (len(self.model.end_effectors), 22):
            raise MechanismError("this state was saved by a simulation of another model")
        self.core.set_state(rows, time)
        self.core.set_presence(presence)
        if len(allowed):
            self.core.set_energy_budget(float(allowed[0]))


def _displacement_rates(origins: Array, poses: Array, twists: Array) -> Array:
    """(6e,) rates of the displacements log(origin^-1 pose) of poses (e, 4, 4) that move with body twists (e, 6)."""
    xi = spatial.log(spatial.inverse(origins) @ poses)
    rates: Array = np.linalg.solve(np.asarray(spatial.right_jacobian(xi), dtype=float), twists[..., None])
    return rates.ravel()
