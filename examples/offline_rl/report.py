"""What came out: means with intervals, plots, and one JSON file of everything."""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import math
import platform
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

matplotlib.use("agg")

import matplotlib.pyplot as plt  # noqa: E402

from contenders import Trace  # noqa: E402

RESAMPLES = 2_000
PACKAGES = ["steplake", "torch", "numpy", "matplotlib"]

# Traces by seed and program.
Traces = list[list[Trace]]


def ratios(traces: Traces, oz: list[int], compilations: int) -> np.ndarray:
    """Return the cost after -Oz over the lowest one that a contender saw, (seeds, programs).

    Parameters
    ----------
    traces : list of list of list of int
        By seed and program, the cost at first and after each compilation.
    oz : list of int
        The cost of each program after -Oz.
    compilations : int
        How many count.
    """
    reached = [[min(trace[: compilations + 1]) for trace in seed] for seed in traces]
    return over(oz, reached)


def over(oz: list[int], costs: list[list[int]]) -> np.ndarray:
    """Return the cost after -Oz over others, shape (seeds, programs)."""
    return np.maximum(np.array(oz, float), 1) / np.maximum(np.array(costs, float), 1)


def mean_with_interval(values: np.ndarray) -> dict[str, float]:
    """Return the geometric mean, and its 95% interval by bootstrap over seeds and programs.

    Each resample draws seeds and programs with replacement: both vary in what one would see next.
    """
    logs, dice = np.log(values), np.random.default_rng(0)
    seeds, programs = logs.shape
    means = [
        logs[dice.integers(seeds, size=seeds)][:, dice.integers(programs, size=programs)].mean()
        for _ in range(RESAMPLES)
    ]
    low, high = np.exp(np.quantile(means, [0.025, 0.975]))
    return {"mean": math.exp(logs.mean()), "low": float(low), "high": float(high)}


def summarise(traces: dict[str, Traces], oz: list[int], budget: int) -> dict[str, dict[str, Any]]:
    """Return each contender's mean, interval, means by seed, and compilations of each program.

    `at_the_end` is the mean of the last states instead of the best ones. A contender that takes
    more than the budget is also cut off there.
    """
    summary = {}
    for name, by_seed in traces.items():
        lengths = [len(trace) - 1 for seed in by_seed for trace in seed]
        values = ratios(by_seed, oz, max(lengths))
        last = over(oz, [[trace[-1] for trace in seed] for seed in by_seed])
        summary[name] = {
            "compilations": round(sum(lengths) / len(lengths)),
            **mean_with_interval(values),
            "by_seed": np.exp(np.log(values).mean(axis=1)).tolist(),
            "at_the_end": math.exp(np.log(last).mean()),
            "share_above_oz": float((values > 1).mean()),
        }
        if max(lengths) > budget:
            cut = mean_with_interval(ratios(by_seed, oz, budget))
            summary[f"{name}, cut off"] = {"compilations": budget, **cut}
    return summary


def compare(traces: dict[str, Traces], oz: list[int], name: str) -> dict[str, dict[str, float]]:
    """Return how many times as small a contender's programs are as those of each other one.

    Programs differ far more than contenders do, so these intervals say more than those of the
    means by themselves. Each contender has all the compilations that it took.
    """
    longest = max(len(trace) for by_seed in traces.values() for seed in by_seed for trace in seed)
    reached = {other: ratios(by_seed, oz, longest) for other, by_seed in traces.items()}
    compared = {}
    for other, values in reached.items():
        if other != name:
            quotient = reached[name] / values
            better = (np.log(quotient).mean(axis=0) > 0).mean()
            compared[other] = {**mean_with_interval(quotient), "share_better": float(better)}
    return compared


def versions(compiler: str) -> dict[str, str]:
    """Return the versions of what the figures depend on, as far as it is installed."""
    found = {"python": platform.python_version(), "compiler": compiler}
    for name in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def table(summary: dict[str, dict[str, Any]]) -> str:
    """Return the summary as a table in Markdown."""
    lines = ["| contender | compilations | -Oz / reached | 95% interval |", "|---|---|---|---|"]
    for name, row in summary.items():
        interval = f"{row['low']:.3f} to {row['high']:.3f}"
        lines.append(f"| {name} | {row['compilations']:,} | {row['mean']:.3f} | {interval} |")
    return "\n".join(lines)


def write_json(path: Path, results: dict[str, Any]) -> None:
    """Write the results."""
    path.write_text(json.dumps(results) + "\n")


def plot_curves(path: Path, traces: dict[str, Traces], oz: list[int], budget: int) -> None:
    """Plot each contender's mean over the number of compilations, up to its longest trace."""
    figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
    for name, by_seed in traces.items():
        longest = max(len(trace) - 1 for seed in by_seed for trace in seed)
        counts = np.unique(np.geomspace(1, longest, 80).round().astype(int))
        means = [math.exp(np.log(ratios(by_seed, oz, int(n))).mean()) for n in counts]
        axes.plot(counts, means, label=name)
    axes.axhline(1, color="black", linewidth=0.8, linestyle="--", label="-Oz")
    axes.axvline(budget, color="grey", linewidth=0.8, linestyle=":")
    axes.set(xscale="log", xlabel="compilations of each program")
    axes.set_ylabel("instructions of -Oz / reached (geometric mean)")
    axes.legend()
    figure.savefig(path)
    plt.close(figure)


def plot_programs(path: Path, traces: dict[str, Traces], oz: list[int], budget: int) -> None:
    """Plot how each contender does on each program within the budget, worst programs first.

    The value of a program is the geometric mean over the seeds. Each contender is sorted by itself.
    """
    figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
    for name, by_seed in traces.items():
        values = np.sort(np.exp(np.log(ratios(by_seed, oz, budget)).mean(axis=0)))
        axes.plot(np.linspace(0, 100, len(values)), values, label=name)
    axes.axhline(1, color="black", linewidth=0.8, linestyle="--", label="-Oz")
    axes.set(yscale="log", xlabel="held-out programs (%), the worst first")
    axes.set_ylabel(f"instructions of -Oz / reached within {budget} compilations")
    axes.legend()
    figure.savefig(path)
    plt.close(figure)
