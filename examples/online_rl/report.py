"""What came out of runs, as tables."""

from __future__ import annotations

import contextlib
import importlib.metadata
import platform
from typing import Any

import judge

PACKAGES = ("steplake", "torch", "stable-baselines3", "ray", "gymnasium", "numpy")


def versions() -> dict[str, str]:
    """Return the versions of what the figures depend on, as far as it is installed."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def summary(result: dict[str, Any], family: str) -> dict[str, Any]:
    """Return the means of a run on the test programs of a family."""
    played = [judge.Played(**one) for one in result["test"][family]]
    final = judge.ratios(played)
    low, high = judge.interval(final)
    return {
        "programs": len(played),
        "mean": judge.geometric_mean(final),
        "low": low,
        "high": high,
        "best": judge.geometric_mean(judge.ratios(played, "best")),
        "share_above_oz": float((final > 1).mean()),
    }


def table_of(result: dict[str, Any]) -> str:
    """Return the table of one run in Markdown."""
    lines = [
        "| test programs | -Oz / reached | 95% interval | best state of episodes | above -Oz |",
        "|---|---|---|---|---|",
    ]
    for family in result["test"]:
        row = summary(result, family)
        lines.append(
            f"| {row['programs']} of {family} | {row['mean']:.3f} | {row['low']:.3f} to "
            f"{row['high']:.3f} | {row['best']:.3f} | {row['share_above_oz']:.0%} |"
        )
    return "\n".join(lines)
