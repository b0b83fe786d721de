"""The lake: what to record, on which programs, and how."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import steplake
from steplake.env import CompilerEnv
from steplake.vector import CompilerVectorEnv

COST = "IrInstructionCount"
OBSERVED = [COST, "Autophase", "InstCount"]
REWARDED = [COST, f"{COST}Oz"]

# Programs are csmith's, by seed. Training and held-out programs come from ranges far apart.
DATASET = "generator://csmith-v0"
HELD_OUT_FROM = 1_000_000

# How many actions the recorded search tries in a state before it moves on.
TRIES_PER_STATE = [2, 4, 8, 16]
# How far below the best action that it tried it may choose, in logarithms of the cost.
NOISE = 0.01
# After so many tries in a row that lead nowhere, the search begins anew.
IDLE_MAX = 40


def training_programs(count: int) -> list[str]:
    """Return the URIs of the programs to record."""
    return [f"{DATASET}/{seed}" for seed in range(count)]


def held_out_programs(count: int) -> list[str]:
    """Return the URIs of the programs to be judged on, which are never recorded."""
    return [f"{DATASET}/{HELD_OUT_FROM + seed}" for seed in range(count)]


def record_search(path: Path, programs: list[str], tries: int, seed: int, jobs: int) -> None:
    """Record a noisy greedy search of `tries` compilations on each program.

    Random episodes alone hardly ever see a well optimised program, so they say little about what
    to do with one. Every action that the search tries is recorded, taken or not.
    """
    vector = CompilerVectorEnv(
        jobs, benchmark=programs[0], observation_space=None, reward_space=COST
    )

    def work(place: int) -> None:
        searcher = Searcher(vector.envs[place], seed + place)
        for program in programs[place::jobs]:
            searcher.search(program, tries)

    with (
        steplake.record(
            path,
            vector,
            policy="noisy-greedy",
            seed=seed,
            keyframes=None,
            observe=OBSERVED,
            rewards=REWARDED,
        ),
        ThreadPoolExecutor(jobs) as threads,
    ):
        list(threads.map(work, range(jobs)))
    vector.close()


class Searcher:
    """A search that tries some actions in a state, and goes on from a good one.

    It tries actions the more often, the more often they have paid off so far, in any program.
    """

    def __init__(self, env: CompilerEnv, seed: int) -> None:
        self._env = env
        self._dice = np.random.default_rng(seed)
        actions = int(env.action_space.n)
        self._tried, self._paid = np.full(actions, 4.0), np.full(actions, 1.0)

    def search(self, program: str, tries: int) -> None:
        """Search from the program's start, again and again, until all tries are used up."""
        while tries > 0:
            self._env.reset(options={"benchmark": program})
            here, cost, idle = self._env, int(self._env.observation[COST]), 0
            while tries > 0 and idle < IDLE_MAX:
                actions = self._draw(min(tries, int(self._dice.choice(TRIES_PER_STATE))))
                tries -= len(actions)
                kept, saved = self._go_on(here, cost, actions)
                idle = 0 if saved > 0 else idle + len(actions)
                if kept is not here:
                    self._leave(here)
                    here, cost = kept, cost - saved
            self._leave(here)

    def _leave(self, env: CompilerEnv) -> None:
        if env is not self._env:
            env.close()

    def _draw(self, count: int) -> list[int]:
        """Draw different actions."""
        chances = self._paid / self._tried
        chances = 0.8 * chances / chances.sum() + 0.2 / len(chances)
        return self._dice.choice(len(chances), count, replace=False, p=chances).tolist()

    def _go_on(self, env: CompilerEnv, cost: int, actions: list[int]) -> tuple[CompilerEnv, int]:
        """Try actions, and return the environment to go on with, and what it saves.

        A saving is compared with staying where one is, and all have some luck: the search may take
        a small loss, which is how it gets to actions that pay off later.
        """
        kept, kept_saved, most = env, 0, self._luck() - NOISE
        for action in actions:
            fork = env.fork()
            _, reward, failed, _, info = fork.step(action)
            saved = int(reward)
            self._tried[action] += 1
            self._paid[action] += saved > 0
            score = -math.inf
            if not failed and not info["action_had_no_effect"]:
                score = math.log(cost / max(cost - saved, 1)) + self._luck()
            if score > most:
                kept, fork = fork, kept
                kept_saved, most = saved, score
            if fork is not env:
                fork.close()
        return kept, kept_saved

    def _luck(self) -> float:
        return NOISE * float(self._dice.gumbel())


def states_of(lake: steplake.Lake) -> set[str]:
    """Return the ids of all states that the lake has, in hexadecimal digits."""
    return {state for (state,) in lake.sql("SELECT hex(state_id) FROM observations").fetchall()}
