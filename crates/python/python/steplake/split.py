"""Splits of a dataset into training, validation and test rows."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import TypeVar

_DatasetT = TypeVar("_DatasetT")


class Split(dict[str, _DatasetT]):
    """The parts of a dataset by their names; `Dataset.train_test_split` makes one.

    They are ``"train"`` and ``"test"``, and ``"validation"`` if it was asked for.

    Attributes
    ----------
    report : dict of int
        ``train_rows``, ``test_rows`` and ``purged_rows`` (rows of no part); ``train_groups``,
        ``test_groups`` and ``components`` (groups tied together by shared states; all three are 0
        for a split by rows); ``test_states`` (the states that test rows name), ``leaked_states``
        (those of them that training rows name too) and ``leaked_rows`` (the test rows whose state
        a training row names); with a validation part ``validation_rows`` and
        ``validation_groups``, and of its rows ``validation_states``, ``validation_leaked_states``
        and ``validation_leaked_rows``. The test rows are not compared with the validation rows.
    """

    def __init__(self, parts: Mapping[str, _DatasetT], report: dict[str, int]) -> None:
        super().__init__(parts)
        self.report = report

    def __repr__(self) -> str:
        counts = ", ".join(f"{name}: {count}" for name, count in self.report.items())
        return textwrap.fill(f"Split({counts})", width=80, subsequent_indent=" " * len("Split("))
