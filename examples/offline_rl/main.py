"""Offline Q-learning from a lake, judged live on programs that the lake has never seen.

    python examples/offline_rl/main.py OUTPUT [--quick] [--baselines]

records a lake, learns from it, plays the held-out programs, and writes into the folder OUTPUT: the
lake, `results.json`, `table.md` and the plots. README.md beside this file says what they hold.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import steplake

import collect
import report
from contenders import Trace
from judge import Judge, fixed_list, greedy_search, random_search
from plan import QUICK, Plan

# An order of passes by hand, after that of -O2, for a look at what needs no learning at all.
BY_HAND = """
    inferattrs sroa early-cse simplifycfg instcombine ipsccp globalopt deadargelim instcombine
    simplifycfg inline function-attrs sroa early-cse<memssa> jump-threading correlated-propagation
    simplifycfg instcombine reassociate loop-simplify loop-rotate licm simplifycfg instcombine
    indvars loop-deletion loop-unroll-full gvn sccp bdce instcombine jump-threading
    correlated-propagation dse adce simplifycfg instcombine globalopt globaldce constmerge mergefunc
"""


class Stopwatch:
    """How long each part took, in seconds."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def part(self, name: str) -> Iterator[None]:
        """Measure a part, and say what is going on."""
        print(f"{name} …", flush=True)
        begin = time.monotonic()
        yield
        self.seconds[name] = round(time.monotonic() - begin, 1)


def record(folder: Path, plan: Plan, jobs: int) -> steplake.Lake:
    """Record the lake and count its transitions, or open the one that an earlier run left."""
    done, unfinished = folder / "lake", folder / "lake.unfinished"
    if not done.exists():
        if unfinished.exists():
            raise SystemExit(f"{unfinished} is left of a run that broke off: remove it first")
        programs = collect.training_programs(plan.programs)
        collect.record_search(unfinished, programs, plan.tries, seed=0, jobs=jobs)
        with steplake.open(unfinished, progress=False) as lake:
            lake.dedup()
        unfinished.rename(done)
    return steplake.open(done, progress=False)


def play_learned(
    judge: Judge, programs: list[str], lake: steplake.Lake, plan: Plan, watch: Stopwatch
) -> dict[str, list[list[Trace]]]:
    """Learn from the lake, and return the traces of what learned, by seed and program."""
    # Only this needs PyTorch.
    import torch

    from learn import learn_clone, learn_q
    from policy import policy
    from transitions import load_transitions

    # One thread, so that equal seeds give equal networks.
    torch.set_num_threads(1)
    with watch.part("loading"):
        tr = load_transitions(lake)
    traces: dict[str, list[list[Trace]]] = {}
    for name, learn in {"Q-learning": learn_q, "behaviour cloning": learn_clone}.items():
        traces[name] = []
        for seed in range(plan.seeds):
            with watch.part(f"{name}, seed {seed}: learning"):
                net = learn(tr, judge.actions, plan.learning, seed)
            with watch.part(f"{name}, seed {seed}: playing"):
                traces[name].append(judge.each(programs, policy(net, plan.budget)))
    return traces


def play(
    judge: Judge, programs: list[str], plan: Plan, watch: Stopwatch
) -> dict[str, list[list[Trace]]]:
    """Return the traces of what learned nothing, by seed and program."""
    traces: dict[str, list[list[Trace]]] = {}
    with watch.part("random search"):
        traces["random search"] = [
            judge.each(programs, random_search(plan.budget, seed)) for seed in range(plan.seeds)
        ]
    with watch.part("a list by hand"):
        traces["a list by hand"] = [judge.each(programs, fixed_list(BY_HAND))]
    with watch.part("greedy search"):
        traces["greedy search"] = [judge.each(programs, greedy_search(plan.greedy_budget))]
    return traces


def sizes_of(lake: steplake.Lake) -> dict[str, int]:
    """Return how much the lake has."""
    tables = {"states": "observations", "transitions": "state_transitions"}
    return {
        name: lake.sql(f"SELECT count(*) FROM {table}").fetchall()[0][0]
        for name, table in tables.items()
    }


def main() -> None:
    """Run all of it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("output", type=Path, help="the folder of the lake and the results")
    parser.add_argument("--quick", action="store_true", help="a reduced form, of a minute or so")
    parser.add_argument(
        "--baselines", action="store_true", help="all that learns nothing: this needs no PyTorch"
    )
    parser.add_argument("--jobs", type=int, default=2, help="the compilers that work at once")
    arguments = parser.parse_args()
    plan, folder = QUICK if arguments.quick else Plan(), arguments.output
    folder.mkdir(parents=True, exist_ok=True)
    watch = Stopwatch()
    with watch.part("recording"):
        lake = record(folder, plan, arguments.jobs)
    # That of the lake: an earlier version may have recorded it.
    [(action_space,)] = lake.sql("SELECT action_space FROM lake").fetchall()
    judge = Judge(arguments.jobs, action_space)
    with watch.part("looking at the held-out programs"):
        held_out = judge.hold_out(collect.held_out_programs(plan.held_out), lake)
    traces: dict[str, list[list[Trace]]] = {}
    if not arguments.baselines:
        traces |= play_learned(judge, held_out.programs, lake, plan, watch)
    traces |= play(judge, held_out.programs, plan, watch)
    judge.close()

    summary = report.summarise(traces, held_out.oz, plan.budget)
    results = {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "versions": report.versions(judge.compiler),
        "plan": dataclasses.asdict(plan),
        "lake": sizes_of(lake),
        "held_out": dataclasses.asdict(held_out),
        "summary": summary,
        "q_learning_over": {}
        if arguments.baselines
        else report.compare(traces, held_out.oz, "Q-learning"),
        "seconds": watch.seconds,
        "traces": traces,
    }
    report.write_json(folder / "results.json", results)
    (folder / "table.md").write_text(report.table(summary) + "\n")
    report.plot_curves(folder / "compilations.svg", traces, held_out.oz, plan.budget)
    report.plot_programs(folder / "programs.svg", traces, held_out.oz, plan.budget)
    print(report.table(summary))


if __name__ == "__main__":
    main()
