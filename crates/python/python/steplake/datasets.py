"""Where benchmarks come from."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from steplake import _steplake
from steplake._steplake import Benchmark
from steplake.errors import BadBenchmark


BenchmarkLike: TypeAlias = str | os.PathLike[str] | bytes | Benchmark
"""What names a benchmark or is one: a URI, a file, a program as bytes, or a benchmark."""


def benchmark_of(core: _steplake.Environment, given: BenchmarkLike) -> Benchmark:
    """Return a benchmark by URI, from a file, or from a program as bytes."""
    if isinstance(given, Benchmark):
        return given
    if isinstance(given, bytes):
        digest = hashlib.sha1(given, usedforsecurity=False).hexdigest()
        return Benchmark(f"benchmark://user-v0/{digest}", given)
    return core.benchmark(os.fspath(given))


def named_benchmark(
    core: _steplake.Environment, uri: str, known: Iterable[Benchmark | None]
) -> Benchmark:
    """Return the benchmark with this URI: one of those that are known, or one of a dataset."""
    for one in known:
        if one is not None and one.uri == uri:
            return one
    try:
        return core.benchmark(uri)
    except BadBenchmark as error:
        raise BadBenchmark(
            f"{error}; if it is a program of your own, set `env.benchmark` to it first"
        ) from None


@dataclass(frozen=True)
class Dataset:
    """A named set of benchmarks.

    Attributes
    ----------
    name, uri, description, licence : str
        Its name with its version, the beginning of its URIs, one line about it, and the licence of
        its programs; empty where each has its own.
    size : int or None
        The number of programs; none where there is no end of them.
    example : str
        A pattern to begin with.

    Examples
    --------
    >>> dataset = env.datasets["benchmark://steplake-v0"]
    >>> dataset.size, next(dataset.benchmark_uris())
    (25, 'benchmark://steplake-v0/big_integers')
    >>> [benchmark] = dataset.benchmarks("huff*")
    >>> benchmark.licence
    'MIT'
    """

    name: str
    uri: str
    description: str
    licence: str
    size: int | None
    example: str
    _core: _steplake.Environment = field(repr=False, compare=False)

    def benchmark_uris(self, pattern: str = "") -> Iterator[str]:
        """Iterate over the URIs of benchmarks: of all, or of those that `pattern` names.

        A pattern is what follows the dataset's URI and a slash: a path, a path with ``*`` and
        ``**``, or a range of seeds such as ``0..9``.
        """
        wanted = f"{self.uri}/{pattern}" if pattern else self.uri
        yield from self._core.benchmarks([wanted])

    def benchmarks(self, pattern: str = "") -> Iterator[Benchmark]:
        """Iterate over benchmarks; see `benchmark_uris`."""
        for uri in self.benchmark_uris(pattern):
            yield self._core.benchmark(uri)
