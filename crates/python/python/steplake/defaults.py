"""What an environment or a lake is about where nothing is named."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from steplake import _steplake
from steplake.errors import CompilerUnavailable, NotInLake

#: Stands for an argument that is not given, where None means something.
UNSET: Any = object()

# By environment, where the first of its own is not the usual one: the benchmark, observation space
# and reward space.
_PREFERRED: dict[str, tuple[str, str, str]] = {
    "llvm-v0": ("benchmark://steplake-v0/huffman", "Autophase", "IrInstructionCountOz"),
}


def names_of(names: str | Sequence[str]) -> list[str]:
    """Return names as a list; a text is one name."""
    return [names] if isinstance(names, str) else list(names)


def demand_known(environment: str) -> None:
    """Refuse an environment that is not one of this package.

    Raises
    ------
    CompilerUnavailable
        If it is somebody's own.
    """
    if environment not in _steplake.environments():
        raise CompilerUnavailable(
            f"the lake is of {environment}, which is no environment of this package: if it is a "
            "compiler of your own, make it from its class, `steplake.make(CLASS)`"
        )


def usual_spaces(
    environment: str, vectors: list[str], rewards: list[str]
) -> tuple[str | None, str | None]:
    """Return the observation space and the reward space of an environment.

    Parameters
    ----------
    environment : str
        The name of the environment.
    vectors, rewards : list of str
        The observation spaces to choose from, and the reward spaces. If the usual one is not there,
        the first one is taken.
    """
    _benchmark, observed, rewarded = _PREFERRED.get(environment, (None, None, None))
    return (
        observed if observed in vectors else next(iter(vectors), None),
        rewarded if rewarded in rewards else next(iter(rewards), None),
    )


class ChosenSpaces(NamedTuple):
    """The spaces in which the episodes of a lake are read, by name."""

    observation: str | None
    reward: str | None
    #: The numbers of an observation; 0 where it is no vector of one length.
    length: int


def chosen_spaces(
    lake: _steplake.Lake, observation_space: str | None, reward_space: str | None
) -> ChosenSpaces:
    """Return the spaces of a lake that are asked for, or its usual ones.

    Raises
    ------
    NotInLake
        If the lake does not have a space.
    """
    info, features = lake.info(), lake.observation_spaces
    vectors = [name for name in features if features[name]]
    usual = usual_spaces(info["environment"], vectors or list(features), info["rewards"])
    observed = usual[0] if observation_space is UNSET else observation_space
    rewarded = usual[1] if reward_space is UNSET else reward_space
    for kind, name, known in [
        ("observation", observed, info["observations"]),
        ("reward", rewarded, info["rewards"]),
    ]:
        if name is not None and name not in known:
            has = f"it has {', '.join(known)}" if known else "it has none"
            raise NotInLake(f"the lake has no {kind} space {name!r}: {has}")
    length = 0 if observed is None else len(features.get(observed, ()))
    return ChosenSpaces(observed, rewarded, length)


def usual_benchmark(core: _steplake.Environment) -> str | None:
    """Return the benchmark of an environment: of a lake, or of one of your own, the first one."""
    recorded = core.recorded_benchmarks()
    if recorded is not None:
        return next(iter(recorded), None)
    if core.name in _PREFERRED:
        return _PREFERRED[core.name][0]
    examples = [example for *_, example in core.datasets()]
    return core.benchmarks(examples[:1])[0] if examples else None
