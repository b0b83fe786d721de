"""A cost model on program graphs: what will an action save, and how small can the program get?

    python examples/cost_model/main.py OUTPUT [--quick] [--baselines] [--seeds 0 1 2]

records a lake, holds out whole programs, trains a gated graph network and what it is compared with,
and writes into the folder OUTPUT: the lake, `results.json`, `table.md` and the plots. README.md
beside this file says what they hold.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import steplake

import baselines
import report
from collect import ORIGINS, record_search, record_walks
from examples import Example, Examples, Predictions, load_examples
from plan import QUICK, Plan
from split import Parts, describe, split

# The fewest held-out programs that figures are worth anything for.
HELD_OUT_MIN = 50


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
        record_walks(unfinished, plan.recording, jobs)
        record_search(unfinished, plan.recording, jobs)
        with steplake.open(unfinished, progress=False) as lake:
            lake.dedup()
        unfinished.rename(done)
    return steplake.open(done, progress=False)


def contend(examples: Examples, plan: Plan, watch: Stopwatch) -> dict[str, list[Predictions]]:
    """Return what each contender but the networks predicts. They have no dice: one seed each."""
    fit, test = examples.train, examples.test
    contenders = {
        report.MEAN: [baselines.constant(fit, test)],
        report.MEDIAN: [baselines.constant(fit, test, np.median)],
        report.NODES: [baselines.count_nodes(test)],
    }
    with watch.part("boosted trees"):
        contenders[report.TREES] = [baselines.trees(fit, test, plan.tree_rounds)]
    return contenders


def train_networks(
    examples: Examples, plan: Plan, seeds: list[int], jobs: int, watch: Stopwatch
) -> tuple[dict[str, list[Predictions]], dict[str, Any]]:
    """Return what the network with and without messages predicts, and how its training went."""
    import learn  # Only this needs PyTorch.

    ways = {report.WITHOUT: dataclasses.replace(plan.learning, steps=0), report.WITH: plan.learning}
    with watch.part("networks"):
        trained = learn.train_networks(examples, ways, seeds, jobs)
    said = {name: [run.said for run in runs] for name, runs in trained.items()}
    # The mean over the seeds, as one contender.
    said[report.TOGETHER] = [
        Predictions(*(np.mean(values, axis=0) for values in zip(*said[report.WITH], strict=True)))
    ]
    training = {
        what: {name: [getattr(run, what) for run in runs] for name, runs in trained.items()}
        for what in ("losses", "seconds", "cpu_seconds")
    }
    return said, training


def sizes_of(examples: list[Example]) -> dict[str, int]:
    """Return how much there is of a part."""
    return {
        "programs": len({one.program for one in examples}),
        "states": len(examples),
        "pairs": sum(len(one.action) for one in examples),
        "changed_pairs": int(sum(one.is_changed.sum() for one in examples)),
        "nodes": sum(len(one.graph.node_type) for one in examples),
        "edges": sum(one.graph.edge_index.shape[1] for one in examples),
    }


def load(lake: steplake.Lake, plan: Plan, tuning: bool, watch: Stopwatch) -> tuple[Examples, Parts]:
    """Split the lake and read both parts; print what the split leaks."""
    with watch.part("splitting"):
        parts = split(lake, plan.held_out, plan.split_seed, tuning)
    print(describe(parts))
    with watch.part("loading"):
        examples = load_examples(lake, plan.recording, parts)
    for name, some in [("training", examples.train), ("held out", examples.test)]:
        print(f"{name}: {sizes_of(some)}")
    return examples, parts


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("output", type=Path, help="the folder of the lake and the results")
    parser.add_argument("--quick", action="store_true", help="a reduced form, of a minute or so")
    parser.add_argument(
        "--baselines", action="store_true", help="all but the networks: this needs no PyTorch"
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], help="of the learning")
    parser.add_argument("--jobs", type=int, default=2, help="the processes that work at once")
    parser.add_argument(
        "--tune", action="store_true", help="judge on training programs, to choose settings"
    )
    return parser.parse_args()


def main() -> None:
    """Run all of it."""
    arguments = parse()
    plan, folder = QUICK if arguments.quick else Plan(), arguments.output
    folder.mkdir(parents=True, exist_ok=True)
    watch = Stopwatch()
    with watch.part("recording"):
        lake = record(folder, plan, arguments.jobs)
    examples, parts = load(lake, plan, arguments.tune, watch)
    held_out = sizes_of(examples.test)["programs"]
    if held_out < HELD_OUT_MIN:
        print(f"only {held_out} programs are held out: the figures mean nothing")
    contenders, training = contend(examples, plan, watch), {}
    if not arguments.baselines:
        said, training = train_networks(examples, plan, arguments.seeds, arguments.jobs, watch)
        contenders.update(said)
    summary = report.summarise(contenders, examples.test)
    results = {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "versions": report.versions(lake.info()["compiler"]),
        "plan": dataclasses.asdict(plan),
        "seeds": arguments.seeds,
        "tuning": arguments.tune,
        "split": {"by_program": parts.report, "by_random_rows": parts.random_rows},
        "sizes": {"train": sizes_of(examples.train), "test": sizes_of(examples.test)},
        "vocabulary": examples.vocabulary_size,
        "held_out": sorted({one.program for one in examples.test}),
        "summary": summary,
        "by_origin": {
            origin: report.summarise(contenders, examples.test, origin) for origin in ORIGINS
        },
        "network_over": report.compare(contenders, examples.test) if training else {},
        "training": training,
        "seconds": watch.seconds,
    }
    report.write_json(folder / "results.json", results)
    (folder / "table.md").write_text(report.table(summary) + "\n")
    report.plot_errors(folder / "errors.svg", summary)
    report.plot_predictions(folder / "predictions.png", contenders, examples.test)
    if training:
        report.plot_losses(folder / "losses.svg", training["losses"])
    print(report.table(summary))


if __name__ == "__main__":
    main()
