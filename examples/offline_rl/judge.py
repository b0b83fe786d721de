"""The comparison: every contender on every held-out program, live."""

from __future__ import annotations

import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import steplake
from steplake.env import CompilerEnv
from steplake.vector import CompilerVectorEnv

from collect import COST, states_of
from contenders import Trace, follow_list, search_greedily, search_randomly

Contender = Callable[[CompilerEnv, str], Trace]


@dataclass(frozen=True)
class HeldOut:
    """The programs to be judged on.

    Attributes
    ----------
    programs : list of str
        Their URIs.
    first_states : list of str
        The ids of their first states.
    oz : list of int
        Their cost after -Oz.
    leaked : list of str
        Programs that were left out, since the lake has their first state.
    """

    programs: list[str]
    first_states: list[str]
    oz: list[int]
    leaked: list[str]


class Judge:
    """Some environments, each in a process of its own, that share out the programs.

    Attributes
    ----------
    compiler : str
        The compiler with its build.
    actions : int
        The number of actions.
    """

    def __init__(self, jobs: int, action_space: str) -> None:
        self._vector = CompilerVectorEnv(
            jobs, observation_space=None, reward_space=COST, action_space=action_space
        )
        self.compiler = self._vector.envs[0].compiler
        self.actions = int(self._vector.envs[0].action_space.n)

    def each(self, programs: list[str], contender: Contender) -> list[Trace]:
        """Return the contender's trace for each program."""
        envs = self._vector.envs
        traces: dict[str, Trace] = {}

        def work(place: int) -> None:
            for program in programs[place :: len(envs)]:
                traces[program] = contender(envs[place], program)

        with ThreadPoolExecutor(len(envs)) as threads:
            list(threads.map(work, range(len(envs))))
        return [traces[program] for program in programs]

    def hold_out(self, programs: list[str], lake: steplake.Lake) -> HeldOut:
        """Look at the programs, and leave out those whose first state is in the lake."""
        known, env = states_of(lake), self._vector.envs[0]
        kept = HeldOut([], [], [], [])
        for program in programs:
            _, info = env.reset(options={"benchmark": program})
            if info["state_id"] in known:
                kept.leaked.append(program)
                continue
            kept.programs.append(program)
            kept.first_states.append(info["state_id"])
            kept.oz.append(env.observation[f"{COST}Oz"])
        return kept

    def close(self) -> None:
        """End the environments."""
        self._vector.close()


def random_search(budget: int, seed: int) -> Contender:
    """Return the contender that plays a random episode, another one for each program."""
    return lambda env, program: search_randomly(
        env, program, budget, random.Random(f"{seed} {program}")
    )


def greedy_search(budget: int) -> Contender:
    """Return the contender that tries every action in each state."""
    return lambda env, program: search_greedily(env, program, budget)


def fixed_list(names: str) -> Contender:
    """Return the contender that takes the same actions everywhere."""
    return lambda env, program: follow_list(
        env, program, [env.action_space[name] for name in names.split()]
    )
