"""Lakes of compiler state transitions, and the environments that they are recorded from.

>>> import steplake
>>> env = steplake.make("toy-v0", benchmark="generator://toy-v0/1")
>>> observation, info = env.reset()
>>> observation, reward, terminated, truncated, info = env.step(env.action_space["increment"])
>>> terminated
False

The environments are in `steplake.env`, several at once in `steplake.vector`, and CompilerGym's
wrappers in `steplake.wrappers`. What a lake has recorded comes as `steplake.episodes`, as a
`steplake.graph`, and as rows for `steplake.training`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Literal

from steplake._steplake import (
    Answer,
    BackfillReport,
    Benchmark,
    Coverage,
    DedupReport,
    MeasureReport,
    NamedQuery,
    Relation,
    RunSummary,
    Verification,
    __version__ as __version__,
)
from steplake.compiler import Compiler
from steplake.errors import (
    BadBenchmark,
    CheckFailed,
    CompilerFailed,
    CompilerUnavailable,
    LakeBusy,
    LakeDamaged,
    LakeError,
    MissingEdge,
    MissingPackage,
    NoSuchLake,
    NoSuchRenderMode,
    NoSuchSnapshot,
    NoSuchState,
    NotDeduplicated,
    NotInLake,
    Offline,
    ProgramFailed,
    QueryError,
    SteplakeError,
    UsageError,
)
from steplake.lake import Lake
from steplake.registration import register_with_gymnasium

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence

    from steplake.env import CompilerEnv
    from steplake.recording import record

__all__ = [
    "Answer",
    "BackfillReport",
    "BadBenchmark",
    "Benchmark",
    "CheckFailed",
    "Compiler",
    "CompilerFailed",
    "CompilerUnavailable",
    "Coverage",
    "DedupReport",
    "Lake",
    "LakeBusy",
    "LakeDamaged",
    "LakeError",
    "MeasureReport",
    "MissingEdge",
    "MissingPackage",
    "NamedQuery",
    "NoSuchLake",
    "NoSuchRenderMode",
    "NoSuchSnapshot",
    "NoSuchState",
    "NotDeduplicated",
    "NotInLake",
    "Offline",
    "ProgramFailed",
    "QueryError",
    "Relation",
    "RunSummary",
    "SteplakeError",
    "UsageError",
    "Verification",
    "generate",
    "make",
    "open",
    "record",
]


def open(
    path: str | os.PathLike[str],
    snapshot: int | None = None,
    *,
    context: str | None = None,
    memory: int | None = None,
    progress: bool | None = None,
) -> Lake:
    """Open a lake to read it.

    Parameters
    ----------
    path : str or os.PathLike
        The folder of the lake.
    snapshot : int, optional
        The number of the snapshot to read; by default every question reads the newest rows.
    context : str, optional
        The context to read, if the lake has several. By default `sql` reads all of them, with their
        names in the column ``context``, and the other methods ask for one.
    memory : int, optional
        The memory of questions for sorts, joins and groups, in bytes; what does not fit goes to
        temporary files. By default as much as there is.
    progress : bool, optional
        Whether calls that take long show their progress; by default in a terminal or a notebook.

    Raises
    ------
    NoSuchLake
        If there is no lake.
    NoSuchSnapshot
        If the lake does not have the snapshot.
    UsageError
        If the lake does not have the context, or has several where a snapshot is named.

    Examples
    --------
    >>> with steplake.open("lake") as lake:
    ...     lake.sql("SELECT count(*) AS episodes, sum(steps) AS steps FROM episodes")
    +----------+-------+
    | episodes | steps |
    +----------+-------+
    | 12       | 84    |
    +----------+-------+
    1 row
    """
    from steplake import _package

    _package.begin()
    return Lake(path, snapshot, context=context, memory=memory, progress=progress)


def make(id: str | Callable[[], Compiler], **options: Any) -> CompilerEnv:
    """Make an environment: ``llvm-v0``, ``gcc-v0``, ``replay-v0`` over a lake, or a `Compiler`'s.

    ``steplake env describe`` takes the same names.

    The options are those of `steplake.env.CompilerEnv` or `steplake.replay.ReplayEnv`.
    ``gymnasium.make("steplake:llvm-v0")`` makes the same environment inside Gymnasium's usual
    wrappers.

    Examples
    --------
    >>> env = steplake.make("llvm-v0", benchmark="benchmark://steplake-v0/huffman")
    >>> observation, info = env.reset()
    >>> env.observation["IrInstructionCount"]
    726
    >>> observation, reward, terminated, truncated, info = env.step(env.action_space["mem2reg"])
    >>> env.observation["IrInstructionCount"], env.reward["IrInstructionCount"]
    (440, 286.0)
    """
    if id == "replay-v0":
        from steplake.replay import ReplayEnv

        return ReplayEnv(**options)
    from steplake.env import CompilerEnv

    return CompilerEnv(id, **options)


def generate(
    lake: str | os.PathLike[str],
    benchmarks: str | Sequence[str],
    *,
    steps: int | None = None,
    states: int | None = None,
    episodes: int | None = None,
    environment: str | None = None,
    action_space: str | None = None,
    policy: str | None = None,
    objective: str | None = None,
    episode_length: int | None = None,
    seed: int = 0,
    jobs: int | None = None,
    shard: str | None = None,
    keyframes: int | None | Literal["usual"] = "usual",
    observe: Sequence[str] | None = None,
    rewards: Sequence[str] | None = None,
    step_cpu_seconds: int | None = None,
    worker_memory_mib: int | None = None,
    audit: int = 100,
    resume: bool = False,
    seal: bool = True,
    flags: str | Sequence[str] = (),
    progress: bool | None = None,
) -> RunSummary:
    """Record a run: play episodes of benchmarks on many workers.

    It does what the command ``steplake generate`` does, with the same defaults. Ctrl-C ends it
    early; the same call with ``resume=True`` continues the run. At its end, however it comes, the
    lake is sealed, so that other tools see all of it.

    Parameters
    ----------
    lake : str or os.PathLike
        The folder of the lake, which is made if there is none.
    benchmarks : str or sequence of str
        URIs, ranges such as ``generator://csmith-v0/0..9``, patterns, and paths of your own files
        and folders of them.
    steps, states, episodes : int, optional
        Where to stop: after so many steps, new states or episodes. Give one of them.
    environment : str, optional
        By default ``llvm-v0``.
    action_space : str, optional
        By default that of the lake, and for a new lake the environment's first.
    policy : str, optional
        How actions are chosen: ``random``, the default, or another one that the help of the command
        lists, such as ``explore`` or the search ``beam``. Where states are given by choices, as in
        ``gcc-v0``, a search that proposes whole sequences elsewhere makes all choices at once, and
        an episode begins there and has no steps.
    objective : str, optional
        The observation space, of single numbers, of which a search looks for the lowest value; by
        default the cost of the environment's first reward. It is recorded. In ``loops-v0`` it may
        also be ``Runtime``: states are measured here, unless the lake has their times.
    episode_length : int, optional
        The steps of an episode.
    seed : int, optional
        Fixes every choice: equal arguments give an equal lake.
    jobs : int, optional
        The number of workers; by default the number of cores.
    shard : str, optional
        ``"I/N"`` plays the I-th of N parts of the run; only with `episodes`.
    keyframes : int, None or "usual", optional
        The number of changes of state from one stored program to the next; None stores none. By
        default 1, so that all are stored; 64 in ``gcc-v0``.
    observe, rewards : sequence of str, optional
        The spaces to record.
    step_cpu_seconds : int, optional
        The CPU time of a step, in seconds.
    worker_memory_mib : int, optional
        The address space of a worker, in MiB.
    audit : int, optional
        One episode of so many is played again in another process and compared, to find actions
        that depend on more than the state; 0 plays none. ``lake.info()`` has the numbers.
    resume : bool, optional
        Continue the run with the same arguments, if there is one that is not complete. What a run
        has lost to a retraction or a repair is played by a run of its own; a warning says so.
    seal : bool, optional
        Whether to seal the lake at the end; without, what the run left in the hot log stays there
        until ``lake.seal()``.
    flags : str or sequence of str, optional
        The flags with which your own files of C and C++ are compiled, such as
        ``"-Iinclude -DNAME=1"``. They become part of the URIs of these benchmarks.
    progress : bool, optional
        Whether to show the progress; by default in a terminal or a notebook.

    Raises
    ------
    UsageError
        If an argument is wrong.
    LakeBusy
        If somebody else writes to the lake.

    Examples
    --------
    >>> run = steplake.generate(
    ...     "run", "generator://toy-v0/0..3", environment="toy-v0", episodes=8, episode_length=5
    ... )
    >>> run.is_complete, run.episodes
    (True, 8)
    """
    import shlex

    from steplake import _package, _steplake
    from steplake.defaults import names_of

    _package.begin()
    return _steplake.generate(
        lake,
        names_of(benchmarks),
        steps=steps,
        states=states,
        episodes=episodes,
        environment=environment,
        action_space=action_space,
        policy=policy,
        objective=objective,
        episode_length=episode_length,
        seed=seed,
        jobs=jobs,
        shard=shard,
        keyframes=keyframes,
        observe=None if observe is None else names_of(observe),
        rewards=None if rewards is None else names_of(rewards),
        step_cpu_seconds=step_cpu_seconds,
        worker_memory_mib=worker_memory_mib,
        audit=audit,
        resume=resume,
        seal=seal,
        flags=shlex.split(flags) if isinstance(flags, str) else list(flags),
        progress=progress,
    )


_MODULES = (
    "env",
    "episodes",
    "errors",
    "graph",
    "loader",
    "replay",
    "spaces",
    "training",
    "vector",
    "wrappers",
)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"steplake.{name}")
    if name == "record":
        return importlib.import_module("steplake.recording").record
    raise AttributeError(f"module 'steplake' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, *_MODULES]


register_with_gymnasium()
