"""Searches among GCC's options, in the form of the paper's Table V (arXiv 2109.08267).

    python3 benches/gcc/main.py [FOLDER] [--steplake PROGRAM] [--env NAME] [--compilations N]
        [--benchmark URI]... [--jobs N]

Each search compiles each program so many times (1,000), from the seed 0. Prints by how much the
smallest object file that it found is smaller than those of -Os and -Oz: size at the level over size
found, for each program and as the geometric mean. The lakes stay in FOLDER, and are not recorded
again; a run that was interrupted goes on.
"""

import argparse
import csv
import hashlib
import io
import math
import subprocess
import tempfile
import time
from pathlib import Path
from urllib.parse import unquote

# The search, its name in the paper, and the paper's mean over -Os (CHStone, 1,000 compilations).
SEARCHES = {
    "genetic": ("genetic algorithm", 1.27),
    "random-choices": ("random search", 1.21),
    "hill-climbing": ("hill climbing", 1.04),
}
PROGRAMS = ["benchmark://steplake-v0/*", "generator://csmith-v0/0..24"]
LEVELS = ["Os", "Oz"]

FOUND = """
    SELECT regexp_replace(CAST(benchmark_uri AS VARCHAR), '#[0-9a-f]{40}$', '') AS program,
           min(obj_size_Os) AS "Os", min(obj_size_Oz) AS "Oz", min(obj_size) AS found,
           count(*) AS tried, count(obj_size) AS compiled, count(DISTINCT asm_hash) AS outputs
    FROM steps JOIN benchmarks USING (benchmark_uri) JOIN observations USING (state_id)
    GROUP BY 1 ORDER BY 1
"""


def answered(run: list[str], arguments: list[str]) -> str:
    """Return what a command prints."""
    return subprocess.run([*run, *arguments], check=True, capture_output=True, text=True).stdout


def named(run: list[str], uri: str) -> int:
    """Return how many programs a URI or a pattern names."""
    if not uri.startswith("file://"):
        return len(answered(run, ["datasets", "benchmarks", uri]).split())
    # That command takes the environment to be LLVM, which has other endings.
    path = Path(unquote(uri.removeprefix("file://")))
    files = path.rglob("*") if path.is_dir() else Path("/").glob(str(path).lstrip("/"))
    return len({file.resolve() for file in files if file.suffix in {".c", ".i"}})


def search(run: list[str], lake: Path, policy: str, options: argparse.Namespace) -> float:
    """Record a search; return the seconds that it took, or 0 if it was there."""
    if lake.exists():
        return 0.0
    patterns = options.benchmark or PROGRAMS
    count = sum(named(run, uri) for uri in patterns)
    recording, began = lake.with_suffix(".partial"), time.monotonic()
    generate = [
        *("generate", f"--env={options.env}", f"--policy={policy}", "--objective=obj_size"),
        *("--observe=obj_size,asm_hash,choices", "--rewards=obj_size_Os,obj_size_Oz"),
        *(f"--episodes={count * options.compilations}", "--resume"),
        *(f"--benchmark={uri}" for uri in patterns),
        *([f"--jobs={options.jobs}"] if options.jobs else []),
    ]
    subprocess.run([*run, f"--lake={recording}", *generate], check=True)
    subprocess.run([*run, f"--lake={recording}", "seal"], check=True)
    recording.rename(lake)
    return time.monotonic() - began


def name_of(policy: str, options: argparse.Namespace) -> str:
    """Return the name of a lake: other searches, compilers and programs have lakes of their own."""
    what = "\n".join([options.env, *sorted(options.benchmark or PROGRAMS)])
    return f"{policy}-{options.compilations}-{hashlib.sha256(what.encode()).hexdigest()[:8]}"


def mean(ratios: list[float]) -> float:
    """Return the geometric mean."""
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--steplake", default="steplake")
    parser.add_argument("--env", default="gcc-v0")
    parser.add_argument("--compilations", type=int, default=1000)
    parser.add_argument("--benchmark", action="append")
    parser.add_argument("--jobs", type=int)
    options = parser.parse_args()
    folder = options.folder or Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    run = [options.steplake, "--quiet"]
    print(f"{'search':18} {'program':40} {'-Os':>7} {'-Oz':>7} {'found':>7} {'outputs':>8} {'failed':>7}")
    table = []
    for policy, (name, paper) in SEARCHES.items():
        lake = folder / name_of(policy, options)
        seconds = search(run, lake, policy, options)
        answer = answered(run, [f"--lake={lake}", "sql", FOUND, "--format=csv"])
        rows = list(csv.DictReader(io.StringIO(answer)))
        for row in rows:
            program = row["program"].split("://")[1]
            failed = int(row["tried"]) - int(row["compiled"])
            sizes = f"{row['Os']:>7} {row['Oz']:>7} {row['found']:>7}"
            print(f"{policy:18} {program:40} {sizes} {row['outputs']:>8} {failed:>7}", flush=True)
        over = [mean([int(row[level]) / int(row["found"]) for row in rows]) for level in LEVELS]
        table.append((name, len(rows), *over, paper, seconds))
    print(f"\n{'search':18} {'programs':>8} {'over -Os':>9} {'over -Oz':>9} {'paper':>6} {'time':>8}")
    for name, programs, smaller, than_oz, paper, seconds in table:
        took = f"{seconds:.0f} s" if seconds else "kept"
        print(f"{name:18} {programs:>8} {smaller:>8.3f}x {than_oz:>8.3f}x {paper:>5.2f}x {took:>8}")


if __name__ == "__main__":
    main()
