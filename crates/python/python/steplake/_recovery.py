"""The environment that a lake was recorded from."""

from __future__ import annotations

import hashlib
from typing import Any

from steplake import _optional
from steplake._steplake import Benchmark, Lake
from steplake.defaults import chosen_spaces, demand_known
from steplake.env import CompilerEnv
from steplake.episodes import EpisodeData
from steplake.errors import BadBenchmark, CompilerUnavailable, NotInLake, Offline, UsageError

_BEGINNING = """
SELECT e.benchmark_uri, e.parent_episode_id, e.parent_step_index, b.family, b.licence, s.state_id
FROM episodes AS e
JOIN steps AS s ON s.episode_id = e.episode_id AND s.step_index = 0
LEFT JOIN benchmarks AS b ON b.benchmark_uri = e.benchmark_uri
WHERE e.episode_id = ? AND s.episode_id = ?
"""


def recovered_environment(
    lake: Lake,
    episode: EpisodeData | int | None,
    *,
    observation_space: str | None,
    reward_space: str | None,
    **options: Any,
) -> CompilerEnv:
    """Make the environment of a lake; see `Lake.recover_environment`."""
    info = lake.info()
    demand_known(info["environment"])
    spaces = chosen_spaces(lake, observation_space, reward_space)
    env = CompilerEnv(
        info["environment"],
        action_space=info["action_space"],
        observation_space=spaces.observation,
        reward_space=spaces.reward,
        **options,
    )
    try:
        if env.compiler != info["compiler"]:
            raise CompilerUnavailable(
                f"the lake was recorded with {info['compiler']}, and this package has "
                f"{env.compiler}: install the release of steplake that recorded it"
            )
        if episode is not None:
            _begin(lake, env, episode.id if isinstance(episode, EpisodeData) else int(episode))
    except BaseException:
        env.close()
        raise
    return env


def _begin(lake: Lake, env: CompilerEnv, id: int) -> None:
    """Give the environment a program that begins with the first state of an episode."""
    found = lake.sql(_BEGINNING, [id, id]).fetchone()
    if found is None:
        raise NotInLake(
            f"there is no episode {id} here: the column `episode_id` of the table `episodes` has "
            "the ids"
        )
    uri, parent, parent_step, family, licence, state = found
    if parent_step:
        raise UsageError(
            f"episode {id} was forked from episode {parent} after {parent_step} actions: recover "
            "that one's environment, apply these actions, and call `env.fork()`"
        )
    problem = _differs(env, uri, state)
    if problem is None:
        return
    stored = lake.sql("SELECT bitcode, bytes FROM ir WHERE state_id = ?", [state]).fetchone()
    if stored is not None:
        pyarrow = _optional.package("pyarrow", "`recover_environment`")
        program = pyarrow.decompress(stored[0], stored[1], codec="zstd", asbytes=True)
        # Not under its own URI: a program has one digest, and these bytes have another.
        digest = hashlib.sha1(program, usedforsecurity=False).hexdigest()
        name = f"benchmark://user-v0/{digest}"
        own = Benchmark(name, program, family=family or "", licence=licence or "")
        problem = _differs(env, own, state)
        if problem is None:
            return
    raise BadBenchmark(
        f"the program of episode {id}, {uri}, cannot be had: {problem}"
        + ("" if stored else "; and the lake does not store its first state")
        + ". If you have the program, set `env.benchmark` to it in `lake.recover_environment()`"
    )


def _differs(env: CompilerEnv, benchmark: str | Benchmark, state: bytes) -> str | None:
    """Begin a benchmark; say why the environment is not in the state then."""
    try:
        env.benchmark = benchmark
        _observation, info = env.reset()
    except (BadBenchmark, Offline) as error:
        return str(error)
    if info["state_id"] != state.hex():
        return f"it begins in another state than the recorded {state.hex()}"
    return None
