"""The pictures: the table with its intervals, and what was reached after so many sequences."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import matplotlib

from methods import METHODS, OBJECTIVES
from report import Results, shared_programs, summarised

matplotlib.use("agg")
# So the same results give the same file.
matplotlib.rcParams["svg.hashsalt"] = "autotuners"

from matplotlib import pyplot  # noqa: E402

OWN, PAPER = "#4c72b0", "#888888"
#: Colours that differ, also in print; after the last one, lines are dashed.
COLOURS = [matplotlib.colormaps["tab10"](place) for place in range(10)]


def panels_for(titles: list[str], width: float, height: float) -> tuple[Any, list[Any]]:
    """Return a figure with a panel for each title."""
    size = width * len(titles) + 2.4, height
    figure, [panels] = pyplot.subplots(
        1, len(titles), figsize=size, sharey=True, squeeze=False, layout="constrained"
    )
    for axes, title in zip(panels, titles, strict=True):
        axes.set_title(title, fontsize="small")
        axes.tick_params(labelsize="small")
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(color="#dddddd", linewidth=0.6)
    return figure, list(panels)


def title_of(objective: str) -> str:
    """Return what a panel shows."""
    about = OBJECTIVES[objective]
    return f"{about.title}, {about.compared_with} / found"


def draw_table(path: Path, results: Results) -> None:
    """Draw each method's mean with its interval, and the paper's figure, which is hollow."""
    summary = {name: found for name, found in summarised(results).items() if found}
    present = [name for name in METHODS if any(name in found for found in summary.values())]
    if not present:
        return
    figure, panels = panels_for(
        [title_of(name) for name in summary], 2.6, 1.2 + 0.26 * len(present)
    )
    order = list(OBJECTIVES)
    hollow = {"color": PAPER, "fillstyle": "none", "markersize": 5}
    for axes, (objective, found) in zip(panels, summary.items(), strict=True):
        for place, method in enumerate(present):
            if method in found:
                mean, low, high = found[method]
                axes.plot([low, high], [place, place], color=OWN, linewidth=1.5)
                axes.plot(mean, place, "o", color=OWN, markersize=5)
            paper = METHODS[method].paper
            if paper:
                axes.plot(paper[order.index(objective)], place, "o", **hollow)
        axes.axvline(1, color="black", linewidth=0.8, linestyle="--")
    panels[0].set_yticks(range(len(present)), [METHODS[method].title for method in present])
    panels[0].set_ylim(len(present) - 0.4, -0.6)
    figure.supxlabel(
        "geometric mean with 95% interval; hollow: the paper, on cBench, one hour each",
        fontsize="small",
    )
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def reached(rows: list[dict[str, Any]], evaluations: int) -> list[float]:
    """Return the geometric mean over programs after each number of sequences.

    Costs below that of the result are those of results that changed the program: they do not
    count. A search that ended earlier stays where it was.
    """
    sums = [0.0] * evaluations
    for row in rows:
        best = math.inf if row["first"] is None else row["first"]
        for place in range(evaluations):
            cost = row["costs"][place] if place < len(row["costs"]) else None
            if cost is not None and cost >= row["cost"]:
                best = min(best, cost)
            sums[place] += math.log(row["baseline"] / max(best, 1))
    return [math.exp(one / len(rows)) for one in sums]


def draw_evaluations(path: Path, results: Results) -> None:
    """Draw what each method had reached after so many sequences, for costs of states."""
    shown = {name: found for name, found in results.items() if name != "runtime"}
    shown = {name: found for name, found in shown.items() if shared_programs(found)}
    if not shown:
        return
    figure, panels = panels_for([title_of(name) for name in shown], 3.2, 3.8)
    labelled: dict[str, Any] = {}
    for axes, (_, by_method) in zip(panels, shown.items(), strict=True):
        shared = shared_programs(by_method)
        for method, rows in by_method.items():
            kept = [row for row in rows if row["program"] in shared and "ratio" in row]
            evaluations = max((len(row["costs"]) for row in kept), default=0)
            if not evaluations:
                continue
            place = list(METHODS).index(method)
            style = {"color": COLOURS[place % 10], "linestyle": "-" if place < 10 else "--"}
            curve = reached(kept, evaluations)
            [line] = axes.plot(range(1, evaluations + 1), curve, linewidth=1.2, **style)
            labelled.setdefault(METHODS[method].title, line)
        axes.axhline(1, color="black", linewidth=0.8, linestyle="--")
        axes.set_xlabel("sequences", fontsize="small")
    panels[0].set_ylabel("geometric mean", fontsize="small")
    figure.legend(labelled.values(), labelled.keys(), fontsize="x-small", loc="outside right upper")
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
