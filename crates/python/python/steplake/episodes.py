"""Episodes of a lake, in the form of Minari's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from steplake import _optional
from steplake._steplake import Lake
from steplake.defaults import UNSET, ChosenSpaces, chosen_spaces
from steplake.errors import NotInLake, UsageError

#: What one query reads of a lake: it bounds the memory that the query's sort and join take.
_ROWS_PER_QUERY = 1 << 17

#: A failed start has no first state, so it cannot be an episode with observations.
_HAS_STATES = "(steps > 0 OR outcome IN ('complete', 'ended'))"

_ROWS = """
WITH wanted AS (
  SELECT CAST(unnest(string_to_array($ids, ',')) AS BIGINT) AS episode_id,
         unnest(range(0, $count)) AS place
)
SELECT w.place, s.episode_id, s.benchmark_uri, s.action, s.state_id, s.end_of_episode,
       {observation} AS observation, {reward} AS reward,
       CASE WHEN s.state_id IS NULL THEN concat(e.outcome, ': ', e.detail) END AS error
FROM wanted AS w
JOIN steps AS s ON s.episode_id = w.episode_id
JOIN episodes AS e ON e.episode_id = w.episode_id
{join}
WHERE s.episode_id BETWEEN $first AND $last
ORDER BY w.place, s.step_index
"""

#: What needs a package, for the message.
_READING = "reading episodes"

_OBSERVED = "LEFT JOIN observations AS o ON o.state_key = s.state_key AND o.state_id = s.state_id"


@dataclass(frozen=True, eq=False, repr=False)
class EpisodeData:
    """An episode of `n` actions, with the fields of Minari's ``EpisodeData``.

    The values are those that ``reset`` and ``step`` returned, so after a failure of the compiler
    the last observation is the one before, and the last reward is 0.

    Attributes
    ----------
    id : int
        The ``episode_id`` of the table ``episodes``. It is unique in a lake, over all runs.
    observations : numpy.ndarray
        The observations, of shape ``(n + 1, …)``: that of the first state, and one for each action.
        Texts, bytes and lists of several lengths are objects.
    actions : numpy.ndarray
        The numbers of the actions, int64 of shape ``(n,)``.
    rewards : numpy.ndarray
        The rewards, float64 of shape ``(n,)``.
    terminations : numpy.ndarray
        Bool of shape ``(n,)``. The last is true if the compiler failed, or the environment ended
        the episode.
    truncations : numpy.ndarray
        Bool of shape ``(n,)``. The last is true if the episode was not terminated.
    infos : dict of numpy.ndarray
        Arrays of ``n + 1`` values: ``state_id`` (40 hexadecimal digits; empty after a failure),
        ``action_had_no_effect``, ``error`` (how the compiler failed; empty where it did not),
        ``benchmark`` and ``run_id``.
    """

    id: int
    observations: npt.NDArray[Any]
    actions: npt.NDArray[np.int64]
    rewards: npt.NDArray[np.float64]
    terminations: npt.NDArray[np.bool_]
    truncations: npt.NDArray[np.bool_]
    infos: dict[str, npt.NDArray[Any]]

    def __len__(self) -> int:
        """Return the number of actions."""
        return len(self.rewards)

    def __repr__(self) -> str:
        return (
            f"EpisodeData(id={self.id}, total_steps={len(self)}, "
            f"benchmark={str(self.infos['benchmark'][0])!r}, "
            f"return={self.rewards.sum():.6g}, "
            f"observations={self.observations.dtype} of shape {self.observations.shape})"
        )


class Episodes:
    """Some of the closed episodes of a lake, in the order of their ids.

    `Lake.filter_episodes` makes one. Episodes that are recorded later do not become part of it.

    Parameters
    ----------
    lake : Lake
        The lake.
    ids : numpy.ndarray
        The ids of the episodes, ascending.
    steps : numpy.ndarray
        The number of actions of each.
    """

    def __init__(
        self, lake: Lake, ids: npt.NDArray[np.int64], steps: npt.NDArray[np.int64]
    ) -> None:
        self._lake, self.ids, self._steps = lake, ids, steps

    @classmethod
    def of(
        cls,
        lake: Lake,
        condition: str = "true",
        params: Sequence[Any] | Mapping[str, Any] | None = None,
    ) -> Episodes:
        """Return the episodes of a lake that meet a condition."""
        _optional.package("pyarrow", _READING)
        lake._folder  # Numbers of episodes are those of one context.
        table = lake.sql(
            f"SELECT episode_id, steps FROM episodes WHERE {_HAS_STATES} AND (\n{condition}\n) "
            "ORDER BY episode_id",
            params,
        ).to_arrow_table()
        ids, steps = (np.asarray(table[name], np.int64) for name in ("episode_id", "steps"))
        return cls(lake, ids, steps)

    def __len__(self) -> int:
        """Return the number of episodes."""
        return len(self.ids)

    def __iter__(self) -> Iterator[EpisodeData]:
        """Iterate over the episodes, in the default spaces."""
        return self.iterate_episodes()

    def __repr__(self) -> str:
        return f"Episodes({len(self)} of {self._lake!r}, {self.total_steps} steps)"

    @property
    def total_steps(self) -> int:
        """The number of actions of all episodes."""
        return int(self._steps.sum())

    def filter_episodes(
        self, sql: str, params: Sequence[Any] | Mapping[str, Any] | None = None
    ) -> Episodes:
        """Return those of the episodes that meet a condition; see `Lake.filter_episodes`."""
        found = Episodes.of(self._lake, sql, params)
        is_here = np.isin(found.ids, self.ids, assume_unique=True)
        return Episodes(self._lake, found.ids[is_here], found._steps[is_here])

    def sample_episodes(
        self,
        n: int,
        seed: int = 0,
        *,
        observation_space: str | None = UNSET,
        reward_space: str | None = UNSET,
    ) -> list[EpisodeData]:
        """Draw `n` different episodes; see `Lake.sample_episodes`."""
        if not 0 <= n <= len(self):
            raise UsageError(f"there are {len(self)} episodes, and not {n} to draw from them")
        drawn = np.random.default_rng(seed).choice(self.ids, n, replace=False)
        return list(
            self.iterate_episodes(
                drawn, observation_space=observation_space, reward_space=reward_space
            )
        )

    def iterate_episodes(
        self,
        ids: Iterable[int] | None = None,
        *,
        observation_space: str | None = UNSET,
        reward_space: str | None = UNSET,
    ) -> Iterator[EpisodeData]:
        """Read episodes one after another; see `Lake.iterate_episodes`."""
        spaces = chosen_spaces(self._lake, observation_space, reward_space)
        wanted, steps = self.ids, self._steps
        if ids is not None:
            wanted = np.fromiter(ids, np.int64)
            places = np.searchsorted(self.ids, wanted).clip(max=max(len(self) - 1, 0))
            is_here = self.ids[places] == wanted if len(self) else np.zeros(len(wanted), np.bool_)
            if not is_here.all():
                missing = wanted[~is_here][0]
                raise NotInLake(
                    f"there is no episode {missing} here: the column `episode_id` of the table "
                    "`episodes` has the ids; episodes that are open or failed at the start have no "
                    "data yet, or none"
                )
            steps = self._steps[places]
        return self._read(wanted, steps, spaces)

    def _read(
        self, wanted: npt.NDArray[np.int64], steps: npt.NDArray[np.int64], spaces: ChosenSpaces
    ) -> Iterator[EpisodeData]:
        # The rows up to and with an episode tell which query reads it.
        queries = np.cumsum(steps + 1) // _ROWS_PER_QUERY
        for query in np.split(wanted, np.flatnonzero(np.diff(queries)) + 1):
            if len(query):
                yield from _read_at_once(self._lake, query, spaces)

    def to_minari(self, dataset_id: str, **options: Any) -> Any:
        """Write the episodes as a Minari dataset; see `Lake.to_minari`."""
        from steplake._minari import export

        return export(self._lake, self.iterate_episodes, dataset_id, **options)


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _read_at_once(lake: Lake, ids: npt.NDArray[np.int64], spaces: ChosenSpaces) -> Iterator[EpisodeData]:
    """Read episodes by one query, in the order of `ids`."""
    observed, rewarded = spaces.observation, spaces.reward
    text = _ROWS.format(
        observation="NULL" if observed is None else f"o.{_quoted(observed)}",
        reward="NULL" if rewarded is None else f"s.{_quoted('reward_' + rewarded)}",
        join="" if observed is None else _OBSERVED,
    )
    answer = lake.sql(
        text,
        {
            "ids": ",".join(map(str, ids)),
            "count": len(ids),
            "first": int(ids.min()),
            "last": int(ids.max()),
        },
    )
    for rows in _whole_episodes(answer.to_arrow_reader()):
        yield from _episodes(rows, spaces)


def _whole_episodes(batches: Iterable[Any]) -> Iterator[Any]:
    """Cut batches of rows between episodes; yields tables of whole ones."""
    pyarrow = _optional.package("pyarrow", _READING)
    kept: list[Any] = []
    for batch in batches:
        if batch.num_rows == 0:
            continue
        place = np.asarray(batch.column("place"))
        cut = int(np.searchsorted(place, place[-1]))
        if cut:
            yield pyarrow.Table.from_batches([*kept, batch.slice(0, cut)])
            kept = []
        kept.append(batch.slice(cut))
    if kept:
        yield pyarrow.Table.from_batches(kept)


def _episodes(rows: Any, spaces: ChosenSpaces) -> Iterator[EpisodeData]:
    """Make episodes of their rows."""
    # One chunk has one dictionary, and its values lie together.
    columns = {name: rows[name].combine_chunks() for name in rows.column_names}
    place = np.asarray(columns["place"])
    bounds = np.concatenate(([0], np.flatnonzero(np.diff(place)) + 1, [len(place)]))
    has_state = np.asarray(columns["state_id"].is_valid())
    observations = _observations(columns, has_state, spaces)
    rewards = _rewards(columns, has_state, spaces)
    actions = np.asarray(columns["action"].fill_null(0), np.int64)
    ends = np.asarray(columns["end_of_episode"], np.bool_)
    states = _state_ids(columns["state_id"], has_state)
    # Of the rows that begin an episode, the first of all follows none.
    same = np.concatenate(([False], (states[1:] == states[:-1]) & has_state[1:]))
    firsts = columns["episode_id"].take(bounds[:-1]).to_pylist()
    uris = columns["benchmark_uri"].take(bounds[:-1]).to_pylist()
    for id, uri, first, end in zip(firsts, uris, bounds[:-1], bounds[1:], strict=True):
        own, taken = slice(first, end), slice(first + 1, end)
        terminations = ends[taken].copy()
        truncations = np.zeros_like(terminations)
        truncations[-1:] = ~terminations[-1:]
        no_effect = same[own].copy()
        no_effect[0] = False
        errors = [error or "" for error in columns["error"][first:end].to_pylist()]
        yield EpisodeData(
            id,
            observations[own].copy(),
            actions[taken].copy(),
            rewards[taken].copy(),
            terminations,
            truncations,
            {
                "state_id": states[own].copy(),
                "action_had_no_effect": no_effect,
                "error": np.array(errors),
                "benchmark": np.full(end - first, uri),
                "run_id": np.full(end - first, id >> 32),
            },
        )


def _state_ids(column: Any, has_state: npt.NDArray[np.bool_]) -> npt.NDArray[Any]:
    """Return ids as texts of 40 hexadecimal digits; empty where there is none."""
    digits = b"".join(column.fill_null(bytes(20)).to_pylist()).hex()
    states = np.frombuffer(digits.encode(), "S40").astype("U40")
    states[~has_state] = ""
    return states


def _demand(
    columns: Mapping[str, Any], is_lacking: npt.NDArray[np.bool_], kind: str, name: str
) -> None:
    """Refuse a value that the lake lacks: no other value could stand for it."""
    if is_lacking.any():
        row = int(np.flatnonzero(is_lacking)[0])
        id = columns["episode_id"][row].as_py()
        raise NotInLake(
            f"episode {id} has steps without the {kind} space {name}, since its run did not record "
            f"it (or a repair dropped it): choose another `{kind}_space`, or leave such episodes "
            "out with `filter_episodes`"
        )


def _rewards(
    columns: Mapping[str, Any], has_state: npt.NDArray[np.bool_], spaces: ChosenSpaces
) -> npt.NDArray[np.float64]:
    """Return the reward of each row; 0 for a first state and after a failure."""
    if spaces.reward is None:
        return np.zeros(len(has_state))
    column = columns["reward"]
    is_lacking = ~np.asarray(column.is_valid()) & np.asarray(columns["action"].is_valid())
    _demand(columns, is_lacking & has_state, "reward", spaces.reward)
    return np.asarray(column.fill_null(0.0), np.float64)


def _observations(
    columns: Mapping[str, Any], has_state: npt.NDArray[np.bool_], spaces: ChosenSpaces
) -> npt.NDArray[Any]:
    """Return the observation of each row; after a failure, that of the row before."""
    if spaces.observation is None:
        return np.zeros((len(has_state), 0), np.int32)
    column = columns["observation"]
    is_there = np.asarray(column.is_valid())
    _demand(columns, ~is_there & has_state, "observation", spaces.observation)
    # A failure ends its episode, so the row before is of the same one and has a state.
    seen = np.cumsum(is_there) - 1
    column = column.drop_null()
    values: npt.NDArray[Any]
    if spaces.length:
        values = np.asarray(column.flatten()).reshape(len(column), spaces.length)
    else:
        values = column.to_numpy(zero_copy_only=False)
    observed: npt.NDArray[Any] = values[seen]
    return observed
