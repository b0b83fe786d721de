"""The bases of all wrappers."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar, cast

import gymnasium

from steplake._steplake import Benchmark
from steplake.datasets import BenchmarkLike, Dataset
from steplake.env import CompilerEnv
from steplake.errors import UsageError
from steplake.spaces import RewardSpace
from steplake.state import EnvState, ValidationResult
from steplake.views import ObservationView, RewardView

#: What a step returns: observation, reward, terminated, truncated, info.
Step: TypeAlias = tuple[Any, Any, bool, bool, dict[str, Any]]

WrapperT = TypeVar("WrapperT", bound="CompilerEnvWrapper")


class CompilerEnvWrapper(gymnasium.Wrapper[Any, Any, Any, Any]):
    """The base of all wrappers: does what the wrapped environment does.

    A subclass overrides `multistep`, and `step` follows it. If a subclass has attributes that must
    not be shared with a fork, it overrides `_fork_state`.

    Parameters
    ----------
    env : CompilerEnv or CompilerEnvWrapper
        The environment to wrap.

    Raises
    ------
    UsageError
        If `env` is something else. Gymnasium's own wrappers can be put around these, not inside.
    """

    env: CompilerEnv | CompilerEnvWrapper

    def __init__(self, env: CompilerEnv | CompilerEnvWrapper) -> None:
        if not isinstance(env, CompilerEnv | CompilerEnvWrapper):
            raise UsageError(
                f"{type(self).__name__} cannot wrap {env}: wrap what `steplake.make` returns, or "
                "`.unwrapped` of what `gymnasium.make` returns"
            )
        super().__init__(env)

    @property
    def unwrapped(self) -> CompilerEnv:
        """The environment inside all wrappers."""
        return cast("CompilerEnv", self.env.unwrapped)

    # Episodes.

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode; see `CompilerEnv.reset`."""
        return self.env.reset(seed=seed, options=options)

    def step(
        self,
        action: Any,
        *,
        observation_spaces: Sequence[str] | None = None,
        reward_spaces: Sequence[str] | None = None,
    ) -> Step:
        """Apply one action; see `CompilerEnv.step`."""
        return self.multistep(
            (action,), observation_spaces=observation_spaces, reward_spaces=reward_spaces
        )

    def multistep(
        self,
        actions: Iterable[Any],
        *,
        observation_spaces: Sequence[str] | None = None,
        reward_spaces: Sequence[str] | None = None,
    ) -> Step:
        """Apply several actions at once; see `CompilerEnv.multistep`."""
        return self.env.multistep(
            actions, observation_spaces=observation_spaces, reward_spaces=reward_spaces
        )

    def fork(self: WrapperT) -> WrapperT:
        """Return the same wrappers around a fork of the environment; see `CompilerEnv.fork`."""
        fork = type(self).__new__(type(self))
        fork.__dict__.update(self.__dict__)
        fork.env = self.env.fork()
        fork._fork_state(self)
        return fork

    def _fork_state(self, source: Any) -> None:
        """Make this wrapper independent of the one that it was forked from.

        It has all attributes of `source` already, the very same objects. Replace by a copy each
        that can change, and call the base's method too.
        """
        # Spaces draw lots.
        self._action_space = copy.deepcopy(source._action_space)
        self._observation_space = copy.deepcopy(source._observation_space)

    def apply(self, state: EnvState) -> None:
        """Bring the environment to a state; see `CompilerEnv.apply`."""
        self.env.apply(state)

    def validate(
        self, state: EnvState | None = None, *, semantics: bool = True
    ) -> ValidationResult:
        """Play an episode again, and compare where it leads; see `CompilerEnv.validate`."""
        return self.env.validate(state, semantics=semantics)

    def commandline(self) -> str:
        """Return the episode as a command; see `CompilerEnv.commandline`."""
        return self.env.commandline()

    def make_benchmark(self, given: BenchmarkLike) -> Benchmark:
        """Return a benchmark by URI, from a file, or from a program as bytes."""
        return self.env.make_benchmark(given)

    def _last_reward(self) -> Any:
        """Return the last step's reward in the reward space, as this wrapper shows it."""
        env = self.env
        if isinstance(env, CompilerEnvWrapper):
            return env._last_reward()
        name = env.reward_space_name
        return 0.0 if name is None else env.reward[name]

    # Spaces.

    @property
    def observation_space(self) -> gymnasium.Space[Any]:
        """The space of the observations. Set it by name; a wrapper may set its own space."""
        own = self._observation_space
        return self.env.observation_space if own is None else own

    @observation_space.setter
    def observation_space(self, given: str | gymnasium.Space[Any] | None) -> None:
        if isinstance(given, gymnasium.Space):
            self._observation_space = given
        else:
            self.env.observation_space = given
            self._observation_space = None

    @property
    def observation_space_name(self) -> str | None:
        """The name of the environment's observation space."""
        return self.env.observation_space_name

    @property
    def reward_space(self) -> RewardSpace | None:
        """The space of the rewards of the environment; set it by name."""
        return self.env.reward_space

    @reward_space.setter
    def reward_space(self, name: str | RewardSpace | None) -> None:
        self.env.reward_space = name

    @property
    def reward_space_name(self) -> str | None:
        """The name of the environment's reward space."""
        return self.env.reward_space_name

    @property
    def runtime_observation_count(self) -> int:
        """The number of samples in an observation of ``Runtime``."""
        return self.env.runtime_observation_count

    @runtime_observation_count.setter
    def runtime_observation_count(self, count: int) -> None:
        self.env.runtime_observation_count = count

    @property
    def runtime_warmup_runs_count(self) -> int:
        """The number of runs before them, which are left out."""
        return self.env.runtime_warmup_runs_count

    @runtime_warmup_runs_count.setter
    def runtime_warmup_runs_count(self, count: int) -> None:
        self.env.runtime_warmup_runs_count = count

    @property
    def buildtime_observation_count(self) -> int:
        """The number of samples in an observation of ``Buildtime``."""
        return self.env.buildtime_observation_count

    @buildtime_observation_count.setter
    def buildtime_observation_count(self, count: int) -> None:
        self.env.buildtime_observation_count = count

    # What the environment is about.

    @property
    def observation(self) -> ObservationView:
        """Observations of the present state by name, not converted."""
        return self.env.observation

    @property
    def reward(self) -> RewardView:
        """Rewards of the last step by name, not converted."""
        return self.env.reward

    @property
    def actions(self) -> list[Any]:
        """The actions of the episode, as numbers of this wrapper's action space."""
        return self.env.actions

    @property
    def episode_reward(self) -> Any:
        """The sum of the episode's rewards."""
        return self.env.episode_reward

    @property
    def step_rewards(self) -> list[float]:
        """The reward of each action of the last step, as the wrapped environment gives it."""
        return self.env.step_rewards

    @property
    def state(self) -> EnvState:
        """Where the environment is, in its own actions and rewards, not converted."""
        return self.env.state

    @property
    def benchmark(self) -> Benchmark | None:
        """The benchmark of the episode. A benchmark that is set here is used from `reset` on."""
        return self.env.benchmark

    @benchmark.setter
    def benchmark(self, given: BenchmarkLike | None) -> None:
        self.env.benchmark = given

    @property
    def datasets(self) -> dict[str, Dataset]:
        """The datasets by their URIs."""
        return self.env.datasets

    @property
    def compiler(self) -> str:
        """The compiler with its exact build."""
        return self.env.compiler

    @property
    def compiler_seconds(self) -> float:
        """The time that the compiler took for the last step."""
        return self.env.compiler_seconds


class ActionWrapper(CompilerEnvWrapper):
    """The base of wrappers that change actions: override `action` and `reverse_action`.

    If the action space is another one, set ``self.action_space`` in the constructor.
    """

    def action(self, action: Any) -> Any:
        """Return the wrapped environment's action for an action of this wrapper."""
        raise NotImplementedError(f"{type(self).__name__} must define `action`")

    def reverse_action(self, action: Any) -> Any:
        """Return this wrapper's action for an action of the wrapped environment."""
        raise NotImplementedError(f"{type(self).__name__} must define `reverse_action`")

    def multistep(self, actions: Iterable[Any], **spaces: Any) -> Step:
        """Apply several actions at once; see `CompilerEnv.multistep`."""
        return self.env.multistep([self.action(action) for action in actions], **spaces)

    @property
    def actions(self) -> list[Any]:
        """The actions of the episode, as numbers of this wrapper's action space."""
        return [self.reverse_action(action) for action in self.env.actions]


class ObservationWrapper(CompilerEnvWrapper):
    """The base of wrappers that change observations: override `convert_observation`.

    If the observations are of another space, override `convert_space` too, or set
    ``self.observation_space`` in the constructor. Observations that a step is asked for by name are
    not converted.
    """

    _unconverted: gymnasium.Space[Any] | None = None

    def convert_observation(self, observation: Any) -> Any:
        """Return what this wrapper shows for an observation of the wrapped environment."""
        raise NotImplementedError(f"{type(self).__name__} must define `convert_observation`")

    def convert_space(self, space: gymnasium.Space[Any]) -> gymnasium.Space[Any]:
        """Return the space of converted observations for the wrapped environment's space."""
        return space

    @property
    def observation_space(self) -> gymnasium.Space[Any]:
        """The space of the converted observations; set the wrapped environment's by name."""
        own = self._observation_space
        if own is not None and self._unconverted is None:
            return own  # A subclass has set it.
        space = self.env.observation_space
        if own is None or space is not self._unconverted:
            own = self._observation_space = self.convert_space(space)
            self._unconverted = space
        return own

    @observation_space.setter
    def observation_space(self, given: str | gymnasium.Space[Any] | None) -> None:
        before = self.env.observation_space_name
        self._unconverted = None
        if isinstance(given, gymnasium.Space):
            self._observation_space = given
            return
        self._observation_space = None
        self.env.observation_space = given
        try:
            _ = self.observation_space
        except UsageError:
            self.env.observation_space = before
            raise

    def _fork_state(self, source: Any) -> None:
        super()._fork_state(source)
        if self._unconverted is not None:
            self._unconverted = self.env.observation_space

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode; see `CompilerEnv.reset`."""
        observation, info = self.env.reset(seed=seed, options=options)
        return self.convert_observation(observation), info

    def multistep(
        self,
        actions: Iterable[Any],
        *,
        observation_spaces: Sequence[str] | None = None,
        reward_spaces: Sequence[str] | None = None,
    ) -> Step:
        """Apply several actions at once; see `CompilerEnv.multistep`."""
        observation, reward, terminated, truncated, info = self.env.multistep(
            actions, observation_spaces=observation_spaces, reward_spaces=reward_spaces
        )
        if observation_spaces is None:
            observation = self.convert_observation(observation)
        return observation, reward, terminated, truncated, info


class RewardWrapper(CompilerEnvWrapper):
    """The base of wrappers that change rewards: override `convert_reward`.

    A `multistep` has one reward, the sum of its actions' rewards, and this sum is converted.
    `episode_reward` adds up converted rewards. Rewards that a step is asked for by name are not
    converted.
    """

    _converted: Any = 0.0
    _episode_reward: Any = 0.0

    def convert_reward(self, reward: Any) -> Any:
        """Return what this wrapper shows for a reward of the wrapped environment."""
        raise NotImplementedError(f"{type(self).__name__} must define `convert_reward`")

    def _note(self, reward: Any) -> Any:
        self._converted = self.convert_reward(reward)
        self._episode_reward += self._converted
        return self._converted

    def _last_reward(self) -> Any:
        return self._converted

    @property
    def episode_reward(self) -> Any:
        """The sum of the episode's converted rewards."""
        return self._episode_reward

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode; see `CompilerEnv.reset`."""
        self._converted = self._episode_reward = 0.0
        return self.env.reset(seed=seed, options=options)

    def multistep(
        self,
        actions: Iterable[Any],
        *,
        observation_spaces: Sequence[str] | None = None,
        reward_spaces: Sequence[str] | None = None,
    ) -> Step:
        """Apply several actions at once; see `CompilerEnv.multistep`."""
        observation, reward, terminated, truncated, info = self.env.multistep(
            actions, observation_spaces=observation_spaces, reward_spaces=reward_spaces
        )
        converted = self._note(reward if reward_spaces is None else super()._last_reward())
        shown = converted if reward_spaces is None else reward
        return observation, shown, terminated, truncated, info

    def apply(self, state: EnvState) -> None:
        """Bring the environment to a state; its actions count as one `multistep`."""
        self.env.apply(state)
        self._converted = self._episode_reward = 0.0
        self._note(super()._last_reward())
