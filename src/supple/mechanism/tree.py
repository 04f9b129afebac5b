"""A tree of bodies as plain arrays, for linkages too large for a `Mechanism` with an object for each part."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple import spatial
from supple.errors import MechanismError, listed
from supple.mechanism.body import Body
from supple.mechanism.joint import Curve, Joint
from supple.mechanism.mechanism import Mechanism
from supple.mechanism.record import Array, Record, array

Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Tree(Record):
    """n bodies, each with one joint to its parent:  pose_body = pose_of_parent @ pose_parent @ X(q) @ inv(pose_child).

    X(q) is the product of exp(twist_i q_i) over the joint's axes, in order. Arrays (axes, ...) have the axes of all
    joints, those of body 0 first. `mechanism()` converts a tree of moderate size to a `Mechanism`.
    """

    parent: Integers
    """(n,) index of the parent body, -1 for the world."""
    pose_parent: Array
    """(n, 4, 4) from the joint's frame to the parent's."""
    pose_child: Array
    """(n, 4, 4) from the joint's frame to the body's."""
    twists: Array
    """(axes, 6) linear then angular, in the joint's frame."""
    mass: Array
    """(n,) kg."""
    centre: Array
    """(n, 3) centre of mass in the body's frame, m."""
    inertia: Array
    """(n, 3, 3) about the centre of mass in the body's axes, kg m^2."""
    axes: Integers = None  # type: ignore[assignment]
    """(n,) how many axes each joint has; by default one."""
    blocks: Integers = None  # type: ignore[assignment]
    """(axes,) 1, or 3 for each axis of a rotation vector; by default 1."""
    reference: Array = None  # type: ignore[assignment]
    """(axes,) coordinates to start at, rad and m; by default 0."""
    stiffness: Array = None  # type: ignore[assignment]
    """(axes,) N m/rad or N/m; by default 0."""
    rest: Array = None  # type: ignore[assignment]
    """(axes,) coordinates at which springs are unloaded; by default the reference."""
    armature: Array = None  # type: ignore[assignment]
    """(axes,) kg m^2 or kg; by default 0."""
    reversed: NDArray[np.bool_] = None  # type: ignore[assignment]
    """(n,) true where the joint's frames are swapped: it is described from the body to its parent, with X inverted."""
    curves: Mapping[int, Curve] = field(default_factory=dict)
    """Restoring torques of some axes, by axis, added to those of the linear springs."""
    gravity: Array = (0.0, 0.0, 0.0)  # type: ignore[assignment]
    """(3,) m/s^2, world axes."""
    name: str = "tree"
    names: tuple[str, ...] | None = None
    """(n,) of the bodies; by default body_0, body_1 ..."""

    def __post_init__(self) -> None:
        parent = _integers(self.parent, (-1,), "parents of a tree")
        n = len(parent)
        if n == 0:
            raise MechanismError("a tree needs at least one body")
        axes = np.ones(n, dtype=np.int64) if self.axes is None else _integers(self.axes, (n,), "numbers of axes")
        self._raise_for((axes < 0) | (axes > 6), "has a joint with more than 6 axes, or fewer than none")
        k = int(axes.sum())
        blocks = np.ones(k, dtype=np.int64) if self.blocks is None else _integers(self.blocks, (k,), "blocks of axes")
        reference = self._per_axis(self.reference, k, "reference", np.zeros(k))
        self._freeze(
            parent=parent,
            axes=axes,
            blocks=blocks,
            pose_parent=array(self.pose_parent, (n, 4, 4), "frames of joints on their parents"),
            pose_child=array(self.pose_child, (n, 4, 4), "frames of joints on their bodies"),
            twists=array(self.twists, (k, 6), "axes of joints"),
            mass=array(self.mass, (n,), "masses of a tree"),
            centre=array(self.centre, (n, 3), "centres of mass of a tree"),
            inertia=array(self.inertia, (n, 3, 3), "inertias of a tree"),
            reference=reference,
            stiffness=self._per_axis(self.stiffness, k, "stiffness", np.zeros(k)),
            rest=self._per_axis(self.rest, k, "rest", reference),
            armature=self._per_axis(self.armature, k, "armature", np.zeros(k)),
            reversed=np.zeros(n, dtype=bool) if self.reversed is None else np.array(self.reversed, dtype=bool),
            gravity=array(self.gravity, (3,), "gravity"),
        )
        self._check(n)

    @classmethod
    def placed(cls, parent: ArrayLike, poses: Array, frames: Array, **rest: Any) -> Tree:
        """From world poses (n, 4, 4) of the bodies and of their joints' frames, at the coordinates 0."""
        parents = np.asarray(parent)
        base = np.where(parents[:, None, None] < 0, np.eye(4), poses[parents])
        pose_parent, pose_child = spatial.inverse(base) @ frames, spatial.inverse(poses) @ frames
        return cls(parents, pose_parent, pose_child, **rest)

    @classmethod
    def of(cls, mech: Mechanism) -> Tree:
        """The spanning tree of a mechanism, without the joints that close loops."""
        topology, joints = mech.topology, [mech.joints[j] for j in mech.topology.joint]
        counts = np.array([len(joint.axes) for joint in joints], dtype=np.int64)
        starts = np.concatenate([[0], np.cumsum(counts)])
        curves = {
            int(start) + i: curve
            for joint, start in zip(joints, starts[:-1], strict=True)
            for i, curve in enumerate(joint.curves)
            if curve is not None
        }
        blocks = [np.repeat(joint.blocks, joint.blocks) for joint in joints if joint.blocks]

        def per_axis(name: str) -> Array:
            return np.concatenate([np.zeros(0), *(getattr(joint, name) for joint in joints)])

        return cls(
            parent=topology.parent.astype(np.int64),
            pose_parent=np.array([joint.pose_parent for joint in joints]),
            pose_child=np.array([joint.pose_child for joint in joints]),
            twists=np.concatenate([np.zeros((0, 6)), *(joint.twists for joint in joints)]),
            mass=np.array([body.mass for body in mech.bodies]),
            centre=np.array([body.centre for body in mech.bodies]),
            inertia=np.array([body.inertia for body in mech.bodies]),
            axes=counts,
            blocks=np.concatenate([np.zeros(0, dtype=np.int64), *blocks]),
            reference=per_axis("reference"),
            stiffness=per_axis("stiffness"),
            rest=per_axis("rest"),
            armature=per_axis("armature"),
            reversed=topology.reversed,
            curves=curves,
            gravity=mech.gravity,
            name=mech.name,
            names=tuple(body.name for body in mech.bodies),
        )

    def mechanism(self) -> Mechanism:
        """The same linkage as a `Mechanism`, in which joint_i carries body i. For a few thousand bodies at most."""
        bodies: dict[int, Body] = {}
        joints = [self._joint(i, first) for i, first in enumerate((np.cumsum(self.axes) - self.axes).tolist())]
        for i in self._parents_first():
            frame, joint = np.eye(4) if self.parent[i] < 0 else bodies[int(self.parent[i])].pose, joints[i]
            across = joint.pose_parent @ joint.displacement(joint.reference) @ spatial.inverse(joint.pose_child)
            pose = frame @ (spatial.inverse(across) if self.reversed[i] else across)
            bodies[i] = Body(self.body_name(i), pose, float(self.mass[i]), self.centre[i], self.inertia[i])
        return Mechanism(self.name, tuple(bodies[i] for i in range(len(bodies))), tuple(joints), gravity=self.gravity)

    def _joint(self, i: int, first: int) -> Joint:
        parent_name = "world" if self.parent[i] < 0 else self.body_name(int(self.parent[i]))
        body_name, part = self.body_name(i), slice(first, first + int(self.axes[i]))
        return Joint(
            f"joint_{i}",
            *((body_name, parent_name) if self.reversed[i] else (parent_name, body_name)),
            pose_parent=self.pose_parent[i],
            pose_child=self.pose_child[i],
            twists=self.twists[part],
            blocks=_blocks(self.blocks[part]),
            stiffness=self.stiffness[part],
            rest=self.rest[part],
            armature=self.armature[part],
            reference=self.reference[part],
            curves=tuple(self.curves.get(a) for a in range(part.start, part.stop)),
        )

    def body_name(self, i: int) -> str:
        return self.names[i] if self.names is not None else f"body_{i}"

    def _parents_first(self) -> list[int]:
        children: dict[int, list[int]] = {}
        for i, p in enumerate(self.parent.tolist()):
            children.setdefault(p, []).append(i)
        order = list(children.get(-1, []))
        for i in order:
            order += children.get(i, [])
        return order

    def _per_axis(self, value: ArrayLike | None, k: int, what: str, default: Array) -> Array:
        if value is None:
            return default
        return array(np.full(k, value) if np.ndim(value) == 0 else value, (k,), f"{what} of a tree's axes")

    def _check(self, n: int) -> None:
        parent = self.parent
        self._raise_for((parent < -1) | (parent >= n) | (parent == np.arange(n)), "has a parent that does not exist")
        ancestor = parent
        for _ in range(n.bit_length() + 1):  # each pass doubles the distance to the ancestor
            ancestor = np.where(ancestor >= 0, ancestor[ancestor], -1)
        self._raise_for(ancestor >= 0, "is its own ancestor: the joints form a loop; leave one of them out of the tree")
        for poses in (self.pose_parent, self.pose_child):
            turns = poses[:, :3, :3]
            off = np.abs(np.swapaxes(turns, 1, 2) @ turns - np.eye(3)).max(axis=(1, 2))
            rigid = (off <= 1e-6) & (np.linalg.det(turns) > 0) & (poses[:, 3] == [0, 0, 0, 1]).all(axis=1)
            self._raise_for(~rigid, "has a joint frame that is not a rigid pose")
        turning = np.linalg.norm(self.twists[:, 3:], axis=1)
        length = np.where(turning > 0, turning, np.linalg.norm(self.twists[:, :3], axis=1))
        owner = np.repeat(np.arange(n), self.axes)
        self._raise_for(np.isin(np.arange(n), owner[np.abs(length - 1) > 1e-9]), "has an axis that is no unit vector")
        for what in ("stiffness", "armature"):
            self._raise_for(np.isin(np.arange(n), owner[getattr(self, what) < 0]), f"has a joint of negative {what}")
        self._raise_for(np.isin(np.arange(n), owner[~np.isin(self.blocks, (1, 3))]), "has a block that is not 1 or 3")
        if self.names is not None and len(self.names) != n:
            raise MechanismError(f"a tree of {n} bodies needs as many names, got {len(self.names)}")
        if self.reversed.shape != (n,):
            raise MechanismError(f"`reversed` must have shape {n}, got {self.reversed.shape}")
        asymmetric = np.abs(self.inertia - np.swapaxes(self.inertia, 1, 2)).max(axis=(1, 2))
        largest = np.abs(self.inertia).max(axis=(1, 2))
        self._raise_for(asymmetric > 1e-9 * largest, "has an inertia that is not symmetric")

    def _raise_for(self, wrong: NDArray[np.bool_], why: str) -> None:
        if wrong.any():
            raise MechanismError(f"{listed([self.body_name(int(i)) for i in np.flatnonzero(wrong)])} {why}")


def _integers(value: ArrayLike, shape: tuple[int, ...], what: str) -> Integers:
    numbers = array(value, shape, what)
    if (numbers != np.round(numbers)).any():
        raise MechanismError(f"{what} must be whole numbers")
    return numbers.astype(np.int64)


def _blocks(sizes: Integers) -> tuple[int, ...]:
    """Blocks of a joint from the block size at each of its axes."""
    result: list[int] = []
    while sum(result) < len(sizes):
        result.append(int(sizes[sum(result)]))
    return tuple(result)
