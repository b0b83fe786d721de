"""A compiler of one's own, for the tests."""

import gc
import math
import tempfile
import unittest
from pathlib import Path

import numpy as np
import steplake


class Number(steplake.Compiler):
    """A number, whose cost is not exact in binary."""

    name = "number-v0"
    version = "number 1"
    actions = ["halve", "decrement", "keep", "fail"]
    observations = {
        "Value": int,
        "Energy": float,
        "Bits": (int, ("low", "high")),
        "Roots": (float, ("square", "cube")),
        "Divisors": list[int],
        "Text": str,
        "Names": list[str],
    }
    rewards = {"Energy": "Energy", "Value": "Value"}
    programs = {"seven": b"7", "large": b"1000"}

    def start(self, program):
        if program == b"kill":
            raise RuntimeError("no\n  way")
        self.value = int(program)

    def apply(self, action):
        if action == "fail":
            raise ArithmeticError(f"cannot take\n{self.value}")
        if action == "keep":
            return False
        self.value = self.value // 2 if action == "halve" else self.value - 1

    def save(self):
        return str(self.value).encode()

    def observe(self, space):
        value = self.value
        return {
            "Value": value,
            "Energy": 0.1 * value,
            "Bits": [value % 2, value // 2],
            "Roots": np.array([math.sqrt(abs(value)), math.cbrt(value)]),
            "Divisors": [n for n in range(1, abs(value) + 1) if value % n == 0],
            "Text": f"the number {value}",
            "Names": ["even"] if value % 2 == 0 else ["odd", "not even"],
        }[space]


def energy(value):
    return 0.1 * value


def broken(**methods):
    """Return a class that differs from `Number` in some methods and attributes."""
    return type("Broken", (Number,), methods)


class Folder(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        # A lake that is still open must go before its folder.
        self.addCleanup(gc.collect)
        self.path = Path(folder.name) / "lake"

    def made(self, compiler=Number, **options):
        env = steplake.make(compiler, **{"benchmark": b"12", **options})
        self.addCleanup(env.close)
        return env
