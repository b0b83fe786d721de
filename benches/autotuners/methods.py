"""The methods of the table, and the commands that run them."""

from __future__ import annotations

import json
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TUNERS = Path(__file__).parents[2] / "examples" / "autotuners" / "main.py"
#: More actions than fit into any time.
ENDLESS = 1_000_000_000
#: Exit codes of `steplake`: a wrong command line, and Ctrl-C.
USAGE, INTERRUPTED = 2, 130


@dataclass(frozen=True)
class Objective:
    """A column of the table.

    Attributes
    ----------
    title : str
        What the table calls it.
    space : str
        The cost.
    baseline : str
        What costs are compared with: an observation space, or a pipeline for run times.
    """

    title: str
    space: str
    baseline: str
    compared_with: str


OBJECTIVES = {
    "ir": Objective("code size", "IrInstructionCount", "IrInstructionCountOz", "-Oz"),
    "size": Objective("object size", "ObjectTextSizeBytes", "ObjectTextSizeOz", "-Oz"),
    "runtime": Objective("run time", "Runtime", "-O3", "-O3"),
}


@dataclass(frozen=True)
class Method:
    """A row of the table.

    Attributes
    ----------
    title : str
        What the table calls it.
    policy : str or None
        The policy of `steplake generate` that it is.
    tuner : str or None
        The tuner of `examples/autotuners` that it is; for run times, if it is both.
    paper : tuple of float or None
        The paper's figures, in the order of the objectives.
    """

    title: str
    policy: str | None = None
    tuner: str | None = None
    paper: tuple[float, float, float] | None = None


METHODS = {
    "greedy": Method("greedy", "greedy", "greedy", (1.053, 1.267, 1.059)),
    "lamcts": Method("LaMCTS", "lamcts", None, (1.051, 1.273, 1.053)),
    "nevergrad": Method("Nevergrad", None, "nevergrad", (1.083, 1.318, 1.093)),
    "opentuner-ga": Method("OpenTuner", None, "opentuner-ga", (1.060, 1.102, 0.822)),
    "random": Method("random", "random-patience", "random", (1.048, 1.278, 1.078)),
    "nevergrad-integers": Method("Nevergrad over integers", None, "nevergrad-integers"),
    "opentuner": Method("OpenTuner, its bandit", None, "opentuner"),
    "hill-climbing": Method("hill climbing", "hill-climbing"),
    "genetic": Method("genetic", "genetic"),
    "beam": Method("beam", "beam"),
    "frontier": Method("frontier", "frontier"),
    "coreset": Method("coreset", "coreset"),
}


@dataclass(frozen=True)
class Plan:
    """How each method is run on each program.

    The budget is the same number of actions for all of them: those of `evaluations` sequences of
    the full `length`. A method whose sequences are shorter tries more of them.
    """

    evaluations: int | None
    seconds: float | None
    length: int
    seed: int
    repeats: int
    steplake: str
    python: str

    @property
    def actions(self) -> int | None:
        """The most actions that a method may play, if there is a budget of them."""
        return None if self.evaluations is None else self.evaluations * self.length

    def named(self, objective: str, method: str, program: str) -> str:
        """Return a name for files that tells runs apart."""
        budget = f"{self.actions}actions" if self.seconds is None else f"{self.seconds:g}s"
        which = program.rsplit("/", 1)[-1]
        return f"{objective}-{budget}x{self.length}-seed{self.seed}-{method}.{which}"


class LeftOut(Exception):
    """A method that is not there: the table leaves it out."""


class Failed(Exception):
    """A run that failed; the message says why."""


def run(method: Method, objective: str, program: str, plan: Plan, lake: Path) -> dict[str, Any]:
    """Run a method on a program, so that all it tries is in the lake.

    Returns what the lake does not say: the costs of measured run times.
    """
    by_tuner = method.tuner and (objective == "runtime" or not method.policy)
    if by_tuner:
        return run_tuner(str(method.tuner), objective, program, plan, lake)
    run_policy(str(method.policy), objective, program, plan, lake)
    return {}


def last_line(text: str) -> str:
    """Return the last line of what a command says, which is its error."""
    return (text.strip().splitlines() or ["it says nothing"])[-1][-300:]


def run_policy(policy: str, objective: str, program: str, plan: Plan, lake: Path) -> None:
    """Run a policy of `steplake generate`; with a time limit, until Ctrl-C."""
    space = OBJECTIVES[objective].space
    observed = "IrInstructionCount" if objective == "runtime" else space
    command = [
        *(plan.steplake, "--quiet", f"--lake={lake}", "generate", f"--benchmark={program}"),
        *(f"--policy={policy}", f"--objective={space}", f"--observe={observed}"),
        *("--rewards=IrInstructionCount", f"--steps={plan.actions or ENDLESS}"),
        *(f"--episode-length={plan.length}", f"--seed={plan.seed}", "--jobs=1", "--ir=none"),
    ]
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    )
    fine = {0}
    try:
        _, said = process.communicate(timeout=plan.seconds)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGINT)
        fine = {0, INTERRUPTED}
        _, said = process.communicate()
    if process.returncode == USAGE:
        wrong = next((line for line in said.splitlines() if line.strip()), last_line(said))
        raise LeftOut(wrong)
    if process.returncode not in fine:
        raise Failed(f"{policy} ended with {process.returncode}: {last_line(said)}")


def run_tuner(tuner: str, objective: str, program: str, plan: Plan, lake: Path) -> dict[str, Any]:
    """Run a tuner of `examples/autotuners` in a process of its own."""
    results = lake.with_suffix(".results.json")
    command = [
        *(plan.python, str(TUNERS), tuner, program, f"--objective={objective}"),
        *(f"--length={plan.length}", f"--seed={plan.seed}", f"--repeats={plan.repeats}"),
        *(f"--lake={lake}", f"--json={results}"),
    ]
    if plan.evaluations is not None:
        command.append(f"--evaluations={plan.evaluations}")
    if plan.seconds is not None:
        command.append(f"--seconds={plan.seconds}")
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        said = last_line(done.stderr)
        raise LeftOut(said) if "needs the package" in said else Failed(said)
    [result] = json.loads(results.read_text())
    results.unlink()
    return dict(result)
