"""What came out: measures with intervals, tables, plots, and one JSON file of everything."""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

matplotlib.use("agg")

import matplotlib.pyplot as plt  # noqa: E402

from baselines import bests, counts, rewards  # noqa: E402
from examples import Example, Predictions  # noqa: E402

RESAMPLES = 2_000
PACKAGES = ["steplake", "torch", "scikit-learn", "numpy", "pyarrow", "matplotlib"]

# The contenders by their names in the tables.
MEAN, MEDIAN, NODES, TREES = "mean", "median", "counting the nodes", "boosted trees"
WITHOUT, WITH, TOGETHER = "network without messages", "network", "networks together"

# The targets, and what each measure is.
TARGETS = {
    "count": "instructions: mean relative error",
    "reward": "reward of (state, action): MAE over that of the mean",
    "reward, changed": "the same, for transitions that changed the program",
    "best": "best cost within 50 steps: MAE over that of the mean",
}

# The predictions of a contender, by seed. One that has no dice has one seed.
BySeed = list[Predictions]


def truth(target: str, test: Sequence[Example]) -> np.ndarray:
    """Return what is to be predicted, in the order of the states and their pairs."""
    values = {"count": counts, "best": bests}.get(target, rewards)(test)
    return values[changed(test)] if target == "reward, changed" else values


def changed(test: Sequence[Example]) -> np.ndarray:
    """Return which pairs changed the program."""
    return np.concatenate([one.is_changed for one in test])


def said(target: str, predictions: Predictions, test: Sequence[Example]) -> np.ndarray | None:
    """Return what a contender says of a target."""
    values = getattr(predictions, target.split(",")[0])
    if values is None or target != "reward, changed":
        return values
    return values[changed(test)]


def programs_of(target: str, test: Sequence[Example]) -> np.ndarray:
    """Return the program of each value of a target, as a number."""
    _, number = np.unique([one.program for one in test], return_inverse=True)
    if not target.startswith("reward"):
        return number
    pairs = np.repeat(number, [len(one.action) for one in test])
    return pairs[changed(test)] if target == "reward, changed" else pairs


def errors(target: str, by_seed: BySeed, test: Sequence[Example]) -> np.ndarray | None:
    """Return the summed errors of each program, shape (seeds, programs).

    They are absolute errors, and relative ones for the count.
    """
    wanted, programs = truth(target, test), programs_of(target, test)
    sums = np.zeros((len(by_seed), len({one.program for one in test})))
    for seed, predictions in enumerate(by_seed):
        values = said(target, predictions, test)
        if values is None:
            return None
        error = np.abs(values - wanted) / (wanted if target == "count" else 1.0)
        np.add.at(sums[seed], programs, error)
    return sums


def quotient(over: np.ndarray, under: np.ndarray) -> dict[str, float]:
    """Return a quotient of summed errors, and its 95% interval by bootstrap.

    Each resample draws seeds and programs with replacement: both vary in what one would see next.
    Both sums are of the same seeds and programs.
    """
    dice, (seeds, programs) = np.random.default_rng(0), over.shape
    under = np.broadcast_to(under, over.shape)
    found = []
    for _ in range(RESAMPLES):
        some = np.ix_(dice.integers(seeds, size=seeds), dice.integers(programs, size=programs))
        found.append(over[some].sum() / max(under[some].sum(), 1e-12))
    low, high = np.quantile(found, [0.025, 0.975])
    value = over.sum() / max(under.sum(), 1e-12)
    return {"value": float(value), "low": float(low), "high": float(high)}


def how_many(target: str, test: Sequence[Example]) -> np.ndarray:
    """Return the number of values of each program, shape (1, programs)."""
    programs = len({one.program for one in test})
    return np.bincount(programs_of(target, test), minlength=programs)[None].astype(float)


def summarise(
    contenders: dict[str, BySeed], test: Sequence[Example], prefix: str = ""
) -> dict[str, dict[str, dict[str, Any]]]:
    """Return each contender's measure of each target, with its interval and the value by seed.

    Only programs whose URI begins with the prefix count.
    """
    names = sorted({one.program for one in test})
    of_prefix = np.array([name.startswith(prefix) for name in names])
    summary: dict[str, dict[str, dict[str, Any]]] = {}
    for target in TARGETS:
        number = how_many(target, test)
        scale = number if target == "count" else errors(target, contenders[MEAN], test)
        number, scale = number[:, of_prefix], scale[:, of_prefix]
        summary[target] = {}
        for name, by_seed in contenders.items():
            sums = errors(target, by_seed, test)
            if sums is not None:
                summary[target][name] = measure(sums[:, of_prefix], scale, number)
    return summary


def measure(sums: np.ndarray, scale: np.ndarray, number: np.ndarray) -> dict[str, Any]:
    """Return a measure from summed errors: over all seeds with its interval, and by seed."""
    by_seed = sums.sum(axis=1) / max(scale.sum(), 1e-12)
    error = sums.mean(axis=0).sum() / max(number.sum(), 1.0)
    return {**quotient(sums, scale), "by_seed": by_seed.tolist(), "mean_error": float(error)}


def compare(
    contenders: dict[str, BySeed], test: Sequence[Example]
) -> dict[str, dict[str, dict[str, float]]]:
    """Return the network's error over that of each other contender, program by program.

    Programs differ far more than contenders do, so these intervals say more than those of the
    measures by themselves.
    """
    found: dict[str, dict[str, dict[str, float]]] = {}
    for target in TARGETS:
        own, found[target] = errors(target, contenders[WITH], test), {}
        for name in (MEDIAN, TREES, WITHOUT):
            found[target][name] = quotient(own, errors(target, contenders[name], test))
    return found


def table(summary: dict[str, dict[str, dict[str, Any]]]) -> str:
    """Return the summary as tables in Markdown: one for each target."""
    parts = []
    for target, rows in summary.items():
        lines = [f"| {TARGETS[target]} | value | 95% interval |", "|---|---|---|"]
        for name, row in rows.items():
            interval = f"{row['low']:.3f} to {row['high']:.3f}"
            lines.append(f"| {name} | {row['value']:.3f} | {interval} |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def versions(compiler: str) -> dict[str, str]:
    """Return the versions of what the figures depend on, as far as it is installed."""
    found = {"python": platform.python_version(), "compiler": compiler}
    for name in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def write_json(path: Path, results: dict[str, Any]) -> None:
    """Write the results."""
    path.write_text(json.dumps(results, indent=1) + "\n")


def plot_errors(path: Path, summary: dict[str, dict[str, dict[str, Any]]]) -> None:
    """Plot the two headline targets: each contender's error over that of the mean."""
    figure, panels = plt.subplots(1, 3, figsize=(9, 3), layout="constrained", sharey=True)
    for axes, target in zip(panels, ["reward", "reward, changed", "best"], strict=True):
        rows = summary[target]
        values = np.array([row["value"] for row in rows.values()])
        low = values - [row["low"] for row in rows.values()]
        high = np.array([row["high"] for row in rows.values()]) - values
        axes.barh(list(rows), values, xerr=np.maximum([low, high], 0), height=0.6)
        axes.axvline(1, color="black", linewidth=0.8, linestyle="--")
        axes.set(title=target, xlabel="error / that of the mean")
    panels[0].invert_yaxis()
    figure.savefig(path)
    plt.close(figure)


def plot_predictions(path: Path, contenders: dict[str, BySeed], test: Sequence[Example]) -> None:
    """Plot what the network and the trees say against what is, for the first seed."""
    shown = [name for name in (WITH, TREES) if name in contenders]
    figure, panels = plt.subplots(
        len(shown), 3, figsize=(9, 3 * len(shown)), layout="constrained", squeeze=False
    )
    for row, name in zip(panels, shown, strict=True):
        for axes, target in zip(row, ["count", "reward, changed", "best"], strict=True):
            wanted, values = truth(target, test), said(target, contenders[name][0], test)
            axes.plot(wanted, values, ".", markersize=3, alpha=0.4)
            axes.axline((float(wanted.mean()),) * 2, slope=1, color="black", linewidth=0.8)
            axes.set(title=f"{name}: {target}", xlabel="recorded", ylabel="predicted")
            if target == "count":
                axes.set(xscale="log", yscale="log")
    figure.savefig(path, dpi=120)
    plt.close(figure)


def plot_losses(path: Path, losses: dict[str, list[list[float]]]) -> None:
    """Plot the training loss of each network, epoch by epoch, for all seeds."""
    figure, axes = plt.subplots(figsize=(6, 3.5), layout="constrained")
    for colour, (name, by_seed) in enumerate(losses.items()):
        for seed, values in enumerate(by_seed):
            label = name if seed == 0 else None
            axes.plot(range(1, len(values) + 1), values, color=f"C{colour}", label=label)
    axes.set(xlabel="epoch", ylabel="loss of the training states")
    axes.legend()
    figure.savefig(path)
    plt.close(figure)
