"""Loaders inside of PyTorch: DataLoader, StatefulDataLoader, Lightning and distributed processes.

`TORCH=yes scripts/test-python.sh` installs PyTorch and its companions for these tests.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import unittest
import warnings
from pathlib import Path

import steplake
from lakes import LakeCase

try:
    import torch
    import torch.distributed
    import torch.multiprocessing
    from torch.utils.data import DataLoader
    from torchdata.stateful_dataloader import StatefulDataLoader
except ImportError:
    torch = None

# Ends a test whose worker does not answer.
SECONDS_MAX = 60
CONTEXTS = ["fork", "spawn", "forkserver"]


def rows_of(batches):
    """All rows of batches, as tuples."""
    rows = []
    for batch in batches:
        columns = [batch[name].tolist() for name in sorted(batch)]
        rows += [tuple(map(str, row)) for row in zip(*columns, strict=True)]
    return rows


def read_as_rank(rank, world_size, folder, rows):
    """Write down the batches of one of several processes, of a dataset or a loader."""
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=world_size
    )
    loader = rows if hasattr(rows, "batch_size") else rows.loader(4)
    batches = [rows_of([batch]) for batch in loader]
    # An unequal number of batches would hang here.
    for _ in batches:
        torch.distributed.all_reduce(torch.ones(1))
    Path(folder, f"rank-{rank}.json").write_text(json.dumps(batches))
    torch.distributed.destroy_process_group()


# Prints each batch with the state after it, until it is killed.
READER = """
import json, pickle, sys
dataset = pickle.loads(open(sys.argv[1], "rb").read())
loader = dataset.loader(4, num_threads=2)
for batch in loader:
    row = {name: tensor.tolist() for name, tensor in batch.items()}
    print(json.dumps([row, loader.state_dict()]), flush=True)
"""


def record_graphs(path):
    """A lake with the graphs of a program."""
    env = steplake.make(
        "llvm-v0", benchmark="benchmark://steplake-v0/huffman", observation_space="Programl"
    )
    with steplake.record(path, env, observe=["Programl"]) as recorded:
        recorded.reset()
        for name in ["mem2reg", "simplifycfg", "gvn"]:
            recorded.step(env.action_space[name])
    env.close()
    lake = steplake.open(path, progress=False)
    lake.dedup()
    return lake


@unittest.skipIf(torch is None, "PyTorch and torchdata are not installed")
class Loaders(LakeCase):
    def setUp(self):
        rows = self.lake.dataset("state_transitions")
        self.rows = rows.shuffle(seed=3).with_format("torch")
        self.batches = [rows_of([batch]) for batch in self.rows.loader(4)]

    def test_graphs_are_a_batch_of_pytorch_geometric(self):
        from torch_geometric.data import Batch, Data

        lake = record_graphs(self.folder / "graphs")
        self.addCleanup(lake.close)
        rows = lake.dataset("state_transitions", ["Programl", "action"]).with_format("torch")
        [batch] = rows.shuffle(seed=1).loader(len(rows), num_threads=0)
        found = Data(**batch["Programl"])
        self.assertTrue(found.validate())
        # PyTorch Geometric makes the same batch of graphs, one by one.
        one_by_one = [row["Programl"] for row in rows.shuffle(seed=1)]
        for graph in one_by_one:
            del graph["batch"], graph["ptr"]
        wanted = Batch.from_data_list(
            [Data(num_nodes=len(g["node_type"]), **g) for g in one_by_one]
        )
        for name in batch["Programl"]:
            self.assertTrue(torch.equal(found[name], wanted[name]), name)
        if torch.cuda.is_available():
            [pinned] = rows.loader(len(rows), pin_memory=True)
            self.assertTrue(pinned["Programl"]["edge_index"].is_pinned())

    def test_tensors_are_matrices_that_can_be_written_to(self):
        batch = next(iter(self.rows.loader(4)))
        self.assertEqual((batch["Bits"].shape, batch["Bits"].dtype), ((4, 16), torch.int32))
        self.assertEqual(batch["reward_Cost"].dtype, torch.float32)
        before = self.rows[0]["Bits"].clone()
        batch["Bits"] += 1
        torch.testing.assert_close(self.rows[0]["Bits"], before)
        self.assertEqual(torch.from_dlpack(batch["Bits"]).data_ptr(), batch["Bits"].data_ptr())
        as_floats = self.rows.with_format("torch", dtype=torch.float32)
        self.assertEqual({tensor.dtype for tensor in as_floats[:].values()}, {torch.float32})

    def test_whole_batches_through_workers(self):
        for workers in [0, 1, 2, 3]:
            for context in CONTEXTS if workers else [None]:
                loader = DataLoader(
                    self.rows.loader(4),
                    batch_size=None,
                    num_workers=workers,
                    multiprocessing_context=context,
                    timeout=SECONDS_MAX if workers else 0,
                )
                self.assertEqual(len(loader), len(self.batches))
                found = [rows_of([batch]) for batch in loader]
                self.assertEqual(found, self.batches, (workers, context))

    def test_rows_through_workers(self):
        loader = DataLoader(self.rows, batch_size=4, num_workers=2, multiprocessing_context="fork")
        self.assertEqual([rows_of([batch]) for batch in loader], self.batches)

    def test_persistent_workers_shuffle_each_epoch(self):
        loader = DataLoader(
            self.rows.loader(4), batch_size=None, num_workers=2, persistent_workers=True
        )
        first, second = (rows_of(loader) for _ in range(2))
        self.assertEqual(first, sum(self.batches, []))
        self.assertEqual(sorted(first), sorted(second))
        self.assertNotEqual(first, second)

    def test_each_pass_of_workers_is_another_epoch(self):
        counted = self.rows.loader(4)
        here = [rows_of(counted) for _ in range(4)]
        self.assertEqual(len({str(rows) for rows in here}), 4)
        for context in CONTEXTS:
            loader = self.rows.loader(4)
            passes = DataLoader(
                loader,
                batch_size=None,
                num_workers=2,
                multiprocessing_context=context,
                timeout=SECONDS_MAX,
            )
            torch.manual_seed(1)
            found = [rows_of(passes), rows_of(passes)]
            # PyTorch then gives the workers the seeds of the first pass.
            torch.manual_seed(1)
            found.append(rows_of(passes))
            self.assertEqual(loader.epoch, 3)
            # This process goes on where its workers were.
            found.append(rows_of(loader))
            self.assertEqual(found, here, context)
            loader.set_epoch(1)
            self.assertEqual(rows_of(passes), here[1], context)

    def test_a_broken_pass_of_workers_is_an_epoch_too(self):
        loader = self.rows.loader(4)
        passes = DataLoader(loader, batch_size=None, num_workers=3)
        next(iter(passes))
        found = rows_of(passes)
        self.assertEqual(len(set(found)), len(self.rows))
        self.assertNotEqual(found, sum(self.batches, []))

    def test_workers_go_on_from_a_loaded_state_once(self):
        counted = self.rows.loader(4)
        here = [[rows_of([batch]) for batch in counted] for _ in range(3)]
        state = {**counted.state_dict(), "epoch": 1, "rows": 8}
        for context in CONTEXTS:
            loader = self.rows.loader(4)
            passes = DataLoader(
                loader, batch_size=None, num_workers=2, multiprocessing_context=context
            )
            for _ in range(2):
                loader.load_state_dict(state)
                self.assertEqual(rows_of(passes), sum(here[1][2:], []), context)
                self.assertEqual(rows_of(passes), sum(here[2], []), context)

    def test_a_stateful_loader_goes_on_with_the_next_epoch(self):
        counted = self.rows.loader(4)
        here = [rows_of(counted) for _ in range(3)]
        for workers in [0, 2]:
            loader = StatefulDataLoader(self.rows.loader(4), batch_size=None, num_workers=workers)
            self.assertEqual(rows_of(loader), here[0])
            iterator = iter(loader)
            begun = [next(iterator) for _ in range(2)]
            state = loader.state_dict()
            del iterator
            again = StatefulDataLoader(self.rows.loader(4), batch_size=None, num_workers=workers)
            again.load_state_dict(state)
            self.assertEqual(rows_of(begun) + rows_of(again), here[1], workers)
            self.assertEqual(rows_of(again), here[2], workers)

    def test_rows_that_come_in_one_order_again_warn(self):
        for workers, batch_size in [(0, 4), (2, 4), (0, 1), (2, 1), (2, None)]:
            rows = self.lake.dataset("state_transitions").shuffle(seed=3).with_format("torch")
            options = {"batch_size": batch_size, "num_workers": workers}
            loader = DataLoader(rows, **options)
            shuffled = DataLoader(rows, **options, shuffle=True)
            with self.subTest(**options), warnings.catch_warnings(action="error"):
                first = str(list(loader))
                for _ in range(2):
                    list(shuffled)
                with self.assertRaisesRegex(UserWarning, "order of epoch 0 again"):
                    list(loader)
                rows.set_epoch(1)
                self.assertNotEqual(str(list(loader)), first)

    def test_persistent_workers_see_the_epoch_that_is_set(self):
        rows = self.lake.dataset("state_transitions").shuffle(seed=3).with_format("torch")
        loader = DataLoader(rows, batch_size=4, num_workers=2, persistent_workers=True)
        found = []
        with warnings.catch_warnings(action="error"):
            for epoch in range(3):
                rows.set_epoch(epoch)
                found.append(str(rows_of(loader)))
        self.assertEqual(len(set(found)), 3)

    def test_persistent_workers_after_a_broken_pass(self):
        loader = DataLoader(
            self.rows.loader(4), batch_size=None, num_workers=2, persistent_workers=True
        )
        for _ in range(2):
            next(iter(loader))
            self.assertEqual(len(set(rows_of(loader))), len(self.rows))

    def test_streamed_rows_in_workers(self):
        def stream():
            return self.rows.loader(4, in_memory=False)

        whole = [rows_of([batch]) for batch in stream()]
        self.assertEqual(sorted(sum(whole, [])), sorted(sum(self.batches, [])))
        loader = DataLoader(stream(), batch_size=None, num_workers=2)
        self.assertEqual([rows_of([batch]) for batch in loader], whole)
        stateful = StatefulDataLoader(stream(), batch_size=None, num_workers=2)
        next(iter(stateful))
        # A loader that may choose takes over that rows are streamed.
        again = StatefulDataLoader(self.rows.loader(4), batch_size=None, num_workers=2)
        again.load_state_dict(stateful.state_dict())
        self.assertEqual([rows_of([batch]) for batch in again], whole[1:])

    def test_a_state_of_workers_is_for_the_same_sizes(self):
        loader = StatefulDataLoader(self.rows.loader(4), batch_size=None, num_workers=2)
        iterator = iter(loader)
        for _ in range(3):
            next(iterator)
        again = StatefulDataLoader(self.rows.loader(8), batch_size=None, num_workers=2)
        again.load_state_dict(loader.state_dict())
        with self.assertRaisesRegex(Exception, "same size of batches"):
            list(again)

    def test_a_stateful_loader_goes_on_exactly(self):
        for workers in [0, 2]:
            for taken in [0, 1, 3, len(self.batches) - 1]:
                loader = StatefulDataLoader(
                    self.rows.loader(4), batch_size=None, num_workers=workers
                )
                iterator = iter(loader)
                for _ in range(taken):
                    next(iterator)
                state = loader.state_dict()
                del iterator
                again = StatefulDataLoader(
                    self.rows.loader(4), batch_size=None, num_workers=workers
                )
                again.load_state_dict(state)
                found = [rows_of([batch]) for batch in again]
                self.assertEqual(found, self.batches[taken:], (workers, taken))

    def test_ranks_share_the_rows(self):
        # A seed that the parent drew is one seed for all.
        drawn = self.lake.dataset("state_transitions").shuffle().with_format("torch")
        for rows in [self.rows, self.rows.loader(4), drawn]:
            with tempfile.TemporaryDirectory() as folder:
                torch.multiprocessing.spawn(read_as_rank, (2, folder, rows), nprocs=2)
                files = [Path(folder, f"rank-{rank}.json") for rank in range(2)]
                ranks = [json.loads(file.read_text()) for file in files]
            self.assertEqual(len(ranks[0]), len(ranks[1]))
            found = sorted(tuple(row) for batches in ranks for batch in batches for row in batch)
            self.assertEqual(found, sorted(sum(self.batches, [])))

    def test_a_killed_epoch_goes_on_exactly(self):
        import pickle

        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "dataset").write_bytes(pickle.dumps(self.rows))
            line = [sys.executable, "-c", READER, f"{folder}/dataset"]
            with subprocess.Popen(line, stdout=subprocess.PIPE, text=True) as reader:
                for _ in range(3):
                    batch, state = json.loads(reader.stdout.readline())
                os.kill(reader.pid, signal.SIGKILL)
        loader = self.rows.loader(4, num_threads=1)
        loader.load_state_dict(state)
        self.assertEqual([rows_of([one]) for one in loader], self.batches[3:])

    def test_pinned_memory_is_for_tensors(self):
        with self.assertRaisesRegex(steplake.UsageError, "with_format"):
            self.rows.with_format("numpy").loader(4, pin_memory=True)
        loader = self.rows.loader(4, pin_memory=True)
        if torch.cuda.is_available():
            self.assertTrue(all(tensor.is_pinned() for tensor in next(iter(loader)).values()))

    def test_lightning_trains_from_a_loader(self):
        try:
            import lightning
        except ImportError:
            self.skipTest("Lightning is not installed")
        seen = []

        class Model(lightning.LightningModule):
            def __init__(self):
                super().__init__()
                self.layer = torch.nn.Linear(16, 1)

            def training_step(self, batch, _index):
                seen.extend(rows_of([batch]))
                costs = self.layer(batch["Bits"].float())[:, 0]
                return torch.nn.functional.mse_loss(costs, batch["reward_Cost"])

            def configure_optimizers(self):
                return torch.optim.SGD(self.parameters(), lr=0.01)

        trainer = lightning.Trainer(
            max_epochs=2,
            accelerator="cpu",
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        )
        trainer.fit(Model(), self.rows.loader(4))
        rows = sum(self.batches, [])
        self.assertEqual(seen[: len(rows)], rows)
        self.assertEqual(sorted(seen), sorted(rows * 2))


if __name__ == "__main__":
    unittest.main()
