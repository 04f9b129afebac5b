"""`supple run`: statics or dynamics of a mechanism, with the result as JSON data."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

import numpy as np

import supple
from supple import spatial
from supple.cli.standing import world_of
from supple.engine import Simulation
from supple.errors import ConvergenceError, MechanismError
from supple.mechanism import Mechanism, Poses
from supple.mechanism.record import Array
from supple.progress import Bar
from supple.recording import Recorder

Named = list[tuple[str, list[float]]]
"""Names and their numbers, in the order given."""
Rows = dict[str, Array]


@dataclass(frozen=True)
class Task:
    """A mechanism, loads and set-points."""

    mechanism: Mechanism
    wrenches: dict[str, Array] = field(default_factory=dict)
    """(6,) loads by body or site."""
    frame: str = "world"
    targets: dict[str, float] = field(default_factory=dict)
    """Set-points of springs and motors."""
    has_contact: bool = False
    """Whether its simulation is that of a world, with the mechanism's ground."""


@dataclass(frozen=True)
class RunResult:
    """The result of a run; with an `error`, the state that was reached."""

    poses: Poses
    facts: dict[str, Any]
    """The result as JSON data."""
    error: ConvergenceError | None = None


def wrenches(forces: Named, torques: Named) -> dict[str, Array]:
    """Wrenches (6,) by body; forces and torques on the same body are added."""
    result: dict[str, Array] = {}
    for part, given in ((slice(0, 3), forces), (slice(3, 6), torques)):
        for name, value in given:
            result.setdefault(name, np.zeros(6))[part] += value
    return result


def find_equilibrium(task: Task) -> RunResult:
    """The equilibrium, or the one at the largest load fraction that was reached."""
    mech, error = task.mechanism, None
    find = supple.equilibrium  # imports the engine, so that the time below has no imports in it
    start = perf_counter()
    with Bar("equilibrium") as bar:
        try:
            eq = find(mech, task.wrenches, frame=task.frame, targets=task.targets, progress=bar.set_fraction)
        except ConvergenceError as failure:
            eq, error = failure.state, failure
        seconds = perf_counter() - start
        stable = eq.stable
    facts = {
        **_inputs(task),
        "converged": error is None,
        "load_fraction": eq.load_fraction,
        "stable": stable,
        "residual": eq.residual,
        "iterations": eq.iterations,
        "seconds": seconds,
        "bodies": _bodies(mech, eq.poses),
        "joints": _joints(mech, eq.coordinates, eq.reactions),
        "held": dict(eq.motor_torques),
    }
    return RunResult(eq.poses, facts, error)


def simulate(
    task: Task, duration: float, dt: float, method: str, record: Callable[[Simulation], Recorder] | None = None
) -> RunResult:
    """The state after a time, or after the last time step that converged; `record` starts to record the motion."""
    mech, error = task.mechanism, None
    if not np.isfinite(duration) or duration <= 0:
        raise MechanismError(f"--time must be a positive number of seconds, got {duration:g}")
    if dt > duration:
        raise MechanismError(
            f"a time step of {dt:g} s (--dt) is longer than the simulation of {duration:g} s (--time); lower --dt"
        )
    start = perf_counter()
    sim = supple.Simulation(mech, dt, method)
    for name, wrench in task.wrenches.items():
        sim.apply(name, wrench, task.frame)
    for name, value in task.targets.items():
        sim.set_target(name, value)
    moving = world_of(sim) if task.has_contact else sim
    steps = max(1, round(duration / dt))
    chunk = max(1, steps // 200)
    with nullcontext() if record is None else record(sim), Bar("simulation") as bar:
        try:
            for first in range(0, steps, chunk):
                moving.step(min(chunk, steps - first))
                bar.set_fraction((first + chunk) / steps)
        except ConvergenceError as failure:
            error = failure
    energy = sim.energy
    facts = {
        **_inputs(task),
        "converged": error is None,
        "time": sim.time,
        "dt": sim.dt,
        "method": sim.method,
        "energy": {"kinetic": energy.kinetic, "strain": energy.strain, "gravity": energy.gravity},
        "gap": sim.gap,
        "seconds": perf_counter() - start,
        "bodies": _bodies(mech, sim.poses, sim.velocities),
        "joints": _joints(mech, sim.coordinates, sim.reactions),
    }
    return RunResult(sim.poses, facts, error)


def _inputs(task: Task) -> dict[str, Any]:
    return {
        "name": task.mechanism.name,
        "loads": [{"on": n, "wrench": w.tolist(), "frame": task.frame} for n, w in task.wrenches.items()],
        "targets": task.targets,
    }


def _bodies(mech: Mechanism, poses: Poses, velocities: Array | None = None) -> list[dict[str, Any]]:
    """Displacement (m) of each body's origin and rotation vector (rad) from its reference pose, in world axes."""
    result = []
    for i, (body, pose) in enumerate(zip(mech.bodies, poses, strict=True)):
        moved = {
            "name": body.name,
            "displacement": (pose[:3, 3] - body.pose[:3, 3]).tolist(),
            "rotation": spatial.so3_log(pose[:3, :3] @ body.pose[:3, :3].T).tolist(),
            "position": pose[:3, 3].tolist(),
            "quat_wxyz": spatial.quat_wxyz_from_matrix(pose[:3, :3]).tolist(),
        }
        result.append(moved if velocities is None else moved | {"velocity": velocities[i].tolist()})
    return result


def _joints(mech: Mechanism, coordinates: Rows, reactions: Rows) -> list[dict[str, Any]]:
    """Coordinates, and the wrench (N, N m) that each joint exerts on its child, in the joint's frame on the child."""
    return [
        {
            "name": joint.name,
            "kind": joint.kind,
            "coordinates": coordinates[joint.name].tolist(),
            "reaction": reactions[joint.name].tolist(),
        }
        for joint in mech.joints
    ]
