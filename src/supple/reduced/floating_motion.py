"""Time stepping of a reduced model on a moving base: coordinates relative to the base, and the total momentum."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from supple import _core, spatial
from supple.errors import MechanismError
from supple.mechanism.axes import axis_slices, per_axis
from supple.mechanism.body import WORLD
from supple.mechanism.joint import Joint
from supple.mechanism.record import Array
from supple.reduced.model import ReducedModel
from supple.reduced.motion import NOT_FINITE, Bounds, LinearMotion


@dataclass(frozen=True)
class Mount:
    """Springs and dampers that hold a free base on a pose, along and about its own axes."""

    pose: Array
    """(4, 4) world."""
    stiffness: Array
    """(6,) N/m, then N m/rad."""
    damping: Array
    """(6,) N s/m, then N m s/rad."""


class FloatingMotion:
    """A linear model on a moving base.

    Links have the poses base @ rest @ exp(Phi y), with coordinates y relative to the base. The mass matrix is that of
    all links in this motion, so that the momentum is exactly theirs. Gravity acts on every link.

    `decouple()` switches to the published variant (FORK-1S, 6.1): the base is a rigid body with the mass and inertia of
    all links in the reference pose, and only external forces couple it to the model.
    """

    failure = NOT_FINITE

    def __init__(self, model: ReducedModel, dt: float, reconstruction: str, corrections: int, threads: int) -> None:
        assert model.free_base is not None
        self.model = model
        self._fixed = LinearMotion(model, dt, reconstruction, corrections, threads)  # links with the base at its start
        self._m = m = model.basis.shape[1] - 6
        self._own_basis = basis = _basis_by_end_effector(model)
        self._to_model = model.cobasis[:m] @ basis
        """(m, m): the model's coordinates z from the coordinates y used here."""
        self._from_model = np.linalg.inv(self._to_model)
        mech = model.mechanism
        self._home = np.array(model.rest_poses[model.free_base])
        self._rest = spatial.inverse(self._home) @ model.rest_poses.array
        self._links: Array = _without_rounding(model.motion_map @ basis)
        turns = _without_rounding(model.coordinate_map @ basis)
        small = [basis.T @ matrix @ basis for matrix in (model.damping, model.stiffness)]
        armature = turns.T @ (per_axis(mech, "armature")[:, None] * turns)
        held = basis.T @ model.mass @ basis
        damping, stiffness, drive, mass = (
            np.ascontiguousarray(_without_rounding((each + each.T) / 2)) for each in (*small, armature, held)
        )
        core = _core.FloatingCore(damping, stiffness, drive, mass, mech.gravity, self._home, dt, m)
        for body, rest, link in zip(mech.bodies, self._rest, self._links, strict=True):
            core.add_link(rest, body.mass, body.centre, np.ascontiguousarray(body.inertia), np.ascontiguousarray(link))
        for name in model.end_effectors:
            core.add_tip(*mech.frame(name))
        bounds = Bounds(model)
        for row, at, (lower, upper) in zip(bounds.rows, bounds.at, bounds.limits, strict=True):
            core.add_bound(np.ascontiguousarray(_without_rounding(row @ basis)), at, lower, upper)
        core.prepare()
        self.core = _CoreWithLinks(core, self)
        self._updated_at = b""
        """The state at which links were last updated."""
        self._velocities: Array | None = None
        self._coordinates: Array | None = None

    def decouple(self) -> None:
        """Switches to the published variant without inertial coupling of base and end effectors."""
        self.core.decouple()

    @property
    def momentum(self) -> Array:
        """(6,) of the whole mechanism: linear (kg m/s), then angular about the world's origin (kg m^2/s)."""
        momentum: Array = self.core.momentum
        return momentum

    def set_base_velocity(self, twist: Array) -> None:
        """Sets the base's twist (6,), in its own frame; links keep their motion relative to it."""
        self.core.set_twist(twist)

    def set_mount(self, mount: Mount | None) -> None:
        """Attaches the base to a pose by springs and dampers; None releases it."""
        none = np.zeros(6)
        if mount is None:
            self.core.set_mount(False, self._home, none, none)
        else:
            self.core.set_mount(True, mount.pose, mount.stiffness, mount.damping)

    def set_targets(self, targets: dict[str, float]) -> None:
        self._fixed.set_targets(targets)
        self._take_targets()

    def set_target_array(self, targets: Array) -> bool:
        if not self._fixed.set_target_array(targets):
            return False
        self._take_targets()
        return True

    def _take_targets(self) -> None:
        """Takes the set-points of the motion with a fixed base."""
        fixed = self._fixed
        self.core.set_targets(self._from_model @ fixed.goal[: self._m], fixed.offsets)
        self.core.set_bounds_at(fixed.bounds_at)

    @property
    def tips(self) -> tuple[Array, Array]:
        xi = self._relative_displacement[: 6 * len(self.model.end_effectors)].reshape(-1, 6)
        rates = (self._own_basis @ self.core.v)[: xi.size].reshape(-1, 6)
        poses = self.model.end_effector_poses @ spatial.exp(xi)  # with the base at its start
        own = (spatial.right_jacobian(xi) @ rates[..., None])[..., 0]
        seen = spatial.adjoint(spatial.inverse(spatial.inverse(self._home) @ poses)) @ self.core.twist
        return self._base_motion @ poses, own + seen

    def tip_pose(self, tip: int) -> Array:
        pose: Array = self.tips[0][tip]
        return pose

    @property
    def _relative_displacement(self) -> Array:
        """(n,) displacement relative to the base."""
        own: Array = self._own_basis @ self.core.y + self._fixed.shift
        return own

    @property
    def _base_motion(self) -> Array:
        """(4, 4) motion of the base since the start, in world axes."""
        carried: Array = self.core.base @ spatial.inverse(self._home)
        return carried

    @property
    def displacement(self) -> Array:
        displacement = self._relative_displacement.copy()
        moved = spatial.log(spatial.inverse(self.model.end_effector_poses) @ self.tips[0])
        displacement[: moved.size] = moved.ravel()
        return displacement

    @property
    def velocities(self) -> Array:
        self.update_links()
        if self._velocities is None:
            moved = spatial.inverse(spatial.inverse(self._home) @ self._fixed.core.poses)
            self._velocities = self._fixed.velocities + spatial.adjoint(moved) @ self.core.twist
        return self._velocities

    @property
    def coordinates(self) -> Array:
        self.update_links()
        if self._coordinates is None:
            self._coordinates = q = self._fixed.coordinates.copy()
            mech, base = self.model.mechanism, self._base_motion
            for joint, part in self._free_joints:
                ends = [np.eye(4) if n == WORLD else base @ self._fixed.core.poses[mech.body_index(n)]
                        for n in (joint.parent, joint.child)]  # fmt: skip
                across = spatial.inverse(ends[0] @ joint.pose_parent) @ ends[1] @ joint.pose_child
                q[part] = joint.coordinates(across)[0]
        return self._coordinates.copy()

    @cached_property
    def _free_joints(self) -> list[tuple[Joint, slice]]:
        """Free joints to the world, and the places of their coordinates."""
        joints = self.model.mechanism.joints
        free = zip(joints, axis_slices(self.model.mechanism), strict=True)
        return [(joint, part) for joint, part in free if joint.kind == "free" and WORLD in (joint.parent, joint.child)]

    @property
    def rates(self) -> Array:
        """(axes,) rates of the joints; zero for the free joint of the base."""
        self.update_links()
        return self._fixed.rates

    def joint_response(self, name: str) -> Array:
        return self._fixed.joint_response(name)

    @property
    def gaps(self) -> Array:
        self.update_links()
        return self._fixed.gaps

    @property
    def state(self) -> tuple[Array, ...]:
        return self.core.base, self.core.y, self.core.v, self.core.momentum

    def set_state(self, state: tuple[Array, ...], time: float) -> None:
        if len(state) != 4 or len(state[1]) != self._m:
            raise MechanismError("this state was saved by a simulation of another model")
        self.core.set_state(*state, time)

    def update_links(self) -> None:
        """Updates the links' poses at the present coordinates, with the base at its start, if the state is another than
        at the last call."""
        core, none = self.core, np.zeros(6)
        y, v = core.y, core.v
        parts = (core.base, core.twist, y, v, self._fixed.offsets, self._fixed.shift)
        state = b"".join(part.tobytes() for part in parts)
        if state == self._updated_at:
            return
        self._updated_at, self._velocities, self._coordinates = state, None, None
        own, rates = (np.concatenate([self._to_model @ part, none]) for part in (y, v))
        self._fixed.core.set_state(own, rates, self.core.time)
        self._fixed.core.update()

    @property
    def link_poses(self) -> Array:
        """(bodies, 4, 4) world poses of the links as of the last update, moved with the base."""
        poses: Array = self._base_motion @ self._fixed.core.poses
        return poses


class _CoreWithLinks:
    """The compiled stepping, with poses of links from the motion with a fixed base."""

    def __init__(self, core: Any, motion: FloatingMotion) -> None:
        self._core, self._motion = core, motion
        self.step = core.step

    def __getattr__(self, name: str) -> Any:
        return getattr(self._core, name)

    def update(self) -> float:
        """Updates the links; returns the distance from the linearised state, in the units of the coordinates."""
        self._motion.update_links()
        return float(np.linalg.norm(self._core.y))

    @property
    def poses(self) -> Array:
        return self._motion.link_poses


def _basis_by_end_effector(model: ReducedModel) -> Array:
    """(n, m) basis of the displacements relative to the base.

    Where end effectors move independently of each other, each gets columns of its own. The matrices of a walking robot
    are then block diagonal in its legs.
    """
    e, m = len(model.end_effectors) - 1, model.basis.shape[1] - 6
    basis = model.basis[:, :m]
    parts = [slice(6 * i, 6 * i + 6) for i in range(e)] + ([slice(6 * e + 6, None)] if model.modes else [])
    bases = []
    for part in parts:
        left, sizes, _ = np.linalg.svd(basis[part], full_matrices=False)
        bases.append(left[:, sizes > 1e-9 * sizes.max(initial=0.0)])
    if sum(each.shape[1] for each in bases) != m:
        return basis
    result, start = np.zeros_like(basis), 0
    for part, each in zip(parts, bases, strict=True):
        result[part, start : start + each.shape[1]] = each
        start += each.shape[1]
    return result


def _without_rounding(values: Array) -> Array:
    """The same numbers, with rounding errors (below 1e-11 of the largest) set to zero."""
    return np.where(np.abs(values) > 1e-11 * np.abs(values).max(initial=0.0), values, 0.0)
