"""Small lakes for the tests."""

import tempfile
import unittest
from pathlib import Path

import steplake


def record_toy(path, episodes=3, length=10, seal=True):
    """Record episodes of the toy environment."""
    env = steplake.make("toy-v0", benchmark="generator://toy-v0/1")
    with steplake.record(path, env, policy="cycle", seed=7, seal=seal) as recorded:
        for episode in range(episodes):
            recorded.reset()
            for step in range(length):
                _, _, terminated, _, _ = recorded.step((episode + step) % 7)
                if terminated:
                    break
    env.close()
    return steplake.open(path)


class LakeCase(unittest.TestCase):
    """A test with a folder, and a lake in it."""

    @classmethod
    def setUpClass(cls):
        cls._folder = tempfile.TemporaryDirectory()
        cls.folder = Path(cls._folder.name)
        cls.lake = record_toy(cls.folder / "lake")
        cls.lake.dedup()

    @classmethod
    def tearDownClass(cls):
        cls.lake.close()
        cls._folder.cleanup()
