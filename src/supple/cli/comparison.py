"""The comparison of `supple compare` and `supple demo`: every method on the same mechanism under the same load."""

from __future__ import annotations

import tempfile
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np

import supple
from supple.cli.grouped_options import in_one_line
from supple.engine import Equilibrium, Simulation, equilibrium
from supple.errors import ConvergenceError, MechanismError
from supple.mechanism import WORLD, Mechanism, Poses
from supple.mechanism.moving import Moving
from supple.mechanism.record import Array
from supple.reduced import blend, reduce
from supple.reduced.joints import separation_at
from supple.viewer.methods import METHODS, Models, loose_bodies

DT = 2e-3
"""Time step of every method, s."""
REACH = 0.3
"""Displacement of the end effectors over the radius, by the linear model, where no force is given."""
SAMPLE_LOADS = (2 / 3, 4 / 3)
"""Fractions of the load at which the blended model has samples, besides the one without load."""
MAX_SECONDS = 2.0
"""Processor time within which a method must come to rest, s."""
REST_TOLERANCE = 1e-6
"""A motion within a hundred time steps, over the radius, that is smaller than this counts as rest."""


@dataclass(frozen=True)
class Row:
    """Errors of a method against the engine's equilibrium, and its speed."""

    method: str
    error: float
    """Largest distance of a link from the engine's, m."""
    tip_error: float
    """Largest distance of an end effector from the engine's, m."""
    separation: float
    """Distances between the attachment points of each joint, summed, over the radius."""
    loop_drift: float
    """Largest gap of a joint that closes a loop, m."""
    step: float
    """Time that a time step takes, s; for reduced models, without computing the links."""


@dataclass(frozen=True)
class Comparison:
    """All methods under one load."""

    mechanism: Mechanism
    end_effectors: tuple[str, ...]
    wrenches: dict[str, Array]
    """(6,) the load, by end effector, world axes."""
    exact: Equilibrium
    """The engine's equilibrium."""
    rows: list[Row]
    shapes: dict[str, Poses]
    """Poses at rest under the load, by method."""
    failed: dict[str, str] = field(default_factory=dict)
    """Reasons why methods are missing, by method."""

    @property
    def moved(self) -> float:
        """Largest displacement of a link, m."""
        return largest_distance(self.exact.poses, self.mechanism.poses, self.end_effectors)

    def row(self, method: str) -> Row:
        return next(row for row in self.rows if row.method == method)

    @property
    def facts(self) -> dict[str, Any]:
        """The comparison as JSON data."""
        return {
            "name": self.mechanism.name,
            "end_effectors": list(self.end_effectors),
            "loads": [{"on": n, "wrench": w.tolist(), "frame": "world"} for n, w in self.wrenches.items()],
            "moved": self.moved,
            "radius": self.mechanism.radius,
            "dt": DT,
            "methods": [asdict(row) for row in self.rows],
            "failed": self.failed,
        }


def compare(
    mech: Mechanism,
    end_effectors: Sequence[str],
    wrenches: dict[str, Array] | None = None,
    progress: Callable[[float], None] = lambda fraction: None,
) -> Comparison:
    """Runs every method under wrenches (6,) in world axes on end effectors; by default under forces along the softest
    direction of each."""
    models = Models(mech, end_effectors)
    for name in wrenches or {}:
        if name not in models.end_effectors:
            raise MechanismError(
                f"the force on '{name}' needs --end-effector {name}: reduced models take loads on end effectors only"
            )
    if loose := loose_bodies(mech):
        is_base = sum(WORLD in (joint.parent, joint.child) for joint in mech.joints) == 1
        remedy = "hold it with --base fixed" if is_base else "give a file without it, or without its free joint"
        raise MechanismError(
            f"'{loose[0]}' of '{mech.name}' floats free, so there is no equilibrium to compare with; {remedy}"
        )
    if models.start is None:
        raise MechanismError(
            f"'{mech.name}' has no equilibrium to compare with: nothing holds it against gravity; add springs "
            "(mech.with_springs(stiffness=...))"
        )
    if wrenches is None:
        loads, others = _default_loads(models)
    else:
        loads, others = wrenches, _models_under_load(models, wrenches)
    exact = equilibrium(mech, loads, start=models.start, progress=lambda fraction: None)
    models.blended = blend([models.linear_model, *others])
    rows: list[Row] = []
    shapes, failed = {}, {}
    names = [*(name for name, method in METHODS.items() if method.in_time), "MuJoCo"]
    for i, name in enumerate(names):
        progress(i / len(names))
        try:
            if name == "blended" and not others:
                raise MechanismError(
                    "no linear model could be made under this load: the mechanism buckles, or joint limits block it; "
                    "try another --force"
                )
            simulation: MethodUnderLoad
            simulation = _MuJoCoMethod(mech, loads) if name == "MuJoCo" else _SuppleMethod(models, name, loads, exact)
            step = _seconds_per_step(simulation.step)
            poses = exact.poses if name == "engine" else simulation.run_to_rest(mech.radius or 1.0)
            shapes[name] = poses
            rows.append(_row(name, mech, models.end_effectors, exact.poses, poses, step, simulation.gap()))
        except (MechanismError, ConvergenceError, ImportError, ValueError) as error:
            failed[name] = in_one_line(error)
    return Comparison(mech, models.end_effectors, loads, exact, rows, shapes, failed)


def largest_distance(a: Poses, b: Poses, tips: Sequence[str] = ()) -> float:
    """Largest distance between the origins, centres of mass and end effectors of two sets of poses, m."""
    centres = np.array([body.centre for body in a.mechanism.bodies])[:, :, None]
    difference = a.array - b.array
    of_centres = (difference[:, :3, :3] @ centres)[..., 0] + difference[:, :3, 3]
    of_tips = [a[tip][:3, 3] - b[tip][:3, 3] for tip in tips]
    return float(np.linalg.norm([*difference[:, :3, 3], *of_centres, *of_tips], axis=1).max())


def _default_loads(models: Models) -> tuple[dict[str, Array], list[supple.ReducedModel]]:
    """Forces along the softest directions, or the opposite ones if joint limits block these, and the linear models
    under them."""
    loads = _forces_along_softest_directions(models)
    found = _models_under_load(models, loads)
    if len(found) < len(SAMPLE_LOADS):
        opposite = {name: -wrench for name, wrench in loads.items()}
        others = _models_under_load(models, opposite)
        if len(others) > len(found):
            return opposite, others
    return loads, found


def _forces_along_softest_directions(models: Models) -> dict[str, Array]:
    """Forces along the softest direction of each end effector, with signs such that their displacements add up, and of
    such a size that the largest displacement is REACH times the radius."""
    model, forces = models.linear_model, np.zeros(len(models.linear_model.compliance))
    for i, name in enumerate(model.end_effectors):
        part = slice(6 * i, 6 * i + 3)
        values, vectors = np.linalg.eigh(model.compliance[part, part])
        if not values[-1] > 0:
            raise MechanismError(
                f"no force moves '{name}': limits, motors or loops block it, or it rests on its limits because nothing "
                "holds it; name another end effector, or add springs (mech.with_springs(stiffness=...))"
            )
        direction = vectors[:, -1] / values[-1]
        in_world = model.end_effector_poses[i][:3, :3] @ direction
        others = direction @ model.compliance[part] @ forces  # displacement along `direction` by the forces so far
        alignment = others if abs(others) > 1e-6 else in_world[np.abs(in_world).argmax()]
        forces[part] = np.sign(alignment) * direction
    moved = (model.compliance @ forces)[: 6 * len(model.end_effectors)].reshape(-1, 6)[:, :3]
    size = REACH * (models.mechanism.radius or 1.0) / np.linalg.norm(moved, axis=1).max()
    result = {}
    for i, name in enumerate(model.end_effectors):
        force = model.end_effector_poses[i][:3, :3] @ forces[6 * i : 6 * i + 3]
        norm = float(np.linalg.norm(force))
        result[name] = np.concatenate([float(f"{size * norm:.2g}") * force / norm, np.zeros(3)])
    return result


def _models_under_load(models: Models, loads: dict[str, Array]) -> list[supple.ReducedModel]:
    """Linear models at fractions of the load; fewer if there is no equilibrium under the larger ones."""
    found: list[supple.ReducedModel] = []
    start = models.start
    for fraction in SAMPLE_LOADS:
        try:
            scaled = {name: fraction * wrench for name, wrench in loads.items()}
            start = equilibrium(models.mechanism, scaled, start=start, progress=lambda fraction: None)
            model = reduce(models.mechanism, models.end_effectors, at=start)
            blend([models.linear_model, *found, model])
        except (ConvergenceError, MechanismError):  # it buckles, or joint limits keep it at the pose of another model
            break
        found.append(model)
    return found


def _row(
    name: str, mech: Mechanism, tips: Sequence[str], exact: Poses, poses: Poses, step: float, gap: float | None
) -> Row:
    joints = separation_at(poses)
    loops = [joints.joints[mech.joints[j].name] for j in mech.topology.loops]
    off = [float(np.linalg.norm(poses[tip][:3, 3] - exact[tip][:3, 3])) for tip in tips]
    drift = max(loops, default=0.0) if gap is None else gap
    return Row(name, largest_distance(exact, poses, tips), max(off), joints.total, drift, step)


def _seconds_per_step(step: Callable[[int], object]) -> float:
    """Seconds for a time step: the best of some runs of at least a few milliseconds."""
    n, best = 1, np.inf
    for _ in range(12):
        start = perf_counter()
        step(n)
        took = perf_counter() - start
        best = min(best, took / n)
        if took < 5e-3:
            n *= 4
    return float(best)


class MethodUnderLoad(ABC):
    """A simulation of one method under the load."""

    @abstractmethod
    def step(self, n: int) -> object: ...

    @abstractmethod
    def poses(self) -> Poses: ...

    def gap(self) -> float | None:
        """Largest gap of the loops, m, if the simulation knows it; None to compute it from the poses."""
        return None

    def run_to_rest(self, radius: float) -> Poses:
        """Poses at rest, or after MAX_SECONDS of processor time (wall time would depend on other processes)."""
        end, before = process_time() + MAX_SECONDS, self.poses()
        while process_time() < end:
            self.step(100)
            now = self.poses()
            if largest_distance(now, before) < REST_TOLERANCE * radius:
                break
            before = now
        return now


class _SuppleMethod(MethodUnderLoad):
    def __init__(self, models: Models, method: str, loads: dict[str, Array], exact: Equilibrium) -> None:
        # the engine starts in its equilibrium: it is only timed
        self._engine = Simulation(models.mechanism, DT, at=exact) if method == "engine" else None
        self.sim: Moving = models.begin(method, DT) if self._engine is None else self._engine
        self.loads = loads
        for name, wrench in loads.items():
            self.sim.apply(name, wrench)

    def run_to_rest(self, radius: float) -> Poses:
        """Adds a damper to every end effector, which does not change the equilibrium."""
        self.sim.reset()
        for name, wrench in self.loads.items():
            self.sim.apply(name, wrench)
            stiffness = float(np.linalg.norm(wrench[:3])) / (REACH * radius)
            damper = np.sqrt(stiffness * self.sim.mechanism.mass)
            self.sim.pull(name, np.zeros(3), stiffness=0.0, damping=damper)
        return super().run_to_rest(radius)

    def step(self, n: int) -> None:
        self.sim.step(n)

    def poses(self) -> Poses:
        return self.sim.poses

    def gap(self) -> float | None:
        return None if self._engine is None else self._engine.gap


class _MuJoCoMethod(MethodUnderLoad):
    """The mechanism in MuJoCo, from the MJCF file that supple writes, without contact."""

    def __init__(self, mech: Mechanism, loads: dict[str, Array]) -> None:
        try:
            import mujoco
        except ImportError:
            raise ImportError("needs the package mujoco; install it with: pip install 'supple[all]'") from None
        self.mechanism, self.mujoco = mech, mujoco
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the export warning: MuJoCo's loops are approximations
            path = Path(folder) / "mechanism.xml"
            mech.save(path)
            self.model = model = mujoco.MjModel.from_xml_path(str(path))
        model.opt.timestep, model.opt.integrator = DT, mujoco.mjtIntegrator.mjINT_IMPLICITFAST
        model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT
        self.data = mujoco.MjData(model)
        self.loads = loads
        self.ids = [model.body(body.name).id for body in mech.bodies]

    def step(self, n: int) -> object:
        self._apply_loads()
        return self.mujoco.mj_step(self.model, self.data, nstep=n)

    def _apply_loads(self) -> None:
        """Sets the loads: ours act at a body's or site's origin, MuJoCo's at the centre of mass."""
        poses = self.poses()
        for name, wrench in self.loads.items():
            body = self.ids[self.mechanism.frame(name)[0]]
            arm = poses[name][:3, 3] - self.data.xipos[body]
            self.data.xfrc_applied[body] = [*wrench[:3], *(wrench[3:] + np.cross(arm, wrench[:3]))]

    def poses(self) -> Poses:
        self.mujoco.mj_kinematics(self.model, self.data)
        self.mujoco.mj_comPos(self.model, self.data)
        poses = np.tile(np.eye(4), (len(self.ids), 1, 1))
        poses[:, :3, :3] = self.data.xmat[self.ids].reshape(-1, 3, 3)
        poses[:, :3, 3] = self.data.xpos[self.ids]
        return Poses(self.mechanism, poses)

    def run_to_rest(self, radius: float) -> Poses:
        """Adds dampers to the joints, which do not change the equilibrium."""
        model = self.model
        stiffness = np.array([model.jnt_stiffness[j] for j in model.dof_jntid])
        model.dof_damping += 2 * np.sqrt(stiffness * model.dof_M0)
        poses = super().run_to_rest(radius)
        if not np.isfinite(poses.array).all():
            raise MechanismError("its simulation diverges with time steps of 2 ms")
        return poses
