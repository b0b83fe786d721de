"""Wrappers of vector observations."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from steplake.env import CompilerEnv
from steplake.errors import UsageError
from steplake.wrappers.core import CompilerEnvWrapper, ObservationWrapper

#: The number of Autophase's features, and the place of its total number of instructions.
_FEATURES, _TOTAL_INSTS = 56, 51


class ConcatActionsHistogram(ObservationWrapper):
    """Appends to each observation how often each action was taken in the episode.

    The observations have the shape ``(features + actions,)``.

    Parameters
    ----------
    env : CompilerEnv or CompilerEnvWrapper
        The environment to wrap. Its observations are vectors.
    norm_to_episode_len : int, optional
        Divide the counts by this number of steps, so that they are 1 together at the end of an
        episode so long; in a longer one, no count rises above 1. By default counts are whole
        numbers, of the type of the observations.

    Raises
    ------
    UsageError
        If the observations are no vectors, the actions have no numbers, or the length is negative.
        Also when ``env.observation_space`` is set to one without vectors.
    """

    def __init__(self, env: CompilerEnv | CompilerEnvWrapper, norm_to_episode_len: int = 0) -> None:
        super().__init__(env)
        if not isinstance(env.action_space, gymnasium.spaces.Discrete):
            raise UsageError(f"the actions of {env} have no numbers: wrap it further inside")
        if norm_to_episode_len < 0:
            raise UsageError(
                f"an episode cannot have {norm_to_episode_len} steps: give its length, or 0"
            )
        self.norm_to_episode_len = norm_to_episode_len
        self._actions = int(env.action_space.n)
        self.convert_space(env.observation_space)

    def convert_space(self, space: gymnasium.Space[Any]) -> gymnasium.Space[Any]:
        """Return the space of converted observations for the wrapped environment's space."""
        if not isinstance(space, gymnasium.spaces.Box) or len(space.shape) != 1:
            raise UsageError(
                f"{space} has no vectors: set `observation_space` to one that has, e.g. 'Autophase'"
            )
        kind = self._type_of(space.dtype)
        most: Any = np.inf if np.issubdtype(kind, np.floating) else np.iinfo(kind).max
        if self.norm_to_episode_len:
            most = 1
        return gymnasium.spaces.Box(
            np.concatenate((space.low, np.zeros(self._actions)), dtype=kind, casting="unsafe"),
            np.concatenate((space.high, np.full(self._actions, most, kind)), dtype=kind),
            dtype=kind.type,
        )

    def _type_of(self, kind: Any) -> np.dtype[Any]:
        """Return a type for the observations and the counts; only divided counts need floats."""
        return np.result_type(kind, np.float32) if self.norm_to_episode_len else np.dtype(kind)

    def convert_observation(self, observation: Any) -> NDArray[Any]:
        """Return the observation with the counts appended."""
        counts: Any = np.bincount(np.asarray(self.actions, np.intp), minlength=self._actions)
        if self.norm_to_episode_len:
            counts = np.minimum(counts / self.norm_to_episode_len, 1)
        kind = self._type_of(observation.dtype)
        return np.concatenate((observation, counts), dtype=kind, casting="unsafe")


class AutophaseNormalizedFeatures(ObservationWrapper):
    """Observes Autophase, divided by the program's present number of instructions.

    An observation is a float32 vector of the shape ``(56,)`` between 0 and 1: larger ratios are 1.
    Its component 51, the number of instructions itself, is 1; for a program without instructions,
    all components are 0. CompilerGym's wrapper has the same values.

    Parameters
    ----------
    env : CompilerEnv or CompilerEnvWrapper
        The environment to wrap. Its observation space is set to ``Autophase``.

    Raises
    ------
    UsageError
        If the environment has no Autophase, or a wrapper inside has changed it. Also when
        ``env.observation_space`` is set to another one.
    """

    def __init__(self, env: CompilerEnv | CompilerEnvWrapper) -> None:
        super().__init__(env)
        self.observation_space = "Autophase"

    def convert_space(self, space: gymnasium.Space[Any]) -> gymnasium.Space[Any]:
        """Return the space of converted observations for the wrapped environment's space."""
        if self.observation_space_name != "Autophase" or space.shape != (_FEATURES,):
            raise UsageError(
                f"the observations are not Autophase's {_FEATURES} features: leave "
                "`observation_space` at 'Autophase', and put other wrappers of it around this one"
            )
        return gymnasium.spaces.Box(0, 1, (_FEATURES,), np.float32)

    def convert_observation(self, observation: Any) -> NDArray[np.float32]:
        """Return the features divided by the number of instructions."""
        total = max(int(observation[_TOTAL_INSTS]), 1)
        ratios: NDArray[np.float32] = np.clip(observation / total, 0, 1).astype(np.float32)
        return ratios
