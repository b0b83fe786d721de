"""The paper's tables and figure, with our figures beside it."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

import judge
from programs import FAMILIES

matplotlib.use("agg")

import matplotlib.pyplot as plt  # noqa: E402

# The results of one agent, by seed.
Runs = list[dict[str, Any]]

# What the paper (arXiv 2109.08267) reports: table VI on csmith, by algorithm; table VII, by the
# families for training and test. Its other families are GitHub and TensorFlow.
PAPER_VI = {"ppo": 1.245, "a2c": 1.023}
PAPER_VII = {
    "csmith": (1.245, 0.984, 0.932),
    "GitHub": (0.567, 0.981, 0.950),
    "TensorFlow": (0.723, 0.995, 0.998),
}
NAMES = {"random": "random passes", "by-hand": "a list of passes by hand"}
SCRIPTS = {"ppo": "one file", "sb3": "stable-baselines3", "rllib": "RLlib", "baselines": "nothing"}


def values(runs: Runs, family: str) -> np.ndarray:
    """Return -Oz over the final size, shape (seeds, programs)."""
    return np.array(
        [judge.ratios([judge.Played(**one) for one in run["test"][family]]) for run in runs]
    )


def figures(runs: Runs, family: str) -> tuple[float, float, float]:
    """Return the geometric mean over seeds and programs, and its interval.

    The interval is that over programs, each with its mean over the seeds.
    """
    of_programs = np.exp(np.log(values(runs, family)).mean(axis=0))
    return judge.geometric_mean(of_programs), *judge.interval(of_programs)


def shown(runs: Runs, family: str) -> str:
    """Return a cell of a table."""
    mean, low, high = figures(runs, family)
    return f"{mean:.3f} ({low:.3f} to {high:.3f})"


def of_algorithms(all_runs: Sequence[Runs]) -> list[str]:
    """Return table VI: algorithms, trained and tested on csmith."""
    lines = [
        "| algorithm | learned by | steps | seconds | ours | the paper |",
        "|---|---|---|---|---|---|",
    ]
    for runs in all_runs:
        one = runs[0]
        paper = PAPER_VI.get(one["algorithm"], "–")
        seconds = np.mean([run["seconds"] for run in runs])
        name = NAMES.get(one["algorithm"], one["algorithm"].upper())
        lines.append(
            f"| {name} | {SCRIPTS[one['script']]} | {one['steps']:,} | "
            f"{seconds:.0f} | {shown(runs, 'csmith')} | {paper} |"
        )
    return lines


def of_families(all_runs: Sequence[Runs]) -> list[str]:
    """Return table VII: PPO, trained on one family and tested on all."""
    lines = [f"| trained on | {' | '.join(FAMILIES)} |", "|---" * (len(FAMILIES) + 1) + "|"]
    for runs in all_runs:
        cells = [shown(runs, family) for family in FAMILIES]
        lines.append(f"| {runs[0]['train']} | {' | '.join(cells)} |")
    lines += ["", f"| the paper | {' | '.join(PAPER_VII)} |", "|---" * (len(PAPER_VII) + 1) + "|"]
    for family, row in PAPER_VII.items():
        lines.append(f"| {family} | {' | '.join(f'{value:.3f}' for value in row)} |")
    return lines


def of_observations(all_runs: Sequence[Runs]) -> list[str]:
    """Return figure 9 as a table: PPO with other observations."""
    lines = ["| the agent sees | ours on csmith |", "|---|---|"]
    return lines + [f"| {runs[0]['observe']} | {shown(runs, 'csmith')} |" for runs in all_runs]


def plot(path: Path, results: dict[str, list[Runs]]) -> None:
    """Plot what episodes saved in training: by algorithm, and by what the agent sees."""
    drawn = {name: results[name] for name in ("VI", "9") if name in results}
    if not drawn:
        return
    figure, all_axes = plt.subplots(
        1, len(drawn), figsize=(5.2 * len(drawn), 4), layout="constrained", squeeze=False
    )
    for axes, (name, all_runs) in zip(all_axes[0], drawn.items(), strict=True):
        for runs in (runs for runs in all_runs if runs[0]["curve"]):
            one = runs[0]
            label = f"{one['algorithm'].upper()}, {SCRIPTS[one['script']]}"
            axes.plot(*smooth(one["curve"]), label=one["observe"] if name == "9" else label)
        axes.axhline(1, color="black", linewidth=0.8, linestyle="--", label="-Oz")
        axes.set(xlabel="steps of training", ylabel="saved by an episode, as a share of -Oz's")
        axes.legend(fontsize="small")
    figure.savefig(path)
    plt.close(figure)


def smooth(curve: list[dict[str, float]], share: int = 8) -> tuple[list[float], list[float]]:
    """Return the steps of a curve, and the running medians of its values over a share of it."""
    saved = [point["saved"] for point in curve]
    span = max(1, len(saved) // share)
    ends = range(span, len(saved) + 1)
    middle = [float(np.median(saved[end - span : end])) for end in ends]
    return [curve[end - 1]["steps"] for end in ends], middle


def write(folder: Path, results: dict[str, list[Runs]]) -> None:
    """Write the tables as Markdown and as CSV, and the plot."""
    parts = {"VI": of_algorithms, "VII": of_families, "9": of_observations}
    titles = {"VI": "Table VI: algorithms", "VII": "Table VII: families", "9": "Figure 9"}
    lines: list[str] = []
    for name, all_runs in results.items():
        lines += [f"## {titles[name]}", "", *parts[name](all_runs), ""]
    (folder / "tables.md").write_text("\n".join(lines))
    with (folder / "results.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        keys = ("script", "algorithm", "train", "observe", "seed", "steps", "seconds")
        writer.writerow(["table", *keys, "test", "programs", "mean", "low", "high"])
        for name, all_runs in results.items():
            for run in (run for runs in all_runs for run in runs):
                for family, played in run["test"].items():
                    row = [name, *(run[key] for key in keys), family, len(played)]
                    writer.writerow([*row, *(f"{x:.4f}" for x in figures([run], family))])
    plot(folder / "curves.svg", results)
