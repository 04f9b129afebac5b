"""`supple.condense`: a model of moving end effectors, with all other bodies in static equilibrium."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from supple import _core, spatial
from supple.engine import Equilibrium, equilibrium
from supple.engine.actuation import ACTIVATION, CONTROL, SHARE, engine_core
from supple.engine.assembly import Acting, Equations, Load, State, equations, loads, turned
from supple.engine.dynamics import METHODS, check_inertia
from supple.errors import ConvergenceError, MechanismError, listed
from supple.mechanism import Mechanism, Poses
from supple.mechanism.axes import by_joint
from supple.mechanism.flexible import refuse_flexible
from supple.mechanism.idle import idle_spins
from supple.mechanism.mechanism import check_mechanism
from supple.mechanism.named import Twists
from supple.mechanism.notebook import brief
from supple.mechanism.record import Array, array
from supple.reduced.build import reduce
from supple.reduced.determined import determine_coordinates
from supple.reduced.driving import DrivenForce, Drives, can_be_driven
from supple.reduced.model import Model, ReducedModel, held_base

TIED = 1e-9
"""Two end effectors are rigidly tied if their relative motion is below this, over their own motion."""
NOT_CONVERGED = (
    "the time step did not converge, even with a thousandth of dt; the state is that of the last step that "
    "converged: apply smaller loads, or use supple.Simulation"
)
STUCK = (
    "the mechanism is stuck at a singular pose, for instance with an elbow stretched: in static equilibrium the links "
    "cannot pass it, and a condensed model leaves out the inertia that would carry them through. Name one more end "
    "effector, whose pose tells on which side the joint is, or use supple.Simulation"
)


def condense(
    mech: Mechanism, end_effectors: Sequence[str] | str, *, method: str = "euler", gravity: bool = True
) -> CondensedModel:
    """Makes the condensed model of a mechanism with springs. Its statics are exact at any displacement.

    The end effectors move in time; all other bodies are in static equilibrium at every time step, under linear and
    nonlinear springs, loops, motors, touched limits and weight. The model starts in the equilibrium without wrenches on
    end effectors.

    Args:
        mech: the mechanism.
        end_effectors: names of bodies or sites. Loads and contacts can act on them only.
        method: integrator, "euler" (backward Euler) or "bdf2" (second order).
        gravity: whether the mechanism's gravity acts.

    Raises:
        MechanismError: the mechanism has a free base, nothing holds some coordinate, or two end effectors cannot move
            relative to each other.
    """
    check_mechanism(mech)
    if method not in tuple(METHODS):
        raise MechanismError(f"method must be one of {tuple(METHODS)}, got {method!r}")
    refuse_flexible(mech.flexible, "condense", "use supple.reduce or supple.Simulation")
    base = held_base(mech)[1]
    if base is not None:
        raise MechanismError(f"nothing holds '{mech.name}': '{base}' floats. Fix it, or use supple.reduce")
    linear = reduce(mech, end_effectors)  # raises for unknown, immovable or unheld end effectors
    _check_not_tied(linear)
    check_inertia(mech)
    if not gravity:
        mech = replace(mech, gravity=np.zeros(3))
    return CondensedModel(mech, linear.end_effectors, method, equilibrium(mech))


def _check_not_tied(model: ReducedModel) -> None:
    """Raises if two end effectors cannot move relative to each other."""
    linear, names = model.linearisation, model.end_effectors
    twists = (linear.jacobian_of(names) @ linear.free).reshape(len(names), 6, -1)
    for i, first in enumerate(names):
        for j, second in enumerate(names[:i]):
            seen = spatial.adjoint(spatial.inverse(linear.poses[first]) @ linear.poses[second]) @ twists[j]
            if np.abs(twists[i] - seen).max() <= TIED * np.abs(twists[i]).max():
                raise MechanismError(
                    f"end effectors '{second}' and '{first}' are rigidly tied to each other; name one of them"
                )


@dataclass(frozen=True)
class CondensedModel(Model):
    """A mechanism described by e end effectors, with its interior in static equilibrium, for `ReducedSimulation`."""

    mechanism: Mechanism
    end_effectors: tuple[str, ...]
    """Names of bodies or sites."""
    method: str
    """Integrator: "euler" or "bdf2"."""
    rest: Equilibrium = field(repr=False)
    """The initial state: the equilibrium without wrenches on end effectors."""

    @cached_property
    def end_effector_poses(self) -> Array:
        """(e, 4, 4) world poses of the end effectors in the initial state."""
        return np.array([self.rest.poses[name] for name in self.end_effectors])

    def motion(self, dt: float, reconstruction: str, corrections: int, threads: int) -> CondensedMotion:
        """The model's integrator. `reconstruction` has no effect: links always follow their joints."""
        return CondensedMotion(self, dt)

    @cached_property
    def has_interior(self) -> bool:
        """Whether some links can move while all end effectors stay where they are. Without an interior the equations of
        motion are those of the engine, and so are the time steps."""
        return not determine_coordinates(self.mechanism, self.end_effectors)

    def linear(self) -> ReducedModel:
        """The linear model at the initial state."""
        return reduce(self.mechanism, self.end_effectors, at=self.rest)

    def under(
        self, wrenches: Mapping[str, ArrayLike], frame: str = "world", start: CondensedPose | None = None
    ) -> CondensedPose:
        """Statics under wrenches (6,) on end effectors, force (N) then torque (N m), as in `supple.equilibrium`.

        The wrenches grow slowly from those of `start`, or from zero. The result lies on the same continuous branch of
        stable equilibria. If that branch ends, `supple.equilibrium` finds the next stable state, and the result's
        `snaps` lists the shares of the load (0 to 1) at which this happened.

        Raises `ConvergenceError` with `load_fraction`, `reason` and `state` as `supple.equilibrium` does.
        """
        solver = self._solver(start)
        for load in loads(self.mechanism, wrenches, frame):
            self.index(load.name)
        for i, name in enumerate(self.end_effectors):
            wrench = array((wrenches or {}).get(name, np.zeros(6)), (6,), f"wrench on '{name}'")
            solver.core.set_wrench(i, np.ascontiguousarray(wrench), frame == "world")
        if solver.core.follow_branch() == 1:
            return solver.pose()
        before = self.rest if start is None else start.equilibrium
        full = equilibrium(self.mechanism, wrenches, frame=frame, start=before)
        solver.place(full.state, self._own_wrenches(full))
        if solver.core.follow_branch() < 1:
            raise ConvergenceError(
                f"the interior of '{self.mechanism.name}' does not come into balance at the equilibrium of the engine; "
                "start from a pose nearby",
                load_fraction=1.0,
                reason="singular",
                state=full,
            )
        return replace(solver.pose(), snaps=full.snaps)

    def _own_wrenches(self, eq: Equilibrium) -> Array:
        """(6e,) wrenches on the end effectors in an equilibrium of the engine, in their own axes."""
        wrenches = np.zeros((len(self.end_effectors), 6))
        for load in eq.loads:
            pose_body_frame = self.mechanism.frame(load.name)[1]
            to_own = pose_body_frame[:3, :3].T
            if load.world:
                to_own = to_own @ eq.poses.array[load.body][:3, :3].T
            wrenches[self.index(load.name)] += turned(to_own, load.wrench)
        return wrenches.ravel()

    def at(self, poses: Mapping[str, ArrayLike], start: CondensedPose | None = None) -> CondensedPose:
        """Statics with every end effector fixed at a world pose (4, 4); solved from the initial state, or from `start`.

        Raises `ConvergenceError`; its `load_fraction` is the fraction of the way from the start to the poses that was
        reached.
        """
        solver = self._solver(start)
        if not isinstance(poses, Mapping):
            raise MechanismError("poses are given as {end effector: (4, 4) array}")
        missing = [name for name in self.end_effectors if name not in poses]
        if missing:
            raise MechanismError(f"a pose is needed for every end effector; there is none for '{missing[0]}'")
        for name in poses:
            self.index(name)
        goals = np.array([_checked_pose(poses[name], name) for name in self.end_effectors])
        reached = solver.core.hold(np.ascontiguousarray(goals))
        if reached < 1:
            raise ConvergenceError(
                f"the end effectors of '{self.mechanism.name}' cannot be held there: beyond {reached:.1%} of the way "
                "they are out of reach, or the interior snaps through; go less far, or pull with a handle",
                load_fraction=reached,
            )
        return solver.pose()

    def _solver(self, start: CondensedPose | None) -> _Solver:
        if start is not None and (not isinstance(start, CondensedPose) or start.model is not self):
            raise MechanismError("`start` must be a pose of this model, from its `under` or `at`")
        if not hasattr(self._of_thread, "solver"):
            self._of_thread.solver = _Solver(self, 1.0, moving=False)
        solver: _Solver = self._of_thread.solver
        acting = self.rest.acting if start is None else start.acting
        solver.aim(acting)
        solver.place(*((self.rest.state, np.zeros(6 * len(self.end_effectors))) if start is None else
                       (start.state, start.wrenches)))  # fmt: skip
        return solver

    @cached_property
    def _of_thread(self) -> threading.local:
        """Solvers by thread, since threads may use the model at the same time."""
        return threading.local()

    def __getstate__(self) -> dict[str, Any]:
        """The model without its solvers, for copies and other processes."""
        return {name: value for name, value in self.__dict__.items() if name != "_of_thread"}

    def save(self, path: str | PathLike[str]) -> None:
        """Writes the model, with its mechanism, as `.npz` (no pickle)."""
        from supple.reduced.condensed_files import save

        save(self, path)

    @staticmethod
    def load(path: str | PathLike[str]) -> CondensedModel:
        """Reads a model that `save` wrote."""
        from supple.reduced.condensed_files import load

        return load(path)

    def __repr__(self) -> str:
        return f"CondensedModel('{self.mechanism.name}': {', '.join(self.end_effectors)})"


@dataclass(frozen=True)
class CondensedPose:
    """A condensed mechanism in static equilibrium."""

    __repr__ = brief

    model: CondensedModel = field(repr=False)
    poses: Poses
    """World poses (4, 4) of every body."""
    coordinates: dict[str, Array]
    """Coordinates (k,) of every joint, by its name; rad and m."""
    wrenches: Array
    """(6e,) wrenches on the end effectors that balance the mechanism, in their own axes; N and N m."""
    energy: float
    """Elastic and gravitational energy, J."""
    gap: float
    """Largest gap of a loop over the radius, or error of a motor or touched limit."""
    state: State = field(repr=False)
    """Coordinates of every joint, multipliers of joints and of constraint rows, as in `Equilibrium.state`."""
    acting: Acting = field(repr=False)
    """Loads, gravity and set-points that this state balances."""
    snaps: tuple[float, ...] = ()
    """Shares of the load at which a stable branch ended, as in `Equilibrium.snaps`."""

    @cached_property
    def equilibrium(self) -> Equilibrium:
        """The same state as an equilibrium of the engine, with wrenches fixed in the end effectors' own axes."""
        mech, names = self.model.mechanism, self.model.end_effectors
        eqs = equations(mech, held=idle_spins(mech, names))
        at = eqs.evaluated(self.acting, self.state)
        assert len(names) == len(self.acting.loads)
        return Equilibrium(
            mech,
            poses=self.poses,
            coordinates=self.coordinates,
            reactions=eqs.reactions(at.reactions),
            motor_torques=eqs.motor_torques(at.mu),
            residual=at.error,
            load_fraction=1.0,
            iterations=0,
            acting=self.acting,
            state=(at.q, at.reactions, at.mu),
            snaps=self.snaps,
        )

    def linear(self) -> ReducedModel:
        """The linear model at this pose."""
        return reduce(self.model.mechanism, self.model.end_effectors, at=self.equilibrium)


class _Solver:
    """The compiled core of a model, with the engine that it uses."""

    def __init__(self, model: CondensedModel, dt: float, moving: bool) -> None:
        mech = model.mechanism
        self.model = model
        held = idle_spins(mech, model.end_effectors)
        drives = tuple(each for each in mech.actuators if moving and can_be_driven(mech, each))
        driven = replace(mech, actuators=drives) if drives and drives != mech.actuators else mech
        self.eqs: Equations = equations(driven, bool(drives), held)
        self.frames = [mech.frame(name) for name in model.end_effectors]
        self.inputs: Any = engine_core(self.eqs, self.eqs.acting())
        """The engine's core, for what acts on it. `engine` is the same core with the present state."""
        self.aim(model.rest.acting)
        self.inputs.act(self.eqs.compiled(model.rest.acting))
        self.inputs.place(*model.rest.state)
        on_body = np.ascontiguousarray(np.array([pose for _, pose in self.frames]))
        bodies = [body for body, _ in self.frames]
        options = bodies, on_body, dt, METHODS[model.method]
        self.core: Any = (
            _core.DeterminedCore(self.inputs, *options)
            if moving and not model.has_interior
            else _core.CondensedCore(self.inputs, *options, moving, False)
        )

    def place(self, state: State, wrenches: Array) -> None:
        """Sets a state of equilibrium at rest, with its wrenches (6e,) on the end effectors."""
        self.core.place(*(np.ascontiguousarray(part) for part in (*state, wrenches)))

    @property
    def engine(self) -> Any:
        """The engine's core, updated to the present state."""
        if isinstance(self.core, _core.CondensedCore):
            self.core.write_to_engine()
        return self.inputs

    def aim(self, acting: Acting) -> None:
        """Takes the set-points of `acting`."""
        self.acting = acting
        self.inputs.aim(*self.eqs.compiled_set_points(acting))

    def pose(self) -> CondensedPose:
        """The present state, which must be in equilibrium, as a `CondensedPose`."""
        self.core.update()
        mech, engine = self.model.mechanism, self.engine
        _, strain, weight = engine.energies
        wrenches = self.core.wrenches
        on_tips = tuple(
            Load(name, body, on_body[:3, 3].copy(), turned(on_body[:3, :3], wrench), False)
            for name, (body, on_body), wrench in zip(
                self.model.end_effectors, self.frames, wrenches.reshape(-1, 6), strict=True
            )
        )
        acting = replace(self.acting, loads=on_tips, gravity=mech.gravity)
        return CondensedPose(
            self.model,
            Poses(mech, self.core.poses.copy()),
            by_joint(mech, engine.q),
            wrenches,
            strain + weight,
            float(self.core.gap),
            (engine.q, engine.reactions, engine.mu),
            acting,
        )


class CondensedMotion:
    """The motion of a condensed model by implicit time steps (a `Motion`)."""

    def __init__(self, model: CondensedModel, dt: float) -> None:
        self.model = model
        self._solver = _Solver(model, dt, moving=True)
        self.set_laws(Drives(model.mechanism, dt).laws())
        self.core = self._solver.core
        if model.has_interior and self._solver.eqs.limit_names:
            self.core.start_from_equilibrium(*model.rest.state)
        self.link_poses = self.core.poses
        self.core.set_home(np.ascontiguousarray(model.end_effector_poses))
        self._loops = list(model.mechanism.topology.loops)

    @property
    def failure(self) -> str:
        return STUCK if self.model.has_interior and self.core.stuck else NOT_CONVERGED

    def set_targets(self, targets: dict[str, float]) -> None:
        eqs, acting = self._solver.eqs, self.model.rest.acting
        rest, rows = acting.rest.copy(), dict(acting.targets)
        for name, value in targets.items():
            if name in rows:
                rows[name] = value
            else:
                rest[eqs.sprung_axis(name)] = value
        self._solver.aim(replace(acting, rest=rest, targets=rows))

    def set_target_array(self, targets: Array) -> bool:
        return False

    def set_laws(self, laws: Sequence[DrivenForce]) -> None:
        """Sets the forces of the actuators, which agree with the set-points."""
        inputs = self._solver.inputs
        values = inputs.actuation
        for i, law in enumerate(laws):
            values[i, [CONTROL, ACTIVATION, SHARE]] = law.activation, law.activation, law.share
            inputs.limit_force(i, law.lower, law.upper)
        inputs.set_actuation(values)

    @property
    def pose(self) -> CondensedPose:
        """The present pose in static equilibrium, with the wrenches that balance it and exact limits (in motion limits
        are soft stops)."""
        here, names = self._solver.pose(), self.model.end_effectors
        if not self.model.has_interior:
            return self._held(here)
        wrenches = dict(zip(names, here.wrenches.reshape(-1, 6), strict=True))
        return self.model.under(wrenches, frame="body", start=here)

    def _held(self, here: CondensedPose) -> CondensedPose:
        """The present pose of a model without an interior, with the wrenches that hold its end effectors there."""
        model = self.model
        try:
            return model.at(dict(zip(model.end_effectors, self.tips[0], strict=True)), start=here)
        except ConvergenceError as error:
            raise ConvergenceError(
                f"the present pose of '{model.mechanism.name}' is singular: no wrenches on "
                f"{listed(model.end_effectors)} hold it there, and its linear model needs them. Take another pose, or "
                "name one more end effector",
                load_fraction=error.load_fraction,
            ) from error

    @property
    def tips(self) -> tuple[Array, Array]:
        poses = np.array([self.core.tip_pose(i) for i in range(len(self.model.end_effectors))])
        moving = self.velocities
        twists = [spatial.adjoint(spatial.inverse(on_body)) @ moving[body] for body, on_body in self._solver.frames]
        return poses, np.array(twists)

    def tip_pose(self, tip: int) -> Array:
        pose: Array = self.core.tip_pose(tip)
        return pose

    @property
    def displacement(self) -> Array:
        twists: Array = spatial.log(spatial.inverse(self.model.end_effector_poses) @ self.tips[0]).ravel()
        return twists

    @property
    def velocities(self) -> Array:
        mech = self.model.mechanism
        velocities: Array = np.asarray(self._solver.engine.velocities(Twists.like(mech, len(mech.bodies), 6)))
        return velocities

    @property
    def coordinates(self) -> Array:
        q: Array = self._solver.engine.q
        return q

    @property
    def rates(self) -> Array:
        rates: Array = self._solver.engine.rates
        return rates

    def joint_response(self, name: str) -> Array:
        """Zero: the dampers of all joints act in a condensed model, also where end effectors stay where they are."""
        return np.zeros(len(self._solver.eqs.rest))

    @property
    def gaps(self) -> Array:
        loops = self._solver.engine.gaps[self._loops].reshape(-1, 6)
        return np.concatenate([np.zeros((len(self.model.end_effectors), 6)), loops])

    @property
    def state(self) -> tuple[Array, ...]:
        return (self.core.state(),)

    def set_state(self, state: tuple[Array, ...], time: float) -> None:
        flat = state[0]
        if len(state) > 1 or len(flat) != len(self.core.state()):
            raise MechanismError("this state was saved by a simulation of another model")
        self.core.set_state(flat, time)


def _checked_pose(value: ArrayLike, name: str) -> Array:
    """A checked pose (4, 4), or a `MechanismError`."""
    pose = array(value, (4, 4), f"the pose of '{name}'")
    rotation = pose[:3, :3]
    if np.abs(rotation @ rotation.T - np.eye(3)).max() > 1e-6 or np.linalg.det(rotation) < 0:
        raise MechanismError(f"the pose of '{name}' is no rotation and translation: its 3x3 block must be a rotation")
    return pose
