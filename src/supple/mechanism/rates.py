"""Rates of joint coordinates from the twists of bodies."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from supple import spatial
from supple.mechanism.joint import twist_jacobian
from supple.mechanism.mechanism import Mechanism
from supple.mechanism.record import Array

ROUNDING = 1e-14
"""Axes of a joint that depend on each other to this part share their motion."""


class JointRates:
    """Computes the time derivative of a mechanism's coordinates, given poses and twists of its bodies."""

    def __init__(self, mech: Mechanism) -> None:
        self._dof = mech.dof
        joints = [mech.joints[j] for j in mech.topology.tree]
        self._columns = [mech.topology.columns[j] for j in mech.topology.tree]
        self._children = np.array([mech.body_index(joint.child) for joint in joints], dtype=int)
        self._parents = np.array([mech.body_index(joint.parent) for joint in joints], dtype=int)
        self._pose_child = np.array([joint.pose_child for joint in joints]).reshape(-1, 4, 4)
        alike: dict[tuple[int, ...], list[int]] = {}
        for i, joint in enumerate(joints):
            if joint.interface is None and joint.kind != "free" and joint.axes:
                alike.setdefault(joint.blocks, []).append(i)
        self._groups = [
            (blocks, np.array(group), np.array([joints[i].twists for i in group]), self._places(group))
            for blocks, group in alike.items()
        ]
        together = {i for group in alike.values() for i in group}
        self._others = [(i, joint) for i, joint in enumerate(joints) if i not in together and joint.axes]

    def _places(self, group: list[int]) -> NDArray[np.int64]:
        """(joints, k) places of the coordinates of some joints in q."""
        return np.array([np.arange(self._dof)[self._columns[i]] for i in group])

    def __call__(self, q: Array, poses: Array, twists: Array) -> Array:
        """(dof,) rad/s and m/s, at coordinates q (dof,), with the bodies at world poses (bodies, 4, 4) that move with
        twists (bodies, 6), each in its body's own frame. Where a joint is separated, its rates are the nearest ones."""
        poses, twists = np.concatenate([poses, np.eye(4)[None]]), np.concatenate([twists, np.zeros((1, 6))])
        frames = spatial.inverse(poses[self._children] @ self._pose_child)
        child, parent = (
            (spatial.adjoint(frames @ poses[bodies]) @ twists[bodies, :, None])[..., 0]
            for bodies in (self._children, self._parents)  # the world is the last: its index is -1
        )
        across, rates = child - parent, np.zeros(self._dof)
        for blocks, group, axes, places in self._groups:
            jacobians = twist_jacobian(axes, blocks, q[places])
            rates[places] = (np.linalg.pinv(jacobians, ROUNDING) @ across[group, :, None])[..., 0]
        for i, joint in self._others:
            columns = self._columns[i]
            rates[columns] = np.linalg.lstsq(joint.twist_jacobian(q[columns]), across[i], rcond=None)[0]
        return rates
