"""Adaptive quasi-statics: computes only the joint accelerations that the allowed error requires."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple import _core, spatial
from supple.engine.assembly import body_load
from supple.engine.dynamics import positive_seconds
from supple.errors import ConvergenceError, MechanismError, RangeWarning, listed
from supple.linkage.loops import LoopClosures
from supple.linkage.stability import largest_frequency
from supple.mechanism import Mechanism
from supple.mechanism.flexible import refuse_flexible
from supple.mechanism.mechanism import check_mechanism
from supple.mechanism.record import Array, array
from supple.mechanism.tree import Tree

MEASURES = ("absolute_linkage", "relative_linkage", "absolute_joint", "relative_joint")


@dataclass(frozen=True)
class LinkageStep:
    """Result of one pass."""

    computed: int
    """Number of joints whose acceleration was computed; the others do not move. All joints where a full pass was
    cheaper than an adaptive one."""
    error_bound: float
    """Upper bound of the error of the joint accelerations, by the linkage's measure. It includes an estimate of the
    rounding errors, so it is not exactly 0 when all joints are computed."""
    moved: NDArray[np.intp]
    """(computed,) indices of these joints, in the order of computation."""
    gap: float
    """Largest gap of a cut loop before the step, m or rad; 0 without loops."""


class LivePoses(Sequence[Array]):
    """Current world poses (4, 4) of the bodies, by name or index; each access takes O(log n).

    `poses.array` (bodies, 4, 4) is a copy of all poses.
    """

    def __init__(self, linkage: AdaptiveLinkage) -> None:
        self._linkage = linkage

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return self.array[key]
        body, frame = self._linkage._frame(key)
        pose = self._linkage._core.pose(body) if body >= 0 else np.eye(4)
        return pose if frame is None else pose @ frame

    @property
    def array(self) -> Array:
        poses: Array = self._linkage._core.poses()
        return poses

    def __len__(self) -> int:
        return len(self._linkage.tree.parent)

    def __iter__(self) -> Iterator[Array]:
        return iter(self.array)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return self.array if dtype is None else self.array.astype(dtype)


class AdaptiveLinkage:
    """Quasi-statics of a tree of bodies within an allowed error (Redon and Lin, CAD 2006).

    Each step starts from rest. It computes the joint accelerations qdd under loads, gravity, joint forces and springs,
    then moves the joints by q += 1/2 qdd dt^2. The joints with the largest accelerations are computed first, until the
    error of the accelerations is at most `error` by the `measure`:

    - `absolute_linkage`, `relative_linkage`: norm of all joint accelerations left out; relative to the norm of all
    - `absolute_joint`, `relative_joint`: largest joint acceleration left out; relative to the largest of all

    The acceleration of a joint with several axes is the norm over its axes; rad/s^2 and m/s^2 are mixed without
    scaling. `error=0` computes every joint in a full pass. A full pass also replaces an adaptive one that would take
    more operations (large linkages only). Springs (with curves) and armatures are included. Dampers and limits are
    ignored. Motors and couplings raise an error. `loops="penalty"` cuts loops and closes them by penalty forces, so
    gaps remain under load.
    """

    def __init__(
        self,
        mech: Mechanism | Tree,
        error: float = 0.0,
        measure: str = "relative_joint",
        *,
        loops: str | None = None,
    ) -> None:
        self.error, self.measure = _checked_error(error), measure
        _measure_index(measure)
        if loops not in (None, "penalty"):
            raise MechanismError(f"loops must be None or 'penalty', got {loops!r}")
        self.mechanism: Mechanism | None = None
        if not isinstance(mech, Tree):
            check_mechanism(mech)
            _check_supported(mech, loops)
            self.mechanism = mech
        self.tree = mech if isinstance(mech, Tree) else Tree.of(mech)
        inertia = _checked_inertias(self.tree)
        self._order, self._joints = _numbering(self.mechanism, self.tree)
        self._core = _make_core(self.tree, inertia)
        self._loads: dict[Any, int] = {}
        self._closures = LoopClosures(self.mechanism) if self.mechanism is not None else None
        self._omega: float | None = None
        self._seen_dt: set[float] = set()
        self.time = 0.0
        """s."""

    @classmethod
    def from_arrays(cls, *, error: float = 0.0, measure: str = "relative_joint", **arrays: Any) -> AdaptiveLinkage:
        """Makes a linkage from the arrays of a `supple.mechanism.tree.Tree`: parent, pose_parent, pose_child, twists,
        mass, centre, inertia, and the optional ones. Bodies and joints are given by index."""
        return cls(Tree(**arrays), error, measure)

    # inputs

    def apply(self, body: str | int, wrench: ArrayLike, frame: str = "world") -> None:
        """Sets the wrench (6,), force (N) then torque (N m), at the origin of a body or site. It acts until changed.

        `frame` is "world" (directions fixed in the world) or "body" (the wrench is in body axes and turns with them).
        """
        index, pose_body_frame = self._frame(body)
        values = array(wrench, (6,), f"wrench on {body!r} (force, then torque)")
        if frame not in ("world", "body"):
            raise MechanismError(f"frame must be 'world' or 'body', got {frame!r}")
        if index < 0:
            raise MechanismError(f"{body!r} is fixed to the world; a wrench on it does nothing")
        point = np.zeros(3)
        if pose_body_frame is not None:
            acting = body_load(self._require_mechanism(), str(body), values, frame)
            point, values = acting.point, acting.wrench
        self._set_load(index if pose_body_frame is None else body, index, point, values, frame == "world")

    def set_joint_force(self, joint: str | int, force: ArrayLike) -> None:
        """Applies a torque (N m) or force (N) to a joint's axes (k,), until changed; for a rotation vector, a torque
        in the joint's axes on the child."""
        first, count = self._axes(joint)
        values = array(np.atleast_1d(np.asarray(force)), (count,), f"force of joint {joint!r} ({count} axes)")
        for i, value in enumerate(values.tolist()):
            self._core.set_force(first + i, value)

    def set_target(self, joint: str | int, value: ArrayLike) -> None:
        """Sets the rest (k,), rad or m, of a joint's springs."""
        first, count = self._axes(joint)
        values = array(np.atleast_1d(np.asarray(value)), (count,), f"target of joint {joint!r} ({count} axes)")
        sprung = self.tree.stiffness[first : first + count] > 0
        if not all(s or first + i in self.tree.curves for i, s in enumerate(sprung)):
            raise MechanismError(f"joint {joint!r} has no spring to set a target for")
        for i, each in enumerate(values.tolist()):
            self._core.set_rest(first + i, each)

    def set_gravity(self, gravity: ArrayLike) -> None:
        """Sets gravity (3,), m/s^2 in world axes."""
        self._core.set_gravity(array(gravity, (3,), "gravity"))

    def step(self, dt: float, budget: float | None = None) -> LinkageStep:
        """Makes one step of `dt` seconds from rest. With a `budget` (s of computing time) the pass stops when the
        budget is used up or `error` is reached, whichever comes first; the result has the error bound at that point."""
        dt = positive_seconds(dt)
        self._check_stable(dt)
        result = self._advance(dt, budget, dt)
        self.time += dt
        return result

    def accelerate(self, budget: float | None = None) -> LinkageStep:
        """Computes `accelerations` at the present state without moving. Penalty forces of loops are those of the last
        step."""
        return self._advance(0.0, budget, None)

    def _advance(self, dt: float, budget: float | None, loop_dt: float | None) -> LinkageStep:
        seconds = np.inf if budget is None else positive_seconds(budget, "budget")
        error = _checked_error(self.error)
        gap = 0.0
        if self._closures is not None and self._closures.any and loop_dt is not None:
            gap = self._apply_loop_forces(loop_dt)
        computed, bound, failure = self._core.advance(
            dt, error, _measure_index(self.measure), error == 0 and budget is None, seconds, -1
        )
        if failure >= 0:
            raise ConvergenceError(
                f"the axes of the joint of '{self.tree.body_name(failure)}' do not move independently in this "
                "position; give it an armature, or a rotation vector (ball joint) instead of a sequence of axes",
                time=self.time,
            )
        if failure == -2:
            raise ConvergenceError(
                "the joint accelerations are not finite: loads, springs or positions are too large; "
                "the state is that before the step",
                time=self.time,
            )
        return LinkageStep(computed, bound, self._joints[self._core.moved().astype(np.intp)], gap)

    def _apply_loop_forces(self, dt: float) -> float:
        assert self._closures is not None
        gap, wrenches = self._closures.penalty_forces(self.poses, dt)
        for key, body, wrench in wrenches:
            self._set_load(key, body, np.zeros(3), wrench, False)
        return gap

    def _set_load(self, key: Any, body: int, point: Array, wrench: Array, world: bool) -> None:
        index = self._loads.setdefault(key, len(self._loads))
        self._core.set_load(index, body, np.ascontiguousarray(point), np.ascontiguousarray(wrench), world)

    # state

    @property
    def poses(self) -> LivePoses:
        """World poses of the bodies: `poses["tip"]` in O(log n), `poses.array` of all."""
        return LivePoses(self)

    @property
    def coordinates(self) -> Array:
        """(dof,) joint coordinates, rad and m: in the order of `mechanism.coordinates`, or of the tree's axes."""
        return self._ordered(self._core.q())

    @coordinates.setter
    def coordinates(self, q: ArrayLike) -> None:
        values = array(q, (len(self._order),), f"coordinates of '{self.tree.name}'")
        self._core.set_coordinates(values[self._order])

    @property
    def accelerations(self) -> Array:
        """(dof,) joint accelerations of the last pass, rad/s^2 and m/s^2; 0 where they were not computed. For a
        rotation vector: the angular acceleration in the joint's axes on the child."""
        return self._ordered(self._core.accelerations())

    @property
    def depth(self) -> int:
        """Levels of the assembly tree."""
        return int(self._core.depth)

    @property
    def memory(self) -> int:
        """Bytes of memory of the compiled assembly tree."""
        return int(self._core.bytes)

    def __repr__(self) -> str:
        joints = int((self.tree.axes > 0).sum())
        return f"AdaptiveLinkage('{self.tree.name}': {joints} joints, {self.measure} error {self.error:g})"

    # helpers

    def _ordered(self, values: Array) -> Array:
        result = np.empty_like(values)
        result[self._order] = values
        return result

    def _require_mechanism(self) -> Mechanism:
        assert self.mechanism is not None
        return self.mechanism

    def _frame(self, body: str | int) -> tuple[int, Array | None]:
        """Index of a body (-1: the world), and the pose of the named site in the body's frame (None for a body)."""
        if isinstance(body, str):
            if self.mechanism is None:
                if self.tree.names is not None and body in self.tree.names:
                    return self.tree.names.index(body), None
                raise MechanismError(f"there is no body named {body!r}; give the index of a body of '{self.tree.name}'")
            if body == "world":
                return -1, None
            index, pose = self.mechanism.frame(body)
            return index, None if index >= 0 and self.mechanism.bodies[index].name == body else pose
        n = len(self.tree.parent)
        if isinstance(body, bool) or not isinstance(body, int | np.integer) or not -n <= body < n:
            raise MechanismError(f"there is no body {body!r}; '{self.tree.name}' has bodies 0 to {n - 1}")
        return int(body) % n, None

    def _axes(self, joint: str | int) -> tuple[int, int]:
        """Index of a joint's first axis in the tree, and its number of axes."""
        index: int
        if isinstance(joint, str):
            if self.mechanism is None:
                raise MechanismError(
                    f"there is no joint named {joint!r}; give the index of a joint of '{self.tree.name}'"
                )
            index = self.mechanism.joint_index(joint)
        elif isinstance(joint, bool) or not isinstance(joint, int | np.integer):
            raise MechanismError(f"a joint is a name or an index, got {joint!r}")
        else:
            index = int(joint)
        bodies = np.flatnonzero(self._joints == index)
        if len(bodies) == 0:
            raise MechanismError(f"there is no joint {joint!r} in the tree of '{self.tree.name}'")
        body = int(bodies[0])
        return int(self.tree.axes[:body].sum()), int(self.tree.axes[body])

    def _check_stable(self, dt: float) -> None:
        """Warns, once for each dt, if dt > 2 / omega, above which the explicit step with springs is unstable."""
        if dt in self._seen_dt:
            return
        if self._omega is None:
            try:
                self._omega = largest_frequency(self.tree, self._core)
            except RuntimeError:  # dependent joint axes; the step raises an error that names the joint
                return
        self._seen_dt.add(dt)
        if dt * self._omega > 2:
            warnings.warn(
                f"dt = {dt:g} s is too long for the springs of '{self.tree.name}': above {2 / self._omega:.3g} s the "
                "explicit step is unstable; take a shorter one, or softer springs",
                RangeWarning,
                stacklevel=3,
            )


def _checked_error(error: object) -> float:
    if isinstance(error, bool) or not isinstance(error, int | float | np.number) or not 0 <= error < np.inf:
        raise MechanismError(f"error must be a number, 0 (every joint is computed) or more, got {error!r}")
    return float(error)


def _measure_index(measure: object) -> int:
    if measure not in MEASURES:
        raise MechanismError(f"measure must be one of {', '.join(MEASURES)}, got {measure!r}")
    return MEASURES.index(measure)


def _check_supported(mech: Mechanism, loops: str | None) -> None:
    refuse_flexible(mech.flexible, "an adaptive linkage", "replace it with a chain of rigid links")
    cut = [mech.joints[j].name for j in mech.topology.loops]
    if cut and loops is None:
        raise MechanismError(
            f"'{mech.name}' has loops, closed by {listed(cut)}; an adaptive linkage is a tree. "
            "loops='penalty' cuts the loops there and closes them by penalty forces"
        )
    parts = [*(m.name for m in mech.motors), *(c.name for c in mech.couplings)]
    if parts:
        raise MechanismError(
            f"an adaptive linkage takes no motors and couplings ('{mech.name}' has {listed(parts)}); "
            "use joint springs with set_target instead"
        )


def _checked_inertias(tree: Tree) -> Array:
    """(n, 6, 6) spatial inertias; every body needs mass and inertia about every axis."""
    moments = np.linalg.eigvalsh(tree.inertia)
    empty = (tree.mass <= 0) | (moments[:, 0] <= 1e-14 * np.abs(moments[:, 2])) | (moments[:, 2] <= 0)
    if empty.any():
        names = [tree.body_name(int(i)) for i in np.flatnonzero(empty)]
        raise MechanismError(
            f"{listed(names)} of '{tree.name}': an adaptive linkage needs mass and inertia (about all axes) in every "
            "body; give them some, or fix them to a neighbour and leave them out"
        )
    inertia: Array = spatial.spatial_inertia(tree.mass, tree.centre, tree.inertia)
    return inertia


def _numbering(mech: Mechanism | None, tree: Tree) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Index of each tree axis among the mechanism's coordinates, and the joint of each body to its parent."""
    if mech is None:
        return np.arange(len(tree.twists)), np.arange(len(tree.parent))
    columns = [mech.topology.columns[j] for j in mech.topology.joint]
    order = np.concatenate([np.zeros(0, dtype=np.intp), *(np.arange(c.start, c.stop) for c in columns)])
    return order.astype(np.intp), mech.topology.joint.astype(np.intp)


def _make_core(tree: Tree, inertia: Array) -> _core.LinkageCore:
    core = _core.LinkageCore(
        np.ascontiguousarray(tree.parent, dtype=np.int64),
        np.ascontiguousarray(tree.axes, dtype=np.int64),
        np.ascontiguousarray(tree.reversed, dtype=np.int64),
        np.ascontiguousarray(tree.pose_parent),
        np.ascontiguousarray(tree.pose_child),
        np.ascontiguousarray(inertia),
        np.ascontiguousarray(tree.twists),
        np.ascontiguousarray(tree.blocks, dtype=np.int64),
        np.ascontiguousarray(tree.reference),
    )
    core.set_springs(*(np.ascontiguousarray(part) for part in (tree.stiffness, tree.rest, tree.armature)))
    for axis, curve in tree.curves.items():
        core.add_curve(axis, *(np.ascontiguousarray(part) for part in curve.pieces))
    core.prepare(np.ascontiguousarray(tree.gravity))
    return core
