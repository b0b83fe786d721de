"""From a lake to tensors: states, and what each action did in them."""

from __future__ import annotations

from dataclasses import dataclass

import steplake
import torch
from torch import nn

from collect import COST

# States are numbered, so that tensors can name them.
STATES = """
    SELECT state_id, CAST(row_number() OVER (ORDER BY hex(state_id)) AS BIGINT) - 1 AS state
    FROM observations
"""

# What a memory is worth after one more change of the program.
FADING = 0.7


@dataclass(frozen=True)
class Transitions:
    """A lake's states and state transitions.

    Attributes
    ----------
    autophase, instcount : torch.Tensor, shape (states, 56) and (states, 70)
        What is observed in a state.
    cost : torch.Tensor, shape (states,)
        The number of instructions.
    best : torch.Tensor, shape (states,)
        The lowest cost that recorded transitions lead to from a state.
    first_action : torch.Tensor, shape (states,)
        The first action on the shortest way there, or -1 in the best state itself.
    history : torch.Tensor, shape (states, 2 * actions)
        What was done on a way to the state: see `remember`.
    state, action, next_state : torch.Tensor, shape (transitions,)
        Each (state, action) that was recorded, once.
    """

    autophase: torch.Tensor
    instcount: torch.Tensor
    cost: torch.Tensor
    best: torch.Tensor
    first_action: torch.Tensor
    history: torch.Tensor
    state: torch.Tensor
    action: torch.Tensor
    next_state: torch.Tensor


def load_transitions(lake: steplake.Lake) -> Transitions:
    """Read all transitions of a lake: the one place that knows how."""
    states = lake.sql(f"""
        WITH numbered AS ({STATES})
        SELECT o.Autophase, o.InstCount, o.{COST} AS cost,
               i.initial_state_id IS NOT NULL AS initial,
               coalesce(b.best_cost, o.{COST}) AS best, coalesce(b.actions[1], -1) AS first_action
        FROM numbered AS n JOIN observations AS o USING (state_id)
        LEFT JOIN best_cost('{COST}') AS b USING (state_id)
        LEFT JOIN (SELECT DISTINCT initial_state_id FROM benchmarks) AS i
            ON i.initial_state_id = n.state_id
        ORDER BY n.state
    """).torch()
    edges = lake.sql(f"""
        WITH numbered AS ({STATES})
        SELECT s.state AS state, t.action AS action, n.state AS next_state
        FROM state_transitions AS t
        JOIN numbered AS s ON s.state_id = t.state_id
        JOIN numbered AS n ON n.state_id = t.next_state_id
        ORDER BY 1, 2
    """).torch()
    ways = [edges[name].long() for name in ("state", "action", "next_state")]
    return Transitions(
        states["Autophase"],
        states["InstCount"],
        states["cost"].double(),
        states["best"].double(),
        states["first_action"].long(),
        histories(states["initial"].bool(), *ways, lake.info()["actions"]),
        *ways,
    )


def histories(
    initial: torch.Tensor,
    state: torch.Tensor,
    action: torch.Tensor,
    next_state: torch.Tensor,
    actions: int,
) -> torch.Tensor:
    """Return each state's history along a shortest recorded way from a program's start."""
    history = torch.zeros(len(initial), 2 * actions)
    is_idle, is_reached = state == next_state, initial.clone()
    idle = torch.zeros(len(initial), actions)
    idle[state[is_idle], action[is_idle]] = 1
    while True:
        ahead = (is_reached[state] & ~is_reached[next_state]).nonzero()[:, 0]
        if not len(ahead):
            return history
        before, after = state[ahead], next_state[ahead]
        changed = nn.functional.one_hot(action[ahead], actions).float()
        # Where several ways of one length lead to a state, any of them will do.
        history[after] = remember(history[before], changed, idle[before])
        is_reached[after] = True


def remember(history: torch.Tensor, changed: torch.Tensor, idle: torch.Tensor) -> torch.Tensor:
    """Return the history after a change of state.

    A history has two numbers for each action: how lately it changed the program, and how lately it
    was tried in vain. Features hardly show that a pass has just run; the history does.

    Parameters
    ----------
    history : torch.Tensor, shape (states, 2 * actions)
        The history before.
    changed, idle : torch.Tensor, shape (states, actions)
        1 for the action that changed the program, and for those tried in vain since the last one.
    """
    return torch.maximum(FADING * history, torch.cat([changed, FADING * idle], dim=1))


def features(
    autophase: torch.Tensor, instcount: torch.Tensor, history: torch.Tensor
) -> torch.Tensor:
    """Return what a network sees of states: logarithms of counts, their shares, and the history.

    A share is a count over the number of instructions: it does not depend on the program's size.
    """
    counts = torch.cat([autophase, instcount], dim=1).float()
    size = instcount[:, :1].float().clamp(min=1)
    return torch.cat([counts.log1p(), counts / size, history], dim=1)
