"""Rows of a lake for training: shuffled over all rows, in batches, resumable at any batch.

>>> rows = lake.dataset("state_transitions").shuffle(seed=1)
>>> for batch in rows.loader(batch_size=256):
...     batch["Autophase"].shape[1], str(batch["action"].dtype)
(56, 'int32')

`Lake.dataset` makes a `Dataset`, and `Dataset.loader` a `Loader`. Names are those of Hugging Face's
``datasets`` where they mean the same.
"""

from __future__ import annotations

import os
import secrets
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from steplake import _optional
from steplake._rows import (
    Columns,
    OrderedRows,
    RowIterator,
    columns_of_type,
    demand_epoch,
    demand_seed,
    demand_shares,
    places_of,
    positive,
)
from steplake._workers import this_worker, warn_of_repetition
from steplake.defaults import names_of
from steplake.errors import UsageError
from steplake.loader import Loader
from steplake.split import Split

_FORMATS = ("numpy", "torch")


class Dataset(OrderedRows):
    """Chosen rows and columns of a snapshot of a lake, any of which can be read at once.

    `Lake.dataset` makes one. It never changes, apart from its epoch: a method such as `filter`
    returns another one, which shares its memory. The features of each state are in memory once.

    A dataset has a length; ``dataset[3]`` is a row, ``dataset[[3, 1]]`` and ``dataset[2:9]`` are
    batches, and ``dataset["action"]`` is a column. It is pickled as a description of its rows, and
    survives a fork, so a ``torch.utils.data.DataLoader`` takes it as it is.

    Attributes
    ----------
    seed : int or None
        The seed of the order; None for the order of the lake.
    format : str
        ``"numpy"`` or ``"torch"``.
    """

    # What there is.

    @property
    def epoch(self) -> int:
        """The number of the epoch: each has an order of its own. `set_epoch` sets it."""
        return self._epoch.get()

    @property
    def column_names(self) -> list[str]:
        """The names of the columns."""
        return [name for name, _, _ in self._rows.core.columns]

    @property
    def features(self) -> dict[str, str]:
        """The type of each column, and the length of a vector: ``"int32[56]"``, ``"graph"``."""
        columns = self._rows.core.columns
        return {name: kind + (f"[{width}]" if width else "") for name, kind, width in columns}

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        return len(self._rows.core)

    @property
    def snapshot(self) -> int:
        """The number of the snapshot that the rows are of."""
        return self._rows.core.snapshot

    @property
    def fingerprint(self) -> str:
        """A digest of which rows there are: equal for equal rows in equal order."""
        return self._rows.core.fingerprint

    @property
    def nbytes(self) -> int:
        """Bytes of memory when everything has been read. Processes of one machine share them."""
        return self._rows.core.nbytes

    def node_texts(self, column: str = "Programl") -> list[str]:
        """Return the distinct texts of nodes in a column of graphs.

        ``node_text`` of a batch has their places. Another snapshot may have others.
        """
        texts = self._rows.core.node_texts(column)
        if texts is None:
            raise KeyError(column)
        return texts

    def __repr__(self) -> str:
        order = "" if self.seed is None else f", shuffled with seed {self.seed}"
        columns = ", ".join(f"{name}: {kind}" for name, kind in self.features.items())
        return (
            f"Dataset of {len(self)} {self._rows.source} of snapshot {self.snapshot}{order}\n"
            f"  {columns}"
        )

    # Which rows and columns.

    def filter(self, sql: str, params: Sequence[Any] | Mapping[str, Any] | None = None) -> Dataset:
        """Keep the rows that meet a condition.

        Parameters
        ----------
        sql : str
            What stands after WHERE in a question about the table, such as ``"count > 1"``. It sees
            the columns of the table, also those that are not loaded; for ``"steps"`` those of the
            view ``transitions_taken``, such as ``benchmark_uri`` and ``changed``. Observations are
            in a table of their own, and it may ask that one and others:
            ``"state_id IN (SELECT state_id FROM observations WHERE IrInstructionCount < 500)"``,
            ``"first_episode_id IN (SELECT episode_id FROM episodes WHERE policy = 'random')"``.
            A snapshot is asked once: what ``random()`` chose is kept.
        params : list or dict, optional
            The values of its parameters, as for `Lake.sql`: ``filter("action = $1", [3])``.

        Raises
        ------
        QueryError
            If the condition is wrong.
        UsageError
            If the rows were chosen by `select` or `train_test_split` before.

        Examples
        --------
        >>> changed = lake.dataset("state_transitions").filter("state_id <> next_state_id")
        >>> len(changed)
        26
        """
        return self._with(self._rows.filter(sql, params))

    def select(self, indices: npt.ArrayLike) -> Dataset:
        """Keep the rows at these places, in this order.

        Raises
        ------
        IndexError
            If there is no such row.
        """
        other = self._with(self._rows.select(places_of(indices, len(self)), self.seed, self.epoch))
        other.seed = None
        return other

    def select_columns(self, column_names: str | Sequence[str]) -> Dataset:
        """Keep these columns.

        Raises
        ------
        NotInLake
            If there is no such column.
        """
        names = names_of(column_names)
        types = dict(self._rows.columns)
        return self._with(self._rows.with_columns([(name, types.get(name)) for name in names]))

    def n_step(self, n: int, gamma: float = 1.0) -> Dataset:
        """Look `n` steps ahead: for targets of n-step returns. Only for steps.

        Rewards become the discounted sums of the rewards of the step and the ``n - 1`` after it;
        ``next_…``, ``terminated`` and ``truncated`` are those of the last of these steps. A sum
        ends with its episode, and has the steps that a filter left out. The column ``n_steps`` has
        the number of steps that were summed up, so the value of the next state counts
        ``gamma ** n_steps``.

        Parameters
        ----------
        n : int
            The most steps, from 1 on.
        gamma : float, optional
            What a reward counts one step later, from 0 to 1.

        Examples
        --------
        >>> lake.dataset("steps", ["action"]).n_step(3, gamma=0.9)[4:7]["n_steps"]
        array([3, 2, 1], dtype=int32)
        """
        if not 0 <= gamma <= 1:
            raise UsageError(f"`gamma` is {gamma}: give a number from 0 to 1")
        return self._with(self._rows.with_n_step(positive("n", n), float(gamma)))

    def slices(self, length: int, stride: int = 1) -> Dataset:
        """Make each item a slice: consecutive steps of one episode. Only for steps.

        An array of a batch has the shape ``(batch_size, length, …)``. A slice never reaches over
        the end of an episode, or over a step that was filtered out or is of another part of a
        split.

        Parameters
        ----------
        length : int
            The steps of a slice.
        stride : int, optional
            The steps from the beginning of a slice to that of the next one.

        Examples
        --------
        >>> slices = lake.dataset("steps").slices(4)
        >>> slices[:2]["Autophase"].shape
        (2, 4, 56)
        """
        stride = positive("stride", stride)
        slices = self._with(self._rows.sequences(positive("length", length), stride))
        if len(self) and not len(slices):
            text = f"no episode has {length} consecutive steps of the dataset: there are no slices"
            warnings.warn(text, stacklevel=2)
        return slices

    def episodes(self) -> Dataset:
        """Make each item a whole episode. Only for steps.

        The steps of a batch follow each other, episode by episode: those of the i-th are
        ``batch["action"][ptr[i]:ptr[i + 1]]`` with ``ptr = batch["ptr"]``. An episode with a step
        that was filtered out, or is of another part of a split, is left out.

        Examples
        --------
        >>> episodes = lake.dataset("steps").episodes()
        >>> episodes[:3]["ptr"]
        array([ 0,  7, 14, 21])
        """
        return self._with(self._rows.sequences(None, 1))

    def train_test_split(
        self,
        test_size: float = 0.2,
        validation_size: float = 0.0,
        *,
        by: str = "family",
        seed: int = 0,
    ) -> Split[Dataset]:
        """Split the rows into training, validation and test rows that share no state.

        Each group of programs is for one part. A state that programs of both parts reach is a
        training state, and no test row names it: test rows that lead to one are left out, and
        counted. Where groups that share states can stay together, nothing is left out. A warning
        says the sizes of parts that are far from what was wanted.

        Parameters
        ----------
        test_size, validation_size : float, optional
            The wanted shares, between 0 and 1. By default there is no validation part.
        by : {"family", "program", "row"}, optional
            What is never divided: families, of which the programs of a generator are one; programs,
            for lakes with few families; or rows, which leaks: it is there to be compared with.
        seed : int, optional
            Fixes which groups are of which part.

        Returns
        -------
        Split
            A dict of datasets by the names of the parts, with a `Split.report`.

        Raises
        ------
        UsageError
            If one part would be empty.

        Examples
        --------
        >>> parts = lake.dataset("state_transitions").train_test_split(0.25, by="row")
        >>> len(parts["train"]) + len(parts["test"]), parts.report["leaked_states"] > 0
        (40, True)
        """
        sizes = demand_shares(test_size, validation_size)
        parts, report = self._rows.split(by, *sizes, demand_seed(seed))
        return Split({name: self._with(rows) for name, rows in parts.items()}, report)

    # In which order and form.

    def shuffle(self, seed: int | None = None) -> Dataset:
        """Put all rows into a random order, without reading or moving them.

        Parameters
        ----------
        seed : int, optional
            Fixes the order, with the epoch; by default a random number, which is then `seed`, and
            gives way to that of a state that is loaded. Several processes that each call it need
            the same one.
        """
        other = self._with()
        other.seed = secrets.randbits(63) if seed is None else demand_seed(seed)
        other._seed_drawn_in = os.getpid() if seed is None else None
        return other

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch, also for persistent workers; loaders that are made later begin with it."""
        self._epoch.set(demand_epoch(epoch))
        self._resume, self._iterator = None, None

    def with_format(
        self,
        type: str | None = None,
        columns: Sequence[str] | None = None,
        *,
        dtype: Any = None,
    ) -> Dataset:
        """Choose what batches and rows are made of.

        Parameters
        ----------
        type : {"numpy", "torch"}, optional
            Arrays of NumPy, which is the default, or tensors of PyTorch, which share their memory.
            Both can be written to.
        columns : sequence of str, optional
            Keep only these columns.
        dtype : type or dict, optional
            The type of the numbers of all columns, or of each column that the dict names:
            ``torch.float32``, ``"int64"``. By default integers have the size that they have in the
            lake, rewards are float32, and truth values are bool.

        Raises
        ------
        UsageError
            If there is no such format, or a type does not hold the numbers of a column.
        """
        if type not in (None, *_FORMATS):
            raise UsageError(f"there is no format {type!r}: choose one of {', '.join(_FORMATS)}")
        if type == "torch":
            _optional.package("torch", "`with_format`")
        names = self.column_names if columns is None else names_of(columns)
        if dtype is not None:
            wanted = columns_of_type(names, self.features, dtype)
            other = self._with(self._rows.with_columns(wanted))
        elif columns is not None:
            other = self.select_columns(names)
        else:
            other = self._with()
        other.format = type or "numpy"
        return other

    # Reading.

    def __getitem__(self, key: int | slice | str | npt.ArrayLike) -> Any:
        """Return a row, a batch of rows, or a column.

        Raises
        ------
        IndexError
            If there is no such row.
        KeyError
            If there is no such column.
        """
        if isinstance(key, str):
            if key not in self.column_names:
                raise KeyError(key)
            one = self.select_columns([key])
            return one._batch(np.arange(len(self), dtype=np.uint32))[key]
        if isinstance(key, slice):
            return self._batch(np.arange(*key.indices(len(self)), dtype=np.uint32))
        places = places_of(key, len(self))
        if this_worker() is not None:  # So reads a ``DataLoader`` whose ``batch_size`` is None.
            warn_of_repetition(self.seed, self._epoch, places)
        return self._items(places)[0] if np.ndim(key) == 0 else self._batch(places)

    def __getitems__(self, indices: Sequence[int]) -> list[Columns]:
        """Return rows one by one: what a ``DataLoader`` asks for."""
        places = places_of(indices, len(self))
        warn_of_repetition(self.seed, self._epoch, places)
        return self._items(places)

    def __iter__(self) -> Iterator[Columns]:
        """Iterate over the rows of the epoch, one by one, from where `load_state_dict` says."""
        state = self._resume or self._state(self.epoch, 0)
        self._iterator = RowIterator(self, state["epoch"], state["rows"])
        return self._iterator

    def loader(
        self,
        batch_size: int,
        drop_last: bool = False,
        num_threads: int | None = None,
        rank: int | None = None,
        world_size: int | None = None,
        *,
        in_memory: bool | Literal["auto"] = "auto",
        pin_memory: bool = False,
    ) -> Loader:
        """Give out the rows in batches that threads read ahead.

        Parameters
        ----------
        batch_size : int
            The rows of a batch.
        drop_last : bool, optional
            Leave out the last batch of an epoch if it is not full; with several processes, the last
            one of each. By default its rows are divided among the processes.
        num_threads : int, optional
            The threads that read ahead; 0 reads a batch when it is wanted. By default as many as
            there are cores, but at most 4, and 0 in a worker of a ``DataLoader``.
        rank, world_size : int, optional
            The number of this process and of all: each has equally many batches, and each row comes
            once. By default those of ``torch.distributed`` where the format is ``"torch"`` and it
            is initialised, else one process.
        in_memory : bool or "auto", optional
            True maps the features of states into memory, and shuffles all rows. False streams the
            rows from Parquet, which the cache keeps: it shuffles the row groups of an epoch, and
            then the rows of 8 groups at a time, some 130,000 rows. By default rows are streamed if
            `Dataset.nbytes` exceeds half of the memory and there is one process. Both orders are
            exactly resumable, and they differ. Rows that are not shuffled are always mapped;
            slices, episodes and graphs cannot be streamed.
        pin_memory : bool, optional
            Put tensors into pinned memory, from which copies to an accelerator are fast.
        """
        if pin_memory and self.format != "torch":
            raise UsageError('`pin_memory` is about tensors: choose `with_format("torch")`')
        place = rank, world_size
        options = batch_size, drop_last, num_threads, *place, in_memory, pin_memory
        if self.format == "torch":
            from steplake._torch import TorchLoader

            return TorchLoader(self, *options)
        return Loader(self, *options)

    # Where one is.

    def state_dict(self) -> dict[str, Any]:
        """Return where iterating over the rows is; a loader has a `state_dict` of its own."""
        if self._resume is not None:
            return dict(self._resume)
        if self._iterator is not None and not self._iterator.is_over:
            return self._state(self._iterator.epoch, self._iterator.rows)
        return self._state(self.epoch, 0)

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Go on where a state says: what is iterated from now on, and loaders made later.

        A state of other rows, of another seed, or of a loader that streams is a `UsageError`.
        """
        if not state_dict.get("in_memory", True):
            raise UsageError("the state is of a loader that streams rows: load it into a loader")
        epoch, rows = self._demand_own(state_dict)
        self._epoch.set(epoch)
        self._resume = dict(state_dict)
        if self._iterator is not None and not self._iterator.is_over:
            self._iterator.seek(epoch, rows)
