"""A model moving in time: what each kind of model gives a `ReducedSimulation`, and the linear one's."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from supple import _core, spatial
from supple.errors import MechanismError
from supple.mechanism.record import Array
from supple.reduced.joints import add_joints
from supple.reduced.model import ReducedModel

RECONSTRUCTIONS = ("twist", "joints")


class Motion(Protocol):
    """The state of a model and its stepping, in the core. End effectors are given by their index."""

    core: Any
    """Compiled: `set_wrench`, `set_handle`, `step(n, show)`, `update`, `poses`, `time`."""

    def set_targets(self, targets: dict[str, float]) -> None:
        """Set-points by name; those not named are back where the model has them."""

    @property
    def tips(self) -> tuple[Array, Array]:
        """(e, 4, 4) world poses and (e, 6) body twists of the end effectors by the model's own state, whatever the
        links show."""

    @property
    def displacement(self) -> Array:
        """(n,): twists (6e,) of the end effectors, then modes."""

    @property
    def reach(self) -> float:
        """How far the model is from where it was made; compared with itself only."""

    @property
    def velocities(self) -> Array:
        """(bodies, 6) twists of every link in its own frame."""

    @property
    def coordinates(self) -> Array:
        """(axes,) joint coordinates."""

    @property
    def gaps(self) -> Array:
        """(e + loops, 6) twists left at tips and loops by links that follow joints."""

    @property
    def state(self) -> tuple[Array, ...]:
        """What `set_state` needs to go on to the same bits."""

    def set_state(self, state: tuple[Array, ...], time: float) -> None:
        """Back to a state."""


class LinearMotion:
    """A linear model by steps of backward Euler in its admissible space."""

    def __init__(self, model: ReducedModel, dt: float, reconstruction: str, corrections: int, threads: int) -> None:
        self.model, self.joints = model, reconstruction == "joints"
        basis, e = model.basis, len(model.end_effectors)
        small = [basis.T @ matrix @ basis for matrix in (model.mass, model.damping, model.stiffness)]
        bias = basis[: 6 * e].T @ model.wrenches
        self.core = _core.ReducedCore(*(np.ascontiguousarray(matrix) for matrix in small), bias, dt)
        for i, pose in enumerate(model.end_effector_poses):
            self.core.add_tip(pose, np.ascontiguousarray(basis[6 * i : 6 * i + 6]))
        self._links = np.ascontiguousarray(model.motion_map @ basis)
        self.core.set_links(np.ascontiguousarray(model.rest_poses.array), self._links, threads)
        if self.joints:
            add_joints(self.core, model)
            self.core.follow_joints(True, corrections)
        self._effects: dict[str, tuple[Array, Array, Array]] = {}
        self._turns = np.zeros(len(model.q))
        self._offsets = np.zeros((len(model.mechanism.bodies), 6))
        self._shift = np.zeros(len(model.stiffness))

    def set_targets(self, targets: dict[str, float]) -> None:
        model = self.model
        for name in targets:
            if name not in self._effects:
                self._effects[name] = model.target_effect(name)
        displacement = np.zeros(len(model.stiffness))
        twists, increments = np.zeros((len(model.mechanism.bodies), 6)), np.zeros(len(model.q))
        for name, value in targets.items():
            change = value - model.rest_target(name)
            moved, links, turns = self._effects[name]
            displacement += change * moved
            twists += change * (links - model.motion_map @ moved)
            increments += change * (turns - model.coordinate_map @ moved)
        self._turns, self._offsets = increments, twists
        goal = model.cobasis @ displacement
        self.core.set_offsets(twists, increments if self.joints else np.zeros(0), goal)
        shift = displacement - model.basis @ goal  # motors move tips also where springs let nothing move
        if not np.array_equal(shift, self._shift):
            self._shift = shift
            for i in range(len(model.end_effectors)):
                self.core.set_tip_offset(i, shift[6 * i : 6 * i + 6])

    @property
    def tips(self) -> tuple[Array, Array]:
        n = 6 * len(self.model.end_effectors)
        xi, rates = self.displacement[:n].reshape(-1, 6), (self.model.basis @ self.core.v)[:n].reshape(-1, 6)
        twists = (spatial.right_jacobian(xi) @ rates[..., None])[..., 0]
        return self.model.end_effector_poses @ spatial.exp(xi), twists

    @property
    def displacement(self) -> Array:
        displacement: Array = self.model.basis @ self.core.y + self._shift
        return displacement

    @property
    def reach(self) -> float:
        return float(np.linalg.norm(self.core.y))

    @property
    def velocities(self) -> Array:
        twists = self._links @ self.core.y + self._offsets
        velocities: Array = (spatial.right_jacobian(twists) @ (self._links @ self.core.v)[..., None])[..., 0]
        return velocities

    @property
    def coordinates(self) -> Array:
        if not self.joints:
            return self.model.moved(self.model.coordinate_map @ self.displacement + self._turns)
        self.core.update()
        q: Array = self.core.q
        return q

    @property
    def gaps(self) -> Array:
        self.core.update()
        return np.concatenate([self.core.errors, self.core.gaps]).reshape(-1, 6)

    @property
    def state(self) -> tuple[Array, ...]:
        return self.core.y, self.core.v

    def set_state(self, state: tuple[Array, ...], time: float) -> None:
        y, v = state
        if len(y) != len(self.core.y):
            raise MechanismError("this state was saved by a simulation of another model")
        self.core.set_state(y, v, time)
