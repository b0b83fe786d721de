"""Wrappers of an episode's actions: some of them, one more, or only so many."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from steplake.env import CompilerEnv
from steplake.errors import UsageError
from steplake.spaces import NamedDiscrete
from steplake.wrappers.core import ActionWrapper, CompilerEnvWrapper, Step


def _named(env: CompilerEnv | CompilerEnvWrapper) -> NamedDiscrete:
    space = env.action_space
    if not isinstance(space, NamedDiscrete):
        raise UsageError(f"the actions of {env} have no names: put this wrapper inside its others")
    return space


class ConstrainedCommandline(ActionWrapper):
    """Allows only some of the actions, numbered anew.

    Parameters
    ----------
    env : CompilerEnv or CompilerEnvWrapper
        The environment to wrap.
    flags : iterable of str
        The names of the actions, in the order of their new numbers.
    name : str, optional
        The name of the new action space; by default the old one's with the number of actions.

    Raises
    ------
    UsageError
        If there is no action of such a name, or a name is given twice, or none is.
    """

    def __init__(
        self,
        env: CompilerEnv | CompilerEnvWrapper,
        flags: Iterable[str],
        name: str | None = None,
    ) -> None:
        super().__init__(env)
        space = _named(env)
        flags = [flags] if isinstance(flags, str) else list(flags)
        unknown = [flag for flag in flags if flag not in space.names]
        if unknown:
            raise UsageError(
                f"{space.name} has no action {unknown[0]!r}: choose from `env.action_space.names`"
            )
        if not flags or len(set(flags)) < len(flags):
            raise UsageError(f"{flags} is no choice of actions: give one or more, each once")
        self._inner = [space[flag] for flag in flags]
        self._outer = {action: number for number, action in enumerate(self._inner)}
        self.action_space = NamedDiscrete(
            name or f"{space.name}[{len(flags)}]",
            flags,
            _chosen(space.pipelines, self._inner),
            _chosen(space.flags, self._inner),
        )

    def action(self, action: Any) -> int:
        """Return the wrapped environment's action for an action of this wrapper.

        Raises
        ------
        UsageError
            If there is no such action.
        """
        number = int(action)
        if not 0 <= number < len(self._inner):
            raise UsageError(
                f"there is no action {number}: the wrapper allows {len(self._inner)}, from 0 on"
            )
        return self._inner[number]

    def reverse_action(self, action: Any) -> int:
        """Return this wrapper's action for an action of the wrapped environment.

        Raises
        ------
        UsageError
            If the wrapper does not allow the action.
        """
        number = self._outer.get(int(action))
        if number is None:
            raise UsageError(
                f"the wrapper does not allow the action {action}, which was applied past it: see "
                "`env.unwrapped.actions`"
            )
        return number


def _chosen(all_of_them: Sequence[Any], places: Iterable[int]) -> list[Any]:
    return [all_of_them[place] for place in places] if all_of_them else []


class CommandlineWithTerminalAction(CompilerEnvWrapper):
    """Adds a last action that ends the episode: its step is ``terminated``.

    Such a step has ``info["terminal_action"]``, unless the compiler failed before. The action does
    nothing else: it is not among `actions`, and those after it in a `multistep` are not applied.

    Parameters
    ----------
    env : CompilerEnv or CompilerEnvWrapper
        The environment to wrap.
    terminal : str, optional
        The name of the action.

    Raises
    ------
    UsageError
        If there is an action of this name.
    """

    def __init__(
        self, env: CompilerEnv | CompilerEnvWrapper, terminal: str = "end-of-episode"
    ) -> None:
        super().__init__(env)
        space = _named(env)
        if terminal in space.names:
            raise UsageError(f"{space.name} has an action {terminal!r}: give `terminal` another")
        # A probe would find of the new action that it never changes a program.
        quiet = {flag: flag in ("replayable", "never_changes") for flag in (space.flags or [{}])[0]}
        self.terminal_action = len(space.names)
        self.action_space = NamedDiscrete(
            f"{space.name}+{terminal}",
            (*space.names, terminal),
            (*space.pipelines, "") if space.pipelines else (),
            (*space.flags, quiet) if space.flags else (),
        )

    def multistep(self, actions: Iterable[Any], **spaces: Any) -> Step:
        """Apply several actions at once; see `CompilerEnv.multistep`."""
        actions = [int(action) for action in actions]
        ends = self.terminal_action in actions
        if ends:
            actions = actions[: actions.index(self.terminal_action)]
        observation, reward, terminated, truncated, info = self.env.multistep(actions, **spaces)
        if ends and not terminated:
            terminated = info["terminal_action"] = True
        return observation, reward, terminated, truncated, info


class TimeLimit(CompilerEnvWrapper):
    """Truncates episodes: ``truncated`` is True once an episode has so many actions.

    A `multistep` applies all its actions, also those past the limit.

    Parameters
    ----------
    env : CompilerEnv or CompilerEnvWrapper
        The environment to wrap.
    max_episode_steps : int
        The limit.

    Raises
    ------
    UsageError
        If the limit is below 1.
    """

    def __init__(self, env: CompilerEnv | CompilerEnvWrapper, max_episode_steps: int) -> None:
        super().__init__(env)
        if max_episode_steps < 1:
            raise UsageError(
                f"an episode cannot be limited to {max_episode_steps} actions: give "
                "`max_episode_steps` of at least 1"
            )
        self.max_episode_steps = max_episode_steps

    def multistep(self, actions: Iterable[Any], **spaces: Any) -> Step:
        """Apply several actions at once; see `CompilerEnv.multistep`."""
        observation, reward, terminated, truncated, info = self.env.multistep(actions, **spaces)
        # Counted where no wrapper has renumbered them, so that `apply` and `fork` need no care.
        truncated = truncated or len(self.unwrapped.actions) >= self.max_episode_steps
        return observation, reward, terminated, truncated, info
