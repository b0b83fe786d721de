"""The split: whole programs are held out, and no state of theirs is ever seen in training."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import steplake
from steplake.training import Dataset, Split

STATES = ["state_id", "next_state_id"]


@dataclass(frozen=True)
class Parts:
    """The states of both parts, as hexadecimal digits, and what the split leaks.

    Attributes
    ----------
    train, test : set of str
        All states that rows of a part name. They share none.
    report : dict of int
        The report of this split: see `steplake.training.Split`.
    random_rows : dict of int
        The report of a split that draws rows at random, for comparison.
    """

    train: set[str]
    test: set[str]
    report: dict[str, int]
    random_rows: dict[str, int]


def split(lake: steplake.Lake, share: float, seed: int, tuning: bool = False) -> Parts:
    """Hold out a share of the programs.

    Programs and not families: all programs of a generator are one family, though each is drawn by
    itself. Programs that share a state are on one side, or the rows that tie them are left out.

    Parameters
    ----------
    lake : steplake.Lake
        The lake, after dedup.
    share : float
        The wanted share of test rows.
    seed : int
        Fixes which programs are held out.
    tuning : bool, optional
        Put the held-out programs aside, and hold out some of the training programs instead: to
        choose settings with.
    """
    rows = lake.dataset("state_transitions", STATES)
    parts = rows.train_test_split(share, by="benchmark", seed=seed)
    if tuning:
        # With the same seed it would draw the programs that were put aside just now.
        parts = parts["train"].train_test_split(share, by="benchmark", seed=seed + 1)
    train, test = states_of(parts["train"]), states_of(parts["test"])
    assert not train & test, "both parts name a state"
    random_rows = rows.train_test_split(share, by="row", seed=seed)
    return Parts(train, test, parts.report, random_rows.report)


def states_of(rows: Dataset) -> set[str]:
    """Return the ids of all states that rows name, in hexadecimal digits."""
    found: set[str] = set()
    for name in STATES:
        column = np.ascontiguousarray(rows[name])
        digits = column.tobytes().hex()
        width = 2 * column.shape[1]
        found.update(digits[at : at + width] for at in range(0, len(digits), width))
    return found


def describe(parts: Parts) -> str:
    """Return both leak reports as text."""
    both = {"by program": parts.report, "by random rows": parts.random_rows}
    return "\n".join(f"{name}: {Split({}, report)!r}" for name, report in both.items())
