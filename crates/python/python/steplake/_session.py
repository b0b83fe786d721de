"""What an environment does with its session: spaces by name, and the steps of the episode."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Sequence
from dataclasses import astuple
from typing import Any

import gymnasium
import numpy as np

from steplake import _steplake
from steplake._steplake import Benchmark, Step
from steplake.errors import NoSuchRenderMode, UsageError
from steplake.machine import Counts, OnMachine, all_specs
from steplake.spaces import ObservationSpec


def demand_render_mode(mode: str | None) -> None:
    """Refuse a render mode that no environment has.

    Raises
    ------
    NoSuchRenderMode
        If there is no such one.
    """
    if mode not in (None, "ansi"):
        raise NoSuchRenderMode(f"there is no render mode {mode!r}: write 'ansi', or nothing")


class OnSession(OnMachine):
    """An environment over a session: what it observes and rewards, and what its episode is at."""

    def _open(self, core: _steplake.Environment, session: _steplake.Session) -> None:
        self._core, self._session = core, session
        self._counts = Counts()
        self._observations = all_specs(core, self._counts)
        self._reward_names = [name for name, *_ in core.reward_spaces]
        # Rewards that are computed only where they are wanted, and those that are.
        self._on_request = {name for name, *_, on_request in core.reward_spaces if on_request}
        self._wanted: set[str] = set()
        self._running: Benchmark | None = None
        self._forget()

    def _use_sessions(self, session: Callable[[], _steplake.Session]) -> None:
        """Begin anew with another session: one that is recorded, or one that is not."""
        self._session.close()
        self._session = session()
        self._want(list(self._wanted))
        self._session.set_counts(*astuple(self._counts))
        self._running = None
        self._forget()

    def _forget(self) -> None:
        self.actions: list[int] = []
        self.episode_reward = 0.0
        self.step_rewards: list[float] = []
        self.compiler_seconds = 0.0
        self._in_episode = False
        self._state_id: str | None = None
        self._rewards: list[float] | None = None
        # The rewards on request that the last step does not have.
        self._missing = self._on_request - self._wanted
        self._baselines: dict[str, int] = {}
        self._last: Any = None

    def _follow(self, source: OnSession) -> None:
        """Take over the spaces and the episode of the environment that this one is a fork of."""
        shared = "_observed _observed_space _rewarded _running _in_episode _state_id _last "
        shared += "_rewards _missing _baselines _counts _observations episode_reward"
        for name in shared.split():
            setattr(self, name, getattr(source, name))
        self._wanted = set(source._wanted)
        self.actions, self.step_rewards = list(source.actions), list(source.step_rewards)

    # Spaces.

    def _spec_of(self, name: str) -> ObservationSpec:
        return self._observations[self._demand("observation space", name, self._observations)]

    def _reward_place(self, name: str) -> int:
        self._demand("reward space", name, self._reward_names)
        return self._reward_names.index(name)

    def _demand(self, what: str, name: str, known: Iterable[str]) -> str:
        if name not in known:
            raise UsageError(f"{self._core.name} has no {what} {name!r}: it has {', '.join(known)}")
        return name

    def _observe_in(self, name: str | None) -> None:
        """Choose the space of the observations."""
        if name is None:
            self._observed: str | None = None
            self._observed_space: gymnasium.Space[Any] = gymnasium.spaces.Box(0, 0, (0,), np.int32)
        else:
            self._observed, self._observed_space = name, self._spec_of(name).space
        if self._in_episode and self._state_id is not None:
            self._last = self._observation([self._seen(name)] if name else [])

    def _reward_in(self, name: str | None) -> None:
        """Choose the space of the rewards."""
        if name is not None:
            self._want([name])
        self._rewarded = name

    def _want(self, rewards: Iterable[str]) -> None:
        """Have rewards computed from the next step on."""
        self._session.want([self._reward_place(name) for name in rewards])
        self._wanted.update(rewards)
        if self._rewards is None:
            # No step lacks them yet.
            self._missing = self._missing - self._wanted

    def _set_counts(self, counts: Counts) -> None:
        self._session.set_counts(*astuple(counts))
        self._counts, self._observations = counts, all_specs(self._core, counts)
        if self._observed is not None:
            # The number of samples is part of the space.
            self._observed_space = self._observations[self._observed].space

    # Observations.

    def _places(self, *names: str | None) -> list[int]:
        return [self._spec_of(name).place for name in names if name is not None]

    def _observation(self, values: list[Any]) -> Any:
        """Return the observation in the environment's own space."""
        if self._observed is None:
            return np.zeros(0, np.int32)
        value = self._spec_of(self._observed).shown(values[0])
        is_number = isinstance(value, int | float)
        return np.asarray(value, self._observed_space.dtype) if is_number else value

    def _look(self, name: str) -> Any:
        return self._spec_of(name).shown(self._seen(name))

    def _seen(self, name: str) -> Any:
        """Return an observation as the session gives it."""
        spec = self._spec_of(name)
        if spec.of_benchmark and name in self._baselines:
            return self._baselines[name]
        return self._session.observe(spec.place)

    # The episode.

    def _begin(self, benchmark: Benchmark, action_space: str) -> tuple[Any, dict[str, Any]]:
        """Begin an episode, and return what `CompilerEnv.reset` returns."""
        self._forget()
        places = self._places(self._observed)
        state, baselines, values = self._session.start(benchmark, action_space, places)
        self._running = benchmark
        self._in_episode, self._state_id, self._baselines = True, state, dict(baselines)
        self._last = self._observation(values)
        return copy.copy(self._last), {"state_id": state, "benchmark": benchmark.uri}

    def _took(
        self,
        actions: list[int],
        steps: list[Step],
        values: list[Any],
        observation_spaces: Sequence[str] | None = None,
        reward_spaces: Sequence[str] | None = None,
    ) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Note the steps that the session took, and return what `CompilerEnv.step` returns."""
        last = steps[-1] if steps else None
        error = last.error if last else None
        rewards = [step.rewards for step in (steps if error is None else steps[:-1])]
        sums = [sum(of_space) for of_space in zip(*rewards, strict=True)]
        sums = sums or [0.0] * len(self._reward_names)
        self.actions += actions[: len(steps)]
        self._state_id, self._rewards = last.state_id if last else self._state_id, sums
        self._missing = self._on_request - self._wanted
        self.compiler_seconds = sum(step.compiler_seconds for step in steps)
        place = None if self._rewarded is None else self._reward_place(self._rewarded)
        own = 0.0 if place is None else sums[place]
        self.step_rewards = [] if place is None else [of_step[place] for of_step in rewards]
        if own != own:  # NaN
            self._demand_reward()
        self.episode_reward += own
        if error is None and (values or self._observed is None):
            self._last = self._observation(values)
        observation: Any = copy.copy(self._last)
        if observation_spaces is not None:
            # After an error, some are missing.
            seen = values[len(self._places(self._observed)) :]
            seen += [None] * (len(observation_spaces) - len(seen))
            specs = [self._spec_of(name) for name in observation_spaces]
            observation = [spec.shown(value) for spec, value in zip(specs, seen, strict=True)]
        reward: Any = own
        if reward_spaces is not None:
            reward = [sums[self._reward_place(name)] for name in reward_spaces]
        info: dict[str, Any] = {
            "state_id": self._state_id,
            "action_had_no_effect": error is None and not any(step.changed for step in steps),
            "new_action_space": last is not None and last.action_space_changed,
        }
        if error is not None:
            info["error"] = error
        has_ended = last is not None and last.end_of_episode
        return observation, reward, has_ended, False, info

    def _demand_reward(self) -> None:
        """Refuse a step without a reward; one of code size has none where there is no code."""
