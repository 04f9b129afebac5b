"""A reduced model whose base moves: its own coordinates as seen from the base, and the momentum of the whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from supple import _core, spatial
from supple.errors import MechanismError
from supple.mechanism.axes import per_axis
from supple.mechanism.record import Array
from supple.reduced.model import ReducedModel
from supple.reduced.motion import NOT_FINITE, LinearMotion, bounds


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
    """A linear model on a moving base. Links stand at base @ rest @ exp(Phi y), y as seen from the base, and move with
    their own consistent mass, so that the momentum is exactly that of all links. Gravity acts on every link.

    `decouple()` turns it into the published variant (FORK-1S, 6.1): the base is a rigid body with the mass and inertia
    of all links at rest, and feels the model only through external forces.
    """

    failure = NOT_FINITE

    def __init__(self, model: ReducedModel, dt: float, reconstruction: str, corrections: int, threads: int) -> None:
        assert model.free_base is not None
        self.model = model
        self._still = LinearMotion(model, dt, reconstruction, corrections, threads)  # shows links with the base at rest
        self._m = m = model.basis.shape[1] - 6
        self._own_basis = basis = _separated(model)
        self._to_model = model.cobasis[:m] @ basis
        """(m, m): the model's coordinates from those used here."""
        mech = model.mechanism
        self._home = np.array(model.rest_poses[model.free_base])
        self._rest = spatial.inverse(self._home) @ model.rest_poses.array
        self._links: Array = _clean(model.motion_map @ basis)
        turns = _clean(model.coordinate_map @ basis)
        small = [basis.T @ matrix @ basis for matrix in (model.damping, model.stiffness)]
        armature = turns.T @ (per_axis(mech, "armature")[:, None] * turns)
        held = basis.T @ model.mass @ basis
        parts = [np.ascontiguousarray(_clean((each + each.T) / 2)) for each in (*small, armature, held)]
        core = _core.FloatingCore(*parts, mech.gravity, self._home, dt, m)
        for body, rest, link in zip(mech.bodies, self._rest, self._links, strict=True):
            core.add_link(rest, body.mass, body.centre, np.ascontiguousarray(body.inertia), np.ascontiguousarray(link))
        for name in model.end_effectors:
            core.add_tip(*mech.frame(name))
        self._bounds = bounds(model)
        for row, at, lower, upper in self._bounds:
            core.add_bound(np.ascontiguousarray(_clean(row @ basis)), at, lower, upper)
        core.prepare()
        self.core = _Shown(core, self)

    def decouple(self) -> None:
        """The published variant, from here on."""
        self.core.decouple()

    @property
    def momentum(self) -> Array:
        """(6,) of the whole mechanism: linear (kg m/s), then angular about the world's origin (kg m^2/s)."""
        momentum: Array = self.core.momentum
        return momentum

    def set_base_velocity(self, twist: Array) -> None:
        """Gives the base a twist (6,) in its own frame; links keep their motion relative to it."""
        self.core.set_twist(twist)

    def set_mount(self, mount: Mount | None) -> None:
        """Springs that hold the base on a pose."""
        none = np.zeros(6)
        if mount is None:
            self.core.set_mount(False, self._home, none, none)
        else:
            self.core.set_mount(True, mount.pose, mount.stiffness, mount.damping)

    def set_targets(self, targets: dict[str, float]) -> None:
        still = self._still
        still.set_targets(targets)
        self.core.set_targets(np.linalg.solve(self._to_model, still.goal[: self._m]), still.offsets)
        for i, at in enumerate(still.bounds_at):
            self.core.set_bound_at(i, at)

    @property
    def tips(self) -> tuple[Array, Array]:
        xi = self._own[: 6 * len(self.model.end_effectors)].reshape(-1, 6)
        rates = (self._own_basis @ self.core.v)[: xi.size].reshape(-1, 6)
        poses = self.model.end_effector_poses @ spatial.exp(xi)  # where the base was
        own = (spatial.right_jacobian(xi) @ rates[..., None])[..., 0]
        seen = spatial.adjoint(spatial.inverse(spatial.inverse(self._home) @ poses)) @ self.core.twist
        return self._carried @ poses, own + seen

    @property
    def _own(self) -> Array:
        """(n,) displacement as seen from the base."""
        own: Array = self._own_basis @ self.core.y + self._still.shift
        return own

    @property
    def _carried(self) -> Array:
        """(4, 4) the base's motion since the start, world."""
        carried: Array = self.core.base @ spatial.inverse(self._home)
        return carried

    @property
    def displacement(self) -> Array:
        displacement = self._own.copy()
        moved = spatial.log(spatial.inverse(self.model.end_effector_poses) @ self.tips[0])
        displacement[: moved.size] = moved.ravel()
        return displacement

    @property
    def reach(self) -> float:
        return float(np.linalg.norm(self.core.y))

    @property
    def velocities(self) -> Array:
        twists = self._links @ self.core.y + self._still.offsets
        own = (spatial.right_jacobian(twists) @ (self._links @ self.core.v)[..., None])[..., 0]
        carried = spatial.adjoint(spatial.inverse(self._rest @ spatial.exp(twists))) @ self.core.twist
        velocities: Array = own + carried
        return velocities

    @property
    def coordinates(self) -> Array:
        self.show()
        q = self._still.coordinates.copy()
        mech, start = self.model.mechanism, 0
        for joint in mech.joints:
            if joint.kind == "free" and "world" in (joint.parent, joint.child):
                ends = [np.eye(4) if n == "world" else self._carried @ self._still.core.poses[mech.body_index(n)]
                        for n in (joint.parent, joint.child)]  # fmt: skip
                across = spatial.inverse(ends[0] @ joint.pose_parent) @ ends[1] @ joint.pose_child
                q[start : start + 6] = joint.coordinates(across)[0]
            start += len(joint.axes)
        return q

    @property
    def gaps(self) -> Array:
        self.show()
        return self._still.gaps

    @property
    def state(self) -> tuple[Array, ...]:
        return self.core.base, self.core.y, self.core.v, self.core.momentum

    def set_state(self, state: tuple[Array, ...], time: float) -> None:
        if len(state) != 4 or len(state[1]) != self._m:
            raise MechanismError("this state was saved by a simulation of another model")
        self.core.set_state(*state, time)

    def show(self) -> None:
        """Links at the present coordinates, the base at rest."""
        none = np.zeros(6)
        own, rates = (np.concatenate([self._to_model @ part, none]) for part in (self.core.y, self.core.v))
        self._still.core.set_state(own, rates, self.core.time)
        self._still.core.update()

    @property
    def poses(self) -> Array:
        """(bodies, 4, 4) of the links last shown, where the base is now."""
        poses: Array = self._carried @ self._still.core.poses
        return poses


class _Shown:
    """The compiled motion, with the links shown by the model at rest."""

    def __init__(self, core: Any, motion: FloatingMotion) -> None:
        self._core, self._motion = core, motion
        self.step = core.step

    def __getattr__(self, name: str) -> Any:
        return getattr(self._core, name)

    def update(self) -> None:
        self._motion.show()

    @property
    def poses(self) -> Array:
        return self._motion.poses


def _separated(model: ReducedModel) -> Array:
    """(n, m) basis of the displacements seen from the base. Where end effectors move independently of each other, each
    has columns of its own, so that the legs of a walking robot stay apart in all matrices."""
    e, m = len(model.end_effectors) - 1, model.basis.shape[1] - 6
    basis = model.basis[:, :m]
    parts = [slice(6 * i, 6 * i + 6) for i in range(e)] + ([slice(6 * e + 6, None)] if model.modes else [])
    found = []
    for part in parts:
        left, sizes, _ = np.linalg.svd(basis[part], full_matrices=False)
        found.append(left[:, sizes > 1e-9 * sizes.max(initial=0.0)])
    if sum(each.shape[1] for each in found) != m:
        return basis
    result, start = np.zeros_like(basis), 0
    for part, each in zip(parts, found, strict=True):
        result[part, start : start + each.shape[1]] = each
        start += each.shape[1]
    return result


def _clean(values: Array) -> Array:
    """The same numbers, those that are rounding made zero."""
    return np.where(np.abs(values) > 1e-11 * np.abs(values).max(initial=0.0), values, 0.0)
