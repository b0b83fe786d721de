"""A lake: questions, upkeep, episodes, the transition graph, and what a notebook shows of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from steplake import _steplake
from steplake.defaults import UNSET
from steplake.errors import SteplakeError

# A method imports what it alone needs, so that `import steplake` stays quick.
if TYPE_CHECKING:
    from steplake.env import CompilerEnv
    from steplake.episodes import EpisodeData, Episodes
    from steplake.graph import TransitionGraph
    from steplake.training import Dataset


class Lake(_steplake.Lake):
    """A lake that is read. `steplake.open` opens one.

    Where a method is given no observation space or reward space, it takes the usual one of the
    environment if the lake has it, and otherwise the lake's first one (for observations, the first
    vector if there is one). None stands for no space: observations are then empty arrays, and rewards 0.
    """

    def iterate_episodes(
        self,
        ids: Iterable[int] | None = None,
        *,
        observation_space: str | None = UNSET,
        reward_space: str | None = UNSET,
    ) -> Iterator[EpisodeData]:
        """Read closed episodes one after another, sealed ones and hot ones.

        Memory is bounded: one query reads some 130,000 steps, and its rows are read in batches.
        Episodes whose start failed have no first state, and are left out.

        Parameters
        ----------
        ids : iterable of int, optional
            The ids of episodes (`EpisodeData.id`), in the order wanted; by default all episodes in
            the order of their ids.
        observation_space, reward_space : str or None, optional
            What to observe, and what to reward.

        Raises
        ------
        NotInLake
            If there is no such episode or space, or if a run did not record the space.
        MissingPackage
            If pyarrow is not installed.

        Examples
        --------
        >>> episode = next(lake.iterate_episodes())
        >>> len(episode), episode.observations.shape, episode.rewards.shape
        (7, (8, 56), (7,))
        >>> env.action_space.names[episode.actions[1]]
        'mem2reg'
        """
        from steplake.episodes import Episodes

        return Episodes.of(self).iterate_episodes(
            ids, observation_space=observation_space, reward_space=reward_space
        )

    def sample_episodes(
        self,
        n: int,
        seed: int = 0,
        *,
        observation_space: str | None = UNSET,
        reward_space: str | None = UNSET,
    ) -> list[EpisodeData]:
        """Draw `n` different closed episodes. Equal seeds draw equal episodes of equal lakes.

        Raises
        ------
        UsageError
            If there are fewer episodes.
        NotInLake
            If there is no such space, or if a run did not record it.

        Examples
        --------
        >>> [episode.id & 0xFFFFFFFF for episode in lake.sample_episodes(3, seed=1)]
        [5, 4, 9]
        """
        from steplake.episodes import Episodes

        return Episodes.of(self).sample_episodes(
            n, seed, observation_space=observation_space, reward_space=reward_space
        )

    def filter_episodes(
        self, sql: str, params: Sequence[Any] | Mapping[str, Any] | None = None
    ) -> Episodes:
        """Choose closed episodes by a condition over the table ``episodes``.

        Parameters
        ----------
        sql : str
            What stands after WHERE, such as ``"policy = 'random' AND steps >= 10"``. It may ask
            other tables too: ``"episode_id IN (SELECT …)"``.
        params : list or dict, optional
            The values of its parameters, as for `sql`.

        Returns
        -------
        Episodes
            It has a length, and the methods of a lake that read episodes.

        Raises
        ------
        QueryError
            If the condition is wrong.

        Examples
        --------
        >>> some = lake.filter_episodes("ordinal >= ? AND outcome = 'complete'", [9])
        >>> len(some), sum(len(episode) for episode in some)
        (3, 21)
        """
        from steplake.episodes import Episodes

        return Episodes.of(self, sql, params)

    def recover_environment(
        self,
        episode: EpisodeData | int | None = None,
        *,
        observation_space: str | None = UNSET,
        reward_space: str | None = UNSET,
        **options: Any,
    ) -> CompilerEnv:
        """Make the environment that the lake was recorded from.

        With an episode, `env.reset` leads to the episode's first state. If no dataset makes the
        program any more, it is the first state itself, where the lake stores it. It then has the
        name ``benchmark://user-v0/`` and the SHA-1 of its bytes.

        Parameters
        ----------
        episode : EpisodeData or int, optional
            An episode, or its id.
        observation_space, reward_space : str or None, optional
            The spaces of the environment.
        **options
            Other options of `steplake.env.CompilerEnv`.

        Raises
        ------
        CompilerUnavailable
            If the lake was recorded with another compiler than that of this package.
        BadBenchmark
            If the episode's program cannot be had.
        UsageError
            If the episode is a fork that began in the middle of another one.

        Examples
        --------
        >>> [episode] = lake.sample_episodes(1)
        >>> again = lake.recover_environment(episode)
        >>> _ = again.reset()
        >>> observation, reward, terminated, truncated, info = again.multistep(episode.actions)
        >>> info["state_id"] == episode.infos["state_id"][-1]
        True
        """
        from steplake._recovery import recovered_environment

        return recovered_environment(
            self,
            episode,
            observation_space=observation_space,
            reward_space=reward_space,
            **options,
        )

    def to_minari(
        self,
        dataset_id: str,
        *,
        observation_space: str | None = UNSET,
        reward_space: str | None = UNSET,
        **metadata: Any,
    ) -> Any:
        """Write all closed episodes as a dataset of `Minari <https://minari.farama.org>`_.

        ``minari.load_dataset(dataset_id)`` then gives the same episodes, numbered from 0 on;
        ``infos["episode_id"]`` has their ids in the lake. Its ``recover_environment`` makes the
        environment, and the options for ``reset`` in the metadata of an episode name its program.
        For some of the episodes, call ``lake.filter_episodes(…).to_minari(…)``. Minari keeps a
        folder for each episode.

        Parameters
        ----------
        dataset_id : str
            The dataset's name, such as ``compilers/random-v0``.
        observation_space, reward_space : str or None, optional
            What to observe, and what to reward. Observations must be numbers or vectors of one
            length.
        **metadata
            Options of ``minari.create_dataset_from_buffers``, such as ``author``.

        Returns
        -------
        minari.MinariDataset

        Raises
        ------
        MissingPackage
            If minari, pyarrow or Pillow is not installed.
        UsageError
            If the observations are no arrays of numbers.
        """
        from steplake.episodes import Episodes

        return Episodes.of(self).to_minari(
            dataset_id,
            observation_space=observation_space,
            reward_space=reward_space,
            **metadata,
        )

    def dataset(self, table: str, columns: Sequence[str] | None = None) -> Dataset:
        """Open rows for training: as tensors, shuffled over all rows, split without leaks.

        The first call for a snapshot reads the columns into the cache (``$STEPLAKE_CACHE``), as
        matrices of the narrowest type that holds their numbers. Later calls, also by other
        processes, map them into memory at once. Rows that are not sealed are left out.

        Parameters
        ----------
        table : {"state_transitions", "steps", "observations"}
            The rows: each transition once, each step with an action, or each state once. Steps come
            episode by episode; one on which the compiler failed leads back to its state, with a
            reward of 0 and ``terminated``.
        columns : sequence of str, optional
            Columns of the table that are numbers (``action``, ``count``, ``reward_…``); observation
            spaces, for the observation in the state of the row; ``next_`` and an observation space,
            for that in the next state; ``state_id`` and ``next_state_id``, as 20 bytes; for steps
            ``terminated`` and ``truncated``. By default the usual observation of both states, the
            action and the usual reward.

        Raises
        ------
        NotInLake
            If there is no such table or column.
        NotDeduplicated
            If no dedup has counted steps.
        UsageError
            If a column has no numbers. If some row has no value in a column, reading is the error:
            `Dataset.filter` can leave such rows out.

        Examples
        --------
        >>> rows = lake.dataset("state_transitions", ["Autophase", "action", "count"])
        >>> len(rows), rows.features
        (40, {'Autophase': 'int32[56]', 'action': 'int32', 'count': 'int64'})
        """
        from steplake._rows import open_rows
        from steplake.training import Dataset

        return Dataset(open_rows(self, table, columns))

    def graph(
        self,
        benchmark: str | Sequence[str] | None = None,
        *,
        state: str | bytes | None = None,
        radius: int | None = None,
    ) -> TransitionGraph:
        """Return the transition graph, or a part of it. Nothing runs before its rows are read.

        Parameters
        ----------
        benchmark : str or sequence of str, optional
            What can be reached from these programs: URIs, or patterns of LIKE with ``%``. By default
            from all programs.
        state : str or bytes, optional
            What can be reached from this state instead: 40 hexadecimal digits, or 20 bytes.
        radius : int, optional
            In at most so many steps.

        Raises
        ------
        NotInLake
            If the lake does not have the benchmark or the state.
        NotDeduplicated
            If no dedup has counted state transitions.

        Examples
        --------
        >>> graph = lake.graph("benchmark://steplake-v0/%")
        >>> graph.edges.columns[:5]
        ['source', 'target', 'action', 'name', 'count']
        >>> graph.to_networkx().number_of_nodes() == graph.nodes.to_arrow_table().num_rows
        True
        """
        from steplake.graph import transition_graph

        return transition_graph(self, benchmark, state, radius)

    def _repr_html_(self) -> str | None:
        """Return what a notebook shows; None, which means its text, if it cannot be read."""
        from steplake._notebook import page

        try:
            return page(self)
        except SteplakeError:
            return None
