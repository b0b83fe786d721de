"""Compiler environments in Gymnasium's interface, with CompilerGym's extensions."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import gymnasium
import numpy as np

from steplake import _package, _steplake
from steplake._session import OnSession, demand_render_mode
from steplake._steplake import Benchmark
from steplake.compiler import Compiler, open_environment
from steplake.datasets import BenchmarkLike, Dataset, benchmark_of, named_benchmark
from steplake.defaults import UNSET, usual_benchmark, usual_spaces
from steplake.errors import CompilerFailed, UsageError
from steplake.spaces import NamedDiscrete, RewardSpace, opt_command
from steplake.state import EnvState, ValidationResult
from steplake.views import ObservationView, RewardView

#: The observation space of environments that write a state as a command themselves.
_COMMAND_LINE = "command_line"


class CompilerEnv(OnSession, gymnasium.Env[Any, int]):
    """A compiler problem: a state is a program, an action changes it, a reward is a saved cost.

    The compiler lives in a worker process. If it crashes, hangs or takes too much memory over an
    action, the step is ``terminated`` and ``info["error"]`` says why; the next `reset` begins anew.

    Parameters
    ----------
    environment : str, or subclass of steplake.Compiler
        The name of the environment, such as ``llvm-v0`` or ``gcc-v0/gcc-12``; or a compiler of one's
        own, as a class or a function that returns a new instance.
    benchmark : str, os.PathLike, bytes or Benchmark, optional
        The program: a URI, a file, or a program as the compiler reads it (for LLVM, bitcode).
    observation_space : str or None, optional
        The name of the space of the observations that `reset` and `step` return. None: they return
        empty arrays, which costs nothing.
    reward_space : str or None, optional
        The name of the space of the rewards that `step` returns. None: rewards are 0.
    action_space : str, optional
        The name of the action space; by default the environment's first.
    render_mode : {"ansi"}, optional
        With ``ansi``, `render` returns the program as text.
    step_cpu_seconds : int, optional
        The CPU time that one step may take, in seconds; by default 20.
    worker_memory_mib : int, optional
        The address space of a worker, in MiB; by default 4096.

    Attributes
    ----------
    actions : list of int
        The actions of the episode.
    episode_reward : float
        The sum of the episode's rewards.
    step_rewards : list of float
        The reward of each action of the last `step` or `multistep`, less one on which the compiler
        failed; empty without a reward space.
    compiler_seconds : float
        The time that the compiler took for the last step.

    Raises
    ------
    UsageError
        If there is no such environment or space.
    NoSuchRenderMode
        If there is no such render mode; nothing has started then.
    BadBenchmark
        If there is no such benchmark.
    """

    action_space: NamedDiscrete  # type: ignore[assignment]
    metadata: dict[str, Any] = {"render_modes": ["ansi"], "render_fps": 1}

    def __init__(
        self,
        environment: str | Callable[[], Compiler] = "llvm-v0",
        *,
        benchmark: BenchmarkLike | None = None,
        observation_space: str | None = UNSET,
        reward_space: str | None = UNSET,
        action_space: str | None = None,
        render_mode: str | None = None,
        step_cpu_seconds: int | None = None,
        worker_memory_mib: int | None = None,
    ) -> None:
        demand_render_mode(render_mode)
        _package.begin()
        core = open_environment(environment, step_cpu_seconds, worker_memory_mib)
        self._init(core, core.session(), action_space, render_mode)
        self._choose(observation_space, reward_space, benchmark)

    def _choose(
        self,
        observation_space: str | None,
        reward_space: str | None,
        benchmark: BenchmarkLike | None,
    ) -> None:
        """Choose the spaces and the program, where nothing is named the usual ones."""
        vectors = [name for name, spec in self._observations.items() if spec.features]
        seen = vectors or list(self._observations)
        observed, rewarded = usual_spaces(self._core.recorded_name, seen, self._reward_names)
        self.observation_space = observed if observation_space is UNSET else observation_space
        self.reward_space = rewarded if reward_space is UNSET else reward_space
        self.benchmark = usual_benchmark(self._core) if benchmark is None else benchmark

    def _init(
        self,
        core: _steplake.Environment,
        session: _steplake.Session,
        action_space: str | None,
        render_mode: str | None,
    ) -> None:
        self._open(core, session)
        self.render_mode = render_mode
        self._action_spaces = core.action_spaces
        name = action_space or next(iter(self._action_spaces))
        self._action_space_name = self._demand("action space", name, self._action_spaces)
        names, pipelines, flags = zip(*self._action_spaces[name], strict=True)
        self.action_space = NamedDiscrete(name, names, pipelines, flags)
        self._benchmark: Benchmark | None = None

    # Spaces.

    @property
    def observation(self) -> ObservationView:
        """Observations of the present state, in any space by name."""
        return ObservationView(self)

    @property
    def reward(self) -> RewardView:
        """Rewards of the last step, in any space by name."""
        return RewardView(self)

    @property
    def observation_space(self) -> gymnasium.Space[Any]:
        """The space of the observations; set it by name."""
        return self._observed_space

    @observation_space.setter  # type: ignore[override]
    def observation_space(self, name: str | None) -> None:
        self._observe_in(name)

    @property
    def observation_space_name(self) -> str | None:
        """The name of the observation space."""
        return self._observed

    @property
    def reward_space(self) -> RewardSpace | None:
        """The space of the rewards; set it by name."""
        return None if self._rewarded is None else RewardSpace(self._rewarded)

    @reward_space.setter
    def reward_space(self, name: str | RewardSpace | None) -> None:
        self._reward_in(name.name if isinstance(name, RewardSpace) else name)

    @property
    def reward_space_name(self) -> str | None:
        """The name of the reward space; None if rewards are 0."""
        return self._rewarded

    # What the environment is about.

    @property
    def compiler(self) -> str:
        """The compiler with its exact build."""
        return self._core.compiler

    @property
    def datasets(self) -> dict[str, Dataset]:
        """The datasets by their URIs."""
        return {about[1]: Dataset(*about, self._core) for about in self._core.datasets()}

    @property
    def benchmark(self) -> Benchmark | None:
        """The benchmark of the episode. A benchmark that is set here is used from `reset` on.

        Set it to a URI, a file, a program as bytes, or a `Benchmark`.
        """
        return self._running if self._in_episode else self._benchmark

    @benchmark.setter
    def benchmark(self, given: BenchmarkLike | None) -> None:
        self._benchmark = None if given is None else self.make_benchmark(given)

    def make_benchmark(self, given: BenchmarkLike) -> Benchmark:
        """Return a benchmark by URI, from a file, or from a program as bytes.

        A program that is given as bytes is called ``benchmark://user-v0/`` and its SHA-1.
        """
        return benchmark_of(self._core, given)

    # Episodes.

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode.

        Parameters
        ----------
        seed : int, optional
            Seeds ``env.np_random``; compilers draw no lots.
        options : mapping, optional
            ``benchmark``: the program from this episode on.

        Returns
        -------
        observation, info
            ``info`` has ``state_id`` and ``benchmark``.

        Raises
        ------
        BadBenchmark
            If the compiler rejects the program.
        CompilerFailed
            If the compiler crashes over the program.
        """
        super().reset(seed=seed)
        chosen = self._benchmark
        if options and "benchmark" in options:
            chosen = self.make_benchmark(options["benchmark"])
        if chosen is None:
            raise UsageError("there is no benchmark yet: set `env.benchmark`")
        begun = self._begin(chosen, self.action_space.name)
        self._benchmark = chosen
        return begun

    def step(
        self,
        action: int,
        *,
        observation_spaces: Sequence[str] | None = None,
        reward_spaces: Sequence[str] | None = None,
    ) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Apply one action.

        Parameters
        ----------
        action : int
            The number of the action.
        observation_spaces : sequence of str, optional
            Observe in these spaces instead: the observation is then a list.
        reward_spaces : sequence of str, optional
            Reward in these spaces instead: the reward is then a list.

        Returns
        -------
        observation, reward, terminated, truncated, info
            ``info`` has ``state_id``, ``action_had_no_effect`` and ``new_action_space``. If the
            compiler failed, the step is terminated, ``info["error"]`` says how, ``state_id`` is
            None, the reward is 0, and the observation is that of the state before (in other
            spaces, None). A reward of code size is NaN if the compiler cannot make code of a state;
            in ``gcc-v0``, where no action runs the compiler, the step has failed then.
        """
        return self.multistep(
            (action,), observation_spaces=observation_spaces, reward_spaces=reward_spaces
        )

    def multistep(
        self,
        actions: Iterable[int],
        *,
        observation_spaces: Sequence[str] | None = None,
        reward_spaces: Sequence[str] | None = None,
    ) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """Apply several actions at once, which saves time; observe the last state.

        The parameters and results are those of `step`. Rewards are summed up; `step_rewards` has
        each. If the compiler fails on an action, those after it are not applied, and the
        observation is the one before all.
        """
        if not self._in_episode:
            raise UsageError("no episode is under way: call `reset` first")
        numbers = self.action_space.numbers(actions)
        places = self._places(self._observed, *(observation_spaces or ()))
        if reward_spaces is not None:
            self._want(reward_spaces)
        steps, values, error = self._session.step(numbers, places)
        if error is not None and not steps:
            raise error
        done = self._took(numbers, steps, values, observation_spaces, reward_spaces)
        if error is not None:
            raise error
        return done

    def _sibling(self, benchmark: BenchmarkLike | None) -> CompilerEnv:
        """Return another environment over the same compiler or lake, with the same spaces."""
        other = type(self).__new__(type(self))
        other._init(self._core, self._core.session(), self.action_space.name, self.render_mode)
        other._choose(self._observed, self._rewarded, benchmark)
        other._set_counts(self._counts)
        return other

    def fork(self) -> CompilerEnv:
        """Return a second environment in the same state; neither sees what the other does.

        Its generators of random numbers draw what those of this one would draw.

        Raises
        ------
        UsageError
            If no episode is under way.
        """
        fork = type(self).__new__(type(self))
        fork._init(self._core, self._session.fork(), self.action_space.name, self.render_mode)
        fork._follow(self)
        fork._benchmark, fork.spec = self._benchmark, self.spec
        # A generator is made when it is first used, which is here.
        assert self.action_space.np_random is not None
        fork.action_space = copy.deepcopy(self.action_space)
        fork.np_random = copy.deepcopy(self.np_random)
        return fork

    @property
    def state(self) -> EnvState:
        """Where the environment is."""
        if self._running is None:
            raise UsageError("there is no state before the first episode: call `reset` first")
        place = self._running.uri, self.action_space.name, tuple(self.actions), self._state_id
        return EnvState(*place, self._rewarded, self.episode_reward)

    def _program(self, uri: str) -> Benchmark:
        """Return the program that a state names."""
        return named_benchmark(self._core, uri, (self._running, self._benchmark))

    def apply(self, state: EnvState) -> None:
        """Bring the environment to a state: begin its benchmark, and apply its actions.

        Raises
        ------
        UsageError
            If the state is of another action space.
        BadBenchmark
            If no dataset has its benchmark: set `benchmark` to a program of your own before.
        """
        if state.action_space != self.action_space.name:
            raise UsageError(
                f"the state is of the action space {state.action_space}, and this environment has "
                f"{self.action_space.name}: make one with that"
            )
        self.benchmark = self._program(state.benchmark)
        self.reset()
        self.multistep(state.actions)

    def _again(self, state: EnvState) -> CompilerEnv:
        """Return an environment in which to play an episode again."""
        again = CompilerEnv.__new__(CompilerEnv)
        again._init(self._core, self._core.session(), state.action_space, None)
        again.observation_space, again.reward_space = None, state.reward_space
        again.benchmark = self._program(state.benchmark)
        return again

    def validate(
        self, state: EnvState | None = None, *, semantics: bool = True
    ) -> ValidationResult:
        """Play an episode again, and compare where it leads and what the program does there.

        A program that says how it is run (``IsRunnable``) is run in its state and untouched, also
        under sanitizers: it must end in the same way, with the same output and files. Of another
        program, state and reward alone are compared.

        Parameters
        ----------
        state : EnvState, optional
            Where the episode led; by default the present state.
        semantics : bool, optional
            Whether to run the program.
        """
        state = self.state if state is None else state
        again = self._again(state)
        try:
            return again._validated(state, semantics)
        finally:
            again.close()

    def _validated(self, state: EnvState, semantics: bool) -> ValidationResult:
        """Play the episode that led to a state, and compare."""
        try:
            self.reset()
        except CompilerFailed as error:
            return ValidationResult(state, (str(error),))
        self.multistep(state.actions)
        errors: list[str] = []
        if self._state_id != state.state_id:
            errors.append(f"the state is now {self._state_id}, and was {state.state_id}")
        rewards = self.episode_reward, state.reward
        # A reward whose observation failed is NaN, and is one again.
        if not np.isclose(*rewards, rtol=1e-9, atol=1e-12, equal_nan=True):
            errors.append(f"the reward is now {self.episode_reward}, and was {state.reward}")
        # Where the compiler failed, there is no program to run.
        if not semantics or state.state_id is None:
            return ValidationResult(state, tuple(errors))
        program = self.benchmark
        assert program is not None  # There is one after a reset.
        checked, wrong, remarks = _steplake.check_semantics(
            self._core, state.action_space, program, state.actions
        )
        return ValidationResult(state, (*errors, *wrong), checked, tuple(remarks))

    def commandline(self) -> str:
        """Return the episode as a command, or as the names of its actions.

        For LLVM it is that of ``opt``: see `opt_command`. An environment with an observation space
        ``command_line``, such as ``gcc-v0``, says it itself.
        """
        if self._core.recorded_name == "llvm-v0":
            return opt_command(self.action_space, self.actions)
        if _COMMAND_LINE in self._observations:
            return str(self.observation[_COMMAND_LINE])
        return self.action_space.to_string(self.actions)

    def render(self) -> str | None:
        """Return the program as text, in the render mode ``ansi``."""
        if self.render_mode != "ansi":
            return None
        state = self._spec_of(self._core.state_space)
        return self._session.text(self._session.observe(state.place))

    def __repr__(self) -> str:
        benchmark = self.benchmark
        facts = {
            "benchmark": None if benchmark is None else benchmark.uri,
            "observation_space": self.observation_space_name,
            "reward_space": self.reward_space_name,
            "action_space": self._action_space_name,
            "actions": self.actions,
        }
        listed = ", ".join(f"{name}={value!r}" for name, value in facts.items())
        return f"{type(self).__name__}({self._core.name!r}, {listed})"

    def __str__(self) -> str:
        # Wrappers show it inside of their own names.
        return repr(self) if self.spec is None else f"<{type(self).__name__}<{self.spec.id}>>"

    def close(self) -> None:
        """End the episode, and the worker process unless a fork uses it too."""
        self._session.close()
        self._running = None
        self._forget()
