"""What a tuner is: something that is asked for a sequence, and told what it costs. And the loop."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Space:
    """What a tuner looks through: sequences of `length` numbers below `actions`."""

    actions: int
    length: int


class Tuner(Protocol):
    """Proposes sequences of actions, and learns what they cost."""

    def ask(self) -> Sequence[int] | None:
        """Return what to try next, or None if there is nothing left to try."""

    def tell(self, sequence: Sequence[int], cost: float) -> None:
        """Learn what the sequence costs that was asked for last; infinity if it has no cost."""


@dataclass(frozen=True)
class Tried:
    """What came of a sequence.

    Attributes
    ----------
    sequence : sequence of int
        Its actions.
    cost : float
        The lowest cost on its way; infinity if there is none.
    after : int
        After how many actions it was reached.
    failure : str or None
        Why the sequence was not played to its end, or has no cost.
    """

    sequence: Sequence[int]
    cost: float
    after: int
    failure: str | None = None


@dataclass(frozen=True)
class Budget:
    """When to stop asking: after so many sequences, or once so much time has passed."""

    evaluations: int | None = None
    seconds: float | None = None

    def is_spent(self, evaluations: int, seconds: float) -> bool:
        """Return whether no further sequence is to be tried."""
        limits = (self.evaluations, evaluations), (self.seconds, seconds)
        return any(limit is not None and used >= limit for limit, used in limits)


def tune(
    tuner: Tuner, try_out: Callable[[Sequence[int]], Tried], budget: Budget
) -> Iterator[Tried]:
    """Ask, try out and tell until the budget is spent, or the tuner has nothing left to try.

    A failure of the compiler is a result like others: the tuner is told what it costs.
    """
    begun = time.monotonic()
    for number in itertools.count():
        if budget.is_spent(number, time.monotonic() - begun):
            return
        sequence = tuner.ask()
        if sequence is None:
            return
        tried = try_out(sequence)
        tuner.tell(sequence, tried.cost)
        yield tried


def best(tried: Sequence[Tried]) -> Tried:
    """Return what costs least, the first of equals; without any, the program untouched."""
    return min(tried, key=lambda one: one.cost, default=Tried((), math.inf, 0))
