"""The paper's setting, over several programs at once: what an agent does, sees and gets."""

from __future__ import annotations

import contextlib
import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import steplake
from gymnasium.spaces import Box, Discrete, MultiDiscrete
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray
from steplake.vector import CompilerVectorEnv

EPISODE_STEPS = 45
REWARD = "IrInstructionCountOz"
# What a lake records, so that it can answer for the compiler.
OBSERVED = ["IrInstructionCount", "Autophase", "InstCount"]
REWARDED = ["IrInstructionCount", REWARD]
# How much of a reward beyond -1 and 1 is left.
LEAK = 0.001

# The vectors that an agent may see, with the place of the number of instructions in each. An agent
# sees them divided by that number, and, with a history, how often it took each action.
VECTORS = {"autophase": ("Autophase", 51), "instcount": ("InstCount", 0)}
OBSERVATIONS = ("autophase", "autophase+history", "instcount", "instcount+history")


def action_names() -> list[str]:
    """Return the names of the actions, which are those of `actions.csv` that LLVM 22 has."""
    with Path(__file__).with_name("actions.csv").open(newline="") as file:
        return [row["action"] for row in csv.DictReader(file) if row["action"]]


def clamped(rewards: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return rewards between -1 and 1, with a thousandth of what lies beyond."""
    bounded = np.clip(rewards, -1, 1)
    return bounded + LEAK * (rewards - bounded)


class PassOrdering(VectorEnv[Any, Any, Any]):
    """Episodes of a fixed length over programs that are drawn at random.

    All that is done to a step is done to the arrays of all environments at once. The end of an
    episode is a termination: the number of steps belongs to the task.

    Parameters
    ----------
    num_envs : int
        How many compilers work at once.
    programs : sequence of Benchmark
        The programs to draw from, all with equal chances.
    observe : str, optional
        One of `OBSERVATIONS`.
    seed : int, optional
        Seeds the draws until `reset` does.
    autoreset_mode : AutoresetMode, optional
        See `CompilerVectorEnv`.
    lake, record : path, optional
        A lake that answers the steps that it knows, while the compiler answers the others; or one
        to record all steps into.

    Attributes
    ----------
    compilers : CompilerVectorEnv
        The environments inside.
    saved, best : numpy.ndarray, shape (num_envs,)
        What the episode's actions have saved so far, and at most, as a share of what -Oz saves.
    finished : list of float
        `saved` at the end of each episode; whoever reads the list may clear it.
    """

    def __init__(
        self,
        num_envs: int,
        programs: Sequence[steplake.Benchmark],
        *,
        observe: str = "autophase+history",
        seed: int = 0,
        autoreset_mode: AutoresetMode = AutoresetMode.NEXT_STEP,
        lake: Path | None = None,
        record: Path | None = None,
    ) -> None:
        vector, _, history = observe.partition("+")
        space, self._count_at = VECTORS[vector]
        cached = {} if lake is None else {"lake": lake, "missing_edge": "live"}
        self.compilers = CompilerVectorEnv(
            num_envs,
            environment="llvm-v0" if lake is None else "replay-v0",
            benchmark=[programs[0]] * num_envs,
            observation_space=space,
            reward_space=REWARD,
            max_episode_steps=EPISODE_STEPS,
            autoreset_mode=autoreset_mode,
            **cached,
        )
        self._recording = contextlib.ExitStack()
        if record is not None:
            recording = steplake.record(
                record,
                self.compilers,
                policy="online-rl",
                seed=seed,
                keyframes=None,
                observe=OBSERVED,
                rewards=REWARDED,
            )
            self._recording.enter_context(recording)
        names = self.compilers.single_action_space
        self._numbers = np.array([names[name] for name in action_names()])
        self._programs, self._with_history = list(programs), bool(history)
        self.num_envs, self.metadata = num_envs, self.compilers.metadata
        width = self.compilers.single_observation_space.shape[0]
        width += len(self._numbers) if self._with_history else 0
        self.single_action_space = Discrete(len(self._numbers))
        self.single_observation_space = Box(0, 1, (width,), np.float32)
        self.action_space = MultiDiscrete([len(self._numbers)] * num_envs)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self._seed(seed)
        self.saved, self.best = np.zeros((2, num_envs))
        self._taken = np.zeros((num_envs, len(self._numbers)), np.float32)
        self._ended = np.zeros(num_envs, bool)
        self.finished: list[float] = []

    def _seed(self, seed: int) -> None:
        # Each environment draws for itself, so that it does not matter in which order they end.
        self._dice = [np.random.default_rng([seed, place]) for place in range(self.num_envs)]

    def _draw(self, place: int) -> None:
        """Draw the program of an environment's next episode."""
        drawn = self._dice[place].integers(len(self._programs))
        self.compilers.envs[place].benchmark = self._programs[drawn]

    def reset(
        self, *, seed: int | Sequence[int | None] | None = None, options: Any = None
    ) -> tuple[NDArray[np.float32], dict[str, Any]]:
        """Begin an episode in every environment.

        Parameters
        ----------
        seed : int, optional
            Seeds the draws of programs.
        options : mapping, optional
            ``programs``: a program for each environment, instead of draws.
        """
        if seed is not None:
            self._seed(seed if isinstance(seed, int) else int(seed[0] or 0))
        for place, env in enumerate(self.compilers.envs):
            if options and "programs" in options:
                env.benchmark = options["programs"][place]
            else:
                self._draw(place)
        counts, infos = self.compilers.reset()
        self._ended[:] = False
        self._begin(np.ones(self.num_envs, bool))
        return self._shown(counts), infos

    def _begin(self, which: NDArray[np.bool_]) -> None:
        """Note that these environments have begun an episode."""
        self.saved[which] = self.best[which] = self._taken[which] = 0
        for place in np.flatnonzero(which):
            self._draw(place)

    def step(
        self, actions: Any
    ) -> tuple[NDArray[np.float32], NDArray[Any], NDArray[Any], NDArray[Any], dict[str, Any]]:
        """Apply one action in each environment; see `CompilerVectorEnv.step`."""
        actions = np.asarray(actions)
        counts, rewards, failed, cut, infos = self.compilers.step(self._numbers[actions])
        begun, going = self._ended, ~self._ended
        self._taken[going, actions[going]] += 1 / EPISODE_STEPS
        self.saved += rewards
        self.best = np.maximum(self.best, self.saved)
        ended = failed | cut
        self.finished += self.saved[ended].tolist()
        if self.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP:
            for place in np.flatnonzero(ended):
                final = infos["final_obs"][place]
                infos["final_obs"][place] = self._shown(final[None], self._taken[[place]])[0]
            begun = ended
        else:
            self._ended = ended
        self._begin(begun)
        return self._shown(counts), clamped(rewards), ended, np.zeros_like(ended), infos

    def _shown(
        self, counts: NDArray[np.int32], taken: NDArray[np.float32] | None = None
    ) -> NDArray[np.float32]:
        """Return what the agent sees of raw counts, and of its actions so far."""
        total = np.maximum(counts[:, [self._count_at]], 1)
        shares = np.clip(counts / total, 0, 1).astype(np.float32)
        if not self._with_history:
            return shares
        return np.hstack([shares, self._taken if taken is None else taken])

    def close_extras(self, **_options: Any) -> None:
        """End the recording and the compilers."""
        self._recording.close()
        self.compilers.close()
