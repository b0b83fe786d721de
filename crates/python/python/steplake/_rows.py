"""The rows of a dataset: how they were chosen, their order, and the core that reads them."""

from __future__ import annotations

import copy
import hashlib
import operator
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from steplake import _steplake
from steplake._workers import SharedEpoch
from steplake.defaults import UNSET, chosen_spaces, names_of
from steplake.errors import NotDeduplicated, UsageError

#: A batch, or a row: the numbers of each column, as arrays or tensors. Graphs are a dict of them.
Columns = dict[str, Any]

#: Rows that are read at once where they are iterated one by one.
_ROWS_AT_ONCE = 1024


class Rows:
    """How the rows of a dataset are chosen, and the core that reads them."""

    def __init__(
        self,
        path: str | os.PathLike[str],
        snapshot: int | None,
        source: str,
        columns: list[tuple[str, str | None]],
        progress: bool | None,
        conditions: Sequence[tuple[str, Any]] = (),
        n_step: tuple[int, float] | None = None,
        choices: Sequence[tuple[Any, ...]] = (),
    ) -> None:
        self.path, self.source, self.columns = os.path.abspath(path), source, columns
        self.progress, self.conditions, self.n_step = progress, conditions, n_step
        self.choices: tuple[tuple[Any, ...], ...] = ()
        self.core = _steplake.Dataset(
            self.path, snapshot, source, columns, conditions, n_step, progress
        )
        for choice in choices:
            self._choose(choice)

    def _choose(self, choice: tuple[Any, ...]) -> None:
        """Choose some of the rows: how, and the arguments."""
        how, *arguments = choice
        if how == "split":
            *request, name = arguments
            parts, _report, _warning = self.core.split(*request)
            self.core = dict(parts)[name]
        elif how == "sequences":
            self.core = self.core.sequences(*arguments)
        else:
            self.core = self.core.choose(*arguments)
        self.choices = (*self.choices, choice)

    def __reduce__(self) -> tuple[Any, ...]:
        return Rows, (
            self.path,
            self.core.snapshot,
            self.source,
            self.columns,
            self.progress,
            self.conditions,
            self.n_step,
            self.choices,
        )

    def _again(self, **changed: Any) -> Rows:
        arguments: dict[str, Any] = {
            "columns": self.columns,
            "conditions": self.conditions,
            "n_step": self.n_step,
            "choices": self.choices,
            **changed,
        }
        snapshot, progress = self.core.snapshot, self.progress
        return Rows(self.path, snapshot, self.source, progress=progress, **arguments)

    def _and(self, *choice: Any) -> Rows:
        """Return the same rows, of which some are chosen."""
        other = copy.copy(self)
        other._choose(choice)
        return other

    def with_columns(self, columns: list[tuple[str, str | None]]) -> Rows:
        return self._again(columns=columns)

    def filter(self, sql: str, params: Any) -> Rows:
        if self.choices:
            raise UsageError(
                "filter first: rows that were selected, split or sliced cannot be asked again"
            )
        return self._again(conditions=(*self.conditions, (sql, params)))

    def with_n_step(self, n: int, gamma: float) -> Rows:
        if self.source != "steps" or self.choices or self.n_step:
            raise UsageError(
                "`n_step` is about steps: open a dataset of `steps`, and call it once, before "
                "rows are selected, split or sliced"
            )
        return self._again(n_step=(n, gamma), columns=[*self.columns, ("n_steps", None)])

    def sequences(self, length: int | None, stride: int) -> Rows:
        return self._and("sequences", length, stride)

    def select(self, places: npt.NDArray[np.uint32], seed: int | None, epoch: int) -> Rows:
        name = f"select {hashlib.sha256(places.tobytes()).hexdigest()} {seed} {epoch}"
        return self._and("select", name, places, seed, epoch)

    def split(
        self, by: str, test_size: float, validation_size: float, seed: int
    ) -> tuple[dict[str, Rows], dict[str, int]]:
        request = by, test_size, validation_size, seed
        cores, report, warning = self.core.split(*request)
        if warning is not None:
            warnings.warn(warning, stacklevel=3)
        parts = {}
        for name, core in cores:
            parts[name] = copy.copy(self)
            parts[name].core = core
            parts[name].choices = (*self.choices, ("split", *request, name))
        return parts, report


class OrderedRows:
    """Rows in the order of a seed and an epoch, and where iterating over them is.

    They are what a loader and an iterator need of a `steplake.training.Dataset`.
    """

    def __init__(self, rows: Rows, format: str = "numpy") -> None:
        self._rows = rows
        self.format = format
        self.seed: int | None = None
        # The process that drew the seed, if nobody gave it.
        self._seed_drawn_in: int | None = None
        self._epoch = SharedEpoch()
        # A loaded state, until a row after it is handed out.
        self._resume: dict[str, Any] | None = None
        self._iterator: RowIterator | None = None

    def _with(self, rows: Rows | None = None) -> Self:
        other = type(self)(rows or self._rows, self.format)
        other.seed, other._seed_drawn_in = self.seed, self._seed_drawn_in
        other._epoch.set(self._epoch.get())
        return other

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self._rows.core)

    def _batch(self, places: npt.NDArray[np.uint32], epoch: int | None = None) -> Columns:
        epoch = self._epoch.get() if epoch is None else epoch
        return formatted(self._rows.core.gather(places, self.seed, epoch), self.format)

    def _items(self, indices: npt.ArrayLike, epoch: int | None = None) -> list[Columns]:
        """Return items one by one: rows, slices or episodes."""
        places = places_of(indices, len(self))
        kinds = [kind for _, kind, _ in self._rows.core.columns]
        if "graph" in kinds and len(places) > 1:
            return [self._items([place], epoch)[0] for place in places]
        return items_of(self._batch(places, epoch), len(places))

    def __getstate__(self) -> dict[str, Any]:
        # An iterator stays in its process.
        return {**self.__dict__, "_iterator": None}

    def _state(self, epoch: int, rows: int) -> dict[str, Any]:
        core = self._rows.core
        place = {"epoch": epoch, "rows": rows, "seed": self.seed}
        return {**place, "snapshot": core.snapshot, "fingerprint": core.fingerprint}

    def _demand_own(self, state: Mapping[str, Any]) -> tuple[int, int]:
        """Return the epoch and the rows of a state of this dataset, and take over its seed."""
        own, given = self._state(0, 0), state.get("seed")
        if self._seed_drawn_in is not None and given not in (None, self.seed):
            place = demand_own(state, {**own, "seed": given}, len(self))
            self.seed, self._seed_drawn_in = demand_seed(int(given)), None
            return place
        return demand_own(state, own, len(self))


class RowIterator:
    """An iterator over the rows of a dataset, one by one."""

    def __init__(self, dataset: OrderedRows, epoch: int, begin: int) -> None:
        self._dataset = dataset
        self.seek(epoch, begin)

    def seek(self, epoch: int, begin: int) -> None:
        """Go on at another place."""
        self.epoch, self.rows, self.is_over = epoch, begin, False
        self._read: list[Columns] = []

    def __iter__(self) -> RowIterator:
        return self

    def __next__(self) -> Columns:
        dataset = self._dataset
        if not self._read:
            end = min(self.rows + _ROWS_AT_ONCE, len(dataset))
            self._read = dataset._items(range(self.rows, end), self.epoch)[::-1]
        if dataset._iterator is self:
            dataset._resume = None
        if not self._read:
            self.is_over = True
            raise StopIteration
        self.rows += 1
        return self._read.pop()


def formatted(columns: Columns, format: str) -> Columns:
    """Return columns in a format; they share their memory with the arrays."""
    if format == "torch":
        import torch

        return each(columns, torch.from_numpy)
    return columns


def each(columns: Columns, change: Callable[[Any], Any]) -> Columns:
    """Return columns, and the arrays of graphs, each changed."""
    return {
        name: each(value, change) if isinstance(value, dict) else change(value)
        for name, value in columns.items()
    }


def demand_number(name: str, number: Any, least: int, most: int) -> int:
    """Return an integer of the caller, or refuse what is none, or is out of range."""
    try:
        found = operator.index(number)
    except TypeError:
        raise UsageError(f"`{name}` is {number!r}: give an integer") from None
    if not least <= found <= most:
        raise UsageError(f"`{name}` is {found}: give a number from {least} to {most}")
    return found


def positive(name: str, number: int) -> int:
    return demand_number(name, number, 1, (1 << 32) - 1)


def demand_seed(seed: int) -> int:
    return demand_number("seed", seed, 0, (1 << 64) - 1)


def demand_shares(test_size: float, validation_size: float) -> tuple[float, float]:
    """Return the shares of test and validation rows, or refuse what leaves none for training."""
    if not 0 < test_size < 1:
        raise UsageError(f"`test_size` is {test_size}: give a share between 0 and 1")
    if not 0 <= validation_size < 1:
        raise UsageError(
            f"`validation_size` is {validation_size}: give a share between 0 and 1, or 0 for no "
            "validation part"
        )
    if test_size + validation_size >= 1:
        raise UsageError(
            f"a `test_size` of {test_size} and a `validation_size` of {validation_size} leave no "
            "rows for training: give smaller shares"
        )
    return float(test_size), float(validation_size)


def demand_epoch(number: int) -> int:
    return demand_number("epoch", number, 0, (1 << 64) - 1)


def places_of(indices: npt.ArrayLike, rows: int) -> npt.NDArray[np.uint32]:
    """Return places as the core takes them; negative ones count from the end."""
    places = np.asarray(indices)
    if places.size and places.dtype.kind not in "iu":
        raise UsageError(
            f"a place is an integer, and not a {places.dtype}: of a mask, give the places, "
            "`mask.nonzero()[0]`"
        )
    places = places.astype(np.int64).reshape(-1)
    places = np.where(places < 0, places + rows, places)
    if len(places) and not 0 <= places.min() <= places.max() < rows:
        wrong = places[(places < 0) | (places >= rows)][0]
        raise IndexError(f"there is no row {wrong}: the dataset has {rows} rows")
    return places.astype(np.uint32)


def items_of(batch: Columns, count: int) -> list[Columns]:
    """Return the items of a batch, one by one: rows, slices or episodes."""
    ptr = batch.pop("ptr", None)
    keys = range(count) if ptr is None else map(slice, ptr[:-1], ptr[1:])
    return [
        {name: v if isinstance(v, dict) else v[key] for name, v in batch.items()} for key in keys
    ]


def columns_of_type(
    names: Sequence[str], features: Mapping[str, str], dtype: Any
) -> list[tuple[str, str | None]]:
    """Return columns with the types of their numbers: one type for all, or those that are named."""
    numbers = [name for name in names if features.get(name) != "graph"]
    types = dtype if isinstance(dtype, Mapping) else dict.fromkeys(numbers, dtype)
    if unknown := [name for name in types if name not in names]:
        raise UsageError(f"there is no column {unknown[0]!r}: it has {', '.join(names)}")
    return [(name, type_name(types[name]) if name in types else None) for name in names]


def drawn_seeds(world_size: int) -> UsageError:
    """Return the error about processes of which each has drawn a seed."""
    return UsageError(
        f"each of {world_size} processes would draw an order of its own, and rows would come twice "
        "or not at all: give all of them one seed, `shuffle(seed=0)`"
    )


def demand_own(
    state: Mapping[str, Any], own: Mapping[str, Any], rows_of_dataset: int
) -> tuple[int, int]:
    """Return the epoch and the rows of a state; `own` is a state of the same dataset."""
    if missing := set(own) - set(state):
        raise UsageError(f"this is no state of a loader: it has no {min(missing)!r}")
    for name in ["fingerprint", "seed"]:
        if state[name] != own[name]:
            raise UsageError(
                f"the state is of other rows: its {name} is {state[name]}, and that of the "
                f"dataset is {own[name]}; open the same snapshot ({state['snapshot']}) with the "
                "same filters, split and seed"
            )
    epoch, rows = demand_epoch(int(state["epoch"])), int(state["rows"])
    if not 0 <= rows <= rows_of_dataset:
        raise UsageError(f"the state is at row {rows}, and there are {rows_of_dataset} rows")
    return epoch, rows


def open_rows(lake: _steplake.Lake, source: str, columns: Sequence[str] | None) -> Rows:
    """Open the rows of a lake, and warn of steps that they leave out; see `Lake.dataset`."""
    names = _usual_columns(lake, source) if columns is None else names_of(columns)
    wanted: list[tuple[str, str | None]] = [(name, None) for name in names]
    rows = Rows(lake._folder, lake.snapshot, source, wanted, None)
    newer = rows.core.newer_steps
    if newer and not len(rows.core):
        raise NotDeduplicated(
            f"no dedup has counted the {newer} steps of the lake at {lake.path}: call "
            "`lake.dedup()`"
        )
    if newer:
        warnings.warn(
            f"the dataset leaves out {newer} steps that are newer than the last dedup: "
            "`lake.dedup()` counts them, and a dataset opened after it has them",
            stacklevel=3,
        )
    return rows


def _usual_columns(lake: _steplake.Lake, source: str) -> list[str]:
    """Return the columns that most learning takes: the usual observation, action and reward."""
    spaces = chosen_spaces(lake, UNSET, UNSET)
    observed = [] if spaces.observation is None else [spaces.observation]
    if source == "observations":
        return observed
    rewarded = [] if spaces.reward is None else [f"reward_{spaces.reward}"]
    ends = ["terminated", "truncated"] if source == "steps" else []
    return [*observed, "action", *rewarded, *(f"next_{name}" for name in observed), *ends]


def type_name(dtype: Any) -> str:
    """Return the name of a type of NumPy or PyTorch."""
    name = str(dtype)
    return name.removeprefix("torch.") if name.startswith("torch.") else np.dtype(dtype).name
