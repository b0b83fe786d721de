"""Nevergrad's optimizers as tuners."""

from __future__ import annotations

from collections.abc import Sequence

import nevergrad
import numpy as np

from protocol import Space

#: The optimizer of the paper's Table IV.
OPTIMIZER = "DiscreteLenglerOnePlusOne"
#: Nevergrad takes no infinite loss.
COST_MAX = 1e20


def choices(space: Space) -> nevergrad.p.Parameter:
    """Return a choice of an action for each place, as in the paper.

    The choice is the action with the greatest weight. Without `deterministic`, it is drawn by the
    weights: then every sequence is nearly a random one for thousands of evaluations.
    """
    return nevergrad.p.Choice(range(space.actions), repetitions=space.length, deterministic=True)


def integers(space: Space, seed: int) -> nevergrad.p.Parameter:
    """Return an array of the numbers of actions. It takes a thirtieth of the time of choices."""
    first = np.random.default_rng(seed).integers(space.actions, size=space.length)
    numbers = nevergrad.p.Array(init=first.astype(float), lower=0, upper=space.actions - 1)
    return numbers.set_integer_casting()


class Nevergrad:
    """An optimizer of Nevergrad.

    Parameters
    ----------
    parameters : nevergrad.p.Parameter
        What it looks through: `choices` or `integers`.
    seed : int
        The seed of its lots.
    evaluations : int or None
        How many sequences will be tried, if that is known; some optimizers plan with it.
    optimizer : str
        Its name in ``nevergrad.optimizers.registry``.
    """

    def __init__(
        self,
        parameters: nevergrad.p.Parameter,
        seed: int,
        evaluations: int | None,
        optimizer: str = OPTIMIZER,
    ) -> None:
        parameters.random_state.seed(seed)
        made = nevergrad.optimizers.registry[optimizer]
        self._optimizer = made(parametrization=parameters, budget=evaluations, num_workers=1)

    def ask(self) -> list[int]:
        """Return a sequence."""
        self._asked = self._optimizer.ask()
        return [int(action) for action in self._asked.value]

    def tell(self, sequence: Sequence[int], cost: float) -> None:
        """Pass on what the sequence costs."""
        self._optimizer.tell(self._asked, min(cost, COST_MAX))
