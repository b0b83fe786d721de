"""One training run: options, checks on validation programs, the test, and what is written."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import datetime
import json
import statistics
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from pathlib import Path

import steplake
from gymnasium.vector import AutoresetMode

import judge
import report
from programs import FAMILIES, programs
from setting import OBSERVATIONS, PassOrdering


@dataclass(frozen=True)
class Setting:
    """What to learn from, and for how long.

    Attributes
    ----------
    programs : list of Benchmark
        The programs to train on.
    observe : str
        What the agent sees.
    steps : int
        The actions to take in training, about.
    seed : int
        Fixes what is drawn.
    envs : int
        The compilers that work at once.
    record, lake : Path or None
        A lake to record the training into, and one that answers the steps that it knows.
    """

    programs: list[steplake.Benchmark]
    observe: str
    steps: int
    seed: int
    envs: int
    record: Path | None = None
    lake: Path | None = None

    def vector(self, mode: AutoresetMode) -> PassOrdering:
        """Return the environments to train in."""
        return PassOrdering(
            self.envs,
            self.programs,
            observe=self.observe,
            seed=self.seed,
            autoreset_mode=mode,
            lake=self.lake,
            record=self.record,
        )


@dataclass(frozen=True)
class Checkpoint:
    """How far a learner is.

    Attributes
    ----------
    steps : int
        The actions that it has taken.
    policy : callable
        Returns the policy that it has now, which learns no more.
    finished : list of float
        What the episodes since the last checkpoint have saved, as a share of what -Oz saves; the
        list may be cleared.
    """

    steps: int
    policy: Callable[[], judge.Policy]
    finished: list[float]


# Yields checkpoints, until it has taken all steps or is closed.
Learner = Callable[[Setting], Generator[Checkpoint]]


def main(about: str | None, learners: dict[str, Learner]) -> None:
    """Train, test, and write what came out into the folder that the command names."""
    arguments = parsed(about, learners)
    folder: Path = arguments.output
    folder.mkdir(parents=True, exist_ok=True)
    env = steplake.make("llvm-v0", observation_space=None, reward_space=None)
    to_train_on = programs(
        env, arguments.train, "train", arguments.programs, 1024 * arguments.kib_max
    )
    validation = programs(env, arguments.train, "validation", arguments.validation)
    tests = {
        family: programs(env, family, "test", arguments.test_programs)
        for family in arguments.test or [arguments.train]
    }
    versions = {"compiler": env.compiler, **report.versions()}
    env.close()
    setting = Setting(
        to_train_on,
        arguments.observe,
        arguments.steps,
        arguments.seed,
        arguments.envs,
        arguments.record,
        arguments.lake,
    )
    jury = PassOrdering(arguments.envs, validation, observe=arguments.observe)
    learner = learners[arguments.algorithm]
    run = train(learner, setting, arguments.checks, 60 * arguments.minutes, jury, validation)
    tested = {
        family: [dataclasses.asdict(one) for one in judge.play(jury, run.policy, chosen)]
        for family, chosen in tests.items()
    }
    jury.close()
    options = {key: str(value) for key, value in vars(arguments).items()}
    result = {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "algorithm": arguments.algorithm,
        "train": arguments.train,
        "observe": arguments.observe,
        "seed": arguments.seed,
        "options": options,
        "versions": versions,
        "steps": run.steps,
        "seconds": run.seconds,
        "programs": len(to_train_on),
        "curve": run.curve,
        "checks": run.checks,
        "test": tested,
    }
    unfinished = folder / "run.unfinished"
    unfinished.write_text(json.dumps(result) + "\n")
    unfinished.rename(folder / "run.json")
    print(report.table_of(result))


@dataclass
class Run:
    """What came out of training.

    Attributes
    ----------
    policy : callable
        The policy that was best on the validation programs.
    steps, seconds : int, float
        The actions that were taken in training, and how long it took.
    curve, checks : list of dict
        What the episodes saved in training, and how good the policies were on validation programs.
    """

    policy: judge.Policy
    steps: int
    seconds: float
    curve: list[dict[str, float]]
    checks: list[dict[str, float]]


def train(
    learner: Learner,
    setting: Setting,
    checks: int,
    seconds_max: float,
    jury: PassOrdering,
    validation: Sequence[steplake.Benchmark],
) -> Run:
    """Train, with some checks at equal distances, the last one at the end.

    Seconds are those of training alone.
    """
    curve: list[dict[str, float]] = []
    checked: list[dict[str, float]] = []
    best, best_policy, seconds, steps = -1.0, None, 0.0, 0
    begun = time.monotonic()
    with contextlib.closing(learner(setting)) as checkpoints:
        for checkpoint in checkpoints:
            seconds += time.monotonic() - begun
            is_due = checkpoint.steps * checks // setting.steps > steps * checks // setting.steps
            steps = checkpoint.steps
            saved = checkpoint.finished
            if saved:
                # Where -Oz saves next to nothing, a share of it may be a hundred.
                middle = statistics.median(saved)
                curve.append({"steps": steps, "seconds": round(seconds, 2), "saved": middle})
                saved.clear()
            is_last = steps >= setting.steps or seconds > seconds_max
            if is_due or is_last or best_policy is None:
                policy = checkpoint.policy()
                value = judge.geometric_mean(judge.ratios(judge.play(jury, policy, validation)))
                checked.append({"steps": steps, "seconds": round(seconds, 2), "ratio": value})
                print(f"{steps:>9,} steps {seconds:>7.0f} s  validation {value:.3f}", flush=True)
                if value > best:
                    best, best_policy = value, policy
            if is_last:
                break
            begun = time.monotonic()
    assert best_policy is not None, "a learner yields at least one checkpoint"
    return Run(best_policy, steps, round(seconds, 1), curve, checked)


def parsed(about: str | None, learners: dict[str, Learner]) -> argparse.Namespace:
    """Return the options of the command."""
    parser = argparse.ArgumentParser(description=(about or "").splitlines()[0])
    parser.add_argument("output", type=Path, help="the folder of the results")
    names = list(learners)
    parser.add_argument("--algorithm", choices=names, default=names[0])
    parser.add_argument(
        "--train", choices=FAMILIES, default="csmith", help="the family to learn from"
    )
    parser.add_argument("--test", choices=FAMILIES, action="append", help="by default the same one")
    parser.add_argument("--observe", choices=OBSERVATIONS, default="autophase+history")
    parser.add_argument("--steps", type=int, default=500_000)
    parser.add_argument(
        "--minutes", type=float, default=float("inf"), help="end the training after so long"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--envs", type=int, default=8, help="the compilers that work at once")
    parser.add_argument("--programs", type=int, default=300, help="to train on, at most")
    parser.add_argument(
        "--kib-max", type=float, default=64, help="train on no larger programs, in KiB of bitcode"
    )
    parser.add_argument(
        "--validation", type=int, default=25, help="programs of each check, at most"
    )
    parser.add_argument("--test-programs", type=int, default=50, help="of each family, at most")
    parser.add_argument("--checks", type=int, default=5)
    cache = parser.add_mutually_exclusive_group()
    cache.add_argument("--record", type=Path, help="a lake to record the training into")
    cache.add_argument("--lake", type=Path, help="a lake that answers the steps that it knows")
    return parser.parse_args()
