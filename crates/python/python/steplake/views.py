"""Observations and rewards of an environment by name, computed when they are asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from steplake.errors import UsageError

if TYPE_CHECKING:
    from gymnasium import Space

    from steplake.env import CompilerEnv


class ObservationView(Mapping[str, Any]):
    """``env.observation["InstCount"]``: looks at the present state, in any observation space."""

    def __init__(self, env: CompilerEnv) -> None:
        self._env = env

    def __getitem__(self, name: str) -> Any:
        return self._env._look(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._env._observations)

    def __len__(self) -> int:
        return len(self._env._observations)

    @property
    def spaces(self) -> dict[str, Space[Any]]:
        """The observation spaces by name."""
        return {name: spec.space for name, spec in self._env._observations.items()}


class RewardView(Mapping[str, float]):
    """``env.reward["IrInstructionCountOz"]``: the last step's reward, in any reward space."""

    def __init__(self, env: CompilerEnv) -> None:
        self._env = env

    def __getitem__(self, name: str) -> float:
        place = self._env._reward_place(name)
        rewards = self._env._rewards
        if rewards is None:
            raise UsageError("there is no reward before the first step: call `step` first")
        return rewards[place]

    def __iter__(self) -> Iterator[str]:
        return iter(self._env._reward_names)

    def __len__(self) -> int:
        return len(self._env._reward_names)
