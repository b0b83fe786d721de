"""The contenders: each optimises a program live, and is charged for every compilation.

A compilation is one action that the compiler executes, whether or not it changes anything. Each
contender returns its trace: the cost of the first state, and of that after each compilation. What
it has reached is the lowest of them: whoever optimises a program keeps the best state. Those that
follow a network are in `policy.py`.
"""

from __future__ import annotations

import random

from steplake.env import CompilerEnv

from collect import COST

Trace = list[int]


def begin(env: CompilerEnv, program: str) -> int:
    """Begin an episode of a program, and return its cost."""
    env.reset(options={"benchmark": program})
    return env.observation[COST]


def search_randomly(env: CompilerEnv, program: str, budget: int, dice: random.Random) -> Trace:
    """Play one episode of `budget` random actions."""
    actions = [dice.randrange(int(env.action_space.n)) for _ in range(budget)]
    return follow_list(env, program, actions)


def follow_list(env: CompilerEnv, program: str, actions: list[int]) -> Trace:
    """Take these actions, whatever the program."""
    trace = [begin(env, program)]
    for action in actions:
        [cost], _, failed, _, _ = env.step(action, observation_spaces=[COST])
        if failed:
            break
        trace.append(cost)
    return trace


def search_greedily(env: CompilerEnv, program: str, budget: int) -> Trace:
    """Try every action in each state and take the best one, until none makes it smaller.

    It also ends when the budget does not suffice to try every action once more.
    """
    trace, actions = [begin(env, program)], int(env.action_space.n)
    cost = trace[0]
    while len(trace) + actions <= budget + 1:
        costs = [cost_after(env, action, cost) for action in range(actions)]
        trace += costs
        if min(costs) >= cost:
            break
        cost = min(costs)
        env.step(costs.index(cost))
    return trace


def cost_after(env: CompilerEnv, action: int, cost: int) -> int:
    """Return the cost after an action, which is not taken; `cost` if the compiler fails."""
    fork = env.fork()
    _, saved, failed, _, _ = fork.step(action)
    fork.close()
    return cost if failed else cost - int(saved)
