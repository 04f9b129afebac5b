"""A mechanism in motion that a user acts on: what the viewer shows, without the viewer."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from os import cpu_count
from threading import Event, Lock, Thread
from time import perf_counter

import numpy as np
from numpy.typing import ArrayLike

from supple.engine import Simulation
from supple.engine.dynamics import handle_spring
from supple.errors import ConvergenceError, MechanismError
from supple.mechanism import Mechanism
from supple.mechanism.mechanism import check_mechanism
from supple.mechanism.record import Array, array
from supple.reduced import BlendedModel, ReducedSimulation, explore
from supple.reduced.simulation import RANGE
from supple.viewer.adaptive import AdaptiveMotion
from supple.viewer.measures import Frame, Meter, Pull
from supple.viewer.methods import Models, Moving, likely_end_effectors, likely_method
from supple.viewer.recording import Recorder, Recording
from supple.viewer.runner import Runner
from supple.viewer.scenery import SceneModels, SceneMotion

FRAMES = 60
"""Frames a second, at most."""
SAMPLES = 20
"""Points of the live series a second."""
KEPT = 600
"""Points that are kept."""
CATCH_UP = 0.15
"""s of computing that a newly chosen method gets to come to where the former one was."""
FIRM = 30.0
"""Stiffness of the handles that bring it there, over that of a user's."""
NEAR = 0.01
"""Distance over the radius within which it is there already."""
SERIES = ("time", "separation", "displacement", "kinetic", "stored", "force")


@dataclass(frozen=True)
class Message:
    """A line for the user."""

    text: str
    warning: bool = False


class Session:
    """A mechanism moved by a method of `supple.viewer.methods.METHODS`, in a thread of its own, at real time.

    Every call may come from any thread. `end_effectors` are bodies or sites that can be pulled, by default those
    that look like tips. What cannot be done is told in `messages`, and raised as `MechanismError` where the caller
    is at fault.
    """

    def __init__(
        self,
        subject: Mechanism | SceneModels,
        end_effectors: Sequence[str] | None = None,
        method: str | None = None,
        dt: float = 2e-3,
    ) -> None:
        if not isinstance(subject, SceneModels):
            check_mechanism(subject)
        self.mechanism, self.dt = (subject if isinstance(subject, Mechanism) else subject.mechanism), dt
        self.messages: deque[Message] = deque(maxlen=40)
        self.targets: dict[str, Array] = {}
        """(3,) where end effectors are pulled to, m; replaced, never changed."""
        self._hand = Lock()
        self.progress: float | None = None
        """How far an exploration has come, 0 to 1; None if there is none."""
        self.fresh = Event()
        """Set with every new frame, for whoever waits for one."""
        self._series: deque[tuple[float, ...]] = deque(maxlen=KEPT)
        self._stiffness = handle_spring(self.mechanism, None, None)[0]
        self._recorder: Recorder | None = None
        self._ghost: Runner | None = None
        self._ghost_poses = np.zeros((0, 4, 4))
        self._cancelled = False
        self._beyond = self._failed = False
        self._sampled = self._published = -np.inf
        if isinstance(subject, Mechanism):
            tips = likely_end_effectors(subject) if end_effectors is None else end_effectors
            self._models: Models | SceneModels = Models(subject, tips)
            self._method = likely_method(subject) if method is None else method
        else:
            if end_effectors is not None:
                raise MechanismError(f"the scene '{subject.name}' comes with its own end effectors; name none")
            self._models, self._method = subject, method or "reduced"
        self._offset = 0.0
        self._runner = Runner(self._models.begin(self._method, dt), self._act, self._publish, self._stopped)
        self._meter = self._new_meter(self._runner.sim)
        self._energy = self._meter.energy(self._runner.sim)
        self._rest_energy = self._energy[1]
        self.frame: Frame = self._look()
        """The latest one."""

    # its life

    def start(self) -> None:
        """Begins to move, in a thread of its own."""
        self._runner.start()

    def stop(self) -> None:
        """Ends for good."""
        self._cancelled = True
        self.ghost = False
        self._runner.stop()

    def __enter__(self) -> Session:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    # time

    @property
    def paused(self) -> bool:
        return self._runner.paused

    @paused.setter
    def paused(self, value: bool) -> None:
        for runner in self._runners:
            runner.paused = value

    @property
    def speed(self) -> float:
        """Simulated seconds a second that are aimed at."""
        return self._runner.speed

    @speed.setter
    def speed(self, value: float) -> None:
        if not 0 < value < np.inf:
            raise MechanismError(f"speed must be a positive number, got {value!r}")
        for runner in self._runners:
            runner.speed = float(value)

    def step(self, n: int = 1) -> None:
        """So many steps at once, for a simulation that is paused."""
        for runner, failed in zip(self._runners, (self._stopped, self._ghost_stopped), strict=False):
            with runner.lock:
                self._act(runner)
                try:
                    runner.sim.step(n)
                except ConvergenceError as error:
                    failed(error)
        self._publish(at_once=True)

    def reset(self) -> None:
        """Back to rest, nothing pulled. Models that were added stay."""
        self.targets = {}
        for runner in self._runners:
            with runner.lock:
                runner.sim.reset()
                self._pull(runner.sim)
        with self._runner.lock:
            self._series.clear()
            self._beyond, self._sampled, self._offset = False, -np.inf, 0.0
        self._go_on()
        self._publish(at_once=True)

    # acting on it

    @property
    def end_effectors(self) -> tuple[str, ...]:
        return self._models.end_effectors

    @end_effectors.setter
    def end_effectors(self, names: Sequence[str]) -> None:
        """Another level of detail. Models of the former end effectors are forgotten."""
        self._of_mechanism()
        with self._runner.lock:
            former, ghost = self._models, self.ghost
            self._models = Models(self.mechanism, names)
            if not self._change(self._method):
                self._models = former
            elif ghost:
                self.ghost = False
                self.ghost = True

    def pull(self, end_effector: str, point: ArrayLike | None) -> None:
        """Pulls an end effector to a point (3,) of the world, m, by a spring; `None` lets go. It acts from the
        next step on; nobody waits."""
        if end_effector not in self.end_effectors:
            raise MechanismError(f"'{end_effector}' is no end effector now; those are {', '.join(self.end_effectors)}")
        with self._hand:
            others = {name: at for name, at in self.targets.items() if name != end_effector}
            if point is not None:
                others[end_effector] = array(point, (3,), f"the point to pull '{end_effector}' to")
            self.targets = others

    def let_go(self) -> None:
        """Pulls at nothing."""
        self.targets = {}

    @property
    def is_scene(self) -> bool:
        """Whether it comes with its own models and end effectors."""
        return isinstance(self._models, SceneModels)

    @property
    def methods(self) -> dict[str, str]:
        """Names that `method` can have, and what they are."""
        return self._models.texts

    @property
    def method(self) -> str:
        return self._method

    @method.setter
    def method(self, name: str) -> None:
        if name != self._method:
            self._change(name)

    def _change(self, method: str) -> bool:
        """Whether the method could be begun; the former one goes on otherwise."""
        with self._runner.lock:
            try:
                new = self._models.begin(method, self.dt)
                meter = self._new_meter(new)
                self.targets = {n: at for n, at in self.targets.items() if n in self.end_effectors}
                self._catch_up(new, method)
            except (MechanismError, ConvergenceError) as error:
                self.tell(f"{method}: {error}", warning=True)
                return False
            self._offset += self._runner.sim.time - new.time
            self._runner.sim, self._runner.cost = new, 0.0
            self._method, self._meter, self._beyond = method, meter, False
            if self._ghost is not None and method == "engine":
                self.ghost = False
        self._go_on()
        self.tell(f"moved by the {method} {'model' if isinstance(new, ReducedSimulation) else 'method'} now")
        self._publish(at_once=True)
        return True

    def _act(self, runner: Runner) -> None:
        """Hands a simulation the targets, if they are new; the caller holds its lock."""
        if runner.acted is not self.targets:
            runner.acted = self.targets
            self._pull(runner.sim)

    def _pull(self, sim: Moving) -> None:
        targets = self.targets
        for name in self.end_effectors:
            sim.pull(name, targets.get(name))

    def _catch_up(self, sim: Moving, method: str) -> None:
        """From rest to where the end effectors are now, for so long as a user does not mind to wait; then the handles
        pull it. Where it cannot come there it starts at rest."""
        poses = self._runner.sim.poses
        points = {name: poses[name][:3, 3].copy() for name in self.end_effectors}
        try:
            if not self._failed:
                self._come_to(sim, points)
        except ConvergenceError as error:
            sim.reset()
            self.tell(f"{method}: starts at rest, since it cannot come to where the former was: {error}", warning=True)
        self._pull(sim)

    def _come_to(self, sim: Moving, points: dict[str, Array]) -> None:
        poses, radius = sim.poses, self.mechanism.radius or 1.0
        if max(float(np.linalg.norm(poses[name][:3, 3] - point)) for name, point in points.items()) < NEAR * radius:
            return
        for name, point in points.items():
            if isinstance(sim, Simulation | ReducedSimulation):
                sim.pull(name, point, FIRM * self._stiffness)
            else:
                sim.pull(name, point)
        end = perf_counter() + CATCH_UP
        while perf_counter() < end:
            sim.step(5)

    # better models

    def linearise_here(self) -> bool:
        """Adds a linear model where the end effectors are now; whether that was possible."""
        models = self._of_mechanism()
        if self._method not in ("linear", "blended"):
            self.tell(f"the {self._method} is exact here already; `Linearise here` is for linear and blended models")
            return False
        if self._method == "linear" and models.blended is not None and not self._change("blended"):
            return False
        with self._runner.lock:
            sim = self._runner.sim
            assert isinstance(sim, ReducedSimulation)
            before = self._meter.apart(sim)[1]
            try:
                sim.grow()
            except (MechanismError, ConvergenceError) as error:
                self.tell(f"no model was added: {error}", warning=True)
                return False
            assert isinstance(sim.model, BlendedModel)
            models.blended, self._method = sim.model, "blended"
            self.tell(f"{len(sim.model.models)} models; the joints were {before:.3f} of the radius apart before")
        return True

    def explore(self, max_error: float = 0.05, reach: float = 0.5, budget: int = 100) -> Thread:
        """Finds models by itself, in the background; then the blended model moves the mechanism."""
        models = self._of_mechanism()
        if self.progress is not None:
            raise MechanismError("an exploration is going on already; cancel it first")
        self.progress, self._cancelled = 0.0, False
        thread = Thread(target=self._explore, args=(models, max_error, reach, budget), daemon=True)
        thread.start()
        return thread

    def _of_mechanism(self) -> Models:
        if isinstance(self._models, SceneModels):
            raise MechanismError("a scene keeps its own models; this is for single mechanisms")
        return self._models

    def cancel(self) -> None:
        """Ends an exploration."""
        self._cancelled = True

    def _explore(self, models: Models, max_error: float, reach: float, budget: int) -> None:
        def tell(fraction: float) -> None:
            if self._cancelled:
                raise _Cancelled
            self.progress = fraction

        try:
            with ThreadPoolExecutor(max(1, (cpu_count() or 2) - 1)) as pool:
                found = explore(
                    self.mechanism, models.end_effectors, max_error, reach, budget=budget, executor=pool, progress=tell
                )
        except _Cancelled:
            self.tell("the exploration was cancelled")
        except (MechanismError, ConvergenceError) as error:
            self.tell(f"the exploration failed: {error}", warning=True)
        else:
            told = found.exploration
            assert told is not None
            self.tell(
                f"{told.models} models; {told.within:.0%} of {len(told.after)} fresh points are within an error of "
                f"{told.max_error:g}",
                warning=not told.met,
            )
            if models is self._models:
                models.blended = found
                self._change("blended")
        self.progress = None

    # the engine beside it

    @property
    def ghost(self) -> bool:
        """Whether the engine moves beside the chosen method, pulled alike."""
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
            self.tell("the engine itself is shown; choose another method to compare it with")
            return
        try:
            sim = self._of_mechanism().begin("engine", self.dt)
            with self._runner.lock:
                self._catch_up(sim, "the engine's shape")
        except (MechanismError, ConvergenceError) as error:
            self.tell(f"the engine: {error}", warning=True)
            return
        self._ghost_poses = sim.poses.array
        ghost = Runner(sim, self._act, self._look_at_ghost, self._ghost_stopped)
        ghost.speed, ghost.paused = self.speed, self.paused
        self._ghost = ghost
        ghost.start()

    def _look_at_ghost(self) -> None:
        """Called by the ghost's own thread, so that nobody else waits for it."""
        ghost = self._ghost
        if ghost is not None:
            with ghost.lock:
                self._ghost_poses = ghost.sim.poses.array

    @property
    def _runners(self) -> list[Runner]:
        return [runner for runner in (self._runner, self._ghost) if runner is not None]

    # looking at it

    @property
    def series(self) -> dict[str, Array]:
        """The last half minute, (n,) each: time s, separation, displacement, kinetic and stored J, force N."""
        rows = np.array(list(self._series)).reshape(-1, len(SERIES))
        return dict(zip(SERIES, rows.T, strict=True))

    def _new_meter(self, sim: Moving) -> Meter:
        """For a simulation that is at rest."""
        return Meter(self.mechanism, sim.poses, self.end_effectors)

    def _look(self, at_once: bool = True) -> Frame:
        """A frame of the present state; the caller holds the lock."""
        runner, sim = self._runner, self._runner.sim
        poses = sim.poses
        pulls = {}
        for name in self.end_effectors:
            point = poses[name][:3, 3].copy()
            target = self.targets.get(name)
            k = sim.stiffness(name) if isinstance(sim, AdaptiveMotion | SceneMotion) else self._stiffness
            force = np.zeros(3) if target is None else k * (target - point)
            pulls[name] = Pull(point, target, force)
        apart, total = self._meter.apart(sim, at_once)
        if perf_counter() >= self._sampled + 1 / SAMPLES:
            self._energy = self._meter.energy(sim)
        return Frame(
            time=sim.time + self._offset,
            method=self._method,
            poses=poses.array,
            ghost=None if self._ghost is None else self._ghost_poses,
            pulls=pulls,
            apart=apart,
            lit=sim.lit if isinstance(sim, AdaptiveMotion) else None,
            separation=total,
            displacement=self._meter.displacement(poses),
            kinetic=self._energy[0],
            stored=self._energy[1] - self._rest_energy,
            factor=runner.factor,
            could=sim.dt / runner.cost if runner.cost else 0.0,
        )

    def _publish(self, at_once: bool = False) -> None:
        now = perf_counter()
        if not at_once and now < self._published + 1 / FRAMES:
            return
        self._published = now
        with self._runner.lock:
            frame = self._look(at_once)
            self.frame = frame
            self.fresh.set()
            if at_once or now >= self._sampled + 1 / SAMPLES:
                self._sampled = now
                self._series.append(tuple(getattr(frame, name) for name in SERIES))
            if self._recorder is not None:
                self._recorder.take(frame.time, frame.poses)
        if frame.separation > RANGE and not self._beyond:
            self._beyond = True
            self.tell(
                f"pulled beyond the range of the {frame.method} model: its joints are {frame.separation:.2f} of the "
                "radius apart in all; linearise here, explore, or choose the engine",
                warning=True,
            )
        elif frame.separation < 0.5 * RANGE:
            self._beyond = False

    def _stopped(self, error: ConvergenceError) -> None:
        self.paused = self._failed = True
        self.tell(f"paused: {error}. Reset, or another method, goes on", warning=True)

    def _ghost_stopped(self, error: ConvergenceError) -> None:
        """Only the ghost stands still."""
        self.tell(f"the engine's shape stopped: {error}. Reset goes on", warning=True)

    def _go_on(self) -> None:
        """Ends a pause that a failed step made; a user's own stays."""
        if self._failed:
            self._failed = self._runner.paused = False
        if self._ghost is not None:
            self._ghost.paused = self._runner.paused

    def tell(self, text: str, warning: bool = False) -> None:
        """A line for the user."""
        self.messages.append(Message(text, warning))

    # keeping it

    @property
    def recording(self) -> bool:
        """Whether frames are being kept."""
        return self._recorder is not None

    def record(self) -> None:
        """Begins to keep frames."""
        self._recorder = Recorder(self.mechanism, self._method, self.end_effectors)

    def recorded(self) -> Recording:
        """Ends recording and returns what was kept."""
        recorder, self._recorder = self._recorder, None
        if recorder is None:
            raise MechanismError("nothing is being recorded")
        return recorder.recording


class _Cancelled(Exception):
    pass


