"""Wrappers that begin each episode with another benchmark."""

from __future__ import annotations

import copy
import itertools
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from steplake._steplake import Benchmark
from steplake.datasets import BenchmarkLike
from steplake.env import CompilerEnv
from steplake.errors import UsageError
from steplake.wrappers.core import CompilerEnvWrapper


class NoMoreBenchmarks(UsageError, StopIteration):
    """The benchmarks have come to an end."""


class _Shared(Iterator[BenchmarkLike]):
    """An iterator for several threads, which can be split in two."""

    def __init__(self, benchmarks: Iterator[BenchmarkLike], lock: threading.Lock) -> None:
        self._benchmarks, self._lock = benchmarks, lock

    def __next__(self) -> BenchmarkLike:
        with self._lock:
            return next(self._benchmarks)

    def split(self) -> _Shared:
        """Return an iterator over what comes from here on; this one goes on by itself."""
        with self._lock:
            self._benchmarks, others = itertools.tee(self._benchmarks)
        # The two read from one source, so they share the lock too.
        return _Shared(others, self._lock)


def _several(benchmarks: Iterable[BenchmarkLike]) -> Iterable[BenchmarkLike]:
    if isinstance(benchmarks, str | bytes | os.PathLike | Benchmark):
        raise UsageError(f"{benchmarks!r:.100} is one benchmark: give a list of benchmarks")
    return benchmarks


class IterateOverBenchmarks(CompilerEnvWrapper):
    """Each `reset` begins the next benchmark.

    Parameters
    ----------
    env : CompilerEnv or CompilerEnvWrapper
        The environment to wrap.
    benchmarks : iterable of str, os.PathLike, bytes or Benchmark
        The benchmarks; there may be no end of them.
    fork_shares_iterator : bool, optional
        Whether a fork takes its benchmarks from the same iterator, so that each benchmark is used
        by one of the two. By default each goes on by itself from here, and what only one has used
        yet is kept in memory.
    """

    def __init__(
        self,
        env: CompilerEnv | CompilerEnvWrapper,
        benchmarks: Iterable[BenchmarkLike],
        fork_shares_iterator: bool = False,
    ) -> None:
        super().__init__(env)
        self.benchmarks = _Shared(iter(_several(benchmarks)), threading.Lock())
        self.fork_shares_iterator = fork_shares_iterator

    def _fork_state(self, source: Any) -> None:
        super()._fork_state(source)
        if not self.fork_shares_iterator:
            self.benchmarks = source.benchmarks.split()

    def _next_benchmark(self) -> BenchmarkLike:
        try:
            return next(self.benchmarks)
        except StopIteration:
            raise NoMoreBenchmarks(
                "there are no more benchmarks: give more, or use CycleOverBenchmarks"
            ) from None

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode of the next benchmark; see `CompilerEnv.reset`.

        Raises
        ------
        NoMoreBenchmarks
            If there is no next benchmark. This is a ``StopIteration`` too.
        UsageError
            If `options` has a benchmark.
        """
        if options and "benchmark" in options:
            raise UsageError(
                f"{type(self).__name__} chooses the benchmarks: leave the option `benchmark` out"
            )
        return self.env.reset(
            seed=seed, options={**(options or {}), "benchmark": self._next_benchmark()}
        )


class CycleOverBenchmarks(IterateOverBenchmarks):
    """Each `reset` begins the next benchmark, and after the last one the first again.

    Parameters
    ----------
    env : CompilerEnv or CompilerEnvWrapper
        The environment to wrap.
    benchmarks : iterable of str, os.PathLike, bytes or Benchmark
        The benchmarks; they are kept in memory.
    fork_shares_iterator : bool, optional
        See `IterateOverBenchmarks`.
    """

    def __init__(
        self,
        env: CompilerEnv | CompilerEnvWrapper,
        benchmarks: Iterable[BenchmarkLike],
        fork_shares_iterator: bool = False,
    ) -> None:
        super().__init__(env, itertools.cycle(_several(benchmarks)), fork_shares_iterator)


class CycleOverBenchmarksIterator(IterateOverBenchmarks):
    """Each `reset` begins the next benchmark of an iterator, which is made anew at its end.

    Nothing is kept in memory, as it is by `CycleOverBenchmarks`.

    Parameters
    ----------
    env : CompilerEnv or CompilerEnvWrapper
        The environment to wrap.
    make_benchmark_iterator : callable
        Returns the benchmarks, each time it is called.
    fork_shares_iterator : bool, optional
        See `IterateOverBenchmarks`.
    """

    def __init__(
        self,
        env: CompilerEnv | CompilerEnvWrapper,
        make_benchmark_iterator: Callable[[], Iterable[BenchmarkLike]],
        fork_shares_iterator: bool = False,
    ) -> None:
        super().__init__(env, _rounds(make_benchmark_iterator), fork_shares_iterator)


def _rounds(make: Callable[[], Iterable[BenchmarkLike]]) -> Iterator[BenchmarkLike]:
    some = True
    while some:
        some = False
        for benchmark in _several(make()):
            some = True
            yield benchmark


class RandomOrderBenchmarks(IterateOverBenchmarks):
    """Each `reset` begins a benchmark that is drawn at random, all with equal chances.

    ``reset(seed=...)`` fixes the draws from this episode on. A fork goes on with the same draws.

    Parameters
    ----------
    env : CompilerEnv or CompilerEnvWrapper
        The environment to wrap.
    benchmarks : iterable of str, os.PathLike, bytes or Benchmark
        The benchmarks; they are kept in memory.
    rng : numpy.random.Generator or int, optional
        What draws, or its seed; by default draws differ from time to time.

    Raises
    ------
    UsageError
        If there is no benchmark.
    """

    def __init__(
        self,
        env: CompilerEnv | CompilerEnvWrapper,
        benchmarks: Iterable[BenchmarkLike],
        rng: np.random.Generator | int | None = None,
    ) -> None:
        self._all = list(_several(benchmarks))
        if not self._all:
            raise UsageError("there is no benchmark to draw: give one or more")
        super().__init__(env, (), fork_shares_iterator=True)
        self._rng = np.random.default_rng(rng)

    def _fork_state(self, source: Any) -> None:
        super()._fork_state(source)
        self._rng = copy.deepcopy(source._rng)

    def _next_benchmark(self) -> BenchmarkLike:
        return self._all[self._rng.integers(len(self._all))]

    def reset(
        self, *, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin an episode of a random benchmark; see `CompilerEnv.reset`."""
        if seed is not None:
            self._rng = np.random.default_rng(seed)
        return super().reset(seed=seed, options=options)
