"""Loaders: the batches of a dataset, epoch by epoch, and where one is in them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

from steplake import _steplake
from steplake._rows import (
    Columns,
    OrderedRows,
    demand_epoch,
    demand_number,
    drawn_seeds,
    each,
    formatted,
    positive,
)
from steplake._workers import Moment, SharedEpoch, this_worker
from steplake.errors import UsageError

#: The most threads of a loader by default: more seldom make it faster.
_THREADS_MAX = 4

#: The most threads that a loader takes.
_THREADS_LIMIT = 1 << 16


class Loader:
    """The batches of a `Dataset`, epoch by epoch; `Dataset.loader` makes one.

    Iterating gives the batches of an epoch, and ends with the next epoch set: with a seed, each
    pass has another order, also in the workers of a ``DataLoader``, which all take the same epoch.
    ``len(loader)`` is the number of batches of an epoch.

    Threads read ahead; which batches there are does not depend on their number. A loader of format
    ``"torch"`` is an ``IterableDataset`` of whole batches:
    ``DataLoader(loader, batch_size=None, num_workers=2)``.
    """

    def __init__(
        self,
        dataset: OrderedRows,
        batch_size: int,
        drop_last: bool,
        num_threads: int | None,
        rank: int | None,
        world_size: int | None,
        in_memory: bool | Literal["auto"],
        pin_memory: bool,
    ) -> None:
        self.dataset = dataset._with()
        self.batch_size = positive("batch_size", batch_size)
        self.drop_last = drop_last
        if num_threads is not None:
            num_threads = demand_number("num_threads", num_threads, 0, _THREADS_LIMIT)
        self.num_threads = num_threads
        if not isinstance(in_memory, bool) and in_memory != "auto":
            raise UsageError(f"`in_memory` is {in_memory!r}: choose True, False or 'auto'")
        # None until the first row is asked for, or a state is loaded.
        self._in_memory: bool | None = None if in_memory == "auto" else in_memory
        self._is_free = in_memory == "auto"
        self.pin_memory = pin_memory
        self._given_place = _given_place(rank, world_size)
        # The next one.
        self._epoch = SharedEpoch(dataset._epoch.get())
        # A loaded state, and when that was, until a batch after it is handed out.
        self._resume: tuple[dict[str, Any], Moment] | None = None
        if dataset._resume is not None:
            self._resume = dataset._resume, self._epoch.moment()
        self._iterator: _Epoch | None = None

    @property
    def rank(self) -> int:
        """The number of this process, from 0 on."""
        return (self._given_place or self._process_place() or (0, 1))[0]

    @property
    def world_size(self) -> int:
        """The number of processes."""
        return (self._given_place or self._process_place() or (0, 1))[1]

    @property
    def in_memory(self) -> bool:
        """Whether rows are mapped into memory, and not streamed."""
        if self.dataset.seed is None:
            return True
        if self._in_memory is None:
            # Processes on machines of different size have to agree.
            fits = self.dataset._rows.core.nbytes <= _memory_bytes() // 2
            can_stream = self.dataset._rows.core.can_stream and self.world_size == 1
            self._in_memory = fits or not can_stream
        return self._in_memory

    def _process_place(self) -> tuple[int, int] | None:
        """Return the rank of this process and the number of all; None where nobody tells."""
        return None

    def _place_of_worker(self) -> tuple[int, int] | None:
        """Return the number of this worker of a DataLoader and of all; None if it has no share."""
        return None

    def __repr__(self) -> str:
        about = f"batch_size={self.batch_size}, {len(self)} batches, epoch {self.epoch}"
        return f"{type(self).__name__}({about}) of the\n{self.dataset!r}"

    @property
    def epoch(self) -> int:
        """The number of the epoch that is under way, or else of the next one."""
        return int(self.state_dict()["epoch"])

    def set_epoch(self, epoch: int) -> None:
        """Begin with this epoch when it is iterated the next time, also by persistent workers."""
        self._epoch.set(demand_epoch(epoch))
        self._resume, self._iterator = None, None

    def _rounds(self, begin: int) -> int:
        core = self.dataset._rows.core
        return core.rounds(self.batch_size, self.drop_last, self.world_size, begin)

    def __len__(self) -> int:
        """Return the number of batches of an epoch, the same on all processes."""
        return self._rounds(0)

    def __iter__(self) -> Iterator[Columns]:
        """Iterate over the batches of an epoch, from where `load_state_dict` says.

        Each pass is the next epoch, also after a pass that was broken off; one that has given no
        batch does not count.
        """
        epoch, moment = self._epoch.begin_pass()
        state = self._pending(moment) or self._state(epoch, 0)
        if this_worker() is not None and state["epoch"] != epoch:
            self._epoch.set(state["epoch"] + 1)
        self._iterator = _Epoch(self, state)
        return self._iterator

    def _pending(self, moment: Moment) -> dict[str, Any] | None:
        """Return the state to go on from, unless workers have begun a pass since it was loaded."""
        if self._resume is None:
            return None
        state, loaded = self._resume
        if loaded.process == moment.process:
            return state if loaded.passes == moment.passes else None
        # A worker has loaded it, or a process that has started this one.
        return state if loaded.process == os.getpid() or moment.passes == 0 else None

    def __getitem__(self, _place: object) -> Columns:
        """Refuse: a ``DataLoader`` asks so for the rows of what it takes for a map."""
        raise UsageError(
            "a loader gives out batches in their order, and has no places: iterate over it, or for "
            'a `DataLoader` give the dataset the format "torch", `dataset.with_format("torch")`'
        )

    def state_dict(self) -> dict[str, Any]:
        """Return where the loader is: what `load_state_dict` takes, here or in another process.

        The state is the same on all processes, and small. It counts the batches that were handed
        out, not those that were read ahead.
        """
        pending = self._pending(self._epoch.moment())
        if pending is not None:
            return dict(pending)
        if self._iterator is not None and not self._iterator.is_over:
            return self._iterator.state_dict()
        return self._state(self._epoch.get(), 0)

    def _state(self, epoch: int, rows: int) -> dict[str, Any]:
        return {**self.dataset._state(epoch, rows), "in_memory": self.in_memory}

    def _demand_own(self, state: Mapping[str, Any]) -> tuple[int, int]:
        """Return the epoch and the rows of a state, and take over where its rows are read from."""
        place = self.dataset._demand_own(state)
        in_memory = state.get("in_memory", True)
        if in_memory != self.in_memory:
            if not self._is_free:
                raise UsageError(
                    f"the state is of another order: its `in_memory` is {in_memory}, and that of "
                    f"the loader is {self.in_memory}"
                )
            self._in_memory = in_memory
        return place

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on where a state says, at once: an iterator that has begun gives the batch there next.

        The batches that follow are those that would have followed, also with another number of
        threads. With another number of processes the rows of all full rounds come in the same
        order, and each row still comes once; so it is with another size of batches in one process.

        Raises
        ------
        UsageError
            If it is the state of other rows, of another seed, or of another number of workers of a
            ``DataLoader``.
        """
        self._demand_own(state_dict)
        self._resume = dict(state_dict), Moment(os.getpid(), self._epoch.moment().passes)
        if self._iterator is not None and not self._iterator.is_over:
            self._iterator.load_state_dict(state_dict)

    def __getstate__(self) -> dict[str, Any]:
        # An iterator stays in its process. A worker does not know the process that it is of; a
        # process that is to have a rank of its own learns it there.
        place = self._given_place or self._process_place()
        return {**self.__dict__, "_iterator": None, "_given_place": place}


def _given_place(rank: int | None, world_size: int | None) -> tuple[int, int] | None:
    """Return the number of this process and of all, if they are given."""
    if rank is None and world_size is None:
        return None
    if rank is None or world_size is None:
        raise UsageError("give both `rank` and `world_size`, or none of them")
    if not 0 <= rank < positive("world_size", world_size):
        raise UsageError(f"the rank is {rank}: of {world_size} processes, it is one from 0 on")
    return rank, world_size


def _memory_bytes() -> int:
    """Return the memory of the machine, or of the container."""
    machine = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    try:
        limit = Path("/sys/fs/cgroup/memory.max").read_text().strip()
    except OSError:
        return machine
    return min(machine, int(limit)) if limit.isdigit() else machine


class _Epoch:
    """An iterator over the batches of an epoch, which can be sent to another place."""

    def __init__(self, loader: Loader, state: Mapping[str, Any]) -> None:
        self._loader, self._worker = loader, loader._place_of_worker()
        self._reader: _steplake.BatchReader | None = None
        self._rows = self._next = 0
        self.is_over = False
        self._seek(state)

    def _later(self, begin: int, rounds: int) -> int:
        loader = self._loader
        core = loader.dataset._rows.core
        return core.later(loader.batch_size, loader.world_size, begin, rounds)

    def _own_state(self) -> dict[str, Any]:
        """Return what the place of a worker depends on, beside the rows."""
        loader = self._loader
        sizes = {"batch_size": loader.batch_size, "world_size": loader.world_size}
        return {"worker": list(self._worker or ()), **sizes}

    def __iter__(self) -> _Epoch:
        return self

    def __next__(self) -> Columns:
        loader = self._loader
        if self.is_over:
            raise StopIteration
        if self._reader is None:
            if loader.world_size > 1 and loader.dataset._seed_drawn_in == os.getpid():
                raise drawn_seeds(loader.world_size)
            self._reader = loader.dataset._rows.core.batches(
                loader.batch_size,
                drop_last=loader.drop_last,
                rank=loader.rank,
                world_size=loader.world_size,
                seed=loader.dataset.seed,
                epoch=self.epoch,
                begin=self._next,
                stride=self._stride,
                threads=self._threads(),
                in_memory=loader.in_memory,
            )
        try:
            found = self._reader.next()
        except BaseException:
            # What is asked for next fails again, and does not look like the end.
            self._reader = None
            raise
        if loader._iterator is self:
            loader._resume = None
            if this_worker() is None:
                loader._epoch.set(self.epoch + 1)
        if found is None:
            self.is_over, self._reader = True, None
            raise StopIteration
        columns, _rows, self._rows = found
        self._next = self._later(self._rows, self._stride - 1)
        batch = formatted(columns, loader.dataset.format)
        if loader.pin_memory:
            batch = each(batch, lambda tensor: tensor.pin_memory())
        return batch

    @property
    def _stride(self) -> int:
        """Every so many rounds this iterator has a batch: workers take turns."""
        return self._worker[1] if self._worker else 1

    def _threads(self) -> int:
        given = self._loader.num_threads
        if given is not None:
            return given
        return 0 if self._worker else min(len(os.sched_getaffinity(0)), _THREADS_MAX)

    def state_dict(self) -> dict[str, Any]:
        """Return where the iterator is."""
        if self._stride == 1:
            return self._loader._state(self.epoch, self._rows)
        return {**self._loader._state(self.epoch, self._next), **self._own_state()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on at another place."""
        self._seek(state)
        if this_worker() is not None:
            self._loader._epoch.set(self.epoch + 1)

    def _seek(self, state: Mapping[str, Any]) -> None:
        self.epoch, begin = self._loader._demand_own(state)
        if "worker" in state:
            # The place of one of several workers: where its own next round begins.
            here = self._own_state()
            if other := [name for name in here if state[name] != here[name]]:
                raise UsageError(
                    f"the state is that of a worker, with {other[0]} {state[other[0]]}, and here "
                    f"it is {here[other[0]]}: go on with the same number of workers, and the same "
                    "size of batches and number of processes"
                )
            self._next = begin
        else:
            self._next = self._later(begin, self._worker[0] if self._worker else 0)
        self._rows, self._reader, self.is_over = begin, None, False
