"""Tracked points of bodies: their positions and the derivatives of these; what motors move."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from supple.engine import adjoint
from supple.errors import MechanismError
from supple.mechanism import Mechanism
from supple.mechanism.poses import find
from supple.mechanism.record import Array


@dataclass(frozen=True, eq=False)
class TrackedPoint:
    """A point of a body that may deform: x = p + R (point + sum_k eta_k modes_k) with the body's pose (R, p)."""

    body: int
    """Index of the body, -1 for the world."""
    point: Array
    """(3,) in the body's frame, m."""
    modes: Array
    """(r, 3) motion of the point with each modal amplitude, in the body's frame, m/m; no rows for a rigid body."""
    columns: Array
    """(r,) indices of the amplitudes in `mech.coordinates`."""

    def local(self, coordinates: Array) -> Array:
        """(t, 3) the point in the body's frame, from coordinates (t, dof); m."""
        return np.asarray(self.point + coordinates[:, self.columns] @ self.modes)

    def positions(self, poses: Array, coordinates: Array) -> Array:
        """(t, 3) world positions from poses (t, bodies, 4, 4) and coordinates (t, dof); m."""
        own = poses[:, self.body]
        turned = own[:, :3, :3] @ self.local(coordinates)[..., None]
        return np.asarray(turned[..., 0] + own[:, :3, 3])

    def add_gradient(self, forces: Array, poses: Array, coordinates: Array, to_poses: Array, to_q: Array) -> None:
        """Adds the gradient of a scalar with respect to poses (t, bodies, 6) and coordinates (t, dof). `forces` (t, 3)
        is its gradient with respect to the point's world position."""
        local = (np.swapaxes(poses[:, self.body, :3, :3], 1, 2) @ forces[..., None])[..., 0]
        to_poses[:, self.body, :3] += local
        to_poses[:, self.body, 3:] += np.cross(self.local(coordinates), local)
        to_q[:, self.columns] += local @ self.modes.T

    def velocities(self, moved: adjoint.Motion, coordinates: Array) -> Array:
        """(directions, t, 3) derivatives of the world position along directions, in the body's axes, m."""
        twists = moved.poses[:, :, self.body]
        result = twists[..., :3] + np.cross(twists[..., 3:], self.local(coordinates))
        if len(self.columns):
            result = result + moved.coordinates[:, :, self.columns] @ self.modes
        return np.asarray(result)


def tracked_point(mech: Mechanism, name: str) -> TrackedPoint:
    """The centre of mass of a body or flexible body; the origin of a site or of a flexible body's interface."""
    flexible = {each.name: each for each in mech.flexible}
    interfaces = {each.frame(interface) for each in mech.flexible for interface in each.part.interfaces}
    still = np.zeros((0, 3)), np.zeros(0, dtype=int)
    bodies = [body.name for body in mech.bodies]
    find([*bodies, *flexible, *(site.name for site in mech.sites)], name, f"body or site of '{mech.name}'")
    if name in flexible and name not in bodies:
        own = flexible[name]
        if not set(own.coordinates) <= set(mech.coordinates):
            raise MechanismError(
                f"a joint of flexible body '{name}' closes a loop, so its centre of mass cannot be tracked; track an "
                f"interface: '{own.reference}'"
            )
        centre, *modes = own.basis.first_moment / own.basis.mass
        columns = np.array([mech.coordinates.index(each) for each in own.coordinates])
        return TrackedPoint(mech.body_index(own.reference), centre, np.array(modes), columns)
    body, pose = mech.frame(name)
    if name in bodies and name not in interfaces:
        return TrackedPoint(body, mech.bodies[body].centre, *still)
    return TrackedPoint(body, pose[:3, 3], *still)


def moved_bodies(mech: Mechanism, motors: tuple[str, ...]) -> set[int]:
    """Indices of the bodies that these motors can move.

    Bodies that fixed joints hold on the world never move. The other joints connect the rest to groups, and couplings
    connect the groups of their joints; a motor moves the group of its joint.
    """
    group = list(range(len(mech.bodies) + 1))  # the last one: the world

    def root(i: int) -> int:
        while group[i] != i:
            i = group[i]
        return i

    ends = [(mech.body_index(joint.parent), mech.body_index(joint.child)) for joint in mech.joints]
    for joint, (a, b) in zip(mech.joints, ends, strict=True):
        if not joint.axes:
            group[root(a)] = root(b)
    held = {i for i in range(-1, len(mech.bodies)) if root(i) == root(-1)}
    free = [[i for i in pair if i not in held] for pair in ends]
    for pair in free:
        if len(pair) == 2:
            group[root(pair[0])] = root(pair[1])
    for coupling in mech.couplings:
        tied = [i for name in coupling.coordinates for i in free[mech.joint_index(name)]]
        for i in tied[1:]:
            group[root(i)] = root(tied[0])
    driven = [motor.coordinate for motor in mech.motors if motor.name in motors]
    roots = {root(i) for name in driven for i in free[mech.joint_index(name)]}
    return {i for i in range(len(mech.bodies)) if i not in held and root(i) in roots}


def turns(mech: Mechanism, motor: str) -> bool:
    """Whether a motor turns its joint, rather than sliding it."""
    coordinate = next(each.coordinate for each in mech.motors if each.name == motor)
    joint = mech.joint(coordinate)
    return bool(joint.twists[joint.axes.index(coordinate), 3:].any())
