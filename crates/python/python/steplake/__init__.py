"""Lakes of compiler state transitions, and the environments that they are recorded from.

>>> import steplake
>>> env = steplake.make("toy-v0", benchmark="generator://toy-v0/1")
>>> observation, info = env.reset()
>>> observation, reward, terminated, truncated, info = env.step(env.action_space["increment"])
>>> terminated
False
"""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING, Any

from steplake._steplake import Answer, Benchmark, Lake, NamedQuery, Relation
from steplake.errors import (
    BadBenchmark,
    CheckFailed,
    CompilerFailed,
    CompilerUnavailable,
    LakeBusy,
    LakeDamaged,
    LakeError,
    MissingPackage,
    NoSuchLake,
    NoSuchSnapshot,
    NoSuchState,
    NotDeduplicated,
    NotInLake,
    Offline,
    QueryError,
    SteplakeError,
    UsageError,
)

if TYPE_CHECKING:
    import os

    from steplake.env import CompilerEnv

__all__ = [
    "Answer",
    "BadBenchmark",
    "Benchmark",
    "CheckFailed",
    "CompilerFailed",
    "CompilerUnavailable",
    "Lake",
    "LakeBusy",
    "LakeDamaged",
    "LakeError",
    "MissingPackage",
    "NamedQuery",
    "NoSuchLake",
    "NoSuchSnapshot",
    "NoSuchState",
    "NotDeduplicated",
    "NotInLake",
    "Offline",
    "QueryError",
    "Relation",
    "SteplakeError",
    "UsageError",
    "make",
    "open",
]


def open(
    path: str | os.PathLike[str],
    snapshot: int | None = None,
    *,
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
    """
    return Lake(path, snapshot, memory=memory, progress=progress)


def make(id: str, **options: Any) -> CompilerEnv:
    """Make an environment: ``llvm-v0`` or ``toy-v0``.

    The options are those of `steplake.env.CompilerEnv`. ``gymnasium.make("steplake:llvm-v0")``
    makes the same environment inside Gymnasium's usual wrappers.
    """
    from steplake.env import CompilerEnv

    return CompilerEnv(id, **options)


def __getattr__(name: str) -> Any:
    if name in {"env", "wrappers", "spaces", "errors", "vector"}:
        return importlib.import_module(f"steplake.{name}")
    raise AttributeError(f"module 'steplake' has no attribute {name!r}")


if "gymnasium" in sys.modules:
    # `gymnasium.make("steplake:llvm-v0")` imports this package to find its environments.
    importlib.import_module("steplake.registration").register()
