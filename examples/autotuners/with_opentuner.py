"""OpenTuner's techniques as tuners."""

from __future__ import annotations

import argparse
import contextlib
import logging
import math
import random
import warnings
from collections.abc import Iterator, Sequence

import numpy as np

from protocol import Space

with warnings.catch_warnings():
    # OpenTuner calls SQLAlchemy by names that are on their way out.
    warnings.simplefilter("ignore")
    import opentuner
    from opentuner import tuningrunmain
    from opentuner.api import TuningRunManager
    from opentuner.measurement.interface import DefaultMeasurementInterface

#: How often a technique may propose nothing new before it counts as being at its end.
EMPTY_GENERATIONS_MAX = 100


class OpenTuner:
    """A technique of OpenTuner over one integer for each place of a sequence.

    OpenTuner draws from the generators of the process. So that one seed gives one search, whatever
    else draws, this puts a state of its own there for each call. Integers, and not parameters of
    its type for choices: with those, equal seeds gave different sequences in different processes.

    Parameters
    ----------
    space : Space
        What it looks through.
    seed : int
        The seed of its lots.
    technique : str, optional
        The name of a technique, such as ``BinaryGA``; by default the bandit that OpenTuner takes,
        ``AUCBanditMetaTechniqueA``.
    """

    def __init__(self, space: Space, seed: int, technique: str | None = None) -> None:
        # It would write a file into the working directory, and replace the program's log handlers.
        tuningrunmain.init_logging = lambda: None
        logging.getLogger("opentuner").setLevel(logging.ERROR)
        options = ["--no-dups", "--database=sqlite://"]
        options += [f"--technique={technique}"] if technique else []
        arguments = argparse.ArgumentParser(parents=opentuner.argparsers()).parse_args(options)
        self._names = [f"{place:04}" for place in range(space.length)]
        manipulator = opentuner.ConfigurationManipulator()
        for name in self._names:
            manipulator.add_parameter(opentuner.IntegerParameter(name, 0, space.actions - 1))
        interface = DefaultMeasurementInterface(
            args=arguments,
            manipulator=manipulator,
            project_name="steplake",
            program_name="program",
            program_version="0",
        )
        seeds = np.random.SeedSequence(seed).generate_state(2)
        self._lots = (
            random.Random(int(seeds[0])).getstate(),
            np.random.RandomState(seeds[1]).get_state(),
        )
        with self._own_lots():
            self._manager = TuningRunManager(interface, arguments)

    @contextlib.contextmanager
    def _own_lots(self) -> Iterator[None]:
        """Put the tuner's own state into the generators of the process."""
        others = random.getstate(), np.random.get_state()
        random.setstate(self._lots[0])
        np.random.set_state(self._lots[1])
        try:
            with warnings.catch_warnings():
                # SQLAlchemy warns of things that OpenTuner does on purpose.
                warnings.simplefilter("ignore")
                yield
        finally:
            self._lots = random.getstate(), np.random.get_state()
            random.setstate(others[0])
            np.random.set_state(others[1])

    def ask(self) -> list[int] | None:
        """Return a sequence; None if the technique proposes nothing new any more."""
        with self._own_lots():
            for _ in range(EMPTY_GENERATIONS_MAX):
                self._asked = self._manager.get_next_desired_result()
                if self._asked is not None:
                    numbers = self._asked.configuration.data
                    return [int(numbers[name]) for name in self._names]
        return None

    def tell(self, sequence: Sequence[int], cost: float) -> None:
        """Pass on what the sequence costs."""
        state = "OK" if math.isfinite(cost) else "ERROR"
        with self._own_lots():
            result = opentuner.Result(state=state, time=cost)
            self._manager.report_result(self._asked, result)
