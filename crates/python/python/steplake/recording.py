"""Recording what environments do."""

from __future__ import annotations

import os
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Generic, Literal, TypeVar

from steplake import _steplake
from steplake.defaults import names_of
from steplake.errors import UsageError

EnvT = TypeVar("EnvT")


class record(Generic[EnvT]):
    """Record what an environment does into a lake, as one run::

        with steplake.record("lake", env) as env:
            env.reset()
            ...

    The environment begins anew at both ends: call ``reset`` first. Its forks are recorded too, and
    are closed at the end, where the lake is sealed, so that other tools see all of it. Inside, every
    step is durable within a second. What was recorded before a crash stays, as the steps of an
    unfinished run.

    Parameters
    ----------
    lake : str or os.PathLike
        The folder of the lake, which is made if there is none.
    env : CompilerEnv or CompilerVectorEnv, also inside wrappers
        The environment. All environments of a vector share one recording.
    policy : str, optional
        What chooses the actions; kept with every episode.
    seed : int, optional
        The seed of these choices; kept with every episode.
    keyframes : int, None or "usual", optional
        The number of changes of state from one stored program to the next; None stores none. By
        default 1, so that all are stored; 64 in ``gcc-v0``.
    observe, rewards : sequence of str, optional
        The spaces to record; by default those of the lake, and for a new lake all spaces of
        numbers.
    audit : int, optional
        One episode of so many is played again in another process and compared, to find actions
        that depend on more than the state; 0 plays none. A compiler of your own has no other
        process.
    seal : bool, optional
        Whether the lake is sealed at the end, which writes some files. Where many short recordings
        follow each other, ``lake.seal()`` after the last of them writes fewer.

    Raises
    ------
    LakeBusy
        If another process or another recording writes to the lake. Give each a lake of its own, and
        merge the lakes.
    LakeError
        If the lake has another environment, compiler or action space.
    """

    def __init__(
        self,
        lake: str | os.PathLike[str],
        env: EnvT,
        *,
        policy: str = "",
        seed: int = 0,
        keyframes: int | None | Literal["usual"] = "usual",
        observe: Sequence[str] | None = None,
        rewards: Sequence[str] | None = None,
        audit: int = 100,
        seal: bool = True,
    ) -> None:
        self._lake, self._env = lake, env
        self._policy, self._seed = policy, seed
        self._options: dict[str, Any] = {
            "keyframes": keyframes,
            "observe": None if observe is None else names_of(observe),
            "rewards": None if rewards is None else names_of(rewards),
            "audit": audit,
            "seal": seal,
        }
        self._recording: _steplake.Recording | None = None

    def __enter__(self) -> EnvT:
        base: Any = getattr(self._env, "unwrapped", self._env)
        if not hasattr(base, "_use_sessions"):
            raise UsageError(
                f"{self._env!r} cannot be recorded: give what `steplake.make` returns, or "
                "`gymnasium.make` or `gymnasium.make_vec` of an environment of steplake"
            )
        if getattr(base, "_is_recorded", False):
            raise UsageError("this environment is recorded already: end that recording first")
        recording = _steplake.Recording(
            self._lake, base._core, action_space=base._action_space_name, **self._options
        )
        self._recording = recording
        try:
            base._use_sessions(lambda: recording.session(self._policy, self._seed))
            base._is_recorded = True
        except BaseException:
            recording.close()
            raise
        return self._env

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        base: Any = getattr(self._env, "unwrapped", self._env)
        base._is_recorded = False
        try:
            # This settles the last episodes, also those of forks.
            if self._recording is not None:
                self._recording.close()
        finally:
            base._use_sessions(base._core.session)
