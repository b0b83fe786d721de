"""What a compiler of one's own must declare, and what its methods must return."""

import math
import re
import traceback
import unittest

import steplake
from number import Folder, Number, broken


class Other(Number):
    def save(self):
        return b"other"


class Declarations(Folder):
    def refused(self, said, **changes):
        with self.subTest(said), self.assertRaisesRegex(steplake.UsageError, re.escape(said)):
            steplake.make(broken(**changes))

    def test_what_cannot_be_recorded_is_refused(self):
        self.refused("ends with a version", name="number")
        self.refused("is an environment of steplake", name="llvm-v0")
        self.refused("which compiler it has", version="")
        self.refused("is a text: give a list of names", actions="halve")
        self.refused("has no actions", actions=[])
        self.refused("two actions called `a`", actions=["a", "a"])
        self.refused("without blanks", actions=["a b"])
        self.refused("is what `save` returns", observations={"State": int}, rewards={})
        self.refused("every lake has", observations={"state_key": int}, rewards={})
        self.refused("write int, float, str", observations={"Value": dict}, rewards={})
        self.refused("write int, float, str", observations={"Value": (str, ["a"])}, rewards={})
        self.refused("two features called `a`", observations={"V": (int, "aa")}, rewards={})
        self.refused("no observation space of single numbers", rewards={"R": "Bits"})
        self.refused("no observation space of single numbers", rewards={"R": "Nothing"})
        self.refused("is not a benchmark URI", programs={"": b""})
        with self.assertRaisesRegex(TypeError, "abstract"):
            steplake.make(steplake.Compiler)
        with self.assertRaisesRegex(steplake.UsageError, "does not declare `name`"):
            steplake.make(type("Nameless", (Number,), {"name": property()}))
        with self.assertRaisesRegex(steplake.UsageError, "give the name of one, a subclass"):
            steplake.make(Number())
        one = Number()
        with self.assertRaisesRegex(steplake.UsageError, "returns one Number twice"):
            steplake.make(lambda: one)
        with self.assertRaisesRegex(steplake.UsageError, "has no limits"):
            steplake.make(Number, step_cpu_seconds=3)

    def said(self, space, value):
        """Return what is said about an observation."""
        observe = lambda self, name: value if name == space else Number.observe(self, name)
        env = self.made(broken(observe=observe), observation_space=None, reward_space=None)
        with self.assertRaises(steplake.UsageError) as caught:
            env.reset()
            env.observation[space]
        return str(caught.exception)

    def test_a_value_of_another_type_is_an_error(self):
        for space, value, wanted in [
            ("Value", "7", "an integer of 64 bits"),
            ("Value", 7.5, "an integer of 64 bits"),
            ("Value", True, "an integer of 64 bits"),
            ("Value", 2**63, "an integer of 64 bits"),
            ("Value", None, "an integer of 64 bits"),
            ("Energy", "7", "a number that is not NaN"),
            ("Energy", math.nan, "a number that is not NaN"),
            ("Bits", [1], "a list of 2 integers of 32 bits (low, high)"),
            ("Bits", [1, 2**31], "a list of 2 integers of 32 bits (low, high)"),
            ("Bits", {1, 2}, "a list of 2 integers of 32 bits (low, high)"),
            ("Bits", [1, 0.5], "a list of 2 integers of 32 bits (low, high)"),
            ("Roots", [1, math.nan], "a list of 2 numbers that are not NaN (square, cube)"),
            ("Text", b"text", "a str"),
            ("Names", "text", "a list of str"),
            ("Divisors", b"12", "a list of integers of 32 bits"),
        ]:
            with self.subTest(f"{space} {value!r}"):
                said = f"Broken.observe({space!r}) returned {value!r}, and should return {wanted}"
                self.assertEqual(self.said(space, value).replace('"', "'"), said)
        for space, value in [("Energy", math.inf), ("Value", 2**53 + 1)]:
            with self.subTest(f"{space} {value!r}"):
                self.assertIn("a cost should be finite", self.said(space, value))

    def test_methods_that_return_something_else(self):
        for said, methods in {
            "Broken.save() returned '12', and should return bytes": {"save": lambda _: "12"},
            "returned 'yes', and should return True, False or None": {"apply": lambda *_: "yes"},
            "Broken.fork() returned itself": {"fork": lambda self: self},
            "leads to another state": {"fork": lambda _: Other()},
        }.items():
            env = self.made(broken(**methods))
            with self.subTest(said), self.assertRaisesRegex(steplake.UsageError, re.escape(said)):
                env.reset()
                env.step(0)
                env.fork()

    def test_an_exception_elsewhere_is_not_hidden(self):
        def observe(self, space):
            raise KeyError(space)

        env = self.made(broken(observe=observe))
        try:
            env.reset()
        except KeyError as error:
            self.assertEqual(error.args, ("Energy",))
            self.assertEqual(traceback.extract_tb(error.__traceback__)[-1].name, "observe")
        else:
            self.fail("the exception is gone")


if __name__ == "__main__":
    unittest.main()
