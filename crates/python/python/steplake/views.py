"""Observations and rewards of an environment by name, computed when they are asked for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gymnasium import Space

from steplake._session import OnSession
from steplake.errors import UsageError
from steplake.spaces import Tokens


class ObservationView(Mapping[str, Any]):
    """``env.observation["InstCount"]``: looks at the present state, in any observation space.

    Each space of vectors whose numbers have names is there as a dict too, under its name and
    ``Dict``, and tokens are there as tuples, ``LexedIrTuple``: for a look, not for learning.
    Iterating gives the spaces of the environment alone: those that belong to the machine take a
    build or a run of the program.

    Examples
    --------
    >>> env.observation["Autophase"].shape
    (56,)
    >>> "InstCount" in env.observation
    True
    >>> env.observation["InstCountDict"]["TotalInsts"]
    726
    """

    def __init__(self, env: OnSession) -> None:
        self._env = env

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self)})"

    def _derived(self) -> dict[str, str]:
        """The names of derived spaces, with those of the spaces that they are derived from."""
        derived = {}
        for name, spec in self._env._observations.items():
            if spec.features:
                derived[f"{name}Dict"] = name
            elif isinstance(spec.space, Tokens):
                derived[f"{name}Tuple"] = name
        return derived

    def __getitem__(self, name: str) -> Any:
        base = self._derived().get(name)
        if base is None or name in self._env._observations:
            return self._env._look(name)
        seen, features = self._env._look(base), self._env._observations[base].features
        if features:
            return dict(zip(features, seen.tolist(), strict=True))
        kinds = Tokens.LISTS.items()
        lists = (seen[of] if kind is None else seen[of].tolist() for of, kind in kinds)
        return list(zip(*lists, strict=True))

    def __contains__(self, name: object) -> bool:
        return name in self._env._observations or name in self._derived()

    def __iter__(self) -> Iterator[str]:
        machine = self._env._core.machine_spaces
        return (name for name in self._env._observations if name not in machine)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    @property
    def spaces(self) -> dict[str, Space[Any]]:
        """The observation spaces by name."""
        return {name: spec.space for name, spec in self._env._observations.items()}


class RewardView(Mapping[str, float]):
    """``env.reward["IrInstructionCountOz"]``: the last step's reward, in any reward space.

    Examples
    --------
    >>> _ = env.step(env.action_space["mem2reg"])
    >>> env.reward["IrInstructionCount"]
    286.0
    """

    def __init__(self, env: OnSession) -> None:
        self._env = env

    def __repr__(self) -> str:
        known = dict(self) if self._env._rewards is not None else ", ".join(self)
        return f"{type(self).__name__}({known})"

    def __getitem__(self, name: str) -> float:
        place = self._env._reward_place(name)
        rewards = self._env._rewards
        if rewards is None:
            raise UsageError("there is no reward before the first step: call `step` first")
        if name in self._env._missing:
            raise UsageError(
                f"{name} takes an observation of its own, and was not computed for the last step: "
                f'set `env.reward_space = "{name}"`, or name it in the `reward_spaces` of a step'
            )
        return rewards[place]

    def __iter__(self) -> Iterator[str]:
        missing = self._env._missing
        return (name for name in self._env._reward_names if name not in missing)

    def __contains__(self, name: object) -> bool:
        return name in list(self)

    def __len__(self) -> int:
        return sum(1 for _ in self)
