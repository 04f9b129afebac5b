"""Arrays with one entry for each axis of every joint, of the tree and of loops, in the order of `mech.joints`.

`mech.coordinates` has the axes of the spanning tree only.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from supple.mechanism.record import Array

if TYPE_CHECKING:
    from supple.mechanism.joint import Joint
    from supple.mechanism.mechanism import Mechanism


def axis_names(mech: Mechanism) -> list[str]:
    """(axes,) names of the coordinates."""
    return [name for joint in mech.joints for name in joint.axes]


def axis_slices(mech: Mechanism) -> list[slice]:
    """(joints,) slice of each joint's axes in such an array."""
    return mech.axis_slices


def slices_of(joints: Sequence[Joint]) -> list[slice]:
    """(joints,) slice of each joint's axes in an array of all their axes."""
    ends = np.cumsum([0, *(len(joint.axes) for joint in joints)])
    return [slice(int(a), int(b)) for a, b in pairwise(ends)]


def per_axis(mech: Mechanism, field: str) -> Array:
    """(axes,) values of a field of `Joint` with one number for each axis: "reference", "stiffness", "armature" ..."""
    return np.concatenate([np.zeros(0), *(getattr(joint, field) for joint in mech.joints)])


def by_joint(mech: Mechanism, values: Array) -> dict[str, Array]:
    """Splits values (axes,) into an array (k,) for each joint, by the joint's name."""
    return {joint.name: values[part] for joint, part in zip(mech.joints, axis_slices(mech), strict=True)}


def of_tree(mech: Mechanism, values: Array) -> Array:
    """(..., dof) the values (..., axes) that belong to the spanning tree, in the order of `mech.coordinates`."""
    return np.asarray(values[..., mech.tree_axes])
