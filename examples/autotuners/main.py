"""Tune programs with a library that is asked for sequences of passes and told what they cost.

    python examples/autotuners/main.py TUNER PROGRAM… [--objective ir|size|runtime]
        [--evaluations 45] [--seconds N] [--length 325] [--seed 0] [--lake tuned]

TUNER is `nevergrad`, `nevergrad-integers`, `opentuner`, `opentuner-ga`, `random`, `greedy`, or
MODULE:FUNCTION for one of your own. Everything that is tried is recorded in the lake.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import steplake
from steplake.env import CompilerEnv
from steplake.spaces import opt_command

import tuners
from objectives import SPACES, RunTime, StateCost
from protocol import Budget, Space, Tried, best, tune

#: The paper's length of a sequence.
LENGTH = 325
#: Every so many changes of state, the lake keeps the program.
KEYFRAMES = 32


@dataclasses.dataclass(frozen=True)
class Settings:
    """How programs are tuned."""

    tuner: str
    objective: str = "ir"
    budget: Budget = Budget(evaluations=45)
    length: int = LENGTH
    seed: int = 0
    repeats: int = 3
    environment: str = "llvm-v0"

    @property
    def space(self) -> str:
        """The observation space of the objective, where `objective` may also be one."""
        return SPACES.get(self.objective, self.objective)

    @property
    def is_measured(self) -> bool:
        """Whether programs are run."""
        return self.space == SPACES["runtime"]


@dataclasses.dataclass(frozen=True)
class Tuned:
    """What came of the search for one program."""

    program: str
    first: float
    oz: float
    tried: list[Tried]
    seconds: float


def environment(settings: Settings) -> CompilerEnv:
    """Return the environment. Objectives ask it for what they need."""
    return steplake.make(settings.environment, observation_space=None, reward_space=None)


def cost_of(env: CompilerEnv, settings: Settings) -> StateCost | RunTime:
    """Return what says what a sequence costs."""
    if settings.is_measured:
        return RunTime(env, settings.repeats)
    return StateCost(env, settings.space)


def tune_program(env: CompilerEnv, program: str, settings: Settings) -> Tuned:
    """Tune one program, with a tuner of its own."""
    begun = time.monotonic()
    env.benchmark = program
    space = Space(int(env.action_space.n), settings.length)
    tuner = tuners.make(settings.tuner, space, settings.seed, settings.budget.evaluations)
    cost = cost_of(env, settings)
    try:
        tried = list(tune(tuner, cost, settings.budget))
    finally:
        if isinstance(cost, RunTime):
            cost.close()
    return Tuned(program, cost.first, cost.oz, tried, time.monotonic() - begun)


def tune_all(
    lake: Path,
    programs: Sequence[str],
    settings: Settings,
    visit: Callable[[CompilerEnv, Tuned], None],
) -> None:
    """Tune programs one after another, and record everything that is tried."""
    env = environment(settings)
    observe = None if settings.is_measured else [settings.space]
    with (
        env,
        steplake.record(
            lake,
            env,
            policy=settings.tuner,
            seed=settings.seed,
            keyframes=KEYFRAMES,
            observe=observe,
        ),
    ):
        for program in programs:
            visit(env, tune_program(env, program, settings))


def compared(env: CompilerEnv, tuned: Tuned, settings: Settings) -> list[str]:
    """Return the lines that say what was found for a program."""
    found, failures = best(tuned.tried), sum(one.failure is not None for one in tuned.tried)
    lines = [
        f"{tuned.program}: {len(tuned.tried)} sequences, {failures} of them failed, "
        f"{tuned.seconds:.1f} s"
    ]
    if math.isinf(found.cost) or found.cost >= tuned.first:
        return [*lines, "  none is better than the program untouched"]
    if settings.is_measured:
        lines.append(
            f"  {found.cost:.3f} times the run time after -O3 ({tuned.first:.3f} untouched)"
        )
    else:
        after = "" if math.isnan(tuned.oz) else f", {tuned.oz:,.0f} after -Oz"
        lines.append(f"  {settings.space} {found.cost:,.0f} ({tuned.first:,.0f} untouched{after})")
    command = opt_command(env.action_space, list(found.sequence[: found.after]))
    return [*lines, f"  {command}"]


def as_json(tuned: Tuned) -> dict[str, Any]:
    """Return what came of a program, and of the sequences, which the lake has, the best one.

    What has no cost has null.
    """
    found = best(tuned.tried)

    def known(cost: float) -> float | None:
        return cost if math.isfinite(cost) else None

    return {
        "program": tuned.program,
        "first": known(tuned.first),
        "seconds": round(tuned.seconds, 3),
        "costs": [known(one.cost) for one in tuned.tried],
        "failures": [one.failure for one in tuned.tried if one.failure is not None],
        "best": {"cost": known(found.cost), "sequence": list(found.sequence[: found.after])},
    }


def main() -> None:
    """Tune programs, and print what was found."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tuner")
    parser.add_argument("programs", nargs="+", metavar="PROGRAM", help="a URI, or a file")
    parser.add_argument("--objective", choices=SPACES, default="ir")
    parser.add_argument("--evaluations", type=int, help="45, unless --seconds says when to stop")
    parser.add_argument("--seconds", type=float, help="for each program")
    parser.add_argument("--length", type=int, default=LENGTH, help="of a sequence; by default 325")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--repeats", type=int, default=3, help="runs for a run time; by default 3")
    parser.add_argument("--lake", type=Path, default=Path("tuned"))
    parser.add_argument("--json", type=Path, help="where to write the costs of all that was tried")
    arguments = parser.parse_args()
    if arguments.evaluations is not None and arguments.evaluations < 1:
        parser.error("--evaluations has to be at least 1")
    # A tuner of one's own lies where the command is given.
    sys.path.append(os.getcwd())
    evaluations = arguments.evaluations
    if evaluations is None and arguments.seconds is None:
        evaluations = 45
    settings = Settings(
        arguments.tuner,
        arguments.objective,
        Budget(evaluations, arguments.seconds),
        arguments.length,
        arguments.seed,
        arguments.repeats,
    )
    results = []

    def visit(env: CompilerEnv, tuned: Tuned) -> None:
        results.append(as_json(tuned))
        print(*compared(env, tuned, settings), sep="\n", flush=True)

    try:
        tune_all(arguments.lake, arguments.programs, settings, visit)
    except (tuners.NoSuchTuner, steplake.SteplakeError) as error:
        sys.exit(f"main.py: {error}")
    if arguments.json:
        arguments.json.write_text(json.dumps(results) + "\n")


if __name__ == "__main__":
    main()
