"""What the network is compared with: constants, counting, and boosted trees."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor

from examples import Example, Predictions


def counts(examples: Sequence[Example]) -> np.ndarray:
    """Return the number of instructions of each state."""
    return np.array([one.count for one in examples], float)


def rewards(examples: Sequence[Example]) -> np.ndarray:
    """Return the rewards of all pairs."""
    return np.concatenate([one.reward for one in examples]).astype(float)


def bests(examples: Sequence[Example]) -> np.ndarray:
    """Return the best cost of each state, over its cost."""
    return np.array([one.best for one in examples])


def constant(train: Sequence[Example], test: Sequence[Example], of=np.mean) -> Predictions:
    """Say the same of everything: the mean, or the median, of the training states."""
    return Predictions(
        np.full(len(test), of(counts(train))),
        np.full(sum(len(one.action) for one in test), of(rewards(train))),
        np.full(len(test), of(bests(train))),
    )


def count_nodes(test: Sequence[Example]) -> Predictions:
    """Count the nodes that are instructions. Of rewards and best costs this says nothing."""
    return Predictions(np.array([one.instruction_nodes for one in test], float), None, None)


def features(examples: Sequence[Example]) -> np.ndarray:
    """Return what the trees see of states: Autophase, and its counts over the cost.

    Trees cannot divide, and two targets are shares. The cost is one of Autophase's counts.
    """
    seen = np.stack([one.autophase for one in examples]).astype(float)
    return np.concatenate([seen, seen / counts(examples)[:, None]], 1)


def pair_features(examples: Sequence[Example]) -> np.ndarray:
    """Return what the trees see of pairs: the action first, as a category."""
    pairs = [len(one.action) for one in examples]
    action = np.concatenate([one.action for one in examples])
    return np.column_stack([action, np.repeat(features(examples), pairs, axis=0)])


def trees(train: Sequence[Example], test: Sequence[Example], rounds: int) -> Predictions:
    """Train gradient-boosted trees for each target. There are no dice.

    The loss is the squared error. With the absolute one, which is the measure, trees are far worse
    at it: all gradients are 1 or -1, and the median of most leaves is 0. The count is learned as a
    logarithm, so that the error is a relative one.
    """

    def fitted(seen: np.ndarray, target: np.ndarray, asked: np.ndarray, **options) -> np.ndarray:
        model = HistGradientBoostingRegressor(
            max_iter=rounds,
            learning_rate=0.05,
            max_leaf_nodes=63,
            early_stopping=False,
            random_state=0,
            **options,
        )
        return model.fit(seen, target).predict(asked)

    seen, asked = features(train), features(test)
    return Predictions(
        np.exp(fitted(seen, np.log(counts(train)), asked)),
        fitted(pair_features(train), rewards(train), pair_features(test), categorical_features=[0]),
        fitted(seen, bests(train), asked),
    )
