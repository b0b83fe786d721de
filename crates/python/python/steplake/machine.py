"""What belongs to the machine: spaces for which the program of a state is built and run here.

No lake records their values with states; `steplake.lake.Lake.measure` records samples of the times.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from gymnasium import spaces

from steplake import _steplake
from steplake.errors import UsageError
from steplake.spaces import ObservationSpec, Text, observation_specs

#: More than any size. The next power of two is more than Gymnasium can draw from.
_SIZE_MAX = 2**62

#: Caches that an observation of ``CpuInfo`` counts.
_CACHES = ("l1d", "l1i", "l2", "l3", "l4")

#: What makes the values of a session those of a space.
_SHOWN: Mapping[str, Callable[[Any], Any]] = {
    "IsBuildable": bool,
    "IsRunnable": bool,
    "CpuInfo": json.loads,
}


@dataclass(frozen=True)
class Counts:
    """How often a program is run and built for one observation."""

    runtimes: int = 1
    warmups: int = 0
    buildtimes: int = 1


@dataclass(frozen=True)
class MachineSpec(ObservationSpec):
    """An observation space that belongs to the machine."""

    name: str = ""

    def shown(self, value: Any) -> Any:
        """Return a value of a session as one of the space."""
        return value if value is None or self.name not in _SHOWN else _SHOWN[self.name](value)


def machine_space(name: str, counts: Counts) -> spaces.Space[Any]:
    """Return the space of the values of a space that belongs to the machine.

    Parameters
    ----------
    name : str
        Its name.
    counts : Counts
        The numbers of samples.
    """
    match name:
        case "Runtime":
            return spaces.Box(0, np.inf, (counts.runtimes,), np.float64)
        case "Buildtime":
            return spaces.Box(0, np.inf, (counts.buildtimes,), np.float64)
        case "IsBuildable" | "IsRunnable":
            return spaces.Discrete(2)
        case "CpuInfo":
            number = {f"{cache}_cache_count": spaces.Discrete(2**31) for cache in _CACHES}
            # A cache that is not there has the size -1.
            size = {f"{cache}_cache_size": spaces.Discrete(_SIZE_MAX, start=-1) for cache in _CACHES}
            return spaces.Dict(
                {"name": Text(), "cores_count": spaces.Discrete(2**31), **number, **size}
            )
        case "BitcodeFile":
            return Text()
        case _:
            return spaces.Box(0, _SIZE_MAX, (), np.int64)


def all_specs(core: _steplake.Environment, counts: Counts) -> dict[str, ObservationSpec]:
    """Return all observation spaces by name: the environment's own, then those of the machine.

    An environment that makes no machine code has none of the latter.
    """
    own = observation_specs(core.recorded_name, core.observation_spaces)
    machine: dict[str, ObservationSpec] = {
        name: MachineSpec(place, machine_space(name, counts), (), False, name=name)
        for place, name in enumerate(core.machine_spaces, len(own))
    }
    return {**own, **machine}


class OnMachine:
    """An environment whose program is built and run on this machine when that is observed."""

    _counts: Counts

    @property
    def runtime_observation_count(self) -> int:
        """The number of samples in an observation of ``Runtime``; by default 1."""
        return self._counts.runtimes

    @runtime_observation_count.setter
    def runtime_observation_count(self, count: int) -> None:
        self._set_counts(replace(self._counts, runtimes=_number(count, 1)))

    @property
    def runtime_warmup_runs_count(self) -> int:
        """The number of runs before them, which are left out; by default 0."""
        return self._counts.warmups

    @runtime_warmup_runs_count.setter
    def runtime_warmup_runs_count(self, count: int) -> None:
        self._set_counts(replace(self._counts, warmups=_number(count, 0)))

    @property
    def buildtime_observation_count(self) -> int:
        """The number of samples in an observation of ``Buildtime``; by default 1."""
        return self._counts.buildtimes

    @buildtime_observation_count.setter
    def buildtime_observation_count(self, count: int) -> None:
        self._set_counts(replace(self._counts, buildtimes=_number(count, 1)))

    def _set_counts(self, counts: Counts) -> None:
        """Have later observations made so often."""
        raise NotImplementedError


def _number(count: int, least: int) -> int:
    """Return a number of builds or runs.

    Raises
    ------
    UsageError
        If it is none.
    """
    try:
        number = operator.index(count)
    except TypeError:
        raise UsageError(f"{count!r} is no number of builds or runs: give an integer") from None
    if not least <= number < 2**32:
        raise UsageError(f"there cannot be {number} builds or runs: give {least} or more")
    return number
