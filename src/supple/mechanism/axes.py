"""Numbers an axis: coordinates of every joint, tree and loops alike, in the order of `mech.joints`.

`mech.coordinates` are those of the spanning tree only.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from supple.mechanism.record import Array

if TYPE_CHECKING:
    from supple.mechanism.mechanism import Mechanism


def axis_names(mech: Mechanism) -> list[str]:
    """(axes,) names of the coordinates."""
    return [name for joint in mech.joints for name in joint.axes]


def axis_slices(mech: Mechanism) -> list[slice]:
    """(joints,) where each joint's coordinates stand."""
    ends = np.cumsum([0, *(len(joint.axes) for joint in mech.joints)])
    return [slice(int(a), int(b)) for a, b in pairwise(ends)]


def per_axis(mech: Mechanism, field: str) -> Array:
    """(axes,) of a field that joints have one number an axis of: "reference", "stiffness", "armature" ..."""
    return np.concatenate([np.zeros(0), *(getattr(joint, field) for joint in mech.joints)])


def by_joint(mech: Mechanism, values: Array) -> dict[str, Array]:
    """Numbers (axes,) as an array (k,) for each joint, by its name."""
    return {joint.name: values[part] for joint, part in zip(mech.joints, axis_slices(mech), strict=True)}


def of_tree(mech: Mechanism, values: Array) -> Array:
    """(dof,) those of numbers (axes,) that belong to the spanning tree, in the order of `mech.coordinates`."""
    slices = axis_slices(mech)
    return np.concatenate([np.zeros(0), *(values[slices[j]] for j in mech.topology.tree)])
