"""What a CPU second buys with `--policy frontier`, beside `random` and `explore`.

    python3 benches/frontier/main.py FOLDER [--steplake PROGRAM] [--episodes 25,50,100,200]

Records the programs of steplake-v0 and ten of csmith's with each policy, one program after another
and one worker, in runs of more and more episodes, and prints unique states per CPU second and the
geometric mean of the lowest cost beside -Oz, with the CPU seconds that it took. CPU seconds are
those of all processes together. The last table has the costs of all policies at equal CPU seconds,
between two runs by straight lines over the logarithm of time. The last line says whether one seed
gives equal tables with one worker and with two. Results stay in FOLDER, and are not made again.
"""

import argparse
import csv
import io
import json
import math
import resource
import subprocess
from pathlib import Path

POLICIES = ["random", "explore", "frontier"]
OWN = Path(__file__).parents[2] / "data" / "programs"
PROGRAMS = [f"benchmark://steplake-v0/{path.stem}" for path in sorted(OWN.glob("*.c"))]
PROGRAMS += [f"generator://csmith-v0/{seed}" for seed in range(100, 110)]
COST = "IrInstructionCount"
LENGTH = 50


def ask(run, lake, sql):
    command = [*run, f"--lake={lake}", "sql", "--format=csv", sql]
    answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return list(csv.DictReader(io.StringIO(answer)))


def generate(run, lake, programs, policy, episodes, jobs):
    """Records a run; returns its CPU seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    search = [f"--objective={COST}"] if policy == "frontier" else []
    subprocess.run(
        [
            *(*run, f"--lake={lake}", "generate", f"--policy={policy}", "--ir=none", f"--jobs={jobs}"),
            *(f"--episodes={episodes * len(programs)}", f"--episode-length={LENGTH}", "--seed=1", *search),
            *(f"--benchmark={program}" for program in programs),
        ],
        check=True,
        capture_output=True,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measured(run, folder, policy, episodes):
    kept = folder / f"{policy}-{episodes}.json"
    if kept.exists():
        return json.loads(kept.read_text())
    lake = folder / f"{policy}-{episodes}.lake"
    seconds = generate(run, lake, PROGRAMS, policy, episodes, 1)
    [states] = ask(run, lake, "SELECT count(*) AS count FROM observations")
    lowest = ask(
        run,
        lake,
        f"""SELECT s.benchmark_uri, min(o."{COST}") * 1.0 / min(b."{COST}Oz") AS cost
            FROM steps AS s JOIN observations AS o USING (state_id)
            JOIN benchmarks AS b ON b.benchmark_uri = s.benchmark_uri
            WHERE b."{COST}Oz" > 0 GROUP BY 1""",
    )
    costs = [math.log(float(row["cost"])) for row in lowest]
    result = {"seconds": seconds, "states": int(states["count"]), "cost": math.exp(sum(costs) / len(costs))}
    subprocess.run(["rm", "-rf", lake], check=True)
    kept.write_text(json.dumps(result))
    return result


def cost_at(results, seconds):
    """The cost between the runs before and after so many seconds."""
    for one, other in zip(results, results[1:]):
        if one["seconds"] <= seconds <= other["seconds"]:
            share = math.log(seconds / one["seconds"]) / math.log(other["seconds"] / one["seconds"])
            return one["cost"] + share * (other["cost"] - one["cost"])
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steplake", default="steplake")
    parser.add_argument("--episodes", default="25,50,100,200")
    arguments = parser.parse_args()
    run, folder = [arguments.steplake, "--quiet"], arguments.folder
    folder.mkdir(parents=True, exist_ok=True)
    counts = [int(count) for count in arguments.episodes.split(",")]
    print(f"{len(PROGRAMS)} programs\n\n| policy | episodes | CPU s | states | states per CPU s | cost / -Oz |")
    print("|---|---|---|---|---|---|")
    results = {}
    for policy in POLICIES:
        results[policy] = [measured(run, folder, policy, count) for count in counts]
        for count, row in zip(counts, results[policy]):
            rate = row["states"] / row["seconds"]
            cells = [policy, count, f"{row['seconds']:.0f}", row["states"], f"{rate:.0f}", f"{row['cost']:.4f}"]
            print("|", " | ".join(map(str, cells)), "|", flush=True)
    print("\n| CPU s |", " | ".join(POLICIES), "|\n|---|" + "---|" * len(POLICIES))
    for row in results["frontier"]:
        costs = [cost_at(results[policy], row["seconds"]) for policy in POLICIES]
        if all(costs):
            print(f"| {row['seconds']:.0f} |", " | ".join(f"{cost:.4f}" for cost in costs), "|")
    tables = []
    for jobs in (1, 2):
        lake = folder / f"jobs-{jobs}.lake"
        generate(run, lake, PROGRAMS[:6], "frontier", 10, jobs)
        tables.append(ask(run, lake, "SELECT * EXCLUDE (wall_time_us) FROM steps ORDER BY episode_id, step_index"))
        subprocess.run(["rm", "-rf", lake], check=True)
    print(f"\n{len(tables[0])} steps with one worker and with two:", "equal" if tables[0] == tables[1] else "NOT EQUAL")


if __name__ == "__main__":
    main()
