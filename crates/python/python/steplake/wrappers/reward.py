"""Wrappers of rewards."""

from __future__ import annotations

from steplake.env import CompilerEnv
from steplake.errors import UsageError
from steplake.wrappers.core import CompilerEnvWrapper, RewardWrapper


class ClampedReward(RewardWrapper):
    """Keeps rewards between two bounds, but for a share of what lies beyond.

    Parameters
    ----------
    env : CompilerEnv or CompilerEnvWrapper
        The environment to wrap.
    min, max : float, optional
        The bounds.
    leakiness_factor : float, optional
        The share of what lies beyond them that is kept, so that a larger reward stays a larger one.

    Raises
    ------
    UsageError
        If the lower bound is above the upper one.
    """

    def __init__(
        self,
        env: CompilerEnv | CompilerEnvWrapper,
        min: float = -1.0,
        max: float = 1.0,
        leakiness_factor: float = 0.001,
    ) -> None:
        super().__init__(env)
        if min > max:
            raise UsageError(f"no reward is between {min} and {max}: give the lower bound first")
        self.min, self.max = min, max
        self.leakiness_factor = leakiness_factor

    def convert_reward(self, reward: float) -> float:
        """Return the reward between the bounds, with a share of what lies beyond."""
        # A NaN, of code that cannot be made, stays one.
        bounded = self.max if reward > self.max else self.min if reward < self.min else reward
        return bounded + (reward - bounded) * self.leakiness_factor
