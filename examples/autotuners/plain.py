"""Tuners that need no library: random sequences, and a greedy search."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

from protocol import Space


class RandomSequences:
    """Draws every action of every sequence."""

    def __init__(self, space: Space, seed: int) -> None:
        self._space, self._dice = space, random.Random(seed)

    def ask(self) -> list[int]:
        """Return a sequence."""
        return [self._dice.randrange(self._space.actions) for _ in range(self._space.length)]

    def tell(self, sequence: Sequence[int], cost: float) -> None:
        """Learn nothing."""


class Greedy:
    """Tries all actions behind the best sequence so far, takes the best one, and so on.

    It ends where no action lowers the cost. The actions are tried in an order that is drawn: a
    budget that ends before the last action would else favour those with low numbers.
    """

    def __init__(self, space: Space, seed: int) -> None:
        self._space, self._dice = space, random.Random(seed)
        self._taken: list[int] = []
        self._cost = math.inf
        self._begin()

    def _begin(self) -> None:
        """Go on from what was taken."""
        self._left = self._dice.sample(range(self._space.actions), self._space.actions)
        self._best: tuple[float, list[int]] = (self._cost, self._taken)

    def ask(self) -> list[int] | None:
        """Return what was taken and one more action."""
        if not self._left:
            if self._best[0] >= self._cost or len(self._taken) + 1 >= self._space.length:
                return None
            self._cost, self._taken = self._best
            self._begin()
        return [*self._taken, self._left.pop()]

    def tell(self, sequence: Sequence[int], cost: float) -> None:
        """Keep the sequence if it is the best one."""
        if cost < self._best[0]:
            self._best = cost, list(sequence)
