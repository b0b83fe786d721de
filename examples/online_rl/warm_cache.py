"""Training from a lake that knows the steps, against training from the compiler alone.

    python examples/online_rl/warm_cache.py OUTPUT [--steps 14400] [--envs 16]

PPO learns with seed 0 from the compiler, and is recorded into a lake. Then it learns again with the
same seed, from the lake, and must become the same network; and with seed 1, which the lake knows in
part. What the lake does not know, the compiler answers.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import steplake
from gymnasium.vector import AutoresetMode

import ppo
from programs import programs
from setting import PassOrdering
from training import Setting


class Watched(Setting):
    """A setting that keeps the environments that it made."""

    def vector(self, mode: AutoresetMode) -> PassOrdering:
        """Return the environments to train in."""
        made = super().vector(mode)
        object.__setattr__(self, "made", made)
        return made


def train(setting: Watched) -> dict[str, Any]:
    """Train, and return the steps per second, what was learned, and who answered."""
    saved: list[float] = []
    begun, seconds_at_first, first = time.monotonic(), 0.0, 0
    policy = known = None
    for checkpoint in ppo.learn(setting):
        saved += checkpoint.finished
        checkpoint.finished.clear()
        policy = checkpoint.policy()
        steps, seconds = checkpoint.steps, time.monotonic() - begun
        if not first:
            # The processes have started, and what is computed once has been.
            first, seconds_at_first = steps, seconds
        if setting.lake is not None:
            known = setting.made.compilers.envs[0].coverage
            known = {
                "from_lake": known.from_lake,
                "live": known.live_steps,
                "played_again": known.replayed_steps,
            }
    assert policy is not None
    dice = np.random.default_rng(0)
    looks = dice.random((1000, *setting.made.single_observation_space.shape), np.float32)
    return {
        "steps": steps,
        "seconds": round(seconds, 2),
        "steps_per_second": round((steps - first) / (seconds - seconds_at_first), 1),
        "saved_by_episode": saved,
        "policy": hashlib.sha256(policy(looks).tobytes()).hexdigest(),
        **(known or {}),
    }


def main() -> None:
    """Run all of it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("output", type=Path, help="the folder of the lake and the results")
    parser.add_argument("--steps", type=int, default=14_400)
    parser.add_argument("--envs", type=int, default=16)
    parser.add_argument("--programs", type=int, default=40)
    arguments = parser.parse_args()
    folder: Path = arguments.output
    folder.mkdir(parents=True, exist_ok=True)
    lake = folder / "lake"
    shutil.rmtree(lake, ignore_errors=True)
    env = steplake.make("llvm-v0", observation_space=None, reward_space=None)
    chosen = programs(env, "csmith", "train", arguments.programs)
    env.close()

    live = Watched(chosen, "autophase+history", arguments.steps, 0, arguments.envs)
    other = dataclasses.replace(live, seed=1)
    results = {"live": train(live), "live, recorded": train(dataclasses.replace(live, record=lake))}
    with steplake.open(lake, progress=False) as opened:
        begun = time.monotonic()
        opened.dedup()
        results["dedup"] = {"seconds": round(time.monotonic() - begun, 2)}
    results["lake, the same seed"] = train(dataclasses.replace(live, lake=lake))
    results["live, another seed"] = train(other)
    results["lake, another seed"] = train(dataclasses.replace(other, lake=lake))
    for one, two in [
        ("live", "live, recorded"),
        ("live", "lake, the same seed"),
        ("live, another seed", "lake, another seed"),
    ]:
        for what in ("saved_by_episode", "policy"):
            if results[one][what] != results[two][what]:
                raise SystemExit(f"{one} and {two} differ in {what}")
    (folder / "warm_cache.json").write_text(json.dumps(results) + "\n")
    print("| training | steps/s | from the lake | by the compiler | to get to a state |")
    print("|---|---|---|---|---|")
    for name, row in results.items():
        if "steps" in row:
            answers = row.get("from_lake", 0), row.get("live", row["steps"])
            cells = [row["steps_per_second"], *answers, row.get("played_again", 0)]
            print(f"| {name} | " + " | ".join(f"{cell:,.0f}" for cell in cells) + " |")


if __name__ == "__main__":
    main()
