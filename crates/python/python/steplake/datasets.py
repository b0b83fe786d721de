"""Where benchmarks come from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from steplake import _steplake
from steplake._steplake import Benchmark


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
