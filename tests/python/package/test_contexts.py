"""A lake of several contexts in Python."""

import pickle
import tempfile
import unittest
from pathlib import Path

import steplake

BENCHMARKS = ["benchmark://steplake-v0/huffman", "benchmark://steplake-v0/introsort"]


class Contexts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="steplake-contexts-")
        cls.addClassCleanup(cls.folder.cleanup)
        cls.path = Path(cls.folder.name) / "lake"
        for seed in (1, 2):
            for options in ({}, {"action_space": "llvm22-pipelines-v0"}, {"environment": "gcc-v0"}):
                steplake.generate(
                    cls.path, BENCHMARKS, episodes=8, episode_length=6, seed=seed, audit=0, progress=False, **options
                )
        cls.lake = steplake.open(cls.path, progress=False)
        for name in cls.lake.contexts:
            cls.lake.context(name).dedup()

    def test_sql_reads_all_contexts_and_a_context_reads_its_own(self):
        lake = self.lake
        self.assertEqual(lake.contexts, ["llvm-v0", "gcc-v0", "llvm-v0-llvm22-pipelines-v0"])
        counted = dict(lake.sql("SELECT context, count(*) FROM steps GROUP BY context").fetchall())
        for name in lake.contexts:
            alone = lake.context(name)
            self.assertEqual(alone.contexts, [name])
            self.assertEqual(alone.sql("SELECT count(*) FROM steps").fetchone(), (counted[name],))
            again = pickle.loads(pickle.dumps(alone))
            self.assertEqual(again.contexts, [name])
            self.assertIn(f'context="{name}"', repr(again))
            self.assertGreater(len(list(alone.iterate_episodes())), 0)

    def test_what_works_on_one_context_asks_for_it(self):
        for ask in (self.lake.info, self.lake.dedup, lambda: self.lake.dataset("steps"), self.lake.iterate_episodes):
            with self.assertRaisesRegex(steplake.UsageError, r"has `llvm-v0`, `gcc-v0`.*lake.context\(NAME\)"):
                list(ask())
        with self.assertRaisesRegex(steplake.UsageError, "no context `gcc`"):
            self.lake.context("gcc")
        self.assertIn("Contexts", self.lake._repr_html_())

    def test_each_context_is_loaded_and_split_without_leaks(self):
        for name in self.lake.contexts:
            rows = self.lake.context(name).dataset("state_transitions")
            parts = rows.train_test_split(0.5, by="program", seed=1)
            self.assertEqual(parts.report["leaked_states"], 0, name)
            batches = sum(len(batch) for batch in parts["train"].loader(batch_size=16))
            self.assertGreater(batches, 0, name)

    def test_a_context_is_an_environment(self):
        env = steplake.make("replay-v0", lake=self.path, context="llvm-v0-llvm22-pipelines-v0")
        self.addCleanup(env.close)
        env.reset()
        self.assertEqual(len(env.action_space.names), 5)
        with self.assertRaisesRegex(steplake.UsageError, "works on one context"):
            steplake.make("replay-v0", lake=self.path)


if __name__ == "__main__":
    unittest.main()
