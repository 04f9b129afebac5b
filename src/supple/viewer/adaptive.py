"""An adaptive linkage as something that moves (`Moving`), with handles, and which joints moved."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple.engine.assembly import read_targets, sprung_axes
from supple.engine.dynamics import handle_spring
from supple.errors import MechanismError
from supple.linkage import AdaptiveLinkage
from supple.linkage.stability import largest_frequency
from supple.mechanism import Mechanism, Poses
from supple.mechanism.moving import Contact, Energy
from supple.mechanism.named import Coordinates, Twists, coordinate_columns
from supple.mechanism.record import Array, array
from supple.mechanism.values import by_coordinate

DT = 0.02
"""Longest time step, s. Each step starts from rest, so long steps reach an equilibrium sooner."""
ERROR = 2.0**-7
"""Relative error of the joint accelerations."""


class AdaptiveState(NamedTuple):
    """What the next steps depend on."""

    q: Array
    time: float
    points: dict[str, tuple[Array, float]]
    """(3,) target, m, and stiffness, N/m, of each handle."""
    wrenches: dict[str, Array]
    targets: dict[str, float]


class AdaptiveMotion:
    """Adaptive quasi-statics of a mechanism. The time step is shortened where springs would make it unstable."""

    kind = "adaptive"
    contacts: tuple[Contact, ...] = ()
    touches: Mapping[str, Any] = MappingProxyType({})
    ellipsoids: Mapping[str, Any] = MappingProxyType({})
    controls: dict[str, float | None] = {}  # noqa: RUF012 (never changed)
    energy = Energy(0.0, 0.0, 0.0)
    """Not computed."""
    can_set_torque = True
    has_contacts = has_velocities = joints_separate = False

    def __init__(self, mech: Mechanism) -> None:
        self.mechanism = mech
        self._linkage = AdaptiveLinkage(mech, ERROR, "relative_joint")
        fastest = largest_frequency(self._linkage.tree, self._linkage._core)
        self.dt = DT if fastest == 0 else min(DT, 1 / fastest)
        self._points: dict[str, tuple[Array, float]] = {}
        self._wrenches: dict[str, Array] = {}
        rest = {axis: float(x) for joint in mech.joints for axis, x in zip(joint.axes, joint.rest, strict=True)}
        self._targets = {axis: rest[axis] for axis in sprung_axes(mech)}
        self.moving_joints: NDArray[np.bool_] = np.zeros(len(mech.joints), dtype=bool)
        """(joints,) which joints moved in the last step."""
        self._origin = self.save()

    # state

    @property
    def time(self) -> float:
        """s."""
        return self._linkage.time

    @property
    def poses(self) -> Poses:
        return Poses(self.mechanism, self._linkage.poses.array)

    @property
    def velocities(self) -> Twists:
        """Zero: every step starts from rest."""
        velocities: Twists = Twists(self.mechanism, np.zeros((len(self.mechanism.bodies), 6)))
        return velocities

    @property
    def q(self) -> Coordinates:
        q: Coordinates = Coordinates(self.mechanism, self._linkage.coordinates)
        return q

    @property
    def qd(self) -> Coordinates:
        """Zero, as `velocities`."""
        qd: Coordinates = Coordinates(self.mechanism, np.zeros(self.mechanism.dof))
        return qd

    @property
    def coordinates(self) -> dict[str, Array]:
        q, mech = self._linkage.coordinates, self.mechanism
        return {mech.joints[j].name: q[mech.topology.columns[j]] for j in mech.topology.tree}

    @property
    def placeable(self) -> tuple[str, ...]:
        return self.mechanism.coordinates

    @property
    def end_effectors(self) -> tuple[str, ...]:
        mech = self.mechanism
        return (*(b.name for b in mech.bodies), *(s.name for s in mech.sites if mech.frame(s.name)[0] >= 0))

    # inputs

    def handle_stiffness(self, name: str) -> float:
        """Stiffness of a handle's spring, N/m: as for other simulations, limited by the stability of the explicit step
        of the pulled body alone."""
        return min(handle_spring(self.mechanism, None, None)[0], self._stable_stiffness(name))

    def _stable_stiffness(self, name: str) -> float:
        return 0.25 * self.mechanism.bodies[self.mechanism.frame(name)[0]].mass / self.dt**2

    def pull(
        self,
        name: str,
        point: ArrayLike | None,
        stiffness: float | None = None,
        damping: float | None = None,
        at: ArrayLike = (0.0, 0.0, 0.0),
    ) -> None:
        """Pulls the origin of a body or site; quasi-statics has no damping, and `at` must be the origin."""
        if array(at, (3,), "the handle's point").any():
            raise MechanismError("an adaptive linkage is pulled at origins; name a site at the point")
        if point is None:
            self._points.pop(name, None)
            self._linkage.apply(name, self._wrenches.get(name, np.zeros(6)))
        else:
            k = self.handle_stiffness(name) if stiffness is None else min(stiffness, self._stable_stiffness(name))
            self._points[name] = array(point, (3,), "the point to pull to"), k

    def apply(self, name: str, wrench: ArrayLike, frame: str = "world") -> None:
        if frame != "world":
            raise MechanismError("in the viewer, wrenches on an adaptive linkage have world axes")
        self._linkage.apply(name, wrench)
        self._wrenches[name] = array(wrench, (6,), f"wrench on '{name}'")

    @property
    def targets(self) -> dict[str, float]:
        return dict(self._targets)

    def set_targets(self, targets: Any) -> None:
        changed = self._targets | read_targets(self.mechanism, targets)
        for joint in self.mechanism.joints:
            if any(axis in changed for axis in joint.axes):
                self._linkage.set_target(joint.name, [changed[axis] for axis in joint.axes])
        self._targets = changed

    def set_control(self, name: Any, control: float | None = None) -> None:
        raise MechanismError("an adaptive linkage has no actuators; use supple.Simulation")

    def set_torque(self, name: Any, torque: ArrayLike | None = None) -> None:
        given = name if torque is None else {name: torque}
        if not isinstance(given, Mapping):
            given = dict(zip(self.mechanism.coordinates, array(given, (self.mechanism.dof,), "torques"), strict=True))
        for each, value in given.items():
            coordinate_columns(self.mechanism, each)
            self._linkage.set_joint_force(each, value)

    def set_q(self, q: Any) -> None:
        self._linkage.coordinates = by_coordinate(self.mechanism, q, self._linkage.coordinates, "q")

    # time

    def step(self, n: int = 1) -> None:
        moving = np.zeros(len(self.mechanism.joints), dtype=bool)
        for _ in range(n):
            for name, (target, k) in self._points.items():
                force = k * (target - self._linkage.poses[name][:3, 3])
                self._linkage.apply(name, self._wrenches.get(name, np.zeros(6)) + [*force, 0, 0, 0])
            moving[self._linkage.step(self.dt).moved] = True
        self.moving_joints = moving

    def save(self) -> AdaptiveState:
        kept = dict(self._points), dict(self._wrenches), dict(self._targets)
        return AdaptiveState(self._linkage.coordinates, self.time, *kept)

    def restore(self, saved: AdaptiveState) -> None:
        for name in tuple(self._points):
            self.pull(name, None)
        for name in self._wrenches.keys() - saved.wrenches.keys():
            self._linkage.apply(name, np.zeros(6))
        self._wrenches = dict(saved.wrenches)
        for name, wrench in saved.wrenches.items():
            self._linkage.apply(name, wrench)
        self._points = dict(saved.points)
        if saved.targets:
            self.set_targets(saved.targets)
        self._linkage.coordinates, self._linkage.time = saved.q, saved.time
        self.moving_joints = np.zeros(len(self.mechanism.joints), dtype=bool)

    def reset(self) -> None:
        self.restore(self._origin)
