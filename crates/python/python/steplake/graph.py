"""The transition graph of a lake."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from steplake import _optional
from steplake._steplake import Answer, Lake
from steplake.errors import NotInLake, UsageError

_NODES = """
WITH reached AS ({reached})
SELECT r.state_id, r.steps, b.benchmark, coalesce(v.visits, 0) AS visits{costs}
FROM reached AS r
LEFT JOIN observations AS o ON o.state_id = r.state_id
LEFT JOIN (SELECT state_id, count(*) AS visits FROM steps GROUP BY state_id) AS v
  ON v.state_id = r.state_id
LEFT JOIN (SELECT initial_state_id, min(benchmark_uri) AS benchmark FROM benchmarks
           GROUP BY initial_state_id) AS b ON b.initial_state_id = r.state_id
ORDER BY r.steps, r.state_id
"""

_EDGES = """
WITH reached AS ({reached})
SELECT t.state_id AS source, t.next_state_id AS target, t.action, action_name(t.action) AS name,
       t.count{rewards}
FROM state_transitions AS t
WHERE t.state_id IN (SELECT state_id FROM reached){within}
ORDER BY t.state_key, t.state_id, t.action
"""

# Beyond a radius there are more states; otherwise a transition leads to a state of the graph.
_WITHIN = "\n  AND t.next_state_id IN (SELECT state_id FROM reached)"


@dataclass(frozen=True, repr=False)
class TransitionGraph:
    """States as nodes, and state transitions as edges.

    Attributes
    ----------
    nodes : Answer
        One row for each state: ``state_id`` (20 bytes), ``steps`` (the fewest from the beginning of
        a benchmark, or from the state in the middle), ``benchmark`` (a program that begins in it,
        or null), ``visits`` (the number of recorded steps that led to it), and its observations
        that are single numbers; one with such a name has ``_observed`` behind it.
    edges : Answer
        One row for each transition: ``source`` and ``target`` (20 bytes), ``action``, ``name`` (of
        the action), ``count`` (the number of recorded steps that took it) and a column
        ``reward_…`` for each reward space.
    """

    nodes: Answer
    edges: Answer

    def __repr__(self) -> str:
        return f"TransitionGraph(nodes={self.nodes.columns}, edges={self.edges.columns})"

    def to_networkx(self) -> Any:
        """Return the graph as a ``networkx.MultiDiGraph``.

        A node is the id of its state, 40 hexadecimal digits; the key of an edge is the number of
        its action. The other columns are attributes, without those that are null.

        Raises
        ------
        MissingPackage
            If networkx is not installed.
        """
        networkx = _optional.package("networkx", "`to_networkx`")
        _optional.package("pyarrow", "`to_networkx`", "graph")
        graph = networkx.MultiDiGraph()
        for row in _rows(self.nodes):
            state = row.pop("state_id").hex()
            graph.add_node(state)
            graph.nodes[state].update(row)
        for row in _rows(self.edges):
            source, target = (row.pop(name).hex() for name in ("source", "target"))
            graph.add_edge(source, target, row["action"], **row)
        return graph


def _rows(answer: Answer) -> Any:
    """Iterate over the rows of an answer, as dicts without nulls."""
    for batch in answer.to_arrow_reader():
        for row in batch.to_pylist():
            yield {name: value for name, value in row.items() if value is not None}


def transition_graph(
    lake: Lake,
    benchmark: str | Sequence[str] | None,
    state: str | bytes | None,
    radius: int | None,
) -> TransitionGraph:
    """Return the transition graph of a lake, or a part of it; see `Lake.graph`."""
    if state is not None and benchmark is not None:
        raise UsageError("a graph is that of benchmarks or that around a state: give one of them")
    if radius is not None and (state is None or radius < 0):
        raise UsageError("`radius` is a number of steps from 0 on around a `state`: give both")
    params: list[Any] = []
    if state is not None:
        digits = state.hex() if isinstance(state, bytes) else state
        # This refuses what is no state of the lake. Its rows have more columns than are wanted.
        lake.query("reachable", state=digits)
        steps = "" if radius is None else f", {int(radius)}"
        reached = f"SELECT state_id, steps FROM reachable('{digits}'{steps})"
    else:
        named = "%" if benchmark is None else benchmark
        params = [named] if isinstance(named, str) else list(named)
        if not params:
            raise UsageError("a graph of no benchmarks is empty: name some, or none for all")
        _demand_benchmarks(lake, params)
        # An underscore means itself where nothing else makes a name a pattern.
        wanted = " OR ".join(
            f"benchmark_uri {'LIKE' if '%' in pattern else '='} ${n}"
            for n, pattern in enumerate(params, 1)
        )
        reached = (
            f"SELECT state_id, min(steps) AS steps FROM sequences() WHERE {wanted} "
            "GROUP BY state_id"
        )
    observed = _columns(lake, "observations")
    numbers = [name for name, kind, _ in observed if kind in ("int64", "float64")]
    own = {"state_id", "steps", "benchmark", "visits"}
    costs = "".join(
        f', o."{name}" AS "{name}{"_observed" if name.lower() in own else ""}"'
        for name in numbers
        if name != "state_key"
    )
    names = [name for name, _, _ in _columns(lake, "state_transitions")]
    rewards = "".join(f', t."{name}"' for name in names if name.startswith("reward_"))
    within = "" if radius is None else _WITHIN
    return TransitionGraph(
        lake.sql(_NODES.format(reached=reached, costs=costs), params),
        lake.sql(_EDGES.format(reached=reached, rewards=rewards, within=within), params),
    )


def _columns(lake: Lake, table: str) -> list[tuple[str, str, str]]:
    return next(relation.columns for relation in lake.tables if relation.name == table)


def _demand_benchmarks(lake: Lake, patterns: Sequence[str]) -> None:
    """Refuse a pattern that no benchmark matches: the answer would be empty."""
    for pattern in patterns:
        how = "LIKE" if "%" in pattern else "="
        found = lake.sql(f"SELECT 1 FROM benchmarks WHERE benchmark_uri {how} ? LIMIT 1", [pattern])
        if pattern != "%" and found.fetchone() is None:
            raise NotInLake(
                f"the lake has no benchmark like {pattern!r}: the table `benchmarks` lists them, "
                "and `%` stands for any characters"
            )
