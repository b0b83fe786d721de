"""Compares autotuners on programs that run: the paper's Table IV (arXiv 2109.08267) in its form.

    python3 benches/autotuners/main.py FOLDER [--objectives ir,size,runtime] [--methods greedy,…]
        [--programs 'benchmark://steplake-v0/*' | URI,…] [--evaluations 45 | --seconds 3600]
        [--length 325] [--seed 0] [--jobs 2] [--steplake PROGRAM] [--python PROGRAM]

Every method has the same budget for each program: as many actions as so many sequences of the full
length have, or so much time. A method with shorter sequences tries more of them. For run times,
where a sequence has one cost, the budget is so many sequences. Code size and object size are
compared with -Oz, run time with -O3:
2.0 says that the compiler's own result is twice as large, or runs twice as long. What a method
found is played again, run, and must do what the program does untouched; if it does not, the next
best takes its place. Prints the table with 95% intervals by bootstrap over programs, and how the
best method of each column compares with the others program by program; writes table.md, runs.csv,
table.svg and evaluations.svg into FOLDER.

What came of each run stays in FOLDER, and is not made again unless it failed; `--keep-lakes` keeps
the lakes too. A method that `steplake` or the Python packages lack is named, and left out.
"""

import argparse
import json
import shutil
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import steplake

import report
from judging import judge_run_time, judge_state
from methods import METHODS, OBJECTIVES, Failed, LeftOut, Plan, run

PROGRAMS = "benchmark://steplake-v0/*"


def programs_of(text: str) -> list[str]:
    """Return the URIs of a list with commas, or of a whole dataset."""
    with steplake.make("llvm-v0") as env:
        if text.endswith("/*"):
            found = env.datasets.get(text.removesuffix("/*"))
            uris = [] if found is None else list(found.benchmark_uris())
            if not uris:
                sys.exit(f"main.py: no dataset is {text}: `steplake datasets list` has them")
            return uris
        try:
            return [env.make_benchmark(one).uri for one in text.split(",")]
        except steplake.BadBenchmark as error:
            sys.exit(f"main.py: {error}")


def chosen(text: str, known: Any, what: str) -> list[str]:
    """Return the names of a list with commas."""
    names = text.split(",")
    for name in names:
        if name not in known:
            sys.exit(f"main.py: there is no {what} {name}: write {', '.join(known)}")
    return names


class Bench:
    """The runs, as far as they are done."""

    def __init__(self, folder: Path, plan: Plan, keep_lakes: bool) -> None:
        self._folder, self._plan, self._keep_lakes = folder, plan, keep_lakes
        self._left_out: dict[tuple[str, str], str] = {}
        self._lock = threading.Lock()

    def column(
        self, objective: str, method: str, programs: list[str], jobs: int
    ) -> list[dict[str, Any]]:
        """Return what came of a method; nothing if it is left out."""
        with ThreadPoolExecutor(jobs) as pool:
            made = pool.map(lambda program: self.result(objective, method, program), programs)
            rows = [row for row in made if row is not None]
        if rows:
            done = sum("ratio" in row for row in rows)
            about = f"{OBJECTIVES[objective].title}, {method}"
            print(f"{about}: {done} of {len(programs)} programs", file=sys.stderr, flush=True)
        return rows

    def result(self, objective: str, method: str, program: str) -> dict[str, Any] | None:
        """Return what came of a run, which is made if it is not there; None if it is left out."""
        kept = self._folder / f"{self._plan.named(objective, method, program)}.json"
        if kept.exists():
            return dict(json.loads(kept.read_text()))
        if (objective, method) in self._left_out:
            return None
        lake = kept.with_suffix(".lake")
        shutil.rmtree(lake, ignore_errors=True)
        begun = time.monotonic()
        try:
            found = self._made(objective, method, program, lake, begun)
        except LeftOut as why:
            with self._lock:
                if (objective, method) not in self._left_out:
                    self._left_out[objective, method] = str(why)
                    title = OBJECTIVES[objective].title
                    print(f"{title}, {method}: left out: {why}", file=sys.stderr, flush=True)
            return None
        except (Failed, steplake.SteplakeError) as error:
            # Not kept, so that the next call tries again.
            return {"program": program, "error": str(error)}
        finally:
            if not self._keep_lakes:
                shutil.rmtree(lake, ignore_errors=True)
        found = {"program": program, **found}
        # All of it or nothing, also if this is killed.
        unfinished = kept.with_suffix(".unfinished")
        unfinished.write_text(json.dumps(found) + "\n")
        unfinished.rename(kept)
        return found

    def _made(
        self, objective: str, method: str, program: str, lake: Path, begun: float
    ) -> dict[str, Any]:
        """Run and judge a method."""
        told = run(METHODS[method], objective, program, self._plan, lake)
        searched = time.monotonic() - begun
        if objective == "runtime":
            found = judge_run_time(program, lake, told)
        else:
            found = judge_state(program, objective, lake, told)
        found["evaluations"] = len(found["costs"])
        found["played"] = sum(found.get("lengths", []))
        return {**found, "search_seconds": round(searched, 2)}


class HelpFormatter(argparse.RawDescriptionHelpFormatter, argparse.ArgumentDefaultsHelpFormatter):
    """Keeps the lines of the description, and shows defaults."""


def arguments_of() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=HelpFormatter)
    add = parser.add_argument
    add("folder", type=Path, help="where what came of each run stays")
    add("--objectives", default=",".join(OBJECTIVES), help="a list with commas")
    add("--methods", default=",".join(METHODS), help="a list with commas")
    add("--programs", default=PROGRAMS, help="URIs with commas, or all of a dataset")
    add("--evaluations", type=int, help="full sequences for each program; 45 without --seconds")
    add("--seconds", type=float, help="time for each program")
    add("--length", type=int, default=325, help="the most actions of a sequence")
    add("--seed", type=int, default=0, help="of all choices")
    add("--repeats", type=int, default=3, help="runs of each state that is timed")
    add("--jobs", type=int, default=2, help="programs at once; run times are taken one at a time")
    add("--steplake", default="steplake", help="the program")
    add("--python", default=sys.executable, help="runs the tuners")
    add("--keep-lakes", action="store_true", help="keep what was recorded")
    return parser.parse_args()


def main() -> None:
    """Make the runs that are missing, and print what came out."""
    arguments = arguments_of()
    objectives = chosen(arguments.objectives, OBJECTIVES, "objective")
    methods = chosen(arguments.methods, METHODS, "method")
    evaluations = arguments.evaluations
    if evaluations is None and arguments.seconds is None:
        evaluations = 45
    plan = Plan(
        evaluations,
        arguments.seconds,
        arguments.length,
        arguments.seed,
        arguments.repeats,
        arguments.steplake,
        arguments.python,
    )
    programs = programs_of(arguments.programs)
    arguments.folder.mkdir(parents=True, exist_ok=True)
    bench = Bench(arguments.folder, plan, arguments.keep_lakes)
    results: report.Results = {}
    for objective in objectives:
        jobs = 1 if objective == "runtime" else arguments.jobs
        columns = {method: bench.column(objective, method, programs, jobs) for method in methods}
        results[objective] = {method: rows for method, rows in columns.items() if rows}
    text = f"{report.table(results)}\n\n{report.pairs(results)}"
    print(text, *report.remarks(results), sep="\n")
    (arguments.folder / "table.md").write_text(text + "\n")
    report.write_csv(arguments.folder / "runs.csv", results)
    try:
        import pictures
    except ModuleNotFoundError as error:
        print(f"nothing is drawn, for want of {error.name}: pip install it, and call this again")
        return
    pictures.draw_table(arguments.folder / "table.svg", results)
    pictures.draw_evaluations(arguments.folder / "evaluations.svg", results)


if __name__ == "__main__":
    main()
