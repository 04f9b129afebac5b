"""A mechanism whose flexible bodies are rigid, in their reference shape."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from supple.mechanism.joint import Joint
from supple.mechanism.mechanism import Mechanism


def rigidified(mech: Mechanism) -> Mechanism:
    """The mechanism with fixed joints in place of those of interfaces, and without their coordinates."""
    if not mech.flexible:
        return mech
    amplitudes = {name for joint in mech.joints if joint.interface is not None for name in joint.axes}
    kept = [i for i, name in enumerate(mech.coordinates) if name not in amplitudes]
    couplings = tuple(c for c in mech.couplings if not amplitudes.intersection(c.coordinates))
    kept_drives = {*mech.coordinates, *mech.loop_coordinates, *(c.name for c in couplings)} - amplitudes
    return replace(
        mech,
        joints=tuple(_fixed(joint) for joint in mech.joints),
        couplings=couplings,
        motors=tuple(m for m in mech.motors if m.coordinate not in amplitudes),
        actuators=tuple(a for a in mech.actuators if a.drives in kept_drives),
        keyframes=tuple(replace(key, coordinates=key.coordinates[kept]) for key in mech.keyframes),
        flexible=(),
    )


def _fixed(joint: Joint) -> Joint:
    if joint.interface is None:
        return joint
    on_parent = joint.pose_parent @ joint.displacement(joint.reference)
    return Joint(joint.name, joint.parent, joint.child, on_parent, joint.pose_child, np.zeros((0, 6)))
