"""Several environments that step at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from gymnasium.spaces import Box
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space, concatenate, create_empty_array

import steplake
from steplake import _steplake
from steplake.env import CompilerEnv
from steplake.errors import SteplakeError, UsageError


class CompilerVectorEnv(VectorEnv[Any, Any, Any]):
    """Environments that step in parallel, each with a worker process of its own.

    An environment whose episode has ended begins the next one by itself, with the program that its
    ``benchmark`` was set to in ``envs``.

    Parameters
    ----------
    num_envs : int
        The number of environments.
    environment : str, optional
        By default ``llvm-v0``.
    benchmark : str, os.PathLike, bytes, Benchmark, or a sequence of these, optional
        The program of all environments, or one for each.
    max_episode_steps : int, optional
        Truncate episodes after so many steps; by default, and with -1, only the environment ends
        them. ``gymnasium.make_vec`` gives the registered length of 50.
    autoreset_mode : gymnasium.vector.AutoresetMode, optional
        When the next episode begins. ``NEXT_STEP``, the default: at the next step, whose action is
        ignored. ``SAME_STEP``: at once; the step returns the first observation of the next episode,
        and ``infos["final_obs"]`` and ``infos["final_info"]`` have what ended.
    **options
        Those of `steplake.make`.
    """

    metadata: dict[str, Any] = {
        "render_modes": ["ansi"],
        "autoreset_mode": AutoresetMode.NEXT_STEP,
    }
    #: The environments, none of which there are if they cannot be made.
    envs: Sequence[CompilerEnv] = ()

    def __init__(
        self,
        num_envs: int = 1,
        *,
        environment: str = "llvm-v0",
        benchmark: Any = None,
        max_episode_steps: int | None = None,
        autoreset_mode: AutoresetMode = AutoresetMode.NEXT_STEP,
        **options: Any,
    ) -> None:
        if autoreset_mode not in (AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP):
            raise UsageError(f"there is no autoreset mode {autoreset_mode}: NEXT_STEP or SAME_STEP")
        if max_episode_steps == -1:
            max_episode_steps = None
        if max_episode_steps is not None and max_episode_steps < 1:
            raise UsageError(f"max_episode_steps is {max_episode_steps}: at least one step")
        many = isinstance(benchmark, Sequence) and not isinstance(benchmark, str | bytes)
        benchmarks = list(benchmark) if many else [benchmark] * num_envs
        if len(benchmarks) != num_envs or num_envs < 1:
            raise UsageError(
                f"there are {num_envs} environments and {len(benchmarks)} benchmarks: give one "
                "benchmark, or one for each environment"
            )
        first = steplake.make(environment, benchmark=benchmarks[0], **options)
        self.envs = [first, *(first._sibling(one) for one in benchmarks[1:])]
        self.num_envs = num_envs
        self.render_mode = first.render_mode
        self.single_observation_space = first.observation_space
        self.single_action_space = first.action_space
        self.observation_space = batch_space(first.observation_space, num_envs)
        self.action_space = batch_space(first.action_space, num_envs)
        self._core, self._action_space_name = first._core, first._action_space_name
        self._steps_max = max_episode_steps
        self.metadata = {**self.metadata, "autoreset_mode": autoreset_mode}
        self._ended = [False] * num_envs

    def __repr__(self) -> str:
        first = self.envs[0]
        spaces = f"{first.observation_space_name!r}, reward_space={first.reward_space_name!r}"
        return (
            f"{type(self).__name__}({self._core.name!r}, num_envs={self.num_envs}, "
            f"observation_space={spaces}, action_space={self._action_space_name!r})"
        )

    def _use_sessions(self, session: Callable[[], _steplake.Session]) -> None:
        for env in self.envs:
            env._use_sessions(session)
        self._ended = [False] * self.num_envs

    def _batch(self, observations: Sequence[Any]) -> Any:
        space = self.single_observation_space
        if isinstance(space, Box):
            return np.array(observations, dtype=space.dtype)
        batch: Any = create_empty_array(space, self.num_envs)
        return concatenate(space, observations, batch)

    def _gathered(self, infos: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Return the infos of all environments by name, each with a mask of who has it."""
        names = infos[0].keys()
        gathered: dict[str, Any] = {}
        if any(info.keys() != names for info in infos):
            for place, info in enumerate(infos):
                gathered = self._add_info(gathered, info, place)
            return gathered
        # The same in less time, for what a step says.
        for name in names:
            kind = np.bool_ if isinstance(infos[0][name], bool) else np.object_
            gathered[name] = np.array([info[name] for info in infos], dtype=kind)
            gathered[f"_{name}"] = np.ones(self.num_envs, dtype=np.bool_)
        return gathered

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode in every environment.

        Parameters
        ----------
        seed : int or sequence of int, optional
            One seed for each environment, or the first of as many consecutive ones.
        options : mapping, optional
            Those of `CompilerEnv.reset`.

        Returns
        -------
        observations, infos
            ``observations`` has the shape ``(num_envs, ...)``.
        """
        if seed is None or isinstance(seed, int):
            seeds = [None if seed is None else seed + place for place in range(self.num_envs)]
        else:
            seeds = list(seed)
        observations: list[Any] = []
        infos: dict[str, Any] = {}
        for place, (env, own) in enumerate(zip(self.envs, seeds, strict=True)):
            observation, info = env.reset(seed=own, options=options)
            observations.append(observation)
            infos = self._add_info(infos, info, place)
        self._ended = [False] * self.num_envs
        return self._batch(observations), infos

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Apply one action in each environment, all at once.

        Parameters
        ----------
        actions : array_like of int, shape (num_envs,)
            The actions. That of an environment whose episode has ended is ignored.

        Returns
        -------
        observations, rewards, terminations, truncations, infos
            Arrays whose first dimension is ``num_envs``; see `CompilerEnv.step`.
        """
        actions = self.envs[0].action_space.numbers(actions)
        if len(actions) != self.num_envs:
            raise UsageError(
                f"there are {self.num_envs} environments and {len(actions)} actions: give one "
                "action to each"
            )
        observations: list[Any] = [None] * self.num_envs
        infos: list[dict[str, Any]] = [{}] * self.num_envs
        rewards = [0.0] * self.num_envs
        ends, cuts = [False] * self.num_envs, [False] * self.num_envs
        going = [place for place in range(self.num_envs) if not self._ended[place]]
        resetting = [place for place in range(self.num_envs) if self._ended[place]]
        for place in going:
            if not self.envs[place]._in_episode:
                raise UsageError(f"no episode is under way in environment {place}: call `reset`")
        played = _steplake.step_all(
            [self.envs[place]._session for place in going],
            [[actions[place]] for place in going],
            self.envs[0]._places(self.envs[0].observation_space_name),
        )
        errors: list[BaseException] = []
        # What was stepped is noted whatever happens to the others.
        for place, (steps, values, error) in zip(going, played, strict=True):
            env = self.envs[place]
            errors += [] if error is None else [error]
            if not steps:
                continue
            try:
                taken = env._took([actions[place]], steps, values)
                observations[place], rewards[place], ends[place], _, infos[place] = taken
            except SteplakeError as missing:
                errors.append(missing)
            cuts[place] = self._is_cut(env)
            has_ended = steps[-1].end_of_episode
            self._ended[place] = has_ended or cuts[place]
        # What a signal's handler or a compiler's class raised comes before our own errors.
        for raised in errors:
            if not isinstance(raised, SteplakeError):
                raise raised
        if self.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP:
            resetting += [place for place in going if self._ended[place]]
        finals = self._begin_next(resetting, observations, infos, errors)
        if errors:
            raise errors[0]
        gathered = self._gathered(infos)
        for place, final in finals.items():
            gathered = self._add_info(gathered, final, place)
        flags = np.array(ends, dtype=np.bool_), np.array(cuts, dtype=np.bool_)
        return self._batch(observations), np.array(rewards), *flags, gathered

    def _begin_next(
        self,
        places: list[int],
        observations: list[Any],
        infos: list[dict[str, Any]],
        errors: list[BaseException],
    ) -> dict[int, dict[str, Any]]:
        """Begin episodes, and return what ended in this step, by the environment's place."""
        finals: dict[int, dict[str, Any]] = {}
        for place in places:
            if infos[place]:
                finals[place] = {"final_obs": observations[place], "final_info": infos[place]}
            try:
                observations[place], infos[place] = self.envs[place].reset()
                self._ended[place] = False
            except SteplakeError as error:
                errors.append(error)
        return finals

    def _is_cut(self, env: CompilerEnv) -> bool:
        return self._steps_max is not None and len(env.actions) >= self._steps_max

    def render(self) -> tuple[Any, ...] | None:
        """Return each environment's program as text, in the render mode ``ansi``."""
        return tuple(env.render() for env in self.envs)

    def close_extras(self, **_options: Any) -> None:
        """End the environments, and with them their worker processes."""
        for env in self.envs:
            env.close()
