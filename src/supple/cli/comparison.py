"""What `supple compare` and `supple demo` do: every method on the same mechanism under the same load."""

from __future__ import annotations

import tempfile
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

import supple
from supple.cli.words import one_line
from supple.engine import Equilibrium, Simulation, equilibrium
from supple.errors import ConvergenceError, MechanismError
from supple.mechanism import Mechanism, Poses
from supple.mechanism.record import Array
from supple.reduced import blend, reduce
from supple.reduced.joints import separation
from supple.viewer.methods import METHODS, Models, loose_bodies

DT = 2e-3
"""s, of every method's steps."""
REACH = 0.3
"""Displacement of the end effectors over the radius, by the linear model, where no force is given."""
MODELS = (2 / 3, 4 / 3)
"""Shares of the load at which the blended model has linear models, beside the one at rest."""
PATIENCE = 2.0
"""s of computing until a method has come to rest, at most."""
STILL = 1e-6
"""Motion within a hundred steps, over the radius, that counts as rest."""


@dataclass(frozen=True)
class Row:
    """A method beside the engine's equilibrium."""

    method: str
    error: float
    """m, of the link that is off most."""
    tip_error: float
    """m, of the end effector that is off most."""
    separation: float
    """How far the joints are apart, summed, over the radius."""
    loop_drift: float
    """m, of the joint that closes a loop and is furthest apart."""
    step: float
    """s a step takes; of the end effectors, for reduced models."""


@dataclass(frozen=True)
class Comparison:
    """All methods under one load."""

    mechanism: Mechanism
    end_effectors: tuple[str, ...]
    wrenches: dict[str, Array]
    """(6,) world axes, that act."""
    exact: Equilibrium
    """The engine's."""
    rows: list[Row]
    shapes: dict[str, Poses]
    """At rest under the load, by method."""
    failed: dict[str, str] = field(default_factory=dict)
    """Why a method is missing."""

    @property
    def moved(self) -> float:
        """m, of the link that moves most."""
        return apart(self.exact.poses, self.mechanism.poses, self.end_effectors)

    def row(self, method: str) -> Row:
        return next(row for row in self.rows if row.method == method)

    @property
    def facts(self) -> dict[str, Any]:
        """Ready for JSON."""
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
    """Every method under wrenches (6,) in world axes on end effectors; without any, under forces along the softest
    direction of each."""
    models = Models(mech, end_effectors)
    for name in wrenches or {}:
        if name not in models.end_effectors:
            raise MechanismError(f"the force on '{name}' needs --end-effector {name}: reduced models are pulled there")
    if loose := loose_bodies(mech):
        raise MechanismError(
            f"'{loose[0]}' of '{mech.name}' floats free, so there is no equilibrium to compare at; give a file without "
            "it, or without its free joint"
        )
    if models.start is None:
        raise MechanismError(
            f"'{mech.name}' has no equilibrium to compare at: it falls; add springs (mech.with_springs(stiffness=...))"
        )
    if wrenches is None:
        loads, others = _soft(models)
    else:
        loads, others = wrenches, _loaded(models, wrenches)
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
                    "no model but the linear one could be made under this load: it buckles, or stops hold it; "
                    "try another --force"
                )
            peer: Peer = _MuJoCo(mech, loads) if name == "MuJoCo" else _Own(models, name, loads, exact)
            step = _timed(peer.step)
            poses = exact.poses if name == "engine" else peer.settle(mech.radius or 1.0)
            shapes[name] = poses
            rows.append(_row(name, mech, models.end_effectors, exact.poses, poses, step, peer.gap()))
        except (MechanismError, ConvergenceError, ImportError, ValueError) as error:
            failed[name] = one_line(error)
    return Comparison(mech, models.end_effectors, loads, exact, rows, shapes, failed)


def apart(a: Poses, b: Poses, tips: Sequence[str] = ()) -> float:
    """m, between the origins, centres of mass and end effectors of two shapes, the pair that differs most."""
    centres = np.array([body.centre for body in a.mechanism.bodies])[:, :, None]
    moved = a.array - b.array
    turned = (moved[:, :3, :3] @ centres)[..., 0] + moved[:, :3, 3]
    ends = [a[tip][:3, 3] - b[tip][:3, 3] for tip in tips]
    return float(np.linalg.norm([*moved[:, :3, 3], *turned, *ends], axis=1).max())


def _soft(models: Models) -> tuple[dict[str, Array], list[supple.ReducedModel]]:
    """Loads that `_softest` names, or their opposite where stops are in the way, and the linear models under them."""
    loads = _softest(models)
    found = _loaded(models, loads)
    if len(found) < len(MODELS):
        opposite = {name: -wrench for name, wrench in loads.items()}
        others = _loaded(models, opposite)
        if len(others) > len(found):
            return opposite, others
    return loads, found


def _softest(models: Models) -> dict[str, Array]:
    """Forces along the softest direction of each end effector, that help one another and move the one that moves most
    by REACH."""
    model, forces = models.linear_model, np.zeros(len(models.linear_model.compliance))
    for i, name in enumerate(model.end_effectors):
        part = slice(6 * i, 6 * i + 3)
        values, vectors = np.linalg.eigh(model.compliance[part, part])
        if not values[-1] > 0:
            raise MechanismError(
                f"no force moves '{name}': limits, motors or loops hold it, or it lies on its limits since nothing "
                "else does; name another end effector, or add springs (mech.with_springs(stiffness=...))"
            )
        direction = vectors[:, -1] / values[-1]
        turned = model.end_effector_poses[i][:3, :3] @ direction
        others = direction @ model.compliance[part] @ forces  # how far they move it along
        helps = others if abs(others) > 1e-6 else turned[np.abs(turned).argmax()]
        forces[part] = np.sign(helps) * direction
    moved = (model.compliance @ forces)[: 6 * len(model.end_effectors)].reshape(-1, 6)[:, :3]
    size = REACH * (models.mechanism.radius or 1.0) / np.linalg.norm(moved, axis=1).max()
    result = {}
    for i, name in enumerate(model.end_effectors):
        force = model.end_effector_poses[i][:3, :3] @ forces[6 * i : 6 * i + 3]
        norm = float(np.linalg.norm(force))
        result[name] = np.concatenate([float(f"{size * norm:.2g}") * force / norm, np.zeros(3)])
    return result


def _loaded(models: Models, loads: dict[str, Array]) -> list[supple.ReducedModel]:
    """Linear models at shares of the load; fewer where the mechanism does not bear that much."""
    found: list[supple.ReducedModel] = []
    start = models.start
    for share in MODELS:
        try:
            scaled = {name: share * wrench for name, wrench in loads.items()}
            start = equilibrium(models.mechanism, scaled, start=start, progress=lambda fraction: None)
            model = reduce(models.mechanism, models.end_effectors, at=start)
            blend([models.linear_model, *found, model])
        except (ConvergenceError, MechanismError):  # it buckles, or stops hold it where another model is
            break
        found.append(model)
    return found


def _row(
    name: str, mech: Mechanism, tips: Sequence[str], exact: Poses, poses: Poses, step: float, gap: float | None
) -> Row:
    joints = separation(mech, poses.array)
    loops = [joints.joints[mech.joints[j].name] for j in mech.topology.loops]
    off = [float(np.linalg.norm(poses[tip][:3, 3] - exact[tip][:3, 3])) for tip in tips]
    drift = max(loops, default=0.0) if gap is None else gap
    return Row(name, apart(exact, poses, tips), max(off), joints.total, drift, step)


def _timed(step: Callable[[int], object]) -> float:
    """s a step takes: the best of some runs of at least a few milliseconds."""
    n, best = 1, np.inf
    for _ in range(12):
        start = perf_counter()
        step(n)
        took = perf_counter() - start
        best = min(best, took / n)
        if took < 5e-3:
            n *= 4
    return float(best)


class Peer(ABC):
    """A simulation under the load."""

    @abstractmethod
    def step(self, n: int) -> object: ...

    @abstractmethod
    def poses(self) -> Poses: ...

    def gap(self) -> float | None:
        """m, of the loops, if it is more than what the poses show."""
        return None

    def settle(self, radius: float) -> Poses:
        """Poses at rest, or after as much computing as a user waits for."""
        end, before = perf_counter() + PATIENCE, self.poses()
        while perf_counter() < end:
            self.step(100)
            now = self.poses()
            if apart(now, before) < STILL * radius:
                break
            before = now
        return now


class _Own(Peer):
    def __init__(self, models: Models, method: str, loads: dict[str, Array], exact: Equilibrium) -> None:
        # the engine has nowhere to go: it is timed in its equilibrium
        sim = Simulation(models.mechanism, DT, at=exact) if method == "engine" else models.begin(method, DT)
        assert isinstance(sim, Simulation | supple.ReducedSimulation)
        self.sim: Simulation | supple.ReducedSimulation = sim
        self.loads = loads
        for name, wrench in loads.items():
            self.sim.apply(name, wrench)

    def settle(self, radius: float) -> Poses:
        """With a damper on every end effector, which changes nothing about where it comes to rest."""
        self.sim.reset()
        for name, wrench in self.loads.items():
            self.sim.apply(name, wrench)
            stiffness = float(np.linalg.norm(wrench[:3])) / (REACH * radius)
            damper = np.sqrt(stiffness * self.sim.mechanism.mass)
            self.sim.pull(name, np.zeros(3), stiffness=0.0, damping=damper)
        return super().settle(radius)

    def step(self, n: int) -> object:
        return self.sim.step(n)

    def poses(self) -> Poses:
        return self.sim.poses

    def gap(self) -> float | None:
        return self.sim.gap if isinstance(self.sim, Simulation) else None


class _MuJoCo(Peer):
    """The mechanism as MuJoCo has it from our MJCF, without contact."""

    def __init__(self, mech: Mechanism, loads: dict[str, Array]) -> None:
        try:
            import mujoco
        except ImportError:
            raise ImportError("needs the package mujoco; install it with: pip install 'supple[all]'") from None
        self.mechanism, self.mujoco = mech, mujoco
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")  # MuJoCo's loops are approximations, and said to be
            path = Path(folder) / "mechanism.xml"
            mech.save(path)
            self.model = model = mujoco.MjModel.from_xml_path(str(path))
        model.opt.timestep, model.opt.integrator = DT, mujoco.mjtIntegrator.mjINT_IMPLICITFAST
        model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT
        self.data = mujoco.MjData(model)
        self.loads = loads
        self.ids = [model.body(body.name).id for body in mech.bodies]

    def step(self, n: int) -> object:
        self._push()
        return self.mujoco.mj_step(self.model, self.data, nstep=n)

    def _push(self) -> None:
        """Wrenches act at a body's or site's origin; MuJoCo's at the centre of mass."""
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

    def settle(self, radius: float) -> Poses:
        """With dampers on the joints, which change nothing about where it comes to rest."""
        model = self.model
        stiffness = np.array([model.jnt_stiffness[j] for j in model.dof_jntid])
        model.dof_damping += 2 * np.sqrt(stiffness * model.dof_M0)
        poses = super().settle(radius)
        if not np.isfinite(poses.array).all():
            raise MechanismError("its simulation is not finite with steps of 2 ms")
        return poses
