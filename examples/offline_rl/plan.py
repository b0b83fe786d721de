"""How much of everything: all sizes, of the full form and of the reduced one."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Learning:
    """How to learn.

    Attributes
    ----------
    rounds, updates : int, int
        How often the targets are computed, and the gradient steps after each time.
    batch, width, rate : int, int, float
        The rows of a gradient step, the width of the network's layers, the learning rate.
    discount : float
        What a reward one step later is worth.
    caution, softness : float, float
        The weight of the penalty on actions that were not recorded in a state, and by how much an
        action must score below the best one to escape it.
    decay : float
        The weight decay.
    """

    rounds: int = 8
    updates: int = 300
    batch: int = 256
    width: int = 128
    rate: float = 2e-3
    discount: float = 0.8
    caution: float = 0.05
    softness: float = 0.1
    decay: float = 0.3


@dataclass(frozen=True)
class Plan:
    """How much of everything.

    Attributes
    ----------
    programs, tries : int, int
        The training programs, and the compilations of the recorded search on each.
    held_out : int
        The programs to be judged on.
    budget, greedy_budget : int, int
        The compilations of each contender on each program, and those of greedy search, which takes
        thirty times as many as others to get to its end.
    seeds : int
        How often the learning and the random search are repeated.
    learning : Learning
        How to learn.
    """

    programs: int = 150
    tries: int = 300
    held_out: int = 50
    budget: int = 45
    greedy_budget: int = 10_000
    seeds: int = 3
    learning: Learning = Learning()


QUICK = Plan(
    programs=8,
    tries=60,
    held_out=3,
    budget=15,
    greedy_budget=200,
    seeds=2,
    learning=Learning(rounds=3, updates=50, width=32),
)
