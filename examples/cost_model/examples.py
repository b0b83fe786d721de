"""From a lake to examples: states with their graphs, and what is asked and said of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import steplake

from collect import COST, HORIZON, REWARD, Recording, choose_states
from graphs import INSTRUCTION, Graph, Vocabulary, number
from split import Parts

# Graphs that are read at once.
READ_AT_ONCE = 200


@dataclass(frozen=True)
class Example:
    """A state, and the three targets.

    Attributes
    ----------
    program, state : str, str
        The program's URI, and the state's id in hexadecimal digits.
    graph : Graph
        What the network sees.
    autophase : numpy.ndarray, shape (56,)
        What the trees see.
    instruction_nodes : int
        What counting the nodes gives.
    count : int
        The number of instructions: the cost.
    action, reward, is_changed : numpy.ndarray, shape (pairs,)
        The actions that were recorded in this state, the instructions that each saves over the
        cost, and whether it leads to another state at all.
    best : float
        The lowest cost that recorded transitions reach within `HORIZON` steps, over the cost.
    """

    program: str
    state: str
    graph: Graph
    autophase: np.ndarray
    instruction_nodes: int
    count: int
    action: np.ndarray
    reward: np.ndarray
    is_changed: np.ndarray
    best: float


@dataclass(frozen=True)
class Examples:
    """The training and the held-out examples, with the vocabulary of the former."""

    train: list[Example]
    test: list[Example]
    vocabulary_size: int
    actions: int


class Predictions(NamedTuple):
    """What a contender says: of all states, and of all pairs in the order of the states.

    None stands for a target that the contender says nothing of.
    """

    count: np.ndarray | None
    reward: np.ndarray | None
    best: np.ndarray | None


@dataclass(frozen=True)
class Costs:
    """The transition graph with numbered states: their costs, and the recorded transitions."""

    number: dict[str, int]
    cost: np.ndarray
    source: np.ndarray
    action: np.ndarray
    target: np.ndarray
    reward: np.ndarray

    def best_within(self, steps: int) -> np.ndarray:
        """Return the lowest cost that each state reaches in at most so many steps.

        The lake's `best_cost()` gives the same without the bound. In each round every state learns
        what its next states reached in the round before.
        """
        best = self.cost.copy()
        for _ in range(steps):
            before = best.copy()
            np.minimum.at(best, self.source, before[self.target])
            if np.array_equal(best, before):
                break
        return best

    def pairs_of(self) -> list[np.ndarray]:
        """Return the places of each state's transitions."""
        order = np.argsort(self.source, kind="stable")
        ends = np.cumsum(np.bincount(self.source, minlength=len(self.cost)))
        return np.split(order, ends[:-1])


def load_costs(lake: steplake.Lake) -> Costs:
    """Read the transition graph."""
    states = lake.sql(f"""
        SELECT encode(state_id, 'hex') AS state, "{COST}" AS cost FROM observations ORDER BY state
    """).to_arrow_table()
    number = {state: place for place, state in enumerate(states["state"].to_pylist())}
    edges = lake.sql(f"""
        SELECT encode(state_id, 'hex') AS source, action,
               encode(next_state_id, 'hex') AS target, "{REWARD}" AS reward
        FROM state_transitions ORDER BY source, action
    """).to_arrow_table()

    def numbers(name: str) -> np.ndarray:
        return np.array([number[state] for state in edges[name].to_pylist()], np.int64)

    cost = states["cost"].to_numpy().astype(float)
    action, reward = edges["action"].to_numpy(), edges["reward"].to_numpy()
    return Costs(number, cost, numbers("source"), action, numbers("target"), reward)


def load_examples(lake: steplake.Lake, how: Recording, parts: Parts) -> Examples:
    """Read the chosen states of both parts; the vocabulary is that of the training states."""
    chosen = {one.state: one.program for one in choose_states(lake, how)}
    train = [state for state in chosen if state in parts.train]
    test = [state for state in chosen if state in parts.test]
    texts: dict[str, set[str]] = {}
    for state, row in read_graphs(lake, train):
        texts.setdefault(chosen[state], set()).update(row["Programl"]["node_text"])
    vocabulary = Vocabulary(texts.values())
    costs = load_costs(lake)
    best, pairs = costs.best_within(HORIZON), costs.pairs_of()

    def examples(states: list[str]) -> list[Example]:
        return [
            make_example(chosen[state], state, row, costs, best, pairs, vocabulary)
            for state, row in read_graphs(lake, states)
        ]

    actions = int(lake.info()["actions"])
    return Examples(examples(train), examples(test), len(vocabulary), actions)


def read_graphs(lake: steplake.Lake, states: Sequence[str]) -> Iterator[tuple[str, dict]]:
    """Iterate over states and their graphs, with the features, some at a time."""
    for begin in range(0, len(states), READ_AT_ONCE):
        some = states[begin : begin + READ_AT_ONCE]
        table = lake.sql(f"""
            SELECT encode(state_id, 'hex') AS state, "Programl", "Autophase" FROM observations
            WHERE encode(state_id, 'hex') IN ({", ".join(f"'{state}'" for state in some)})
            ORDER BY state
        """).to_arrow_table()
        for place in range(len(table)):
            row = {name: table[name][place] for name in table.column_names}
            yield (
                row["state"].as_py(),
                {
                    "Programl": as_arrays(row["Programl"]),
                    "Autophase": np.array(row["Autophase"].as_py()),
                },
            )


def as_arrays(graph: pa.StructScalar) -> dict:
    """Return a graph's lists as arrays, and its texts as a list of str."""
    lists = {name: graph[name].values for name in graph}
    return {
        name: items.to_pylist() if name == "node_text" else items.to_numpy()
        for name, items in lists.items()
    }


def make_example(
    program: str,
    state: str,
    row: dict,
    costs: Costs,
    best: np.ndarray,
    pairs: list[np.ndarray],
    vocabulary: Vocabulary,
) -> Example:
    """Put together what is known of a state. A program without instructions has the cost 1."""
    place = costs.number[state]
    cost, own = max(costs.cost[place], 1.0), pairs[place]
    return Example(
        program,
        state,
        number(row["Programl"], vocabulary),
        row["Autophase"],
        int((row["Programl"]["node_type"] == INSTRUCTION).sum()),
        int(cost),
        costs.action[own].astype(np.int64),
        (costs.reward[own] / cost).astype(np.float32),
        costs.source[own] != costs.target[own],
        float(best[place] / cost),
    )
