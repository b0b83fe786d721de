"""Wrappers that keep account of an environment: its earlier states, its calls, its steps."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from steplake.env import CompilerEnv
from steplake.recording import record
from steplake.state import EnvState, ValidationResult
from steplake.wrappers.core import CompilerEnvWrapper, Step

CounterT = TypeVar("CounterT", bound="Counter")


class ForkOnStep(CompilerEnvWrapper):
    """Forks the environment before every step, so that `undo` can go back.

    Put it around all other wrappers: `undo` brings back what they keep too.

    Parameters
    ----------
    env : CompilerEnv or CompilerEnvWrapper
        The environment to wrap.

    Attributes
    ----------
    stack : list of CompilerEnv or CompilerEnvWrapper
        The environment as it was before each step of the episode, oldest first.
    """

    def __init__(self, env: CompilerEnv | CompilerEnvWrapper) -> None:
        super().__init__(env)
        self.stack: list[CompilerEnv | CompilerEnvWrapper] = []

    def _fork_state(self, source: Any) -> None:
        super()._fork_state(source)
        self.stack = [env.fork() for env in source.stack]

    def _clear(self) -> None:
        while self.stack:
            self.stack.pop().close()

    def undo(self) -> CompilerEnv | CompilerEnvWrapper:
        """Go back to before the last `step` or `multistep`, and return the wrapped environment.

        Before the first one, nothing happens.
        """
        if self.stack:
            self.env.close()
            self.env = self.stack.pop()
        return self.env

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode, which has nothing to undo; see `CompilerEnv.reset`."""
        self._clear()
        return self.env.reset(seed=seed, options=options)

    def multistep(self, actions: Iterable[Any], **spaces: Any) -> Step:
        """Apply several actions at once, and undo them at once; see `CompilerEnv.multistep`."""
        before = self.env.fork()
        try:
            taken = self.env.multistep(actions, **spaces)
        except BaseException:
            before.close()
            raise
        self.stack.append(before)
        return taken

    def apply(self, state: EnvState) -> None:
        """Bring the environment to a state, from which nothing can be undone."""
        self._clear()
        self.env.apply(state)

    def close(self) -> None:
        """Close the environment and its forks."""
        self._clear()
        self.env.close()


class Counter(CompilerEnvWrapper):
    """Counts the calls of each method. `reset` does not set the counts back; a fork copies them.

    Other wrappers pass a single step on as a ``multistep``: put this one around them to count both.

    Parameters
    ----------
    env : CompilerEnv or CompilerEnvWrapper
        The environment to wrap.

    Attributes
    ----------
    counters : dict of int
        The counts of ``apply``, ``close``, ``fork``, ``multistep``, ``render``, ``reset``, ``step``
        and ``validate``.
    """

    def __init__(self, env: CompilerEnv | CompilerEnvWrapper) -> None:
        super().__init__(env)
        names = "apply close fork multistep render reset step validate"
        self.counters = dict.fromkeys(names.split(), 0)

    def _fork_state(self, source: Any) -> None:
        super()._fork_state(source)
        self.counters = dict(source.counters)

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode; see `CompilerEnv.reset`."""
        self.counters["reset"] += 1
        return self.env.reset(seed=seed, options=options)

    def step(self, action: Any, **spaces: Any) -> Step:
        """Apply one action; see `CompilerEnv.step`."""
        self.counters["step"] += 1
        return self.env.step(action, **spaces)

    def multistep(self, actions: Iterable[Any], **spaces: Any) -> Step:
        """Apply several actions at once; see `CompilerEnv.multistep`."""
        self.counters["multistep"] += 1
        return self.env.multistep(actions, **spaces)

    def fork(self: CounterT) -> CounterT:
        """Return the same wrappers around a fork of the environment; see `CompilerEnv.fork`."""
        self.counters["fork"] += 1
        return super().fork()

    def apply(self, state: EnvState) -> None:
        """Bring the environment to a state; see `CompilerEnv.apply`."""
        self.counters["apply"] += 1
        self.env.apply(state)

    def validate(
        self, state: EnvState | None = None, *, semantics: bool = True
    ) -> ValidationResult:
        """Play an episode again, and compare where it leads; see `CompilerEnv.validate`."""
        self.counters["validate"] += 1
        return self.env.validate(state, semantics=semantics)

    def render(self) -> Any:
        """Return the program as text; see `CompilerEnv.render`."""
        self.counters["render"] += 1
        return self.env.render()

    def close(self) -> None:
        """End the worker process; see `CompilerEnv.close`."""
        self.counters["close"] += 1
        self.env.close()


class SynchronousSqliteLogger(CompilerEnvWrapper):
    """Records into a lake. Deprecated: `steplake.record` records.

    The recording ends when the wrapper is closed. A fork's steps belong to it too, as an episode of
    their own: close the fork before.

    Parameters
    ----------
    env : CompilerEnv or CompilerEnvWrapper
        The environment to wrap. It begins anew.
    db_path : str or os.PathLike
        The folder of the lake, which is made if there is none. No SQLite file is written.
    commit_frequency_in_seconds, max_step_buffer_length : int, optional
        CompilerGym's. They change nothing: every step is durable within a second.

    Raises
    ------
    LakeBusy
        If another process or another recording writes to the lake.
    """

    def __init__(
        self,
        env: CompilerEnv | CompilerEnvWrapper,
        db_path: str | os.PathLike[str],
        commit_frequency_in_seconds: int = 300,
        max_step_buffer_length: int = 5000,
    ) -> None:
        super().__init__(env)
        warnings.warn(
            "SynchronousSqliteLogger writes no SQLite: `with steplake.record(lake, env) as env:` "
            "records, and so does this wrapper for now",
            DeprecationWarning,
            stacklevel=2,
        )
        self._recording: record[Any] | None = record(db_path, env)
        self._recording.__enter__()

    def _fork_state(self, source: Any) -> None:
        super()._fork_state(source)
        self._recording = None

    def close(self) -> None:
        """End the recording and the worker process."""
        recording, self._recording = self._recording, None
        if recording is not None:
            recording.__exit__(None, None, None)
        self.env.close()
