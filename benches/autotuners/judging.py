"""What a method found: read from the lake, played again, checked, and compared with LLVM's own."""

from __future__ import annotations

import math
import statistics
import sys
from pathlib import Path
from typing import Any

import steplake
from steplake.env import CompilerEnv

from methods import OBJECTIVES, Failed

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "autotuners"))
from objectives import RunTime, Times  # noqa: E402

#: How many results are checked, the lowest cost first, until one is right.
CHECKED_MAX = 8
#: How often the result and the program after -O3 are run in turns.
SAMPLES = 15

#: An episode's number, its lowest cost, and the actions that lead there.
Way = tuple[int, float, list[int]]
#: The same, and how many actions the episode has.
Played = tuple[Way, int]


def ways(lake: steplake.Lake, space: str) -> list[Way]:
    """Return for each episode its lowest cost with the first way there, in their order."""
    return [way for way, _ in played(lake, space)]


def played(lake: steplake.Lake, space: str) -> list[Played]:
    """Return each episode with the way to its lowest cost, and its number of actions."""
    steps = lake.sql(
        f'SELECT episode_id, step_index, action, "{space}" FROM steps '
        "LEFT JOIN observations USING (state_id) ORDER BY episode_id, step_index"
    )
    found: dict[int, tuple[float, int, list[int]]] = {}
    for episode, _, action, cost in steps.fetchall():
        lowest, length, actions = found.get(episode, (math.inf, 0, []))
        if action is not None:
            actions.append(action)
        if cost is not None and cost < lowest:
            lowest, length = float(cost), len(actions)
        found[episode] = lowest, length, actions
    return [
        ((episode, cost, actions[:length]), len(actions))
        for episode, (cost, length, actions) in found.items()
    ]


def checked(env: CompilerEnv, candidates: list[Way]) -> dict[str, Any]:
    """Play the best candidates again, lowest cost first, until one does what the program should.

    A candidate that begins like a wrong one is not tried.
    """
    wrong: list[list[int]] = []
    remarks: list[str] = []
    tried = 0
    for _, cost, actions in sorted(candidates, key=lambda way: way[1]):
        if tried == CHECKED_MAX or math.isinf(cost):
            break
        if any(actions[: len(bad)] == bad for bad in wrong):
            continue
        tried += 1
        env.reset()
        observed, _, _, _, info = env.multistep(actions)
        if "error" in info or (env.observation_space_name and float(observed) != cost):
            remarks.append(f"the cost is now {info.get('error', observed)}, and was {cost:g}")
            continue
        result = env.validate()
        if result.okay():
            about = {"cost": cost, "actions": actions, "is_run": result.semantics_checked}
            return {**about, "wrong": len(wrong), "remarks": remarks}
        wrong.append(actions)
        remarks.append(result.errors[0])
    return {"wrong": len(wrong), "remarks": remarks}


def judge_state(program: str, objective: str, lake: Path, told: dict[str, Any]) -> dict[str, Any]:
    """Judge a search for a cost of states by its lake.

    Raises
    ------
    Failed
        If a tuner was told other costs than the lake has.
    """
    about = OBJECTIVES[objective]
    with steplake.open(lake, progress=False) as opened:
        all_played = played(opened, about.space)
        if told:
            # A tuner's first episode looks at the program untouched.
            del all_played[0]
        episodes, lengths = [way for way, _ in all_played], [count for _, count in all_played]
        [(failures,)] = opened.sql("SELECT count(*) FROM steps WHERE state_id IS NULL").fetchall()
    with steplake.make(
        "llvm-v0", benchmark=program, observation_space=about.space, reward_space=None
    ) as env:
        first, _ = env.reset()
        baseline = int(env.observation[about.baseline])
        found = checked(env, episodes)
    costs = [cost if math.isfinite(cost) else None for _, cost, _ in episodes]
    if told and told["costs"] != costs:
        raise Failed(f"the tuner was told {told['costs']}, and the lake has {costs}")
    # Without a right result, the program stays as it is.
    cost = found.get("cost", float(first))
    return {
        **found,
        "first": int(first),
        "baseline": baseline,
        "cost": cost,
        "ratio": baseline / max(cost, 1),
        "costs": costs,
        "lengths": lengths,
        "failures": failures,
    }


def fastest(lake: Path) -> list[Way]:
    """Return the ways to the states that were measured, with their times."""
    with steplake.open(lake, progress=False) as opened:
        times = opened.sql(
            "SELECT state_id, min(sample_median(samples)) FROM measurements GROUP BY 1"
        )
        known = dict(times.fetchall())
        steps = opened.sql(
            "SELECT episode_id, action, state_id FROM steps ORDER BY episode_id, step_index"
        )
        actions: dict[int, list[int]] = {}
        found: dict[bytes, Way] = {}
        for episode, action, state in steps.fetchall():
            way = actions.setdefault(episode, [])
            if action is not None:
                way.append(action)
            if state in known:
                found.setdefault(state, (episode, known[state], list(way)))
    return list(found.values())


def judge_run_time(program: str, lake: Path, told: dict[str, Any]) -> dict[str, Any]:
    """Judge a search for a run time: run its result and the program after -O3 in turns."""
    if told:
        best = told["best"]
        candidates = [(0, best["cost"], best["sequence"])] if best["cost"] is not None else []
    else:
        candidates = fastest(lake)
    with steplake.make(
        "llvm-v0", benchmark=program, observation_space=None, reward_space=None
    ) as env:
        timer = RunTime(env, 1)
        try:
            found = checked(env, candidates)
            env.reset()
            env.multistep(found.get("actions", []))
            times: Times = timer.times(SAMPLES)
        finally:
            timer.close()
    return {
        **found,
        "own_seconds": times.own,
        "baseline_seconds": times.reference,
        "cost": statistics.median(times.own),
        "baseline": statistics.median(times.reference),
        "ratio": 1 / times.ratio(),
        "costs": told.get("costs", [cost for _, cost, _ in candidates]),
        "failures": len(told.get("failures", [])),
    }
