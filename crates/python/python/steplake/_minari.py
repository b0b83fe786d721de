"""Episodes as a dataset of Minari."""

from __future__ import annotations

import importlib.metadata
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import gymnasium

from steplake import _optional
from steplake._steplake import Lake
from steplake.defaults import UNSET, chosen_spaces, demand_known
from steplake.errors import UsageError


def export(
    lake: Lake,
    read: Callable[..., Iterator[Any]],
    dataset_id: str,
    *,
    observation_space: str | None = UNSET,
    reward_space: str | None = UNSET,
    **metadata: Any,
) -> Any:
    """Write episodes as a Minari dataset; see `Lake.to_minari`.

    `read` is given the spaces, and returns an iterator over the episodes.
    """
    minari = _optional.package("minari", "`to_minari`")
    # Minari hides the import of its Arrow storage, which needs Pillow besides pyarrow.
    _optional.package("PIL.Image", "`to_minari`")
    # Minari makes the folder of a dataset before it looks at the name.
    try:
        minari.dataset.minari_dataset.parse_dataset_id(dataset_id)
    except (ValueError, TypeError):
        raise UsageError(
            f"{dataset_id!r} is no id of a Minari dataset: write a name and a version, such as "
            "'compilers/llvm-v0'"
        ) from None
    info, spaces = lake.info(), chosen_spaces(lake, observation_space, reward_space)
    demand_known(info["environment"])
    env: Any = gymnasium.make(
        f"steplake:{info['environment']}",
        # Recorded episodes may be longer than those of a registered environment.
        max_episode_steps=-1,
        action_space=info["action_space"],
        observation_space=spaces.observation,
        reward_space=spaces.reward,
    )
    try:
        space = env.observation_space
        if not isinstance(space, gymnasium.spaces.Box) or 0 in space.shape:
            raise UsageError(
                f"a Minari dataset holds arrays of numbers, and {spaces.observation} is none: "
                "choose another `observation_space`"
            )
        episodes = read(observation_space=spaces.observation, reward_space=spaces.reward)
        about = f"Episodes of {info['environment']} ({info['compiler']}), recorded by steplake."
        version = importlib.metadata.version("steplake")
        defaults = {"description": about, "requirements": [f"steplake=={version}"]}
        dataset = minari.create_dataset_from_buffers(
            dataset_id, [], env=env, data_format="arrow", **defaults | metadata
        )
        try:
            _fill(dataset.storage, _buffers(minari, episodes))
        except BaseException:
            shutil.rmtree(Path(dataset.storage.data_path).parent)
            raise
        return minari.load_dataset(dataset_id)
    finally:
        env.close()


def _fill(storage: Any, buffers: Iterator[Any]) -> None:
    """Write episodes one by one into a dataset without any."""
    # Minari measures the whole dataset after each episode: the time would go with their square.
    storage.get_size = lambda: 0.0
    storage.update_episodes(buffers)
    del storage.get_size
    storage.update_metadata({"dataset_size": storage.get_size()})


def _buffers(minari: Any, episodes: Iterator[Any]) -> Iterator[Any]:
    """Make Minari's buffers of episodes."""
    for place, episode in enumerate(episodes):
        # As lists: Minari's Arrow storage cannot read arrays of one dimension back.
        infos = {name: values.tolist() for name, values in episode.infos.items()}
        yield minari.data_collector.EpisodeBuffer(
            id=place,
            options={"benchmark": infos["benchmark"][0]},
            observations=episode.observations,
            actions=episode.actions,
            rewards=episode.rewards,
            terminations=episode.terminations,
            truncations=episode.truncations,
            infos=infos | {"episode_id": [episode.id] * len(episode.observations)},
        )
