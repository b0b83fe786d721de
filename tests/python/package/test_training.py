"""Rows for training as arrays of NumPy: their values, orders, states and splits."""

import multiprocessing
import pickle
import tempfile
import unittest
import warnings
from pathlib import Path

import numpy as np

import steplake
from lakes import LakeCase, record_toy

JOINED = """
SELECT t.action, t.reward_Cost, t.count, o."Bits" AS before, n."Bits" AS after
FROM state_transitions AS t
JOIN observations AS o ON o.state_id = t.state_id
JOIN observations AS n ON n.state_id = t.next_state_id
ORDER BY t.state_key, t.state_id, t.action
"""


def joined(batches):
    """All rows of batches, as bytes: one for each row."""
    rows = []
    for batch in batches:
        columns = [np.asarray(batch[name]) for name in sorted(batch)]
        rows += [
            b"|".join(column[row].tobytes() for column in columns) for row in range(len(columns[0]))
        ]
    return rows


def read_elsewhere(dataset, queue):
    queue.put(joined(dataset.loader(4)))


class Rows(LakeCase):
    def test_columns_are_those_of_the_joined_tables(self):
        wanted = self.lake.sql(JOINED).to_arrow_table().to_pydict()
        rows = self.lake.dataset("state_transitions")
        self.assertEqual(rows.column_names, ["Bits", "action", "reward_Cost", "next_Bits"])
        self.assertEqual(len(rows), len(wanted["action"]))
        for name, column in [("Bits", "before"), ("next_Bits", "after")]:
            self.assertEqual(rows[name].tolist(), wanted[column])
            self.assertEqual((rows[name].dtype, rows[name].ndim), (np.int32, 2))
        self.assertEqual(rows["action"].tolist(), wanted["action"])
        self.assertEqual(rows["reward_Cost"].tolist(), wanted["reward_Cost"])
        self.assertEqual(rows["reward_Cost"].dtype, np.float32)
        self.assertEqual(
            self.lake.dataset("state_transitions", ["count"])[:]["count"].dtype, np.int64
        )

    def test_steps_are_those_of_the_episodes(self):
        rows = self.lake.dataset("steps")[:]
        episodes = list(self.lake.iterate_episodes())
        for name, wanted in [
            ("Bits", [episode.observations[:-1] for episode in episodes]),
            ("next_Bits", [episode.observations[1:] for episode in episodes]),
            ("action", [episode.actions for episode in episodes]),
            ("reward_Cost", [episode.rewards for episode in episodes]),
            ("terminated", [episode.terminations for episode in episodes]),
            ("truncated", [episode.truncations for episode in episodes]),
        ]:
            np.testing.assert_array_equal(rows[name], np.concatenate(wanted), name)
        self.assertEqual(rows["terminated"].dtype, np.bool_)

    def test_rows_and_batches_by_place(self):
        rows = self.lake.dataset("state_transitions")
        all_rows = joined([rows[:]])
        self.assertEqual(joined([rows[[3, 1, -1]]]), [all_rows[place] for place in [3, 1, -1]])
        self.assertEqual(joined([rows[2:7:2]]), all_rows[2:7:2])
        one = rows[np.int64(-2)]
        self.assertEqual((one["Bits"].shape, one["action"].shape), ((16,), ()))
        self.assertEqual([sorted(row) for row in rows.__getitems__([0, 1])], [sorted(one)] * 2)
        self.assertEqual(len(list(rows)), len(rows))
        for wrong in [len(rows), -len(rows) - 1, [0, len(rows)]]:
            with self.assertRaises(IndexError):
                rows[wrong]
        with self.assertRaises(KeyError):
            rows["actions"]
        with self.assertRaisesRegex(steplake.UsageError, "mask"):
            rows[np.ones(len(rows), bool)]
        with self.assertRaisesRegex(steplake.UsageError, "an integer, and not a float64"):
            rows[1.5]

    def test_arrays_can_be_written_to(self):
        rows = self.lake.dataset("state_transitions")
        batch = rows[:4]
        before = batch["Bits"].copy()
        batch["Bits"] += 1
        np.testing.assert_array_equal(rows[:4]["Bits"], before)

    def test_filters_columns_and_types(self):
        rows = self.lake.dataset("state_transitions")
        some = rows.filter("action > ? AND count >= 1", [3]).filter("action < $most", {"most": 6})
        wanted = [action for action in rows["action"].tolist() if 3 < action < 6]
        self.assertEqual(some["action"].tolist(), wanted)
        self.assertEqual(some.select_columns("action").column_names, ["action"])
        typed = some.with_format(dtype={"action": "int64", "Bits": np.float32})
        self.assertEqual(
            typed.features,
            {
                "Bits": "float32[16]",
                "action": "int64",
                "reward_Cost": "float32",
                "next_Bits": "int32[16]",
            },
        )
        np.testing.assert_array_equal(typed["Bits"], some["Bits"].astype(np.float32))
        self.assertEqual(typed["action"].dtype, np.int64)
        self.assertEqual(typed.select_columns(["Bits"]).features, {"Bits": "float32[16]"})
        for wrong in ["action +", "actions = 1"]:
            with self.assertRaises(steplake.QueryError):
                rows.filter(wrong)
        with self.assertRaisesRegex(steplake.UsageError, "reward_Cost.*choose another"):
            rows.with_format(dtype="int32")
        with self.assertRaisesRegex(steplake.UsageError, "no format 'jax'"):
            rows.with_format("jax")

    def test_what_is_not_there(self):
        with self.assertRaisesRegex(steplake.NotInLake, 'no dataset of "episodes"'):
            self.lake.dataset("episodes")
        with self.assertRaisesRegex(
            steplake.NotInLake, "steps have no column `Bit`: did you mean `Bits`"
        ):
            self.lake.dataset("steps", ["Bit"])
        with tempfile.TemporaryDirectory() as folder:
            lake = record_toy(Path(folder) / "lake")
            with self.assertRaises(steplake.NotDeduplicated), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                lake.dataset("state_transitions")
            # Their steps are sealed, and wait for no dedup.
            self.assertEqual(len(lake.dataset("steps")), 30)
            lake = record_toy(Path(folder) / "hot", seal=False)
            with self.assertRaisesRegex(steplake.NotDeduplicated, r"30 steps.*lake\.dedup\(\)"):
                lake.dataset("steps")

    def test_a_text_is_one_name(self):
        rows = self.lake.dataset("steps", "action")
        self.assertEqual(rows.column_names, ["action"])
        self.assertEqual(rows.with_format(columns="action").column_names, ["action"])

    def test_a_loader_of_arrays_has_no_places(self):
        with self.assertRaisesRegex(steplake.UsageError, "with_format"):
            self.lake.dataset("steps").loader(4)[0]

    def test_slices_longer_than_all_episodes_are_told(self):
        with self.assertWarnsRegex(UserWarning, "no episode has 100 consecutive steps"):
            self.assertEqual(len(self.lake.dataset("steps").slices(100)), 0)

    def test_steps_newer_than_the_dedup_are_named(self):
        with tempfile.TemporaryDirectory() as folder:
            lake = record_toy(Path(folder) / "lake")
            lake.dedup()
            rows = len(lake.dataset("steps"))
            for number, seal in enumerate([False, True], start=2):
                record_toy(Path(folder) / "lake", seal=seal)
                with self.subTest(seal=seal):
                    with self.assertWarnsRegex(UserWarning, "leaves out 30 steps.*dedup"):
                        lake.dataset("state_transitions", ["count"])
                lake.dedup()
                self.assertEqual(len(lake.dataset("steps")), number * rows)

    def test_select_and_pickle(self):
        rows = self.lake.dataset("state_transitions").shuffle(seed=4)
        some = rows.select([5, 2, 9])
        self.assertEqual(joined([some[:]]), joined([rows[[5, 2, 9]]]))
        with self.assertRaisesRegex(steplake.UsageError, "filter first"):
            some.filter("true")
        for one in [rows, some, rows.train_test_split(by="row")["test"]]:
            again = pickle.loads(pickle.dumps(one))
            self.assertEqual(joined([again[:]]), joined([one[:]]))
            self.assertEqual(again.fingerprint, one.fingerprint)


class Sequences(LakeCase):
    COLUMNS = ("episode_id", "step_index", "action", "reward_Cost", "next_Bits", "truncated")

    def setUp(self):
        self.steps = self.lake.dataset("steps", self.COLUMNS)

    def test_slices_stay_within_episodes(self):
        for length, stride in [(1, 1), (3, 1), (4, 2), (10, 1)]:
            slices = self.steps.slices(length, stride)
            batch = slices[:]
            self.assertEqual(batch["next_Bits"].shape, (len(slices), length, 16))
            self.assertTrue((batch["episode_id"] == batch["episode_id"][:, :1]).all())
            self.assertTrue((np.diff(batch["step_index"], axis=1) == 1).all())
            wanted = {
                (episode, begin)
                for episode in set(self.steps["episode_id"])
                for begin in range(1, 12 - length, stride)
            }
            found = zip(batch["episode_id"][:, 0], batch["step_index"][:, 0], strict=True)
            self.assertEqual(sorted(found), sorted(wanted))
        self.assertEqual(len(self.steps.slices(11)), 0)
        loader = self.steps.slices(3).shuffle(seed=1).loader(5)
        self.assertEqual(sum(len(some["action"]) for some in loader), 24)

    def test_slices_do_not_reach_over_filtered_steps(self):
        slices = self.steps.filter("step_index <> 5").slices(3)
        self.assertEqual(sorted(set(slices[:]["step_index"][:, 0])), [1, 2, 6, 7, 8])

    def test_whole_episodes(self):
        episodes = self.steps.episodes().shuffle(seed=5)
        self.assertEqual(len(episodes), 3)
        [batch] = episodes.loader(3)
        recorded = {episode.id: episode for episode in self.lake.iterate_episodes()}
        for begin, end in zip(batch["ptr"], batch["ptr"][1:], strict=False):
            episode = recorded[int(batch["episode_id"][begin])]
            self.assertEqual(batch["action"][begin:end].tolist(), episode.actions.tolist())
        items = list(episodes)
        self.assertEqual([len(item["action"]) for item in items], [10] * 3)
        for item, other in zip(items, episodes.__getitems__([0, 1, 2]), strict=True):
            np.testing.assert_equal(item, other)
        np.testing.assert_equal(episodes[1], items[1])
        some = self.steps.filter("action <> 9 OR step_index > 1").episodes()
        self.assertEqual(len(some), 3)
        self.assertEqual(len(self.steps.filter("step_index > 1").episodes()), 0)

    def test_rewards_over_several_steps(self):
        for n, gamma in [(1, 1.0), (3, 0.5), (100, 0.9)]:
            found = pickle.loads(pickle.dumps(self.steps.n_step(n, gamma)))[:]
            row = 0
            for episode in self.lake.iterate_episodes():
                for first in range(len(episode)):
                    rewards = episode.rewards[first : first + n]
                    last = first + len(rewards) - 1
                    wanted = sum(gamma**later * reward for later, reward in enumerate(rewards))
                    self.assertAlmostEqual(float(found["reward_Cost"][row]), wanted, places=5)
                    self.assertEqual(found["n_steps"][row], len(rewards))
                    self.assertEqual(found["truncated"][row], episode.truncations[last])
                    np.testing.assert_array_equal(
                        found["next_Bits"][row], episode.observations[last + 1]
                    )
                    row += 1
            self.assertEqual(row, len(found["action"]))

    def test_what_has_no_sequences(self):
        transitions = self.lake.dataset("state_transitions")
        for wrong in [
            lambda: transitions.slices(2),
            lambda: transitions.n_step(2),
            lambda: self.steps.slices(2).slices(2),
            lambda: self.steps.slices(2).train_test_split(by="row"),
            lambda: self.steps.select([3, 1]).episodes(),
            lambda: self.steps.slices(0),
            lambda: self.steps.n_step(1, 1.5),
        ]:
            with self.assertRaises(steplake.UsageError):
                wrong()


class Orders(LakeCase):
    def setUp(self):
        self.rows = self.lake.dataset("state_transitions").shuffle(seed=11)

    def test_a_shuffle_has_every_row_once(self):
        plain = self.lake.dataset("state_transitions")
        shuffled = joined(self.rows.loader(4))
        self.assertEqual(sorted(shuffled), sorted(joined([plain[:]])))
        self.assertNotEqual(shuffled, joined([plain[:]]))
        self.assertEqual(shuffled, joined([self.rows[:]]))
        self.assertEqual(joined(plain.loader(4)), joined([plain[:]]))
        self.assertNotEqual(plain.shuffle().seed, plain.shuffle().seed)

    def test_each_epoch_has_its_order(self):
        loader = self.rows.loader(4)
        first, second = joined(loader), joined(loader)
        self.assertEqual(sorted(first), sorted(second))
        self.assertNotEqual(first, second)
        self.assertEqual(loader.epoch, 2)
        loader.set_epoch(0)
        self.assertEqual(joined(loader), first)
        self.rows.set_epoch(1)
        self.assertEqual(joined(self.rows.loader(4)), second)
        self.assertEqual(joined([self.rows[:]]), second)

    def test_batches_and_their_number(self):
        for drop_last in [False, True]:
            loader = self.rows.loader(4, drop_last)
            sizes = [len(batch["action"]) for batch in loader]
            self.assertEqual(len(sizes), len(loader))
            full, rest = divmod(len(self.rows), 4)
            self.assertEqual(sizes, [4] * full + ([rest] if rest and not drop_last else []))
        for wrong in [{"batch_size": 0}, {"batch_size": 1 << 32}, {"batch_size": 1, "rank": 1}]:
            with self.assertRaises(steplake.UsageError):
                self.rows.loader(**wrong)
        with self.assertRaisesRegex(steplake.UsageError, "of 2 processes"):
            self.rows.loader(4, rank=2, world_size=2)
        self.assertRaises(steplake.UsageError, self.rows.shuffle, -1)

    def test_an_epoch_goes_on_exactly(self):
        whole = joined(self.rows.loader(4))
        for taken in range(len(whole) // 4 + 1):
            loader = self.rows.loader(4, num_threads=2)
            iterator = iter(loader)
            for _ in range(taken):
                next(iterator)
            state = loader.state_dict()
            self.assertEqual(state["rows"], 4 * taken)
            # In another loader, with another number of threads, and in the same one at once.
            other = pickle.loads(pickle.dumps(self.rows)).loader(4, num_threads=0)
            other.load_state_dict(pickle.loads(pickle.dumps(state)))
            self.assertEqual(joined(other), whole[4 * taken :])
            next(iterator, None)
            loader.load_state_dict(state)
            self.assertEqual(joined(iterator), whole[4 * taken :])
            self.assertEqual(loader.epoch, 1)

    def test_rows_go_on_exactly(self):
        iterator = iter(self.rows)
        for _ in range(7):
            next(iterator)
        state = self.rows.state_dict()
        again = self.lake.dataset("state_transitions").shuffle(seed=11)
        again.load_state_dict(state)
        self.assertEqual(len(list(again)), len(self.rows) - 7)

    def test_a_pass_that_is_broken_off_is_followed_by_the_next_epoch(self):
        whole = self.rows.loader(4)
        first, second = joined(whole), joined(whole)
        loader = self.rows.loader(4)
        self.assertEqual(joined([next(iter(loader))]), first[:4])
        self.assertEqual(joined(loader), second)

    def test_a_state_that_is_loaded_after_a_broken_pass_takes_effect(self):
        whole = joined(self.rows.loader(4))
        loader = self.rows.loader(4)
        iterator = iter(loader)
        next(iterator)
        next(iterator)
        state = loader.state_dict()
        next(iterator)
        loader.load_state_dict(state)
        self.assertEqual(loader.state_dict(), state)
        self.assertEqual(joined(loader), whole[8:])

    def test_after_the_end_there_is_nothing(self):
        for threads in [0, 2]:
            iterator = iter(self.rows.loader(4, num_threads=threads))
            self.assertEqual(len(joined(iterator)), len(self.rows))
            self.assertIsNone(next(iterator, None))
            self.assertIsNone(next(iterator, None))

    def test_looking_at_a_row_moves_nothing(self):
        first = next(iter(self.rows))
        np.testing.assert_equal(next(iter(self.rows)), first)
        self.assertEqual(len(joined(self.rows.loader(4))), len(self.rows))
        iterator = iter(self.rows)
        for _ in range(3):
            next(iterator)
        state = self.rows.state_dict()
        next(iterator)
        self.rows.load_state_dict(state)
        np.testing.assert_equal(next(iterator), self.rows[3])

    def test_no_rank_is_without_rows(self):
        for rows, size, world_size in [(9, 4, 2), (13, 2, 3), (10, 3, 3)]:
            some = self.rows.select(range(rows))
            ranks = [
                some.loader(size, rank=rank, world_size=world_size) for rank in range(world_size)
            ]
            sizes = [[len(batch["action"]) for batch in loader] for loader in ranks]
            self.assertEqual(sum(map(sum, sizes)), rows)
            self.assertEqual(len({len(one) for one in sizes}), 1)
            self.assertTrue(all(0 < one <= size for rank in sizes for one in rank), sizes)

    def test_what_is_no_number_is_told_by_its_name(self):
        steps = self.lake.dataset("steps")
        for name, wrong in [
            ("batch_size", lambda: self.rows.loader(1.5)),
            ("batch_size", lambda: self.rows.loader("8")),
            ("num_threads", lambda: self.rows.loader(8, num_threads=-1)),
            ("seed", lambda: self.rows.shuffle(1.0)),
            ("n", lambda: steps.n_step("3")),
            ("length", lambda: steps.slices(0)),
        ]:
            with self.assertRaisesRegex(steplake.UsageError, f"`{name}` is "):
                wrong()
        self.assertEqual(self.rows.loader(np.int64(4)).batch_size, 4)

    def test_what_is_no_state(self):
        loader = self.rows.loader(4)
        state = loader.state_dict()
        for wrong in [{}, {**state, "rows": len(self.rows) + 1}, {**state, "epoch": -1}]:
            with self.assertRaises(steplake.UsageError):
                loader.load_state_dict(wrong)

    def test_another_number_of_processes_goes_on(self):
        whole = joined(self.rows.loader(3))
        first = [iter(self.rows.loader(3, rank=rank, world_size=2)) for rank in range(2)]
        taken = joined([next(iterator) for iterator in first])
        states = [iterator.state_dict() for iterator in first]
        self.assertEqual(states[0], states[1])
        rest = []
        for rank in range(3):
            loader = self.rows.loader(3, rank=rank, world_size=3)
            loader.load_state_dict(states[0])
            rest.append(list(loader))
        self.assertEqual(len({len(batches) for batches in rest}), 1)
        followed = [joined([batch]) for batches in zip(*rest, strict=True) for batch in batches]
        self.assertEqual(taken + sum(followed, []), whole)

    def test_a_seed_that_was_drawn_is_of_one_process_alone(self):
        drawn = self.lake.dataset("state_transitions").shuffle()
        with self.assertRaisesRegex(steplake.UsageError, r"one seed, `shuffle\(seed=0\)`"):
            next(iter(drawn.loader(4, rank=0, world_size=2)))
        loader = drawn.loader(4)
        batches = joined(loader)
        loader.set_epoch(0)
        next(iter(loader))
        # Another process draws another seed, and takes over that of the state.
        again = self.lake.dataset("state_transitions").shuffle().loader(4)
        again.load_state_dict(loader.state_dict())
        self.assertEqual(joined(again), batches[4:])
        # Then it is the loader's own: a state of another one is refused.
        other = self.lake.dataset("state_transitions").shuffle(seed=5).loader(4)
        with self.assertRaisesRegex(steplake.UsageError, "the state is of other rows"):
            again.load_state_dict(other.state_dict())

    def test_a_state_of_other_rows_is_refused(self):
        loader = self.rows.loader(4)
        state = loader.state_dict()
        for other in [
            self.rows.filter("action < 5"),
            self.lake.dataset("steps").shuffle(seed=11),
            self.lake.dataset("state_transitions").shuffle(seed=12),
        ]:
            with self.assertRaisesRegex(steplake.UsageError, "the state is of other rows"):
                other.loader(4).load_state_dict(state)

    def test_forked_and_spawned_processes_read_the_same(self):
        wanted = joined(self.rows.loader(4))
        begun = iter(self.rows.loader(4))
        next(begun)
        for method in ["fork", "spawn", "forkserver"]:
            context = multiprocessing.get_context(method)
            queue = context.Queue()
            process = context.Process(target=read_elsewhere, args=(self.rows, queue))
            process.start()
            self.assertEqual(queue.get(timeout=60), wanted, method)
            process.join()
