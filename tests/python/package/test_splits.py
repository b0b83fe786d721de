"""Splits of rows for training: what they share, report and refuse."""

import pickle
import tempfile
import unittest
from pathlib import Path

import steplake
from test_training import joined


class Splits(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls._folder = tempfile.TemporaryDirectory()
        path = Path(cls._folder.name) / "lake"
        steplake.generate(
            path,
            "generator://toy-v0/0..9",
            environment="toy-v0",
            episodes=60,
            episode_length=8,
            seed=1,
        )
        cls.lake = steplake.open(path)
        cls.lake.dedup()

    @classmethod
    def tearDownClass(cls):
        cls.lake.close()
        cls._folder.cleanup()

    def states(self, rows):
        batch = rows.with_format(columns=["state_id", "next_state_id"])[:]
        return {bytes(state) for name in batch for state in batch[name]}

    def test_a_split_by_programs_shares_no_state(self):
        rows = self.lake.dataset("state_transitions", ["state_id", "next_state_id"])
        for seed in range(4):
            split = rows.train_test_split(0.3, by="program", seed=seed)
            train, test = self.states(split["train"]), self.states(split["test"])
            self.assertFalse(train & test)
            report = split.report
            self.assertEqual((report["leaked_states"], report["test_states"]), (0, len(test)))
            counts = [report[f"{part}_rows"] for part in ["train", "test", "purged"]]
            self.assertEqual(sum(counts), len(rows))
            self.assertEqual(counts[:2], [len(split["train"]), len(split["test"])])

    def test_a_run_that_is_recorded_meanwhile_does_not_end_a_training(self):
        with tempfile.TemporaryDirectory() as folder:
            path, programs = Path(folder, "lake"), "generator://toy-v0/0..9"
            options = {"environment": "toy-v0", "episodes": 30, "episode_length": 6}
            steplake.generate(path, programs, **options)
            steplake.open(path).dedup()
            rows = steplake.open(path).dataset("state_transitions").filter("action < 6")
            part = rows.train_test_split(0.3, by="benchmark")["train"].shuffle(seed=1)
            loader = part.loader(4)
            next(iter(loader))
            state = loader.state_dict()
            steplake.generate(path, programs, seed=2, **options)
            again = pickle.loads(pickle.dumps(part)).loader(4)
            again.load_state_dict(state)
            self.assertEqual(joined(again), joined(part.loader(4))[4:])

    def test_a_part_is_split_again(self):
        rows = self.lake.dataset("state_transitions", ["state_id", "next_state_id"])
        parts = rows.train_test_split(0.3, by="benchmark", seed=3)
        again = parts["train"].train_test_split(0.3, by="benchmark", seed=3)
        self.assertEqual(again.report["leaked_states"], 0)
        self.assertFalse(self.states(again["test"]) & self.states(parts["test"]))
        self.assertLessEqual(len(again["train"]) + len(again["test"]), len(parts["train"]))

    def test_a_split_follows_a_lake_that_is_deduplicated(self):
        with tempfile.TemporaryDirectory() as folder:
            options = {"environment": "toy-v0", "episodes": 30, "episode_length": 6}
            steplake.generate(Path(folder, "lake"), "generator://toy-v0/0..9", **options)
            lake = steplake.open(Path(folder, "lake"))
            lake.dedup()

            def split(table):
                found = lake.dataset(table).train_test_split(0.3, by="benchmark")
                for part in ["train", "test"]:
                    self.assertEqual(len(found[part]), found.report[f"{part}_rows"])
                return found.report

            before = split("steps")
            more = {**options, "seed": 2}
            steplake.generate(Path(folder, "lake"), "generator://toy-v0/0..9", **more)
            lake.seal()
            with self.assertWarns(UserWarning):
                split("state_transitions")
            # The states of newer steps would be taken for states that nothing leads to.
            with self.assertRaisesRegex(steplake.NotDeduplicated, "newer than the last dedup"):
                split("steps")
            lake.dedup()
            after = split("steps")
            self.assertGreater(after["train_rows"], before["train_rows"])

    def test_a_split_by_rows_leaks(self):
        rows = self.lake.dataset("state_transitions", ["state_id", "next_state_id"])
        split = rows.train_test_split(0.3, by="row")
        shared = self.states(split["train"]) & self.states(split["test"])
        self.assertEqual(split.report["leaked_states"], len(shared))
        self.assertGreater(len(shared), 0)
        self.assertEqual(split.report["purged_rows"], 0)

    def test_the_validation_rows_of_a_split_by_rows_leak_too(self):
        rows = self.lake.dataset("state_transitions", ["state_id", "next_state_id"])
        split = rows.train_test_split(0.3, 0.2, by="row")
        train, report = self.states(split["train"]), split.report
        for part, begin in [("test", ""), ("validation", "validation_")]:
            states = self.states(split[part])
            self.assertEqual(report[f"{part}_states"], len(states))
            self.assertEqual(report[f"{begin}leaked_states"], len(states & train))
            batch = split[part].with_format(columns=["state_id"])[:]
            leaked = sum(bytes(state) in train for state in batch["state_id"])
            self.assertEqual(report[f"{begin}leaked_rows"], leaked)
        self.assertNotIn("validation_states", rows.train_test_split(0.3, by="row").report)

    def test_what_cannot_be_split(self):
        rows = self.lake.dataset("state_transitions")
        for share in [0, 1, 1.5]:
            with self.assertRaisesRegex(steplake.UsageError, "between 0 and 1"):
                rows.train_test_split(share)
        with self.assertRaisesRegex(steplake.UsageError, "between 0 and 1, or 0 for no validation"):
            rows.train_test_split(0.2, 1)
        with self.assertRaisesRegex(steplake.UsageError, "leave no rows for training"):
            rows.train_test_split(0.5, 0.5)
        with self.assertRaisesRegex(steplake.UsageError, "choose 'family', 'program' or 'row'"):
            rows.train_test_split(by="licence")
        divides = "are of one family; splitting by program divides its programs"
        with self.assertRaisesRegex(steplake.UsageError, divides):
            rows.train_test_split()

    def test_a_validation_part(self):
        rows = self.lake.dataset("state_transitions", ["state_id", "next_state_id"])
        for seed in range(4):
            # More than half of the rows are of one program.
            with self.assertWarnsRegex(UserWarning, "the largest with"):
                split = rows.train_test_split(0.2, 0.3, by="program", seed=seed)
            self.assertEqual(list(split), ["train", "validation", "test"])
            states = [self.states(split[name]) for name in split]
            for one, other in [(0, 1), (0, 2), (1, 2)]:
                self.assertFalse(states[one] & states[other])
            counts = [split.report[f"{name}_rows"] for name in [*split, "purged"]]
            self.assertEqual(counts[:3], [len(split[name]) for name in split])
            self.assertEqual(sum(counts), len(rows))
            part = split["validation"].shuffle(seed=2)
            again = pickle.loads(pickle.dumps(part))
            self.assertEqual((len(again), again.fingerprint), (len(part), part.fingerprint))
        two = rows.train_test_split(0.2, by="program")
        self.assertEqual(list(two), ["train", "test"])
        self.assertNotIn("validation_rows", two.report)

    def test_parts_that_are_far_from_their_sizes_are_a_warning(self):
        with tempfile.TemporaryDirectory() as folder:
            options = {"environment": "toy-v0", "episode_length": 6}
            path = Path(folder, "lake")
            steplake.generate(path, "generator://toy-v0/0", episodes=40, **options)
            steplake.generate(path, "generator://toy-v0/1..2", episodes=2, seed=1, **options)
            with steplake.open(path) as lake:
                lake.dedup()
                rows = lake.dataset("state_transitions")
                with self.assertWarns(UserWarning) as caught:
                    split = rows.train_test_split(0.4, by="program")
            said = str(caught.warning)
            for name in ["train", "test"]:
                share = 100 * len(split[name]) / len(rows)
                self.assertIn(f"{name} has {len(split[name])} rows ({share:.1f}% and not", said)
            self.assertIn("there are 3 programs, the largest with", said)
            self.assertEqual(caught.filename, __file__)

    def test_a_part_shuffles_pickles_and_resumes(self):
        rows = self.lake.dataset("state_transitions")
        test = rows.train_test_split(0.3, by="benchmark")["test"].shuffle(seed=2)
        again = pickle.loads(pickle.dumps(test))
        self.assertEqual(joined(again.loader(5)), joined(test.loader(5)))
        self.assertEqual(again.fingerprint, test.fingerprint)


if __name__ == "__main__":
    unittest.main()
