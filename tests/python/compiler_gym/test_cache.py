"""The unmodified client plays from a cache that it shares: the second episode needs no compiler."""

import re
import tempfile
import unittest
import urllib.request
from pathlib import Path

import compiler_gym  # noqa: F401 (registers the environments)
import gym
import numpy as np
from support import HUFFMAN, Server, query

PASSES = ["-mem2reg", "-instcombine", "-simplifycfg", "-instcombine", "-gvn"]
OBSERVED = ["IrInstructionCount", "Autophase", "InstCount"]


class Cache(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="steplake-compiler-gym-")
        self.addCleanup(folder.cleanup)
        self.lake = Path(folder.name) / "lake"

    def play(self, server):
        """What an episode observes and earns, step by step."""
        env = gym.make("llvm-v0", service=server.address, benchmark=HUFFMAN, reward_space="IrInstructionCountOz")
        try:
            env.reset()
            seen = []
            for name in PASSES:
                action = env.action_space.flags.index(name)
                spaces = [env.observation.spaces[space] for space in OBSERVED]
                observations, reward, done, info = env.step(action, observation_spaces=spaces)
                self.assertFalse(done, info)
                seen.append(([np.asarray(one).tolist() for one in observations], reward))
            return seen
        finally:
            env.close()

    def server(self):
        server = Server("--cache", "--lake", self.lake, "--http", "127.0.0.1:0")
        self.addCleanup(lambda: server.process.poll() is None and server.stop())
        return server

    def misses(self, server):
        """How many steps compilers have taken since the server's start."""
        address = re.search(r"http://127\.0\.0\.1:\d+", server.said).group()
        with urllib.request.urlopen(f"{address}/metrics") as answer:
            counters = answer.read().decode()
        return int(re.search(r"^steplake_cache_misses_total (\d+)$", counters, re.MULTILINE).group(1))

    def steps(self):
        return query(self.lake, "SELECT count(*) AS n FROM steps WHERE action IS NOT NULL")[0]["n"]

    def test_a_second_client_gets_the_same_from_the_lake_also_after_a_restart(self):
        server = self.server()
        live = self.play(server)
        self.assertEqual(self.misses(server), len(PASSES))
        again = self.play(server)
        self.assertEqual(self.misses(server), len(PASSES))
        self.assertEqual(server.stop(), 0)
        recorded = self.steps()
        self.assertEqual(recorded, len(PASSES))

        server = self.server()
        restarted = self.play(server)
        self.assertEqual(self.misses(server), 0)
        self.assertEqual(server.stop(), 0)
        self.assertEqual(self.steps(), recorded)

        without = Server()
        plain = self.play(without)
        self.assertEqual(without.stop(), 0)
        self.assertEqual(live, plain)
        self.assertEqual(again, plain)
        self.assertEqual(restarted, plain)


if __name__ == "__main__":
    unittest.main()
