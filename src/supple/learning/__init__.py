"""Environments for learning: batches behind the interface of `gymnasium.vector` (extra `gym`)."""

from supple.learning.environment import BatchEnv
from supple.learning.reaching import ReachEnv

__all__ = ["BatchEnv", "ReachEnv"]
