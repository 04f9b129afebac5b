"""A mechanism in motion that a user acts on: all of the viewer but its page."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Event, Lock, Thread

import numpy as np
from numpy.typing import ArrayLike

from supple.engine.starting import startable
from supple.errors import ConvergenceError, MechanismError
from supple.mechanism import Mechanism
from supple.mechanism.mechanism import check_mechanism
from supple.mechanism.moving import Moving
from supple.mechanism.poses import find
from supple.mechanism.record import Array, array
from supple.recording import Recorder, Recording
from supple.reduced import BlendedModel, ReducedSimulation
from supple.reduced.matrices import Ellipsoid
from supple.reduced.simulation import RANGE
from supple.viewer import transfer
from supple.viewer.clock import WALL_CLOCK, Clock
from supple.viewer.control import Controller, ControllerError
from supple.viewer.exploration import Exploration
from supple.viewer.history import History
from supple.viewer.measures import Frame, Meter, Pull
from supple.viewer.methods import Models, likely_end_effectors
from supple.viewer.runner import Runner
from supple.viewer.scenery import GivenModel, SceneModels

FRAME_RATE = 60
"""Frames per second, at most."""
SKIN_RATE = 30
"""Frames per second, at most, of mechanisms with flexible bodies: every frame sends the vertices of their skins."""
SAMPLE_RATE = 20
"""Points per second of the time series."""
MAX_SAMPLES = 600
"""Points of the time series: half a minute."""
SETTERS = {"q": "set_q", "targets": "set_targets", "controls": "set_control"}
"""Calls of `Moving` for each kind of input."""
MODELS = ("linear", "blended")
"""Methods that are models of the end effectors."""
SERIES = ("time", "separation", "displacement", "kinetic", "stored", "force")


@dataclass(frozen=True)
class Message:
    """A line for the user."""

    text: str
    warning: bool = False


@dataclass(frozen=True)
class Inputs:
    """What a user can set, by name."""

    q: dict[str, float]
    """Coordinates, rad or m; empty where joints cannot be placed."""
    targets: dict[str, float]
    """Set-points of springs, couplings and motors, rad or m."""
    controls: dict[str, float | None]
    """Controls of actuators, in the units of their file; None if one is switched off."""


class Session:
    """Something that moves, in a thread of its own, at real time: a mechanism moved by a method of
    `supple.viewer.methods.METHODS`, or a simulation, world or scene.

    `controller(sim)` is called before every time step with what moves; what it returns, if not None, is given to
    `set_targets`. If it fails, the session pauses in the state before that step, and a message says why.
    Every call may come from any thread. `end_effectors` are bodies or sites that can be pulled, by default those
    whose names end in tip. A request that cannot be met adds a warning to `messages`; where the caller is at fault, it
    raises `MechanismError`. `clock` gives the time, s, that real time is measured by; tests give one that they advance.
    """

    def __init__(
        self,
        subject: Mechanism | Moving | SceneModels,
        end_effectors: Sequence[str] | None = None,
        method: str | None = None,
        dt: float = 2e-3,
        *,
        controller: Controller | None = None,
        clock: Clock = WALL_CLOCK,
    ) -> None:
        self._models = _models(subject, end_effectors, controller)
        self.mechanism, self.dt, self.clock = self._models.mechanism, dt, clock
        self.messages: deque[Message] = deque(maxlen=40)
        self.targets: dict[str, Array] = {}
        """(3,) point, m, that each pulled end effector is pulled to. This dict is replaced, never modified."""
        self._new_inputs: dict[tuple[str, str], float] = {}
        """What `set_input` was given, by kind and name, until the next step."""
        self._targets_lock = Lock()
        """For `targets` and `_new_inputs`."""
        self.new_frame = Event()
        """Set whenever `frame` has been replaced."""
        self._series: deque[tuple[float, ...]] = deque(maxlen=MAX_SAMPLES)
        self._history = History()
        self._recorder: Recorder | None = None
        self._exploration: Exploration | None = None
        self._shows_ellipsoids = False
        self._ghost: Runner | None = None
        self._ghost_poses = self.mechanism.poses
        self._frame_rate = SKIN_RATE if self.mechanism.flexible else FRAME_RATE
        self._out_of_range = self._failed = False
        self._last_sample = self._last_frame = -np.inf
        self._method = method or self._models.method
        self._time_offset = 0.0
        """s between the session's time and that of the present simulation."""
        sim = self._first_simulation(method is None, dt)
        control = self._models.control()
        self._runner = Runner(sim, self._apply_targets, self._publish, self._on_failed_step, clock, control)
        self._meter = self._new_meter(sim)
        self._energy = sim.energy
        self._initial_energy = self._energy.total - self._energy.kinetic
        self._history.take(sim)
        self.frame: Frame = self._make_frame()
        """The latest frame."""

    def _first_simulation(self, may_change: bool, dt: float) -> Moving:
        """A simulation by the present method; by the engine if `may_change` and that method cannot simulate it."""
        try:
            return self._models.begin(self._method, dt)
        except (MechanismError, ConvergenceError) as error:
            if not may_change or not self._models.changeable or self._method == "engine":
                raise
            text = f"The engine moves it, because the {self._method} method cannot: {error}"
            self.messages.append(Message(text, True))
            self._method = "engine"
            return self._models.begin(self._method, dt)

    # running

    def start(self) -> None:
        """Starts to move in real time, in a thread of its own."""
        self._runner.start()

    def stop(self) -> None:
        """Ends all threads; the session cannot be started again."""
        self.cancel()
        self.ghost = False
        self._runner.stop()

    def __enter__(self) -> Session:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    @property
    def paused(self) -> bool:
        return self._runner.paused

    @paused.setter
    def paused(self, value: bool) -> None:
        for runner in self._runners:
            runner.paused = value

    @property
    def speed(self) -> float:
        """Simulated seconds per second to aim at."""
        return self._runner.speed

    @speed.setter
    def speed(self, value: float) -> None:
        if not 0 < value < np.inf:
            raise MechanismError(f"speed must be a positive number, got {value!r}")
        for runner in self._runners:
            runner.speed = float(value)

    def step(self, n: int = 1) -> None:
        """Makes n steps at once, for a session that is paused or was never started."""
        for runner, on_failure in zip(self._runners, (self._on_failed_step, self._on_failed_ghost_step), strict=False):
            with runner.lock:
                self._apply_targets(runner)
                try:
                    runner.make_steps(n)
                except (ConvergenceError, MechanismError) as error:
                    on_failure(error)
        self._update_ghost_poses()
        self._publish(at_once=True)

    def reset(self) -> None:
        """Back to the start, with all handles released. Models that were added stay."""
        self.targets = {}
        for runner in self._runners:
            with runner.lock:
                runner.sim.reset()
                self._set_handles(runner.sim)
        with self._runner.lock:
            if self._runner.control is not None:
                self._runner.control.reset()
            self._history.clear()
            self._series.clear()
            self._out_of_range, self._last_sample, self._time_offset = False, -np.inf, 0.0
        self._resume_after_failure()
        self._update_ghost_poses()
        self._publish(at_once=True)

    @property
    def rewindable(self) -> float:
        """s of simulated time that `rewind` can go back."""
        return self._history.length

    def rewind(self, seconds: float) -> None:
        """Pauses and goes back to so many seconds (of simulated time) before the latest state. Going on from there
        replaces what came later. Handles stay where they are now."""
        if not 0 <= seconds < np.inf:
            raise MechanismError(f"the seconds to go back must be a number, 0 or more, got {seconds!r}")
        self.paused = True
        with self._runner.lock:
            state = self._history.state_before(seconds)
            if state is not None:
                self._runner.sim.restore(state)
                self._set_handles(self._runner.sim)
        self._publish(at_once=True, keep=False)

    # joints, set-points, actuators

    @property
    def inputs(self) -> Inputs:
        """What sliders show and set now."""
        with self._runner.lock:
            sim = self._runner.sim
            names, q = sim.placeable, dict[str, float]()
            if names:
                q = dict(zip(sim.mechanism.coordinates, np.asarray(sim.q).tolist(), strict=True))
            return Inputs({name: q[name] for name in names}, sim.targets, sim.controls)

    def set_input(self, kind: str, name: str, value: float) -> None:
        """Sets one of `inputs` before the next time step, or within a pause; this call does not wait for it. `kind` is
        "q" (places a joint, at rest), "targets" (a set-point, rad or m) or "controls" (of an actuator, in its own
        units). An input that is not accepted adds a warning to `messages`."""
        find(list(SETTERS), kind, "kind of input")
        with self._targets_lock:
            self._new_inputs[kind, name] = value

    def _apply_inputs(self) -> None:
        """Sets what `set_input` was given; the caller holds the runner's lock."""
        with self._targets_lock:
            inputs, self._new_inputs = self._new_inputs, {}
        for (kind, name), value in inputs.items():
            for runner in self._runners:
                try:
                    with runner.lock:
                        getattr(runner.sim, SETTERS[kind])({name: value})
                except (MechanismError, ConvergenceError) as error:
                    self.notify(f"{name}: {error}", warning=True)

    # handles

    @property
    def end_effectors(self) -> tuple[str, ...]:
        return self._models.end_effectors

    @end_effectors.setter
    def end_effectors(self, names: Sequence[str]) -> None:
        """Changes the level of detail. The models of the former end effectors are discarded."""
        self._mechanism_models()
        with self._runner.lock:
            former, ghost = self._models, self.ghost
            self._models = Models(self.mechanism, names, self._mechanism_models().controller)
            if not self._switch_to(self._method):
                self._models = former
            elif ghost:
                self.ghost = False
                self.ghost = True

    def pull(self, end_effector: str, point: ArrayLike | None) -> None:
        """Pulls an end effector to a point (3,) of the world, m, by a spring; `None` releases it. The spring acts from
        the next step on; this call does not wait for it."""
        if end_effector not in self.end_effectors:
            raise MechanismError(f"'{end_effector}' is no end effector now; those are {', '.join(self.end_effectors)}")
        with self._targets_lock:
            targets = {name: target for name, target in self.targets.items() if name != end_effector}
            if point is not None:
                targets[end_effector] = array(point, (3,), f"the point to pull '{end_effector}' to")
            self.targets = targets

    def let_go(self) -> None:
        """Releases all handles."""
        self.targets = {}

    def _apply_targets(self, runner: Runner) -> None:
        """Gives the targets to a runner's simulation if they have changed; the caller holds the runner's lock."""
        if self._new_inputs and runner is self._runner:
            self._apply_inputs()
        if runner.applied_targets is not self.targets:
            runner.applied_targets = self.targets
            self._set_handles(runner.sim)

    def _set_handles(self, sim: Moving) -> None:
        targets = self.targets
        for name in self.end_effectors:
            sim.pull(name, targets.get(name))

    # methods

    @property
    def name(self) -> str:
        """Of the mechanism, scene or world."""
        return self._models.name

    @property
    def has_contacts(self) -> bool:
        """Whether there can be contact forces to draw."""
        return self._runner.sim.has_contacts

    @property
    def joints_separate(self) -> bool:
        """Whether the present simulation may separate joints."""
        return self._runner.sim.joints_separate

    @property
    def changeable(self) -> bool:
        """Whether end effectors and linear models can be added: to a mechanism, not to a scene or given simulation."""
        return self._models.changeable

    @property
    def methods(self) -> dict[str, str]:
        """The names that `method` can have, each with a line that describes it."""
        return self._models.descriptions

    @property
    def method(self) -> str:
        return self._method

    @method.setter
    def method(self, name: str) -> None:
        if name != self._method:
            self._switch_to(name)

    def _switch_to(self, method: str) -> bool:
        """Replaces the simulation by one of another method. Returns False, and keeps the former, if that fails."""
        with self._runner.lock:
            try:
                sim = self._models.begin(method, self.dt)
                self.mechanism = self._models.mechanism
                meter = self._new_meter(sim)
                self.targets = {n: target for n, target in self.targets.items() if n in self.end_effectors}
                _copy_inputs(self._runner.sim, sim)
                self._move_to_present_pose(sim, method)
            except (MechanismError, ConvergenceError) as error:
                self.notify(f"{method}: {error}", warning=True)
                return False
            self._time_offset += self._runner.sim.time - sim.time
            self._runner.sim, self._runner.step_cost, self._runner.control = sim, 0.0, self._models.control()
            self._history.clear()
            self._history.take(sim)
            self._method, self._meter, self._out_of_range = method, meter, False
            if self._ghost is not None and method == "engine":
                self.ghost = False
        self._resume_after_failure()
        self.notify(f"moved by the {method} {'model' if method in MODELS else 'method'} now")
        self._publish(at_once=True)
        return True

    def _move_to_present_pose(self, sim: Moving, method: str) -> None:
        """Moves a new simulation to where the end effectors are now. If it cannot get there, it starts at rest."""
        poses, known = self._runner.sim.poses, self._runner.sim.end_effectors
        points = {name: poses[name][:3, 3].copy() for name in self.end_effectors if name in known}
        try:
            if not self._failed:
                transfer.pull_to(sim, points, self.mechanism.radius or 1.0, self.clock)
        except ConvergenceError as error:
            sim.reset()
            self.notify(f"{method}: starts at rest, since it cannot reach the present pose: {error}", warning=True)
        self._set_handles(sim)

    def _mechanism_models(self) -> Models:
        if not isinstance(self._models, Models):
            raise MechanismError("a scene or a given simulation keeps its own model; this is for mechanisms")
        return self._models

    # better models

    def linearise_here(self) -> bool:
        """Adds a linear model at the present pose; returns whether that was possible."""
        models = self._mechanism_models()
        if "blended" not in self.methods:
            self.notify("no model was added: the viewer does not blend models of flexible bodies", warning=True)
            return False
        if self._method not in ("linear", "blended"):
            self.notify(f"the {self._method} is exact here already; `Linearise here` is for linear and blended models")
            return False
        if self._method == "linear" and models.blended is not None and not self._switch_to("blended"):
            return False
        with self._runner.lock:
            sim = self._runner.sim
            assert isinstance(sim, ReducedSimulation)  # both methods make one
            before = self._meter.separations(sim)[1]
            try:
                sim.grow()
            except (MechanismError, ConvergenceError) as error:
                self.notify(f"no model was added: {error}", warning=True)
                return False
            assert isinstance(sim.model, BlendedModel)
            models.blended, self._method = sim.model, "blended"
            self.notify(f"{len(sim.model.models)} models; the joints were {before:.3f} of the radius apart before")
        return True

    @property
    def progress(self) -> float | None:
        """Fraction of a running exploration that is done, 0 to 1; None if none is running."""
        exploration = self._exploration
        return None if exploration is None else exploration.progress

    def explore(self, max_error: float = 0.05, reach: float = 0.5, budget: int = 100) -> Thread:
        """Finds models automatically in the background (`supple.explore`), then switches to the blended model."""
        models = self._mechanism_models()
        if "blended" not in self.methods:
            raise MechanismError("the viewer does not blend models of flexible bodies; call supple.explore in Python")
        if self._exploration is not None:
            raise MechanismError("an exploration is running already; cancel it first")

        def on_found(model: BlendedModel) -> None:
            report = model.exploration
            assert report is not None
            self.notify(
                f"{report.models} models; {report.within:.0%} of {len(report.after)} test points are within an error "
                f"of {report.max_error:g}",
                warning=not report.met,
            )
            if models is self._models:
                models.blended = model
                self._switch_to("blended")
            self._exploration = None

        def on_failure(text: str, warning: bool) -> None:
            self.notify(text, warning)
            self._exploration = None

        self._exploration = Exploration(
            self.mechanism, models.end_effectors, max_error, reach, budget, on_found, on_failure
        )
        thread = self._exploration
        thread.start()
        return thread

    def cancel(self) -> None:
        """Ends an exploration, if one is running."""
        exploration = self._exploration
        if exploration is not None:
            exploration.cancel()

    # the engine for comparison

    @property
    def ghost(self) -> bool:
        """Whether the engine runs beside the chosen method, with the same handles, for comparison."""
        return self._ghost is not None

    @ghost.setter
    def ghost(self, wanted: bool) -> None:
        if not wanted:
            ghost, self._ghost = self._ghost, None
            if ghost is not None:
                ghost.stop()
            return
        if self._ghost is not None:
            return
        if self._method == "engine":
            self.notify("the engine itself is shown; choose another method to compare it with")
            return
        if self._runner.control is not None:
            self.notify("the engine's shape is not shown beside a controller, which moves one simulation only")
            return
        try:
            sim = self._mechanism_models().begin("engine", self.dt)
            with self._runner.lock:
                _copy_inputs(self._runner.sim, sim)
                self._move_to_present_pose(sim, "the engine's shape")
        except (MechanismError, ConvergenceError) as error:
            self.notify(f"the engine: {error}", warning=True)
            return
        self._ghost_poses = sim.poses
        ghost = Runner(sim, self._apply_targets, self._update_ghost_poses, self._on_failed_ghost_step, self.clock)
        ghost.speed, ghost.paused = self.speed, self.paused
        self._ghost = ghost
        ghost.start()

    def _update_ghost_poses(self) -> None:
        """The ghost's own thread calls this after its steps, so that no other thread waits for the ghost's lock."""
        ghost = self._ghost
        if ghost is not None:
            with ghost.lock:
                self._ghost_poses = ghost.sim.poses

    @property
    def _runners(self) -> list[Runner]:
        return [runner for runner in (self._runner, self._ghost) if runner is not None]

    # compliance

    @property
    def ellipsoids(self) -> bool:
        """Whether frames have the compliance ellipsoids of the end effectors."""
        return self._shows_ellipsoids

    @ellipsoids.setter
    def ellipsoids(self, wanted: bool) -> None:
        with self._runner.lock:
            self._shows_ellipsoids = wanted
            if wanted and not self._measured_ellipsoids() and self._shows_ellipsoids:
                self._shows_ellipsoids = False
                self.notify(f"the {self._method} method gives no compliance; linear and blended models do")
        self._publish(at_once=True, keep=False)

    @property
    def has_ellipsoids(self) -> bool:
        """Whether a method of this session gives the compliance of end effectors. It computes the present ones."""
        with self._runner.lock:
            return self.changeable or bool(self._runner.sim.ellipsoids)

    def _measured_ellipsoids(self, at_once: bool = True) -> dict[str, Ellipsoid]:
        """The ellipsoids now, if they are asked for; the caller holds the lock."""
        if not self._shows_ellipsoids:
            return {}
        try:
            return self._meter.ellipsoids(self._runner.sim, at_once)
        except (MechanismError, ConvergenceError) as error:
            self._shows_ellipsoids = False
            self.notify(f"no compliance here: {error}", warning=True)
            return {}

    # frames

    @property
    def series(self) -> dict[str, Array]:
        """The last half minute, (n,) each: time s, separation, displacement, kinetic and stored J, force N."""
        rows = np.array(list(self._series)).reshape(-1, len(SERIES))
        return dict(zip(SERIES, rows.T, strict=True))

    def _new_meter(self, sim: Moving) -> Meter:
        """For a simulation at its start."""
        return Meter(self.mechanism, sim.poses, self.end_effectors, self.clock)

    def _make_frame(self, at_once: bool = True) -> Frame:
        """A frame of the present state; the caller holds the lock. Without `at_once`, quantities that are expensive to
        measure may be those of an earlier frame."""
        runner, sim = self._runner, self._runner.sim
        poses = sim.poses
        pulls = {}
        for name in self.end_effectors:
            point = poses[name][:3, 3].copy()
            target = self.targets.get(name)
            force = np.zeros(3) if target is None else sim.handle_stiffness(name) * (target - point)
            pulls[name] = Pull(point, target, force)
        separations, total = self._meter.separations(sim, at_once)
        if at_once or self.clock() >= self._last_sample + 1 / SAMPLE_RATE:
            self._energy = sim.energy
        return Frame(
            time=sim.time + self._time_offset,
            method=self._method,
            mechanism=self.mechanism,
            poses=poses,
            ghost=None if self._ghost is None else self._ghost_poses,
            pulls=pulls,
            joint_separations=separations,
            moving_joints=sim.moving_joints,
            separation=total,
            displacement=self._meter.displacement(poses),
            kinetic=self._energy.kinetic,
            stored=self._energy.total - self._energy.kinetic - self._initial_energy,
            contacts=tuple(sim.contacts),
            touches=dict(sim.touches),
            ellipsoids=self._measured_ellipsoids(at_once),
            real_time_factor=runner.real_time_factor,
            attainable_factor=sim.dt / runner.step_cost if runner.step_cost else 0.0,
        )

    def _publish(self, at_once: bool = False, keep: bool = True) -> None:
        """Replaces `frame`; without `at_once`, only if the last frame is old enough. Without `keep`, or in a pause,
        the state is not a new one, and is neither saved nor recorded."""
        now = self.clock()
        if not at_once and now < self._last_frame + 1 / self._frame_rate:
            return
        self._last_frame = now
        with self._runner.lock:
            keep = keep and (at_once or not self.paused)
            if keep:
                self._history.take(self._runner.sim)
            frame = self._make_frame(at_once)
            self.frame = frame
            self.new_frame.set()
            if at_once or now >= self._last_sample + 1 / SAMPLE_RATE:
                self._last_sample = now
                self._series.append(tuple(getattr(frame, name) for name in SERIES))
            if self._recorder is not None and keep:
                self._record_frame(self._recorder, frame.time)
        if frame.separation > RANGE and not self._out_of_range:
            self._out_of_range = True
            self.notify(
                f"pulled beyond the range of the {frame.method} model: its joints are {frame.separation:.2f} of the "
                "radius apart in all; linearise here, explore, or choose the engine",
                warning=True,
            )
        elif frame.separation < 0.5 * RANGE:
            self._out_of_range = False

    # messages

    def notify(self, text: str, warning: bool = False) -> None:
        """Adds a line for the user to `messages`."""
        self.messages.append(Message(text, warning))

    def _on_failed_step(self, error: Exception) -> None:
        self.paused = True
        if isinstance(error, ControllerError):
            self.notify(f"paused: {error}. Nothing is lost: press Pause to call it again", warning=True)
            return
        self._failed = True
        self.notify(f"paused: {error}. To go on, reset or choose another method", warning=True)

    def _on_failed_ghost_step(self, error: Exception) -> None:
        """Pauses the ghost only."""
        self.notify(f"the engine's shape stopped: {error}. Reset to go on", warning=True)

    def _resume_after_failure(self) -> None:
        """Ends a pause that a failed step caused; a pause by the user stays."""
        if self._failed:
            self._failed = self._runner.paused = False
        if self._ghost is not None:
            self._ghost.paused = self._runner.paused

    # recording

    @property
    def recording(self) -> bool:
        """Whether frames are being recorded."""
        return self._recorder is not None

    def record(self) -> None:
        """Starts to record frames, 30 per second."""
        with self._runner.lock:
            self._recorder = Recorder(self._runner.sim)

    def _record_frame(self, recorder: Recorder, time: float) -> None:
        try:
            recorder.offer(self._runner.sim, time)
        except MechanismError as error:  # the motion goes on
            self._recorder = None
            self.notify(f"the recording ended: {error}", warning=True)

    def recorded(self) -> Recording:
        """Ends recording and returns the recorded frames."""
        recorder, self._recorder = self._recorder, None
        if recorder is None:
            raise MechanismError("nothing is being recorded")
        return recorder.recording


def _models(
    subject: Mechanism | Moving | SceneModels, end_effectors: Sequence[str] | None, controller: Controller | None
) -> Models | GivenModel | SceneModels:
    """The models of what a session was given."""
    if isinstance(subject, SceneModels):
        if end_effectors is not None or controller is not None:
            raise MechanismError(
                f"the scene '{subject.name}' comes with its own end effectors and controller; name none"
            )
        return subject
    if hasattr(type(subject), "step"):
        return GivenModel(subject, end_effectors, controller)  # type: ignore[arg-type]
    check_mechanism(subject)
    mech = startable(subject)  # type: ignore[arg-type]  # checked
    return Models(mech, likely_end_effectors(mech) if end_effectors is None else end_effectors, controller)


def _copy_inputs(source: Moving, to: Moving) -> None:
    """Sets the set-points and controls of another simulation of the same mechanism."""
    for kind, setter in (("targets", to.set_targets), ("controls", to.set_control)):
        own = getattr(to, kind)
        changed = {name: value for name, value in getattr(source, kind).items() if name in own and value != own[name]}
        if changed:
            setter(changed)
