"""The comparison of `supple compare` and `supple demo`: every method on the same mechanism under the same load."""

from __future__ import annotations

import tempfile
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

import supple
from supple.cli.grouped_options import in_one_line
from supple.engine import Equilibrium, Simulation, equilibrium
from supple.engine.actuation import force_range
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
"""Largest displacement of an end effector over the radius, by the linear model, where no force is given."""
RIGID = 1e-12
"""Compliance of an end effector, over that of the softest one, below which no force moves it."""
SHARES = tuple(0.5**k for k in range(10))
"""Shares of the forces of that displacement that are tried, until actuators and coordinates are within their ranges."""
SAMPLE_LOADS = (2 / 3, 4 / 3)
"""Fractions of the load at which the blended model has samples, besides the one without load."""
MAX_SECONDS = 2.0
"""Processor time within which a method must come to rest, s."""
REST_TOLERANCE = 1e-6
"""A motion within a hundred time steps, over the radius, that is smaller than this counts as rest."""
TIMED_STEPS = 200
"""Time steps after the load is applied that are timed."""
REPETITIONS, TIMING_SECONDS = 20, 4.0
"""Repetitions of these steps, and the processor time of all methods after which no other repetition starts, s."""
STAYING_STEPS = 500
"""Time steps in which the engine's simulation should stay in the equilibrium."""
ROUNDING = 1e-9
"""A force that is nearer to the end of its range than this share of it counts as saturated."""


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
    """Processor time of a time step in motion, s; for linear and blended models without the poses of the links."""


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
    load_note: str = ""
    """Why the default load is smaller than for REACH, or what a given load drives beyond its range."""

    @property
    def moved(self) -> float:
        """Largest displacement of a link, m."""
        return largest_distance(self.exact.poses, self.mechanism.poses, self.end_effectors)

    def row(self, method: str) -> Row:
        return next(row for row in self.rows if row.method == method)

    @property
    def engine_stays(self) -> bool:
        """Whether a simulation by the engine stays in the equilibrium."""
        return all(
            row.error <= REST_TOLERANCE * (self.mechanism.radius or 1.0) for row in self.rows if row.method == "engine"
        )

    @property
    def facts(self) -> dict[str, Any]:
        """The comparison as JSON data."""
        return {
            "name": self.mechanism.name,
            "end_effectors": list(self.end_effectors),
            "loads": [{"on": n, "wrench": w.tolist(), "frame": "world"} for n, w in self.wrenches.items()],
            "load_note": self.load_note,
            "moved": self.moved,
            "radius": self.mechanism.radius,
            "dt": DT,
            "engine_stays": self.engine_stays,
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
    loads, note = default_load(models) if wrenches is None else (wrenches, "")
    exact = equilibrium(mech, loads, start=models.start, progress=lambda fraction: None)
    if not note and (beyond := _beyond_range(models, exact)):
        note = f"under this load, {beyond}"
    others = _models_under_load(models, loads)
    models.blended = blend([models.linear_model, *others])
    failed: dict[str, str] = {}
    if not others:
        failed["blended"] = (
            "no linear model could be made under this load: the mechanism buckles, or joint limits block it; "
            "try another --force"
        )
    methods: dict[str, MethodUnderLoad] = {}
    for name in [*(name for name, method in METHODS.items() if method.in_time), "MuJoCo"]:
        with _reason_kept(failed, name):
            if name not in failed:
                methods[name] = _under_load(name, models, loads, exact)
    steps = _seconds_per_step(methods, failed)
    rows: list[Row] = []
    shapes: dict[str, Poses] = {}
    for i, (name, step) in enumerate(steps.items()):
        progress(i / len(steps))
        with _reason_kept(failed, name):
            shapes[name] = methods[name].run_to_rest(mech.radius or 1.0)
            gap = methods[name].gap()
            rows.append(_row(name, mech, models.end_effectors, exact.poses, shapes[name], step, gap))
    return Comparison(mech, models.end_effectors, loads, exact, rows, shapes, failed, note)


@contextmanager
def _reason_kept(failed: dict[str, str], name: str) -> Iterator[None]:
    """Keeps the reason why a method cannot be used."""
    try:
        yield
    except (MechanismError, ConvergenceError, ImportError, ValueError) as error:
        failed[name] = in_one_line(error)


def largest_distance(a: Poses, b: Poses, tips: Sequence[str] = ()) -> float:
    """Largest distance between the origins, centres of mass and end effectors of two sets of poses, m."""
    centres = np.array([body.centre for body in a.mechanism.bodies])[:, :, None]
    difference = a.array - b.array
    of_centres = (difference[:, :3, :3] @ centres)[..., 0] + difference[:, :3, 3]
    of_tips = [a[tip][:3, 3] - b[tip][:3, 3] for tip in tips]
    return float(np.linalg.norm([*difference[:, :3, 3], *of_centres, *of_tips], axis=1).max())


def default_load(models: Models) -> tuple[dict[str, Array], str]:
    """Forces along the softest directions, or the opposite ones if limits block these, and a note.

    Actuators and coordinates stay within their ranges at the loads of all models of the blend; the note says by how
    much the forces were reduced for this, and why.
    """
    forces, before = _forces_along_softest_directions(models), {1: "", -1: ""}
    for share in SHARES:
        for sign in (1, -1):
            loads = {name: sign * share * wrench for name, wrench in forces.items()}
            largest = {name: SAMPLE_LOADS[-1] * wrench for name, wrench in loads.items()}
            try:
                eq = equilibrium(models.mechanism, largest, start=models.start, progress=lambda fraction: None)
                beyond = _beyond_range(models, eq)
            except ConvergenceError:
                beyond = "there is no equilibrium"
            if not beyond:
                reduced = f"1/{1 / share:.0f} of the force for a displacement of {REACH:g} radii; under more, "
                return loads, "" if share == 1 else reduced + before[sign]
            before[sign] = beyond
    return forces, f"under this load and under small shares of it, {before[1]}"


def _beyond_range(models: Models, eq: Equilibrium) -> str:
    """Which actuator or coordinate a load drives to the end of its range, beside those that are there without load; an
    empty text if none."""
    assert models.start is not None
    for actuator in sorted(_saturated(eq) - _saturated(models.start)):
        return f"actuator '{actuator}' exceeds the range of its force"
    for name in eq.motor_torques:
        if name not in models.start.motor_torques:
            return f"'{name.removesuffix('.limit')}' reaches a limit"
    return ""


def _saturated(eq: Equilibrium) -> set[str]:
    """Actuators whose force would have to exceed its range: the springs of an equilibrium have no range."""
    if not eq.mechanism.actuators:
        return set()
    forces = Simulation(eq.mechanism, DT, at=eq).actuator_forces
    ranges = {actuator.name: force_range(eq.mechanism, actuator) for actuator in eq.mechanism.actuators}
    margins = {name: min(forces[name] - lower, upper - forces[name]) for name, (lower, upper) in ranges.items()}
    return {name for name, margin in margins.items() if margin <= ROUNDING * abs(forces[name])}


def _forces_along_softest_directions(models: Models) -> dict[str, Array]:
    """Forces along the softest direction of each end effector, with signs such that their displacements add up, and of
    such a size that the largest displacement is REACH times the radius. End effectors that no force moves get none."""
    model, forces = models.linear_model, np.zeros(len(models.linear_model.compliance))
    parts = [slice(6 * i, 6 * i + 3) for i in range(len(model.end_effectors))]
    eigen = [np.linalg.eigh(model.compliance[part, part]) for part in parts]
    softest = max(values[-1] for values, _ in eigen)
    if not softest > 0:
        raise MechanismError(
            f"no force moves '{model.end_effectors[0]}': limits, motors or loops block it, or it rests on its limits "
            "because nothing holds it; name another end effector, or add springs (mech.with_springs(stiffness=...))"
        )
    for i, (part, (values, vectors)) in enumerate(zip(parts, eigen, strict=True)):
        if values[-1] <= RIGID * softest:
            continue
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
        if norm == 0:
            continue
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


def _seconds_per_step(methods: dict[str, MethodUnderLoad], failed: dict[str, str]) -> dict[str, float]:
    """Processor time of a time step of each method that does not fail, s: the best of repetitions of the motion after
    the load is applied. The methods take turns, so that all see the same machine."""
    best, before = dict.fromkeys(methods, np.inf), process_time()
    for _ in range(REPETITIONS):
        for name in [name for name in methods if name not in failed]:
            with _reason_kept(failed, name):
                methods[name].reset()
                start = process_time()
                methods[name].step(TIMED_STEPS)
                best[name] = min(best[name], (process_time() - start) / TIMED_STEPS)
        if process_time() - before > TIMING_SECONDS:
            break
    return {name: seconds for name, seconds in best.items() if name not in failed}


class MethodUnderLoad(ABC):
    """A simulation of one method under the load."""

    @abstractmethod
    def reset(self) -> None:
        """Returns to the start and applies the load."""

    @abstractmethod
    def step(self, n: int) -> object: ...

    def advance(self, n: int) -> None:
        """As `step`, with loads at the present pose where they depend on it."""
        self.step(n)

    @abstractmethod
    def poses(self) -> Poses: ...

    def gap(self) -> float | None:
        """Largest gap of the loops, m, if the simulation knows it; None to compute it from the poses."""
        return None

    def run_to_rest(self, radius: float) -> Poses:
        """Poses at rest, or after MAX_SECONDS of processor time (wall time would depend on other processes)."""
        end, before = process_time() + MAX_SECONDS, self.poses()
        while process_time() < end:
            self.advance(100)
            now = self.poses()
            if largest_distance(now, before) < REST_TOLERANCE * radius:
                break
            before = now
        return now


def _under_load(name: str, models: Models, loads: dict[str, Array], exact: Equilibrium) -> MethodUnderLoad:
    if name == "MuJoCo":
        return _MuJoCoMethod(models.mechanism, loads)
    return _EngineMethod(models, loads, exact) if name == "engine" else _SuppleMethod(models.begin(name, DT), loads)


class _SuppleMethod(MethodUnderLoad):
    def __init__(self, sim: Moving, loads: dict[str, Array]) -> None:
        self.sim, self.loads = sim, loads

    def reset(self) -> None:
        self.sim.reset()
        for name, wrench in self.loads.items():
            self.sim.apply(name, wrench)

    def run_to_rest(self, radius: float) -> Poses:
        """Adds a damper to every end effector, which does not change the equilibrium."""
        self.reset()
        for name, wrench in self.loads.items():
            stiffness = float(np.linalg.norm(wrench[:3])) / (REACH * radius)
            damper = np.sqrt(stiffness * self.sim.mechanism.mass)
            self.sim.pull(name, np.zeros(3), stiffness=0.0, damping=damper)
        return super().run_to_rest(radius)

    def step(self, n: int) -> None:
        self.sim.step(n)

    def poses(self) -> Poses:
        return self.sim.poses


class _EngineMethod(_SuppleMethod):
    """The engine, which has the equilibrium already: its simulation should stay there."""

    def __init__(self, models: Models, loads: dict[str, Array], exact: Equilibrium) -> None:
        super().__init__(models.begin("engine", DT), loads)
        self.in_equilibrium = Simulation(models.mechanism, DT, at=exact)

    def run_to_rest(self, radius: float) -> Poses:
        """Poses after a second that starts in the equilibrium."""
        self.in_equilibrium.step(STAYING_STEPS)
        return self.in_equilibrium.poses

    def gap(self) -> float | None:
        return self.in_equilibrium.gap


class _MuJoCoMethod(MethodUnderLoad):
    """The mechanism in MuJoCo, from the MJCF file that supple writes, without contact."""

    def __init__(self, mech: Mechanism, loads: dict[str, Array]) -> None:
        try:
            import mujoco
        except ImportError:
            raise ImportError("needs the package mujoco; install it with: pip install 'supple[all]'") from None
        if mech.flexible:
            raise MechanismError(f"MJCF files have no flexible bodies such as '{mech.flexible[0].name}'")
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

    def reset(self) -> None:
        self.mujoco.mj_resetData(self.model, self.data)
        self._apply_loads()

    def step(self, n: int) -> None:
        """Raises where MuJoCo finds that the state diverges; it would go on from its start then, with a warning."""
        warn = self.mujoco.get_mju_user_warning()
        self.mujoco.set_mju_user_warning(lambda text: None)
        try:
            self.mujoco.mj_step(self.model, self.data, nstep=n)
        finally:
            self.mujoco.set_mju_user_warning(warn)
        kinds = self.mujoco.mjtWarning
        bad = (kinds.mjWARN_BADQPOS, kinds.mjWARN_BADQVEL, kinds.mjWARN_BADQACC)
        if any(self.data.warning[kind].number for kind in bad):
            raise MechanismError("its simulation diverges with time steps of 2 ms")

    def advance(self, n: int) -> None:
        self._apply_loads()
        self.step(n)

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
        self.reset()
        stiffness = np.array([model.jnt_stiffness[j] for j in model.dof_jntid])
        model.dof_damping += 2 * np.sqrt(stiffness * model.dof_M0)
        return super().run_to_rest(radius)
