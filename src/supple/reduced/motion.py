"""Time stepping of models: the interface that a `ReducedSimulation` uses, and the stepping of linear models."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from supple import _core
from supple.engine.assembly import target_places
from supple.errors import MechanismError
from supple.mechanism.axes import axis_names
from supple.mechanism.kinematics import FURTHEST
from supple.mechanism.record import Array
from supple.reduced.joints import add_joints
from supple.reduced.model import ReducedModel

RECONSTRUCTIONS = ("twist", "joints")
NOT_FINITE = "the reduced state is no longer finite; the load is too large for this model"
UNSTABLE = (
    "{observed}: the linear model is unstable under its present loads. Its stiffness and the loads' geometric "
    "stiffness do not hold it: deviations grow by a factor e in {seconds:.2g} s{equilibrium}. "
    "Make a model at the present load, supple.reduce(mech, tips, at=supple.equilibrium(mech, loads)), "
    "or use supple.Simulation"
)


class Motion(Protocol):
    """The state of a model and its stepping, in the core. End effectors are given by their index."""

    core: Any
    """Compiled: `set_wrench`, `set_handle`, `step(n, show)`, `update`, `poses`, `time`, `participant`."""

    @property
    def failure(self) -> str:
        """Why a step has no solution, for the error text."""

    def set_targets(self, targets: dict[str, float]) -> None:
        """Sets set-points by name; all others return to their value in the model."""

    def set_target_array(self, targets: Array) -> bool:
        """Sets the set-points of an array (dof,), see `target_places`; all others return to their value in the model.
        False, and nothing is changed, if the core does not take the array as it is."""

    @property
    def tips(self) -> tuple[Array, Array]:
        """(e, 4, 4) world poses and (e, 6) body twists of the end effectors, from the model's state (not from the
        reconstructed links)."""

    def tip_pose(self, tip: int) -> Array:
        """(4, 4) world pose of one end effector, a new array."""

    @property
    def displacement(self) -> Array:
        """(n,): twists (6e,) of the end effectors, then modes."""

    @property
    def velocities(self) -> Array:
        """(bodies, 6) twists of every link in its own frame; it may be overwritten by later calls."""

    @property
    def coordinates(self) -> Array:
        """(axes,) joint coordinates."""

    @property
    def rates(self) -> Array:
        """(axes,) rates of `coordinates` as far as the end effectors move; changes of set-points do not count."""

    def joint_response(self, name: str) -> Array:
        """(axes,) change of `coordinates` per unit of a set-point while the end effectors stay where they are."""

    @property
    def link_poses(self) -> Array:
        """(bodies, 4, 4) world poses of the links as of the last update of the core; later updates overwrite them."""

    @property
    def gaps(self) -> Array:
        """(e + loops, 6) twists from reconstructed end effectors to the model's, then gaps of the loops."""

    @property
    def state(self) -> tuple[Array, ...]:
        """Arguments of `set_state` that reproduce this state to the last bit."""

    def set_state(self, state: tuple[Array, ...], time: float) -> None:
        """Returns to a state."""


class LinearMotion:
    """A linear model by steps of linearly implicit Euler in its admissible space."""

    def __init__(self, model: ReducedModel, dt: float, reconstruction: str, corrections: int, threads: int) -> None:
        self.model, self.joints = model, reconstruction == "joints"
        basis, e = model.basis, len(model.end_effectors)
        self._matrices = [basis.T @ matrix @ basis for matrix in (model.mass, model.damping, model.stiffness)]
        bias = basis[: 6 * e].T @ model.wrenches
        self.core = _core.ReducedCore(*(np.ascontiguousarray(matrix) for matrix in self._matrices), bias, dt)
        for i, pose in enumerate(model.end_effector_poses):
            self.core.add_tip(pose, np.ascontiguousarray(basis[6 * i : 6 * i + 6]))
        self._links = np.ascontiguousarray(model.motion_map @ basis)
        self.core.set_links(np.ascontiguousarray(model.rest_poses.array), self._links, threads)
        if self.joints:
            add_joints(self.core, model, corrections)
        core = self.core
        self._tip_poses, self._tip_twists, self._velocities = core.tip_poses, core.tip_twists, core.velocities
        self.link_poses = core.poses
        core.set_home(np.ascontiguousarray(model.end_effector_poses))
        self._bounds = Bounds(model)
        for row, at, (lower, upper) in zip(self._bounds.rows, self._bounds.at, self._bounds.limits, strict=True):
            self.core.add_bound(np.ascontiguousarray(row @ basis), at, lower, upper)
        self._effects: dict[str, tuple[Array, Array, Array]] = {}
        self._array: ArrayOfTargets | None = None
        self._given: Array | None = None  # an array of set-points that only the core has taken yet
        self._response = Response(
            np.zeros(len(model.q)),
            np.zeros(basis.shape[1]),
            np.zeros((len(model.mechanism.bodies), 6)),
            np.zeros(len(model.stiffness)),
        )

    @property
    def failure(self) -> str:
        """Why a step has no solution."""
        rate = self.growth_rate
        return self.instability("the reduced state is no longer finite", rate) if rate > 0 else NOT_FINITE

    def instability(self, observed: str, rate: float) -> str:
        """The error text for a model whose deviations grow at a rate, 1/s, and for what was observed."""
        at = self.model.at
        unstable = at is not None and not at.stable
        made = "; the equilibrium that it was made at is unstable" if unstable else ""
        return UNSTABLE.format(observed=observed, seconds=1 / rate, equilibrium=made)

    @property
    def growth_rate(self) -> float:
        """1/s: largest real part of the eigenvalues of M y'' + D y' + (K + K_g) y = 0, with the geometric stiffness K_g
        of the present loads. Positive where the linear model itself, not its time stepping, is unstable. Zero where
        it is stable, but for rounding; handles are not counted."""
        mass, damping, stiffness = self._matrices
        total = stiffness + self.core.geometric_stiffness()
        m = len(mass)
        inverse = np.linalg.inv(mass)
        rates = np.linalg.eigvals(np.block([[np.zeros((m, m)), np.eye(m)], [-inverse @ total, -inverse @ damping]]))
        rounding = 1e-10 * np.abs(rates).max(initial=0.0)
        rate = float(rates.real.max(initial=0.0))
        return rate if rate > rounding else 0.0

    def set_targets(self, targets: dict[str, float]) -> None:
        model = self.model
        self._add_effects(targets)
        displacement = np.zeros(len(model.stiffness))
        twists, increments = np.zeros((len(model.mechanism.bodies), 6)), np.zeros(len(model.q))
        for name, value in targets.items():
            change = value - model.rest_target(name)
            moved, links, turns = self._effects[name]
            displacement += change * moved
            twists += change * links
            increments += change * turns
        goal = model.cobasis @ displacement
        self._given, self._response = None, Response(increments, goal, twists, displacement - model.basis @ goal)
        self.core.set_offsets(twists, increments if self.joints else np.zeros(0), goal)
        for i in range(len(model.end_effectors)):
            self.core.set_tip_offset(i, self.shift[6 * i : 6 * i + 6])
        self.core.set_bounds_at(self.bounds_at)

    def set_target_array(self, targets: Array) -> bool:
        if self._array is None:
            self._array = self._prepared_array()
        if self._array is None or not self.core.set_targets(targets, self.model.mechanism.dof, FURTHEST):
            return False
        self._given = targets.copy()
        return True

    def _prepared_array(self) -> ArrayOfTargets | None:
        """Passes the responses to all set-points of an array to the core; None if there are none."""
        model = self.model
        places = target_places(model.mechanism)
        if not places:
            return None
        self._add_effects(places)
        moved, links, turns = stacked(self._effects, places)
        goal = model.cobasis @ moved
        shift = moved - model.basis @ goal
        now = goal, shift[: 6 * len(model.end_effectors)], self._bounds.rows @ shift + self._bounds.combined @ turns
        later = links, turns[: len(turns) * self.joints]
        values = np.array([model.rest_target(name) for name in places])
        at = list(places.values())
        self.core.prepare_targets(at, values, np.vstack(now), np.vstack(later))
        return ArrayOfTargets(np.array(at), values, (turns, goal, links, shift))

    @property
    def _present(self) -> Response:
        """The response to the present set-points."""
        if self._given is not None and self._array is not None:
            turns, goal, links, shift = self._array.responses(self._given)
            self._given, self._response = None, Response(turns, goal, links.reshape(-1, 6), shift)
        return self._response

    @property
    def goal(self) -> Array:
        """(m,) coordinates at which the springs are unloaded, given the set-points."""
        return self._present.goal

    @property
    def offsets(self) -> Array:
        """(bodies, 6) twists of the links due to set-points, with the end effectors fixed."""
        return self._present.offsets

    @property
    def shift(self) -> Array:
        """(n,) displacement due to motors in directions that are inadmissible for springs."""
        return self._present.shift

    def _add_effects(self, names: Iterable[str]) -> None:
        model = self.model
        for name in names:
            if name not in self._effects:
                moved, links, turns = model.target_effect(name)
                own = links - model.motion_map @ moved, turns - model.coordinate_map @ moved
                self._effects[name] = moved, *own

    def joint_response(self, name: str) -> Array:
        self._add_effects([name])
        return self._effects[name][2]

    @property
    def bounds_at(self) -> Array:
        """(bounds,) value of each limited coordinate at y = 0, with the present set-points."""
        bounds = self._bounds
        found: Array = bounds.at + bounds.rows @ self.shift + bounds.combined @ self._present.turns
        return found

    @property
    def tips(self) -> tuple[Array, Array]:
        self.core.update_tips()
        return self._tip_poses.copy(), self._tip_twists.copy()

    def tip_pose(self, tip: int) -> Array:
        self.core.update_tips()
        pose: Array = self._tip_poses[tip].copy()
        return pose

    @property
    def displacement(self) -> Array:
        displacement: Array = self.model.basis @ self.core.y + self.shift
        return displacement

    @property
    def velocities(self) -> Array:
        self.core.update_velocities()
        velocities: Array = self._velocities
        return velocities

    @property
    def coordinates(self) -> Array:
        if not self.joints:
            return self.model.moved(self.model.coordinate_map @ self.displacement + self._present.turns)
        self.core.update()
        q: Array = self.core.q
        return q

    @property
    def rates(self) -> Array:
        rates: Array = self.model.coordinate_map @ (self.model.basis @ self.core.v)
        return rates

    @property
    def gaps(self) -> Array:
        if not self.joints:
            return np.zeros((0, 6))
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


class Response(NamedTuple):
    """Change of a linear model by its set-points."""

    turns: Array
    """(axes,) increments of the joints, with the end effectors fixed."""
    goal: Array
    offsets: Array
    shift: Array


class ArrayOfTargets(NamedTuple):
    """The set-points that an array (dof,) sets."""

    places: NDArray[np.int64]
    """(set-points,) in the array."""
    values: Array
    """(set-points,) in the model."""
    matrices: tuple[Array, ...]
    """Responses to a unit change of each, (n, set-points)."""

    def responses(self, given: Array) -> tuple[Array, ...]:
        """The sums (n,) of the responses to an array of set-points."""
        change = given[self.places] - self.values
        return tuple(matrix @ change for matrix in self.matrices)


def stacked(effects: dict[Any, Any], names: Iterable[Any]) -> list[Array]:
    """Arrays of several effects as matrices (n, effects). The effects become views of them, for memory."""
    names = list(names)
    whole = [np.array(each) for each in zip(*(effects[name] for name in names), strict=True)]
    effects |= dict(zip(names, zip(*whole, strict=True), strict=True))
    return [each.reshape(len(names), -1).T for each in whole]


class Bounds:
    """Joint coordinates and couplings that have limits, as linear functions of a model's displacement."""

    def __init__(self, model: ReducedModel) -> None:
        mech = model.mechanism
        index = {name: i for i, name in enumerate(axis_names(mech))}
        found = []
        for joint in mech.joints:
            found += [({name: 1.0}, limits) for name, limits in zip(joint.axes, joint.limits.tolist(), strict=True)]
        for c in mech.couplings:
            if not c.rigid:
                found.append((dict(zip(c.coordinates, c.coefficients.tolist(), strict=True)), c.limits.tolist()))
        found = [each for each in found if np.isfinite(each[1]).any()]
        self.combined = np.zeros((len(found), len(index)))
        """(bounds, axes) each as a combination of coordinates."""
        for i, (combination, _) in enumerate(found):
            for name, factor in combination.items():
                self.combined[i, index[name]] += factor
        self.limits: list[tuple[float, float]] = [(lower, upper) for _, (lower, upper) in found]
        """Rad or m."""
        self.rows: Array = self.combined @ model.coordinate_map
        """(bounds, n) changes per displacement."""
        self.at: Array = self.combined @ model.q
        """(bounds,) values in the linearised state, rad or m."""
