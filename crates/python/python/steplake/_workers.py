"""What a process shares with the workers of its ``DataLoader``: which epoch comes next.

A worker is a copy of its process, made for one pass: what it counts is gone with it. So the count
is in memory that both have. Workers are forked or spawned; a process that is started in another
way, such as one of several ranks, has a count of its own.

Two limits. Passes are told apart by the seed that torch draws for the workers of each. If two are
under way at once with equal seeds and equally many workers, because the random numbers of torch
were set to the same before each, a worker of one may take the epoch of the other. And what is
shared is locked for processes, not for threads: loaders of one dataset have to be begun by one
thread of a process at a time.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import sys
import warnings
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.context import get_spawning_popen
from multiprocessing.reduction import DupFd
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

#: Passes that may be under way at once: several loaders may take turns.
_PASSES_MAX = 8

#: Rows that a process reads in turn, from the first one on, before that is no sampler's chance.
_IN_TURN = 4

#: Workers of a pass, by the bits of their numbers.
_WORKERS = 16 * 64

_PASS = np.dtype(
    [
        ("seed", np.int64),
        ("workers", np.int64),
        ("epoch", np.uint64),
        ("begun_by", np.uint8, _WORKERS // 8),
    ]
)
_MEMORY = np.dtype(
    [
        ("epoch", np.uint64),
        ("begun", np.int64),
        ("passes", np.int64),
        ("under_way", _PASS, _PASSES_MAX),
    ]
)


def this_worker() -> tuple[int, int, int] | None:
    """Return what a worker of a ``DataLoader`` is; None in no worker.

    It is the number of the worker, that of all workers, and the seed that they have in common.
    """
    loading = sys.modules.get("torch.utils.data")
    info = None if loading is None else loading.get_worker_info()
    return None if info is None else (info.id, info.num_workers, info.seed - info.id)


class Memory:
    """Numbers that a process shares with those that it forks or spawns.

    Attributes
    ----------
    process : int
        The id of the process.
    """

    def __init__(self, file: int, process: int) -> None:
        self.process, self._file = process, file
        weakref.finalize(self, os.close, file)
        os.ftruncate(file, _MEMORY.itemsize)
        self._pages = mmap.mmap(file, _MEMORY.itemsize)

    @classmethod
    def new(cls) -> Memory:
        """Return memory that is all zeros."""
        return cls(os.memfd_create("steplake-epoch"), os.getpid())

    @contextmanager
    def locked(self) -> Iterator[npt.NDArray[Any]]:
        """Give out the numbers, as an array of one record, while no other process has them."""
        # Locks of this kind are those of a process, also where it shares the file by a fork.
        fcntl.lockf(self._file, fcntl.LOCK_EX)
        try:
            yield np.frombuffer(self._pages, _MEMORY)
        finally:
            fcntl.lockf(self._file, fcntl.LOCK_UN)

    def __reduce__(self) -> tuple[Any, ...]:
        return _attached, (DupFd(self._file), self.process)


def _attached(file: Any, process: int) -> Memory:
    return Memory(file.detach(), process)


class Moment(NamedTuple):
    """A time in the life of a process: how many passes its workers had begun."""

    process: int
    passes: int


class SharedEpoch:
    """The number of an epoch, which a process and the workers of its ``DataLoader`` share.

    Parameters
    ----------
    number : int, optional
        The number to begin with.
    """

    def __init__(self, number: int = 0) -> None:
        # The number, and how often the epoch has begun, until there is memory for this process and
        # its workers: when one is forked or spawned.
        self._number, self._begun = number, 0
        self._memory: Memory | None = None
        self._process = os.getpid()
        # The memory of the process of which this one may be a worker.
        self._given: Memory | None = None
        # Of rows that are read in turn here: the place of the next one, and how many there were.
        self._in_turn = 0, 0
        _alive.add(self)

    def _arrive(self) -> None:
        """In a new process, begin with what the process had that has started it."""
        if self._process != os.getpid():
            if self._memory is not None:
                with self._memory.locked() as numbers:
                    self._number, self._begun = int(numbers["epoch"][0]), int(numbers["begun"][0])
            self._given, self._memory, self._process = self._memory, None, os.getpid()
            self._in_turn = 0, 0

    def _shared(self) -> Memory | None:
        """Return the memory that this process shares: as a worker, or with its workers."""
        self._arrive()
        return self._memory if this_worker() is None else self._given

    def share(self) -> Memory:
        """Return the memory of this process and its workers, which is made if there is none."""
        self._arrive()
        if self._memory is None:
            self._memory = Memory.new()
            with self._memory.locked() as numbers:
                numbers["epoch"], numbers["begun"] = self._number, self._begun
        return self._memory

    def get(self) -> int:
        """Return the number of the epoch; in a worker, that of the process that it is of."""
        memory = self._shared()
        if memory is None:
            return self._number
        with memory.locked() as numbers:
            return int(numbers["epoch"][0])

    def set(self, number: int) -> None:
        """Set the number; in a worker, for all workers and the process that they are of."""
        memory = self._shared()
        self._number, self._begun = number, 0
        if memory is not None:
            with memory.locked() as numbers:
                numbers["epoch"], numbers["begun"] = number, 0

    def is_in_order(self, places: npt.NDArray[np.uint32]) -> bool:
        """Note places that are read at once, and return whether they show that a pass begins.

        A ``DataLoader`` that does not shuffle reads batch after batch, and its workers take turns.
        The one that has the first row shows it, once a pass; the others never do.
        """
        self._arrive()
        rows, worker = len(places), this_worker()
        is_first = rows > 0 and places[0] == 0
        begin, before = (0, 0) if is_first else self._in_turn
        if not np.array_equal(places, np.arange(begin, begin + rows)):
            self._in_turn = 0, 0
            return False
        self._in_turn = begin + rows * (1 if worker is None else worker[1]), before + rows
        return before < _IN_TURN <= before + rows

    def begin(self) -> int:
        """Note that the epoch begins, and return how often it had begun before."""
        memory = self._shared()
        if memory is None:
            self._begun += 1
            return self._begun - 1
        with memory.locked() as numbers:
            numbers["begun"] += 1
            return int(numbers["begun"][0]) - 1

    def moment(self) -> Moment:
        """Return when it is."""
        memory = self._shared()
        if memory is None:
            return Moment(os.getpid(), 0)
        with memory.locked() as numbers:
            return Moment(memory.process, int(numbers["passes"][0]))

    def begin_pass(self) -> tuple[int, Moment]:
        """Begin a pass, and return its epoch, and when that was.

        The first worker of a pass takes the next epoch, and the others take the same. In no worker,
        the epoch stays the next one.
        """
        worker, memory = this_worker(), self._shared()
        if worker is None or memory is None:
            return self.get(), self.moment()
        with memory.locked() as numbers:
            passes, epoch = int(numbers["passes"][0]), int(numbers["epoch"][0])
            id, workers, seed = worker
            under_way = numbers["under_way"][0]
            place, bit = id % _WORKERS // 8, 1 << id % 8
            for number in range(max(passes - _PASSES_MAX, 0), passes):
                known = under_way[number % _PASSES_MAX]
                is_of_pass = known["seed"] == seed and known["workers"] == workers
                if is_of_pass and not known["begun_by"][place] & bit:
                    known["begun_by"][place] |= bit
                    return int(known["epoch"]), Moment(memory.process, number)
            known = under_way[passes % _PASSES_MAX]
            known["seed"], known["workers"] = seed, workers
            known["epoch"], known["begun_by"] = epoch, 0
            known["begun_by"][place] = bit
            numbers["epoch"], numbers["passes"] = epoch + 1, passes + 1
            return epoch, Moment(memory.process, passes)

    def __getstate__(self) -> dict[str, Any]:
        # Any other copy has a number of its own.
        is_spawned = get_spawning_popen() is not None
        memory = self.share() if is_spawned else None
        number = {"_number": self.get(), "_begun": 0}
        own = {"_process": os.getpid(), "_given": None, "_in_turn": (0, 0)}
        return {**number, **own, "_memory": memory}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        _alive.add(self)


#: The epochs of this process, of which its workers are to know.
_alive: weakref.WeakSet[SharedEpoch] = weakref.WeakSet()


def _before_fork() -> None:
    for epoch in list(_alive):
        epoch.share()


os.register_at_fork(before=_before_fork)


def warn_of_repetition(
    seed: int | None, epoch: SharedEpoch, places: npt.NDArray[np.uint32]
) -> None:
    """Warn of places in the order of an epoch if a ``DataLoader`` begins to read it once more."""
    if seed is not None and epoch.is_in_order(places) and epoch.begin():
        warnings.warn(
            f"this pass has the order of epoch {epoch.get()} again: call `set_epoch` before each "
            "pass, give the `DataLoader` `shuffle=True`, or give it a `loader` of the dataset, "
            "whose epochs advance by themselves",
            stacklevel=4,
        )
