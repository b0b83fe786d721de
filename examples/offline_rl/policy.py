"""The contenders that learned: each follows the scores of a network."""

from __future__ import annotations

from collections import defaultdict

import torch
from steplake.env import CompilerEnv

from collect import COST
from contenders import Trace, begin
from judge import Contender
from learn import Scores
from transitions import features, remember


def policy(net: Scores, budget: int) -> Contender:
    """Return the contender that follows a network."""
    return lambda env, program: follow_policy(env, program, net, budget)


def follow_policy(env: CompilerEnv, program: str, net: Scores, budget: int) -> Trace:
    """Take the action with the highest score, for one episode of `budget` actions.

    An action that was taken in a state is not taken there again: it would do the same.
    """
    trace, actions = [begin(env, program)], int(env.action_space.n)
    spaces = [COST, "Autophase", "InstCount"]
    seen = [env.observation[space] for space in spaces]
    state, history = env.state.state_id, torch.zeros(1, 2 * actions)
    taken: dict[str | None, list[int]] = defaultdict(list)
    while len(trace) <= budget and len(taken[state]) < actions:
        with torch.no_grad():
            scores = net(features(*(torch.as_tensor(x)[None] for x in seen[1:]), history))[0]
        scores[taken[state]] = -torch.inf
        action = int(scores.argmax())
        taken[state].append(action)
        seen, _, failed, _, info = env.step(action, observation_spaces=spaces)
        if failed:
            break
        if info["state_id"] != state:
            idle = mark(taken[state][:-1], actions)
            history = remember(history, mark([action], actions), idle)
            state = info["state_id"]
        trace.append(seen[0])
    return trace


def mark(chosen: list[int], actions: int) -> torch.Tensor:
    """Return a row with 1 for the chosen actions."""
    row = torch.zeros(1, actions)
    row[0, chosen] = 1
    return row
