"""The table: geometric means with intervals, the paper's figures beside them, and the CSV."""

from __future__ import annotations

import csv
import math
import random
from pathlib import Path
from typing import Any, NamedTuple

from methods import METHODS, OBJECTIVES

RESAMPLES = 10_000
#: The fewest programs that have an interval: a bootstrap over fewer says next to nothing of others.
INTERVAL_PROGRAMS_MIN = 5

#: By objective and method, what came of each program.
Results = dict[str, dict[str, list[dict[str, Any]]]]


class Mean(NamedTuple):
    """A geometric mean, and its 95% interval by bootstrap; none of too few programs."""

    value: float
    interval: tuple[float, float] | None

    def __str__(self) -> str:
        if self.interval is None:
            return f"{self.value:.3f}"
        return "{:.3f} ({:.3f} to {:.3f})".format(self.value, *self.interval)


def mean_of(ratios: list[float]) -> Mean:
    """Return the geometric mean of programs."""
    logs = [math.log(ratio) for ratio in ratios]
    count = len(logs)
    value = math.exp(sum(logs) / count)
    if count < INTERVAL_PROGRAMS_MIN:
        return Mean(value, None)
    draw = random.Random(1)
    means = sorted(sum(draw.choices(logs, k=count)) / count for _ in range(RESAMPLES))
    return Mean(value, (math.exp(means[RESAMPLES // 40]), math.exp(means[-RESAMPLES // 40])))


def summarised(results: Results) -> dict[str, dict[str, Mean]]:
    """Return the mean and interval of each method, over the programs that all methods have.

    So the means of a column are over the same programs. A method that failed on a program takes
    the program out of its column.
    """
    summary: dict[str, dict[str, Mean]] = {}
    for objective, by_method in results.items():
        shared = shared_programs(by_method)
        summary[objective] = {
            method: mean_of([row["ratio"] for row in rows if row["program"] in shared])
            for method, rows in by_method.items()
            if shared and any("ratio" in row for row in rows)
        }
    return summary


def shared_programs(by_method: dict[str, list[dict[str, Any]]]) -> set[str]:
    """Return the programs on which no method failed, but for one that failed on all."""
    sets = [{row["program"] for row in rows if "ratio" in row} for rows in by_method.values()]
    return set.intersection(*filter(None, sets)) if any(sets) else set()


def table(results: Results) -> str:
    """Return the table in Markdown: how many times as large or slow as what was found LLVM's is."""
    summary = summarised(results)
    head = ["method"]
    for objective, by_method in results.items():
        about = OBJECTIVES[objective]
        count = len(shared_programs(by_method))
        head += [f"{about.title}, {about.compared_with} / found ({count} programs)", "paper"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    order = list(OBJECTIVES)
    for name, method in METHODS.items():
        if not any(name in by_method for by_method in summary.values()):
            continue
        cells = [method.title]
        for objective, found in summary.items():
            cells.append(str(found[name]) if name in found else "")
            cells.append(f"{method.paper[order.index(objective)]:.3f}" if method.paper else "")
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def pairs(results: Results) -> str:
    """Return how the best method of each column compares with the others, program by program.

    Programs differ more than methods do, so intervals of two methods overlap where one of them is
    ahead on nearly every program.
    """
    summary = summarised(results)
    head = "| objective | the best | beside | found / the best's | the best is better, worse on |"
    lines = [head, "|" + "---|" * 5]
    for objective, found in summary.items():
        if not found:
            continue
        shared = shared_programs(results[objective])
        ratios: dict[str, dict[str, float]] = {}
        for name in found:
            rows = [row for row in results[objective][name] if "ratio" in row]
            ratios[name] = {row["program"]: row["ratio"] for row in rows}
        best = max(found, key=lambda name: found[name].value)
        for name in found:
            if name == best:
                continue
            each = [ratios[best][program] / ratios[name][program] for program in sorted(shared)]
            mean = str(mean_of(each))
            counts = f"{sum(one > 1 for one in each)}, {sum(one < 1 for one in each)}"
            titles = (OBJECTIVES[objective].title, METHODS[best].title, METHODS[name].title)
            lines.append("| " + " | ".join([*titles, mean, counts]) + " |")
    return "\n".join(lines)


def remarks(results: Results) -> list[str]:
    """Return a line for each column and method about what was wrong or failed."""
    lines = []
    for objective, by_method in results.items():
        for method, rows in by_method.items():
            wrong = sum(row.get("wrong", 0) for row in rows)
            none = sum("ratio" in row and "actions" not in row for row in rows)
            failures = sum(row.get("failures", 0) for row in rows)
            errors = [row for row in rows if "error" in row]
            parts = [
                f"{wrong} results changed a program and were left out" if wrong else "",
                f"{none} programs stayed untouched, for want of a right result" if none else "",
                f"the compiler failed {failures} times" if failures else "",
                f"{len(errors)} runs failed, such as: {errors[0]['error']}" if errors else "",
            ]
            said = "; ".join(part for part in parts if part)
            if said:
                lines.append(f"{OBJECTIVES[objective].title}, {METHODS[method].title}: {said}")
        if 0 < len(shared_programs(by_method)) < INTERVAL_PROGRAMS_MIN:
            lines.append(
                f"{OBJECTIVES[objective].title}: no intervals, of fewer than "
                f"{INTERVAL_PROGRAMS_MIN} programs"
            )
    return lines


def write_csv(path: Path, results: Results) -> None:
    """Write a row for each run."""
    columns = ["objective", "method", "program", "first", "baseline", "cost", "ratio"]
    columns += ["evaluations", "played", "actions", "wrong", "failures", "is_run"]
    columns += ["search_seconds", "error"]
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns, extrasaction="ignore")
        writer.writeheader()
        for objective, by_method in results.items():
            for method, rows in by_method.items():
                for row in rows:
                    about = {"objective": objective, "method": METHODS[method].title}
                    length = len(row["actions"]) if "actions" in row else ""
                    writer.writerow({**row, **about, "actions": length})
