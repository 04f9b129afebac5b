"""A reduced model moving in time, with every link shown."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from supple import _core, spatial
from supple.engine.assembly import finite_target, loads, turned
from supple.engine.dynamics import check_count, handle_spring, positive_seconds
from supple.errors import ConvergenceError, MechanismError, RangeWarning
from supple.mechanism import Poses
from supple.mechanism.axes import by_joint
from supple.mechanism.record import Array, array
from supple.reduced.joints import Separation, add_joints, separation
from supple.reduced.model import ReducedModel

RANGE = 0.15
"""Summed separation over the radius beyond which a linear model is out of its range."""
RECONSTRUCTIONS = ("twist", "joints")


@dataclass(frozen=True)
class ReducedState:
    """Everything a reduced simulation needs to go on, to the same bits."""

    y: Array
    v: Array
    time: float
    wrenches: dict[str, tuple[Array, bool]]
    handles: dict[str, tuple[Array, Array, float, float]]
    targets: dict[str, float]


class ReducedSimulation:
    """A reduced model moving in time, by steps of `dt` seconds of backward Euler in the admissible space.

    `reconstruction="twist"` shows every link by its own linear map (parallel; joints separate a little),
    `"joints"` by joint coordinates with `corrections` chord corrections: joints of the spanning tree stay
    closed, tips and loops keep the small gaps that `gaps` reports. `threads` share the work of showing links.
    """

    def __init__(
        self,
        model: ReducedModel,
        dt: float,
        *,
        reconstruction: str = "twist",
        corrections: int = 5,
        threads: int = 1,
    ) -> None:
        if not isinstance(model, ReducedModel):
            raise MechanismError(f"a ReducedModel is needed (from supple.reduce), got {type(model).__name__}")
        dt = positive_seconds(dt)
        if reconstruction not in RECONSTRUCTIONS:
            raise MechanismError(f"reconstruction is one of {RECONSTRUCTIONS}, got {reconstruction!r}")
        if threads < 1 or corrections < 0:
            raise MechanismError("threads must be at least 1, corrections not negative")
        self.model, self.dt, self.reconstruction = model, dt, reconstruction
        self.mechanism = model.mechanism
        basis, e = model.basis, len(model.end_effectors)
        small = [basis.T @ matrix @ basis for matrix in (model.mass, model.damping, model.stiffness)]
        bias = basis[: 6 * e].T @ model.wrenches
        self._core = _core.ReducedCore(*(np.ascontiguousarray(matrix) for matrix in small), bias, self.dt)
        for i, pose in enumerate(model.end_effector_poses):
            self._core.add_tip(pose, np.ascontiguousarray(basis[6 * i : 6 * i + 6]))
        links = np.ascontiguousarray(model.motion_map @ basis)
        self._core.set_links(np.ascontiguousarray(model.rest_poses.array), links, threads)
        if reconstruction == "joints":
            add_joints(self._core, model)
            self._core.follow_joints(True, corrections)
        self._wrenches: dict[str, tuple[Array, bool]] = {}
        self._handles: dict[str, tuple[Array, Array, float, float]] = {}
        self._targets: dict[str, float] = {}
        self._effects: dict[str, tuple[Array, Array, Array]] = {}
        self._turns = np.zeros(len(model.q))
        self._offsets = np.zeros((len(self.mechanism.bodies), 6))
        self._shift = np.zeros(len(model.stiffness))
        self._warned, self._watched = False, 0.0
        for load in model.at.loads if model.at is not None else ():  # the loads of the equilibrium act on
            if load.name in model.end_effectors:
                to_frame = np.eye(3) if load.world else self.mechanism.frame(load.name)[1][:3, :3].T
                self._set_wrench(load.name, turned(to_frame, load.wrench), load.world)
        self._origin = self.save()

    # acting on it

    def apply(self, end_effector: str, wrench: ArrayLike, frame: str = "world") -> None:
        """A wrench (6,), force (N) then torque (N m), on an end effector at its origin, until changed."""
        self.model.index(end_effector)
        loads(self.mechanism, {end_effector: wrench}, frame)  # checks
        self._set_wrench(end_effector, np.array(wrench, dtype=float), frame == "world")

    def _set_wrench(self, name: str, wrench: Array, world: bool) -> None:
        self._wrenches[name] = (wrench, world)
        self._core.set_wrench(self.model.index(name), np.ascontiguousarray(wrench), world)

    def pull(
        self,
        end_effector: str,
        point: ArrayLike | None,
        stiffness: float | None = None,
        damping: float | None = None,
        at: ArrayLike = (0.0, 0.0, 0.0),
    ) -> None:
        """A handle: a spring from an end effector (its point `at`, in its frame) to a `point` of the world, m;
        `point=None` lets go. Defaults as in `Simulation.pull`."""
        index = self.model.index(end_effector)
        if point is None:
            self._handles.pop(end_effector, None)
            self._core.set_handle(index, False, np.zeros(3), np.zeros(3), 0.0, 0.0)
            return
        k, d = handle_spring(self.mechanism, stiffness, damping)
        held, target = array(at, (3,), "the handle's point"), array(point, (3,), "the point to pull to")
        self._handles[end_effector] = (held, target, k, d)
        self._core.set_handle(index, True, held, target, k, d)

    def set_target(self, name: str, value: float) -> None:
        """Set-point (rad or m) of a sprung joint, of a coupling or of a motor; its effect is linear."""
        value = finite_target(name, value)
        if name not in self._effects:
            self._effects[name] = self.model.target_effect(name)
        self._targets[name] = value
        self._push_targets()

    def _push_targets(self) -> None:
        model = self.model
        displacement = np.zeros(len(model.stiffness))
        twists, increments = np.zeros((len(self.mechanism.bodies), 6)), np.zeros(len(model.q))
        for name, value in self._targets.items():
            change = value - model.rest_target(name)
            moved, links, turns = self._effects[name]
            displacement += change * moved
            twists += change * (links - model.motion_map @ moved)
            increments += change * (turns - model.coordinate_map @ moved)
        self._turns, self._offsets = increments, twists
        shown = increments if self.reconstruction == "joints" else np.zeros(0)
        goal = model.cobasis @ displacement
        self._core.set_offsets(twists, shown, goal)
        shift = displacement - model.basis @ goal  # motors move tips also where springs let nothing move
        if not np.array_equal(shift, self._shift):
            self._shift = shift
            for i in range(len(model.end_effectors)):
                self._core.set_tip_offset(i, shift[6 * i : 6 * i + 6])

    def step(self, n: int = 1) -> None:
        """Advances by n steps. Raises `ConvergenceError` if the state would not be finite."""
        check_count(n)
        if self._core.step(n, False) < n:
            raise ConvergenceError(
                f"the reduced state is no longer finite at t = {self.time:g} s; the load is too large for this model",
                time=self.time,
            )

    # looking at it

    @property
    def time(self) -> float:
        """s."""
        return float(self._core.time)

    @property
    def displacement(self) -> Array:
        """(n,) of the model: twists (6e,) of the end effectors from where it was made, then modes."""
        displacement: Array = self.model.basis @ self._core.y + self._shift
        return displacement

    @property
    def poses(self) -> Poses:
        """World poses (4, 4) of every body, computed when asked for."""
        self._core.update()
        poses = Poses(self.mechanism, self._core.poses)
        self._watch(poses)
        return poses

    def end_effector_pose(self, name: str) -> Array:
        """(4, 4) world pose of an end effector by the model's own state, whatever the links show."""
        i = self.model.index(name)
        pose: Array = self.model.end_effector_poses[i] @ spatial.exp(self.displacement[6 * i : 6 * i + 6])
        return pose

    @property
    def velocities(self) -> Array:
        """(bodies, 6) twists, linear (m/s) then angular (rad/s), each in its body's own frame; those of the links'
        linear maps, whatever shows them."""
        links = self.model.motion_map @ self.model.basis
        twists = links @ self._core.y + self._offsets
        velocities: Array = (spatial.right_jacobian(twists) @ (links @ self._core.v)[..., None])[..., 0]
        return velocities

    @property
    def coordinates(self) -> dict[str, Array]:
        """Coordinates (k,) of every joint by name, rad and m: those of the linear map, or, with
        `reconstruction="joints"`, those shown."""
        if self.reconstruction == "joints":
            self._core.update()
            q = self._core.q
        else:
            q = self.model.moved(self.model.coordinate_map @ self.displacement + self._turns)
        return by_joint(self.mechanism, q)

    @property
    def separation(self) -> Separation:
        """How far the joints of the shown links have come apart."""
        self._core.update()
        return separation(self.mechanism, np.array(self._core.poses))

    @property
    def gaps(self) -> Array:
        """(e + loops, 6): twists left between the model's end effectors and the shown ones, then in the loops,
        with `reconstruction="joints"`."""
        self._core.update()
        return np.concatenate([self._core.errors, self._core.gaps]).reshape(-1, 6)

    def _watch(self, poses: Poses) -> None:
        far = float(np.linalg.norm(self._core.y))
        if self._warned or self.reconstruction != "twist" or far < 1.1 * self._watched:
            return
        self._watched = far  # looked at again when it has moved a tenth further
        apart = separation(self.mechanism, poses.array).total
        if apart > RANGE:
            self._warned = True
            warnings.warn(
                f"'{self.mechanism.name}' is pulled beyond the range of its linear model: its joints have come apart "
                f"by {apart:.2f} of its radius in all; reduce it at an equilibrium nearby, or use the engine",
                RangeWarning,
                stacklevel=3,
            )

    # keeping it

    def save(self) -> ReducedState:
        """The present state; `restore` continues from it to the same bits."""
        return ReducedState(
            self._core.y, self._core.v, self.time, dict(self._wrenches), dict(self._handles), dict(self._targets)
        )

    def restore(self, saved: ReducedState) -> None:
        """Back to a saved state, with the loads, handles and targets of then."""
        if len(saved.y) != len(self._core.y):
            raise MechanismError("this state was saved by a simulation of another model")
        for name in self._wrenches.keys() - saved.wrenches.keys():
            self._set_wrench(name, np.zeros(6), True)
        for name, (wrench, world) in saved.wrenches.items():
            self._set_wrench(name, wrench, world)
        for name in self._handles.keys() - saved.handles.keys():
            self.pull(name, None)
        for name, (at, point, k, d) in saved.handles.items():
            self.pull(name, point, k, d, at)
        self._wrenches = dict(saved.wrenches)
        self._targets = {}
        for name, value in saved.targets.items():
            self.set_target(name, value)
        self._push_targets()
        self._core.set_state(saved.y, saved.v, saved.time)

    def reset(self) -> None:
        """Back to the start."""
        self.restore(self._origin)
