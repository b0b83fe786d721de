"""Wrappers of compiler environments, under CompilerGym's names.

They are Gymnasium wrappers that keep what Gymnasium's own do not pass on: ``multistep``, ``fork``,
observations and rewards by name, the state. ``fork`` of a wrapped environment returns the same
wrappers around the fork.

>>> import steplake
>>> from steplake.wrappers import ConstrainedCommandline, TimeLimit
>>> env = steplake.make("toy-v0", benchmark="generator://toy-v0/1")
>>> env = TimeLimit(ConstrainedCommandline(env, ["increment", "halve"]), max_episode_steps=2)
>>> observation, info = env.reset()
>>> observation, reward, terminated, truncated, info = env.multistep([0, 1])
>>> truncated, env.actions
(True, [0, 1])

Wrappers pass a single step on as a ``multistep``; a wrapper of your own overrides ``multistep``
alone. What is asked for by name comes as the environment has it, past all conversions:
``env.observation["Ir"]``, ``env.reward["IrInstructionCount"]``, and ``observation_spaces=`` and
``reward_spaces=`` of a step. So does ``env.state``.

CompilerGym's wrappers of measured time, ``RuntimeSeries`` and the point estimates of the runtime as
a reward, are not here yet. They come with the environments that run programs.
"""

from steplake.wrappers.benchmarks import (
    CycleOverBenchmarks,
    CycleOverBenchmarksIterator,
    IterateOverBenchmarks,
    NoMoreBenchmarks,
    RandomOrderBenchmarks,
)
from steplake.wrappers.commandline import (
    CommandlineWithTerminalAction,
    ConstrainedCommandline,
    TimeLimit,
)
from steplake.wrappers.core import (
    ActionWrapper,
    CompilerEnvWrapper,
    ObservationWrapper,
    RewardWrapper,
)
from steplake.wrappers.fork import Counter, ForkOnStep, SynchronousSqliteLogger
from steplake.wrappers.observation import AutophaseNormalizedFeatures, ConcatActionsHistogram
from steplake.wrappers.reward import ClampedReward

__all__ = [
    "ActionWrapper",
    "AutophaseNormalizedFeatures",
    "ClampedReward",
    "CommandlineWithTerminalAction",
    "CompilerEnvWrapper",
    "ConcatActionsHistogram",
    "ConstrainedCommandline",
    "Counter",
    "CycleOverBenchmarks",
    "CycleOverBenchmarksIterator",
    "ForkOnStep",
    "IterateOverBenchmarks",
    "NoMoreBenchmarks",
    "ObservationWrapper",
    "RandomOrderBenchmarks",
    "RewardWrapper",
    "SynchronousSqliteLogger",
    "TimeLimit",
]
