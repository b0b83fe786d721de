"""What needs no learning: random actions, and a list of passes by hand.

    python examples/online_rl/baselines.py OUTPUT [--algorithm random]

The list shows what an agent has to beat.
"""

from __future__ import annotations

from collections.abc import Callable, Generator

import numpy as np

from judge import Policy
from setting import EPISODE_STEPS, action_names
from training import Checkpoint, Learner, Setting, main

# After the order of -O2, with the passes that an agent has. What is left of an episode repeats the
# last one.
BY_HAND = """
    sroa early-cse simplifycfg instcombine ipsccp globalopt deadargelim instcombine simplifycfg
    inline function-attrs sroa early-cse jump-threading correlated-propagation simplifycfg
    instcombine reassociate loop-simplify loop-rotate licm simplifycfg instcombine indvars
    loop-deletion gvn sccp adce instcombine jump-threading correlated-propagation dse adce
    simplifycfg instcombine globalopt globaldce constmerge
"""


def by_hand(_seed: int) -> Policy:
    """Return the policy that takes the same passes for each program."""
    names = action_names()
    numbers = [names.index(name) for name in BY_HAND.split()]
    numbers += numbers[-1:] * (EPISODE_STEPS - len(numbers))

    def act(seen: np.ndarray) -> np.ndarray:
        # The history says how many actions there were.
        steps = np.rint(seen[:, -len(names) :].sum(axis=1) * EPISODE_STEPS).astype(int)
        return np.array(numbers)[steps]

    return act


def random(seed: int) -> Policy:
    """Return the policy that draws actions, all with equal chances."""
    dice, actions = np.random.default_rng(seed), len(action_names())
    return lambda seen: dice.integers(actions, size=len(seen))


def learner(policy: Callable[[int], Policy]) -> Learner:
    """Return what takes a policy for learned, without a step."""

    def learn(setting: Setting) -> Generator[Checkpoint]:
        yield Checkpoint(0, lambda: policy(setting.seed), [])

    return learn


if __name__ == "__main__":
    main(__doc__, {"by-hand": learner(by_hand), "random": learner(random)})
