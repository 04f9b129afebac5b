"""The core's kinematics of a mechanism, which the mechanism keeps (`Mechanism.compiled`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from supple import _core

if TYPE_CHECKING:
    from supple.mechanism.mechanism import Mechanism


def compiled_kinematics(mech: Mechanism) -> Any:
    """Poses, Jacobians, mass matrix and constraints as functions of coordinates x (n,): those of the tree, then those
    of the joints that close loops."""
    topology = mech.topology
    core = _core.Kinematics()
    for body in mech.bodies:
        core.add_body(body.mass, body.centre, np.ascontiguousarray(body.inertia))
    order = (*topology.tree, *topology.loops)
    for j in order:
        joint = mech.joints[j]
        core.add_joint(
            mech.body_index(joint.parent),
            mech.body_index(joint.child),
            np.ascontiguousarray(joint.pose_parent),
            np.ascontiguousarray(joint.pose_child),
            np.ascontiguousarray(joint.twists),
            list(joint.blocks),
            joint.armature,
        )
        if joint.interface is not None:
            core.set_interface(joint.interface.core)
    place = {j: i for i, j in enumerate(order)}
    for b in topology.order:
        core.add_branch(b, int(topology.parent[b]), place[int(topology.joint[b])], bool(topology.reversed[b]))
    columns = {name: i for i, name in enumerate((*mech.coordinates, *mech.loop_coordinates))}
    for c in mech.couplings:
        if c.rigid:
            core.add_coupling([columns[name] for name in c.coordinates], c.coefficients.tolist(), c.rest)
    core.finish()
    return core
