"""What a loader and the workers of a DataLoader share: which epoch comes next.

The processes here stand in for those of a ``DataLoader``: PyTorch tells each who it is, and gives
all workers of a pass one seed. `test_loaders.py` has the same with PyTorch itself.
"""

import functools
import multiprocessing
import os
import pickle
import random
import sys
import types
import unittest
import warnings

from lakes import LakeCase
from steplake._workers import Moment, SharedEpoch

SECONDS_MAX = 60
CONTEXTS = ["fork", "spawn", "forkserver"]


def be_worker(id, workers, seed):
    """Have this process be a worker of a ``DataLoader``."""
    info = types.SimpleNamespace(id=id, num_workers=workers, seed=seed + id)
    told = types.SimpleNamespace(get_worker_info=lambda: info)
    sys.modules["torch.utils.data"] = told


def work(task, given, worker, results):
    be_worker(*worker)
    results.put((worker[0], task(given)))


def begin(epoch):
    return epoch.begin_pass()


def order(rows):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        actions = [int(row["action"]) for row in rows.__getitems__(list(range(5)))]
    return rows.epoch, actions, [str(one.message) for one in caught]


def read(rows, *, batch_size, sampled=False):
    """What is warned of while this worker reads its batches of a pass, as a ``DataLoader`` does."""
    worker = sys.modules["torch.utils.data"].get_worker_info()
    places = list(range(len(rows)))
    if sampled:
        # One order for all workers of a pass.
        random.Random(worker.seed - worker.id).shuffle(places)
    step = batch_size or 1
    batches = [places[start : start + step] for start in range(0, len(places), step)]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for batch in batches[worker.id :: worker.num_workers]:
            if batch_size is None:
                rows[batch[0]]
            else:
                rows.__getitems__(batch)
    return [str(one.message) for one in caught]


def read_twice(rows):
    """What is warned of in two passes of a persistent worker."""
    return [read(rows, batch_size=1) for _ in range(2)]


def passed(task, given, context, *, workers=2, seed=7):
    """What each worker of a pass returns, by its number."""
    processes = multiprocessing.get_context(context)
    results = processes.Queue()
    started = [
        processes.Process(target=work, args=(task, given, (id, workers, seed), results))
        for id in range(workers)
    ]
    for process in started:
        process.start()
    found = dict(results.get(timeout=SECONDS_MAX) for _ in started)
    for process in started:
        process.join(SECONDS_MAX)
    return [found[id] for id in range(workers)]


def pass_of_rank(epoch, results):
    """One of several processes, with workers of its own."""
    results.put(passed(begin, epoch, "fork"))


class Epochs(unittest.TestCase):
    def test_all_workers_of_a_pass_take_one_epoch_and_the_next_pass_another(self):
        for context in CONTEXTS:
            epoch, here = SharedEpoch(3), os.getpid()
            # PyTorch's seed of a pass may be the same again.
            for number, seed in enumerate([7, 8, 8, 7]):
                found = passed(begin, epoch, context, seed=seed)
                self.assertEqual(found, [(3 + number, Moment(here, number))] * 2, context)
            self.assertEqual(epoch.get(), 7)
            epoch.set(0)
            found = passed(begin, epoch, context, workers=3)
            self.assertEqual(found, [(0, Moment(here, 4))] * 3)

    def test_a_pass_that_one_worker_never_began(self):
        epoch = SharedEpoch()
        [alone] = passed(begin, epoch, "fork", workers=1, seed=1)
        self.assertEqual(alone[0], 0)
        self.assertEqual([one[0] for one in passed(begin, epoch, "fork", seed=2)], [1, 1])

    def test_persistent_workers_begin_pass_after_pass(self):
        epoch = SharedEpoch()
        found = passed(begin_thrice, epoch, "fork")
        self.assertEqual(found, [[0, 1, 2]] * 2)
        self.assertEqual(epoch.get(), 3)

    def test_processes_that_are_no_workers_have_epochs_of_their_own(self):
        for context in CONTEXTS:
            epoch = SharedEpoch(5)
            processes = multiprocessing.get_context(context)
            results = processes.Queue()
            ranks = [
                processes.Process(target=pass_of_rank, args=(epoch, results)) for _ in range(2)
            ]
            for rank in ranks:
                rank.start()
            found = [results.get(timeout=SECONDS_MAX) for _ in ranks]
            self.assertEqual([[one[0] for one in rank] for rank in found], [[5, 5]] * 2)
            for rank in ranks:
                rank.join(SECONDS_MAX)
            self.assertEqual(epoch.get(), 5, "nobody here has begun a pass")

    def test_a_copy_has_an_epoch_of_its_own(self):
        epoch = SharedEpoch(5)
        passed(begin, epoch, "fork")
        copy = pickle.loads(pickle.dumps(epoch))
        self.assertEqual(copy.get(), 6)
        copy.set(1)
        self.assertEqual((epoch.get(), copy.get()), (6, 1))


def begin_thrice(epoch):
    return [epoch.begin_pass()[0] for _ in range(3)]


class Rows(LakeCase):
    """A dataset that a ``DataLoader`` takes for a map has one order until `set_epoch`."""

    def test_a_second_pass_over_one_order_warns(self):
        for context in [None, *CONTEXTS]:
            rows = self.lake.dataset("state_transitions").shuffle(seed=3)

            def begun(rows=rows, context=context):
                if context is None:
                    return order(rows)
                return passed(order, rows, context, workers=1)[0]

            first, second = begun(), begun()
            self.assertEqual(first[2], [], context)
            self.assertEqual(second[:2], first[:2])
            [said] = second[2]
            self.assertRegex(said, "order of epoch 0 again: call `set_epoch`.*`shuffle=True`")
            rows.set_epoch(1)
            third = begun()
            self.assertEqual((third[0], third[2]), (1, []))
            self.assertNotEqual(third[1], first[1])

    def test_a_second_pass_of_small_batches_warns_once(self):
        for context in CONTEXTS:
            for batch_size in [None, 1, 2, 3, 5]:
                for workers in [1, 2, 3]:
                    rows = self.lake.dataset("state_transitions").shuffle(seed=3)
                    task = functools.partial(read, batch_size=batch_size)
                    about = context, batch_size, workers
                    first, second = (
                        passed(task, rows, context, workers=workers) for _ in range(2)
                    )
                    self.assertEqual(first, [[]] * workers, about)
                    [said], *others = second
                    self.assertRegex(said, "order of epoch 0 again", about)
                    self.assertEqual(others, [[]] * (workers - 1), about)
                    rows.set_epoch(1)
                    third = passed(task, rows, context, workers=workers)
                    self.assertEqual(third, [[]] * workers, about)

    def test_a_persistent_worker_warns_in_its_second_pass(self):
        rows = self.lake.dataset("state_transitions").shuffle(seed=3)
        for first, second in passed(read_twice, rows, "fork", workers=1):
            self.assertEqual((first, len(second)), ([], 1))

    def test_without_workers_small_batches_warn(self):
        rows = self.lake.dataset("state_transitions").shuffle(seed=3)
        for batch_size in [1, 2]:
            rows.set_epoch(batch_size)
            places = range(0, len(rows) - 1, batch_size)
            batches = [list(range(place, place + batch_size)) for place in places]
            with warnings.catch_warnings(action="error"):
                for batch in batches:
                    rows.__getitems__(batch)
                with self.assertRaisesRegex(UserWarning, f"order of epoch {batch_size} again"):
                    for batch in batches:
                        rows.__getitems__(batch)

    def test_samplers_do_not_warn(self):
        for batch_size in [None, 1, 4]:
            rows = self.lake.dataset("state_transitions").shuffle(seed=3)
            task = functools.partial(read, batch_size=batch_size, sampled=True)
            for seed in range(4):
                found = passed(task, rows, "fork", seed=10 * seed)
                self.assertEqual(found, [[]] * 2, (batch_size, seed))

    def test_what_does_not_repeat_an_order_does_not_warn(self):
        plain, shuffled = (self.lake.dataset("steps") for _ in range(2))
        shuffled = shuffled.shuffle(seed=1)
        with warnings.catch_warnings(action="error"):
            for _ in range(2):
                plain.__getitems__([0, 1, 2])
                # A sampler has an order of its own.
                shuffled.__getitems__([2, 0, 1])
                shuffled[[0, 1, 2]]
                # Rows that one reads oneself are no pass of a ``DataLoader``.
                for place in range(len(shuffled)):
                    shuffled[place]


if __name__ == "__main__":
    unittest.main()
