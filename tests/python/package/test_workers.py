"""What a loader and the workers of a DataLoader share: which epoch comes next.

The processes here stand in for those of a ``DataLoader``: PyTorch tells each who it is, and gives
all workers of a pass one seed. `test_loaders.py` has the same with PyTorch itself.
"""

import multiprocessing
import os
import pickle
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

    def test_what_does_not_repeat_an_order_does_not_warn(self):
        plain, shuffled = (self.lake.dataset("steps") for _ in range(2))
        shuffled = shuffled.shuffle(seed=1)
        with warnings.catch_warnings(action="error"):
            for _ in range(2):
                plain.__getitems__([0, 1, 2])
                # A sampler has an order of its own.
                shuffled.__getitems__([2, 0, 1])
                shuffled[[0, 1, 2]]


if __name__ == "__main__":
    unittest.main()
