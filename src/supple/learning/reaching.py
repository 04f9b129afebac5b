"""`ReachEnv`: an end effector shall reach a point and stay there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from supple.learning.environment import BatchEnv
from supple.mechanism.record import Array, array
from supple.reduced import Batch

CONTROL_COST = 0.01
"""Cost of a full action, over the largest distance of a goal."""


class ReachEnv(BatchEnv):
    """The first end effector of every copy shall reach a goal near its position at rest.

    The observation (9,) is the vector from the end effector to its goal (m, axes of the copy's base), its velocity
    (m/s, its own axes) and the vector from its rest position to the goal (m). The reward is minus the distance to the
    goal, m, less a small cost of the action.

    Args:
        batch, actuated, span, options: as in `BatchEnv`.
        reach: half the side (3,) of the box of goals around the rest position, m.
    """

    def __init__(
        self, batch: Batch, actuated: Sequence[str], span: float, reach: Sequence[float], **options: Any
    ) -> None:
        super().__init__(batch, actuated, span, 9, **options)
        self.box = array(reach, (3,), "reach")
        bases = batch.base_poses
        self._turns, self._origins = bases[:, :3, :3], bases[:, :3, 3]
        self._home = self._position
        self.goals = np.zeros((batch.n, 3))
        """(n, 3) goals relative to the rest positions, m."""

    @property
    def _position(self) -> Array:
        """(n, 3) positions of the end effectors in the axes of their bases."""
        away = self.batch.end_effector_poses[:, 0, :3, 3] - self._origins
        position: Array = np.einsum("nji,nj->ni", self._turns, away)
        return position

    @property
    def distances(self) -> Array:
        """(n,) distances of the end effectors from their goals, m."""
        return np.asarray(np.linalg.norm(self._home + self.goals - self._position, axis=1))

    def begin(self, copies: NDArray[np.int64], rng: np.random.Generator) -> None:
        self.goals[copies] = self.box * rng.uniform(-1.0, 1.0, size=(len(copies), 3))

    def observe(self) -> Array:
        ahead = self._home + self.goals - self._position
        return np.concatenate([ahead, self.batch.end_effector_velocities[:, 0, :3], self.goals], axis=1)

    def reward(self, actions: Array) -> Array:
        cost = CONTROL_COST * float(np.linalg.norm(self.box)) * (actions**2).mean(axis=1)
        return np.asarray(-self.distances - cost)
