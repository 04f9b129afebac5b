"""Robots of the MuJoCo Menagerie in both simulators, like for like, and the inputs that move them.

The files are in `shared/robots` beside the project. What our import drops is switched off in MuJoCo, too: dry friction
of joints and tendons, and tendons along paths of sites. MuJoCo's sensors are off: `Simulation` has none.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from time import process_time_ns

import mujoco
import numpy as np
from numpy.typing import NDArray

import supple
from supple.mechanism import Mechanism

SHARED = Path(__file__).parents[2] / "shared/robots"
FILES = {
    "Robotiq gripper": "robotiq_2f85/2f85.xml",
    "Allegro hand": "wonik_allegro/right_hand.xml",
    "Shadow Hand": "shadow_hand/right_hand.xml",
    "DEX-EE hand": "shadow_dexee/shadow_dexee.xml",
    "soft foot": "iit_softfoot/softfoot.xml",
    "Crazyflie": "bitcraze_crazyflie_2/cf2.xml",
    "Go2": "unitree_go2/go2.xml",
    "Barkour": "google_barkour_vb/barkour_vb.xml",
    "H1": "unitree_h1/h1.xml",
    "T1": "booster_t1/t1.xml",
    "Cassie": "agility_cassie/cassie.xml",
    "ToddlerBot": "toddlerbot_2xc/toddlerbot_2xc.xml",
}
PERIOD = 0.02
"""Seconds for which pushes and controls stay the same."""


def files() -> dict[str, Path]:
    """Names and files of the robots that are here."""
    found = {name: SHARED / path for name, path in FILES.items() if (SHARED / path).is_file()}
    for name in FILES.keys() - found.keys():
        print(f"{FILES[name]} is not beside the project: {name} is left out")
    return found


def loaded(path: Path) -> Mechanism:
    """A robot, or `MechanismError` if its file is refused."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what the import leaves out
        return supple.load(path)


def written(mech: Mechanism) -> mujoco.MjModel:
    """A mechanism of ours in MuJoCo."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that MuJoCo's loops are soft
        path = Path(folder) / "mechanism.xml"
        mech.save(path)
        return mujoco.MjModel.from_xml_path(str(path))


def in_mujoco(path: Path) -> mujoco.MjModel:
    """A robot's file in MuJoCo, without what our import drops."""
    spec = mujoco.MjSpec.from_file(str(path))
    driven = {actuator.target for actuator in spec.actuators}
    for tendon in spec.tendons:
        if tendon.name not in driven and any(wrap.type != mujoco.mjtWrap.mjWRAP_JOINT for wrap in tendon.path):
            spec.delete(tendon)
    model = spec.compile()
    model.dof_frictionloss[:] = 0
    model.tendon_frictionloss[:] = 0
    return model


def like_ours(model: mujoco.MjModel, dt: float) -> mujoco.MjModel:
    """Our time step, MuJoCo's fastest implicit integrator, neither contact nor sensors."""
    model.opt.timestep, model.opt.integrator = dt, mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT | mujoco.mjtDisableBit.mjDSBL_SENSOR
    return model


@dataclass(frozen=True)
class Input:
    """What acts for one period."""

    body: str
    force: NDArray[np.float64]
    """(3,) N, world axes, at the body's centre of mass."""
    controls: dict[str, float]


class Inputs:
    """Random pushes and controls: each period a force of up to `newtons` on a random body, by default 0.3 of the
    weight, and a random control within its range for each actuator that both simulators have."""

    def __init__(self, mech: Mechanism, model: mujoco.MjModel, newtons: float | None = None) -> None:
        theirs = {model.body(i).name for i in range(model.nbody)}
        self.bodies = [body.name for body in mech.bodies if body.name in theirs]
        self.newtons = 0.3 * 9.81 * mech.mass if newtons is None else newtons
        ours = {actuator.name for actuator in mech.actuators}
        self.ranges = {
            model.actuator(i).name: within
            for i in range(model.nu)
            if model.actuator(i).name in ours and (within := _control_range(model, i)) is not None
        }

    def draw(self, seed: int) -> Iterator[Input]:
        rng = np.random.default_rng(seed)
        while True:
            direction = rng.normal(size=3)
            force = self.newtons * rng.uniform() * direction / np.linalg.norm(direction)
            controls = {name: float(rng.uniform(*within)) for name, within in self.ranges.items()}
            yield Input(self.bodies[rng.integers(len(self.bodies))], force, controls)


def _control_range(model: mujoco.MjModel, actuator: int) -> NDArray[np.float64] | None:
    """(2,) range of a control; without one, that of the joint of a position servo."""
    if model.actuator_ctrllimited[actuator]:
        return model.actuator_ctrlrange[actuator]
    gain, stiffness = model.actuator_gainprm[actuator, 0], -model.actuator_biasprm[actuator, 1]
    joint = model.actuator_trnid[actuator, 0]
    of_joint = model.actuator_trntype[actuator] == int(mujoco.mjtTrn.mjTRN_JOINT)
    if of_joint and gain == stiffness > 0 and model.jnt_limited[joint]:
        return model.jnt_range[joint]
    return None


class Ours:
    """A simulation that is reset, driven and stepped."""

    def __init__(self, sim: supple.Simulation) -> None:
        self.sim, self.pushed, self.steps = sim, "", 0
        free = {axis for joint in sim.mechanism.joints if len(joint.axes) == 6 for axis in joint.axes}
        self.moved = np.array([name not in free for name in sim.mechanism.coordinates])
        self.centres = {body.name: body.centre for body in sim.mechanism.bodies}

    def reset(self) -> None:
        self.sim.reset()
        self.pushed = ""

    def drive(self, given: Input) -> None:
        if self.pushed:
            self.sim.apply(self.pushed, np.zeros(6))
        arm = self.sim.poses[given.body][:3, :3] @ self.centres[given.body]
        self.sim.apply(given.body, np.concatenate([given.force, np.cross(arm, given.force)]))
        self.pushed = given.body
        if given.controls:
            self.sim.set_control(given.controls)

    def step(self, n: int) -> None:
        self.sim.step(n)
        self.steps += n

    def speed(self) -> float:
        """Root mean square of the rates of all coordinates but those of free joints, rad/s and m/s."""
        rates = self.sim.qd[self.moved]
        return float(np.sqrt(np.mean(np.square(rates)))) if len(rates) else 0.0


class MuJoCo:
    """The same in MuJoCo."""

    def __init__(self, model: mujoco.MjModel) -> None:
        self.model, self.data, self.steps = model, mujoco.MjData(model), 0
        self.actuator = {model.actuator(i).name: i for i in range(model.nu)}
        self.body = {model.body(i).name: i for i in range(model.nbody)}
        kinds = model.jnt_type[model.dof_jntid]
        self.moved = np.isin(kinds, [int(mujoco.mjtJoint.mjJNT_SLIDE), int(mujoco.mjtJoint.mjJNT_HINGE)])
        self.resets = 0
        """Times that it found its state unstable and reset itself."""
        mujoco.set_mju_user_warning(self._warned)

    def _warned(self, text: str) -> None:
        self.resets += "unstable" in text

    def reset(self) -> None:
        mujoco.mj_resetData(self.model, self.data)

    def drive(self, given: Input) -> None:
        self.data.xfrc_applied[:] = 0
        self.data.xfrc_applied[self.body[given.body], :3] = given.force
        for name, value in given.controls.items():
            self.data.ctrl[self.actuator[name]] = value

    def step(self, n: int) -> None:
        mujoco.mj_step(self.model, self.data, nstep=n)
        self.steps += n

    def speed(self) -> float:
        rates = self.data.qvel[self.moved]
        return float(np.sqrt(np.mean(np.square(rates)))) if len(rates) else 0.0


REPEATS = 3
"""Runs of the same motion, which repeats to the last bit: the least time of each step is that of an idle machine."""


@dataclass(frozen=True)
class Times:
    """Microseconds of processor time per step, and the speed of the joints."""

    median: float
    """Of periods of 20 ms, a call each."""
    mean: float
    p99: float
    """Of single steps, a call each, less the time of an empty call."""
    speed: float
    """Root mean square of the rates of the joints, rad/s and m/s."""


def in_motion(runs: dict[str, Ours | MuJoCo], inputs: Inputs, dt: float, seconds: int) -> dict[str, Times]:
    """Times simulations that get the same inputs, in turns. Each second starts from the initial state with new inputs;
    half of them are stepped in calls of 20 ms, half in single steps."""
    steps = max(1, round(PERIOD / dt))
    whole: dict[str, list[float]] = {name: [] for name in runs}
    single: dict[str, list[float]] = {name: [] for name in runs}
    speeds: dict[str, list[float]] = {name: [] for name in runs}
    for second in range(seconds):
        for calls, times in ((1, whole), (steps, single)):
            least = {name: np.inf for name in runs}
            for _ in range(REPEATS):
                for name, run in runs.items():
                    took, speed = _one_second(run, inputs.draw(2 * second + (calls > 1)), calls, steps // calls)
                    least[name] = np.minimum(least[name], took)
                    speeds[name].append(speed)
            for name in runs:
                times[name].extend(least[name])
    empty = {name: _empty_call(run) for name, run in runs.items()}
    return {
        name: Times(
            float(np.median(whole[name])) - empty[name] / steps,
            float(np.mean(whole[name])) - empty[name] / steps,
            float(np.percentile(single[name], 99)) - empty[name],
            float(np.sqrt(np.mean(np.square(speeds[name])))),
        )
        for name in runs
    }


def _one_second(run: Ours | MuJoCo, inputs: Iterator[Input], calls: int, n: int) -> tuple[NDArray[np.float64], float]:
    """Microseconds per step of each call; the calls of a period make n steps each. And the speed of the joints."""
    took, squares = [], []
    run.reset()
    for _ in range(round(1 / PERIOD)):
        run.drive(next(inputs))
        for _ in range(calls):
            start = process_time_ns()
            run.step(n)
            took.append(1e-3 * (process_time_ns() - start) / n)
        squares.append(run.speed() ** 2)
    return np.array(took), float(np.sqrt(np.mean(squares)))


def _empty_call(run: Ours | MuJoCo) -> float:
    """Median microseconds of a call that makes no step, with the clock."""
    times = []
    for _ in range(1000):
        start = process_time_ns()
        run.step(0)
        times.append(1e-3 * (process_time_ns() - start))
    return float(np.median(times))
