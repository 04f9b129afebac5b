"""A simulation whose time goes with the wall clock's."""

from __future__ import annotations

from collections.abc import Callable
from threading import Event, RLock, Thread
from time import perf_counter

from supple.errors import ConvergenceError
from supple.viewer.methods import Moving

PERIOD = 1 / 250
"""s between two looks at the clock."""
SLICE = 0.02
"""s of computing at a time, so that nobody waits longer for the lock."""
LAG = 0.1
"""s that a slow simulation may be behind; the rest is given up, so that it runs slowly instead of ever later."""
SMOOTHING = 0.5
"""s over which the real-time factor is averaged."""


class Runner:
    """Steps a simulation in a thread of its own. Whoever else touches `sim` holds `lock`.

    `before` is called with the runner ahead of its steps, with the lock; `after` behind them, without.
    `failed` is called with the error of a step that could not be made; the simulation is then paused at its last
    good step.
    """

    def __init__(
        self,
        sim: Moving,
        before: Callable[[Runner], None] = lambda runner: None,
        after: Callable[[], None] = lambda: None,
        failed: Callable[[ConvergenceError], None] = lambda error: None,
    ) -> None:
        self.sim, self.lock = sim, RLock()
        self.speed, self.paused = 1.0, False
        self.acted: object = None
        """What `before` acted on last; its own affair."""
        self.factor = 0.0
        """Simulated seconds a second."""
        self.cost = 0.0
        """s of computing a step takes; 0 before the first."""
        self._before, self._after, self._failed = before, after, failed
        self._debt = 0.0
        self._stop, self._thread = Event(), Thread(target=self._run, name="supple simulation", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ends the thread, if it was started."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()

    def tick(self, elapsed: float) -> None:
        """Steps by as much as `elapsed` seconds of the wall clock ask for, within a slice of computing."""
        with self.lock:
            self._before(self)
            done = 0
            if self.paused:
                self._debt = 0.0
            else:
                self._debt = min(self._debt + elapsed * self.speed, LAG * max(self.speed, 1.0))
                done = self._step(int(self._debt / self.sim.dt))
                self._debt -= done * self.sim.dt
            if elapsed > 0:
                share = min(elapsed / SMOOTHING, 1.0)
                self.factor += share * (done * self.sim.dt / elapsed - self.factor)

    def _step(self, wanted: int) -> int:
        """Steps that were made."""
        start, done = perf_counter(), 0
        while done < wanted and (spent := perf_counter() - start) < SLICE:
            fits = int(0.5 * (SLICE - spent) / self.cost) if self.cost else 1
            n = min(wanted - done, max(1, fits))
            before = perf_counter()
            try:
                self.sim.step(n)
            except ConvergenceError as error:
                self.paused = True
                self._failed(error)
                break
            cost = (perf_counter() - before) / n
            self.cost = cost if not self.cost else 0.9 * self.cost + 0.1 * cost
            done += n
        return done

    def _run(self) -> None:
        last = perf_counter()
        while not self._stop.wait(PERIOD):
            now = perf_counter()
            self.tick(now - last)
            last = now
            self._after()
