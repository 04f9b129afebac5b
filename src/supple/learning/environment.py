"""`BatchEnv`: a `gymnasium.vector` environment on a `supple.Batch`."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supple.errors import ConvergenceError, MechanismError
from supple.mechanism.record import Array
from supple.reduced import Batch

try:
    from gymnasium.spaces import Box
    from gymnasium.vector import AutoresetMode, VectorEnv
    from gymnasium.vector.utils import batch_space
except ImportError as error:
    raise ImportError("supple.learning needs gymnasium: pip install 'supple[gym]'") from error


class BatchEnv(VectorEnv):  # type: ignore[misc]
    """Environments that are the copies of a batch. An action is a set-point for each of some joints.

    A subclass defines a task by `observe`, `reward` and `begin`. Episodes end after `episode_steps` actions
    (truncation), or when a copy has no next state (termination). The copy is reset in the step that follows
    (gymnasium's mode "next step"): the action of that step is ignored and its reward is zero.

    Args:
        batch: the copies.
        actuated: names of the set-points (joints, couplings or motors) that the actions change.
        span: largest change of a set-point from its value in the model, rad or m. Actions in [-1, 1] are scaled by it.
        observation_size: length of one copy's observation.
        steps_per_action: time steps between two actions.
        episode_steps: actions in one episode.
    """

    def __init__(
        self,
        batch: Batch,
        actuated: Sequence[str],
        span: float,
        observation_size: int,
        *,
        steps_per_action: int = 5,
        episode_steps: int = 100,
    ) -> None:
        if not actuated:
            raise MechanismError("name at least one set-point that actions change")
        if not 0 < span < np.inf:
            raise MechanismError(f"span must be a positive number (rad or m), got {span!r}")
        for what, value in (("steps_per_action", steps_per_action), ("episode_steps", episode_steps)):
            if not isinstance(value, int) or value < 1:
                raise MechanismError(f"{what} must be a whole number, 1 or more, got {value!r}")
        self.batch, self.actuated, self.span = batch, tuple(actuated), float(span)
        self.steps_per_action, self.episode_steps = steps_per_action, episode_steps
        self.num_envs = batch.n
        self.single_action_space = Box(-1.0, 1.0, (len(self.actuated),), np.float64)
        self.single_observation_space = Box(-np.inf, np.inf, (observation_size,), np.float64)
        self.action_space = batch_space(self.single_action_space, batch.n)
        self.observation_space = batch_space(self.single_observation_space, batch.n)
        self.metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}
        self._rest = np.array([batch.rest_target(name) for name in self.actuated])
        self._actions = np.zeros(batch.n, dtype=np.int64)  # since the start of the episode
        self._ended = np.zeros(batch.n, dtype=bool)

    @abstractmethod
    def observe(self) -> Array:
        """(n, observation_size) observations of all copies."""

    @abstractmethod
    def reward(self, actions: Array) -> Array:
        """(n,) rewards of the present state, which actions (n, k) led to."""

    def begin(self, copies: NDArray[np.int64], rng: np.random.Generator) -> None:
        """Prepares an episode of some copies, for example draws a goal; they are in the model's state already."""

    def reset(
        self, *, seed: int | list[int] | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Array, dict[str, Any]]:
        """Begins new episodes; with options={"reset_mask": (n,) mask}, of these copies only."""
        super().reset(seed=seed)
        mask = (options or {}).get("reset_mask")
        given = np.ones(self.num_envs, dtype=bool) if mask is None else np.asarray(mask)
        if given.shape != (self.num_envs,) or given.dtype != bool:
            found = f"{given.dtype} {given.shape}"
            raise MechanismError(f"reset_mask must be a mask ({self.num_envs},) of bool, got {found}")
        self._start(np.flatnonzero(given))
        return self.observe(), {}

    def _start(self, copies: NDArray[np.int64]) -> None:
        self.batch.reset(copies)
        self._actions[copies] = 0
        self._ended[copies] = False
        self.begin(copies, self.np_random)

    def step(self, actions: Any) -> tuple[Array, Array, NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]:
        """One action (n, k) for each copy. Returns observations, rewards, terminations, truncations and an empty
        dictionary."""
        given = np.asarray(actions, dtype=np.float64)
        if given.shape != self.action_space.shape or not np.isfinite(given).all():
            raise MechanismError(f"actions must be finite and of shape {self.action_space.shape}, got {given.shape}")
        given = np.clip(given, -1.0, 1.0)
        setpoints = self._rest + self.span * given
        self.batch.set_targets(dict(zip(self.actuated, setpoints.T, strict=True)))
        terminated = np.zeros(self.num_envs, dtype=bool)
        try:
            self.batch.step(self.steps_per_action)
        except ConvergenceError:
            terminated[self.batch.failed] = True
        self._actions += 1
        restarted = np.flatnonzero(self._ended)
        if restarted.size:
            self._start(restarted)
        rewards = self.reward(given)
        rewards[restarted] = 0.0
        terminated[restarted] = False
        truncated = ~terminated & (self._actions >= self.episode_steps)
        self._ended = terminated | truncated
        return self.observe(), rewards, terminated, truncated, {}
