"""An environment without a compiler: its steps come from a lake."""

from __future__ import annotations

import os
from typing import Any, cast
from weakref import WeakSet

from steplake import _package, _steplake
from steplake._session import demand_render_mode
from steplake._steplake import Coverage
from steplake.datasets import BenchmarkLike
from steplake.defaults import UNSET
from steplake.env import CompilerEnv
from steplake.errors import NotInLake
from steplake.state import EnvState


class ReplayEnv(CompilerEnv):
    """A lake as an environment: each step is one that was recorded, and takes no compiler.

    The graph of the lake's state transitions is read into memory: at most 28 bytes for each state
    and 12 for each transition. A fork costs next to nothing. If an action led to several states,
    the most frequent one is followed; a recorded failure of the compiler ends the episode. What was
    recorded since the last dedup is not known.

    Parameters
    ----------
    lake : str or os.PathLike
        The folder of the lake.
    context : str, optional
        The context, if the lake has several; see `Lake.contexts`.
    snapshot : int, optional
        The number of the snapshot; by default the newest one.
    missing_edge : {"error", "stay", "live"}, optional
        What a step does if the lake does not know the result of the action in the present state.
        ``error``, the default: it raises `MissingEdge`, and the state stays as it is. ``stay``: it
        has no effect, and the reward is 0. ``live``: the compiler of the lake is brought to the
        state and asked; it is asked as well for observations that the lake lacks. What it executes
        is recorded into the lake, as a run of its own: also the actions of the episode that bring
        it to the state. Only one such environment at a time writes to a lake.
    benchmark : str or Benchmark, optional
        A benchmark of the lake, or with ``live`` any program; by default the lake's first.
    observation_space, reward_space : str or None, optional
        Spaces that were recorded; with ``live`` any of the compiler's.
    render_mode : {"ansi"}, optional
        With ``live``, `render` returns the program as text.
    step_cpu_seconds, worker_memory_mib : int, optional
        The limits of the compiler; see `CompilerEnv`.

    Raises
    ------
    NotDeduplicated
        If the state transitions of the lake were never counted.
    LakeBusy
        With ``live``, if somebody else writes to the lake.

    Examples
    --------
    >>> env = steplake.make("replay-v0", lake=lake.path)
    >>> observation, info = env.reset()
    >>> env.coverage.states > 0
    True
    """

    def __init__(
        self,
        environment: str = "replay-v0",
        *,
        lake: str | os.PathLike[str],
        context: str | None = None,
        snapshot: int | None = None,
        missing_edge: str = "error",
        benchmark: BenchmarkLike | None = None,
        observation_space: str | None = UNSET,
        reward_space: str | None = UNSET,
        render_mode: str | None = None,
        step_cpu_seconds: int | None = None,
        worker_memory_mib: int | None = None,
    ) -> None:
        demand_render_mode(render_mode)
        _package.begin()
        core = _steplake.Environment.replay(
            lake,
            context=context,
            snapshot=snapshot,
            missing_edge=missing_edge,
            step_cpu_seconds=step_cpu_seconds,
            worker_memory_mib=worker_memory_mib,
        )
        self._family: WeakSet[ReplayEnv] = WeakSet([self])
        try:
            self._init(core, core.session(), None, render_mode)
            self._choose(observation_space, reward_space, benchmark)
        except BaseException:
            core.end_recording()
            raise

    @property
    def coverage(self) -> Coverage:
        """What this environment and its forks were asked for, and what the lake knows."""
        return self._core.coverage()

    def _demand_reward(self) -> None:
        raise NotInLake(f"the lake has no reward {self._rewarded} of this step: choose another")

    def _again(self, state: EnvState) -> CompilerEnv:
        """Return the compiler that was recorded: it shows whether the lake tells the truth."""
        known = self._program(state.benchmark)
        return CompilerEnv(
            self._core.recorded_name,
            benchmark=known if known.program else state.benchmark,
            observation_space=None,
            reward_space=state.reward_space,
            action_space=state.action_space,
        )

    def _relate(self, other: Any) -> Any:
        """Note that another environment is over the same lake."""
        other._family = self._family
        self._family.add(other)
        return other

    def fork(self) -> CompilerEnv:
        """Return a second environment in the same state; see `CompilerEnv.fork`."""
        return cast("CompilerEnv", self._relate(super().fork()))

    def _sibling(self, benchmark: BenchmarkLike | None) -> CompilerEnv:
        return cast("CompilerEnv", self._relate(super()._sibling(benchmark)))

    def close(self) -> None:
        """End the environment. With ``live``, the last one of it and its forks makes durable what
        was recorded, and lets go of the lake.
        """
        super().close()
        self._family.discard(self)
        if not self._family:
            self._core.end_recording()
