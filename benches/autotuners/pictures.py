"""The pictures: the table with its intervals, and what was reached after so many actions."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import matplotlib

from methods import METHODS, OBJECTIVES
from report import Mean, Results, shared_programs, summarised

matplotlib.use("agg")
# So the same results give the same file.
matplotlib.rcParams["svg.hashsalt"] = "autotuners"

from matplotlib import pyplot  # noqa: E402

OWN, PAPER = "#4c72b0", "#888888"
#: More colours than methods.
COLOURS = [matplotlib.colormaps["tab20"](place) for place in [*range(0, 20, 2), *range(1, 20, 2)]]
#: The widths and dashes of lines: those drawn first are wide, and no two of one look touch.
WIDEST, NARROWEST = 3.2, 1.1
DASHES = ["-", (0, (4, 1.5)), (0, (1.5, 1.5))]
#: How many points a line has.
POINTS = 90


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
    """Draw each method's mean with its interval, and the paper's figure, which is hollow.

    The methods are in the order of their means in the first panel, the best one at the top.
    """
    summary = {name: found for name, found in summarised(results).items() if found}
    if not summary:
        return
    present = in_order(summary)
    figure, panels = panels_for(
        [title_of(name) for name in summary], 2.6, 1.2 + 0.26 * len(present)
    )
    order = list(OBJECTIVES)
    hollow = {"color": PAPER, "fillstyle": "none", "markersize": 5}
    for axes, (objective, found) in zip(panels, summary.items(), strict=True):
        for place, method in enumerate(present):
            if method in found:
                mean = found[method]
                if mean.interval:
                    axes.plot(mean.interval, [place, place], color=OWN, linewidth=1.5)
                axes.plot(mean.value, place, "o", color=OWN, markersize=5)
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


def in_order(summary: dict[str, dict[str, Mean]]) -> list[str]:
    """Return the methods, those with the best means first.

    The first objective decides; methods that it lacks come last, in the order of the next one.
    """

    def key(method: str) -> list[float]:
        found = (by_method.get(method) for by_method in summary.values())
        return [math.inf if mean is None else -mean.value for mean in found]

    present = [name for name in METHODS if any(name in found for found in summary.values())]
    return sorted(present, key=key)


def reached(rows: list[dict[str, Any]], counts: list[int]) -> list[float]:
    """Return the geometric mean over programs after so many actions.

    Costs below that of the result are those of results that changed the program: they do not
    count. A search that ended earlier stays where it was.
    """
    sums = [0.0] * len(counts)
    for row in rows:
        best = math.inf if row["first"] is None else row["first"]
        left = list(zip(itertools.accumulate(row["lengths"]), row["costs"], strict=True))
        left.reverse()
        for place, count in enumerate(counts):
            while left and left[-1][0] <= count:
                _, cost = left.pop()
                if cost is not None and cost >= row["cost"]:
                    best = min(best, cost)
            sums[place] += math.log(row["baseline"] / max(best, 1))
    return [math.exp(one / len(rows)) for one in sums]


def draw_evaluations(path: Path, results: Results) -> None:
    """Draw what each method had reached after so many actions, for costs of states.

    A line that is drawn later is thinner, so that one which runs on another one hides nothing of
    it, and the two shades alternate where they are dashed.
    """
    shown = {name: found for name, found in results.items() if name != "runtime"}
    shown = {name: found for name, found in shown.items() if shared_programs(found)}
    if not shown:
        return
    methods = in_order(summarised(shown))
    figure, panels = panels_for([title_of(name) for name in shown], 3.6, 4.2)
    labelled: dict[str, Any] = {}
    for axes, (_, by_method) in zip(panels, shown.items(), strict=True):
        shared = shared_programs(by_method)
        kept = {
            method: [row for row in rows if row["program"] in shared and "ratio" in row]
            for method, rows in by_method.items()
        }
        most = max((sum(row["lengths"]) for rows in kept.values() for row in rows), default=0)
        counts = [most * place // POINTS for place in range(1, POINTS + 1)]
        for place, method in enumerate(name for name in methods if kept.get(name)):
            [line] = axes.plot(
                counts,
                reached(kept[method], counts),
                color=COLOURS[list(METHODS).index(method) % len(COLOURS)],
                linestyle=DASHES[place % len(DASHES)],
                linewidth=WIDEST - (WIDEST - NARROWEST) * place / max(len(methods) - 1, 1),
            )
            labelled.setdefault(method, line)
        axes.axhline(1, color="black", linewidth=0.8, linestyle=":")
        axes.set_xlabel("actions played", fontsize="small")
    panels[0].set_ylabel("geometric mean", fontsize="small")
    named = [(labelled[name], METHODS[name].title) for name in methods if name in labelled]
    figure.legend(*zip(*named, strict=True), fontsize="x-small", loc="outside right upper")
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
