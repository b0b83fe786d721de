"""Rows that are streamed from Parquet, in place of being gathered from mapped files."""

import os
import pickle
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import numpy as np

import steplake
from lakes import LakeCase
from test_training import joined


class Streaming(LakeCase):
    def setUp(self):
        cache = tempfile.TemporaryDirectory()
        self.addCleanup(cache.cleanup)
        changed = mock.patch.dict(os.environ, STEPLAKE_CACHE=cache.name)
        changed.start()
        self.addCleanup(changed.stop)
        self.cache = Path(cache.name)
        self.rows = self.lake.dataset("state_transitions").shuffle(seed=11)

    def stream(self, **options):
        return self.rows.loader(4, in_memory=False, **options)

    def test_an_epoch_has_every_row_once(self):
        loader = self.stream()
        first, second = joined(loader), joined(loader)
        self.assertEqual(sorted(first), sorted(joined([self.rows[:]])))
        self.assertEqual(sorted(second), sorted(first))
        self.assertNotEqual(second, first)
        again = self.stream(num_threads=1)
        self.assertEqual(joined(again), first)
        [files] = self.cache.glob("load/*/data")
        self.assertEqual([file.suffix for file in files.iterdir()], [".parquet"])

    def test_columns_have_the_same_numbers(self):
        names = ["state_id", "Bits", "action", "reward_Cost", "next_state_id", "count"]
        for source in ["state_transitions", "steps"]:
            names = names[:5] + (["terminated"] if source == "steps" else ["count"])
            rows = self.lake.dataset(source, names).shuffle(seed=2)
            if source == "steps":
                rows = rows.filter("action < 7").n_step(2, 0.5)
            [mapped] = rows.loader(len(rows), num_threads=0)
            [streamed] = rows.loader(len(rows), num_threads=0, in_memory=False)
            self.assertEqual(list(mapped), list(streamed))
            for name in mapped:
                self.assertEqual(mapped[name].dtype, streamed[name].dtype, name)
                self.assertEqual(mapped[name].shape, streamed[name].shape, name)
            self.assertEqual(sorted(joined([mapped])), sorted(joined([streamed])))

    def test_an_epoch_goes_on_exactly(self):
        whole = joined(self.stream())
        for taken in range(len(whole) // 4 + 1):
            loader = self.stream(num_threads=2)
            iterator = iter(loader)
            for _ in range(taken):
                next(iterator)
            state = loader.state_dict()
            # A loader that may choose takes over that rows are streamed.
            for options in [{"in_memory": False}, {}]:
                other = pickle.loads(pickle.dumps(self.rows)).loader(4, num_threads=0, **options)
                other.load_state_dict(pickle.loads(pickle.dumps(state)))
                self.assertEqual(joined(other), whole[4 * taken :])
        with self.assertRaisesRegex(steplake.UsageError, "`in_memory` is False"):
            self.rows.loader(4, in_memory=True).load_state_dict(state)
        with self.assertRaisesRegex(steplake.UsageError, "into a loader"):
            self.rows.load_state_dict(state)

    def test_processes_divide_the_rows(self):
        ranks = [self.stream(rank=rank, world_size=2) for rank in range(2)]
        self.assertEqual(len({len(rank) for rank in ranks}), 1)
        rows = [row for rank in ranks for row in joined(rank)]
        self.assertEqual(sorted(rows), sorted(joined([self.rows[:]])))

    def test_only_large_shuffled_rows_are_streamed_by_default(self):
        self.assertTrue(self.rows.loader(4).in_memory)
        with mock.patch("steplake.loader._memory_bytes", return_value=2 * self.rows.nbytes - 1):
            self.assertFalse(self.rows.loader(4).in_memory)
            self.assertTrue(self.rows.loader(4, in_memory=True).in_memory)
            self.assertTrue(self.lake.dataset("state_transitions").loader(4).in_memory)
            slices = self.lake.dataset("steps").slices(3).shuffle(seed=1)
            self.assertTrue(slices.loader(4).in_memory)
            # Machines of different size would disagree.
            self.assertTrue(self.rows.loader(4, rank=0, world_size=2).in_memory)
        with self.assertRaisesRegex(steplake.UsageError, "not streamed"):
            next(iter(slices.loader(4, in_memory=False)))
        for wrong in ["yes", 1, None, np.True_]:
            with self.assertRaisesRegex(steplake.UsageError, "'auto'"):
                self.rows.loader(4, in_memory=wrong)

    def test_features_of_both_states_are_in_memory_once(self):
        def nbytes(*columns):
            return self.lake.dataset("state_transitions", columns).nbytes

        self.assertLess(nbytes("Bits", "next_Bits"), nbytes("Bits") + nbytes("next_Bits"))

    def test_rows_in_order_are_not_streamed(self):
        plain = self.lake.dataset("state_transitions")
        self.assertEqual(joined(plain.loader(4, in_memory=False)), joined([plain[:]]))
        np.testing.assert_equal(list(self.cache.glob("load/*/data")), [])


if __name__ == "__main__":
    unittest.main()
