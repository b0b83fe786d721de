"""The lake: which programs, which states of them, and what is tried from each of these states."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import steplake
from steplake.env import CompilerEnv
from steplake.vector import CompilerVectorEnv

COST = "IrInstructionCount"
REWARD = f"reward_{COST}"
COUNTED = [COST, "Autophase", "InstCount"]
ORIGINS = ["generator://csmith-v0", "generator://llvm-stress-v0", "benchmark://steplake-v0"]
WALK, SEARCH = "random", "tries-and-rollouts"

# Within so many steps the best cost is asked for: each rollout has this length.
HORIZON = 50
# How often a rollout takes any action at all, instead of one that often pays off.
CURIOSITY = 0.2

# How many programs are looked at before it is asked whether they suffice.
LOOK_AHEAD = 20

# The first states of each program that are small enough, in the order in which it reached them.
SMALL_STATES = f"""
    SELECT s.benchmark_uri AS program, s.episode_id AS episode, s.step_index AS step,
           encode(s.state_id, 'hex') AS state
    FROM steps AS s JOIN episodes AS e USING (episode_id) JOIN observations AS o
        ON o.state_id = s.state_id
    WHERE e.policy = '{WALK}' AND o."Programl" IS NOT NULL
        AND array_length(o."Programl"['node_type']) <= ?
    ORDER BY program, episode, step
"""


@dataclass(frozen=True)
class Recording:
    """How much to record.

    Attributes
    ----------
    csmith, stress, own : int, int, int
        The programs of csmith, of llvm-stress, and of steplake itself (25 at most).
    first_seed : int
        The first seed of both generators. Settings were chosen on programs below the default.
    count_max : int
        The most instructions that a program of csmith begins with; larger ones are left out.
    walks, walk_length : int, int
        The random episodes of each program, and their steps. They lead to the states.
    states, nodes_max : int, int
        The states of each program that are learned from, and the largest graph of one, in nodes.
    tries, rollouts : int, int
        The actions that are tried in each state, and the rollouts of `HORIZON` steps from it.
    seed : int
        The seed of all choices.
    """

    csmith: int = 240
    stress: int = 120
    own: int = 25
    first_seed: int = 1_000
    count_max: int = 3_000
    walks: int = 2
    walk_length: int = 20
    states: int = 5
    nodes_max: int = 3_000
    tries: int = 60
    rollouts: int = 5
    seed: int = 0


@dataclass(frozen=True)
class Chosen:
    """A state to learn from: its program, its id in hexadecimal digits, and how to get there."""

    program: str
    state: str
    prefix: list[int]


def programs(how: Recording, jobs: int) -> list[str]:
    """Return the URIs of the programs."""
    csmith, stress, here = ORIGINS
    vector = CompilerVectorEnv(jobs, observation_space=None, reward_space=None)
    own = list(vector.envs[0].datasets[here].benchmark_uris())
    small = small_programs(vector, csmith, how)
    vector.close()
    seeds = range(how.first_seed, how.first_seed + how.stress)
    return [*small, *(f"{stress}/{seed}" for seed in seeds), *own[: how.own]]


def small_programs(vector: CompilerVectorEnv, dataset: str, how: Recording) -> list[str]:
    """Return the first programs of a generator that begin with few instructions."""

    def is_small(place: int, uris: list[str]) -> list[bool]:
        env, found = vector.envs[place], []
        for uri in uris:
            env.reset(options={"benchmark": uri})
            found.append(env.observation[COST] <= how.count_max)
        return found

    jobs, small, seed = len(vector.envs), [], how.first_seed
    with ThreadPoolExecutor(jobs) as threads:
        while len(small) < how.csmith:
            uris = [f"{dataset}/{seed + ahead}" for ahead in range(LOOK_AHEAD)]
            seed += LOOK_AHEAD
            parts = list(threads.map(is_small, range(jobs), [uris[n::jobs] for n in range(jobs)]))
            small += [uri for n, uri in enumerate(uris) if parts[n % jobs][n // jobs]]
    return small[: how.csmith]


def record_walks(path: Path, how: Recording, jobs: int) -> None:
    """Record random episodes of all programs, with the graph of each state."""
    names = programs(how, jobs)
    steplake.generate(
        path,
        names,
        episodes=how.walks * len(names),
        episode_length=how.walk_length,
        policy=WALK,
        seed=how.seed,
        jobs=jobs,
        keyframes=None,
        observe=[*COUNTED, "Programl"],
        rewards=[COST],
        progress=False,
    )


def choose_states(lake: steplake.Lake, how: Recording) -> list[Chosen]:
    """Return the states to learn from: some of each program, evenly along its walks."""
    rows = lake.sql(SMALL_STATES, [how.nodes_max]).fetchall()
    actions = _actions_of_walks(lake)
    places: dict[str, dict[str, tuple[int, int]]] = {}
    seen: set[str] = set()
    for program, episode, step, state in rows:
        if state not in seen:
            seen.add(state)
            places.setdefault(program, {})[state] = (episode, step)
    chosen = []
    for program, found in places.items():
        states = list(found)
        for place in np.unique(np.linspace(0, len(states) - 1, how.states).astype(int)):
            episode, step = found[states[place]]
            chosen.append(Chosen(program, states[place], actions[episode][:step]))
    return chosen


def _actions_of_walks(lake: steplake.Lake) -> dict[int, list[int]]:
    rows = lake.sql(f"""
        SELECT s.episode_id, s.action FROM steps AS s JOIN episodes AS e USING (episode_id)
        WHERE e.policy = '{WALK}' AND s.action IS NOT NULL ORDER BY s.episode_id, s.step_index
    """).fetchall()
    actions: dict[int, list[int]] = {}
    for episode, action in rows:
        actions.setdefault(episode, []).append(action)
    return actions


def how_often_it_pays(lake: steplake.Lake, actions: int) -> np.ndarray:
    """Return the chances of a rollout's actions, from how often each paid off in the walks."""
    tried, paid = np.full(actions, 4.0), np.full(actions, 1.0)
    rows = lake.sql(f"""
        SELECT s.action, count(*), count(*) FILTER (WHERE s."{REWARD}" > 0)
        FROM steps AS s JOIN episodes AS e USING (episode_id)
        WHERE e.policy = '{WALK}' AND s.action IS NOT NULL GROUP BY s.action
    """).fetchall()
    for action, count, good in rows:
        tried[action] += count
        paid[action] += good
    chances = paid / tried
    return (1 - CURIOSITY) * chances / chances.sum() + CURIOSITY / actions


def record_search(path: Path, how: Recording, jobs: int) -> None:
    """Record tries and rollouts from each chosen state: the same effort for each.

    No graphs are recorded here: only those of the chosen states are needed, and they are there.
    """
    vector = CompilerVectorEnv(jobs, observation_space=None, reward_space=COST)
    with steplake.open(path, progress=False) as lake:
        chosen = choose_states(lake, how)
        chances = how_often_it_pays(lake, int(vector.envs[0].action_space.n))

    def work(place: int) -> None:
        for one in chosen[place::jobs]:
            search(vector.envs[place], one, chances, how)

    with (
        steplake.record(
            path,
            vector,
            policy=SEARCH,
            seed=how.seed,
            keyframes=None,
            observe=COUNTED,
            rewards=[COST],
        ),
        ThreadPoolExecutor(jobs) as threads,
    ):
        list(threads.map(work, range(jobs)))
    vector.close()


def search(env: CompilerEnv, chosen: Chosen, chances: np.ndarray, how: Recording) -> None:
    """Try actions in a state, and play rollouts from it. Its dice depend on the state alone."""
    env.reset(options={"benchmark": chosen.program})
    if chosen.prefix:
        env.multistep(chosen.prefix)
    if env.state.state_id != chosen.state:
        return  # The compiler failed, or got elsewhere: the lake has no more of this state.
    dice = random.Random(f"{how.seed} {chosen.state}")
    for action in dice.sample(range(len(chances)), min(how.tries, len(chances))):
        play(env, [action])
    for _ in range(how.rollouts):
        play(env, dice.choices(range(len(chances)), chances.tolist(), k=HORIZON))


def play(env: CompilerEnv, actions: list[int]) -> None:
    """Take actions in a fork, until all are taken or the compiler fails."""
    fork = env.fork()
    for action in actions:
        _, _, failed, _, _ = fork.step(action)
        if failed:
            break
    fork.close()
