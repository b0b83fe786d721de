"""How good a policy is: it plays programs live, and its results are compared with -Oz."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import steplake
from numpy.typing import NDArray

from setting import EPISODE_STEPS, PassOrdering

# From the observations of several environments to an action for each.
Policy = Callable[[NDArray[np.float32]], NDArray[Any]]

RESAMPLES = 10_000


@dataclass(frozen=True)
class Played:
    """A program that was played.

    Attributes
    ----------
    program : str
        Its URI.
    untouched, oz, final, best : int
        The number of its instructions: untouched, after -Oz, at the end of the episode, and the
        lowest one of the episode.
    """

    program: str
    untouched: int
    oz: int
    final: int
    best: int


def play(
    vector: PassOrdering, policy: Policy, programs: Sequence[steplake.Benchmark]
) -> list[Played]:
    """Play one episode of each program.

    `vector` begins ended episodes at the next step: see `AutoresetMode.NEXT_STEP`.
    """
    played: list[Played] = []
    for begin in range(0, len(programs), vector.num_envs):
        chosen = programs[begin : begin + vector.num_envs]
        # All environments have to play; what the surplus ones do is left out.
        filled = [*chosen, *[chosen[0]] * (vector.num_envs - len(chosen))]
        seen, _ = vector.reset(options={"programs": filled})
        # A reset after a failure of the compiler must not overwrite the program of the episode.
        sizes = [sizes_of(env.observation) for env in vector.compilers.envs]
        saved, best = np.zeros((2, vector.num_envs))
        going = np.ones(vector.num_envs, bool)
        for _ in range(EPISODE_STEPS):
            seen, _, ended, _, _ = vector.step(policy(seen))
            saved[going], best[going] = vector.saved[going], vector.best[going]
            going &= ~ended
        for place, program in enumerate(chosen):
            untouched, oz = sizes[place]
            scale = max(untouched - oz, 1)
            final, lowest = (
                untouched - round(float(share) * scale) for share in (saved[place], best[place])
            )
            played.append(Played(program.uri, untouched, oz, final, lowest))
    return played


def sizes_of(observation: Any) -> tuple[int, int]:
    """Return the number of instructions of a program untouched, and after -Oz."""
    return observation["IrInstructionCountO0"], observation["IrInstructionCountOz"]


def ratios(played: Sequence[Played], which: str = "final") -> NDArray[np.float64]:
    """Return the size after -Oz over the size that was reached, for each program."""
    reached = [max(getattr(one, which), 1) for one in played]
    return np.array([max(one.oz, 1) for one in played]) / reached


def geometric_mean(values: NDArray[np.float64]) -> float:
    """Return the geometric mean."""
    return float(np.exp(np.log(values).mean()))


def interval(values: NDArray[np.float64]) -> tuple[float, float]:
    """Return the 95% interval of the geometric mean, by bootstrap over programs."""
    logs, dice = np.log(values), np.random.default_rng(0)
    means = logs[dice.integers(len(logs), size=(RESAMPLES, len(logs)))].mean(axis=1)
    low, high = np.exp(np.quantile(means, [0.025, 0.975]))
    return float(low), float(high)
