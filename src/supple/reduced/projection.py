"""Reduction by projection: solve the engine's tangent for unit wrenches. Any topology, with or without preload."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from supple import spatial
from supple.engine.linearisation import Linearisation
from supple.mechanism.record import Array
from supple.reduced.maps import Maps


def projection(linear: Linearisation, end_effectors: Sequence[str]) -> Maps:
    """Solves [[K, G^T], [G, 0]] [Xi; *] = [E; 0], where E puts unit wrenches on the end effectors."""
    mech, at = linear.mechanism, linear.layout
    frames = [mech.frame(name) for name in end_effectors]
    on_body = np.array([pose for _, pose in frames]).reshape(-1, 4, 4)
    to_frame = spatial.adjoint(spatial.inverse(on_body))  # twists, body to frame

    rhs = np.zeros((6 * len(frames), at.size))
    for e, (body, _) in enumerate(frames):
        rhs[6 * e : 6 * e + 6, at.twist(body)] = to_frame[e]  # a wrench goes back with the transpose
    response = linear.solve(rhs)

    twists = np.moveaxis(response[:, at.twists].reshape(-1, len(mech.bodies), 6), 0, -1)
    tips = [to_frame[e] @ twists[body] for e, (body, _) in enumerate(frames)]
    compliance = np.concatenate([np.zeros((0, 6 * len(frames))), *tips])
    return Maps(compliance, twists, _wrenches(linear, response), response[:, at.coordinates].T)


def _wrenches(linear: Linearisation, response: Array) -> Array:
    """(bodies, 6, 6e): wrench that each body transmits towards the world, in its own frame: the sum of the reactions of
    the joints that support it."""
    mech, topology = linear.mechanism, linear.mechanism.topology
    supports = [(int(j), b) for b, j in enumerate(topology.joint)]
    supports += [(j, mech.body_index(mech.joints[j].child)) for j in topology.loops]
    wrenches = np.zeros((len(mech.bodies), 6, len(response)))
    for j, body in supports:
        if body < 0:
            continue
        joint = mech.joints[j]
        reaction = response[:, linear.layout.multipliers[j]].T
        frame = spatial.inverse(linear.poses.array[body]) @ linear.poses.of(joint.child) @ joint.pose_child
        sign = -1.0 if joint.parent == mech.bodies[body].name else 1.0
        wrenches[body] += sign * spatial.adjoint(spatial.inverse(frame)).T @ reaction
    return wrenches
