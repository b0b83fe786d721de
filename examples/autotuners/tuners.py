"""The tuners by name."""

from __future__ import annotations

import importlib
from collections.abc import Callable

import plain
from protocol import Space, Tuner

#: Makes a tuner from what it looks through, a seed, and how often it will be asked, if known.
Maker = Callable[[Space, int, int | None], Tuner]


def _nevergrad(space: Space, seed: int, evaluations: int | None) -> Tuner:
    from with_nevergrad import Nevergrad, choices

    return Nevergrad(choices(space), seed, evaluations)


def _nevergrad_integers(space: Space, seed: int, evaluations: int | None) -> Tuner:
    from with_nevergrad import Nevergrad, integers

    return Nevergrad(integers(space, seed), seed, evaluations)


def _opentuner(space: Space, seed: int, evaluations: int | None) -> Tuner:
    from with_opentuner import OpenTuner

    return OpenTuner(space, seed)


def _opentuner_ga(space: Space, seed: int, evaluations: int | None) -> Tuner:
    from with_opentuner import OpenTuner

    return OpenTuner(space, seed, "BinaryGA")


TUNERS: dict[str, Maker] = {
    "nevergrad": _nevergrad,
    "nevergrad-integers": _nevergrad_integers,
    "opentuner": _opentuner,
    "opentuner-ga": _opentuner_ga,
    "random": lambda space, seed, _: plain.RandomSequences(space, seed),
    "greedy": lambda space, seed, _: plain.Greedy(space, seed),
}


class NoSuchTuner(Exception):
    """There is no tuner of this name, or its library is missing."""


def maker(name: str) -> Maker:
    """Return what makes the tuner of this name, or the function `MODULE:FUNCTION`."""
    if name in TUNERS:
        return TUNERS[name]
    module, colon, function = name.partition(":")
    if not colon:
        raise NoSuchTuner(f"there is no tuner {name}: write {', '.join(TUNERS)} or MODULE:FUNCTION")
    try:
        made: Maker = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise NoSuchTuner(f"the tuner {name} cannot be had: {error}") from error
    return made


def make(name: str, space: Space, seed: int, evaluations: int | None) -> Tuner:
    """Make a tuner."""
    try:
        return maker(name)(space, seed, evaluations)
    except ModuleNotFoundError as error:
        raise NoSuchTuner(
            f"{name} needs the package {error.name}: "
            "pip install -r examples/autotuners/requirements.txt"
        ) from error
