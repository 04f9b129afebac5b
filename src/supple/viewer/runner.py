"""Steps a simulation in real time."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event, RLock, Thread

from supple.errors import ConvergenceError, MechanismError
from supple.mechanism.moving import Moving
from supple.viewer.clock import WALL_CLOCK, Clock
from supple.viewer.control import Control

PERIOD = 1 / 250
"""s between two readings of the clock."""
MAX_SLICE = 0.02
"""s of computing at a time: nobody waits longer than this for the lock."""
MAX_LAG = 0.1
"""s of simulated time that may be overdue. The rest is dropped: a slow simulation runs slower than real time, but its
delay does not grow."""
SMOOTHING = 0.5
"""s, time constant of the averaged real-time factor."""


class Runner:
    """Steps a simulation in a thread of its own, at `speed` simulated seconds per second of `clock`.

    Hold `lock` to use `sim` from another thread. The callbacks: `before_steps(runner)` is called before each batch of
    steps, with the lock held; `after_steps()` after it, without the lock; `on_failure(error)` when a step fails. The
    simulation is then paused, in the state before the failed step.
    """

    def __init__(
        self,
        sim: Moving,
        before_steps: Callable[[Runner], None] = lambda runner: None,
        after_steps: Callable[[], None] = lambda: None,
        on_failure: Callable[[Exception], None] = lambda error: None,
        clock: Clock = WALL_CLOCK,
        control: Control | None = None,
    ) -> None:
        self.sim, self.lock, self.clock, self.control = sim, RLock(), clock, control
        self.speed, self.paused = 1.0, False
        self.applied_targets: object = None
        """The handle targets that `sim` has; `before_steps` keeps this up to date."""
        self.real_time_factor = 0.0
        """Simulated seconds per second, averaged over `SMOOTHING`."""
        self.step_cost = 0.0
        """s of computing per step, averaged; 0 before the first step."""
        self._before_steps, self._after_steps, self._on_failure = before_steps, after_steps, on_failure
        self._overdue = 0.0
        """s of simulated time that the clock asks for and that are not stepped yet."""
        self._last_reading = clock()
        self._stop, self._thread = Event(), Thread(target=self._run, name="supple simulation", daemon=True)

    def start(self) -> None:
        self._last_reading = self.clock()
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread, if it was started."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def poll(self) -> None:
        """Steps by the time that has passed on the clock since the last call. The thread calls this periodically."""
        now = self.clock()
        self.advance(now - self._last_reading)
        self._last_reading = now
        self._after_steps()

    def advance(self, elapsed: float) -> None:
        """Steps by `elapsed` seconds times `speed`, as far as one slice of computing suffices."""
        with self.lock:
            self._before_steps(self)
            steps = 0
            if self.paused:
                self._overdue = 0.0
            else:
                self._overdue = min(self._overdue + elapsed * self.speed, MAX_LAG * max(self.speed, 1.0))
                steps = self._step(int(self._overdue / self.sim.dt))
                self._overdue -= steps * self.sim.dt
            if elapsed > 0:
                weight = min(elapsed / SMOOTHING, 1.0)
                self.real_time_factor += weight * (steps * self.sim.dt / elapsed - self.real_time_factor)

    def make_steps(self, n: int) -> None:
        """Makes n time steps at once, with the controller."""
        if self.control is None:
            self.sim.step(n)
        else:
            self.control.step(self.sim, n)

    def _step(self, wanted: int) -> int:
        """Makes up to `wanted` steps within one slice; returns their number."""
        start, made = self.clock(), 0
        while made < wanted and (spent := self.clock() - start) < MAX_SLICE:
            affordable = int(0.5 * (MAX_SLICE - spent) / self.step_cost) if self.step_cost else 1
            n = min(wanted - made, max(1, affordable))
            before = self.clock()
            try:
                self.make_steps(n)
            except (ConvergenceError, MechanismError) as error:
                self.paused = True
                self._on_failure(error)
                break
            cost = (self.clock() - before) / n
            self.step_cost = cost if not self.step_cost else 0.9 * self.step_cost + 0.1 * cost
            made += n
        return made

    def _run(self) -> None:
        while not self._stop.wait(PERIOD):
            self.poll()
