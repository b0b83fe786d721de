"""What a sequence costs: each objective plays it with one call of the environment."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import steplake
from steplake.env import CompilerEnv

from protocol import Tried

#: The objectives by name, each with its observation space. `runtime` has none in a lake.
SPACES = {"ir": "IrInstructionCount", "size": "ObjectTextSizeBytes", "runtime": "Runtime"}
#: LLVM's own pipelines, each an action.
PIPELINES = "llvm22-pipelines-v0"


def baselines(space: str) -> tuple[str, str]:
    """Return what the space of a cost after -Oz may be called."""
    return f"{space}Oz", f"{space.removesuffix('Bytes')}Oz"


class StateCost:
    """A cost that belongs to the state, such as the number of instructions.

    A sequence costs as much as the best state on its way, as with the policies of
    `steplake generate`. The costs on the way follow from the rewards, so one call of the
    environment plays a sequence.

    Parameters
    ----------
    env : CompilerEnv
        The environment.
    space : str
        The observation space of the cost, and the reward space of its differences.
    """

    def __init__(self, env: CompilerEnv, space: str) -> None:
        self._env, self._space = env, space
        env.reward_space = space
        env.reset()
        #: The cost of the program untouched; not a number if there is none.
        self.first = self._observed(space)
        #: The cost after -Oz, if the environment knows it.
        self.oz = next(
            (self._observed(name) for name in baselines(space) if name in env.observation), math.nan
        )

    def _observed(self, space: str) -> float:
        """Return a number of the present state; not a number if the compiler fails on it."""
        try:
            return float(self._env.observation[space])
        except steplake.CompilerFailed:
            return math.nan

    def __call__(self, sequence: Sequence[int]) -> Tried:
        """Play a sequence from the start of the program."""
        self._env.reset()
        *_, info = self._env.multistep(sequence)
        rewards = np.array(self._env.step_rewards, float)
        costs = self.first - np.append(0, np.cumsum(rewards))
        if np.isnan(costs).any() and "error" not in info:
            # A state without machine code has no size, and the rewards around it are not known.
            # Behind it, costs follow from the last state.
            back = np.append(np.cumsum(rewards[::-1])[::-1], 0)
            costs = np.fmin(costs, self._observed(self._space) + back)
        costs = np.where(np.isnan(costs), math.inf, costs)
        after = int(costs.argmin())
        return Tried(sequence, float(costs[after]), after, info.get("error"))


@dataclass(frozen=True)
class Times:
    """Samples of two programs that took turns, in seconds."""

    own: list[float]
    reference: list[float]

    def ratio(self) -> float:
        """Return the median of all ratios of a sample of one to a sample of the other."""
        return statistics.median(one / other for one in self.own for other in self.reference)


class RunTime:
    """The run time of the program after the whole sequence, as a multiple of that after -O3.

    Both programs take turns, so that a machine that becomes slower meanwhile slows down both. A
    sequence that seems better than all before it is checked: the program must do what it does
    untouched. A program that does something else, or does not run to its end, has no time.

    Parameters
    ----------
    env : CompilerEnv
        The environment. What it observes and rewards does not matter.
    repeats : int
        How often each program is run for a cost.
    """

    def __init__(self, env: CompilerEnv, repeats: int) -> None:
        self._env, self._repeats = env, repeats
        env.reset()
        self._lowest = math.inf
        self._reference = steplake.make(
            "llvm-v0",
            benchmark=env.benchmark,
            observation_space=None,
            reward_space=None,
            action_space=PIPELINES,
        )
        self._reference.reset()
        self._reference.step(self._reference.action_space["-O3"])
        #: The cost of the program untouched.
        self.first = self.times(repeats).ratio()
        #: That after -Oz is not taken.
        self.oz = math.nan

    def __call__(self, sequence: Sequence[int]) -> Tried:
        """Play a sequence, and run the program that it leads to."""
        self._env.reset()
        *_, info = self._env.multistep(sequence)
        if "error" in info:
            return Tried(sequence, math.inf, 0, info["error"])
        try:
            cost = self.times(self._repeats).ratio()
        except steplake.ProgramFailed as error:
            return Tried(sequence, math.inf, 0, str(error))
        if cost < self._lowest:
            errors = self._env.validate().errors
            if errors:
                return Tried(sequence, math.inf, 0, errors[0])
            self._lowest = cost
        return Tried(sequence, cost, len(sequence))

    def times(self, repeats: int) -> Times:
        """Run the program of the present state and that of -O3 in turns."""
        times = Times([], [])
        for _ in range(repeats):
            times.own.extend(self._env.observation["Runtime"])
            times.reference.extend(self._reference.observation["Runtime"])
        return times

    def close(self) -> None:
        """End the environment of -O3."""
        self._reference.close()
