"""`supple.Batch`: many copies of one reduced model, stepped together."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from supple import _core
from supple.engine.dynamics import check_count, positive_seconds
from supple.errors import ConvergenceError, MechanismError
from supple.mechanism.identity import Identity
from supple.mechanism.kinematics import FURTHEST
from supple.mechanism.notebook import brief, html_table
from supple.mechanism.record import Array
from supple.reduced.model import Model, ReducedModel
from supple.reduced.simulation import ReducedSimulation, ReducedState

Copies: TypeAlias = int | slice | ArrayLike | None
"""Which copies: an index, a slice, indices, a mask (n,), or None for all."""
STEPS_AT_ONCE = 1024
"""Steps per call of the core; Python handles Ctrl-C between calls."""
COPIES_PER_THREAD = 256
"""Fewest copies of a linear model for which one more thread saves time."""
MOST_COPIES = 10_000_000


@dataclass(frozen=True)
class BatchState:
    """State of a batch; `Batch.restore` continues from it to the last bit."""

    __repr__ = brief

    of: Identity
    end_effectors: tuple[str, ...]
    wrenches: Array
    """(n, e, 6)."""
    in_body: Array
    """(n, e): 1 where the wrench is in body axes."""
    bases: Array
    """(n, 4, 4)."""
    targets: dict[str, Array]
    """(n,) of each set-point that was changed."""
    states: tuple[Array, Array, Array] | tuple[ReducedState, ...]
    """Linear models: y (n, m), v (n, m) and time (n,). Other models: one state for each copy."""


class Batch:
    """Steps n copies of one linear or blended model with a fixed base.

    Every copy has its own state, wrenches, set-points and base pose. The results are those of n `ReducedSimulation`s.
    Copies of a linear model are stepped in the lanes of vector instructions, eight at a time, and on several threads.
    Copies of blended models are stepped one by one, on several threads.

    The arrays `end_effector_poses`, `end_effector_velocities`, `wrenches`, `time`, `y` and `v` are views of the core's
    memory. They cannot be written to, and each step overwrites them: copy what must last.

    Args:
        model: a `ReducedModel` or `BlendedModel`.
        n: number of copies.
        dt: time step, s.
        threads: number of threads; by default one for each core that this process may use, fewer for small batches.
    """

    end_effector_poses: Array
    """(n, e, 4, 4) world poses of the end effectors."""
    end_effector_velocities: Array
    """(n, e, 6) twists of the end effectors, linear (m/s) then angular (rad/s), each in its own axes."""
    wrenches: Array
    """(n, e, 6) applied wrenches, N and N m."""
    time: Array
    """(n,) simulated time since the last reset, s."""

    def __init__(self, model: Model, n: int, dt: float, *, threads: int | None = None) -> None:
        if not isinstance(model, Model):
            raise MechanismError(f"a reduced model is needed (from supple.reduce), got {type(model).__name__}")
        if getattr(model, "free_base", None) is not None:
            raise MechanismError(
                f"the base of '{model.mechanism.name}' is free; a batch needs a fixed base "
                "(set_base_poses places each copy), or use supple.ReducedSimulation"
            )
        self.model, self.mechanism, self.dt = model, model.mechanism, positive_seconds(dt)
        self.n = _count(n, "n, the number of copies,", MOST_COPIES)
        most = self.n // COPIES_PER_THREAD if isinstance(model, ReducedModel) else self.n
        self._threads = max(1, min(_usable_cores(), most)) if threads is None else _count(threads, "threads", 1024)
        self._all = np.arange(self.n)
        self._targets: dict[str, Array] = {}
        self._effects: dict[str, tuple[int, float]] = {}
        self._sims: list[ReducedSimulation] = []
        if isinstance(model, ReducedModel):
            self._core = self._linear_core(model)
            self.y, self.v = self._core.y, self._core.v
        else:
            self._sims = [ReducedSimulation(model, self.dt) for _ in range(self.n)]
            members = [sim._motion.core.batch_member() for sim in self._sims]
            self._core = _core.ThreadedBatch(members, len(model.end_effectors), self._threads)
        core = self._core
        self.end_effector_poses, self.end_effector_velocities = core.poses, core.velocities
        self.wrenches, self.time = core.wrenches, core.time
        self._base: Array = core.base
        """(n, 12): rotation by rows, then position."""
        self.reset()

    y: Array
    """(n, m) coordinates of each copy of a linear model: its displacement is model.basis @ y. Other models: none."""
    v: Array
    """(n, m) rates of `y`."""

    def _linear_core(self, model: ReducedModel) -> Any:
        basis, tips = model.basis, 6 * len(model.end_effectors)
        full = model.mass, model.damping, model.stiffness
        matrices = [np.ascontiguousarray(basis.T @ each @ basis) for each in full]
        bias, maps = basis[:tips].T @ model.wrenches, np.ascontiguousarray(basis[:tips])
        poses = np.ascontiguousarray(model.end_effector_poses)
        return _core.LinearBatch.create(*matrices, bias, poses, maps, self.dt, self.n, self._threads)

    # loads, set-points and base poses

    def apply(
        self,
        wrenches: ArrayLike | str | Mapping[str, ArrayLike],
        wrench: ArrayLike | None = None,
        frame: str = "world",
        copies: Copies = None,
    ) -> None:
        """Sets the wrenches (n, e, 6), force (N) then torque (N m), at the origins of the end effectors, in the order
        of `model.end_effectors`. They act until changed.

        `apply("tip", wrench)` and `apply({"tip": wrench})` set those of the named end effectors: (6,) for all copies,
        or (n, 6). The others stay.
        `frame` is "world" (directions fixed in the world) or "body" (in body axes, the wrench turns with them). With
        `copies`, wrenches (k, e, 6) of these k copies only. The core reads a float64 array of any strides without
        copying it.
        """
        if frame not in ("world", "body"):
            raise MechanismError(f"frame must be 'world' or 'body', got {frame!r}")
        which = self._indices(copies)
        if isinstance(wrenches, str):
            wrenches = {wrenches: wrench}  # type: ignore[dict-item]  # None is refused like other wrong wrenches
        elif wrench is not None:
            raise MechanismError(
                'wrenches are given as apply(wrenches), apply("tip", wrench) or apply({"tip": wrench}), the axes as '
                f"frame='body'; got {wrench!r:.60} after {type(wrenches).__name__}"
            )
        if isinstance(wrenches, Mapping):
            self._apply_named(wrenches, frame == "world", which)
            return
        given = _numbers(wrenches, (len(which), len(self.model.end_effectors), 6), "the wrenches")
        if (bad := self._core.apply(given, frame == "world", which)) >= 0:
            raise MechanismError(f"the wrenches must be finite; those of copy {which[bad]} are {given[bad].tolist()}")

    def _apply_named(self, wrenches: Mapping[str, ArrayLike], world: bool, which: NDArray[np.int64]) -> None:
        """Sets the wrenches of some end effectors of some copies."""
        values, in_body = self.wrenches[which], self._core.in_body[which]
        for name, wrench in wrenches.items():
            place, n = self.model.index(name), len(which)
            try:
                given = np.asarray(wrench)
            except ValueError:  # rows of different lengths
                given = np.asarray(None)
            if given.shape not in ((6,), (n, 6)) or given.dtype.kind not in "fiu" or not np.isfinite(given).all():
                raise MechanismError(
                    f"the wrench on '{name}' must be finite numbers (6,), for all copies, or ({n}, 6), force (N) then "
                    f"torque (N m); got {wrench!r:.60}"
                )
            values[:, place], in_body[:, place] = given, not world
        self._send_wrenches(values, in_body, which)

    def set_targets(self, targets: Mapping[str, ArrayLike], copies: Copies = None) -> None:
        """Sets set-points (rad or m) of springs of joints, couplings and motors by name: one number for all copies, or
        an array (n,). With `copies`, an array (k,) for these k copies. If one is wrong, none is changed."""
        if not isinstance(targets, Mapping):
            raise MechanismError(f"set-points are given as {{name: values}}, got {type(targets).__name__}")
        which = self._indices(copies)
        checked: dict[str, Array] = {}
        for name, value in targets.items():
            rest = self.rest_target(name)
            given = np.full(len(which), value) if np.ndim(value) == 0 else value
            values = _numbers(given, (len(which),), f"the set-points of '{name}'")
            if not (np.abs(values) <= FURTHEST).all():
                raise MechanismError(f"set-points of '{name}' must be finite and within {FURTHEST:g} rad or m")
            checked[name] = values
            self._targets.setdefault(name, np.full(self.n, rest))
        for name, values in checked.items():
            self._targets[name][which] = values
            if not self._sims:
                index, rest = self._effects[name]
                self._core.set_target(index, np.ascontiguousarray(values - rest), which)
        for i in which if self._sims else ():
            self._sims[i].set_targets({name: float(values[i]) for name, values in self._targets.items()})

    def rest_target(self, name: str) -> float:
        """A set-point in the model's own state, rad or m."""
        if self._sims:
            return self._sims[0]._rest_target(name)
        if name not in self._effects:
            model = self.model
            assert isinstance(model, ReducedModel)
            rest, moved = model.rest_target(name), model.target_effect(name)[0]
            goal = model.cobasis @ moved
            offset = (moved - model.basis @ goal)[: 6 * len(model.end_effectors)]
            self._effects[name] = self._core.add_target(goal, np.ascontiguousarray(offset)), rest
        return self._effects[name][1]

    @property
    def targets(self) -> dict[str, Array]:
        """(n,) set-points by name, rad or m, of those that were changed."""
        return {name: values.copy() for name, values in self._targets.items()}

    def set_base_poses(self, poses: ArrayLike, copies: Copies = None) -> None:
        """Places the copies: world poses (n, 4, 4) of the frame that the mechanism calls "world". With `copies`,
        (k, 4, 4) for these k copies.

        A model is made for one direction of gravity, so with gravity a base may turn about the vertical only.
        """
        which = self._indices(copies)
        given = np.ascontiguousarray(_numbers(poses, (len(which), 4, 4), "the base poses"))
        if not np.isfinite(given).all():
            raise MechanismError("the base poses must be finite")
        turn = given[:, :3, :3]
        off = np.abs(turn @ turn.swapaxes(1, 2) - np.eye(3)).max(axis=(1, 2), initial=0.0)
        wrong = (off > 1e-6) | (np.linalg.det(turn) < 0) | (given[:, 3] != [0, 0, 0, 1]).any(axis=1)
        if wrong.any():
            raise MechanismError(f"the base pose of copy {which[wrong.argmax()]} is not a rotation and a translation")
        gravity = np.asarray(self.mechanism.gravity)
        tilted = np.abs(turn @ gravity - gravity).max(axis=1, initial=0.0) > 1e-6 * np.linalg.norm(gravity)
        if tilted.any():
            raise MechanismError(
                f"the base pose of copy {which[tilted.argmax()]} tilts '{self.mechanism.name}' against gravity; the "
                "model holds for one direction of gravity: turn the mechanism and reduce it there, or turn about it"
            )
        self._core.set_base(given, which)
        self._core.update()

    @property
    def base_poses(self) -> Array:
        """(n, 4, 4) world poses of the copies' bases."""
        poses = np.tile(np.eye(4), (self.n, 1, 1))
        poses[:, :3, :3] = self._base[:, :9].reshape(-1, 3, 3)
        poses[:, :3, 3] = self._base[:, 9:]
        return poses

    # stepping

    def step(self, n: int = 1) -> None:
        """Advances all copies by n time steps.

        Raises `ConvergenceError` if a step of a copy has no solution. This copy then keeps the state before that step,
        and `failed` names it; all others have made their n steps.
        """
        check_count(n)
        for first in range(0, n, STEPS_AT_ONCE):
            if self._core.step(min(STEPS_AT_ONCE, n - first)):
                failed = self.failed
                named = ", ".join(map(str, failed[:6])) + (" ..." if len(failed) > 6 else "")
                raise ConvergenceError(
                    f"{len(failed)} of {self.n} copies of '{self.mechanism.name}' have no finite next state (copies "
                    f"{named}). They keep their last one: reset them, batch.reset(batch.failed), and apply smaller "
                    "loads",
                    time=float(self.time[failed[0]]),
                )

    @property
    def failed(self) -> list[int]:
        """Copies whose last step had no solution."""
        found: list[int] = self._core.failed
        return found

    def reset(self, copies: Copies = None) -> None:
        """Returns copies to the model's own state at rest, with its loads and set-points and time 0. Base poses
        stay."""
        which = self._indices(copies)
        e = len(self.model.end_effectors)
        wrenches, in_body = np.zeros((e, 6)), np.zeros(e)
        for name, (wrench, world) in self.model.acting.items():
            wrenches[self.model.index(name)] = wrench
            in_body[self.model.index(name)] = 0.0 if world else 1.0
        for name in self._targets:
            rest = self.rest_target(name)
            self._targets[name][which] = rest
            if not self._sims:
                self._core.set_target(self._effects[name][0], np.zeros(len(which)), which)
        if self._sims:
            for i in which:
                self._sims[i].reset()
            self._core.mark_changed(which)
        else:
            zero = np.zeros((len(which), self.y.shape[1]))
            self._core.set_state(zero, zero, np.zeros(len(which)), which)
        self._send_wrenches(np.broadcast_to(wrenches, (len(which), e, 6)), np.tile(in_body, (len(which), 1)), which)
        self._core.clear_failed(which)
        self._core.update()

    def place(self, y: ArrayLike, v: ArrayLike | None = None, copies: Copies = None) -> None:
        """Sets coordinates y (n, m) and rates v (n, m) of copies of a linear model; at rest without v. With `copies`,
        (k, m)."""
        if self._sims:
            raise MechanismError(f"place is for linear models; a {type(self.model).__name__} starts by reset")
        which = self._indices(copies)
        shape = (len(which), self.y.shape[1])
        given = [_numbers(np.zeros(shape) if each is None else each, shape, what)
                 for each, what in ((y, "the coordinates y"), (v, "the rates v"))]  # fmt: skip
        for values, what in zip(given, "yv", strict=True):
            if not np.isfinite(values).all():
                raise MechanismError(f"{what} must be finite")
        self._core.set_state(*map(np.ascontiguousarray, given), np.ascontiguousarray(self.time[which]), which)
        self._core.update()

    def simulation(self, copy: int) -> ReducedSimulation:
        """A `ReducedSimulation` in the present state of one copy: for the poses of all its links, for pictures and the
        viewer. It stands at the model's own base, and what it does leaves the batch unchanged."""
        (i,) = self._indices(int(copy))
        sim = ReducedSimulation(self.model, self.dt)
        if self._sims:
            sim.restore(self._sims[i].save())
        else:
            sim._motion.set_state((self.y[i].copy(), self.v[i].copy()), float(self.time[i]))
            sim.set_targets({name: values[i] for name, values in self._targets.items()})
        back = self.base_poses[i, :3, :3].T
        for e, name in enumerate(self.model.end_effectors):
            wrench, body = self.wrenches[i, e], bool(self._core.in_body[i, e])
            own = wrench if body else (wrench.reshape(2, 3) @ back.T).ravel()
            sim.apply(name, own, "body" if body else "world")
        return sim

    # saving

    def save(self) -> BatchState:
        """Returns the present state of all copies. After `restore` the batch repeats to the last bit."""
        core = self._core
        one_by_one = tuple(sim.save() for sim in self._sims)
        states: Any = one_by_one if self._sims else tuple(np.array(each) for each in (self.y, self.v, self.time))
        of = Identity(self.mechanism), self.model.end_effectors
        return BatchState(*of, np.array(self.wrenches), np.array(core.in_body), self.base_poses, self.targets, states)

    def restore(self, saved: BatchState) -> None:
        """Returns to a saved state."""
        if (
            not isinstance(saved, BatchState)
            or len(saved.wrenches) != self.n
            or saved.end_effectors != self.model.end_effectors
            or not saved.of.is_of(self.mechanism)
        ):
            raise MechanismError(f"this state was not saved by a batch of {self.n} copies of this model")
        self.reset()
        self.set_base_poses(saved.bases)
        self.set_targets(saved.targets)
        if self._sims:
            for sim, state in zip(self._sims, saved.states, strict=True):
                assert isinstance(state, ReducedState)
                sim.restore(state)
            self._core.mark_changed(self._all)
        else:
            self._core.set_state(*saved.states, self._all)
        self._send_wrenches(saved.wrenches, saved.in_body, self._all)
        self._core.update()

    def _send_wrenches(self, wrenches: Array, in_body: Array, which: NDArray[np.int64]) -> None:
        self._core.apply(wrenches, True, which)
        self._core.set_in_body(np.ascontiguousarray(in_body), which)

    def __reduce__(self) -> Any:
        """For pickle and copy: the model, the options and the state of every copy."""
        return _restored, (self.model, self.n, self.dt, self._threads, self.save())

    def __len__(self) -> int:
        return self.n

    def __repr__(self) -> str:
        how = "one by one" if self._sims else "eight at a time"
        return (
            f"Batch of {self.n} copies of '{self.mechanism.name}' ({', '.join(self.model.end_effectors)}), "
            f"stepped {how} on {self._threads} threads, dt = {self.dt:g} s"
        )

    def _repr_html_(self) -> str:
        return html_table(f"Batch of {self.mechanism.name}", {
            "model": self.model, "copies": self.n, "threads": self._threads, "time step": f"{self.dt:g} s",
            "lanes": "one by one" if self._sims else "eight copies in each vector",
            "time": f"{self.time.min():g} to {self.time.max():g} s",
        })  # fmt: skip

    def _indices(self, copies: Copies) -> NDArray[np.int64]:
        """Indices (k,) of copies."""
        if copies is None:
            return self._all
        try:
            which = np.asarray(copies) if not isinstance(copies, slice) else copies
            if not isinstance(which, slice) and which.size == 0:
                return self._all[:0]
            return np.ascontiguousarray(np.atleast_1d(self._all[which]).ravel())
        except (IndexError, ValueError, TypeError):
            raise MechanismError(
                f"copies are given by an index below {self.n}, a slice, an array of indices or a mask ({self.n},), "
                f"got {copies!r:.60}"
            ) from None


def _restored(model: Model, n: int, dt: float, threads: int, state: BatchState) -> Batch:
    batch = Batch(model, n, dt, threads=threads)
    batch.restore(state)
    return batch


def _usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _count(value: object, what: str, most: int) -> int:
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or not 1 <= value <= most:
        raise MechanismError(f"{what} must be a whole number from 1 to {most}, got {value!r:.60}")
    return int(value)


def _numbers(value: ArrayLike, shape: tuple[int, ...], what: str) -> Array:
    """`value` as a float64 array, without a copy if it is one; raises unless it has numbers and the given shape."""
    try:
        given = np.asarray(value)
    except ValueError:  # rows of different lengths
        raise MechanismError(f"{what} must be an array {shape} of numbers") from None
    if given.dtype.kind not in "fiu":
        raise MechanismError(f"{what} must be numbers (float64), got an array of {given.dtype}")
    if given.shape != shape:
        raise MechanismError(f"{what} must have shape {shape}, got {given.shape}")
    return given.astype(np.float64, copy=False)
