"""`supple.explore` in the background."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from os import cpu_count
from threading import Thread

from supple.errors import ConvergenceError, MechanismError
from supple.mechanism import Mechanism
from supple.reduced import BlendedModel, explore


class Exploration(Thread):
    """Finds linear models of a mechanism and calls `on_found(model)` with the blended model, in its own thread; or
    `on_failure(text, warning)` when it was cancelled or failed."""

    def __init__(
        self,
        mech: Mechanism,
        end_effectors: tuple[str, ...],
        max_error: float,
        reach: float,
        budget: int,
        on_found: Callable[[BlendedModel], None],
        on_failure: Callable[[str, bool], None],
    ) -> None:
        super().__init__(name="supple exploration", daemon=True)
        self.progress = 0.0
        """Fraction done, 0 to 1."""
        self._mechanism, self._end_effectors = mech, end_effectors
        self._max_error, self._reach, self._budget = max_error, reach, budget
        self._on_found, self._on_failure = on_found, on_failure
        self._cancelled = False

    def cancel(self) -> None:
        """Ends the search at the next point that it tries."""
        self._cancelled = True

    def run(self) -> None:
        try:
            with ThreadPoolExecutor(max(1, (cpu_count() or 2) - 1)) as pool:
                model = explore(
                    self._mechanism,
                    self._end_effectors,
                    self._max_error,
                    self._reach,
                    budget=self._budget,
                    executor=pool,
                    progress=self._set_progress,
                )
        except _Cancelled:
            self._on_failure("the exploration was cancelled", False)
        except (MechanismError, ConvergenceError) as error:
            self._on_failure(f"the exploration failed: {error}", True)
        else:
            self._on_found(model)

    def _set_progress(self, fraction: float) -> None:
        if self._cancelled:
            raise _Cancelled
        self.progress = fraction


class _Cancelled(Exception):
    pass
