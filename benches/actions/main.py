"""What one action space brings over another, with the same number of steps.

    python3 benches/actions/main.py [FOLDER] [--steplake PROGRAM]

Explores the project's 25 programs and csmith's seeds 0 to 24 in both spaces: 20 episodes of 40
steps for each, with the seeds 1 to 3. Prints the instructions of the smallest program found, as those in
the second space over those in the first: the geometric mean over programs, with its interval of 95%
by bootstrap. The lakes stay in FOLDER, and are not recorded again.
"""

import argparse
import csv
import io
import math
import random
import subprocess
import tempfile
from pathlib import Path

SPACES = ["llvm22-v0", "llvm22-param-v0"]
SEEDS = [1, 2, 3]
PROGRAMS = {
    "the project's": ("benchmark://steplake-v0/*", 25),
    "csmith's": ("generator://csmith-v0/0..24", 25),
}
EPISODES_EACH = 20
EPISODE_LENGTH = 40
RESAMPLES = 10_000
INTERVAL_PROGRAMS_MIN = 5

BEST = """
    SELECT benchmark_uri, best_cost, (SELECT count(*) FROM observations) AS states
    FROM best_sequences('IrInstructionCount')
"""


def explore(run: list[str], lake: Path, space: str, seed: int) -> tuple[dict[str, int], int]:
    """Return the smallest cost of every program in a lake, and the number of its states."""
    if not lake.exists():
        programs = [f"--benchmark={uri}" for uri, _ in PROGRAMS.values()]
        episodes = EPISODES_EACH * sum(count for _, count in PROGRAMS.values())
        generate = [
            *("generate", "--policy=explore", "--ir=keyframes=64", f"--action-space={space}"),
            *("--observe=IrInstructionCount", "--rewards=IrInstructionCount"),
            *(f"--seed={seed}", f"--episodes={episodes}", f"--episode-length={EPISODE_LENGTH}"),
        ]
        recording = lake.with_suffix(".partial")
        for command in ([*generate, *programs], ["seal"], ["dedup"]):
            subprocess.run([*run, f"--lake={recording}", *command], check=True)
        recording.rename(lake)
    query = [*run, f"--lake={lake}", "sql", BEST, "--format=csv"]
    answer = subprocess.run(query, check=True, capture_output=True, text=True).stdout
    rows = list(csv.DictReader(io.StringIO(answer)))
    return {row["benchmark_uri"]: int(row["best_cost"]) for row in rows}, int(rows[0]["states"])


def described(logarithms: list[float]) -> str:
    """Return the geometric mean, and its interval over samples with replacement.

    Too few programs have no interval: they say next to nothing of others.
    """
    mean = sum(logarithms) / len(logarithms)
    if len(logarithms) < INTERVAL_PROGRAMS_MIN:
        return f"{math.exp(mean):.3f}"
    draw = random.Random(1)
    means = sorted(
        sum(draw.choices(logarithms, k=len(logarithms))) / len(logarithms)
        for _ in range(RESAMPLES)
    )
    low, high = means[RESAMPLES // 40], means[-RESAMPLES // 40]
    return f"{math.exp(mean):.3f} ({math.exp(low):.3f} to {math.exp(high):.3f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--steplake", default="steplake")
    arguments = parser.parse_args()
    folder = arguments.folder or Path(tempfile.mkdtemp())
    run = [arguments.steplake, "--quiet"]
    ratios: dict[str, list[float]] = {}
    for seed in SEEDS:
        (first, states), (second, more) = (
            explore(run, folder / f"{space}-{seed}", space, seed) for space in SPACES
        )
        print(f"seed {seed}: {states} states in {SPACES[0]}, {more} in {SPACES[1]}", flush=True)
        for uri, cost in first.items():
            ratios.setdefault(uri, []).append(math.log(second[uri] / cost))
    means = {uri: sum(of_seeds) / len(of_seeds) for uri, of_seeds in ratios.items()}
    print("all programs:", described(list(means.values())))
    for name, (pattern, _) in PROGRAMS.items():
        scheme = pattern.split("*")[0].rsplit("/", 1)[0]
        chosen = [mean for uri, mean in means.items() if uri.startswith(scheme)]
        print(f"{name} {len(chosen)} programs:", described(chosen))


if __name__ == "__main__":
    main()
